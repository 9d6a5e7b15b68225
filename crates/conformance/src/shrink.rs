//! Makes a case on which both sides differ small enough to be read.

use anyhow::Result;

use crate::checks::{Check as _, GovernorCheck, GovernorSetting};
use crate::program::KernelProgram;
use crate::record::Case;

/// Most attempts to shrink a case: each starts a process.
const MAX_TRIES: usize = 1_000;

/// Shrinks a case: leaves calls and states out as long as some decision still differs.
pub fn shrink_case(setting: GovernorSetting, program: &KernelProgram, case: &Case) -> Result<Case> {
    let mut case = case.clone();
    if let Some(at) = index_of_first_difference(setting, program, &case)? {
        case.calls.truncate(at + 1);
    }
    let mut tries = 0;
    let mut chunk = case.calls.len() / 2;
    while chunk > 0 && tries < MAX_TRIES {
        let mut at = 0;
        // The last call stays, because it shows the difference.
        while at + chunk < case.calls.len() && tries < MAX_TRIES {
            let mut smaller = case.clone();
            smaller.calls.drain(at..at + chunk);
            tries += 1;
            if index_of_first_difference(setting, program, &smaller)?.is_some() {
                case = smaller;
            } else {
                at += chunk;
            }
        }
        chunk /= 2;
    }
    for state in (0..case.states.len()).rev() {
        if case.states.len() == 1 {
            break;
        }
        let mut smaller = case.clone();
        smaller.states.remove(state);
        if index_of_first_difference(setting, program, &smaller)?.is_some() {
            case = smaller;
        }
    }
    Ok(case)
}

fn index_of_first_difference(
    setting: GovernorSetting,
    program: &KernelProgram,
    case: &Case,
) -> Result<Option<usize>> {
    let check = GovernorCheck(setting);
    let mut input = Vec::new();
    check.append_input(case, &mut input);
    let kernel = program.run_over_input(&input)?;
    let mut ours = Vec::new();
    check.append_our_answers(case, &mut ours)?;
    Ok(kernel.iter().zip(&ours).position(|(k, o)| k != o))
}
