//! PSD leases of one CPU at the starts of idle spans.
//!
//! A recording lists an idle period at the period's end, after events during the period. A completion whose interrupt
//! came inside the idle state is therefore known first, and must not give a lease to the idle span it ended.

use std::collections::VecDeque;

use wakepath_policies::psd::{Lease, LeaseRule, LeaseView, PsdPolicy};
use wakepath_units::{Nanoseconds, TickRate};

/// Most pending I/O events since an idle span began. A completion ends every idle state except
/// polling, which ends after a tick at most.
const MAX_PENDING: usize = 1024;

/// A CPU's PSD lease, and the I/O events since the last idle span began.
#[derive(Clone, Debug)]
pub(crate) struct Leases {
    lease: Lease,
    /// Length in ns of intervals, starting at ticks, in each of which only the first I/O event
    /// counts; 0: all count.
    interval: u64,
    /// Times of I/O events in ns that the lease has not handled yet.
    pending: VecDeque<u64>,
}

impl Leases {
    /// A CPU without a lease, under these PSD settings.
    pub(crate) fn new(psd: &PsdPolicy, tick: TickRate) -> Self {
        let by_tick = psd.rule == LeaseRule::Patch && psd.start_after == 1;
        Self {
            lease: Lease::new(psd, tick),
            interval: if by_tick { tick.period().0 } else { 0 },
            pending: VecDeque::new(),
        }
    }

    /// Notes an I/O event that may give a lease, at `time` ns.
    pub(crate) fn note_io(&mut self, time: u64) {
        if let Some(&last) = self.pending.back()
            && self.interval > 0
            && last / self.interval == time / self.interval
        {
            return;
        }
        if self.pending.len() == MAX_PENDING
            && let Some(oldest) = self.pending.pop_front()
        {
            self.lease.handle_io(Nanoseconds(oldest));
        }
        self.pending.push_back(time);
    }

    /// Handles the I/O events up to `start`, when an idle span begins, and returns the lease as
    /// seen then. Calls come in order of time.
    #[inline(never)]
    pub(crate) fn lease_at_span_start(&mut self, start: u64) -> LeaseView {
        while let Some(&time) = self.pending.front()
            && time <= start
        {
            self.lease.handle_io(Nanoseconds(time));
            self.pending.pop_front();
        }
        self.lease.view_at(Nanoseconds(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// End of the lease that holds at `start`, in ns; 0 without a lease.
    fn end(leases: &mut Leases, start: u64) -> u64 {
        let lease = leases.lease_at_span_start(start);
        let last = (0..100).rfind(|ms| lease.holds_at(Nanoseconds(start + ms * MS)));
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
            leases.note_io(10 * MS);
            assert_eq!(end(&mut leases, 9 * MS), 0, "{rule:?}");
            assert_eq!(end(&mut leases, 10 * MS), 14 * MS, "{rule:?}");
            leases.note_io(20 * MS);
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
            leases.note_io(8 * MS);
            leases.note_io(9 * MS);
            assert_eq!(end(&mut leases, 10 * MS), expected * MS, "{rule:?}");
        }
    }

    #[test]
    fn a_cpu_that_is_never_idle_takes_no_memory() {
        let mut leases = Leases::new(&PsdPolicy::default(), TickRate::HZ_1000);
        for tick in 0..10_000 {
            leases.note_io(tick * MS);
        }
        assert_eq!(leases.pending.len(), MAX_PENDING);
        assert_eq!(end(&mut leases, 9_999 * MS), 10_002 * MS);
    }
}
