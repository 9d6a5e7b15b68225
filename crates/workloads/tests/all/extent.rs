//! Holds where the size of a job comes from, and when a job ends, against fio itself.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::process::Command;

use serde_json::Value;
use wakepath_workloads::fio::{self, Draw, IoSizes, Walk};

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
    // An offset leaves less of the device.
    "offset=300000",
    "offset=300000,size=500000",
    "offset=600000,size=500000",
    "offset=600000,size=500000,rw=randread",
    "offset=30%",
    "offset=30%,rw=randread",
    "offset=30%,offset_align=4k,loops=2",
    "offset=30%,size=50%",
    "offset=80%,size=50%",
    "offset=300000,filesize=600000",
    "offset=300000,filesize=800000-1200000",
    // Without a map.
    "rw=randread,random_distribution=zipf:1.2,size=500000",
    "rw=randread,random_distribution=zoned:60/10:40/90,size=500000,loops=2",
    "rw=randread,random_distribution=random,size=500000",
    "rw=randread,blockalign=4k,size=500000",
    "rw=randread,ba=64k,size=500000",
    "rw=randread,percentage_random=0,size=500000",
    // Sizes of directions that the job does not use.
    "bs=64k+4k,size=500000",
    "bs=64k+4k,size=60000",
    "bs=64k+4k,size=50%",
    // Sizes that vary.
    "bsrange=64k-64k,size=500000",
    "bssplit=64k/100,size=500000",
    "bssplit=60k/100,size=500000",
    "bssplit=60k/100,size=500000,loops=3",
    "bssplit=60k/100,size=500000,io_size=900000",
    "bssplit=60k/100,size=500000,io_size=200000",
    "bssplit=60k/100,size=500000,io_size=900000,loops=2",
    "bssplit=60k/100,rw=randread,size=500000",
    "bssplit=60k/100,rw=randread,norandommap,size=500000",
    "bssplit=60k/100,rw=randread,size=500000,io_size=900000",
    // Zones with gaps.
    "zonemode=strided,zonesize=64k,zoneskip=64k",
    "zonemode=strided,zonesize=128k,zoneskip=64k",
    "zonemode=strided,zonesize=100k,zoneskip=10k,bs=10k",
    "zonemode=strided,zonesize=100k,zoneskip=10k,bs=10k,size=500000",
    "zonemode=strided,zonesize=100k,zoneskip=10k,bs=10k,loops=2",
    "zonemode=strided,zonesize=64k,zonerange=256k,zoneskip=64k",
    "zonemode=strided,zonesize=256k,zonerange=64k,zoneskip=64k",
    "zonemode=strided,zonesize=128k,zoneskip=64k,rw=randread",
    "zonemode=strided,zonesize=128k,zoneskip=64k,rw=randread,norandommap",
    "zonemode=none,zoneskip=64k",
    "zonemode=strided,zonesize=64k",
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

/// Options of jobs for fio's null engine, which takes trims of plain files.
const TRIMS: &[&str] = &[
    "rw=trim",
    "rw=randtrim",
    "rw=randtrim,norandommap",
    "rw=trim,bs=64k+32k+16k",
    "rw=trim,io_size=900000",
    "rw=trim,number_ios=5",
    "rw=trimwrite",
    "rw=trimwrite,loops=2",
    "rw=trimwrite,number_ios=5",
    "rw=trimwrite,io_size=900000",
    "rw=trimwrite,io_size=200000",
    "rw=randtrimwrite",
    "rw=randtrimwrite,norandommap",
];

/// Options one a line.
fn lines(options: &str) -> String {
    options.replace(',', "\n").replace('+', ",")
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
    let number_at = |job: &Value, key: &str| {
        let each = ["read", "write", "trim"].map(|direction| job[direction][key].as_u64().unwrap());
        each.into_iter().sum()
    };
    let jobs = json["jobs"].as_array().unwrap().iter();
    jobs.map(|job| (number_at(job, "total_ios"), number_at(job, "io_bytes")))
        .collect()
}

/// Numbers at random, the same in each run.
struct Numbers(u64);

impl Draw for Numbers {
    fn draw_below(&mut self, n: u64) -> u64 {
        // Knuth's generator, of which the upper bits are the good ones.
        let state = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = state.wrapping_add(1_442_695_040_888_963_407);
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }

