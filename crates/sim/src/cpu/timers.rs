//! Timers of one CPU.

use crate::core::basics::{NEVER, Timer};

#[derive(Clone, Copy, Debug)]
struct Pending {
    /// When it expires at the latest.
    at: u64,
    /// From when on it may expire with another timer of its CPU.
    from: u64,
    timer: Timer,
}

/// Timers that have not expired, and the earliest time at which one of them has to.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// In no order.
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
    pub(crate) fn add(&mut self, at: u64, timer: Timer) {
        self.add_with_slack(at, 0, timer);
    }

    /// Adds a timer that may expire up to `slack` ns before `at`, with another one of its CPU.
    pub(crate) fn add_with_slack(&mut self, at: u64, slack: u64, timer: Timer) {
        let from = at.saturating_sub(slack);
        self.pending.push(Pending { at, from, timer });
        self.next = self.next.min(at);
    }

    /// Takes out, in the order in which they expire at the latest, the timers that may do so by `now`: up to the first that may not
    /// (`__hrtimer_run_queues()`).
    pub(crate) fn expire_early(&mut self, now: u64, mut expired: impl FnMut(Timer)) {
        let first = |pending: &[Pending]| {
            let all = pending.iter().enumerate();
            all.min_by_key(|(_, p)| p.at).map(|(index, _)| index)
        };
        while let Some(index) = first(&self.pending)
            && self.pending[index].from <= now
        {
            expired(self.pending.remove(index).timer);
        }
        self.find_next();
    }

    /// Whether some of them may expire by `now`.
    #[inline]
    pub(crate) fn may_expire(&self, now: u64) -> bool {
        self.pending.iter().any(|p| p.from <= now)
    }

    /// Takes out the timer for a purpose. Returns whether there was one.
    pub(crate) fn remove(&mut self, timer: Timer) -> bool {
        let before = self.pending.len();
        self.pending.retain(|p| p.timer != timer);
        self.find_next();
        self.pending.len() < before
    }

    fn find_next(&mut self) {
        self.next = self.pending.iter().map(|p| p.at).min().unwrap_or(NEVER);
    }

    /// When the next one expires; [`NEVER`] without any.
    #[inline]
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Takes out the timers that are due by `now`. Returns whether there were any.
    pub(crate) fn expire(&mut self, now: u64, mut expired: impl FnMut(Timer)) -> bool {
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

    #[test]
    fn slack_lets_timers_expire_early_up_to_the_first_that_may_not() {
        let mut timers = Timers::default();
        let tasks = |timers: &mut Timers, now| {
            let mut expired = Vec::new();
            timers.expire_early(now, |timer| expired.push(timer));
            expired
        };
        timers.add_with_slack(150, 50, Timer::Task(1));
        timers.add(140, Timer::Task(2));
        timers.add_with_slack(130, 50, Timer::Task(3));
        assert_eq!(timers.next(), 130);
        assert!(!timers.may_expire(79) && timers.may_expire(80));
        // The second one has to wait, and the first one is behind it.
        assert_eq!(tasks(&mut timers, 120), [Timer::Task(3)]);
        assert_eq!(timers.next(), 140);
        assert_eq!(tasks(&mut timers, 141), [Timer::Task(2), Timer::Task(1)]);
        assert_eq!(timers.next(), NEVER);
        assert!(!timers.may_expire(u64::MAX));
    }

    proptest! {
        #[test]
        fn every_timer_expires_once_and_in_time(
            steps in prop::collection::vec((0_u64..50, 0_usize..1000), 1..100),
        ) {
            let mut timers = Timers::default();
            let mut plain: Vec<(u64, Timer)> = Vec::new();
            for (now, (delay, purpose)) in (0..).step_by(10).zip(steps) {
                let due = |(at, _): &(u64, Timer)| *at <= now;
                let mut wanted = plain.clone();
                wanted.retain(due);
                plain.retain(|timer| !due(timer));
                let mut expired = Vec::new();
                prop_assert_eq!(timers.expire(now, |t| expired.push(t)), !wanted.is_empty());
                prop_assert_eq!(expired, wanted.into_iter().map(|(_, t)| t).collect::<Vec<_>>());
                timers.add(now + 1 + delay, Timer::Task(purpose));
                plain.push((now + 1 + delay, Timer::Task(purpose)));
                prop_assert_eq!(timers.next(), plain.iter().map(|(at, _)| *at).min().unwrap());
            }
        }
    }
}
