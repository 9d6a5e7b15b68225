//! How large I/Os are, and how many are in flight.

use super::super::blocks::MAX_PARTS;
use super::super::error::{Problem, Verdict, shown};
use super::super::values::KbBase;
use super::super::values::{bytes, per_direction, percent};
use super::super::{MAX_IODEPTH, SplitPart};
use super::draft::Draft;
use super::row::Row;
use super::value::{at_least, flag, printed_list};

pub(super) const ROWS: &[Row] = &[
    Row::sets(&["iodepth_batch", "iodepth_batch_submit"], |job, value| {
        job.batches.submit = value.count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .judged(of_queue)
    .printed(|job| (job.batches.submit != 1).then(|| job.batches.submit.to_string())),
    Row::sets(
        &["iodepth_batch_complete_min", "iodepth_batch_complete"],
        |job, value| {
            job.batches.complete_min = value.count(0, MAX_IODEPTH)?;
            Ok(())
        },
    )
    .judged(of_queue)
    .printed(|job| (job.batches.complete_min != 1).then(|| job.batches.complete_min.to_string())),
    Row::sets(&["iodepth_batch_complete_max"], |job, value| {
        job.batches.complete_max = value.count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .judged(of_queue)
    .printed(|job| (job.batches.complete_max != 0).then(|| job.batches.complete_max.to_string())),
    Row::sets(&["iodepth_low"], |job, value| {
        job.batches.low = value.count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .judged(of_queue)
    .printed(|job| (job.batches.low != 0).then(|| job.batches.low.to_string())),
    Row::sets(&["bsrange", "blocksize_range"], |job, value| {
        let given = per_direction(value.text, |part| range(part, value.kb_base))?;
        let ranges = &mut job.block_sizes.range;
        for (kept, given) in ranges.each_mut().into_iter().zip(given.each()) {
            *kept = given.or(*kept);
        }
        Ok(())
    })
    .judged(varying_trims)
    .printed(|job| {
        let ranges = job.block_sizes.range;
        printed_list(&ranges.map(|given| given.map(|(least, most)| format!("{least}-{most}"))))
    }),
    Row::sets(&["bssplit"], |job, value| {
        let given = per_direction(value.text, Ok)?;
        let splits = &mut job.block_sizes.split;
        for (kept, text) in splits.each_mut().into_iter().zip(given.each()) {
            if let Some(text) = text {
                *kept = Some(split(text, value.kb_base)?);
            }
        }
        Ok(())
    })
    .judged(varying_trims)
    .printed(|job| {
        let splits = job.block_sizes.split.clone();
        printed_list(&splits.map(|given| given.map(|parts| printed_split(&parts))))
    }),
    Row::sets(&["bs_unaligned", "blocksize_unaligned"], |job, value| {
        job.block_sizes.unaligned = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| job.block_sizes.unaligned.then(|| flag(true))),
    Row::sets(&["bs_is_seq_rand"], |job, value| {
        job.block_sizes.by_order = value.switch()?;
        Ok(())
    })
    .flag()
    .printed(|job| job.block_sizes.by_order.then(|| flag(true))),
];

/// A `bssplit` in fio's notation.
fn printed_split(parts: &[SplitPart]) -> String {
    let printed = parts.iter().map(|(size, share)| match share {
        Some(share) => format!("{size}/{share}"),
        None => size.to_string(),
    });
    printed.collect::<Vec<_>>().join(":")
}

/// Judges queue options for an engine without a queue.
pub(super) fn of_queue(draft: &Draft, _: &str) -> Verdict {
    let job = &draft.job;
    if job.ioengine.is_synchronous() {
        Verdict::Ignored(format!(
            "has no effect on job `{}`: the engine {} has one I/O in flight at most",
            shown(&job.name),
            job.ioengine
        ))
    } else if job.waits_in_submission() {
        Verdict::Ignored(format!(
            "has no effect on job `{}`: without direct=1 libaio waits for each I/O before it submits the next one",
            shown(&job.name)
        ))
    } else {
        Verdict::Fine
    }
}

fn varying_trims(draft: &Draft, _: &str) -> Verdict {
    if draft.job.rw.trims() {
        Verdict::Unmodelled("trims of varying sizes are not modelled; set bs".to_owned())
    } else {
        Verdict::Fine
    }
}

/// A block size, at least 1 byte.
fn size(text: &str, kb_base: KbBase) -> Result<u64, Problem> {
    at_least(1, bytes(text, kb_base)?.value)
}

/// `least-most`; fio takes the two in any order.
fn range(text: &str, kb_base: KbBase) -> Result<(u64, u64), Problem> {
    let parts = text.split_once('-').or_else(|| text.split_once(':'));
    let (one, other) = parts.ok_or_else(|| {
        Problem::new(format!(
            "`{}` is not a range; expected least-most",
            shown(text)
        ))
    })?;
    let (one, other) = (size(one, kb_base)?, size(other, kb_base)?);
    Ok((one.min(other), one.max(other)))
}

/// `size/share:size/share`; a share may be missing.
fn split(text: &str, kb_base: KbBase) -> Result<Vec<SplitPart>, Problem> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        parts.push(match part.split_once('/') {
            Some((bytes, "")) => (size(bytes, kb_base)?, None),
            Some((bytes, share)) => (size(bytes, kb_base)?, Some(percent(share)?)),
            None => (size(part, kb_base)?, None),
        });
    }
    if parts.len() > MAX_PARTS {
        let message = format!("has {} parts; fio takes {MAX_PARTS}", parts.len());
        return Err(Problem::new(message));
    }
    let given: u32 = parts.iter().filter_map(|p| p.1.map(u32::from)).sum();
    let open = parts.iter().any(|p| p.1.is_none());
    // Else they may add up to anything: the largest share takes less or more.
    if (given == 0 && !open) || (given > 100 && open) {
        let message = format!("the shares add up to {given} %, expected 1 to 100");
        return Err(Problem::new(message));
    }
    Ok(parts)
}
