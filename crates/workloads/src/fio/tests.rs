//! What the parser accepts and refuses. The comparison with fio itself is in `tests/all/against_fio.rs`.

use std::path::Path;

use wakepath_units::Nanoseconds;

use super::*;

fn job(options: &str) -> FioJob {
    let text = format!("[j]\n{options}\nsize=1m\n");
    let mut file = parse(&text, "t.fio").unwrap_or_else(|e| panic!("{e}"));
    file.jobs.remove(0)
}

/// Parses a job of 1 MiB that has a model, or returns the message.
pub(super) fn parse_modelled_job(lines: &str) -> Result<FioJob, String> {
    let text = format!("[j]\nsize=1m\n{lines}\n");
    let mut file = parse(&text, "t.fio").map_err(|e| e.to_string())?;
    file.refuse_unmodelled_options()
        .map_err(|e| e.to_string())?;
    Ok(file.jobs.remove(0))
}

fn error(text: &str) -> String {
    match parse(text, "t.fio") {
        Ok(file) => panic!("accepted: {file:?}"),
        Err(e) => e.to_string(),
    }
}

/// What keeps a file from being simulated, one line each; that it is buffered does not count.
fn refusals(text: &str) -> String {
    let problems = match parse(text, "t.fio") {
        Ok(file) => file.unmodelled,
        Err(e) => e.problems,
    };
    let all = problems.iter().map(ToString::to_string);
    let all: Vec<String> = all.filter(|p| !p.contains("buffered I/O")).collect();
    all.join("\n")
}

#[test]
fn defaults_are_fios() {
    let job = job("");
    assert_eq!(job.name, "j");
    assert_eq!(job.rw, ReadWrite::Read);
    assert_eq!(job.rwmixread, 50);
    assert_eq!(
        job.block_size,
        PerDirection {
            read: 4096,
            write: 4096,
            trim: 4096
        }
    );
    assert_eq!((job.iodepth, job.numjobs), (1, 1));
    assert_eq!(job.ioengine, IoEngine::Psync);
    assert_eq!(
        (job.direct, job.time_based, job.norandommap),
        (false, false, false)
    );
    assert_eq!(
        (job.thinktime, job.thinktime_blocks, job.thinkcycles),
        (Nanoseconds::ZERO, None, 0)
    );
    assert_eq!((job.rate, job.rate_iops), Default::default());
    assert_eq!(
        job.process_limits(1 << 40),
        ProcessLimits {
            time: None,
            bytes: Some(1 << 20),
            ios: None,
            span: 1 << 20,
        }
    );
}

#[test]
fn every_supported_option_reaches_its_field() {
    let file = parse(
        "; comment\n[global]\nioengine=libaio ; tail\nbs=8k,16k # tail\ntimeout=2m\n\
         [first]\nreadwrite=randrw\nrwmixwrite=30\niodepth=32\ndirect=1\ntime_based\n\
         thinktime=150ms\nthinktime_blocks=1000\nthinktime_spin=5\nthinkcycles=0x10\n\
         rate=1m,512k\nnorandommap\ngroup_reporting=1\nfilename=/dev/a:/dev/b\n\
         description=two words\nnumjobs=4\n\
         [global]\nbs=,32k\n[second]\nname=other\nstonewall\nrate_iops=,100\nbuffered=0\nsize=50%\n",
        "t.fio",
    )
    .unwrap();
    assert_eq!(file.warnings, []);
    let [first, second] = &file.jobs[..] else {
        panic!("{file:?}")
    };
    assert_eq!(first.line, 6);
    assert_eq!((first.rw, first.rwmixread), (ReadWrite::RandRw, 70));
    assert_eq!(
        (first.block_size.read, first.block_size.write),
        (8192, 16384)
    );
    assert_eq!((first.iodepth, first.effective_iodepth()), (32, 32));
    assert_eq!(first.numjobs, 4);
    assert_eq!(first.runtime, Some(Nanoseconds::from_secs(120)));
    assert!(first.direct && first.time_based && first.norandommap && first.group_reporting);
    assert!(!first.stonewall);
    assert_eq!(first.thinktime, Nanoseconds::from_millis(150));
    assert_eq!(
        (first.thinktime_blocks, first.thinktime_spin),
        (Some(1000), Nanoseconds::from_micros(5))
    );
    assert_eq!(first.thinkcycles, 16);
    assert_eq!(
        (first.rate.read, first.rate.write),
        (Some(1 << 20), Some(512 << 10))
    );
    assert_eq!(first.filename.as_deref(), Some("/dev/a:/dev/b"));
    assert_eq!(first.description.as_deref(), Some("two words"));

    // A job sees the global sections above it only, and later ones add to earlier ones.
    assert_eq!(second.name, "other");
    assert_eq!(
        (second.block_size.read, second.block_size.write),
        (8192, 32768)
    );
    assert!(second.stonewall && second.direct);
    assert_eq!(
        (second.rate_iops.read, second.rate_iops.write),
        (None, Some(100))
    );
    assert_eq!(second.size, Some(Size::Percent(50)));
    assert_eq!(second.process_limits(1 << 20).bytes, Some(1 << 19));
}

