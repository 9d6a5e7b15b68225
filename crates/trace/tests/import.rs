//! Real traces, and real tools to compare with.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

mod made;

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use made::{PerfData, TraceDat};
use wakepath_trace::import::{ImportOptions, Imported, import_bytes, import_file};
use wakepath_trace::recording::{
    DataQuality, Event, EventKind, Metadata, Overwrite, QueueStep, Reader, RecordingError,
    TaskStep, TimerKind, Writer,
};
use wakepath_units::TickRate;

fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

/// The Arm board's trace, unpacked into `folder`.
fn arm(folder: &Path) -> PathBuf {
    let packed = fs::read(data("arm-sched-load.trace.dat.zst")).unwrap();
    let path = folder.join("trace.dat");
    fs::write(&path, zstd::stream::decode_all(&packed[..]).unwrap()).unwrap();
    path
}

struct Done {
    imported: Imported,
    events: Vec<Event>,
    metadata: Metadata,
}

impl Done {
    fn count(&self, name: &str) -> u64 {
        let found = self.imported.counts.iter().find(|(n, _)| n == name);
        found.map_or(0, |(_, count)| *count)
    }

    fn total(&self) -> u64 {
        self.imported.counts.iter().map(|(_, count)| count).sum()
    }

    fn warnings(&self) -> Vec<&str> {
        self.metadata
            .warnings
            .iter()
            .map(|w| w.name.as_str())
            .collect()
    }
}

fn import_with(
    what: impl FnOnce(&mut Writer) -> Result<Imported, wakepath_trace::import::ImportError>,
) -> Result<Done, String> {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.parquet");
    let mut writer = Writer::create(&out, Overwrite::No, Metadata::default()).unwrap();
    let imported = what(&mut writer).map_err(|error| error.to_string())?;
    writer.finish_and_count_events().unwrap();
    let mut reader = Reader::open(&out).unwrap();
    let mut events = Vec::new();
    reader
        .for_each_event(|event| {
            events.push(event);
            Ok::<_, RecordingError>(())
        })
        .unwrap();
    Ok(Done {
        imported,
        events,
        metadata: reader.metadata().clone(),
    })
}

fn import(path: &Path) -> Result<Done, String> {
    import_with(|writer| import_file(path, writer, ImportOptions::default(), &mut |_| ()))
}

fn import_memory(bytes: &[u8]) -> Result<Done, String> {
    import_with(|writer| import_bytes(bytes, Path::new("memory"), writer, ImportOptions::default()))
}

/// Whether a tool is there; a test that needs it says that it was skipped, or fails where everything
/// is required.
fn has(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok()
        || Command::new(tool).arg("-h").output().is_ok();
    if !found {
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none_or(|v| v != "1"),
            "{tool} is not installed"
        );
        println!("skipped: {tool} is not installed");
    }
    found
}

fn output(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Events by name in the text of a tool, counted without the importer.
fn count_lines(text: &str, name: &str) -> u64 {
    let with_colon = format!(" {name}:");
    let with_system = format!(":{name}:");
    text.lines()
        .filter(|line| line.contains(&with_colon) || line.contains(&with_system))
        .count() as u64
}

#[test]
fn the_arm_trace_has_its_events() {
    let folder = tempfile::tempdir().unwrap();
    let done = import(&arm(folder.path())).unwrap();
    assert_eq!(done.imported.source, "trace.dat version 6");
    // As `trace-cmd report` counts them (version 3.1.6).
    for (name, count) in [
        ("sched_load_cfs_rq", 2437),
        ("cpu_idle", 474),
        ("sched_switch", 399),
        ("sched_load_se", 364),
        ("sched_migrate_task", 28),
        ("cpu_frequency", 16),
        ("print", 6),
    ] {
        assert_eq!(done.count(name), count, "{name}");
    }
    assert_eq!(done.total(), 3724);
    assert_eq!(done.metadata.cpus, 6);
    assert_eq!(done.metadata.recorded.idle_loop, DataQuality::Exact);
    assert_eq!(done.metadata.recorded.sleep_length, DataQuality::Missing);
    // Without timers it is said that a replay is approximate.
    assert_eq!(done.warnings(), ["no-timers"]);
    let frequencies = done
        .events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::Frequency(_)));
    assert_eq!(frequencies.count(), 16);
}

