//! Buffered writes: what they cost, who writes them back, and when.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate};
use wakepath_workloads::fio;

use crate::figures::cache;

const FLUSH_US: f64 = 500.0;
const MIB: u64 = 1 << 20;

/// Drives that write 200 MB/s each, and memory of so many GiB.
fn machine(drives: usize, memory_gib: f64) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.background.clear();
    machine.drive.count = drives;
    machine.drive.chunk_kib = Figure::assumed(64.0, "test");
    machine.drive.spread = Figure::assumed(0.0, "test");
    machine.drive.flush_us = Figure::assumed(FLUSH_US, "test");
    machine.drive.write_mb_per_s = Figure::assumed(200.0, "test");
    machine.drive.read_mb_per_s = Figure::assumed(200.0, "test");
    machine.page_cache.memory_gib = Figure::assumed(memory_gib, "test");
    machine
}

fn try_on(machine: &Machine, lines: &str) -> Result<Run, SimError> {
    let policies = ["menu@6.1", "performance", "cpu-latency[limit=1us]"];
    let policies = PolicySet::from_names(policies).unwrap();
    let text = format!("[j]\nfilename=/dev/nvme0n1\n{lines}");
    let file = fio::parse(&text, "test.fio").unwrap();
    simulate(machine, &file.into(), &policies, 1)
}

fn on(machine: &Machine, lines: &str) -> Run {
    try_on(machine, lines).unwrap()
}

fn parts(run: &Run) -> f64 {
    let mean = serde_json::to_value(run.attribution.mean).unwrap();
    let parts = mean.as_object().unwrap().values();
    parts.map(|part| part.as_f64().unwrap()).sum()
}

/// The drive's own figures: how often it was asked for something.
fn requests_of_drive(run: &Run) -> bool {
    run.same_cpu_share > 0.0
}

#[test]
fn nothing_is_written_back_before_it_is_old() {
    let machine = machine(1, 16.0);
    // 10 MB in all.
    let lines = "rw=write\nrate=1m\nruntime=31\ntime_based\nsize=10m";
    let run = on(&machine, &lines.replace("=31", "=29"));
    let cached = cache(&run);
    assert_eq!(
        (cached.dirtied_bytes, cached.left_bytes),
        (10 * MIB, 10 * MIB)
    );
    assert!(!requests_of_drive(&run) && cached.written_back_bytes == 0);
    // The first page became dirty at 0 s; the kernel looks every 5 s.
    let run = on(&machine, lines);
    let cached = cache(&run);
    assert!(cached.written_back_bytes >= 10 * MIB, "{cached:?}");
    assert!(requests_of_drive(&run));
}

#[test]
fn a_write_takes_what_its_copy_takes() {
    let machine = machine(1, 16.0);
    let cycles = |kib: f64| 1e3 * (1.5 + 2.0 * kib / 4.0);
    for (block, kib) in [("4k", 4.0), ("64k", 64.0), ("1m", 1024.0), ("512", 4.0)] {
        // The first of several writes into a page reads it.
        let after = if block == "512" {
            "norandommap\nrw=randwrite\nsize=4k\nio_size=64k"
        } else {
            "rw=write\nsize=16m"
        };
        let run = on(&machine, &format!("{after}\nbs={block}"));
        let us = cycles(kib) / 3.9e3;
        assert!(
            (run.latency_us.p50 - us).abs() < 0.2 * us + 0.3,
            "{block}: {} not {us}",
            run.latency_us.p50
        );
        assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
    }
}

#[test]
fn a_write_into_a_cached_page_does_without_what_a_new_page_costs() {
    let mut machine = machine(1, 16.0);
    // Of 8 thousand cycles for a new page a read pays 10 less 3, its copy.
    machine.io_path.page_cache_kcycles = Figure::assumed(10.0, "test");
    machine.page_cache.page_kcycles = Figure::assumed(8.0, "test");
    machine.page_cache.read_page_kcycles = Figure::assumed(3.0, "test");
    let us = |page_kcycles: f64| (1.5 + page_kcycles) / 3.9;
    let once = on(&machine, "rw=write\nsize=1m");
    assert!((once.latency_us.p50 - us(8.0)).abs() < 0.1);
    let again = on(&machine, "rw=write\nsize=1m\nio_size=16m");
    assert!((again.latency_us.p50 - us(1.0)).abs() < 0.1);
    let mean = us(8.0) / 16.0 + us(1.0) * 15.0 / 16.0;
    assert!(
        (again.latency_us.mean - mean).abs() < 0.1,
        "{} not {mean}",
        again.latency_us.mean
    );
    // Four clients write the same pages, and each page is new to one of them.
    let four = on(&machine, "rw=write\nsize=1m\nnumjobs=4\ngroup_reporting");
    let mean = us(8.0) / 4.0 + us(1.0) * 3.0 / 4.0;
    assert!(
        (four.latency_us.mean - mean).abs() < 0.1,
        "{} not {mean}",
        four.latency_us.mean
    );
    // A machine file that does not tell what a new page costs has one figure for both.
    machine.page_cache.read_page_kcycles = Figure::default();
    machine.io_path.page_cache_kcycles = Figure::default();
    let one_figure = on(&machine, "rw=write\nsize=1m\nio_size=16m");
    assert!((one_figure.latency_us.mean - us(8.0)).abs() < 0.25);
}

