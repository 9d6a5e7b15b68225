//! Costs of states at quantiles of the time to the first sign of life, with intervals.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::bootstrap::{BLOCKS, add_bootstrap_interval, draw_block_counts};
use crate::strata::{Sample, Stratum};

/// The quantiles that are compared.
const SHARES: [f64; 3] = [0.5, 0.9, 0.99];

/// Largest share of requests with another state than the first choice, for a comparison by quantiles.
const MOST_CHOSEN_ANEW: f64 = 0.02;

/// Fewest requests beyond a quantile, with the state as with the reference.
const FEWEST_BEYOND: f64 = 10.0;

/// Groups of requests with nearly the same time, among which a resample looks for its quantiles.
const GROUPS: usize = 1_000;

/// How much longer requests with a state took than those with the reference, at a quantile.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct QuantileCost {
    /// Difference between the two quantiles, in ns.
    pub difference_ns: f64,
    /// Lower end of the 95 % interval, in ns.
    pub low_ns: f64,
    /// Upper end of the 95 % interval, in ns.
    pub high_ns: f64,
}

/// Differences between quantiles with a state and with the reference; `None` where too many requests saw the governor choose again.
pub(crate) fn compare_quantiles(
    samples: &[Sample],
    reference: u8,
    state: u8,
) -> Option<[Option<QuantileCost>; 3]> {
    let chosen_anew = samples.iter().filter(|one| one.first != one.met).count();
    if chosen_anew as f64 > MOST_CHOSEN_ANEW * samples.len() as f64 {
        return None;
    }
    let [met, others] = weigh_times(samples, reference, state);
    let drawn: Vec<[f64; 3]> = draw_block_counts(BLOCKS)
        .filter_map(|counts| {
            let [deep, shallow] = [&met, &others].map(|times| times.resample_quantiles(&counts));
            Some(subtract(deep?, shallow?))
        })
        .collect();
    let found = subtract(met.quantiles()?, others.quantiles()?);
    let mut costs = [None; 3];
    for (place, share) in SHARES.into_iter().enumerate() {
        let fewest = met.times.len().min(others.times.len()) as f64;
        if fewest * (1.0 - share) < FEWEST_BEYOND {
            continue;
        }
        let values = drawn.iter().map(|differences| differences[place]);
        costs[place] =
            add_bootstrap_interval(found[place], values.collect()).map(|estimate| QuantileCost {
                difference_ns: estimate.mean_ns,
                low_ns: estimate.low_ns,
                high_ns: estimate.high_ns,
            });
    }
    Some(costs)
}

fn subtract(from: [f64; 3], values: [f64; 3]) -> [f64; 3] {
    let mut differences = from;
    for (difference, value) in differences.iter_mut().zip(values) {
        *difference -= value;
    }
    differences
}

/// Times of requests with the state and of those with the reference. A request with the reference counts as often as the state has
/// requests in its stratum, per request with the reference.
fn weigh_times(samples: &[Sample], reference: u8, state: u8) -> [WeightedTimes; 2] {
    let mut counts: BTreeMap<Stratum, (f64, f64)> = BTreeMap::new();
    for sample in samples {
        let (deep, shallow) = counts.entry(sample.stratum).or_default();
        *deep += f64::from(u8::from(sample.met == state));
        *shallow += f64::from(u8::from(sample.met == reference));
    }
    let mut met = Vec::new();
    let mut others = Vec::new();
    for (index, sample) in samples.iter().enumerate() {
        let (deep, shallow) = counts.get(&sample.stratum).copied().unwrap_or_default();
        if deep == 0.0 || shallow == 0.0 {
            continue;
        }
        let block = index * BLOCKS / samples.len();
        if sample.met == state {
            met.push((sample.time, 1.0, block));
        } else if sample.met == reference {
            others.push((sample.time, deep / shallow, block));
        }
    }
    [met, others].map(WeightedTimes::new)
}

/// Times with weights, in order, each from a block of the bootstrap.
struct WeightedTimes {
    times: Vec<(f64, f64)>,
    /// The last time of each group, with the group's weight in each block.
    groups: Vec<(f64, [f64; BLOCKS])>,
}

impl WeightedTimes {
    fn new(mut times: Vec<(f64, f64, usize)>) -> Self {
        times.sort_by(|a, b| a.0.total_cmp(&b.0));
        let size = times.len().div_ceil(GROUPS).max(1);
        let groups = times.chunks(size).filter_map(|group| {
            let mut weights = [0.0; BLOCKS];
            for (_, weight, block) in group {
                weights[*block] += weight;
            }
            Some((group.last()?.0, weights))
        });
        Self {
            groups: groups.collect(),
            times: times
                .into_iter()
                .map(|(time, weight, _)| (time, weight))
                .collect(),
        }
    }

    fn quantiles(&self) -> Option<[f64; 3]> {
        find_quantiles(&self.times)
    }

    /// The quantiles where each block counts so often.
    fn resample_quantiles(&self, counts: &[u32]) -> Option<[f64; 3]> {
        let groups = self.groups.iter().map(|(time, weights)| {
            let drawn = weights.iter().zip(counts);
            let weight: f64 = drawn
                .map(|(weight, count)| weight * f64::from(*count))
                .sum();
            (*time, weight)
        });
        find_quantiles(&groups.collect::<Vec<_>>())
    }
}

/// Quantiles of values in order, with weights; `None` without any weight.
fn find_quantiles(values: &[(f64, f64)]) -> Option<[f64; 3]> {
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    if all <= 0.0 {
        return None;
    }
    let mut found = [0.0; 3];
    for (quantile, share) in found.iter_mut().zip(SHARES) {
        let mut below = 0.0;
        let reached = values.iter().find(|(_, weight)| {
            below += weight;
            below >= share * all
        });
        *quantile = reached.or(values.last())?.0;
    }
    Some(found)
}
