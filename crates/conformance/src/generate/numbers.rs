//! Random numbers that hit limits often.

use rand::RngExt as _;
use rand_pcg::Pcg64Mcg;

pub(super) const US: i64 = 1_000;
pub(super) const MS: i64 = 1_000_000;

/// Random number from `low` up to about `high`, every power of two as likely as the next.
pub(super) fn random_by_magnitude(rng: &mut Pcg64Mcg, low: i64, high: i64) -> i64 {
    let (low, high) = (low.max(1), high.max(1));
    let exponent = rng.random_range(low.ilog2()..=high.ilog2());
    let base = 1_i64 << exponent;
    (base + rng.random_range(0..base)).clamp(low, high)
}

/// Random value at one of the limits, or slightly off.
pub(super) fn random_near_limit(rng: &mut Pcg64Mcg, limits: &[i64]) -> i64 {
    let limit = limits[rng.random_range(0..limits.len())];
    let off = match rng.random_range(0..8) {
        0 | 1 => 0,
        2 | 3 => 1,
        4 | 5 => -1,
        6 => rng.random_range(-2 * US..=2 * US),
        _ => rng.random_range(-50 * US..=50 * US),
    };
    limit.saturating_add(off)
}

pub(super) fn is_hit_per_mille(rng: &mut Pcg64Mcg, chance: u32) -> bool {
    chance > 0 && rng.random_ratio(chance, 1_000)
}
