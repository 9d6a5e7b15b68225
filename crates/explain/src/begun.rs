//! Exits that something else than a request's own interrupt began.
//!
//! A request behind another request, or whose CPU a timer had woken, waited for an unseen part from an exit. Then the drive's time
//! only has bounds: at most all `out`, at least `out` less the exit. Other requests after an equally long gap, with as many in
//! flight, have known times. Bounds and known times together give the distribution over the drive's times (self-consistency for
//! times in intervals: B. W. Turnbull, Journal of the Royal Statistical Society B 38, 1976). A single request's wait stays
//! unknown. The mean over a kind does not.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::requests::{MetState, TracedRequest};
use crate::split::Split;
use crate::strata::{depth_class, find_reached_state};

/// Fewest known drive times in a class.
const FEWEST: usize = 8;
/// Rounds until weights change by less than a thousandth.
const ROUNDS: usize = 50;

/// Exits begun by something else, for a kind. Times in ns are means over all requests of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BegunExits {
    /// Number of requests behind another request, or with a CPU already leaving, after a state deeper than the reference.
    pub requests: u64,
    /// Number of such requests in classes with known drive times.
    pub estimated: u64,
    /// Estimated wait for exits, above the reference's exit.
    pub mean_ns: f64,
    /// Longest possible wait for exits, also without an estimate.
    pub highest_ns: f64,
}

/// Octave of the gap; requests in flight at issue, in octaves.
type Class = (u32, u32);

/// Bounds for the drive's time in ns, for an exit perhaps begun by something else.
struct Bounds {
    lowest: u64,
    highest: u64,
    /// Perhaps the request's own interrupt began the exit, before a timer expired. Then the drive's time is `lowest`.
    may_be_own: bool,
}

/// Drive times in a class of requests, in ns.
#[derive(Default)]
struct Times {
    /// Times with a known exit, or at most the reference's. A running CPU has no exit.
    known: Vec<u64>,
    /// Bounds for requests with an exit perhaps begun by something else.
    bounds: Vec<Bounds>,
}

/// Estimates exits begun by something else, for requests from one kind.
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

/// A request's `out` without the exit from the state met; `None` for an unknown exit.
fn drive_time(request: &TracedRequest, split: &Split) -> Option<u64> {
    let exit = split.known_exit_for(request, find_reached_state(request)?)?;
    Some(request.out.saturating_sub(exit))
}

fn find_class(request: &TracedRequest) -> Class {
    let gap = request
        .gap
        .map_or(u32::MAX, |gap| gap.checked_ilog2().unwrap_or(0));
    (gap, depth_class(request.in_flight))
}

impl Times {
    /// Adds a request with an exit perhaps begun by something else. `exit`: cost of the state, if known. `with_others`: timers and
    /// other interrupts before the exit look like later ones.
    fn add_bounds(&mut self, request: &TracedRequest, exit: Option<u64>, with_others: bool) {
        let longest = exit.unwrap_or(u64::MAX).min(request.slept);
        if longest == 0 {
            self.known.push(request.out);
            return;
        }
        self.bounds.push(Bounds {
            lowest: request.out - longest,
            highest: request.out,
            // No request begins an exit before issue.
            may_be_own: with_others && exit == Some(longest),
        });
    }

    /// Sum over all requests with bounds: `out` less the drive's time, in ns. `None` with too few known times.
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

/// A stretch in sorted known times; each time counts `times` times.
#[derive(Clone, Copy)]
struct Stretch {
    from: usize,
    to: usize,
    times: f64,
}

/// Drive times with weights, as running sums: any stretch is a difference between two sums.
struct TimeDistribution {
    times: Vec<u64>,
    weights_before: Vec<f64>,
    products_before: Vec<f64>,
}

impl TimeDistribution {
    /// Fits the weights of sorted known times to known times and bounds.
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
            // Weight added by each request with bounds, as changes from place to place.
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

    /// Stretches for bounds: all times between, and times around `lowest` if the exit is perhaps the request's own.
    ///
    /// Timers expire at any ns with equal chance, during an exit as well as before. So a time at `lowest` counts once for each ns of
    /// the exit. Times in the half exit around `lowest` stand for a time at `lowest`, and count twice.
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

    /// Mean time within bounds, in ns. Without a known time between: the bound nearest to known times.
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

/// Sum over stretches, from running sums.
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
