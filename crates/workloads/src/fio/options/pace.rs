//! fio options for a job's pauses and rate limits.

use wakepath_units::Nanoseconds;

use super::super::error::{OptionVerdict, escape_and_shorten};
use super::super::values::{parse_per_direction, parse_time_with_default_unit};
use super::super::{PerDirection, ThinkBlocks};
use super::conditional::ignore_flush_without_writes;
use super::draft::JobDraft;
use super::row::{FioTimeUnit, OptionRow};
use super::value::{list_names, print_flag_as_digit, print_microseconds, print_per_direction};

const MINIMUM: &str =
    "is ignored: fio ends a job with an error that does not keep it, the model goes on";

const SYNC: [(&str, bool); 5] = [
    ("none", false),
    ("0", false),
    ("sync", true),
    ("1", true),
    ("dsync", true),
];
const THINK_BLOCKS: [(&str, ThinkBlocks); 2] = [
    ("complete", ThinkBlocks::Complete),
    ("issue", ThinkBlocks::Issue),
];
/// Whether gaps between I/Os of a limited rate are drawn at random.
const RATE_PROCESSES: [(&str, bool); 2] = [("linear", false), ("poisson", true)];
const FLUSH: &str = "write back and flush the drive after so many writes; see \
    [flushes](../background/model.md#flushes)";
