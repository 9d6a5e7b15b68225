//! Writes that are on the media when they end: `sync`, `fsync`, and what is flushed at the end of a job.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;

use wakepath_hardware::machine::Figure;
use wakepath_sim::Run;

use crate::quiet::simulate_on_quiet_machine;

const FLUSH_US: f64 = 500.0;

/// A job of 1 MiB on drives whose flushes take so long.
fn on(drives: usize, flush_us: f64, lines: &str) -> Run {
    let text = format!("[j]\nfilename=/dev/nvme0n1\ndirect=1\nrw=write\nsize=1m\n{lines}");
    simulate_on_quiet_machine(&text, |machine| {
        machine.drive.count = drives;
        machine.drive.chunk_kib = Figure::assumed(4.0, "test");
        machine.drive.spread = Figure::assumed(0.0, "test");
        machine.drive.flush_us = Figure::assumed(flush_us, "test");
    })
}

fn parts(run: &Run) -> f64 {
    let mean = serde_json::to_value(run.attribution.mean).unwrap();
    mean.as_object()
        .unwrap()
        .values()
        .map(|part| part.as_f64().unwrap())
        .sum()
}

#[test]
fn each_write_of_a_synchronous_job_is_on_the_media_when_it_ends() {
    for drives in [1, 2] {
        let plain = on(drives, FLUSH_US, "");
        for option in ["sync=1", "sync=sync", "sync=dsync"] {
            let run = on(drives, FLUSH_US, option);
            assert_eq!(run.writes, 256);
            // The write itself, and a flush that finds nothing to do: that costs the CPU another request.
            let longer = run.latency_us.mean - plain.latency_us.mean;
            let most = FLUSH_US + (1.0 + 0.5 * drives as f64) * plain.latency_us.mean;
            assert!(
                (FLUSH_US + 5.0..most).contains(&longer),
                "{option}: {longer}"
            );
            assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
        }
    }
    // With libaio nobody waits in the system call, so that no flush follows.
    let lines = "ioengine=libaio\n";
    let plain = on(1, FLUSH_US, lines);
    let run = on(1, FLUSH_US, &format!("{lines}sync=1"));
    let longer = run.latency_us.mean - plain.latency_us.mean;
    assert_eq!(run.writes, 256);
    assert!((longer - FLUSH_US).abs() < 50.0, "{longer}");
    // A direct write that was flushed by its own system call is flushed again where the job asks for it.
    let both = on(1, FLUSH_US, "sync=1\nfsync=1");
    let once = on(1, FLUSH_US, "sync=1");
    let more = (both.seconds - once.seconds) * 1e6 / 255.0;
    assert!((5.0..100.0).contains(&more), "{more} us a write");
}

#[test]
fn a_drive_without_a_volatile_cache_makes_no_difference() {
    let plain = on(1, 0.0, "");
    for lines in ["sync=1", "end_fsync=1", "fsync=1", "fsync_on_close=1"] {
        let run = on(1, 0.0, lines);
        assert_eq!(run.seconds.to_bits(), plain.seconds.to_bits(), "{lines}");
        assert_eq!(run.latency_us.max.to_bits(), plain.latency_us.max.to_bits());
    }
}

/// As fio 3.33: once after the last write, unless `fsync` has done that.
#[test]
fn a_job_flushes_at_its_end() {
    let plain = on(1, FLUSH_US, "");
    for (lines, flushes) in [
        ("end_fsync=1", 1.0),
        ("fsync_on_close=1", 1.0),
        ("end_fsync=1\nfsync_on_close=1", 1.0),
        ("fsync=100\nend_fsync=1", 3.0),
        ("time_based\nruntime=50ms\nend_fsync=1", f64::NAN),
    ] {
        let run = on(1, FLUSH_US, lines);
        let longer = (run.seconds - plain.seconds) * 1e6;
        if flushes.is_nan() {
            assert!((0.050_5..0.051).contains(&run.seconds), "{}", run.seconds);
            continue;
        }
        let least = flushes * FLUSH_US;
        assert!(
            (least..least + 200.0).contains(&longer),
            "{lines}: {longer}"
        );
        assert_eq!(run.writes, 256);
    }
}

/// As fio's JSON: calls of fsync by themselves, apart from the latency of writes.
#[test]
fn fsync_calls_are_counted_and_timed() {
    for (lines, calls) in [
        ("fsync=1", 255),
        ("fsync=4", 63),
        ("fdatasync=100\nend_fsync=1", 3),
    ] {
        for drives in [1, 2] {
            let fsyncs = on(drives, FLUSH_US, lines).fsyncs.unwrap();
            assert_eq!(fsyncs.calls, calls, "{lines} on {drives}");
            let times = [fsyncs.mean_us, fsyncs.p99_us];
            assert!(
                times
                    .iter()
                    .all(|us| (FLUSH_US..1.5 * FLUSH_US).contains(us)),
                "{lines} on {drives}: {times:?}"
            );
            assert!(fsyncs.per_second > 0.0);
        }
    }
    // A write that is durable by itself is no call of fsync, and neither is one without a flush.
    assert!(on(1, FLUSH_US, "sync=1").fsyncs.is_none());
    assert!(on(1, FLUSH_US, "").fsyncs.is_none());
}

/// Commits per second of so many processes over a drive's hardware queues.
fn commits_per_second(queues: usize, processes: usize) -> f64 {
    let mut text =
        "[global]\nfilename=/dev/nvme0n1\ndirect=1\nrw=write\nsize=1m\nfsync=1\n".to_owned();
    for process in 0..processes {
        // Nobody writes while another one begins its flush.
        writeln!(text, "[j{process}]\nstartdelay={}us", 100 * process).unwrap();
    }
    let run = simulate_on_quiet_machine(&text, |machine| {
        machine.drive.flush_us = Figure::assumed(FLUSH_US, "test");
        machine.io_path.completion.queues = Some(queues);
    });
    assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
    run.fsyncs.unwrap().per_second
}

/// As `block/blk-flush.c`: a hardware queue has one flush in the drive, and those who come meanwhile share the next.
#[test]
fn processes_of_a_hardware_queue_share_flushes() {
    // Each process waits for the flush that is in the drive, and then for its own with all others that wait.
    for processes in [2, 4] {
        let shared = commits_per_second(1, processes);
        let most = processes as f64 * 1e6 / (2.0 * FLUSH_US);
        assert!(
            (0.9 * most..1.01 * most).contains(&shared),
            "{processes}: {shared}"
        );
    }
    let own = commits_per_second(6, 4) / commits_per_second(6, 1);
    assert!((3.6..4.1).contains(&own), "{own}");
}
