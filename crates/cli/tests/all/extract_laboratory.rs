//! Tasks extracted from a recording in the laboratory (docs/background/laboratory.md), judged under policies that real kernels ran
//! with, too.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use wakepath_trace::recording::{
    EventKind, Overwrite, QueueStep, Reader, RecordingError, TaskStep, Writer,
};

use crate::common::laboratory::{laboratory_command, said_unless_skipped};
use crate::common::{repository, wakepath};

/// CPU that plays the drive, behind those of the machine.
const DRIVE_CPU: u32 = 2;

/// A reader whose pauses come after three of its requests. Pauses, and not the ticks that are left, are the idle periods at the 90th
/// percentile.
const JOB: &str = "[job]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nioengine=psync\nrw=randread\nbs=4k\n\
    thinktime=900us\nthinktime_blocks=3\ntime_based\nruntime=3s\n";

/// The policy of the recording that is extracted, and others that have a recording of their own.
const POLICIES: [&str; 3] = [
    "menu",
    "menu + cpu-latency[limit=20us]",
    "menu + psd[timeout=3ms,ceiling=20us,rule=module]",
];

/// How far each figure may be off: mean latency, 99th percentile, and idle periods at three percentiles.
///
/// Of the mean, 5 % are the recorder's programs, which take CPU time in interrupts of the guest. The model knows nothing of that.
const BOUNDS: [f64; 5] = [0.1, 0.2, 0.15, 0.15, 0.15];

/// Runs the study with recordings of all tasks; `None` where the laboratory lacks something.
fn record_in_guest(test: &str) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("extract-laboratory");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    let machine = repository().join("rig/laboratory/debian-6.12.toml");
    fs::copy(machine, folder.join("debian-6.12.toml")).unwrap();
    let policies = POLICIES.join("', '");
    let study = format!(
        "name = 'extract'\nmachine = 'debian-6.12.toml'\nrepeats = 1\nwarm_up_s = 0\npolicy = ['{policies}']\n\
         [[workload]]\nname = 'reader'\nfio_job = '''\n{JOB}'''\n"
    );
    let path = folder.join("study.toml");
    fs::write(&path, study).unwrap();
    let out = folder.join("out");
    let options = [
        "--record",
        "--all-tasks",
        "--device-interrupts",
        "--timeout",
        "3000",
    ];
    let done = laboratory_command(path.to_str().unwrap(), &out, &options)
        .output()
        .unwrap();
    let said = said_unless_skipped(test, &done)?;
    assert!(done.status.success(), "{said}");
    Some(out.join("recordings"))
}

/// Copies a recording without what the CPU that plays the drive did.
fn copy_without_drive_cpu(recording: &Path) -> PathBuf {
    let path = recording.with_extension("seen.parquet");
    let mut reader = Reader::open(recording).unwrap();
    let mut writer = Writer::create(&path, Overwrite::Yes, reader.metadata().clone()).unwrap();
    reader
        .for_each_event(|event| match event.cpu {
            DRIVE_CPU => Ok(()),
            _ => writer.add_event(&event),
        })
        .unwrap();
    writer.finish_and_count_events().unwrap();
    path
}

/// A pause of so many ns in the requests ends the job; tasks begin anew after it.
const END_OF_JOB_NS: u64 = 100_000_000;

