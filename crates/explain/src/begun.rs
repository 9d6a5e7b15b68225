//! Exits that something else than a request's own interrupt began.
//!
//! A request behind another one, or whose CPU a timer had woken, waited for a part of an exit that nobody sees. The drive's time
//! then only has bounds: at most all of `out`, and at least that less the exit. How long the drive takes is known from other
//! requests after as long a gap, with as many in flight. Both together give the distribution of its times (self-consistency for
//! times in intervals: B. W. Turnbull, Journal of the Royal Statistical Society B 38, 1976). What a single request waited stays
//! unknown. The mean over a kind does not.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::requests::{MetState, TracedRequest};
use crate::split::{Split, depth_class, find_reached_state};

/// Fewest requests of a class whose drive's times are known.
const FEWEST: usize = 8;
/// Rounds of the self-consistency: from one to the next, weights then change by less than a thousandth.
const ROUNDS: usize = 50;

/// Exits that something else began, of requests of one kind. Times in ns, as means over all requests of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BegunExits {
    /// Number of requests that came behind another one, or while the CPU was leaving, in a state that may take more than the
    /// reference.
    pub requests: u64,
    /// Number of these requests that are like others whose drive's time is known.
    pub estimated: u64,
    /// What the estimated requests waited for exits, above the exit of the reference.
    pub mean_ns: f64,
    /// What all of these requests waited for exits at most.
    pub highest_ns: f64,
}

/// Octave of the gap, and of the requests in flight at issue.
type Class = (u32, u32);

/// What is known of the drive's time of a request with an exit that something else may have begun, in ns.
struct Bounds {
    lowest: u64,
    highest: u64,
    /// The request's own interrupt may have begun the exit, and something else come during it: then the time is the lowest.
    may_be_own: bool,
}

/// A class of requests: what is known of the drive's times, in ns.
#[derive(Default)]
struct Times {
    /// Of requests whose exit is known, or is the reference's at most. A CPU that ran has none.
    known: Vec<u64>,
    /// Of requests with an exit that something else may have begun.
    bounds: Vec<Bounds>,
}

/// Estimates exits that something else began, for the requests of one kind.
pub(crate) fn estimate_begun_exits(requests: &[&TracedRequest], split: &Split) -> BegunExits {
    let mut classes: BTreeMap<Class, Times> = BTreeMap::new();
    for request in requests {
        let times = classes.entry(find_class(request)).or_default();
        match request.met {
            MetState::Awake => times.known.push(request.out),
            MetState::State(_) => times.known.extend(drive_time(request, split)),
            MetState::Leaving(state) => times.add_bounds(request, split.known_exit(state), true),
            MetState::Behind(state) => times.add_bounds(request, split.known_exit(state), false),
            MetState::Unknown => {}
        }
    }
    let mut begun = BegunExits::default();
    let (mut waited, mut at_most) = (0.0, 0.0);
    for times in classes.into_values() {
        let bounded = times.bounds.len() as u64;
        begun.requests += bounded;
        let spans = times
            .bounds
            .iter()
            .map(|bounds| bounds.highest - bounds.lowest);
        at_most += spans.sum::<u64>() as f64;
        if let Some(estimated) = times.wait_for_exits() {
            begun.estimated += bounded;
            waited += estimated;
        }
    }
    let count = requests.len().max(1) as f64;
    begun.mean_ns = waited / count;
    begun.highest_ns = at_most / count;
    begun
}

/// A request's `out` without the cost of the state that its interrupt ended; `None` where that is not known.
fn drive_time(request: &TracedRequest, split: &Split) -> Option<u64> {
    let exit = split.known_exit(find_reached_state(request)?)?;
    Some(request.out.saturating_sub(exit))
}

fn find_class(request: &TracedRequest) -> Class {
    let gap = request
        .gap
        .map_or(u32::MAX, |gap| gap.checked_ilog2().unwrap_or(0));
    (gap, depth_class(request.in_flight))
}

impl Times {
    /// Adds a request with an exit that something else may have begun. `exit`: what its state costs, if known. `with_others`: other
    /// interrupts that may have come first are not told from later ones.
    fn add_bounds(&mut self, request: &TracedRequest, exit: Option<u64>, with_others: bool) {
        let longest = exit.unwrap_or(u64::MAX).min(request.slept);
        if longest == 0 {
            self.known.push(request.out);
            return;
        }
        self.bounds.push(Bounds {
            lowest: request.out - longest,
            highest: request.out,
            // An exit that began before the issue, or before the idle period could be seen, is not the request's own.
            may_be_own: with_others && exit == Some(longest),
        });
    }

