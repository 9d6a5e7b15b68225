//! `wakepath workload extract -o FILE.toml`: tasks from recordings, judged under policies that were not recorded.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::{Path, PathBuf};

use wakepath_trace::recording::{
    DataQuality, Event, EventKind, IdlePeriod, Metadata, Overwrite, Reader, Recorded,
    RecordingError, TaskStep, Writer,
};
use wakepath_units::Nanoseconds;

use crate::common::{fails_with, json, repository, wakepath};

/// A reader that thinks after three of its requests, which have two sizes, and a second one with another pace.
const THINKING_READERS: &str = "[global]\nioengine=psync\ndirect=1\nrw=randread\nsize=1g\ntime_based=1\nruntime=1s\n\
    [uneven]\nbssplit=4k/60:64k/40\nthinktime=700us\nthinktime_blocks=3\n\
    [slow]\nbs=4k\nthinktime=2900us\nthinktime_spin=120us\n";

/// A thread with a timer that writes and has its helper work, the helper, and another thread with a timer. A lease of psd, which lasts
/// 3 ms, ends well before the next timer.
const THREADS: &str = r#"{
  "tasks": {
    "front": { "run": 60, "iorun": 8192, "sem_post": "work", "sem_wait": "done",
               "timer": { "ref": "unique1", "period": 4300 } },
    "helper": { "sem_wait": "work", "run": 150, "sem_post": "done" },
    "other": { "run": 200, "timer": { "ref": "unique2", "period": 7300 } }
  },
  "global": { "duration": 2 }
}"#;

/// A job with four requests in flight.
const DEPTH_4: &str = "[deep]\nioengine=io_uring\niodepth=4\ndirect=1\nrw=randread\nbs=16k\nsize=1g\ntime_based=1\nruntime=1s\n";

/// Four requests in flight that are longer. Of those with 16 KiB on another machine, one in a hundred meets the deepest state: the
/// 99th percentile lies between two kinds of requests.
const LARGE_DEPTH_4: &str = "[deep]\nioengine=io_uring\niodepth=4\ndirect=1\nrw=randread\nbs=64k\nsize=1g\ntime_based=1\nruntime=1s\n";

/// A database's log beside a reader: two writes and a flush, then a pause.
const COMMITS: &str = "[global]\nioengine=psync\ndirect=1\nsize=1g\ntime_based=1\nruntime=1s\n\
    [log]\nrw=write\nbs=8k\nfdatasync=2\nthinktime=900us\nthinktime_blocks=2\n\
    [reader]\nrw=randread\nbs=4k\nthinktime=700us\n";

/// Writes into the page cache, each with a commit.
const CACHED_COMMITS: &str =
    "[log]\nioengine=psync\nrw=write\nbs=4k\nfdatasync=1\nsize=64m\ntime_based=1\nruntime=1s\n";

/// Writes that end on the media.
const FORCED_WRITES: &str = "[log]\nfilename=/dev/nvme0n1\nioengine=psync\ndirect=1\nrw=randwrite\nbs=4k\nsync=dsync\nsize=1g\n\
    time_based=1\nruntime=1s\nthinktime=300us\n";

/// A reader beside a main process that leaves RCU callbacks, in the guest of the laboratory.
const BESIDE_CALLBACKS: &str = "[reader]\nioengine=psync\ndirect=1\nrw=randread\nbs=4k\nsize=1g\ntime_based=1\nruntime=1s\n\
    thinktime=1200us\nthinktime_blocks=3\n";

/// Policies that were not recorded, and the one that was.
const RECORDED: &str = "menu";
const OTHERS: [&str; 2] = ["menu + cpu-latency[limit=50us]", "menu + psd"];

/// How far each figure may be off: mean latency, 99th percentile, and idle periods at three percentiles.
const BOUNDS: [f64; 5] = [0.1, 0.2, 0.15, 0.15, 0.15];

/// How far flushes may be off: calls for each I/O, mean and 99th percentile of their time.
const COMMIT_BOUNDS: [f64; 3] = [0.02, 0.1, 0.2];

/// Mean and 99th percentile of latency in us, and the 10th, 50th and 90th percentile of idle periods in ns.
type Figures = [f64; 5];

/// Lengths of a recording's idle periods at three percentiles.
pub(crate) fn idle_percentiles(recording: &Path) -> [f64; 3] {
    let mut lengths = Vec::new();
    let mut reader = Reader::open(recording).unwrap();
    reader
        .for_each_event(|event| {
            if let EventKind::Idle(period) = event.kind
                && period.duration.0 > 0
            {
                lengths.push(period.duration.0);
            }
            Ok::<(), RecordingError>(())
        })
        .unwrap();
    lengths.sort_unstable();
    assert!(lengths.len() > 100, "{} idle periods", lengths.len());
    [10, 50, 90].map(|percent| lengths[(lengths.len() - 1) * percent / 100] as f64)
}

