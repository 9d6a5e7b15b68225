//! Recordings made in virtual machines, where governors choose among several idle states (docs/rig.md).

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use wakepath_hardware::IdleStates;
use wakepath_policies::idle::{Governor, IdleGovernor, IdleOutcome, IdleQuery};
use wakepath_policies::spec::PolicySpec;
use wakepath_trace::recording::{Event, IdlePeriod, Kind, Known, Metadata, Reader, RecordingError};
use wakepath_units::TickRate;

/// The rig's exit code when something that it needs is not there.
const UNAVAILABLE: i32 = 3;

/// Runs a guest; the folder with what it handed back, or `None` where it cannot run.
fn guest(test: &str, arguments: &[&str]) -> Option<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rig-{test}"));
    let _ = fs::remove_dir_all(&out);
    let run = Command::new("python3")
        .current_dir(&root)
        .arg("rig/rig.py")
        .args(arguments)
        // Usually it takes half a minute; other tests may keep the machine busy.
        .args(["--timeout", "300"])
        .arg("--out")
        .arg(&out)
        .output();
    let run = match run {
        Ok(run) => run,
        Err(error) => {
            common::skip(test, &format!("python3: {error}"));
            return None;
        }
    };
    let said = String::from_utf8_lossy(&run.stderr);
    if run.status.code() == Some(UNAVAILABLE) {
        common::skip(test, said.trim());
        return None;
    }
    assert!(run.status.success(), "{said}");
    Some(out)
}

fn json(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn number(path: &Path) -> u64 {
    fs::read_to_string(path).unwrap().trim().parse().unwrap()
}

fn read(path: &Path) -> (Metadata, Vec<Event>) {
    let mut reader = Reader::open(path).unwrap();
    let mut events = Vec::new();
    reader
        .for_each(|event| -> Result<(), RecordingError> {
            events.push(event);
            Ok(())
        })
        .unwrap();
    (reader.metadata().clone(), events)
}

/// The recording of the x86 guest is whole, and agrees with what fio and the kernel themselves counted.
fn check_x86(out: &Path) -> (Metadata, Vec<Event>) {
    let summary = json(&out.join("summary.json"));
    let (metadata, events) = read(&out.join("fio.parquet"));
    assert_eq!(summary["lost"], 0);
    assert_eq!(summary["events"], events.len());
    assert!(metadata.complete);
    assert_eq!(metadata.hz, Some(250));
    assert_eq!(metadata.idle_governor.as_deref(), Some("menu"));
    assert_eq!(metadata.idle_driver.as_deref(), Some("wakepath_idle"));
    let names: Vec<&str> = metadata.idle_states[0]
        .states
        .iter()
        .map(|s| s.name.as_str())
        .collect();
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
        assert_eq!(known, Known::Exact, "{recorded:?}");
    }

    // fio's own count, and the kernel's: the recording began before fio and ended after it.
    let fio = json(&out.join("fio.json"));
    let jobs = fio["jobs"].as_array().unwrap();
    let total = |direction: &str| -> u64 {
        jobs.iter()
            .map(|job| job[direction]["total_ios"].as_u64().unwrap())
            .sum()
    };
    let completed = |write: bool| {
        let of_fio = |kind: &Kind| matches!(kind, Kind::BlockComplete(b) if b.write == write && b.bytes == 4096);
        events.iter().filter(|event| of_fio(&event.kind)).count() as u64
    };
    assert!(total("read") > 1000 && total("write") > 100);
    assert!(completed(false) >= total("read") && completed(false) < total("read") + 50);
    assert_eq!(completed(true), total("write"));
    let usage = number(&out.join("usage-after.txt")) - number(&out.join("usage-before.txt"));
    let periods = periods(&events);
    let entered = periods.iter().filter(|(_, p)| p.duration.0 > 0).count() as u64;
    // Before and after, the kernel counted some that were not recorded.
    assert!(
        entered <= usage && entered * 10 > usage * 5,
        "{entered} of {usage}"
    );
    let mut states = BTreeMap::new();
    for (_, period) in &periods {
        *states.entry(period.state).or_insert(0) += 1;
    }
    assert!(
        states.len() >= 4,
        "not many states to choose among: {states:?}"
    );
    assert!(events.iter().any(|e| matches!(
        e.kind,
        Kind::Wake {
            iowait: Some(true),
            ..
        }
    )));
    (metadata, events)
}

