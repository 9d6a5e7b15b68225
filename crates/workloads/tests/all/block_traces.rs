//! Block traces as the real tools write them: `blkparse` and fio.

#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::{
    BlockTrace, BlockTraceOptions, BlockTraceRequest, TraceIo, write_fio_log,
};

use crate::against_fio::fio_is_here;

fn load(path: &Path, options: &BlockTraceOptions) -> (BlockTrace, Vec<BlockTraceRequest>) {
    let trace = BlockTrace::load(path, options).unwrap().unwrap();
    let requests = trace.requests().unwrap().collect::<Result<_, _>>();
    (trace, requests.unwrap())
}

/// Whether blkparse is there to compare with; without it the test is skipped and says so, as for fio.
fn blkparse_is_here(test: &str) -> bool {
    if Command::new("blkparse").arg("-V").output().is_ok() {
        return true;
    }
    let reason = "blkparse is not installed (Debian package blktrace)";
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{test}: {reason}"
    );
    eprintln!("skipped: {test}: {reason}");
    false
}

/// Kinds of requests with their bits of the kernel's trace (`include/uapi/linux/blktrace_api.h`, Linux 6.12): read 1, write 2,
/// flush 4, sync 8, file system 256, metadata 4096, discard 8192, FUA 32768.
const KINDS: [(TraceIo, u32); 8] = [
    (TraceIo::Read, 1 | 256),
    (TraceIo::Read, 1 | 8 | 256 | 4096),
    (TraceIo::Write, 2 | 256),
    (TraceIo::Write, 2 | 8 | 256),
    (TraceIo::Write, 2 | 8 | 256 | 32768),
    (TraceIo::Write, 2 | 4 | 256 | 32768),
    (TraceIo::Trim, 2 | 256 | 8192),
    (TraceIo::Flush, 2 | 4 | 256),
];

/// What happened to a request, with the bits of the kernel's trace.
const QUEUED: u32 = 1 | 16 << 16;
const ISSUED: u32 = 7 | 64 << 16;
const COMPLETED: u32 = 8 | 128 << 16;

/// A message of the kernel beside the requests, here a process's name.
const PROCESS: u32 = 1 << 26;

/// First number of a record.
const MARK: u32 = 0x6561_7407;

/// A record of the kernel's binary trace.
fn record(number: u32, time: u64, place: (u64, u32), action: u32) -> Vec<u8> {
    record_of_cpu(0, number, time, place, action, b"")
}

/// A record of a CPU, with more bytes behind it.
fn record_of_cpu(
    cpu: u32,
    number: u32,
    time: u64,
    (sector, bytes): (u64, u32),
    action: u32,
    behind: &[u8],
) -> Vec<u8> {
    let device = 259_u32 << 20 | 3;
    let mut out = Vec::new();
    out.extend(MARK.to_ne_bytes());
    out.extend(number.to_ne_bytes());
    out.extend(time.to_ne_bytes());
    out.extend(sector.to_ne_bytes());
    for field in [bytes, action, 77, device, cpu] {
        out.extend(field.to_ne_bytes());
    }
    out.extend(0_u16.to_ne_bytes());
    out.extend(u16::try_from(behind.len()).unwrap().to_ne_bytes());
    out.extend(behind);
    out
}

