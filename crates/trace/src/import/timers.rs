//! Each CPU's timers, as shown by the timer events up to now. Later events are never used.

use std::collections::HashMap;

use wakepath_units::TickRate;

use super::decode::{Function, TraceEvent};

/// A clock beyond this value is the calendar's: 3 years in ns.
const CALENDAR: i64 = 100_000_000_000_000_000;

/// All CPUs' timers.
#[derive(Debug, Default)]
pub(super) struct Timers {
    cpus: HashMap<u32, Cpu>,
    /// The CPU on which each pending timer was started.
    places: HashMap<u64, u32>,
    /// Offsets from the trace's clock to the timers' clocks, monotonic and calendar, at the last expired timer.
    ahead: [Option<i64>; 2],
    tick_ns: i64,
    /// Due time of some tick on the monotonic clock. All ticks, and the counting of jiffies, keep the same phase.
    some_tick: Option<i64>,
    /// Whether the trace has high-resolution timer events.
    pub(super) any_timer: bool,
    /// Whether the trace has events about stopping the tick.
    pub(super) any_tick_stop: bool,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Expiry of pending timers, each on the timer's own clock.
    waiting: HashMap<u64, i64>,
    /// Expiry of pending timers on the wheel, on the trace's clock.
    wheel: HashMap<u64, i64>,
    tick: Option<i64>,
    stopped: bool,
    /// The CPU's tick as stopped since its last idle period.
    stopped_from: Option<StoppedTick>,
}

/// A stopped tick, with the due time before.
#[derive(Clone, Copy, Debug)]
struct StoppedTick {
    tick: Option<i64>,
}

/// Known inputs of a governor about a CPU's timers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TimerInputs {
    pub(super) sleep_length: Option<i64>,
    pub(super) delta_tick: Option<i64>,
    pub(super) tick_stopped: Option<bool>,
    pub(super) stop_tick: Option<bool>,
}

impl Timers {
    pub(super) fn new(rate: TickRate) -> Self {
        let mut timers = Self::default();
        timers.use_tick_rate(rate);
        timers
    }

    /// Sets the tick rate, as far as it is known now.
    pub(super) fn use_tick_rate(&mut self, rate: TickRate) {
        self.tick_ns = rate.period().0 as i64;
    }

    /// Brings the state of `cpu`'s timers up to date from an event.
    pub(super) fn update_from_event(&mut self, time: u64, cpu: u32, what: TraceEvent) {
        match what {
            TraceEvent::TimerStart {
                timer,
                expires,
                function,
            } => {
                self.any_timer = true;
                self.note_timer_start(cpu, timer, expires, function);
            }
            TraceEvent::TimerExpire {
                timer,
                now,
                function,
            } => {
                self.ahead[usize::from(now > CALENDAR)] = Some(now.saturating_sub_unsigned(time));
                self.remove_timer(timer);
                if function == Function::Tick {
                    // The tick is started again for the next period, without an event if the handler asks for a
                    // restart.
                    let next = now.saturating_add(self.tick_ns);
                    self.cpus.entry(cpu).or_default().tick = Some(next);
                }
            }
            TraceEvent::WheelStart { timer, ticks } => {
                self.remove_timer(timer);
                if let Some(ticks) = ticks {
                    self.note_wheel_timer_start(time as i64, cpu, timer, ticks);
                }
            }
            TraceEvent::TimerCancel { timer }
            | TraceEvent::WheelCancel { timer }
            | TraceEvent::WheelExpire { timer } => self.remove_timer(timer),
            TraceEvent::TickStop { success } => {
                self.any_tick_stop = true;
                let c = self.cpus.entry(cpu).or_default();
                if success && !c.stopped {
                    c.stopped = true;
                    c.stopped_from = Some(StoppedTick { tick: c.tick });
                }
            }
            // A stopped tick is started again when a task runs.
            TraceEvent::Switch { next, .. } if next != 0 => {
                self.cpus.entry(cpu).or_default().stopped = false;
            }
            _ => {}
        }
    }

    /// Notes that a high-resolution timer is started.
    fn note_timer_start(&mut self, cpu: u32, timer: u64, expires: i64, function: Function) {
        self.remove_timer(timer);
        let state = self.cpus.entry(cpu).or_default();
        if function == Function::Tick {
            state.tick = Some(expires);
            if !state.stopped {
                self.some_tick = Some(expires);
            }
        } else {
            state.waiting.insert(timer, expires);
            self.places.insert(timer, cpu);
        }
    }

    /// Notes that a timer is started on the wheel, which runs it after a number of ticks.
    fn note_wheel_timer_start(&mut self, time: i64, cpu: u32, timer: u64, ticks: i64) {
        let last_tick = time.saturating_sub(self.ns_since_last_tick(time));
        let at = last_tick.saturating_add(ticks.saturating_mul(self.tick_ns));
        self.cpus.entry(cpu).or_default().wheel.insert(timer, at);
        self.places.insert(timer, cpu);
    }

    /// Time since the last tick counted jiffies, in ns; 0 if not known.
    fn ns_since_last_tick(&self, time: i64) -> i64 {
        match (self.ahead[0], self.some_tick) {
            (Some(ahead), Some(tick)) => time
                .saturating_add(ahead)
                .saturating_sub(tick)
                .rem_euclid(self.tick_ns.max(1)),
            _ => 0,
        }
    }

