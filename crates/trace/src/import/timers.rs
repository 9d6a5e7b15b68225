//! The timers of each CPU, as the trace's timer events show them. What a timer event has not shown by
//! the time at hand is not known: nothing here looks ahead.

use std::collections::HashMap;

use wakepath_units::TickRate;

use super::decode::{Function, TraceEvent};

/// A clock that shows more than this since it began is the calendar's: 3 years in ns.
const CALENDAR: i64 = 100_000_000_000_000_000;

/// The timers of all CPUs.
#[derive(Debug, Default)]
pub(super) struct Timers {
    cpus: HashMap<u32, Cpu>,
    /// The CPU on which each timer was started.
    places: HashMap<u64, u32>,
    /// What the timers' clocks are ahead of the trace's, as of the last timer that expired: the
    /// monotonic one, and the calendar's.
    ahead: [Option<i64>; 2],
    tick_ns: i64,
    /// When some tick comes, on the monotonic clock. All ticks come at multiples of their period from there, and
    /// jiffies are counted then.
    some_tick: Option<i64>,
    /// There are events of each kind.
    pub(super) any_timer: bool,
    pub(super) any_tick_stop: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Expiry of each timer that waits, on its own clock; and of those on the wheel, on the trace's.
    waiting: HashMap<u64, i64>,
    wheel: HashMap<u64, i64>,
    tick: Option<i64>,
    stopped: bool,
    /// The tick before it was stopped, which happened since the last idle period.
    stopped_from: Option<Stopped>,
}

/// A tick that was stopped, and when it would have come.
#[derive(Clone, Copy, Debug)]
struct Stopped {
    tick: Option<i64>,
}

/// What is known of a CPU's timers when it asks its governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    pub(super) sleep_length: Option<i64>,
    pub(super) delta_tick: Option<i64>,
    pub(super) tick_stopped: Option<bool>,
    pub(super) stop_tick: Option<bool>,
}

impl Timers {
    pub(super) fn new(rate: TickRate) -> Self {
        let mut timers = Self::default();
        timers.set_rate(rate);
        timers
    }

    /// The tick rate, as far as it is known now.
    pub(super) fn set_rate(&mut self, rate: TickRate) {
        self.tick_ns = rate.period().0 as i64;
    }

    /// Takes note of an event on `cpu`.
    pub(super) fn event(&mut self, time: u64, cpu: u32, what: TraceEvent) {
        match what {
            TraceEvent::TimerStart {
                timer,
                expires,
                function,
            } => {
                self.any_timer = true;
                self.remove(timer);
                let c = self.cpus.entry(cpu).or_default();
                if function == Function::Tick {
                    c.tick = Some(expires);
                    if !c.stopped {
                        self.some_tick = Some(expires);
                    }
                } else {
                    c.waiting.insert(timer, expires);
                    self.places.insert(timer, cpu);
                }
            }
            TraceEvent::TimerExpire {
                timer,
                now,
                function,
            } => {
                self.ahead[usize::from(now > CALENDAR)] = Some(now.saturating_sub_unsigned(time));
                self.remove(timer);
                if function == Function::Tick {
                    // It is started anew for the next tick, without an event of its own where the
                    // handler asks for a restart.
                    let next = now.saturating_add(self.tick_ns);
                    self.cpus.entry(cpu).or_default().tick = Some(next);
                }
            }
            TraceEvent::WheelStart { timer, ticks } => {
                self.remove(timer);
                if let Some(ticks) = ticks {
                    let last_tick = (time as i64).saturating_sub(self.since_tick(time as i64));
                    let at = last_tick.saturating_add(ticks.saturating_mul(self.tick_ns));
                    self.cpus.entry(cpu).or_default().wheel.insert(timer, at);
                    self.places.insert(timer, cpu);
                }
            }
            TraceEvent::TimerCancel { timer }
            | TraceEvent::WheelCancel { timer }
            | TraceEvent::WheelExpire { timer } => self.remove(timer),
            TraceEvent::TickStop { success } => {
                self.any_tick_stop = true;
                let c = self.cpus.entry(cpu).or_default();
                if success && !c.stopped {
                    c.stopped = true;
                    c.stopped_from = Some(Stopped { tick: c.tick });
                }
            }
            // The tick comes back when a task runs.
            TraceEvent::Switch { next, .. } if next != 0 => {
                self.cpus.entry(cpu).or_default().stopped = false;
            }
            _ => {}
        }
    }

    /// How long ago jiffies were counted last; 0 where that is not known.
    fn since_tick(&self, time: i64) -> i64 {
        match (self.ahead[0], self.some_tick) {
            (Some(ahead), Some(tick)) => time
                .saturating_add(ahead)
                .saturating_sub(tick)
                .rem_euclid(self.tick_ns.max(1)),
            _ => 0,
        }
    }

    fn remove(&mut self, timer: u64) {
        if let Some(cpu) = self.places.remove(&timer)
            && let Some(c) = self.cpus.get_mut(&cpu)
        {
            c.waiting.remove(&timer);
            c.wheel.remove(&timer);
        }
    }

