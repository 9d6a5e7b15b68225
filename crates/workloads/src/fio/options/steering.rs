//! fio options for a load that follows what is measured, and for threads that submit I/Os.

use wakepath_units::Nanoseconds;

use super::super::SteadyFigure;
use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::draft::JobDraft;
use super::row::{FioTimeUnit, OptionRow};
use super::value::{not_one_of_problem, print_flag_as_digit, print_microseconds};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_time(&["latency_target"], FioTimeUnit::Microsecond, |job, time| {
        job.latency_target.target = time;
    })
    .with_judge(judge_latency_target)
    .with_printer_unless_default(|job| print_microseconds(job.latency_target.target))
    .with_note("latency that I/Os have to keep to; see [below](#the-queue-depth-for-a-latency_target-steady-states-flows)"),
    OptionRow::for_time(&["latency_window"], FioTimeUnit::Microsecond, |job, time| {
        job.latency_target.window = time;
    })
    .with_judge(ignore_without_latency_target)
    .with_printer_unless_default(|job| print_microseconds(job.latency_target.window))
    .with_note("time that a depth is tried for"),
    OptionRow::for_job_field(&["latency_percentile"], |job, value| {
        let millionths = parse_millionths(value.text)?;
        if millionths > 100_000_000 {
            return Err(LineProblem::new("expected at most 100"));
        }
        job.latency_target.millionths_of_percent = millionths;
        Ok(())
    })
    .with_judge(ignore_without_latency_target)
    .with_printer_unless_default(|job| print_millionths(job.latency_target.millionths_of_percent))
    .with_values("0 to 100")
    .with_note("share of I/Os that keep to the target, in %"),
    OptionRow::for_switch(&["latency_run"], |job, on| job.latency_target.goes_on = on)
        .with_judge(ignore_without_latency_target)
        .with_printer_unless_default(|job| print_flag_as_digit(job.latency_target.goes_on))
        .with_note("goes on after a depth was found"),
    OptionRow::for_job_field(&["steadystate", "ss"], |job, value| {
        let (name, limit) = value
            .text
            .split_once(':')
            .ok_or_else(|| LineProblem::new("a limit is missing; write for example iops:5%"))?;
        let names = SteadyFigure::NAMES.map(|(name, _)| name);
        let found = SteadyFigure::NAMES.iter().find(|(known, _)| *known == name);
        let (_, figure) = found.ok_or_else(|| not_one_of_problem(name, &names))?;
        let steady = &mut job.steady_state;
        steady.figure = *figure;
        steady.in_percent = limit.ends_with('%');
        steady.limit_millionths = parse_millionths(limit.trim_end_matches('%'))?;
        Ok(())
    })
    .with_judge(|draft, _| {
        if draft.job.steady_state.seconds == 0 {
            OptionVerdict::Ignored("has no effect without steadystate_duration".to_owned())
        } else {
            OptionVerdict::Fine
        }
    })
    .with_printer(|job| {
        let steady = &job.steady_state;
        let percent = if steady.in_percent { "%" } else { "" };
        let limit = print_millionths(steady.limit_millionths);
        (steady.seconds > 0).then(|| format!("{}:{limit}{percent}", steady.figure.name()))
    })
    .with_values("`iops:N` `iops_slope:N` `bw:N` `bw_slope:N`, each also with `%`")
    .with_default("`iops_slope:0.01%`")
    .with_note("the job ends when this figure holds still; see [below](#the-queue-depth-for-a-latency_target-steady-states-flows)"),
    OptionRow::for_job_field(&["steadystate_duration", "ss_dur"], |job, value| {
        let duration = value.parse_time_with_default_unit(1_000_000)?;
        job.steady_state.seconds = u32::try_from(duration.0 / 1_000_000_000)
            .map_err(|_| LineProblem::new("expected at most 4294967295 seconds"))?;
        Ok(())
    })
    .with_printer_unless_default(|job| {
        let seconds = u64::from(job.steady_state.seconds);
        print_microseconds(Nanoseconds::from_secs(seconds))
    })
    .with_values("time, seconds without a unit")
    .with_note("time that it holds still for"),
    OptionRow::for_time(
        &["steadystate_ramp_time", "ss_ramp"],
        FioTimeUnit::Second,
        |job, time| job.steady_state.ramp = time,
    )
    .with_printer_unless_default(|job| print_microseconds(job.steady_state.ramp))
    .with_note("time before it counts"),
    OptionRow::for_count(&["flow"], 0, 1000, |job, count| job.flow.weight = count)
        .with_judge(|draft, _| refuse_with_second_pass(draft, draft.job.flow.weight > 0))
        .with_printer_unless_default(|job| job.flow.weight.to_string())
        .with_note("weight of the job; see [below](#the-queue-depth-for-a-latency_target-steady-states-flows)"),
    OptionRow::for_count(&["flow_id"], 0, u32::MAX, |job, count| job.flow.id = count)
        .with_judge(ignore_without_flow)
        .with_printer_unless_default(|job| job.flow.id.to_string())
        .with_values("number")
        .with_note("jobs of a number keep the ratio of their weights"),
    OptionRow::for_count(&["flow_sleep"], 0, u32::MAX, |job, microseconds| {
        // fio reads a number of microseconds without a unit.
        job.flow.sleep = Nanoseconds::from_micros(u64::from(microseconds));
    })
    .with_judge(ignore_without_flow)
    .with_printer_unless_default(|job| job.flow.sleep.as_micros().to_string())
    .with_values("microseconds")
    .with_note("pause of a job that is ahead; 0: it spins"),
];

