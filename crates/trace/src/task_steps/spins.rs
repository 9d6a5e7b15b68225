//! Finds tasks that spin for a time by the clock on the wall, such as a program that thinks without sleeping.
//!
//! CPU work takes less time at a higher clock, spinning does not. Runs at several clocks tell both apart: a run takes the time
//! spun, and its cycles divided by the clock.

use std::collections::BTreeMap;

use super::item::Item;
use super::observed::ObservedRun;

/// Fewest runs, each at a single clock, over all clocks.
const FEWEST_RUNS: usize = 16;

/// Fewest runs at other clocks than the most frequent clock.
const FEWEST_AT_OTHER_CLOCKS: usize = 4;

/// Least ratio between the highest and the lowest clock of such runs.
const LEAST_CLOCK_RATIO: f64 = 1.5;

/// Shortest spinning in ns.
const SHORTEST_NS: f64 = 20_000.0;

/// Least share of spinning in a run at the highest clock.
const LEAST_SHARE: f64 = 0.2;

/// Furthest that a run may be from spinning and work together, as a share.
const FURTHEST: f64 = 0.1;

/// Least share of runs that spinning and work explain.
const LEAST_EXPLAINED: f64 = 0.75;

/// A run of a task: neighbouring items of its list, at one clock in kHz or at several.
struct WholeRun {
    first: usize,
    count: usize,
    time_ns: u64,
    khz: Option<u32>,
}

/// Time spun and cycles of each run of a task.
struct Spinning {
    spun_ns: f64,
    /// Cycles, in ns at 1 kHz.
    work: f64,
}

/// Number of items that [`split_spins`] would add.
pub(super) fn count_spins(items: &[Item]) -> usize {
    find_spun_shares(items).len()
}

/// Splits runs into spinning and work, where a task's runs show that it spins.
pub(super) fn split_spins(items: &mut Vec<Item>) {
    let spun = find_spun_shares(items);
    let mut all = Vec::with_capacity(items.len() + spun.len());
    for (index, item) in items.iter().enumerate() {
        match (item, spun.get(&index)) {
            (Item::Run(run), Some(share)) => {
                let spun_ns = (run.time_ns as f64 * share) as u64;
                let mut work = *run;
                work.time_ns = work.time_ns.saturating_sub(spun_ns);
                all.extend([Item::Spin(spun_ns), Item::Run(work)]);
            }
            _ => all.push(*item),
        }
    }
    *items = all;
}

/// Spinning's share of runs by their index; none for tasks that do not spin.
fn find_spun_shares(items: &[Item]) -> BTreeMap<usize, f64> {
    let runs = find_whole_runs(items);
    let mut spun = BTreeMap::new();
    let Some(spinning) = Spinning::find(&runs) else {
        return spun;
    };
    for run in &runs {
        let [lowest, highest] = spinning.times_at_clocks(items, run);
        let time_ns = run.time_ns as f64;
        if (lowest * (1.0 - FURTHEST)..=highest * (1.0 + FURTHEST)).contains(&time_ns) {
            let share = (spinning.spun_ns / time_ns).min(1.0);
            spun.extend((run.first..run.end()).map(|index| (index, share)));
        }
    }
    spun
}

fn find_whole_runs(items: &[Item]) -> Vec<WholeRun> {
    let mut runs: Vec<WholeRun> = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let Item::Run(run) = item else {
            continue;
        };
        match runs.last_mut().filter(|whole| whole.end() == index) {
            Some(whole) => whole.add_part(run),
            None => runs.push(WholeRun::begin(index, run)),
        }
    }
    runs
}

/// The clock of a run in kHz, if a recording tells.
fn known_clock(run: &ObservedRun) -> Option<u32> {
    run.khz.filter(|khz| *khz > 0)
}

impl WholeRun {
    fn begin(index: usize, run: &ObservedRun) -> Self {
        Self {
            first: index,
            count: 1,
            time_ns: run.time_ns,
            khz: known_clock(run),
        }
    }

    /// Index of the item after the run.
    fn end(&self) -> usize {
        self.first + self.count
    }

    fn add_part(&mut self, part: &ObservedRun) {
        self.count += 1;
        self.time_ns = self.time_ns.saturating_add(part.time_ns);
        self.khz = self.khz.filter(|khz| part.khz == Some(*khz));
    }
}

impl Spinning {
    /// Spinning that explains most runs of a task; `None` for tasks that work, and where runs do not tell.
    fn find(runs: &[WholeRun]) -> Option<Self> {
        let known = runs.iter().filter_map(|run| Some((run.khz?, run.time_ns)));
        let mut by_clock: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (khz, time_ns) in known {
            by_clock.entry(khz).or_default().push(time_ns);
        }
        let count: usize = by_clock.values().map(Vec::len).sum();
        let (lowest, highest) = (*by_clock.keys().next()?, *by_clock.keys().next_back()?);
        let most_at_one_clock = by_clock.values().map(Vec::len).max().unwrap_or(0);
        let at_other_clocks = count - most_at_one_clock;
        if count < FEWEST_RUNS
            || at_other_clocks < FEWEST_AT_OTHER_CLOCKS
            || f64::from(highest) < LEAST_CLOCK_RATIO * f64::from(lowest)
        {
            return None;
        }
        let found = Self::fit(&mut by_clock)?;
        let explained = by_clock.iter().map(|(khz, times)| {
            let times = times.iter();
            times.filter(|time| found.explains(*khz, **time)).count()
        });
        let is_explained = explained.sum::<usize>() as f64 >= LEAST_EXPLAINED * count as f64;
        let shortest = SHORTEST_NS.max(LEAST_SHARE * found.time_at(highest));
        (is_explained && found.spun_ns >= shortest).then_some(found)
    }

