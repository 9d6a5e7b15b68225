//! Latency by part.
//!
//! A request's way is cut at certain points in time. Each stretch between two cuts goes to one part, or is divided
//! among several, so that a request's parts add up to the latency to the nanosecond.

use crate::core::basics::Cycles;
use crate::core::speed::Speed;

/// A part in a request's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// CPU work from the system call to the drive, at the CPU's full speed.
    Submission,
    /// Waiting for the drive to begin.
    Queueing,
    /// The drive leaving a low-power state.
    DriveWake,
    /// The drive at work.
    DriveService,
    /// CPU work in the completion interrupt at full speed, and inter-processor interrupts on the way.
    InterruptDelivery,
    /// CPUs leaving idle states, refilling of caches at full speed included.
    IdleExit,
    /// Extra time for CPU work at less than full speed.
    FrequencyShortfall,
    /// Waiting for a CPU busy with something else.
    WaitingToRun,
    /// CPU work from the context switch back to user space, at full speed.
    Completion,
}

/// Part count.
pub(crate) const PARTS: usize = 9;

/// A request's parts in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(pub(crate) [u64; PARTS]);

impl Parts {
    pub(crate) fn add(&mut self, part: Part, time: u64) {
        self.0[part as usize] += time;
    }

    /// Adds the parts from a later stretch.
    pub(crate) fn append(&mut self, then: &Self) {
        for (part, time) in self.0.iter_mut().zip(then.0) {
            *part += time;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds a stretch with `time` ns, in which the CPU was at work for `executed` ns.
    ///
    /// The CPU did `work` for the request, and because the CPU had slept.
    #[inline(always)]
    pub(crate) fn add_work(&mut self, part: Part, time: u64, executed: u64, work: Work) {
        let executed = executed.min(time);
        let cold = work.full_speed.time(work.cold).min(executed);
        let own = work.full_speed.time(work.own).min(executed - cold);
        self.add(part, own);
        self.add(Part::IdleExit, cold);
        self.add(Part::FrequencyShortfall, executed - cold - own);
        self.add(Part::WaitingToRun, time - executed);
    }
}

/// CPU work in a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Work for the segment's purpose.
    own: Cycles,
    /// Because the CPU had slept.
    cold: Cycles,
    /// Speed at the CPU's highest frequency.
    full_speed: Speed,
}

impl Work {
    /// `own` work for a purpose, after `cold` work; in cycles, on a CPU with at most this speed.
    #[inline(always)]
    pub(crate) fn new(own: Cycles, cold: Cycles, full_speed: Speed) -> Self {
        Self {
            own,
            cold,
            full_speed,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_stretch_of_work_is_divided_without_rest(
            time in 0_u64..1 << 40,
            executed in 0_u64..1 << 40,
            own in 0_u64..1 << 30,
            cold in 0_u64..1 << 30,
            khz in 1_u32..10_000_000,
        ) {
            let full_speed = Speed::new(khz);
            let mut parts = Parts::default();
            parts.add_work(Part::Submission, time, executed, Work::new(own, cold, full_speed));
            prop_assert_eq!(parts.total(), time);
        }
    }
}
