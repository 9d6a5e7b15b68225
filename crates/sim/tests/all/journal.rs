//! The journal of a file system: which syncs wait for a commit, and that several share it.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;

use wakepath_hardware::machine::{Figure, FileSystem, FileSystemKind};
use wakepath_sim::Run;

use crate::quiet::simulate_on_quiet_machine;

const FLUSH_US: f64 = 500.0;
const WRITE_US: f64 = 20.0;

/// Runs a job file on a machine with this many ticks a second and this time of a flush, with ext4 or without a journal.
fn run_on(text: &str, has_journal: bool, hz: f64, flush_us: f64) -> Run {
    let kind = has_journal.then_some(FileSystemKind::Ext4);
    run_on_file_system(text, kind, hz, flush_us)
}

fn run_on_file_system(text: &str, kind: Option<FileSystemKind>, hz: f64, flush_us: f64) -> Run {
    let figure = |value| Figure::assumed(value, "a test");
    simulate_on_quiet_machine(text, |machine| {
        machine.hz = figure(hz);
        machine.drive.spread = figure(0.0);
        machine.drive.write_service_us = figure(WRITE_US);
        machine.drive.flush_us = figure(flush_us);
        machine.file_system = kind.map(|kind| FileSystem {
            kind,
            commit_kcycles: figure(10.0),
            inode_kcycles: figure(20.0),
            write_kcycles: figure(0.0),
            source: "a test".to_owned(),
        });
    })
}

/// Processes that sync each write, with a file each.
fn job_file(processes: usize, lines: &str) -> String {
    let mut text = format!(
        "[global]\nsize=16m\nioengine=psync\nrw=write\ntime_based\nruntime=500ms\n{lines}\n"
    );
    for process in 0..processes {
        writeln!(text, "[j{process}]\nfilename=data{process}").unwrap();
    }
    text
}

fn sum_of_parts(run: &Run) -> f64 {
    let parts = serde_json::to_value(run.attribution.mean).unwrap();
    (parts.as_object().unwrap().values())
        .map(|part| part.as_f64().unwrap())
        .sum()
}

#[test]
fn the_first_fsync_after_each_tick_waits_for_a_commit_and_others_for_a_flush() {
    for lines in ["fsync=1", "direct=1\nfsync=1"] {
        // Two more writes, and a commit block that is forced to the media; XFS has one write.
        check_commits(lines, FileSystemKind::Ext4, 2.0 * WRITE_US);
        check_commits(lines, FileSystemKind::Xfs, WRITE_US);
    }
}

/// Checks that one sync of each tick commits, and takes a flush's time, `writes_us` and some work more than others.
fn check_commits(lines: &str, kind: FileSystemKind, writes_us: f64) {
    let text = job_file(1, lines);
    let [without, with] =
        [None, Some(kind)].map(|kind| run_on_file_system(&text, kind, 250.0, FLUSH_US));
    let [plain, journalled] = [&without, &with].map(|run| run.fsyncs.unwrap());
    let more = journalled.p99_us - plain.p99_us;
    let least = FLUSH_US + writes_us;
    assert!((least..least + 200.0).contains(&more), "{lines}: {more}");
    let commits = (journalled.mean_us - plain.mean_us) * journalled.calls as f64 / more;
    assert!((113.0..133.0).contains(&commits), "{lines}: {commits}");
    assert!((sum_of_parts(&with) - with.latency_us.mean).abs() < 1e-6);
    // One write in seven changes timestamps, and takes 11 us longer.
    let longer = with.latency_us.mean - without.latency_us.mean;
    assert!((0.5..5.0).contains(&longer), "{lines}: {longer}");
}

#[test]
fn fdatasync_of_blocks_that_are_there_waits_for_no_commit() {
    for lines in ["fdatasync=1", "direct=1\nfdatasync=1"] {
        let text = job_file(1, lines);
        for kind in [FileSystemKind::Ext4, FileSystemKind::Xfs] {
            let [without, with] = [None, Some(kind)].map(|kind| {
                run_on_file_system(&text, kind, 250.0, FLUSH_US)
                    .fsyncs
                    .unwrap()
            });
            assert!(
                (with.mean_us / without.mean_us - 1.0).abs() < 0.02,
                "{with:?} {without:?}"
            );
        }
    }
}

/// With a tick in each sync, every fsync needs a commit.
#[test]
fn syncs_of_several_processes_share_commits() {
    for (kind, writes) in [(FileSystemKind::Ext4, 3.0), (FileSystemKind::Xfs, 2.0)] {
        let rate = |processes| {
            let text = job_file(processes, "fsync=1");
            let run = run_on_file_system(&text, Some(kind), 2500.0, FLUSH_US);
            run.fsyncs.unwrap().per_second
        };
        let one = rate(1);
        let commit_us = 2.0 * FLUSH_US + writes * WRITE_US;
        assert!((0.75..1.0).contains(&(one * commit_us / 1e6)), "{one}");
        for processes in [4, 8] {
            // A process that comes while a commit is under way takes the next one, with all others that came meanwhile.
            let shared = rate(processes) / one;
            let most = processes as f64 / 2.0;
            assert!(
                (0.8 * most..1.4 * most).contains(&shared),
                "{kind:?}, {processes}: {shared}"
            );
        }
    }
}

#[test]
fn a_write_that_changes_timestamps_waits_while_a_commit_writes_the_inodes() {
    let text = "[global]\nsize=16m\nioengine=psync\nrw=write\ntime_based\nruntime=500ms\n\
                [syncs]\nfilename=a\nfsync=1\n[writes]\nfilename=b\nthinktime=100us\n";
    let kinds = [FileSystemKind::Ext4, FileSystemKind::Xfs];
    let [ext4, xfs] = kinds.map(|kind| run_on_file_system(text, Some(kind), 2500.0, FLUSH_US));
    let longest = |run: &Run| run.jobs[1].latency_us.max;
    let longer = longest(&ext4) - longest(&xfs);
    assert!(
        (0.3 * WRITE_US..3.0 * WRITE_US).contains(&longer),
        "{longer}"
    );
    assert!((sum_of_parts(&ext4) - ext4.latency_us.mean).abs() < 1e-6);
}

#[test]
fn a_drive_without_a_volatile_cache_gets_the_commits_blocks_without_a_flush() {
    let text = job_file(1, "fsync=1");
    let kinds = [None, Some(FileSystemKind::Ext4), Some(FileSystemKind::Xfs)];
    let [plain, ext4, xfs] =
        kinds.map(|kind| run_on_file_system(&text, kind, 6250.0, 0.0).fsyncs.unwrap());
    for (journalled, writes) in [(ext4, 2.0), (xfs, 1.0)] {
        let more = journalled.mean_us - plain.mean_us;
        assert!(
            more > 0.3 * writes * WRITE_US && more < FLUSH_US,
            "{writes}: {more}"
        );
    }
    let direct = run_on(&job_file(1, "direct=1\nfsync=1"), true, 250.0, 0.0);
    assert!(direct.fsyncs.unwrap().p99_us > 2.0 * WRITE_US);
}

#[test]
fn a_job_on_the_device_has_no_journal() {
    let text = job_file(2, "fsync=1").replace("filename=data", "filename=/dev/nvme0n1p");
    let [without, with] = [false, true].map(|has| run_on(&text, has, 250.0, FLUSH_US));
    let both = [without, with].map(|run| serde_json::to_string(&run).unwrap());
    assert_eq!(both[0], both[1]);
}
