//! Reads of mapped files (`ioengine=mmap`) and of io_uring with several in flight, through the page cache: what reaches the drive
//! beside what Linux sent, and how long it takes.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;
use std::process::Command;

use serde_json::Value;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio;

use crate::figures::{cache, parts_add_up};

/// A quiet machine with a drive that reads 1000 MB/s, and memory of so many GiB.
fn machine(kernel: &str, memory_gib: f64) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.background.clear();
    machine.kernel = Some(kernel.parse().unwrap());
    machine.drive.count = 1;
    machine.drive.spread = Figure::assumed(0.0, "test");
    machine.drive.read_mb_per_s = Figure::assumed(1000.0, "test");
    machine.drive.read_stream_mb_per_s = Figure::default();
    machine.drive.read_ahead_kb = Figure::assumed(128.0, "test");
    machine.page_cache.memory_gib = Figure::assumed(memory_gib, "test");
    machine
}

fn run_on(machine: &Machine, lines: &str) -> Run {
    let text = format!("[j]\n{}\n", lines.replace(',', "\n"));
    let file = fio::parse(&text, "test.fio").unwrap_or_else(|e| panic!("{e}"));
    let policies = PolicySet::from_names(["menu@6.12", "performance"]).unwrap();
    let run = simulate(machine, &file.into(), &policies, 1).unwrap();
    assert!(parts_add_up(&run), "{lines}");
    run
}

fn run(kernel: &str, lines: &str) -> Run {
    run_on(&machine(kernel, 16.0), lines)
}

/// Options, then I/Os of the job, requests to the drive and KiB that Linux 6.18.44 read, and by how many percent the model may
/// differ: 0 but where fio's random places decide, or a reader that is ahead of the drive.
///
/// Counted in `/sys/block/loop0/stat`: fio 3.33 on a file as large as the job on ext4, on a loop device with `read_ahead_kb` 128.
const COUNTED: &[(&str, u64, u64, u64, f64)] = &[
    ("ioengine=mmap,size=8m,rw=read", 2048, 32, 8192, 0.0),
    ("ioengine=mmap,size=8m,rw=read,bs=256k", 32, 32, 8192, 0.0),
    ("ioengine=mmap,size=8m,rw=read,loops=2", 4096, 32, 8192, 0.0),
    ("ioengine=mmap,size=8m,rw=read:4k", 2048, 32, 8192, 0.0),
    (
        "ioengine=mmap,size=8m,rw=read,fadvise_hint=0",
        2048,
        64,
        8192,
        0.0,
    ),
    (
        "ioengine=mmap,size=8m,rw=read,fadvise_hint=random",
        2048,
        64,
        8192,
        0.0,
    ),
    ("ioengine=mmap,size=8m,rw=randread", 2048, 2048, 8192, 0.0),
    (
        "ioengine=mmap,size=8m,rw=randread,bs=64k",
        128,
        2048,
        8192,
        0.0,
    ),
    (
        "ioengine=mmap,size=8m,rw=randread,norandommap",
        2048,
        1284,
        5136,
        3.0,
    ),
    (
        "ioengine=mmap,size=8m,rw=randread,fadvise_hint=0",
        2048,
        99,
        8192,
        10.0,
    ),
    (
        "ioengine=mmap,size=64m,rw=randread,fadvise_hint=0,io_size=4m,norandommap",
        1024,
        479,
        51648,
        6.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=read",
        2048,
        39,
        8192,
        20.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=read,bs=64k",
        128,
        33,
        8192,
        5.0,
    ),
    (
        "ioengine=io_uring,iodepth=4,size=8m,rw=read,bs=256k",
        32,
        32,
        8192,
        5.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=read,bs=64k,fadvise_hint=0",
        128,
        64,
        8192,
        5.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=read,bs=64k,fadvise_hint=random",
        128,
        128,
        8192,
        0.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=randread,norandommap",
        2048,
        1284,
        5136,
        3.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=randread,norandommap,bs=16k",
        512,
        321,
        5136,
        5.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=8m,rw=randread,norandommap,fadvise_hint=0",
        2048,
        1334,
        6192,
        6.0,
    ),
    (
        "ioengine=io_uring,iodepth=16,size=64m,rw=randread,norandommap,io_size=8m,bs=16k,fadvise_hint=0",
        512,
        483,
        7872,
        3.0,
    ),
    (
        "ioengine=io_uring,iodepth=4,size=8m,rw=read:64k,bs=16k",
        512,
        103,
        1664,
        1.0,
    ),
    (
        "ioengine=psync,size=8m,rw=read:64k,bs=16k",
        512,
        103,
        1664,
        1.0,
    ),
    (
        "ioengine=psync,size=8m,rw=read:16k,bs=16k",
        512,
        250,
        4224,
        5.0,
    ),
    (
        "ioengine=mmap,size=8m,rw=read:64k,bs=16k",
        512,
        26,
        6592,
        5.0,
    ),
];

