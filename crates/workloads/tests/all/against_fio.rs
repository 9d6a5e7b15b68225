//! Holds the parser against fio itself: what it accepts, fio accepts and reads as the same numbers.

#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use tempfile::TempDir;
use wakepath_workloads::fio::{self, FioJob, Size};

/// Whether fio is there to compare with. Without it the test is skipped and says so, unless
/// `WAKEPATH_REQUIRE_ALL` asks for every test to be run (docs/background/testing.md).
pub(crate) fn fio_is_here(test: &str) -> bool {
    if Command::new("fio").arg("--version").output().is_ok() {
        return true;
    }
    let reason = "fio is not installed (Debian package fio)";
    assert!(
        std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
        "{test}: {reason}"
    );
    eprintln!("skipped: {test}: {reason}");
    false
}

/// A folder with a job file in it, in which fio may also lay out files.
struct JobFile {
    folder: TempDir,
    path: PathBuf,
}

impl JobFile {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.fio");
        std::fs::write(&path, text).unwrap();
        Self { folder, path }
    }

    fn run(&self, args: &[&str]) -> Output {
        Command::new("fio")
            .args(args)
            .arg(&self.path)
            .current_dir(self.folder.path())
            .output()
            .unwrap()
    }

    /// What fio says of the file with `--parse-only`: `Err` with its messages when it refuses it.
    fn parse_only(&self) -> Result<(), String> {
        let output = self.run(&["--parse-only"]);
        if output.status.success() {
            Ok(())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }

    /// The numbers that fio reads in each job, in the order of its options: the `out=N` of its
    /// parser's log for every part of a value that is not empty.
    fn numbers(&self) -> Vec<Vec<u64>> {
        let output = self.run(&["--parse-only", "--debug=parse"]);
        let mut jobs: Vec<Vec<u64>> = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            if line.contains("Parsing section [") {
                jobs.push(Vec::new());
            } else if let Some((_, number)) = line.split_once("ret=0, out=") {
                jobs.last_mut()
                    .unwrap()
                    .push(number.trim().parse().unwrap());
            }
        }
        jobs
    }
}

/// The first job of a file that means the same to fio and to us.
fn only_job(text: &str) -> Option<FioJob> {
    let mut file = fio::parse(text, "t.fio").ok()?;
    file.refuse_unmodelled_options().ok()?;
    Some(file.jobs.remove(0))
}

/// Lines that fio takes, whatever it makes of them.
const TAKEN: &[&str] = &[
    "runtime=30sec",
    "runtime=0x10",
    "runtime= 5ms",
    "bs=1.5k",
    "bs= 4k",
    "bs=$pagesize",
    "bs=8k,16k,32k",
    "numjobs=$ncpus",
    "iodepth=100000",
    "thinktime=-5",
    "thinktime_blocks=0",
    "thinktime_blocks_type=issue",
    "thinktime_iotime=5",
    "thinktime_spin=5",
    "time_based",
    "rate=0",
    "rate_iops=0",
    "rate=1m,2m,3m",
    "rate_min=1m",
    "rate_iops_min=10",
    "rate_cycle=500",
    "rate_process=poisson",
    "rate_ignore_thinktime=1",
    "max_latency=5ms",
    "nice=-20",
    "nice=19",
    "ioengine=linuxaio",
    "ioengine=aio",
    "ioengine=posixaio",
    "ioengine=vsync",
    "ioengine=io_uring_cmd",
    "ioengine=sg",
    "ioengine=windowsaio",
    "rw=trim",
    "rw=randtrimwrite",
    "offset=50%",
    "offset=5z",
    "offset_increment=10%",
    "offset_align=4k",
    "percentage_random=50,20",
    "random_distribution=random:2",
    "random_distribution=zipf",
    "random_distribution=zipf:1.2:0.5",
    "random_distribution=pareto:0.5",
    "random_distribution=normal:50",
    "random_distribution=zoned:50/5:30/15:20/80",
    "random_distribution=zoned_abs:60/1m:40/3m",
    "blockalign=512",
    "zonemode=strided\nzonesize=64k\nzoneskip=64k\nzonerange=128k",
    "zonemode=zbd",
    "zoneskip=3z",
    "zero_buffers=2",
    "buffer_pattern=0xdeadbeef",
    "buffer_pattern=\"abcd\"-12",
    "scramble_buffers=0",
    "serialize_overlap=1",
    "file_append=1",
    "create_only=1",
    "exec_prerun=true",
    "write_barrier=5",
    "sync_file_range=write:8",
    "ss=iops:5%",
    "latency_target=5ms",
    "flow=5",
    "bsrange=4k-8k,8k-16k,16k-32k",
];

