//! Recordings whose truth is known, and what comes out of them.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_explain::{
    Collector, Coverage, ExitCost, ExitEstimate, GoesWith, MetState, NeighbourState, Remedy, Split,
    TracedRequest, Unseparated, explain_requests, split_drive_from_exits,
};
use wakepath_trace::recording::{
    Block, ClockCycles, Event, EventKind, IdlePeriod, Interrupt, Metadata, OpenIdlePeriod,
    TimerKind,
};
use wakepath_units::Nanoseconds;

const SHALLOW: u8 = 1;
const DEEP: u8 = 2;
const SHALLOW_EXIT: u64 = 4_000;
const DEEP_EXIT: u64 = 100_000;
/// What the deep state costs more.
const TRUE_COST: f64 = 96_000.0;

/// What may fool a comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Trap {
    None,
    /// The drive sleeps after 300 us, and the governor chooses by gap with errors.
    DriveSleeps,
    /// The drive's sleep deepens with the gap from 200 us on, and the governor chooses by gap with errors.
    SleepGrows,
    /// The governor chooses by gap alone.
    GapDecides,
    /// A tick ends shallow periods after 150 us, and the governor chooses the deep state.
    Tick,
    /// A timer ends the deep period 20 us before the drive's interrupt, one time in three.
    Timer,
    /// States say nothing of their exits.
    Shuffled,
    /// At gaps above 283 us, the package sleeps with the deep state, and takes 90 us more.
    PackageSleeps,
    /// At gaps below 283 us, hardware makes the shallow state of the deep one.
    Demoted,
    /// A busy drive, where requests wait for each other, and the CPU sleeps deeply when they wait least.
    Loaded,
    /// Every other time the CPU runs at a quarter of its clock, and then mostly chose the deep state.
    SlowClock,
    /// Every other time an SMT sibling runs, so that the core stays shallow.
    SiblingRuns,
    /// The deep state lets caches go cold, so that the handler behind it takes 40 us longer.
    ColdCaches,
}

/// Whether the CPU leaves its state before or after it handles the interrupt.
#[derive(Clone, Copy, PartialEq)]
enum Order {
    ExitFirst,
    InterruptFirst,
}

fn event(time: u64, cpu: u32, kind: EventKind) -> Event {
    let time = Nanoseconds(time);
    Event { time, cpu, kind }
}

fn idle(entry: u64, exit: u64, state: u8) -> Event {
    let period = IdlePeriod {
        state,
        duration: Nanoseconds(exit - entry),
        ..IdlePeriod::default()
    };
    event(exit, 0, EventKind::Idle(period))
}

fn block(sector: u64) -> Block {
    Block {
        device: 259 << 20,
        sector,
        bytes: 4096,
        write: false,
    }
}

