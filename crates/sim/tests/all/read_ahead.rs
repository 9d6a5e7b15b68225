//! Buffered reads that are read ahead: what reaches the drive, what is found in memory, and who waits.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate};
use wakepath_workloads::fio;

use crate::figures::{cache, parts_add_up};

const MIB: u64 = 1 << 20;

/// A machine with drives that read 1000 MB/s, and memory of so many GiB.
fn machine(kernel: &str, drives: usize, memory_gib: f64) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.background.clear();
    machine.kernel = Some(kernel.parse().unwrap());
    machine.drive.count = drives;
    machine.drive.chunk_kib = Figure::assumed(64.0, "test");
    machine.drive.spread = Figure::assumed(0.0, "test");
    machine.drive.flush_us = Figure::assumed(500.0, "test");
    machine.drive.write_mb_per_s = Figure::assumed(1000.0, "test");
    machine.drive.read_mb_per_s = Figure::assumed(1000.0, "test");
    machine.drive.read_stream_mb_per_s = Figure::default();
    machine.page_cache.memory_gib = Figure::assumed(memory_gib, "test");
    machine
}

fn simulate_text(machine: &Machine, text: &str) -> Result<Run, SimError> {
    let policies = PolicySet::from_names(["menu@6.12", "performance"]).unwrap();
    simulate(
        machine,
        &fio::parse(text, "test.fio").unwrap().into(),
        &policies,
        1,
    )
}

fn on(machine: &Machine, lines: &str) -> Run {
    simulate_text(machine, &format!("[j]\nfilename=/dev/nvme0n1\n{lines}")).unwrap()
}

/// Mean KiB of a request that reads into the page cache.
fn kib_per_request(run: &Run) -> f64 {
    cache(run).read_bytes as f64 / cache(run).read_requests as f64 / 1024.0
}

#[test]
fn a_sequential_reader_is_read_ahead_of() {
    for kernel in ["6.1", "6.12", "7.3"] {
        let machine = machine(kernel, 1, 16.0);
        let run = on(&machine, "rw=read\nbs=4k\nsize=64m");
        assert_eq!(run.reads, 64 * 256);
        // The window of 128 KiB is doubled by fio's hint, and the last two go beyond what is read.
        let read = cache(&run).read_bytes;
        assert!(
            (64 * MIB..=64 * MIB + (512 << 10)).contains(&read),
            "{read}"
        );
        assert!(
            (245.0..=256.0).contains(&kib_per_request(&run)),
            "{}",
            kib_per_request(&run)
        );
        assert_eq!(cache(&run).copied_bytes, 64 * MIB);
        // While a window is copied, the next one is on its way, and none after it.
        let seconds = 64.0 * 1.048_576 / 1000.0;
        assert!(
            (seconds..1.7 * seconds).contains(&run.seconds),
            "{kernel}: {}",
            run.seconds
        );
        // Most reads find their page, and some wait.
        assert!(
            run.latency_us.p50 < 3.0 && run.latency_us.max > 100.0,
            "{:?}",
            run.latency_us
        );
        assert!(parts_add_up(&run));
    }
}

#[test]
fn hint_and_device_decide_how_far() {
    let mut machine = machine("6.12", 1, 16.0);
    let kib = |machine: &Machine, lines: &str| {
        let run = on(machine, &format!("rw=read\nsize=64m\n{lines}"));
        assert!(parts_add_up(&run), "{lines}");
        kib_per_request(&run)
    };
    assert!((120.0..=128.0).contains(&kib(&machine, "fadvise_hint=0")));
    assert!((kib(&machine, "fadvise_hint=random") - 4.0).abs() < 1e-9);
    assert!((kib(&machine, "fadvise_hint=random\nbs=64k") - 64.0).abs() < 1e-9);
    machine.drive.read_ahead_kb = Figure::assumed(1024.0, "test");
    assert!((950.0..=1280.0).contains(&kib(&machine, "")));
    machine.drive.read_ahead_kb = Figure::assumed(0.0, "test");
    assert!((kib(&machine, "bs=16k") - 4.0).abs() < 1e-9);
}

/// As the kernel in recorded cases (`10+2` after `0+2`, `996+4` after `1000+4`): only the first read, at the file's begin, starts a
/// window.
#[test]
fn reads_with_gaps_and_backwards_are_read_alone() {
    let machine = machine("6.12", 1, 16.0);
    for rw in ["read:16k", "read:-8k"] {
        let text = format!("[j]\nrw={rw}\nsize=4m\n");
        let run = simulate_text(&machine, &text).unwrap();
        let blocks = cache(&run).copied_bytes / 4096;
        assert_eq!(run.reads, blocks, "{rw}");
        assert!(
            (4.0..4.2).contains(&kib_per_request(&run)),
            "{rw}: {:?}",
            cache(&run)
        );
        assert!(parts_add_up(&run), "{rw}");
    }
}

