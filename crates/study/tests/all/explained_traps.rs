//! Simulated recordings (`sim --record`) with one trap each, explained, beside what the simulator knows.
//!
//! In each the plain difference between requests that met the deep state and requests that met the shallow one is wrong by more than
//! 20 %. The answer is within 10 % of the true exit, or says that it does not separate the state.
//!
//! An SMT sibling that keeps its core awake, and a CPU that keeps its cluster awake, are traps of their own.
//! `crates/explain/tests/truth.rs` has made-up events with siblings, and with an interrupted CPU that hands completions to another
//! one.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::Path;

use wakepath_explain::{
    Collector, ExitCost, ExitEstimate, MetState, RequestKind, TracedRequest, Unseparated,
    explain_requests,
};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{C1Demotion, Figure, Package, PowerScope, Scope};
use wakepath_sim::{Attribution, simulate_observed};
use wakepath_study::recorder::{FollowedTasks, Recorder, describe_machine};
use wakepath_trace::recording::{Overwrite, Reader, Writer};
use wakepath_workloads::{Workload, fio};

/// C1E and C6 in the machine's table.
const SHALLOW: u8 = 2;
const DEEP: usize = 3;
/// True exits from these states, in ns.
const SHALLOW_EXIT_NS: f64 = 10_000.0;
const DEEP_EXIT_NS: f64 = 133_000.0;
/// What the deep state costs more.
const TRUE_COST_NS: f64 = DEEP_EXIT_NS - SHALLOW_EXIT_NS;

/// Reads at random times, one after the other: a governor that learns from the last waits chooses now this state, now that one.
const READS: &str = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nbs=4k\nrate_iops=1000\n\
    rate_process=poisson\ncpus_allowed=0\ntime_based\nruntime=30\n";
/// A task that works for 10 ms and sleeps for 10 ms on the other CPU. Its writes are another kind of requests.
const BUSY_NEIGHBOUR: &str = "[busy]\nfilename=/dev/nvme0n1\nrw=randwrite\ndirect=1\nbs=64k\nthinktime=20000\n\
    thinktime_spin=10000\ncpus_allowed=1\ntime_based\nruntime=30\n";

