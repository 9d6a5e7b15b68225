//! Arguments of `wakepath tune`, and the loads that they name.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use wakepath_results::LoadCondition;
use wakepath_system::{Root, System};
use wakepath_tune::{DailyLoad, LoadArgument, TuneError};
use wakepath_units::{KernelVersion, Nanoseconds};
use wakepath_workloads::Workload;

use super::cost::CostArgs;
use super::page::PageArgs;
use crate::commands::arguments;
use crate::output::Format;
use crate::until;
use crate::waiting::ThreadCount;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath tune workloads/iowait-rk3399.fio=8h --machine rk3399 --minimise mean_mw --keep 'p99_us <= +5%'
  wakepath tune db.fio=6h backup.fio=1h --machine here --keep 'p99_us(db) < 150' --over idle,psd,cpu-latency
  wakepath tune --drive sn530 day.parquet=10h --over apst --keep 'drive_wake_p99_us < 5000'
  wakepath tune day.parquet --over idle,psd,cpu-latency --minimise added_us_per_io
  sudo wakepath tune db.fio --minimise p99_us --over cpu-latency,idle --on live --results measured
  wakepath tune db.fio --machine rk3399 --minimise p99_us --keep 'mean_mw <= +3%' --budget 400000")]
pub(crate) struct Args {
    /// fio job files, rt-app files (*.json), servers and tasks (*.toml) and block traces, or recordings, each with its hours per
    /// day; what is left of the day is rest. Loads without hours share what is left of the day.
    #[arg(required = true, value_name = "FILE[=HOURSh]")]
    pub(super) loads: Vec<String>,
    /// Built-in machine, recorded system, or a machine file (*.toml); `here` is this machine as it was calibrated.
    #[arg(long)]
    pub(super) machine: Option<String>,
    /// The machine's drive instead of its own, as `wakepath sim --drive` takes it; with recordings the drive to model.
    #[arg(long, value_name = "NAME")]
    pub(super) drive: Option<String>,
    /// The recorded drive whose requests count, by the kernel's name [default: that with the most requests].
    #[arg(long, value_name = "NAME")]
    pub(super) device: Option<String>,
    /// The metric to make small, as results name it [default: mean_mw, with recordings drive_mw].
    #[arg(long, value_name = "METRIC", conflicts_with = "maximise")]
    pub(super) minimise: Option<String>,
    /// The metric to make large.
    #[arg(long, value_name = "METRIC")]
    pub(super) maximise: Option<String>,
    /// A condition that the answer keeps, such as 'p99_us < 150', 'p99_us(db) < 150' for one load, or 'p99_us <= +5%' of what
    /// is in force; give it again for each condition.
    #[arg(long, value_name = "CONDITION")]
    pub(super) keep: Vec<LoadCondition>,
    /// What may be changed: idle, idle-states, psd, cpu-latency, poll, c1-demotion, frequency, frequency-limits, epp,
    /// hwp-boost, apst, drive-latency, profiles, read-ahead, io_uring, turbo, irq-affinity; only by --on live: rq-affinity, aspm.
    /// Or single policies such as teo. Recordings take idle, cpu-latency and psd, or apst and drive-latency with --drive
    /// [default: idle, psd, cpu-latency, frequency, frequency-limits, epp, hwp-boost, apst, profiles; of recordings apst].
    #[arg(long, value_name = "NAME,...", value_delimiter = ',')]
    pub(super) over: Vec<String>,
    /// How much to simulate or replay: a time such as 10m, or a number of requests (of recorded idle periods: events), which gives
    /// the same answer on any machine. A time becomes requests once, by the speed of a first batch on all threads; of recordings
    /// as many sets as there are threads.
    #[arg(long, value_name = "TIME|REQUESTS", default_value = "2m", value_parser = parse_time_or_request_budget)]
    pub(super) budget: BudgetArgument,
    /// Start of all seeds.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Longest time that each fio job, or another load, is simulated for.
    #[arg(long, value_name = "TIME", value_parser = until::parse_simulated_time_or_seconds)]
    pub(super) seconds: Option<Nanoseconds>,
    /// The kernel whose policies bare names mean [default: the machine's, or 6.12].
    #[arg(long, value_name = "VERSION", value_parser = arguments::parse_kernel_version_or_nearest)]
    pub(super) kernel: Option<KernelVersion>,
    /// Do not vary the machine's assumed figures. Unless told so, each goes to both ends of its range after the search, which
    /// takes up to half as many requests again: one run of each set, and more where the answer may change.
    #[arg(long)]
    pub(super) no_sensitivity: bool,
    #[command(flatten)]
    pub(super) measure: MeasureArgs,
    /// Keep runs with the best sets and with unchanged policies in this directory, for `wakepath compare` and `wakepath report`.
    #[arg(long, value_name = "DIR")]
    pub(super) results: Option<PathBuf>,
    #[command(flatten)]
    pub(super) cost: CostArgs,
    /// Write the daemon's configuration to this file, where the answer has leases (psd), which only the daemon gives.
    #[arg(long, value_name = "FILE")]
    pub(super) daemon_toml: Option<PathBuf>,
    #[command(flatten)]
    pub(super) page: PageArgs,
    /// Replace files that exist.
    #[arg(long)]
    pub(super) force: bool,
    #[command(flatten)]
    pub(super) jobs: ThreadCount,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
}

