//! fio options for a job's start and end relative to other jobs, for the start of counting, and for CPUs.

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::parse_time_with_default_unit;
use super::super::{CpusPolicy, ExitWhat, FioJob};
use super::row::{FioTimeUnit, OptionRow};
use super::value::{list_names, print_flag_as_digit, print_microseconds};

const EXIT_WHAT: [(&str, ExitWhat); 3] = [
    ("group", ExitWhat::Group),
    ("stonewall", ExitWhat::Stonewall),
    ("all", ExitWhat::All),
];
const CPUS_POLICIES: [(&str, CpusPolicy); 2] =
    [("shared", CpusPolicy::Shared), ("split", CpusPolicy::Split)];
const CPUS: &str = "without CPUs that the machine lacks; where none is left, all";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_time(&["ramp_time"], FioTimeUnit::Second, |job, time| {
        job.ramp_time = Some(time);
    })
    .with_printer(|job| job.ramp_time.map(print_microseconds))
    .with_default("of time-based jobs a [warm-up](../background/model.md#warm-up), else 0")
    .with_note("nothing counts before its end; `runtime` begins after it, `size` does not"),
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
    })
    .with_values("time or range, seconds without a unit")
    .with_note("of each process, drawn from the range"),
    OptionRow::for_flag(&["exitall"], |job, on| job.exitall = on)
        // fio 3.33 takes the option as on even with the value 0.
        .with_printer_unless_default(|job| print_flag_as_digit(job.exitall))
        .with_note("of all jobs: a process that ends also ends what its `exit_what` says"),
    OptionRow::for_choice(
        &["exit_what"],
        || list_names(&EXIT_WHAT),
        |job, value| {
            job.exit_what = value.parse_name(&EXIT_WHAT)?;
            Ok(())
        },
    )
    .with_judge(|draft, _| {
        if draft.job.exitall {
            OptionVerdict::Fine
        } else {
            OptionVerdict::Ignored("has no effect unless a job has exitall".to_owned())
        }
    })
    .with_printer(|job| {
        let is_said = job.exitall || job.exit_what != ExitWhat::default();
        let name = match job.exit_what {
            ExitWhat::Group => "group",
            ExitWhat::Stonewall => "stonewall",
            ExitWhat::All => "all",
        };
        is_said.then(|| name.to_owned())
    })
    .with_note("`all`: later groups do not start")
    .with_default("`group`"),
    OptionRow::for_text(&["wait_for"], |job, text| job.wait_for = Some(text))
        .with_printer(|job| job.wait_for.clone())
        .with_values("name of a job above")
        .with_note("starts when that job's processes have ended"),
    OptionRow::for_job_field(&["cpus_allowed"], |job, value| {
        job.cpus_allowed = Some(parse_cpu_list(value.text)?);
        Ok(())
    })
    .with_judge(|draft, _| warn_that_cpus_may_be_missing(&draft.job))
    .with_printer(|job| {
        let cpus = job.cpus_allowed.as_ref()?;
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        Some(list.join(","))
    })
    .with_values("list such as `0-3,5`")
    .with_default("all")
    .with_note(CPUS),
    OptionRow::for_job_field(&["cpumask"], |job, value| {
        let mask = u64::from(value.parse_count(1, u32::MAX)?);
        job.cpus_allowed = Some((0..32).filter(|cpu| mask >> cpu & 1 == 1).collect());
        Ok(())
    })
    .with_judge(|draft, _| warn_that_cpus_may_be_missing(&draft.job))
    .with_values("bit mask")
    .with_default("all")
    .with_note(CPUS),
    OptionRow::for_job_field(&["nice"], |job, value| {
        let nice: Option<i8> = value.text.parse().ok();
        job.nice = nice.filter(|n| (-20..=19).contains(n)).ok_or_else(|| {
            let message = format!("`{}`: expected -20 to 19", escape_and_shorten(value.text));
            LineProblem::new(message)
        })?;
        Ok(())
    })
    .with_printer_unless_default(|job| job.nice.to_string())
    .with_values("-20 to 19"),
    OptionRow::for_choice(
        &["cpus_allowed_policy"],
        || list_names(&CPUS_POLICIES),
        |job, value| {
            job.cpus_policy = value.parse_name(&CPUS_POLICIES)?;
            Ok(())
        },
    )
    .with_printer_unless_default(|job| {
        match job.cpus_policy {
            CpusPolicy::Shared => "shared",
            CpusPolicy::Split => "split",
        }
        .to_owned()
    })
    .with_note("`split`: a CPU for each process, in turn"),
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
