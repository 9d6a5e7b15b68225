//! fio options for the size of I/Os, and for the number in flight.

use super::super::blocks::MAX_PARTS;
use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::values::KbBase;
use super::super::values::{parse_bytes, parse_per_direction, parse_percent};
use super::super::{MAX_IODEPTH, SplitPart};
use super::draft::Draft;
use super::row::Row;
use super::value::{check_at_least, print_flag, print_per_direction};

pub(super) const ROWS: &[Row] = &[
    Row::for_field(&["iodepth_batch", "iodepth_batch_submit"], |job, value| {
        job.batches.submit = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(judge_queue_option)
    .with_printer(|job| (job.batches.submit != 1).then(|| job.batches.submit.to_string())),
    Row::for_field(
        &["iodepth_batch_complete_min", "iodepth_batch_complete"],
        |job, value| {
            job.batches.complete_min = value.parse_count(0, MAX_IODEPTH)?;
            Ok(())
        },
    )
    .with_judge(judge_queue_option)
    .with_printer(|job| {
        (job.batches.complete_min != 1).then(|| job.batches.complete_min.to_string())
    }),
    Row::for_field(&["iodepth_batch_complete_max"], |job, value| {
        job.batches.complete_max = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(judge_queue_option)
    .with_printer(|job| {
        (job.batches.complete_max != 0).then(|| job.batches.complete_max.to_string())
    }),
    Row::for_field(&["iodepth_low"], |job, value| {
        job.batches.low = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(judge_queue_option)
    .with_printer(|job| (job.batches.low != 0).then(|| job.batches.low.to_string())),
    Row::for_field(&["bsrange", "blocksize_range"], |job, value| {
        let given = parse_per_direction(value.text, |part| parse_size_range(part, value.kb_base))?;
        let ranges = &mut job.block_sizes.range;
        for (kept, given) in ranges.as_mut_array().into_iter().zip(given.as_array()) {
            *kept = given.or(*kept);
        }
        Ok(())
    })
    .with_judge(refuse_varying_trims)
    .with_printer(|job| {
        let ranges = job.block_sizes.range;
        print_per_direction(
            &ranges.map(|given| given.map(|(least, most)| format!("{least}-{most}"))),
        )
    }),
    Row::for_field(&["bssplit"], |job, value| {
        let given = parse_per_direction(value.text, Ok)?;
        let splits = &mut job.block_sizes.split;
        for (kept, text) in splits.as_mut_array().into_iter().zip(given.as_array()) {
            if let Some(text) = text {
                *kept = Some(parse_split(text, value.kb_base)?);
            }
        }
        Ok(())
    })
    .with_judge(refuse_varying_trims)
    .with_printer(|job| {
        let splits = job.block_sizes.split.clone();
        print_per_direction(&splits.map(|given| given.map(|parts| print_split(&parts))))
    }),
    Row::for_field(&["bs_unaligned", "blocksize_unaligned"], |job, value| {
        job.block_sizes.unaligned = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| job.block_sizes.unaligned.then(|| print_flag(true))),
    Row::for_field(&["bs_is_seq_rand"], |job, value| {
        job.block_sizes.by_order = value.parse_switch()?;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| job.block_sizes.by_order.then(|| print_flag(true))),
];

/// A `bssplit` in fio's notation: `size/share` with colons in between.
fn print_split(parts: &[SplitPart]) -> String {
    let printed = parts.iter().map(|(size, share)| match share {
        Some(share) => format!("{size}/{share}"),
        None => size.to_string(),
    });
    printed.collect::<Vec<_>>().join(":")
}

/// Judges a queue option: without effect for an engine without a queue.
pub(super) fn judge_queue_option(draft: &Draft, _: &str) -> Verdict {
    let job = &draft.job;
    if job.ioengine.is_synchronous() {
        Verdict::Ignored(format!(
            "has no effect on job `{}`: the engine {} has one I/O in flight at most",
            escape_and_shorten(&job.name),
            job.ioengine
        ))
    } else if job.waits_in_submission() {
        Verdict::Ignored(format!(
            "has no effect on job `{}`: without direct=1 libaio waits for each I/O before it submits the next one",
            escape_and_shorten(&job.name)
        ))
    } else {
        Verdict::Fine
    }
}

fn refuse_varying_trims(draft: &Draft, _: &str) -> Verdict {
    if draft.job.rw.trims() {
        Verdict::Unmodelled("trims of varying sizes are not modelled; set bs".to_owned())
    } else {
        Verdict::Fine
    }
}

/// Parses a block size, at least 1 byte.
fn parse_block_size(text: &str, kb_base: KbBase) -> Result<u64, Problem> {
    check_at_least(1, parse_bytes(text, kb_base)?.value)
}

/// Parses a size range `least-most`; fio takes the two bounds in any order.
fn parse_size_range(text: &str, kb_base: KbBase) -> Result<(u64, u64), Problem> {
    let parts = text.split_once('-').or_else(|| text.split_once(':'));
    let (one, other) = parts.ok_or_else(|| {
        Problem::new(format!(
            "`{}` is not a range; expected least-most",
            escape_and_shorten(text)
        ))
    })?;
    let (one, other) = (
        parse_block_size(one, kb_base)?,
        parse_block_size(other, kb_base)?,
    );
    Ok((one.min(other), one.max(other)))
}

/// Parses a `bssplit`, `size/share:size/share`; a share may be missing.
fn parse_split(text: &str, kb_base: KbBase) -> Result<Vec<SplitPart>, Problem> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        parts.push(match part.split_once('/') {
            Some((bytes, "")) => (parse_block_size(bytes, kb_base)?, None),
            Some((bytes, share)) => (
                parse_block_size(bytes, kb_base)?,
                Some(parse_percent(share)?),
            ),
            None => (parse_block_size(part, kb_base)?, None),
        });
    }
    if parts.len() > MAX_PARTS {
        let message = format!("has {} parts; fio takes {MAX_PARTS}", parts.len());
        return Err(Problem::new(message));
    }
    let given: u32 = parts.iter().filter_map(|p| p.1.map(u32::from)).sum();
    let open = parts.iter().any(|p| p.1.is_none());
    // Shares need not add up to 100 %: the largest share is adjusted.
    if (given == 0 && !open) || (given > 100 && open) {
        let message = format!("the shares add up to {given} %, expected 1 to 100");
        return Err(Problem::new(message));
    }
    Ok(parts)
}
