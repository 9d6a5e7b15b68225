//! fio options for a job's start and end relative to other jobs, for the start of counting, and for CPUs.

use wakepath_units::Nanoseconds;

use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::values::parse_time;
use super::super::{CpusPolicy, ExitWhat, FioJob};
use super::row::Row;
use super::value::print_flag;

pub(super) const ROWS: &[Row] = &[
    Row::for_field(&["ramp_time"], |job, value| {
        job.ramp_time = Some(value.parse_time(1_000_000)?);
        Ok(())
    })
    .with_printer(|job| job.ramp_time.map(format_microseconds)),
    Row::for_field(&["startdelay"], |job, value| {
        let (least, most) = value.text.split_once('-').unwrap_or((value.text, ""));
        let from = parse_time(least, 1_000_000)?;
        let to = if most.is_empty() {
            from
        } else {
            parse_time(most, 1_000_000)?
        };
        if to < from {
            return Err(Problem::new("the range ends before it begins"));
        }
        job.startdelay = (from, to);
        Ok(())
    })
    .with_printer(|job| {
        let (from, to) = job.startdelay;
        Some(format!(
            "{}-{}",
            format_microseconds(from),
            format_microseconds(to)
        ))
    }),
    Row::for_field(&["exitall"], |job, value| {
        job.exitall = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    // fio 3.33 takes the option as on even with the value 0.
    .with_printer(|job| job.exitall.then(|| print_flag(true))),
    Row::for_field(&["exit_what"], |job, value| {
        job.exit_what = match value.text {
            "group" => ExitWhat::Group,
            "stonewall" => ExitWhat::Stonewall,
            "all" => ExitWhat::All,
            other => {
                let names = ["group", "stonewall", "all"];
                let message = format!(
                    "`{}`: expected group, stonewall or all",
                    escape_and_shorten(other)
                );
                return Err(Problem::new(message).suggest_nearest(other, names));
            }
        };
        Ok(())
    })
    .with_judge(|draft, _| {
        if draft.job.exitall {
            Verdict::Fine
        } else {
            Verdict::Ignored("has no effect without exitall".to_owned())
        }
    })
    .with_printer(|job| {
        let name = match job.exit_what {
            ExitWhat::Group => "group",
            ExitWhat::Stonewall => "stonewall",
            ExitWhat::All => "all",
        };
        job.exitall.then(|| name.to_owned())
    }),
    Row::for_field(&["wait_for"], |job, value| {
        job.wait_for = Some(value.free_text()?);
        Ok(())
    })
    .with_free_text()
    .with_printer(|job| job.wait_for.clone()),
    Row::for_field(&["cpus_allowed"], |job, value| {
        job.cpus_allowed = Some(parse_cpu_list(value.text)?);
        Ok(())
    })
    .with_judge(|draft, _| judge_cpus(&draft.job))
    .with_printer(|job| {
        let cpus = job.cpus_allowed.as_ref()?;
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        Some(list.join(","))
    }),
    Row::for_field(&["cpumask"], |job, value| {
        let mask = u64::from(value.parse_count(1, u32::MAX)?);
        job.cpus_allowed = Some((0..32).filter(|cpu| mask >> cpu & 1 == 1).collect());
        Ok(())
    })
    .with_judge(|draft, _| judge_cpus(&draft.job)),
    Row::for_field(&["nice"], |job, value| {
        let nice: Option<i8> = value.text.parse().ok();
        job.nice = nice.filter(|n| (-20..=19).contains(n)).ok_or_else(|| {
            let message = format!("`{}`: expected -20 to 19", escape_and_shorten(value.text));
            Problem::new(message)
        })?;
        Ok(())
    })
    .with_printer(|job| (job.nice != 0).then(|| job.nice.to_string())),
    Row::for_field(&["cpus_allowed_policy"], |job, value| {
        job.cpus_policy = match value.text {
            "shared" => CpusPolicy::Shared,
            "split" => CpusPolicy::Split,
            other => {
                let message = format!("`{}`: expected shared or split", escape_and_shorten(other));
                return Err(Problem::new(message));
            }
        };
        Ok(())
    })
    .with_printer(|job| (job.cpus_policy == CpusPolicy::Split).then(|| "split".to_owned())),
];

fn judge_cpus(job: &FioJob) -> Verdict {
    match job.cpus_allowed.iter().flatten().max() {
        Some(last) if *last > 0 => Verdict::Ignored(
            "leaves out CPUs that the machine does not have; where none is left, all are allowed"
                .to_owned(),
        ),
        _ => Verdict::Fine,
    }
}

/// Largest number of CPUs that Linux can be built for.
const MAX_CPUS: u32 = 8192;

/// Parses a list of CPUs as fio writes it: numbers and ranges, separated by commas or colons.
fn parse_cpu_list(text: &str) -> Result<Vec<u32>, Problem> {
    let mut cpus = Vec::new();
    for part in text.split([',', ':']) {
        let (least, most) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_cpu_number(least)?, parse_cpu_number(most)?);
        if last < first {
            let message = format!("`{}` ends before it begins", escape_and_shorten(part));
            return Err(Problem::new(message));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn parse_cpu_number(text: &str) -> Result<u32, Problem> {
    let cpu: Option<u32> = text.trim().parse().ok();
    cpu.filter(|cpu| *cpu < MAX_CPUS).ok_or_else(|| {
        Problem::new(format!(
            "`{}` is not a CPU; expected numbers and ranges such as 0-3,5",
            escape_and_shorten(text)
        ))
    })
}

fn format_microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}
