//! Start and end of a job relative to others, start of counting, and CPUs.

use wakepath_units::Nanoseconds;

use super::super::error::{Problem, Verdict, shown};
use super::super::values::time;
use super::super::{CpusPolicy, ExitWhat, FioJob};
use super::row::Row;
use super::value::flag;

pub(super) const ROWS: &[Row] = &[
    Row::sets(&["ramp_time"], |job, value| {
        job.ramp_time = Some(value.time(1_000_000)?);
        Ok(())
    })
    .printed(|job| job.ramp_time.map(microseconds)),
    Row::sets(&["startdelay"], |job, value| {
        let (least, most) = value.text.split_once('-').unwrap_or((value.text, ""));
        let from = time(least, 1_000_000)?;
        let to = if most.is_empty() {
            from
        } else {
            time(most, 1_000_000)?
        };
        if to < from {
            return Err(Problem::new("the range ends before it begins"));
        }
        job.startdelay = (from, to);
        Ok(())
    })
    .printed(|job| {
        let (from, to) = job.startdelay;
        Some(format!("{}-{}", microseconds(from), microseconds(to)))
    }),
    Row::sets(&["exitall"], |job, value| {
        job.exitall = value.switch()?;
        Ok(())
    })
    .flag()
    // fio 3.33 takes the option's mere presence as on.
    .printed(|job| job.exitall.then(|| flag(true))),
    Row::sets(&["exit_what"], |job, value| {
        job.exit_what = match value.text {
            "group" => ExitWhat::Group,
            "stonewall" => ExitWhat::Stonewall,
            "all" => ExitWhat::All,
            other => {
                let names = ["group", "stonewall", "all"];
                let message = format!("`{}`: expected group, stonewall or all", shown(other));
                return Err(Problem::new(message).nearest(other, names));
            }
        };
        Ok(())
    })
    .judged(|draft, _| {
        if draft.job.exitall {
            Verdict::Fine
        } else {
            Verdict::Ignored("has no effect without exitall".to_owned())
        }
    })
    .printed(|job| {
        let name = match job.exit_what {
            ExitWhat::Group => "group",
            ExitWhat::Stonewall => "stonewall",
            ExitWhat::All => "all",
        };
        job.exitall.then(|| name.to_owned())
    }),
    Row::sets(&["wait_for"], |job, value| {
        job.wait_for = Some(value.free_text()?);
        Ok(())
    })
    .text()
    .printed(|job| job.wait_for.clone()),
    Row::sets(&["cpus_allowed"], |job, value| {
        job.cpus_allowed = Some(cpu_list(value.text)?);
        Ok(())
    })
    .judged(|draft, _| judge_cpus(&draft.job))
    .printed(|job| {
        let cpus = job.cpus_allowed.as_ref()?;
        let list: Vec<String> = cpus.iter().map(u32::to_string).collect();
        Some(list.join(","))
    }),
    Row::sets(&["cpumask"], |job, value| {
        let mask = u64::from(value.count(1, u32::MAX)?);
        job.cpus_allowed = Some((0..32).filter(|cpu| mask >> cpu & 1 == 1).collect());
        Ok(())
    })
    .judged(|draft, _| judge_cpus(&draft.job)),
    Row::sets(&["nice"], |job, value| {
        let nice: Option<i8> = value.text.parse().ok();
        job.nice = nice.filter(|n| (-20..=19).contains(n)).ok_or_else(|| {
            let message = format!("`{}`: expected -20 to 19", shown(value.text));
            Problem::new(message)
        })?;
        Ok(())
    })
    .printed(|job| (job.nice != 0).then(|| job.nice.to_string())),
    Row::sets(&["cpus_allowed_policy"], |job, value| {
        job.cpus_policy = match value.text {
            "shared" => CpusPolicy::Shared,
            "split" => CpusPolicy::Split,
            other => {
                let message = format!("`{}`: expected shared or split", shown(other));
                return Err(Problem::new(message));
            }
        };
        Ok(())
    })
    .printed(|job| (job.cpus_policy == CpusPolicy::Split).then(|| "split".to_owned())),
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

/// Most CPUs that Linux can be built for.
const MAX_CPUS: u32 = 8192;

/// CPUs as fio lists them: numbers and ranges, separated by commas or colons.
fn cpu_list(text: &str) -> Result<Vec<u32>, Problem> {
    let mut cpus = Vec::new();
    for part in text.split([',', ':']) {
        let (least, most) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (cpu_number(least)?, cpu_number(most)?);
        if last < first {
            let message = format!("`{}` ends before it begins", shown(part));
            return Err(Problem::new(message));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

fn cpu_number(text: &str) -> Result<u32, Problem> {
    let cpu: Option<u32> = text.trim().parse().ok();
    cpu.filter(|cpu| *cpu < MAX_CPUS).ok_or_else(|| {
        Problem::new(format!(
            "`{}` is not a CPU; expected numbers and ranges such as 0-3,5",
            shown(text)
        ))
    })
}

fn microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}
