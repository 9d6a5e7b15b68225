//! Jobs of our own in fio and in the simulator: bytes, directions, sizes, I/Os in flight, and where they end.
//!
//! fio runs each job on files of its own, all jobs at once. Where a job ends by time, only its end is compared.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio::{self, FioJobFile};

/// How near the simulator comes to fio.
#[derive(Clone, Copy)]
enum Nearness {
    /// As many I/Os and bytes in each direction.
    Same,
    /// Likewise to so many percent, where chance decides.
    Within(f64),
    /// As many I/Os in no less time in fio, which does fewer, or takes longer, on a busy machine.
    Ends,
    /// Ends once it is steady, long before its runtime of 9 s: in fio not earlier.
    Steady,
    /// Reads as a share of all I/Os, to 0.03.
    Share,
    /// The depth that the job has found.
    Depth,
}
use Nearness::{Depth, Ends, Same, Share, Steady, Within};

/// Families of options with their jobs: options with commas between lines, `|` between two jobs.
const FAMILIES: &[(&str, Nearness, &[&str])] = &[
    (
        "size",
        Same,
        &[
            "size=200k",
            "size=200k,rw=write,bs=16k",
            "filesize=64k,nrfiles=3,rw=randread",
        ],
    ),
    (
        "io_size",
        Same,
        &[
            "size=200k,io_size=100k",
            "size=200k,io_size=500k,rw=write",
            "size=200k,io_size=400k,rw=randwrite,norandommap",
        ],
    ),
    (
        "number_ios",
        Same,
        &[
            "size=1m,number_ios=7",
            "size=1m,rw=randwrite,number_ios=30",
            "size=64k,number_ios=20,loops=2",
        ],
    ),
    (
        "loops",
        Same,
        &[
            "size=200k,loops=3",
            "size=200k,loops=2,rw=randread",
            "size=200k,loops=2,rw=write,bs=8k",
        ],
    ),
    (
        "mix",
        Within(12.0),
        &[
            "size=16m,rw=randrw",
            "size=16m,rw=rw,rwmixread=70",
            "size=16m,rw=randrw,rwmixwrite=80,norandommap",
        ],
    ),
    (
        "bs",
        Same,
        &[
            "size=300k,bs=64k",
            "size=300k,bs=12k,rw=randread",
            "size=512k,rw=write,bs=4k+32k",
        ],
    ),
    (
        "bsrange",
        Within(15.0),
        &[
            "size=8m,bsrange=4k-64k",
            "size=8m,rw=write,bssplit=4k/80:64k/20",
            "size=8m,rw=randread,bssplit=4k/50:16k/50",
        ],
    ),
    (
        "zones",
        Same,
        &[
            "size=1m,zonemode=strided,zonesize=64k,zoneskip=64k",
            "size=1m,zonemode=strided,zonesize=64k,zoneskip=64k,rw=randread",
            "size=1m,zonemode=strided,zonesize=128k,zonerange=64k,zoneskip=64k,rw=write",
        ],
    ),
    (
        "numjobs",
        Same,
        &[
            "size=64k,numjobs=3",
            "size=64k,numjobs=2,rw=randwrite",
            "size=90k,nrfiles=3,numjobs=2",
        ],
    ),
    (
        "iodepth",
        Same,
        &[
            "size=400k,ioengine=libaio,iodepth=4",
            "size=400k,ioengine=libaio,iodepth=8,iodepth_batch=4,rw=randread",
            "size=400k,ioengine=libaio,iodepth=16,iodepth_batch_complete_min=4,rw=write",
        ],
    ),
    (
        "thinktime",
        Ends,
        &[
            "size=1m,thinktime=2ms",
            "size=1m,rw=write,thinktime=10ms,thinktime_blocks=8",
            // Without thinktime_spin: fio 3.33 sleeps for hours if its spinning is held up for longer than the pause.
            "size=1m,rw=randread,thinktime=20ms,thinktime_blocks=16,thinktime_blocks_type=issue",
        ],
    ),
    (
        "rate",
        Ends,
        &[
            "size=1m,rate_iops=400",
            "size=1m,rw=write,rate=1m",
            "size=1m,rw=randread,rate_iops=400,ioengine=libaio,iodepth=4",
        ],
    ),
    (
        "runtime",
        Ends,
        &[
            "size=1m,rate_iops=100,runtime=1",
            "size=1m,rw=write,rate_iops=100,time_based,runtime=1500ms",
            "size=64k,rw=randread,rate_iops=100,time_based,runtime=1,startdelay=1",
        ],
    ),
    (
        "fsync",
        Same,
        &[
            "size=200k,rw=write,fsync=4",
            "size=200k,rw=randwrite,fdatasync=1",
            "size=200k,rw=write,end_fsync=1,loops=2",
        ],
    ),
    (
        "random_distribution",
        Same,
        &[
            "size=400k,rw=randread,random_distribution=zipf:1.2",
            "size=400k,rw=randwrite,random_distribution=normal:30",
            "size=400k,rw=randwrite,percentage_random=50,norandommap",
        ],
    ),
    (
        "offset",
        Same,
        &[
            "size=200k,offset=64k",
            "size=200k,offset=64k,rw=write",
            "size=200k,offset=64k,rw=randwrite,loops=2",
        ],
    ),
    (
        "trims",
        Same,
        &[
            "size=200k,rw=trim,ioengine=null",
            "size=200k,rw=randtrim,ioengine=null",
            "size=200k,rw=trimwrite,ioengine=null",
        ],
    ),
    (
        "verify",
        Same,
        &[
            "size=200k,rw=write,verify=crc32c",
            "size=200k,rw=randwrite,verify=md5,loops=2,ioengine=libaio,iodepth=8",
            "size=200k,rw=write,verify=pattern,verify_pattern=0xab,io_size=500k",
            "size=200k,rw=randwrite,verify=crc32c,bssplit=4k/100",
        ],
    ),
    (
        "buffered verify",
        Same,
        &[
            "size=200k,rw=write,verify=md5,direct=0",
            "size=200k,rw=write,verify=crc32c,bs=16k,loops=2,direct=0",
            "size=128k,rw=write,verify=md5,experimental_verify=1,do_verify=1,direct=0",
            "size=200k,rw=write,verify=crc32c,verify_backlog=8,direct=0",
            "size=200k,rw=randwrite,verify=crc32c,fadvise_hint=sequential,direct=0",
        ],
    ),
    (
        "buffered gaps",
        Same,
        &[
            "size=200k,rw=read:8k,direct=0",
            "size=200k,rw=read:-8k,direct=0",
            "size=512k,rw=read:16k,bs=16k,loops=2,direct=0",
            "size=64k,rw=read:8k",
        ],
    ),
    (
        "mapped files",
        Same,
        &[
            "size=200k,ioengine=mmap,direct=0",
            "size=512k,ioengine=mmap,rw=randread,bs=16k,loops=2,direct=0",
            "size=400k,ioengine=mmap,rw=randread,norandommap,fadvise_hint=0,iodepth=8,direct=0",
            "size=256k,ioengine=mmap,rw=read:8k,number_ios=20,direct=0",
            "size=256k,ioengine=mmap,rw=randwrite,fsync=8,direct=0",
            "size=200k,ioengine=mmap,rw=write,verify=crc32c,direct=0",
        ],
    ),
    (
        "buffered rings",
        Same,
        &[
            "size=400k,ioengine=io_uring,iodepth=8,direct=0",
            "size=1m,ioengine=io_uring,iodepth=16,rw=randread,norandommap,direct=0",
            "size=512k,ioengine=io_uring,iodepth=4,bs=64k,loops=3,invalidate=0,direct=0",
            "size=400k,ioengine=io_uring,iodepth=8,rw=write,verify=crc32c,direct=0",
        ],
    ),
    (
        "verify without a map",
        Within(8.0),
        &[
            "size=8m,rw=randwrite,verify=crc32c,norandommap",
            "size=8m,rw=randwrite,verify=crc32c,norandommap,ioengine=libaio,iodepth=4",
            "size=8m,rw=randrw,verify=xxhash,norandommap",
        ],
    ),
    (
        "verify_backlog",
        Same,
        &[
            "size=200k,rw=write,verify=crc32c,verify_backlog=8",
            "size=200k,rw=randwrite,verify=crc32c,verify_backlog=5,verify_backlog_batch=2",
            "size=200k,rw=write,verify=crc32c,verify_backlog=4,number_ios=20",
        ],
    ),
    (
        "verify_async",
        Same,
        &[
            "size=200k,rw=write,verify=crc32c,verify_async=2",
            "size=200k,rw=randwrite,verify=md5,verify_async=3,ioengine=libaio,iodepth=8",
            "size=200k,rw=write,verify=crc32c,verify_async=1,verify_backlog=4",
        ],
    ),
    (
        "offload",
        Same,
        &[
            "size=200k,io_submit_mode=offload,iodepth=4",
            "size=200k,io_submit_mode=offload,iodepth=8,ioengine=libaio,rw=randread",
            "size=320k,io_submit_mode=offload,iodepth=2,rw=randread,bs=16k",
        ],
    ),
    (
        "offload at a rate",
        Ends,
        &[
            "size=1m,io_submit_mode=offload,iodepth=4,rate_iops=400",
            "size=1m,io_submit_mode=offload,iodepth=8,rate_iops=300,rw=randread",
            "size=1m,io_submit_mode=offload,iodepth=4,rate=1m,ioengine=libaio",
        ],
    ),
    (
        "latency_target",
        Depth,
        &[
            "size=64k,time_based,runtime=9,rate_iops=500,ioengine=libaio,iodepth=8,latency_target=5s,latency_window=300ms",
            "size=64k,time_based,runtime=9,rate_iops=500,rw=randread,ioengine=libaio,iodepth=2,latency_target=5s,latency_window=400ms,latency_percentile=99",
            "size=64k,time_based,runtime=1,rate_iops=500,ioengine=libaio,iodepth=2,latency_target=5s,latency_window=200ms,latency_run=1",
        ],
    ),
    (
        "flow",
        Share,
        &[
            "size=8m,flow=1,flow_id=1,runtime=1,time_based,rate_iops=2000,flow_sleep=500|size=8m,rw=write,flow=3,flow_id=1,runtime=1,time_based,rate_iops=500",
            "size=8m,flow=2,flow_id=2,runtime=1,time_based,flow_sleep=300|size=8m,rw=randwrite,flow=2,flow_id=2,runtime=1,time_based,rate_iops=300",
            "size=8m,flow=1,flow_id=3,runtime=1,time_based,rate_iops=200,flow_sleep=1000|size=8m,rw=write,flow=4,flow_id=3,runtime=1,time_based,rate_iops=400",
        ],
    ),
    (
        "steadystate",
        Steady,
        &[
            "size=64k,time_based,runtime=9,rate_iops=200,ss=iops:20%,ss_dur=2",
            "size=64k,time_based,runtime=9,rate_iops=200,ss=bw_slope:20%,ss_dur=2,rw=randread",
            "size=64k,time_based,runtime=9,rate_iops=200,ss=iops:50,ss_dur=2,ss_ramp=1",
        ],
    ),
    (
        "read_iolog",
        Ends,
        &[
            "read_iolog=LOGS/v3",
            "read_iolog=LOGS/v2",
            "read_iolog=LOGS/v3,replay_time_scale=50,loops=2,rw=randwrite,rate_iops=2",
        ],
    ),
    (
        "read_iolog at once",
        Same,
        &[
            "read_iolog=LOGS/v3,replay_no_stall=1",
            "read_iolog=LOGS/v2,replay_no_stall=1,read_iolog_chunked=1",
            "read_iolog=LOGS/v3,replay_no_stall=1,size=4k,number_ios=3,replay_scale=2,replay_align=4k,numjobs=2",
        ],
    ),
    (
        "wait_for and groups",
        Ends,
        &[
            "size=64k,rate_iops=20,runtime=1,startdelay=500ms",
            "size=64k,rw=write,rate_iops=20,startdelay=1",
            "size=64k,rate_iops=32,loops=2",
        ],
    ),
];

