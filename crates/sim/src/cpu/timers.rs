//! One CPU's timers.

use crate::core::basics::{NEVER, Timer};

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// Latest time in ns when the timer has to expire.
    at: u64,
    /// Earliest time in ns when the timer may expire together with another timer.
    from: u64,
    timer: Timer,
}

/// A CPU's pending timers of one kind, and the earliest time when a timer has to expire.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// The pending timers, in no order.
    pending: Vec<Pending>,
    next: u64,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            next: NEVER,
        }
    }
}

impl Timers {
    pub(crate) fn add_without_slack(&mut self, at: u64, timer: Timer) {
        self.add_with_slack(at, 0, timer);
    }

    /// Adds a timer due at `at`, which may expire up to `slack` ns earlier together with another timer.
    pub(crate) fn add_with_slack(&mut self, at: u64, slack: u64, timer: Timer) {
        let from = at.saturating_sub(slack);
        self.pending.push(Pending { at, from, timer });
        self.next = self.next.min(at);
    }

    /// Removes timers that may expire by `now`, in the order of their latest times, up to the first that may not
    /// (`__hrtimer_run_queues()`).
    pub(crate) fn take_expired_early(&mut self, now: u64, mut expired: impl FnMut(Timer)) {
        while let Some(index) = self.index_of_earliest()
            && self.pending[index].from <= now
        {
            expired(self.pending.remove(index).timer);
        }
        self.update_next_expiry();
    }

    /// Index of the pending timer that has to expire first.
    fn index_of_earliest(&self) -> Option<usize> {
        let pending = self.pending.iter().enumerate();
        pending.min_by_key(|(_, p)| p.at).map(|(index, _)| index)
    }

    /// Whether any pending timer may expire by `now`, its slack considered.
    #[inline]
    pub(crate) fn any_may_expire(&self, now: u64) -> bool {
        self.pending.iter().any(|p| p.from <= now)
    }

    /// Removes the timer for a purpose. Returns whether it was pending.
    pub(crate) fn remove(&mut self, timer: Timer) -> bool {
        let before = self.pending.len();
        self.pending.retain(|p| p.timer != timer);
        self.update_next_expiry();
        self.pending.len() < before
    }

    fn update_next_expiry(&mut self) {
        self.next = self.pending.iter().map(|p| p.at).min().unwrap_or(NEVER);
    }

    /// Time in ns when the next timer expires; [`NEVER`] without any.
    #[inline]
    pub(crate) fn next_expiry(&self) -> u64 {
        self.next
    }

    /// Removes the timers due by `now` and hands each to `expired`. Returns whether any was due.
    pub(crate) fn take_expired(&mut self, now: u64, mut expired: impl FnMut(Timer)) -> bool {
        if now < self.next {
            return false;
        }
        self.next = NEVER;
        self.pending.retain(|p| {
            let due = p.at <= now;
            if due {
                expired(p.timer);
            } else {
                self.next = self.next.min(p.at);
            }
            !due
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn expire_early(timers: &mut Timers, now: u64) -> Vec<Timer> {
        let mut expired = Vec::new();
        timers.take_expired_early(now, |timer| expired.push(timer));
        expired
    }

    #[test]
    fn slack_lets_timers_expire_early_up_to_the_first_that_may_not() {
        let mut timers = Timers::default();
        timers.add_with_slack(150, 50, Timer::Task(1));
        timers.add_without_slack(140, Timer::Task(2));
        timers.add_with_slack(130, 50, Timer::Task(3));
        assert_eq!(timers.next_expiry(), 130);
        assert!(!timers.any_may_expire(79) && timers.any_may_expire(80));
        // The second timer has to wait, and the first is behind the second.
        assert_eq!(expire_early(&mut timers, 120), [Timer::Task(3)]);
        assert_eq!(timers.next_expiry(), 140);
        assert_eq!(
            expire_early(&mut timers, 141),
            [Timer::Task(2), Timer::Task(1)]
        );
        assert_eq!(timers.next_expiry(), NEVER);
        assert!(!timers.any_may_expire(u64::MAX));
    }

    proptest! {
        #[test]
        fn every_timer_expires_once_and_in_time(
            steps in prop::collection::vec((0_u64..50, 0_usize..1000), 1..100),
        ) {
            let mut timers = Timers::default();
            let mut plain: Vec<(u64, Timer)> = Vec::new();
            for (now, (delay, purpose)) in (0..).step_by(10).zip(steps) {
                let mut wanted = plain.clone();
                wanted.retain(|(at, _)| *at <= now);
                plain.retain(|(at, _)| *at > now);
                let mut expired = Vec::new();
                prop_assert_eq!(timers.take_expired(now, |t| expired.push(t)), !wanted.is_empty());
                prop_assert_eq!(expired, wanted.into_iter().map(|(_, t)| t).collect::<Vec<_>>());
                timers.add_without_slack(now + 1 + delay, Timer::Task(purpose));
                plain.push((now + 1 + delay, Timer::Task(purpose)));
                prop_assert_eq!(timers.next_expiry(), plain.iter().map(|(at, _)| *at).min().unwrap());
            }
        }
    }
}
