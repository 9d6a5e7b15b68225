//! What is written. Some of these options set others, so that the later one of two counts.

use super::super::error::{Problem, shown};
use super::{Row, flag};

const CONTENT: &str = "is ignored: the content of the data does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    // What sets others comes before those.
    Row::sets(&["buffer_pattern"], |job, value| {
        let text = value.free_text()?;
        if !text.starts_with(|c: char| c.is_ascii_digit() || ['"', '\'', '-'].contains(&c)) {
            let message = format!(
                "`{}`: expected a number or a \"text\" in quotes",
                shown(&text)
            );
            return Err(Problem::new(message));
        }
        let content = &mut job.content;
        // What stands in its buffer has to be written again after a read.
        content.refill = Some(job.rw.reads() || content.compressible.unwrap_or(0) > 0);
        (content.zero, content.scramble) = (false, Some(false));
        content.pattern = Some(text);
        Ok(())
    })
    .text()
    .printed(|job| job.content.pattern.clone()),
    Row::sets(&["buffer_compress_percentage"], |job, value| {
        let share = value.percent()?;
        job.content.compressible = Some(share);
        if job.content.pattern.is_some() && (1..100).contains(&share) {
            job.content.refill = Some(true);
        }
        Ok(())
    })
    .printed(|job| job.content.compressible.map(|share| share.to_string())),
    Row::sets(&["dedupe_percentage"], |job, value| {
        job.content.duplicates = Some(value.percent()?);
        job.content.refill = Some(true);
        Ok(())
    })
    .printed(|job| job.content.duplicates.map(|share| share.to_string())),
    Row::sets(&["refill_buffers"], |job, value| {
        job.content.refill = Some(value.switch()?);
        Ok(())
    })
    .flag()
    .printed(|job| job.content.refill.map(flag)),
    Row::sets(&["zero_buffers"], |job, value| {
        job.content.zero = value.count(0, u32::MAX)? > 0;
        Ok(())
    })
    .flag()
    .printed(|job| job.content.zero.then(|| flag(true))),
    Row::sets(&["scramble_buffers"], |job, value| {
        job.content.scramble = Some(value.switch()?);
        Ok(())
    })
    .printed(|job| job.content.scramble.map(flag)),
    Row::ignored(&["buffer_compress_chunk"], CONTENT),
    Row::ignored(&["dedupe_mode"], CONTENT),
    Row::ignored(&["dedupe_working_set_percentage"], CONTENT),
    Row::ignored(&["dedupe_global"], CONTENT),
];
