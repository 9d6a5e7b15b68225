//! Compares the speed of our governors with that of the kernel's C, compiled with -O2.
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

use crate::checks::{GovernorSetting, governor_of, policy_name, run_ours};
use crate::generate;
use crate::program::{KernelProgram, run_command};
use crate::record::{CallRecord, Case};
use crate::source::KernelSource;
use crate::subject::Subject;

/// Time limit for one side in a repetition.
const LIMIT: Duration = Duration::from_secs(600);

/// The logs to decide on.
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

    /// The cases of the log.
    pub fn cases(self, setting: GovernorSetting, seed: u64) -> Vec<Case> {
        let mut rng = generate::rng(seed, 0);
        let tick = setting.tick.period().0 as i64;
        match self {
            Self::Mixed => generate::governor_cases(&mut rng, tick, 50_000),
            Self::Regular => vec![generate::regular_case(&mut rng, tick, 20_000)],
        }
    }
}

/// Speed with a governor over a log.
#[derive(Clone, Debug, Serialize)]
pub struct SpeedRow {
    /// The governor, `menu@6.12`.
    pub policy: String,
    /// The log.
    pub log: &'static str,
    /// Nanoseconds per decision of ours, median over the repetitions.
    pub ours_ns: f64,
    /// Nanoseconds per decision of the kernel's C, median over the repetitions.
    pub kernel_ns: f64,
    /// Ours divided by the kernel's: below 1 is faster. The median of the repetitions' ratios.
    pub ratio: f64,
}

/// Times all governors with `repetitions` repetitions of `passes` passes.
pub fn run(
    sources: &[KernelSource],
    tick: wakepath_units::TickRate,
    repetitions: usize,
    passes: u32,
    seed: u64,
) -> Result<Vec<SpeedRow>> {
    let ours = std::env::current_exe()?;
    let mut rows = Vec::new();
    for subject in Subject::GOVERNORS {
        for source in sources.iter().filter(|source| source.compares(subject)) {
            let setting = GovernorSetting {
                subject,
                version: source.kernel()?,
                tick,
            };
            let program = KernelProgram::build(subject, source, tick.hz(), None)?;
            for log in BenchLog::ALL {
                let mut input = Vec::new();
                for case in log.cases(setting, seed) {
                    case.encode(&mut input);
                }
                let (mut ours_ns, mut kernel_ns, mut ratios) = (vec![], vec![], vec![]);
                for _ in 0..repetitions {
                    let mut kernel = pinned();
                    kernel.arg(program.path());
                    kernel.args(["--bench", &passes.to_string()]);
                    let kernel = time_of(&mut kernel, &input)?;

                    let mut own = pinned();
                    own.arg(&ours).args(["bench-ours", subject.name()]);
                    own.args([&source.release, log.name()]);
                    own.args(["--hz", &tick.hz().to_string()]);
                    own.args(["--passes", &passes.to_string()]);
                    own.args(["--seed", &seed.to_string()]);
                    let own = time_of(&mut own, &[])?;

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

/// The other side of the C program's `--bench`: nanoseconds per decision of the fastest pass.
pub fn run_own_side(
    setting: GovernorSetting,
    log: BenchLog,
    passes: u32,
    seed: u64,
) -> Result<f64> {
    let cases = log.cases(setting, seed);
    let mut best = f64::INFINITY;
    for _ in 0..passes {
        let mut total = Duration::ZERO;
        let mut count = 0;
        for case in &cases {
            let mut governor = governor_of(setting, case)?;
            let begin = Instant::now();
            black_box(decide_all(&mut governor, &case.calls));
            total += begin.elapsed();
            count += case.calls.len();
        }
        best = best.min(total.as_nanos() as f64 / count as f64);
    }
    Ok(best)
}

/// Which governor it is, is settled once per log, as the kernel settles it once per machine.
fn decide_all(governor: &mut idle::Governor, calls: &[CallRecord]) -> u32 {
    struct Sum<'a> {
        calls: &'a [CallRecord],
        sum: &'a mut u32,
    }
    impl WithGovernor for Sum<'_> {
        fn run<G: IdleGovernor>(self, governor: &mut G) {
            *self.sum = sum_decisions(governor, self.calls);
        }
    }
    let mut sum = 0;
    governor.with(Sum {
        calls,
        sum: &mut sum,
    });
    sum
}

/// As in the C program, the decisions are used for something, lest they be left out.
#[inline(never)]
fn sum_decisions(governor: &mut impl IdleGovernor, calls: &[CallRecord]) -> u32 {
    calls
        .iter()
        .fold(0, |sum, call| sum + u32::from(run_ours(governor, call)))
}

/// A command pinned to the first CPU available to this process.
fn pinned() -> Command {
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

/// The first number that a command prints.
fn time_of(command: &mut Command, input: &[u8]) -> Result<f64> {
    let output = run_command(command, input, LIMIT)?;
    let text = String::from_utf8(output)?;
    text.split_whitespace()
        .next()
        .ok_or_else(|| anyhow!("the benchmark printed nothing"))?
        .parse()
        .with_context(|| format!("not a time: {text:?}"))
}