#[test]
fn a_policy_sets_the_window_as_the_device_does() {
    let mut machine = machine("6.12", 1, 16.0);
    let job = "[j]\nfilename=/dev/nvme0n1\nrw=read\nsize=64m\n";
    let workload = fio::parse(job, "test.fio").unwrap().into();
    let names = ["menu@6.12", "performance", "read-ahead[kb=1024]"];
    let policies = PolicySet::from_names(names).unwrap();
    let by_policy = simulate(&machine, &workload, &policies, 1).unwrap();
    machine.drive.read_ahead_kb = Figure::assumed(1024.0, "test");
    let by_device = simulate_text(&machine, job).unwrap();
    let [by_policy, by_device] =
        [by_policy, by_device].map(|run| serde_json::to_value(run.page_cache).unwrap());
    assert_eq!(by_policy, by_device);
}

#[test]
fn a_page_that_is_read_costs_its_copy_and_what_is_left_for_a_new_one() {
    let read = |copy_kcycles: f64, lines: &str| {
        let mut machine = machine("6.12", 1, 16.0);
        machine.io_path.page_cache_kcycles = Figure::assumed(40.0, "test");
        machine.page_cache.page_kcycles = Figure::assumed(30.0, "test");
        machine.page_cache.read_page_kcycles = Figure::assumed(copy_kcycles, "test");
        on(&machine, &format!("rw=read\nbs=64k\n{lines}"))
    };
    // Most of these find all of their pages in memory, and copy them.
    let again = "size=1m\ninvalidate=0\ntime_based\nruntime=100ms";
    let [cheap, middle, dear] = [2.0, 4.0, 6.0].map(|copy| read(copy, again).latency_us.p50);
    assert!(middle - cheap > 1.0 && ((dear - middle) / (middle - cheap) - 1.0).abs() < 0.05);
    // A new page costs as much in all, whatever its copy does.
    let [cheap, dear] = [2.0, 6.0].map(|copy| read(copy, "size=64m").seconds);
    assert!((dear / cheap - 1.0).abs() < 0.02, "{cheap} {dear}");
}

#[test]
fn what_is_read_again_is_in_memory() {
    let machine = machine("6.12", 1, 16.0);
    let read_mib = |lines: &str| {
        let run = on(&machine, &format!("rw=read\nsize=8m\n{lines}"));
        (cache(&run).read_bytes as f64 / MIB as f64, run)
    };
    let (once, run) = read_mib("time_based\nruntime=1");
    assert!(
        (8.0..8.51).contains(&once) && run.reads > 20 * 2048,
        "{once} {}",
        run.reads
    );
    // fio drops what is cached when it opens the file for another pass.
    let (twice, _) = read_mib("loops=2");
    assert!((16.0..17.1).contains(&twice), "{twice}");
    let (kept, _) = read_mib("loops=2\ninvalidate=0");
    assert!((8.0..8.51).contains(&kept), "{kept}");
    // Random reads of any block find what was read before: 1 - exp(-2) of the file is read.
    let (random, run) = read_mib("rw=randread\nnorandommap\nio_size=16m");
    assert!(
        (6.7..7.1).contains(&random) && run.reads == 4096,
        "{random}"
    );
    assert!(run.latency_us.p50 > 50.0 || run.latency_us.p50 < 3.0);
    // 4096 reads by Zipf's law come to 628 of the 2048 blocks in fio.
    let (uneven, run) = read_mib("rw=randread\nrandom_distribution=zipf:1.2\nio_size=16m");
    assert!((2.3..2.6).contains(&uneven), "{uneven}");
    assert!(run.reads == 4096 && run.latency_us.p50 < 3.0);
}

#[test]
fn readers_of_one_file_share_what_is_read() {
    let machine = machine("6.12", 1, 16.0);
    for jobs in [1, 2, 4] {
        let run = on(
            &machine,
            &format!("rw=read\nbs=16k\nsize=32m\nnumjobs={jobs}"),
        );
        assert_eq!(run.reads, jobs * 2048);
        let read = cache(&run).read_bytes as f64 / MIB as f64;
        assert!((32.0..32.6).contains(&read), "{jobs}: {read}");
        assert!(parts_add_up(&run));
    }
    // Without a name each process has a file.
    let run = simulate_text(&machine, "[j]\nrw=read\nbs=16k\nsize=32m\nnumjobs=2\n").unwrap();
    assert_eq!(cache(&run).read_bytes, 64 * MIB);
    // A later job drops what an earlier one has read, unless it is told not to.
    for (lines, mib) in [("", 64.0), ("invalidate=0", 32.0)] {
        let text = format!(
            "[a]\nfilename=/dev/a\nrw=read\nsize=32m\n[b]\nstonewall\nfilename=/dev/a\nrw=read\nsize=32m\n{lines}\n"
        );
        let read = cache(&simulate_text(&machine, &text).unwrap()).read_bytes as f64 / MIB as f64;
        assert!((mib..mib + 1.1).contains(&read), "{lines}: {read}");
    }
}

