//! Service of equal requests: latency and throughput.

use serde::Serialize;

use super::block_counters::BlockLayerView;
use super::interrupt::InterruptView;
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
    /// Time until the interrupt of requests like these; only of 4 KiB random ones at depth 1. Absent: not measured, or the
    /// interrupt does not come to the CPU that submits.
    pub interrupt: Option<InterruptView>,
    /// Share of the time of all usable CPUs that was busy meanwhile, with the requests and other work, in per cent; absent: not
    /// known.
    pub busy_percent: Option<f64>,
}

impl ServiceTime {
    /// Whether requests are 4 KiB random reads.
    pub(super) fn is_small_read(&self) -> bool {
        let shape = self.shape;
        let kind = (shape.direction, shape.order, shape.kib);
        kind == (AccessDirection::Read, AddressOrder::Random, 4)
    }

    /// Mean service time: to the interrupt, or else by the block layer's account, or else as a program sees it.
    ///
    /// Slow requests are left out of those that are seen to the interrupt. What they add to the program's mean is the drive's time.
    pub fn service(&self) -> Estimate {
        if let Some(InterruptView { service, .. }) = self.trusted_interrupt() {
            let slow = self.latency.slow_part;
            return Estimate {
                ns: service.ns + slow,
                low: service.low + slow,
                high: service.high + slow,
            };
        }
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

    /// The time to the interrupt, where nothing contradicts it: the block layer and the program see the whole request.
    fn trusted_interrupt(&self) -> Option<InterruptView> {
        let whole = self
            .block_layer
            .mean
            .map_or(f64::INFINITY, |mean| mean.0 as f64);
        let whole = whole.min(self.latency.mean.ns);
        self.interrupt.filter(|view| view.service.ns <= whole)
    }

    /// Whether [`Self::service`] is without the CPU's work: up to the interrupt, or by the block layer's account.
    pub fn tells_drive_apart(&self) -> bool {
        self.trusted_interrupt().is_some() || self.block_layer.mean.is_some()
    }

    /// What [`Self::service`] is.
    pub(super) fn service_name(&self) -> &'static str {
        if self.trusted_interrupt().is_some() && self.latency.slow_part > 0.0 {
            return "mean time from the submission to the interrupt, as a spinning thread sees it, and what slow requests add,";
        }
        if self.trusted_interrupt().is_some() {
            return "mean time from the submission to the interrupt, as a spinning thread sees it,";
        }
        match self.block_layer.mean {
            Some(_) => "mean time in the block layer and drive",
            None => "mean latency as a program sees it, with the CPU's work",
        }
    }
}
