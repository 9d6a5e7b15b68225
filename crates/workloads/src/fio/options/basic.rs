//! Options for kind, timing and engine of I/Os.

use wakepath_units::Nanoseconds;

use super::super::error::{Problem, Verdict, shown};
use super::super::values::KbBase;
use super::super::values::{bytes, count};
use super::super::{FioJob, IoEngine, MAX_IODEPTH, MAX_JOBS, ReadWrite};
use super::pattern::of_queue;
use super::row::Row;
use super::value::{flag, printed_list};

pub(super) const ROWS: &[Row] = &[
    Row::sets(&["name"], |job, value| {
        job.name = value.free_text()?;
        Ok(())
    })
    .text(),
    Row::sets(&["description"], |job, value| {
        job.description = Some(value.free_text()?);
        Ok(())
    })
    .text()
    .printed(|job| job.description.clone()),
    Row::sets(&["filename"], |job, value| {
        job.filename = Some(value.free_text()?);
        if value.text.starts_with(['"', '\'']) {
            value.remark("keeps its quotes: they are part of the name");
        }
        Ok(())
    })
    .text()
    .judged(|draft, _| {
        let job = &draft.job;
        let repeats = job.time_based && job.runtime.is_some();
        if job.has_size_of_its_files() && !repeats {
            Verdict::Ignored(
                "has a size that is not known here; the model takes the drive's".to_owned(),
            )
        } else {
            Verdict::Fine
        }
    })
    .printed(|job| job.filename.clone()),
    Row::sets(&["rw", "readwrite"], |job, value| {
        let (name, number) = match value.text.split_once(':') {
            Some((name, number)) => (name, Some(number)),
            None => (value.text, None),
        };
        job.rw = pattern(name)?;
        job.step = match number {
            Some(number) => step(number, job.rw.is_random(), value.kb_base)?,
            None => 0,
        };
        Ok(())
    })
    .printed(|job| {
        Some(match job.step {
            0 => job.rw.to_string(),
            step => format!("{}:{step}", job.rw),
        })
    }),
    Row::sets(&["rwmixread"], |job, value| {
        job.rwmixread = value.percent()?;
        Ok(())
    })
    .printed(|job| Some(job.rwmixread.to_string())),
    Row::sets(&["rwmixwrite"], |job, value| {
        job.rwmixread = 100 - value.percent()?;
        Ok(())
    }),
    Row::sets(&["bs", "blocksize"], |job, value| {
        let sizes = value.bytes_per_direction(1)?;
        // An empty part leaves the direction as it was, by default or by a [global] section.
        for (size, given) in job.block_size.each_mut().into_iter().zip(sizes.each()) {
            *size = given.unwrap_or(*size);
        }
        Ok(())
    })
    .judged(|draft, _| of_sector(&draft.job))
    .printed(|job| printed_list(&job.block_size.map(Some))),
    Row::sets(&["iodepth"], |job, value| {
        job.iodepth = value.count(1, MAX_IODEPTH)?;
        Ok(())
    })
    .judged(|draft, value| {
        if draft.job.iodepth > 1 {
            of_queue(draft, value)
        } else {
            Verdict::Fine
        }
    })
    .printed(|job| Some(job.iodepth.to_string())),
    Row::sets(&["numjobs"], |job, value| {
        job.numjobs = value.count(1, MAX_JOBS)?;
        Ok(())
    })
    .printed(|job| Some(job.numjobs.to_string())),
    Row::sets(&["ioengine"], |job, value| {
        job.ioengine = engine(value.text)?;
        Ok(())
    })
    .judged(|draft, _| match draft.job.ioengine.stands_in() {
        Some(why) => Verdict::Ignored(why.to_owned()),
        None => Verdict::Fine,
    })
    .printed(|job| Some(job.ioengine.to_string())),
    Row::sets(&["direct"], |job, value| {
        job.direct = value.switch()?;
        Ok(())
    })
    .printed(|job| Some(flag(job.direct))),
    Row::sets(&["buffered"], |job, value| {
        job.direct = !value.switch()?;
        Ok(())
    }),
    Row::sets(&["runtime", "timeout"], |job, value| {
        let limit = value.time(1_000_000)?;
        // 0 is fio's way to say "no limit".
        job.runtime = (limit > Nanoseconds::ZERO).then_some(limit);
        Ok(())
    })
    .printed(|job| job.runtime.map(microseconds)),
    Row::sets(&["time_based"], |job, value| {
        job.time_based = value.switch()?;
        Ok(())
    })
    .flag()
    .judged(|draft, _| {
        let job = &draft.job;
        if job.time_based && job.runtime.is_none() {
            Verdict::Ignored("has no effect without runtime: the job ends by its size".to_owned())
        } else {
            Verdict::Fine
        }
    })
    .printed(|job| Some(flag(job.time_based))),
    Row::sets(&["norandommap"], |job, value| {
        job.norandommap = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| Some(flag(job.norandommap))),
    Row::sets(&["group_reporting"], |job, value| {
        job.group_reporting = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| Some(flag(job.group_reporting))),
    Row::sets(&["stonewall", "wait_for_previous"], |job, value| {
        job.stonewall = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| Some(flag(job.stonewall))),
];

/// Smallest sector size among drives.
const SECTOR: u64 = 512;

/// Whether an I/O is at least a sector.
fn of_sector(job: &FioJob) -> Verdict {
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

fn microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}

/// The number in `rw=pattern:N`.
fn step(number: &str, random: bool, kb_base: KbBase) -> Result<i64, Problem> {
    if random {
        return match count(number, kb_base)? {
            0 => Err(Problem::new("expected 1 or more I/Os per random offset")),
            // No number is more than fio's signed 64 bits.
            n => Ok(i64::try_from(n).unwrap_or(i64::MAX)),
        };
    }
    let (sign, size) = match number.strip_prefix('-') {
        Some(size) => (-1, size),
        None => (1, number),
    };
    Ok(sign * i64::try_from(bytes(size, kb_base)?.value).unwrap_or(i64::MAX))
}

fn pattern(value: &str) -> Result<ReadWrite, Problem> {
    if let Some((_, pattern)) = ReadWrite::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*pattern);
    }
    let names = ReadWrite::NAMES.map(|(name, _)| name);
    Err(Problem::new(format!(
        "unknown pattern `{}`; expected one of {}",
        shown(value),
        names.join(", ")
    ))
    .nearest(value, names))
}

/// fio engines that bypass block devices or the kernel's block layer, with the reason for refusal.
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

fn engine(value: &str) -> Result<IoEngine, Problem> {
    if let Some((_, engine)) = IoEngine::NAMES.iter().find(|(name, _)| *name == value) {
        return Ok(*engine);
    }
    // As fio: whatever begins so is libaio.
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
            shown(value)
        )));
    }
    Err(Problem::new(format!(
        "unknown engine `{}`; expected one of {list}",
        shown(value)
    ))
    .nearest(value, names))
}
