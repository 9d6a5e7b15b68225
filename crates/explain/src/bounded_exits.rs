//! Exits of which requests paid an unknown part.
//!
//! A request behind another request, or whose CPU a timer had woken, waited for an unseen part of an exit. A state that the governor
//! chose late, after a tick, may cost less than first choices of the state tell: a package that a tick woke sleeps only later. Then
//! the drive's time only has bounds: at most all `out`, at least `out` less the exit. Other requests after an equally long gap, with
//! as many in flight, have known times. Bounds and known times together give the distribution over the drive's times
//! (self-consistency for times in intervals: B. W. Turnbull, Journal of the Royal Statistical Society B 38, 1976). The exit of a
//! single request stays unknown. The mean over a kind does not.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::requests::{MetState, TracedRequest};
use crate::split::Split;
use crate::strata::{depth_class, find_reached_state};

/// Fewest known drive times in a class.
const FEWEST: usize = 8;
/// Rounds until weights change by less than a thousandth.
const ROUNDS: usize = 50;

/// Exits of which requests of a kind paid an unknown part. Times in ns are means over all requests of the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct BoundedExits {
    /// Number of requests with such an exit, from a state deeper than the reference.
    pub requests: u64,
    /// Number of such requests in classes with known drive times.
    pub estimated: u64,
    /// Estimated time in such exits, above the reference's exit.
    pub mean_ns: f64,
    /// Longest possible time in such exits, also without an estimate.
    pub highest_ns: f64,
}

/// All exits with bounds of a kind, by what left them unknown.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BoundedExitsByCause {
    /// Exits that something else than the request's interrupt began.
    pub(crate) begun: BoundedExits,
    /// Exits from states that the governor chose later than the first choices that tell the state's cost.
    pub(crate) late: BoundedExits,
}

/// Why a request may have paid only a part of an exit.
#[derive(Clone, Copy)]
enum Cause {
    Begun,
    Late,
}

/// Octave of the gap; requests in flight at issue, in octaves.
type Class = (u32, u32);

/// Bounds for the drive's time in ns, for an exit of which the request paid an unknown part.
struct Bounds {
    cause: Cause,
    lowest: u64,
    highest: u64,
    /// Perhaps the request paid the whole exit: its own interrupt began the exit before a timer expired, or the state was as deep as
    /// for first choices. Then the drive's time is `lowest`.
    may_be_whole: bool,
}

/// Drive times in a class of requests, in ns.
#[derive(Default)]
struct Times {
    /// Times with a known exit, or at most the reference's. A running CPU has no exit.
    known: Vec<u64>,
    /// Bounds for requests that paid an unknown part of an exit.
    bounds: Vec<Bounds>,
}

/// Estimates exits of which requests from one kind paid an unknown part.
pub(crate) fn estimate_bounded_exits(
    requests: &[&TracedRequest],
    split: &Split,
) -> BoundedExitsByCause {
    let mut classes: BTreeMap<Class, Times> = BTreeMap::new();
    for request in requests {
        let times = classes.entry(find_class(request)).or_default();
        match request.met {
            MetState::Awake => times.known.push(request.out),
            MetState::State(_) => times.add_request_with_own_exit(request, split),
            MetState::Leaving(state) => {
                times.add_bounds(request, split.known_exit(state), Cause::Begun, true);
            }
            MetState::Behind(state) => {
                times.add_bounds(request, split.known_exit(state), Cause::Begun, false);
            }
            MetState::Unknown => {}
        }
    }
    let mut exits = BoundedExitsByCause::default();
    for mut times in classes.into_values() {
        let drive = times.fit_distribution();
        for bounds in &times.bounds {
            let sums = match bounds.cause {
                Cause::Begun => &mut exits.begun,
                Cause::Late => &mut exits.late,
            };
            sums.add_request(bounds, drive.as_ref());
        }
    }
    let count = requests.len().max(1) as f64;
    for sums in [&mut exits.begun, &mut exits.late] {
        sums.mean_ns /= count;
        sums.highest_ns /= count;
    }
    exits
}

impl BoundedExits {
    /// Adds a request's times in ns to the sums; `drive`: drive times of requests like this one, where known.
    fn add_request(&mut self, bounds: &Bounds, drive: Option<&TimeDistribution>) {
        self.requests += 1;
        self.highest_ns += (bounds.highest - bounds.lowest) as f64;
        if let Some(drive) = drive {
            self.estimated += 1;
            self.mean_ns += bounds.highest as f64 - drive.mean_within(bounds);
        }
    }
}

fn find_class(request: &TracedRequest) -> Class {
    let gap = request
        .gap
        .map_or(u32::MAX, |gap| gap.checked_ilog2().unwrap_or(0));
    (gap, depth_class(request.in_flight))
}

impl Times {
    /// Adds a request whose own interrupt began the exit. Without a cost of the state, the drive's time is not known.
    fn add_request_with_own_exit(&mut self, request: &TracedRequest, split: &Split) {
        let Some(state) = find_reached_state(request) else {
            return;
        };
        match (
            split.known_exit_for(request, state),
            split.known_exit(state),
        ) {
            (Some(exit), _) => self.known.push(request.out.saturating_sub(exit)),
            (None, Some(exit)) => self.add_bounds(request, Some(exit), Cause::Late, true),
            (None, None) => {}
        }
    }

    /// Adds a request that paid an unknown part of an exit. `exit`: cost of the state, if known. `or_whole`: the request may as well
    /// have paid all: timers and other interrupts before the exit look like later ones, and a state chosen late may be deep.
    fn add_bounds(
        &mut self,
        request: &TracedRequest,
        exit: Option<u64>,
        cause: Cause,
        or_whole: bool,
    ) {
        let longest = exit.unwrap_or(u64::MAX).min(request.slept);
        if longest == 0 {
            self.known.push(request.out);
            return;
        }
        self.bounds.push(Bounds {
            cause,
            lowest: request.out - longest,
            highest: request.out,
            // No request begins an exit before issue.
            may_be_whole: or_whole && exit == Some(longest),
        });
    }

    /// Takes the known times for the distribution over the drive's times; `None` with too few of these, or where none is unknown.
    fn fit_distribution(&mut self) -> Option<TimeDistribution> {
        if self.known.len() < FEWEST || self.bounds.is_empty() {
            return None;
        }
        self.known.sort_unstable();
        let known = std::mem::take(&mut self.known);
        Some(TimeDistribution::fit(known, &self.bounds))
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

    /// Stretches for bounds: all times between, and times around `lowest` if the request perhaps paid the whole exit.
    ///
    /// Timers expire at any ns with equal chance, during an exit as well as before. So a time at `lowest` counts once for each ns of
    /// the exit. Times in the half exit around `lowest` stand for a time at `lowest`, and count twice. A state chosen late costs all
    /// with the same chance as a part, for want of anything better.
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
                if bounds.may_be_whole { 2.0 } else { 0.0 },
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
