//! Recordings made in virtual machines, where governors choose among several idle states (docs/background/laboratory.md): by wakepath
//! itself, by trace-cmd and by perf, and replayed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::common::recording::read;
use crate::common::rig::{Guest, Shared, guest};
use crate::common::{json, skip, wakepath};
use serde_json::Value;
use tempfile::TempDir;
use wakepath_conformance::{log, program::has_compiler, source};
use wakepath_trace::recording::{DataQuality, Event, EventKind, IdlePeriod, TimerKind};
use wakepath_units::TickRate;

static X86_6_1: Shared = Shared::new();
static X86_6_12: Shared = Shared::new();
static X86_7_3: Shared = Shared::new();
static ARM64: Shared = Shared::new();

fn x86_6_1(test: &str) -> Option<&'static Guest> {
    x86(test, &X86_6_1, "6.1")
}

fn x86_6_12(test: &str) -> Option<&'static Guest> {
    x86(test, &X86_6_12, "6.12")
}

/// Only what wakepath itself records.
fn x86_7_3(test: &str) -> Option<&'static Guest> {
    let mut arguments = vec!["x86", "--kernel", "7.3"];
    arguments.extend(["--program", env!("CARGO_BIN_EXE_wakepath")]);
    arguments.push("rig/guest/record.sh");
    guest(test, &X86_7_3, "x86-7.3", &arguments)
}

fn x86<'a>(test: &str, shared: &'a Shared, kernel: &str) -> Option<&'a Guest> {
    let mut arguments = vec!["x86", "--kernel", kernel];
    arguments.extend(["--program", env!("CARGO_BIN_EXE_wakepath")]);
    arguments.extend(["rig/guest/record.sh", "rig/guest/tools.sh"]);
    arguments.push("rig/guest/rough.sh");
    guest(test, shared, &format!("x86-{kernel}"), &arguments)
}

fn arm64(test: &str) -> Option<&'static Guest> {
    guest(test, &ARM64, "arm64", &["arm64", "rig/guest/trace.sh"])
}

#[test]
fn what_cannot_boot_is_said_before_anything_is_fetched() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("bzImage");
    std::fs::write(&text, "no kernel\n").unwrap();
    let text = text.to_str().unwrap();
    let record = "rig/guest/record.sh";
    for (arguments, says) in [
        (
            vec!["x86", "--kernel", "6.8", record],
            "one of Debian's kernels for x86 (6.1, 6.1-rt, 6.12, 7.3)",
        ),
        (
            vec!["x86", "--kernel", text, record],
            "is no kernel image for x86",
        ),
        (
            vec!["arm64", "--kernel", text, record],
            "is no kernel image for arm64",
        ),
        (
            vec!["x86", "--modules", "modules", record],
            "belongs to a kernel image of your own",
        ),
        (
            vec!["x86", "rig/guest/nothing.sh"],
            "no script rig/guest/nothing.sh",
        ),
    ] {
        let done = std::process::Command::new("python3")
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .arg("rig/rig.py")
            .args(&arguments)
            .arg("--out")
            .arg(folder.path().join("out"))
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&done.stderr);
        assert!(
            !done.status.success() && errors.contains(says),
            "{arguments:?}: {errors}"
        );
    }
}

fn periods(events: &[Event]) -> Vec<IdlePeriod> {
    events
        .iter()
        .filter_map(|event| match event.kind {
            EventKind::Idle(period) => Some(period),
            _ => None,
        })
        .collect()
}

fn number(value: &Value) -> u64 {
    value
        .as_u64()
        .unwrap_or_else(|| panic!("{value} is no number"))
}

/// `wakepath replay` of a recording, with more arguments.
fn replay(recording: &str, more: &[&str]) -> Value {
    let mut arguments = vec!["replay", recording, "--format", "json"];
    arguments.extend(more);
    json(&wakepath(&arguments).success())
}