#[test]
fn what_cannot_change_timing_is_a_named_warning() {
    let file = parse(
        "[j]\nsize=1m\nwrite_lat_log=x\nrandrepeat=0\niodepth=8\nbs=4kib\nthinktime_spin=3\n\
         loops=1\n[global extra]\n",
        "t.fio",
    )
    .unwrap();
    let seen: Vec<(usize, &str)> = file
        .warnings
        .iter()
        .map(|w| (w.line, w.option.as_str()))
        .collect();
    assert_eq!(
        seen,
        [
            (3, "write_lat_log"),
            (4, "randrepeat"),
            (5, "iodepth"),
            (6, "bs"),
            (7, "thinktime_spin"),
            (9, "[global extra]"),
        ]
    );
    assert_eq!(file.jobs[0].block_size.read, 4000);
    assert_eq!(file.jobs[0].effective_iodepth(), 1);
}

#[test]
fn errors_name_the_line_and_the_likely_intention() {
    for (text, expected) in [
        (
            "",
            "t.fio: has no job section, as fio's job files have, with a line like [reader]. If it is a block trace, its beginning is \
             damaged: text of blkparse, fio's iolog, MSR Cambridge and recordings are known by their first line",
        ),
        (
            "hello world\nand more\n",
            "t.fio: has no job section, as fio's job files have, with a line like [reader]. If it is a block trace, its beginning is \
             damaged: text of blkparse, fio's iolog, MSR Cambridge and recordings are known by their first line",
        ),
        (
            "[global]\nbs=4k\n",
            "t.fio: has no job section; a job starts with a line like [reader]",
        ),
        (
            "bs=4k\n[j]\nsize=1m\n",
            "t.fio:1: `bs=4k` stands before any section; start with [global] or [a job name]",
        ),
        (
            "[j]\niodept=4\nsize=1m\n",
            "t.fio:2: unknown option `iodept`; did you mean `iodepth`?",
        ),
        (
            "[j]\nzzzzzzz=4\nsize=1m\n",
            "t.fio:2: unknown option `zzzzzzz`",
        ),
        (
            "[j]\nopendir=x\nsize=1m\n",
            "t.fio:2: opendir: jobs and files that fio finds by itself are not modelled",
        ),
        (
            "[j]\nminimal\nsize=1m\n",
            "t.fio:2: `minimal` is an option of fio's command line, not of a job file",
        ),
        (
            "[j]\nrw=randred\nsize=1m\n",
            "t.fio:2: rw: unknown pattern `randred`; expected one of read, write, randread, \
             randwrite, rw, readwrite, randrw, trim, randtrim, trimwrite, randtrimwrite; did you mean `randread`?",
        ),
        (
            "[j]\nioengine=splice\nsize=1m\n",
            "t.fio:2: ioengine: the engine `splice` reaches the page cache or persistent memory in a way that is not modelled; use one \
             of sync, psync, pvsync, pvsync2, libaio, io_uring, posixaio, vsync, io_uring_cmd, sg, mmap",
        ),
        ("[j]\nbs=0\nsize=1m\n", "t.fio:2: bs: must be at least 1"),
        (
            "[j]\nbs\nsize=1m\n",
            "t.fio:2: bs: a value is missing; write option=value",
        ),
        ("[j]\nbs=\nsize=1m\n", "t.fio:2: bs: a value is missing"),
        (
            "[j]\nbs= 4k\nsize=1m\n",
            "t.fio:2: bs: fio misreads `4k` after a blank; write it right behind the `=`",
        ),
        (
            "[j]\niodepth=0\nsize=1m\n",
            "t.fio:2: iodepth: 0 is out of range; expected 1 to 65536",
        ),
        (
            "[j]\nnumjobs=0\nsize=1m\n",
            "t.fio:2: numjobs: 0 is out of range; expected 1 to 4096",
        ),
        (
            "[j]\nthinktime=-5\nsize=1m\n",
            "t.fio:2: thinktime: `-5` is negative",
        ),
        (
            "[j]\nruntime=30sec\nsize=1m\n",
            "t.fio:2: runtime: `30sec` has an unknown unit of time; expected us, ms, s, m, h or d",
        ),
        (
            "[j]\ndirect=yes\nsize=1m\n",
            "t.fio:2: direct: `yes` is not a switch; expected 0 or 1",
        ),
        (
            "[j]\nkb_base=512\nsize=1m\n",
            "t.fio:2: kb_base: `512`: expected one of 1000, 1024; did you mean `1024`?",
        ),
        (
            "[j]\nrate=1m\nrate_iops=5\nsize=1m\n",
            "t.fio:3: job `j` has both rate and rate_iops; keep one of them",
        ),
        (
            "\n[j]\nbs=4k\n",
            "t.fio:2: job `j` never ends: there is neither runtime nor size; add runtime=SECONDS or \
             size=BYTES, or name a device or file (filename=/dev/...)",
        ),
        (
            "[j]\nruntime=0\n",
            "t.fio:2: job `j` never ends: runtime=0 sets no limit, and there is no size; add runtime=SECONDS \
             or size=BYTES, or name a device or file (filename=/dev/...)",
        ),
        (
            "[j\nbs=4k\n",
            "t.fio:1: `[j` is not a section header; expected [name] alone on the line",
        ),
        (
            "[ ]\n",
            "t.fio:1: a section needs a name between its brackets",
        ),
        (
            "[a]\nsize=1m\nnumjobs=4096\n[b]\nsize=1m\n",
            "t.fio:4: more than 4096 jobs, counting numjobs, which is fio's limit",
        ),
        (
            "[j]\n=5\nsize=1m\n",
            "t.fio:2: an option name is missing before `=`",
        ),
    ] {
        assert_eq!(refusals(text), expected, "{text:?}");
    }
}

