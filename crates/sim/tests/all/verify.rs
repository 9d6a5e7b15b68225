//! Jobs that read back what they wrote (fio's `verify`): how much, when, and what it costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio;

use crate::quiet::simulate_on_quiet_machine;

/// A job of 64 blocks on a machine without background work, whose drive takes 500 us for a flush or as given.
fn run_with_flushes(lines: &str, flush_us: f64) -> Run {
    let text = format!("[j]\nfilename=/dev/nvme0n1\ndirect=1\nsize=256k\n{lines}\n");
    simulate_on_quiet_machine(&text, |machine| {
        machine.drive.flush_us = Figure::assumed(flush_us, "test");
    })
}

fn run(lines: &str) -> Run {
    run_with_flushes(lines, 0.0)
}

fn counts(lines: &str) -> [u64; 4] {
    let run = run(lines);
    [run.reads, run.writes, run.read_bytes, run.written_bytes]
}

#[test]
fn each_pass_reads_back_what_it_wrote() {
    const ALL: u64 = 256 << 10;
    for (lines, reads, writes) in [
        ("rw=write", 64, 64),
        ("rw=randwrite", 64, 64),
        ("rw=write\nioengine=libaio\niodepth=8", 64, 64),
        (
            "rw=randwrite\nioengine=io_uring\niodepth=16\niodepth_batch=4",
            64,
            64,
        ),
        ("rw=write\nloops=3", 192, 192),
        ("rw=write\nbs=64k", 4, 4),
        (
            "rw=write\nverify_backlog=5\nioengine=libaio\niodepth=4",
            64,
            64,
        ),
        (
            "rw=randwrite\nverify_backlog=3\nverify_backlog_batch=1",
            64,
            64,
        ),
        // What is read back counts as I/O of the job: fio 3.33 does 6 and 6 of 10, and goes twice through 1 of 2.5 sizes.
        ("rw=write\nverify_backlog=4\nnumber_ios=10", 6, 6),
        ("rw=write\nio_size=640k", 128, 128),
        ("rw=write\nnumjobs=2", 128, 128),
        (
            "rw=write\nfsync=8\nend_fsync=1\nthinktime=50\nrate_iops=5000",
            64,
            64,
        ),
        ("rw=write\ndo_verify=0", 0, 64),
    ] {
        let block = ALL / 64 * if lines.contains("bs=64k") { 16 } else { 1 };
        let wanted = [reads, writes, reads * block, writes * block];
        assert_eq!(
            counts(&format!("{lines}\nverify=crc32c")),
            wanted,
            "{lines}"
        );
    }
}

#[test]
fn mixed_jobs_read_back_their_writes_only() {
    let [reads, writes, ..] = counts("rw=randrw\nverify=crc32c");
    assert!((15..50).contains(&writes), "{writes}");
    // Own reads and writes are 64 together.
    assert_eq!(reads, 64);
    let [reads, writes, ..] = counts("rw=randrw\nverify=crc32c\ndo_verify=0");
    assert_eq!(reads + writes, 64);
}

/// As fio, which drops the older write of two to one place.
#[test]
fn what_was_overwritten_is_read_back_once() {
    let [reads, writes, ..] = counts("rw=randwrite\nnorandommap\nverify=crc32c");
    assert_eq!(writes, 64);
    // 63.6 % of the blocks in the mean.
    assert!((32..50).contains(&reads), "{reads}");
    // fio goes twice through 16 blocks, since what it reads back counts towards the size.
    let [reads, writes, ..] = counts("rw=write:12k\nverify=crc32c");
    assert_eq!((reads, writes), (32, 32));
}

#[test]
fn a_job_that_its_runtime_cuts_reads_nothing_back() {
    let timed = "rw=write\nverify=crc32c\nsize=4g\nruntime=100ms";
    assert_eq!(counts(timed)[0], 0);
    let time_based = "rw=write\nverify=crc32c\nruntime=100ms\ntime_based";
    assert_eq!(counts(time_based)[0], 0);
    let [reads, writes, ..] = counts(&format!("{time_based}\nioengine=libaio"));
    assert!(
        reads > 100 && reads.abs_diff(writes) <= 64,
        "{reads} {writes}"
    );
    let [reads, writes, ..] = counts(&format!("{time_based}\nverify_backlog=4"));
    assert!(
        reads > 100 && reads.abs_diff(writes) <= 4,
        "{reads} {writes}"
    );
}

