//! Block traces through the commands: `sim`, a study with `compare`, and `tune`.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::fs;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use wakepath_trace::recording::{Block, Event, EventKind, Metadata, Overwrite, Writer};
use wakepath_units::Nanoseconds;

use crate::common::{fails_with, json, wakepath};

/// Requests of a trace that has as many as are held for their place in time, and some more.
const FEW_REQUESTS: u64 = 70_000;

/// How many times longer the long trace is, and how much more memory it may take.
const LONGER: u64 = 8;
const MOST_GROWTH: f64 = 1.5;

/// Writes an MSR trace of so many requests, so many us apart.
fn write_long_text(path: &Path, requests: u64, gap_us: u64) {
    let mut file = BufWriter::with_capacity(1 << 20, fs::File::create(path).unwrap());
    for number in 0..requests {
        let time = 128_166_372_003_061_629 + number * gap_us * 10;
        let offset = number * 4096;
        writeln!(file, "{time},host,0,Read,{offset},4096,300").unwrap();
    }
    file.flush().unwrap();
}

/// Writes a recording of so many requests, 50 us apart. The first one never ends.
fn write_long_recording(path: &Path, requests: u64) {
    let mut writer = Writer::create(path, Overwrite::No, Metadata::default()).unwrap();
    for number in 0..requests {
        let block = Block {
            device: 1,
            sector: number * 8,
            bytes: 4096,
            write: false,
        };
        let steps = [
            (0, EventKind::BlockIssue(block)),
            (30, EventKind::BlockComplete(block)),
        ];
        for (after_us, kind) in steps.into_iter().take(if number == 0 { 1 } else { 2 }) {
            let time = Nanoseconds::from_micros(number * 50 + after_us);
            writer.add_event(&Event { time, cpu: 0, kind }).unwrap();
        }
    }
    writer.finish_and_count_events().unwrap();
}

/// A record of blktrace of a 4 KiB read from device 8,16 (`struct blk_io_trace`, `include/uapi/linux/blktrace_api.h`, Linux 6.12).
fn blktrace_record(cpu: u32, time: u64, sector: u64, action: u32) -> Vec<u8> {
    let mut out = Vec::new();
    for field in [0x6561_7407_u32, 1] {
        out.extend(field.to_ne_bytes());
    }
    for field in [time, sector] {
        out.extend(field.to_ne_bytes());
    }
    for field in [4096, action, 77, 8 << 20 | 16, cpu, 0] {
        out.extend(field.to_ne_bytes());
    }
    out
}

/// Actions of reads in the kernel's trace.
const ISSUED_READ: u32 = 7 | (64 | 1) << 16;
const COMPLETED_READ: u32 = 8 | (128 | 1) << 16;

/// Writes a folder of blktrace's files with so many requests, 50 us apart, of two CPUs. Each ends on the other CPU, the first one never.
fn write_long_blktrace(folder: &Path, requests: u64) {
    fs::create_dir(folder).unwrap();
    let mut files = [0, 1].map(|cpu| {
        let path = folder.join(format!("sdb.blktrace.{cpu}"));
        BufWriter::new(fs::File::create(path).unwrap())
    });
    for number in 0..requests {
        let (time, sector) = (7_000_000 + number * 50_000, number * 8);
        let cpu = (number % 2) as u32;
        let issued = blktrace_record(cpu, time, sector, ISSUED_READ);
        files[cpu as usize].write_all(&issued).unwrap();
        if number > 0 {
            let other = 1 - cpu;
            let ended = blktrace_record(other, time + 30_000, sector, COMPLETED_READ);
            files[other as usize].write_all(&ended).unwrap();
        }
    }
    for mut file in files {
        file.flush().unwrap();
    }
}

