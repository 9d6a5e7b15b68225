//! What every check has: the code to compare, inputs, and both sides' answers.

use std::fmt::Debug;

use anyhow::Result;
use rand_pcg::Pcg64Mcg;
use wakepath_policies::idle::KernelVersion;
use wakepath_units::TickRate;

use crate::record::Case;
use crate::subject::Subject;

/// What a comparison is about: the code, its kernel version and the tick rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GovernorSetting {
    /// Compared code.
    pub subject: Subject,
    /// Kernel version whose behaviour our policy is to follow.
    pub version: KernelVersion,
    /// Ticks per second.
    pub tick: TickRate,
}

/// Check of a policy against the kernel's code, for one kind of input.
pub trait Check: Sync {
    /// Input that both sides get: a log, a table or a drive.
    type Input;
    /// A single decision.
    type Answer: PartialEq + Debug;

    /// Generates random inputs for about `amount` decisions.
    fn generate_inputs(&self, rng: &mut Pcg64Mcg, batch: u64, amount: usize) -> Vec<Self::Input>;
    /// Appends an input to what the C program reads.
    fn append_input(&self, input: &Self::Input, out: &mut Vec<u8>);
    /// Splits the C program's output into decisions.
    fn decode_answers(&self, output: &[u8]) -> Vec<Self::Answer>;
    /// Appends the decisions of our policy on an input.
    fn append_our_answers(&self, input: &Self::Input, out: &mut Vec<Self::Answer>) -> Result<()>;
    /// Describes a decision in which both sides differ; `at` counts within the input.
    fn describe_difference(
        &self,
        input: &Self::Input,
        at: usize,
        kernel: &Self::Answer,
        ours: &Self::Answer,
    ) -> String;
    /// State table and call log that reproduce a difference, where `wakepath policy idle` can read
    /// them.
    fn reproducing_case<'i>(&self, _input: &'i Self::Input) -> Option<&'i Case> {
        None
    }
}

/// Splits output into 32-bit little-endian numbers.
pub(super) fn decode_u32s(output: &[u8]) -> Vec<u32> {
    output
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// Splits output into 64-bit little-endian numbers.
pub(super) fn decode_u64s(output: &[u8]) -> Vec<u64> {
    output
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        .collect()
}
