//! Exits that depend on other CPUs of the cluster or package, in recordings whose truth is known.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_explain::{
    Collector, ExitCost, MetState, NeighbourState, TracedRequest, Unseparated,
    split_drive_from_exits,
};
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{
    Block, CpuIdleStates, Event, EventKind, IdlePeriod, Metadata, OpenIdlePeriod, TimerKind,
};
use wakepath_units::Nanoseconds;

const POLL: u8 = 0;
const SHALLOW: u8 = 1;
const DEEP: u8 = 2;
const SHALLOW_EXIT: u64 = 4_000;
const DEEP_EXIT: u64 = 100_000;
/// What the deep state costs more.
const TRUE_COST: f64 = 96_000.0;
/// What a request takes longer while the other CPU sleeps.
const PACKAGE_EXIT: u64 = 90_000;

/// What the other CPU's sleep does.
#[derive(Clone, Copy, PartialEq)]
enum Trap {
    /// The package sleeps with the other CPU, and the interrupted CPU mostly deeply then.
    StateGoesWithPackage,
    /// The package sleeps only if both CPUs sleep deeply.
    PackageSleepsWithState,
}

fn event(time: u64, cpu: u32, kind: EventKind) -> Event {
    let time = Nanoseconds(time);
    Event { time, cpu, kind }
}

fn idle(cpu: u32, [entry, exit]: [u64; 2], state: u8) -> Event {
    let period = IdlePeriod {
        state,
        duration: Nanoseconds(exit - entry),
        ..IdlePeriod::default()
    };
    event(exit, cpu, EventKind::Idle(period))
}

/// Reads by CPU 0. CPU 1 sleeps in the deep state around every other request, and else in `awake`, or else runs. CPU 2 has slept
/// from the start, and wakes up at the end.
fn record(seed: u64, number: u64, trap: Trap, awake: Option<u8>) -> Vec<Event> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let spread = LogNormal::new(0.0, 0.4).unwrap();
    let mut events = Vec::new();
    let mut now = 1_000_000;
    for sector in 0..number {
        let block = Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        };
        let issued = now + random.random_range(200_000..210_000);
        let asleep = random.random_bool(0.5);
        let chance = match trap {
            Trap::StateGoesWithPackage if asleep => 0.8,
            Trap::StateGoesWithPackage => 0.2,
            Trap::PackageSleepsWithState => 0.5,
        };
        let (state, exit) = if random.random_bool(chance) {
            (DEEP, DEEP_EXIT)
        } else {
            (SHALLOW, SHALLOW_EXIT)
        };
        let package_slept = asleep && (trap == Trap::StateGoesWithPackage || state == DEEP);
        let drive = (80_000.0 * spread.sample(&mut random)) as u64 + 5_000;
        let woken = issued + drive + exit + if package_slept { PACKAGE_EXIT } else { 0 };
        let completed = woken + 2_000;
        events.push(event(issued, 0, EventKind::BlockIssue(block)));
        events.push(idle(0, [issued + 1_000, woken], state));
        events.push(event(completed, 0, EventKind::BlockComplete(block)));
        let around = [issued - 1_000, completed + 20_000];
        match awake {
            _ if asleep => events.push(idle(1, around, DEEP)),
            Some(state) => events.push(idle(1, around, state)),
            None => events.push(idle(1, [issued - 50_000, issued - 1_000], DEEP)),
        }
        now = completed + 40_000;
    }
    events.push(idle(2, [500_000, now], DEEP));
    events
}

fn state(name: &str) -> IdleState {
    IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds(0),
        target_residency: Nanoseconds(0),
        polling: name == "POLL",
        disabled: false,
    }
}

fn metadata() -> Metadata {
    Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0, 1, 2],
            states: ["POLL", "C1", "C6"].map(state).to_vec(),
        }],
        ..Metadata::default()
    }
}

fn with_package() -> Metadata {
    Metadata {
        packages: vec![vec![0, 1, 2]],
        ..metadata()
    }
}

fn with_cluster() -> Metadata {
    Metadata {
        clusters: vec![vec![0, 1, 2]],
        ..metadata()
    }
}

fn collect(events: &[Event], metadata: &Metadata) -> Vec<TracedRequest> {
    let mut collector = Collector::new(metadata);
    for event in events {
        collector.push_event(event);
    }
    collector.finish().requests
}

fn deep_cost(events: &[Event], metadata: &Metadata) -> ExitCost {
    let requests = collect(events, metadata);
    let split = split_drive_from_exits(&requests.iter().collect::<Vec<_>>());
    *split.states.iter().find(|s| s.state == DEEP).unwrap()
}