#[test]
fn every_form_of_a_trace_makes_the_same_recording() {
    if !has("trace-cmd") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = arm(folder.path());
    let original = import(&path).unwrap();
    let text = output("trace-cmd", &["report", "-t", path.to_str().unwrap()]);
    for (name, count) in &original.imported.counts {
        assert_eq!(count_lines(&text, name), *count, "{name}");
    }
    let report = import_memory(text.as_bytes()).unwrap();
    assert_eq!(report.imported.counts, original.imported.counts);
    assert_eq!(report.events, original.events);
    for (version, compression) in [("6", "none"), ("7", "none"), ("7", "zstd")] {
        let other = folder.path().join(format!("{version}.{compression}"));
        let status = Command::new("trace-cmd")
            .args(["convert", "-i", path.to_str().unwrap(), "-o"])
            .arg(&other)
            .args(["--file-version", version, "--compression", compression])
            .output()
            .unwrap();
        assert!(status.status.success(), "{status:?}");
        let done = import(&other).unwrap();
        assert_eq!(done.imported.counts, original.imported.counts);
        assert_eq!(done.events, original.events, "{version} {compression}");
        assert!(
            done.imported
                .source
                .starts_with(&format!("trace.dat version {version}")),
            "{}",
            done.imported.source
        );
    }
}

#[test]
fn the_text_of_perf_script_has_its_events() {
    for (mhz, lines) in [(1500, 1906), (2500, 1636)] {
        let path = data(&format!("epyc7502-idle-wake-{mhz}MHz.perf-script.txt"));
        let done = import(&path).unwrap();
        assert_eq!(done.count("cpu_idle"), lines);
        // An entry and an exit are a period.
        assert_eq!(done.events.len() as u64, lines / 2);
        assert!(done.events.iter().all(|event| event.cpu == 9));
    }
}

/// As PowerShell and Windows' editors save what was pasted.
#[test]
fn text_of_events_is_read_in_every_encoding() {
    let path = data("epyc7502-idle-wake-1500MHz.perf-script.txt");
    let text = std::fs::read_to_string(path).unwrap();
    let wide = |mark: u16, bytes: fn(u16) -> [u8; 2]| {
        let units = std::iter::once(mark).chain(text.encode_utf16());
        units.flat_map(bytes).collect::<Vec<u8>>()
    };
    let plain = import_memory(text.as_bytes()).unwrap();
    for bytes in [
        wide(0xfeff, u16::to_le_bytes),
        wide(0xfeff, u16::to_be_bytes),
        wide(0xfeff, u16::to_le_bytes)[2..].to_vec(),
        format!("\u{feff}{text}").into_bytes(),
    ] {
        let done = import_memory(&bytes).unwrap();
        assert_eq!(done.events, plain.events);
        assert_eq!(done.warnings(), plain.warnings());
    }
}

#[test]
fn a_trace_is_of_one_machine_and_of_any_locale() {
    let line = |host: &str, us: u32, state: u32| {
        format!("{host}  <idle>-0 [002] 7,{us:06}: cpu_idle: state={state} cpu_id=2\n")
    };
    let lines = |host: &str| line(host, 21_443, 1) + &line(host, 22_443, u32::MAX);
    let plain = import_memory(lines("").replace("7,", "7.").as_bytes()).unwrap();
    assert_eq!(plain.events.len(), 1);
    for text in [
        lines(""),
        lines("node7: "),
        "node7:\n".to_owned() + &lines("    "),
    ] {
        assert_eq!(import_memory(text.as_bytes()).unwrap().events, plain.events);
    }
    let both = lines("node7: ") + &lines("node8: ");
    let error = import_memory(both.as_bytes()).err().unwrap().clone();
    assert!(error.contains("machines (`node7` and `node8`)"), "{error}");
}

/// perf on this machine, which need not have been idle.
#[test]
fn perf_data_has_the_events_of_perf_script() {
    if !has("perf") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("perf.data");
    let mut perf = Command::new("perf");
    perf.args(["record", "-a", "-q", "-o"]).arg(&path);
    for event in [
        "power:cpu_idle",
        "sched:sched_switch",
        "sched:sched_waking",
        "timer:*",
    ] {
        perf.args(["-e", event]);
    }
    let recorded = perf.args(["--", "sleep", "0.3"]).output().unwrap();
    if !recorded.status.success() {
        println!("skipped: perf record is not allowed here");
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none_or(|v| v != "1"),
            "{recorded:?}"
        );
        return;
    }
    let text = output("perf", &["script", "--ns", "-i", path.to_str().unwrap()]);
    let from_text = import_memory(text.as_bytes());
    match import(&path) {
        Ok(done) => {
            assert!(done.imported.source.starts_with("perf.data"));
            for (name, count) in &done.imported.counts {
                assert_eq!(count_lines(&text, name), *count, "{name}");
            }
            assert_eq!(done.imported.counts, from_text.unwrap().imported.counts);
            assert!(done.count("sched_switch") > 0);
        }
        // A machine that is busy with other tests may not have been idle at all; both say how many
        // events there were.
        Err(error) => {
            let count = |error: &str| error.split('(').nth(1).map(ToOwned::to_owned);
            assert!(error.contains("no idle events"), "{error}");
            let other = from_text.map(|_| ()).unwrap_err();
            assert_eq!(count(&error), count(&other));
        }
    }
}