/// Jobs of a case, each with its name and options, one a line. `logs`: the folder that `LOGS` stands for.
fn jobs_of_case(number: usize, case: &str, logs: &str) -> Vec<(String, String)> {
    let jobs = case.split('|').enumerate();
    jobs.map(|(job, options)| {
        let lines = options
            .replace(',', "\n")
            .replace('+', ",")
            .replace("LOGS", logs);
        (format!("case{number}-{job}"), lines)
    })
    .collect()
}

/// A folder with logs of both versions, and the file that they name.
fn write_logs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::write(&data, vec![7; 1 << 20]).unwrap();
    let name = data.display();
    let mut three = format!("fio version 3 iolog\n0 {name} add\n0 {name} open\n");
    let mut two = format!("fio version 2 iolog\n{name} add\n{name} open\n");
    for number in 0..30_u64 {
        let (time, offset) = (1000 + number * 20_000, number * 16_384);
        let action = ["read", "read", "write", "trim", "sync"][number as usize % 5];
        // As in fio's own logs, a sync has no length.
        let bytes = if action == "sync" {
            0
        } else {
            4096 << (number % 3)
        };
        let _ = writeln!(three, "{time} {name} {action} {offset} {bytes}");
        let _ = writeln!(two, "{name} {action} {offset} {bytes}");
    }
    let _ = writeln!(three, "700000 {name} close");
    // fio counts from its own start, which takes some time.
    for (wait, offset) in [(1500, 0), (1000, 4096), (3000, 8192)] {
        let _ = writeln!(two, "{name} wait {wait} 0\n{name} write {offset} 4096");
    }
    let _ = writeln!(two, "{name} close");
    std::fs::write(folder.path().join("v3"), three).unwrap();
    std::fs::write(folder.path().join("v2"), two).unwrap();
    folder
}

