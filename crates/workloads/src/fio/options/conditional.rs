//! fio options that matter only in some jobs, or with some values.

use super::super::error::Verdict;
use super::draft::Draft;
use super::row::Row;
use super::value::not_one_of_problem;

const RANGES: &str =
    "writing out as the job goes is not modelled; fsync=N writes out after each N writes";
const NO_READS: &str = "is ignored: what the page cache has of the file before hardly matters to a job that only writes";
const NO_WRITES: &str = "has no effect on a job that only reads";
const POLLED: &str = "polled completions are not modelled; remove it to simulate interrupts";
const SCHEDULER: &str = "is ignored: the modelled drives have no I/O scheduler";
const ERRORS: &str = "is ignored: no I/O fails in the model";
const CACHE: &str = "is ignored: direct I/O does not use the page cache";
const COST: &str = "is ignored: the CPU work of an I/O is the machine's, however it is submitted";
const MEMORY: &str = "is ignored: where the memory of a process is does not matter to the model";
const ONE_FILE: &str = "is ignored: when files are opened does not matter to the model";

pub(super) const ROWS: &[Row] = &[
    Row::for_judged_option(&["sync_file_range"], |draft, value| {
        if draft.job.rw.writes() && draft.job.direct {
            Verdict::Ignored("has no effect: direct I/O leaves nothing to write back".to_owned())
        } else {
            match judge_flush_option(draft, value) {
                Verdict::Fine => accept_only_off(value, RANGES),
                other => other,
            }
        }
    }),
    Row::for_judged_option(&["overwrite"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" || !job.rw.writes() || job.rw.reads() || job.goes_to_devices() {
            "has no effect: the model writes to blocks that are there, as on a device"
        } else {
            "says what the model does anyway: it writes to blocks that the file system need not allocate"
        };
        Verdict::Ignored(why.to_owned())
    }),
    Row::for_judged_option(&["trim_percentage"], judge_verify_option),
    Row::for_judged_option(&["trim_verify_zero"], judge_verify_option),
    Row::for_judged_option(&["trim_backlog"], judge_verify_option),
    Row::for_judged_option(&["trim_backlog_batch"], judge_verify_option),
    Row::for_judged_option(&["create_only"], |_, value| {
        accept_only_off(
            value,
            "a job that only lays out its files has no I/O; remove it",
        )
    }),
    Row::for_judged_option(&["uncached"], |draft, value| {
        if draft.job.direct {
            Verdict::Ignored(CACHE.to_owned())
        } else {
            accept_only_off(value, "the page cache is not modelled")
        }
    }),
    Row::for_judged_option(&["thp"], |_, value| {
        accept_only_off(value, "the page cache is not modelled")
    }),
    Row::for_judged_option(&["verify_only"], |_, value| {
        accept_only_off(value, "a run that only verifies")
    })
    .with_flag(),
    Row::for_judged_option(&["verifysort"], judge_verify_option),
    Row::for_judged_option(&["verifysort_nr"], judge_verify_option),
    Row::for_judged_option(&["verify_interval"], judge_verify_option),
    Row::for_judged_option(&["verify_offset"], judge_verify_option),
    Row::for_judged_option(&["verify_fatal"], judge_verify_option),
    Row::for_judged_option(&["verify_dump"], judge_verify_option),
    Row::for_judged_option(&["verify_async"], |draft, value| {
        if draft.job.verify.checksum.is_some() && draft.job.rw.reads() {
            accept_only_off(value, "checking by other threads is not modelled; remove it")
        } else {
            judge_verify_option(draft, value)
        }
    }),
    Row::for_judged_option(&["verify_async_cpus"], judge_verify_option),
    Row::for_judged_option(&["verify_backlog"], judge_verify_option),
    Row::for_judged_option(&["verify_backlog_batch"], judge_verify_option),
    Row::for_judged_option(&["verify_state_load"], judge_verify_option),
    Row::for_judged_option(&["verify_state_save"], judge_verify_option),
    Row::for_judged_option(&["experimental_verify"], judge_verify_option),
    Row::for_judged_option(&["hipri"], |_, value| accept_only_off(value, POLLED)).with_flag(),
    Row::for_judged_option(&["hipri_percentage"], |draft, value| {
        match draft.given_value("hipri") {
            Some("1") => accept_only_off(value, POLLED),
            _ => Verdict::Ignored("has no effect without hipri".to_owned()),
        }
    }),
    Row::for_judged_option(&["sqthread_poll"], |_, value| {
        accept_only_off(
            value,
            "a kernel thread that polls for submissions is not modelled; remove it to simulate system calls",
        )
    })
    .with_flag(),
    Row::for_judged_option(&["sqthread_poll_cpu"], |draft, _| {
        match draft.given_value("sqthread_poll") {
            Some("1") => Verdict::Fine,
            _ => Verdict::Ignored("has no effect without sqthread_poll".to_owned()),
        }
    }),
    Row::for_judged_option(&["force_async"], |_, value| {
        accept_only_off(
            value,
            "submission by the kernel's workers is not modelled; remove it to simulate system calls",
        )
    }),
    Row::for_judged_option(&["pre_read"], |draft, value| {
        if draft.job.direct && !is_switched_off(value) {
            Verdict::Ignored("is ignored: it reads the file before the job begins".to_owned())
        } else {
            accept_only_off(value, "reading the file before the run is not modelled")
        }
    }),
    Row::for_judged_option(&["atomic"], |_, value| {
        accept_only_off(value, "atomic writes are not modelled")
    }),
    Row::for_judged_option(&["lockfile"], |_, value| {
        if value == "none" {
            Verdict::Fine
        } else {
            accept_only_off(value, "locks on files are not modelled")
        }
    }),
    Row::for_judged_option(&["latency_window"], judge_latency_target_option),
    Row::for_judged_option(&["latency_percentile"], judge_latency_target_option),
    Row::for_judged_option(&["latency_run"], judge_latency_target_option),
    Row::for_judged_option(&["steadystate_duration", "ss_dur"], judge_steady_state_option),
    Row::for_judged_option(&["steadystate_ramp_time", "ss_ramp"], judge_steady_state_option),
    Row::for_judged_option(&["invalidate"], |draft, value| {
        if draft.job.is_direct() {
            Verdict::Ignored(CACHE.to_owned())
        } else if !draft.job.rw.reads() {
            Verdict::Ignored(NO_READS.to_owned())
        } else if is_switched_off(value) {
            Verdict::Unmodelled("what the page cache had before the run is not known".to_owned())
        } else {
            Verdict::Fine
        }
    }),
    Row::for_judged_option(&["fadvise_hint"], |draft, value| {
        if draft.job.is_direct() {
            Verdict::Ignored(CACHE.to_owned())
        } else if !draft.job.rw.reads() {
            Verdict::Ignored(NO_READS.to_owned())
        } else if ["0", "1", "none", "random"].contains(&value) {
            Verdict::Ignored("is ignored: random reads are read as they are, with this hint or without".to_owned())
        } else {
            Verdict::Unmodelled("read-ahead is not modelled".to_owned())
        }
    }),
    Row::for_ignored_option(&["cmd_type"], COST).with_check(|value| match value.text {
        "nvme" => Ok(()),
        other => Err(not_one_of_problem(other, &["nvme"])),
    }),
    Row::for_ignored_option(&["fixedbufs"], COST),
    Row::for_ignored_option(&["registerfiles"], COST),
    Row::for_ignored_option(&["nonvectored"], COST),
    Row::for_ignored_option(&["nowait"], COST),
    Row::for_ignored_option(&["userspace_reap"], COST),
    Row::for_ignored_option(&["ioscheduler"], SCHEDULER),
    Row::for_ignored_option(&["prio"], SCHEDULER),
    Row::for_ignored_option(&["prioclass"], SCHEDULER),
    Row::for_ignored_option(&["cmdprio"], SCHEDULER),
    Row::for_ignored_option(&["cmdprio_class"], SCHEDULER),
    Row::for_ignored_option(&["cmdprio_percentage"], SCHEDULER),
    Row::for_ignored_option(&["cmdprio_bssplit"], SCHEDULER),
    Row::for_ignored_option(&["cgroup"], SCHEDULER),
    Row::for_ignored_option(&["cgroup_weight"], SCHEDULER),
    Row::for_ignored_option(&["cgroup_nodelete"], SCHEDULER),
    Row::for_ignored_option(
        &["write_hint"],
        "is ignored: the modelled drives take no hints",
    ),
    Row::for_ignored_option(&["ignore_error"], ERRORS),
    Row::for_ignored_option(&["continue_on_error"], ERRORS),
    Row::for_ignored_option(&["exitall_on_error"], ERRORS),
    Row::for_ignored_option(&["lockmem"], MEMORY),
    Row::for_ignored_option(&["numa_mem_policy"], MEMORY),
    Row::for_ignored_option(
        &["numa_cpu_nodes"],
        "is ignored: the modelled machines have one memory node",
    ),
    Row::for_ignored_option(&["create_on_open"], ONE_FILE),
    Row::for_ignored_option(&["openfiles"], ONE_FILE),
    Row::for_ignored_option(&["unlink_each_loop"], ONE_FILE),
];

