//! Generates logs of idle periods that tell a story: interrupts, timers, bursts, and a tick that
//! runs or is stopped.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

use super::numbers::{MS, US, is_hit_per_mille, random_by_magnitude, random_near_limit};
use crate::record::{CallRecord, NO_LATENCY_LIMIT, StateRecord, Toggle};

/// When wake-ups other than timers come in a generated log.
#[derive(Clone, Copy)]
pub(super) enum Wakeups {
    Regular {
        period: i64,
        jitter: i64,
    },
    Bursts {
        short: i64,
        long: i64,
        length: u32,
    },
    /// Wake-ups come after times so short that the governors' microseconds are few.
    Tiny,
    OnLimits,
    Anything,
    /// No wake-ups come: only timers end an idle period.
    Never,
}

/// When the next timer is due in a generated log.
#[derive(Clone, Copy)]
pub(super) enum Timers {
    /// The timer is beyond all wake-ups.
    Far,
    /// The timer is around the next wake-up.
    Near,
    None,
    OnLimits,
    Anything,
}

/// Character of a generated call log.
pub(super) struct Story {
    pub(super) tick: i64,
    /// Exit latencies of the idle states, in ns.
    pub(super) exits: Vec<i64>,
    /// Limits that the governors compare with, in ns.
    pub(super) limits: Vec<i64>,
    pub(super) wakeups: Wakeups,
    pub(super) timers: Timers,
    /// Chance in 1000 that the tick stops, or runs again, before a call.
    pub(super) stop_or_restart: u32,
    /// Chance in 1000 that the driver refuses the state.
    pub(super) refuse: u32,
    /// Chance in 1000 that the latency request changes.
    pub(super) tighten: u32,
    /// Chance in 1000 that the polling limit is hit.
    pub(super) poll_limit: u32,
    /// Chance in 1000 of values that no consistent machine has.
    pub(super) odd: u32,
    /// Chance in 1000 that another kind of wake-up or timer takes over.
    pub(super) turn: u32,
    /// Chance in 1000 that somebody switches an idle state on or off.
    pub(super) toggle: u32,
    /// Most tasks that wait for I/O at a call.
    pub(super) iowait: u32,
    /// Longest time between idle periods, in ns.
    pub(super) busy: i64,
}

/// Where a CPU stands in its generated log.
struct CpuMoment {
    clock: u64,
    tick_stopped: bool,
    /// Wake-ups since the burst of wake-ups began.
    in_burst: u32,
    latency_request: i64,
}

fn pick_one_of_four(rng: &mut Pcg64Mcg, choices: [u32; 4]) -> u32 {
    choices[rng.random_range(0..4)]
}

impl Story {
    pub(super) fn new(rng: &mut Pcg64Mcg, states: &[StateRecord], tick: i64) -> Self {
        let mut limits = vec![0, tick, tick / 2, 2 * tick, 10 * US, 15 * US, 100 * US, MS];
        limits.extend([10 * MS, 50 * MS, 100 * MS, 45 * MS]);
        // haltpoll's defaults.
        limits.extend([50 * US, 200 * US]);
        let mut exits = Vec::new();
        for state in states {
            // The limit includes half the exit latency or all of it: governors take as much off the
            // idle period before they compare with the target residency.
            let (residency, exit) = (state.target_residency, state.exit_latency);
            limits.push(residency);
            limits.push(residency.saturating_add(exit));
            limits.push(residency.saturating_add(exit / 2));
            limits.push(exit);
            limits.push(exit.saturating_mul(2));
            exits.push(exit);
        }
        Self {
            tick,
            exits,
            limits,
            wakeups: random_wakeup_pattern(rng, tick),
            timers: random_timer_pattern(rng),
            stop_or_restart: pick_one_of_four(rng, [0, 20, 100, 500]),
            refuse: pick_one_of_four(rng, [0, 0, 20, 300]),
            tighten: pick_one_of_four(rng, [0, 0, 30, 300]),
            poll_limit: pick_one_of_four(rng, [0, 100, 500, 900]),
            odd: pick_one_of_four(rng, [0, 0, 20, 200]),
            turn: pick_one_of_four(rng, [0, 0, 5, 30]),
            toggle: [0, 0, 0, 0, 0, 0, 10, 100][rng.random_range(0..8)],
            iowait: [0, 0, 1, 3, 60, u32::MAX][rng.random_range(0..6)],
            busy: random_by_magnitude(rng, 1, 2 * MS),
        }
    }

    /// Writes a log of so many calls, during which the character may change.
    pub(super) fn generate_log(mut self, rng: &mut Pcg64Mcg, calls: usize) -> Vec<CallRecord> {
        let mut cpu = CpuMoment {
            clock: match rng.random_range(0..10) {
                0 => 0,
                1 => u64::MAX - rng.random_range(0..1 << 30),
                _ => rng.random_range(0..1 << 42),
            },
            tick_stopped: rng.random_ratio(1, 3),
            in_burst: 0,
            latency_request: NO_LATENCY_LIMIT,
        };
        let mut log = Vec::with_capacity(calls);
        for _ in 0..calls {
            if is_hit_per_mille(rng, self.turn) {
                self.wakeups = random_wakeup_pattern(rng, self.tick);
                self.timers = random_timer_pattern(rng);
            }
            let call = self.next_call(rng, &mut cpu);
            cpu.clock = call
                .reflect_clock
                .wrapping_add(rng.random_range(0..=self.busy) as u64);
            log.push(call);
        }
        log
    }