    /// Least squares over the median run at each clock, weighted by the runs there.
    fn fit(by_clock: &mut BTreeMap<u32, Vec<u64>>) -> Option<Self> {
        let points: Vec<(f64, f64, f64)> = by_clock
            .iter_mut()
            .map(|(khz, times)| {
                times.sort_unstable();
                let median = times.get(times.len() / 2).copied().unwrap_or(0);
                (1.0 / f64::from(*khz), median as f64, times.len() as f64)
            })
            .collect();
        let weight: f64 = points.iter().map(|(_, _, n)| n).sum();
        let mean_x = points.iter().map(|(x, _, n)| x * n).sum::<f64>() / weight;
        let mean_y = points.iter().map(|(_, y, n)| y * n).sum::<f64>() / weight;
        let (mut square, mut product) = (0.0, 0.0);
        for (x, y, n) in points {
            square += n * (x - mean_x) * (x - mean_x);
            product += n * (x - mean_x) * (y - mean_y);
        }
        let slope = product / square;
        // A spinner's slope is below 0 as often as above.
        let work = if slope < 0.0 { 0.0 } else { slope };
        work.is_finite().then_some(Self {
            spun_ns: mean_y - work * mean_x,
            work,
        })
    }

    fn time_at(&self, khz: u32) -> f64 {
        self.spun_ns + self.work / f64::from(khz)
    }

    /// Whether a run's time at a clock is close to what spinning and work take.
    fn explains(&self, khz: u32, time_ns: u64) -> bool {
        let expected = self.time_at(khz);
        (time_ns as f64 - expected).abs() <= FURTHEST * expected
    }

    /// The shortest and the longest time of a run at the clocks that the run saw.
    fn times_at_clocks(&self, items: &[Item], run: &WholeRun) -> [f64; 2] {
        let parts = items.iter().skip(run.first).take(run.count);
        let clocks = parts.filter_map(|item| match item {
            Item::Run(part) => known_clock(part),
            _ => None,
        });
        clocks.fold([f64::INFINITY, 0.0], |[lowest, highest], khz| {
            let time = self.time_at(khz);
            [lowest.min(time), highest.max(time)]
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SPUN_NS: u64 = 3_200_000;
    const CLOCKS_MHZ: [u32; 4] = [400, 800, 1600, 3200];

    fn run(time_ns: u64, mhz: u32) -> Item {
        Item::Run(ObservedRun {
            time_ns,
            cpu: 0,
            khz: Some(mhz * 1000),
            interrupts: 0,
        })
    }

    /// Runs between wake-ups of another task, each with so much spinning and so many cycles, at clocks that take turns.
    fn record(spun_ns: u64, kilocycles: u64) -> Vec<Item> {
        let runs = (0..40).map(|number| {
            let mhz = CLOCKS_MHZ[number % CLOCKS_MHZ.len()];
            run(spun_ns + kilocycles * 1_000_000 / u64::from(mhz), mhz)
        });
        runs.flat_map(|run| [run, Item::Wake(1)]).collect()
    }

    #[test]
    fn runs_at_several_clocks_tell_spinning_from_work() {
        let mut items = record(SPUN_NS, 140);
        split_spins(&mut items);
        let spun: Vec<u64> = (items.iter())
            .filter_map(|item| match item {
                Item::Spin(ns) => Some(*ns),
                _ => None,
            })
            .collect();
        assert_eq!(spun.len(), 40);
        assert!(
            spun.iter().all(|ns| ns.abs_diff(SPUN_NS) < 2_000),
            "{spun:?}"
        );
    }

    #[test]
    fn a_run_whose_clock_changes_spins_in_each_part() {
        let mut items = record(SPUN_NS, 140);
        items.extend([run(1_700_000, 400), run(1_850_000, 800)]);
        split_spins(&mut items);
        let [
            Item::Spin(early),
            Item::Run(_),
            Item::Spin(late),
            Item::Run(_),
        ] = items[items.len() - 4..]
        else {
            panic!("{:?}", &items[items.len() - 4..]);
        };
        assert!((early + late).abs_diff(SPUN_NS) < 2_000 && early < late);
    }

    #[test]
    fn a_spinner_is_found_whose_runs_are_by_chance_longer_at_high_clocks() {
        let items = record(SPUN_NS, 0).into_iter().enumerate();
        let mut items: Vec<Item> = items
            .map(|(index, item)| match item {
                Item::Run(mut run) => {
                    let mhz = u64::from(run.khz.unwrap() / 1000);
                    run.time_ns += SPUN_NS / 100 * mhz / 3200 + index as u64;
                    Item::Run(run)
                }
                other => other,
            })
            .collect();
        split_spins(&mut items);
        let spins = items.iter().filter(|item| matches!(item, Item::Spin(_)));
        assert_eq!(spins.count(), 40);
    }

    #[test]
    fn work_and_runs_at_one_clock_are_left_as_they_are() {
        let one_clock = vec![run(SPUN_NS, 400); 40];
        let mut lone_run = vec![run(1_000_000, 400); 15];
        lone_run.push(run(900_000, 3200));
        let lone_run = lone_run.into_iter().flat_map(|run| [run, Item::Wake(1)]);
        let lone_run = lone_run.collect();
        for recorded in [record(0, 140), record(0, 14_000), one_clock, lone_run] {
            let mut items = recorded.clone();
            split_spins(&mut items);
            assert_eq!(items, recorded);
        }
    }
}
