//! `wakepath-conformance`: compares wakepath's policies with the kernel's own C.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use wakepath_conformance::bench::{self, BenchLog};
use wakepath_conformance::checks::GovernorSetting;
use wakepath_conformance::compare::{self, Amount};
use wakepath_conformance::coverage;
use wakepath_conformance::generate;
use wakepath_conformance::log;
use wakepath_conformance::mutants;
use wakepath_conformance::record::Toggle;
use wakepath_conformance::recorded;
use wakepath_conformance::report::{Format, print_rows};
use wakepath_conformance::source::{self, KernelSource, source_cache_folder};
use wakepath_conformance::subject::Subject;
use wakepath_units::TickRate;

/// Compares wakepath's policies with the kernel's own C, taken from Debian's source packages and
/// compiled on the spot.
#[derive(Parser)]
#[command(
    version,
    after_help = "Example: wakepath-conformance run --calls 10000000"
)]
struct Cli {
    #[command(subcommand)]
    command: Cmd,
}

#[derive(Subcommand)]
enum Cmd {
    /// Compare every policy, kernel version and tick rate; not one decision may differ.
    Run(RunArguments),
    /// Alter the kernel's text on purpose; every alteration must show.
    Mutants(BatchArguments),
    /// Count the branches of the kernel's governors that the inputs take.
    Coverage(BatchArguments),
    /// Print the kernel's own answers to a governor call log, as `wakepath policy idle` prints ours.
    Log(LogArguments),
    /// Time our governors and the kernel's C on the same logs.
    Bench(BenchArguments),
    /// Write a generated state table and call log, as `wakepath policy idle` reads them.
    WriteLog(WriteLogArguments),
    /// Our side of one benchmark, pinned and alone in its process.
    #[command(hide = true)]
    BenchOurs(BenchOursArguments),
}

