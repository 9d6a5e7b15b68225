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
    .with_printer(|job| job.content.pattern.clone())
    .with_values("number or `\"text\"`")
    .with_note("switches `refill_buffers` on if the job also reads, and scrambling off"),
    OptionRow::for_percent(&["buffer_compress_percentage"], |job, share| {
        job.content.compressible = Some(share);
        if job.content.pattern.is_some() && (1..100).contains(&share) {
            job.content.refill = Some(true);
        }
    })
    .with_printer(|job| job.content.compressible.map(|share| share.to_string()))
    .with_note("1 to 99 switches `refill_buffers` on, unless that is given"),
    OptionRow::for_percent(&["dedupe_percentage"], |job, share| {
        job.content.duplicates = Some(share);
        job.content.refill = Some(true);
    })
    .with_printer(|job| job.content.duplicates.map(|share| share.to_string()))
    .with_note("switches `refill_buffers` on"),
    OptionRow::for_flag(&["refill_buffers"], |job, on| job.content.refill = Some(on))
        .with_printer(|job| job.content.refill.map(print_flag_as_digit))
        .with_default("off")
        .with_note("see [filling buffers](#filling-buffers)"),
    OptionRow::for_job_field(&["zero_buffers"], |job, value| {
        job.content.zero = value.parse_count(0, u32::MAX)? > 0;
        Ok(())
    })
    .with_flag_value()
    .with_printer_unless_default(|job| print_flag_as_digit(job.content.zero))
    .with_note("see [filling buffers](#filling-buffers)"),
    OptionRow::for_switch(&["scramble_buffers"], |job, on| {
        job.content.scramble = Some(on);
    })
    .with_printer(|job| job.content.scramble.map(print_flag_as_digit))
    .with_default("1")
    .with_note("off with `zero_buffers`, unless it is given"),
    OptionRow::for_ignored_option(&["buffer_compress_chunk"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_mode"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_working_set_percentage"], CONTENT),
    OptionRow::for_ignored_option(&["dedupe_global"], CONTENT),
];