#[test]
fn a_package_that_sleeps_when_the_cpu_does_is_not_taken_for_the_exit() {
    for awake in [None, Some(POLL)] {
        let events = record(1, 20_000, Trap::StateGoesWithPackage, awake);
        let misled = deep_cost(&events, &metadata()).cost.unwrap().mean_ns;
        assert!((misled - TRUE_COST).abs() > 0.2 * TRUE_COST, "{misled}");
        for known in [with_package(), with_cluster()] {
            let cost = deep_cost(&events, &known).cost.unwrap();
            let ends = cost.low_ns..cost.high_ns;
            assert!(ends.contains(&TRUE_COST), "{cost:?}");
            assert!(
                (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
                "{cost:?}"
            );
        }
    }
}

/// A CPU in a shallow state keeps a cluster from deeper ones, while both CPUs of a package sleep.
#[test]
fn a_cluster_reaches_the_shallowest_state_of_its_cpus() {
    let events = record(2, 20_000, Trap::StateGoesWithPackage, Some(SHALLOW));
    let misled = deep_cost(&events, &with_package()).cost.unwrap().mean_ns;
    assert!((misled - TRUE_COST).abs() > 0.2 * TRUE_COST, "{misled}");
    let cost = deep_cost(&events, &with_cluster()).cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
        "{cost:?}"
    );
}

#[test]
fn a_package_that_sleeps_with_the_state_alone_gives_two_costs() {
    let events = record(3, 20_000, Trap::PackageSleepsWithState, None);
    let misled = deep_cost(&events, &metadata()).cost.unwrap().mean_ns;
    assert!((misled - TRUE_COST).abs() > 0.2 * TRUE_COST, "{misled}");
    let deep = deep_cost(&events, &with_package());
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::VariesWithOtherCpus))
    );
    for (found, truth) in [
        (deep.while_others_ran, TRUE_COST),
        (deep.while_others_slept, TRUE_COST + PACKAGE_EXIT as f64),
    ] {
        let cost = found.unwrap();
        assert!((cost.mean_ns - truth).abs() < 0.05 * truth, "{cost:?}");
    }
}

#[test]
fn the_shallowest_of_the_other_cpus_counts_and_cpus_that_never_wake_sleep() {
    let number = 200;
    let events = record(4, number, Trap::PackageSleepsWithState, Some(SHALLOW));
    let known = Metadata {
        // CPU 7 slept before the first request, and has not left its state at the end.
        idle_at_end: Some(vec![open(7, 400_000)]),
        clusters: vec![vec![0, 1, 2, 7]],
        packages: vec![vec![0, 7]],
        ..metadata()
    };
    let requests = collect(&events, &known);
    assert_eq!(requests.len() as u64, number);
    let counted = |state| requests.iter().filter(|r| r.cluster == state).count();
    let [shallow, deep] = [SHALLOW, DEEP].map(|state| counted(NeighbourState::Idle(state)));
    assert!(shallow > 50 && deep > 50, "{shallow} and {deep}");
    assert_eq!(shallow + deep, requests.len());
    let asleep = NeighbourState::Idle(DEEP);
    assert!(requests.iter().all(|r| r.package == asleep));
    // Where a recording names no groups, nothing is known of other CPUs.
    let unnamed = collect(&events, &metadata());
    let none = NeighbourState::None;
    assert!(
        unnamed
            .iter()
            .all(|r| (r.cluster, r.package) == (none, none))
    );
}

/// A CPU that works for long has events, but no idle period.
#[test]
fn a_cpu_that_never_sleeps_runs() {
    let mut events = record(5, 200, Trap::PackageSleepsWithState, Some(DEEP));
    let last = events.last().unwrap().time.0;
    let ticks = 0..=last / 4_000_000 + 1;
    events.extend(ticks.map(|n| tick(n * 4_000_000)));
    events.sort_by_key(|event| event.time);
    let known = Metadata {
        packages: vec![vec![0, 3]],
        ..metadata()
    };
    let requests = collect(&events, &known);
    assert!(
        requests
            .iter()
            .all(|r| r.package == NeighbourState::Running)
    );
}

/// CPU 3's tick.
fn tick(time: u64) -> Event {
    event(time, 3, EventKind::Timer(TimerKind::Tick))
}

/// The deep state, entered and not left.
fn open(cpu: u32, since_ns: u64) -> OpenIdlePeriod {
    OpenIdlePeriod {
        cpu,
        state: DEEP,
        since_ns,
    }
}

