//! fio options for the written data. Some of them set others, and the later option in the file counts.

use super::super::FioJob;
use super::super::error::{Problem, Verdict, escape_and_shorten};
use super::super::verify::Checksum;
use super::conditional::judge_verify_option;
use super::row::Row;
use super::value::{not_one_of_problem, print_flag};

const CONTENT: &str = "is ignored: the content of the data does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    // Options that set others are printed first.
    Row::for_field(&["buffer_pattern"], |job, value| {
        let text = value.free_text()?;
        if !text.starts_with(|c: char| c.is_ascii_digit() || ['"', '\'', '-'].contains(&c)) {
            let message = format!(
                "`{}`: expected a number or a \"text\" in quotes",
                escape_and_shorten(&text)
            );
            return Err(Problem::new(message));
        }
        let content = &mut job.content;
        // A buffer must be filled anew after a read has overwritten it.
        content.refill = Some(job.rw.reads() || content.compressible.unwrap_or(0) > 0);
        (content.zero, content.scramble) = (false, Some(false));
        content.pattern = Some(text);
        Ok(())
    })
    .with_free_text()
    .with_printer(|job| job.content.pattern.clone()),
    Row::for_field(&["buffer_compress_percentage"], |job, value| {
        let share = value.parse_percent()?;
        job.content.compressible = Some(share);
        if job.content.pattern.is_some() && (1..100).contains(&share) {
            job.content.refill = Some(true);
        }
        Ok(())
    })
    .with_printer(|job| job.content.compressible.map(|share| share.to_string())),
    Row::for_field(&["dedupe_percentage"], |job, value| {
        job.content.duplicates = Some(value.parse_percent()?);
        job.content.refill = Some(true);
        Ok(())
    })
    .with_printer(|job| job.content.duplicates.map(|share| share.to_string())),
    Row::for_field(&["refill_buffers"], |job, value| {
        job.content.refill = Some(value.parse_switch()?);
        Ok(())
    })
    .with_flag()
    .with_printer(|job| job.content.refill.map(print_flag)),
    Row::for_field(&["zero_buffers"], |job, value| {
        job.content.zero = value.parse_count(0, u32::MAX)? > 0;
        Ok(())
    })
    .with_flag()
    .with_printer(|job| job.content.zero.then(|| print_flag(true))),
    Row::for_field(&["scramble_buffers"], |job, value| {
        job.content.scramble = Some(value.parse_switch()?);
        Ok(())
    })
    .with_printer(|job| job.content.scramble.map(print_flag)),
    Row::for_field(&["verify"], |job, value| {
        job.verify.checksum = match value.text {
            // The checksum `null` only pretends to check.
            "0" | "null" => None,
            name => Some(Checksum::from_name(name).ok_or_else(|| not_one_of_problem(name, &Checksum::NAMES))?),
        };
        Ok(())
    })
    .with_judge(|draft, _| {
        let FioJob { rw, verify, .. } = &draft.job;
        let reads_back = rw.writes() && (verify.read_back || rw.reads());
        if verify.checksum.is_some() && reads_back {
            Verdict::Unmodelled(
                "reading back and checking what was written is not modelled; set do_verify=0 to simulate the writes alone"
                    .to_owned(),
            )
        } else {
            Verdict::Fine
        }
    })
    .with_printer(|job| job.verify.checksum.map(|checksum| checksum.name().to_owned())),
    Row::for_field(&["do_verify"], |job, value| {
        job.verify.read_back = value.parse_switch()?;
        Ok(())
    })
    .with_judge(judge_verify_option)
    .with_printer(|job| (!job.verify.read_back).then(|| print_flag(false))),
    Row::for_field(&["verify_pattern"], |job, value| {
        job.verify.pattern = Some(value.free_text()?);
        Ok(())
    })
    .with_free_text()
    .with_judge(judge_verify_option)
    .with_printer(|job| job.verify.pattern.clone()),
    Row::for_ignored_option(&["buffer_compress_chunk"], CONTENT),
    Row::for_ignored_option(&["dedupe_mode"], CONTENT),
    Row::for_ignored_option(&["dedupe_working_set_percentage"], CONTENT),
    Row::for_ignored_option(&["dedupe_global"], CONTENT),
];
