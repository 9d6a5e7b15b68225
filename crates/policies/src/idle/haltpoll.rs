//! The haltpoll governor for guests: poll for a while before halting, because a halt costs an exit
//! to the host.

use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

use super::table::StateTable;
use super::{
    HaltpollParameters, IdleDecision, IdleGovernor, IdleOutcome, IdleQuery, KernelVersion,
};

/// The haltpoll governor (`drivers/cpuidle/governors/haltpoll.c`, Linux 6.1 and 6.12).
///
/// State 0 polls and state 1 halts; haltpoll never looks at deeper states. The time to poll grows
/// while halts turn out short and shrinks while they turn out long. The versions differ in that
/// 6.12 lets a shrunken time drop to zero once it is below the smallest one to grow from.
#[derive(Clone, Debug)]
pub struct Haltpoll {
    pub(in crate::idle) table: StateTable,
    parameters: HaltpollParameters,
    drops_to_zero: bool,
    poll_limit: u64,
    last_state: usize,
    /// Whether the last idle period in a polling state ended at its time limit.
    limit_hit: bool,
}

impl Haltpoll {
    /// The haltpoll governor of a CPU that has never been idle.
    pub fn new(
        states: &IdleStates,
        version: KernelVersion,
        parameters: HaltpollParameters,
    ) -> Self {
        Self {
            table: StateTable::new(states),
            parameters,
            drops_to_zero: version.has_change_released_in(&[(6, 12, 0)]),
            poll_limit: 0,
            last_state: 0,
            limit_hit: false,
        }
    }

    /// Lengthens or shortens the time to poll after a halt of `blocked` nanoseconds.
    #[inline]
    fn adapt_poll_limit(&mut self, blocked: u64) {
        let p = self.parameters;
        let ceiling = u64::from(p.guest_halt_poll_ns);
        if blocked <= ceiling {
            if blocked > self.poll_limit {
                // As in the kernel, only 32 bits of the product are kept.
                let product =
                    self.poll_limit
                        .wrapping_mul(u64::from(p.guest_halt_poll_grow)) as u32;
                let grown = product
                    .max(p.guest_halt_poll_grow_start)
                    .min(p.guest_halt_poll_ns);
                self.poll_limit = u64::from(grown);
            }
        } else if p.guest_halt_poll_allow_shrink {
            let shrunk = self
                .poll_limit
                .checked_div(u64::from(p.guest_halt_poll_shrink))
                .unwrap_or(0);
            let too_small = shrunk < u64::from(p.guest_halt_poll_grow_start);
            self.poll_limit = if self.drops_to_zero && too_small {
                0
            } else {
                shrunk
            };
        }
    }
}

impl IdleGovernor for Haltpoll {
    #[inline]
    fn select(&mut self, query: &IdleQuery) -> IdleDecision {
        let polled_in_vain = self.last_state == 0 && self.limit_hit;
        let halt = query.latency_request != 0 && (self.poll_limit == 0 || polled_in_vain);
        IdleDecision {
            state: usize::from(halt),
            stop_tick: halt,
        }
    }

    #[inline]
    fn reflect(&mut self, entered: usize, outcome: &IdleOutcome) {
        if outcome.residency == 0 {
            return;
        }
        if self.table.is_polling(entered) {
            self.limit_hit = outcome.poll_limit_hit;
        }
        self.last_state = entered;
        if entered != 0 {
            self.adapt_poll_limit(outcome.residency);
        }
    }

    /// Time to poll by haltpoll's own reckoning, in place of the limit from the idle states; `None`
    /// if the time is 0.
    #[inline]
    fn poll_limit(&self) -> Option<Nanoseconds> {
        (self.poll_limit != 0).then_some(Nanoseconds(self.poll_limit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::idle::testing::make_states;
    use proptest::prelude::*;

    fn guest(version: KernelVersion) -> Haltpoll {
        Haltpoll::new(
            &make_states(&[(0, 0), (1_000, 1_000)], true),
            version,
            HaltpollParameters::default(),
        )
    }

    fn halted_for(governor: &mut Haltpoll, residency: u64) {
        governor.reflect(
            1,
            &IdleOutcome {
                residency,
                ..IdleOutcome::default()
            },
        );
    }

    #[test]
    fn short_halts_make_it_poll_and_long_ones_make_it_halt_again() {
        let mut governor = guest(KernelVersion::V6_12);
        let query = IdleQuery {
            latency_request: i64::MAX,
            ..IdleQuery::default()
        };
        assert_eq!(governor.select(&query).state, 1);
        halted_for(&mut governor, 20_000);
        assert_eq!(governor.poll_limit(), Some(Nanoseconds(50_000)));
        assert_eq!(
            governor.select(&query),
            IdleDecision {
                state: 0,
                stop_tick: false
            }
        );
        halted_for(&mut governor, 60_000);
        assert_eq!(governor.poll_limit(), Some(Nanoseconds(100_000)));
        halted_for(&mut governor, 300_000);
        assert_eq!(governor.poll_limit(), Some(Nanoseconds(50_000)));
        halted_for(&mut governor, 300_000);
        assert_eq!(governor.poll_limit(), None);
        assert_eq!(governor.select(&query).state, 1);
    }

    #[test]
    fn linux_6_1_shrinks_below_the_start_value() {
        let mut governor = guest(KernelVersion::V6_1);
        halted_for(&mut governor, 20_000);
        halted_for(&mut governor, 300_000);
        assert_eq!(governor.poll_limit(), Some(Nanoseconds(25_000)));
    }

    proptest! {
        #[test]
        fn it_never_polls_longer_than_allowed(lengths in prop::collection::vec(any::<u64>(), 1..50)) {
            let mut governor = guest(KernelVersion::V6_12);
            for length in lengths {
                halted_for(&mut governor, length % 400_000);
                prop_assert!(governor.poll_limit <= 200_000);
            }
        }
    }
}
