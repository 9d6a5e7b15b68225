//! fio options for checking the data that were written.

use std::iter;

use super::super::FioJob;
use super::super::error::OptionVerdict;
use super::super::verify::Checksum;
use super::conditional::{IF_OFF, ignore_without_verify, refuse_unless_off};
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{not_one_of_problem, print_flag_as_digit};

/// Most threads of a process that check data.
const MAX_THREADS: u32 = 1024;

const READS_NOTHING: &str = "on a job that reads nothing back";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_choice(&["verify"], list_checksums, |job, value| {
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
    })
    .with_default("0")
    .with_note("see [checking data](#checking-data)"),
    OptionRow::for_switch(&["do_verify"], |job, on| job.verify.read_back = on)
        .with_judge(ignore_without_verify)
        .with_printer_unless_default(|job| print_flag_as_digit(job.verify.read_back))
        .with_note("whether fio reads back what it wrote"),
    OptionRow::for_text(&["verify_pattern"], |job, text| {
        job.verify.pattern = Some(text);
    })
    .with_judge(ignore_without_verify)
    .with_printer(|job| job.verify.pattern.clone())
    .with_values("number or text")
    .with_note("saves filling the buffer of each write"),
    OptionRow::for_count(&["verify_backlog"], 0, u32::MAX, |job, count| {
        job.verify.backlog = u64::from(count);
    })
    .with_judge(ignore_without_verify)
    .with_printer_unless_default(|job| job.verify.backlog.to_string())
    .with_note("reads back so many after so many writes, too"),
    OptionRow::for_count(&["verify_backlog_batch"], 0, u32::MAX, |job, count| {
        job.verify.backlog_batch = count;
    })
    .with_judge(ignore_without_verify)
    .with_printer_unless_default(|job| job.verify.backlog_batch.to_string())
    .with_note("reads back so many after so many writes, too"),
    OptionRow::for_switch(&["experimental_verify"], |job, on| {
        job.verify.experimental = on;
    })
    .with_judge(ignore_without_verify)
    .with_printer_unless_default(|job| print_flag_as_digit(job.verify.experimental))
    .with_note("reads back in the order of the writes"),
    OptionRow::for_judged_option(&["trim_percentage"], refuse_trims_of_verified_data)
        .with_note(READS_NOTHING),
    OptionRow::for_judged_option(&["trim_verify_zero"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["trim_backlog"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["trim_backlog_batch"], ignore_without_verify)
        .with_note("always"),
    OptionRow::for_judged_option(&["verify_only"], |_, value| {
        refuse_unless_off(value, "a run that only verifies")
    })
    .with_flag_value()
    .with_note(IF_OFF),
    OptionRow::for_judged_option(&["verifysort"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verifysort_nr"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verify_interval"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verify_offset"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verify_fatal"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verify_dump"], ignore_without_verify).with_note("always"),
    OptionRow::for_count(&["verify_async"], 0, MAX_THREADS, |job, count| {
        job.verify.threads = count;
    })
    .with_judge(ignore_without_verify)
    .with_printer_unless_default(|job| job.verify.threads.to_string())
    .with_note("threads that check what was read, beside the process"),
    OptionRow::for_judged_option(&["verify_async_cpus"], ignore_without_verify)
        .with_note("always: the threads run where their process may"),
    OptionRow::for_judged_option(&["verify_state_load"], ignore_without_verify).with_note("always"),
    OptionRow::for_judged_option(&["verify_state_save"], ignore_without_verify).with_note("always"),
];

/// The values of `verify`.
fn list_checksums() -> Vec<&'static str> {
    iter::once("0").chain(Checksum::NAMES).collect()
}

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