#[test]
fn either_byte_order_is_read() {
    let mut found = Vec::new();
    for big_endian in [false, true] {
        let mut trace = TraceDat::new(big_endian);
        trace.idle(100, 2);
        trace.idle(1 << 30, u32::MAX);
        let mut perf = PerfData::new(big_endian);
        perf.idle(1_000_100, 2);
        perf.idle(1_000_100 + (1 << 30), u32::MAX);
        for (file, name) in [(trace.file(), "trace.dat"), (perf.file(), "perf.data")] {
            let done = import_memory(&file).unwrap();
            let source = &done.imported.source;
            assert!(source.starts_with(name), "{source}");
            assert_eq!(source.contains("big-endian"), big_endian, "{source}");
            assert_eq!((done.total(), done.count("cpu_idle")), (2, 2));
            found.push(done.events);
        }
    }
    let event = found[0][0];
    assert_eq!((event.time.0, event.cpu), (1_000_100 + (1 << 30), 3));
    let EventKind::Idle(period) = event.kind else {
        panic!("no idle period");
    };
    assert_eq!((period.state, period.duration.0), (2, 1 << 30));
    assert!(found.iter().all(|events| *events == found[0]));
}

#[test]
fn lost_events_are_counted() {
    let mut trace = TraceDat::new(false);
    trace.idle(100, 2);
    trace.idle(50, u32::MAX);
    trace.commit_flags = 1 << 31 | 1 << 30;
    let mut perf = PerfData::new(false);
    perf.lost(1_000_000, 17);
    perf.idle(1_000_100, 2);
    perf.idle(1_000_150, u32::MAX);
    for file in [trace.file(), perf.file()] {
        let done = import_memory(&file).unwrap();
        assert_eq!(done.metadata.lost_events, 17);
        assert_eq!(done.warnings(), ["lost-events", "no-timers"]);
        assert_eq!(done.events[0].kind, EventKind::Lost { count: 17 });
    }
    // A damaged file may claim any number.
    let mut perf = PerfData::new(false);
    perf.lost(1_000_000, u64::MAX);
    perf.lost(1_000_000, 1);
    perf.idle(1_000_100, 2);
    perf.idle(1_000_150, u32::MAX);
    let done = import_memory(&perf.file()).unwrap();
    assert_eq!(done.metadata.lost_events, u64::MAX);
}

#[test]
fn clocks_of_binary_traces_that_jump_are_named() {
    let mut trace = TraceDat::new(false);
    trace.idle(2_000, 2);
    trace.idle(1_000, u32::MAX);
    trace.idle(1_000, 1);
    trace.clock(500);
    trace.idle(0, u32::MAX);
    trace.idle(1_000, 1);
    trace.idle(2_000_000_000_000, u32::MAX);
    let done = import_memory(&trace.file()).unwrap();
    assert_eq!(done.warnings(), ["clock-jump", "clock-gap", "no-timers"]);
    // The library that reads a perf.data puts its events in order.
    let mut perf = PerfData::new(false);
    perf.idle(4_000, 1);
    perf.idle(2_000_000_000_000, u32::MAX);
    let done = import_memory(&perf.file()).unwrap();
    assert_eq!(done.warnings(), ["clock-gap", "no-timers"]);
}

