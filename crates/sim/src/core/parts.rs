//! The parts of a request's latency.
//!
//! A request's way is cut at certain points in time. Each stretch between two cuts goes to one
//! part, or is divided among several, so that the parts of a request add up to its latency to the
//! nanosecond.

use crate::core::basics::Cycles;
use crate::core::speed::Speed;

/// A part of a request's latency.
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
    /// CPU work of the completion interrupt at full speed, and the way of an inter-processor
    /// interrupt.
    InterruptDelivery,
    /// CPUs leaving idle states, refilling of caches at full speed included.
    IdleExit,
    /// What CPU work took longer because the CPU did not run at its full speed.
    FrequencyShortfall,
    /// Waiting for a CPU that does something else.
    WaitingToRun,
    /// CPU work from the context switch back to user space, at full speed.
    Completion,
}

/// Number of parts.
pub(crate) const PARTS: usize = 9;

/// The parts of a request in ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parts(pub(crate) [u64; PARTS]);

impl Parts {
    pub(crate) fn add(&mut self, part: Part, time: u64) {
        self.0[part as usize] += time;
    }

    /// Adds the parts of what came after.
    pub(crate) fn append(&mut self, then: &Self) {
        for (part, time) in self.0.iter_mut().zip(then.0) {
            *part += time;
        }
    }

    pub(crate) fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Adds a stretch of `time` ns in which the CPU was at work for `executed` ns.
    ///
    /// It did `work` for the request, and because it had slept.
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

/// CPU work of a segment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Work {
    /// For its purpose.
    own: Cycles,
    /// Because the CPU had slept.
    cold: Cycles,
    /// Of the CPU at its highest frequency.
    full_speed: Speed,
}

impl Work {
    /// Work for a purpose of its `own`, after `cold` work; in cycles, on a CPU of this speed at most.
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
