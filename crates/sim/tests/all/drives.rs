//! What holds for every drive, APST policy and workload in a whole simulation.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::drive::DriveLibrary;
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::{Workload, fio};

const APST: [&str; 5] = [
    "apst",
    "apst[rule=legacy]",
    "apst[max_latency_us=0]",
    "apst[primary_timeout_ms=5,secondary_timeout_ms=20]",
    "apst[no_deepest=on]",
];

/// Without an APST policy the drive never sleeps.
fn policies(apst: Option<&str>) -> PolicySet {
    PolicySet::from_names([apst.unwrap_or("apst[max_latency_us=0]")]).unwrap()
}

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

fn laptop_with(drive: DriveModel) -> Machine {
    let mut machine = Machine::find("laptop").unwrap();
    machine.drive = drive;
    machine
}

fn run(drive: &str, lines: &str, apst: Option<&str>) -> Run {
    let machine = laptop_with(DriveModel::find(drive).unwrap());
    simulate(&machine, &job(lines), &policies(apst), 1).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn the_times_of_a_drive_add_up_to_the_run(
        drive in 0..1171_usize,
        apst in 0..APST.len(),
        rw in prop::sample::select(vec!["randread", "write", "randrw"]),
        depth in 1_u32..5,
        (think_ms, blocks) in (0_u32..400, 1_u32..50),
        seed in any::<u64>(),
    ) {
        let table = DriveLibrary::builtin().tables().nth(drive).unwrap();
        let machine = laptop_with(DriveModel::from_declared_drive(&table.drive));
        let job = job(&format!(
            "rw={rw}\nioengine=libaio\niodepth={depth}\nruntime=1s\nthinktime={think_ms}ms\n\
             thinktime_blocks={blocks}\n"
        ));
        let run = simulate(&machine, &job, &policies(Some(APST[apst])), seed).unwrap();
        let d = run.drive.unwrap();
        let states: f64 = d.states.iter().map(|s| s.seconds).sum();
        prop_assert!((states + d.active_seconds + d.transition_seconds - run.seconds).abs() < 1e-6);
        prop_assert!((d.average_mw / 1e3 * run.seconds - d.energy_pj as f64 / 1e12).abs() < 1e-6);
        prop_assert!(d.wake_ups <= run.requests);
        let e = run.energy.unwrap();
        let drive_mj: f64 = e.drives_mj.iter().sum();
        prop_assert!((drive_mj - d.energy_pj as f64 / 1e9).abs() <= 1e-6, "{drive_mj}");
        let parts = (e.cpus_mj.iter().chain(&e.clusters_mj).chain(&e.uncores_mj)).sum::<f64>()
            + e.package_mj
            + drive_mj;
        prop_assert!((parts - e.total_mj).abs() <= 1e-9 * e.total_mj);
        // A request that finds the drive asleep waits for it.
        prop_assert!(d.wake_ups == 0 || run.latency_us.max * 1.001 >= d.mean_wake_us);
        prop_assert!(d.background_seconds <= states);
        prop_assert_eq!(d.wake_us.is_some(), d.wake_ups > 0);
        if let Some(waits) = d.wake_us {
            prop_assert!(0.0 < waits.p50 && waits.p50 <= waits.p99 && waits.p99 <= waits.max);
            prop_assert!(d.mean_wake_us <= waits.max * 1.001);
        }
    }
}

/// Reads after pauses of 150 ms find the drive in one state, so that all waits are equal; a warm-up's waits do not count.
#[test]
fn percentiles_of_waits_are_those_of_the_counted_wake_ups() {
    let pause = "rw=randread\nthinktime=150ms\nruntime=5s\nramp_time=1s\n";
    let slept = run("760p", pause, Some("apst")).drive.unwrap();
    let waits = slept.wake_us.unwrap();
    assert!(slept.wake_ups > 20, "{}", slept.wake_ups);
    for wait in [waits.p50, waits.p99, waits.max] {
        assert!((wait / slept.mean_wake_us - 1.0).abs() < 0.001, "{waits:?}");
    }
    let awake = run("760p", pause, Some("apst[max_latency_us=0]"));
    let awake = awake.drive.unwrap();
    assert_eq!((awake.wake_ups, awake.wake_us), (0, None));
}