#[test]
fn clock_jumps_and_hotplug_are_named() {
    let text = "\
 <idle>-0  [001] 10.000000100: cpu_idle: state=1 cpu_id=1
 <idle>-0  [001] 10.000000900: cpu_idle: state=4294967295 cpu_id=1
 <idle>-0  [001] 11.000000000: cpu_idle: state=1 cpu_id=1
 <idle>-0  [001] 9.500000000: cpu_idle: state=4294967295 cpu_id=1
CPU:1 [LOST 5 EVENTS]
 a-1       [001] 9.600000000: cpuhp_enter: cpu: 0002 target:  86 step: 191 (f)
 a-1       [001] 9.600000010: cpuhp_enter: cpu: 0002 target:   0 step: 85 (f)
 <idle>-0  [001] 9.700000000: cpu_idle: state=1 cpu_id=1
 <idle>-0  [001] 99999.700000100: cpu_idle: state=4294967295 cpu_id=1
";
    let done = import_memory(text.as_bytes()).unwrap();
    assert_eq!(
        done.warnings(),
        [
            "clock-jump",
            "lost-events",
            "hotplug",
            "clock-gap",
            "no-timers"
        ]
    );
    assert_eq!(done.metadata.lost_events, 5);
    let periods = done
        .events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::Idle(_)));
    assert_eq!(periods.count(), 2);
    let hotplug: Vec<_> = done
        .events
        .iter()
        .filter(|e| matches!(e.kind, EventKind::Hotplug { .. }))
        .collect();
    assert_eq!(hotplug.len(), 1);
    assert_eq!(
        (hotplug[0].cpu, hotplug[0].kind),
        (2, EventKind::Hotplug { online: false })
    );
}

/// A read that waits for a tag, is completed by an interrupt elsewhere, and wakes its task on an idle CPU.
const READ: &str = "\
 bash-7   [000] d..2. 1.000000000: sched_switch: prev_comm=bash prev_pid=7 prev_prio=120 prev_state=S ==> next_comm=fio next_pid=812 next_prio=120
 fio-812  [000] ..... 1.000001000: block_bio_queue: 259,0 R 1234 + 8 [fio]
 fio-812  [000] ..... 1.000004000: block_getrq: 259,0 R 1234 + 8 [fio]
 fio-812  [000] ..... 1.000005000: block_rq_issue: 259,0 R 4096 () 1234 + 8 be,0,4 [fio]
 fio-812  [000] d..2. 1.000006000: sched_switch: prev_comm=fio prev_pid=812 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
 <idle>-0 [000] d..1. 1.000007000: cpu_idle: state=1 cpu_id=0
 <idle>-0 [001] d.h.. 1.000090000: irq_handler_entry: irq=36 name=nvme0q1
 <idle>-0 [001] ..s.. 1.000091000: softirq_entry: vec=4 [action=BLOCK]
 <idle>-0 [001] ..s.. 1.000092000: softirq_entry: vec=9 [action=RCU]
 <idle>-0 [001] ..s.. 1.000093000: block_rq_complete: 259,0 R () 1234 + 8 be,0,4 [0]
 <idle>-0 [001] d.s3. 1.000094000: sched_waking: comm=fio pid=812 prio=120 target_cpu=000
 <idle>-0 [001] d.s3. 1.000094500: ipi_send_cpu: cpu=0 callsite=x+0x1 callback=0x0
 <idle>-0 [000] d..1. 1.000099000: cpu_idle: state=4294967295 cpu_id=0
 <idle>-0 [000] d.h.. 1.000100000: sched_wakeup: comm=fio pid=812 prio=120 target_cpu=000
 <idle>-0 [001] d.s3. 1.000100500: sched_waking: comm=rcu pid=15 prio=120 target_cpu=000
 <idle>-0 [000] d..2. 1.000103000: sched_switch: prev_comm=swapper/0 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=fio next_pid=812 next_prio=120
";

#[test]
fn the_way_of_a_request_is_read_from_text() {
    let done = import_memory(READ.as_bytes()).unwrap();
    let recorded = done.metadata.recorded;
    let way = [
        recorded.queueing,
        recorded.interrupts,
        recorded.ipis,
        recorded.tasks,
    ];
    assert_eq!(way, [DataQuality::Exact; 4]);
    assert_eq!(done.metadata.interrupts[&36], "nvme0q1");
    assert_eq!(done.metadata.tasks[&812], "fio");
    let steps: Vec<(u64, TaskStep)> = done
        .events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Task { task, step } => {
                assert_eq!(task, 812, "other tasks are left out");
                Some((event.time.0 % 1_000_000, step))
            }
            _ => None,
        })
        .collect();
    let woken = TaskStep::Woken { target: 0 };
    assert_eq!(
        steps,
        [
            (94_000, TaskStep::Waking),
            (100_000, woken),
            (103_000, TaskStep::Running)
        ]
    );
    let submitter = done.events.iter().find_map(|event| match event.kind {
        EventKind::Queueing(QueueStep::Queued { task, .. }) => Some(task),
        _ => None,
    });
    assert_eq!(submitter, Some(Some(812)));
}

