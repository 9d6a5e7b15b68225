//! `wakepath replay`: recorded wake-ups through other idle governors.

mod tables;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use wakepath_daemon::policy_set;
use wakepath_hardware::Machine;
use wakepath_policies::input::read_states;
use wakepath_policies::psd::PsdPolicy;
use wakepath_policies::spec::{self, PolicySpec};
use wakepath_replay::package::Package;
use wakepath_replay::{Ran, Report, Setup, States, replay};
use wakepath_system::HaltpollAsSet;
use wakepath_trace::recording::{Metadata, Reader};
use wakepath_units::{KernelVersion, TickRate};

use crate::new_file;
use crate::output::{self, Format};
use tables::Table;

/// Run recorded wake-ups through other idle governors.
///
/// Each time a CPU ran out of work, every governor chooses an idle state, in the kernel's idle loop
/// with tick and polling limit. What it chose is set against the oracle, which knows how long the CPU
/// was going to be idle. The load is as recorded: it does not answer to the governor.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath replay load.parquet --idle menu,teo
  wakepath replay load.parquet --machine rk3399 --idle menu@6.1,teo@6.12 --psd 'psd[timeout=3ms]'
  wakepath replay load.parquet --machine rk3399 --ran menu@6.1 --cpu 3 --calls calls.csv
  wakepath replay load.parquet --kernel 6.1,6.12.30,6.12.48,6.12.60,6.18,7.3
  wakepath replay load.parquet --format csv --table gaps")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import`.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// Idle governors, separated by commas; `wakepath policy list` has the names
    /// [default: menu@6.1,menu@6.12,teo@6.1,teo@6.12; with --kernel the one that ran, or menu].
    #[arg(long, value_name = "A,B,...")]
    idle: Option<String>,
    /// Kernels, separated by commas: each governor as each of them has it, in one table. `wakepath policy kernels` has what
    /// they changed.
    #[arg(long, value_name = "6.1,6.12.48,...", value_delimiter = ',')]
    kernel: Vec<KernelVersion>,
    /// Power-sleep demotion prevention around each of them, such as `psd[timeout=3ms]`, or
    /// `file:/etc/wakepath/daemon.toml` for the daemon's by that configuration.
    #[arg(long, value_name = "PSD")]
    psd: Option<String>,
    /// Ticks per second (CONFIG_HZ), instead of what the recording or the machine says [default: 250 if neither does].
    #[arg(long, value_name = "HZ", value_parser = super::parse_hz)]
    hz: Option<TickRate>,
    /// A machine whose idle states, latencies and power to take: a name of `wakepath machine list`, or
    /// a machine file.
    #[arg(long, value_name = "MACHINE", conflicts_with = "states")]
    machine: Option<String>,
    /// Idle states to take: lines of name, exit_latency_ns, target_residency_ns, polling, disabled.
    #[arg(long, value_name = "FILE.csv")]
    states: Option<PathBuf>,
    /// The governor that ran when the recording was made, to see whether it answers the same now; by
    /// default the one that the recording names.
    #[arg(long, value_name = "NAME")]
    ran: Option<String>,
    /// Write the governor call log of a CPU, for `wakepath policy idle`.
    #[arg(long, value_name = "FILE.csv")]
    calls: Option<PathBuf>,
    /// Whose call log.
    #[arg(long, value_name = "N", default_value_t = 0, requires = "calls")]
    cpu: u32,
    /// Replace the call log if it is there already.
    #[arg(long)]
    force: bool,
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Which table to print as CSV [default: states].
    #[arg(long, value_enum)]
    table: Option<Table>,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    ensure!(
        args.table.is_none() || args.format == Format::Csv,
        "--table chooses what --format csv prints; the other formats have all tables"
    );
    if let Some(calls) = &args.calls {
        check_calls(calls, args).with_context(|| calls.display().to_string())?;
    }
    let mut reader = Reader::open(&args.trace)?;
    let setup = setup(args, reader.metadata())?;
    let bar = ProgressBar::new(reader.events()).with_style(ProgressStyle::with_template(
        "{bar:30} {human_pos} of {human_len} events, {per_sec}, {eta} left",
    )?);
    let mut replay = |log: Option<(u32, &mut dyn Write)>| {
        replay(&mut reader, &setup, log, &mut |events| {
            bar.set_position(events);
        })
        .with_context(|| args.trace.display().to_string())
    };
    let report = match &args.calls {
        Some(path) => with_calls(path, args, replay)?,
        None => replay(None)?,
    };
    bar.finish_and_clear();
    for warning in &report.warnings {
        eprintln!(
            "wakepath: warning: {} ({}x): {}",
            warning.name, warning.count, warning.text
        );
    }
    match args.format {
        Format::Json => output::json(out, &report),
        Format::Csv => {
            let table = match args.table {
                None if !args.kernel.is_empty() => Table::Kernels,
                table => table.unwrap_or_default(),
            };
            tables::csv(&report, &setup.policies, table, out)
        }
        Format::Table => {
            if !args.kernel.is_empty() {
                tables::kernels_text(&report, &setup.policies, out)?;
            }
            tables::text(&report, out)
        }
    }
}