/// A recording of CPU 3 as sibling and package of CPU 0, with the open idle periods at the end.
fn with_neighbour(idle_at_end: Option<Vec<OpenIdlePeriod>>) -> Metadata {
    Metadata {
        siblings: vec![vec![0, 3]],
        packages: vec![vec![0, 3]],
        idle_at_end,
        ..metadata()
    }
}

/// A CPU of `nohz_full` that runs one task has no tick, and no other event.
#[test]
fn a_cpu_without_events_sleeps_only_if_it_entered_a_state() {
    let requests = record(8, 200, Trap::PackageSleepsWithState, None);
    let before = [idle(3, [300_000, 400_000], DEEP), tick(410_000)];
    let offline = event(420_000, 3, EventKind::Hotplug { online: false });
    let last = requests.last().unwrap().time.0;
    let after = [tick(last + 1)];
    let deep = NeighbourState::Idle(DEEP);
    let cases: [(&[Event], _, &[Event], _); 8] = [
        (&before, Some(vec![]), &[], NeighbourState::Running),
        (&before, None, &[], NeighbourState::Unknown),
        (&before, None, &after, NeighbourState::Running),
        (&before, Some(vec![open(3, 450_000)]), &[], deep),
        (&[], Some(vec![open(3, 450_000)]), &[], deep),
        (
            &[before[0], before[1], offline],
            None,
            &[],
            NeighbourState::Idle(u8::MAX),
        ),
        (&[], Some(vec![]), &[], NeighbourState::Unknown),
        // The CPU was idle, or ran, before its first event.
        (&[], Some(vec![]), &after, NeighbourState::Unknown),
    ];
    for (first, end, then, state) in cases {
        let events = [first, &requests, then].concat();
        let label = format!("{first:?}, {end:?}, {then:?}");
        let found = collect(&events, &with_neighbour(end));
        assert_eq!(found.len(), 200, "{label}");
        for request in &found {
            assert_eq!([request.sibling, request.package], [state; 2], "{label}");
        }
        // Where a sibling may have run, the core may not have slept.
        let split = split_drive_from_exits(&found.iter().collect::<Vec<_>>());
        let slept = matches!(state, NeighbourState::Idle(_));
        let cost = split.states.iter().find(|cost| cost.state == DEEP);
        let is_known = cost.is_some_and(|cost| cost.cost.is_some());
        assert_eq!(is_known, slept, "{label}");
    }
}

/// Live, requests are taken while CPUs sleep on, and others run on.
#[test]
fn requests_taken_meanwhile_know_who_sleeps() {
    let requests = record(9, 8_000, Trap::PackageSleepsWithState, None);
    let seen = [idle(3, [300_000, 400_000], DEEP), tick(410_000)];
    for (asleep, state) in [
        (vec![open(3, 450_000)], NeighbourState::Idle(DEEP)),
        (vec![], NeighbourState::Running),
    ] {
        let mut collector = Collector::new(&with_neighbour(None));
        for event in seen.iter().chain(&requests) {
            collector.push_event(event);
        }
        collector.note_open_idle_periods(&asleep);
        let taken = collector.take_settled_requests().requests;
        assert!(taken.len() > 1_000, "{}", taken.len());
        assert!(taken.iter().all(|r| r.package == state), "{state:?}");
    }
}

/// Taking requests while a recording goes on finds the same, if no idle period lasts for half a second.
#[test]
fn requests_taken_meanwhile_have_the_states_of_the_end() {
    let events = record(6, 20_000, Trap::StateGoesWithPackage, None);
    let known = Metadata {
        packages: vec![vec![0, 1]],
        ..metadata()
    };
    let whole = collect(&events, &known);
    let mut collector = Collector::new(&known);
    let mut taken = Vec::new();
    for piece in events.chunks(997) {
        for event in piece {
            collector.push_event(event);
        }
        taken.extend(collector.take_settled_requests().requests);
    }
    assert!(taken.len() > 15_000, "{}", taken.len());
    taken.extend(collector.finish().requests);
    assert_eq!(taken, whole);
    assert!(whole.iter().any(|r| matches!(r.met, MetState::State(DEEP))));
}

/// Descriptions come from strangers.
#[test]
fn groups_that_make_no_sense_are_survived() {
    let events = record(7, 300, Trap::StateGoesWithPackage, None);
    for groups in [
        vec![Vec::new(), vec![0], vec![0, 0, 0]],
        vec![vec![1, 0], vec![0, 1, 2], vec![u32::MAX, 0]],
        vec![(0..200_000).collect()],
    ] {
        let known = Metadata {
            clusters: groups.clone(),
            packages: groups,
            ..metadata()
        };
        assert_eq!(collect(&events, &known).len(), 300);
    }
}
