//! The whole comparison: every policy, kernel version and tick rate.

use std::path::Path;

use anyhow::{Context, Result};
use rayon::prelude::*;
use serde::Serialize;
use wakepath_units::TickRate;

use crate::checks::{CheckResult, GovernorSetting, compare_batch, policy_name};
use crate::generate;
use crate::program::KernelProgram;
use crate::record::Case;
use crate::shrink::shrink_case;
use crate::source::KernelSource;
use crate::subject::Subject;

/// How many inputs to compare over.
#[derive(Clone, Copy, Debug)]
pub struct Amount {
    /// Calls per governor, kernel version and tick rate, and updates per boost.
    pub calls: u64,
    /// State tables to compare the polling limit on.
    pub tables: u64,
    /// Random drives to compare APST tables on, besides the library's.
    pub drives: u64,
}

/// Result of the comparison for one policy, kernel source and tick rate.
#[derive(Clone, Debug, Serialize)]
pub struct ReleaseRow {
    /// Compared policy, `menu@6.12`.
    pub policy: String,
    /// Kernel source that the policy was compared with.
    pub source: String,
    /// Ticks per second; `None` where the tick plays no part.
    pub hz: Option<u32>,
    /// Decisions compared.
    pub decisions: u64,
    /// Differing decisions.
    pub differences: u64,
}

impl Amount {
    /// Number of inputs that a subject is compared over.
    fn inputs_for_subject(&self, subject: Subject) -> u64 {
        match subject {
            Subject::PollLimit => self.tables,
            Subject::Apst => self.drives,
            _ => self.calls,
        }
    }
}

/// Number of inputs that are generated and run at once: enough to make a process worth starting,
/// few enough to keep many batches out of memory.
pub const fn batch_size(subject: Subject) -> u64 {
    match subject {
        Subject::PollLimit | Subject::Apst => 10_000,
        _ => 50_000,
    }
}

/// Every subject and tick rate to compare, with the kernel source to compare it with.
///
/// # Errors
///
/// A source is of a kernel whose policies are not known.
pub fn settings_to_compare<'s>(
    sources: &'s [KernelSource],
    ticks: &[TickRate],
) -> Result<Vec<(GovernorSetting, &'s KernelSource)>> {
    let mut settings = Vec::new();
    for subject in Subject::ALL {
        for source in sources
            .iter()
            .filter(|source| source.is_compared_for(subject))
        {
            let most = if subject.depends_on_tick() {
                ticks.len()
            } else {
                1
            };
            for &tick in ticks.iter().take(most) {
                let version = source.kernel_version()?;
                settings.push((
                    GovernorSetting {
                        subject,
                        version,
                        tick,
                    },
                    source,
                ));
            }
        }
    }
    Ok(settings)
}

/// A batch of inputs for one row of the comparison's result.
#[derive(Clone, Copy)]
struct Batch {
    row: usize,
    number: u64,
    inputs: u64,
}

/// Compares every policy with the kernel's code, and writes the first difference of each row to the
/// folder `failures`.
pub fn compare_all_policies(
    sources: &[KernelSource],
    ticks: &[TickRate],
    amount: Amount,
    seed: u64,
    failures: &Path,
) -> Result<Vec<ReleaseRow>> {
    let settings = settings_to_compare(sources, ticks)?;
    let programs = settings
        .par_iter()
        .map(|(setting, source)| {
            KernelProgram::compile_subject(setting.subject, source, setting.tick.hz(), None)
        })
        .collect::<Result<Vec<_>>>()?;

    // A single list with all rows' batches keeps every thread busy to the end.
    let batches: Vec<Batch> = settings
        .iter()
        .enumerate()
        .flat_map(|(row, (setting, _))| split_row_into_batches(row, setting.subject, amount))
        .collect();
    let outcomes = batches
        .par_iter()
        .map(|batch| {
            let mut rng = generate::batch_generator(seed, batch.number);
            let setting = settings[batch.row].0;
            let size = batch.inputs as usize;
            compare_batch(setting, &programs[batch.row], &mut rng, batch.number, size)
                .with_context(|| format!("{}, batch {}", policy_name(setting), batch.number))
        })
        .collect::<Result<Vec<_>>>()?;

    let mut rows = Vec::new();
    for (row, &(setting, source)) in settings.iter().enumerate() {
        let results: Vec<(u64, &CheckResult)> = batches
            .iter()
            .zip(&outcomes)
            .filter(|(batch, _)| batch.row == row)
            .map(|(batch, outcome)| (batch.number, outcome))
            .collect();
        if let Some((number, first)) = results
            .iter()
            .find_map(|(number, result)| Some((number, result.first.as_ref()?)))
        {
            eprintln!("DIFFERENCE (seed {seed}, batch {number}): {}", first.text);
            if let Some(case) = &first.case {
                save_shrunk_case(setting, &programs[row], case, failures)?;
            }
        }
        rows.push(ReleaseRow {
            policy: policy_name(setting),
            source: source.describe_package(),
            hz: setting.subject.depends_on_tick().then(|| setting.tick.hz()),
            decisions: results.iter().map(|(_, result)| result.decisions).sum(),
            differences: results.iter().map(|(_, result)| result.differences).sum(),
        });
    }
    Ok(rows)
}

/// Splits the inputs of a result's row into batches.
fn split_row_into_batches(
    row: usize,
    subject: Subject,
    amount: Amount,
) -> impl Iterator<Item = Batch> {
    let size = batch_size(subject);
    let inputs = amount.inputs_for_subject(subject);
    // Batch 0 of the comparison of APST has the drives from the library.
    let first = u64::from(subject == Subject::Apst);
    let library = (0..first).map(move |number| Batch {
        row,
        number,
        inputs: 0,
    });
    let random = (0..inputs.div_ceil(size)).map(move |index| Batch {
        row,
        number: index + first,
        inputs: size.min(inputs - index * size),
    });
    library.chain(random)
}

/// Shrinks a case that both sides decide differently, and writes it to `failures` in a form that
/// `wakepath policy idle` reads.
fn save_shrunk_case(
    setting: GovernorSetting,
    program: &KernelProgram,
    case: &Case,
    failures: &Path,
) -> Result<()> {
    let case = shrink_case(setting, program, case)?;
    let name = format!("{}-{}-", policy_name(setting), setting.tick.hz());
    let (states, calls) = case.write_csv_files(failures, &name)?;
    eprintln!(
        "  shrunk to {} calls; reproduce with\n    wakepath policy idle --governor {} --states {} \
         --hz {} {}",
        case.calls.len(),
        policy_name(setting),
        states.display(),
        setting.tick.hz(),
        calls.display()
    );
    if case
        .calls
        .iter()
        .any(|call| call.toggle.state_and_disabled().is_some())
    {
        eprintln!("  which leaves out that states are switched: {case:?}");
    }
    Ok(())
}