/// Reads and writes with their bytes, how long the job took in s, and the largest class of I/Os in flight.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    ios: [u64; 2],
    bytes: [u64; 2],
    seconds: f64,
    depth: u32,
    /// The depth that a `latency_target` has led to; 0 without.
    found_depth: u64,
}

/// Options of all jobs.
const GLOBAL: &str = "[global]\ncontinue_on_error=verify\n";
/// All jobs end within 10 s on a quiet machine.
const HUNG_AFTER: Duration = Duration::from_secs(40);
/// How often a job that differs runs again, by itself.
const FURTHER_RUNS: usize = 3;
/// How often fio is started again.
const MOST_STARTS: usize = 6;

/// fio's report of these jobs, or `None` if a job never ended.
fn run_fio_once(text: &str) -> Option<String> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.fio");
    let report = folder.path().join("report.json");
    std::fs::write(&path, text).unwrap();
    let mut fio = Command::new("fio");
    fio.args(["--output-format=json", "--eta=never", "--output"])
        .args([&report, &path])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir(folder.path());
    let mut running = fio.spawn().unwrap();
    let begin = Instant::now();
    while running.try_wait().unwrap().is_none() {
        if begin.elapsed() > HUNG_AFTER {
            let parent = running.id().to_string();
            let mut kill_jobs = Command::new("pkill");
            kill_jobs.args(["-KILL", "-P", &parent]).status().unwrap();
            running.wait().unwrap();
            println!("fio hung with {} jobs", text.matches("new_group").count());
            return None;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    Some(std::fs::read_to_string(report).unwrap())
}

/// What fio made of each job, by name; trims count as writes of no bytes.
///
/// Jobs of fio 3.33 with `io_submit_mode=offload` hang now and then: all its threads sleep. Each has a fio of its own.
fn run_fio(text: &str) -> Vec<(String, Outcome)> {
    let mut reports = (0..MOST_STARTS).filter_map(|_| run_fio_once(text));
    let report = reports
        .next()
        .unwrap_or_else(|| panic!("fio hung {MOST_STARTS} times:\n{text}"));
    let begin = report.find('{').unwrap_or_else(|| panic!("{report}"));
    let json: Value = serde_json::from_str(&report[begin..]).unwrap();
    let jobs = json["jobs"].as_array().unwrap();
    jobs.iter().map(outcome_from_report).collect()
}

fn number(job: &Value, direction: &str, key: &str) -> u64 {
    job[direction][key].as_u64().unwrap()
}

/// A job's name and outcome, from its part of fio's report.
fn outcome_from_report(job: &Value) -> (String, Outcome) {
    let levels = [("1", 1), ("2", 2), ("4", 4), ("8", 8), ("16", 16)];
    let used = levels.iter().filter(|(name, _)| {
        let percent = job["iodepth_level"][name].as_f64();
        percent.unwrap() > 0.0
    });
    let outcome = Outcome {
        ios: [
            number(job, "read", "total_ios"),
            number(job, "write", "total_ios") + number(job, "trim", "total_ios"),
        ],
        bytes: [
            number(job, "read", "io_bytes"),
            number(job, "write", "io_bytes"),
        ],
        seconds: job["job_runtime"].as_u64().unwrap() as f64 / 1e3,
        depth: used.map(|(_, depth)| *depth).max().unwrap_or(0),
        found_depth: job["latency_depth"].as_u64().unwrap(),
    };
    (job["jobname"].as_str().unwrap().to_owned(), outcome)
}

fn simulate_jobs(file: &FioJobFile) -> Run {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    machine.drive.flush_us = Figure::assumed(100.0, "test");
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    simulate(&machine, &file.clone().into(), &policies, 1).unwrap()
}

/// What the simulator makes of a case.
fn simulate_case(jobs: &[(String, String)]) -> Outcome {
    let mut text = String::new();
    for (name, options) in jobs {
        let options = options.replace("ioengine=null", "ioengine=psync");
        let past_the_cache = if options.contains("direct=0") {
            ""
        } else {
            "direct=1"
        };
        let _ = writeln!(text, "[{name}]\n{options}\n{past_the_cache}");
    }
    let file = fio::parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let run = simulate_jobs(&file);
    Outcome {
        ios: [run.reads, run.writes],
        bytes: [run.read_bytes, run.written_bytes],
        // fio counts from the end of the delay.
        seconds: run.seconds - file.jobs[0].startdelay.0.as_secs_f64(),
        depth: file.jobs[0].effective_iodepth(),
        found_depth: run
            .found_depths
            .first()
            .map_or(0, |found| u64::from(found.depth)),
    }
}

/// The sections of jobs, by name and options.
fn write_sections(jobs: &[(String, String)]) -> String {
    let mut sections = String::new();
    for (name, options) in jobs {
        // fio wants one steady state for all jobs of a group.
        let _ = writeln!(sections, "[{name}]\nnew_group\n{options}");
    }
    sections
}

fn write_job_file(jobs: &[(String, String)]) -> String {
    format!("{GLOBAL}{}", write_sections(jobs))
}

/// What fio made of a case, over all processes of its jobs.
fn outcome_in_fio(jobs: &[(String, String)], all: &[(String, Outcome)]) -> Outcome {
    let mut sum = Outcome::default();
    let is_of_case = |name: &String| jobs.iter().any(|(job, _)| job == name);
    for (_, one) in all.iter().filter(|(name, _)| is_of_case(name)) {
        for direction in [0, 1] {
            sum.ios[direction] += one.ios[direction];
            sum.bytes[direction] += one.bytes[direction];
        }
        sum.seconds = sum.seconds.max(one.seconds);
        sum.depth = sum.depth.max(one.depth);
        sum.found_depth = sum.found_depth.max(one.found_depth);
    }
    sum
}

fn read_share(outcome: Outcome) -> f64 {
    let [reads, writes] = outcome.ios.map(|count| count as f64);
    reads / (reads + writes)
}

fn differs_by_percent(theirs: u64, own: u64, percent: f64) -> bool {
    (own as f64 - theirs as f64).abs() > percent / 100.0 * theirs as f64
}

fn differs_in_amount(theirs: Outcome, own: Outcome, percent: f64) -> bool {
    [0, 1].into_iter().any(|n| {
        differs_by_percent(theirs.ios[n], own.ios[n], percent)
            || differs_by_percent(theirs.bytes[n], own.bytes[n], percent)
    })
}

/// Whether fio did more than the simulator, or less than a busy machine explains.
fn differs_beyond_lateness(theirs: Outcome, own: Outcome) -> bool {
    [0, 1].into_iter().any(|n| {
        let share = (theirs.ios[n] + 1) as f64 / (own.ios[n] + 1) as f64;
        !(0.7..1.05).contains(&share)
    })
}

/// Whether fio was earlier by more than a tenth and 0.1 s.
fn is_earlier(theirs: Outcome, own: Outcome) -> bool {
    theirs.seconds < 0.9 * own.seconds - 0.1
}

/// Whether fio did what the simulation did, and had no more in flight.
fn is_as_simulated(nearness: Nearness, case: &str, theirs: Outcome, own: Outcome) -> bool {
    // Threads of fio do not count what is in flight.
    let is_deeper = theirs.depth > own.depth && !case.contains("offload");
    !differs(nearness, theirs, own) && !is_deeper
}

fn differs(nearness: Nearness, theirs: Outcome, own: Outcome) -> bool {
    match nearness {
        Same => theirs.ios != own.ios || theirs.bytes != own.bytes,
        Within(percent) => differs_in_amount(theirs, own, percent),
        Ends => differs_beyond_lateness(theirs, own) || is_earlier(theirs, own),
        Steady => {
            !(2.0..7.0).contains(&own.seconds) || theirs.seconds > 7.0 || is_earlier(theirs, own)
        }
        Share => (read_share(theirs) - read_share(own)).abs() > 0.03,
        Depth => theirs.found_depth != own.found_depth,
    }
}

#[test]
fn jobs_of_each_family_do_what_they_do_in_fio() {
    if Command::new("fio").arg("--version").output().is_err() {
        let reason = "fio is not installed (Debian package fio)";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        eprintln!("skipped: jobs_of_each_family_do_what_they_do_in_fio: {reason}");
        return;
    }
    let families = FAMILIES.iter().flat_map(|(family, nearness, cases)| {
        assert!(cases.len() >= 3, "{family}");
        cases.iter().map(move |case| (*family, *nearness, *case))
    });
    let mut together = GLOBAL.to_owned();
    let mut theirs = Vec::new();
    let mut cases = Vec::new();
    let logs = write_logs();
    for (number, (family, nearness, case)) in families.enumerate() {
        let jobs = jobs_of_case(number, case, &logs.path().display().to_string());
        // Waits in a log count from fio's start.
        if case.contains("offload") || case.contains("/v2") {
            theirs.extend(run_fio(&write_job_file(&jobs)));
        } else {
            together.push_str(&write_sections(&jobs));
        }
        cases.push((family, nearness, case, jobs));
    }
    theirs.extend(run_fio(&together));
    let mut apart = Vec::new();
    for (family, nearness, case, jobs) in &cases {
        let ours = simulate_case(jobs);
        let first = outcome_in_fio(jobs, &theirs);
        // Processes of fio that look at each other's progress race on a busy machine: these jobs run again, by themselves.
        let again =
            std::iter::repeat_with(|| outcome_in_fio(jobs, &run_fio(&write_job_file(jobs))));
        let mut tried = std::iter::once(first).chain(again.take(FURTHER_RUNS));
        if !tried.any(|fio| is_as_simulated(*nearness, case, fio, ours)) {
            apart.push(format!(
                "{family}: {case}:\n  fio {first:?}\n  we  {ours:?}"
            ));
        }
    }
    let count = cases.len();
    println!("{} of {count} jobs are as in fio", count - apart.len());
    assert!(count >= 60, "{count}");
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
