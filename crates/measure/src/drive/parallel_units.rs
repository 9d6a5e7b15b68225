//! How many requests a drive serves side by side.

use serde::Serialize;

use super::service::ServiceTime;

/// CPUs busier than this, in per cent, limit a load.
const CPU_LIMITED: f64 = 85.0;
/// Throughput growing by this factor at the largest depth has not reached the limit.
const GROWING: f64 = 1.1;

/// Requests that a drive serves side by side.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ParallelUnits {
    /// Highest throughput times service time at depth 1 (Little's law).
    pub units: f64,
    /// Depth of the highest throughput.
    pub depth: usize,
    /// Whether CPUs or the depth limited the throughput, so that the drive may have more.
    pub at_least: bool,
}

impl ParallelUnits {
    /// Estimates from 4 KiB random reads; `None` without reads at depth 1 and more.
    pub(super) fn estimate(service: &[ServiceTime]) -> Option<Self> {
        let reads: Vec<&ServiceTime> = service.iter().filter(|s| s.is_small_read()).collect();
        let alone = reads.iter().find(|s| s.shape.depth == 1)?;
        let deeper = reads.iter().filter(|s| s.shape.depth > 1);
        let best = deeper.clone().max_by(|a, b| a.iops.total_cmp(&b.iops))?;
        let deepest = deeper.max_by_key(|s| s.shape.depth)?;
        let below = reads.iter().filter(|s| s.shape.depth < deepest.shape.depth);
        let fastest_below = below.map(|s| s.iops).fold(0.0, f64::max);
        Some(Self {
            units: (best.iops * alone.service().ns / 1e9).max(1.0),
            depth: best.shape.depth,
            at_least: best.busy_percent.is_some_and(|busy| busy > CPU_LIMITED)
                || deepest.iops > fastest_below * GROWING,
        })
    }
}
