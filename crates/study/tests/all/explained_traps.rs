//! traps

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::Path;

use wakepath_explain::{Collector, MetState, RequestKind, TracedRequest, explain_requests};
use wakepath_hardware::Machine;
use wakepath_sim::{Run, simulate_observed};
use wakepath_study::recorder::{FollowedTasks, Recorder, describe_machine};
use wakepath_trace::recording::{Overwrite, Reader, Writer};
use wakepath_workloads::{Workload, fio};

fn quiet_machine(changes: &[(&str, &str)]) -> Machine {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rig/laboratory/debian-6.12.toml");
    let text = std::fs::read_to_string(file).unwrap();
    let (text, _) = text.split_once("[emulator]").unwrap();
    let mut text = text.replace("\nspread = 0\n", "\nspread = 0.4\n");
    for (from, to) in changes {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Machine::parse(&text, "quiet.toml").unwrap()
}

struct Simulated {
    run: Run,
    requests: Vec<TracedRequest>,
    kind: RequestKind,
}

fn simulate_and_explain(machine: &Machine, job: &str, policies: &str) -> Simulated {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.parquet");
    let workload: Workload = fio::parse(job, "job.fio").unwrap().into();
    let writer = Writer::create(&path, Overwrite::No, describe_machine(machine).unwrap()).unwrap();
    let mut recorder = Recorder::new(writer, machine, &workload, FollowedTasks::WithIo, || false);
    let run = simulate_observed(
        machine,
        &workload,
        &policies.parse().unwrap(),
        1,
        &mut recorder,
    )
    .unwrap();
    recorder.finish_recording().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    let mut collector = Collector::new(reader.metadata());
    collector.collect_recording(&mut reader).unwrap();
    let collected = collector.finish();
    let explanation = explain_requests(&collected, reader.metadata());
    let kind = explanation
        .kinds
        .into_iter()
        .find(|kind| !kind.write && kind.bytes == 4096)
        .unwrap();
    Simulated {
        run,
        requests: collected.requests,
        kind,
    }
}

fn report(name: &str, simulated: &Simulated) {
    println!(
        "== {name}: {} requests, awake {}, leaving {}, behind {} anew {} idle_exit {:.1}",
        simulated.kind.requests,
        simulated.kind.awake,
        simulated.kind.leaving,
        simulated.kind.behind,
        simulated.kind.chosen_anew,
        simulated.run.attribution.mean.idle_exit
    );
    println!(
        "reference {:?} compared {}",
        simulated.kind.split.reference, simulated.kind.split.compared
    );
    for state in 0..6_u8 {
        let met: Vec<f64> = simulated
            .requests
            .iter()
            .filter(|r| !r.write && r.bytes == 4096 && r.met == MetState::State(state))
            .map(|r| r.latency as f64)
            .collect();
        if !met.is_empty() {
            println!(
                "  state {state}: {} met, mean {:.1}",
                met.len(),
                met.iter().sum::<f64>() / met.len() as f64 / 1e3
            );
        }
    }
    for state in &simulated.kind.split.states {
        println!("  {state:?}");
    }
}

const READS: &str = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs=4k\nrate_iops=1000\nrate_process=poisson\ncpus_allowed=0\n\
        time_based\nruntime=30\n";

#[test]
fn explore() {
    let menu = "menu + performance";
    let base = quiet_machine(&[]);
    report("base", &simulate_and_explain(&base, READS, menu));
    report(
        "base teo",
        &simulate_and_explain(&base, READS, "teo + performance"),
    );
    report(
        "base ladder",
        &simulate_and_explain(&base, READS, "ladder + performance"),
    );
    let rests = quiet_machine(&[(
        "\nparallel_units = 8\n",
        "\nparallel_units = 8\nrest_after_ms = 1\nrest_exit_us = 120\n",
    )]);
    report("rests", &simulate_and_explain(&rests, READS, menu));
    let shared = quiet_machine(&[("completion = {", "completion = { cpu = 1, ")]);
    report("shared", &simulate_and_explain(&shared, READS, menu));
    let slow = quiet_machine(&[
        ("read_service_us = 80", "read_service_us = 1500"),
        (
            "value = 250, source = \"CONFIG_HZ",
            "value = 1000, source = \"CONFIG_HZ",
        ),
    ]);
    report(
        "tick",
        &simulate_and_explain(&slow, &READS.replace("1000", "300"), menu),
    );
    let job = format!(
        "{READS}[busy]\nfilename=/dev/nvme0n1\nrw=randwrite\ndirect=1\nbs=64k\nthinktime=20000\nthinktime_spin=10000\ncpus_allowed=1\ntime_based\nruntime=30\n"
    );
    let package = quiet_machine(&[("\n[emulator", "")].get(1..).unwrap_or(&[]));
    let mut package = package;
    package.package = toml::from_str("exit_us = 120\nhysteresis_us = 0\nsource = 'test'").unwrap();
    package.idle_state.truncate(4);
    report("package", &simulate_and_explain(&package, &job, menu));
    let mut cluster = quiet_machine(&[("name = \"C6\"", "name = \"C6\"\nscope = \"cluster\"")]);
    cluster.idle_state.truncate(4);
    report("cluster", &simulate_and_explain(&cluster, &job, menu));
    let mut demoted = quiet_machine(&[]);
    demoted.idle_state.truncate(4);
    demoted.c1_demotion = toml::from_str("to = 'C1'\nstates = ['C6']\nwake_ups = 4\nwithin_us = 2000\nundemote_us = 0\nsource='test'").unwrap();
    report("demoted", &simulate_and_explain(&demoted, READS, menu));
}
