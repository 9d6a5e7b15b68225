//! Jobs of our own in fio and in the simulator: bytes, directions, sizes, I/Os in flight, and where they end.
//!
//! fio runs each job on files of its own, all jobs at once. Where a job ends by time, only its end is compared.
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test may panic")]

mod families;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::observer::{Activity, Observer, RequestStep};
use wakepath_sim::{Run, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio::{self, FioJob, FioJobFile};

use families::{Depth, Ends, FAMILIES, Nearness, Same, Share, Steady, Within};

/// Jobs of a case, each with its name and options, one a line. `logs`: the folder that `LOGS` stands for.
fn jobs_of_case(number: usize, case: &str, logs: &str) -> Vec<(String, String)> {
    let name = format!("case{number}");
    let jobs = case.split('|').enumerate();
    jobs.map(|(job, options)| {
        let lines = options
            .replace(',', "\n")
            .replace('+', ",")
            .replace("CASE", &name)
            .replace("LOGS", logs);
        // The jobs of a case are in groups of their own.
        let begin = if job == 0 { "new_group\n" } else { "" };
        (format!("{name}-{job}"), format!("{begin}{lines}"))
    })
    .collect()
}

/// A folder with logs of both versions, and the file that they name.
fn write_logs() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    std::fs::write(&data, vec![7; 1 << 20]).unwrap();
    std::fs::write(folder.path().join("plain"), vec![7; 1 << 20]).unwrap();
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
    // At once: fio also waits for the time of the last line, the simulator ends with the last request.
    let _ = writeln!(three, "581000 {name} close");
    // fio counts from its own start, which takes some time.
    for (wait, offset) in [(1500, 0), (1000, 4096), (3000, 8192)] {
        let _ = writeln!(two, "{name} wait {wait} 0\n{name} write {offset} 4096");
    }
    let _ = writeln!(two, "{name} close");
    std::fs::write(folder.path().join("v3"), three).unwrap();
    std::fs::write(folder.path().join("v2"), two).unwrap();
    folder
}

/// Reads and writes with their bytes, and how long the job took in s.
#[derive(Clone, Copy, Debug, Default)]
struct Outcome {
    ios: [u64; 2],
    bytes: [u64; 2],
    seconds: f64,
    /// fio's number of the job's group.
    group: u64,
    /// The largest class of I/Os in flight: see [`class_of_depth`].
    depth: u32,
    /// The class of the largest depth that the job may have.
    most_depth: u32,
    /// The depth that a `latency_target` has led to; 0 without.
    found_depth: u64,
}

/// Options of all jobs.
const GLOBAL: &str = "[global]\ncontinue_on_error=verify\n";
/// All jobs end within 10 s on a quiet machine.
const HUNG_AFTER: Duration = Duration::from_secs(40);
/// How often a job that differs runs again, by itself.
const FURTHER_RUNS: usize = 3;
/// How often a job runs again whose end is compared: fio's fastest run counts.
const FURTHER_RUNS_FOR_END: usize = 6;
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

/// Classes by which fio counts I/Os in flight, with their names: each up to the next.
const DEPTH_CLASSES: [(&str, u32); 7] = [
    ("1", 1),
    ("2", 2),
    ("4", 4),
    ("8", 8),
    ("16", 16),
    ("32", 32),
    (">=64", 64),
];

/// fio's class of a number of I/Os in flight, by its lower end; 0 for none.
fn class_of_depth(ios: u32) -> u32 {
    let classes = DEPTH_CLASSES.iter().map(|(_, class)| *class);
    classes.filter(|class| *class <= ios).max().unwrap_or(0)
}

/// A figure of a direction; 0 for a job that never began.
fn number(job: &Value, direction: &str, key: &str) -> u64 {
    job[direction][key].as_u64().unwrap_or(0)
}