    /// What the governor of `cpu` could see at `time`, when it entered an idle state.
    pub(super) fn at_entry(&mut self, time: u64, cpu: u32) -> Seen {
        let ahead = self.ahead;
        let c = self.cpus.entry(cpu).or_default();
        let stopped_now = c.stopped_from.take();
        let mut seen = Seen::default();
        if self.any_tick_stop {
            seen.tick_stopped = Some(c.stopped && stopped_now.is_none());
            seen.stop_tick = match stopped_now {
                Some(_) => Some(true),
                None if c.stopped => None,
                None => Some(false),
            };
        }
        // Before a timer has expired, the clocks are not known.
        let until = |expires: i64| {
            let ahead = ahead[usize::from(expires > CALENDAR)]?;
            Some(expires.saturating_sub(ahead).saturating_sub(time as i64))
        };
        if !self.any_timer || ahead[0].is_none() {
            return seen;
        }
        let on_wheel = c.wheel.values().min().map(|at| at - time as i64);
        let timer = c.waiting.values().filter_map(|at| until(*at)).min();
        let timer = timer.into_iter().chain(on_wheel).min();
        let tick = c.tick.and_then(until);
        // A stopped tick's timer waits for the first timer on the wheel.
        let with_stopped = if c.stopped { tick } else { None };
        let sleep = timer.into_iter().chain(with_stopped).min();
        let tick_before = stopped_now.and_then(|s| s.tick).and_then(until).or(tick);
        seen.sleep_length = Some(sleep.unwrap_or(i64::MAX));
        seen.delta_tick = sleep.into_iter().chain(tick_before).min();
        seen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    /// The timers' clock is this much ahead of the trace's.
    const AHEAD: i64 = 7 * MS;

    fn start(timers: &mut Timers, time: i64, timer: u64, expires: i64, tick: bool) {
        let expires = expires + AHEAD;
        let function = if tick {
            Function::Tick
        } else {
            Function::Other
        };
        let what = TraceEvent::TimerStart {
            timer,
            expires,
            function,
        };
        timers.event(time as u64, 0, what);
    }

    fn tick(timers: &mut Timers, time: i64) {
        let now = time + AHEAD;
        let what = TraceEvent::TimerExpire {
            timer: 1,
            now,
            function: Function::Tick,
        };
        timers.event(time as u64, 0, what);
    }

    #[test]
    fn the_next_timer_is_the_sleep_length() {
        let mut timers = Timers::new(TickRate::HZ_250);
        assert_eq!(timers.at_entry(0, 0), Seen::default());
        tick(&mut timers, 4 * MS);
        start(&mut timers, 5 * MS, 2, 20 * MS, false);
        start(&mut timers, 5 * MS, 3, 12 * MS, false);
        let seen = timers.at_entry(6 * MS as u64, 0);
        assert_eq!(seen.sleep_length, Some(6 * MS));
        assert_eq!(seen.delta_tick, Some(2 * MS));
        assert_eq!(seen.tick_stopped, None);
        timers.event(0, 0, TraceEvent::TimerCancel { timer: 3 });
        assert_eq!(
            timers.at_entry(6 * MS as u64, 0).sleep_length,
            Some(14 * MS)
        );
        // Another CPU has none of these.
        assert_eq!(
            timers.at_entry(6 * MS as u64, 1).sleep_length,
            Some(i64::MAX)
        );
    }

    #[test]
    fn a_stopped_tick_is_the_wheels_timer() {
        let mut timers = Timers::new(TickRate::HZ_250);
        tick(&mut timers, 4 * MS);
        timers.event(5 * MS as u64, 0, TraceEvent::TickStop { success: true });
        start(&mut timers, 5 * MS, 1, 100 * MS, true);
        let seen = timers.at_entry(5 * MS as u64, 0);
        assert_eq!(
            seen,
            Seen {
                sleep_length: Some(95 * MS),
                delta_tick: Some(3 * MS),
                tick_stopped: Some(false),
                stop_tick: Some(true),
            }
        );
        let seen = timers.at_entry(6 * MS as u64, 0);
        assert_eq!((seen.tick_stopped, seen.stop_tick), (Some(true), None));
        // A task ends it.
        let task = TraceEvent::Switch {
            previous: 0,
            blocked: false,
            next: 5,
            next_name: crate::import::decode::Name::default(),
        };
        timers.event(7 * MS as u64, 0, task);
        let seen = timers.at_entry(8 * MS as u64, 0);
        assert_eq!(
            (seen.tick_stopped, seen.stop_tick),
            (Some(false), Some(false))
        );
    }

    #[test]
    fn a_timer_of_the_wheel_counts_from_the_last_tick() {
        let mut timers = Timers::new(TickRate::HZ_250);
        start(&mut timers, 3 * MS, 1, 4 * MS, true);
        tick(&mut timers, 4 * MS);
        let what = TraceEvent::WheelStart {
            timer: 9,
            ticks: Some(10),
        };
        timers.event(5 * MS as u64, 0, what);
        assert_eq!(
            timers.at_entry(5 * MS as u64, 0).sleep_length,
            Some(39 * MS)
        );
    }
}
