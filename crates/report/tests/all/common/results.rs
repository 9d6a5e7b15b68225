//! Results to test with, made up here.

use std::collections::BTreeMap;

use wakepath_results::document::{CpuKind, SCHEMA, VERSION};
use wakepath_results::rows::{BUSY, PARTS};
use wakepath_results::{
    Design, Document, Idle, METRICS, MachineInfo, PolicyInfo, RunKey, RunOrigin, RunRecord,
    StudyInfo, TimelineSpan, WorkloadInfo,
};

/// A simulated study of these, on a board; the first policy is the baseline. It asks nothing.
pub(crate) fn document(workloads: &[&str], policies: &[&str], repeats: u32) -> Document {
    Document {
        schema: SCHEMA.into(),
        version: VERSION,
        complete: false,
        shard: None,
        study: StudyInfo {
            name: "governors".into(),
            title: "Which governor?".into(),
        },
        backend: RunOrigin::Sim,
        tools: BTreeMap::from([("wakepath".into(), "0.1.0".into())]),
        machines: vec![MachineInfo {
            name: "board".into(),
            source: "machine.toml".into(),
            title: "A board".into(),
            cpu_kinds: vec![CpuKind {
                name: "little".into(),
                cpus: 4,
            }],
            idle_states: vec!["WFI".into(), "sleep".into()],
            drive: "a drive".into(),
            host: None,
            power_scope: String::new(),
        }],
        workloads: workloads
            .iter()
            .map(|name| WorkloadInfo {
                name: (*name).to_owned(),
                kind: "fio".into(),
                source: "workloads/job.fio".into(),
                ..WorkloadInfo::default()
            })
            .collect(),
        policies: policies
            .iter()
            .map(|name| PolicyInfo {
                name: (*name).to_owned(),
                settings: BTreeMap::from([("idle".into(), format!("{name}@6.12"))]),
                notes: Vec::new(),
            })
            .collect(),
        baseline: policies[0].to_owned(),
        repeats,
        design: Design::Paired,
        seeds: (1..=u64::from(repeats)).collect(),
        sha256: BTreeMap::new(),
        questions: vec![],
        metrics: METRICS.to_vec(),
        level: 0.95,
        margin_percent: 2.0,
        notes: vec!["A note.".into()],
    }
}

/// A run whose requests take 100 us times this factor, and a little more in later repeats.
pub(crate) fn run(workload: &str, policy: &str, repeat: u32, factor: f64) -> RunRecord {
    let us = 100.0 * factor * (1.0 + 0.01 * f64::from(repeat % 5));
    let key = RunKey {
        machine: "board".into(),
        workload: workload.into(),
        policy: policy.into(),
        repeat,
    };
    let mut run = RunRecord::new(key, Some(u64::from(repeat) + 1), repeat, repeat);
    run.duration_ns = 2_000_000_000;
    run.metrics = [
        ("iops", 1e6 / us),
        ("mean_us", us),
        ("p50_us", us * 0.9),
        ("p90_us", us * 1.4),
        ("p99_us", us * 2.0),
        ("p999_us", us * 3.0),
        ("mean_mw", 500.0 / factor),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into();
    let ns = (us * 1e3) as u64;
    run.latency = [(ns / 2, ns, 900), (ns, 2 * ns, 99), (2 * ns, 3 * ns, 1)]
        .map(Into::into)
        .into();
    run.attribution = ["mean", "p99"]
        .iter()
        .flat_map(|at| {
            PARTS.iter().map(move |part| {
                (
                    (*at).to_owned(),
                    (*part).to_owned(),
                    us * 1e3 / PARTS.len() as f64,
                )
                    .into()
            })
        })
        .collect();
    let idle = |state: &str, seconds: u64, entries: u64| Idle {
        cpu_kind: "little".into(),
        state: state.into(),
        time_ns: seconds * 1_000_000_000,
        entries,
        too_deep: entries / 4,
        too_shallow: entries / 8,
        above: Some(entries / 5),
        below: Some(entries / 9),
        added_latency_ns: Some(entries * 1000),
        wasted_energy_uj: Some(entries as f64),
    };
    // 4 CPUs for 2 s.
    run.idle = vec![idle("sleep", 4, 400), idle(BUSY, 1, 0), idle("WFI", 3, 800)];
    run.frequency = vec![
        ("little".to_owned(), 408_000, 10).into(),
        ("little".to_owned(), 1_416_000, 30).into(),
    ];
    if repeat == 0 {
        run.timeline = [
            ("CPU 0 (little)", "WFI", 1_000_000),
            ("request 3", "drive", 1_010_000),
        ]
        .map(|(track, name, start_ns)| TimelineSpan {
            at: "p99".into(),
            track: track.into(),
            name: name.into(),
            start_ns,
            end_ns: start_ns + 50_000,
        })
        .into();
    }
    run
}