#[test]
fn timers_give_sleep_lengths() {
    let text = "\
 a-1 [000] d..1. 1.000000000: hrtimer_expire_entry: hrtimer=00aa function=tick_sched_timer now=1000000000
 a-1 [000] d..1. 1.000001000: hrtimer_start: hrtimer=00bb function=hrtimer_wakeup expires=1002000000 softexpires=1 mode=ABS
 a-1 [000] d..1. 1.000002000: sched_switch: prev_comm=a prev_pid=1 prev_prio=120 prev_state=D ==> next_comm=swapper/0 next_pid=0 next_prio=120
 <idle>-0 [000] d..1. 1.000010000: cpu_idle: state=1 cpu_id=0
 <idle>-0 [000] d..1. 1.000500000: cpu_idle: state=4294967295 cpu_id=0
 <idle>-0 [000] d..1. 1.000501000: sched_waking: comm=a pid=1 prio=120 target_cpu=000
";
    let done = import_memory(text.as_bytes()).unwrap();
    // A single tick does not show how often it comes.
    assert_eq!(done.warnings(), ["no-hz"]);
    assert_eq!(done.metadata.recorded.sleep_length, DataQuality::Inferred);
    let Some(EventKind::Idle(period)) = done
        .events
        .iter()
        .map(|e| e.kind)
        .find(|k| matches!(k, EventKind::Idle(_)))
    else {
        panic!("no idle period");
    };
    assert_eq!(period.inputs.sleep_length, Some(1_990_000));
    assert!(period.inputs.inferred);
    assert_eq!(period.inputs.iowaiters, Some(1));
    let wake = EventKind::Wake {
        target: 0,
        iowait: Some(true),
    };
    assert_eq!(done.events.last().unwrap().kind, wake);
}

/// A CPU with a tick every 4 ms, which is stopped once. `{tick}` is its handler, `{wake}` another function.
fn ticking(tick: &str, wake: &str) -> String {
    const MS: u64 = 1_000_000;
    let mut text = String::new();
    let mut line = |ns: u64, event: &str| {
        let (seconds, rest) = (ns / 1_000_000_000, ns % 1_000_000_000);
        writeln!(text, " a-1 [000] d..1. {seconds}.{rest:09}: {event}").unwrap();
    };
    for i in 0..12 {
        let due = 1_000 * MS + i * 4 * MS;
        let (next, wakes_up) = (due + 4 * MS, due + 3 * MS);
        let now = due + 500;
        line(
            now,
            &format!("hrtimer_expire_entry: hrtimer=00aa function={tick} now={now}"),
        );
        line(
            due + 900,
            &format!("hrtimer_start: hrtimer=00aa function={tick} expires={next}"),
        );
        line(
            due + 950,
            &format!("hrtimer_start: hrtimer=00bb function={wake} expires={wakes_up}"),
        );
        line(
            due + 1_000,
            "sched_switch: prev_pid=1 prev_state=S ==> next_pid=0",
        );
        if i == 8 {
            line(due + 1_100, "tick_stop: success=1 dependency=NONE");
            line(due + 1_200, "hrtimer_cancel: hrtimer=00aa");
            line(
                due + 1_300,
                &format!("hrtimer_start: hrtimer=00aa function={tick} expires={next}"),
            );
        }
        line(due + 2_000, "cpu_idle: state=1 cpu_id=0");
        line(wakes_up, "cpu_idle: state=4294967295 cpu_id=0");
        let now = wakes_up + 500;
        line(
            now,
            &format!("hrtimer_expire_entry: hrtimer=00bb function={wake} now={now}"),
        );
        line(
            wakes_up + 600,
            "sched_switch: prev_pid=0 prev_state=R ==> next_pid=1",
        );
    }
    text
}

fn ticks(done: &Done) -> usize {
    let tick = EventKind::Timer(TimerKind::Tick);
    done.events
        .iter()
        .filter(|event| event.kind == tick)
        .count()
}

#[test]
fn the_tick_is_found_without_its_name() {
    let named = import_memory(ticking("tick_nohz_handler", "hrtimer_wakeup").as_bytes()).unwrap();
    assert_eq!((ticks(&named), named.warnings()), (12, vec![]));
    let text = ticking("0xffffffffa87cac00", "0xffffffffa8700000");
    let found = import_memory(text.as_bytes()).unwrap();
    assert_eq!(found.warnings(), Vec::<&str>::new());
    assert_eq!(found.events, named.events);
    // It is never stopped: nobody knows.
    let busy: String = text
        .lines()
        .filter(|line| !line.contains("tick_stop"))
        .flat_map(|line| [line, "\n"])
        .collect();
    let unknown = import_memory(busy.as_bytes()).unwrap();
    assert_eq!(
        (ticks(&unknown), unknown.warnings()),
        (0, vec!["unknown-tick", "no-hz"])
    );
}

