//! fio options for checking the data that were written.

use super::super::FioJob;
use super::super::error::OptionVerdict;
use super::super::verify::Checksum;
use super::conditional::{ignore_without_verify, refuse_unless_off};
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{not_one_of_problem, print_flag_as_digit};

/// Most threads of a process that check data.
const MAX_THREADS: u32 = 1024;

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["verify"], |job, value| {
        job.verify.checksum = match value.text {
            "0" => None,
            name => Some(
                Checksum::from_name(name)
                    .ok_or_else(|| not_one_of_problem(name, &Checksum::NAMES))?,
            ),
        };
        Ok(())
    })
    .with_judge(judge_reading_back)
    .with_printer(|job| {
        job.verify
            .checksum
            .map(|checksum| checksum.name().to_owned())
    }),
    OptionRow::for_job_field(&["do_verify"], |job, value| {
        job.verify.read_back = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| (!job.verify.read_back).then(|| print_flag_as_digit(false))),
    OptionRow::for_job_field(&["verify_pattern"], |job, value| {
        job.verify.pattern = Some(value.nonempty_text()?);
        Ok(())
    })
    .with_free_text_value()
    .with_judge(ignore_without_verify)
    .with_printer(|job| job.verify.pattern.clone()),
    OptionRow::for_job_field(&["verify_backlog"], |job, value| {
        job.verify.backlog = u64::from(value.parse_count(0, u32::MAX)?);
        Ok(())
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| (job.verify.backlog > 0).then(|| job.verify.backlog.to_string())),
    OptionRow::for_job_field(&["verify_backlog_batch"], |job, value| {
        job.verify.backlog_batch = value.parse_count(0, u32::MAX)?;
        Ok(())
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| {
        (job.verify.backlog_batch > 0).then(|| job.verify.backlog_batch.to_string())
    }),
    OptionRow::for_job_field(&["experimental_verify"], |job, value| {
        job.verify.experimental = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| job.verify.experimental.then(|| print_flag_as_digit(true))),
    OptionRow::for_judged_option(&["trim_percentage"], refuse_trims_of_verified_data),
    OptionRow::for_judged_option(&["trim_verify_zero"], ignore_without_verify),
    OptionRow::for_judged_option(&["trim_backlog"], ignore_without_verify),
    OptionRow::for_judged_option(&["trim_backlog_batch"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_only"], |_, value| {
        refuse_unless_off(value, "a run that only verifies")
    })
    .with_flag_value(),
    OptionRow::for_judged_option(&["verifysort"], ignore_without_verify),
    OptionRow::for_judged_option(&["verifysort_nr"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_interval"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_offset"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_fatal"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_dump"], ignore_without_verify),
    OptionRow::for_job_field(&["verify_async"], |job, value| {
        job.verify.threads = value.parse_count(0, MAX_THREADS)?;
        Ok(())
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| (job.verify.threads > 0).then(|| job.verify.threads.to_string())),
    OptionRow::for_judged_option(&["verify_async_cpus"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_state_load"], ignore_without_verify),
    OptionRow::for_judged_option(&["verify_state_save"], ignore_without_verify),
];

/// Judges `verify` of a job that writes: whether the job reads back what it wrote, and whether that is modelled.
fn judge_reading_back(draft: &JobDraft, _: &str) -> OptionVerdict {
    let job = &draft.job;
    let FioJob { rw, verify, .. } = job;
    if verify.checksum.is_none() || !verify.read_back || !rw.writes() {
        return OptionVerdict::Fine;
    }
    if rw.trims() {
        return OptionVerdict::Unmodelled(
            "reading back what was written among trims is not modelled; set do_verify=0 to simulate the writes alone"
                .to_owned(),
        );
    }
    if job.places.distribution.is_some() && !verify.experimental {
        return OptionVerdict::Unmodelled(
            "how often a block is overwritten decides what is read back, which is not modelled for a random_distribution; set \
             do_verify=0 to simulate the writes alone"
                .to_owned(),
        );
    }
    if !job.reads_back() {
        return OptionVerdict::Ignored(format!(
            "reads nothing back, in fio too: with time_based and {}, the writes take all of the runtime",
            job.ioengine
        ));
    }
    OptionVerdict::Fine
}

/// Judges `trim_percentage`: fio trims a share of the blocks that it reads back.
fn refuse_trims_of_verified_data(draft: &JobDraft, value: &str) -> OptionVerdict {
    if draft.job.reads_back() {
        refuse_unless_off(value, "trims of verified data are not modelled; remove it")
    } else {
        ignore_without_verify(draft, value)
    }
}