/// Lines that fio does not take.
const NOT_TAKEN: &[&str] = &[
    "thinktime_blocks_type=x",
    "thinktime_iotime=x",
    "rate_process=x",
    "rate_ignore_thinktime",
    "rate_ignore_thinktime=2",
    "rate_min=x",
    "nice=20",
    "nice=-21",
    "nice=x",
    "random_distribution=foo",
    "random_distribution=zipf:1",
    "random_distribution=zipf:1.2:2",
    "random_distribution=pareto:2",
    "random_distribution=normal:100",
    "random_distribution=zoned:50/50",
    "random_distribution=zoned:60/10:50/90",
    "percentage_random=150",
    "zonemode=x",
    "zero_buffers=x",
    "scramble_buffers=2",
    "scramble_buffers",
    "buffer_pattern=",
    "buffer_pattern=xyz",
    "rw=trims",
    "rw_sequencer=x",
];

#[test]
fn a_line_is_an_error_only_where_fio_does_not_take_it() {
    for line in TAKEN {
        let text = format!("[j]\nsize=1m\n{line}\n");
        fio::parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}"));
    }
    for line in NOT_TAKEN {
        let text = format!("[j]\nsize=1m\ndirect=1\n{line}\n");
        let error = fio::parse(&text, "t.fio").unwrap_err();
        assert_eq!(error.problems[0].line, Some(4), "{error}");
    }
    if !fio_is_here("a_line_is_an_error_only_where_fio_does_not_take_it") {
        return;
    }
    let mut text = String::new();
    for line in TAKEN {
        let _ = writeln!(text, "[j]\nsize=1m\n{line}");
    }
    assert_eq!(JobFile::new(&text).parse_only(), Ok(()));
    for line in NOT_TAKEN {
        let refused = JobFile::new(&format!("[j]\nsize=1m\n{line}\n")).parse_only();
        assert!(refused.is_err(), "{line}");
    }
}

#[test]
fn numbers_are_read_as_fio_reads_them() {
    type Read = fn(&FioJob) -> Vec<u64>;
    let sizes = &[
        "1",
        "512",
        "4k",
        "4K",
        "4kb",
        "4kB",
        "4kib",
        "4KiB",
        "3m",
        "3mb",
        "3mib",
        "2g",
        "2gb",
        "2gib",
        "1t",
        "1tb",
        "1tib",
        "1p",
        "0x10",
        "0X1f",
        "0x10k",
        "010",
        "1e",
        "1.5k",
        "-1",
        "",
        "4kx",
        "4ki",
        "9000000p",
        "9223372036854775807",
        "9223372036854775808",
    ][..];
    let lists = &[
        "1k,2k",
        "1k,2k,3k",
        "8k,",
        ",8k",
        ",8k,",
        "1k,2k,3k,4k",
        ",",
        "1k-2k",
        "1k:2k",
    ][..];
    let counts = &[
        "1",
        "7",
        "1k",
        "0",
        "64",
        "0x20",
        "99999999999",
        "-3",
        "3.5",
    ][..];
    let times = &[
        "1", "30", "5us", "5usec", "5ms", "5msec", "5s", "5S", "2m", "2M", "2h", "1d", "30sec",
        "2min", "1.5s", "1:30", "10m30s", "5ns", "3k", "-2", "0x10",
    ][..];
    let cases: [(&str, &[&[&str]], Read); 10] = [
        ("bs", &[sizes, lists], |j| {
            vec![j.block_size.read, j.block_size.write]
        }),
        ("size", &[sizes], |j| match j.size {
            Some(Size::Bytes(bytes)) => vec![bytes],
            _ => vec![],
        }),
        ("rate", &[sizes, lists], |j| {
            [j.rate.read, j.rate.write].into_iter().flatten().collect()
        }),
        ("rate_iops", &[counts, lists], |j| {
            [j.rate_iops.read, j.rate_iops.write]
                .into_iter()
                .flatten()
                .collect()
        }),
        ("iodepth", &[counts], |j| vec![u64::from(j.iodepth)]),
        ("numjobs", &[counts], |j| vec![u64::from(j.numjobs)]),
        (
            "rwmixread",
            &[&["0", "30", "100", "101", "50%", "-1"]],
            |j| vec![u64::from(j.rwmixread)],
        ),
        ("thinktime", &[times], |j| vec![j.thinktime.as_micros()]),
        ("thinktime_blocks", &[counts], |j| {
            j.thinktime_blocks.into_iter().map(u64::from).collect()
        }),
        ("runtime", &[times], |j| {
            j.runtime.iter().map(|t| t.as_micros()).collect()
        }),
    ];
    if !fio_is_here("numbers_are_read_as_fio_reads_them") {
        return;
    }
    // fio takes a fifth of a second to start, so all values go into one file, a job for each.
    let mut file = String::new();
    let mut ours = Vec::new();
    for (option, texts, read) in cases {
        for text in texts.iter().copied().flatten() {
            let line = format!("{option}={text}");
            // The end of the job comes from a [global] section, so that it may be overridden.
            if let Some(job) = only_job(&format!("[global]\nsize=1m\ndirect=1\n[j]\n{line}\n")) {
                let _ = writeln!(file, "[j{}]\n{line}", ours.len());
                ours.push((line, *text, read(&job)));
            }
        }
    }
    let file = JobFile::new(&file);
    assert_eq!(file.parse_only(), Ok(()));
    let theirs = file.numbers();
    assert_eq!(ours.len(), theirs.len());
    assert!(ours.len() >= 60, "only {} values compared", ours.len());
    for ((line, text, ours), theirs) in ours.iter().zip(&theirs) {
        // fio names one number for both directions, and one more for trims; a direction that an
        // empty part leaves out keeps its default.
        let agrees = match (theirs.as_slice(), ours.as_slice()) {
            ([one], [4096, write]) if text.starts_with(',') => one == write,
            ([one], [read, 4096]) if text.ends_with(',') => one == read,
            // No limit.
            ([0], []) if line.starts_with("rate") => true,
            ([one], all) => all.iter().all(|n| n == one) && !all.is_empty(),
            (many, all) => many.len() >= all.len() && many[..all.len()] == *all,
        };
        assert!(agrees, "{line}: fio reads {theirs:?}, we read {ours:?}");
    }
}

