//! Service of equal requests: latency and throughput.

use serde::Serialize;

use super::block_counters::BlockLayerView;
use super::plan::{AccessDirection, AddressOrder, LoadShape};
use crate::summary::{Estimate, LatencySummary};

/// Service of equal requests.
#[derive(Clone, Debug, Serialize)]
pub struct ServiceTime {
    /// Kind of the requests: direction, order, size and depth.
    #[serde(flatten)]
    pub shape: LoadShape,
    /// Requests per second.
    pub iops: f64,
    /// Data rate in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Latency seen by a program: from system call to return.
    pub latency: LatencySummary,
    /// The block layer's account of the same requests.
    pub block_layer: BlockLayerView,
    /// Share of all CPUs' time that was busy meanwhile, with the requests and other work, in per cent; absent: not known.
    pub busy_percent: Option<f64>,
}

impl ServiceTime {
    /// Whether requests are 4 KiB random reads.
    pub(super) fn is_small_read(&self) -> bool {
        let shape = self.shape;
        let kind = (shape.direction, shape.order, shape.kib);
        kind == (AccessDirection::Read, AddressOrder::Random, 4)
    }

    /// Mean service time by the block layer's account, or else as a program sees it.
    pub fn service(&self) -> Estimate {
        let Some(mean) = self.block_layer.mean else {
            return self.latency.mean;
        };
        // The interval is as wide as the program's.
        let (ns, seen) = (mean.0 as f64, self.latency.mean);
        Estimate {
            ns,
            low: ns - (seen.ns - seen.low),
            high: ns + (seen.high - seen.ns),
        }
    }

    /// What [`Self::service`] is.
    pub(super) const fn service_name(&self) -> &'static str {
        match self.block_layer.mean {
            Some(_) => "mean time in the block layer and drive",
            None => "mean latency as a program sees it, with the CPU's work",
        }
    }
}
