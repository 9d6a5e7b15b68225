//! Compares the speed of wakepath's governors with that of the kernel's C, compiled with -O2.
//!
//! Both sides do the same: walk several times over the same calls, laid out alike in memory, and
//! time `select` plus `reflect`. Each repetition runs both sides one after the other, pinned to the
//! same CPU, so that a busy machine slows both.

use std::hint::black_box;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use serde::Serialize;
use wakepath_policies::idle::{self, IdleGovernor, WithGovernor};
use wakepath_units::median;

use crate::checks::{GovernorSetting, call_our_governor, our_governor_for_case, policy_name};
use crate::generate;
use crate::program::{KernelProgram, run_command_within};
use crate::record::{CallRecord, Case};
use crate::source::KernelSource;
use crate::subject::Subject;

/// Time limit for one side of the speed comparison in a repetition.
const LIMIT: Duration = Duration::from_secs(600);

/// Governor call logs that the speed comparison decides on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchLog {
    /// What the comparison uses: all kinds of tables and logs, hard on branch prediction.
    Mixed,
    /// One machine under a regular interrupt, as in a benchmark of I/O at depth 1.
    Regular,
}

impl BenchLog {
    const ALL: [Self; 2] = [Self::Mixed, Self::Regular];

    const fn name(self) -> &'static str {
        match self {
            Self::Mixed => "mixed",
            Self::Regular => "regular",
        }
    }

    /// Makes the cases that the benchmark log consists of.
    pub fn make_cases(self, setting: GovernorSetting, seed: u64) -> Vec<Case> {
        let mut rng = generate::batch_generator(seed, 0);
        let tick = setting.tick.period().0 as i64;
        match self {
            Self::Mixed => generate::random_governor_cases(&mut rng, tick, 50_000),
            Self::Regular => vec![generate::regular_interrupt_case(&mut rng, tick, 20_000)],
        }
    }
}

/// Speed of one governor over a log, ours beside the kernel's.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedRow {
    /// The governor, `menu@6.12`.
    pub policy: String,
    /// The log.
    pub log: &'static str,
    /// Nanoseconds per decision of wakepath's governor, median over the repetitions.
    pub ours_ns: f64,
    /// Nanoseconds per decision of the kernel's C code, median over the repetitions.
    pub kernel_ns: f64,
    /// Our time divided by the kernel's: below 1 is faster. The median of the repetitions' ratios.
    pub ratio: f64,
}

/// Times all governors against the kernel's, with `repetitions` repetitions of `passes` passes.
pub fn compare_speed(
    sources: &[KernelSource],
    tick: wakepath_units::TickRate,
    repetitions: usize,
    passes: u32,
    seed: u64,
) -> Result<Vec<SpeedRow>> {
    let ours = std::env::current_exe()?;
    let mut rows = Vec::new();
    for subject in Subject::GOVERNORS {
        for source in sources
            .iter()
            .filter(|source| source.is_compared_for(subject))
        {
            let setting = GovernorSetting {
                subject,
                version: source.kernel_version()?,
                tick,
            };
            let program = KernelProgram::compile_subject(subject, source, tick.hz(), None)?;
            for log in BenchLog::ALL {
                let mut input = Vec::new();
                for case in log.make_cases(setting, seed) {
                    case.append_to(&mut input);
                }
                let (mut ours_ns, mut kernel_ns, mut ratios) = (vec![], vec![], vec![]);
                for _ in 0..repetitions {
                    let mut kernel = command_pinned_to_cpu();
                    kernel.arg(program.path());
                    kernel.args(["--bench", &passes.to_string()]);
                    let kernel = run_and_parse_number(&mut kernel, &input)?;

                    let mut own = command_pinned_to_cpu();
                    own.arg(&ours).args(["bench-ours", subject.name()]);
                    own.args([&source.release, log.name()]);
                    own.args(["--hz", &tick.hz().to_string()]);
                    own.args(["--passes", &passes.to_string()]);
                    own.args(["--seed", &seed.to_string()]);
                    let own = run_and_parse_number(&mut own, &[])?;

                    kernel_ns.push(kernel);
                    ours_ns.push(own);
                    ratios.push(own / kernel);
                }
                rows.push(SpeedRow {
                    policy: policy_name(setting),
                    log: log.name(),
                    ours_ns: median(ours_ns).unwrap_or(f64::NAN),
                    kernel_ns: median(kernel_ns).unwrap_or(f64::NAN),
                    ratio: median(ratios).unwrap_or(f64::NAN),
                });
            }
        }
    }
    Ok(rows)
}

/// Times our side of the comparison: nanoseconds per decision of the fastest pass, as the C
/// program's `--bench`.
pub fn time_own_governor(
    setting: GovernorSetting,
    log: BenchLog,
    passes: u32,
    seed: u64,
) -> Result<f64> {
    let cases = log.make_cases(setting, seed);
    let mut best = f64::INFINITY;
    for _ in 0..passes {
        let mut total = Duration::ZERO;
        let mut count = 0;
        for case in &cases {
            let mut governor = our_governor_for_case(setting, case)?;
            let begin = Instant::now();
            black_box(decide_all_calls(&mut governor, &case.calls));
            total += begin.elapsed();
            count += case.calls.len();
        }
        best = best.min(total.as_nanos() as f64 / count as f64);
    }
    Ok(best)
}

/// Decides all calls of a log and sums up the decisions. Which governor it is, is settled once per
/// log, as the kernel settles it once per machine.
fn decide_all_calls(governor: &mut idle::Governor, calls: &[CallRecord]) -> u32 {
    struct Sum<'a> {
        calls: &'a [CallRecord],
        sum: &'a mut u32,
    }
    impl WithGovernor for Sum<'_> {
        fn run_with<G: IdleGovernor>(self, governor: &mut G) {
            *self.sum = sum_decisions(governor, self.calls);
        }
    }
    let mut sum = 0;
    governor.run_operation(Sum {
        calls,
        sum: &mut sum,
    });
    sum
}

/// Sums up the decisions on all calls, lest the compiler leave them out; the C program does the
/// same.
#[inline(never)]
fn sum_decisions(governor: &mut impl IdleGovernor, calls: &[CallRecord]) -> u32 {
    calls.iter().fold(0, |sum, call| {
        sum + u32::from(call_our_governor(governor, call))
    })
}

/// A command pinned to the first CPU that this process may use.
fn command_pinned_to_cpu() -> Command {
    let allowed = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let cpu = allowed
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
        .and_then(|list| list.trim().split([',', '-']).next())
        .unwrap_or("0")
        .to_owned();
    let mut command = Command::new("taskset");
    command.args(["-c", &cpu]);
    command
}

/// Runs a command and returns the first number that it prints.
fn run_and_parse_number(command: &mut Command, input: &[u8]) -> Result<f64> {
    let output = run_command_within(command, input, LIMIT)?;
    let text = String::from_utf8(output)?;
    text.split_whitespace()
        .next()
        .ok_or_else(|| anyhow!("the benchmark printed nothing"))?
        .parse()
        .with_context(|| format!("not a time: {text:?}"))
}
