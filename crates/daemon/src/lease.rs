//! Latency leases: CPUs in a burst of I/O may not sleep deeply.

use std::collections::BTreeMap;

use wakepath_policies::psd::DaemonLease;

use crate::watch::WatchEvent;

/// Decides about the leases of all CPUs, and touches nothing.
#[derive(Debug, Default)]
pub struct Leases {
    cpus: BTreeMap<usize, DaemonLease>,
}

/// A lease to give or to take back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseChange {
    /// The CPU.
    pub cpu: usize,
    /// Whether to give the lease, rather than take it back.
    pub give: bool,
}

impl Leases {
    /// Changes of leases after all events: a lease that begins and ends meanwhile changes nothing.
    pub fn take_lease_changes(&mut self, events: &[WatchEvent]) -> Vec<LeaseChange> {
        for event in events {
            let lease = self.cpus.entry(event.cpu).or_default();
            lease.handle_event(event.kind, event.time_ns);
        }
        let changes = self.cpus.iter_mut().filter_map(|(cpu, lease)| {
            let give = lease.take_pending_grant_or_withdrawal()?;
            Some(LeaseChange { cpu: *cpu, give })
        });
        changes.collect()
    }

    /// Number of CPUs that have a lease.
    pub fn count_given_leases(&self) -> usize {
        self.cpus.values().filter(|lease| lease.has_lease()).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::BurstEvent;
    use proptest::prelude::*;
    use wakepath_policies::psd::{IdleDepthLease, LeaseRule, PsdPolicy};
    use wakepath_units::{Nanoseconds, TickRate};

    const fn event(cpu: usize, kind: BurstEvent, time_ns: u64) -> WatchEvent {
        WatchEvent { time_ns, cpu, kind }
    }

    #[test]
    fn a_burst_is_two_changes() {
        let mut leases = Leases::default();
        let give = LeaseChange { cpu: 1, give: true };
        assert_eq!(
            leases.take_lease_changes(&[event(1, BurstEvent::Io, 10)]),
            [give]
        );
        assert_eq!(
            leases.take_lease_changes(&[event(1, BurstEvent::Io, 20)]),
            []
        );
        assert_eq!(leases.count_given_leases(), 1);
        let back = LeaseChange {
            cpu: 1,
            give: false,
        };
        assert_eq!(
            leases.take_lease_changes(&[event(1, BurstEvent::Quiet, 30)]),
            [back]
        );
        assert_eq!(leases.count_given_leases(), 0);
    }

    proptest! {
        #[test]
        fn changes_alternate(
            events in prop::collection::vec((0_usize..3, any::<bool>(), 0_u64..100), 0..60),
            batch in 1_usize..5,
        ) {
            let mut leases = Leases::default();
            let mut given = [false; 3];
            let events: Vec<WatchEvent> = events
                .into_iter()
                .map(|(cpu, io, time)| event(cpu, if io { BurstEvent::Io } else { BurstEvent::Quiet }, time))
                .collect();
            for events in events.chunks(batch) {
                for change in leases.take_lease_changes(events) {
                    prop_assert_ne!(given[change.cpu], change.give);
                    given[change.cpu] = change.give;
                }
            }
            prop_assert_eq!(leases.count_given_leases(), given.iter().filter(|g| **g).count());
        }

        /// `psd[rule=daemon]`, by which studies say what the daemon would do.
        #[test]
        fn user_space_gives_the_leases_of_the_rule(
            ios in prop::collection::vec((0_usize..3, 1_u64..3_000_000), 1..100),
            start_after in 1_u32..4,
        ) {
            let policy = PsdPolicy {
                timeout_ms: 2,
                start_after,
                rule: LeaseRule::Daemon,
                ..PsdPolicy::default()
            };
            let mut rules = [(); 3].map(|()| IdleDepthLease::new(&policy, TickRate::HZ_250));
            let mut leases = Leases::default();
            let mut given = [false; 3];
            let mut hear = |given: &mut [bool; 3], event| {
                for change in leases.take_lease_changes(&[event]) {
                    given[change.cpu] = change.give;
                }
            };
            let mut now = 10_000_000;
            for (cpu, gap) in ios {
                now += gap;
                // Events of the program in the kernel, in the order of time.
                let mut ended: Vec<(u64, usize)> = (0..3)
                    .map(|other: usize| (rules[other].end_without_further_io().0, other))
                    .filter(|(end, other)| {
                        given[*other] && (*end < now || *end == now && *other != cpu)
                    })
                    .collect();
                ended.sort_unstable();
                for (end, other) in ended {
                    hear(&mut given, event(other, BurstEvent::Quiet, end));
                }
                let held = rules[cpu].holds_at(Nanoseconds(now));
                rules[cpu].begin_or_extend_for_io(Nanoseconds(now));
                if !held && rules[cpu].holds_at(Nanoseconds(now)) {
                    hear(&mut given, event(cpu, BurstEvent::Io, now));
                }
                let holds = [0, 1, 2].map(|cpu: usize| rules[cpu].holds_at(Nanoseconds(now)));
                prop_assert_eq!(given, holds);
            }
        }
    }
}