/// Mean and 99th percentile of latency, and idle periods at three percentiles, in ns, from the first to the last request of the job. A
/// request's latency is the time from its submission until its task runs again.
fn figures(recording: &Path) -> [f64; 5] {
    let mut submitted: BTreeMap<u32, u64> = BTreeMap::new();
    let mut completed: BTreeMap<u32, u64> = BTreeMap::new();
    let (mut latencies, mut idle) = (Vec::new(), Vec::new());
    let mut idle_until_last_request = 0;
    let (mut last_request, mut is_over) = (None, false);
    let mut reader = Reader::open(recording).unwrap();
    reader
        .for_each_event(|event| {
            match event.kind {
                EventKind::Idle(period) if period.duration.0 > 0 && !latencies.is_empty() => {
                    idle.push(period.duration.0);
                }
                EventKind::Queueing(QueueStep::Queued {
                    task: Some(task),
                    background: false,
                    block,
                    ..
                }) if block.bytes > 0 => {
                    // A request on the drive's partition is submitted a second time to the drive.
                    submitted.entry(task).or_insert(event.time.0);
                }
                EventKind::BlockComplete(_) => completed.append(&mut submitted),
                EventKind::Task {
                    task,
                    step: TaskStep::Running,
                } => {
                    if let Some(since) = completed.remove(&task) {
                        let pause = last_request.map_or(0, |last| event.time.0 - last);
                        is_over |= pause > END_OF_JOB_NS;
                        if is_over {
                            return Ok(());
                        }
                        last_request = Some(event.time.0);
                        latencies.push(event.time.0 - since);
                        idle_until_last_request = idle.len();
                    }
                }
                _ => {}
            }
            Ok::<(), RecordingError>(())
        })
        .unwrap();
    idle.truncate(idle_until_last_request);
    latencies.sort_unstable();
    idle.sort_unstable();
    assert!(
        latencies.len() > 1000 && idle.len() > 1000,
        "{} requests, {} idle periods",
        latencies.len(),
        idle.len()
    );
    let mean = latencies.iter().sum::<u64>() as f64 / latencies.len() as f64;
    let p99 = latencies[(latencies.len() - 1) * 99 / 100] as f64;
    let idle = [10, 50, 90].map(|percent| idle[(idle.len() - 1) * percent / 100] as f64);
    [mean, p99, idle[0], idle[1], idle[2]]
}

/// Simulates a workload on the guest's machine, and returns the figures of its recording, which is written to `recording`.
fn simulate(workload: &str, policy: &str, recording: &Path) -> [f64; 5] {
    let machine = repository().join("rig/laboratory/debian-6.12.toml");
    wakepath(&[
        "sim",
        workload,
        "--machine",
        machine.to_str().unwrap(),
        "--policy",
        policy,
        "--runs",
        "1",
        "--record",
        recording.to_str().unwrap(),
        "--all-tasks",
        "--force",
    ])
    .success();
    figures(recording)
}

/// By how much each figure is off, in units of its bound.
fn deviations_in_bounds(truth: &[f64; 5], found: &[f64; 5]) -> [f64; 5] {
    std::array::from_fn(|index| (found[index] / truth[index] - 1.0) / BOUNDS[index])
}

/// Policies under which extracted tasks are beyond a bound, or recorded gaps within all; `None` where the laboratory lacks something.
fn find_wrong_policies(test: &str) -> Option<Vec<String>> {
    let recordings = record_in_guest(test)?;
    let seen = [0, 1, 2]
        .map(|number| copy_without_drive_cpu(&recordings.join(format!("{number:06}.parquet"))));
    let [tasks, simulated] = ["tasks.toml", "simulated.parquet"].map(|name| recordings.join(name));
    let [tasks, recorded] = [&tasks, &seen[0]].map(|path| path.to_str().unwrap());
    wakepath(&["workload", "extract", recorded, "-o", tasks, "--force"]).success();
    let mut wrong = Vec::new();
    for (policy, truth) in POLICIES.iter().zip(&seen).skip(1) {
        let truth = figures(truth);
        let [found, gaps] =
            [tasks, recorded].map(|workload| simulate(workload, policy, &simulated));
        let [off, gaps_off] = [found, gaps].map(|figures| deviations_in_bounds(&truth, &figures));
        let text = format!(
            "{policy}: measured {truth:.0?}, simulated {found:.0?}, off by {off:.2?} of the bounds; \
             recorded gaps {gaps:.0?}, by {gaps_off:.2?}"
        );
        println!("{text}");
        let [passes, gaps_pass] =
            [off, gaps_off].map(|deviations| deviations.iter().all(|off| off.abs() <= 1.0));
        if !passes || gaps_pass {
            wrong.push(text);
        }
    }
    Some(wrong)
}

#[test]
#[ignore = "nightly: laboratory guests with recordings"]
fn tasks_of_a_real_kernel_answer_to_policies_that_were_not_recorded() {
    let test = "tasks_of_a_real_kernel_answer_to_policies_that_were_not_recorded";
    // A tenth of the idle periods are pauses, of all CPUs. Where another program of the guest sleeps beside them, the 90th
    // percentile is another kind of period: then a second guest decides.
    let Some(mut wrong) = find_wrong_policies(test) else {
        return;
    };
    if !wrong.is_empty() {
        wrong = find_wrong_policies(test).unwrap();
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