#[test]
fn a_refusal_names_everything_at_once() {
    let text =
        "[global]\nhipri\nsize=1m\nbuffered=1\n[a]\nopendir=x\niodept=2\n[b]\nprofile=x\nbs=0\n";
    let problems = parse(text, "t.fio").unwrap_err().problems;
    let lines: Vec<_> = problems.iter().filter_map(|p| p.line).collect();
    assert_eq!(lines, [2, 6, 7, 9, 10], "{problems:?}");
    // What fio takes is no error, even if it cannot be simulated.
    let text = "[global]\nhipri=1\nsize=1m\n[a]\n[b]\nprofile=x\n";
    let file = parse(text, "t.fio").unwrap();
    assert_eq!(file.unmodelled.len(), 2);
    let refused = file.refuse_unmodelled_options().unwrap_err().to_string();
    assert_eq!(refused.lines().count(), 2, "{refused}");
    let text = format!("{}[a]\n", "x\n".repeat(5000));
    let many = parse(&text, "t.fio").unwrap_err().to_string();
    assert_eq!(many.lines().count(), 41, "{many}");
}

#[test]
fn options_of_cached_pages_without_a_model_say_why() {
    for (lines, wanted) in [
        (
            "ioengine=pvsync2\nuncached=1",
            "t.fio:5: uncached: the modelled page cache keeps what an I/O has brought",
        ),
        (
            "ioengine=mmap\nthp=1",
            "t.fio:5: thp: mapped files have small pages in the model",
        ),
    ] {
        let text = format!("[j]\nsize=1g\nrw=read\n{lines}\n");
        let refused = parse(&text, "t.fio").unwrap().unmodelled;
        let all: Vec<String> = refused.iter().map(ToString::to_string).collect();
        assert!(all.len() == 1 && all[0].starts_with(wanted), "{all:?}");
    }
    let off = "[j]\nsize=1g\nrw=read\nuncached=0\nthp=0\n";
    assert_eq!(parse(off, "t.fio").unwrap().unmodelled, []);
}