/// Most memory in KiB that a simulation of a trace's first so many seconds has had (`VmHWM`, `Documentation/filesystems/proc.rst`).
fn peak_memory_kib(path: &Path, seconds: &str, more: &[&str]) -> u64 {
    let arguments = ["--machine", "laptop", "--runs", "1", "--seconds", seconds];
    let mut child = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .arg("sim")
        .arg(path)
        .args(arguments)
        .args(["--policy", "menu"])
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let status = format!("/proc/{}/status", child.id());
    let mut peak = 0;
    let done = loop {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kib = line.and_then(|line| line.split_whitespace().next());
        peak = kib.map_or(peak, |kib| kib.parse::<u64>().unwrap().max(peak));
        if let Some(done) = child.try_wait().unwrap() {
            break done;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert!(done.success(), "{}", path.display());
    assert!(peak > 0, "no VmHWM in {status}");
    peak
}

#[test]
fn a_longer_trace_takes_no_more_memory() {
    let folder = tempfile::tempdir().unwrap();
    let kinds = [
        ("csv", &[][..]),
        ("parquet", &["--dependent"]),
        ("blktrace", &["--dependent"]),
    ];
    for (kind, more) in kinds {
        let [short, long] = [FEW_REQUESTS, FEW_REQUESTS * LONGER].map(|requests| {
            let path = folder.path().join(format!("{requests}.{kind}"));
            match kind {
                "csv" => write_long_text(&path, requests, 50),
                "blktrace" => write_long_blktrace(&path, requests),
                _ => write_long_recording(&path, requests),
            }
            // The whole trace is checked, whatever is simulated of it.
            peak_memory_kib(&path, "20ms", more)
        });
        eprintln!("{kind}: {short} and {long} KiB");
        let growth = long as f64 / short as f64;
        assert!(growth < MOST_GROWTH, "{kind}: {short} and {long} KiB");
    }
}

/// How many times longer a trace is that is simulated to its end.
const LONGER_TO_ITS_END: u64 = 4;

#[test]
fn a_trace_that_is_simulated_to_its_end_takes_no_more_memory_if_it_is_longer() {
    let folder = tempfile::tempdir().unwrap();
    // The drive keeps up with the first. Of the second, each request is later than the one before.
    for gap_us in [50, 2] {
        let [short, long] = [FEW_REQUESTS, FEW_REQUESTS * LONGER_TO_ITS_END].map(|requests| {
            let path = folder.path().join(format!("{gap_us}-{requests}.csv"));
            write_long_text(&path, requests, gap_us);
            peak_memory_kib(&path, "60s", &[])
        });
        eprintln!("{gap_us} us apart: {short} and {long} KiB");
        let growth = long as f64 / short as f64;
        assert!(
            growth < MOST_GROWTH,
            "{gap_us} us apart: {short} and {long} KiB"
        );
    }
}

/// Requests of MSR traces of about 20 MB and 2 GB, and the most memory in KiB for either.
const REQUESTS_OF_20_MB: u64 = 400_000;
const REQUESTS_OF_2_GB: u64 = 38_500_000;
const MOST_KIB: u64 = 96 << 10;
const MOST_GROWTH_TO_2_GB: f64 = 1.2;

#[test]
#[ignore = "nightly: writes and reads a trace of 2 GB"]
fn a_trace_of_2_gb_takes_the_memory_of_one_of_20_mb() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let [small, large] = [REQUESTS_OF_20_MB, REQUESTS_OF_2_GB].map(|requests| {
        let path = folder.path().join(format!("{requests}.csv"));
        write_long_text(&path, requests, 50);
        let bytes = fs::metadata(&path).unwrap().len();
        let peak = peak_memory_kib(&path, "20ms", &[]);
        fs::remove_file(&path).unwrap();
        eprintln!("{bytes} bytes: {peak} KiB");
        (bytes, peak)
    });
    assert!(small.0 < 25_000_000 && large.0 >= 2_000_000_000);
    assert!(large.1 < MOST_KIB, "{} KiB", large.1);
    let growth = large.1 as f64 / small.1 as f64;
    assert!(growth < MOST_GROWTH_TO_2_GB, "{growth}");
}

/// A trace of two disks: the first has 40 requests, with gaps of 20 ms, and the second has 10.
fn write_trace(folder: &Path) -> PathBuf {
    let mut text = String::new();
    for number in 0..50_u64 {
        let disk = u64::from(number % 5 == 4);
        let kind = if number % 3 == 0 { "Write" } else { "Read" };
        let time = 128_166_372_003_061_629 + number * 200_000;
        let _ = writeln!(
            text,
            "{time},host,{disk},{kind},{},4096,30000",
            number * 4096
        );
    }
    let path = folder.join("trace.csv");
    fs::write(&path, text).unwrap();
    path
}

fn stderr(done: &assert_cmd::assert::Assert) -> String {
    String::from_utf8_lossy(&done.get_output().stderr).into_owned()
}

/// Runs `sim` once on the trace.
fn sim(path: &Path, arguments: &[&str]) -> assert_cmd::assert::Assert {
    let mut all = vec![
        "sim",
        path.to_str().unwrap(),
        "--machine",
        "laptop",
        "--runs",
        "1",
    ];
    all.extend(["--policy", "menu", "--format", "json"]);
    all.extend(arguments);
    wakepath(&all)
}

#[test]
fn sim_takes_a_trace_with_its_disk_window_and_dependencies() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trace(folder.path());
    let first_run = |arguments: &[&str]| {
        let done = sim(&path, arguments).success();
        (json(&done)["results"][0]["runs"][0].clone(), stderr(&done))
    };
    let (run, said) = first_run(&[]);
    assert_eq!(run["requests"], 40);
    assert!(
        said.contains("host,0 has the most requests: 40 of 50"),
        "{said}"
    );
    assert_eq!(first_run(&["--disk", "1"]).0["requests"], 10);
    let (window, said) = first_run(&["--disk", "0", "--from", "500ms", "--seconds", "300ms"]);
    assert_eq!((window["requests"].as_u64(), said.as_str()), (Some(12), ""));
    let seconds = |run: &serde_json::Value| run["seconds"].as_f64().unwrap();
    assert!((seconds(&run) - 0.96).abs() < 0.01, "{run}");
    let (dependent, _) = first_run(&["--dependent"]);
    assert!(seconds(&dependent) < seconds(&run), "{dependent}");
}

