//! fio options for polled completions and submissions.

use super::super::IoEngine;
use super::super::error::OptionVerdict;
use super::row::OptionRow;
use super::value::print_flag_as_digit;

const PVSYNC2: &str = "has no effect: since Linux 5.19 an I/O of pvsync2 waits for its interrupt, polled queues or not";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_job_field(&["hipri"], |job, value| {
        job.polling.completions = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_judge(|draft, _| {
        let job = &draft.job;
        match job.polled_completions_without_model() {
            Some(why) => OptionVerdict::Unmodelled(why.to_owned()),
            None if job.polling.completions && job.ioengine == IoEngine::Pvsync2 => {
                OptionVerdict::Ignored(PVSYNC2.to_owned())
            }
            None => OptionVerdict::Fine,
        }
    })
    .with_printer(|job| {
        let on = job.polling.completions;
        on.then(|| print_flag_as_digit(true))
    }),
    OptionRow::for_judged_option(&["hipri_percentage"], |draft, value| {
        let polling = &draft.job.polling;
        OptionVerdict::Ignored(match draft.job.ioengine {
            _ if !polling.completions => "has no effect without hipri".to_owned(),
            IoEngine::Pvsync2 => PVSYNC2.to_owned(),
            _ if value == "100" => "is the default".to_owned(),
            _ => "has no effect: fio has it for pvsync2 only".to_owned(),
        })
    }),
    OptionRow::for_job_field(&["sqthread_poll"], |job, value| {
        job.polling.submissions = value.parse_zero_or_one()?;
        Ok(())
    })
    .with_flag_value()
    .with_judge(|draft, _| {
        let why = draft.job.polled_submissions_without_model();
        why.map_or(OptionVerdict::Fine, |why| {
            OptionVerdict::Unmodelled(why.to_owned())
        })
    })
    .with_printer(|job| {
        let on = job.polling.submissions;
        on.then(|| print_flag_as_digit(true))
    }),
    OptionRow::for_job_field(&["sqthread_poll_cpu"], |job, value| {
        job.polling.thread_cpu = Some(value.parse_count(0, u32::MAX)?);
        Ok(())
    })
    .with_judge(|draft, _| {
        if draft.job.polling.submissions {
            OptionVerdict::Fine
        } else {
            OptionVerdict::Ignored("has no effect without sqthread_poll".to_owned())
        }
    })
    .with_printer(|job| job.polling.thread_cpu.map(|cpu| cpu.to_string())),
];