fn is_switched_off(value: &str) -> bool {
    ["0", "none"].contains(&value)
}

/// Accepts an option only if it is switched off.
fn accept_only_off(value: &str, why: &str) -> Verdict {
    if is_switched_off(value) {
        Verdict::Fine
    } else {
        Verdict::Unmodelled(why.to_owned())
    }
}

/// Judges a flush option: without effect in a job that never writes, as fio flushes after writes only.
pub(super) fn judge_flush_option(draft: &Draft, value: &str) -> Verdict {
    if is_switched_off(value) || draft.job.rw.writes() {
        Verdict::Fine
    } else {
        Verdict::Ignored(NO_WRITES.to_owned())
    }
}

pub(super) fn judge_verify_option(draft: &Draft, _: &str) -> Verdict {
    match draft.job.verify.checksum {
        Some(_) => Verdict::Fine,
        None => Verdict::Ignored("has no effect without verify".to_owned()),
    }
}

fn judge_latency_target_option(draft: &Draft, _: &str) -> Verdict {
    match draft.given_value("latency_target") {
        Some(_) => Verdict::Fine,
        None => Verdict::Ignored("has no effect without latency_target".to_owned()),
    }
}

fn judge_steady_state_option(draft: &Draft, value: &str) -> Verdict {
    match draft.given_value("steadystate") {
        None if !is_switched_off(value) => {
            Verdict::Unmodelled("an end by steady state is not modelled; remove it".to_owned())
        }
        _ => Verdict::Fine,
    }
}