/// A task that reads, thinks, and reads again on one CPU.
fn record(seed: u64, number: u64, trap: Trap, order: Order) -> Vec<Event> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let spread = LogNormal::new(0.0, 0.4).unwrap();
    let mut events = Vec::new();
    let mut now = 1_000_000;
    for sector in 0..number {
        let gap = (100_000.0 * f64::exp2(random.random_range(0.0..3.0))) as u64;
        let issued = now + gap;
        events.push(event(issued, 0, EventKind::BlockIssue(block(sector))));
        let tail = if random.random_bool(0.005) {
            2_000_000
        } else {
            0
        };
        let asleep = match trap {
            Trap::DriveSleeps if gap > 300_000 => 80_000,
            // Up to 180 us at the longest gap.
            Trap::SleepGrows => gap.saturating_sub(200_000) * 3 / 10,
            _ => 0,
        };
        let drive = (80_000.0 * spread.sample(&mut random)) as u64 + tail + asleep;
        let slow = trap == Trap::SlowClock && random.random_bool(0.5);
        let chance = match trap {
            Trap::DriveSleeps | Trap::SleepGrows if gap > 300_000 => 0.8,
            Trap::SlowClock if slow => 0.8,
            Trap::DriveSleeps | Trap::SleepGrows | Trap::SlowClock => 0.2,
            Trap::GapDecides => f64::from(u8::from(gap > 283_000)),
            _ => 0.5,
        };
        let mut state = if random.random_bool(chance) {
            DEEP
        } else {
            SHALLOW
        };
        let mut entry = issued + 1_000;
        let arrives = issued + drive.max(5_000);
        let mut awake_from = None;
        if trap == Trap::Tick && state == SHALLOW && arrives > entry + 150_000 {
            let tick = entry + 150_000;
            events.push(idle(entry, tick, SHALLOW));
            events.push(event(tick + 500, 0, EventKind::Timer(TimerKind::Tick)));
            (state, entry) = (DEEP, tick + 2_000);
        } else if trap == Trap::Timer && state == DEEP && random.random_bool(0.33) {
            awake_from = Some(arrives.saturating_sub(20_000).max(entry + 1_000));
        }
        let waits = trap == Trap::Loaded && state == SHALLOW;
        let arrives = arrives + if waits { 250_000 } else { 0 };
        let sibling_runs = trap == Trap::SiblingRuns && random.random_bool(0.5);
        let exit_time = match (state, trap) {
            (DEEP, Trap::PackageSleeps) if gap > 283_000 => DEEP_EXIT + 90_000,
            (DEEP, Trap::Demoted) if gap < 283_000 => SHALLOW_EXIT,
            (DEEP, Trap::SiblingRuns) if sibling_runs => SHALLOW_EXIT,
            (DEEP, trap) if trap != Trap::Shuffled => DEEP_EXIT,
            _ => SHALLOW_EXIT,
        };
        let entry = entry.min(arrives - 1);
        let woken = match awake_from {
            Some(timer) => arrives.max(timer + exit_time),
            None => arrives + exit_time,
        };
        let cold = trap == Trap::ColdCaches && state == DEEP;
        let completed = woken + if slow || cold { 42_000 } else { 2_000 };
        if trap == Trap::SlowClock {
            let elapsed = completed - woken;
            let clock = ClockCycles {
                elapsed: Nanoseconds(elapsed),
                cycles: elapsed * if slow { 8 } else { 32 } / 10,
                reference: elapsed * 24 / 10,
            };
            events.push(event(completed + 100, 0, EventKind::Clock(clock)));
        }
        let complete = event(completed, 0, EventKind::BlockComplete(block(sector)));
        let wake = EventKind::Wake {
            target: 0,
            iowait: Some(true),
        };
        let wake = event(completed + 700, 0, wake);
        if awake_from.is_some() {
            let left = woken - 1_000;
            events.push(idle(entry, left, state));
            events.push(event(
                left + 300,
                0,
                EventKind::Timer(TimerKind::HighResolution),
            ));
        }
        match (order, awake_from) {
            (_, Some(_)) => events.extend([complete, wake]),
            (Order::ExitFirst, None) => events.extend([idle(entry, woken, state), complete, wake]),
            (Order::InterruptFirst, None) => {
                events.extend([complete, wake, idle(entry, completed + 1_500, state)]);
            }
        }
        if trap == Trap::SiblingRuns {
            // The sibling sleeps around the whole request, or wakes up before the interrupt.
            let slept_until = if sibling_runs {
                issued + 500
            } else {
                completed + 2_000
            };
            let period = IdlePeriod {
                state: DEEP,
                duration: Nanoseconds(slept_until - now),
                ..IdlePeriod::default()
            };
            events.push(event(slept_until, 1, EventKind::Idle(period)));
        }
        now = completed + 3_000;
    }
    events
}