#[derive(Args)]
struct RunArguments {
    /// Tick rates to compare at, in Hz.
    #[arg(long, value_delimiter = ',', default_values_t = [250, 1000])]
    hz: Vec<u32>,
    /// Calls per governor, kernel version and tick rate, and updates per boost.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    calls: u64,
    /// State tables for the polling limit.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    tables: u64,
    /// Random drives for APST, besides all of the library; 0 is the library alone.
    #[arg(long, default_value_t = 100_000)]
    drives: u64,
    /// Where to write the table and log that reproduce a difference.
    #[arg(long, default_value = "target/conformance")]
    failures: PathBuf,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct BatchArguments {
    /// Batches of inputs to run; of an alteration, at most so many.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..))]
    batches: u64,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct LogArguments {
    /// The governor and its kernel version, such as menu@6.12.
    #[arg(long)]
    governor: String,
    /// Ticks per second.
    #[arg(long, default_value_t = 250)]
    hz: u32,
    /// The state table: name, exit_latency_ns, target_residency_ns, polling, disabled.
    #[arg(long, value_name = "STATES.csv")]
    states: PathBuf,
    /// The log, of `wakepath replay --calls`.
    #[arg(value_name = "CALLS.csv")]
    calls: PathBuf,
}

#[derive(Args)]
struct BenchArguments {
    /// Interleaved repetitions; the medians over them are printed.
    #[arg(long, default_value_t = 11, value_parser = clap::value_parser!(u16).range(1..))]
    repetitions: u16,
    /// Passes over the log per repetition; the fastest counts.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    passes: u32,
    /// Ticks per second.
    #[arg(long, default_value_t = 250)]
    hz: u32,
    #[command(flatten)]
    common: Common,
}

#[derive(Args)]
struct WriteLogArguments {
    /// Where to write `states.csv` and `calls.csv`.
    folder: PathBuf,
    /// Number of calls.
    #[arg(long, default_value_t = 1_000)]
    calls: usize,
    /// Ticks per second.
    #[arg(long, default_value_t = 250)]
    hz: u32,
    /// Seed: the same seed, the same log.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

#[derive(Args)]
struct BenchOursArguments {
    governor: String,
    version: String,
    log: BenchLog,
    #[arg(long)]
    hz: u32,
    #[arg(long)]
    passes: u32,
    #[arg(long)]
    seed: u64,
}

#[derive(Args)]
struct Common {
    /// Seed of the inputs: the same seed, the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads; 0 is one per CPU.
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// How to print the result.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

impl Common {
    /// Sets the number of threads and gets the kernel sources.
    fn set_threads_and_get_sources(&self) -> Result<Vec<KernelSource>> {
        rayon::ThreadPoolBuilder::new()
            .num_threads(self.jobs)
            .build_global()?;
        let sources = source::obtain_all_sources(&source_cache_folder())?;
        for source in &sources {
            eprintln!("comparing with {}", source.describe_package());
        }
        Ok(sources)
    }
}

fn main() -> ExitCode {
    match run_subcommand(&Cli::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Runs a subcommand; `false` if something differs or was missed.
fn run_subcommand(cli: &Cli) -> Result<bool> {
    match &cli.command {
        Cmd::Run(arguments) => return run_comparison(arguments),
        Cmd::Mutants(arguments) => return run_mutants(arguments),
        Cmd::Coverage(arguments) => run_coverage(arguments)?,
        Cmd::Log(arguments) => print_kernel_answers(arguments)?,
        Cmd::Bench(arguments) => compare_speed(arguments)?,
        Cmd::WriteLog(arguments) => write_generated_log(arguments)?,
        Cmd::BenchOurs(arguments) => time_own_side(arguments)?,
    }
    Ok(true)
}

/// Compares every policy with the kernel's code; `false` if a decision differs, or nothing was
/// compared in some row.
fn run_comparison(arguments: &RunArguments) -> Result<bool> {
    let start = Instant::now();
    let common = &arguments.common;
    let ticks: Vec<TickRate> = arguments
        .hz
        .iter()
        .map(|hz| tick_rate_from_hz(*hz))
        .collect::<Result<_>>()?;
    let sources = common.set_threads_and_get_sources()?;
    let amount = Amount {
        calls: arguments.calls,
        tables: arguments.tables,
        drives: arguments.drives,
    };
    let mut rows =
        compare::compare_all_policies(&sources, &ticks, amount, common.seed, &arguments.failures)?;
    rows.extend(recorded::compare_recorded_decisions()?);
    print_rows(&rows, common.format)?;
    let decisions: u64 = rows.iter().map(|row| row.decisions).sum();
    let differences: u64 = rows.iter().map(|row| row.differences).sum();
    eprintln!(
        "{decisions} decisions compared in {:.1} s, {differences} differ",
        start.elapsed().as_secs_f64()
    );
    // A row without decisions has no difference, and must not count as agreement.
    let empty: Vec<_> = rows.iter().filter(|row| row.decisions == 0).collect();
    for row in &empty {
        eprintln!("{} with {}: nothing was compared", row.policy, row.source);
    }
    Ok(differences == 0 && empty.is_empty())
}

/// Compares every altered kernel program; `false` if an alteration was not noticed.
fn run_mutants(arguments: &BatchArguments) -> Result<bool> {
    let start = Instant::now();
    let common = &arguments.common;
    let sources = common.set_threads_and_get_sources()?;
    let rows = mutants::compare_all_mutants(&sources, arguments.batches, common.seed)?;
    print_rows(&rows, common.format)?;
    let missed = rows.iter().filter(|row| !row.is_noticed()).count();
    eprintln!(
        "{} of {} alterations noticed in {:.1} s",
        rows.len() - missed,
        rows.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(missed == 0)
}

fn run_coverage(arguments: &BatchArguments) -> Result<()> {
    let common = &arguments.common;
    let sources = common.set_threads_and_get_sources()?;
    let rows = coverage::measure_branch_coverage(&sources, arguments.batches, common.seed)?;
    print_rows(&rows, common.format)
}

fn print_kernel_answers(arguments: &LogArguments) -> Result<()> {
    let governor = log::KernelGovernor::parse(&arguments.governor)?;
    let source = KernelSource::obtain_source(governor.version, &source_cache_folder())?;
    eprintln!("answers of {}", source.describe_package());
    let tick = tick_rate_from_hz(arguments.hz)?;
    let answers =
        log::answer_log_by_kernel(governor, &source, tick, &arguments.states, &arguments.calls)?;
    print!("{answers}");
    Ok(())
}

fn compare_speed(arguments: &BenchArguments) -> Result<()> {
    let common = &arguments.common;
    let sources = common.set_threads_and_get_sources()?;
    let rows = bench::compare_speed(
        &sources,
        tick_rate_from_hz(arguments.hz)?,
        usize::from(arguments.repetitions),
        arguments.passes,
        common.seed,
    )?;
    print_rows(&rows, common.format)
}

/// Writes a generated call log, without states that are switched on or off: the text format has no
/// place for them.
fn write_generated_log(arguments: &WriteLogArguments) -> Result<()> {
    let tick = tick_rate_from_hz(arguments.hz)?.period().0 as i64;
    let mut rng = generate::batch_generator(arguments.seed, 0);
    let mut case = generate::random_governor_case(&mut rng, tick, arguments.calls);
    for call in &mut case.calls {
        call.toggle = Toggle::default();
    }
    case.write_csv_files(&arguments.folder, "")?;
    Ok(())
}

fn time_own_side(arguments: &BenchOursArguments) -> Result<()> {
    let governor = &arguments.governor;
    let setting = GovernorSetting {
        subject: Subject::governor_by_name(governor)
            .with_context(|| format!("no governor {governor}"))?,
        version: arguments.version.parse()?,
        tick: tick_rate_from_hz(arguments.hz)?,
    };
    let ns = bench::time_own_governor(setting, arguments.log, arguments.passes, arguments.seed)?;
    println!("{ns:.3}");
    Ok(())
}

fn tick_rate_from_hz(hz: u32) -> Result<TickRate> {
    TickRate::new(hz).with_context(|| format!("no tick rate: {hz} Hz"))
}
