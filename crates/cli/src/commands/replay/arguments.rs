//! Arguments for `wakepath replay`.

use std::path::PathBuf;

use wakepath_policies::mechanism::Place;
use wakepath_policies::spec::PolicySet;
use wakepath_units::{KernelVersion, TickRate};

use super::tables::Table;
use crate::commands::arguments;
use crate::output::Format;
use crate::policy_set::{ProgramPermission, WholePolicySetParser};

/// Run recorded wake-ups through other idle governors.
///
/// Each time a CPU ran out of work, every governor chooses an idle state, in the kernel's idle loop
/// with tick and polling limit. What it chose is set against the oracle, which knows how long the CPU
/// was going to be idle. The load is as recorded: it does not answer to the governor.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath replay load.parquet --policy menu --policy teo
  wakepath replay load.parquet --machine rk3399 --policy teo@6.12 --policy 'teo@6.12 + psd[timeout=3ms]'
  wakepath replay load.parquet --machine rk3399 --ran menu@6.1 --cpu 3 --calls calls.csv
  wakepath replay load.parquet --policy teo --policy c:./teo.c
  wakepath replay load.parquet --cpu 3 --decisions answers.csv
  wakepath replay load.parquet --kernel 6.1,6.12.30,6.12.48,6.12.60,6.18,7.3
  wakepath replay load.parquet --kernel 6.1,7.3 -o kernels && wakepath report kernels
  wakepath replay load.parquet --drive sn530 --apst apst --apst 'apst[primary_timeout_ms=10]'
  wakepath replay load.parquet --format csv --table gaps")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import`.
    #[arg(value_name = "TRACE")]
    pub(super) trace: PathBuf,
    /// An idle governor, and psd around it if wanted, such as 'teo + psd[timeout=3ms]'; give it again for each set to
    /// replay. Without a governor it is the one that ran. [default: menu and teo of Linux 6.1 and 6.12; with --kernel the
    /// one that ran, or menu] `file:/etc/wakepath/daemon.toml` stands for what the daemon would do by that configuration.
    #[arg(long, value_name = "SET", value_parser = WholePolicySetParser(Place::Replay), hide_possible_values = true)]
    pub(super) policy: Vec<PolicySet>,
    /// Kernels, separated by commas: each governor as each of them has it, in one table. `wakepath policy kernels` has what
    /// they changed.
    #[arg(long, value_name = "6.1,6.12.48,...", value_parser = arguments::parse_kernel_version_or_nearest, value_delimiter = ',')]
    pub(super) kernel: Vec<KernelVersion>,
    /// Ticks per second (CONFIG_HZ), instead of what the recording or the machine says [default: 250 if neither does].
    #[arg(long, value_name = "HZ", value_parser = arguments::parse_tick_rate)]
    pub(super) hz: Option<TickRate>,
    /// A machine whose idle states, latencies and power to take: a name of `wakepath machine list`, or
    /// a machine file.
    #[arg(long, value_name = "MACHINE", conflicts_with = "states")]
    pub(super) machine: Option<String>,
    /// Take that machine's figures even if the recording is evidently of another one.
    #[arg(long, requires = "machine")]
    pub(super) any_machine: bool,
    /// A drive to put through the recorded I/O instead: power and wake-up times under each table from --apst. A name of `wakepath drive list`, or a file, as `wakepath drive show` takes it.
    #[arg(long, value_name = "NAME", conflicts_with_all = ["policy", "kernel", "machine", "states", "ran", "calls", "decisions", "output", "table"])]
    pub(super) drive: Option<String>,
    /// A power state table for --drive, such as 'apst[primary_timeout_ms=10]'; give it again for each. [default: the
    /// kernel's, the kernel's older rule, and none]
    #[arg(long, value_name = "SET", value_parser = WholePolicySetParser(Place::Sim), hide_possible_values = true, requires = "drive")]
    pub(super) apst: Vec<PolicySet>,
    /// The recorded drive whose requests count, by the kernel's name [default: that with the most requests].
    #[arg(long, value_name = "NAME", requires = "drive")]
    pub(super) device: Option<String>,
    /// Idle states to take: lines of name, exit_latency_ns, target_residency_ns, polling, disabled; or a dump of cpuidle's
    /// sysfs files, as `wakepath counters` reads it.
    #[arg(long, value_name = "FILE")]
    pub(super) states: Option<PathBuf>,
    /// The governor that ran when the recording was made, to see whether it answers the same now; by
    /// default the one that the recording names.
    #[arg(long, value_name = "NAME")]
    pub(super) ran: Option<String>,
    /// Write the governor call log of a CPU, for `wakepath policy idle`.
    #[arg(long, value_name = "FILE.csv")]
    pub(super) calls: Option<PathBuf>,
    /// Score a log of answers to the call log of a CPU, lines of index,stop_tick as `wakepath policy idle` prints them, beside
    /// the governors of --policy. Each idle period is as long as it was, whatever was answered.
    #[arg(long, value_name = "FILE.csv", conflicts_with_all = ["calls", "kernel", "output", "table"])]
    pub(super) decisions: Option<PathBuf>,
    /// Whose call log [default: 0].
    #[arg(long, value_name = "N")]
    pub(super) cpu: Option<u32>,
    /// Blocks of equal time, whose differences the intervals come from.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(4..=1000))]
    pub(super) blocks: u32,
    #[command(flatten)]
    pub(super) programs: ProgramPermission,
    /// Keep the results in this directory, for `wakepath compare` and `wakepath report`.
    #[arg(short, long, value_name = "DIR")]
    pub(super) output: Option<PathBuf>,
    /// Replace the call log and the results if they are there already.
    #[arg(long)]
    pub(super) force: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// Which table to print as CSV [default: states].
    #[arg(long, value_enum)]
    pub(super) table: Option<Table>,
}
