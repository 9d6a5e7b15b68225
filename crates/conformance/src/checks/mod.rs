//! A check per kind of policy: generated inputs, the kernel's answers, and ours.

mod amd_pstate;
mod apst;
mod boost;
mod check;
mod governor;
mod poll;

use anyhow::{Result, ensure};
use rand_pcg::Pcg64Mcg;

use crate::program::KernelProgram;
use crate::record::Case;
use crate::subject::Subject;

pub use amd_pstate::AmdPstateCheck;
pub use apst::ApstCheck;
pub use boost::BoostCheck;
pub use check::{Check, GovernorSetting};
pub(crate) use governor::our_governor_for_case;
pub use governor::{GovernorCheck, HaltpollLimitCheck, call_our_governor, policy_name};
pub use poll::PollLimitCheck;

/// Result of comparing both sides over a batch of inputs.
#[derive(Debug, Default)]
pub struct CheckResult {
    /// Decisions compared.
    pub decisions: u64,
    /// Number of decisions in which both sides differ.
    pub differences: u64,
    /// The first difference.
    pub first: Option<Difference>,
}

/// A decision in which both sides differ.
#[derive(Debug)]
pub struct Difference {
    /// Description in words.
    pub text: String,
    /// State table and call log that show the difference; only for governors.
    pub case: Option<Case>,
}

/// Generates the inputs of batch number `batch` and compares both sides over them.
pub fn compare_batch(
    setting: GovernorSetting,
    program: &KernelProgram,
    rng: &mut Pcg64Mcg,
    batch: u64,
    amount: usize,
) -> Result<CheckResult> {
    match setting.subject {
        Subject::Menu | Subject::Teo | Subject::Ladder | Subject::Haltpoll => {
            compare_inputs(&GovernorCheck(setting), program, rng, batch, amount)
        }
        Subject::HaltpollLimit => {
            compare_inputs(&HaltpollLimitCheck(setting), program, rng, batch, amount)
        }
        Subject::PollLimit => compare_inputs(&PollLimitCheck(setting), program, rng, batch, amount),
        Subject::SchedutilBoost | Subject::HwpBoost | Subject::IntelPstate => {
            compare_inputs(&BoostCheck(setting), program, rng, batch, amount)
        }
        Subject::AmdPstate => compare_inputs(&AmdPstateCheck(setting), program, rng, batch, amount),
        Subject::Apst => compare_inputs(&ApstCheck, program, rng, batch, amount),
    }
}

fn compare_inputs<C: Check>(
    check: &C,
    program: &KernelProgram,
    rng: &mut Pcg64Mcg,
    batch: u64,
    amount: usize,
) -> Result<CheckResult> {
    let inputs = check.generate_inputs(rng, batch, amount);
    let mut bytes = Vec::new();
    for input in &inputs {
        check.append_input(input, &mut bytes);
    }
    let kernel = check.decode_answers(&program.run_over_input(&bytes)?);

    let mut outcome = CheckResult::default();
    let mut ours = Vec::new();
    let mut done = 0;
    for input in &inputs {
        ours.clear();
        check.append_our_answers(input, &mut ours)?;
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
                    text: check.describe_difference(input, at, kernel, ours),
                    case: check.reproducing_case(input).cloned(),
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
