//! PSD's lease of one CPU, as of when its rests began.
//!
//! A recording has an idle period at its end, behind what happened during it: a completion whose interrupt came inside
//! of the idle state is known first. It must not hold for the rest that it ended.

use std::collections::VecDeque;

use wakepath_policies::psd::{Lease, PsdPolicy};
use wakepath_units::{Nanoseconds, TickRate};

/// So many grants can have come since a rest began, each in a tick of its own. A completion ends all idle states but
/// the polling one, which gives up after a tick at most.
const MOST: usize = 64;

/// The lease of a CPU, and what may have been granted since its last rest began.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    lease: Lease,
    tick: u64,
    /// The first one of each tick: the others change nothing.
    grants: VecDeque<u64>,
}

impl Leases {
    /// No lease yet.
    pub(crate) fn new(psd: PsdPolicy, tick: TickRate) -> Self {
        Self {
            lease: Lease::new(psd.timeout_ms, tick),
            tick: tick.period().0,
            grants: VecDeque::new(),
        }
    }

    /// The lease is granted or extended at `time`.
    pub(crate) fn grant(&mut self, time: u64) {
        let tick = |time| time / self.tick;
        if self
            .grants
            .back()
            .is_some_and(|&last| tick(last) == tick(time))
        {
            return;
        }
        if self.grants.len() == MOST
            && let Some(oldest) = self.grants.pop_front()
        {
            self.lease.grant(Nanoseconds(oldest));
        }
        self.grants.push_back(time);
    }

    /// Until when the lease holds that a rest finds which begins at `start`. Rests are asked about in their order.
    pub(crate) fn end_for(&mut self, start: u64) -> u64 {
        while let Some(&time) = self.grants.front()
            && time <= start
        {
            self.lease.grant(Nanoseconds(time));
            self.grants.pop_front();
        }
        self.lease.end().0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_grant_holds_for_rests_that_begin_after_it() {
        let mut leases = Leases::new(PsdPolicy::default(), TickRate::HZ_1000);
        leases.grant(10 * MS);
        leases.grant(10 * MS + 1);
        assert_eq!(leases.end_for(10 * MS - 1), 0);
        assert_eq!(leases.end_for(10 * MS), 13 * MS);
        leases.grant(20 * MS);
        assert_eq!(leases.end_for(19 * MS), 13 * MS);
        assert_eq!(leases.end_for(30 * MS), 23 * MS);
    }

    #[test]
    fn a_cpu_that_never_rests_takes_no_memory() {
        let mut leases = Leases::new(PsdPolicy::default(), TickRate::HZ_1000);
        for tick in 0..10_000 {
            leases.grant(tick * MS);
        }
        assert_eq!(leases.grants.len(), MOST);
        assert_eq!(leases.end_for(9_999 * MS), 10_002 * MS);
    }
}
