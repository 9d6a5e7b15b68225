//! fio options for polled completions and submissions.

use super::super::IoEngine;
use super::super::error::OptionVerdict;
use super::row::OptionRow;
use super::value::print_flag_as_digit;

const PVSYNC2: &str = "has no effect: since Linux 5.19 an I/O of pvsync2 waits for its interrupt, polled queues or not";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_flag(&["hipri"], |job, on| job.polling.completions = on)
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
        .with_printer_unless_default(|job| print_flag_as_digit(job.polling.completions))
        .with_note("spins until I/Os complete; see [polling](#polling)"),
    OptionRow::for_judged_option(&["hipri_percentage"], |draft, value| {
        let polling = &draft.job.polling;
        OptionVerdict::Ignored(match draft.job.ioengine {
            _ if !polling.completions => "has no effect without hipri".to_owned(),
            IoEngine::Pvsync2 => PVSYNC2.to_owned(),
            _ if value == "100" => "is the default".to_owned(),
            _ => "has no effect: fio has it for pvsync2 only".to_owned(),
        })
    })
    .with_note("always: it does nothing without `hipri`"),
    OptionRow::for_flag(&["sqthread_poll"], |job, on| job.polling.submissions = on)
        .with_judge(|draft, _| {
            let why = draft.job.polled_submissions_without_model();
            why.map_or(OptionVerdict::Fine, |why| {
                OptionVerdict::Unmodelled(why.to_owned())
            })
        })
        .with_printer_unless_default(|job| print_flag_as_digit(job.polling.submissions))
        .with_note("a kernel thread spins for submissions"),
    OptionRow::for_count(&["sqthread_poll_cpu"], 0, u32::MAX, |job, cpu| {
        job.polling.thread_cpu = Some(cpu);
    })
    .with_judge(|draft, _| {
        if draft.job.polling.submissions {
            OptionVerdict::Fine
        } else {
            OptionVerdict::Ignored("has no effect without sqthread_poll".to_owned())
        }
    })
    .with_printer(|job| job.polling.thread_cpu.map(|cpu| cpu.to_string()))
    .with_values("CPU")
    .with_default("any")
    .with_note("of that thread; a CPU that the machine lacks is left out"),
];