#[test]
fn a_write_waits_for_a_page_that_another_client_has_locked_to_sync_it_again() {
    let mut machine = machine(1, 16.0);
    machine.drive.write_service_us = Figure::assumed(100.0, "test");
    let run = |clients: u32| {
        let lines = "rw=randwrite\nnorandommap\nsize=4k\nfdatasync=1\nrate_iops=400\nrate_process=poisson\nruntime=500ms\ntime_based";
        on(
            &machine,
            &format!("{lines}\nnumjobs={clients}\ngroup_reporting"),
        )
    };
    // One client's page is being written, and a second one's sync waits for that: nobody else is there to write.
    let two = run(2);
    assert!(two.latency_us.max < 10.0, "{}", two.latency_us.max);
    // A third client writes meanwhile: the wait is for the rest of a write of 100 us.
    let three = run(3);
    let max = three.latency_us.max;
    assert!((50.0..150.0).contains(&max), "{max}");
    // Twelve wait in a queue, in which further syncs lock the page again.
    let twelve = run(12);
    let max = twelve.latency_us.max;
    assert!((150.0..1000.0).contains(&max), "{max}");
    assert!(twelve.attribution.mean.queueing > 1.0);
    for run in [two, three, twelve] {
        assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
    }
}

#[test]
fn a_part_of_a_page_that_is_not_cached_is_read_first() {
    let machine = machine(1, 16.0);
    let sequential = on(&machine, "rw=write\nbs=1k\nsize=64k");
    // One of four has to wait for the drive.
    assert!(sequential.latency_us.p50 < 5.0 && sequential.latency_us.max > 20.0);
    assert!(requests_of_drive(&sequential));
    let mean = 4.0 * sequential.latency_us.mean / sequential.latency_us.max;
    assert!((0.9..1.6).contains(&mean), "{mean}");
    assert!((parts(&sequential) - sequential.latency_us.mean).abs() < 1e-6);
    // A file that fio makes has nothing there.
    let text = "[j]\nrw=write\nbs=1k\nsize=64k\n";
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    let file = fio::parse(text, "test.fio").unwrap();
    let run = simulate(&machine, &file.into(), &policies, 1).unwrap();
    assert!(!requests_of_drive(&run) && run.latency_us.max < 20.0);
    assert_eq!(cache(&run).dirtied_bytes, 64 << 10);
}

#[test]
fn an_fsync_waits_for_the_write_and_a_flush() {
    for drives in [1, 2] {
        let machine = machine(drives, 16.0);
        let direct = on(&machine, "direct=1\nrw=write\nsize=1m\nfsync=1");
        let run = on(&machine, "rw=write\nsize=1m\nfsync=1");
        // As fio, which does not flush after the last write.
        let cached = cache(&run);
        assert_eq!(
            (run.writes, cached.written_back_bytes, cached.left_bytes),
            (256, MIB - 4096, 4096)
        );
        // The copy comes in addition, and the submission of the write is the fsync's.
        let us_per_page = |run: &Run| run.seconds * 1e6 / 256.0;
        let longer = us_per_page(&run) - us_per_page(&direct);
        assert!((-1.0..8.0).contains(&longer), "{longer} us");
        assert!(run.latency_us.max < 5.0, "{}", run.latency_us.max);
        // What 32 writes made dirty goes in one request.
        let many = on(&machine, "rw=write\nsize=1m\nfdatasync=32");
        let transfer = 31.0 * 4096.0 / 200.0;
        let each = many.seconds * 1e6 / 7.0 / if drives == 1 { 1.0 } else { f64::NAN };
        if drives == 1 {
            let wanted = FLUSH_US + transfer + machine.drive.write_service_us.value;
            assert!(
                (wanted..wanted + 100.0).contains(&each),
                "{each} not {wanted}"
            );
        }
        // Without a volatile cache there is no flush to wait for.
        let mut machine = machine.clone();
        machine.drive.flush_us = Figure::assumed(0.0, "test");
        let without = on(&machine, "rw=write\nsize=1m\nfsync=1");
        let shorter = us_per_page(&run) - us_per_page(&without);
        assert!(
            (FLUSH_US..FLUSH_US + 30.0).contains(&shorter),
            "{shorter} us"
        );
        assert_eq!(cache(&without).written_back_bytes, MIB - 4096);
    }
}