#[test]
fn a_tick_that_is_seen_late_is_said_to_be() {
    let filler = " a-1 [000] d..1. 0.900000000: print: x\n".repeat(1 << 16);
    let text = filler + &ticking("0xffffffffa87cac00", "0xffffffffa8700000");
    let done = import_memory(text.as_bytes()).unwrap();
    assert_eq!(done.warnings(), ["unknown-tick", "no-hz"]);
    let since = |warning: usize, ns: &str| {
        let text = &done.metadata.warnings[warning].text;
        assert!(text.contains(ns), "{text}");
    };
    // The ninth of twelve is the one that is stopped.
    since(0, "only from 1032001300 ns on");
    since(1, "before 1044000900 ns, where its tick shows 250 Hz");
    assert_eq!((ticks(&done), done.metadata.hz), (3, Some(250)));
}

/// A perf.data has no symbols.
#[test]
fn the_tick_of_a_perf_data_is_found() {
    let seed = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds/perf_data/x86.data");
    let done = import(&seed).unwrap();
    assert_eq!(done.warnings(), Vec::<&str>::new());
    assert_eq!(ticks(&done), 11);
}

#[test]
fn the_tick_rate_is_what_the_trace_shows() {
    let text = ticking("tick_sched_timer", "hrtimer_wakeup");
    let with = |hz: Option<u32>| {
        let hz = hz.map(|hz| TickRate::new(hz).unwrap());
        import_with(|writer| {
            import_bytes(
                text.as_bytes(),
                Path::new("memory"),
                writer,
                ImportOptions {
                    hz,
                    ..ImportOptions::default()
                },
            )
        })
        .unwrap()
    };
    let found = with(None);
    assert_eq!((found.metadata.hz, found.warnings()), (Some(250), vec![]));
    let same = with(Some(250));
    assert_eq!((same.metadata.hz, same.warnings()), (Some(250), vec![]));
    let other = with(Some(1000));
    assert_eq!(
        (other.metadata.hz, other.warnings()),
        (Some(1000), vec!["other-hz"])
    );
}

/// The first sleep length of a trace in which a timer is put on the wheel 1 ms after a tick.
fn sleep_length_with(timer_start: &str) -> i64 {
    let text = ticking("tick_sched_timer", "hrtimer_wakeup");
    let start =
        format!(" a-1 [000] d..1. 1.009000000: timer_start: timer=00cc function=x {timer_start}\n");
    let text: String = text
        .lines()
        .filter(|line| !line.contains("hrtimer_wakeup"))
        .flat_map(|line| {
            let here = line
                .contains(" 1.011000000: cpu_idle")
                .then_some(start.as_str());
            [here.unwrap_or(""), line, "\n"]
        })
        .collect();
    let done = import_memory(text.as_bytes()).unwrap();
    let mut lengths = done.events.iter().filter_map(|event| match event.kind {
        EventKind::Idle(period) => period.inputs.sleep_length,
        _ => None,
    });
    // The period that began at 1.012002 s.
    lengths.nth(3).unwrap()
}

#[test]
fn timers_of_the_wheel_come_when_the_wheel_looks_at_them() {
    let entry = 1_012_002_000;
    // Of the ticks at 1.008 s and 1.012 s; it is due after 2 and looked at after 3.
    let third = 1_020_000_000 - entry;
    for details in [
        "expires=1002 [timeout=2] bucket_expiry=1003 cpu=0 idx=0 flags=D|P|I",
        "expires=1002 [timeout=2] cpu=0 idx=0 flags=D|P|I",
    ] {
        assert_eq!(sleep_length_with(details), third, "{details}");
    }
    // 100 ticks on, the wheel looks every 8 ticks.
    let details = "expires=1100 [timeout=100] cpu=0 idx=0 flags=";
    assert_eq!(
        sleep_length_with(details),
        1_008_000_000 + 104 * 4_000_000 - entry
    );
}

