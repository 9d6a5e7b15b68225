//! Sums and means of requests' latency by part.
//!
//! A request's way is cut at certain points in time. Each stretch between two cuts goes to one part, or is divided
//! among several, so that the parts add up to the latency to the nanosecond.

use serde::Serialize;

use crate::core::parts::{PARTS, Part, Parts};

/// Requests with about the same latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LatencyBucket {
    /// Shortest latency in ns.
    pub low: u64,
    /// Longest latency in ns.
    pub high: u64,
    /// Request count.
    pub requests: u64,
}

/// Mean latency parts of some requests, in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Attribution {
    /// CPU work from the system call to the drive, at the CPU's full speed.
    pub submission: f64,
    /// Waiting in the drive's queue until the drive begins.
    pub queueing: f64,
    /// The drive leaves a low-power state.
    pub drive_wake: f64,
    /// The drive serves the request.
    pub drive_service: f64,
    /// Work in the completion interrupt at full speed, and inter-processor interrupts.
    pub interrupt_delivery: f64,
    /// CPUs leaving idle states and refilling their caches.
    pub idle_exit: f64,
    /// Extra time for CPU work at less than full speed.
    pub frequency_shortfall: f64,
    /// Waiting for a CPU that does something else.
    pub waiting_to_run: f64,
    /// Work from the context switch back to user space, at full speed.
    pub completion: f64,
    /// Waiting for a free worker of a server; 0 for other workloads.
    #[serde(skip_serializing_if = "is_zero")]
    pub worker_wait: f64,
    /// A server's own CPU work for the request, at full speed; 0 for other workloads.
    #[serde(skip_serializing_if = "is_zero")]
    pub server_work: f64,
}

/// Whether a part is absent, as those of servers are for other workloads.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes references")]
fn is_zero(part: &f64) -> bool {
    *part == 0.0
}

impl Attribution {
    fn new(sums: &[u128; PARTS], requests: u64) -> Self {
        let mean = |part: Part| sums[part as usize] as f64 / requests.max(1) as f64 / 1e3;
        Self {
            submission: mean(Part::Submission),
            queueing: mean(Part::Queueing),
            drive_wake: mean(Part::DriveWake),
            drive_service: mean(Part::DriveService),
            interrupt_delivery: mean(Part::InterruptDelivery),
            idle_exit: mean(Part::IdleExit),
            frequency_shortfall: mean(Part::FrequencyShortfall),
            waiting_to_run: mean(Part::WaitingToRun),
            completion: mean(Part::Completion),
            worker_wait: mean(Part::WorkerWait),
            server_work: mean(Part::ServerWork),
        }
    }

    /// The parts of an I/O with their titles, in the order of a request's way.
    pub fn titled_parts(&self) -> [(&'static str, f64); 9] {
        [
            ("submission", self.submission),
            ("queueing", self.queueing),
            ("drive wake-up", self.drive_wake),
            ("drive service", self.drive_service),
            ("interrupt delivery", self.interrupt_delivery),
            ("idle exit", self.idle_exit),
            ("frequency shortfall", self.frequency_shortfall),
            ("waiting to run", self.waiting_to_run),
            ("completion", self.completion),
        ]
    }

    /// The parts that only requests to a server have, with their titles.
    pub fn titled_parts_of_server(&self) -> [(&'static str, f64); 2] {
        [
            ("waiting for a worker", self.worker_wait),
            ("server work", self.server_work),
        ]
    }
}

/// Buckets per doubling of the latency, as a power of two: each is at most 3 % wide.
const BITS: u32 = 5;

/// Summed latency parts of requests with about the same latency, in ns.
#[derive(Clone, Debug, Default)]
struct Bucket {
    requests: u64,
    sums: [u128; PARTS],
}

/// Sums requests' latency parts, by latency. Its size does not depend on the number of requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    buckets: Vec<Bucket>,
    requests: u64,
}

impl Collector {
    /// Adds a finished request's parts and its latency, the sum of the parts.
    #[inline(always)]
    pub(crate) fn add_request(&mut self, parts: &Parts, latency: u64) {
        let index = bucket_index::<BITS>(latency);
        if index >= self.buckets.len() {
            self.buckets.resize_with(index + 1, Bucket::default);
        }
        let bucket = &mut self.buckets[index];
        bucket.requests += 1;
        for (sum, part) in bucket.sums.iter_mut().zip(parts.0) {
            *sum += u128::from(part);
        }
        self.requests += 1;
    }

    /// Number of requests by latency, shortest first; latencies without requests are left out.
    pub(crate) fn latency_buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        let filled = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, b)| b.requests > 0);
        filled.map(|(index, bucket)| LatencyBucket {
            low: lowest_latency_in_bucket::<BITS>(index),
            high: lowest_latency_in_bucket::<BITS>(index + 1) - 1,
            requests: bucket.requests,
        })
    }

    /// Mean latency parts over all requests.
    pub(crate) fn mean_attribution(&self) -> Attribution {
        let mut sums = [0; PARTS];
        for bucket in &self.buckets {
            for (sum, part) in sums.iter_mut().zip(bucket.sums) {
                *sum += part;
            }
        }
        Attribution::new(&sums, self.requests)
    }

    /// Mean latency parts of the requests whose latency is within 3 % of a quantile's, 0 to 1.
    pub(crate) fn attribution_at_quantile(&self, quantile: f64) -> Attribution {
        let rank = (self.requests as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        for bucket in &self.buckets {
            seen += bucket.requests;
            if seen >= rank {
                return Attribution::new(&bucket.sums, bucket.requests);
            }
        }
        Attribution::default()
    }
}

/// Index of a latency's bucket: `2^BITS` buckets for each doubling of the latency; short latencies have one bucket each.
#[inline(always)]
pub(crate) fn bucket_index<const BITS: u32>(latency: u64) -> usize {
    let magnitude = (64 - latency.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(magnitude) << BITS) + (latency >> magnitude)) as usize
}

/// Shortest latency in ns that belongs to a bucket.
pub(crate) fn lowest_latency_in_bucket<const BITS: u32>(bucket: usize) -> u64 {
    let magnitude = (bucket >> BITS).saturating_sub(1);
    ((bucket - (magnitude << BITS)) as u64) << magnitude
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn buckets_are_in_order_and_narrow(latency in 0_u64..1 << 62) {
            let (this, next) = (bucket_index::<BITS>(latency), bucket_index::<BITS>(latency + 1));
            prop_assert!(next == this || next == this + 1);
            let wider = latency + latency / 31 + 1;
            prop_assert!(bucket_index::<BITS>(wider) > this);
            prop_assert!(lowest_latency_in_bucket::<BITS>(this) <= latency && latency < lowest_latency_in_bucket::<BITS>(this + 1));
        }
    }
}