    fn remove_timer(&mut self, timer: u64) {
        if let Some(cpu) = self.places.remove(&timer)
            && let Some(c) = self.cpus.get_mut(&cpu)
        {
            c.waiting.remove(&timer);
            c.wheel.remove(&timer);
        }
    }

    /// What a governor sees of `cpu`'s timers when the CPU enters an idle state at `time`.
    pub(super) fn timer_inputs_at_idle_entry(&mut self, time: u64, cpu: u32) -> TimerInputs {
        let c = self.cpus.entry(cpu).or_default();
        let stopped_now = c.stopped_from.take();
        let mut seen = TimerInputs::default();
        if self.any_tick_stop {
            seen.tick_stopped = Some(c.stopped && stopped_now.is_none());
            seen.stop_tick = match stopped_now {
                Some(_) => Some(true),
                None if c.stopped => None,
                None => Some(false),
            };
        }
        let clocks = TimerClocks {
            ahead: self.ahead,
            now: time as i64,
        };
        if !self.any_timer || self.ahead[0].is_none() {
            return seen;
        }
        let on_wheel = c.wheel.values().min().map(|at| at - time as i64);
        let waiting = c
            .waiting
            .values()
            .filter_map(|at| clocks.ns_until_expiry(*at))
            .min();
        let timer = waiting.into_iter().chain(on_wheel).min();
        let tick = c.tick.and_then(|at| clocks.ns_until_expiry(at));
        // The timer of a stopped tick expires for the first timer on the wheel.
        let with_stopped = if c.stopped { tick } else { None };
        let sleep = timer.into_iter().chain(with_stopped).min();
        let stopped_tick = stopped_now.and_then(|stopped| stopped.tick);
        let tick_before = stopped_tick
            .and_then(|at| clocks.ns_until_expiry(at))
            .or(tick);
        seen.sleep_length = Some(sleep.unwrap_or(i64::MAX));
        seen.delta_tick = sleep.into_iter().chain(tick_before).min();
        seen
    }
}

/// The timers' clocks at a time on the trace's clock.
#[derive(Clone, Copy)]
struct TimerClocks {
    /// Offsets to the monotonic and the calendar clock, known after a timer has expired.
    ahead: [Option<i64>; 2],
    now: i64,
}

impl TimerClocks {
    /// Time left until a timer expires, in ns; `None` while the timer's clock is not known.
    fn ns_until_expiry(self, expires: i64) -> Option<i64> {
        let ahead = self.ahead[usize::from(expires > CALENDAR)]?;
        Some(expires.saturating_sub(ahead).saturating_sub(self.now))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    /// Offset from the trace's clock to the timers' clock.
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
        timers.update_from_event(time as u64, 0, what);
    }

    fn tick(timers: &mut Timers, time: i64) {
        let now = time + AHEAD;
        let what = TraceEvent::TimerExpire {
            timer: 1,
            now,
            function: Function::Tick,
        };
        timers.update_from_event(time as u64, 0, what);
    }

    #[test]
    fn the_next_timer_is_the_sleep_length() {
        let mut timers = Timers::new(TickRate::HZ_250);
        assert_eq!(
            timers.timer_inputs_at_idle_entry(0, 0),
            TimerInputs::default()
        );
        tick(&mut timers, 4 * MS);
        start(&mut timers, 5 * MS, 2, 20 * MS, false);
        start(&mut timers, 5 * MS, 3, 12 * MS, false);
        let seen = timers.timer_inputs_at_idle_entry(6 * MS as u64, 0);
        assert_eq!(seen.sleep_length, Some(6 * MS));
        assert_eq!(seen.delta_tick, Some(2 * MS));
        assert_eq!(seen.tick_stopped, None);
        timers.update_from_event(0, 0, TraceEvent::TimerCancel { timer: 3 });
        assert_eq!(
            timers
                .timer_inputs_at_idle_entry(6 * MS as u64, 0)
                .sleep_length,
            Some(14 * MS)
        );
        // Another CPU has no timers.
        assert_eq!(
            timers
                .timer_inputs_at_idle_entry(6 * MS as u64, 1)
                .sleep_length,
            Some(i64::MAX)
        );
    }

    #[test]
    fn a_stopped_tick_is_the_wheels_timer() {
        let mut timers = Timers::new(TickRate::HZ_250);
        tick(&mut timers, 4 * MS);
        timers.update_from_event(5 * MS as u64, 0, TraceEvent::TickStop { success: true });
        start(&mut timers, 5 * MS, 1, 100 * MS, true);
        let seen = timers.timer_inputs_at_idle_entry(5 * MS as u64, 0);
        assert_eq!(
            seen,
            TimerInputs {
                sleep_length: Some(95 * MS),
                delta_tick: Some(3 * MS),
                tick_stopped: Some(false),
                stop_tick: Some(true),
            }
        );
        let seen = timers.timer_inputs_at_idle_entry(6 * MS as u64, 0);
        assert_eq!((seen.tick_stopped, seen.stop_tick), (Some(true), None));
        // A task restarts the tick.
        let task = TraceEvent::Switch {
            previous: 0,
            blocked: false,
            next: 5,
            next_name: crate::import::decode::Name::default(),
        };
        timers.update_from_event(7 * MS as u64, 0, task);
        let seen = timers.timer_inputs_at_idle_entry(8 * MS as u64, 0);
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
        timers.update_from_event(5 * MS as u64, 0, what);
        assert_eq!(
            timers
                .timer_inputs_at_idle_entry(5 * MS as u64, 0)
                .sleep_length,
            Some(39 * MS)
        );
    }
}
