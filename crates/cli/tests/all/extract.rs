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
