//! The scheduler's tick, learned from a trace without direct statements: the handler's address, if the file has no
//! symbols (as perf leaves them out in a `perf.data`), and the rate.

use std::collections::HashMap;

use wakepath_units::TickRate;

use super::decode::{TimerFunction, TraceEvent};

/// Number of steps from tick to tick that are enough to know the rate, although most ticks of a stalled guest come late.
const ENOUGH_STEPS: u32 = 64;
/// How often the shortest step must be seen to count as the tick's period.
const LEAST_STEPS: u32 = 2;

/// What a trace has shown so far of the scheduler's tick.
#[derive(Debug, Default)]
pub(super) struct TickLearner {
    /// Whether the trace names the functions of timers, so that the tick's are known.
    named: bool,
    handler: Option<u64>,
    /// Whether some timer functions are addresses instead of names.
    pub(super) any_address: bool,
    cpus: HashMap<u32, Cpu>,
    /// How often each tick rate has fitted a step from tick to tick.
    steps: HashMap<TickRate, u32>,
}

#[derive(Debug, Default)]
struct Cpu {
    /// Whether the CPU's tick was stopped, and nothing has happened since.
    stopping: bool,
    /// The tick's timer that has just expired, and the due time.
    expired: Option<(u64, Option<i64>)>,
    /// When the CPU's tick was last set to expire, unless the tick was stopped since.
    due: Option<i64>,
}

impl TickLearner {
    /// Whether nothing more about the tick is to be learnt.
    pub(super) fn has_learnt_enough(&self) -> bool {
        let steps: u32 = self.steps.values().sum();
        self.knows_handler_function()
            && steps >= ENOUGH_STEPS
            && self.rate_of_shortest_frequent_step().is_some()
    }

    pub(super) fn knows_handler_function(&self) -> bool {
        self.named || self.handler.is_some()
    }

    /// Ticks per second, from the shortest step between ticks: late ticks make longer steps.
    pub(super) fn rate_of_shortest_frequent_step(&self) -> Option<TickRate> {
        let often = self
            .steps
            .iter()
            .filter(|(_, count)| **count >= LEAST_STEPS);
        often.map(|(rate, _)| *rate).max_by_key(|rate| rate.hz())
    }

    /// The event, with its timer's function named as the tick's handler if that is known.
    pub(super) fn mark_tick_handler(&self, mut what: TraceEvent) -> TraceEvent {
        if let TraceEvent::TimerStart { function, .. } | TraceEvent::TimerExpire { function, .. } =
            &mut what
            && let TimerFunction::Address(address) = *function
            && self.handler == Some(address)
        {
            *function = TimerFunction::Tick;
        }
        what
    }

    /// Forgets the tick's state of a CPU with missing events.
    pub(super) fn forget_cpu(&mut self, cpu: u32) {
        self.cpus.remove(&cpu);
    }

    /// Learns about the tick from an event traced by `cpu`. A CPU's events come in order.
    pub(super) fn learn_from_event(&mut self, cpu: u32, what: TraceEvent) {
        if let TraceEvent::TimerStart { function, .. } | TraceEvent::TimerExpire { function, .. } =
            what
        {
            self.named |= function == TimerFunction::Tick;
            self.any_address |= matches!(function, TimerFunction::Address(_));
        }
        // To stop the tick, the kernel sets the tick's timer to the next event, with interrupts off and nothing in
        // between, or cancels the timer (`tick_nohz_stop_tick()`, `kernel/time/tick-sched.c`, Linux 6.1 and 6.12). A
        // pending timer is cancelled before being set.
        if matches!(what, TraceEvent::TimerCancel { .. }) {
            return;
        }
        let known = self.cpus.get_mut(&cpu);
        let stopping = known.is_some_and(|c| std::mem::take(&mut c.stopping));
        if stopping
            && let TraceEvent::TimerStart { function, .. } = what
            && let TimerFunction::Address(address) = function
            // Kernel addresses that are kept secret are all 0.
            && address != 0
        {
            self.handler.get_or_insert(address);
        }
        match self.mark_tick_handler(what) {
            TraceEvent::TickStop { success } => {
                let c = self.cpus.entry(cpu).or_default();
                c.stopping = success;
                c.expired = None;
            }
            TraceEvent::TimerExpire {
                timer, function, ..
            } => {
                let c = self.cpus.entry(cpu).or_default();
                let is_tick = function == TimerFunction::Tick;
                c.expired = is_tick.then(|| (timer, c.due.take()));
            }
            TraceEvent::TimerStart {
                timer,
                expires,
                function: TimerFunction::Tick,
            } => {
                let c = self.cpus.entry(cpu).or_default();
                c.due = (!stopping).then_some(expires);
                // A running tick is set again from within the handler, to a later multiple of the period.
                if let Some((expired, Some(due))) = c.expired.take()
                    && expired == timer
                    && let Some(rate) = rate_with_exact_period(expires.wrapping_sub(due))
                {
                    *self.steps.entry(rate).or_insert(0) += 1;
                }
            }
            TraceEvent::CpuIdle { .. } | TraceEvent::Switch { .. } => {
                if let Some(c) = self.cpus.get_mut(&cpu) {
                    c.expired = None;
                }
            }
            _ => {}
        }
    }
}

