//! A drive's books: time and energy by place.

use hdrhistogram::Histogram;
use wakepath_units::{Microwatts, Nanoseconds};

/// Significant digits that the histogram of waits keeps.
const WAIT_DIGITS: u8 = 3;

/// What a drive spends time and energy on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// Serving requests, or emptying the buffer.
    Active,
    /// In a power state with nothing to do.
    State(usize),
    /// Between two power states.
    Transition,
}

/// A stretch of a drive's time planned for the future.
#[derive(Clone, Copy, Debug)]
struct Planned {
    until: u64,
    place: Place,
    power: Microwatts,
}

/// A drive's summed times, energy and counts.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct DriveTotals {
    /// In ns.
    pub(super) active: u64,
    /// Time with nothing to do by power state, in ns.
    pub(super) states: Vec<u64>,
    /// Number of entries into each power state from a higher state.
    pub(super) entries: Vec<u64>,
    /// In ns.
    pub(super) transition: u64,
    /// Time for the drive's own work while asleep, in ns; counted in `states` as well.
    pub(super) background: u64,
    /// In fJ.
    pub(super) energy: u128,
    /// Power of a drive that has been idle for so long that its state changes no more.
    pub(super) at_rest: Microwatts,
    /// Requests that found the drive in a deeper state, or on the way down.
    pub(super) wake_ups: u64,
    /// Summed time that such requests waited for the drive, in ns.
    pub(super) waited: u64,
    /// These waits in ns; `None` before the first one.
    pub(super) waits: Option<Box<Histogram<u64>>>,
}

impl DriveTotals {
    /// Energy in fJ.
    pub(crate) fn energy_fj(&self) -> u128 {
        self.energy
    }

    /// Power of a drive that has been idle for so long that its state changes no more.
    pub(crate) fn power_at_rest(&self) -> Microwatts {
        self.at_rest
    }

    /// Subtracts the totals noted at an earlier time, such as the warm-up's end.
    pub(crate) fn subtract_earlier(&mut self, before: &Self) {
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
        if let (Some(waits), Some(before)) = (&mut self.waits, &before.waits) {
            **waits -= &**before;
        }
    }

    /// Sums of the totals of several equal drives.
    pub(super) fn sum_over_drives(drives: &[Self]) -> Self {
        let mut all = Self::default();
        for drive in drives {
            all.active += drive.active;
            add_elementwise(&mut all.states, &drive.states);
            add_elementwise(&mut all.entries, &drive.entries);
            all.transition += drive.transition;
            all.background += drive.background;
            all.energy += drive.energy;
            all.at_rest = Microwatts(all.at_rest.0 + drive.at_rest.0);
            all.wake_ups += drive.wake_ups;
            all.waited += drive.waited;
            if let Some(waits) = &drive.waits {
                let all_waits = &mut all.waits;
                **all_waits.get_or_insert_with(|| empty_histogram_of_waits().into()) += &**waits;
            }
        }
        all
    }
}

/// A histogram that grows with the longest wait; its size is bounded by the logarithm of the longest time.
fn empty_histogram_of_waits() -> Histogram<u64> {
    #[expect(clippy::expect_used, reason = "the number of digits is a constant")]
    Histogram::new(WAIT_DIGITS).expect("a valid number of digits")
}

/// Adds another drive's figures to the sums, power state by power state.
fn add_elementwise(sums: &mut Vec<u64>, others: &[u64]) {
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

    /// Time in ns up to which the books are complete.
    pub(crate) fn entered_until(&self) -> u64 {
        self.upto
    }

    /// Enters a drive's time and energy since the last entry until `until`, at one place and power.
    pub(crate) fn enter_stretch(&mut self, until: u64, place: Place, power: Microwatts) {
        let time = until.saturating_sub(self.upto);
        self.upto += time;
        match place {
            Place::Active => self.totals.active += time,
            Place::State(state) => self.totals.states[state] += time,
            Place::Transition => self.totals.transition += time,
        }
        self.totals.energy += power.femtojoules_over(Nanoseconds(time));
    }

    /// Plans a stretch of a drive's time until `until`, after all stretches planned before.
    pub(crate) fn plan_stretch(&mut self, until: u64, place: Place, power: Microwatts) {
        self.planned.push(Planned {
            until,
            place,
            power,
        });
    }

    /// Enters the planned stretches up to `until` into the books; later stretches stay planned.
    pub(crate) fn enter_planned(&mut self, until: u64) {
        for index in 0..self.planned.len() {
            let part = self.planned[index];
            self.enter_stretch(part.until.min(until), part.place, part.power);
        }
        self.planned.retain(|part| part.until > until);
    }

    /// Enters time and energy of the drive's own background work, on top of its power state.
    pub(crate) fn enter_background_work(&mut self, time: u64, power: Microwatts) {
        self.totals.background += time;
        self.totals.energy += power.femtojoules_over(Nanoseconds(time));
    }

    /// Counts that the drive has reached a power state.
    pub(crate) fn count_entry_into_state(&mut self, state: usize) {
        self.totals.entries[state] += 1;
    }

    /// Counts a request that wakes the drive and waits for `wait_ns` ns.
    pub(crate) fn count_wake_up(&mut self, wait_ns: u64) {
        self.totals.wake_ups += 1;
        self.totals.waited += wait_ns;
        let known = &mut self.totals.waits;
        let waits = known.get_or_insert_with(|| empty_histogram_of_waits().into());
        // A histogram that grows as needed cannot refuse a value.
        let _ = waits.record(wait_ns);
    }

    /// The totals of what was entered so far.
    pub(crate) fn totals_so_far(&self) -> &DriveTotals {
        &self.totals
    }

    /// Number of requests so far that found the drive asleep or falling asleep.
    pub(crate) fn count_wake_ups_so_far(&self) -> u64 {
        self.totals.wake_ups
    }
}
