//! fio options for replaying a log of I/O.

use super::super::error::{JobFileFindings, LineProblem, OptionVerdict, escape_and_shorten};
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::{not_one_of_problem, print_flag_as_digit};

/// Options about which the log decides instead, whatever their values.
const LEFT_TO_LOG: [&str; 16] = [
    "bs",
    "bsrange",
    "bssplit",
    "size",
    "filesize",
    "io_size",
    "number_ios",
    "fill_device",
    "loops",
    "fsync",
    "fdatasync",
    "rate",
    "rate_iops",
    "offset",
    "filename",
    "nrfiles",
];

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_text(&["read_iolog"], |job, text| job.io_log.file = Some(text))
        .with_judge(
            |draft, _| match draft.job.option_without_model_beside_log() {
                Some(option) => {
                    OptionVerdict::Unmodelled(format!("is not modelled together with {option}"))
                }
                None => OptionVerdict::Fine,
            },
        )
        .with_printer(|job| job.io_log.file.clone())
        .with_values("file")
        .with_note("see [logs](#logs-of-io)"),
    OptionRow::for_switch(&["replay_no_stall"], |job, on| {
        job.io_log.options.keeps_times = !on;
    })
    .with_judge(ignore_without_log)
    .with_printer_unless_default(|job| print_flag_as_digit(!job.io_log.options.keeps_times))
    .with_note("requests of the log follow each other at once"),
    OptionRow::for_count(&["replay_time_scale"], 1, u32::MAX, |job, count| {
        job.io_log.options.time_scale = count;
    })
    .with_judge(ignore_without_log)
    .with_printer_unless_default(|job| job.io_log.options.time_scale.to_string())
    .with_values("percent")
    .with_note("speed of version 3: 200 halves its times"),
    OptionRow::for_text(&["replay_redirect"], |job, text| {
        job.io_log.redirect = Some(text);
    })
    .with_judge(ignore_without_log)
    .with_printer(|job| job.io_log.redirect.clone())
    .with_note("kept for reports, and for fio"),
    OptionRow::for_count(&["replay_scale"], 0, u32::MAX, |job, count| {
        job.io_log.options.offset_divisor = count;
    })
    .with_judge(ignore_without_log)
    .with_printer_unless_default(|job| job.io_log.options.offset_divisor.to_string())
    .with_values("count")
    .with_note("divides offsets"),
    OptionRow::for_job_field(&["replay_align"], |job, value| {
        let align = value.parse_count(0, u32::MAX)?;
        if !align.is_power_of_two() {
            let message = format!(
                "`{}` is no power of 2, which fio asks for",
                escape_and_shorten(value.text)
            );
            return Err(LineProblem::new(message));
        }
        job.io_log.options.align = align;
        Ok(())
    })
    .with_judge(ignore_without_log)
    .with_printer_unless_default(|job| job.io_log.options.align.to_string())
    .with_values("power of 2")
    .with_default("none")
    .with_note("rounds offsets down"),
    OptionRow::for_ignored_option(
        &["read_iolog_chunked"],
        "is ignored: the model reads a log in parts in any case",
    )
    .with_check(|value| value.parse_zero_or_one().map(|_| ())),
    OptionRow::for_ignored_option(
        &["replay_skip"],
        "has no effect: fio 3.33 skips requests in blktrace's binaries only",
    )
    .with_check(|value| {
        const KINDS: [&str; 4] = ["read", "write", "trim", "sync"];
        for kind in value.text.split(',') {
            if !KINDS.contains(&kind) {
                return Err(not_one_of_problem(kind, &KINDS));
            }
        }
        Ok(())
    }),
];

fn ignore_without_log(draft: &JobDraft, _: &str) -> OptionVerdict {
    if draft.job.io_log.is_given() {
        OptionVerdict::Fine
    } else {
        OptionVerdict::Ignored("has no effect without read_iolog".to_owned())
    }
}

impl JobDraft {
    /// Reads the log that the job replays, if the job replays one, before other options are judged: the log decides what they do.
    pub(in crate::fio) fn read_io_log(&mut self, findings: &mut JobFileFindings) {
        const OPTION: &str = "read_iolog";
        if !self.job.io_log.is_given() {
            return;
        }
        let place = self.place_of_option_or_header(OPTION).clone();
        let verdict = match self.job.read_io_log() {
            Ok(mut notes) => {
                let given: Vec<&str> = (LEFT_TO_LOG.into_iter())
                    .filter(|name| self.given.contains_key(name))
                    .collect();
                if !given.is_empty() {
                    notes.push(format!("decides instead of {}", given.join(", ")));
                }
                if notes.is_empty() {
                    OptionVerdict::Fine
                } else {
                    OptionVerdict::Ignored(notes.join("; "))
                }
            }
            Err(message) => OptionVerdict::Unmodelled(message),
        };
        findings.add_first_verdict_on_line(&place, OPTION, verdict);
    }
}