/// Where deciding runs are made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum DecidedOn {
    /// On the modelled machine: a prediction.
    #[default]
    Sim,
    /// On this machine: the best few predicted sets are measured.
    Live,
}

#[derive(clap::Args)]
pub(crate) struct MeasureArgs {
    /// Where deciding runs are made: `live` measures the best few sets on this machine, interleaved with unchanged policies.
    /// Settings are put back afterwards.
    #[arg(long, value_name = "ON", value_enum, default_value_t)]
    pub(super) on: DecidedOn,
    /// How many sets to measure.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=6))]
    pub(super) measured_sets: u32,
    /// How often each set is measured. Fewer than 4 runs give no interval, and nothing could be decided.
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub(super) repeats: u32,
    /// Search, and print the planned measurement. Measures and changes nothing.
    #[arg(long)]
    pub(super) dry_run: bool,
    /// A captured machine whose settings and energy counters stand for those of this one, for tests. The loads run here.
    #[arg(long, value_name = "DIR", hide = true)]
    root: Option<PathBuf>,
}

impl MeasureArgs {
    /// The machine with the settings and the energy counters.
    pub(super) fn system(&self) -> System {
        self.root.as_deref().map_or_else(System::live, |directory| {
            System::new(Root::at_directory(directory))
        })
    }
}

/// A search budget as written on the command line.
#[derive(Clone, Copy, Debug)]
pub(super) enum BudgetArgument {
    Time(Duration),
    Requests(u64),
}

fn parse_time_or_request_budget(text: &str) -> anyhow::Result<BudgetArgument> {
    match text.trim().parse::<u64>() {
        Ok(0) => bail!("a budget of 0 requests finds nothing; give more"),
        Ok(requests) => Ok(BudgetArgument::Requests(requests)),
        Err(_) => until::parse_duration_or_seconds(text)
            .map(BudgetArgument::Time)
            .context("a plain number counts simulated requests"),
    }
}

/// Loads all workloads with their hours per day; loads without hours share what the others leave of the day.
pub(in crate::commands) fn load_workloads_with_hours(
    loads: &[LoadArgument],
    at_most: Option<Nanoseconds>,
) -> anyhow::Result<Vec<DailyLoad>> {
    loads
        .iter()
        .zip(LoadArgument::share_hours_of_day(loads))
        .map(|(load, hours)| {
            let workload = read_workload_with_time_limit(&load.path, at_most)?;
            Ok(DailyLoad {
                name: load.name(),
                workload: Some(workload),
                hours,
            })
        })
        .collect()
}

/// Parses loads as written on the command line.
pub(in crate::commands) fn parse_load_arguments(
    texts: &[String],
) -> Result<Vec<LoadArgument>, TuneError> {
    texts.iter().map(|text| LoadArgument::parse(text)).collect()
}

fn read_workload_with_time_limit(
    path: &Path,
    at_most: Option<Nanoseconds>,
) -> anyhow::Result<Workload> {
    let read = Workload::load(path)?;
    arguments::hold_workload_warnings(path, &read);
    Ok(read.with_time_limit_and_fio_warm_up(at_most, None))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_budget_counts_requests() {
        assert!(matches!(
            parse_time_or_request_budget("400000"),
            Ok(BudgetArgument::Requests(400_000))
        ));
        assert!(matches!(
            parse_time_or_request_budget("10m"),
            Ok(BudgetArgument::Time(_))
        ));
        assert!(parse_time_or_request_budget("0").is_err());
    }
}
