//! What an idle drive goes through: the power state as a function of the idle time.

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

/// Work of its own that a drive does from `from` to `until` ns after it went idle, if it is in a
/// non-operational state then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    pub(super) from: u64,
    pub(super) until: u64,
    pub(super) power: Microwatts,
}

/// A part of the way down.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// Idle time at which it begins, in ns.
    from: u64,
    place: Place,
    power: Microwatts,
    /// Where it leads: the state itself, or the one that is being entered.
    state: usize,
    asleep: bool,
}

/// What a request finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// Rest of an entry that cannot be turned back, in ns.
    pub(super) entry_left: u64,
    /// What the drive draws until then.
    pub(super) entry_power: Microwatts,
    /// Time to leave the power state, in ns.
    pub(super) exit: u64,
    /// That state, or the one being entered.
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
    /// Idle time after which the drive rests, and what the next request waits for then.
    rest: (u64, u64),
}

impl IdlePath {
    /// `table` is the APST table in force, if any, and `transition` the power of a change of state. The idle time counts in the current state: from
    /// going idle in the first one, from its arrival in the others.
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
            // A time of 0 means never. A table that leads back up is none that the kernel makes.
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

    /// The state that a drive has reached after `gap` ns of idle time, the first one without any, and
    /// after how much of it the next one is.
    pub(crate) fn reached(&self, gap: Option<u64>) -> (usize, Option<u64>) {
        let reached = |leg: &&Leg| matches!(leg.place, Place::State(_));
        let mut states = self.legs.iter().filter(reached);
        let mut state = states.next().map_or(0, |leg| leg.state);
        for leg in states {
            if gap.is_none_or(|gap| leg.from > gap) {
                return (state, Some(leg.from));
            }
            state = leg.state;
        }
        (state, None)
    }

    /// What a drive draws at the end of its way down.
    pub(crate) fn at_rest(&self) -> Microwatts {
        self.legs.last().map_or(Microwatts(0), |leg| leg.power)
    }

    /// Number of power states.
    pub(crate) fn states(&self) -> usize {
        self.states.len()
    }

    /// The leg that a drive is in after `gap` ns, by number.
    fn leg(&self, gap: u64) -> usize {
        self.legs
            .partition_point(|l| l.from <= gap)
            .saturating_sub(1)
    }

    /// What a request finds that comes after `gap` ns of idle time.
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

    /// Enters the idle time from `gap` ns up to the time `until` into the books of a drive that
    /// went idle at `idle_from`.
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
    /// The state that a drive is in, or is entering, after `gap` ns.
    pub(crate) fn state_after(&self, gap: u64) -> usize {
        self.legs[self.leg(gap)].state
    }

    /// What it may draw on its way down.
    pub(crate) fn powers(&self) -> impl Iterator<Item = Microwatts> + Clone + '_ {
        self.legs.iter().map(|l| l.power)
    }

    /// What its own work draws.
    pub(crate) fn work_power(&self) -> Microwatts {
        self.work.map_or(Microwatts(0), |w| w.power)
    }
}
