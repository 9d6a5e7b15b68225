//! Intervals by a bootstrap over blocks of successive requests.

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::estimate::ExitEstimate;

/// Most blocks in a bootstrap; half as many are the fewest for an interval.
pub(crate) const BLOCKS: usize = 40;
/// Number of draws in a bootstrap.
pub(crate) const RESAMPLES: usize = 499;

/// Draws blocks with replacement, [`RESAMPLES`] times with a fixed seed: how often each of `blocks` blocks counts.
pub(crate) fn draw_block_counts(blocks: usize) -> impl Iterator<Item = Vec<u32>> {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    (0..RESAMPLES).map(move |_| {
        let mut counts = vec![0; blocks];
        for _ in 0..blocks {
            if let Some(count) = counts.get_mut(random.random_range(0..blocks)) {
                *count += 1;
            }
        }
        counts
    })
}

/// A mean with the middle 95 % of resampled means; `None` if more than 5 % of the resamples have no mean.
pub(crate) fn add_bootstrap_interval(mean: f64, mut drawn: Vec<f64>) -> Option<ExitEstimate> {
    if drawn.len() < RESAMPLES * 95 / 100 {
        return None;
    }
    drawn.sort_by(f64::total_cmp);
    let rank = |share: f64| (share * drawn.len() as f64) as usize;
    Some(ExitEstimate {
        mean_ns: mean,
        low_ns: *drawn.get(rank(0.025))?,
        high_ns: *drawn.get(rank(0.975))?,
    })
}