    fn next_call(&self, rng: &mut Pcg64Mcg, cpu: &mut CpuMoment) -> CallRecord {
        if is_hit_per_mille(rng, self.stop_or_restart) {
            cpu.tick_stopped = !cpu.tick_stopped;
        }
        cpu.latency_request = self.next_latency_request(rng, cpu.latency_request);

        let wakeup = self.random_time_to_wakeup(rng, &mut cpu.in_burst);
        let sleep_length = self.random_time_to_timer(rng, wakeup);
        let to_tick = self.tick - (cpu.clock % self.tick as u64) as i64;
        let delta_tick = if cpu.tick_stopped {
            sleep_length
        } else {
            sleep_length.min(to_tick)
        };
        // Whether the governor stopped the tick is unknown to the log, so that the tick may come or
        // not.
        let tick_comes = !cpu.tick_stopped && rng.random_ratio(1, 2);
        let last = if tick_comes { delta_tick } else { sleep_length };
        let slept = wakeup.min(last).clamp(1, 1 << 40);
        let residency = (slept + self.random_wake_up_delay(rng)).max(1) as u64;

        let mut call = CallRecord {
            sleep_length,
            delta_tick,
            latency_request: cpu.latency_request,
            select_clock: cpu.clock,
            reflect_clock: cpu.clock.wrapping_add(residency),
            residency,
            nr_iowait: if self.iowait == 0 || rng.random_ratio(1, 3) {
                0
            } else {
                rng.random_range(0..=self.iowait)
            },
            tick_stopped: cpu.tick_stopped,
            got_tick: tick_comes && slept == to_tick,
            poll_limit_hit: is_hit_per_mille(rng, self.poll_limit),
            ..CallRecord::default()
        };
        if is_hit_per_mille(rng, self.toggle) {
            let state = rng.random_range(0..self.exits.len() as u8);
            call.toggle = Toggle::switch_state(state, rng.random_ratio(1, 2));
        }
        if is_hit_per_mille(rng, self.refuse) {
            call.residency = 0;
        }
        if is_hit_per_mille(rng, self.odd) {
            self.make_inconsistent(rng, &mut call);
        }
        call
    }

    /// Time for which a CPU goes on after its wake-up: about the exit latency of some state, in ns.
    fn random_wake_up_delay(&self, rng: &mut Pcg64Mcg) -> i64 {
        if rng.random_ratio(1, 2) {
            rng.random_range(0..3 * US)
        } else {
            self.exits[rng.random_range(0..self.exits.len())].min(10 * MS)
        }
    }

    /// Next latency request in ns, given the one before: kept for a while once it changed.
    fn next_latency_request(&self, rng: &mut Pcg64Mcg, before: i64) -> i64 {
        if before != NO_LATENCY_LIMIT && rng.random_ratio(1, 8) {
            return NO_LATENCY_LIMIT;
        }
        if !is_hit_per_mille(rng, self.tighten) {
            return before;
        }
        match rng.random_range(0..8) {
            0 => 0,
            1..=5 => random_near_limit(rng, &self.exits).max(0),
            _ => random_by_magnitude(rng, 1, 10 * MS),
        }
    }

    fn random_time_to_wakeup(&self, rng: &mut Pcg64Mcg, in_burst: &mut u32) -> i64 {
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
            Wakeups::OnLimits => random_near_limit(rng, &self.limits),
            Wakeups::Anything => random_by_magnitude(rng, 1, 1 << 33),
            Wakeups::Never => i64::MAX,
        }
    }

    fn random_time_to_timer(&self, rng: &mut Pcg64Mcg, wakeup: i64) -> i64 {
        match self.timers {
            Timers::Far => wakeup
                .saturating_mul(rng.random_range(1..20))
                .saturating_add(rng.random_range(0..10 * MS)),
            Timers::Near => wakeup
                .min(1 << 40)
                .saturating_add(rng.random_range(-3 * US..=3 * US)),
            Timers::None => i64::MAX,
            Timers::OnLimits => random_near_limit(rng, &self.limits),
            Timers::Anything => random_by_magnitude(rng, 1, 1 << 33),
        }
    }

    /// Sets fields of a call to what a consistent machine would not say, or hardly ever.
    fn make_inconsistent(&self, rng: &mut Pcg64Mcg, call: &mut CallRecord) {
        for _ in 0..rng.random_range(1..=3) {
            let limit = random_near_limit(rng, &self.limits);
            match rng.random_range(0..12) {
                0 => call.sleep_length = limit,
                1 => call.sleep_length = -random_by_magnitude(rng, 1, 1 << 30),
                2 => call.sleep_length = i64::MAX,
                3 => call.sleep_length = rng.random(),
                4 => call.delta_tick = limit,
                5 => call.delta_tick = random_by_magnitude(rng, 1, self.tick),
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

fn random_wakeup_pattern(rng: &mut Pcg64Mcg, tick: i64) -> Wakeups {
    match rng.random_range(0..12) {
        0..=3 => {
            let period = random_by_magnitude(rng, 2 * US, 4 * tick);
            let jitter = match rng.random_range(0..4) {
                0 => 0,
                1 => period / 100,
                2 => period / 6,
                _ => period / 2,
            };
            Wakeups::Regular { period, jitter }
        }
        4..=6 => Wakeups::Bursts {
            short: random_by_magnitude(rng, US, 500 * US),
            long: random_by_magnitude(rng, 100 * US, 8 * tick),
            length: rng.random_range(1..24),
        },
        7 => Wakeups::Tiny,
        8 | 9 => Wakeups::OnLimits,
        10 => Wakeups::Never,
        _ => Wakeups::Anything,
    }
}

fn random_timer_pattern(rng: &mut Pcg64Mcg) -> Timers {
    match rng.random_range(0..8) {
        0 | 1 => Timers::Far,
        2 | 3 => Timers::Near,
        4 => Timers::None,
        5 | 6 => Timers::OnLimits,
        _ => Timers::Anything,
    }
}