#[test]
fn requests_are_those_that_blkparse_was_given() {
    let test = "requests_are_those_that_blkparse_was_given";
    if !blkparse_is_here(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let one = (
        0..KINDS.len(),
        1_u64..1 << 40,
        1_u32..2048,
        1_u64..1 << 33,
        1_u64..900,
    );
    let rows = proptest::collection::vec(one, 40);
    let mut runner = TestRunner::deterministic();
    for _ in 0..20 {
        let rows = rows.new_tree(&mut runner).unwrap().current();
        let (mut binary, mut wanted, mut time) = (Vec::new(), Vec::new(), 5_000);
        for (number, (kind, sector, sectors, gap, takes)) in (0..).zip(&rows) {
            let (io, bits) = KINDS[*kind];
            let place = match io {
                TraceIo::Flush => (0, 0),
                _ => (*sector, sectors * 512),
            };
            for (step, at, action) in [
                (1, time, QUEUED),
                (2, time + 100, ISSUED),
                (3, time + 100 + takes, COMPLETED),
            ] {
                let sequence = number * 3 + step;
                binary.extend(record(sequence, at, place, action | bits << 16));
            }
            wanted.push(BlockTraceRequest {
                begin: Nanoseconds(time),
                io,
                offset: place.0 * 512,
                bytes: u64::from(place.1),
                end: (io != TraceIo::Flush).then_some(Nanoseconds(time + takes)),
            });
            time += 1000 + gap;
        }
        for request in &mut wanted {
            request.begin = Nanoseconds(request.begin.0 - 5_000);
            request.end = request.end.map(|end| Nanoseconds(end.0 - 5_000));
        }
        fs::write(folder.path().join("t.blktrace.0"), binary).unwrap();
        let text = make_text_by_blkparse(folder.path());
        let options = BlockTraceOptions {
            is_dependent: true,
            ..BlockTraceOptions::default()
        };
        let (trace, requests) = load(&text, &options);
        assert_eq!(requests, wanted, "{}", fs::read_to_string(&text).unwrap());
        assert_eq!(trace.disk.as_deref(), Some("259,3"));
        assert_eq!(trace.notes(), []);
    }
}

/// Runs blkparse on the trace `t` in a folder, and returns the file with its text.
fn make_text_by_blkparse(folder: &Path) -> PathBuf {
    let done = Command::new("blkparse")
        .args(["-i", "t"])
        .current_dir(folder)
        .output()
        .unwrap();
    let text = folder.join("t.txt");
    fs::write(&text, &done.stdout).unwrap();
    text
}

/// CPUs of a machine whose trace is in a file for each.
const CPUS: u32 = 4;

/// Files of the CPUs for requests that are issued, and that end, on any of them.
fn draw_trace_of_cpus(rows: &[(usize, u64, u32, u64, u64)]) -> Vec<Vec<u8>> {
    let mut events = Vec::new();
    let mut time = 7_000_000;
    for (number, (kind, sector, sectors, gap, takes)) in (0_u32..).zip(rows) {
        let (io, bits) = KINDS[*kind];
        let place = match io {
            TraceIo::Flush => (0, 0),
            _ => (*sector, sectors * 512),
        };
        let cpus = [number % CPUS, number % CPUS, (number / 3) % CPUS];
        // Up to some requests are in flight at once.
        let times = [time, time + 100, time + 100 + takes * 40];
        for ((cpu, at), action) in cpus.into_iter().zip(times).zip([QUEUED, ISSUED, COMPLETED]) {
            events.push((at, number, cpu, place, action | bits << 16));
        }
        time += 1000 + gap;
    }
    events.sort_unstable();
    let mut files = vec![Vec::new(); CPUS as usize];
    let mut counts = [0; CPUS as usize];
    for (at, number, cpu, place, action) in events {
        let cpu_number = cpu as usize;
        if number % 7 == 0 {
            counts[cpu_number] += 1;
            let name = b"fio\0\0\0\0\0\0\0\0\0\0\0\0\0";
            let message = record_of_cpu(cpu, counts[cpu_number], at, (0, 0), PROCESS, name);
            files[cpu_number].extend(message);
        }
        counts[cpu_number] += 1;
        let event = record_of_cpu(cpu, counts[cpu_number], at, place, action, b"");
        files[cpu_number].extend(event);
    }
    files
}

#[test]
fn binary_files_of_all_cpus_are_read_as_blkparse_reads_them() {
    let test = "binary_files_of_all_cpus_are_read_as_blkparse_reads_them";
    if !blkparse_is_here(test) {
        return;
    }
    let one = (
        0..KINDS.len(),
        1_u64..1 << 40,
        1_u32..2048,
        1_u64..1 << 20,
        1_u64..900,
    );
    let rows = proptest::collection::vec(one, 60);
    let mut runner = TestRunner::deterministic();
    for _ in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let rows = rows.new_tree(&mut runner).unwrap().current();
        for (cpu, file) in draw_trace_of_cpus(&rows).into_iter().enumerate() {
            fs::write(folder.path().join(format!("t.blktrace.{cpu}")), file).unwrap();
        }
        // A CPU without any I/O.
        fs::write(folder.path().join(format!("t.blktrace.{CPUS}")), b"").unwrap();
        let text = make_text_by_blkparse(folder.path());
        for is_dependent in [false, true] {
            let options = BlockTraceOptions {
                is_dependent,
                ..BlockTraceOptions::default()
            };
            let (read, wanted) = load(&text, &options);
            assert_eq!(wanted.len(), rows.len());
            let idle = format!("t.blktrace.{CPUS}");
            for name in ["", "t.blktrace.0", "t.blktrace.3", &idle] {
                let (trace, requests) = load(&folder.path().join(name), &options);
                assert_eq!(requests, wanted, "{name}");
                assert_eq!(trace.disk, read.disk, "{name}");
                assert_eq!(trace.notes(), read.notes(), "{name}");
                assert_eq!(trace.totals.without_end, read.totals.without_end, "{name}");
            }
        }
    }
}