/// What can be known of the file for the call log before any work is done.
fn check_calls(calls: &Path, args: &Args) -> anyhow::Result<()> {
    let same = |a: &Path, b: &Path| matches!((fs::canonicalize(a), fs::canonicalize(b)), (Ok(a), Ok(b)) if a == b);
    ensure!(
        !same(calls, &args.trace),
        "it is the recording itself; give the call log another name"
    );
    new_file::check(calls, args.force)
}

/// A replay whose governor call log goes to `path`.
fn with_calls(
    path: &Path,
    args: &Args,
    replay: impl FnOnce(Option<(u32, &mut dyn Write)>) -> anyhow::Result<Report>,
) -> anyhow::Result<Report> {
    let mut report = None;
    new_file::write(path, args.force, |file| {
        let mut log = BufWriter::new(file);
        let of_all = report.insert(replay(Some((args.cpu, &mut log)))?);
        log.flush()?;
        ensure!(
            file.metadata()?.len() > 0,
            "CPU {} has no idle period in {}; --cpu can be {}",
            args.cpu,
            args.trace.display(),
            listed(&of_all.cpus)
        );
        Ok(())
    })
    .with_context(|| path.display().to_string())?;
    report.context("no replay")
}

/// `0-3, 8`.
fn listed(cpus: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in cpus {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *cpu => *last = *cpu,
            _ => ranges.push((*cpu, *cpu)),
        }
    }
    let texts = ranges.iter().map(|(first, last)| {
        if first == last {
            first.to_string()
        } else {
            format!("{first}-{last}")
        }
    });
    texts.collect::<Vec<_>>().join(", ")
}

fn setup(args: &Args, metadata: &Metadata) -> anyhow::Result<Setup> {
    let machine = args.machine.as_deref().map(Machine::find).transpose()?;
    let states = match (&machine, &args.states) {
        (Some(machine), _) => States::of_machine(machine)?,
        (None, Some(path)) => {
            let file = File::open(path).with_context(|| path.display().to_string())?;
            let list = read_states(BufReader::new(file), &path.display().to_string())?;
            vec![States::declared(Vec::new(), list)]
        }
        (None, None) => {
            States::of_recording(metadata).with_context(|| args.trace.display().to_string())?
        }
    };
    let recorded_hz = metadata.hz.and_then(TickRate::new);
    let of_machine = machine.as_ref().map(Machine::tick_rate);
    let policies = governors(args, metadata)?
        .iter()
        .map(|spec| Ok((spec.to_string(), spec.idle()?)))
        .collect::<anyhow::Result<_>>()
        .context("--idle")?;
    let psd = args
        .psd
        .as_deref()
        .map(|name| psd(name, &states))
        .transpose()
        .context("--psd")?;
    let ran = match &args.ran {
        Some(name) => {
            let spec: PolicySpec = name.parse().context("--ran")?;
            Some(Ran {
                name: spec.to_string(),
                policy: spec.idle().context("--ran")?,
                parameters_known: true,
            })
        }
        None => that_ran(metadata),
    };
    Ok(Setup {
        states,
        package: machine.as_ref().and_then(Package::of_machine),
        tick: args.hz.or(recorded_hz).or(of_machine).unwrap_or_default(),
        policies,
        psd,
        ran,
    })
}

