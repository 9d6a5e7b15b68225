//! fio options for threads that submit a process's I/Os.

use wakepath_units::Nanoseconds;

use super::super::error::OptionVerdict;
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::list_names;

const SUBMIT_MODES: [(&str, bool); 2] = [("inline", false), ("offload", true)];

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_choice(
        &["io_submit_mode"],
        || list_names(&SUBMIT_MODES),
        |job, value| {
            job.submits_by_threads = value.parse_name(&SUBMIT_MODES)?;
            Ok(())
        },
    )
    .with_judge(judge_offload)
    .with_printer_unless_default(|job| {
        if job.submits_by_threads {
            "offload"
        } else {
            "inline"
        }
        .to_owned()
    })
    .with_note("`offload`: see [threads](#threads)"),
    OptionRow::for_count(&["force_async"], 0, u32::MAX, |job, count| {
        job.force_async = count;
    })
    .with_judge(judge_kernel_workers)
    .with_printer_unless_default(|job| job.force_async.to_string())
    .with_note("with io_uring; see [threads](#threads)"),
];

/// Judges `io_submit_mode=offload`: what threads do that wait for one I/O each.
fn judge_offload(draft: &JobDraft, _: &str) -> OptionVerdict {
    let job = &draft.job;
    if !job.submits_by_threads {
        return OptionVerdict::Fine;
    }
    let unmodelled = if job.calls_fsync() {
        "flushes by threads beside the writes"
    } else if job.sync && job.rw.writes() {
        "synchronous writes by threads"
    } else if job.writes_to_page_cache() {
        "buffered writes by threads"
    } else if job.reads_back() {
        "reads of verify by threads"
    } else if job.checking_threads() > 0 {
        "verify_async and reads by threads"
    } else if job.latency_target.target > Nanoseconds::ZERO {
        "latency_target and I/O by threads"
    } else if job.rw.trims() {
        "trims by threads"
    } else {
        return OptionVerdict::Fine;
    };
    OptionVerdict::Unmodelled(format!(
        "{unmodelled} are not modelled; set io_submit_mode=inline"
    ))
}

/// Judges `force_async`, which only io_uring has.
fn judge_kernel_workers(draft: &JobDraft, _: &str) -> OptionVerdict {
    let job = &draft.job;
    if job.force_async == 0 {
        OptionVerdict::Fine
    } else if !job.ioengine.is_io_uring() {
        OptionVerdict::Ignored("has no effect without ioengine=io_uring".to_owned())
    } else if job.checking_threads() > 0 {
        OptionVerdict::Unmodelled(
            "verify_async and force_async are not modelled together".to_owned(),
        )
    } else if !job.is_direct() {
        OptionVerdict::Ignored(
            "is ignored with direct=0: what the page cache does is simulated in the process, whoever asks for it"
                .to_owned(),
        )
    } else {
        OptionVerdict::Fine
    }
}
