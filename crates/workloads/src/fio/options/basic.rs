//! The fio options for direction, timing and engine of I/Os.

use wakepath_units::Nanoseconds;

use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::KbBase;
use super::super::values::{parse_bytes, parse_count};
use super::super::{FioJob, IoEngine, MAX_IODEPTH, MAX_JOBS, ReadWrite};
use super::pattern::ignore_without_queue;
use super::row::{FioTimeUnit, OptionRow};
use super::value::{list_names, print_flag_as_digit, print_microseconds, print_per_direction};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_text(&["name"], |job, text| job.name = text)
        .with_note("kept for reports, and for fio"),
    OptionRow::for_text(&["description"], |job, text| job.description = Some(text))
        .with_printer(|job| job.description.clone())
        .with_note("kept for reports, and for fio"),
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
    .with_printer(|job| job.filename.clone())
    .with_values("text")
    .with_note("decides [where the size comes from](#where-the-size-comes-from)"),
    OptionRow::for_choice(
        &["rw", "readwrite"],
        || list_names(&ReadWrite::NAMES),
        |job, value| {
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
        },
    )
    .with_printer(|job| {
        Some(match job.step {
            0 => job.rw.to_string(),
            step => format!("{}:{step}", job.rw),
        })
    })
    .with_note(
        "`read:N` skips N bytes after each I/O, `randread:N` goes on for N I/Os from each place; \
         see [trims](#trims)",
    ),
    OptionRow::for_percent(&["rwmixread"], |job, percent| job.rwmixread = percent)
        .with_printer(|job| Some(job.rwmixread.to_string())),
    OptionRow::for_percent(&["rwmixwrite"], |job, percent| {
        job.rwmixread = 100 - percent;
    })
    .with_note("100 less `rwmixread`; the later one of the two counts"),
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
    .with_printer(|job| print_per_direction(&job.block_size.map(Some)))
    .with_values("size, or `read,write,trim`")
    .with_note("below 512 bytes with a warning"),
    OptionRow::for_count(&["iodepth"], 1, MAX_IODEPTH, |job, count| {
        job.iodepth = count;
    })
    .with_judge(|draft, value| {
        if draft.job.iodepth > 1 {
            ignore_without_queue(draft, value)
        } else {
            OptionVerdict::Fine
        }
    })
    .with_printer(|job| Some(job.iodepth.to_string()))
    .with_note("1 with a synchronous engine, and with libaio and buffered I/O, with a warning"),
    OptionRow::for_count(&["numjobs"], 1, MAX_JOBS, |job, count| job.numjobs = count)
        .with_printer(|job| Some(job.numjobs.to_string()))
        .with_note("processes of the job; the limit holds for all jobs of a file together"),
    OptionRow::for_choice(
        &["ioengine"],
        || list_names(&IoEngine::NAMES),
        |job, value| {
            job.ioengine = parse_ioengine(value.text)?;
            Ok(())
        },
    )
    .with_judge(
        |draft, _| match draft.job.ioengine.simulated_as_other_engine_clause() {
            Some(why) => OptionVerdict::Ignored(why.to_owned()),
            None => OptionVerdict::Fine,
        },
    )
    .with_printer(|job| Some(job.ioengine.to_string()))
    .with_note(
        "`linuxaio` and `aio` are libaio; decides what [counts as I/O \
         wait](../background/frequency.md#who-waits-for-io-what-counts-as-iowait); see \
         [engines](#engines)",
    ),
    OptionRow::for_switch(&["direct"], |job, on| job.direct = on)
        .with_printer(|job| Some(print_flag_as_digit(job.direct)))
        .with_note("see [buffered I/O](#buffered-io-reads-and-writes-through-the-page-cache)"),
    OptionRow::for_switch(&["buffered"], |job, on| job.direct = !on)
        .with_note("the opposite of `direct`; the later one of the two counts"),
    OptionRow::for_time(
        &["runtime", "timeout"],
        FioTimeUnit::Second,
        |job, limit| {
            // fio takes 0 as "no limit".
            job.runtime = (limit > Nanoseconds::ZERO).then_some(limit);
        },
    )
    .with_printer(|job| job.runtime.map(print_microseconds))
    .with_note("0: no limit"),
    OptionRow::for_flag(&["time_based"], |job, on| job.time_based = on)
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
        .with_printer(|job| Some(print_flag_as_digit(job.time_based)))
        .with_note("needs a `runtime`"),
    OptionRow::for_flag(&["norandommap"], |job, on| job.norandommap = on)
        .with_printer(|job| Some(print_flag_as_digit(job.norandommap)))
        .with_note("see [random maps](#random-maps)"),
    OptionRow::for_flag(&["group_reporting"], |job, on| job.group_reporting = on)
        .with_printer(|job| Some(print_flag_as_digit(job.group_reporting)))
        .with_note("`sim` prints each job, and all together"),
    OptionRow::for_flag(&["new_group"], |job, on| job.new_group = on)
        .with_printer_unless_default(|job| print_flag_as_digit(job.new_group))
        .with_note("a group for `exitall` and `ss`, as `stonewall`, but without waiting"),
    OptionRow::for_flag(&["stonewall", "wait_for_previous"], |job, on| {
        job.stonewall = on;
    })
    .with_printer(|job| Some(print_flag_as_digit(job.stonewall)))
    .with_note("starts when all jobs above have ended"),
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