/// The recording is whole, and agrees with what fio and the kernel themselves counted.
fn check_recording(guest: &Guest) {
    let summary = guest.json("summary.json");
    let (metadata, events) = read(&guest.path("fio.parquet"));
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["events"], events.len());
    assert!(metadata.complete);
    assert_eq!(metadata.hz, Some(250));
    assert_eq!(metadata.idle_governor.as_deref(), Some("menu"));
    assert_eq!(metadata.idle_driver.as_deref(), Some("wakepath_idle"));
    let states = &metadata.idle_states[0].states;
    let names: Vec<&str> = states.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["POLL", "C1", "C1E", "C6", "C8"]);
    assert!(metadata.devices.iter().any(|d| d.name == "nvme0n1"));
    let recorded = metadata.recorded;
    for known in [
        recorded.idle,
        recorded.sleep_length,
        recorded.tick,
        recorded.latency_request,
        recorded.idle_loop,
        recorded.block,
        recorded.wakes,
        recorded.timers,
    ] {
        assert_eq!(known, DataQuality::Exact, "{recorded:?}");
    }

    // fio's own count, and the kernel's: the recording began before fio and ended after it.
    let fio = guest.json("fio.json");
    let jobs = fio["jobs"].as_array().unwrap();
    let total = |direction: &str| -> u64 {
        jobs.iter()
            .map(|job| number(&job[direction]["total_ios"]))
            .sum()
    };
    let completed = |write: bool| {
        let of_fio = |kind: &EventKind| matches!(kind, EventKind::BlockComplete(b) if b.write == write && b.bytes == 4096);
        events.iter().filter(|event| of_fio(&event.kind)).count() as u64
    };
    assert!(total("read") > 300 && total("write") > 100);
    assert!(completed(false) >= total("read") && completed(false) < total("read") + 50);
    assert_eq!(completed(true), total("write"));
    let usage = guest.number("usage-after.txt") - guest.number("usage-before.txt");
    let periods = periods(&events);
    let entered = periods.iter().filter(|p| p.duration.0 > 0).count() as u64;
    // Before and after, the kernel counted some that were not recorded.
    assert!(
        entered <= usage && entered * 10 > usage * 2,
        "{entered} of {usage}"
    );
    let states: BTreeSet<u8> = periods.iter().map(|p| p.state).collect();
    assert!(states.len() >= 4, "not many states to choose among");
    let iowait = Some(true);
    assert!(
        events
            .iter()
            .any(|e| matches!(e.kind, EventKind::Wake { iowait: i, .. } if i == iowait))
    );
}

