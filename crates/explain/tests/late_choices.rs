//! Exits from a state that the governor chose again after a tick, and that then costs less than at a first choice.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_explain::{Collector, RequestKind, explain_requests};
use wakepath_trace::recording::{Block, Event, EventKind, IdlePeriod, Metadata, TimerKind};
use wakepath_units::Nanoseconds;

const SHALLOW: u8 = 1;
const DEEP: u8 = 2;
const SHALLOW_EXIT: u64 = 4_000;
const DEEP_EXIT: u64 = 434_000;
const REQUESTS: u64 = 20_000;

/// Means over all requests, in ns.
struct Truth {
    /// The drive, with the exit from the shallow state.
    drive: f64,
    /// Exits from the deep state where the governor chose it late, above the exit from the shallow state.
    late: f64,
}

fn event(time: u64, kind: EventKind) -> Event {
    let time = Nanoseconds(time);
    Event { time, cpu: 0, kind }
}

fn idle(entry: u64, exit: u64, state: u8) -> Event {
    let period = IdlePeriod {
        state,
        duration: Nanoseconds(exit - entry),
        ..IdlePeriod::default()
    };
    event(exit, EventKind::Idle(period))
}

/// Reads, some of which choose the deep state first. Few of the others meet a tick, and behind the tick a package half asleep.
fn record(seed: u64) -> (Vec<Event>, Truth) {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let service = LogNormal::new(f64::ln(70_000.0), 0.2).unwrap();
    let (mut events, mut drive_ns, mut late_ns) = (Vec::new(), 0, 0);
    let mut now = 1_000_000;
    for sector in 0..REQUESTS {
        let block = Block {
            device: 259 << 20,
            sector,
            bytes: 4096,
            write: false,
        };
        let issued = now + random.random_range(300_000..320_000);
        events.push(event(issued, EventKind::BlockIssue(block)));
        let drive = (service.sample(&mut random) as u64).max(25_000);
        let arrives = issued + drive;
        let first = if random.random_bool(0.2) {
            DEEP
        } else {
            SHALLOW
        };
        let tick = (first == SHALLOW && random.random_bool(0.05))
            .then(|| issued + random.random_range(5_000..20_000));
        let (state, entry, exit) = match tick {
            Some(tick) => {
                events.push(idle(issued + 1_000, tick, SHALLOW));
                events.push(event(tick + 500, EventKind::Timer(TimerKind::Tick)));
                let exit = random.random_range(20_000..90_000);
                late_ns += exit - SHALLOW_EXIT;
                (DEEP, tick + 2_000, exit)
            }
            None if first == DEEP => (DEEP, issued + 1_000, DEEP_EXIT),
            None => (SHALLOW, issued + 1_000, SHALLOW_EXIT),
        };
        let woken = arrives.max(entry + 1) + exit;
        events.push(idle(entry, woken, state));
        events.push(event(woken + 2_000, EventKind::BlockComplete(block)));
        drive_ns += drive + SHALLOW_EXIT;
        now = woken + 5_000;
    }
    let mean = |sum: u64| sum as f64 / REQUESTS as f64;
    let truth = Truth {
        drive: mean(drive_ns),
        late: mean(late_ns),
    };
    (events, truth)
}

fn explain(events: &[Event]) -> RequestKind {
    let mut collector = Collector::default();
    for event in events {
        collector.push_event(event);
    }
    let explanation = explain_requests(&collector.finish(), &Metadata::default());
    explanation.kinds.into_iter().next().unwrap()
}

#[test]
fn late_choices_are_charged_what_their_drives_leave() {
    for seed in 1..=3 {
        let (events, truth) = record(seed);
        let kind = explain(&events);
        let deep = kind.split.states.iter().find(|state| state.state == DEEP);
        let deep = deep.unwrap();
        let cost = deep.cost.unwrap().mean_ns;
        let more = (DEEP_EXIT - SHALLOW_EXIT) as f64;
        assert!((cost - more).abs() < 0.02 * more, "{cost} of {more}");
        let late = kind.late_exits.unwrap();
        assert_eq!(late.requests, deep.met - deep.charged);
        assert_eq!(late.estimated, late.requests);
        assert!(late.requests > 500, "{late:?}");
        // Neither nothing nor the whole cost of a first choice.
        assert!(
            (late.mean_ns - truth.late).abs() < 0.2 * truth.late,
            "{late:?} of {}",
            truth.late
        );
        assert!(truth.late < late.highest_ns, "{late:?} of {}", truth.late);
        let rest = kind.rest_ns.unwrap();
        assert!(
            (rest - truth.drive).abs() < 0.01 * truth.drive,
            "{rest} of {}",
            truth.drive
        );
        let charged = kind.split.charged.unwrap().mean_ns;
        let begun = kind.begun_exits.unwrap().mean_ns;
        let sum = rest + charged + late.mean_ns + begun + kind.parts.interrupt_ns;
        assert!((sum - kind.parts.latency_ns).abs() < 1.0, "{sum} ns");
        assert!(!kind.has_unknown_exits());
    }
}
