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
    pub fn service(&self) -> Estimate {
        if let Some(view) = self.trusted_interrupt() {
            return view.service;
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

    /// What a program waits beyond the drive in ns: the work of CPUs, if they are held shallow. `None`: nothing tells it apart.
    ///
    /// Reads that are seen to the interrupt are others than those that a program times, and slow ones are left out of them. So
    /// medians are compared: in means, the slow ones and each pause of the machine would count as work. The block layer accounts
    /// for the very requests that the program times, and there the means differ by the work alone.
    pub fn beyond_drive_ns(&self) -> Option<f64> {
        if let Some(view) = self.trusted_interrupt() {
            return Some(self.latency.median.ns - view.median.ns);
        }
        let inside = self.block_layer.mean?;
        Some(self.latency.mean.ns - inside.0 as f64)
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

    /// What [`Self::service`] is.
    pub(super) fn service_name(&self) -> &'static str {
        if self.trusted_interrupt().is_some() {
            return "mean time from the submission to the interrupt, as a spinning thread sees it,";
        }
        match self.block_layer.mean {
            Some(_) => "mean time in the block layer and drive",
            None => "mean latency as a program sees it, with the CPU's work",
        }
    }
}
