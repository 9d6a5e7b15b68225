//! The fio options for direction, timing and engine of I/Os.

use wakepath_units::Nanoseconds;

use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::values::KbBase;
use super::super::values::{parse_bytes, parse_count};
use super::super::{FioJob, IoEngine, MAX_IODEPTH, MAX_JOBS, ReadWrite};
use super::pattern::judge_queue_option;
use super::row::Row;
use super::value::{print_flag, print_per_direction};

pub(super) const ROWS: &[Row] = &[
    Row::for_field(&["name"], |job, value| {
        job.name = value.free_text()?;
        Ok(())
    })
    .with_free_text(),
    Row::for_field(&["description"], |job, value| {
        job.description = Some(value.free_text()?);
        Ok(())
    })
    .with_free_text()
    .with_printer(|job| job.description.clone()),
    Row::for_field(&["filename"], |job, value| {
        job.filename = Some(value.free_text()?);
        if value.text.starts_with(['"', '\'']) {
            value.add_remark("keeps its quotes: they are part of the name");
        }
        Ok(())
    })
    .with_free_text()
    .with_judge(|draft, _| {
        let job = &draft.job;
        let repeats = job.time_based && job.runtime.is_some();
        if job.takes_size_from_existing_files() && !repeats {
            Verdict::Ignored(
                "has a size that is not known here; the model takes the drive's".to_owned(),
            )
        } else {
            Verdict::Fine
        }
    })
    .with_printer(|job| job.filename.clone()),
    Row::for_field(&["rw", "readwrite"], |job, value| {
        let (name, number) = match value.text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (value.text, None),
        };
        job.rw = parse_pattern(name)?;
        job.step = match number {
            Some(number) => parse_pattern_number(number, job.rw.is_random(), value.kb_base)?,
            None => 0,
        };
        Ok(())
    })
    .with_printer(|job| {
        Some(match job.step {
            0 => job.rw.to_string(),
            step => format!("{}:{step}", job.rw),
        })
    }),
    Row::for_field(&["rwmixread"], |job, value| {
        job.rwmixread = value.parse_percent()?;
        Ok(())
    })
    .with_printer(|job| Some(job.rwmixread.to_string())),
    Row::for_field(&["rwmixwrite"], |job, value| {
        job.rwmixread = 100 - value.parse_percent()?;
        Ok(())
    }),
    Row::for_field(&["bs", "blocksize"], |job, value| {
        let sizes = value.parse_bytes_per_direction(1)?;
        // An empty part leaves the direction as it was, by default or by a [global] section.
        for (size, given) in job
            .block_size
            .as_mut_array()
            .into_iter()
            .zip(sizes.as_array())
        {
            *size = given.unwrap_or(*size);
        }
        Ok(())
    })
    .with_judge(|draft, _| judge_block_against_sector(&draft.job))
    .with_printer(|job| print_per_direction(&job.block_size.map(Some))),
    Row::for_field(&["iodepth"], |job, value| {
        job.iodepth = value.parse_count(1, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(|draft, value| {
        if draft.job.iodepth > 1 {
            judge_queue_option(draft, value)
        } else {
            Verdict::Fine
        }
    })
    .with_printer(|job| Some(job.iodepth.to_string())),
    Row::for_field(&["numjobs"], |job, value| {
        job.numjobs = value.parse_count(1, MAX_JOBS)?;
        Ok(())
    })
    .with_printer(|job| Some(job.numjobs.to_string())),
    Row::for_field(&["ioengine"], |job, value| {
        job.ioengine = parse_engine(value.text)?;
        Ok(())
    })
    .with_judge(|draft, _| match draft.job.ioengine.substitute_in_words() {
        Some(why) => Verdict::Ignored(why.to_owned()),
        None => Verdict::Fine,
    })
    .with_printer(|job| Some(job.ioengine.to_string())),
    Row::for_field(&["direct"], |job, value| {
        job.direct = value.parse_switch()?;
        Ok(())
    })
    .with_printer(|job| Some(print_flag(job.direct))),
    Row::for_field(&["buffered"], |job, value| {
        job.direct = !value.parse_switch()?;
        Ok(())
    }),
    Row::for_field(&["runtime", "timeout"], |job, value| {
        let limit = value.parse_time(1_000_000)?;
        // fio takes 0 as "no limit".
        job.runtime = (limit > Nanoseconds::ZERO).then_some(limit);
        Ok(())
    })
    .with_printer(|job| job.runtime.map(format_microseconds)),
    Row::for_field(&["time_based"], |job, value| {
        job.time_based = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.time_based && job.runtime.is_none() {
            Verdict::Ignored("has no effect without runtime: the job ends by its size".to_owned())
        } else {
            Verdict::Fine
        }
    })
    .with_printer(|job| Some(print_flag(job.time_based))),
    Row::for_field(&["norandommap"], |job, value| {
        job.norandommap = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| Some(print_flag(job.norandommap))),
    Row::for_field(&["group_reporting"], |job, value| {
        job.group_reporting = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| Some(print_flag(job.group_reporting))),
    Row::for_field(&["stonewall", "wait_for_previous"], |job, value| {
        job.stonewall = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| Some(print_flag(job.stonewall))),
];

/// Smallest sector of any drive, in bytes.
const SECTOR: u64 = 512;

/// Judges a block size: an I/O smaller than a drive's sector cannot be done.
fn judge_block_against_sector(job: &FioJob) -> Verdict {
    let blocks = [
        (job.rw.reads(), job.block_size.read),
        (job.rw.writes(), job.block_size.write),
        (job.rw.trims(), job.block_size.trim),
    ];
    let used = blocks.into_iter().filter(|(used, _)| *used);
    match used.map(|(_, bytes)| bytes).min() {
        Some(bytes) if bytes < SECTOR => Verdict::Ignored(format!(
            "is {bytes} byte(s), and a drive takes no less than {SECTOR}: is `{bytes}k` meant?"
        )),
        _ => Verdict::Fine,
    }
}

fn format_microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}

/// Parses the number in `rw=pattern:N`: I/Os per offset for a random pattern, else bytes to skip.
fn parse_pattern_number(number: &str, random: bool, kb_base: KbBase) -> Result<i64, Problem> {
    if random {
        return match parse_count(number, kb_base)? {
            0 => Err(Problem::new("expected 1 or more I/Os per random offset")),
            // fio keeps the number in signed 64 bits.
            n => Ok(i64::try_from(n).unwrap_or(i64::MAX)),
        };
    }
    let (sign, size) = match number.strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, number),
    };
    Ok(sign * i64::try_from(parse_bytes(size, kb_base)?.value).unwrap_or(i64::MAX))
}

fn parse_pattern(value: &str) -> Result<ReadWrite, Problem> {
    if let Some((_, pattern)) = ReadWrite::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*pattern);
    }
    let names = ReadWrite::NAMES.map(|(name, _)| name);
    Err(Problem::new(format!(
        "unknown pattern `{}`; expected one of {}",
        escape_and_shorten(value),
        names.join(", ")
    ))
    .suggest_nearest(value, names))
}

