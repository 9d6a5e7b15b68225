//! Block traces as the real tools write them: `blkparse` and fio.

#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;
use std::process::Command;

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use wakepath_units::Nanoseconds;
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions, BlockTraceRequest, TraceIo};

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

/// A record of the kernel's binary trace.
fn record(number: u32, time: u64, (sector, bytes): (u64, u32), action: u32) -> Vec<u8> {
    let device = 259_u32 << 20 | 3;
    let mut out = Vec::new();
    out.extend(0x6561_7407_u32.to_le_bytes());
    out.extend(number.to_le_bytes());
    out.extend(time.to_le_bytes());
    out.extend(sector.to_le_bytes());
    for field in [bytes, action, 77, device, 0, 0] {
        out.extend(field.to_le_bytes());
    }
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
    for _ in 0..20 {
        let rows = rows
            .new_tree(&mut TestRunner::deterministic())
            .unwrap()
            .current();
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
        let done = Command::new("blkparse")
            .args(["-i", "t"])
            .current_dir(folder.path())
            .output()
            .unwrap();
        let text = folder.path().join("t.txt");
        fs::write(&text, &done.stdout).unwrap();
        let options = BlockTraceOptions {
            is_dependent: true,
            ..BlockTraceOptions::default()
        };
        let (trace, requests) = load(&text, &options);
        assert_eq!(
            requests,
            wanted,
            "{}",
            String::from_utf8_lossy(&done.stdout)
        );
        assert_eq!(trace.disk.as_deref(), Some("259,3"));
        assert_eq!(trace.notes(), []);
    }
    let refused = BlockTrace::load(
        &folder.path().join("t.blktrace.0"),
        &BlockTraceOptions::default(),
    );
    let message = refused.unwrap_err().to_string();
    assert!(message.contains("blkparse -i"), "{message}");
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
