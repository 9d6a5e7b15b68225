//! Holds where the size of a job comes from, and when a job ends, against fio itself.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;
use wakepath_workloads::fio;

/// Bytes of what stands for a device.
const CAPACITY: u64 = 1_000_000;

/// Options of jobs whose device is larger than what they ask for. 64 KiB are no part of its size.
const ON_A_DEVICE: &[&str] = &[
    "bs=4k",
    "",
    "loops=3",
    "loops=0",
    "size=0",
    "size=50%",
    "size=50%,loops=2",
    "size=500000",
    "size=500000,loops=3",
    "size=500000,io_size=200000",
    "size=500000,io_size=200000,loops=3",
    "size=500000,io_size=1000000",
    "size=500000,io_size=1000000,loops=2",
    "size=500000,io_size=1000",
    "size=500000,io_size=520000",
    "size=524288,io_size=1000000",
    "size=524288,io_size=1048576,loops=2",
    "size=500000,io_size=50%",
    "io_size=50%",
    "io_size=0",
    "io_limit=128k",
    "rw=randread",
    "rw=randread,norandommap",
    "rw=randread,loops=2",
    "rw=randread,size=500000,io_size=200000",
    "rw=randread,size=500000,io_size=1000000",
    "rw=randread,size=500000,loops=3",
    "rw=randread,norandommap,size=500000",
    "rw=randread,norandommap,size=500000,loops=3",
    "rw=randread,norandommap,size=500000,io_size=1000000",
    "rw=randread,norandommap,size=500000,io_size=200000",
    "rw=randread,norandommap,size=500000,number_ios=20",
    "rw=randrw,size=500000",
    "rw=randrw,size=500000,io_size=200000",
    "rw=randrw,size=500000,io_size=1000000",
    "rw=rw,size=500000",
    "rw=rw,size=500000,loops=2",
    "rw=rw,size=500000,io_size=1000000",
    "number_ios=5",
    "number_ios=5,loops=2",
    "number_ios=50",
    "number_ios=50,loops=3",
    "number_ios=50,io_size=10m",
    "filesize=300000",
    "filesize=300000,size=200000",
    "filesize=300000,size=600000",
    "filesize=300000,size=50%",
    "filesize=300000,io_size=600000",
    "filesize=300000-1500000",
    "runtime=60",
];

/// Options of jobs whose files fio lays out.
const IN_NEW_FILES: &[&str] = &[
    "size=500000",
    "size=500000,rw=write",
    "size=500000,rw=randread",
    "size=500000,rw=randread,norandommap",
    "size=500000,rw=randwrite,norandommap",
    "size=500000,loops=3",
    "size=500000,rw=rw,loops=2",
    "size=500000,rw=randrw",
    "size=500000,rw=randread,norandommap,loops=3",
    "size=500000,io_size=1000000",
    "size=500000,io_size=900000",
    "size=500000,io_size=200000",
    "size=500000,rw=randread,io_size=1000000",
    "size=500000,nrfiles=3",
    "size=500000,nrfiles=3,file_service_type=random",
    "size=500000,nrfiles=3,rw=randread",
    "size=500000,nrfiles=3,rw=randread,norandommap",
    "filesize=300000",
    "filesize=300000,nrfiles=3",
    "filesize=300000,nrfiles=3,size=500000",
    "filesize=300000,nrfiles=3,number_ios=2",
    "filesize=300000,nrfiles=3,size=50%",
    "filesize=300000,nrfiles=3,io_size=50%",
    "kb_base=1000,size=500k",
    "size=500KiB,kb_base=1000",
    "size=500KiB",
];

/// Options one a line.
fn lines(options: &str) -> String {
    options.replace(',', "\n")
}

/// The I/Os and bytes of each job that fio ran.
fn fio_says(text: &str, folder: &std::path::Path) -> Vec<(u64, u64)> {
    let path = folder.join("t.fio");
    std::fs::write(&path, text).unwrap();
    let output = Command::new("fio")
        .arg("--output-format=json")
        .arg(&path)
        .current_dir(folder)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{output:?}");
    let json: Value = serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap();
    let of = |job: &Value, key: &str| {
        let both = ["read", "write"].map(|direction| job[direction][key].as_u64().unwrap());
        both[0] + both[1]
    };
    let jobs = json["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (of(job, "total_ios"), of(job, "io_bytes")))
        .collect()
}

/// The I/Os and bytes of a job of one block size, as the simulator ends it.
fn we_say(text: &str) -> (u64, u64) {
    let file = fio::parse(text, "t.fio").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let job = &file.jobs[0];
    let limits = job.limits(CAPACITY);
    let by_bytes = limits.bytes.unwrap().div_ceil(job.block_size.read);
    let ios = limits.ios.map_or(by_bytes, |ios| ios.min(by_bytes));
    (ios, ios * job.block_size.read)
}

#[test]
fn jobs_end_where_fio_ends_them() {
    if Command::new("fio").arg("--version").output().is_err() {
        let reason = "fio is not installed (Debian package fio)";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "jobs_end_where_fio_ends_them: {reason}"
        );
        eprintln!("skipped: jobs_end_where_fio_ends_them: {reason}");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::new();
    let mut ours = Vec::new();
    for (number, options) in ON_A_DEVICE.iter().enumerate() {
        let name = format!("device{number}");
        let device = std::fs::File::create(folder.path().join(&name)).unwrap();
        device.set_len(CAPACITY).unwrap();
        let options = format!("bs=64k\n{}", lines(options));
        let _ = writeln!(text, "[{name}]\nfilename={name}\n{options}");
        ours.push((
            options.clone(),
            we_say(&format!("[j]\nfilename=/dev/sdx\n{options}")),
        ));
    }
    for (number, options) in IN_NEW_FILES.iter().enumerate() {
        let options = format!("bs=64k\n{}", lines(options));
        let _ = writeln!(text, "[new{number}]\n{options}");
        ours.push((options.clone(), we_say(&format!("[j]\n{options}"))));
    }
    let theirs = fio_says(&text, folder.path());
    assert_eq!(ours.len(), theirs.len());
    let apart: Vec<String> = ours
        .iter()
        .zip(&theirs)
        .filter(|((_, ours), theirs)| ours != *theirs)
        .map(|((options, ours), theirs)| format!("{options:?}: fio {theirs:?}, we {ours:?}"))
        .collect();
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

#[test]
fn without_an_end_it_is_fios_error() {
    for options in [
        "rw=read",
        "size=50%",
        "size=0",
        "nrfiles=4",
        "filename=/dev/shm/x",
    ] {
        let error = fio::parse(&format!("[j]\n{options}\n"), "t.fio").unwrap_err();
        assert!(
            error.to_string().contains("never ends"),
            "{options}: {error}"
        );
    }
    for options in [
        "filesize=0",
        "filesize=2k-1k",
        "filesize=-",
        "size=200%",
        "io_size=150%",
        "loops=x",
    ] {
        assert!(
            fio::parse(&format!("[/dev/sda]\n{options}\n"), "t.fio").is_err(),
            "{options}"
        );
    }
    let timed = fio::parse(
        "[/dev/sda]\ntime_based\nruntime=9\nloops=2\nnumber_ios=7\n",
        "t.fio",
    );
    let limits = timed.unwrap().jobs[0].limits(CAPACITY);
    assert_eq!((limits.bytes, limits.ios), (None, None));
}