#[test]
fn buffered_reads_and_writes_are_modelled() {
    let parse_job_file =
        |lines: &str| parse(&format!("[j]\nsize=1g\niodepth=8\n{lines}\n"), "t.fio").unwrap();
    let modelled = |lines: &str| parse_job_file(lines).unmodelled.is_empty();
    for lines in [
        "rw=randread",
        "rw=write",
        "rw=randwrite",
        "rw=randrw",
        "rw=randwrite\nnorandommap\nfsync=1",
        "rw=write\ninvalidate=0\nfadvise_hint=sequential",
        "rw=read\nioengine=psync",
        "rw=read:4k",
        "rw=write\nverify=md5",
        "rw=rw",
        "rw=randrw\ninvalidate=0",
        "rw=randread\nnorandommap",
        "rw=randread\ninvalidate=0",
        "rw=randread\nfadvise_hint=sequential",
        "rw=read\nioengine=io_uring",
        "rw=randread\nnorandommap\nioengine=io_uring",
        "rw=randread\nioengine=mmap",
        "rw=randread\nrandom_distribution=zipf:1.2",
        "rw=randwrite\nrandom_distribution=pareto:0.2:0.5",
    ] {
        assert!(modelled(lines), "{lines}");
    }
    assert!(modelled(
        "rw=randread\nioengine=io_uring\ninvalidate=1\nfadvise_hint=1"
    ));
    for lines in [
        "rw=randwrite\nrandom_distribution=normal:10",
        "rw=write\nsync_file_range=write:8",
        "rw=randread\nrandom_distribution=zipf:1.2\nbsrange=4k-64k",
        "rw=randread\nrandom_distribution=zipf:1.2\nnrfiles=2",
    ] {
        assert!(!modelled(lines), "{lines}");
        assert!(modelled(&format!("{lines}\ndirect=1")), "{lines}");
    }
    // libaio waits for each in its submission, as read() does.
    for (lines, depth, iowait) in [
        ("ioengine=libaio", 1, true),
        ("ioengine=libaio\ndirect=1", 8, false),
        ("ioengine=io_uring", 8, true),
    ] {
        let job = parse_job_file(&format!("rw=randread\n{lines}"))
            .jobs
            .remove(0);
        assert_eq!(
            (job.effective_iodepth(), job.waits_as_iowait(true)),
            (depth, iowait),
            "{lines}"
        );
    }
}

#[test]
fn sizes_of_files_and_lines_are_bounded() {
    assert!(error(&"#".repeat(MAX_FILE_BYTES + 1)).contains("is larger than"));
    assert!(error(&format!("[j]\n#{}\n", "x".repeat(5000))).contains("t.fio:2: "));
    let many = parse(&"[j]\nsize=1\n".repeat(5000), "t.fio").unwrap_err();
    let told = |text: &str| many.problems.iter().any(|p| p.message.contains(text));
    assert!(told("more than 4096 jobs"));
}

#[test]
fn files_that_cannot_be_read_are_named() {
    let missing = load("/nonexistent/x.fio").unwrap_err();
    assert_eq!(missing.problems[0].line, None);
    assert!(
        missing
            .to_string()
            .starts_with("/nonexistent/x.fio: cannot open: ")
    );
}

#[test]
fn the_workloads_of_the_repository_parse() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads");
    let iowait = load(folder.join("iowait-rk3399.fio")).unwrap();
    assert_eq!(iowait.warnings, []);
    let job = &iowait.jobs[0];
    assert_eq!(job.rw, ReadWrite::RandRead);
    assert_eq!(job.ioengine, IoEngine::Psync);
    assert_eq!(job.runtime, Some(Nanoseconds::from_secs(30)));
    assert!(job.direct && job.time_based);
    let busier = load(folder.join("iowait-thinkcycles.fio")).unwrap();
    assert!(busier.jobs[0].thinkcycles > 0);
}

mod properties {
    use proptest::prelude::*;

    use super::*;

    /// One for each direction.
    fn each<S: Strategy>(
        strategy: impl Fn() -> S,
    ) -> impl Strategy<Value = PerDirection<S::Value>> {
        (strategy(), strategy(), strategy()).prop_map(|(read, write, trim)| PerDirection {
            read,
            write,
            trim,
        })
    }

    fn limit() -> impl Strategy<Value = PerDirection<Option<u64>>> {
        each(|| proptest::option::of(1_u64..1 << 40))
    }

    fn any_size() -> impl Strategy<Value = Size> {
        prop_oneof![
            (1_u64..1 << 60).prop_map(Size::Bytes),
            (1_u8..=100).prop_map(Size::Percent)
        ]
    }

    prop_compose! {
        fn any_extent()(
            filesize in proptest::option::of((1_u64..1 << 60, 0_u64..1 << 60)),
            io_size in proptest::option::of(any_size()),
            number_ios in proptest::option::of(1_u64..1 << 60),
            (loops, nrfiles) in (1_u32.., 1_u32..),
            fill_device in any::<bool>(),
        ) -> FioJob {
            FioJob {
                filesize: filesize.map(|(least, more)| FileSize { least, most: least + more }),
                io_size,
                number_ios,
                loops,
                nrfiles,
                fill_device,
                ..FioJob::default()
            }
        }
    }