const LAST_FLUSH: &str = "flush the drive after the last write, in the job's time";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_time(&["thinktime"], FioTimeUnit::Microsecond, |job, time| {
        job.thinktime = time;
    })
    .with_printer(|job| Some(print_microseconds(job.thinktime)))
    .with_note("pause after every `thinktime_blocks` I/Os"),
    OptionRow::for_count(&["fsync"], 0, u32::MAX, |job, count| job.fsync = count)
        .with_judge(ignore_flush_without_writes)
        .with_printer_unless_default(|job| job.fsync.to_string())
        .with_note(FLUSH),
    OptionRow::for_count(&["fdatasync"], 0, u32::MAX, |job, count| {
        job.fdatasync = count;
    })
    .with_judge(ignore_flush_without_writes)
    .with_printer_unless_default(|job| job.fdatasync.to_string())
    .with_note(FLUSH),
    OptionRow::for_choice(
        &["sync"],
        || list_names(&SYNC),
        |job, value| {
            job.sync = value.parse_name(&SYNC)?;
            Ok(())
        },
    )
    .with_judge(ignore_flush_without_writes)
    .with_printer_unless_default(|job| print_flag_as_digit(job.sync))
    .with_default("`none`")
    .with_note(
        "each write ends when its data are [on the \
         media](../background/model.md#synchronous-writes)",
    ),
    OptionRow::for_switch(&["end_fsync"], |job, on| job.end_fsync = on)
        .with_judge(ignore_flush_without_writes)
        .with_printer_unless_default(|job| print_flag_as_digit(job.end_fsync))
        .with_note(LAST_FLUSH),
    OptionRow::for_switch(&["fsync_on_close"], |job, on| job.fsync_on_close = on)
        .with_judge(ignore_flush_without_writes)
        .with_printer_unless_default(|job| print_flag_as_digit(job.fsync_on_close))
        .with_note(LAST_FLUSH),
    OptionRow::for_time(
        &["thinktime_spin"],
        FioTimeUnit::Microsecond,
        |job, time| {
            job.thinktime_spin = time;
        },
    )
    .with_judge(|draft, _| {
        ignore_without_thinktime(draft, draft.job.thinktime_spin > Nanoseconds::ZERO)
    })
    .with_printer(|job| Some(print_microseconds(job.thinktime_spin)))
    .with_note("the part of the pause that is spent spinning"),
    OptionRow::for_count(&["thinktime_blocks"], 0, u32::MAX, |job, blocks| {
        job.thinktime_blocks = Some(blocks);
    })
    .with_printer(|job| job.thinktime_blocks.map(|blocks| blocks.to_string()))
    .with_default("1")
    .with_note("0 counts as 1"),
    OptionRow::for_choice(
        &["thinktime_blocks_type"],
        || list_names(&THINK_BLOCKS),
        |job, value| {
            job.thinktime_counts = value.parse_name(&THINK_BLOCKS)?;
            Ok(())
        },
    )
    .with_printer_unless_default(|job| {
        match job.thinktime_counts {
            ThinkBlocks::Complete => "complete",
            ThinkBlocks::Issue => "issue",
        }
        .to_owned()
    })
    .with_note("which I/Os `thinktime_blocks` counts"),
    OptionRow::for_time(&["thinktime_iotime"], FioTimeUnit::Second, |job, time| {
        job.thinktime_iotime = time;
    })
    .with_judge(|draft, _| {
        ignore_without_thinktime(draft, draft.job.thinktime_iotime > Nanoseconds::ZERO)
    })
    .with_printer_unless_default(|job| print_microseconds(job.thinktime_iotime))
    .with_note(
        "a pause is due this long after the last, plus `thinktime`; `thinktime_blocks` counts \
         if given",
    ),
    OptionRow::for_count(&["thinkcycles"], 0, u32::MAX, |job, cycles| {
        job.thinkcycles = u64::from(cycles);
    })
    // fio versions before this option would refuse it, so it is printed only if set.
    .with_printer_unless_default(|job| job.thinkcycles.to_string())
    .with_values("cycles")
    .with_note("work of the CPU after each I/O; fio after 3.33"),
    OptionRow::for_job_field(&["rate"], |job, value| {
        let limits = value.parse_bytes_per_direction(0)?;
        set_given_limits_or_remove_if_zero(&mut job.rate, &limits);
        Ok(())
    })
    .with_printer(|job| print_per_direction(&job.rate))
    .with_values("bytes per second, or `read,write,trim`")
    .with_note("0: no limit; not together with `rate_iops`"),
    OptionRow::for_job_field(&["rate_iops"], |job, value| {
        let limits = value.parse_counts_per_direction(0)?;
        set_given_limits_or_remove_if_zero(&mut job.rate_iops, &limits);
        Ok(())
    })
    .with_printer(|job| print_per_direction(&job.rate_iops))
    .with_values("I/Os per second, or `read,write,trim`")
    .with_note(
        "0: no limit; a rate that is not reached is [a \
         warning](../guides/compare.md#less-done-than-asked-for)",
    ),
    OptionRow::for_choice(
        &["rate_process"],
        || list_names(&RATE_PROCESSES),
        |job, value| {
            job.rate_poisson = value.parse_name(&RATE_PROCESSES)?;
            Ok(())
        },
    )
    .with_judge(|draft, _| ignore_without_rate(draft, draft.job.rate_poisson))
    .with_printer_unless_default(|job| {
        if job.rate_poisson {
            "poisson"
        } else {
            "linear"
        }
        .to_owned()
    }),
    OptionRow::for_switch(&["rate_ignore_thinktime"], |job, on| {
        job.rate_ignores_thinktime = on;
    })
    .with_judge(|draft, _| ignore_without_rate(draft, draft.job.rate_ignores_thinktime))
    .with_printer_unless_default(|job| print_flag_as_digit(job.rate_ignores_thinktime))
    .with_note("pauses are not made up for"),
    OptionRow::for_ignored_option(&["rate_min", "ratemin"], MINIMUM)
        .with_check(|value| value.parse_bytes_per_direction(0).map(|_| ())),
    OptionRow::for_ignored_option(&["rate_iops_min"], MINIMUM)
        .with_check(|value| value.parse_counts_per_direction(0).map(|_| ())),
    OptionRow::for_ignored_option(&["rate_cycle", "ratecycle"], MINIMUM)
        .with_check(|value| value.parse_count(0, u32::MAX).map(|_| ())),
    OptionRow::for_ignored_option(&["max_latency"], MINIMUM).with_check(|value| {
        let text = value.text;
        parse_per_direction(text, |part| parse_time_with_default_unit(part, 1)).map(|_| ())
    }),
];

fn ignore_without_thinktime(draft: &JobDraft, is_given: bool) -> OptionVerdict {
    if is_given && draft.job.thinktime == Nanoseconds::ZERO {
        OptionVerdict::Ignored(format!(
            "has no effect on job `{}` without thinktime",
            escape_and_shorten(&draft.job.name)
        ))
    } else {
        OptionVerdict::Fine
    }
}

fn ignore_without_rate(draft: &JobDraft, is_given: bool) -> OptionVerdict {
    if is_given && !draft.job.is_rate_limited() {
        OptionVerdict::Ignored(format!(
            "has no effect on job `{}` without rate or rate_iops",
            escape_and_shorten(&draft.job.name)
        ))
    } else {
        OptionVerdict::Fine
    }
}

/// Sets the limits of the directions that are given; 0 removes a direction's limit.
fn set_given_limits_or_remove_if_zero(
    limits: &mut PerDirection<Option<u64>>,
    given: &PerDirection<Option<u64>>,
) {
    for (limit, given) in limits.as_mut_array().into_iter().zip(given.as_array()) {
        if let Some(given) = given {
            *limit = (*given > 0).then_some(*given);
        }
    }
}
