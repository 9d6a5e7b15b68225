//! fio options for the written data. Some of them set others, and the later option in the file counts.

use super::super::error::{LineProblem, escape_and_shorten};
use super::row::OptionRow;
use super::value::print_flag_as_digit;

const CONTENT: &str = "is ignored: the content of the data does not matter to the model";

pub(super) const ROWS: &[OptionRow] = &[
    // Options that set others are printed first.
    OptionRow::for_job_field(&["buffer_pattern"], |job, value| {
        let text = value.nonempty_text()?;
        if !text.starts_with(|c: char| c.is_ascii_digit() || ['"', '\'', '-'].contains(&c)) {
            let message = format!(
                "`{}`: expected a number or a \"text\" in quotes",
                escape_and_shorten(&text)
            );
            return Err(LineProblem::new(message));
        }
        let content = &mut job.content;
        // A buffer must be filled anew after a read has overwritten it.
        content.refill = Some(job.rw.reads() || content.compressible.unwrap_or(0) > 0);
        (content.zero, content.scramble) = (false, Some(false));
        content.pattern = Some(text);
        Ok(())
    })
    .with_free_text_value()
    .with_printer(|job| job.content.pattern.clone()),
    OptionRow::for_job_field(&["buffer_compress_percentage"], |job, value| {
        let share = value.parse_percent()?;
        job.content.compressible = Some(share);
        if job.content.pattern.is_some() && (1..100).contains(&share) {
            job.content.refill = Some(true);
        }
        Ok(())
    })
    .with_printer(|job| job.content.compressible.map(|share| share.to_string())),
    OptionRow::for_job_field(&["dedupe_percentage"], |job, value| {
        job.content.duplicates = Some(value.parse_percent()?);
        job.content.refill = Some(true);
        Ok(())
    })
    .with_printer(|job| job.content.duplicates.map(|share| share.to_string())),
    OptionRow::for_job_field(&["refill_buffers"], |job, value| {
        job.content.refill = Some(value.parse_zero_or_one()?);
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| job.content.refill.map(print_flag_as_digit)),
    OptionRow::for_job_field(&["zero_buffers"], |job, value| {
        job.content.zero = value.parse_count(0, u32::MAX)? > 0;
        Ok(())
    })
    .with_flag_value()
    .with_printer(|job| job.content.zero.then(|| print_flag_as_digit(true))),
    OptionRow::for_job_field(&["scramble_buffers"], |job, value| {
        job.content.scramble = Some(value.parse_zero_or_one()?);
        Ok(())
    })
    .with_printer(|job| job.content.scramble.map(print_flag_as_digit)),
    OptionRow::for_ignored_option(&["buffer_compress_chunk"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_mode"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_working_set_percentage"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_global"], CONTENT),
];
