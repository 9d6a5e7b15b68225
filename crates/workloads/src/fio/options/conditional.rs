//! fio options that matter only in some jobs, or with some values.

use super::super::error::OptionVerdict;
use super::draft::JobDraft;
use super::row::OptionRow;
use super::value::not_one_of_problem;

const RANGES: &str =
    "writing out as the job goes is not modelled; fsync=N writes out after each N writes";
const UNCACHED: &str = "the modelled page cache keeps what an I/O has brought, and does not drop it behind the I/O \
                        (RWF_UNCACHED); set direct=1, or leave it out";
const HUGE_PAGES: &str =
    "mapped files have small pages in the model, and page faults of huge ones have no figures";
const NO_WRITES: &str = "has no effect on a job that only reads";
const SCHEDULER: &str = "is ignored: the modelled drives have no I/O scheduler";
const ERRORS: &str = "is ignored: no I/O fails in the model";
pub(super) const CACHE: &str = "is ignored: direct I/O does not use the page cache";
const COST: &str = "is ignored: the CPU work of an I/O is the machine's, however it is submitted";
const MEMORY: &str = "is ignored: where the memory of a process is does not matter to the model";
const ONE_FILE: &str = "is ignored: when files are opened does not matter to the model";

/// When a job may have an option that is accepted only if switched off.
pub(super) const IF_OFF: &str = "if off";

pub(super) const ROWS: &[OptionRow] = &[
    OptionRow::for_judged_option(&["sync_file_range"], |draft, value| {
        if draft.job.rw.writes() && draft.job.direct {
            OptionVerdict::Ignored(
                "has no effect: direct I/O leaves nothing to write back".to_owned(),
            )
        } else {
            match ignore_flush_without_writes(draft, value) {
                OptionVerdict::Fine => refuse_unless_off(value, RANGES),
                other => other,
            }
        }
    })
    .with_note("with `direct=1`"),
    OptionRow::for_judged_option(&["overwrite"], |draft, value| {
        let job = &draft.job;
        let why = if value == "0" || !job.rw.writes() || job.rw.reads() || job.goes_to_devices() {
            "has no effect: the model writes to blocks that are there, as on a device"
        } else {
            "says what the model does anyway: it writes to blocks that the file system need not \
             allocate"
        };
        OptionVerdict::Ignored(why.to_owned())
    })
    .with_note("always: no block has to be allocated"),
    OptionRow::for_judged_option(&["create_only"], |_, value| {
        refuse_unless_off(
            value,
            "a job that only lays out its files has no I/O; remove it",
        )
    })
    .with_note(IF_OFF),
    OptionRow::for_judged_option(&["uncached"], |draft, value| {
        if draft.job.direct {
            OptionVerdict::Ignored(CACHE.to_owned())
        } else {
            refuse_unless_off(value, UNCACHED)
        }
    })
    .with_note("with `direct=1`"),
    OptionRow::for_judged_option(&["thp"], |_, value| refuse_unless_off(value, HUGE_PAGES))
        .with_note(IF_OFF),
    OptionRow::for_judged_option(&["pre_read"], |draft, value| {
        if draft.job.direct && !is_switched_off(value) {
            OptionVerdict::Ignored("is ignored: it reads the file before the job begins".to_owned())
        } else {
            refuse_unless_off(value, "reading the file before the run is not modelled")
        }
    })
    .with_note("with `direct=1`"),
    OptionRow::for_judged_option(&["atomic"], |_, value| {
        refuse_unless_off(value, "atomic writes are not modelled")
    })
    .with_note(IF_OFF),
    OptionRow::for_judged_option(&["lockfile"], |_, value| {
        if value == "none" {
            OptionVerdict::Fine
        } else {
            refuse_unless_off(value, "locks on files are not modelled")
        }
    })
    .with_note("`none`"),
    OptionRow::for_ignored_option(&["cmd_type"], COST).with_check(|value| match value.text {
        "nvme" => Ok(()),
        other => Err(not_one_of_problem(other, &["nvme"])),
    }),
    OptionRow::for_ignored_option(&["fixedbufs"], COST),
    OptionRow::for_ignored_option(&["registerfiles"], COST),
    OptionRow::for_ignored_option(&["nonvectored"], COST),
    OptionRow::for_ignored_option(&["nowait"], COST),
    OptionRow::for_ignored_option(&["userspace_reap"], COST),
    OptionRow::for_ignored_option(&["ioscheduler"], SCHEDULER),
    OptionRow::for_ignored_option(&["prio"], SCHEDULER),
    OptionRow::for_ignored_option(&["prioclass"], SCHEDULER),
    OptionRow::for_ignored_option(&["cmdprio"], SCHEDULER),
    OptionRow::for_ignored_option(&["cmdprio_class"], SCHEDULER),
    OptionRow::for_ignored_option(&["cmdprio_percentage"], SCHEDULER),
    OptionRow::for_ignored_option(&["cmdprio_bssplit"], SCHEDULER),
    OptionRow::for_ignored_option(&["cgroup"], SCHEDULER),
    OptionRow::for_ignored_option(&["cgroup_weight"], SCHEDULER),
    OptionRow::for_ignored_option(&["cgroup_nodelete"], SCHEDULER),
    OptionRow::for_ignored_option(
        &["write_hint"],
        "is ignored: the modelled drives take no hints",
    ),
    OptionRow::for_ignored_option(&["ignore_error"], ERRORS),
    OptionRow::for_ignored_option(&["continue_on_error"], ERRORS),
    OptionRow::for_ignored_option(&["exitall_on_error"], ERRORS),
    OptionRow::for_ignored_option(&["lockmem"], MEMORY),
    OptionRow::for_ignored_option(&["numa_mem_policy"], MEMORY),
    OptionRow::for_ignored_option(
        &["numa_cpu_nodes"],
        "is ignored: the modelled machines have one memory node",
    ),
    OptionRow::for_ignored_option(&["create_on_open"], ONE_FILE),
    OptionRow::for_ignored_option(&["openfiles"], ONE_FILE),
    OptionRow::for_ignored_option(&["unlink_each_loop"], ONE_FILE),
];

fn is_switched_off(value: &str) -> bool {
    ["0", "none"].contains(&value)
}

/// Accepts an option only if it is switched off.
pub(super) fn refuse_unless_off(value: &str, why: &str) -> OptionVerdict {
    if is_switched_off(value) {
        OptionVerdict::Fine
    } else {
        OptionVerdict::Unmodelled(why.to_owned())
    }
}

/// Judges a flush option: without effect in a job that never writes, as fio flushes after writes only.
pub(super) fn ignore_flush_without_writes(draft: &JobDraft, value: &str) -> OptionVerdict {
    if is_switched_off(value) || draft.job.rw.writes() {
        OptionVerdict::Fine
    } else {
        OptionVerdict::Ignored(NO_WRITES.to_owned())
    }
}

pub(super) fn ignore_without_verify(draft: &JobDraft, _: &str) -> OptionVerdict {
    match draft.job.verify.checksum {
        Some(_) => OptionVerdict::Fine,
        None => OptionVerdict::Ignored("has no effect without verify".to_owned()),
    }
}
