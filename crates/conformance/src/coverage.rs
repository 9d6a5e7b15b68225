//! How much of the kernel's code the generated inputs reach, counted by `gcov`.

use std::process::Command;

use anyhow::{Context, Result, anyhow, ensure};
use rayon::prelude::*;
use serde::Serialize;
use wakepath_units::TickRate;

use crate::checks::{GovernorSetting, compare_batch, policy_name};
use crate::compare::batch_size;
use crate::generate;
use crate::program::KernelProgram;
use crate::source::KernelSource;
use crate::subject::Subject;

/// Branch coverage of a kernel governor's C file by the generated inputs.
#[derive(Clone, Debug, Serialize)]
pub struct CoverageRow {
    /// The governor, `menu@6.12`.
    pub policy: String,
    /// Branches in the governor's C file: two per condition.
    pub branches: usize,
    /// Branches that the generated inputs took.
    pub taken: usize,
    /// Branches that were not taken: line and condition, one per line.
    pub not_taken: String,
}

/// Runs `batches` batches of inputs through each kernel governor and counts the branches taken.
pub fn measure_branch_coverage(
    sources: &[KernelSource],
    batches: u64,
    seed: u64,
) -> Result<Vec<CoverageRow>> {
    let governors: Vec<(Subject, &KernelSource)> = Subject::GOVERNORS
        .into_iter()
        .flat_map(|subject| sources.iter().map(move |source| (subject, source)))
        .filter(|(subject, source)| source.is_compared_for(*subject))
        .collect();
    governors
        .par_iter()
        .map(|(subject, source)| measure_governor_coverage(*subject, source, batches, seed))
        .collect()
}

fn measure_governor_coverage(
    subject: Subject,
    source: &KernelSource,
    batches: u64,
    seed: u64,
) -> Result<CoverageRow> {
    let setting = GovernorSetting {
        subject,
        version: source.kernel_version()?,
        tick: TickRate::HZ_250,
    };
    let program = KernelProgram::compile_for_coverage(subject, source, setting.tick.hz())?;
    for batch in 0..batches {
        let mut rng = generate::batch_generator(seed, batch);
        let size = batch_size(subject) as usize;
        compare_batch(setting, &program, &mut rng, batch, size)?;
    }
    let folder = program
        .path()
        .parent()
        .ok_or_else(|| anyhow!("a program without a folder"))?;
    let gcov = Command::new("gcov")
        .args(["-b", "-c", "-t", "program-governor"])
        .current_dir(folder)
        .output()
        .context("cannot run gcov (Debian package gcc)")?;
    ensure!(
        gcov.status.success(),
        "gcov failed: {}",
        String::from_utf8_lossy(&gcov.stderr)
    );
    let (branches, not_taken) = parse_gcov_output(&String::from_utf8_lossy(&gcov.stdout));
    ensure!(
        branches > 0,
        "gcov found no branch in {}",
        subject.kernel_file()
    );
    Ok(CoverageRow {
        policy: policy_name(setting),
        branches,
        taken: branches - not_taken.len(),
        not_taken: not_taken.join("\n"),
    })
}

/// Reads gcov's output: the number of branches in the governor's own file, and a text for each
/// branch never taken. Each source line reads `count:line:text` and is followed by its branches.
fn parse_gcov_output(text: &str) -> (usize, Vec<String>) {
    let mut branches = 0;
    let mut not_taken = Vec::new();
    let mut at = String::new();
    let mut own_file = false;
    for line in text.lines() {
        if let Some(branch) = line.trim_start().strip_prefix("branch") {
            if !own_file {
                continue;
            }
            branches += 1;
            if branch.contains("never executed") || branch.contains("taken 0") {
                not_taken.push(at.clone());
            }
            continue;
        }
        let mut fields = line.splitn(3, ':').skip(1);
        if let (Some(number), Some(code)) = (fields.next(), fields.next()) {
            if let Some(file) = code.strip_prefix("Source:") {
                own_file = file.ends_with("governor.c");
            }
            at = format!("{}: {}", number.trim(), code.trim());
        }
    }
    (branches, not_taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_counted_in_the_governor_alone() {
        let text = "        -:    0:Source:/x/governor.c\n        5:   12:\tif (a)\n\
                    branch  0 taken 5 (fallthrough)\nbranch  1 taken 0\n    #####:   13:  f(b);\n\
                    call    0 never executed\n        -:    0:Source:x/cpuidle_standin.h\n\
                            5:    2:  if (c)\nbranch  0 taken 0\n";
        let (branches, not_taken) = parse_gcov_output(text);
        assert_eq!(branches, 2);
        assert_eq!(not_taken, ["12: if (a)"]);
    }
}
