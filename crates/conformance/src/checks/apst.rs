//! Check of the APST table, over every drive of the library and over random ones.

use anyhow::Result;
use rand_pcg::Pcg64Mcg;
use wakepath_hardware::drive::{DriveLibrary, PowerState};
use wakepath_policies::apst::{ApstQuirks, ApstSettings, plan_apst_table};

use super::check::Check;
use crate::generate;
use crate::record::{ApstCommand, DriveCase, DriveState};

/// Number of random rules that every drive of the library is planned with, besides the kernel's
/// defaults.
const RULES_PER_DRIVE: usize = 20;

/// Check of the APST table; independent of the tick, and the same in all kernels.
pub struct ApstCheck;

impl Check for ApstCheck {
    type Input = DriveCase;
    type Answer = Option<ApstCommand>;

    /// Generates drives: batch 0 is the library; all other batches are random.
    fn generate_inputs(&self, rng: &mut Pcg64Mcg, batch: u64, amount: usize) -> Vec<DriveCase> {
        if batch == 0 {
            cases_from_drive_library(rng)
        } else {
            (0..amount).map(|_| generate::random_drive(rng)).collect()
        }
    }

    fn append_input(&self, input: &DriveCase, out: &mut Vec<u8>) {
        input.append_to(out);
    }

    fn decode_answers(&self, output: &[u8]) -> Vec<Option<ApstCommand>> {
        output
            .chunks_exact(ApstCommand::SIZE)
            .map(ApstCommand::decode)
            .collect()
    }

    fn append_our_answers(
        &self,
        input: &DriveCase,
        out: &mut Vec<Option<ApstCommand>>,
    ) -> Result<()> {
        let states: Vec<PowerState> = input
            .states
            .iter()
            .map(|s| PowerState {
                non_operational: s.non_operational,
                entry_latency_us: s.entry_us,
                exit_latency_us: s.exit_us,
                ..PowerState::default()
            })
            .collect();
        let d = ApstSettings::default();
        let settings = ApstSettings {
            primary_timeout_ms: input.primary_timeout_ms.unwrap_or(d.primary_timeout_ms),
            secondary_timeout_ms: input.secondary_timeout_ms.unwrap_or(d.secondary_timeout_ms),
            primary_tolerance_us: input.primary_tolerance_us.unwrap_or(d.primary_tolerance_us),
            secondary_tolerance_us: input
                .secondary_tolerance_us
                .unwrap_or(d.secondary_tolerance_us),
            max_latency_us: input.max_latency_us.unwrap_or(d.max_latency_us),
            enabled: input.enabled,
            quirks: ApstQuirks {
                no_deepest: input.no_deepest,
                ..ApstQuirks::default()
            },
            ..d
        };
        let plan = plan_apst_table(input.npss, input.apsta, &states, &settings);
        out.push(plan.ok().map(|plan| ApstCommand {
            enable: plan.enabled,
            entries: plan.table.0,
        }));
        Ok(())
    }

    fn describe_difference(
        &self,
        input: &DriveCase,
        _at: usize,
        kernel: &Option<ApstCommand>,
        ours: &Option<ApstCommand>,
    ) -> String {
        format!("{input:#?}\n  kernel: {kernel:x?}\n  ours: {ours:x?}")
    }
}

/// Test cases from every table of the drive library: with the kernel's defaults, and with random
/// rules. A drive that is not known to support APST is planned as if it did.
fn cases_from_drive_library(rng: &mut Pcg64Mcg) -> Vec<DriveCase> {
    let mut cases = Vec::new();
    for table in DriveLibrary::builtin().tables() {
        let drive = &table.drive;
        let defaults = DriveCase {
            name: drive.model.clone(),
            apsta: drive.apsta.unwrap_or(true),
            npss: drive.npss,
            enabled: true,
            states: drive
                .states
                .iter()
                .map(|s| DriveState {
                    entry_us: s.entry_latency_us,
                    exit_us: s.exit_latency_us,
                    non_operational: s.non_operational,
                })
                .collect(),
            ..DriveCase::default()
        };
        for _ in 0..RULES_PER_DRIVE {
            let mut varied = defaults.clone();
            varied.apsta = true;
            generate::randomize_rule(rng, &mut varied);
            cases.push(varied);
        }
        cases.push(defaults);
    }
    cases
}