/// The rate with this period, exact to the nanosecond.
fn rate_with_exact_period(period_ns: i64) -> Option<TickRate> {
    let period = u64::try_from(period_ns).ok().filter(|period| *period > 0)?;
    let hz = 1_000_000_000_u64.checked_add(period / 2)? / period;
    let rate = TickRate::new(u32::try_from(hz).ok()?)?;
    (rate.period().0 == period).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HANDLER: u64 = 0xffff_ffff_a87c_ac00;
    const OTHER: u64 = 0xffff_ffff_a800_0000;
    const STOP: TraceEvent = TraceEvent::TickStop { success: true };

    fn start(expires: i64, address: u64) -> TraceEvent {
        TraceEvent::TimerStart {
            timer: address,
            expires,
            function: TimerFunction::Address(address),
        }
    }

    fn expire(now: i64, address: u64) -> TraceEvent {
        TraceEvent::TimerExpire {
            timer: address,
            now,
            function: TimerFunction::Address(address),
        }
    }

    fn learnt(events: &[TraceEvent]) -> TickLearner {
        let mut tick = TickLearner::default();
        for event in events {
            tick.learn_from_event(0, *event);
        }
        tick
    }

    #[test]
    fn the_timer_that_stopping_the_tick_sets_is_the_ticks() {
        let cancel = TraceEvent::TimerCancel { timer: HANDLER };
        let tick = learnt(&[start(5, OTHER), STOP, cancel, start(9, HANDLER)]);
        assert_eq!(tick.handler, Some(HANDLER));
        let TraceEvent::TimerStart { function, .. } = tick.mark_tick_handler(start(9, HANDLER))
        else {
            unreachable!();
        };
        assert_eq!(function, TimerFunction::Tick);
        assert_eq!(tick.mark_tick_handler(start(9, OTHER)), start(9, OTHER));
        // Without a next event the tick is cancelled only, and the CPU idle.
        let idle = TraceEvent::CpuIdle { state: 1, cpu: 0 };
        let refused = TraceEvent::TickStop { success: false };
        assert!(!learnt(&[STOP, cancel, idle, start(9, OTHER)]).knows_handler_function());
        assert!(!learnt(&[refused, start(9, OTHER)]).knows_handler_function());
        assert!(!learnt(&[STOP, start(9, 0)]).knows_handler_function());
        // Of another CPU, and where events are missing.
        let mut tick = learnt(&[STOP]);
        tick.learn_from_event(1, start(9, OTHER));
        tick.forget_cpu(0);
        tick.learn_from_event(0, start(9, OTHER));
        assert!(!tick.knows_handler_function());
    }

    #[test]
    fn the_rate_is_that_of_ticks_in_time() {
        for hz in [100, 250, 300, 1_000, 1_024] {
            let rate = TickRate::new(hz);
            let period = rate.unwrap_or_default().period().0 as i64;
            let mut events = vec![STOP, start(77, HANDLER)];
            let mut due = 5 * period;
            events.push(start(due, HANDLER));
            for late in [2; 60].into_iter().chain([1; 64]) {
                events.push(expire(due + 5, HANDLER));
                due += late * period;
                events.push(start(due, HANDLER));
            }
            let tick = learnt(&events);
            assert_eq!(
                (
                    tick.rate_of_shortest_frequent_step(),
                    tick.has_learnt_enough()
                ),
                (rate, true),
                "{hz}"
            );
        }
    }
}
