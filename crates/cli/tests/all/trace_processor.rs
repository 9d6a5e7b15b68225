//! Perfetto's own trace processor reads the timelines and comes to the figures of the runs.
//!
//! It is the WebAssembly build that the Perfetto UI runs, taken from a PyPI package
//! (`trace_processor.py`); `docs/guides/timelines.md` says why.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::PolicySet;
use wakepath_report::perfetto;
use wakepath_sim::{Run, simulate_observed};
use wakepath_study::timeline::Observed;
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio;

/// A run with a name and its timeline.
struct Case {
    name: &'static str,
    machine: Machine,
    run: Run,
    trace: PathBuf,
}

fn case(
    folder: &Path,
    name: &'static str,
    machine: Machine,
    (idle, freq): (&str, &str),
    lines: &str,
) -> Case {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    let job = fio::parse(&text, "test.fio").unwrap().into();
    let policies = PolicySet::from_names([idle, freq, "psd[timeout=1ms]"]).unwrap();
    let span = Nanoseconds::from_secs(3600);
    let mut observed = Observed::new(&machine, &job, span, |_| false);
    let run = simulate_observed(&machine, &job, &policies, 1, &mut observed).unwrap();
    let trace = folder.join(format!("{name}.pftrace"));
    let bytes = perfetto::write_perfetto_trace(Vec::new(), &observed.into_timeline()).unwrap();
    std::fs::write(&trace, bytes).unwrap();
    Case {
        name,
        machine,
        run,
        trace,
    }
}

/// RK3399 with a polling state in front, as x86 machines have.
fn polling_machine() -> Machine {
    let mut machine = Machine::find("rk3399").unwrap();
    let mut poll = machine.idle_state[0].clone();
    poll.name = "POLL".into();
    poll.polling = true;
    poll.exit_latency_us.value = 0.0;
    poll.target_residency_us.value = 0.0;
    poll.true_exit_us.value = 0.0;
    machine.idle_state.insert(0, poll);
    machine
}

/// A laptop with a drive that sleeps.
fn laptop() -> Machine {
    let mut machine = Machine::find("laptop").unwrap();
    machine.drive = DriveModel::find("sn530").unwrap();
    machine
}

const QUERIES: [&str; 6] = [
    // What the trace processor found wrong.
    "select name, value from stats where severity in ('error', 'data_loss') and value != 0",
    "select track.name as track, slice.name as slice, depth, count(*) as slices, \
     sum(dur) as total, min(dur) as shortest \
     from slice join track on slice.track_id = track.id group by 1, 2, 3",
    "select track.name as track, unit, count(*) as values_, min(value) as lowest, \
     max(value) as highest from counter join counter_track track on counter.track_id = track.id \
     group by 1, 2",
    "select name from process where pid = 1",
    "select end_ts - start_ts as length from trace_bounds",
    "select child.name as child from track child join track parent on child.parent_id = parent.id \
     where parent.name = 'drive'",
];

/// The answers to [`QUERIES`] for each case, or `None` where they cannot be had.
fn ask(cases: &[Case]) -> Option<Vec<Value>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let python = root.join(".cache/python/bin/python");
    if !python.exists() {
        let reason = "no Python packages in .cache/python (scripts/setup-python.sh)";
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        eprintln!("skipped: the_trace_processor_comes_to_the_figures_of_the_run: {reason}");
        return None;
    }
    let traces: Vec<&Path> = cases.iter().map(|c| c.trace.as_path()).collect();
    let mut child = Command::new(python)
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("../report/tests/trace_processor.py"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let question = json!({"traces": traces, "queries": QUERIES}).to_string();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(question.as_bytes()).unwrap();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "trace_processor.py has failed");
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// Total length in ns and number of slices by track, name and depth.
type Slices = BTreeMap<(String, String, u64), (u64, u64)>;

fn slices(rows: &Value) -> Slices {
    rows.as_array()
        .unwrap()
        .iter()
        .map(|row| {
            let text = |key: &str| row[key].as_str().unwrap().to_owned();
            // The trace processor gives a slice that never ends the length -1.
            assert!(row["shortest"].as_i64().unwrap() >= 0, "{row}");
            (
                (text("track"), text("slice"), row["depth"].as_u64().unwrap()),
                (
                    row["total"].as_u64().unwrap(),
                    row["slices"].as_u64().unwrap(),
                ),
            )
        })
        .collect()
}