#[test]
fn a_file_of_another_name_is_read_alone_and_queued_requests_count_where_nothing_is_dispatched() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("merged.bin");
    let queued = record(1, 5_000, (8, 4096), QUEUED | 1 << 16);
    let ended = record(2, 9_000, (8, 4096), COMPLETED | 1 << 16);
    fs::write(&path, [queued, ended].concat()).unwrap();
    let (trace, requests) = load(&path, &BlockTraceOptions::default());
    assert_eq!((requests.len(), requests[0].offset), (1, 4096));
    let note = &trace.notes()[0].sentence;
    assert!(note.contains("the queued ones (Q) count"), "{note}");
    let nothing = folder.path().join("empty");
    fs::create_dir(&nothing).unwrap();
    let none = BlockTrace::load(&nothing, &BlockTraceOptions::default());
    assert_eq!(none, Ok(None));
}

#[test]
fn damaged_binary_files_are_refused_with_their_name_and_byte() {
    let folder = tempfile::tempdir().unwrap();
    let good = record(1, 5_000, (8, 4096), ISSUED | 1 << 16);
    fs::write(folder.path().join("sda.blktrace.0"), &good).unwrap();
    let damaged = folder.path().join("sda.blktrace.1");
    let with_mark = |mark: u32| {
        let mut bytes = good.clone();
        bytes[..4].copy_from_slice(&mark.to_ne_bytes());
        bytes
    };
    let message_record = record_of_cpu(1, 2, 6_000, (0, 0), PROCESS, b"fio");
    for (second, wanted) in [
        (
            good[..20].to_vec(),
            "the record at byte 48: the trace is cut off in it; `truncate -s 48` makes a file of what stands before",
        ),
        (
            message_record[..50].to_vec(),
            "the record at byte 48: the trace is cut off in it; `truncate -s 48` makes a file of what stands before",
        ),
        (
            with_mark(0x1234_5678),
            "the record at byte 48: it begins with 0x12345678 instead of 0x65617407: the trace is damaged",
        ),
        (
            with_mark(MARK + 1),
            "the record at byte 48: version 8 of blktrace's format, and only 7 is read; make text of the trace: blkparse -i NAME \
             >trace.txt",
        ),
        (
            with_mark(MARK.swap_bytes()),
            "the record at byte 48: is blktrace's binary of a machine with the other byte order; make text of it: blkparse -i NAME \
             >trace.txt",
        ),
        (
            record(2, 6_000, (8, 1 << 31), ISSUED | 1 << 16),
            "the record at byte 48: a read of 2147483648 bytes, and nothing issues more than 1073741824 at once: the trace is \
             damaged",
        ),
        (
            record(2, 6_000, (u64::MAX, 512), ISSUED | 1 << 16),
            "the record at byte 48: the sector 18446744073709551615 is too large",
        ),
    ] {
        fs::write(&damaged, [&good[..], &second].concat()).unwrap();
        // What is wrong is in another file than the one that is named.
        let named = folder.path().join("sda.blktrace.0");
        for path in [folder.path(), &named] {
            let refused = BlockTrace::load(path, &BlockTraceOptions::default());
            let message = refused.unwrap_err().to_string();
            assert_eq!(message, format!("{}: {wanted}", damaged.display()));
        }
    }
    fs::remove_file(&damaged).unwrap();
    let only = folder.path().join("sda.blktrace.0");
    for (bytes, wanted) in [
        (
            with_mark(MARK.swap_bytes()),
            "is blktrace's binary of a machine with the other byte order; make text of it: blkparse -i NAME >trace.txt",
        ),
        (
            record(2, 6_000, (8, 4096), COMPLETED | 1 << 16),
            "has neither dispatched (D) nor queued (Q) requests in its first MiB; trace with blktrace -a issue -a complete",
        ),
    ] {
        fs::write(&only, bytes).unwrap();
        let refused = BlockTrace::load(&only, &BlockTraceOptions::default());
        let message = refused.unwrap_err().to_string();
        assert_eq!(message, format!("{}: {wanted}", only.display()));
    }
}