#[test]
fn a_recording_of_6_12_agrees_with_fio_and_the_kernel() {
    let Some(guest) = x86_6_12("a_recording_of_6_12_agrees_with_fio_and_the_kernel") else {
        return;
    };
    check_recording(guest);
    let (metadata, _) = read(&guest.path("fio.parquet"));
    // That governor does not ask for them.
    assert_eq!(metadata.recorded.iowaiters, DataQuality::Missing);
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn a_recording_of_6_1_agrees_with_fio_and_the_kernel() {
    let Some(guest) = x86_6_1("a_recording_of_6_1_agrees_with_fio_and_the_kernel") else {
        return;
    };
    check_recording(guest);
    let (metadata, _) = read(&guest.path("fio.parquet"));
    assert_eq!(metadata.recorded.iowaiters, DataQuality::Exact);
}

#[test]
#[ignore = "nightly: a guest of Linux 7.3"]
fn a_recording_of_7_3_agrees_with_fio_and_the_kernel() {
    if let Some(guest) = x86_7_3("a_recording_of_7_3_agrees_with_fio_and_the_kernel") {
        check_recording(guest);
    }
}

/// The governor that ran, with the version that the recording's kernel has.
fn ran(report: &Value) -> &str {
    report["agreement"][0].as_str().unwrap()
}

/// Whether a governor is this one, or that of a stable release of it.
fn is_of(name: &str, governor: &str) -> bool {
    let release = name.strip_prefix(governor);
    release.is_some_and(|release| release.is_empty() || release.starts_with('.'))
}

/// `answers` of how many periods were compared and how many are the same; those that are not have reasons.
fn agreement(report: &Value, governor: &str) -> (u64, u64) {
    assert!(is_of(ran(report), governor), "{}", ran(report));
    let found = &report["agreement"][1];
    let (same, all) = (number(&found["same_state"]), number(&found["periods"]));
    let reasons = found["reasons"].as_object().unwrap();
    println!("{governor}: {same} of {all} choices agree; the rest: {reasons:?}");
    assert_eq!(all - same, reasons.values().map(number).sum::<u64>());
    (same, all)
}

/// The replayed governor chooses as the one of the guest's kernel did.
fn check_answers(guest: &Guest, governor: &str) {
    // The recording names the governor and its states.
    let recording = guest.arg("fio.parquet");
    let report = replay(&recording, &[]);
    let (same, compared) = agreement(&report, governor);
    assert!(compared > 300, "{compared} choices are too few to say");
    // What the real governor had learnt before is not known; of a short recording, that is a share to count.
    let reasons = &report["agreement"][1]["reasons"];
    let before = reasons.get("history from before the recording");
    let answerable = compared - before.map_or(0, number);
    assert!(same * 100 >= answerable * 99, "{same} of {answerable}");
    let shown = wakepath(&["replay", &recording]).success();
    let shown = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    let share = format!("{} answers as recorded in {same} of ", ran(&report));
    assert!(shown.contains(&share), "{shown}");
}

#[test]
fn a_replay_of_6_12_answers_as_recorded() {
    if let Some(guest) = x86_6_12("a_replay_of_6_12_answers_as_recorded") {
        check_answers(guest, "menu@6.12");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn a_replay_of_6_1_answers_as_recorded() {
    if let Some(guest) = x86_6_1("a_replay_of_6_1_answers_as_recorded") {
        check_answers(guest, "menu@6.1");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 7.3"]
fn a_replay_of_7_3_answers_as_recorded() {
    if let Some(guest) = x86_7_3("a_replay_of_7_3_answers_as_recorded") {
        check_answers(guest, "menu@7.3");
    }
}

/// What a replay says besides of governors, in each format.
#[test]
fn a_replay_counts_limits_ticks_and_completions() {
    let Some(guest) = x86_6_12("a_replay_counts_limits_ticks_and_completions") else {
        return;
    };
    let recording = guest.arg("fio.parquet");
    let report = replay(
        &recording,
        &[
            "--policy",
            "menu@6.1",
            "--policy",
            "teo@6.12",
            "--policy",
            "shallowest",
        ],
    );
    let policies = report["policies"].as_array().unwrap();
    assert_eq!(policies[0]["policy"], "recorded");
    for policy in policies {
        let name = &policy["policy"];
        assert!(number(&policy["selections"]) > 300, "{name}");
        let polls = name == "shallowest";
        assert_eq!(number(&policy["tick_stops"]) == 0, polls, "{name}");
        assert!(!polls || number(&policy["poll_limit_hits"]) > 300);
    }
    let io: u64 = policies[1]["states"]
        .as_array()
        .unwrap()
        .iter()
        .map(|state| number(&state["slower_io"]))
        .sum();
    assert!(io > 0 && io <= number(&report["io_wake_ups"]));
    let drive = &report["drives"][0];
    assert_eq!(drive["name"], "nvme0n1");
    let (completions, same) = (number(&drive["completions"]), number(&drive["same_cpu"]));
    // The emulated drive has a queue for each CPU.
    assert!(completions > 300 && same * 10 >= completions * 9, "{drive}");
    let gaps = drive["gaps"].as_array().unwrap();
    assert!(gaps.len() >= 2 && gaps.iter().map(|gap| number(&gap["count"])).sum::<u64>() > 100);
    assert_eq!(drive["timeouts"].as_array().unwrap().len(), 3);

    let table = wakepath(&["replay", &recording]).success();
    let table = String::from_utf8(table.get_output().stdout.clone()).unwrap();
    for part in [
        "tick stops",
        "poll limit hits",
        &format!("{same} of {completions} completions on the issuing CPU"),
        "APST timeout ms",
        "idle from us",
    ] {
        assert!(table.contains(part), "{part} is not in\n{table}");
    }
    for (table, first) in [
        ("states", "governor,state,time ms"),
        ("governors", "governor,asked,tick stops,poll limit hits"),
        (
            "agreement",
            "governor,periods,as recorded,share %,otherwise,reason",
        ),
        ("drives", "drive,issued,completions,on the issuing CPU"),
        ("gaps", "drive,idle from us,to us,gaps,total ms"),
        (
            "timeouts",
            "drive,entry + exit ms,APST timeout ms,wake-ups,asleep %",
        ),
    ] {
        let csv = wakepath(&["replay", &recording, "--format", "csv", "--table", table]).success();
        let csv = String::from_utf8(csv.get_output().stdout.clone()).unwrap();
        assert!(csv.starts_with(first), "{csv}");
        assert!(csv.lines().count() > 1, "{csv}");
    }
}

/// The call log of a CPU, answered by ours and by the kernel's own C.
fn check_call_log(test: &str, guest: &Guest, governors: [&str; 2]) {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls.csv");
    let calls_arg = calls.to_str().unwrap();
    let recording = guest.arg("fio.parquet");
    wakepath(&["replay", &recording, "--cpu", "1", "--calls", calls_arg]).success();
    let states = guest.arg("states.csv");
    for governor in governors {
        let ours = wakepath(&[
            "policy",
            "idle",
            "--governor",
            governor,
            "--states",
            &states,
            calls_arg,
        ]);
        let ours = String::from_utf8(ours.success().get_output().stdout.clone()).unwrap();
        assert!(ours.lines().count() > 100, "{}", ours.lines().count());
        let named = log::KernelGovernor::parse(governor).unwrap();
        let source = has_compiler().then(|| {
            source::KernelSource::obtain_source(named.version, &source::source_cache_folder())
        });
        let Some(Ok(source)) = source else {
            skip(test, "no gcc or no kernel source");
            return;
        };
        let kernel =
            log::answer_log_by_kernel(named, &source, TickRate::HZ_250, Path::new(&states), &calls);
        assert!(ours == kernel.unwrap(), "{governor} answers differently");
    }
}

#[test]
fn a_call_log_of_6_12_is_answered_as_by_the_kernels_own_code() {
    let test = "a_call_log_of_6_12_is_answered_as_by_the_kernels_own_code";
    if let Some(guest) = x86_6_12(test) {
        check_call_log(test, guest, ["menu@6.12", "teo@6.12"]);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn a_call_log_of_6_1_is_answered_as_by_the_kernels_own_code() {
    let test = "a_call_log_of_6_1_is_answered_as_by_the_kernels_own_code";
    if let Some(guest) = x86_6_1(test) {
        check_call_log(test, guest, ["menu@6.1", "teo@6.1"]);
    }
}

/// How often each event is in the text of trace-cmd or perf, counted without the importer.
fn counts(text: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        // `<idle>-0 [001] 11.250035: cpu_idle: state=1 cpu_id=1`; perf has the subsystem before the name.
        let after_cpu = line.split_once("] ").map(|(_, rest)| rest.trim_start());
        let mut words = after_cpu.into_iter().flat_map(str::split_whitespace);
        let (Some(time), Some(name)) = (words.next(), words.next()) else {
            continue;
        };
        let Some(name) = name.strip_suffix(':').filter(|_| time.ends_with(':')) else {
            continue;
        };
        let name = name.rsplit(':').next().unwrap().to_owned();
        *counts.entry(name).or_insert(0) += 1;
    }
    counts
}

/// Imports a file that a guest's tool made; its summary, and the recording.
fn import(guest: &Guest, file: &str, folder: &TempDir) -> (Value, String) {
    let out = folder.path().join(format!("{file}.parquet"));
    let out = out.to_str().unwrap().to_owned();
    let arguments = ["import", &guest.arg(file), "-o", &out, "--format", "json"];
    (json(&wakepath(&arguments).success()), out)
}

/// The importer counts as the tool itself does.
fn check_counts(summary: &Value, text: &str) {
    let of_tool = counts(text);
    let ours: BTreeMap<String, u64> = summary["files"][0]["by_name"]
        .as_array()
        .unwrap()
        .iter()
        .map(|pair| (pair[0].as_str().unwrap().to_owned(), number(&pair[1])))
        .collect();
    println!("{} {:?}", summary["files"][0]["source"], ours);
    assert_eq!(ours, of_tool);
    assert!(
        ours["cpu_idle"] > 20 && ours["sched_switch"] > 20,
        "{ours:?}"
    );
}

/// Which timers are the tick is named in the text of the guest's tool, and not in a perf.data. The rate is in
/// neither.
fn check_ticks(guest: &Guest, text: &str, recording: &str, folder: &TempDir) {
    let (_, of_text) = import(guest, text, folder);
    let ticks = |recording: &str| {
        let (metadata, events) = read(Path::new(recording));
        assert_eq!(metadata.hz, Some(250), "{recording}");
        let tick = |event: &&Event| event.kind == EventKind::Timer(TimerKind::Tick);
        events.iter().filter(tick).count()
    };
    let (found, named) = (ticks(recording), ticks(&of_text));
    std::fs::remove_file(of_text).unwrap();
    println!("{found} ticks");
    assert!(found == named && found > 100, "{found} of {named}");
}

/// What trace-cmd and perf recorded in the guest counts as they do, and is replayed.
fn check_imports(guest: &Guest, governor: &str) {
    let folder = tempfile::tempdir().unwrap();
    let states = guest.arg("states.csv");
    for (file, text) in [("trace.dat", "trace-cmd.txt"), ("perf.data", "perf.txt")] {
        let (summary, recording) = import(guest, file, &folder);
        check_counts(&summary, &guest.text(text));
        assert_eq!(summary["lost_events"], 0);
        check_ticks(guest, text, &recording, &folder);
        let report = replay(&recording, &["--states", &states, "--ran", governor]);
        let (same, all) = agreement(&report, governor);
        // What the governor saw is inferred, and said to be.
        assert!(!report["approximate"].as_object().unwrap().is_empty());
        // Sleep lengths are inferred: about 70 %, and the less the busier the host is. By chance it would be a fifth.
        assert!(all > 300 && same * 10 > all * 4, "{same} of {all}");
        assert!(number(&report["io_wake_ups"]) > 0);
        std::fs::remove_file(recording).unwrap();
    }
}

#[test]
fn imports_of_6_12_count_as_the_tools_do_and_can_be_replayed() {
    if let Some(guest) = x86_6_12("imports_of_6_12_count_as_the_tools_do_and_can_be_replayed") {
        check_imports(guest, "menu@6.12");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn imports_of_6_1_count_as_the_tools_do_and_can_be_replayed() {
    if let Some(guest) = x86_6_1("imports_of_6_1_count_as_the_tools_do_and_can_be_replayed") {
        check_imports(guest, "menu@6.1");
    }
}

/// Device tree idle states, recorded by trace-cmd; with the power of the board that they are of.
#[test]
#[ignore = "nightly: a guest of another architecture"]
fn an_arm64_trace_can_be_replayed() {
    let Some(guest) = arm64("an_arm64_trace_can_be_replayed") else {
        return;
    };
    assert_eq!(guest.text("states.txt"), "WFI\ncpu-sleep\ncluster-sleep\n");
    let folder = tempfile::tempdir().unwrap();
    let (summary, recording) = import(guest, "trace.dat", &folder);
    check_counts(&summary, &guest.text("trace-cmd.txt"));
    let report = replay(&recording, &["--machine", "rk3399", "--ran", "menu@6.1"]);
    let (same, all) = agreement(&report, "menu@6.1");
    // The same; by chance it would be a third.
    assert!(all > 100 && same * 20 > all * 7, "{same} of {all}");
    for policy in report["policies"].as_array().unwrap() {
        let sum = |what: &str| -> f64 {
            let states = policy["states"].as_array().unwrap();
            states.iter().map(|s| s[what].as_f64().unwrap()).sum()
        };
        let (wasted, energy) = (sum("wasted_j"), sum("energy_j"));
        assert!(wasted > 0.0 && wasted < energy, "{policy}");
    }
}

/// Which CPUs went on- or offline, and when.
fn hotplug(events: &[Event]) -> Vec<(u32, bool, u64)> {
    let change = |event: &Event| match event.kind {
        EventKind::Hotplug { online } => Some((event.cpu, online, event.time.0)),
        _ => None,
    };
    events.iter().filter_map(change).collect()
}

#[test]
fn a_cpu_goes_off_and_online_in_6_12() {
    if let Some(guest) = x86_6_12("a_cpu_goes_off_and_online_in_6_12") {
        check_hotplug(guest, "menu@6.12");
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn a_cpu_goes_off_and_online_in_6_1() {
    if let Some(guest) = x86_6_1("a_cpu_goes_off_and_online_in_6_1") {
        check_hotplug(guest, "menu@6.1");
    }
}

/// CPU 1 goes off for a second and comes back, in our recording and in that of trace-cmd.
fn check_hotplug(guest: &Guest, governor: &str) {
    let folder = tempfile::tempdir().unwrap();
    let (_, imported) = import(guest, "hotplug.dat", &folder);
    let states = guest.arg("states.csv");
    for recording in [guest.arg("hotplug.parquet"), imported] {
        let (_, events) = read(Path::new(&recording));
        let changes = hotplug(&events);
        let [(1, false, off), (1, true, on)] = changes[..] else {
            panic!("{recording}: {changes:?}");
        };
        // It was off for a second, and idle before and after, not meanwhile.
        let idle = |from: u64, to: u64| {
            let of_cpu =
                |event: &&Event| event.cpu == 1 && matches!(event.kind, EventKind::Idle(_));
            let within = |event: &&Event| event.time.0 > from && event.time.0 < to;
            events.iter().filter(of_cpu).filter(within).count()
        };
        let settled = off + 300_000_000;
        assert!(settled < on, "{changes:?}");
        assert!(idle(0, off) > 10 && idle(on, u64::MAX) > 10, "{recording}");
        assert_eq!(idle(settled, on), 0, "{recording}");
        let report = replay(&recording, &["--states", &states, "--ran", governor]);
        let warnings = report["warnings"].as_array().unwrap();
        assert!(
            warnings.iter().any(|w| w["name"] == "hotplug"),
            "{warnings:?}"
        );
        // No idle span of any CPU covers the time that CPU 1 was off; nearly all of that was idle time on CPU 0.
        let duration = number(&report["duration_ns"]);
        let rested: u64 = report["policies"][0]["states"]
            .as_array()
            .unwrap()
            .iter()
            .map(|state| number(&state["time_ns"]))
            .sum();
        assert!(
            rested < 2 * duration - (on - settled),
            "{rested} of {duration}"
        );
    }
    // That driver leaves the governor alone, and so it goes on with what it knows.
    let report = replay(&guest.arg("hotplug.parquet"), &[]);
    let (same, all) = agreement(&report, governor);
    assert!(all > 100 && same * 100 >= all * 90, "{same} of {all}");
}

#[test]
fn lost_events_of_6_12_are_counted_and_shown() {
    if let Some(guest) = x86_6_12("lost_events_of_6_12_are_counted_and_shown") {
        check_lost_events(guest);
    }
}

#[test]
#[ignore = "nightly: a guest of Linux 6.1"]
fn lost_events_of_6_1_are_counted_and_shown() {
    if let Some(guest) = x86_6_1("lost_events_of_6_1_are_counted_and_shown") {
        check_lost_events(guest);
    }
}

/// Buffers of a page or two run over; each tool counts that, and so does what is made of it.
fn check_lost_events(guest: &Guest) {
    let folder = tempfile::tempdir().unwrap();
    let states = guest.arg("states.csv");
    let warns = |recording: &str| {
        let shown = wakepath(&["replay", recording, "--states", &states]).success();
        let shown = String::from_utf8(shown.get_output().stderr.clone()).unwrap();
        assert!(shown.contains("lost-events"), "{shown}");
    };

    let summary = guest.json("lost.json");
    let lost = number(&summary["lost"]);
    let (metadata, events) = read(&guest.path("lost.parquet"));
    let noted = |event: &Event| match event.kind {
        EventKind::Lost { count } => count,
        _ => 0,
    };
    println!("wakepath record: {lost} lost");
    assert!(lost > 0 && metadata.lost_events == lost, "{summary}");
    assert_eq!(events.iter().map(noted).sum::<u64>(), lost);
    let said = guest.text("lost.txt");
    assert!(
        said.contains(&format!("{lost} events")) && said.contains("--buffer"),
        "{said}"
    );
    warns(&guest.arg("lost.parquet"));

    let (summary, recording) = import(guest, "lost.dat", &folder);
    let text = guest.text("lost-trace-cmd.txt");
    check_counts(&summary, &text);
    assert!(number(&summary["lost_events"]) > 0, "{summary}");
    warns(&recording);

    let (summary, recording) = import(guest, "lost.data", &folder);
    let text = guest.text("lost-perf.txt");
    check_counts(&summary, &text);
    let of_perf: u64 = text
        .lines()
        .filter_map(|line| {
            line.split_once("PERF_RECORD_LOST lost ")?
                .1
                .trim()
                .parse::<u64>()
                .ok()
        })
        .sum();
    println!("perf record: {of_perf} lost");
    // A quick guest gives perf the time to empty even its smallest buffers.
    assert_eq!(summary["lost_events"], of_perf, "{summary}");
    if of_perf > 0 {
        warns(&recording);
    }
}