#[test]
fn a_synchronous_write_has_the_way_to_the_media_in_its_latency() {
    let machine = machine(1, 16.0);
    let run = on(&machine, "rw=write\nsize=1m\nsync=1");
    let fsync = on(&machine, "rw=write\nsize=1m\nfsync=1");
    assert_eq!(run.writes, 256);
    assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
    assert!((run.seconds / fsync.seconds - 1.0).abs() < 0.01);
    assert!(
        run.latency_us.mean > FLUSH_US && run.latency_us.mean * 256.0 / 1e6 > 0.95 * run.seconds
    );
    assert_eq!(cache(&run).left_bytes, 0);
}

#[test]
fn the_end_of_a_job_is_flushed_if_it_says_so() {
    let machine = machine(1, 16.0);
    let plain = on(&machine, "rw=write\nsize=64m");
    assert_eq!(cache(&plain).left_bytes, 64 * MIB);
    assert!(plain.seconds < 0.05);
    for lines in ["end_fsync=1", "fsync_on_close=1"] {
        let run = on(&machine, &format!("rw=write\nsize=64m\n{lines}"));
        let wanted = 64.0 * 1.048_576 / 200.0 + plain.seconds;
        assert!(
            (run.seconds / wanted - 1.0).abs() < 0.1,
            "{lines}: {} not {wanted}",
            run.seconds
        );
        assert_eq!(
            (cache(&run).written_back_bytes, cache(&run).left_bytes),
            (64 * MIB, 0)
        );
    }
}

/// The limits of 0.25 GiB are 26.8, 40 and 53.7 MB.
#[test]
fn an_endless_writer_becomes_as_slow_as_the_drive() {
    for (drives, jobs, pattern) in [
        (1, 1, "write"),
        (1, 4, "write"),
        (2, 1, "write"),
        (1, 1, "randwrite\nbs=64k\nnorandommap"),
    ] {
        let machine = machine(drives, 0.25);
        let run = on(
            &machine,
            &format!(
                "rw={pattern}\nnumjobs={jobs}\noffset_increment=1g\nruntime=8\ntime_based\nsize=1g"
            ),
        );
        let cached = cache(&run);
        assert_eq!(
            cached.dirtied_bytes,
            cached.written_back_bytes + cached.left_bytes
        );
        let rate = cached.written_back_bytes as f64 / run.seconds / 1e6;
        // The first 4 KiB of a request take no time of the link.
        let most = if pattern == "write" {
            1.02
        } else {
            16.0 / 15.0
        };
        let drive = 200.0 * drives as f64;
        assert!(
            (0.9 * drive..most * drive).contains(&rate),
            "{drives} {jobs} {pattern}: {rate} MB/s"
        );
        assert!(
            (13_000_000..54_500_000).contains(&cached.left_bytes),
            "{cached:?}"
        );
        assert!(
            cached.held_back_seconds > 1.0 && run.latency_us.max > 1000.0,
            "{cached:?}"
        );
        assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6);
    }
}

#[test]
fn a_page_that_is_dirty_does_not_become_so_again() {
    let machine = machine(1, 16.0);
    let run = on(&machine, "rw=randwrite\nnorandommap\nsize=1m\nio_size=64m");
    assert_eq!((run.writes, cache(&run).dirtied_bytes), (16_384, MIB));
    // With its random map fio writes each block once.
    let run = on(&machine, "rw=randwrite\nsize=16m");
    assert_eq!(cache(&run).dirtied_bytes, 16 * MIB);
    // All processes have the same device.
    let run = on(&machine, "rw=write\nsize=1m\nnumjobs=4");
    assert_eq!((run.writes, cache(&run).dirtied_bytes), (1024, MIB));
    let run = on(
        &machine,
        "rw=write\nsize=1m\nnumjobs=4\noffset_increment=1m",
    );
    assert_eq!((run.writes, cache(&run).dirtied_bytes), (1024, 4 * MIB));
}

#[test]
fn a_read_of_what_was_written_needs_no_drive() {
    let machine = machine(1, 16.0);
    let run = on(
        &machine,
        "rw=randrw\nnorandommap\nrwmixread=50\nsize=1m\nio_size=64m",
    );
    let reads = run.latency_us.read_mean;
    assert!(run.reads > 7000 && reads < 5.0, "{reads}");
    let text = "[w]\nfilename=/dev/a\nrw=write\nsize=4m\n[r]\nstonewall\nfilename=/dev/a\nrw=randread\nsize=4m\n";
    for (text, cached) in [
        (text.to_owned(), true),
        (text.replace("a\nrw=randread", "b\nrw=randread"), false),
    ] {
        let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
        let file = fio::parse(&text, "test.fio").unwrap();
        let run = simulate(&machine, &file.into(), &policies, 1).unwrap();
        assert_eq!((run.reads, run.latency_us.read_mean < 5.0), (1024, cached));
    }
}