    fn blocks() -> impl Strategy<Value = BlockSizes> {
        let size = || 1_u64..1 << 30;
        let range =
            move || proptest::option::of((size(), size()).prop_map(|(a, b)| (a.min(b), a.max(b))));
        let part = (size(), proptest::option::of(1_u8..20));
        let split = move || proptest::option::of(proptest::collection::vec(part.clone(), 1..5));
        (each(range), each(split), any::<[bool; 2]>()).prop_map(|(range, split, flags)| {
            BlockSizes {
                range,
                split,
                unaligned: flags[0],
                by_order: flags[1],
            }
        })
    }

    prop_compose! {
        fn any_places()(
            offset in proptest::option::of(any_size()),
            increment in proptest::option::of(any_size()),
            align in proptest::option::of(1_u64..1 << 30),
            distribution in proptest::option::of(proptest::sample::select(
                &["zipf:1.2", "pareto:0.5:0.1", "normal:20", "zoned:60/10:40/90,100/50"][..],
            )),
            block_align in limit(),
            percentage_random in each(|| 0_u8..=100),
            zones in proptest::option::of((1_u64..1 << 40, 0_u64..1 << 40, 0_u64..1 << 40)),
        ) -> Places {
            Places {
                offset,
                increment,
                align,
                distribution: distribution.map(str::to_owned),
                block_align,
                percentage_random,
                zones: zones.map_or(Zones::default(), |(size, range, skip)| Zones {
                    mode: ZoneMode::Strided,
                    size,
                    range,
                    skip,
                }),
            }
        }
    }

    prop_compose! {
        fn any_pace()(
            counts in proptest::sample::select(&[ThinkBlocks::Complete, ThinkBlocks::Issue][..]),
            iotime_us in 0_u64..1 << 40,
            rate_poisson in any::<bool>(),
            rate_ignores_thinktime in any::<bool>(),
            nice in -20_i8..=19,
            (fsync, fdatasync) in any::<(u32, u32)>(),
            [sync, end_fsync, fsync_on_close] in any::<[bool; 3]>(),
            places in any_places().boxed(),
        ) -> FioJob {
            FioJob {
                fsync,
                fdatasync,
                sync,
                end_fsync,
                fsync_on_close,
                thinktime_counts: counts,
                thinktime_iotime: Nanoseconds::from_micros(iotime_us),
                rate_poisson,
                rate_ignores_thinktime,
                nice,
                places,
                ..FioJob::default()
            }
        }
    }

    prop_compose! {
        fn any_batches()(
            submit in 0..=MAX_IODEPTH,
            complete_min in 0..=MAX_IODEPTH,
            complete_max in 0..=MAX_IODEPTH,
            low in 0..=MAX_IODEPTH,
        ) -> Batches {
            Batches { submit, complete_min, complete_max, low }
        }
    }

    prop_compose! {
        fn any_verify()(
            name in proptest::option::of(proptest::sample::select(&Checksum::NAMES[..])),
            read_back in any::<bool>(),
            pattern in proptest::option::of("0x[0-9a-f]{1,8}"),
            backlog in 0..=u64::from(u32::MAX),
            backlog_batch in any::<u32>(),
            experimental in any::<bool>(),
            threads in 0_u32..=1024,
        ) -> Verify {
            Verify {
                checksum: name.and_then(Checksum::from_name),
                read_back,
                pattern,
                backlog,
                backlog_batch,
                experimental,
                threads,
            }
        }
    }

    prop_compose! {
        fn any_steering()(
            target_us in 0_u64..1 << 40,
            window_us in 0_u64..1 << 40,
            millionths_of_percent in 0_u64..=100_000_000,
            goes_on in any::<bool>(),
            figure in proptest::sample::select(&SteadyFigure::NAMES[..]),
            limit_millionths in 0_u64..1 << 50,
            in_percent in any::<bool>(),
            seconds in 1_u32..=1 << 20,
            ramp_us in 0_u64..1 << 40,
            (weight, id, sleep_us) in (0_u32..=1000, any::<u32>(), 0..=u64::from(u32::MAX)),
            (submits_by_threads, force_async) in any::<(bool, u32)>(),
        ) -> FioJob {
            FioJob {
                latency_target: LatencyTarget {
                    target: Nanoseconds::from_micros(target_us),
                    window: Nanoseconds::from_micros(window_us),
                    millionths_of_percent,
                    goes_on,
                },
                steady_state: SteadyState {
                    figure: figure.1,
                    limit_millionths,
                    in_percent,
                    seconds,
                    ramp: Nanoseconds::from_micros(ramp_us),
                },
                flow: Flow {
                    weight,
                    id,
                    sleep: Nanoseconds::from_micros(sleep_us),
                },
                submits_by_threads,
                force_async,
                ..FioJob::default()
            }
        }
    }

