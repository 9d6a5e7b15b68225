//! fio options for a job's start and end relative to other jobs, for the start of counting, and for CPUs.

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::parse_time_with_default_unit;
use super::super::{CpusPolicy, ExitWhat, FioJob};
use super::row::OptionRow;
use super::value::{print_flag_as_digit, print_microseconds};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["ramp_time"], |job, value| {
        job.ramp_time = Some(value.parse_time_with_default_unit(1_000_000)?);
        Ok(())
    })
    .with_printer(|job| job.ramp_time.map(print_microseconds)),
    OptionRow::for_job_field(&["startdelay"], |job, value| {
        let (least, most) = value.text.split_once('-').unwrap_or((value.text, ""));
        let from = parse_time_with_default_unit(least, 1_000_000)?;
        let to = if most.is_empty() {
            from
        } else {
            parse_time_with_default_unit(most, 1_000_000)?
        };
        if to < from {
            return Err(LineProblem::new("the range ends before it begins"));
        }
        job.startdelay = (from, to);
        Ok(())
    })
    .with_printer(|job| {
        let (from, to) = job.startdelay;
        Some(format!(
            "{}-{}",
            print_microseconds(from),
            print_microseconds(to)
        ))
    }),
    OptionRow::for_job_field(&["exitall"], |job, value| {
        job.exitall = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    // fio 3.33 takes the option as on even with the value 0.
    .with_printer(|job| job.exitall.then(|| print_flag_as_digit(true))),
    OptionRow::for_job_field(&["exit_what"], |job, value| {
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
                return Err(LineProblem::new(message).with_nearest_name_as_suggestion(other, names));
            }
        };
        Ok(())
    })
    .with_judge(|draft, _| {
        if draft.job.exitall {
            OptionVerdict::Fine
        } else {
            OptionVerdict::Ignored("has no effect without exitall".to_owned())
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
    OptionRow::for_job_field(&["wait_for"], |job, value| {
        job.wait_for = Some(value.nonempty_text()?);
        Ok(())
    })
    .with_free_text_value()
    .with_printer(|job| job.wait_for.clone()),
    OptionRow::for_job_field(&["cpus_allowed"], |job, value| {
        job.cpus_allowed = Some(parse_cpu_list(value.text)?);
        Ok(())
    })
    .with_judge(|draft, _| warn_that_cpus_may_be_missing(&draft.job))
    .with_printer(|job| {
        let cpus = job.cpus_allowed.as_ref()?;
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        Some(list.join(","))
    }),
    OptionRow::for_job_field(&["cpumask"], |job, value| {
        let mask = u64::from(value.parse_count(1, u32::MAX)?);
        job.cpus_allowed = Some((0..32).filter(|cpu| mask >> cpu & 1 == 1).collect());
        Ok(())
    })
    .with_judge(|draft, _| warn_that_cpus_may_be_missing(&draft.job)),
    OptionRow::for_job_field(&["nice"], |job, value| {
        let nice: Option<i8> = value.text.parse().ok();
        job.nice = nice.filter(|n| (-20..=19).contains(n)).ok_or_else(|| {
            let message = format!("`{}`: expected -20 to 19", escape_and_shorten(value.text));
            LineProblem::new(message)
        })?;
        Ok(())
    })
    .with_printer(|job| (job.nice != 0).then(|| job.nice.to_string())),
    OptionRow::for_job_field(&["cpus_allowed_policy"], |job, value| {
        job.cpus_policy = match value.text {
            "shared" => CpusPolicy::Shared,
            "split" => CpusPolicy::Split,
            other => {
                let message = format!("`{}`: expected shared or split", escape_and_shorten(other));
                return Err(LineProblem::new(message));
            }
        };
        Ok(())
    })
    .with_printer(|job| (job.cpus_policy == CpusPolicy::Split).then(|| "split".to_owned())),
];

fn warn_that_cpus_may_be_missing(job: &FioJob) -> OptionVerdict {
    match job.cpus_allowed.iter().flatten().max() {
        Some(last) if *last > 0 => OptionVerdict::Ignored(
            "leaves out CPUs that the machine does not have; where none is left, all are allowed"
                .to_owned(),
        ),
        _ => OptionVerdict::Fine,
    }
}

/// Largest number of CPUs that Linux can be built for.
const MAX_CPUS: u32 = 8192;

/// Parses a list of CPUs as fio writes it: numbers and ranges, separated by commas or colons.
fn parse_cpu_list(text: &str) -> Result<Vec<u32>, LineProblem> {
    let mut cpus = Vec::new();
    for part in text.split([',', ':']) {
        let (least, most) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (parse_cpu_number(least)?, parse_cpu_number(most)?);
        if last < first {
            let message = format!("`{}` ends before it begins", escape_and_shorten(part));
            return Err(LineProblem::new(message));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn parse_cpu_number(text: &str) -> Result<u32, LineProblem> {
    let cpu: Option<u32> = text.trim().parse().ok();
    cpu.filter(|cpu| *cpu < MAX_CPUS).ok_or_else(|| {
        LineProblem::new(format!(
            "`{}` is not a CPU; expected numbers and ranges such as 0-3,5",
            escape_and_shorten(text)
        ))
    })
}
