//! `wakepath workload extract`: jobs from recordings, judged under policies that were not recorded.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::Path;

use wakepath_trace::recording::{Metadata, Overwrite, Writer};

use crate::common::{fails_with, json, wakepath};

/// A reader that thinks for 300 us.
const THINKING_READER: &str = "[reader]\nioengine=psync\ndirect=1\nrw=randread\nbs=4k\nsize=1g\n\
    time_based=1\nruntime=1s\nthinktime=300us\n";

/// Mean latency in us, and I/Os per second, of a job under a policy set.
fn simulate(job: &str, policy: &str) -> [f64; 2] {
    let arguments = ["sim", job, "--machine", "rk3399", "--policy", policy];
    let found = json(&wakepath(&[&arguments[..], &["--format", "json"]].concat()).success());
    ["mean_us", "iops"].map(|metric| found["results"][0][metric].as_f64().unwrap())
}

/// A job, and the job extracted from a recording of it under menu.
fn original_and_extracted(folder: &Path, text: &str) -> [String; 2] {
    let [original, recording, extracted] = ["original.fio", "recording.parquet", "extracted.fio"]
        .map(|name| folder.join(name).to_str().unwrap().to_owned());
    fs::write(&original, text).unwrap();
    let sim = ["sim", &original, "--machine", "rk3399", "--policy", "menu"];
    wakepath(&[&sim[..], &["--record", &recording]].concat()).success();
    wakepath(&["workload", "extract", &recording, "-o", &extracted]).success();
    [original, extracted]
}

#[test]
fn an_extracted_job_answers_to_policies_that_were_not_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let [original, extracted] = original_and_extracted(folder.path(), THINKING_READER);
    let mut rates = Vec::new();
    for policy in ["menu", "menu + cpu-latency[limit=50us]", "menu + psd"] {
        let [true_mean, true_rate] = simulate(&original, policy);
        let [mean, rate] = simulate(&extracted, policy);
        assert!((mean / true_mean - 1.0).abs() < 0.1, "{policy}: {mean}");
        assert!((rate / true_rate - 1.0).abs() < 0.1, "{policy}: {rate}");
        rates.push(rate);
    }
    // Recorded gaps replayed would keep the rate.
    assert!(rates[1] > 1.1 * rates[0], "{rates:?}");
}

/// Value of a job's option.
fn option(job: &str, key: &str) -> Option<String> {
    let text = fs::read_to_string(job).unwrap();
    let mut lines = text.lines();
    lines.find_map(|line| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned()))
}

#[test]
fn a_pause_is_that_of_the_job_and_not_what_the_wake_up_added() {
    let folder = tempfile::tempdir().unwrap();
    let [_, extracted] = original_and_extracted(folder.path(), THINKING_READER);
    let pause = option(&extracted, "thinktime").unwrap();
    let us: f64 = pause.trim_end_matches("us").parse().unwrap();
    assert!((us / 300.0 - 1.0).abs() < 0.05, "{pause}");
}

#[test]
fn a_task_that_keeps_a_rate_without_io_wait_becomes_such_a_job() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[writer]\nioengine=libaio\ndirect=1\nrw=randwrite\nbs=4k\nsize=1g\nrate_iops=1000\n\
        time_based=1\nruntime=1s\n";
    let [original, extracted] = original_and_extracted(folder.path(), job);
    assert_eq!(option(&extracted, "ioengine").as_deref(), Some("libaio"));
    let rate: f64 = option(&extracted, "rate_iops").unwrap().parse().unwrap();
    assert!((rate / 1000.0 - 1.0).abs() < 0.01, "{rate}");
    let [[true_mean, _], [mean, _]] = [original, extracted].map(|job| simulate(&job, "menu"));
    assert!((mean / true_mean - 1.0).abs() < 0.2, "{true_mean}, {mean}");
}

/// Places of recorded requests lie in the job's file, and so within the drive.
#[test]
fn a_recording_is_a_trace_for_the_machine_that_it_is_from() {
    let folder = tempfile::tempdir().unwrap();
    let [job, recording] =
        ["job.fio", "r.parquet"].map(|name| folder.path().join(name).to_str().unwrap().to_owned());
    fs::write(&job, THINKING_READER).unwrap();
    let machine = [
        "--machine",
        "laptop",
        "--drive",
        "sn530",
        "--policy",
        "menu",
    ];
    let record = ["sim", &job, "--record", &recording, "--runs", "1"];
    wakepath(&[&record[..], &machine].concat()).success();
    wakepath(&[&["sim", &recording, "--runs", "1"][..], &machine].concat()).success();
}

#[test]
fn a_missing_folder_is_named_before_any_work() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("none/mine.fio");
    let refused = wakepath(&[
        "workload",
        "extract",
        "no-recording.parquet",
        "-o",
        output.to_str().unwrap(),
    ]);
    fails_with(
        refused,
        &["there is no folder ", "/none; make it, or name another"],
    );
}

#[test]
fn sizes_depth_and_direction_are_those_of_the_task() {
    let folder = tempfile::tempdir().unwrap();
    let job = "[mixed]\nioengine=io_uring\niodepth=8\ndirect=1\nrw=randrw\nrwmixread=75\nbs=4k,64k\nsize=1g\n\
        time_based=1\nruntime=1s\n";
    let [_, extracted] = original_and_extracted(folder.path(), job);
    let text = fs::read_to_string(extracted).unwrap();
    for line in [
        "[mixed]",
        "ioengine=io_uring",
        "iodepth=8",
        "rw=randrw",
        "bs=4k,64k",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(!text.contains("thinktime"), "{text}");
    let share = text
        .lines()
        .find_map(|line| line.strip_prefix("rwmixread="));
    let percent: i64 = share.unwrap().parse().unwrap();
    assert!((percent - 75).abs() <= 3, "{text}");
}

#[test]
fn a_recording_without_block_requests_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.parquet");
    let writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
    writer.finish_and_count_events().unwrap();
    let output = folder.path().join("mine.fio");
    let [path, output] = [&path, &output].map(|path| path.to_str().unwrap());
    let refused = wakepath(&["workload", "extract", path, "-o", output]);
    fails_with(refused, &["the recording has no block requests"]);
    assert!(!Path::new(output).exists());
}
