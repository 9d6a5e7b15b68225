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

/// A rest within the operational state, times in ns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestLevel {
    /// Idle time before the rest.
    pub(super) after: u64,
    /// Wait of the next request.
    pub(super) exit: u64,
}

/// A leg of an idle drive's way down: in a power state, or entering one.
#[derive(Clone, Copy, Debug)]
struct Leg {
    /// Idle time in ns after which the leg begins.
    from: u64,
    place: Place,
    power: Microwatts,
    /// Number of the power state that the drive is in, or enters.
    state: usize,
    asleep: bool,
}

/// What a request that comes to an idle drive has to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wake {
    /// Time in ns until an entry that cannot be broken off is complete.
    pub(super) entry_left: u64,
    /// Power during the rest of that entry.
    pub(super) entry_power: Microwatts,
    /// Time in ns to leave the power state.
    pub(super) exit: u64,
    /// Number of the power state that the drive is in, or enters.
    pub(super) state: usize,
    /// Time to come back from a rest within the operational state, in ns.
    pub(super) rest: u64,
}

impl Wake {
    /// Time in ns until the drive can serve the request.
    pub(super) const fn whole_wait(self) -> u64 {
        self.entry_left + self.exit + self.rest
    }
}

/// The way down from the operational state, as an APST table leads.
#[derive(Clone, Debug)]
pub(crate) struct IdlePath {
    states: Vec<State>,
    legs: Vec<Leg>,
    work: Option<Work>,
    /// The shallowest rest first.
    rests: Vec<RestLevel>,
}

impl IdlePath {
    /// `table` is the APST table in force, if any, and `transition` the power while changing state. Idle time counts
    /// in the current state: from going idle in the first state, from arrival in the others.
    pub(crate) fn new(
        states: Vec<State>,
        table: Option<&ApstTable>,
        transition: Microwatts,
        work: Option<Work>,
        rests: Vec<RestLevel>,
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
            rests,
        }
    }

    /// The state reached by a drive after `idle_ns` ns idle time, the first state without any, and the idle time for the
    /// next state.
    pub(crate) fn state_and_next_change_after(&self, idle_ns: Option<u64>) -> (usize, Option<u64>) {
        let legs = self.legs.iter();
        let mut states = legs.filter(|leg| matches!(leg.place, Place::State(_)));
        let mut state = states.next().map_or(0, |leg| leg.state);
        for leg in states {
            if idle_ns.is_none_or(|idle_ns| leg.from > idle_ns) {
                return (state, Some(leg.from));
            }
            state = leg.state;
        }
        (state, None)
    }

    /// Power in the last power state that an idle drive reaches.
    pub(crate) fn power_at_end(&self) -> Microwatts {
        self.legs.last().map_or(Microwatts(0), |leg| leg.power)
    }

    /// Number of the drive's power states.
    pub(crate) fn state_count(&self) -> usize {
        self.states.len()
    }

    /// Index of the leg that a drive is in after `idle_ns` ns of idle time.
    fn leg_index_after(&self, idle_ns: u64) -> usize {
        self.legs
            .partition_point(|l| l.from <= idle_ns)
            .saturating_sub(1)
    }

    /// What a request has to wait for that comes after `idle_ns` ns of idle time.
    pub(crate) fn wake_after(&self, idle_ns: u64) -> Wake {
        let index = self.leg_index_after(idle_ns);
        let leg = self.legs[index];
        let rested = self.rests.iter().rfind(|rest| idle_ns > rest.after);
        let entry_left = match leg.place {
            Place::Transition => self
                .legs
                .get(index + 1)
                .map_or(0, |next| next.from - idle_ns),
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
            // The link comes back from rest while the drive leaves its power state.
            rest: rested.map_or(0, |rest| rest.exit.saturating_sub(entry_left + exit)),
        }
    }

    /// Enters the idle time from `idle_ns` ns up to the time `until` into the books, for a drive idle since `idle_from`.
    pub(crate) fn enter_idle_time_into_ledger(
        &self,
        idle_from: u64,
        idle_ns: u64,
        until: u64,
        ledger: &mut Ledger,
    ) {
        let gap_end = until - idle_from;
        for index in self.leg_index_after(idle_ns)..self.legs.len() {
            let leg = self.legs[index];
            if leg.from >= gap_end {
                break;
            }
            let end = self
                .legs
                .get(index + 1)
                .map_or(gap_end, |next| next.from.min(gap_end));
            let begin = leg.from.max(idle_ns);
            if let (true, Some(work)) = (leg.asleep, self.work) {
                let overlap = end.min(work.until).saturating_sub(begin.max(work.from));
                ledger.enter_background_work(overlap, work.power);
            }
            if leg.from == begin && leg.asleep && end > begin {
                ledger.count_entry_into_state(leg.state);
            }
            ledger.enter_stretch(idle_from + end, leg.place, leg.power);
        }
    }
}

#[cfg(test)]
impl IdlePath {
    /// Number of the power state after `gap` ns of idle time, or of the state being entered.
    pub(crate) fn state_after(&self, gap: u64) -> usize {
        self.legs[self.leg_index_after(gap)].state
    }

    /// Powers of all legs on an idle drive's way down.
    pub(crate) fn powers_on_way_down(&self) -> impl Iterator<Item = Microwatts> + Clone + '_ {
        self.legs.iter().map(|l| l.power)
    }

    /// Power of the drive's own background work; 0 without any.
    pub(crate) fn work_power(&self) -> Microwatts {
        self.work.map_or(Microwatts(0), |w| w.power)
    }
}
