//! fio options for a load that follows what is measured, and for threads that submit I/Os.

use wakepath_units::Nanoseconds;

use super::super::SteadyFigure;
use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{not_one_of_problem, print_flag_as_digit, print_microseconds};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["latency_target"], |job, value| {
        job.latency_target.target = value.parse_time_with_default_unit(1)?;
        Ok(())
    })
    .with_judge(judge_latency_target)
    .with_printer(|job| print_time_unless_zero(job.latency_target.target)),
    OptionRow::for_job_field(&["latency_window"], |job, value| {
        job.latency_target.window = value.parse_time_with_default_unit(1)?;
        Ok(())
    })
    .with_judge(ignore_without_latency_target)
    .with_printer(|job| print_time_unless_zero(job.latency_target.window)),
    OptionRow::for_job_field(&["latency_percentile"], |job, value| {
        let millionths = parse_millionths(value.text)?;
        if millionths > 100_000_000 {
            return Err(LineProblem::new("expected at most 100"));
        }
        job.latency_target.millionths_of_percent = millionths;
        Ok(())
    })
    .with_judge(ignore_without_latency_target)
    .with_printer(|job| {
        let millionths = job.latency_target.millionths_of_percent;
        (millionths != 100_000_000).then(|| print_millionths(millionths))
    }),
    OptionRow::for_job_field(&["latency_run"], |job, value| {
        job.latency_target.goes_on = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_judge(ignore_without_latency_target)
    .with_printer(|job| {
        job.latency_target
            .goes_on
            .then(|| print_flag_as_digit(true))
    }),
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
    }),
    OptionRow::for_job_field(&["steadystate_duration", "ss_dur"], |job, value| {
        let duration = value.parse_time_with_default_unit(1_000_000)?;
        job.steady_state.seconds = u32::try_from(duration.0 / 1_000_000_000)
            .map_err(|_| LineProblem::new("expected at most 4294967295 seconds"))?;
        Ok(())
    })
    .with_printer(|job| {
        let seconds = u64::from(job.steady_state.seconds);
        print_time_unless_zero(Nanoseconds::from_secs(seconds))
    }),
    OptionRow::for_job_field(&["steadystate_ramp_time", "ss_ramp"], |job, value| {
        job.steady_state.ramp = value.parse_time_with_default_unit(1_000_000)?;
        Ok(())
    })
    .with_printer(|job| print_time_unless_zero(job.steady_state.ramp)),
    OptionRow::for_job_field(&["flow"], |job, value| {
        job.flow.weight = value.parse_count(0, 1000)?;
        Ok(())
    })
    .with_judge(|draft, _| refuse_with_second_pass(draft, draft.job.flow.weight > 0))
    .with_printer(|job| (job.flow.weight > 0).then(|| job.flow.weight.to_string())),
    OptionRow::for_job_field(&["flow_id"], |job, value| {
        job.flow.id = value.parse_count(0, u32::MAX)?;
        Ok(())
    })
    .with_judge(ignore_without_flow)
    .with_printer(|job| (job.flow.id > 0).then(|| job.flow.id.to_string())),
    OptionRow::for_job_field(&["flow_sleep"], |job, value| {
        // fio reads a number of microseconds without a unit.
        job.flow.sleep = Nanoseconds::from_micros(u64::from(value.parse_count(0, u32::MAX)?));
        Ok(())
    })
    .with_judge(ignore_without_flow)
    .with_printer(|job| {
        let sleep = job.flow.sleep.as_micros();
        (sleep > 0).then(|| sleep.to_string())
    }),
];

fn print_time_unless_zero(time: Nanoseconds) -> Option<String> {
    (time > Nanoseconds::ZERO).then(|| print_microseconds(time))
}

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