#[test]
fn a_flush_comes_before_the_second_pass() {
    let lines = "rw=write\nverify=crc32c";
    let (quick, slow) = (run(lines), run_with_flushes(lines, 5000.0));
    let longer = (slow.seconds - quick.seconds) * 1e6;
    assert!((4900.0..5600.0).contains(&longer), "{longer}");
    assert_eq!((slow.reads, slow.writes), (64, 64));
}

/// 3,910 cycles per KiB of a CPU that does at most some 2 GHz, for 256 KiB: outside of the latency.
#[test]
fn checking_takes_the_cpu_for_what_is_read_back() {
    let (plain, checked) = (run("rw=write\nverify=meta"), run("rw=write\nverify=md5"));
    let longer = (checked.seconds - plain.seconds) * 1e3;
    // Each KiB is summed before the write and after the read.
    assert!((0.9..3.0).contains(&longer), "{longer} ms longer");
}

/// A rate holds for the writes; the second pass is not part of the time in which it is reached.
#[test]
fn a_rate_is_reached_although_the_second_pass_takes_its_time() {
    let run = run("rw=write\nrate_iops=2000\nverify=sha3-512\nsize=1m\nbs=4k");
    let rate = &run.rates[0];
    assert_eq!(rate.direction, "write");
    assert!(rate.achieved_share() > 0.97, "{rate:?}");
    assert_eq!((run.reads, run.writes), (256, 256));
}

#[test]
fn the_second_pass_of_buffered_random_writes_reads_from_the_drive() {
    let machine = Machine::find("rk3399").unwrap();
    let policies = PolicySet::from_names(["menu@6.1"]).unwrap();
    let text = "[j]\nrw=randwrite\nsize=256k\nverify=crc32c\nfilename=x\n";
    let file = fio::parse(text, "test.fio").unwrap();
    let run = simulate(&machine, &file.into(), &policies, 1).unwrap();
    assert_eq!((run.reads, run.writes), (64, 64));
    let cache = run.page_cache.unwrap();
    assert_eq!(cache.written_back_bytes, 256 << 10, "{cache:?}");
    // A read of what is in memory takes a few microseconds.
    assert!(run.seconds > 64.0 * 50e-6, "{}", run.seconds);
}

/// A buffered job with 256 KiB and these lines.
fn run_buffered(lines: &str) -> Run {
    let text = format!("[j]\nfilename=x\nsize=256k\nverify=md5\n{lines}\n");
    simulate_on_quiet_machine(&text, |_| {})
}

#[test]
fn the_second_pass_of_buffered_sequential_writes_is_read_ahead() {
    let run = run_buffered("rw=write");
    assert_eq!((run.reads, run.writes), (64, 64));
    let cache = run.page_cache.unwrap();
    // All is written back and dropped before, and read once, in a few requests of a window that grows.
    assert_eq!(cache.written_back_bytes, 256 << 10, "{cache:?}");
    assert_eq!(cache.read_bytes, 256 << 10, "{cache:?}");
    assert!((2..8).contains(&cache.read_requests), "{cache:?}");
    assert_eq!(cache.copied_bytes, 256 << 10, "{cache:?}");
    // Without read-ahead each of the 64 blocks is waited for.
    let alone = run_buffered("rw=write\nfadvise_hint=random");
    assert!(
        alone.seconds > run.seconds + 40.0 * 50e-6,
        "{} {}",
        alone.seconds,
        run.seconds
    );
}

#[test]
fn buffered_writes_that_are_read_back_at_once_come_from_memory() {
    let run = run_buffered("rw=write\nverify_backlog=8");
    assert_eq!((run.reads, run.writes), (64, 64));
    let cache = run.page_cache.unwrap();
    // Only what the backlog left is read from the drive.
    assert!(cache.read_bytes <= 8 * 4096, "{cache:?}");
    for lines in [
        "rw=write\nloops=2",
        "rw=rw",
        "rw=write\nnumjobs=2",
        "rw=write\nioengine=libaio\niodepth=8",
        "rw=write\nverify_async=2",
        "rw=write\nbs=10k\nexperimental_verify=1",
    ] {
        let run = run_buffered(lines);
        let writes = run.written_bytes;
        assert!(
            run.read_bytes >= writes && writes > 0,
            "{lines}: {} {writes}",
            run.read_bytes
        );
    }
}
