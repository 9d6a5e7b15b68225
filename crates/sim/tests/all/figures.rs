//! Figures of a run that several tests look at.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_sim::{PageCacheRun, Run};

/// What the page cache did in a run that has one.
pub(crate) fn cache(run: &Run) -> PageCacheRun {
    run.page_cache.unwrap()
}

/// Whether the mean parts of a request's latency add up to its mean.
pub(crate) fn parts_add_up(run: &Run) -> bool {
    let mean = serde_json::to_value(run.attribution.mean).unwrap();
    let parts = mean.as_object().unwrap().values();
    let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
    (sum - run.latency_us.mean).abs() < 1e-6 * run.latency_us.mean.max(1.0)
}
