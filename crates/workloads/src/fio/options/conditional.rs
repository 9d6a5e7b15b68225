//! Options that matter in some jobs only, or with some values.

use super::super::error::Verdict;
use super::draft::Draft;
use super::row::Row;
use super::value::one_of;

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
    Row::depends(&["sync_file_range"], |draft, value| {
        if draft.job.rw.writes() && draft.job.direct {
            Verdict::Ignored("has no effect: direct I/O leaves nothing to write back".to_owned())
        } else {
            match flushes(draft, value) {
                Verdict::Fine => off_only(value, RANGES),
                other => other,
            }
        }
    }),
    Row::depends(&["overwrite"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" || !job.rw.writes() || job.rw.reads() || job.is_on_device() {
            "has no effect: the model writes to blocks that are there, as on a device"
        } else {
            "says what the model does anyway: it writes to blocks that the file system need not allocate"
        };
        Verdict::Ignored(why.to_owned())
    }),
    Row::depends(&["trim_percentage"], of_verify),
    Row::depends(&["trim_verify_zero"], of_verify),
    Row::depends(&["trim_backlog"], of_verify),
    Row::depends(&["trim_backlog_batch"], of_verify),
    Row::depends(&["create_only"], |_, value| {
        off_only(
            value,
            "a job that only lays out its files has no I/O; remove it",
        )
    }),
    Row::depends(&["uncached"], |draft, value| {
        if draft.job.direct {
            Verdict::Ignored(CACHE.to_owned())
        } else {
            off_only(value, "the page cache is not modelled")
        }
    }),
    Row::depends(&["thp"], |_, value| {
        off_only(value, "the page cache is not modelled")
    }),
    Row::depends(&["verify_only"], |_, value| {
        off_only(value, "a run that only verifies")
    })
    .flag(),
    Row::depends(&["verifysort"], of_verify),
    Row::depends(&["verifysort_nr"], of_verify),
    Row::depends(&["verify_interval"], of_verify),
    Row::depends(&["verify_offset"], of_verify),
    Row::depends(&["verify_fatal"], of_verify),
    Row::depends(&["verify_dump"], of_verify),
    Row::depends(&["verify_async"], |draft, value| {
        if draft.job.verify.checksum.is_some() && draft.job.rw.reads() {
            off_only(value, "checking by other threads is not modelled; remove it")
        } else {
            of_verify(draft, value)
        }
    }),
    Row::depends(&["verify_async_cpus"], of_verify),
    Row::depends(&["verify_backlog"], of_verify),
    Row::depends(&["verify_backlog_batch"], of_verify),
    Row::depends(&["verify_state_load"], of_verify),
    Row::depends(&["verify_state_save"], of_verify),
    Row::depends(&["experimental_verify"], of_verify),
    Row::depends(&["hipri"], |_, value| off_only(value, POLLED)).flag(),
    Row::depends(&["hipri_percentage"], |draft, value| {
        match draft.value_of("hipri") {
            Some("1") => off_only(value, POLLED),
            _ => Verdict::Ignored("has no effect without hipri".to_owned()),
        }
    }),
    Row::depends(&["sqthread_poll"], |_, value| {
        off_only(
            value,
            "a kernel thread that polls for submissions is not modelled; remove it to simulate system calls",
        )
    })
    .flag(),
    Row::depends(&["sqthread_poll_cpu"], |draft, _| {
        match draft.value_of("sqthread_poll") {
            Some("1") => Verdict::Fine,
            _ => Verdict::Ignored("has no effect without sqthread_poll".to_owned()),
        }
    }),
    Row::depends(&["force_async"], |_, value| {
        off_only(
            value,
            "submission by the kernel's workers is not modelled; remove it to simulate system calls",
        )
    }),
    Row::depends(&["pre_read"], |draft, value| {
        if draft.job.direct && !is_off(value) {
            Verdict::Ignored("is ignored: it reads the file before the job begins".to_owned())
        } else {
            off_only(value, "reading the file before the run is not modelled")
        }
    }),
    Row::depends(&["atomic"], |_, value| {
        off_only(value, "atomic writes are not modelled")
    }),
    Row::depends(&["lockfile"], |_, value| {
        if value == "none" {
            Verdict::Fine
        } else {
            off_only(value, "locks on files are not modelled")
        }
    }),
    Row::depends(&["latency_window"], of_target),
    Row::depends(&["latency_percentile"], of_target),
    Row::depends(&["latency_run"], of_target),
    Row::depends(&["steadystate_duration", "ss_dur"], of_steady_state),
    Row::depends(&["steadystate_ramp_time", "ss_ramp"], of_steady_state),
    Row::depends(&["invalidate"], |draft, value| {
        if draft.job.is_direct() {
            Verdict::Ignored(CACHE.to_owned())
        } else if !draft.job.rw.reads() {
            Verdict::Ignored(NO_READS.to_owned())
        } else if is_off(value) {
            Verdict::Unmodelled("what the page cache had before the run is not known".to_owned())
        } else {
            Verdict::Fine
        }
    }),
    Row::depends(&["fadvise_hint"], |draft, value| {
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
    Row::ignored(&["cmd_type"], COST).checked(|value| match value.text {
        "nvme" => Ok(()),
        other => Err(one_of(other, &["nvme"])),
    }),
    Row::ignored(&["fixedbufs"], COST),
    Row::ignored(&["registerfiles"], COST),
    Row::ignored(&["nonvectored"], COST),
    Row::ignored(&["nowait"], COST),
    Row::ignored(&["userspace_reap"], COST),
    Row::ignored(&["ioscheduler"], SCHEDULER),
    Row::ignored(&["prio"], SCHEDULER),
    Row::ignored(&["prioclass"], SCHEDULER),
    Row::ignored(&["cmdprio"], SCHEDULER),
    Row::ignored(&["cmdprio_class"], SCHEDULER),
    Row::ignored(&["cmdprio_percentage"], SCHEDULER),
    Row::ignored(&["cmdprio_bssplit"], SCHEDULER),
    Row::ignored(&["cgroup"], SCHEDULER),
    Row::ignored(&["cgroup_weight"], SCHEDULER),
    Row::ignored(&["cgroup_nodelete"], SCHEDULER),
    Row::ignored(
        &["write_hint"],
        "is ignored: the modelled drives take no hints",
    ),
    Row::ignored(&["ignore_error"], ERRORS),
    Row::ignored(&["continue_on_error"], ERRORS),
    Row::ignored(&["exitall_on_error"], ERRORS),
    Row::ignored(&["lockmem"], MEMORY),
    Row::ignored(&["numa_mem_policy"], MEMORY),
    Row::ignored(
        &["numa_cpu_nodes"],
        "is ignored: the modelled machines have one memory node",
    ),
    Row::ignored(&["create_on_open"], ONE_FILE),
    Row::ignored(&["openfiles"], ONE_FILE),
    Row::ignored(&["unlink_each_loop"], ONE_FILE),
];

fn is_off(value: &str) -> bool {
    ["0", "none"].contains(&value)
}

/// Accepts only an option that is switched off.
fn off_only(value: &str, why: &str) -> Verdict {
    if is_off(value) {
        Verdict::Fine
    } else {
        Verdict::Unmodelled(why.to_owned())
    }
}

/// How often a job flushes. fio flushes after writes only.
pub(super) fn flushes(draft: &Draft, value: &str) -> Verdict {
    if is_off(value) || draft.job.rw.writes() {
        Verdict::Fine
    } else {
        Verdict::Ignored(NO_WRITES.to_owned())
    }
}

pub(super) fn of_verify(draft: &Draft, _: &str) -> Verdict {
    match draft.job.verify.checksum {
        Some(_) => Verdict::Fine,
        None => Verdict::Ignored("has no effect without verify".to_owned()),
    }
}

fn of_target(draft: &Draft, _: &str) -> Verdict {
    match draft.value_of("latency_target") {
        Some(_) => Verdict::Fine,
        None => Verdict::Ignored("has no effect without latency_target".to_owned()),
    }
}

fn of_steady_state(draft: &Draft, value: &str) -> Verdict {
    match draft.value_of("steadystate") {
        None if !is_off(value) => {
            Verdict::Unmodelled("an end by steady state is not modelled; remove it".to_owned())
        }
        _ => Verdict::Fine,
    }
}