/// A job's name and outcome, from its part of fio's report.
fn outcome_from_report(job: &Value) -> (String, Outcome) {
    let used = DEPTH_CLASSES.iter().filter(|(name, _)| {
        let percent = job["iodepth_level"][name].as_f64();
        percent.is_some_and(|percent| percent > 0.0)
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
        seconds: job["job_runtime"].as_u64().unwrap_or(0) as f64 / 1e3,
        group: job["groupid"].as_u64().unwrap(),
        depth: used.map(|(_, depth)| *depth).max().unwrap_or(0),
        most_depth: 0,
        found_depth: job["latency_depth"].as_u64().unwrap_or(0),
    };
    (job["jobname"].as_str().unwrap().to_owned(), outcome)
}

/// The largest number of requests that a process of a job has in flight.
#[derive(Default)]
struct LargestDepth {
    /// Tasks that have run as processes of jobs: kernel threads write back, too.
    processes: BTreeSet<usize>,
    /// Task by number of the request.
    task_of_request: HashMap<usize, usize>,
    /// Requests in flight, by task.
    in_flight: BTreeMap<usize, u32>,
    largest: u32,
}

impl Observer for LargestDepth {
    fn cpu_activity_changed(&mut self, _now: Nanoseconds, _cpu: usize, activity: Activity) {
        if let Activity::Task { task, job, .. } = activity
            && job.is_some()
        {
            self.processes.insert(task);
        }
    }

    fn request_step_reached(&mut self, _now: Nanoseconds, step: RequestStep) {
        match step {
            RequestStep::Issued { task, request, .. } if self.processes.contains(&task) => {
                self.task_of_request.insert(request, task);
                let count = self.in_flight.entry(task).or_default();
                *count += 1;
                self.largest = self.largest.max(*count);
            }
            RequestStep::Completed { request } => {
                if let Some(task) = self.task_of_request.remove(&request) {
                    *self.in_flight.entry(task).or_default() -= 1;
                }
            }
            _ => {}
        }
    }
}

/// The run of jobs, and the largest number of requests in flight.
fn simulate_jobs(file: &FioJobFile) -> (Run, u32) {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    machine.drive.flush_us = Figure::assumed(100.0, "test");
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    let mut depth = LargestDepth::default();
    let run = simulate_observed(&machine, &file.clone().into(), &policies, 1, &mut depth).unwrap();
    (run, depth.largest)
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
    let (run, largest) = simulate_jobs(&file);
    let depths = file.jobs.iter().map(FioJob::effective_iodepth);
    Outcome {
        ios: [run.reads, run.writes],
        bytes: [run.read_bytes, run.written_bytes],
        // As in fio, without a delay of the first job.
        seconds: run.seconds,
        group: 0,
        depth: class_of_depth(largest),
        most_depth: class_of_depth(depths.max().unwrap_or(0)),
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
        let _ = writeln!(sections, "[{name}]\n{options}");
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
    // A group behind a stonewall begins when the one before it has ended.
    let is_behind_stonewall = |name: &String| {
        let mut own = jobs.iter().filter(|(job, _)| job == name);
        own.any(|(_, options)| {
            let mut lines = options.lines();
            lines.any(|line| line == "stonewall" || line == "wait_for_previous")
        })
    };
    let (mut ended, mut group) = (0.0, None);
    for (name, one) in all.iter().filter(|(name, _)| is_of_case(name)) {
        for direction in [0, 1] {
            sum.ios[direction] += one.ios[direction];
            sum.bytes[direction] += one.bytes[direction];
        }
        if group != Some(one.group) && is_behind_stonewall(name) {
            ended = sum.seconds;
        }
        group = Some(one.group);
        sum.seconds = sum.seconds.max(ended + one.seconds);
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

/// Whether the simulation ended before fio's fastest run by more than a tenth, where the end is compared.
fn ends_before_fio(nearness: Nearness, fastest: f64, own: Outcome) -> bool {
    matches!(nearness, Ends) && own.seconds < 0.9 * fastest
}

/// Whether fio did what the simulation did, and had as much in flight.
fn is_as_simulated(nearness: Nearness, case: &str, theirs: Outcome, own: Outcome) -> bool {
    !differs(nearness, case, theirs, own) && !differs_in_depth(nearness, case, theirs, own)
}

/// How much later than asked a sleep ends on this machine at present, in s.
fn measure_lateness_of_sleeps() -> f64 {
    const SLEEPS: u32 = 50;
    const SLEEP: Duration = Duration::from_millis(2);
    let begin = Instant::now();
    for _ in 0..SLEEPS {
        std::thread::sleep(SLEEP);
    }
    let late = begin.elapsed().saturating_sub(SLEEPS * SLEEP);
    late.as_secs_f64() / f64::from(SLEEPS)
}

/// What late wake-ups add to a job's time on this machine, in s: each I/O may have one after a pause, and one when it is done.
fn time_of_late_wake_ups(outcome: Outcome) -> f64 {
    2.0 * outcome.ios.iter().sum::<u64>() as f64 * measure_lateness_of_sleeps()
}

/// Jobs whose I/Os wait for a thread of the kernel, or are found in the page cache: in flight to fio only.
const IN_FLIGHT_TO_FIO_ONLY: [&str; 3] = [
    "sqthread_poll",
    "force_async",
    "io_uring,iodepth=16,rw=randread,norandommap,direct=0",
];

/// Whether fio or the simulator had more in flight than the job may have, or one had other than the other. Where time decides, late I/Os
/// come together in fio, so only the simulator may have less.
fn differs_in_depth(nearness: Nearness, case: &str, theirs: Outcome, own: Outcome) -> bool {
    if own.depth > own.most_depth {
        return true;
    }
    // Threads of fio do not count what is in flight.
    if case.contains("offload") {
        return false;
    }
    let is_in_flight_to_fio_only = IN_FLIGHT_TO_FIO_ONLY.iter().any(|job| case.contains(job));
    match nearness {
        Same | Within(_) if !is_in_flight_to_fio_only => theirs.depth != own.depth,
        _ => theirs.depth > own.most_depth || own.depth > theirs.depth,
    }
}

/// Whether a job ends by what it has done, so that its I/Os do not depend on time.
fn ends_by_amount(case: &str) -> bool {
    let by_time = ["runtime", "exitall", "ramp_time"];
    !by_time.iter().any(|option| case.contains(option))
}

fn differs(nearness: Nearness, case: &str, theirs: Outcome, own: Outcome) -> bool {
    let differs_at_all = theirs.ios != own.ios || theirs.bytes != own.bytes;
    match nearness {
        Same => differs_at_all,
        Within(percent) => differs_in_amount(theirs, own, percent),
        Ends if ends_by_amount(case) => differs_at_all || is_earlier(theirs, own),
        Ends => differs_beyond_lateness(theirs, own) || is_earlier(theirs, own),
        Steady => {
            !(1.8..7.0).contains(&own.seconds) || theirs.seconds > 7.0 || is_earlier(theirs, own)
        }
        Share => (read_share(theirs) - read_share(own)).abs() > 0.03,
        Depth => theirs.found_depth != own.found_depth,
    }
}

/// Whether a case runs in a fio of its own: waits in a log count from fio's start, and stonewalls and `exitall` concern all jobs.
fn runs_by_itself(case: &str) -> bool {
    [
        "offload",
        "/v2",
        "exitall",
        "stonewall",
        "wait_for_previous",
    ]
    .iter()
    .any(|part| case.contains(part))
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
        if runs_by_itself(case) {
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
        let most = match nearness {
            Ends => FURTHER_RUNS_FOR_END,
            Same | Within(_) | Steady | Share | Depth => FURTHER_RUNS,
        };
        let mut tried = std::iter::once(first).chain(again.take(most));
        let (mut is_alike, mut fastest) = (false, f64::INFINITY);
        let is_as_in_fio = tried.any(|fio| {
            is_alike |= is_as_simulated(*nearness, case, fio, ours);
            fastest = fastest.min(fio.seconds);
            if is_alike && ends_before_fio(*nearness, fastest, ours) {
                fastest = fastest.min(fio.seconds - time_of_late_wake_ups(fio));
            }
            is_alike && !ends_before_fio(*nearness, fastest, ours)
        });
        if !is_as_in_fio {
            apart.push(format!(
                "{family}: {case}:\n  fio {first:?}, the fastest run {fastest} s\n  we  {ours:?}"
            ));
        }
    }
    let count = cases.len();
    println!("{} of {count} jobs are as in fio", count - apart.len());
    assert!(count >= 60, "{count}");
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}