/// Reads and writes of fio when it replays a log on a file, with their bytes, and the time in ms.
fn replay_log_by_fio(log: &Path, file: &Path) -> (Vec<(u64, u64)>, u64) {
    let done = Command::new("fio")
        .args(["--name=replay", "--ioengine=psync", "--output-format=json"])
        .arg(format!("--read_iolog={}", log.display()))
        .arg(format!("--replay_redirect={}", file.display()))
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let json: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let runtime = json["jobs"][0]["job_runtime"].as_u64().unwrap();
    (read_totals_of_fio(&done.stdout)[..2].to_vec(), runtime)
}

#[test]
fn a_log_that_is_made_of_a_trace_is_replayed_by_fio() {
    let test = "a_log_that_is_made_of_a_trace_is_replayed_by_fio";
    if !fio_is_here(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut rows = String::new();
    for number in 0..60_u64 {
        let kind = if number % 3 == 0 { "Write" } else { "Read" };
        let time = 128_166_372_003_061_629 + number * 50_000;
        let (offset, bytes) = (number * 7919 % 500 * 4096, 4096 + number % 4 * 4096);
        let _ = writeln!(rows, "{time},h,0,{kind},{offset},{bytes},300");
    }
    let trace = BlockTrace::from_text(rows.as_bytes(), "t", &BlockTraceOptions::default()).unwrap();
    let log = folder.path().join("t.log");
    let mut out = fs::File::create(&log).unwrap();
    write_fio_log(trace.requests().unwrap(), &mut out).unwrap();
    let file = folder.path().join("drive.img");
    (fs::File::create(&file).unwrap()).set_len(4 << 20).unwrap();
    let (replayed, runtime_ms) = replay_log_by_fio(&log, &file);
    let totals = trace.totals;
    let wanted = [
        (totals.reads, totals.read_bytes),
        (totals.writes, totals.written_bytes),
    ];
    assert_eq!(replayed, wanted);
    // The requests keep their times: 59 gaps of 5 ms.
    let lasts = trace.duration().0 / 1_000_000;
    assert!(runtime_ms >= lasts, "{runtime_ms} ms of {lasts}");
}

/// Reads, writes and trims of a job in fio's JSON, each with its bytes.
fn read_totals_of_fio(json: &[u8]) -> Vec<(u64, u64)> {
    let json: serde_json::Value = serde_json::from_slice(json).unwrap();
    ["read", "write", "trim"]
        .map(|direction| {
            let part = &json["jobs"][0][direction];
            (
                part["total_ios"].as_u64().unwrap(),
                part["io_bytes"].as_u64().unwrap(),
            )
        })
        .into()
}

#[test]
fn a_log_of_fio_has_the_requests_that_fio_replays() {
    let test = "a_log_of_fio_has_the_requests_that_fio_replays";
    if !fio_is_here(test) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for (lines, ios) in [
        ("rw=randread\nbs=4k\nnumber_ios=60\nthinktime=1000", 60),
        ("rw=randrw\nbssplit=4k/50:64k/50\nnumber_ios=80", 80),
        (
            "rw=write\nbs=32k\nfsync=5\nthinktime=2000\nthinktime_blocks=10",
            128,
        ),
        (
            "rw=rw\nrwmixread=70\nbs=8k\nrate_iops=2000\nnumber_ios=100",
            100,
        ),
    ] {
        let run = |lines: &str| {
            let text = format!("[j]\nfilename=data\nsize=4m\n{lines}\n");
            fs::write(folder.path().join("j.fio"), text).unwrap();
            let done = Command::new("fio")
                .args(["--output-format=json", "j.fio"])
                .current_dir(folder.path())
                .output()
                .unwrap();
            assert!(done.status.success(), "{done:?}");
            read_totals_of_fio(&done.stdout)
        };
        // fio adds to a log that is there.
        let _ = fs::remove_file(folder.path().join("log"));
        let written = run(&format!("{lines}\nwrite_iolog=log"));
        let replayed = run("read_iolog=log\nreplay_no_stall=1");
        let path = folder.path().join("log");
        let (trace, requests) = load(&path, &BlockTraceOptions::default());
        let totals = trace.totals;
        let ours = vec![
            (totals.reads, totals.read_bytes),
            (totals.writes, totals.written_bytes),
            (totals.trims, 0),
        ];
        assert_eq!((&ours, &ours), (&replayed, &written), "{lines}");
        assert_eq!(totals.reads + totals.writes, ios, "{lines}");
        assert_eq!(totals.flushes > 0, lines.contains("fsync"), "{lines}");
        // Order and places are those of the lines, and times too.
        let log = fs::read_to_string(&path).unwrap();
        let places: Vec<(u64, u64)> = (log.lines())
            .map(|line| line.split(' ').collect::<Vec<_>>())
            .filter(|words| words.len() == 5 && ["read", "write"].contains(&words[2]))
            .map(|words| (words[3].parse().unwrap(), words[4].parse().unwrap()))
            .collect();
        let ours: Vec<(u64, u64)> = (requests.iter())
            .filter(|request| request.io != TraceIo::Flush)
            .map(|request| (request.offset, request.bytes))
            .collect();
        assert_eq!(ours, places, "{lines}");
    }
}

#[test]
fn a_trace_is_a_workload_and_other_files_stay_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.csv");
    fs::write(
        &path,
        "1,h,0,Read,0,512,9\n2,h,1,Write,0,512,9\n3,h,1,Read,0,512,9\n",
    )
    .unwrap();
    let workload = Workload::load(&path).unwrap();
    assert_eq!(workload.job_or_task_names(), ["a.csv"]);
    let warnings = workload.warnings();
    assert!(
        warnings[0].message.contains("h,1 has the most requests"),
        "{warnings:?}"
    );
    fs::write(&path, "1,h,0,Read,0,0,9\n").unwrap();
    let message = Workload::load(&path).unwrap_err().to_string();
    assert_eq!(
        message,
        format!(
            "{}:1: a read of 0 bytes: the trace is damaged",
            path.display()
        )
    );
    fs::write(&path, "[a]\nrw=read\nsize=1m\n").unwrap();
    assert!(Workload::load(&path).unwrap().block_trace().is_none());
    for (name, wanted) in [
        ("empty.fio", "is empty; expected fio jobs, an rt-app file"),
        ("empty.toml", "is empty; expected a server"),
    ] {
        let empty = folder.path().join(name);
        fs::write(&empty, " \n").unwrap();
        let said = Workload::load(&empty).unwrap_err().to_string();
        assert!(said.contains(wanted), "{said}");
    }
}