fn collect(events: &[Event]) -> Vec<TracedRequest> {
    // Unless the sibling has events, it sleeps from before the start until after the end.
    let asleep = OpenIdlePeriod {
        cpu: 1,
        state: DEEP,
        since_ns: 0,
    };
    let mut collector = Collector::new(&Metadata {
        siblings: vec![vec![0, 1]],
        idle_at_end: Some(vec![asleep]),
        ..Metadata::default()
    });
    for event in events {
        collector.push_event(event);
    }
    collector.finish().requests
}

fn split_of_recording(events: &[Event]) -> Split {
    let requests = collect(events);
    split_drive_from_exits(&requests.iter().collect::<Vec<_>>())
}

fn deep(split: &Split) -> ExitCost {
    *split.states.iter().find(|s| s.state == DEEP).unwrap()
}

/// The difference of means by the state met.
fn plain_difference(requests: &[TracedRequest]) -> f64 {
    let mean = |state: u8| {
        let met = requests
            .iter()
            .filter(|r| r.periods > 0 && last_state(r) == Some(state));
        let latencies: Vec<f64> = met.map(|r| r.latency as f64).collect();
        latencies.iter().sum::<f64>() / latencies.len() as f64
    };
    mean(DEEP) - mean(SHALLOW)
}

fn last_state(request: &TracedRequest) -> Option<u8> {
    match request.met {
        MetState::State(state) => Some(state),
        _ => None,
    }
}

#[test]
fn parts_add_up_to_the_nanosecond_in_either_order() {
    for order in [Order::ExitFirst, Order::InterruptFirst] {
        let requests = collect(&record(1, 2_000, Trap::Tick, order));
        assert_eq!(requests.len(), 2_000);
        for request in requests {
            assert_eq!(request.out + request.interrupt, request.latency);
            let wake = request.wake.unwrap();
            assert_eq!((wake.hand_over, wake.run_queue), (700, None));
            let interrupt = if order == Order::ExitFirst { 2_000 } else { 0 };
            assert_eq!(request.interrupt, interrupt, "{request:?}");
            let exit = if order == Order::ExitFirst { 0 } else { 800 };
            assert_eq!(wake.exit, exit);
        }
    }
}

#[test]
fn a_known_exit_is_found_in_either_order() {
    for order in [Order::ExitFirst, Order::InterruptFirst] {
        let split = split_of_recording(&record(2, 20_000, Trap::None, order));
        assert_eq!(split.reference, Some(SHALLOW));
        let cost = deep(&split).cost.unwrap();
        assert!(
            (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
            "{cost:?}"
        );
        assert!(
            cost.low_ns < TRUE_COST && TRUE_COST < cost.high_ns,
            "{cost:?}"
        );
    }
}

#[test]
fn what_misleads_a_plain_difference_does_not_mislead_the_split() {
    for trap in [
        Trap::DriveSleeps,
        Trap::SleepGrows,
        Trap::Tick,
        Trap::SlowClock,
    ] {
        let events = record(3, 30_000, trap, Order::ExitFirst);
        let plain = plain_difference(&collect(&events));
        assert!(
            (plain - TRUE_COST).abs() > 0.2 * TRUE_COST,
            "{trap:?}: {plain}"
        );
        let cost = deep(&split_of_recording(&events)).cost.unwrap();
        assert!(
            (cost.mean_ns - TRUE_COST).abs() < 0.1 * TRUE_COST,
            "{trap:?}: {cost:?}"
        );
    }
}

#[test]
fn cold_caches_behind_the_deep_state_belong_to_the_handler() {
    let mut collector = Collector::default();
    let events = record(13, 20_000, Trap::ColdCaches, Order::ExitFirst);
    for event in &events {
        collector.push_event(event);
    }
    let collected = collector.finish();
    let explanation = explain_requests(&collected, &Metadata::default());
    let kind = &explanation.kinds[0];
    let deep = deep(&kind.split);
    let cost = deep.cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.02 * TRUE_COST,
        "{cost:?}"
    );
    let handler_ns = deep.handler_ns.unwrap();
    assert!((handler_ns - 40_000.0).abs() < 1.0, "{handler_ns}");
    // Without exits, `out` is the drive's.
    let drive = collected.requests.iter().map(|request| {
        let exit = match request.met {
            MetState::State(DEEP) => TRUE_COST,
            _ => 0.0,
        };
        request.out as f64 - exit
    });
    let drive = drive.sum::<f64>() / collected.requests.len() as f64;
    let found = kind.rest_ns.unwrap();
    assert!(
        (found - drive).abs() < 0.02 * drive,
        "{found} of {drive} ns"
    );
    let charged = kind.split.charged.unwrap().mean_ns;
    let sum = found + charged + kind.parts.interrupt_ns;
    assert!((sum - kind.parts.latency_ns).abs() < 1.0, "{sum} ns");
    // A CPU that stays shallow saves what its caches cost, too.
    let saved = kind.help.iter();
    let saved = saved.filter(|help| help.remedy == Remedy::ShallowStates);
    let most = saved.map(|help| help.high_ns).sum::<f64>();
    let share = kind.share_of_requests(deep.met);
    assert!(
        (most - share * (cost.high_ns + handler_ns)).abs() < 1.0,
        "{most}"
    );
}