/// The governors to replay: each in each kernel, if there are kernels.
fn governors(args: &Args, metadata: &Metadata) -> anyhow::Result<Vec<PolicySpec>> {
    const DEFAULT: &str = "menu@6.1,menu@6.12,teo@6.1,teo@6.12";
    if args.kernel.is_empty() {
        let names = args.idle.as_deref().unwrap_or(DEFAULT);
        return spec::parse_list(names).context("--idle");
    }
    let names = args.idle.as_deref().or(metadata.idle_governor.as_deref());
    let names = names.unwrap_or("menu");
    if let Some(name) = spec::split_list(names)?
        .iter()
        .find(|name| name.contains('@'))
    {
        bail!(
            "--idle {name} names a kernel itself; with --kernel give the governor alone, such as --idle menu,teo"
        );
    }
    let mut each = Vec::new();
    for governor in spec::parse_list(names).context("--idle")? {
        for kernel in &args.kernel {
            let of_kernel = governor.of_kernel(*kernel);
            ensure!(
                !each.contains(&of_kernel),
                "{of_kernel} twice; kernels do not differ in it, or one is given twice"
            );
            each.push(of_kernel);
        }
    }
    Ok(each)
}

/// The leases of a name. A ceiling by name has to be the same state on every CPU.
fn psd(name: &str, states: &[States]) -> anyhow::Result<PsdPolicy> {
    let spec = policy_set::parse_one(name).map_err(anyhow::Error::msg)?;
    let settings = spec.psd()?;
    let mut on = states.iter().map(|states| settings.on(&states.declared));
    let first = on.next().context("there are no idle states")??;
    for other in on {
        anyhow::ensure!(
            other? == first,
            "{name}: CPUs of this recording have the state at another index; give the ceiling as a latency, such as 20us"
        );
    }
    Ok(first)
}

/// The governor that the recording names, as its kernel had it; as the nearest known kernel, if that is not known.
fn that_ran(metadata: &Metadata) -> Option<Ran> {
    let governor = metadata.idle_governor.as_deref()?;
    let kernel = metadata.kernel.as_deref().unwrap_or_default();
    let version = nearest_kernel(governor, kernel)?;
    let (settings, parameters_known) = if governor == "haltpoll" {
        let as_set = HaltpollAsSet::of(|name| metadata.system_setting(name).map(str::to_owned));
        (as_set.settings, as_set.complete)
    } else {
        (String::new(), true)
    };
    let spec: PolicySpec = format!("{governor}@{version}{settings}").parse().ok()?;
    Some(Ran {
        name: spec.to_string(),
        policy: spec.idle().ok()?,
        parameters_known,
    })
}

/// The kernel of a release string; the nearest one by what the governor did then, if it is not known.
fn nearest_kernel(governor: &str, release: &str) -> Option<KernelVersion> {
    if let Ok(known) = KernelVersion::of_release(release) {
        return Some(known);
    }
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|n| n.parse::<u32>().ok());
    let series = (numbers.next()?, numbers.next()?);
    // menu kept its heuristics for I/O up to 6.12, teo its list of recent intercepts up to 6.1.
    Some(match (governor, series) {
        (_, newer) if newer > (7, 3) => KernelVersion::V7_3,
        ("menu", older) if older < (6, 12) => KernelVersion::V6_1,
        (_, older) if older < (6, 2) => KernelVersion::V6_1,
        _ => KernelVersion::V6_12,
    })
}
