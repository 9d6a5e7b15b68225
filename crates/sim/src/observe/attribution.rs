//! A request's time by part.
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

/// Some requests' mean parts in microseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Attribution {
    /// CPU work from the system call to the drive, at the CPU's full speed.
    pub submission: f64,
    /// Waiting for the drive to begin.
    pub queueing: f64,
    /// The drive leaving a low-power state.
    pub drive_wake: f64,
    /// The drive at work.
    pub drive_service: f64,
    /// Work in the completion interrupt at full speed, and inter-processor interrupts.
    pub interrupt_delivery: f64,
    /// CPUs leaving idle states and refilling their caches.
    pub idle_exit: f64,
    /// What CPU work took longer than at full speed.
    pub frequency_shortfall: f64,
    /// Waiting for a CPU that does something else.
    pub waiting_to_run: f64,
    /// Work from the context switch back to user space, at full speed.
    pub completion: f64,
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
        }
    }

    /// The parts with their titles, in the order of a request's way.
    pub fn parts(&self) -> [(&'static str, f64); PARTS] {
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
}

/// Buckets per doubling of the latency, as a power of two: each is at most 3 % wide.
const BITS: u32 = 5;

/// Sums of parts over requests of about the same latency.
#[derive(Clone, Debug, Default)]
struct Bucket {
    requests: u64,
    sums: [u128; PARTS],
}

/// Collects the parts of requests by latency. Its size does not depend on their number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Collector {
    buckets: Vec<Bucket>,
    requests: u64,
}

impl Collector {
    /// Adds a request of this latency, the sum of its parts.
    #[inline(always)]
    pub(crate) fn add(&mut self, parts: &Parts, latency: u64) {
        let index = bucket_of::<BITS>(latency);
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

    /// How many requests there were of each latency.
    pub(crate) fn buckets(&self) -> impl Iterator<Item = LatencyBucket> {
        let filled = self
            .buckets
            .iter()
            .enumerate()
            .filter(|(_, b)| b.requests > 0);
        filled.map(|(index, bucket)| LatencyBucket {
            low: lowest_of::<BITS>(index),
            high: lowest_of::<BITS>(index + 1) - 1,
            requests: bucket.requests,
        })
    }

    /// The mean over all requests.
    pub(crate) fn mean(&self) -> Attribution {
        let mut sums = [0; PARTS];
        for bucket in &self.buckets {
            for (sum, part) in sums.iter_mut().zip(bucket.sums) {
                *sum += part;
            }
        }
        Attribution::new(&sums, self.requests)
    }

    /// The mean over the requests whose latency is within 3 % of this quantile's.
    pub(crate) fn at_quantile(&self, quantile: f64) -> Attribution {
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

/// The bucket of a latency: `2^BITS` of them to each doubling, from twice as many on; exact below that.
#[inline(always)]
pub(crate) fn bucket_of<const BITS: u32>(latency: u64) -> usize {
    let magnitude = (64 - latency.leading_zeros()).saturating_sub(BITS + 1);
    ((u64::from(magnitude) << BITS) + (latency >> magnitude)) as usize
}

/// The shortest latency of a bucket.
pub(crate) fn lowest_of<const BITS: u32>(bucket: usize) -> u64 {
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
            let (this, next) = (bucket_of::<BITS>(latency), bucket_of::<BITS>(latency + 1));
            prop_assert!(next == this || next == this + 1);
            let wider = latency + latency / 31 + 1;
            prop_assert!(bucket_of::<BITS>(wider) > this);
            prop_assert!(lowest_of::<BITS>(this) <= latency && latency < lowest_of::<BITS>(this + 1));
        }
    }
}
