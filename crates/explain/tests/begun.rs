//! Exits that something else began, in recordings of a CPU that sleeps while another one submits.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::VecDeque;

use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, Exp, LogNormal};
use rand_pcg::Pcg64Mcg;
use wakepath_explain::{Collector, RequestKind, explain_requests};
use wakepath_trace::recording::{
    Block, Event, EventKind, IdlePeriod, Interrupt, Metadata, TimerKind,
};
use wakepath_units::Nanoseconds;

/// Exit latencies in ns, by the state's index.
const EXITS: [u64; 3] = [0, 4_000, 200_000];
const SHALLOW: u8 = 1;
const DEEP: u8 = 2;
/// What handlers take, in ns, one after the other.
const HANDLER: u64 = 1_000;

/// What a drive and a CPU have to do.
struct Load {
    requests: usize,
    /// Mean time between requests in ns; they come by chance.
    every: f64,
    /// Mean time between timers in ns; they come by chance.
    timers_every: f64,
    /// Requests that the drive serves at a time.
    units: usize,
}

/// A request as the drive saw it, in ns.
struct Served {
    issued: u64,
    raised: u64,
}

/// Events, and the mean in ns of what the drive took, with the exit from the shallow state at most.
struct Recorded {
    events: Vec<Event>,
    drive: f64,
}

fn event(time: u64, cpu: u32, kind: EventKind) -> Event {
    let time = Nanoseconds(time);
    Event { time, cpu, kind }
}

/// Requests at random times, in the order of their interrupts.
fn serve_requests(load: &Load, random: &mut Pcg64Mcg) -> Vec<Served> {
    let service = LogNormal::new(f64::ln(80_000.0), 0.4).unwrap();
    let pause = Exp::new(1.0 / load.every).unwrap();
    let mut units = vec![0; load.units];
    let mut issued = 1_000_000;
    let mut served = Vec::new();
    for _ in 0..load.requests {
        issued += pause.sample(random) as u64 + 1;
        let free = units.iter_mut().min().unwrap();
        *free = issued.max(*free) + service.sample(random) as u64;
        served.push(Served {
            issued,
            raised: *free,
        });
    }
    served.sort_by_key(|request| request.raised);
    served
}

/// CPU 1 submits, and CPU 0 sleeps until the drive or a timer wakes it. Which state it chooses is chance.
fn record(seed: u64, load: &Load) -> Recorded {
    let mut random = Pcg64Mcg::seed_from_u64(seed);
    let mut served: VecDeque<Served> = serve_requests(load, &mut random).into();
    let timer = Exp::new(1.0 / load.timers_every).unwrap();
    let mut due = timer.sample(&mut random) as u64;
    let (mut events, mut drive) = (Vec::new(), 0.0);
    let mut now = 0;
    let mut sector = 0;
    while let Some(first) = served.front() {
        let entry = now;
        let woken = first.raised.min(due).max(entry + 1);
        let state = if random.random_bool(0.5) {
            SHALLOW
        } else {
            DEEP
        };
        let exit = woken + EXITS[usize::from(state)];
        let period = IdlePeriod {
            state,
            duration: Nanoseconds(exit - entry),
            ..IdlePeriod::default()
        };
        events.push(event(exit, 0, EventKind::Idle(period)));
        now = exit;
        loop {
            if due <= now {
                let expired = EventKind::Timer(TimerKind::HighResolution);
                events.push(event(now + 300, 0, expired));
                due = now + timer.sample(&mut random) as u64 + 1;
            } else if served.front().is_some_and(|request| request.raised <= now) {
                let request = served.pop_front().unwrap();
                let block = Block {
                    device: 259 << 20,
                    sector,
                    bytes: 4096,
                    write: false,
                };
                sector += 8;
                let handler = EventKind::Interrupt(Interrupt::Device { irq: 36 });
                events.push(event(request.issued, 1, EventKind::BlockIssue(block)));
                events.push(event(now + 200, 0, handler));
                events.push(event(now + 700, 0, EventKind::BlockComplete(block)));
                let waited = exit.max(request.raised) - request.raised;
                let shallow = waited.min(EXITS[usize::from(SHALLOW)]);
                drive += (request.raised - request.issued + shallow) as f64;
            } else {
                break;
            }
            now += HANDLER;
        }
    }
    events.sort_by_key(|event| event.time);
    let drive = drive / load.requests as f64;
    Recorded { events, drive }
}

fn explain(events: &[Event]) -> RequestKind {
    let mut collector = Collector::default();
    for event in events {
        collector.push_event(event);
    }
    let explanation = explain_requests(&collector.finish(), &Metadata::default());
    explanation.kinds.into_iter().next().unwrap()
}

/// The drive's time is found to a share of itself, although many requests waited for exits that something else began.
fn check_load(load: &Load, share: f64, least_begun: f64) {
    for seed in 1..=3 {
        let recorded = record(seed, load);
        let kind = explain(&recorded.events);
        let begun = kind.begun_exits.unwrap();
        let deep = kind.split.states.iter().find(|state| state.state == DEEP);
        let cost = deep.unwrap().cost.unwrap().mean_ns;
        let more = (EXITS[2] - EXITS[1]) as f64;
        assert!((cost - more).abs() < 0.03 * more, "{cost} of {more}");
        let (found, truth) = (kind.rest_ns.unwrap(), recorded.drive);
        println!(
            "{found:.0} of {truth:.0} ns, {begun:?}, awake {}",
            kind.awake
        );
        assert!(
            (found - truth).abs() < share * truth,
            "{found} of {truth}, {begun:?}"
        );
        // Otherwise nothing was to be found.
        assert!(begun.mean_ns > least_begun, "{begun:?}");
        let most = found + begun.mean_ns;
        assert!(
            (most - begun.highest_ns..=most).contains(&truth),
            "{truth}, {begun:?}"
        );
    }
}

#[test]
fn exits_begun_by_timers_are_told_from_the_drive() {
    let load = Load {
        requests: 20_000,
        every: 1_000_000.0,
        timers_every: 300_000.0,
        units: 64,
    };
    check_load(&load, 0.03, 40_000.0);
}

#[test]
fn exits_begun_by_other_requests_are_told_from_the_drive() {
    let load = Load {
        requests: 20_000,
        every: 50_000.0,
        timers_every: 10_000_000.0,
        units: 64,
    };
    check_load(&load, 0.02, 40_000.0);
}

#[test]
fn waiting_in_a_busy_drive_stays_in_its_time() {
    let load = Load {
        requests: 20_000,
        every: 50_000.0,
        timers_every: 10_000_000.0,
        units: 2,
    };
    check_load(&load, 0.04, 40_000.0);
}