#[test]
fn a_single_read_after_a_pause_waits_for_the_true_exit_latency() {
    let pause = "rw=randread\nthinktime=150ms\nruntime=5s\n";
    let mean = |drive, apst| run(drive, pause, apst).latency_us.p50;
    let (awake, asleep) = (mean("760p", None), mean("760p", Some("apst")));
    // 53 ms where 8 are declared; the rest of a link that is in no power state is hidden behind it.
    assert!((50_000.0..54_000.0).contains(&(asleep - awake)));
}

#[test]
fn back_to_back_requests_never_meet_a_sleeping_drive() {
    let busy = "rw=write\nioengine=libaio\niodepth=2\nruntime=300ms\n";
    let with = |apst| run("pm991", busy, apst);
    let (legacy, current) = (with(Some("apst[rule=legacy]")), with(Some("apst")));
    assert_eq!(legacy.requests, current.requests);
    assert_eq!(current.drive.unwrap().wake_ups, 0);
}

#[test]
fn a_full_buffer_slows_writes_down_to_the_media() {
    let mut drive = DriveModel::find("sn530").unwrap();
    let buffer = drive.buffer.as_mut().unwrap();
    buffer.kib.value = 64.0;
    buffer.media_us.value = 500.0;
    let writes = job("rw=write\nioengine=libaio\niodepth=8\nruntime=2s\n");
    let run = simulate(&laptop_with(drive), &writes, &policies(None), 1).unwrap();
    assert!((1950.0..2050.0).contains(&run.iops), "{}", run.iops);
    let d = run.drive.unwrap();
    assert!(d.active_seconds > 0.99 * run.seconds);
}

#[test]
fn apst_needs_a_drive_with_power_states() {
    let machine = Machine::find("rk3399").unwrap();
    let job = job("rw=randread\nruntime=10ms\n");
    let error = simulate(&machine, &job, &policies(Some("apst")), 1).unwrap_err();
    assert!(error.to_string().contains("--drive"), "{error}");
    let error = simulate(
        &machine,
        &job,
        &"drive-latency[tolerance=any]".parse().unwrap(),
        1,
    );
    assert!(error.unwrap_err().to_string().contains("--drive"));
}

/// What fio 3.33 does at depth 4 with a pause after every block: it fills the queue once, waits for
/// all of it, and from then on makes one request per pause. (23 requests in 3 s with 150 ms.)
#[test]
fn a_pause_begins_when_nothing_is_in_flight() {
    let job = "rw=randread\nioengine=libaio\niodepth=4\nthinktime=150ms\nruntime=3s\n";
    // Requests counted with fio's libaio engine on a file. How many completions it takes at once
    // depends on the device, which shows at depths well above the number of blocks.
    for (depth, blocks, fio) in [(1, 5, 100), (2, 1, 21), (4, 1, 23), (4, 2, 51), (8, 3, 101)] {
        let job = job.replace(
            "iodepth=4",
            &format!("iodepth={depth}\nthinktime_blocks={blocks}"),
        );
        let awake = run("sn530", &job, None);
        assert!(
            awake.requests.abs_diff(fio) * 100 <= fio * 12,
            "{depth} {blocks}: {}",
            awake.requests
        );
    }
    let drive = run("sn530", job, Some("apst")).drive.unwrap();
    assert!((17..=19).contains(&drive.wake_ups), "{}", drive.wake_ups);
}

/// A machine whose CPUs take no time, so that a request's latency is the drive's.
fn only_drives(count: usize) -> Machine {
    let mut machine = Machine::find("xeon-6741p").unwrap();
    machine.io_path.kcycles_per_io.value = 0.0;
    machine.background.clear();
    machine.io_path.completion.queues = None;
    machine.package = None;
    machine.drive.read_stream_mb_per_s.value = 0.0;
    for state in &mut machine.idle_state {
        state.true_exit_us.value = 0.0;
        state.exit_spread.value = 0.0;
        state.cold_start_kcycles.value = 0.0;
    }
    let drive = &mut machine.drive;
    drive.count = count;
    drive.chunk_kib.value = 64.0;
    drive.spread.value = 0.0;
    drive.read_service_us.value = 100.0;
    drive.write_service_us.value = 20.0;
    drive.read_mb_per_s.value = 4.096;
    drive.write_mb_per_s.value = 8.192;
    machine
}

fn blocks(machine: &Machine, lines: &str) -> Run {
    blocks_of("/dev/md0", machine, lines)
}

