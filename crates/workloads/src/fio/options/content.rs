//! Written data. Some options set others, so that the later option counts.

use super::super::FioJob;
use super::super::error::{Problem, Verdict, shown};
use super::super::verify::Checksum;
use super::conditional::of_verify;
use super::row::Row;
use super::value::{flag, one_of};

const CONTENT: &str = "is ignored: the content of the data does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    // Options that set others come first.
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
        // The buffer's content must be rewritten after a read.
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
    Row::sets(&["verify"], |job, value| {
        job.verify.checksum = match value.text {
            // `null` only pretends to check.
            "0" | "null" => None,
            name => Some(Checksum::named(name).ok_or_else(|| one_of(name, &Checksum::NAMES))?),
        };
        Ok(())
    })
    .judged(|draft, _| {
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
    .printed(|job| job.verify.checksum.map(|checksum| checksum.name().to_owned())),
    Row::sets(&["do_verify"], |job, value| {
        job.verify.read_back = value.switch()?;
        Ok(())
    })
    .judged(of_verify)
    .printed(|job| (!job.verify.read_back).then(|| flag(false))),
    Row::sets(&["verify_pattern"], |job, value| {
        job.verify.pattern = Some(value.free_text()?);
        Ok(())
    })
    .text()
    .judged(of_verify)
    .printed(|job| job.verify.pattern.clone()),
    Row::ignored(&["buffer_compress_chunk"], CONTENT),
    Row::ignored(&["dedupe_mode"], CONTENT),
    Row::ignored(&["dedupe_working_set_percentage"], CONTENT),
    Row::ignored(&["dedupe_global"], CONTENT),
];
