//! Timers of one CPU.

use crate::basics::{NEVER, Timer};

/// Timers that have not expired, and the earliest time at which one of them does.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// In no order: expiry and purpose.
    pending: Vec<(u64, Timer)>,
    next: u64,
    /// Those among them that may expire earlier, each by this much.
    slack: Vec<(u64, Timer)>,
}

impl Default for Timers {
    fn default() -> Self {
        Self {
            pending: Vec::new(),
            next: NEVER,
            slack: Vec::new(),
        }
    }
}

impl Timers {
    pub(crate) fn add(&mut self, at: u64, timer: Timer) {
        self.pending.push((at, timer));
        self.next = self.next.min(at);
    }

    /// Adds a timer that may expire up to `slack` ns before `at`, with another one of its CPU.
    pub(crate) fn add_with_slack(&mut self, at: u64, slack: u64, timer: Timer) {
        self.add(at, timer);
        if slack > 0 {
            self.slack.push((at - slack.min(at), timer));
        }
    }

    /// Takes out, in the order in which they expire at the latest, the timers that may do so by `now`: up to the first that may not
    /// (`__hrtimer_run_queues()`).
    pub(crate) fn expire_early(&mut self, now: u64, mut expired: impl FnMut(Timer)) {
        while let Some((index, (at, timer))) =
            (self.pending.iter().copied().enumerate()).min_by_key(|(_, (at, _))| *at)
        {
            let early = self
                .slack
                .iter()
                .position(|(from, of)| *of == timer && *from <= now);
            if at > now && early.is_none() {
                break;
            }
            if let Some(early) = early {
                self.slack.remove(early);
            }
            self.pending.remove(index);
            expired(timer);
        }
        self.next = self
            .pending
            .iter()
            .map(|(at, _)| *at)
            .min()
            .unwrap_or(NEVER);
    }

    /// Whether some of them may expire by `now`, before they have to.
    #[inline]
    pub(crate) fn may_expire(&self, now: u64) -> bool {
        self.slack.iter().any(|(from, _)| *from <= now)
    }

    /// Takes out the timer for a purpose. Returns whether there was one.
    pub(crate) fn remove(&mut self, timer: Timer) -> bool {
        let before = self.pending.len();
        self.pending.retain(|(_, other)| *other != timer);
        self.next = self
            .pending
            .iter()
            .map(|(at, _)| *at)
            .min()
            .unwrap_or(NEVER);
        self.pending.len() < before
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
        let slack = &mut self.slack;
        self.pending.retain(|(at, timer)| {
            let due = *at <= now;
            if due {
                if !slack.is_empty() {
                    slack.retain(|(_, other)| other != timer);
                }
                expired(*timer);
            } else {
                self.next = self.next.min(*at);
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