#[test]
fn a_deep_queue_of_libaio_is_as_deep_as_read() {
    let machine = machine("6.12", 1, 16.0);
    let seconds =
        |lines: &str| on(&machine, &format!("rw=read\nbs=64k\nsize=32m\n{lines}")).seconds;
    let (psync, libaio) = (seconds(""), seconds("ioengine=libaio\niodepth=32"));
    assert!((libaio / psync - 1.0).abs() < 0.05, "{psync} {libaio}");
    assert!((seconds("ioengine=io_uring") / psync - 1.0).abs() < 0.05);
}

#[test]
fn a_drive_of_unknown_rate_is_refused() {
    let mut machine = machine("6.12", 1, 16.0);
    machine.drive.read_mb_per_s = Figure::default();
    let error = simulate_text(&machine, "[j]\nrw=read\nsize=1m\n")
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("job 'j'") && error.contains("drive.read_mb_per_s"),
        "{error}"
    );
}

#[test]
fn memory_bounds_what_is_kept() {
    // 64 MiB of memory for a file of 128 MiB: the second pass finds nothing of the begin.
    let machine = machine("6.12", 1, 0.0625);
    let run = on(
        &machine,
        "rw=read\nbs=64k\nsize=128m\nloops=2\ninvalidate=0",
    );
    assert!(
        cache(&run).read_bytes > 200 * MIB,
        "{}",
        cache(&run).read_bytes
    );
    assert_eq!(run.reads, 4096);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn buffered_readers_come_to_their_end(
        pattern in prop::sample::select(vec!["read", "rw", "randread\nnorandommap", "randread\nfadvise_hint=sequential", "randrw\ninvalidate=0"]),
        engine in prop::sample::select(vec![
            "psync", "libaio\niodepth=4", "io_uring", "io_uring\niodepth=7", "io_uring\niodepth=16\niodepth_batch=5", "posixaio", "mmap",
        ]),
        kernel in prop::sample::select(vec!["6.1", "6.12", "6.18", "7.3"]),
        more in prop::sample::select(vec!["", "fadvise_hint=0", "loops=2", "rate_iops=2000", "fsync=5", "thinktime=100", "invalidate=0"]),
        block in prop::sample::select(vec!["512", "4k", "12k", "100k", "1m"]),
        (drives, jobs, memory, ahead) in (1_usize..3, 1_u32..4, 1_u32..4, 0_u32..600),
        kib in 3072_u64..20_000,
    ) {
        let mut machine = machine(kernel, drives, f64::from(memory) / 16.0);
        machine.drive.read_ahead_kb = Figure::assumed(f64::from(ahead), "test");
        let lines = format!("rw={pattern}\nioengine={engine}\nbs={block}\nnumjobs={jobs}\nsize={kib}k\nruntime=2\n{more}\n");
        let run = on(&machine, &lines);
        prop_assert!(parts_add_up(&run));
        // Random reads without a hint ask for no memory of pages.
        let Some(cached) = run.page_cache else { return Ok(()) };
        prop_assert_eq!(cached.dirtied_bytes, cached.written_back_bytes + cached.left_bytes);
        prop_assert!(cached.read_requests <= cached.read_bytes / 4096);
        prop_assert_eq!(on(&machine, &lines).seconds.to_bits(), run.seconds.to_bits());
    }
}

/// fio drops what is cached of the file (`posix_fadvise(POSIX_FADV_DONTNEED)`) before each pass through a random map.
#[test]
fn random_reads_miss_again_in_each_pass() {
    let machine = machine("6.12", 1, 16.0);
    let runs = ["size=1m", "size=1g"].map(|size| {
        let lines = format!("rw=randread\nbs=4k\ntime_based\nruntime=200ms\n{size}");
        on(&machine, &lines)
    });
    let passes = runs[0].reads as f64 / 256.0;
    assert!(passes > 2.0, "{passes}");
    let ratio = runs[0].reads as f64 / runs[1].reads as f64;
    assert!((ratio - 1.0).abs() < 0.01, "{ratio}");
    let [short, long] = runs.map(|run| run.latency_us.mean);
    assert!((short / long - 1.0).abs() < 0.01, "{short} {long}");
    let looped = on(&machine, "rw=randread\nbs=4k\nsize=1m\nloops=5");
    assert_eq!(looped.reads, 5 * 256);
}
