//! fio options for a job's pauses and rate limits.

use wakepath_units::Nanoseconds;

use super::super::error::{Verdict, escape_and_shorten};
use super::super::values::{parse_per_direction, parse_time};
use super::super::{PerDirection, ThinkBlocks};
use super::conditional::judge_flush_option;
use super::draft::Draft;
use super::row::Row;
use super::value::{not_one_of_problem, print_flag, print_per_direction};

const MINIMUM: &str =
    "is ignored: fio ends a job with an error that does not keep it, the model goes on";

pub(super) const ROWS: &[Row] = &[
    Row::for_field(&["thinktime"], |job, value| {
        job.thinktime = value.parse_time(1)?;
        Ok(())
    })
    .with_printer(|job| Some(format_microseconds(job.thinktime))),
    Row::for_field(&["fsync"], |job, value| {
        job.fsync = value.parse_count(0, u32::MAX)?;
        Ok(())
    })
    .with_judge(judge_flush_option)
    .with_printer(|job| (job.fsync > 0).then(|| job.fsync.to_string())),
    Row::for_field(&["fdatasync"], |job, value| {
        job.fdatasync = value.parse_count(0, u32::MAX)?;
        Ok(())
    })
    .with_judge(judge_flush_option)
    .with_printer(|job| (job.fdatasync > 0).then(|| job.fdatasync.to_string())),
    Row::for_field(&["sync"], |job, value| {
        job.sync = match value.text {
            "none" | "0" => false,
            "sync" | "dsync" | "1" => true,
            other => {
                return Err(not_one_of_problem(
                    other,
                    &["none", "0", "sync", "1", "dsync"],
                ));
            }
        };
        Ok(())
    })
    .with_judge(judge_flush_option)
    .with_printer(|job| job.sync.then(|| print_flag(true))),
    Row::for_field(&["end_fsync"], |job, value| {
        job.end_fsync = value.parse_switch()?;
        Ok(())
    })
    .with_judge(judge_flush_option)
    .with_printer(|job| job.end_fsync.then(|| print_flag(true))),
    Row::for_field(&["fsync_on_close"], |job, value| {
        job.fsync_on_close = value.parse_switch()?;
        Ok(())
    })
    .with_judge(judge_flush_option)
    .with_printer(|job| job.fsync_on_close.then(|| print_flag(true))),
    Row::for_field(&["thinktime_spin"], |job, value| {
        job.thinktime_spin = value.parse_time(1)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        judge_option_of_thinktime(draft, draft.job.thinktime_spin > Nanoseconds::ZERO)
    })
    .with_printer(|job| Some(format_microseconds(job.thinktime_spin))),
    Row::for_field(&["thinktime_blocks"], |job, value| {
        job.thinktime_blocks = Some(value.parse_count(0, u32::MAX)?);
        Ok(())
    })
    .with_printer(|job| job.thinktime_blocks.map(|blocks| blocks.to_string())),
    Row::for_field(&["thinktime_blocks_type"], |job, value| {
        job.thinktime_counts = match value.text {
            "complete" => ThinkBlocks::Complete,
            "issue" => ThinkBlocks::Issue,
            other => return Err(not_one_of_problem(other, &["complete", "issue"])),
        };
        Ok(())
    })
    .with_printer(|job| (job.thinktime_counts == ThinkBlocks::Issue).then(|| "issue".to_owned())),
    Row::for_field(&["thinktime_iotime"], |job, value| {
        job.thinktime_iotime = value.parse_time(1_000_000)?;
        Ok(())
    })
    .with_judge(|draft, _| {
        judge_option_of_thinktime(draft, draft.job.thinktime_iotime > Nanoseconds::ZERO)
    })
    .with_printer(|job| {
        let time = job.thinktime_iotime;
        (time > Nanoseconds::ZERO).then(|| format_microseconds(time))
    }),
    Row::for_field(&["thinkcycles"], |job, value| {
        job.thinkcycles = u64::from(value.parse_count(0, u32::MAX)?);
        Ok(())
    })
    // fio versions before this option would refuse it, so it is printed only if set.
    .with_printer(|job| (job.thinkcycles > 0).then(|| job.thinkcycles.to_string())),
    Row::for_field(&["rate"], |job, value| {
        let limits = value.parse_bytes_per_direction(0)?;
        set_given_limits(&mut job.rate, &limits);
        Ok(())
    })
    .with_printer(|job| print_per_direction(&job.rate)),
    Row::for_field(&["rate_iops"], |job, value| {
        let limits = value.parse_counts_per_direction(0)?;
        set_given_limits(&mut job.rate_iops, &limits);
        Ok(())
    })
    .with_printer(|job| print_per_direction(&job.rate_iops)),
    Row::for_field(&["rate_process"], |job, value| {
        job.rate_poisson = match value.text {
            "linear" => false,
            "poisson" => true,
            other => return Err(not_one_of_problem(other, &["linear", "poisson"])),
        };
        Ok(())
    })
    .with_judge(|draft, _| judge_option_of_rate(draft, draft.job.rate_poisson))
    .with_printer(|job| job.rate_poisson.then(|| "poisson".to_owned())),
    Row::for_field(&["rate_ignore_thinktime"], |job, value| {
        job.rate_ignores_thinktime = value.parse_switch()?;
        Ok(())
    })
    .with_judge(|draft, _| judge_option_of_rate(draft, draft.job.rate_ignores_thinktime))
    .with_printer(|job| job.rate_ignores_thinktime.then(|| print_flag(true))),
    Row::for_ignored_option(&["rate_min", "ratemin"], MINIMUM)
        .with_check(|value| value.parse_bytes_per_direction(0).map(|_| ())),
    Row::for_ignored_option(&["rate_iops_min"], MINIMUM)
        .with_check(|value| value.parse_counts_per_direction(0).map(|_| ())),
    Row::for_ignored_option(&["rate_cycle", "ratecycle"], MINIMUM)
        .with_check(|value| value.parse_count(0, u32::MAX).map(|_| ())),
    Row::for_ignored_option(&["max_latency"], MINIMUM).with_check(|value| {
        let text = value.text;
        parse_per_direction(text, |part| parse_time(part, 1)).map(|_| ())
    }),
];

fn judge_option_of_thinktime(draft: &Draft, given: bool) -> Verdict {
    if given && draft.job.thinktime == Nanoseconds::ZERO {
        Verdict::Ignored(format!(
            "has no effect on job `{}` without thinktime",
            escape_and_shorten(&draft.job.name)
        ))
    } else {
        Verdict::Fine
    }
}

fn judge_option_of_rate(draft: &Draft, given: bool) -> Verdict {
    if given && !draft.job.is_rate_limited() {
        Verdict::Ignored(format!(
            "has no effect on job `{}` without rate or rate_iops",
            escape_and_shorten(&draft.job.name)
        ))
    } else {
        Verdict::Fine
    }
}

/// Sets the limits of the directions that are given; 0 removes a direction's limit.
fn set_given_limits(limits: &mut PerDirection<Option<u64>>, given: &PerDirection<Option<u64>>) {
    for (limit, given) in limits.as_mut_array().into_iter().zip(given.as_array()) {
        if let Some(given) = given {
            *limit = (*given > 0).then_some(*given);
        }
    }
}

fn format_microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}