fn blocks_of(file: &str, machine: &Machine, lines: &str) -> Run {
    let text = format!("[j]\nfilename={file}\ndirect=1\n{lines}");
    let job = fio::parse(&text, "test.fio").unwrap().into();
    simulate(machine, &job, &PolicySet::default(), 1).unwrap()
}

/// 4 KiB take a millisecond over the link in these drives, beyond the first ones.
#[test]
fn a_request_takes_its_access_and_the_transfer_of_its_largest_piece() {
    for (drives, lines, us) in [
        (1, "rw=read\nbs=512", 100),
        (1, "rw=read\nbs=4k", 100),
        (1, "rw=read\nbs=16k", 3100),
        (1, "rw=write\nbs=16k\nscramble_buffers=0", 1520),
        (1, "rw=randread\nbs=64k", 15_100),
        // One piece, then two halves, then four whole chunks.
        (4, "rw=randread\nbs=64k", 15_100),
        (4, "rw=read\nbs=128k", 15_100),
        (4, "rw=randread\nbs=256k", 15_100),
        // Two chunks on each drive are one piece.
        (4, "rw=randread\nbs=512k", 31_100),
    ] {
        let run = blocks(&only_drives(drives), &format!("{lines}\nsize=4m\n"));
        let (mean, max) = (run.latency_us.mean, run.latency_us.max);
        let us = f64::from(us);
        assert!(
            (us..us + 0.1).contains(&mean) && max < us * 1.003,
            "{drives} {lines}: {mean} {max}"
        );
        let parts = run.attribution.mean;
        assert!(
            (parts.drive_service - us).abs() < 0.1 && parts.queueing == 0.0,
            "{parts:?}"
        );
    }
}

/// How many requests fio 3.33 makes with its null engine.
#[test]
fn a_size_makes_as_many_requests_as_in_fio() {
    for (lines, fio) in [
        ("rw=read\nbs=4k\nsize=10k", 2),
        ("rw=randread\nbs=4k,64k\nsize=100k", 25),
        ("rw=write\nbs=1m\nsize=8m\nnumjobs=3", 24),
    ] {
        let run = blocks_of("data", &only_drives(1), lines);
        assert_eq!(run.requests, fio, "{lines}");
    }
    let mixed = blocks(&only_drives(1), "rw=rw\nbs=4k,16k\nsize=1m");
    let kib = mixed.reads * 4 + mixed.writes * 16;
    assert!((1024..1024 + 16).contains(&kib), "{mixed:?}");
}

#[test]
fn a_volume_of_several_drives_reads_as_fast_as_all_of_them() {
    let mut machine = only_drives(6);
    machine.drive.read_mb_per_s.value = 1000.0;
    machine.drive.chunk_kib.value = 512.0;
    let run = blocks(
        &machine,
        "rw=randread\nbs=1m\nnumjobs=32\nruntime=1s\nsize=1g\ntime_based",
    );
    let bytes_per_s = run.read_bytes as f64 / run.seconds;
    assert!((5.0e9..6.03e9).contains(&bytes_per_s), "{bytes_per_s}");
}

#[test]
fn reads_wait_for_programs_and_share_the_flash_with_them() {
    let mut machine = only_drives(1);
    machine.drive.read_mb_per_s.value = 6500.0;
    machine.drive.write_mb_per_s.value = 6500.0;
    let reads = |machine: &Machine, rw: &str, jobs: u32| {
        let lines = format!("rw={rw}\nbs=128k\nnumjobs={jobs}\nruntime=1s\nsize=1g\ntime_based");
        blocks(machine, &lines)
    };
    let few = |machine: &Machine, rw: &str| reads(machine, rw, 4).latency_us.read_mean;
    let both = few(&machine, "randrw");
    let wait = both - few(&machine, "randread");
    // Half a program as far as anything is programmed, and no more than one.
    assert!((100.0..450.0).contains(&wait), "{wait}");

    let many = reads(&machine, "randrw", 32);
    let rate = |bytes: u64| bytes as f64 / many.seconds;
    let flash = machine.drive.flash.as_ref().unwrap();
    let buffer = machine.drive.buffer.as_ref().unwrap();
    let busy = rate(many.read_bytes) / (flash.read_mb_per_s.value * 1e6)
        + rate(many.written_bytes) / 4096.0 * buffer.media_us.value / 1e6;
    assert!((0.95..1.01).contains(&busy), "{busy}");

    machine.drive.flash = None;
    let apart = few(&machine, "randrw");
    assert!(apart < both - 100.0, "{apart}");
}
