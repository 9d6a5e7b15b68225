//! Proof that the comparison can fail: the kernel's text is altered on purpose, one constant or
//! comparison at a time, and the normal inputs must show a difference.

mod list;

use std::time::Duration;

use anyhow::{Context as _, Result};
use rayon::prelude::*;
use serde::Serialize;
use wakepath_units::TickRate;

use self::list::{MUTANTS, Mutant};
use crate::checks::{GovernorSetting, compare_batch};
use crate::compare::batch_size;
use crate::generate;
use crate::program::{Alteration, KernelProgram, TimedOut};
use crate::source::KernelSource;

/// Time limit for a mutant over a batch; unaltered code does dozens of batches in this time. A
/// mutant that loops counts as noticed.
const LIMIT: Duration = Duration::from_secs(20);

/// Result of the comparison with a mutant, an altered kernel program.
#[derive(Clone, Debug, Serialize)]
pub struct MutantRow {
    /// Altered policy.
    pub policy: String,
    /// The kernel version.
    pub kernel: &'static str,
    /// The text before.
    pub from: &'static str,
    /// The text after.
    pub to: &'static str,
    /// Number of decisions compared until the first batch with a difference was through.
    pub decisions: u64,
    /// Differing decisions.
    pub differences: u64,
    /// Whether the mutant did not end in time.
    pub timed_out: bool,
}

impl MutantRow {
    /// Whether the comparison noticed the mutant.
    pub fn is_noticed(&self) -> bool {
        self.differences > 0 || self.timed_out
    }
}

/// Compiles every mutant and compares it with our policy over at most `batches` batches.
pub fn compare_all_mutants(
    sources: &[KernelSource],
    batches: u64,
    seed: u64,
) -> Result<Vec<MutantRow>> {
    let altered: Vec<(&Mutant, &KernelSource)> = MUTANTS
        .iter()
        .flat_map(|mutant| {
            sources
                .iter()
                .filter(|source| mutant.versions.contains(&source.version))
                .map(move |source| (mutant, source))
        })
        .collect();
    altered
        .par_iter()
        .map(|(mutant, source)| compare_mutant(mutant, source, batches, seed))
        .collect()
}

fn compare_mutant(
    mutant: &Mutant,
    source: &KernelSource,
    batches: u64,
    seed: u64,
) -> Result<MutantRow> {
    let Alteration { from, to, .. } = mutant.alteration;
    let setting = GovernorSetting {
        subject: mutant.subject,
        version: source.kernel_version()?,
        tick: TickRate::HZ_250,
    };
    let mut row = MutantRow {
        policy: mutant.subject.name().to_owned(),
        kernel: source.version,
        from,
        to,
        decisions: 0,
        differences: 0,
        timed_out: false,
    };
    let program = KernelProgram::compile_subject(
        setting.subject,
        source,
        setting.tick.hz(),
        Some(&mutant.alteration),
    )?
    .with_time_limit(LIMIT);
    for batch in 0..batches {
        let mut rng = generate::batch_generator(seed, batch);
        let size = batch_size(setting.subject) as usize;
        let outcome = match compare_batch(setting, &program, &mut rng, batch, size) {
            Err(error) if error.is::<TimedOut>() => {
                row.timed_out = true;
                break;
            }
            outcome => {
                outcome.with_context(|| format!("mutant `{from}` -> `{to}` of {}", row.policy))?
            }
        };
        row.decisions += outcome.decisions;
        row.differences += outcome.differences;
        if row.differences > 0 {
            break;
        }
    }
    Ok(row)
}