#[test]
fn a_trace_that_is_too_fast_says_how_late_it_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("fast.log");
    let mut text = "fio version 3 iolog\n".to_owned();
    for number in 0..5_000 {
        let _ = writeln!(text, "{number} data read {} 4096", number * 4096);
    }
    fs::write(&path, text).unwrap();
    let said = stderr(&sim(&path, &[]).success());
    assert!(
        said.contains("drive and CPUs cannot keep up with the trace: under menu@6.12")
            && said.contains("the last of 5000 requests begins 0."),
        "{said}"
    );
}

#[test]
fn a_short_trace_is_not_late_by_a_wake_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("short.log");
    let text = "fio version 3 iolog\n0 data read 0 4096\n1000 data read 4096 4096\n";
    fs::write(&path, text).unwrap();
    let said = stderr(&sim(&path, &[]).success());
    assert!(!said.contains("cannot keep up"), "{said}");
}

#[test]
fn a_request_beyond_the_drive_is_refused_or_told() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("far.log");
    let text = "fio version 3 iolog\n0 data read 0 4096\n1000 data read 1100000000000 4096\n";
    fs::write(&path, text).unwrap();
    let said = stderr(&sim(&path, &[]).success());
    assert!(
        said.contains("far.log:3: warning: the request ends at byte 1100000004096, beyond the 1000 GB that are assumed"),
        "{said}"
    );
    let refused = stderr(&sim(&path, &["--drive", "sn530"]).failure());
    assert!(
        refused.contains("far.log:3: the request ends at byte 1100000004096, and WD PC SN530 256GB has 256060514304 (assumed: from its name)"),
        "{refused}"
    );
}

#[test]
fn a_trace_that_may_be_cut_off_is_told_with_its_last_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cut.log");
    fs::write(
        &path,
        "fio version 3 iolog\n0 f read 0 4096\n500 f read 8192 40",
    )
    .unwrap();
    let said = stderr(&sim(&path, &[]).success());
    assert!(
        said.contains("cut.log:3: the last line has no end: the trace may be cut off"),
        "{said}"
    );
}

#[test]
fn traces_that_cannot_be_simulated_say_why() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trace(folder.path());
    let name = path.display().to_string();
    for (arguments, wanted) in [
        (
            vec!["--disk", "9"],
            format!("wakepath: {name}: no disk `9`. Known: host,0, host,1\n"),
        ),
        (
            vec!["--from", "1h"],
            format!(
                "wakepath: {name}: there is no request from 3600 s on: the last one comes after 0.960000 s\n"
            ),
        ),
    ] {
        assert_eq!(stderr(&sim(&path, &arguments).failure()), wanted);
    }
    let cut = fs::read_to_string(&path).unwrap();
    for (content, wanted) in [
        (
            &cut.as_bytes()[..cut.len() - 20],
            "columns instead of 7: the trace is cut off or damaged; this last line has no end: remove it to take what stands before",
        ),
        (b"\x1f\x8b\x08\0", "is compressed; unpack it first"),
        (
            b"\x07tae\0\0\0\0",
            "trace.csv: the record at byte 0: the trace is cut off in it; `truncate -s 0` makes a file of what stands before",
        ),
        (b"PAR1 but no recording", "trace.csv"),
        (
            b" \n",
            "trace.csv: is empty; expected fio jobs, an rt-app file or a block trace",
        ),
        (
            b"fio version 9 iolog\n",
            "begins with a version of fio's log that is not read",
        ),
    ] {
        fs::write(&path, content).unwrap();
        let said = stderr(&sim(&path, &[]).failure());
        assert!(
            said.contains(wanted) && said.trim_end().lines().count() == 1,
            "{said}"
        );
    }
    let job = folder.path().join("a.fio");
    fs::write(&job, "[a]\nrw=read\nsize=1m\n").unwrap();
    let said = stderr(&sim(&job, &["--dependent"]).failure());
    assert!(
        said.contains("--disk, --from and --dependent are for block traces"),
        "{said}"
    );
}

