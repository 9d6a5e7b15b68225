//! How many requests a drive serves side by side.

use serde::Serialize;

use super::service::ServiceTime;

/// CPUs busier than this, in per cent, limit a load.
const CPU_LIMITED: f64 = 85.0;
/// Requests that spend this many times as long outside the block layer as single ones wait for CPUs, and not for the drive.
const WAITING_FOR_CPUS: f64 = 3.0;
/// Throughput that grows by this factor when the depth is doubled has not reached the limit. Random reads keep 63 % of `n` units
/// busy at depth `n`, and 86 % at twice the depth, which is 1.37 times as much.
const GROWING: f64 = 1.4;

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
                || waits_for_cpus(best, alone)
                || deepest.iops > fastest_below * GROWING,
        })
    }
}

/// Whether requests of a load wait for CPUs much longer than single ones.
fn waits_for_cpus(load: &ServiceTime, alone: &ServiceTime) -> bool {
    let times = [load, alone].map(|service| {
        let inside = service.block_layer.mean?;
        Some(service.latency.mean.ns - inside.0 as f64)
    });
    matches!(times, [Some(outside), Some(outside_alone)] if outside > WAITING_FOR_CPUS * outside_alone.max(0.0))
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::*;
    use crate::drive::block_counters::BlockLayerView;
    use crate::drive::plan::{AccessDirection, AddressOrder, LoadShape};
    use crate::summary::LatencySummary;

    /// 4 KiB reads at a depth, with their latency and their time in the block layer in us.
    fn reads(depth: usize, iops: f64, latency_us: u64, block_layer_us: u64) -> ServiceTime {
        ServiceTime {
            shape: LoadShape {
                direction: AccessDirection::Read,
                order: AddressOrder::Random,
                kib: 4,
                depth,
            },
            iops,
            mb_per_s: iops * 4096.0 / 1e6,
            latency: LatencySummary::new(&[latency_us * 1000; 4]).unwrap(),
            block_layer: BlockLayerView {
                mean: Some(Nanoseconds::from_micros(block_layer_us)),
                foreign_requests: Some(0),
            },
            interrupt: None,
            busy_percent: Some(50.0),
        }
    }

    /// Whether reads count as limited by the largest depth, if twice the depth makes them faster by a factor.
    fn is_limited_by_depth(growth: f64) -> bool {
        let measured = [
            reads(1, 16_000.0, 63, 56),
            reads(16, 60_000.0, 267, 255),
            reads(32, 60_000.0 * growth, 400, 390),
        ];
        ParallelUnits::estimate(&measured).unwrap().at_least
    }

    #[test]
    fn requests_that_wait_for_cpus_tell_the_least_number_of_units() {
        let alone = reads(1, 16_000.0, 63, 56);
        // 16 in flight at 60,000 a second take 267 us.
        let by_drive = [
            alone.clone(),
            reads(8, 60_000.0, 133, 124),
            reads(16, 60_000.0, 267, 255),
        ];
        let units = ParallelUnits::estimate(&by_drive).unwrap();
        assert!(
            !units.at_least && (3.3..3.5).contains(&units.units),
            "{units:?}"
        );
        let by_cpus = [
            alone,
            reads(8, 60_000.0, 133, 101),
            reads(16, 60_500.0, 264, 185),
        ];
        assert!(ParallelUnits::estimate(&by_cpus).unwrap().at_least);
        assert!(!is_limited_by_depth(1.3) && is_limited_by_depth(1.5));
    }
}
