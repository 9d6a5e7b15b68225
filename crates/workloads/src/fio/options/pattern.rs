//! fio options for the size of I/Os, and for the number in flight.

use super::super::blocks::MAX_PARTS;
use super::super::error::{LineProblem, OptionVerdict, escape_and_shorten};
use super::super::values::KbBase;
use super::super::values::{parse_bytes, parse_per_direction, parse_percent};
use super::super::{MAX_IODEPTH, SplitPart};
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{check_at_least, print_flag_as_digit, print_per_direction};

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_count(
        &["iodepth_batch", "iodepth_batch_submit"],
        0,
        MAX_IODEPTH,
        |job, count| job.batches.submit = count,
    )
    .with_judge(ignore_without_queue)
    .with_printer_unless_default(|job| job.batches.submit.to_string())
    .with_note("I/Os submitted together; 0: `iodepth`. See [batches](#batches)"),
    OptionRow::for_count(
        &["iodepth_batch_complete_min", "iodepth_batch_complete"],
        0,
        MAX_IODEPTH,
        |job, count| job.batches.complete_min = count,
    )
    .with_judge(ignore_without_queue)
    .with_printer_unless_default(|job| job.batches.complete_min.to_string())
    .with_note("I/Os waited for together"),
    OptionRow::for_count(
        &["iodepth_batch_complete_max"],
        0,
        MAX_IODEPTH,
        |job, count| job.batches.complete_max = count,
    )
    .with_judge(ignore_without_queue)
    .with_printer_unless_default(|job| job.batches.complete_max.to_string())
    .with_note("no less than the minimum"),
    OptionRow::for_count(&["iodepth_low"], 0, MAX_IODEPTH, |job, count| {
        job.batches.low = count;
    })
    .with_judge(ignore_without_queue)
    .with_printer_unless_default(|job| job.batches.low.to_string())
    .with_note("I/Os left in flight before more are submitted; 0: `iodepth`"),
    OptionRow::for_job_field(&["bsrange", "blocksize_range"], |job, value| {
        let given = parse_per_direction(value.text, |part| {
            parse_size_range_in_any_order(part, value.kb_base)
        })?;
        let ranges = &mut job.block_sizes.range;
        for (kept, given) in ranges.as_mut_array().into_iter().zip(given.as_array()) {
            *kept = given.or(*kept);
        }
        Ok(())
    })
    .with_judge(refuse_if_job_trims)
    .with_printer(|job| {
        let ranges = job.block_sizes.range;
        print_per_direction(
            &ranges.map(|given| given.map(|(least, most)| format!("{least}-{most}"))),
        )
    })
    .with_values("`least-most`, or three of them")
    .with_note("even in multiples of the least"),
    OptionRow::for_job_field(&["bssplit"], |job, value| {
        let given = parse_per_direction(value.text, Ok)?;
        let splits = &mut job.block_sizes.split;
        for (kept, text) in splits.as_mut_array().into_iter().zip(given.as_array()) {
            if let Some(text) = text {
                *kept = Some(parse_bssplit(text, value.kb_base)?);
            }
        }
        Ok(())
    })
    .with_judge(refuse_if_job_trims)
    .with_printer(|job| {
        let splits = job.block_sizes.split.clone();
        print_per_direction(&splits.map(|given| given.map(|parts| print_bssplit(&parts))))
    })
    .with_values("`size/share:size/share`, or three lists")
    .with_note("see [block sizes that vary](#block-sizes-that-vary)"),
    OptionRow::for_flag(&["bs_unaligned", "blocksize_unaligned"], |job, on| {
        job.block_sizes.unaligned = on;
    })
    .with_printer_unless_default(|job| print_flag_as_digit(job.block_sizes.unaligned))
    .with_note("sizes of a `bsrange` are not rounded"),
    OptionRow::for_flag(&["bs_is_seq_rand"], |job, on| job.block_sizes.by_order = on)
        .with_printer_unless_default(|job| print_flag_as_digit(job.block_sizes.by_order))
        .with_note("the read size is that of sequential I/Os, the write size that of random ones"),
];

/// A `bssplit` in fio's notation: `size/share` with colons in between.
fn print_bssplit(parts: &[SplitPart]) -> String {
    let printed = parts.iter().map(|(size, share)| match share {
        Some(share) => format!("{size}/{share}"),
        None => size.to_string(),
    });
    printed.collect::<Vec<_>>().join(":")
}

/// Judges a queue option: without effect for an engine without a queue.
pub(super) fn ignore_without_queue(draft: &JobDraft, _: &str) -> OptionVerdict {
    let job = &draft.job;
    if job.ioengine.is_synchronous() {
        OptionVerdict::Ignored(format!(
            "has no effect on job `{}`: the engine {} has one I/O in flight at most",
            escape_and_shorten(&job.name),
            job.ioengine
        ))
    } else if job.waits_in_submission() {
        OptionVerdict::Ignored(format!(
            "has no effect on job `{}`: without direct=1 libaio waits for each I/O before it submits the next one",
            escape_and_shorten(&job.name)
        ))
    } else {
        OptionVerdict::Fine
    }
}

fn refuse_if_job_trims(draft: &JobDraft, _: &str) -> OptionVerdict {
    if draft.job.rw.trims() {
        OptionVerdict::Unmodelled("trims of varying sizes are not modelled; set bs".to_owned())
    } else {
        OptionVerdict::Fine
    }
}

/// Parses a block size, at least 1 byte.
fn parse_block_size(text: &str, kb_base: KbBase) -> Result<u64, LineProblem> {
    check_at_least(1, parse_bytes(text, kb_base)?.value)
}

/// Parses a size range `least-most`; fio takes the two bounds in any order.
fn parse_size_range_in_any_order(text: &str, kb_base: KbBase) -> Result<(u64, u64), LineProblem> {
    let parts = text.split_once('-').or_else(|| text.split_once(':'));
    let (one, other) = parts.ok_or_else(|| {
        LineProblem::new(format!(
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
fn parse_bssplit(text: &str, kb_base: KbBase) -> Result<Vec<SplitPart>, LineProblem> {
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
        return Err(LineProblem::new(message));
    }
    let given: u32 = parts.iter().filter_map(|p| p.1.map(u32::from)).sum();
    let open = parts.iter().any(|p| p.1.is_none());
    // Shares need not add up to 100 %: the largest share is adjusted.
    if (given == 0 && !open) || (given > 100 && open) {
        let message = format!("the shares add up to {given} %, expected 1 to 100");
        return Err(LineProblem::new(message));
    }
    Ok(parts)
}
