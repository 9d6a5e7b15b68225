//! A check per kind of policy: generated inputs, the kernel's answers, and ours.

mod amd_pstate;
mod apst;
mod boost;
mod governor;
mod poll;

use std::fmt::Debug;

use anyhow::{Result, ensure};
use rand_pcg::Pcg64Mcg;
use wakepath_policies::idle::KernelVersion;
use wakepath_units::TickRate;

use crate::program::{KernelProgram, Subject};
use crate::record::Case;

pub use amd_pstate::AmdPstateCheck;
pub use apst::ApstCheck;
pub use boost::BoostCheck;
pub use governor::{GovernorCheck, HaltpollLimitCheck, policy_name, run_ours};
pub(crate) use governor::{governor_of, states_of};
pub use poll::PollLimitCheck;

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

/// Result for a batch.
#[derive(Debug, Default)]
pub struct CheckResult {
    /// Decisions compared.
    pub decisions: u64,
    /// Decisions in which both sides differ.
    pub differences: u64,
    /// The first difference.
    pub first: Option<Difference>,
}

/// A decision in which both sides differ.
#[derive(Debug)]
pub struct Difference {
    /// Description in words.
    pub text: String,
    /// Table and log, for governors.
    pub case: Option<Case>,
}

/// Generates batch number `batch` and compares both sides over it.
pub fn compare_batch(
    setting: GovernorSetting,
    program: &KernelProgram,
    rng: &mut Pcg64Mcg,
    batch: u64,
    amount: usize,
) -> Result<CheckResult> {
    match setting.subject {
        Subject::Menu | Subject::Teo | Subject::Ladder | Subject::Haltpoll => {
            compare(&GovernorCheck(setting), program, rng, batch, amount)
        }
        Subject::HaltpollLimit => {
            compare(&HaltpollLimitCheck(setting), program, rng, batch, amount)
        }
        Subject::PollLimit => compare(&PollLimitCheck(setting), program, rng, batch, amount),
        Subject::SchedutilBoost | Subject::HwpBoost | Subject::IntelPstate => {
            compare(&BoostCheck(setting), program, rng, batch, amount)
        }
        Subject::AmdPstate => compare(&AmdPstateCheck(setting), program, rng, batch, amount),
        Subject::Apst => compare(&ApstCheck, program, rng, batch, amount),
    }
}

fn compare<C: Check>(
    check: &C,
    program: &KernelProgram,
    rng: &mut Pcg64Mcg,
    batch: u64,
    amount: usize,
) -> Result<CheckResult> {
    let inputs = check.generate(rng, batch, amount);
    let mut bytes = Vec::new();
    for input in &inputs {
        check.encode(input, &mut bytes);
    }
    let kernel = check.decode(&program.run(&bytes)?);

    let mut outcome = CheckResult::default();
    let mut ours = Vec::new();
    let mut done = 0;
    for input in &inputs {
        ours.clear();
        check.ours(input, &mut ours)?;
        let theirs = kernel.get(done..done + ours.len()).unwrap_or_default();
        ensure!(
            theirs.len() == ours.len(),
            "the C program answered {} times, fewer than asked",
            kernel.len()
        );
        for (at, (kernel, ours)) in theirs.iter().zip(&ours).enumerate() {
            if kernel == ours {
                continue;
            }
            outcome.differences += 1;
            if outcome.first.is_none() {
                outcome.first = Some(Difference {
                    text: check.explain(input, at, kernel, ours),
                    case: check.reproducible(input).cloned(),
                });
            }
        }
        done += ours.len();
    }
    ensure!(
        done == kernel.len(),
        "the C program answered {} times instead of {done}",
        kernel.len()
    );
    outcome.decisions = done as u64;
    Ok(outcome)
}

/// Takes output apart that consists of 32-bit little-endian numbers.
fn words(output: &[u8]) -> Vec<u32> {
    output
        .chunks_exact(4)
        .map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
        .collect()
}

/// Takes output apart that consists of 64-bit little-endian numbers.
fn double_words(output: &[u8]) -> Vec<u64> {
    output
        .chunks_exact(8)
        .map(|b| u64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        .collect()
}
