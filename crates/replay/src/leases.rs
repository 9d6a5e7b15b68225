//! PSD's lease of one CPU, as of when its idle spans began.
//!
//! A recording has an idle period at its end, behind what happened during it: a completion whose interrupt came inside
//! of the idle state is known first. It must not hold for the idle span that it ended.

use std::collections::VecDeque;

use wakepath_policies::psd::{Lease, LeaseRule, LeaseView, PsdPolicy};
use wakepath_units::{Nanoseconds, TickRate};

/// So many I/Os can have come since an idle span began. A completion ends all idle states but the polling one, which gives up
/// after a tick at most.
const MOST: usize = 1024;

/// The lease of a CPU, and the I/Os since its last idle span began.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    lease: Lease,
    /// Of I/Os within this time, which begins with a tick, the first one alone counts; 0: each counts.
    alike: u64,
    ios: VecDeque<u64>,
}

impl Leases {
    /// No lease yet.
    pub(crate) fn new(psd: &PsdPolicy, tick: TickRate) -> Self {
        let by_tick = psd.rule == LeaseRule::Patch && psd.start_after == 1;
        Self {
            lease: Lease::new(psd, tick),
            alike: if by_tick { tick.period().0 } else { 0 },
            ios: VecDeque::new(),
        }
    }

    /// An I/O that counts, at `time`.
    pub(crate) fn io(&mut self, time: u64) {
        let alike = |&last: &u64| self.alike > 0 && last / self.alike == time / self.alike;
        if self.ios.back().is_some_and(alike) {
            return;
        }
        if self.ios.len() == MOST
            && let Some(oldest) = self.ios.pop_front()
        {
            self.lease.io(Nanoseconds(oldest));
        }
        self.ios.push_back(time);
    }

    /// The lease that an idle span finds which begins at `start`. Idle spans are asked about in their order.
    #[inline(never)]
    pub(crate) fn found_at(&mut self, start: u64) -> LeaseView {
        while let Some(&time) = self.ios.front()
            && time <= start
        {
            self.lease.io(Nanoseconds(time));
            self.ios.pop_front();
        }
        self.lease.view(Nanoseconds(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Until when the lease holds that an idle span finds which begins at `start`, in ns; 0: none holds.
    fn end(leases: &mut Leases, start: u64) -> u64 {
        let lease = leases.found_at(start);
        let last = (0..100).rfind(|ms| lease.holds(Nanoseconds(start + ms * MS)));
        last.map_or(0, |ms| start + (ms + 1) * MS)
    }

    #[test]
    fn a_lease_holds_for_idle_spans_that_begin_after_the_io() {
        for rule in [LeaseRule::Patch, LeaseRule::Module, LeaseRule::Daemon] {
            let psd = PsdPolicy {
                timeout_ms: 4,
                rule,
                ..PsdPolicy::default()
            };
            let mut leases = Leases::new(&psd, TickRate::HZ_1000);
            leases.io(10 * MS);
            assert_eq!(end(&mut leases, 9 * MS), 0, "{rule:?}");
            assert_eq!(end(&mut leases, 10 * MS), 14 * MS, "{rule:?}");
            leases.io(20 * MS);
            assert_eq!(end(&mut leases, 19 * MS), 0, "{rule:?}");
            assert_eq!(end(&mut leases, 22 * MS), 24 * MS, "{rule:?}");
        }
    }

    #[test]
    fn ios_of_one_tick_are_alike_for_the_patch_alone() {
        for (rule, expected) in [(LeaseRule::Patch, 12), (LeaseRule::Daemon, 14)] {
            let psd = PsdPolicy {
                timeout_ms: 4,
                rule,
                ..PsdPolicy::default()
            };
            let mut leases = Leases::new(&psd, TickRate::HZ_250);
            leases.io(8 * MS);
            leases.io(9 * MS);
            assert_eq!(end(&mut leases, 10 * MS), expected * MS, "{rule:?}");
        }
    }

    #[test]
    fn a_cpu_that_is_never_idle_takes_no_memory() {
        let mut leases = Leases::new(&PsdPolicy::default(), TickRate::HZ_1000);
        for tick in 0..10_000 {
            leases.io(tick * MS);
        }
        assert_eq!(leases.ios.len(), MOST);
        assert_eq!(end(&mut leases, 9_999 * MS), 10_002 * MS);
    }
}