fn agrees(case: &Case, answer: &Value) {
    let Case {
        name, machine, run, ..
    } = case;
    assert_eq!(answer["unknown_fields"], json!([]), "{name}");
    let results = &answer["results"];
    assert_eq!(results[0], json!([]), "{name}: the trace processor objects");

    let all = slices(&results[1]);
    let close = |ns: u64, seconds: f64| (ns as f64 - seconds * 1e9).abs() < 2.0;
    for cpu in &run.cpus {
        let plain = format!("CPU {}", cpu.cpu);
        let of_cluster = format!("{plain} (");
        let mut tracks = all.keys().map(|(track, ..)| track);
        let track = tracks.find(|t| **t == plain || t.starts_with(&of_cluster));
        let track = track.unwrap().clone();
        let mut idle = 0;
        for (state, seconds) in machine.idle_state.iter().zip(&cpu.idle_seconds) {
            let key = (track.clone(), state.name.clone(), 0);
            let (drawn, _) = all.get(&key).copied().unwrap_or_default();
            assert!(close(drawn, *seconds), "{name}, {key:?}: {drawn}");
            idle += drawn;
        }
        let outer = all.iter().filter(|((t, _, d), _)| *t == track && *d == 0);
        let total: u64 = outer.map(|(_, (total, _))| total).sum();
        assert!(close(total, run.seconds), "{name}, {track}: {total}");
        assert!(close(total - idle, cpu.busy_seconds), "{name}, {track}");
    }

    let sum_of_slices = |slice: &str| {
        let some = all.iter().filter(|((_, s, _), _)| s == slice);
        some.fold((0, 0), |sum, (_, (total, slices))| {
            (sum.0 + total, sum.1 + slices)
        })
    };
    let (latency, requests) = sum_of_slices("request");
    assert_eq!(requests, run.requests, "{name}");
    let mean = latency as f64 / requests as f64 / 1e3;
    assert!((mean - run.latency_us.mean).abs() < 1e-6, "{name}: {mean}");
    let steps = [
        "submission",
        "drive: read",
        "drive: write",
        "interrupt",
        "wake-up of the task",
    ];
    assert_eq!(
        steps.map(|step| sum_of_slices(step).0).iter().sum::<u64>(),
        latency
    );

    let counters = results[2].as_array().unwrap();
    let counter = |track: &str| counters.iter().find(|c| c["track"] == track).unwrap();
    for cluster in &machine.cluster {
        let row = counter(&format!("frequency of cluster {}", cluster.name));
        assert_eq!(row["unit"], "MHz");
        let mhz = |at: usize| f64::from(cluster.opps[at].khz) / 1e3;
        assert!(row["lowest"].as_f64().unwrap() >= mhz(0));
        assert!(row["highest"].as_f64().unwrap() <= mhz(cluster.opps.len() - 1));
    }
    for cpu in 0..machine.cpus() {
        assert_eq!(counter(&format!("CPU {cpu} runnable"))["unit"], "tasks");
    }
    assert_eq!(counter("requests at the drive")["lowest"], json!(0.0));

    assert_eq!(results[3], json!([{"name": machine.title}]));
    let length = results[4][0]["length"].as_u64().unwrap();
    assert!(close(length, run.seconds), "{name}: {length}");
    let children: Vec<&Value> = results[5]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| &r["child"])
        .collect();
    assert!(children.contains(&&json!("requests at the drive")));
    assert!(children.contains(&&json!("request slot 0")));

    // A sleeping drive: PS3 as often as the run says, in a track of its own.
    let power = "power state of drive 0".to_owned();
    assert_eq!(
        children.contains(&&json!(power)),
        run.drive.is_some(),
        "{name}"
    );
    if let Some(drive) = &run.drive {
        let time_and_entries = |state: usize| all[&(power.clone(), format!("PS{state}"), 0)];
        assert_eq!(time_and_entries(3).1, drive.states[3].entries);
        assert!(
            close(time_and_entries(0).0 + time_and_entries(3).0, run.seconds),
            "{name}"
        );
    }
}

#[test]
fn the_trace_processor_comes_to_the_figures_of_the_run() {
    let folder = tempfile::tempdir().unwrap();
    let rk3399 = || Machine::find("rk3399").unwrap();
    let cases = vec![
        case(
            folder.path(),
            "one-at-a-time",
            rk3399(),
            ("menu@6.1", "schedutil"),
            "rw=randread\nioengine=psync\nruntime=300ms\n",
        ),
        case(
            folder.path(),
            "many-at-once",
            rk3399(),
            ("teo", "schedutil"),
            "rw=randrw\nioengine=libaio\niodepth=8\nnumjobs=5\nruntime=100ms\n",
        ),
        case(
            folder.path(),
            "polling",
            polling_machine(),
            ("menu", "performance"),
            "rw=randwrite\nioengine=io_uring\niodepth=2\nthinktime=100\nruntime=100ms\n",
        ),
        case(
            folder.path(),
            "sleeping",
            laptop(),
            ("menu", "schedutil"),
            "rw=randread\nthinktime=150ms\nruntime=2s\n",
        ),
    ];
    let Some(answers) = ask(&cases) else { return };
    assert_eq!(answers.len(), cases.len());
    for (case, answer) in cases.iter().zip(&answers) {
        agrees(case, answer);
    }
}
