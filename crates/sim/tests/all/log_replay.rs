//! Jobs that replay a log of fio (`read_iolog`): which requests come, and when.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;

use tempfile::TempDir;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate, simulate_observed};
use wakepath_workloads::fio::{self, FioJobFile};

use crate::block_trace::Begins;

/// A job file in which `LOG` stands for the path of a log with this text; the log lives as long as the folder.
fn jobs_with_log(log: &str, jobs: &str) -> (TempDir, FioJobFile) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("io.log");
    std::fs::write(&path, log).unwrap();
    let text = jobs.replace("LOG", &path.display().to_string());
    let file = fio::parse(&text, "t.fio").unwrap();
    (folder, file)
}

fn machine() -> Machine {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    machine.drive.flush_us = Figure::assumed(100.0, "test");
    machine
}

fn run_with_begins(log: &str, jobs: &str) -> (Run, Vec<u64>) {
    let (_folder, file) = jobs_with_log(log, jobs);
    let mut begins = Begins::default();
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    let run = simulate_observed(&machine(), &file.into(), &policies, 1, &mut begins).unwrap();
    (run, begins.0)
}

/// A log of version 3 with reads of 4 KiB, one every so many us.
fn reads_every(microseconds: u64, count: u64) -> String {
    let mut text = "fio version 3 iolog\n0 f add\n0 f open\n".to_owned();
    for number in 0..count {
        let time = 1000 + number * microseconds;
        let _ = writeln!(text, "{time} f read {} 4096", number * 4096);
    }
    text
}

const JOB: &str = "[j]\ndirect=1\nread_iolog=LOG\n";

#[test]
fn requests_keep_their_distance_from_the_last_issue() {
    let (run, begins) = run_with_begins(&reads_every(3000, 50), JOB);
    assert_eq!((run.reads, run.read_bytes), (50, 50 * 4096));
    for pair in begins.windows(2) {
        let apart = (pair[1] - pair[0]) as f64 / 1e3;
        // The process has to wake up from an idle state first.
        assert!((2999.0..4500.0).contains(&apart), "{apart} us");
    }
    assert!(run.replays.is_empty() && run.rates.is_empty());
    assert!(run.cut_jobs.is_empty());
    // Lost time is not made up for: a log that asks for more than the drive can do takes as long as the drive.
    let (fast, begins) = run_with_begins(&reads_every(1, 200), JOB);
    let at_least = 0.95 * 199.0 * fast.latency_us.mean;
    let took = (begins[199] - begins[0]) as f64 / 1e3;
    assert!(took >= at_least, "{took} {at_least}");
}

#[test]
fn the_speed_of_a_replay_is_the_jobs() {
    let log = reads_every(3000, 20);
    for (option, wanted) in [
        ("replay_time_scale=50", 19.0 * 6e-3),
        ("replay_time_scale=300", 19.0 * 1e-3),
    ] {
        let (run, _) = run_with_begins(&log, &format!("{JOB}{option}\n"));
        assert!(
            (wanted..wanted + 0.025).contains(&run.seconds),
            "{option}: {}",
            run.seconds
        );
    }
    let (at_once, _) = run_with_begins(&log, &format!("{JOB}replay_no_stall=1\n"));
    assert_eq!(at_once.reads, 20);
    let busy = 20.0 * at_once.latency_us.mean / 1e6;
    assert!(
        at_once.seconds < 1.5 * busy + 1e-3,
        "{} {busy}",
        at_once.seconds
    );
}

#[test]
fn waits_of_version_2_end_at_times_after_the_start() {
    let log = "fio version 2 iolog\nf add\nf open\nf wait 300 0\nf read 0 4096\nf wait 200 0\nf read 4096 4096\nf wait 900 0\n\
               f write 0 4096\n";
    let (run, begins) = run_with_begins(log, &format!("{JOB}startdelay=100ms\n"));
    assert_eq!((run.reads, run.writes), (2, 1));
    // fio starts 0.1 s before its jobs.
    for (begin, wanted) in begins.iter().zip([200, 200, 800]) {
        let late = *begin as f64 / 1e6 - f64::from(wanted);
        assert!((0.0..5.0).contains(&late), "{late} ms after {wanted}");
    }
}

#[test]
fn fio_takes_nothing_back_before_its_depth_is_reached() {
    // fio 3.33 measures 60 ms at depth 4 with one read every 20 ms, and the drive's latency at depth 1.
    let log = reads_every(20_000, 20);
    let job = format!("{JOB}ioengine=libaio\niodepth=");
    let (deep, begins) = run_with_begins(&log, &format!("{job}4\n"));
    let (flat, _) = run_with_begins(&log, &format!("{job}1\n"));
    assert_eq!((deep.reads, flat.reads), (20, 20));
    assert!(flat.latency_us.mean < 2000.0, "{}", flat.latency_us.mean);
    let median = deep.latency_us.p50 / 1e3;
    assert!((59.0..66.0).contains(&median), "{median} ms");
    // The process did not look: no idle state held these requests up.
    let parts = deep.attribution.mean;
    assert!(parts.idle_exit < 3000.0, "{parts:?}");
    assert!(parts.waiting_to_run > 40_000.0, "{parts:?}");
    for pair in begins.windows(2) {
        let apart = (pair[1] - pair[0]) as f64 / 1e6;
        assert!((19.9..22.0).contains(&apart), "{apart} ms");
    }
}