fn periods(events: &[Event]) -> Vec<(&Event, IdlePeriod)> {
    events
        .iter()
        .filter_map(|event| match event.kind {
            Kind::Idle(period) => Some((event, period)),
            _ => None,
        })
        .collect()
}

/// Asks a governor for each recorded choice; how often it chose the same, of how many.
fn agreement(governor: &str, metadata: &Metadata, events: &[Event]) -> (u64, u64) {
    let policy = governor.parse::<PolicySpec>().unwrap().idle().unwrap();
    let mut same = 0;
    let mut all = 0;
    for group in &metadata.idle_states {
        let states = IdleStates::new(group.states.clone()).unwrap();
        for cpu in &group.cpus {
            let tick = TickRate::new(metadata.hz.unwrap()).unwrap();
            let mut governor = Governor::new(&policy, &states, tick);
            let of_cpu: Vec<_> = periods(events)
                .into_iter()
                .filter(|(e, _)| e.cpu == *cpu)
                .collect();
            // What it learnt before the recording began is not known.
            let learnt = of_cpu.len() / 10;
            for (index, (event, period)) in of_cpu.iter().enumerate() {
                let inputs = &period.inputs;
                let entered = event.time.0 - period.duration.0;
                let decision = governor.select(&IdleQuery {
                    sleep_length: inputs.sleep_length.unwrap_or(i64::MAX),
                    delta_tick: inputs.delta_tick.unwrap_or(i64::MAX),
                    tick_stopped: inputs.tick_stopped.unwrap_or(false),
                    latency_request: inputs.latency_request.unwrap_or(i64::MAX),
                    nr_iowait: inputs.iowaiters.unwrap_or(0),
                    clock: entered,
                    true_idle: 0,
                });
                if index >= learnt {
                    all += 1;
                    same += u64::from(decision.state == usize::from(period.state));
                }
                governor.reflect(
                    usize::from(period.state),
                    &IdleOutcome {
                        clock: event.time.0,
                        residency: period.duration.0,
                        got_tick: period.got_tick.unwrap_or(false),
                        poll_limit_hit: period.poll_limit_hit.unwrap_or(false),
                    },
                );
            }
        }
    }
    (same, all)
}

/// At least 99 % of the choices are those that the governor of the same version makes of what was recorded.
fn check_agreement(governor: &str, metadata: &Metadata, events: &[Event]) {
    let (same, all) = agreement(governor, metadata, events);
    println!("{governor}: {same} of {all} choices agree");
    assert!(all > 1000, "{all} choices are too few to say");
    assert!(same * 100 >= all * 99, "{same} of {all}");
}

#[test]
fn menu_6_1_chose_what_its_recording_says() {
    let wakepath = env!("CARGO_BIN_EXE_wakepath");
    let arguments = [
        "x86",
        "--kernel",
        "6.1",
        "--program",
        wakepath,
        "rig/guest/record.sh",
    ];
    let Some(out) = guest("menu_6_1_chose_what_its_recording_says", &arguments) else {
        return;
    };
    let (metadata, events) = check_x86(&out);
    assert_eq!(metadata.recorded.iowaiters, Known::Exact);
    check_agreement("menu@6.1", &metadata, &events);
}

#[test]
fn menu_6_12_chose_what_its_recording_says() {
    let wakepath = env!("CARGO_BIN_EXE_wakepath");
    let arguments = [
        "x86",
        "--kernel",
        "6.12",
        "--program",
        wakepath,
        "rig/guest/record.sh",
    ];
    let Some(out) = guest("menu_6_12_chose_what_its_recording_says", &arguments) else {
        return;
    };
    let (metadata, events) = check_x86(&out);
    // That governor does not ask for them.
    assert_eq!(metadata.recorded.iowaiters, Known::Missing);
    check_agreement("menu@6.12", &metadata, &events);
}
