//! Timers of one CPU.

use crate::basics::{NEVER, Timer};

/// Timers that have not expired, and the earliest time at which one of them does.
#[derive(Clone, Debug)]
pub(crate) struct Timers {
    /// In no order: expiry and purpose.
    pending: Vec<(u64, Timer)>,
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
        self.pending.push((at, timer));
        self.next = self.next.min(at);
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
        self.pending.retain(|(at, timer)| {
            let due = *at <= now;
            if due {
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
