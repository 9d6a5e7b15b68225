//! An idle drive's way down: power state by idle time.

use wakepath_policies::apst::ApstTable;
use wakepath_units::Microwatts;

use super::ledger::{Ledger, Place};

/// A power state as the drive really has it, times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    pub(super) entry: u64,
    pub(super) exit: u64,
    pub(super) power: Microwatts,
    pub(super) non_operational: bool,
}

/// A drive's own work from `from` to `until` ns after going idle, in a non-operational state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) power: Microwatts,
}

/// A leg on the way down.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// Idle time at the begin, in ns.
    from: u64,
    place: Place,
    power: Microwatts,
    /// The state itself, or the state being entered.
    state: usize,
    asleep: bool,
}

/// The drive's condition at a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// Rest of an irrevocable entry, in ns.
    pub(super) entry_left: u64,
    /// Power until then.
    pub(super) entry_power: Microwatts,
    /// Time to leave the power state, in ns.
    pub(super) exit: u64,
    /// The state itself, or the state being entered.
    pub(super) state: usize,
    /// Time to come back from a rest within the operational state, in ns.
    pub(super) rest: u64,
}

/// The way down from the operational state, as an APST table leads.
#[derive(Clone, Debug)]
pub(crate) struct IdlePath {
    states: Vec<State>,
    legs: Vec<Leg>,
    work: Option<Work>,
    /// Idle time until the drive rests, and the next request's wait then.
    rest: (u64, u64),
}

impl IdlePath {
    /// `table` is the APST table in force, if any, and `transition` the power while changing state. Idle time counts
    /// in the current state: from going idle in the first state, from arrival in the others.
    pub(crate) fn new(
        states: Vec<State>,
        table: Option<&ApstTable>,
        transition: Microwatts,
        work: Option<Work>,
        rest: (u64, u64),
    ) -> Self {
        let mut now = 0_u64;
        let mut state = 0;
        let mut legs = Vec::new();
        while let Some(current) = states.get(state) {
            legs.push(Leg {
                from: now,
                place: Place::State(state),
                power: current.power,
                state,
                asleep: current.non_operational,
            });
            let Some(entry) = table.and_then(|t| t.entries().nth(state)) else {
                break;
            };
            let (target, timeout) = (usize::from(entry.target), u64::from(entry.timeout_ms));
            // A time of 0 means never. The kernel makes no table that leads back up.
            let Some(next) = states.get(target) else {
                break;
            };
            if timeout == 0 || target <= state {
                break;
            }
            now += timeout * 1_000_000;
            legs.push(Leg {
                from: now,
                place: Place::Transition,
                power: transition,
                state: target,
                asleep: false,
            });
            now += next.entry;
            state = target;
        }
        Self {
            states,
            legs,
            work,
            rest,
        }
    }

    /// The state reached by a drive after `gap` ns idle time, the first state without any, and the idle time for the
    /// next state.
    pub(crate) fn reached(&self, gap: Option<u64>) -> (usize, Option<u64>) {
        let legs = self.legs.iter();
        let mut states = legs.filter(|leg| matches!(leg.place, Place::State(_)));
        let mut state = states.next().map_or(0, |leg| leg.state);
        for leg in states {
            if gap.is_none_or(|gap| leg.from > gap) {
                return (state, Some(leg.from));
            }
            state = leg.state;
        }
        (state, None)
    }

    /// Power at the end of the way down.
    pub(crate) fn at_rest(&self) -> Microwatts {
        self.legs.last().map_or(Microwatts(0), |leg| leg.power)
    }

    /// Number of power states.
    pub(crate) fn states(&self) -> usize {
        self.states.len()
    }

    /// A drive's leg after `gap` ns, by number.
    fn leg(&self, gap: u64) -> usize {
        self.legs
            .partition_point(|l| l.from <= gap)
            .saturating_sub(1)
    }

    /// The drive's condition for a request after `gap` ns idle time.
    pub(crate) fn wake(&self, gap: u64) -> Wake {
        let index = self.leg(gap);
        let leg = self.legs[index];
        let (rest_after, rest) = self.rest;
        let entry_left = match leg.place {
            Place::Transition => self.legs.get(index + 1).map_or(0, |next| next.from - gap),
            _ => 0,
        };
        let exit = if leg.state == 0 {
            0
        } else {
            self.states[leg.state].exit
        };
        Wake {
            entry_left,
            entry_power: leg.power,
            exit,
            state: leg.state,
            // The link comes back while the drive leaves its power state.
            rest: if gap > rest_after {
                rest.saturating_sub(entry_left + exit)
            } else {
                0
            },
        }
    }

    /// Enters the idle time from `gap` ns up to the time `until` into the books, for a drive idle since `idle_from`.
    pub(crate) fn walk(&self, idle_from: u64, gap: u64, until: u64, ledger: &mut Ledger) {
        let gap_end = until - idle_from;
        for index in self.leg(gap)..self.legs.len() {
            let leg = self.legs[index];
            if leg.from >= gap_end {
                break;
            }
            let end = self
                .legs
                .get(index + 1)
                .map_or(gap_end, |next| next.from.min(gap_end));
            let begin = leg.from.max(gap);
            if let (true, Some(work)) = (leg.asleep, self.work) {
                let overlap = end.min(work.until).saturating_sub(begin.max(work.from));
                ledger.work(overlap, work.power);
            }
            if leg.from == begin && leg.asleep && end > begin {
                ledger.entered(leg.state);
            }
            ledger.enter(idle_from + end, leg.place, leg.power);
        }
    }
}

#[cfg(test)]
impl IdlePath {
    /// The state for a drive after `gap` ns, or the state being entered.
    pub(crate) fn state_after(&self, gap: u64) -> usize {
        self.legs[self.leg(gap)].state
    }

    /// Powers on the way down.
    pub(crate) fn powers(&self) -> impl Iterator<Item = Microwatts> + Clone + '_ {
        self.legs.iter().map(|l| l.power)
    }

    /// Power for the drive's own work.
    pub(crate) fn work_power(&self) -> Microwatts {
        self.work.map_or(Microwatts(0), |w| w.power)
    }
}
