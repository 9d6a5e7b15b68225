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
    OptionRow::for_job_field(&["iodepth_batch", "iodepth_batch_submit"], |job, value| {
        job.batches.submit = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(ignore_without_queue)
    .with_printer(|job| (job.batches.submit != 1).then(|| job.batches.submit.to_string())),
    OptionRow::for_job_field(
        &["iodepth_batch_complete_min", "iodepth_batch_complete"],
        |job, value| {
            job.batches.complete_min = value.parse_count(0, MAX_IODEPTH)?;
            Ok(())
        },
    )
    .with_judge(ignore_without_queue)
    .with_printer(|job| {
        (job.batches.complete_min != 1).then(|| job.batches.complete_min.to_string())
    }),
    OptionRow::for_job_field(&["iodepth_batch_complete_max"], |job, value| {
        job.batches.complete_max = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(ignore_without_queue)
    .with_printer(|job| {
        (job.batches.complete_max != 0).then(|| job.batches.complete_max.to_string())
    }),
    OptionRow::for_job_field(&["iodepth_low"], |job, value| {
        job.batches.low = value.parse_count(0, MAX_IODEPTH)?;
        Ok(())
    })
    .with_judge(ignore_without_queue)
    .with_printer(|job| (job.batches.low != 0).then(|| job.batches.low.to_string())),
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
    }),
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
    }),
    OptionRow::for_job_field(&["bs_unaligned", "blocksize_unaligned"], |job, value| {
        job.block_sizes.unaligned = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| job.block_sizes.unaligned.then(|| print_flag_as_digit(true))),
    OptionRow::for_job_field(&["bs_is_seq_rand"], |job, value| {
        job.block_sizes.by_order = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| job.block_sizes.by_order.then(|| print_flag_as_digit(true))),
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