#[test]
fn a_sibling_that_runs_does_not_make_the_deep_state_cheap() {
    let events = record(9, 30_000, Trap::SiblingRuns, Order::ExitFirst);
    let requests = collect(&events);
    let plain = plain_difference(&requests);
    assert!((plain - TRUE_COST).abs() > 0.2 * TRUE_COST, "{plain}");
    let held = requests
        .iter()
        .filter(|r| r.sibling == NeighbourState::Running);
    assert!(held.count() > 10_000);
    let cost = deep(&split_of_recording(&events)).cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.1 * TRUE_COST,
        "{cost:?}"
    );
}

#[test]
fn what_costs_something_else_at_long_gaps_is_not_one_cost() {
    for trap in [Trap::PackageSleeps, Trap::Demoted] {
        let events = record(10, 20_000, trap, Order::ExitFirst);
        let plain = plain_difference(&collect(&events));
        assert!(
            (plain - TRUE_COST).abs() > 0.2 * TRUE_COST,
            "{trap:?}: {plain}"
        );
        let deep = deep(&split_of_recording(&events));
        assert_eq!(
            (deep.cost, deep.reason),
            (None, Some(Unseparated::VariesWithGap)),
            "{trap:?}"
        );
    }
}

#[test]
fn a_deep_state_that_seems_cheaper_than_a_shallow_one_is_not_believed() {
    let events = record(12, 20_000, Trap::Loaded, Order::ExitFirst);
    let deep = deep(&split_of_recording(&events));
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::GoesWithLoad))
    );
}

#[test]
fn quantiles_of_an_exit_that_is_always_the_same_are_its_cost() {
    let split = split_of_recording(&record(2, 20_000, Trap::None, Order::ExitFirst));
    let [p50, p90, _] = deep(&split).quantiles;
    for quantile in [p50.unwrap(), p90.unwrap()] {
        let cost = quantile.difference_ns;
        assert!((cost - TRUE_COST).abs() < 0.05 * TRUE_COST, "{quantile:?}");
        assert!(
            quantile.low_ns < TRUE_COST && TRUE_COST < quantile.high_ns,
            "{quantile:?}"
        );
        assert!(
            quantile.high_ns - quantile.low_ns < 0.3 * TRUE_COST,
            "{quantile:?}"
        );
    }
    // Too few requests lie beyond the 99th percentile of 1,500.
    let short = split_of_recording(&record(2, 1_500, Trap::None, Order::ExitFirst));
    let [first, _, last] = deep(&short).quantiles;
    assert!(first.is_some() && last.is_none(), "{first:?} {last:?}");
    // Long requests meet the deep state more often there, so that quantiles would lie.
    let events = record(3, 20_000, Trap::Tick, Order::ExitFirst);
    assert_eq!(deep(&split_of_recording(&events)).quantiles, [None; 3]);
}