/// Several files become one recording: nothing that is wrong with one of them is forgotten.
#[test]
fn what_is_said_of_several_files_adds_up() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let ticking = ticking("tick_sched_timer", "hrtimer_wakeup");
    let lossy = format!("CPU:0 [LOST 17 EVENTS]\n{ticking}");
    let idle = " a-1 [002] 9.000000001: cpu_idle: state=1 cpu_id=2\n a-1 [002] 9.1: cpu_idle: state=4294967295 cpu_id=2\n a-1 [002] 9.2: other: x\n";
    fs::write(path("lossy.txt"), &lossy).unwrap();
    fs::write(path("idle.txt"), format!("CPU:2 [LOST 3 EVENTS]\n{idle}")).unwrap();
    let import_files = |names: &[&str]| {
        import_with(|writer| {
            let mut last = None;
            for name in names {
                last = Some(import_file(
                    &path(name),
                    writer,
                    ImportOptions::default(),
                    &mut |_| (),
                )?);
            }
            Ok(last.unwrap())
        })
        .unwrap()
    };
    let mut writer =
        Writer::create(&path("idle.parquet"), Overwrite::No, Metadata::default()).unwrap();
    import_file(
        &path("idle.txt"),
        &mut writer,
        ImportOptions::default(),
        &mut |_| (),
    )
    .unwrap();
    writer.finish_and_count_events().unwrap();
    let alone = import_files(&["lossy.txt"]).metadata;
    assert_eq!(alone.recorded.sleep_length, DataQuality::Inferred);
    for names in [
        ["lossy.txt", "idle.parquet"],
        ["idle.parquet", "lossy.txt"],
        ["lossy.txt", "idle.txt"],
        ["idle.txt", "lossy.txt"],
    ] {
        let done = import_files(&names);
        let metadata = &done.metadata;
        assert_eq!(
            (metadata.lost_events, metadata.other_events),
            (20, 1),
            "{names:?}"
        );
        let lost = metadata.warnings.iter().find(|w| w.name == "lost-events");
        assert_eq!(lost.map(|w| w.count), Some(2), "{names:?}");
        assert!(done.warnings().contains(&"no-timers"), "{names:?}");
        assert_eq!((metadata.cpus, metadata.hz), (3, Some(250)), "{names:?}");
        // The weakest of both.
        let recorded = metadata.recorded;
        assert_eq!(recorded.idle, DataQuality::Exact, "{names:?}");
        assert_eq!(recorded.sleep_length, DataQuality::Missing, "{names:?}");
        assert_eq!(recorded.iowaiters, DataQuality::Missing, "{names:?}");
    }
}

#[test]
fn what_is_no_trace_is_told_so() {
    for (bytes, message) in [
        (&b""[..], "no trace event in 0 lines"),
        (b"time,cpu\n1,2\n", "no trace event in 2 lines"),
        (
            b" <idle>-0 [002] 2084021443221: cpu_idle: state=1 cpu_id=2\n",
            "record with -C mono, or report with --ts2secs HZ",
        ),
        (
            b"  <idle>-0       3d..2    23us!: cpu_idle: state=1 cpu_id=3\n",
            "write nolatency-format to tracefs's trace_options",
        ),
        (
            b"\x28\xb5\x2f\xfd packed",
            "compressed; unpack it first (zstd -d)",
        ),
        (b" a-1 [000] 1.5: sched_switch: x\n", "no idle events"),
        (b"PERFILE2", "cut off"),
        (b"\x17\x08\x44tracing5\0", "cut off"),
        (b"\x17\x08\x44tracing5\0\0\x08\0\x10\0\0", "version '5'"),
        (
            b" a-1 [000] 1.5: cpu_idle: state=99 cpu_id=0\n",
            "idle state 99",
        ),
    ] {
        let error = import_memory(bytes).map(|_| ()).unwrap_err();
        assert!(
            error.starts_with("memory: ") && error.contains(message),
            "{error}"
        );
    }
}

#[test]
fn a_trace_in_colours_is_the_same_trace() {
    let plain = " a-0 [000] 1.000000500: cpu_idle: state=1 cpu_id=0\n\
                 a-0 [000] 1.000100500: cpu_idle: state=4294967295 cpu_id=0\n\
                 a-0 [000] 1.000200500: cpu_idle: state=1 cpu_id=0\n\
                 a-0 [000] 1.000300500: cpu_idle: state=4294967295 cpu_id=0\n";
    let coloured = plain
        .replace("cpu_idle", "\u{1b}[1;32mcpu_idle\u{1b}[0m")
        .replace(" [000]", "\u{1b}[K [000]");
    let read = |text: &str| format!("{:?}", import_memory(text.as_bytes()).unwrap().events);
    assert_eq!(read(&coloured), read(plain));
    assert!(read(plain).contains("state"), "{}", read(plain));
}

/// Cut off at many places, and wrong at many others.
#[test]
fn damaged_traces_are_errors() {
    let mut trace = TraceDat::new(false);
    trace.idle(100, 2);
    trace.idle(50, u32::MAX);
    let mut perf = PerfData::new(false);
    perf.idle(100, 2);
    perf.idle(150, u32::MAX);
    for whole in [trace.file(), perf.file()] {
        let mut errors = 0;
        for cut in (0..whole.len()).step_by(61) {
            if import_memory(&whole[..cut]).is_err() {
                errors += 1;
            }
        }
        assert!(
            errors * 61 >= whole.len() - 61,
            "a cut-off file was taken for whole"
        );
        for at in (0..whole.len()).step_by(23) {
            let mut damaged = whole.clone();
            damaged[at] ^= 0xff;
            let _ = import_memory(&damaged);
        }
    }
}

