//! Seeded inputs: state tables, governor call logs, utilisation updates and drives.
//!
//! A log that is only random keeps a governor in its corners: it learns nothing from noise. So most logs here are
//! stories with a tick that runs or is stopped: a regular interrupt, a timer, a burst after a pause. Now and then a
//! value is put exactly on a limit that the governors compare with, or one beside it.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::record::{
    CallRecord, Case, DriveCase, DriveState, EventCase, EventRecord, HaltPoll, NO_LATENCY_LIMIT,
    StateRecord, Toggle,
};

const US: i64 = 1_000;
const MS: i64 = 1_000_000;

/// The generator of batch number `batch` of a run with `seed`: independent of how batches are
/// spread over threads.
pub fn rng(seed: u64, batch: u64) -> Pcg64Mcg {
    // An odd factor keeps different pairs apart.
    Pcg64Mcg::seed_from_u64(
        seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(batch.wrapping_mul(2).wrapping_add(1)),
    )
}

/// Cases with `calls` calls altogether.
pub fn governor_cases(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut left = calls;
    while left > 0 {
        let length = rng.random_range(20..=800).min(left);
        cases.push(governor_case(rng, tick, length));
        left -= length;
    }
    cases
}

/// One CPU with `calls` calls, for a tick of `tick` nanoseconds.
pub fn governor_case(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Case {
    let states = state_table(rng, tick);
    let calls = Story::new(rng, &states, tick).tell(rng, calls);
    Case {
        halt_poll: halt_poll(rng),
        states,
        calls,
    }
}

/// A client machine under an interrupt every 300 us or so, with timers far away: what a device with
/// one request in flight does to a CPU.
pub fn regular_case(rng: &mut Pcg64Mcg, tick: i64, calls: usize) -> Case {
    let states = real_table(REAL_TABLES[0]);
    let story = Story {
        wakeups: Wakeups::Regular {
            period: 300 * US,
            jitter: 30 * US,
        },
        timers: Timers::Far,
        refuse: 0,
        tighten: 0,
        odd: 0,
        turn: 0,
        toggle: 0,
        iowait: 1,
        busy: 20 * US,
        ..Story::new(rng, &states, tick)
    };
    Case {
        halt_poll: None,
        calls: story.tell(rng, calls),
        states,
    }
}

/// Exit latency and target residency in us, from drivers on real machines.
const REAL_TABLES: [&[(i64, i64)]; 7] = [
    // Intel client and server parts (POLL first).
    &[
        (0, 0),
        (2, 2),
        (10, 20),
        (70, 100),
        (85, 200),
        (124, 800),
        (200, 800),
    ],
    &[(0, 0), (2, 2), (10, 20), (133, 600)],
    &[(0, 0), (1, 1), (2, 4), (220, 600), (280, 800), (680, 2_000)],
    &[(0, 0), (1, 1), (4, 12), (170, 650)],
    // ACPI, three states.
    &[(0, 0), (1, 2), (18, 36), (350, 700)],
    // Arm: wait for interrupt, CPU and cluster power-down.
    &[(1, 1), (250, 900), (600, 2_000)],
    // A virtual machine under haltpoll.
    &[(0, 0), (1, 1)],
];

/// 1 to 10 states, shallowest first, mostly plausible.
pub fn state_table(rng: &mut Pcg64Mcg, tick: i64) -> Vec<StateRecord> {
    let mut states = if rng.random_ratio(3, 10) {
        real_table(REAL_TABLES[rng.random_range(0..REAL_TABLES.len())])
    } else {
        random_states(rng, tick)
    };
    match rng.random_range(0..20) {
        // Any state off.
        0..=4 => {
            for state in &mut states {
                state.disabled = rng.random_ratio(3, 10);
            }
        }
        5 => states[0].disabled = true,
        6 => {
            for state in &mut states {
                state.disabled = true;
            }
        }
        // A single state remains enabled.
        7 => {
            let left = rng.random_range(0..states.len());
            for (i, state) in states.iter_mut().enumerate() {
                state.disabled = i != left;
            }
        }
        _ => {}
    }
    states
}

fn real_table(table: &[(i64, i64)]) -> Vec<StateRecord> {
    let first_polls = table[0].0 == 0;
    table
        .iter()
        .enumerate()
        .map(|(i, &(exit, residency))| StateRecord {
            exit_latency: exit * US,
            target_residency: residency * US,
            polling: i == 0 && first_polls,
            disabled: false,
        })
        .collect()
}

fn random_states(rng: &mut Pcg64Mcg, tick: i64) -> Vec<StateRecord> {
    let count = match rng.random_range(0..40) {
        0 => 10,
        1 => 1,
        _ => rng.random_range(1..=9),
    };
    let style = rng.random_range(0..8);
    let mut residencies: Vec<i64> = (0..count)
        .map(|_| match style {
            // From a microsecond to a second: the usual range, and one decade to each side.
            0..=2 => spread(rng, US, 100 * MS),
            // All shorter, or all longer, than most residencies.
            3 => spread(rng, 1, 20 * US),
            4 => spread(rng, tick / 4, tick * 64),
            // On and beside the limits.
            5 => beside(
                rng,
                &[15 * US, tick, tick / 2, 10 * US, 100 * US, 2 * tick, 0],
            )
            .max(0),
            6 => spread(rng, 1, 1 << 40),
            // Nothing a driver would declare.
            _ => {
                if rng.random_ratio(1, 3) {
                    rng.random_range(0..=i64::MAX)
                } else {
                    spread(rng, 1, 1 << 34)
                }
            }
        })
        .collect();
    // Drivers declare them in order; the kernel does not check.
    if !rng.random_ratio(1, 20) {
        residencies.sort_unstable();
    }
    let polling = rng.random_ratio(1, 2);
    if polling && rng.random_ratio(9, 10) {
        residencies[0] = 0;
    }
    let whole_us = rng.random_ratio(3, 4);
    let mut states: Vec<StateRecord> = residencies
        .iter()
        .map(|&residency| {
            let exit = match rng.random_range(0..20) {
                0..=12 => residency / rng.random_range(1..=6),
                13..=15 => residency,
                16 | 17 => residency.saturating_mul(rng.random_range(2..=4)),
                18 => 0,
                _ => spread(rng, 1, 1 << 36),
            };
            let round = |ns: i64| {
                if whole_us && ns >= US {
                    ns / US * US
                } else {
                    ns
                }
            };
            StateRecord {
                exit_latency: round(exit),
                target_residency: round(residency),
                polling: false,
                disabled: false,
            }
        })
        .collect();
    if polling {
        states[0].polling = true;
        if residencies[0] == 0 {
            states[0].exit_latency = 0;
        }
    } else if rng.random_ratio(1, 30) {
        let odd = rng.random_range(0..states.len());
        states[odd].polling = true;
    }
    states
}

fn halt_poll(rng: &mut Pcg64Mcg) -> Option<HaltPoll> {
    if rng.random_ratio(1, 2) {
        return None;
    }
    Some(HaltPoll {
        limit: spread(rng, 1, 2 * MS) as u32,
        shrink: rng.random_range(0..=4),
        grow: rng.random_range(0..=4),
        grow_start: spread(rng, 1, 200 * US) as u32,
        allow_shrink: rng.random_ratio(3, 4),
    })
}

/// How wake-ups other than timers come.
#[derive(Clone, Copy)]
enum Wakeups {
    Regular {
        period: i64,
        jitter: i64,
    },
    Bursts {
        short: i64,
        long: i64,
        length: u32,
    },
    /// Times so short that the governors' microseconds are few.
    Tiny,
    OnLimits,
    Anything,
    /// Only timers end an idle period.
    Never,
}

/// Where the next timer is.
#[derive(Clone, Copy)]
enum Timers {
    /// Beyond all wake-ups.
    Far,
    /// Around the next wake-up.
    Near,
    None,
    OnLimits,
    Anything,
}

/// Character of a generated log.
struct Story {
    tick: i64,
    exits: Vec<i64>,
    /// The limits that the governors compare with.
    limits: Vec<i64>,
    wakeups: Wakeups,
    timers: Timers,
    /// Chances in 1000, per call.
    stop_or_restart: u32,
    refuse: u32,
    tighten: u32,
    poll_limit: u32,
    odd: u32,
    /// Chance in 1000 that another kind of wake-up or timer takes over.
    turn: u32,
    /// Chance in 1000 that somebody switches a state on or off.
    toggle: u32,
    iowait: u32,
    busy: i64,
}

impl Story {
    fn new(rng: &mut Pcg64Mcg, states: &[StateRecord], tick: i64) -> Self {
        let mut limits = vec![0, tick, tick / 2, 2 * tick, 10 * US, 15 * US, 100 * US, MS];
        limits.extend([10 * MS, 50 * MS, 100 * MS, 45 * MS]);
        // haltpoll's defaults.
        limits.extend([50 * US, 200 * US]);
        let mut exits = Vec::new();
        for state in states {
            // What an idle period must last for the governors, who take half the exit latency or all of it
            // off it, to see just the target residency.
            let (residency, exit) = (state.target_residency, state.exit_latency);
            limits.push(residency);
            limits.push(residency.saturating_add(exit));
            limits.push(residency.saturating_add(exit / 2));
            limits.push(exit);
            limits.push(exit.saturating_mul(2));
            exits.push(exit);
        }
        let chance = |rng: &mut Pcg64Mcg, choices: [u32; 4]| choices[rng.random_range(0..4)];
        Self {
            tick,
            exits,
            limits,
            wakeups: wakeups(rng, tick),
            timers: timers(rng),
            stop_or_restart: chance(rng, [0, 20, 100, 500]),
            refuse: chance(rng, [0, 0, 20, 300]),
            tighten: chance(rng, [0, 0, 30, 300]),
            poll_limit: chance(rng, [0, 100, 500, 900]),
            odd: chance(rng, [0, 0, 20, 200]),
            turn: chance(rng, [0, 0, 5, 30]),
            toggle: [0, 0, 0, 0, 0, 0, 10, 100][rng.random_range(0..8)],
            iowait: [0, 0, 1, 3, 60, u32::MAX][rng.random_range(0..6)],
            busy: spread(rng, 1, 2 * MS),
        }
    }

    fn tell(mut self, rng: &mut Pcg64Mcg, calls: usize) -> Vec<CallRecord> {
        let mut clock = match rng.random_range(0..10) {
            0 => 0,
            1 => u64::MAX - rng.random_range(0..1 << 30),
            _ => rng.random_range(0..1 << 42),
        };
        let mut tick_stopped = rng.random_ratio(1, 3);
        let mut in_burst = 0;
        let mut latency_request = NO_LATENCY_LIMIT;
        let mut log = Vec::with_capacity(calls);
        for _ in 0..calls {
            if per_mille(rng, self.turn) {
                self.wakeups = wakeups(rng, self.tick);
                self.timers = timers(rng);
            }
            if per_mille(rng, self.stop_or_restart) {
                tick_stopped = !tick_stopped;
            }
            latency_request = self.latency_request(rng, latency_request);

            let wakeup = self.next_wakeup(rng, &mut in_burst);
            let sleep_length = self.next_timer(rng, wakeup);
            let to_tick = self.tick - (clock % self.tick as u64) as i64;
            let delta_tick = if tick_stopped {
                sleep_length
            } else {
                sleep_length.min(to_tick)
            };
            // The governor may have stopped the tick, which this log cannot know.
            let tick_comes = !tick_stopped && rng.random_ratio(1, 2);
            let last = if tick_comes { delta_tick } else { sleep_length };
            let slept = wakeup.min(last).clamp(1, 1 << 40);
            let late = if rng.random_ratio(1, 2) {
                rng.random_range(0..3 * US)
            } else {
                self.exits[rng.random_range(0..self.exits.len())].min(10 * MS)
            };
            let residency = (slept + late).max(1) as u64;

            let mut call = CallRecord {
                sleep_length,
                delta_tick,
                latency_request,
                select_clock: clock,
                reflect_clock: clock.wrapping_add(residency),
                residency,
                nr_iowait: if self.iowait == 0 || rng.random_ratio(1, 3) {
                    0
                } else {
                    rng.random_range(0..=self.iowait)
                },
                tick_stopped,
                got_tick: tick_comes && slept == to_tick,
                poll_limit_hit: per_mille(rng, self.poll_limit),
                ..CallRecord::default()
            };
            if per_mille(rng, self.toggle) {
                let state = rng.random_range(0..self.exits.len() as u8);
                call.toggle = Toggle::new(state, rng.random_ratio(1, 2));
            }
            if per_mille(rng, self.refuse) {
                call.residency = 0;
            }
            if per_mille(rng, self.odd) {
                self.spoil(rng, &mut call);
            }
            clock = call
                .reflect_clock
                .wrapping_add(rng.random_range(0..=self.busy) as u64);
            log.push(call);
        }
        log
    }

    /// The latency request, kept for a while once it changed.
    fn latency_request(&self, rng: &mut Pcg64Mcg, before: i64) -> i64 {
        if before != NO_LATENCY_LIMIT && rng.random_ratio(1, 8) {
            return NO_LATENCY_LIMIT;
        }
        if !per_mille(rng, self.tighten) {
            return before;
        }
        match rng.random_range(0..8) {
            0 => 0,
            1..=5 => beside(rng, &self.exits).max(0),
            _ => spread(rng, 1, 10 * MS),
        }
    }

    fn next_wakeup(&self, rng: &mut Pcg64Mcg, in_burst: &mut u32) -> i64 {
        match self.wakeups {
            Wakeups::Regular { period, jitter } => period + rng.random_range(-jitter..=jitter),
            Wakeups::Bursts {
                short,
                long,
                length,
            } => {
                *in_burst = (*in_burst + 1) % length.max(1);
                let mean = if *in_burst == 0 { long } else { short };
                mean + rng.random_range(-mean / 8..=mean / 8)
            }
            Wakeups::Tiny => rng.random_range(1..60 * US),
            Wakeups::OnLimits => beside(rng, &self.limits),
            Wakeups::Anything => spread(rng, 1, 1 << 33),
            Wakeups::Never => i64::MAX,
        }
    }

    fn next_timer(&self, rng: &mut Pcg64Mcg, wakeup: i64) -> i64 {
        match self.timers {
            Timers::Far => wakeup
                .saturating_mul(rng.random_range(1..20))
                .saturating_add(rng.random_range(0..10 * MS)),
            Timers::Near => wakeup
                .min(1 << 40)
                .saturating_add(rng.random_range(-3 * US..=3 * US)),
            Timers::None => i64::MAX,
            Timers::OnLimits => beside(rng, &self.limits),
            Timers::Anything => spread(rng, 1, 1 << 33),
        }
    }

    /// Sets fields to what a consistent machine would not say, or hardly ever.
    fn spoil(&self, rng: &mut Pcg64Mcg, call: &mut CallRecord) {
        for _ in 0..rng.random_range(1..=3) {
            let limit = beside(rng, &self.limits);
            match rng.random_range(0..12) {
                0 => call.sleep_length = limit,
                1 => call.sleep_length = -spread(rng, 1, 1 << 30),
                2 => call.sleep_length = i64::MAX,
                3 => call.sleep_length = rng.random(),
                4 => call.delta_tick = limit,
                5 => call.delta_tick = spread(rng, 1, self.tick),
                6 => call.residency = limit.max(0) as u64,
                7 => call.residency = rng.random_range(0..=i64::MAX as u64),
                8 => call.reflect_clock = call.select_clock.wrapping_add_signed(limit),
                9 => call.reflect_clock = rng.random(),
                10 => call.got_tick = !call.got_tick,
                _ => call.latency_request = limit.max(0),
            }
        }
    }
}

fn wakeups(rng: &mut Pcg64Mcg, tick: i64) -> Wakeups {
    match rng.random_range(0..12) {
        0..=3 => {
            let period = spread(rng, 2 * US, 4 * tick);
            let jitter = match rng.random_range(0..4) {
                0 => 0,
                1 => period / 100,
                2 => period / 6,
                _ => period / 2,
            };
            Wakeups::Regular { period, jitter }
        }
        4..=6 => Wakeups::Bursts {
            short: spread(rng, US, 500 * US),
            long: spread(rng, 100 * US, 8 * tick),
            length: rng.random_range(1..24),
        },
        7 => Wakeups::Tiny,
        8 | 9 => Wakeups::OnLimits,
        10 => Wakeups::Never,
        _ => Wakeups::Anything,
    }
}

fn timers(rng: &mut Pcg64Mcg) -> Timers {
    match rng.random_range(0..8) {
        0 | 1 => Timers::Far,
        2 | 3 => Timers::Near,
        4 => Timers::None,
        5 | 6 => Timers::OnLimits,
        _ => Timers::Anything,
    }
}

/// A table alone, for the polling limit.
pub fn poll_case(rng: &mut Pcg64Mcg, tick: i64) -> Case {
    let mut states = state_table(rng, tick);
    if rng.random_ratio(1, 3) {
        for state in &mut states {
            state.target_residency = beside(rng, &[10 * US, tick / 16, tick, 0]).max(0);
        }
    }
    Case {
        states,
        ..Case::default()
    }
}

/// A log of utilisation updates, for the boosts.
///
/// With `shared`, some events come from another CPU in the same frequency domain.
pub fn event_case(rng: &mut Pcg64Mcg, tick: i64, shared: bool) -> EventCase {
    let mut levels: [u8; 6] = rng.random();
    // Real processors keep this order; the kernel does not check.
    if !rng.random_ratio(1, 10) {
        levels[..4].sort_unstable();
        levels[4..].sort_unstable();
    }
    if rng.random_ratio(1, 6) {
        levels[1] = levels[rng.random_range(0..2) * 2];
    }
    let mut time = match rng.random_range(0..4) {
        0 => 0,
        1 => rng.random_range(0..3 * tick as u64),
        _ => rng.random_range(0..1 << 45),
    };
    let scale = spread(rng, US, 4 * tick);
    let waits = rng.random_range(1..=19);
    let capacity = match rng.random_range(0..3) {
        0 => rng.random_range(0..=2048),
        _ => 1024,
    };
    let odd = rng.random_ratio(1, 10);
    let shared = shared && rng.random_ratio(1, 2);
    // The time-stamp counter runs at 2.4 GHz.
    let mut counters: [u64; 3] = [0; 3].map(|_: u64| rng.random_range(0..1 << 50));
    let busy = rng.random_range(0..=24);
    let events = (0..rng.random_range(5..=200))
        .map(|_| {
            let step = match rng.random_range(0..8) {
                0 => beside(rng, &[tick, 2 * tick, 3 * MS, 10 * MS, 0]).max(0),
                1 => 0,
                2 => spread(rng, 1, 8 * tick),
                _ => rng.random_range(0..=scale),
            };
            time += step as u64;
            if odd && rng.random_ratio(1, 20) {
                time = time.saturating_sub(spread(rng, 1, 2 * tick) as u64);
            }
            let cycles = step as u64 * 12 / 5;
            let busy_cycles = match rng.random_range(0..12) {
                0 => 0,
                1 => rng.random_range(0..=cycles),
                _ => cycles * busy / 24,
            };
            counters[0] += busy_cycles * rng.random_range(1..40) / 20;
            counters[1] += busy_cycles;
            counters[2] += cycles;
            if odd && rng.random_ratio(1, 20) {
                counters[rng.random_range(0..3)] += spread(rng, 1, 1 << 40) as u64;
            }
            EventRecord {
                time,
                counters,
                iowait: rng.random_ratio(waits, 20),
                other_cpu: shared && rng.random_ratio(1, 4),
                max_capacity: if odd {
                    rng.random_range(0..=1024)
                } else {
                    capacity
                },
            }
        })
        .collect();
    EventCase { levels, events }
}

/// A drive that nobody built, with parameters that nobody set.
pub fn random_drive(rng: &mut Pcg64Mcg) -> DriveCase {
    let npss = match rng.random_range(0..20) {
        0 => rng.random_range(0..=255),
        1 | 2 => rng.random_range(0..=31),
        _ => rng.random_range(0..=6),
    };
    let first_non_operational = rng.random_range(0..=6);
    let orderly = rng.random_ratio(3, 4);
    let mut states: Vec<DriveState> = (0..=npss.min(31))
        .map(|i| DriveState {
            entry_us: latency(rng),
            exit_us: latency(rng),
            non_operational: if orderly {
                i >= first_non_operational
            } else {
                rng.random_ratio(1, 2)
            },
        })
        .collect();
    if orderly {
        states.sort_by_key(|s| (s.non_operational, s.entry_us));
    }
    let mut drive = DriveCase {
        name: "a random drive".to_owned(),
        apsta: !rng.random_ratio(1, 20),
        npss,
        states,
        ..DriveCase::default()
    };
    vary_rule(rng, &mut drive);
    drive
}

/// Sets budget, timeouts, tolerances and quirks at random.
pub fn vary_rule(rng: &mut Pcg64Mcg, drive: &mut DriveCase) {
    drive.enabled = !rng.random_ratio(1, 20);
    drive.no_deepest = rng.random_ratio(1, 4);
    let sums: Vec<i64> = drive
        .states
        .iter()
        .map(|s| i64::from(s.entry_us) + i64::from(s.exit_us))
        .chain([15_000, 100_000])
        .collect();
    let exits: Vec<i64> = drive
        .states
        .iter()
        .map(|s| i64::from(s.exit_us))
        .chain([100_000])
        .collect();
    let parameter = |rng: &mut Pcg64Mcg, limits: &[i64], largest: i64| match rng.random_range(0..8)
    {
        0..=2 => None,
        3 => Some(0),
        4 | 5 => Some(beside(rng, limits).max(0) as u64),
        _ => Some(spread(rng, 1, largest) as u64),
    };
    drive.max_latency_us = parameter(rng, &exits, 1 << 32);
    drive.primary_timeout_ms = parameter(rng, &[100, (1 << 24) - 2], 1 << 26);
    drive.secondary_timeout_ms = parameter(rng, &[2_000, (1 << 24) - 2], 1 << 26);
    drive.primary_tolerance_us = parameter(rng, &sums, 1 << 33);
    drive.secondary_tolerance_us = parameter(rng, &sums, 1 << 33);
}

fn latency(rng: &mut Pcg64Mcg) -> u32 {
    match rng.random_range(0..12) {
        0 => 0,
        1 => u32::MAX - rng.random_range(0..3),
        2 | 3 => beside(rng, &[15_000, 100_000, 7_500, 50_000]) as u32,
        4 => rng.random(),
        _ => spread(rng, 1, 2_000_000) as u32,
    }
}

/// A number from `low` up to about `high`, every power of two as likely as the next.
fn spread(rng: &mut Pcg64Mcg, low: i64, high: i64) -> i64 {
    let (low, high) = (low.max(1), high.max(1));
    let exponent = rng.random_range(low.ilog2()..=high.ilog2());
    let base = 1_i64 << exponent;
    (base + rng.random_range(0..base)).clamp(low, high)
}

/// A value at a limit, or slightly off.
fn beside(rng: &mut Pcg64Mcg, limits: &[i64]) -> i64 {
    let limit = limits[rng.random_range(0..limits.len())];
    let off = match rng.random_range(0..8) {
        0 | 1 => 0,
        2 | 3 => 1,
        4 | 5 => -1,
        6 => rng.random_range(-2 * US..=2 * US),
        _ => rng.random_range(-50 * US..=50 * US),
    };
    limit.saturating_add(off)
}

fn per_mille(rng: &mut Pcg64Mcg, chance: u32) -> bool {
    chance > 0 && rng.random_ratio(chance, 1_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_cases() {
        let cases = |seed| governor_cases(&mut rng(seed, 3), 4 * MS, 5_000);
        assert_eq!(cases(7), cases(7));
        assert_ne!(cases(7), cases(8));
        assert_eq!(cases(7).iter().map(|c| c.calls.len()).sum::<usize>(), 5_000);
    }

    #[test]
    fn tables_and_logs_cover_what_they_should() {
        let cases = governor_cases(&mut rng(1, 0), 4 * MS, 200_000);
        let calls = || cases.iter().flat_map(|c| &c.calls);
        for count in 1..=10 {
            assert!(cases.iter().any(|c| c.states.len() == count), "{count}");
        }
        assert!(cases.iter().any(|c| c.states.iter().all(|s| s.disabled)));
        assert!(cases.iter().any(|c| !c.states[0].polling));
        assert!(cases.iter().all(|c| {
            c.states
                .iter()
                .all(|s| s.exit_latency >= 0 && s.target_residency >= 0)
        }));
        assert!(calls().any(|c| c.sleep_length < 0));
        assert!(calls().any(|c| c.sleep_length == i64::MAX));
        assert!(calls().any(|c| c.residency == 0));
        assert!(calls().any(|c| c.latency_request == 0));
        assert!(calls().any(|c| c.got_tick));
        assert!(calls().any(|c| c.nr_iowait > 1_000));
        assert!(calls().any(|c| c.toggle.get().is_some()));
        assert!(calls().all(|c| c.latency_request >= 0));
    }

    #[test]
    fn drives_stay_within_the_format() {
        let mut rng = rng(5, 0);
        for _ in 0..10_000 {
            let drive = random_drive(&mut rng);
            assert!(drive.states.len() <= 32);
            assert_eq!(drive.states.len(), usize::from(drive.npss.min(31)) + 1);
        }
    }
}