/// CPU 2 takes all interrupts and hands completions to CPU 0, which sleeps, too.
fn record_one_interrupted_cpu(seed: u64, number: u64) -> Vec<Event> {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let spread = LogNormal::new(0.0, 0.4).unwrap();
    let exits = [SHALLOW_EXIT, DEEP_EXIT];
    let mut events = Vec::new();
    let mut now = 1_000_000;
    for sector in 0..number {
        let issued = now + (100_000.0 * f64::exp2(random.random_range(0.0..3.0))) as u64;
        let arrives = issued + (80_000.0 * spread.sample(&mut random)) as u64 + 5_000;
        // Both often sleep alike.
        let interrupted = usize::from(random.random_bool(0.5));
        let other = if random.random_bool(0.8) {
            interrupted
        } else {
            1 - interrupted
        };
        let left = arrives + exits[interrupted];
        let sent = left + 1_500;
        let completing = sent + exits[other];
        let period = IdlePeriod {
            state: interrupted as u8 + SHALLOW,
            duration: Nanoseconds(left - issued + 2_000),
            ..IdlePeriod::default()
        };
        let interrupt = |time, cpu, kind| event(time, cpu, EventKind::Interrupt(kind));
        events.extend([
            event(issued, 0, EventKind::BlockIssue(block(sector))),
            event(left, 2, EventKind::Idle(period)),
            interrupt(left + 500, 2, Interrupt::Device { irq: 36 }),
            interrupt(sent, 2, Interrupt::Sent { target: 0 }),
            idle(issued + 1_000, completing, other as u8 + SHALLOW),
            interrupt(completing + 300, 0, Interrupt::CallFunction),
            event(
                completing + 1_000,
                0,
                EventKind::BlockComplete(block(sector)),
            ),
        ]);
        now = completing + 5_000;
    }
    events
}

#[test]
fn the_exit_of_the_completing_cpu_is_not_charged_to_the_interrupted_one() {
    let events = record_one_interrupted_cpu(11, 20_000);
    let requests = collect(&events);
    assert!(requests.iter().all(|r| r.cpu == 2 && r.remote.is_some()));
    let plain = plain_difference(&requests);
    assert!((plain - TRUE_COST).abs() > 0.2 * TRUE_COST, "{plain}");
    let cost = deep(&split_of_recording(&events)).cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
        "{cost:?}"
    );
}

#[test]
fn a_rare_state_does_not_hide_what_others_cost() {
    let mut requests = collect(&record(8, 20_000, Trap::None, Order::ExitFirst));
    // Ten in a row, at one gap: most resamples lack them.
    let gap = requests[100].gap;
    for request in &mut requests[100..110] {
        (request.gap, request.first) = (gap, Some(3));
        request.met = MetState::State(3);
    }
    // The state shares its gaps with another one.
    for (request, extra) in requests[120..136].iter_mut().zip(0..) {
        request.gap = gap;
        let state = if extra % 2 == 0 { SHALLOW } else { DEEP };
        (request.first, request.met) = (Some(state), MetState::State(state));
    }
    let split = split_drive_from_exits(&requests.iter().collect::<Vec<_>>());
    let cost = deep(&split).cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
        "{cost:?}"
    );
    let rare = split.states.iter().find(|s| s.state == 3).unwrap();
    assert_eq!((rare.met, rare.cost), (10, None));
    assert_eq!(rare.reason, Some(Unseparated::TooFew));
}

#[test]
fn a_state_that_the_gap_decides_is_not_separated() {
    let split = split_of_recording(&record(4, 20_000, Trap::GapDecides, Order::ExitFirst));
    assert_eq!(split.reference, None);
    let deep = deep(&split);
    assert_eq!(
        (deep.cost, deep.reason),
        (None, Some(Unseparated::GoesWithGap))
    );
    let gap_alone = GoesWith {
        gap: true,
        depth: false,
        clock: false,
        other_cpus: false,
    };
    assert_eq!(deep.goes_with, Some(gap_alone));
}

