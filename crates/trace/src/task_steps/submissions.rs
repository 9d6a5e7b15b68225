//! Cycles that the recorded machine took to submit a request, from the bio to the issue.
//!
//! The time on the CPU of a task that does I/O has the kernel's work inside. Another machine takes other cycles for that, and these
//! tell by how much.

use std::collections::{BTreeMap, HashMap};

use super::observed::ObservedSubmission;
use crate::recording::Block;

/// Fewest submissions of a size that tell its cycles.
const FEWEST_SAMPLES: usize = 16;

/// Most submissions, and most sizes, that are kept.
const MOST_SAMPLES: usize = 1 << 12;
const MOST_SIZES: usize = 64;

/// A bio on its way to the issue.
#[derive(Clone, Copy, Debug)]
struct Bio {
    device: u32,
    sector: u64,
    bytes: u32,
    time: u64,
}

/// Collects cycles of submissions, by size.
#[derive(Clone, Debug, Default)]
pub(super) struct Submissions {
    /// By CPU, the bio that it submits.
    begun: HashMap<u32, Bio>,
    /// Cycles by size in bytes.
    cycles: BTreeMap<u32, Vec<u64>>,
}

impl Submissions {
    /// Notes that a CPU begins to submit a bio.
    pub(super) fn note_queued(&mut self, time: u64, cpu: u32, block: &Block) {
        let Block {
            device,
            sector,
            bytes,
            ..
        } = *block;
        let bio = Bio {
            device,
            sector,
            bytes,
            time,
        };
        self.begun.insert(cpu, bio);
    }

    /// Forgets what a CPU submits: its clock changes, or something else comes between.
    pub(super) fn forget_submission_on(&mut self, cpu: u32) {
        self.begun.remove(&cpu);
    }

    /// Notes that a CPU with a clock in kHz has issued a request.
    pub(super) fn note_issued(&mut self, time: u64, cpu: u32, khz: Option<u32>, block: &Block) {
        let Some((bio, khz)) = self.begun.remove(&cpu).zip(khz) else {
            return;
        };
        let place_and_size = (bio.device, bio.sector, bio.bytes);
        if place_and_size != (block.device, block.sector, block.bytes) || block.bytes == 0 {
            return;
        }
        if self.cycles.len() >= MOST_SIZES && !self.cycles.contains_key(&bio.bytes) {
            return;
        }
        let samples = self.cycles.entry(bio.bytes).or_default();
        if samples.len() < MOST_SAMPLES {
            let cycles = u128::from(time.saturating_sub(bio.time)) * u128::from(khz) / 1_000_000;
            samples.push(u64::try_from(cycles).unwrap_or(u64::MAX));
        }
    }

    /// The median of the size with most submissions; `None`: too few were seen.
    pub(super) fn into_median(self) -> Option<ObservedSubmission> {
        let by_size = self.cycles.into_iter().rev();
        let (bytes, mut samples) = by_size.max_by_key(|(_, samples)| samples.len())?;
        samples.sort_unstable();
        let cycles = samples.get(samples.len() / 2).copied()?;
        (samples.len() >= FEWEST_SAMPLES && cycles > 0)
            .then_some(ObservedSubmission { bytes, cycles })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(bytes: u32) -> Block {
        Block {
            device: 1,
            sector: 8,
            bytes,
            write: false,
        }
    }

    #[test]
    fn the_median_of_the_commonest_size_counts() {
        let mut submissions = Submissions::default();
        for number in 0..40_u64 {
            let bytes = if number % 4 == 0 { 512 } else { 4096 };
            submissions.note_queued(1000, 0, &block(bytes));
            // One in four is interrupted.
            let took = if number % 8 == 1 { 90_000 } else { 5_000 };
            submissions.note_issued(1000 + took, 0, Some(2_000_000), &block(bytes));
        }
        let wanted = ObservedSubmission {
            bytes: 4096,
            cycles: 10_000,
        };
        assert_eq!(submissions.into_median(), Some(wanted));
    }

    #[test]
    fn what_is_not_known_does_not_count() {
        let mut submissions = Submissions::default();
        for _ in 0..40 {
            submissions.note_queued(1000, 0, &block(4096));
            submissions.note_issued(2000, 0, None, &block(4096));
            submissions.note_queued(1000, 0, &block(4096));
            submissions.note_issued(2000, 1, Some(1_000_000), &block(4096));
            submissions.forget_submission_on(0);
            submissions.note_issued(2000, 0, Some(1_000_000), &block(4096));
        }
        assert_eq!(submissions.into_median(), None);
    }
}