#[test]
fn every_known_option_is_one_of_fios() {
    if !fio_is_here("every_known_option_is_one_of_fios") {
        return;
    }
    // fio names every option that it does not know before it gives up.
    let mut text = "[j]\nsize=1m\n".to_owned();
    for (name, _) in fio::known_options() {
        // Newer than the fio of Debian 12, and options of engines, which fio knows by their engine.
        let newer = ["thinkcycles", "bs_is_seq_rand"].contains(&name);
        if !newer && !ENGINE_OPTIONS.contains(&name) {
            let _ = writeln!(text, "{name}=1");
        }
    }
    let unknown = JobFile::new(&text).parse_only().unwrap_err();
    assert!(!unknown.contains("Bad option"), "{unknown}");
}

/// Options that only some engines have.
const ENGINE_OPTIONS: &[&str] = &[
    "cmd_type",
    "cmdprio",
    "cmdprio_bssplit",
    "cmdprio_class",
    "cmdprio_percentage",
    "fixedbufs",
    "force_async",
    "hipri",
    "hipri_percentage",
    "nonvectored",
    "nowait",
    "registerfiles",
    "sqthread_poll",
    "sqthread_poll_cpu",
    "thp",
    "uncached",
    "userspace_reap",
];

/// Option lines of a section, at random but the same in each run.
fn section(runner: &mut TestRunner) -> String {
    let mut pick = |values: &'static [&'static str]| {
        proptest::sample::select(values)
            .new_tree(runner)
            .unwrap()
            .current()
    };
    let mut text = String::new();
    for (option, values) in [
        (
            "rw",
            &[
                "",
                "=read",
                "=write",
                "=randread",
                "=randwrite",
                "=rw",
                "=randrw",
            ][..],
        ),
        ("readwrite", &["", "", "", "=readwrite"][..]),
        (
            "bs",
            &["", "=8k", "=4k,64k", "=,512", "=16k,", "=1m # comment"],
        ),
        ("blocksize", &["", "", "", "=2k ; comment"]),
        ("iodepth", &["", "", "=4", " =32"]),
        ("direct", &["", "=0", "=1"]),
        ("numjobs", &["", "", "=1"]),
        ("norandommap", &["", "\t"]),
        ("group_reporting", &["", "=0", "=1"]),
        ("thinktime_blocks", &["", "=10"]),
        ("description", &["", "=a b c", "=\"quoted\""]),
        ("rwmixread", &["", "=70"]),
        ("randrepeat", &["", "=0"]),
        ("stonewall", &["", "", "=0"]),
    ] {
        let value = pick(values);
        if !value.is_empty() {
            let _ = writeln!(text, "{}{option}{value}", pick(&["", " ", "\t"]));
        }
    }
    text
}