#[test]
fn flushes_and_trims_are_fios() {
    let log = "fio version 3 iolog\n0 f open\n10 f write 0 4096\n1010 f sync 0 0\n2010 f trim 0 4096\n3010 f write 4096 8192\n\
               4010 f datasync 0 0\n5010 f read 0 4096\n";
    let (run, begins) = run_with_begins(log, JOB);
    assert_eq!((run.reads, run.writes, run.written_bytes), (1, 2, 12_288));
    // With the two flushes, and without the time before the trim.
    assert_eq!(begins.len(), 5);
    assert!((4e-3..5e-3).contains(&run.seconds), "{}", run.seconds);
    let mut without_cache = machine();
    without_cache.drive.flush_us = Figure::assumed(0.0, "test");
    let (_folder, file) = jobs_with_log(log, JOB);
    let silent = simulate(&without_cache, &file.into(), &PolicySet::default(), 1).unwrap();
    // A flush that the drive does not get leaves its time.
    assert!((4e-3..5e-3).contains(&silent.seconds), "{}", silent.seconds);
    let (ended, begins) = run_with_begins(
        "fio version 3 iolog\n10 f write 0 4096\n",
        &format!("{JOB}end_fsync=1\n"),
    );
    assert_eq!((ended.writes, begins.len()), (1, 2));
}

#[test]
fn a_log_runs_beside_other_jobs_and_several_logs_do() {
    let log = reads_every(2000, 100);
    let jobs = "[global]\ndirect=1\n[log]\nread_iolog=LOG\n[own]\nrw=randwrite\nbs=4k\nsize=1m\nrate_iops=500\n\
                [fast]\nread_iolog=LOG\nreplay_time_scale=400\nnumjobs=2\n";
    let (run, _) = run_with_begins(&log, jobs);
    assert_eq!((run.reads, run.writes), (300, 256));
    let (after, _) = run_with_begins(
        &log,
        "[global]\ndirect=1\n[a]\nread_iolog=LOG\n[b]\nstonewall\nread_iolog=LOG\n",
    );
    assert_eq!(after.reads, 200);
    assert!(after.seconds > 0.39, "{}", after.seconds);
}

#[test]
fn a_runtime_ends_a_replay_and_a_ramp_counts_nothing() {
    let log = reads_every(10_000, 100);
    let (ended, _) = run_with_begins(&log, &format!("{JOB}runtime=205ms\ntime_based\nloops=3\n"));
    assert_eq!(ended.reads, 21);
    assert!(ended.cut_jobs.is_empty());
    let (ramped, _) = run_with_begins(&log, &format!("{JOB}ramp_time=205ms\n"));
    assert_eq!(ramped.reads, 79);
    let (long, _) = run_with_begins(&reads_every(1_000_000, 100), JOB);
    assert_eq!((long.reads, long.cut_jobs.len()), (60, 1));
}

#[test]
fn a_request_beyond_the_drive_and_a_log_that_is_gone_are_errors() {
    let mut small = machine();
    small.drive.capacity_gb = Figure::assumed(1.0, "test");
    let (folder, file) = jobs_with_log(
        "fio version 3 iolog\n1 f read 0 4096\n2 f read 999999999 4096\n",
        JOB,
    );
    let workload = file.into();
    let policies = PolicySet::default();
    let refused = simulate(&small, &workload, &policies, 1).unwrap_err();
    let name = folder.path().join("io.log");
    let wanted = format!(
        "{}:3: the request ends at byte 1000004095, and {} has 1000000000 (assumed: test); take a larger drive (--drive, or drive.capacity_gb \
         in the machine's file)",
        name.display(),
        small.drive.name
    );
    assert_eq!(refused.to_string(), wanted);
    drop(folder);
    let gone = simulate(&machine(), &workload, &policies, 1).unwrap_err();
    assert!(matches!(gone, SimError::BlockTrace(_)), "{gone}");
}

fn result_as_json(file: &FioJobFile) -> String {
    let run = simulate(&machine(), &file.clone().into(), &PolicySet::default(), 7).unwrap();
    serde_json::to_string(&run).unwrap()
}

#[test]
fn equal_seeds_give_equal_replays() {
    let job = format!("{JOB}ioengine=libaio\niodepth=3\n");
    let (_folder, file) = jobs_with_log(&reads_every(700, 300), &job);
    assert_eq!(result_as_json(&file), result_as_json(&file));
}