/// Parses a decimal number such as `99.9` into millionths.
fn parse_millionths(text: &str) -> Result<u64, LineProblem> {
    let number: Option<f64> = text.trim().parse().ok();
    let number = number.filter(|number| (0.0..=1e12).contains(number));
    let number = number.ok_or_else(|| {
        LineProblem::new(format!("`{}`: expected a number", escape_and_shorten(text)))
    })?;
    Ok((number * 1e6).round() as u64)
}

/// Prints millionths as a decimal number that [`parse_millionths`] reads as the same.
fn print_millionths(millionths: u64) -> String {
    let text = format!("{}.{:06}", millionths / 1_000_000, millionths % 1_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn judge_latency_target(draft: &JobDraft, _: &str) -> OptionVerdict {
    let job = &draft.job;
    if job.latency_target.target == Nanoseconds::ZERO {
        return OptionVerdict::Fine;
    }
    if job.batching_unless_one_by_one().is_some() {
        return OptionVerdict::Unmodelled(
            "a depth that follows the latency is not modelled together with batches".to_owned(),
        );
    }
    match refuse_with_second_pass(draft, true) {
        OptionVerdict::Fine => OptionVerdict::Ignored(
            "finds a depth, and the figures are those of the whole search; fio's are those of the depth found".to_owned(),
        ),
        other => other,
    }
}

/// Judges an option that is not modelled together with a second pass of `verify`.
fn refuse_with_second_pass(draft: &JobDraft, is_used: bool) -> OptionVerdict {
    if is_used && draft.job.reads_back() {
        OptionVerdict::Unmodelled(
            "is not modelled for a job that reads back what it wrote; set do_verify=0".to_owned(),
        )
    } else {
        OptionVerdict::Fine
    }
}

fn ignore_without_latency_target(draft: &JobDraft, _: &str) -> OptionVerdict {
    ignore_unless(
        draft.job.latency_target.target > Nanoseconds::ZERO,
        "latency_target",
    )
}

fn ignore_without_flow(draft: &JobDraft, _: &str) -> OptionVerdict {
    ignore_unless(draft.job.flow.weight > 0, "flow")
}

fn ignore_unless(is_given: bool, option: &str) -> OptionVerdict {
    if is_given {
        OptionVerdict::Fine
    } else {
        OptionVerdict::Ignored(format!("has no effect without {option}"))
    }
}