#[test]
fn what_goes_with_a_state_is_named() {
    let mut requests = collect(&record(14, 4_000, Trap::None, Order::ExitFirst));
    for request in &mut requests {
        let is_deep = request.first == Some(DEEP);
        request.in_flight = u32::from(is_deep);
        request.khz = if is_deep { 1_000_000 } else { 2_000_000 };
    }
    let split = split_drive_from_exits(&requests.iter().collect::<Vec<_>>());
    let depth_and_clock = GoesWith {
        gap: false,
        depth: true,
        clock: true,
        other_cpus: false,
    };
    assert_eq!(deep(&split).goes_with, Some(depth_and_clock));
    // With a known cost, nothing goes with the state.
    let split = split_of_recording(&record(14, 4_000, Trap::None, Order::ExitFirst));
    assert_eq!((deep(&split).reason, deep(&split).goes_with), (None, None));
}

#[test]
fn what_cannot_be_parted_is_told_as_a_sum() {
    // The state alone goes with the gap, and then package sleep goes with the state.
    for (trap, lowest, highest) in [
        (Trap::GapDecides, TRUE_COST, TRUE_COST),
        (Trap::PackageSleeps, TRUE_COST, TRUE_COST + 90_000.0),
    ] {
        let split = split_of_recording(&record(4, 20_000, trap, Order::ExitFirst));
        let sum = deep(&split).together.unwrap();
        assert_eq!(sum.above, SHALLOW, "{trap:?}");
        let ExitEstimate {
            low_ns, high_ns, ..
        } = sum.estimate;
        assert!(low_ns <= highest && lowest <= high_ns, "{trap:?}: {sum:?}");
        assert!(high_ns - low_ns < 0.2 * TRUE_COST, "{trap:?}: {sum:?}");
    }
    // Where the exit is known, there is no sum.
    let split = split_of_recording(&record(2, 20_000, Trap::None, Order::ExitFirst));
    assert_eq!(deep(&split).together, None);
}

#[test]
fn the_drives_time_has_the_interval_of_the_exits_charged() {
    let mut covered = 0;
    for seed in 400..440 {
        let mut collector = Collector::default();
        for event in record(seed, 1_500, Trap::None, Order::ExitFirst) {
            collector.push_event(&event);
        }
        let collected = collector.finish();
        let explanation = explain_requests(&collected, &Metadata::default());
        let kind = &explanation.kinds[0];
        let exits = collected.requests.iter().map(|r| match r.met {
            MetState::State(DEEP) => TRUE_COST,
            _ => 0.0,
        });
        let exits: f64 = exits.sum::<f64>() / collected.requests.len() as f64;
        let truth = kind.parts.out_ns - exits;
        let [low, high] = kind.rest_interval_ns().unwrap();
        assert!(low < kind.rest_ns.unwrap() && kind.rest_ns.unwrap() < high);
        covered += u32::from(low <= truth && truth <= high);
    }
    assert!(covered >= 34, "{covered} of 40");
}

#[test]
fn the_slowest_requests_say_which_state_they_met() {
    let mut collector = Collector::default();
    for event in record(2, 20_000, Trap::None, Order::ExitFirst) {
        collector.push_event(&event);
    }
    let collected = collector.finish();
    let explanation = explain_requests(&collected, &Metadata::default());
    let kind = &explanation.kinds[0];
    let slow = collected
        .requests
        .iter()
        .filter(|r| r.latency >= kind.p99_ns);
    let deep = slow.clone().filter(|r| r.met == MetState::State(DEEP));
    let slowest = &kind.slowest;
    assert_eq!(slowest.requests, slow.clone().count() as u64);
    assert_eq!(slowest.met[&DEEP], deep.count() as u64);
    // Half of the slow requests met a tail of the drive, whatever the state.
    let share = slowest.met[&DEEP] as f64 / slowest.requests as f64;
    assert!((0.6..0.95).contains(&share), "{slowest:?}");
    assert_eq!(slowest.met.values().sum::<u64>(), slowest.requests);
}

