//! Generates logs of utilisation updates.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::numbers::{MS, US, random_by_magnitude, random_near_limit};
use crate::record::{EventCase, EventRecord};

/// Generates a log of utilisation updates, for the boosts.
///
/// With `shared`, some events come from another CPU in the same frequency domain.
pub fn random_event_case(rng: &mut Pcg64Mcg, tick: i64, shared: bool) -> EventCase {
    let levels = random_performance_levels(rng);
    let mut story = EventStory::new(rng, tick, shared);
    let events = (0..rng.random_range(5..=200))
        .map(|_| story.next_event(rng))
        .collect();
    EventCase { levels, events }
}

fn random_performance_levels(rng: &mut Pcg64Mcg) -> [u8; 6] {
    let mut levels: [u8; 6] = rng.random();
    // Real processors keep their levels in this order; the kernel does not check.
    if !rng.random_ratio(1, 10) {
        levels[..4].sort_unstable();
        levels[4..].sort_unstable();
    }
    if rng.random_ratio(1, 6) {
        levels[1] = levels[rng.random_range(0..2) * 2];
    }
    levels
}

/// Character of a generated log of updates, and where its CPU stands.
struct EventStory {
    tick: i64,
    time: u64,
    /// Usual time between two updates, in ns.
    scale: i64,
    /// Number of updates in 20 that follow a wait for I/O.
    waits: u32,
    capacity: u32,
    /// Whether time may run backwards, and counters may jump.
    odd: bool,
    /// Whether another CPU shares the clock.
    shared: bool,
    /// Counters APERF, MPERF and TSC, which runs at 2.4 GHz.
    counters: [u64; 3],
    /// Busy share of time, in 24ths.
    busy: u64,
}

impl EventStory {
    fn new(rng: &mut Pcg64Mcg, tick: i64, shared: bool) -> Self {
        Self {
            tick,
            time: match rng.random_range(0..4) {
                0 => 0,
                1 => rng.random_range(0..3 * tick as u64),
                _ => rng.random_range(0..1 << 45),
            },
            scale: random_by_magnitude(rng, US, 4 * tick),
            waits: rng.random_range(1..=19),
            capacity: match rng.random_range(0..3) {
                0 => rng.random_range(0..=2048),
                _ => 1024,
            },
            odd: rng.random_ratio(1, 10),
            shared: shared && rng.random_ratio(1, 2),
            counters: [0; 3].map(|_: u64| rng.random_range(0..1 << 50)),
            busy: rng.random_range(0..=24),
        }
    }

    fn next_event(&mut self, rng: &mut Pcg64Mcg) -> EventRecord {
        let step = match rng.random_range(0..8) {
            0 => random_near_limit(rng, &[self.tick, 2 * self.tick, 3 * MS, 10 * MS, 0]).max(0),
            1 => 0,
            2 => random_by_magnitude(rng, 1, 8 * self.tick),
            _ => rng.random_range(0..=self.scale),
        };
        self.time += step as u64;
        if self.odd && rng.random_ratio(1, 20) {
            let back = random_by_magnitude(rng, 1, 2 * self.tick) as u64;
            self.time = self.time.saturating_sub(back);
        }
        self.advance_counters(rng, step as u64);
        EventRecord {
            time: self.time,
            counters: self.counters,
            iowait: rng.random_ratio(self.waits, 20),
            other_cpu: self.shared && rng.random_ratio(1, 4),
            max_capacity: if self.odd {
                rng.random_range(0..=1024)
            } else {
                self.capacity
            },
        }
    }

    fn advance_counters(&mut self, rng: &mut Pcg64Mcg, step_ns: u64) {
        let cycles = step_ns * 12 / 5;
        let busy_cycles = match rng.random_range(0..12) {
            0 => 0,
            1 => rng.random_range(0..=cycles),
            _ => cycles * self.busy / 24,
        };
        self.counters[0] += busy_cycles * rng.random_range(1..40) / 20;
        self.counters[1] += busy_cycles;
        self.counters[2] += cycles;
        if self.odd && rng.random_ratio(1, 20) {
            self.counters[rng.random_range(0..3)] += random_by_magnitude(rng, 1, 1 << 40) as u64;
        }
    }
}