/// The laboratory's machine with C6 as its deepest state, without CPUs that take turns and other tasks, and with a drive that
/// takes 80 us, give or take 40 %.
fn quiet_machine(changes: &[(&str, &str)]) -> Machine {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../rig/laboratory/debian-6.12.toml");
    let whole = std::fs::read_to_string(file).unwrap();
    let (quiet, _) = whole.split_once("[emulator]").unwrap();
    let mut text = quiet.to_owned();
    for (from, to) in [("\nspread = 0\n", "\nspread = 0.4\n")]
        .iter()
        .chain(changes)
    {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    let mut machine = Machine::parse(&text, "quiet.toml").unwrap();
    machine.idle_state.truncate(DEEP + 1);
    machine
}

/// A simulated run, and what `explain` says of its recording.
struct ExplainedRun {
    /// Mean parts of all requests, in us, as the simulator knows.
    attribution: Attribution,
    /// The reads.
    requests: Vec<TracedRequest>,
    kind: RequestKind,
}

impl ExplainedRun {
    fn new(machine: &Machine, job: &str, policies: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("run.parquet");
        let workload: Workload = fio::parse(job, "job.fio").unwrap().into();
        let metadata = describe_machine(machine).unwrap();
        let writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
        let mut recorder =
            Recorder::new(writer, machine, &workload, FollowedTasks::WithIo, || false);
        let policies = policies.parse().unwrap();
        let run = simulate_observed(machine, &workload, &policies, 1, &mut recorder).unwrap();
        recorder.finish_recording().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        let mut collector = Collector::new(reader.metadata());
        collector.collect_recording(&mut reader).unwrap();
        let mut collected = collector.finish();
        let kinds = explain_requests(&collected, reader.metadata()).kinds;
        collected.requests.retain(|request| !request.write);
        Self {
            attribution: run.attribution.mean,
            requests: collected.requests,
            kind: kinds.into_iter().find(|kind| !kind.write).unwrap(),
        }
    }

    /// The difference between mean times of requests that met the deep and the shallow state.
    fn plain_difference_ns(&self, time_ns: impl Fn(&TracedRequest) -> u64) -> f64 {
        let mean_ns = |state: u8| {
            let met = self.requests.iter();
            let met = met.filter(|request| request.met == MetState::State(state));
            let times: Vec<f64> = met.map(|request| time_ns(request) as f64).collect();
            assert!(times.len() > 1_000, "{} met state {state}", times.len());
            times.iter().sum::<f64>() / times.len() as f64
        };
        mean_ns(DEEP as u8) - mean_ns(SHALLOW)
    }

    fn assert_plain_difference_misleads(&self, time_ns: impl Fn(&TracedRequest) -> u64) {
        let plain = self.plain_difference_ns(time_ns);
        assert!(
            (plain - TRUE_COST_NS).abs() > 0.2 * TRUE_COST_NS,
            "{plain} ns of {TRUE_COST_NS}"
        );
    }

    /// What the split says of the deep state.
    fn deep(&self) -> ExitCost {
        assert_eq!(self.kind.split.reference, Some(SHALLOW));
        let mut states = self.kind.split.states.iter();
        *states.find(|cost| usize::from(cost.state) == DEEP).unwrap()
    }

    /// The exit comes out within 10 %, and so does the simulator's own sum of exits in the mean.
    fn assert_exit_is_found(&self) {
        let cost = self.deep().cost.unwrap();
        assert_within_tenth("exit", cost.mean_ns, TRUE_COST_NS);
        let charged = self.kind.split.charged.unwrap().mean_ns + SHALLOW_EXIT_NS;
        let of_tasks = self.kind.wait.unwrap().task_exit_ns;
        // The IPI to a task's CPU is delivery in the simulator, and here a part of that CPU's exit.
        let all = self.attribution.idle_exit * 1e3;
        assert_within_tenth("exits in the mean", charged + of_tasks, all);
    }
}

fn assert_within_tenth(what: &str, found_ns: f64, true_ns: f64) {
    assert!(
        (found_ns - true_ns).abs() < 0.1 * true_ns,
        "{what}: {found_ns} ns of {true_ns}"
    );
}

fn drive_state(asleep: bool, exit_us: u32) -> String {
    format!(
        "\n[[drive.declared.states]]\nmax_power_uw = 3000\nnon_operational = {asleep}\nentry_latency_us = 0\n\
         exit_latency_us = {exit_us}\nread_throughput_rank = 0\nread_latency_rank = 0\nwrite_throughput_rank = 0\n\
         write_latency_rank = 0\n"
    )
}

#[test]
fn a_drive_whose_sleep_deepens_with_the_gap_is_not_taken_for_an_exit() {
    let source = "source = \"rig/drive\"\n";
    let declared = format!(
        "{source}\n[drive.declared]\nmodel = 'drive'\nfirmware = '1'\nvendor_id = 1\nnpss = 2\nsource = 's'\n{}{}{}",
        drive_state(false, 0),
        drive_state(true, 200),
        drive_state(true, 800),
    );
    let machine = quiet_machine(&[(source, &declared)]);
    let apst = "apst[primary_timeout_ms=1,secondary_timeout_ms=3,primary_tolerance_us=400]";
    let job = READS.replace("rate_iops=1000", "rate_iops=600");
    let run = ExplainedRun::new(&machine, &job, &format!("menu + performance + {apst}"));
    assert!(run.attribution.drive_wake > 50.0, "{:?}", run.attribution);
    run.assert_plain_difference_misleads(|request| request.latency);
    run.assert_exit_is_found();
}

/// Two threads of one core. While the writer works, the reader's requests for C6 leave the core in C1.
#[test]
fn an_smt_sibling_that_keeps_its_core_awake_does_not_make_the_deep_state_cheap() {
    let mut machine = quiet_machine(&[]);
    machine.cluster[0].threads_per_core = 2;
    machine.cluster[0].threads_sleep_together = true;
    machine.check().unwrap();
    let job = format!("{READS}{BUSY_NEIGHBOUR}");
    let run = ExplainedRun::new(&machine, &job, "menu + performance");
    let beside_running = run.kind.sibling_ran;
    assert!(beside_running > 1_000, "{beside_running}");
    run.assert_plain_difference_misleads(|request| request.latency);
    let deep = run.deep();
    assert_within_tenth("exit", deep.cost.unwrap().mean_ns, TRUE_COST_NS);
    // Threads that sleep each for itself are no trap: the writer's core does not matter.
    machine.cluster[0].threads_sleep_together = false;
    let apart = ExplainedRun::new(&machine, &job, "menu + performance");
    assert_eq!(apart.kind.sibling_ran, 0);
    let plain = apart.plain_difference_ns(|request| request.latency);
    assert_within_tenth("plain difference", plain, TRUE_COST_NS);
}

#[test]
fn a_cpu_that_keeps_its_cluster_awake_does_not_make_the_deep_state_cheap() {
    let mut machine = quiet_machine(&[]);
    machine.idle_state[DEEP].scope = Scope::Cluster;
    let job = format!("{READS}{BUSY_NEIGHBOUR}");
    let run = ExplainedRun::new(&machine, &job, "menu + performance");
    run.assert_plain_difference_misleads(|request| request.latency);
    let deep = run.deep();
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::VariesWithOtherCpus))
    );
    // Beside a CPU that runs, the cluster stays up, and the core waits in the shallow state.
    let ExitEstimate { mean_ns, .. } = deep.while_others_ran.unwrap();
    assert!(mean_ns.abs() < 0.02 * TRUE_COST_NS, "{mean_ns}");
    let beside_sleeping = deep.while_others_slept.unwrap();
    assert_within_tenth("exit", beside_sleeping.mean_ns, TRUE_COST_NS);
}