#[test]
fn requests_behind_a_timer_are_charged_with_no_state() {
    let events = record(5, 20_000, Trap::Timer, Order::ExitFirst);
    let requests = collect(&events);
    let leaving = requests
        .iter()
        .filter(|r| matches!(r.met, MetState::Leaving(_)))
        .count();
    assert!((2_800..3_800).contains(&leaving), "{leaving}");
    let cost = deep(&split_of_recording(&events)).cost.unwrap();
    assert!(
        (cost.mean_ns - TRUE_COST).abs() < 0.05 * TRUE_COST,
        "{cost:?}"
    );
}

/// These timers always come 20 us before the interrupt, which no estimate expects. The bounds hold all the same.
#[test]
fn exits_that_a_timer_began_have_bounds_that_hold() {
    let mut collector = Collector::default();
    for event in record(5, 20_000, Trap::Timer, Order::ExitFirst) {
        collector.push_event(&event);
    }
    let collected = collector.finish();
    let explanation = explain_requests(&collected, &Metadata::default());
    let kind = &explanation.kinds[0];
    // Timers come by chance, so that other requests have the same drive.
    let others = collected.requests.iter().filter_map(|r| match r.met {
        MetState::State(DEEP) => Some(r.out as f64 - TRUE_COST),
        MetState::State(_) => Some(r.out as f64),
        _ => None,
    });
    let truth = others.clone().sum::<f64>() / others.count() as f64;
    let (drive, begun) = (kind.rest_ns.unwrap(), kind.begun_exits.unwrap());
    let most = drive + begun.mean_ns;
    assert!(truth + 8_000.0 < most, "{begun:?}");
    assert!(most - begun.highest_ns < truth, "{begun:?}");
    assert_eq!(begun.requests, kind.leaving);
    // Few have a gap that hardly any other request has.
    assert!(begun.estimated + 8 > begun.requests, "{begun:?}");
}

#[test]
fn intervals_cover_the_truth_and_shuffled_states_cost_nothing() {
    let covered = |trap: Trap, truth: f64| {
        let covers = |seed: &u64| {
            let cost = deep(&split_of_recording(&record(
                *seed,
                1_500,
                trap,
                Order::ExitFirst,
            )));
            let cost = cost.cost.unwrap();
            cost.low_ns <= truth && truth <= cost.high_ns
        };
        (100..300).filter(covers).count()
    };
    let found = covered(Trap::None, TRUE_COST);
    assert!(found >= 180, "{found} of 200");
    let nothing = covered(Trap::Shuffled, 0.0);
    assert!(nothing >= 180, "{nothing} of 200");
}

#[test]
fn the_same_recording_gives_the_same_answer() {
    let events = record(6, 3_000, Trap::DriveSleeps, Order::ExitFirst);
    assert_eq!(split_of_recording(&events), split_of_recording(&events));
}

#[test]
fn a_second_completion_of_an_interrupt_is_behind_the_first() {
    let events = [
        event(1_000, 0, EventKind::BlockIssue(block(1))),
        event(1_100, 0, EventKind::BlockIssue(block(2))),
        idle(2_000, 90_000, DEEP),
        event(91_000, 0, EventKind::BlockComplete(block(1))),
        event(91_500, 0, EventKind::BlockComplete(block(2))),
    ];
    let met: Vec<MetState> = collect(&events).iter().map(|r| r.met).collect();
    assert_eq!(met, [MetState::State(DEEP), MetState::Behind(DEEP)]);
}