    prop_compose! {
        fn any_cached_reads()(
            hint in proptest::sample::select(&FadviseHint::NAMES[..]),
            invalidate in any::<bool>(),
        ) -> (FadviseHint, Invalidation) {
            (hint.1, Invalidation(invalidate))
        }
    }

    prop_compose! {
        fn any_polling()(
            completions in any::<bool>(),
            submissions in any::<bool>(),
            thread_cpu in proptest::option::of(0_u32..64),
        ) -> Polling {
            Polling { completions, submissions, thread_cpu }
        }
    }

    prop_compose! {
        fn any_content()(
            refill in proptest::option::of(any::<bool>()),
            zero in any::<bool>(),
            scramble in proptest::option::of(any::<bool>()),
            pattern in proptest::option::of(proptest::sample::select(&["0xdeadbeef", "\"abcd\"-12"][..])),
            compressible in proptest::option::of(0_u8..=100),
            duplicates in proptest::option::of(0_u8..=100),
        ) -> Content {
            let pattern = pattern.map(str::to_owned);
            // These say something of others.
            let refill = if pattern.is_some() || duplicates.is_some() {
                refill.or(Some(true))
            } else {
                refill
            };
            let scramble = if pattern.is_some() { scramble.or(Some(false)) } else { scramble };
            Content { refill, zero, scramble, pattern, compressible, duplicates }
        }
    }

    prop_compose! {
        fn any_job()(
            name in "[a-f][a-z0-9 _.-]{0,20}[a-z]",
            description in proptest::option::of("[a-z]([ -\"%-:<-z]{0,20}[a-z])?"),
            filename in proptest::option::of("/dev/[a-z0-9:]{1,12}"),
            rw in proptest::sample::select(&ReadWrite::NAMES[..]),
            ioengine in proptest::sample::select(&IoEngine::NAMES[..]),
            rwmixread in 0_u8..=100,
            block_size in each(|| 1_u64..1 << 30),
            (iodepth, numjobs) in (1..=MAX_IODEPTH, 1_u32..=64),
            flags in any::<[bool; 5]>(),
            size in any_size(),
            runtime_us in 1_u64..1 << 40,
            time_based in any::<bool>(),
            think in (0_u64..1 << 40, 0_u64..1 << 40, proptest::option::of(1_u32..), 0_u64..=u64::from(u32::MAX)),
            rate in limit(),
            rate_iops in limit(),
            limited_by_bytes in any::<bool>(),
            (ramp_us, delay_us, delay_range_us) in (0_u64..1 << 40, 0_u64..1 << 40, 0_u64..1 << 40),
            exit in proptest::option::of(proptest::sample::select(
                &[ExitWhat::Group, ExitWhat::Stonewall, ExitWhat::All][..],
            )),
            cpus in proptest::option::of(proptest::collection::btree_set(0_u32..8192, 1..9)),
            split in any::<bool>(),
            extent in any_extent().boxed(),
            (step, block_sizes, batches, (content, verify, (polling, (fadvise, invalidate)))) in (1_i64..1 << 40, blocks().boxed(), any_batches(), (any_content(), any_verify(), (any_polling(), any_cached_reads())).boxed()),
            pace in any_pace().boxed(),
            steering in any_steering().boxed(),
        ) -> FioJob {
            FioJob {
                name,
                line: 0,
                description,
                filename,
                rw: rw.1,
                step,
                rwmixread,
                block_size,
                block_sizes,
                iodepth,
                batches,
                content,
                verify,
                fadvise,
                invalidate,
                polling,
                numjobs,
                ioengine: ioengine.1,
                submits_by_threads: steering.submits_by_threads,
                latency_target: steering.latency_target,
                steady_state: steering.steady_state,
                flow: steering.flow,
                force_async: steering.force_async,
                direct: flags[0],
                size: Some(size),
                filesize: extent.filesize,
                io_size: extent.io_size,
                number_ios: extent.number_ios,
                loops: extent.loops,
                nrfiles: extent.nrfiles,
                fill_device: extent.fill_device,
                runtime: Some(Nanoseconds::from_micros(runtime_us)),
                time_based,
                fsync: pace.fsync,
                fdatasync: pace.fdatasync,
                sync: pace.sync,
                end_fsync: pace.end_fsync,
                fsync_on_close: pace.fsync_on_close,
                thinktime: Nanoseconds::from_micros(think.0),
                thinktime_spin: Nanoseconds::from_micros(think.1),
                thinktime_blocks: think.2,
                thinkcycles: think.3,
                rate: if limited_by_bytes { rate } else { PerDirection::default() },
                rate_iops: if limited_by_bytes { PerDirection::default() } else { rate_iops },
                norandommap: flags[1],
                group_reporting: flags[2],
                new_group: flags[4],
                stonewall: flags[3],
                ramp_time: Some(Nanoseconds::from_micros(ramp_us)),
                startdelay: (
                    Nanoseconds::from_micros(delay_us),
                    Nanoseconds::from_micros(delay_us + delay_range_us),
                ),
                exitall: exit.is_some(),
                exit_what: exit.unwrap_or_default(),
                wait_for: None,
                cpus_allowed: cpus.map(|cpus| cpus.into_iter().collect()),
                cpus_policy: if split { CpusPolicy::Split } else { CpusPolicy::Shared },
                io_log: IoLogReplay::default(),
                replay: None,
                at_most: None,
                thinktime_counts: pace.thinktime_counts,
                thinktime_iotime: pace.thinktime_iotime,
                rate_poisson: pace.rate_poisson,
                rate_ignores_thinktime: pace.rate_ignores_thinktime,
                nice: pace.nice,
                places: pace.places,
            }
        }
    }