#[test]
fn whole_files_resolve_to_the_jobs_that_fio_runs() {
    if !fio_is_here("whole_files_resolve_to_the_jobs_that_fio_runs") {
        return;
    }
    let mut runner = TestRunner::deterministic();
    let mut printed = String::new();
    // fio takes half a second to run a file, which bounds their number.
    for _ in 0..16 {
        // The size is the largest block of them all, so that each job does an I/O or two and ends.
        let text = format!(
            "; generated\n[global]\nsize=1m\n{}\n[one]\n{}[two]\n{}[global]\n{}[three]\n{}",
            section(&mut runner),
            section(&mut runner),
            section(&mut runner),
            section(&mut runner),
            section(&mut runner)
        );
        let file = fio::parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}\n{text}"));
        let _ = writeln!(printed, "{file}");

        // fio sums a job up when it starts it. The null engine moves no data, and stands in for
        // the real one at the top, where no job of ours overrides it.
        let null = JobFile::new(&format!("[global]\nioengine=null\n{text}"));
        let report = null.run(&["--eta=never"]);
        assert!(report.status.success(), "{report:?}\n{text}");
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        for job in &file.jobs {
            let expected = format!(
                "rw={}, bs=(R) {}-{}, (W) {}-{},",
                job.rw,
                short(job.block_size.read),
                short(job.block_size.read),
                short(job.block_size.write),
                short(job.block_size.write)
            );
            let line = report
                .lines()
                .find(|line| line.starts_with(&format!("{}: (g=", job.name)))
                .unwrap_or_else(|| panic!("no job {} in:\n{report}\n{text}", job.name));
            assert!(
                line.contains(&expected),
                "{line}\nexpected {expected}\n{text}"
            );
            assert!(
                line.ends_with(&format!("iodepth={}", job.iodepth)),
                "{line}\n{text}"
            );
        }
    }
    // What we print is a job file to fio, too.
    assert_eq!(JobFile::new(&printed).parse_only(), Ok(()), "{printed}");
}

/// A size as fio's summary line prints it.
fn short(bytes: u64) -> String {
    match bytes {
        b if b >= 1 << 20 => format!("{}KiB", b >> 10),
        b if b >= 10_000 => format!("{:.1}KiB", b as f64 / 1024.0),
        b => format!("{b}B"),
    }
}

#[test]
fn the_workloads_of_the_repository_run_in_fio() {
    if !fio_is_here("the_workloads_of_the_repository_run_in_fio") {
        return;
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "fio") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        // Debian 12's fio is too old for the one option.
        let known: String = text
            .lines()
            .filter(|line| !line.starts_with("thinkcycles"))
            .fold(String::new(), |all, line| all + line + "\n");
        assert_eq!(
            JobFile::new(&known).parse_only(),
            Ok(()),
            "{}",
            path.display()
        );
    }
}

#[test]
fn paths_hold_every_file_that_fio_opens() {
    if !fio_is_here("paths_hold_every_file_that_fio_opens") {
        return;
    }
    let sections = [
        "[plain]\n",
        "[list]\nfilename=x.tmp:/dev/null:y\\:z\n",
        "[colons]\nfilename=:/dev/null::x\n",
        "[late]\nfilename=null\ndirectory=/dev\n",
        "[early]\ndirectory=/dev:sub\nfilename= null\nnumjobs=3\n",
        "[twice]\nfilename=one\nfilename=two # three\n",
        "[/dev/null]\n",
        "[/dev/zero]\nname=other\nfilename_format=x\n",
        "[link]\n",
        "[named]\nname=/dev/null\n",
        "[format]\nfilename_format=/dev/$jobname.$JOBNUM.$filenum.$clientuid.$x\nnumjobs=2\n",
        "[up]\nfilename=sub/../../null\n",
        "[slashes]\nfilename=//dev/null\n",
        "[global]\nfilename=g.tmp\n[both]\nfilename=h.tmp\n[one]\n",
        "[global]\nfilename=null\n[after]\ndirectory=/dev\n",
        "[global x]\ndirectory=/dev\n[below]\nfilename=null\n[name]\n",
        "[global]\nfilename_format=/dev/null\nname=/dev/zero\n[formatted]\n",
    ];
    for section in sections {
        // The null engine opens nothing, so that this is safe as root, too.
        let text = format!("[global]\nsize=4k\nbs=512\n{section}");
        let file = JobFile::new(&format!("[global]\nioengine=null\n{text}"));
        std::fs::create_dir(file.folder.path().join("sub")).unwrap();
        std::os::unix::fs::symlink("/dev/null", file.folder.path().join("link")).unwrap();
        let output = file.run(&["--debug=file"]);
        assert!(output.status.success(), "{output:?}\n{text}");
        let ours = fio::list_job_paths(&text, "t.fio").unwrap_or_else(|e| panic!("{e}"));
        let ours: Vec<String> = ours.into_iter().flat_map(|job| job.files).collect();
        let mut theirs = 0;
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            // file 0x7f94f67f5110 "/dev/null" added at 0
            let Some((_, rest)) = line.split_once(" \"") else {
                continue;
            };
            let Some((path, _)) = rest.split_once("\" added at") else {
                continue;
            };
            theirs += 1;
            let found = ours.iter().any(|p| p == path);
            assert!(found, "fio opens {path}, we have {ours:?}\n{text}");
        }
        assert!(theirs > 0, "fio names no files:\n{text}");
    }
}