#[test]
fn any_order_of_events_is_survived() {
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let mut events = record(7, 500, Trap::Tick, Order::ExitFirst);
    events.push(event(0, u32::MAX, EventKind::Lost { count: u64::MAX }));
    events.push(event(
        u64::MAX,
        0,
        EventKind::BlockComplete(block(u64::MAX)),
    ));
    let far = EventKind::Wake {
        target: u32::MAX,
        iowait: None,
    };
    events.push(event(5, 0, far));
    events.push(event(u64::MAX, 3, EventKind::Hotplug { online: false }));
    for _ in 0..50 {
        for place in (1..events.len()).rev() {
            events.swap(place, random.random_range(0..=place));
        }
        let requests = collect(&events);
        assert!(requests.iter().all(|r| r.out + r.interrupt == r.latency));
        _ = split_drive_from_exits(&requests.iter().collect::<Vec<_>>());
    }
}

#[test]
fn lost_events_leave_no_request_that_spans_them() {
    let events = [
        event(1_000, 0, EventKind::BlockIssue(block(1))),
        event(2_000, 1, EventKind::Lost { count: 3 }),
        event(3_000, 0, EventKind::BlockComplete(block(1))),
    ];
    let mut collector = Collector::default();
    for event in &events {
        collector.push_event(event);
    }
    let collected = collector.finish();
    assert!(collected.requests.is_empty());
    let coverage = collected.coverage;
    assert_eq!(
        (coverage.without_issue, coverage.without_completion),
        (1, 1)
    );
}

/// Taking requests while a recording goes on loses none, and none gets other parts.
#[test]
fn requests_taken_meanwhile_are_those_of_the_end() {
    let events = record(4, 20_000, Trap::Tick, Order::InterruptFirst);
    let whole = collect(&events);
    let mut collector = Collector::default();
    let mut taken = Vec::new();
    for piece in events.chunks(997) {
        for event in piece {
            collector.push_event(event);
        }
        let collected = collector.take_settled_requests();
        assert_eq!(collected.coverage.without_issue, 0);
        assert_eq!(collected.coverage.requests, collected.requests.len() as u64);
        taken.extend(collected.requests);
    }
    // Half a second has some hundred requests.
    assert!((18_000..20_000).contains(&taken.len()), "{}", taken.len());
    taken.extend(collector.finish().requests);
    assert_eq!(taken.len(), whole.len());
    for (taken, whole) in taken.iter().zip(&whole) {
        // The whole recording knows the sibling CPU, too.
        assert_eq!(
            TracedRequest {
                sibling: whole.sibling,
                ..*taken
            },
            *whole
        );
    }
}

/// A request that is in flight over many intervals comes once, when it has completed.
#[test]
fn a_request_that_outlasts_intervals_comes_when_it_has_completed() {
    const SECOND: u64 = 1_000_000_000;
    let mut collector = Collector::default();
    collector.push_event(&event(SECOND, 0, EventKind::BlockIssue(block(8))));
    for second in 2..10 {
        let tick = EventKind::Timer(TimerKind::Tick);
        collector.push_event(&event(second * SECOND, 0, tick));
        let collected = collector.take_settled_requests();
        assert_eq!(collected.requests, []);
        assert_eq!(collected.coverage, Coverage::default());
    }
    let completion = EventKind::BlockComplete(block(8));
    collector.push_event(&event(10 * SECOND, 0, completion));
    let mut counted = Vec::new();
    for second in 11..14 {
        let tick = EventKind::Timer(TimerKind::Tick);
        collector.push_event(&event(second * SECOND, 0, tick));
        let collected = collector.take_settled_requests();
        let latencies = collected.requests.iter().map(|request| request.latency);
        counted.push((collected.coverage.requests, latencies.collect::<Vec<_>>()));
    }
    // Events wait to be sorted until a later one has come.
    let once = [(0, vec![]), (1, vec![9 * SECOND]), (0, vec![])];
    assert_eq!(counted, once);
    assert_eq!(collector.finish().coverage, Coverage::default());
}