    #[test]
    fn names_that_no_header_can_say_parse_back() {
        for name in ["a]b", "[", "globally", "plain", "w6]"] {
            let file = parse(&format!("[j]\nname={name}\nruntime=1\n"), "t.fio").unwrap();
            let back = parse(&file.to_string(), "t.fio").unwrap();
            assert_eq!(back.jobs[0].name, name);
            assert!(back.warnings.is_empty(), "{:?}", back.warnings);
        }
    }

    proptest! {
        #[test]
        fn what_is_printed_parses_back(jobs in proptest::collection::vec(any_job(), 1..4)) {
            let printed = FioJobFile { jobs: jobs.clone(), warnings: Vec::new(), unmodelled: Vec::new() }.to_string();
            let mut back = parse(&printed, "t.fio").map_err(|e| TestCaseError::fail(format!("{e}\n{printed}")))?;
            for job in &mut back.jobs {
                job.line = 0;
            }
            prop_assert_eq!(back.jobs, jobs);
        }

        #[test]
        fn every_job_has_limits(job in any_job(), capacity in 1_u64..) {
            let limits = job.process_limits(capacity);
            prop_assert!(limits.time.is_some());
            prop_assert_eq!(limits.bytes.is_none(), job.time_based);
        }

        #[test]
        fn every_way_through_a_file_stays_in_it(
            job in any_job().boxed(),
            capacity in 1_u64..1 << 40,
            directions in proptest::collection::vec(0_usize..2, 1..100),
        ) {
            // The same one again and again finds ends soon.
            struct Draws(u64);
            impl Draw for Draws {
                fn draw_below(&mut self, n: u64) -> u64 {
                    self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
                    self.0 % n
                }
                fn draw_size(&mut self, sizes: &IoSizes) -> u64 {
                    if self.draw_below(2) == 0 { sizes.smallest() } else { sizes.largest() }
                }
            }
            let reach = job.process_extent(capacity);
            let reach = reach.file.max(capacity).saturating_mul(reach.files);
            let mut draws = Draws(capacity);
            let Some(mut walk) = Walk::for_job_if_positions_matter(&job, capacity) else { return Ok(()) };
            for direction in directions {
                match walk.next_io_of_pass(direction, &mut draws) {
                    Some(next) => prop_assert!(next.bytes > 0 && next.offset + next.bytes <= reach),
                    None if walk.start_over_unless_finished_or_stuck() => {}
                    None => break,
                }
            }
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]a-z0-9=,;#%$ \n\r\t\"-]{0,200}") {
            let _ = list_job_paths(&text, "t.fio");
        }

        #[test]
        fn no_value_makes_it_panic(
            key in proptest::sample::select(vec!["offset", "zonesize", "zoneskip", "random_distribution", "percentage_random", "blockalign",
                "thinktime_iotime", "rate_min", "nice", "buffer_pattern", "bssplit", "bsrange", "bs", "rate", "size", "filesize", "io_size", "loops", "kb_base", "runtime", "iodepth", "rw", "thinktime", "direct", "filename", "filename_format", "directory"]),
            value in "\\PC{0,30}",
        ) {
            let _ = list_job_paths(&format!("[j]\n{key}={value}\nsize=1m\n"), "t.fio");
        }
    }
}

