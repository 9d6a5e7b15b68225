//! When a job pauses, and how fast it may go.

use wakepath_units::Nanoseconds;

use super::super::error::{Verdict, shown};
use super::super::values::{per_direction, time};
use super::super::{PerDirection, ThinkBlocks};
use super::conditional::flushes;
use super::draft::Draft;
use super::row::Row;
use super::value::{flag, one_of, printed_list};

const MINIMUM: &str =
    "is ignored: fio ends a job with an error that does not keep it, the model goes on";

pub(super) const ROWS: &[Row] = &[
    Row::sets(&["thinktime"], |job, value| {
        job.thinktime = value.time(1)?;
        Ok(())
    })
    .printed(|job| Some(microseconds(job.thinktime))),
    Row::sets(&["fsync"], |job, value| {
        job.fsync = value.count(0, u32::MAX)?;
        Ok(())
    })
    .judged(flushes)
    .printed(|job| (job.fsync > 0).then(|| job.fsync.to_string())),
    Row::sets(&["fdatasync"], |job, value| {
        job.fdatasync = value.count(0, u32::MAX)?;
        Ok(())
    })
    .judged(flushes)
    .printed(|job| (job.fdatasync > 0).then(|| job.fdatasync.to_string())),
    Row::sets(&["sync"], |job, value| {
        job.sync = match value.text {
            "none" | "0" => false,
            "sync" | "dsync" | "1" => true,
            other => return Err(one_of(other, &["none", "0", "sync", "1", "dsync"])),
        };
        Ok(())
    })
    .judged(flushes)
    .printed(|job| job.sync.then(|| flag(true))),
    Row::sets(&["end_fsync"], |job, value| {
        job.end_fsync = value.switch()?;
        Ok(())
    })
    .judged(flushes)
    .printed(|job| job.end_fsync.then(|| flag(true))),
    Row::sets(&["fsync_on_close"], |job, value| {
        job.fsync_on_close = value.switch()?;
        Ok(())
    })
    .judged(flushes)
    .printed(|job| job.fsync_on_close.then(|| flag(true))),
    Row::sets(&["thinktime_spin"], |job, value| {
        job.thinktime_spin = value.time(1)?;
        Ok(())
    })
    .judged(|draft, _| without_thinktime(draft, draft.job.thinktime_spin > Nanoseconds::ZERO))
    .printed(|job| Some(microseconds(job.thinktime_spin))),
    Row::sets(&["thinktime_blocks"], |job, value| {
        job.thinktime_blocks = Some(value.count(0, u32::MAX)?);
        Ok(())
    })
    .printed(|job| job.thinktime_blocks.map(|blocks| blocks.to_string())),
    Row::sets(&["thinktime_blocks_type"], |job, value| {
        job.thinktime_counts = match value.text {
            "complete" => ThinkBlocks::Complete,
            "issue" => ThinkBlocks::Issue,
            other => return Err(one_of(other, &["complete", "issue"])),
        };
        Ok(())
    })
    .printed(|job| (job.thinktime_counts == ThinkBlocks::Issue).then(|| "issue".to_owned())),
    Row::sets(&["thinktime_iotime"], |job, value| {
        job.thinktime_iotime = value.time(1_000_000)?;
        Ok(())
    })
    .judged(|draft, _| without_thinktime(draft, draft.job.thinktime_iotime > Nanoseconds::ZERO))
    .printed(|job| {
        let time = job.thinktime_iotime;
        (time > Nanoseconds::ZERO).then(|| microseconds(time))
    }),
    Row::sets(&["thinkcycles"], |job, value| {
        job.thinkcycles = u64::from(value.count(0, u32::MAX)?);
        Ok(())
    })
    // Older fio versions lack the option.
    .printed(|job| (job.thinkcycles > 0).then(|| job.thinkcycles.to_string())),
    Row::sets(&["rate"], |job, value| {
        let limits = value.bytes_per_direction(0)?;
        set_limits(&mut job.rate, &limits);
        Ok(())
    })
    .printed(|job| printed_list(&job.rate)),
    Row::sets(&["rate_iops"], |job, value| {
        let limits = value.counts_per_direction(0)?;
        set_limits(&mut job.rate_iops, &limits);
        Ok(())
    })
    .printed(|job| printed_list(&job.rate_iops)),
    Row::sets(&["rate_process"], |job, value| {
        job.rate_poisson = match value.text {
            "linear" => false,
            "poisson" => true,
            other => return Err(one_of(other, &["linear", "poisson"])),
        };
        Ok(())
    })
    .judged(|draft, _| without_rate(draft, draft.job.rate_poisson))
    .printed(|job| job.rate_poisson.then(|| "poisson".to_owned())),
    Row::sets(&["rate_ignore_thinktime"], |job, value| {
        job.rate_ignores_thinktime = value.switch()?;
        Ok(())
    })
    .judged(|draft, _| without_rate(draft, draft.job.rate_ignores_thinktime))
    .printed(|job| job.rate_ignores_thinktime.then(|| flag(true))),
    Row::ignored(&["rate_min", "ratemin"], MINIMUM)
        .checked(|value| value.bytes_per_direction(0).map(|_| ())),
    Row::ignored(&["rate_iops_min"], MINIMUM)
        .checked(|value| value.counts_per_direction(0).map(|_| ())),
    Row::ignored(&["rate_cycle", "ratecycle"], MINIMUM)
        .checked(|value| value.count(0, u32::MAX).map(|_| ())),
    Row::ignored(&["max_latency"], MINIMUM).checked(|value| {
        let text = value.text;
        per_direction(text, |part| time(part, 1)).map(|_| ())
    }),
];

fn without_thinktime(draft: &Draft, given: bool) -> Verdict {
    if given && draft.job.thinktime == Nanoseconds::ZERO {
        Verdict::Ignored(format!(
            "has no effect on job `{}` without thinktime",
            shown(&draft.job.name)
        ))
    } else {
        Verdict::Fine
    }
}

fn without_rate(draft: &Draft, given: bool) -> Verdict {
    if given && !draft.job.is_rate_limited() {
        Verdict::Ignored(format!(
            "has no effect on job `{}` without rate or rate_iops",
            shown(&draft.job.name)
        ))
    } else {
        Verdict::Fine
    }
}

/// Takes over the limits that are given; 0 is none.
fn set_limits(limits: &mut PerDirection<Option<u64>>, given: &PerDirection<Option<u64>>) {
    for (limit, given) in limits.each_mut().into_iter().zip(given.each()) {
        if let Some(given) = given {
            *limit = (*given > 0).then_some(*given);
        }
    }
}

fn microseconds(time: Nanoseconds) -> String {
    format!("{}us", time.as_micros())
}
