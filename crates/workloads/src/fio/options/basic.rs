//! The fio options for direction, timing and engine of I/Os.

use wakepath_units::Nanoseconds;

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::KbBase;
use super::super::values::{parse_bytes, parse_count};
use super::super::{FioJob, IoEngine, MAX_IODEPTH, MAX_JOBS, ReadWrite};
use super::pattern::ignore_without_queue;
use super::row::OptionRow;
use super::value::{print_flag_as_digit, print_microseconds, print_per_direction};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["name"], |job, value| {
        job.name = value.nonempty_text()?;
        Ok(())
    })
    .with_free_text_value(),
    OptionRow::for_job_field(&["description"], |job, value| {
        job.description = Some(value.nonempty_text()?);
        Ok(())
    })
    .with_free_text_value()
    .with_printer(|job| job.description.clone()),
    OptionRow::for_job_field(&["filename"], |job, value| {
        job.filename = Some(value.nonempty_text()?);
        if value.text.starts_with(['"', '\'']) {
            value.set_remark("keeps its quotes: they are part of the name");
        }
        Ok(())
    })
    .with_free_text_value()
    .with_judge(|draft, _| {
        let job = &draft.job;
        let repeats = job.time_based && job.runtime.is_some();
        if job.takes_size_from_existing_files() && !repeats && !job.io_log.is_given() {
            OptionVerdict::Ignored(
                "has a size that is not known here; the model takes the drive's".to_owned(),
            )
        } else {
            OptionVerdict::Fine
        }
    })
    .with_printer(|job| job.filename.clone()),
    OptionRow::for_job_field(&["rw", "readwrite"], |job, value| {
        let (name, number) = match value.text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (value.text, None),
        };
        job.rw = parse_rw_value(name)?;
        job.step = match number {
            Some(number) => parse_rw_number(number, job.rw.is_random(), value.kb_base)?,
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
    OptionRow::for_job_field(&["rwmixread"], |job, value| {
        job.rwmixread = value.parse_percent()?;
        Ok(())
    })
    .with_printer(|job| Some(job.rwmixread.to_string())),
    OptionRow::for_job_field(&["rwmixwrite"], |job, value| {
        job.rwmixread = 100 - value.parse_percent()?;
        Ok(())
    }),
    OptionRow::for_job_field(&["bs", "blocksize"], |job, value| {
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
    .with_judge(|draft, _| warn_of_block_below_sector(&draft.job))
    .with_printer(|job| print_per_direction(&job.block_size.map(Some))),
    OptionRow::for_job_field(&["iodepth"], |job, value| {
        job.iodepth = value.parse_count(1, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(|draft, value| {
        if draft.job.iodepth > 1 {
            ignore_without_queue(draft, value)
        } else {
            OptionVerdict::Fine
        }
    })
    .with_printer(|job| Some(job.iodepth.to_string())),
    OptionRow::for_job_field(&["numjobs"], |job, value| {
        job.numjobs = value.parse_count(1, MAX_JOBS)?;
        Ok(())
    })
    .with_printer(|job| Some(job.numjobs.to_string())),
    OptionRow::for_job_field(&["ioengine"], |job, value| {
        job.ioengine = parse_ioengine(value.text)?;
        Ok(())
    })
    .with_judge(
        |draft, _| match draft.job.ioengine.simulated_as_other_engine_clause() {
            Some(why) => OptionVerdict::Ignored(why.to_owned()),
            None => OptionVerdict::Fine,
        },
    )
    .with_printer(|job| Some(job.ioengine.to_string())),
    OptionRow::for_job_field(&["direct"], |job, value| {
        job.direct = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_printer(|job| Some(print_flag_as_digit(job.direct))),
    OptionRow::for_job_field(&["buffered"], |job, value| {
        job.direct = !value.parse_zero_or_one()?;
        Ok(())
    }),
    OptionRow::for_job_field(&["runtime", "timeout"], |job, value| {
        let limit = value.parse_time_with_default_unit(1_000_000)?;
        // fio takes 0 as "no limit".
        job.runtime = (limit > Nanoseconds::ZERO).then_some(limit);
        Ok(())
    })
    .with_printer(|job| job.runtime.map(print_microseconds)),
    OptionRow::for_job_field(&["time_based"], |job, value| {
        job.time_based = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_judge(|draft, _| {
        let job = &draft.job;
        if job.time_based && job.runtime.is_none() {
            OptionVerdict::Ignored(
                "has no effect without runtime: the job ends by its size".to_owned(),
            )
        } else {
            OptionVerdict::Fine
        }
    })
    .with_printer(|job| Some(print_flag_as_digit(job.time_based))),
    OptionRow::for_job_field(&["norandommap"], |job, value| {
        job.norandommap = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| Some(print_flag_as_digit(job.norandommap))),
    OptionRow::for_job_field(&["group_reporting"], |job, value| {
        job.group_reporting = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| Some(print_flag_as_digit(job.group_reporting))),
    OptionRow::for_job_field(&["stonewall", "wait_for_previous"], |job, value| {
        job.stonewall = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| Some(print_flag_as_digit(job.stonewall))),
];

/// Smallest sector of any drive, in bytes.
const SECTOR: u64 = 512;

/// Judges a block size: an I/O smaller than a drive's sector cannot be done.
fn warn_of_block_below_sector(job: &FioJob) -> OptionVerdict {
    let blocks = [
        (job.rw.reads(), job.block_size.read),
        (job.rw.writes(), job.block_size.write),
        (job.rw.trims(), job.block_size.trim),
    ];
    let used = blocks.into_iter().filter(|(used, _)| *used);
    match used.map(|(_, bytes)| bytes).min() {
        Some(bytes) if bytes < SECTOR => OptionVerdict::Ignored(format!(
            "is {bytes} byte(s), and a drive takes no less than {SECTOR}: is `{bytes}k` meant?"
        )),
        _ => OptionVerdict::Fine,
    }
}

/// Parses the number in `rw=pattern:N`: I/Os per offset for a random pattern, else bytes to skip.
fn parse_rw_number(number: &str, is_random_rw: bool, kb_base: KbBase) -> Result<i64, LineProblem> {
    if is_random_rw {
        return match parse_count(number, kb_base)? {
            0 => Err(LineProblem::new(
                "expected 1 or more I/Os per random offset",
            )),
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

fn parse_rw_value(value: &str) -> Result<ReadWrite, LineProblem> {
    if let Some((_, pattern)) = ReadWrite::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*pattern);
    }
    let names = ReadWrite::NAMES.map(|(name, _)| name);
    Err(LineProblem::new(format!(
        "unknown pattern `{}`; expected one of {}",
        escape_and_shorten(value),
        names.join(", ")
    ))
    .with_nearest_name_as_suggestion(value, names))
}

/// fio's engines that bypass block devices or the kernel's block layer, each with the reason for refusal.
const OTHER_ENGINES: &[(&str, &[&str])] = &[
    (
        "reaches the page cache or persistent memory in a way that is not modelled",
        &["splice", "libpmem", "dev-dax", "pmemblk"],
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

fn parse_ioengine(value: &str) -> Result<IoEngine, LineProblem> {
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
        return Err(LineProblem::unmodelled(format!(
            "the engine `{}` {why}; use one of {list}",
            escape_and_shorten(value)
        )));
    }
    Err(LineProblem::new(format!(
        "unknown engine `{}`; expected one of {list}",
        escape_and_shorten(value)
    ))
    .with_nearest_name_as_suggestion(value, names))
}