#[test]
fn jobs_say_when_they_begin_and_where_they_run() {
    let text = "[a]\nsize=1m\nramp_time=5\nstartdelay=1-2500ms\ncpus_allowed=0-2,8:5\n\
                [b]\nsize=1m\nwait_for=a\nexitall\nexit_what=all\ncpumask=6\n";
    let [a, b] = &parse(text, "t.fio").unwrap().jobs[..] else {
        panic!()
    };
    assert_eq!(a.ramp_time, Some(Nanoseconds::from_secs(5)));
    let (from, to) = (Nanoseconds::from_secs(1), Nanoseconds::from_millis(2500));
    assert_eq!(a.startdelay, (from, to));
    assert_eq!(a.cpus_allowed, Some(vec![0, 1, 2, 5, 8]));
    assert_eq!(b.cpus_allowed, Some(vec![1, 2]));
    assert_eq!((b.exitall, b.exit_what), (true, ExitWhat::All));
    assert_eq!(b.wait_for.as_deref(), Some("a"));
    for (lines, says) in [
        ("startdelay=3-1\n", "ends before it begins"),
        ("startdelay=x\n", "startdelay"),
        ("ramp_time=\n", "ramp_time:"),
        ("cpus_allowed=3-1\n", "ends before it begins"),
        ("cpus_allowed=all\n", "0-3,5"),
        ("cpus_allowed=0-4000000000\n", "0-3,5"),
        ("cpumask=0\n", "out of range"),
        (
            "cpus_allowed_policy=mine\n",
            "expected one of shared, split",
        ),
        ("exit_what=al\n", "expected one of group, stonewall, all"),
        ("wait_for=k\n", "no job above"),
    ] {
        let error = parse(&format!("[j]\nsize=1m\n{lines}"), "t.fio").unwrap_err();
        assert!(error.to_string().contains(says), "{lines}: {error}");
    }
}

#[test]
fn files_are_included_where_they_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(folder.path().join(name), text).unwrap();
    write(
        "main.fio",
        "[global]\ndirect=1\ninclude common.inc\n[a]\n[b]\ninclude sub.inc\n",
    );
    write("common.inc", "bs=16k\nsize=1m\n");
    write("sub.inc", "rw=randread\n[c]\nrw=write\n");
    let file = load(folder.path().join("main.fio")).unwrap();
    let jobs: Vec<_> = file.jobs.iter().map(|j| (j.name.as_str(), j.rw)).collect();
    let expected = [
        ("a", ReadWrite::Read),
        ("b", ReadWrite::RandRead),
        ("c", ReadWrite::Write),
    ];
    assert_eq!(jobs, expected);
    assert!(file.jobs.iter().all(|job| job.block_size.read == 16 << 10));

    write("sub.inc", "\nrandrepeat=0\n");
    let warnings = load(folder.path().join("main.fio")).unwrap().warnings;
    assert_eq!((warnings.len(), warnings[0].line), (1, 2));
    assert!(
        warnings[0].message.contains("in the included file"),
        "{warnings:?}"
    );
    assert!(warnings[0].message.contains("sub.inc"), "{warnings:?}");

    write("sub.inc", "iodept=4\n");
    let error = load(folder.path().join("main.fio")).unwrap_err();
    assert!(
        error.to_string().contains("sub.inc:1: unknown option"),
        "{error}"
    );
    write("sub.inc", "include sub.inc\n");
    let error = load(folder.path().join("main.fio")).unwrap_err();
    assert!(error.to_string().contains("more than 16 files"), "{error}");
    write("main.fio", "[a]\ninclude none.inc\n");
    let error = load(folder.path().join("main.fio")).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("main.fio:2: include: none.inc: cannot open"),
        "{error}"
    );
}

#[test]
fn variables_come_from_the_environment() {
    let path = std::env::var("PATH").unwrap();
    let file = parse(
        "[a]\ndirect=1\nsize=1m\ndescription=at ${PATH}!\nfilename=${NO_SUCH_VARIABLE}\n",
        "t.fio",
    );
    let job = &file.unwrap().jobs[0];
    assert_eq!(job.description, Some(format!("at {path}!")));
    let error = parse("[a]\nsize=${NO_SUCH_VARIABLE}\n", "t.fio").unwrap_err();
    assert!(
        error.to_string().contains("not set in the environment"),
        "{error}"
    );
    assert!(error.to_string().contains("--set NAME=VALUE"), "{error}");
}