/// fio's engines that bypass block devices or the kernel's block layer, each with the reason for refusal.
const OTHER_ENGINES: &[(&str, &[&str])] = &[
    (
        "goes through the page cache, which is not modelled",
        &["mmap", "splice", "libpmem", "dev-dax", "pmemblk"],
    ),
    (
        "has no I/O to a drive",
        &[
            "cpuio",
            "null",
            "exec",
            "filecreate",
            "filedelete",
            "filestat",
            "ftruncate",
            "falloc",
            "e4defrag",
        ],
    ),
    (
        "has its I/O elsewhere",
        &[
            "dfs",
            "gfapi",
            "gfapi_async",
            "http",
            "libblkio",
            "libhdfs",
            "libiscsi",
            "mtd",
            "nbd",
            "net",
            "netsplice",
            "nfs",
            "rados",
            "rbd",
            "rdma",
        ],
    ),
    (
        "is not modelled",
        &["external", "libzbc", "xnvme", "windowsaio", "solarisaio"],
    ),
];

fn parse_engine(value: &str) -> Result<IoEngine, Problem> {
    if let Some((_, engine)) = IoEngine::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*engine);
    }
    // fio takes every name with this prefix as libaio.
    if value.starts_with("linuxaio") || value.starts_with("aio") {
        return Ok(IoEngine::Libaio);
    }
    let names = IoEngine::NAMES.map(|(name, _)| name);
    let list = names.join(", ");
    let engine = value.split(':').next().unwrap_or_default();
    if let Some((why, _)) = OTHER_ENGINES
        .iter()
        .find(|(_, engines)| engines.contains(&engine))
    {
        return Err(Problem::unmodelled(format!(
            "the engine `{}` {why}; use one of {list}",
            escape_and_shorten(value)
        )));
    }
    Err(Problem::new(format!(
        "unknown engine `{}`; expected one of {list}",
        escape_and_shorten(value)
    ))
    .suggest_nearest(value, names))
}
