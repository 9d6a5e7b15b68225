//! Latency by part.
//!
//! A request's way is cut at certain points in time. Each stretch between two cuts goes to one part, or is divided
//! among several, so that a request's parts add up to the latency to the nanosecond.

use crate::core::basics::Cycles;
use crate::core::speed::Speed;

/// A part of a request's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// CPU work from the system call to the drive, at the CPU's full speed.
    Submission,
    /// Waiting in the drive's queue until the drive begins.
    Queueing,
    /// The drive leaves a low-power state.
    DriveWake,
    /// The drive serves the request.
    DriveService,
    /// CPU work in the completion interrupt at full speed, and inter-processor interrupts on the way.
    InterruptDelivery,
    /// CPUs leave idle states, and refill their caches at full speed.
    IdleExit,
    /// Extra time for CPU work at less than full speed.
    FrequencyShortfall,
    /// Waiting for a CPU that is busy with something else.
    WaitingToRun,
    /// CPU work from the context switch back to user space, at full speed.
    Completion,
    /// A server's request waits for a free worker.
    WorkerWait,
    /// A server's own CPU work for a request, at full speed.
    ServerWork,
}

/// Number of parts in a latency.
pub(crate) const PARTS: usize = 11;

/// A request's latency in ns, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(pub(crate) [u64; PARTS]);

impl Parts {
    pub(crate) fn add_time(&mut self, part: Part, time: u64) {
        self.0[part as usize] += time;
    }

    /// Adds the parts of a later stretch of the same request.
    pub(crate) fn add_parts(&mut self, later: &Self) {
        for (part, time) in self.0.iter_mut().zip(later.0) {
            *part += time;
        }
    }

    /// The parts of the stretch since an earlier time, when these were `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let mut stretch = *self;
        for (part, time) in stretch.0.iter_mut().zip(before.0) {
            *part = part.saturating_sub(time);
        }
        stretch
    }

    pub(crate) fn total_ns(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Divides a stretch of `time` ns, in which the CPU was at work for `executed` ns, among the parts.
    ///
    /// The CPU did `work` for the request, and because the CPU had slept.
    #[inline(always)]
    pub(crate) fn divide_work_stretch(&mut self, part: Part, time: u64, executed: u64, work: Work) {
        let executed = executed.min(time);
        let cold = work.full_speed.time_rounded_down(work.cold).min(executed);
        let own = work
            .full_speed
            .time_rounded_down(work.own)
            .min(executed - cold);
        self.add_time(part, own);
        self.add_time(Part::IdleExit, cold);
        self.add_time(Part::FrequencyShortfall, executed - cold - own);
        self.add_time(Part::WaitingToRun, time - executed);
    }
}

/// CPU work in a task's segment or an interrupt.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// Work in cycles for the segment's own purpose.
    own: Cycles,
    /// Work in cycles to refill caches, because the CPU had slept.
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
            parts.divide_work_stretch(Part::Submission, time, executed, Work::new(own, cold, full_speed));
            prop_assert_eq!(parts.total_ns(), time);
        }
    }
}