#[test]
fn sim_takes_the_files_of_blktrace_by_their_folder_or_one_of_them() {
    let folder = tempfile::tempdir().unwrap();
    let traced = folder.path().join("traced");
    write_long_blktrace(&traced, 30);
    let second = traced.join("sdb.blktrace.1");
    for path in [&traced, &second] {
        let done = sim(path, &["--dependent"]).success();
        let run = &json(&done)["results"][0]["runs"][0];
        let counted = (run["requests"].as_u64(), run["read_bytes"].as_u64());
        assert_eq!(counted, (Some(30), Some(30 * 4096)), "{}", path.display());
        let said = stderr(&done);
        assert!(
            said.contains("1 of 30 requests have no recorded end"),
            "{said}"
        );
    }
    let bytes = fs::read(&second).unwrap();
    fs::write(&second, &bytes[..bytes.len() - 5]).unwrap();
    let wanted = format!(
        "wakepath: {}: the record at byte {}: the trace is cut off in it; `truncate -s {1}` makes a file of what stands before\n",
        second.display(),
        bytes.len() - 48
    );
    assert_eq!(stderr(&sim(&traced, &[]).failure()), wanted);
}

#[test]
fn requests_that_stand_behind_later_ones_are_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed.csv");
    let mut text = String::new();
    for number in 0..20_u64 {
        // Each pair has its second request first.
        let time = 128_166_372_003_061_629 + (number ^ 1) * 10_000;
        let _ = writeln!(text, "{time},host,0,Read,{},4096,300", number * 4096);
    }
    fs::write(&path, text).unwrap();
    let two_policies = ["--policy", "teo"];
    let said = stderr(&sim(&path, &two_policies).success());
    let wanted =
        "10 requests stand behind a later one in the trace: they are read in the order of time";
    assert_eq!(said.matches(wanted).count(), 1, "{said}");
}

#[test]
fn a_trace_becomes_a_log_that_is_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trace(folder.path());
    let log = folder.path().join("disk1.log");
    let [trace, output] = [&path, &log].map(|path| path.to_str().unwrap());
    let extract = ["workload", "extract", trace, "-o", output];
    let done = wakepath(&[&extract[..], &["--disk", "1"]].concat()).success();
    let said = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    let wanted = format!("{output}: 10 requests over 0.900 s, up to byte 204800\n");
    assert_eq!(said, wanted);
    let text = fs::read_to_string(&log).unwrap();
    let first = "fio version 3 iolog\n0 data add\n0 data open\n1 data read 16384 4096\n100001 data write 36864 4096\n";
    assert!(text.starts_with(first), "{text}");
    // The log is a trace, and one that a job replays.
    let job = folder.path().join("replay.fio");
    let lines = format!("[replay]\ndirect=1\nioengine=psync\nread_iolog={output}\n");
    fs::write(&job, lines).unwrap();
    for replayed in [&log, &job] {
        let run = json(&sim(replayed, &[]).success())["results"][0]["runs"][0].clone();
        let seconds = run["seconds"].as_f64().unwrap();
        assert_eq!(run["requests"], 10, "{}", replayed.display());
        assert!((0.89..0.95).contains(&seconds), "{seconds}");
    }
    fails_with(
        wakepath(&extract),
        &["the file exists; --force replaces it"],
    );
    let jobs = folder.path().join("x.fio");
    let for_jobs = ["workload", "extract", trace, "--disk", "1", "-o"];
    let refused = wakepath(&[&for_jobs[..], &[jobs.to_str().unwrap()]].concat());
    fails_with(refused, &["--disk is for logs, and ", "x.fio gets no log"]);
    let none = folder.path().join("y.log");
    let of_job = ["workload", "extract", job.to_str().unwrap(), "-o"];
    let refused = wakepath(&[&of_job[..], &[none.to_str().unwrap()]].concat());
    fails_with(refused, &["replay.fio: is no block trace and no recording"]);
    assert!(!none.exists());
}

