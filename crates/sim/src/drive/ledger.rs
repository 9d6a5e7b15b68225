//! A drive's books: time and energy by place.

use wakepath_units::{Microwatts, Nanoseconds};

/// Where a drive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Serving requests, or emptying the buffer.
    Active,
    /// In a power state with nothing to do.
    State(usize),
    /// Between two power states.
    Transition,
}

/// A planned stretch in the future.
#[derive(Clone, Copy, Debug)]
struct Planned {
    until: u64,
    place: Place,
    power: Microwatts,
}

/// A run's sums.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DriveTotals {
    /// In ns.
    pub(super) active: u64,
    /// Per power state, in ns.
    pub(super) states: Vec<u64>,
    /// Entries into each power state from a higher state.
    pub(super) entries: Vec<u64>,
    /// In ns.
    pub(super) transition: u64,
    /// Time for the drive's own work while asleep, in ns; counted in `states` as well.
    pub(super) background: u64,
    /// In fJ.
    pub(super) energy: u128,
    /// Power when nothing happens any more.
    pub(super) at_rest: Microwatts,
    /// Requests that found the drive in a deeper state, or on the way down.
    pub(super) wake_ups: u64,
    /// Their waiting time, in ns.
    pub(super) waited: u64,
}

impl DriveTotals {
    /// Energy in fJ.
    pub(crate) fn energy(&self) -> u128 {
        self.energy
    }

    /// Power when nothing happens any more.
    pub(crate) fn power_at_rest(&self) -> Microwatts {
        self.at_rest
    }

    /// Takes off earlier counts.
    pub(crate) fn leave_out(&mut self, before: &Self) {
        let each = [
            (&mut self.states, &before.states),
            (&mut self.entries, &before.entries),
        ];
        for (all, before) in each {
            for (one, before) in all.iter_mut().zip(before) {
                *one -= before;
            }
        }
        self.active -= before.active;
        self.transition -= before.transition;
        self.background -= before.background;
        self.energy -= before.energy;
        self.wake_ups -= before.wake_ups;
        self.waited -= before.waited;
    }

    /// Sums over several equal drives.
    pub(super) fn sum(drives: &[Self]) -> Self {
        let mut all = Self::default();
        for drive in drives {
            all.active += drive.active;
            add_each(&mut all.states, &drive.states);
            add_each(&mut all.entries, &drive.entries);
            all.transition += drive.transition;
            all.background += drive.background;
            all.energy += drive.energy;
            all.at_rest = Microwatts(all.at_rest.0 + drive.at_rest.0);
            all.wake_ups += drive.wake_ups;
            all.waited += drive.waited;
        }
        all
    }
}

/// Adds the figures of another drive, state by state.
fn add_each(sums: &mut Vec<u64>, others: &[u64]) {
    sums.resize(others.len().max(sums.len()), 0);
    for (sum, other) in sums.iter_mut().zip(others) {
        *sum += other;
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Ledger {
    upto: u64,
    planned: Vec<Planned>,
    totals: DriveTotals,
}

impl Ledger {
    pub(crate) fn new(states: usize) -> Self {
        Self {
            upto: 0,
            planned: Vec::new(),
            totals: DriveTotals {
                states: vec![0; states],
                entries: vec![0; states],
                ..DriveTotals::default()
            },
        }
    }

    /// The time up to which everything is entered.
    pub(crate) fn upto(&self) -> u64 {
        self.upto
    }

    /// Enters the time from the last entry until `until`.
    pub(crate) fn enter(&mut self, until: u64, place: Place, power: Microwatts) {
        let time = until.saturating_sub(self.upto);
        self.upto += time;
        match place {
            Place::Active => self.totals.active += time,
            Place::State(state) => self.totals.states[state] += time,
            Place::Transition => self.totals.transition += time,
        }
        self.totals.energy += power.femtojoules_over(Nanoseconds(time));
    }

    /// Plans a stretch until `until`, after everything planned before.
    pub(crate) fn plan(&mut self, until: u64, place: Place, power: Microwatts) {
        self.planned.push(Planned {
            until,
            place,
            power,
        });
    }

    /// Enters planned stretches, as far as `until`.
    pub(crate) fn enter_planned(&mut self, until: u64) {
        for index in 0..self.planned.len() {
            let part = self.planned[index];
            self.enter(part.until.min(until), part.place, part.power);
        }
        self.planned.retain(|part| part.until > until);
    }

    /// Enters the drive's own work, on top of the present state.
    pub(crate) fn work(&mut self, time: u64, power: Microwatts) {
        self.totals.background += time;
        self.totals.energy += power.femtojoules_over(Nanoseconds(time));
    }

    /// A power state is reached.
    pub(crate) fn entered(&mut self, state: usize) {
        self.totals.entries[state] += 1;
    }

    /// A request wakes the drive and waits for `time`.
    pub(crate) fn wake_up(&mut self, time: u64) {
        self.totals.wake_ups += 1;
        self.totals.waited += time;
    }

    pub(crate) fn into_totals(self) -> DriveTotals {
        self.totals
    }
}