/// A description of the events says how many they are, how long each is and how many numbers it has.
#[test]
fn a_perf_data_that_announces_too_much_is_an_error() {
    let mut perf = PerfData::new(false);
    perf.idle(100, 2);
    let whole = perf.file();
    let long = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap());
    let table = (long(40) + long(48)) as usize;
    let described = |events: u32, attributes: u32, numbers: u32| {
        let mut file = whole.clone();
        // HEADER_EVENT_DESC, after the one feature that is there.
        file[73] |= 1 << 4;
        let words = [events, attributes, numbers, 0];
        let offset = (whole.len() + 16) as u64;
        let entry = [offset, 4 * words.len() as u64].map(u64::to_le_bytes);
        file.splice(table + 16..table + 16, entry.concat());
        file[table..table + 8].copy_from_slice(&(long(table) + 16).to_le_bytes());
        file.extend(words.map(u32::to_le_bytes).concat());
        import_memory(&file).map(|_| ()).unwrap_err()
    };
    for (events, attributes, numbers) in [(u32::MAX, 0, 0), (1, u32::MAX, 0), (1, 0, u32::MAX)] {
        let error = described(events, attributes, numbers);
        assert!(error.contains("says more than it holds"), "{error}");
    }
    let error = described(0, 0, 0);
    assert!(!error.contains("says more than it holds"), "{error}");

    // Attributes of no size, and a feature that is the whole file once more.
    let with = |at: usize, value: u64| {
        let mut file = whole.clone();
        file[at..at + 8].copy_from_slice(&value.to_le_bytes());
        import_memory(&file).map(|_| ()).unwrap_err()
    };
    let error = with(16, 0);
    assert!(error.contains("too short"), "{error}");
    let error = with(table + 8, whole.len() as u64);
    assert!(error.contains("beyond the end"), "{error}");
    // A record that the reader would fail at has nothing to do with events.
    let mut odd = PerfData::new(false);
    odd.idle(100, 2);
    odd.mapped_with_a_long_build_id();
    import_memory(&odd.file()).unwrap();
}

/// Of the kind that repeats itself.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 16) as usize % bound.max(1)
    }

    /// Changes a few bytes, copies or removes a part, or cuts the end off.
    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..=self.below(4) {
            let at = self.below(bytes.len());
            let size = self.below(64).min(bytes.len() - at);
            match self.below(6) {
                0 => bytes[at] ^= 1 << self.below(8),
                1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][self.below(5)],
                2 => bytes[at..at + size].fill([0, 0xff][self.below(2)]),
                3 => bytes.copy_within(at..at + size, self.below(at + 1)),
                4 => drop(bytes.drain(at..at + size)),
                _ if self.below(8) == 0 => bytes.truncate(at + 1),
                _ => bytes[at] = self.below(256) as u8,
            }
        }
    }
}

/// Real files with damage at random: whatever comes of them, it is a recording or an error.
#[test]
fn damaged_real_files_are_recordings_or_errors() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds");
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    for kind in ["trace_dat", "perf_data", "trace_text", "recording"] {
        let (mut whole, mut errors) = (0, 0);
        for entry in fs::read_dir(seeds.join(kind)).unwrap() {
            let bytes = fs::read(entry.unwrap().path()).unwrap();
            let tries = |bytes: Vec<u8>| match kind {
                "recording" => read_all(bytes).is_ok(),
                _ => import_memory(&bytes).is_ok(),
            };
            assert!(tries(bytes.clone()), "{kind}");
            for _ in 0..200 {
                let mut bytes = bytes.clone();
                random.damage(&mut bytes);
                *if tries(bytes) {
                    &mut whole
                } else {
                    &mut errors
                } += 1;
            }
        }
        println!("{kind}: {whole} recordings, {errors} errors");
        assert!(errors > 0, "{kind}");
    }
}

fn read_all(bytes: Vec<u8>) -> Result<u64, RecordingError> {
    let mut reader = Reader::new(bytes::Bytes::from(bytes), None, Path::new("memory"))?;
    let mut events = 0;
    reader.for_each_event(|_| {
        events += 1;
        Ok::<_, RecordingError>(())
    })?;
    Ok(events)
}