#[test]
fn a_study_of_a_trace_is_compared_and_runs_again_from_its_results() {
    let folder = tempfile::tempdir().unwrap();
    write_trace(folder.path());
    let study = folder.path().join("study.toml");
    let text = "name = 'x'\nmachine = 'laptop'\nrepeats = 4\npolicy = ['menu', 'menu + cpu-latency[limit=20us]']\n\
                [[workload]]\nname = 'w'\ntrace = 'trace.csv'\ndisk = '0'\n";
    fs::write(&study, text).unwrap();
    let results = ["a", "b"].map(|name| folder.path().join(name).display().to_string());
    wakepath(&[
        "study",
        "run",
        study.to_str().unwrap(),
        "--output",
        &results[0],
    ])
    .success();
    let compared = wakepath(&[
        "compare",
        &results[0],
        "--metric",
        "mean_us",
        "--format",
        "json",
    ]);
    let compared = compared.success();
    let said = String::from_utf8_lossy(&compared.get_output().stdout).into_owned();
    assert!(said.contains("cpu-latency"), "{said}");
    let kept = format!("{}/study.toml", results[0]);
    wakepath(&["study", "run", &kept, "--output", &results[1]]).success();
    let [first, second] =
        results.map(|folder| fs::read(format!("{folder}/metrics.parquet")).unwrap());
    assert!(first == second);
}

#[test]
fn tune_searches_over_a_trace() {
    let folder = tempfile::tempdir().unwrap();
    let path = write_trace(folder.path());
    let load = format!("{}=2h", path.display());
    let arguments = [
        "tune",
        &load,
        "--machine",
        "laptop",
        "--budget",
        "20000",
        "--keep",
        "mean_us < 5000",
    ];
    let done = wakepath(&arguments).success();
    let said = String::from_utf8_lossy(&done.get_output().stdout).into_owned();
    assert!(
        said.contains("Best on laptop") && said.contains("mean_us < 5000  trace"),
        "{said}"
    );
}

#[test]
fn a_job_file_replays_its_log_or_says_why_not() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("io.log");
    let mut text = "fio version 3 iolog\n0 data add\n0 data open\n".to_owned();
    for number in 0..20 {
        let _ = writeln!(
            text,
            "{} data read {} 4096",
            1 + number * 10_000,
            number * 4096
        );
    }
    fs::write(&log, &text).unwrap();
    let job = folder.path().join("a.fio");
    let options = format!("[a]\ndirect=1\nbs=64k\nread_iolog={}\n", log.display());
    fs::write(&job, options).unwrap();
    let done = sim(&job, &[]).success();
    let run = &json(&done)["results"][0]["runs"][0];
    assert_eq!(
        (run["reads"].as_u64(), run["read_bytes"].as_u64()),
        (Some(20), Some(81_920))
    );
    let seconds = run["seconds"].as_f64().unwrap();
    assert!((0.19..0.21).contains(&seconds), "{seconds}");
    let said = stderr(&done);
    assert!(
        said.contains("`read_iolog` decides instead of bs"),
        "{said}"
    );
    for (content, wanted) in [
        (
            &text.as_bytes()[..text.len() - 7],
            "io.log:23: `190001 data read 7782` is no line of fio's log",
        ),
        (b"", "io.log: is empty: expected a log of fio"),
        (
            b"\x07tae\0\0\0\0",
            "io.log: is blktrace's binary; make a log of it: wakepath workload extract NAME -o trace.log",
        ),
    ] {
        fs::write(&log, content).unwrap();
        let said = stderr(&sim(&job, &[]).failure());
        let is_clear = said.contains(wanted) && said.contains("a.fio:4: read_iolog: ");
        assert!(is_clear && said.trim_end().lines().count() == 1, "{said}");
    }
    fs::remove_file(&log).unwrap();
    let said = stderr(&sim(&job, &[]).failure());
    assert!(said.contains("io.log: cannot open: "), "{said}");
}
