//! Latency leases: which CPUs may not sleep deeply because they are in a burst of I/O.

use std::collections::BTreeMap;

use crate::watch::{Event, Kind};

/// The leases of all CPUs.
#[derive(Debug, Default)]
pub struct Leases {
    cpus: BTreeMap<usize, Lease>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lease {
    /// The latest I/O that we heard of.
    last_ns: u64,
    /// The CPU has one.
    wanted: bool,
    /// It is in force.
    given: bool,
}

/// What to do about a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// The CPU.
    pub cpu: usize,
    /// Give a lease; else take it back.
    pub give: bool,
}

impl Leases {
    /// What the events ask for, in all: a lease that begins and ends in them changes nothing.
    pub fn handle(&mut self, events: &[Event]) -> Vec<Change> {
        for event in events {
            let lease = self.cpus.entry(event.cpu).or_default();
            match event.kind {
                Kind::Io => {
                    lease.last_ns = lease.last_ns.max(event.time_ns);
                    lease.wanted = true;
                }
                // An end that knows less than we do was overtaken by an I/O.
                Kind::Quiet if event.time_ns < lease.last_ns => {}
                Kind::Quiet => lease.wanted = false,
            }
        }
        let mut changes = Vec::new();
        for (cpu, lease) in &mut self.cpus {
            if lease.wanted != lease.given {
                lease.given = lease.wanted;
                changes.push(Change {
                    cpu: *cpu,
                    give: lease.wanted,
                });
            }
        }
        changes
    }

    /// How many CPUs have one.
    pub fn given(&self) -> usize {
        self.cpus.values().filter(|lease| lease.given).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const fn event(cpu: usize, kind: Kind, time_ns: u64) -> Event {
        Event { time_ns, cpu, kind }
    }

    #[test]
    fn a_burst_is_two_changes() {
        let mut leases = Leases::default();
        let give = Change { cpu: 1, give: true };
        assert_eq!(leases.handle(&[event(1, Kind::Io, 10)]), [give]);
        assert_eq!(leases.handle(&[event(1, Kind::Io, 20)]), []);
        assert_eq!(leases.given(), 1);
        let back = Change {
            cpu: 1,
            give: false,
        };
        assert_eq!(leases.handle(&[event(1, Kind::Quiet, 30)]), [back]);
        assert_eq!(leases.given(), 0);
    }

    #[test]
    fn an_end_that_was_overtaken_does_not_count() {
        let mut leases = Leases::default();
        leases.handle(&[event(0, Kind::Io, 10)]);
        assert_eq!(
            leases.handle(&[event(0, Kind::Io, 50), event(0, Kind::Quiet, 20)]),
            []
        );
        assert_eq!(leases.given(), 1);
    }

    #[test]
    fn what_begins_and_ends_at_once_changes_nothing() {
        let mut leases = Leases::default();
        assert_eq!(
            leases.handle(&[event(0, Kind::Io, 10), event(0, Kind::Quiet, 10)]),
            []
        );
    }

    proptest! {
        #[test]
        fn changes_alternate(
            events in prop::collection::vec((0_usize..3, any::<bool>(), 0_u64..100), 0..60),
            batch in 1_usize..5,
        ) {
            let mut leases = Leases::default();
            let mut given = [false; 3];
            let events: Vec<Event> = events
                .into_iter()
                .map(|(cpu, io, time)| event(cpu, if io { Kind::Io } else { Kind::Quiet }, time))
                .collect();
            for events in events.chunks(batch) {
                for change in leases.handle(events) {
                    prop_assert_ne!(given[change.cpu], change.give);
                    given[change.cpu] = change.give;
                }
            }
            prop_assert_eq!(leases.given(), given.iter().filter(|g| **g).count());
        }
    }
}