    fn draw_size(&mut self, sizes: &IoSizes) -> u64 {
        match sizes {
            IoSizes::Range { least, most, step } => {
                let size = least + self.draw_below(*most);
                (size / step * step).min(*most)
            }
            IoSizes::Split(parts) => {
                let share = self.draw_below(100) as u8;
                parts.iter().find(|part| share < part.1).unwrap().0
            }
        }
    }
}

/// The I/Os and bytes of the first process of a job, as the simulator ends it.
fn we_say(text: &str, seed: u64) -> (u64, u64) {
    let file = fio::parse(text, "t.fio").unwrap_or_else(|e| panic!("{e}\n{text}"));
    let job = &file.jobs[0];
    let limits = job.process_limits(CAPACITY);
    let (most, most_ios) = (limits.bytes.unwrap(), limits.ios.unwrap_or(u64::MAX));
    let mut numbers = Numbers(seed);
    let Some(mut walk) = Walk::for_job_if_positions_matter(job, CAPACITY) else {
        let block = if job.rw.trims() && !job.rw.writes() {
            job.block_size.trim
        } else if job.rw.reads() {
            job.block_size.read
        } else {
            job.block_size.write
        };
        let ios = most.div_ceil(block).min(most_ios);
        return (ios, ios * block);
    };
    let (mut ios, mut bytes) = (0, 0);
    loop {
        let read = match (job.rw.reads(), job.rw.writes()) {
            (true, true) => numbers.draw_below(100) < u64::from(job.rwmixread),
            (reads, _) => reads,
        };
        if bytes < most && ios < most_ios {
            if let Some(next) = walk.next_io_of_pass(usize::from(!read), &mut numbers) {
                ios += 1;
                bytes += next.bytes;
                continue;
            }
            if walk.start_over_unless_finished_or_stuck() {
                continue;
            }
        }
        return (ios, bytes);
    }
}

/// Whether fio is there to compare with.
fn fio_is_here(test: &str) -> bool {
    let there = Command::new("fio").arg("--version").output().is_ok();
    let reason = "fio is not installed (Debian package fio)";
    assert!(
        there || std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{test}: {reason}"
    );
    if !there {
        eprintln!("skipped: {test}: {reason}");
    }
    there
}

