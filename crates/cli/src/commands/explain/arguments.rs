//! Arguments of `wakepath explain`, and which requests they ask for.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::bail;
use clap::{ArgGroup, ValueEnum};
use wakepath_explain::Submitter;
use wakepath_trace::recording::Metadata;

use crate::output::Format;
use crate::until;

/// Where the time of block requests goes: queues, drive, idle exits, interrupt, hand-over, run queue.
///
/// Without a recording, this machine is watched (needs root). Measured parts add up to each request's latency, and to the
/// wait of its task. The exit from an idle state is estimated, with a 95 % interval, from requests that are alike but for
/// the state that the interrupted CPU was in.
#[derive(clap::Args)]
#[command(group(ArgGroup::new("written").args(["output", "page"]).multiple(true)))]
#[command(after_help = "Examples:
  sudo wakepath explain --page load.html
  sudo wakepath explain --drive nvme0n1 -- fio job.fio
  sudo wakepath explain --watch
  sudo wakepath explain --by cgroup
  sudo wakepath explain -o load --duration 1m && wakepath report load
  sudo wakepath record -o load.parquet --duration 30s && wakepath explain load.parquet")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import` [default: this machine, now].
    #[arg(value_name = "RECORDING")]
    pub(super) recording: Option<PathBuf>,
    /// How long to watch, such as 30s or 5m [default: 30s, or until COMMAND ends, or Ctrl-C].
    #[arg(long, value_name = "TIME", value_parser = until::parse_duration_or_seconds, conflicts_with = "recording")]
    pub(super) duration: Option<Duration>,
    /// Only requests of this drive, such as nvme0n1.
    #[arg(long, value_name = "NAME")]
    pub(super) drive: Option<String>,
    /// Tell kinds of requests apart by who submitted them, too: by process, or by cgroup.
    #[arg(long, value_name = "SUBMITTER", value_enum)]
    pub(super) by: Option<By>,
    /// Explain each interval, until Ctrl-C.
    #[arg(long, conflicts_with = "recording")]
    pub(super) watch: bool,
    /// How long an interval of --watch is.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = until::parse_duration_or_seconds, requires = "watch")]
    pub(super) interval: Duration,
    /// A machine with figures of power, for what changes cost: a name of `wakepath machine list`, or a file.
    #[arg(long, value_name = "NAME|FILE", requires = "recording")]
    pub(super) machine: Option<String>,
    /// Also write a result directory, for `compare`, `report` and Python.
    #[arg(short, long, value_name = "DIR", conflicts_with = "watch")]
    pub(super) output: Option<PathBuf>,
    /// Also write a page with the answer and its pictures, for a browser.
    #[arg(long, value_name = "FILE", conflicts_with = "watch")]
    pub(super) page: Option<PathBuf>,
    /// Replace the results that are in DIR, and the page.
    #[arg(long, requires = "written")]
    pub(super) force: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    pub(super) format: Format,
    /// A command to run meanwhile; watching ends with it. With --format json or csv, its output goes to standard error.
    #[arg(last = true, value_name = "COMMAND", conflicts_with = "recording")]
    pub(super) command: Vec<OsString>,
}

/// What tells submitters of requests apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum By {
    /// The name of the submitting thread.
    Process,
    /// The cgroup of the submitting thread.
    Cgroup,
}

impl By {
    /// Title of the column with submitters.
    pub(super) const fn column(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Cgroup => "cgroup",
        }
    }
}

impl From<By> for Submitter {
    fn from(by: By) -> Self {
        match by {
            By::Process => Self::Process,
            By::Cgroup => Self::Cgroup,
        }
    }
}

/// The number of the drive whose requests are asked for; `None` for all drives.
pub(super) fn find_drive_number(
    name: Option<&str>,
    metadata: &Metadata,
) -> anyhow::Result<Option<u32>> {
    let Some(name) = name else {
        return Ok(None);
    };
    let short = name.strip_prefix("/dev/").unwrap_or(name);
    let found = metadata.devices.iter().find(|drive| drive.name == short);
    if let Some(drive) = found {
        return Ok(Some(drive.device));
    }
    let names: Vec<&str> = metadata.devices.iter().map(|d| d.name.as_str()).collect();
    if names.is_empty() {
        bail!("--drive {name}: no drives are known by name; leave --drive out");
    }
    bail!(
        "--drive {name}: no such drive; expected one of {} (a partition's requests count for its drive)",
        names.join(", ")
    )
}