    /// Sum over all requests with bounds: `out` less the drive's time, in ns. `None` where too few times are known.
    fn wait_for_exits(mut self) -> Option<f64> {
        if self.known.len() < FEWEST || self.bounds.is_empty() {
            return None;
        }
        self.known.sort_unstable();
        let drive = TimeDistribution::fit(self.known, &self.bounds);
        let waits = self
            .bounds
            .iter()
            .map(|bounds| bounds.highest as f64 - drive.mean_within(bounds));
        Some(waits.sum())
    }
}

/// Places in the order of known times, each of which counts as often as said.
#[derive(Clone, Copy)]
struct Stretch {
    from: usize,
    to: usize,
    times: f64,
}

/// Drive's times with weights, as sums over all before, so that any stretch is a difference.
struct TimeDistribution {
    times: Vec<u64>,
    weights_before: Vec<f64>,
    products_before: Vec<f64>,
}

impl TimeDistribution {
    /// The distribution over known times, in order, that agrees with these and with times of which only bounds are known.
    fn fit(times: Vec<u64>, bounds: &[Bounds]) -> Self {
        let mut weights = vec![1.0; times.len()];
        let mut fitted = Self {
            times,
            weights_before: Vec::new(),
            products_before: Vec::new(),
        };
        let places: Vec<[Stretch; 2]> = bounds.iter().map(|b| fitted.places_within(b)).collect();
        fitted.add_up(&weights);
        for _ in 0..ROUNDS {
            // What each request with bounds adds to the weight at its places, as changes from place to place.
            let mut changes = vec![0.0; weights.len() + 1];
            for stretches in &places {
                let weight = sum_over(&fitted.weights_before, stretches);
                if weight > 0.0 {
                    for stretch in stretches {
                        add_at(&mut changes, stretch.from, stretch.times / weight);
                        add_at(&mut changes, stretch.to, -stretch.times / weight);
                    }
                }
            }
            let mut share = 0.0;
            for (weight, change) in weights.iter_mut().zip(&changes) {
                share += change;
                *weight = 1.0 + *weight * f64::max(share, 0.0);
            }
            fitted.add_up(&weights);
        }
        fitted
    }

    fn add_up(&mut self, weights: &[f64]) {
        let (mut weight_before, mut product_before) = (0.0, 0.0);
        self.weights_before = vec![0.0];
        self.products_before = vec![0.0];
        for (time, weight) in self.times.iter().zip(weights) {
            weight_before += weight;
            product_before += weight * *time as f64;
            self.weights_before.push(weight_before);
            self.products_before.push(product_before);
        }
    }

    /// The times between bounds, and those around the lowest where the exit may be the request's own. Per ns, something else is as
    /// likely to come at any time of the exit as it was to begin the exit at any time, so a known time at the lowest counts as often
    /// as the exit has ns. The half around the lowest has its known times twice.
    fn places_within(&self, bounds: &Bounds) -> [Stretch; 2] {
        let Bounds {
            lowest, highest, ..
        } = *bounds;
        let quarter = (highest - lowest) / 4;
        [
            self.stretch(lowest, highest, 1.0),
            self.stretch(
                lowest.saturating_sub(quarter),
                lowest + quarter,
                if bounds.may_be_own { 2.0 } else { 0.0 },
            ),
        ]
    }

    fn stretch(&self, low: u64, high: u64, times: f64) -> Stretch {
        Stretch {
            from: self.times.partition_point(|time| *time < low),
            to: self.times.partition_point(|time| *time <= high),
            times,
        }
    }

    /// Mean time within these bounds, in ns. Where no known time is, the bound that is next to known times.
    fn mean_within(&self, bounds: &Bounds) -> f64 {
        let stretches = self.places_within(bounds);
        let weight = sum_over(&self.weights_before, &stretches);
        let (low, high) = (bounds.lowest as f64, bounds.highest as f64);
        if weight > 0.0 {
            return (sum_over(&self.products_before, &stretches) / weight).clamp(low, high);
        }
        match stretches {
            [Stretch { to: 0, .. }, _] => high,
            [Stretch { from, .. }, _] if from == self.times.len() => low,
            _ => f64::midpoint(low, high),
        }
    }
}

/// Sum over stretches of values that are given as sums over all before.
fn sum_over(before: &[f64], stretches: &[Stretch]) -> f64 {
    let sums =
        stretches.iter().map(
            |stretch| match (before.get(stretch.from), before.get(stretch.to)) {
                (Some(from), Some(to)) => stretch.times * (to - from),
                _ => 0.0,
            },
        );
    sums.sum()
}

fn add_at(values: &mut [f64], place: usize, value: f64) {
    if let Some(cell) = values.get_mut(place) {
        *cell += value;
    }
}
