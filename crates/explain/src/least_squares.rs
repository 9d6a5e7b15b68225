//! Costs of states by two-stage least squares within strata, with intervals.

use std::collections::BTreeMap;

use crate::bootstrap::{BLOCKS, add_bootstrap_interval, draw_block_counts};
use crate::estimate::ExitEstimate;
use crate::strata::{Sample, Stratum};

/// Fewest requests in a block of the bootstrap.
const PER_BLOCK: usize = 5;

pub(crate) fn estimate_mean_costs(samples: &[Sample], others: &[u8]) -> Option<Vec<f64>> {
    solve_costs(
        &sum_by_block_and_stratum(samples, others, 1),
        &[1],
        others.len(),
    )
}

/// Sums over a stratum's samples in a block; `x` marks the state met, `z` the first choice.
#[derive(Clone, Default)]
struct Sums {
    n: f64,
    y: f64,
    x: Vec<f64>,
    z: Vec<f64>,
    zx: Vec<Vec<f64>>,
    zy: Vec<f64>,
}

impl Sums {
    fn zeros(states: usize) -> Self {
        Self {
            n: 0.0,
            y: 0.0,
            x: vec![0.0; states],
            z: vec![0.0; states],
            zx: vec![vec![0.0; states]; states],
            zy: vec![0.0; states],
        }
    }

    fn add_sample(&mut self, time: f64, first: Option<usize>, met: Option<usize>) {
        self.n += 1.0;
        self.y += time;
        for (place, x) in self.x.iter_mut().enumerate() {
            *x += f64::from(u8::from(met == Some(place)));
        }
        let rows = self.z.iter_mut().zip(&mut self.zy).zip(&mut self.zx);
        for (_, ((z, zy), row)) in rows.enumerate().filter(|(row, _)| first == Some(*row)) {
            *z += 1.0;
            *zy += time;
            for (place, zx) in row.iter_mut().enumerate() {
                *zx += f64::from(u8::from(met == Some(place)));
            }
        }
    }

    fn add_multiple(&mut self, times: f64, other: &Self) {
        let add = |to: &mut [f64], from: &[f64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += times * from;
            }
        };
        self.n += times * other.n;
        self.y += times * other.y;
        add(&mut self.x, &other.x);
        add(&mut self.z, &other.z);
        add(&mut self.zy, &other.zy);
        for (to, from) in self.zx.iter_mut().zip(&other.zx) {
            add(to, from);
        }
    }
}

/// Costs of states above the reference, state by state.
pub(crate) struct CostEstimates {
    pub(crate) by_state: Vec<ExitEstimate>,
    /// Costs of all states in each resample of the bootstrap.
    drawn: Vec<Vec<f64>>,
}

impl CostEstimates {
    /// The sum of all costs, each times its weight. Costs are drawn together, so that the interval knows how they depend on
    /// each other.
    pub(crate) fn weighted_sum(&self, weights: &[f64]) -> Option<ExitEstimate> {
        let means = self.by_state.iter().map(|estimate| estimate.mean_ns);
        let drawn = self
            .drawn
            .iter()
            .map(|costs| sum_of_products(costs.iter().copied(), weights));
        add_bootstrap_interval(sum_of_products(means, weights), drawn.collect())
    }
}

fn sum_of_products(values: impl Iterator<Item = f64>, weights: &[f64]) -> f64 {
    values
        .zip(weights)
        .map(|(value, weight)| value * weight)
        .sum()
}

/// Sums by stratum, block by block.
type Blocks = Vec<BTreeMap<Stratum, Sums>>;

/// Estimates costs for `others` above the reference, with intervals; `None` with too few samples.
pub(crate) fn estimate_costs(samples: &[Sample], others: &[u8]) -> Option<CostEstimates> {
    let blocks = BLOCKS.min(samples.len() / PER_BLOCK);
    if others.is_empty() || blocks < BLOCKS / 2 {
        return None;
    }
    let sums = sum_by_block_and_stratum(samples, others, blocks);
    let means = solve_costs(&sums, &vec![1; blocks], others.len())?;
    let drawn: Vec<Vec<f64>> = draw_block_counts(blocks)
        .filter_map(|times| solve_costs(&sums, &times, others.len()))
        .collect();
    let means = means.into_iter().enumerate();
    let by_state = means.map(|(place, mean)| {
        let values = drawn.iter().filter_map(|costs| costs.get(place).copied());
        add_bootstrap_interval(mean, values.collect())
    });
    Some(CostEstimates {
        by_state: by_state.collect::<Option<_>>()?,
        drawn,
    })
}

fn sum_by_block_and_stratum(samples: &[Sample], others: &[u8], blocks: usize) -> Blocks {
    let mut sums: Blocks = vec![BTreeMap::new(); blocks];
    let place = |state: u8| others.iter().position(|other| *other == state);
    for (index, sample) in samples.iter().enumerate() {
        let Some(block) = sums.get_mut(index * blocks / samples.len()) else {
            continue;
        };
        let cell = block
            .entry(sample.stratum)
            .or_insert_with(|| Sums::zeros(others.len()));
        cell.add_sample(sample.time, place(sample.first), place(sample.met));
    }
    sums
}

/// The costs, with each block counted so many times.
fn solve_costs(blocks: &Blocks, times: &[u32], states: usize) -> Option<Vec<f64>> {
    let mut strata: BTreeMap<Stratum, Sums> = BTreeMap::new();
    for (block, times) in blocks.iter().zip(times).filter(|(_, times)| **times > 0) {
        for (stratum, sums) in block {
            let total = strata
                .entry(*stratum)
                .or_insert_with(|| Sums::zeros(states));
            total.add_multiple(f64::from(*times), sums);
        }
    }
    // Each row: states met and time, as explained by the first state.
    let mut rows = vec![vec![0.0; states + 1]; states];
    for sums in strata.values() {
        let parts = rows
            .iter_mut()
            .zip(&sums.z)
            .zip(sums.zx.iter().zip(&sums.zy));
        for ((row, z), (zx, zy)) in parts {
            let products = zx.iter().chain([zy]).zip(sums.x.iter().chain([&sums.y]));
            for (cell, (product, sum)) in row.iter_mut().zip(products) {
                *cell += product - z * sum / sums.n;
            }
        }
    }
    solve_linear_equations(rows)
}

/// Solves linear equations, the right side last in each row; `None` without a single solution.
fn solve_linear_equations(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for column in 0..count {
        let size = |row: &usize| {
            rows.get(*row)
                .and_then(|r| r.get(column))
                .map_or(0.0, |v| v.abs())
        };
        let best = (column..count).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        // The unit is requests: less than a whole request tells nothing.
        if size(&best) < 1.0 {
            return None;
        }
        rows.swap(column, best);
        let pivot_row = rows.get(column)?.clone();
        let pivot = *pivot_row.get(column)?;
        for row in (0..count).filter(|row| *row != column) {
            let target = rows.get_mut(row)?;
            let factor = target.get(column)? / pivot;
            for (cell, value) in target.iter_mut().zip(&pivot_row) {
                *cell -= factor * value;
            }
        }
    }
    let solution = rows.iter().enumerate();
    solution
        .map(|(i, row)| Some(row.last()? / row.get(i)?))
        .collect()
}