#[test]
fn jobs_end_where_fio_ends_them() {
    if !fio_is_here("jobs_end_where_fio_ends_them") {
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
            we_say(&format!("[j]\nfilename=/dev/sdx\n{options}"), 1),
        ));
    }
    for (number, options) in IN_NEW_FILES.iter().enumerate() {
        let options = format!("bs=64k\n{}", lines(options));
        let _ = writeln!(text, "[new{number}]\n{options}");
        ours.push((options.clone(), we_say(&format!("[j]\n{options}"), 1)));
    }
    for (number, options) in TRIMS.iter().enumerate() {
        let options = format!("bs=64k\nsize=500000\n{}", lines(options));
        let _ = writeln!(text, "[trim{number}]\nioengine=null\n{options}");
        ours.push((options.clone(), we_say(&format!("[j]\n{options}"), 1)));
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

/// The mean and its standard error.
fn mean(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let count = values.clone().count() as f64;
    let mean = values.clone().sum::<f64>() / count;
    let variance = values.map(|x| (x - mean).powi(2)).sum::<f64>() / (count - 1.0);
    (mean, (variance / count).sqrt())
}

/// Options of jobs whose end depends on which blocks come by chance.
const BY_CHANCE: &[&str] = &[
    "rw=randrw,bs=64k+8k",
    "rw=randrw,bs=8k+64k",
    "rw=randrw,bs=16k+256k,rwmixread=95",
    "rw=randrw,bs=64k+8k,norandommap",
    "rw=randrw,bs=64k+8k,loops=2",
    "rw=randrw,bs=64k+8k,io_size=100m",
    "rw=randrw,bs=64k+8k,number_ios=500",
    "rw=rw,bs=64k+8k",
    "rw=rw,bs=64k+8k,loops=2",
    "rw=rw,bs=64k+8k,io_size=30m",
    "rw=randread,bs=64k+4k",
    "rw=randread,bs=8k+64k",
    "rw=read,bsrange=4k-64k",
    "rw=read,bsrange=3k-10k",
    "rw=read,bsrange=4k-64k,bs_unaligned",
    "rw=randread,bsrange=4k-64k",
    "rw=randread,bsrange=4k-64k,norandommap",
    "rw=randread,bsrange=4k-64k,loops=2",
    "rw=randwrite,bssplit=4k/50:64k/50",
    "rw=randwrite,bssplit=4k/50:64k/50,norandommap",
    "rw=randwrite,bssplit=4k/50:64k/50,io_size=100m",
    "rw=randwrite,bssplit=4k/50:64k/50,blockalign=4k",
    "rw=randwrite,bssplit=8k/50:64k/50,blockalign=4k",
    "rw=randrw,bssplit=4k/50:64k/50+8k/100",
    "rw=randrw:8,bssplit=4k/50:64k/50",
    "rw=randread,bs=64k,percentage_random=50",
    "rw=randread,bssplit=4k/50:64k/50,percentage_random=50",
    "rw=randread,bssplit=4k/50:64k/50,zonemode=strided,zonesize=1m,zoneskip=1m",
];

#[test]
fn jobs_that_end_by_chance_end_as_often_as_in_fio() {
    /// Runs of each.
    const SEEDS: u64 = 20;
    if !fio_is_here("jobs_that_end_by_chance_end_as_often_as_in_fio") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut text = "[global]\nioengine=null\n".to_owned();
    for options in BY_CHANCE {
        for seed in 1..=SEEDS {
            let options = lines(options);
            let _ = writeln!(text, "[{seed}]\nsize=32m\nrandseed={seed}\n{options}");
        }
    }
    let theirs = fio_says(&text, folder.path());
    let mut apart = Vec::new();
    for (options, theirs) in BY_CHANCE.iter().zip(theirs.chunks(SEEDS as usize)) {
        let text = format!("[j]\nsize=32m\n{}", lines(options));
        let ours: Vec<(u64, u64)> = (1..=SEEDS).map(|seed| we_say(&text, seed)).collect();
        for (what, measure) in [
            (
                "I/Os",
                (|run: &(u64, u64)| run.0 as f64) as fn(&(u64, u64)) -> f64,
            ),
            ("bytes", |run| run.1 as f64),
        ] {
            let (ours, our_error) = mean(ours.iter().map(measure));
            let (theirs, their_error) = mean(theirs.iter().map(measure));
            let difference = (ours - theirs).abs();
            if difference > 0.01 * theirs && difference > 4.0 * our_error.hypot(their_error) {
                apart.push(format!(
                    "{options}: {what}: fio {theirs:.1}+-{their_error:.1}, we {ours:.1}+-{our_error:.1}"
                ));
            }
        }
    }
    assert!(apart.is_empty(), "{}", apart.join("\n"));
}

#[test]
fn without_an_end_it_is_fios_error() {
    for options in ["rw=read", "size=50%", "size=0", "nrfiles=4"] {
        let file = fio::parse(&format!("[j]\n{options}\n"), "t.fio").unwrap();
        let error = file.refuse_unmodelled_options().unwrap_err();
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
    // fio takes the size of a file that is there.
    for options in [
        "filename=/dev/shm/x",
        "filename=x\nsize=50%",
        "filename=x\nruntime=5",
    ] {
        let file = fio::parse(&format!("[j]\ndirect=1\n{options}\n"), "t.fio").unwrap();
        assert!(file.refuse_unmodelled_options().is_ok(), "{options}");
        let warned = file.warnings.iter().any(|w| w.option == "filename");
        assert!(warned, "{options}: {:?}", file.warnings);
        assert!(file.jobs[0].process_limits(CAPACITY).bytes >= Some(CAPACITY / 4));
    }
    let timed = fio::parse(
        "[/dev/sda]\ntime_based\nruntime=9\nloops=2\nnumber_ios=7\n",
        "t.fio",
    );
    let limits = timed.unwrap().jobs[0].process_limits(CAPACITY);
    assert_eq!((limits.bytes, limits.ios), (None, None));
}
