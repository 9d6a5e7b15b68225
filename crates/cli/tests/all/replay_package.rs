//! Replay and simulation agree about what idle states cost, the package with them.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::{IdleDecision, IdleQuery};
use wakepath_policies::spec::PolicySpec;
use wakepath_replay::package::PackageFigures;
use wakepath_replay::{GroupIdleStates, PolicyReport, Report, Setup, replay_recording};
use wakepath_sim::observer::{Activity, Observer};
use wakepath_sim::simulate_observed;
use wakepath_trace::recording::{
    Before, Event, EventKind, IdleInputs, IdlePeriod, Metadata, Overwrite, Reader, Writer,
};
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio;

/// The idle periods of a simulated run, as `wakepath record` would write them, but for the time that leaving a state takes.
struct Recorder {
    writer: Writer,
    asked: Vec<Option<(IdleQuery, usize)>>,
}

impl Recorder {
    fn end(&mut self, now: Nanoseconds, cpu: usize) {
        let Some((query, state)) = self.asked[cpu].take() else {
            return;
        };
        let inputs = IdleInputs {
            sleep_length: Some(query.sleep_length),
            delta_tick: Some(query.delta_tick),
            tick_stopped: Some(query.tick_stopped),
            latency_request: Some(query.latency_request),
            iowaiters: Some(query.nr_iowait),
            ..IdleInputs::default()
        };
        let period = IdlePeriod {
            state: state as u8,
            duration: Nanoseconds(now.0 - query.clock),
            inputs,
            before: Before::Task,
            ..IdlePeriod::default()
        };
        let event = Event {
            time: now,
            cpu: cpu as u32,
            kind: EventKind::Idle(period),
        };
        self.writer.add_event(&event).unwrap();
    }
}

impl Observer for Recorder {
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        if !matches!(activity, Activity::Idle(_)) {
            self.end(now, cpu);
        }
    }

    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        if self.asked.len() <= cpu {
            self.asked.resize(cpu + 1, None);
        }
        self.asked[cpu] = Some((*query, decision.state));
    }

    fn observation_ended(&mut self, now: Nanoseconds) {
        for cpu in 0..self.asked.len() {
            self.end(now, cpu);
        }
    }
}

/// The machine with this idle state and no other, beside the polling one.
fn only(machine: &Machine, state: &str) -> Machine {
    let mut machine = machine.clone();
    for s in &mut machine.idle_state {
        s.disabled = s.name != state;
    }
    machine
}

/// Simulates an I/O every 2 ms, at the lowest clock of the cores and so of the uncore; returns the run's energy in J: all of it, and that
/// of package and uncore.
fn simulate(machine: &Machine, recording: &Path) -> (f64, f64) {
    let job = "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=2\nrate_iops=500\n";
    let workload = fio::parse(job, "test.fio").unwrap().into();
    let policies = PolicySet::from_names(["deepest", "powersave"]).unwrap();
    let writer = Writer::create(recording, Overwrite::Yes, Metadata::default()).unwrap();
    let mut recorder = Recorder {
        writer,
        asked: vec![None; machine.cpus()],
    };
    let run = simulate_observed(machine, &workload, &policies, 1, &mut recorder).unwrap();
    recorder.writer.finish_and_count_events().unwrap();
    let energy = run.energy.unwrap();
    let package = energy.package_mj + energy.uncores_mj.iter().sum::<f64>();
    (energy.total_mj / 1e3, package / 1e3)
}

fn replayed(machine: &Machine, recording: &Path, idle: &str) -> Report {
    let policies = vec![(
        idle.to_owned(),
        idle.parse::<PolicySpec>()
            .unwrap()
            .as_idle_policy()
            .unwrap(),
    )];
    let setup = Setup {
        states: GroupIdleStates::from_machine(machine).unwrap(),
        package: PackageFigures::from_machine(machine),
        tick: machine.tick_rate(),
        policies,
        psd: None,
        latency: None,
        recorded_governor: None,
        blocks: 1,
    };
    let mut reader = Reader::open(recording).unwrap();
    replay_recording(&mut reader, &setup, None, &mut |_| true).unwrap()
}

/// All energy of a policy in J, and the package's.
fn energy(policy: &PolicyReport) -> (f64, f64) {
    let package = policy.package.as_ref().unwrap().energy_j;
    let of_states: f64 = policy.states.iter().map(|s| s.energy_j.unwrap()).sum();
    (of_states + package, package)
}

/// Which energy is least.
fn cheapest(energies: &[f64]) -> usize {
    (0..energies.len())
        .min_by(|a, b| energies[*a].total_cmp(&energies[*b]))
        .unwrap()
}

#[test]
fn replay_and_sim_agree_which_state_is_cheapest_and_by_how_much() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["epyc-7502", "skylake-2s-server", "spr1"] {
        let whole = Machine::find(name).unwrap();
        let names: Vec<&str> = (whole.idle_state.iter())
            .filter(|state| !state.polling)
            .map(|state| state.name.as_str())
            .collect();
        let path = |state: &str| folder.path().join(format!("{name}-{state}.parquet"));
        let simulated: Vec<(f64, f64)> = names
            .iter()
            .map(|state| simulate(&only(&whole, state), &path(state)))
            .collect();

        // What was recorded in each state: its package draws as much.
        for (state, (_, package)) in names.iter().zip(&simulated) {
            let machine = only(&whole, state);
            let recorded = energy(&replayed(&machine, &path(state), "deepest").policies[0]).1;
            assert!(
                (recorded / package - 1.0).abs() < 0.02,
                "{name} {state}: the package takes {recorded} J in replay and {package} J in sim"
            );
        }

        // One recording, replayed in each state: between any two there lies as much as in the simulator.
        let deepest = *names.last().unwrap();
        let again: Vec<f64> = names
            .iter()
            .map(|state| {
                let report = replayed(&only(&whole, state), &path(deepest), "deepest");
                energy(&report.policies[1]).0
            })
            .collect();
        let totals: Vec<f64> = simulated.iter().map(|(total, _)| *total).collect();
        assert_eq!(
            cheapest(&again),
            cheapest(&totals),
            "{name}: {again:?}, {totals:?}"
        );
        assert_eq!(cheapest(&again), names.len() - 1, "{name}");
        let saved = |energies: &[f64]| energies[0] - energies[names.len() - 1];
        let ratio = saved(&again) / saved(&totals);
        assert!(
            (0.95..1.05).contains(&ratio),
            "{name}: replay says that {deepest} saves {} J, sim says {}",
            saved(&again),
            saved(&totals)
        );

        // The oracle takes it, too, and wastes nothing. Between two steps of RCU's grace-period thread, a CPU is idle for less
        // time than the state takes to pay: for those periods the oracle is right to take another.
        let mut without_rcu = whole.clone();
        without_rcu.rcu = None;
        let recording = path("without-rcu");
        simulate(&only(&without_rcu, deepest), &recording);
        let oracle = &replayed(&whole, &recording, "oracle").policies[1];
        let shallower = oracle.states.iter().rev().skip(1);
        let counts: u64 = shallower.map(|state| state.count).sum();
        let deep = oracle.states.last().unwrap().count;
        assert!(counts * 20 < deep, "{name}: {counts} of {deep}");
    }
}