/// A machine's simulated runs of workloads in a folder.
struct Runs {
    folder: tempfile::TempDir,
    machine: String,
}

impl Runs {
    fn on(machine: &str) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            machine: machine.to_owned(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What a simulated run of a workload prints, which is recorded to a file.
    fn simulate(&self, workload: &str, policy: &str, recording: &Path) -> serde_json::Value {
        let workload = self.path(workload);
        let run = wakepath(&[
            "sim",
            workload.to_str().unwrap(),
            "--machine",
            &self.machine,
            "--policy",
            policy,
            "--runs",
            "1",
            "--record",
            recording.to_str().unwrap(),
            "--all-tasks",
            "--force",
            "--format",
            "json",
        ]);
        json(&run.success())
    }

    /// Flushes of a workload: calls for each I/O, mean and 99th percentile of their time in us.
    fn measure_commits(&self, workload: &str, policy: &str) -> [f64; 3] {
        let found = self.simulate(workload, policy, &self.path("commits.parquet"));
        let result = &found["results"][0];
        let flushes = &result["runs"][0]["fsyncs"];
        let figure = |key: &str| flushes[key].as_f64().unwrap();
        let iops = result["iops"].as_f64().unwrap();
        [
            figure("per_second") / iops,
            figure("mean_us"),
            figure("p99_us"),
        ]
    }

    /// Simulates and records a workload.
    fn record(&self, workload: &str, policy: &str, recording: &str) -> Figures {
        let recording = self.path(recording);
        let found = self.simulate(workload, policy, &recording);
        let latency = ["mean_us", "p99_us"].map(|key| found["results"][0][key].as_f64().unwrap());
        let idle = idle_percentiles(&recording);
        [latency[0], latency[1], idle[0], idle[1], idle[2]]
    }

    fn extract(&self, recording: &str, output: &str) {
        let [recording, output] = [recording, output].map(|name| self.path(name));
        wakepath(&[
            "workload",
            "extract",
            recording.to_str().unwrap(),
            "-o",
            output.to_str().unwrap(),
        ])
        .success();
    }
}

/// By how much the worst figure is off, in units of its bound.
fn worst_in_bounds(truth: &Figures, found: &Figures) -> f64 {
    let each = truth.iter().zip(found).zip(BOUNDS);
    each.map(|((truth, found), bound)| (found / truth - 1.0).abs() / bound)
        .fold(0.0, f64::max)
}

/// Extracts tasks from a recording under menu, and compares them with the workload under other policies. Recorded gaps, replayed, must
/// fail the same test. Returns the file of tasks.
fn judge(machine: &str, name: &str, text: &str) -> String {
    let runs = Runs::on(machine);
    fs::write(runs.path(name), text).unwrap();
    runs.record(name, RECORDED, "recorded.parquet");
    runs.extract("recorded.parquet", "tasks.toml");
    let mut worst_of_gaps: f64 = 0.0;
    for policy in OTHERS {
        let truth = runs.record(name, policy, "truth.parquet");
        let found = runs.record("tasks.toml", policy, "found.parquet");
        let off = worst_in_bounds(&truth, &found);
        let gaps = runs.record("recorded.parquet", policy, "gaps.parquet");
        let gaps_off = worst_in_bounds(&truth, &gaps);
        eprintln!(
            "{name} under {policy}: off by {off:.2}, gaps by {gaps_off:.2} of the bounds\n  true {truth:.1?}\n  tasks {found:.1?}\n  gaps {gaps:.1?}"
        );
        worst_of_gaps = worst_of_gaps.max(gaps_off);
        assert!(off <= 1.0, "{policy}: true {truth:?}, found {found:?}");
    }
    assert!(worst_of_gaps > 1.0, "recorded gaps pass: {worst_of_gaps}");
    fs::read_to_string(runs.path("tasks.toml")).unwrap()
}

#[test]
fn thinking_readers_answer_to_policies_that_were_not_recorded() {
    judge("rk3399", "readers.fio", THINKING_READERS);
}

#[test]
fn threads_that_wake_each_other_answer_to_policies_that_were_not_recorded() {
    judge("rk3399", "threads.json", THREADS);
}

#[test]
fn requests_in_flight_answer_to_policies_that_were_not_recorded() {
    judge("laptop", "deep.fio", DEPTH_4);
}

#[test]
fn ticks_that_rcu_callbacks_keep_answer_to_policies_that_were_not_recorded() {
    let machine = repository().join("rig/laboratory/debian-6.12.toml");
    let tasks = judge(machine.to_str().unwrap(), "reader.fio", BESIDE_CALLBACKS);
    // The main process looks after the job each 10 ms; the job itself leaves no callbacks.
    for section in tasks.split("[[task]]").skip(1) {
        let leaves_callbacks = section.lines().any(|line| line == "callback");
        let is_main_process = section.starts_with("\nname = \"kworker_u0\"\n");
        assert_eq!(leaves_callbacks, is_main_process, "{section:.300}");
    }
}

/// Extracts tasks and jobs from a recording under menu, and compares their flushes with the workload's under other policies.
fn judge_commits(machine: &str, text: &str) {
    let runs = Runs::on(machine);
    fs::write(runs.path("original.fio"), text).unwrap();
    runs.record("original.fio", RECORDED, "recorded.parquet");
    for extracted in ["tasks.toml", "jobs.fio"] {
        runs.extract("recorded.parquet", extracted);
        for policy in OTHERS {
            let truth = runs.measure_commits("original.fio", policy);
            let found = runs.measure_commits(extracted, policy);
            for ((truth, found), bound) in truth.iter().zip(&found).zip(COMMIT_BOUNDS) {
                let off = (found / truth - 1.0).abs();
                assert!(off <= bound, "{extracted} under {policy}: {truth}, {found}");
            }
        }
    }
}

#[test]
fn commits_answer_to_policies_that_were_not_recorded() {
    judge("laptop", "commits.fio", COMMITS);
    judge_commits("laptop", COMMITS);
}

/// The task waits for its own requests, though the page cache makes them.
#[test]
fn commits_through_the_page_cache_answer_on_other_machines() {
    let recorded = Runs::on("laptop");
    fs::write(recorded.path("job.fio"), CACHED_COMMITS).unwrap();
    recorded.record("job.fio", RECORDED, "recorded.parquet");
    let other = Runs::on("skylake-2s-server");
    fs::write(other.path("job.fio"), CACHED_COMMITS).unwrap();
    let rate = |runs: &Runs, workload: &str| {
        let found = runs.simulate(workload, RECORDED, &runs.path("again.parquet"));
        found["results"][0]["iops"].as_f64().unwrap()
    };
    let truth = [&recorded, &other].map(|runs| rate(runs, "job.fio"));
    assert!(truth[1] > 2.0 * truth[0], "{truth:?}");
    for extracted in ["tasks.toml", "jobs.fio"] {
        recorded.extract("recorded.parquet", extracted);
        fs::copy(recorded.path(extracted), other.path(extracted)).unwrap();
        let found = [&recorded, &other].map(|runs| rate(runs, extracted));
        for (truth, found) in truth.iter().zip(&found) {
            assert!(
                (found / truth - 1.0).abs() < 0.1,
                "{extracted}: {truth}, {found}"
            );
        }
    }
}

#[test]
fn forced_writes_answer_to_policies_that_were_not_recorded() {
    let tasks = judge("laptop", "forced.fio", FORCED_WRITES);
    assert!(tasks.lines().any(|line| line.ends_with(" forced")));
}

#[test]
fn tasks_answer_on_machines_that_were_not_recorded() {
    let recorded = Runs::on("rk3399");
    // A share of slow requests near 1 % of the smaller blocks makes their p99 a matter of chance.
    for (name, text, judged) in [
        ("deep", DEPTH_4, 1),
        ("deep-large", LARGE_DEPTH_4, 2),
        ("readers", THINKING_READERS, 2),
    ] {
        let [job, recording, tasks] = ["fio", "parquet", "toml"].map(|end| format!("{name}.{end}"));
        fs::write(recorded.path(&job), text).unwrap();
        recorded.record(&job, RECORDED, &recording);
        recorded.extract(&recording, &tasks);
        for machine in ["laptop", "hybrid-i7-1260p"] {
            let runs = Runs {
                folder: tempfile::tempdir().unwrap(),
                machine: machine.to_owned(),
            };
            for file in [&job, &tasks] {
                fs::copy(recorded.path(file), runs.path(file)).unwrap();
            }
            for policy in OTHERS {
                let truth = runs.record(&job, policy, "truth.parquet");
                let found = runs.record(&tasks, policy, "found.parquet");
                eprintln!(
                    "{name} on {machine} under {policy}\n  true {truth:.1?}\n  tasks {found:.1?}"
                );
                // Idle periods are those of the background work that was recorded, and not of these machines'.
                for index in 0..judged {
                    let off = (found[index] / truth[index] - 1.0).abs();
                    assert!(
                        off <= BOUNDS[index],
                        "{name} on {machine} under {policy}: true {truth:?}, found {found:?}"
                    );
                }
            }
        }
    }
}

#[test]
fn the_file_shows_what_each_task_did() {
    let runs = Runs::on("rk3399");
    fs::write(runs.path("threads.json"), THREADS).unwrap();
    runs.record("threads.json", RECORDED, "recorded.parquet");
    runs.extract("recorded.parquet", "tasks.toml");
    let text = fs::read_to_string(runs.path("tasks.toml")).unwrap();
    let sections: Vec<&str> = text.split("[[task]]").collect();
    for (name, steps) in [
        (
            "front",
            &["write 8192 ", "wait 0", "wake helper", "await", "timer "][..],
        ),
        ("helper", &["await", "run ", "wake front"]),
        ("other", &["run ", "timer 7300us"]),
    ] {
        let start = format!("\nname = \"{name}\"\n");
        let section = sections.iter().find(|text| text.starts_with(&start));
        let section = section.unwrap_or_else(|| panic!("{name}: {text}"));
        for step in steps {
            let has_step = section.lines().any(|line| line.starts_with(step));
            assert!(has_step, "{step}: {section:.2000}");
        }
    }
}

/// Writes a recording with these facts known, and these events, ten of each.
fn write_recording(path: &Path, recorded: Recorded, kinds: &[EventKind]) {
    let metadata = Metadata {
        recorded,
        ..Metadata::default()
    };
    let mut writer = Writer::create(path, Overwrite::No, metadata).unwrap();
    for number in 0..10_u64 {
        for (index, kind) in kinds.iter().enumerate() {
            let time = Nanoseconds(number * 1_000_000 + index as u64 * 1000 + 500_000);
            let event = Event {
                time,
                cpu: 0,
                kind: *kind,
            };
            writer.add_event(&event).unwrap();
        }
    }
    writer.finish_and_count_events().unwrap();
}

/// What a recording with all that is needed knows.
fn all_recorded() -> Recorded {
    Recorded {
        idle: DataQuality::Exact,
        queueing: DataQuality::Exact,
        tasks: DataQuality::Exact,
        all_tasks: DataQuality::Exact,
        ..Recorded::default()
    }
}

/// An idle period of 0.4 ms.
fn idle() -> EventKind {
    EventKind::Idle(IdlePeriod {
        duration: Nanoseconds(400_000),
        ..IdlePeriod::default()
    })
}

const RUNNING: EventKind = EventKind::Task {
    task: 7,
    step: TaskStep::Running,
};

#[test]
fn recordings_without_what_is_needed_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.parquet");
    let output = folder.path().join("tasks.toml");
    let extract = || {
        let [path, output] = [&path, &output].map(|path| path.to_str().unwrap());
        wakepath(&["workload", "extract", path, "-o", output])
    };
    for (recorded, kinds, expected) in [
        (
            Recorded {
                queueing: DataQuality::Missing,
                ..all_recorded()
            },
            &[idle(), RUNNING][..],
            "the recording has no block requests with their submitters. `wakepath record --all-tasks`",
        ),
        (
            Recorded {
                all_tasks: DataQuality::Missing,
                ..all_recorded()
            },
            &[idle(), RUNNING],
            "the recording has no steps of all tasks. `wakepath record --all-tasks`",
        ),
        (
            Recorded {
                idle: DataQuality::Missing,
                ..all_recorded()
            },
            &[idle(), RUNNING],
            "the recording has no idle periods",
        ),
        (all_recorded(), &[idle()], "no task ran in the recording"),
        (all_recorded(), &[], "no task ran in the recording"),
    ] {
        write_recording(&path, recorded, kinds);
        fails_with(extract(), &["recording.parquet: ", expected]);
        assert!(!output.exists());
        fs::remove_file(&path).unwrap();
    }
    write_recording(&path, all_recorded(), &[idle(), RUNNING]);
    let whole = fs::read(&path).unwrap();
    for cut in [0, 4, whole.len() / 2, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        fails_with(extract(), &["recording.parquet"]);
        assert!(!output.exists());
    }
    fs::write(&path, &whole).unwrap();
    extract().success();
}

#[test]
fn lost_events_leave_the_longest_part() {
    let folder = tempfile::tempdir().unwrap();
    let [path, output] = ["recording.parquet", "tasks.toml"]
        .map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    let runs = [idle(), RUNNING];
    write_recording(Path::new(&path), all_recorded(), &runs);
    let done = wakepath(&["workload", "extract", &path, "-o", &output]).success();
    assert_eq!(done.get_output().stderr, b"");
    fs::remove_file(&path).unwrap();
    let lost = EventKind::Lost { count: 3 };
    write_recording(Path::new(&path), all_recorded(), &[idle(), RUNNING, lost]);
    let done = wakepath(&["workload", "extract", &path, "-o", &output, "--force"]).success();
    let warned = String::from_utf8_lossy(&done.get_output().stderr).into_owned();
    let expected = "warning: events were lost: only the longest part without a loss is used";
    assert!(warned.contains(expected), "{warned}");
}