/// Whether a count differs from Linux's by more than so many percent of Linux's.
fn differs_from_linux(own: &[u64], counted: &[u64], percent: f64) -> bool {
    own.iter().zip(counted).any(|(own, theirs)| {
        (*own as f64 - *theirs as f64).abs() > percent / 100.0 * *theirs as f64
    })
}

#[test]
fn as_much_is_read_from_the_drive_as_by_linux() {
    let mut apart = Vec::new();
    for (lines, ios, requests, kib, percent) in COUNTED {
        let run = run("6.18", lines);
        let cached = cache(&run);
        let own = [cached.read_requests, cached.read_bytes >> 10];
        let counted = [*requests, *kib];
        println!("{lines}: {} {own:?}, Linux {ios} {counted:?}", run.reads);
        if run.reads != *ios || differs_from_linux(&own, &counted, *percent) {
            apart.push(format!(
                "{lines}: {} {own:?} for {ios} {counted:?}",
                run.reads
            ));
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

/// Options of writers, then writes, requests and KiB that Linux 6.18.44 read, and KiB that it wrote, counted likewise; and
/// by how many percent the model may differ.
const COUNTED_WRITES: &[(&str, u64, [u64; 3], f64)] = &[
    ("size=8m,rw=write,end_fsync=1", 2048, [32, 8192, 8192], 0.0),
    (
        "size=8m,rw=write,bs=6k,end_fsync=1",
        1365,
        [32, 8192, 8192],
        0.0,
    ),
    (
        "size=8m,rw=write,fadvise_hint=0,end_fsync=1",
        2048,
        [64, 8192, 8192],
        0.0,
    ),
    ("size=8m,rw=write,fsync=16", 2048, [32, 8192, 30208], 0.0),
    (
        "size=8m,rw=write,bs=64k,fsync=4",
        128,
        [32, 8192, 7936],
        2.0,
    ),
    (
        "size=8m,rw=randwrite,fsync=16",
        2048,
        [2048, 8192, 8128],
        1.0,
    ),
    (
        "size=8m,rw=randwrite,norandommap,fdatasync=1,io_size=1m",
        256,
        [240, 960, 1020],
        4.0,
    ),
    ("size=8m,rw=write,verify=md5", 2048, [32, 8192, 8192], 0.0),
];

#[test]
fn as_much_is_written_from_a_mapping_as_by_linux() {
    let mut apart = Vec::new();
    for (lines, writes, counted, percent) in COUNTED_WRITES {
        let run = run("6.18", &format!("ioengine=mmap,{lines}"));
        let cached = cache(&run);
        let own = [
            cached.read_requests,
            cached.read_bytes >> 10,
            cached.written_back_bytes >> 10,
        ];
        println!("{lines}: {own:?}, Linux {counted:?}");
        if run.writes != *writes || differs_from_linux(&own, counted, *percent) {
            apart.push(format!("{lines}: {} {own:?} for {counted:?}", run.writes));
        }
        let accounted = cached.written_back_bytes + cached.left_bytes;
        assert_eq!(cached.dirtied_bytes, accounted);
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

/// As fio reports it for the same jobs on Linux 6.18: 2,048 of 2,048 random reads of a mapped file wait for the drive, and 1 of 2,048
/// sequential ones.
#[test]
fn few_sequential_reads_of_a_mapping_wait() {
    for kernel in ["6.1", "6.12", "6.18", "7.3"] {
        let sequential = run(kernel, "ioengine=mmap,size=8m,rw=read");
        let random = run(kernel, "ioengine=mmap,size=8m,rw=randread");
        assert!(
            sequential.latency_us.p50 < 2.0,
            "{:?}",
            sequential.latency_us
        );
        assert!(random.latency_us.p50 > 40.0, "{:?}", random.latency_us);
        // Both have read the file once.
        for run in [&sequential, &random] {
            assert_eq!(cache(run).read_bytes, 8 << 20, "{kernel}");
            assert_eq!(cache(run).copied_bytes, 8 << 20, "{kernel}");
        }
        let seconds = 8.0 * 1.048_576 / 1000.0;
        assert!(sequential.seconds > seconds && random.seconds > 4.0 * sequential.seconds);
    }
}

#[test]
fn a_mapped_page_costs_less_than_a_system_call() {
    let again = "size=1m,rw=randread,norandommap,invalidate=0,time_based,runtime=50ms";
    let reads = |engine: &str| run("6.12", &format!("ioengine={engine},{again}")).reads as f64;
    let (mapped, called) = (reads("mmap"), reads("psync"));
    assert!((1.4..3.5).contains(&(mapped / called)), "{mapped} {called}");
}

#[test]
fn mapped_pages_outlive_the_passes_of_their_process() {
    let read_mib = |lines: &str| cache(&run("6.12", lines)).read_bytes >> 20;
    assert_eq!(read_mib("ioengine=mmap,size=8m,loops=3"), 8);
    assert_eq!(
        read_mib("ioengine=psync,size=8m,loops=3,fadvise_hint=random"),
        24
    );
    // A later job drops them.
    let text = "[a]\nfilename=/dev/a\nioengine=mmap\nsize=8m\n[b]\nstonewall\nfilename=/dev/a\nioengine=mmap\nsize=8m\n";
    let policies = PolicySet::from_names(["menu@6.12", "performance"]).unwrap();
    let workload = fio::parse(text, "test.fio").unwrap().into();
    let both = simulate(&machine("6.12", 16.0), &workload, &policies, 1).unwrap();
    assert!((16 << 20..17 << 20).contains(&cache(&both).read_bytes));
}

/// On the 1000 MB/s drive of the test, 16 reads at once are done sooner than one by one, but not 16 times as soon.
#[test]
fn a_deep_ring_overlaps_its_reads() {
    let job = "size=64m,rw=randread,norandommap,io_size=8m";
    let seconds =
        |depth: u32| run("6.12", &format!("ioengine=io_uring,iodepth={depth},{job}")).seconds;
    let [one, four, sixteen] = [1, 4, 16].map(seconds);
    assert!(
        one / four > 2.5 && four / sixteen > 1.5,
        "{one} {four} {sixteen}"
    );
    // A read that waits is attributed as one by one: most of its time is the drive's.
    let run = run("6.12", &format!("ioengine=io_uring,iodepth=4,{job}"));
    assert!(run.latency_us.p50 > 40.0, "{:?}", run.latency_us);
}

#[test]
fn deep_reads_of_cached_pages_never_wait() {
    let lines = "ioengine=io_uring,iodepth=8,size=1m,rw=randread,norandommap,invalidate=0,time_based,runtime=50ms";
    let run = run("7.3", lines);
    assert!(cache(&run).read_bytes <= 1 << 20);
    assert!(
        run.latency_us.p50 < 30.0 && run.reads > 10_000,
        "{} {:?}",
        run.reads,
        run.latency_us
    );
}

#[test]
fn little_memory_makes_a_mapping_read_again() {
    let small = machine("6.12", 1.0 / 64.0);
    let run = run_on(&small, "ioengine=mmap,size=64m,loops=2");
    assert!(
        cache(&run).read_bytes > 100 << 20,
        "{}",
        cache(&run).read_bytes
    );
    let run = run_on(
        &small,
        "ioengine=io_uring,iodepth=8,size=64m,bs=64k,loops=2,invalidate=0",
    );
    assert!(cache(&run).read_bytes > 100 << 20 && run.reads == 2048);
}

/// KiB that a job of fio reads from the drive, and its page faults that wait, from its process's accounts; `None` without fio, or where
/// files are no files on a drive.
fn fio_reads(folder: &Path, lines: &str) -> Option<(u64, u64)> {
    let file = folder.join("data");
    let text = format!(
        "[j]\nfilename={}\nexec_postrun=cat /proc/$PPID/io\n{}\n",
        file.display(),
        lines.replace(',', "\n")
    );
    let job = folder.join("t.fio");
    std::fs::write(&job, text).unwrap();
    let mut fio = Command::new("fio");
    fio.args(["--output-format=json", "--eta=never"]).arg(&job);
    let report = fio.current_dir(folder).output().ok()?.stdout;
    let begin = report.iter().position(|byte| *byte == b'{')?;
    let json: Value = serde_json::from_slice(&report[begin..]).ok()?;
    let accounts = std::fs::read_to_string(folder.join("j.postrun.txt")).ok()?;
    let mut read = accounts
        .lines()
        .filter_map(|line| line.strip_prefix("read_bytes: "));
    let kib = read.next()?.parse::<u64>().ok()? >> 10;
    Some((kib, json["jobs"][0]["majf"].as_u64()?)).filter(|_| kib > 0)
}

/// Jobs on a file as large as they, with the percentage by which KiB may differ, and whether each request is a page fault that waits.
const BESIDE_FIO: &[(&str, f64, bool)] = &[
    ("size=4m,ioengine=mmap", 0.0, false),
    ("size=4m,ioengine=mmap,loops=2,fadvise_hint=0", 0.0, false),
    ("size=4m,ioengine=mmap,rw=randread", 0.0, true),
    ("size=4m,ioengine=mmap,rw=randread,bs=64k", 0.0, true),
    ("size=4m,ioengine=mmap,rw=randread,norandommap", 6.0, true),
    ("size=4m,ioengine=io_uring,iodepth=16", 0.0, false),
    (
        "size=4m,ioengine=io_uring,iodepth=4,bs=64k,loops=2",
        0.0,
        false,
    ),
    (
        "size=4m,ioengine=io_uring,iodepth=16,rw=randread,norandommap",
        6.0,
        false,
    ),
    (
        "size=4m,ioengine=io_uring,iodepth=8,rw=randread,norandommap,bs=16k",
        12.0,
        false,
    ),
];

#[test]
fn fio_reads_as_much_from_its_drive() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let data = std::fs::File::create(folder.path().join("data")).unwrap();
    std::io::Write::write_all(&mut &data, &vec![7; 4 << 20]).unwrap();
    data.sync_all().unwrap();
    if fio_reads(folder.path(), "size=4m,ioengine=psync").is_none() {
        let reason =
            "fio is not installed (Debian package fio), or the target folder is on no drive";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        eprintln!("skipped: fio_reads_as_much_from_its_drive: {reason}");
        return;
    }
    let mut apart = Vec::new();
    for (lines, percent, faults) in BESIDE_FIO {
        let (kib, waits) = fio_reads(folder.path(), lines).unwrap();
        let cached = cache(&run("6.18", lines));
        // A page of fio's own may be read, too.
        let differs = |own: u64, theirs: u64| {
            let difference = own as f64 - theirs as f64;
            difference > percent / 100.0 * theirs as f64
                || -difference > percent / 100.0 * theirs as f64 + 128.0
        };
        let own = (cached.read_bytes >> 10, cached.read_requests);
        if differs(own.0, kib) || (*faults && differs(own.1, waits)) {
            apart.push(format!("{lines}: {own:?} for fio's {:?}", (kib, waits)));
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