#[test]
fn asynchronous_engines_copy_in_their_submission() {
    let machine = machine(1, 16.0);
    let run_job = |lines: &str| on(&machine, &format!("rw=write\nsize=4m\niodepth=16\n{lines}"));
    let (psync, libaio, uring) = (
        run_job(""),
        run_job("ioengine=libaio"),
        run_job("ioengine=io_uring"),
    );
    assert!((libaio.latency_us.p50 / psync.latency_us.p50 - 1.0).abs() < 0.1);
    // fio takes the first back when 16 are in flight.
    let times = uring.latency_us.p50 / psync.latency_us.p50;
    assert!((14.0..17.0).contains(&times), "{times}");
    assert!((uring.iops / psync.iops - 1.0).abs() < 0.1);
}

#[test]
fn a_pause_before_a_cached_write_is_forgiven_by_its_rate() {
    let lines = "rw=write\nbs=4k\nrate_iops=500\nthinktime=2ms\nrate_ignore_thinktime=1\ntime_based\nruntime=50ms\n";
    let run = on(&machine(1, 4.0), lines);
    assert!((20..=25).contains(&run.requests), "{}", run.requests);
}

#[test]
fn memory_has_a_size() {
    for (memory, wanted) in [(0.0625, true), (0.06, false), (1e6, false), (0.0, false)] {
        let checked = machine(1, memory).check();
        assert_eq!(checked.is_ok(), wanted, "{memory}: {checked:?}");
    }
    // A block that is larger than what may be dirty, on a file that is larger than any drive.
    let run = on(
        &machine(1, 0.0625),
        "rw=write\nbs=256m\nsize=900p\nio_size=512m\nend_fsync=1",
    );
    assert_eq!((run.writes, cache(&run).left_bytes), (2, 0));
    assert!(run.seconds > 2.0, "{}", run.seconds);
}

/// Counts the steps of requests.
struct Watcher(u64);
impl wakepath_sim::observer::Observer for Watcher {
    fn request_step_reached(
        &mut self,
        _: wakepath_units::Nanoseconds,
        _: wakepath_sim::observer::RequestStep,
    ) {
        self.0 += 1;
    }
}

#[test]
fn whoever_looks_on_changes_nothing() {
    let (policies, machine) = (
        PolicySet::from_names(["menu@6.1", "performance"]).unwrap(),
        machine(2, 0.25),
    );
    let text = "[j]\nrw=randrw\nbs=16k\nnorandommap\nruntime=3\ntime_based\nsize=256m\nnumjobs=2\nfsync=50\n";
    let file = fio::parse(text, "test.fio").unwrap().into();
    let mut watcher = Watcher(0);
    let watched =
        wakepath_sim::simulate_observed(&machine, &file, &policies, 3, &mut watcher).unwrap();
    let run = simulate(&machine, &file, &policies, 3).unwrap();
    assert_eq!(
        serde_json::to_string(&watched).unwrap(),
        serde_json::to_string(&run).unwrap()
    );
    assert!(watcher.0 > 4 * run.requests);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn what_was_dirtied_was_written_back_or_is_left(
        pattern in prop::sample::select(vec!["write", "randwrite", "randrw"]),
        engine in prop::sample::select(vec!["psync", "libaio", "io_uring\niodepth=4"]),
        more in prop::sample::select(vec!["", "fsync=7", "sync=1", "end_fsync=1", "fdatasync=1\nrate_iops=500"]),
        block in prop::sample::select(vec!["512", "4k", "12k", "100k", "3m"]),
        (drives, jobs, memory) in (1_usize..3, 1_u32..4, 1_u32..8),
        kib in 3072_u64..40_000,
    ) {
        let machine = machine(drives, f64::from(memory) / 16.0);
        let lines = format!("rw={pattern}\nioengine={engine}\nbs={block}\nnumjobs={jobs}\nsize={kib}k\nruntime=2\n{more}\n");
        let run = on(&machine, &lines);
        let cached = cache(&run);
        prop_assert_eq!(cached.dirtied_bytes, cached.written_back_bytes + cached.left_bytes);
        prop_assert!((parts(&run) - run.latency_us.mean).abs() < 1e-6 * run.latency_us.mean.max(1.0));
        if more == "end_fsync=1" && run.seconds < 2.0 {
            prop_assert_eq!(cached.left_bytes, 0);
        }
        prop_assert_eq!(on(&machine, &lines).seconds.to_bits(), run.seconds.to_bits());
    }
}