#[test]
fn a_package_that_sleeps_with_the_deep_state_is_told_apart_from_it() {
    const PACKAGE_EXIT_US: f64 = 120.0;
    let nothing = || Figure::covered_by_table_source(0.0);
    let mut machine = quiet_machine(&[]);
    machine.package = Some(Package {
        scope: PowerScope::default(),
        idle_mw: nothing(),
        active_mw: nothing(),
        hysteresis_us: nothing(),
        entry_us: nothing(),
        exit_us: Figure::covered_by_table_source(PACKAGE_EXIT_US),
        source: "the trap".to_owned(),
    });
    let job = format!("{READS}{BUSY_NEIGHBOUR}");
    let run = ExplainedRun::new(&machine, &job, "menu + performance");
    run.assert_plain_difference_misleads(|request| request.latency);
    let deep = run.deep();
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::VariesWithOtherCpus))
    );
    let beside_running = deep.while_others_ran.unwrap();
    assert_within_tenth("exit", beside_running.mean_ns, TRUE_COST_NS);
    let beside_sleeping = deep.while_others_slept.unwrap();
    let both = TRUE_COST_NS + PACKAGE_EXIT_US * 1e3;
    assert_within_tenth("exit and package", beside_sleeping.mean_ns, both);
}

#[test]
fn hardware_that_demotes_the_deep_state_is_found_by_gaps() {
    let mut machine = quiet_machine(&[]);
    machine.c1_demotion = Some(C1Demotion {
        to: "C1".to_owned(),
        states: vec!["C6".to_owned()],
        wake_ups: Figure::covered_by_table_source(4.0),
        within_us: Figure::covered_by_table_source(2_000.0),
        undemote_us: Figure::covered_by_table_source(0.0),
        source: "the trap".to_owned(),
    });
    let run = ExplainedRun::new(&machine, READS, "menu + performance");
    run.assert_plain_difference_misleads(|request| request.latency);
    let deep = run.deep();
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::VariesWithGap))
    );
}

#[test]
fn a_tick_that_lets_the_governor_choose_deeper_does_not_make_the_deep_state_slow() {
    let machine = quiet_machine(&[
        ("read_service_us = 80", "read_service_us = 300"),
        ("spread = 0.4", "spread = 0.6"),
        ("hz = { value = 250", "hz = { value = 1000"),
    ]);
    let job = READS.replace("rate_iops=1000", "rate_iops=1500");
    let run = ExplainedRun::new(&machine, &job, "menu + performance");
    assert!(run.kind.chosen_anew > 1_000, "{}", run.kind.chosen_anew);
    run.assert_plain_difference_misleads(|request| request.latency);
    run.assert_exit_is_found();
}

/// The task's CPU often sleeps as deeply as the interrupted CPU, and its exit follows.
#[test]
fn the_exit_of_the_tasks_cpu_is_not_charged_to_the_cpu_that_takes_all_interrupts() {
    let machine = quiet_machine(&[("completion = {", "completion = { cpu = 1, ")]);
    let run = ExplainedRun::new(&machine, READS, "ladder + performance");
    assert!(run.requests.iter().all(|request| request.cpu == 1));
    run.assert_plain_difference_misleads(|request| request.task_wait_ns().unwrap_or(0));
    run.assert_exit_is_found();
}

/// The handler behind the deep state takes 40 us longer. The exit is not charged with that, and the drive is not shortened by it.
#[test]
fn cold_caches_behind_the_deep_state_are_no_part_of_exit_or_drive() {
    const COLD_NS: f64 = 40_000.0;
    let mut machine = quiet_machine(&[]);
    machine.idle_state[DEEP].cold_start_kcycles = Figure::covered_by_table_source(40.0);
    let run = ExplainedRun::new(&machine, READS, "menu + performance");
    run.assert_plain_difference_misleads(|request| request.latency);
    let deep = run.deep();
    assert_within_tenth("exit", deep.cost.unwrap().mean_ns, TRUE_COST_NS);
    assert_within_tenth("cold caches", deep.handler_ns.unwrap(), COLD_NS);
    let drive_and_exit = run.attribution.drive_service * 1e3 + SHALLOW_EXIT_NS;
    let found = run.kind.rest_ns.unwrap();
    assert!(
        (found - drive_and_exit).abs() < 0.02 * drive_and_exit,
        "drive and C1E: {found} ns of {drive_and_exit}"
    );
    let charged = run.kind.split.charged.unwrap().mean_ns;
    let begun = run.kind.begun_exits.unwrap().mean_ns;
    let sum = found + charged + begun + run.kind.parts.interrupt_ns;
    let latency = run.kind.parts.latency_ns;
    assert!((sum - latency).abs() < 1.0, "{sum} ns of {latency}");
}
