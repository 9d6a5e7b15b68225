//! What every check is made of: the circumstances, inputs, and both sides' answers.

use std::fmt::Debug;

use anyhow::Result;
use rand_pcg::Pcg64Mcg;
use wakepath_policies::idle::KernelVersion;
use wakepath_units::TickRate;

use crate::record::Case;
use crate::subject::Subject;

/// The circumstances of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorSetting {
    /// Compared code.
    pub subject: Subject,
    /// The kernel version whose behaviour ours is to follow.
    pub version: KernelVersion,
    /// Ticks per second.
    pub tick: TickRate,
}

/// A policy's check, for a kind of input.
pub trait Check: Sync {
    /// What both sides are given: a log, a table or a drive.
    type Input;
    /// A single decision.
    type Answer: PartialEq + Debug;

    /// Inputs for about `amount` decisions.
    fn generate(&self, rng: &mut Pcg64Mcg, batch: u64, amount: usize) -> Vec<Self::Input>;
    /// Appends an input to what the C program reads.
    fn encode(&self, input: &Self::Input, out: &mut Vec<u8>);
    /// Takes the C program's output apart into decisions.
    fn decode(&self, output: &[u8]) -> Vec<Self::Answer>;
    /// Appends our decisions on an input.
    fn ours(&self, input: &Self::Input, out: &mut Vec<Self::Answer>) -> Result<()>;
    /// A different decision in words; `at` counts within the input.
    fn explain(
        &self,
        input: &Self::Input,
        at: usize,
        kernel: &Self::Answer,
        ours: &Self::Answer,
    ) -> String;
    /// The table and log to reproduce a difference from, where `wakepath policy idle` can.
    fn reproducible<'i>(&self, _input: &'i Self::Input) -> Option<&'i Case> {
        None
    }
}

/// Takes output apart that consists of 32-bit little-endian numbers.
pub(super) fn words(output: &[u8]) -> Vec<u32> {
    output
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// Takes output apart that consists of 64-bit little-endian numbers.
pub(super) fn double_words(output: &[u8]) -> Vec<u64> {
    output
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        .collect()
}
