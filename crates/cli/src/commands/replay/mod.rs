//! `wakepath replay`: recorded wake-ups through other idle governors.

mod tables;

use std::fs::{self, File};
use std::io::{BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail, ensure};
use indicatif::{ProgressBar, ProgressStyle};
use wakepath_hardware::Machine;
use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::input::read_states;
use wakepath_policies::mechanism::{Kind, Place};
use wakepath_policies::psd::{PsdPolicy, PsdSettings};
use wakepath_policies::spec::version::BARE;
use wakepath_policies::spec::{PolicySet, PolicySpec};
use wakepath_replay::package::Package;
use wakepath_replay::{PolicyReport, Ran, Report, Setup, States, replay};
use wakepath_system::HaltpollAsSet;
use wakepath_trace::recording::{Metadata, Reader};
use wakepath_units::{KernelVersion, TickRate};

use crate::new_file;
use crate::output::{self, Format};
use crate::policy_set::WholeSet;
use tables::Table;

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
  wakepath replay load.parquet --kernel 6.1,6.12.30,6.12.48,6.12.60,6.18,7.3
  wakepath replay load.parquet --format csv --table gaps")]
pub(crate) struct Args {
    /// A recording of `wakepath record` or `wakepath import`.
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// An idle governor, and psd around it if wanted, such as 'teo + psd[timeout=3ms]'; give it again for each set to
    /// replay. Without a governor it is the one that ran. [default: menu and teo of Linux 6.1 and 6.12; with --kernel the
    /// one that ran, or menu] `file:/etc/wakepath/daemon.toml` stands for what the daemon would do by that configuration.
    #[arg(long, value_name = "SET", value_parser = WholeSet(Place::Replay), hide_possible_values = true)]
    policy: Vec<PolicySet>,
    /// Kernels, separated by commas: each governor as each of them has it, in one table. `wakepath policy kernels` has what
    /// they changed.
    #[arg(long, value_name = "6.1,6.12.48,...", value_delimiter = ',')]
    kernel: Vec<KernelVersion>,
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
    let reader = Reader::open(&args.trace)?;
    let setup = setup(args, reader.metadata())?;
    let passes = passes(&sets(args, reader.metadata())?, &setup)?;
    let bar = ProgressBar::new(reader.events() * passes.len() as u64).with_style(
        ProgressStyle::with_template(
            "{bar:30} {human_pos} of {human_len} events, {per_sec}, {eta} left",
        )?,
    );
    let all = reader.events();
    let replay = |mut log: Option<(u32, &mut dyn Write)>| {
        let mut reports = Vec::new();
        for (pass, with) in passes.iter().enumerate() {
            let setup = Setup {
                policies: with
                    .policies
                    .iter()
                    .map(|(_, policy)| policy.clone())
                    .collect(),
                psd: with.psd,
                ..setup.clone()
            };
            let mut reader = Reader::open(&args.trace)?;
            let report = replay(&mut reader, &setup, log.take(), &mut |events| {
                bar.set_position(pass as u64 * all + events);
            });
            reports.push(report.with_context(|| args.trace.display().to_string())?);
        }
        merged(reports, &passes).context("no policy set to replay")
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
            tables::csv(&report, &replayed(&passes), table, out)
        }
        Format::Table => {
            if !args.kernel.is_empty() {
                tables::kernels_text(&report, &replayed(&passes), out)?;
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
        policies: Vec::new(),
        psd: None,
        ran,
    })
}

/// The sets to replay: each in each kernel, if there are kernels.
fn sets(args: &Args, metadata: &Metadata) -> anyhow::Result<Vec<PolicySet>> {
    if args.kernel.is_empty() {
        let default = ["menu@6.1", "menu@6.12", "teo@6.1", "teo@6.12"];
        return match &args.policy[..] {
            [] => Ok(default
                .map(str::parse)
                .into_iter()
                .collect::<Result<_, _>>()?),
            given => Ok(given.to_vec()),
        };
    }
    let unchanged = [PolicySet::default()];
    let given = match &args.policy[..] {
        [] => &unchanged[..],
        given => given,
    };
    let ran = metadata.idle_governor.as_deref().unwrap_or("menu");
    let mut each = Vec::new();
    for set in given {
        let governor = match set.get(Kind::Idle) {
            Some(governor) => governor.clone(),
            None => ran.parse()?,
        };
        ensure!(
            governor.version().is_none_or(|version| version == BARE),
            "--policy '{set}' names a kernel itself; with --kernel give the governor alone, such as --policy menu"
        );
        for kernel in &args.kernel {
            let of_kernel = set.with(governor.of_kernel(*kernel))?;
            ensure!(
                !each.contains(&of_kernel),
                "{of_kernel} twice; kernels do not differ in it, or one is given twice"
            );
            each.push(of_kernel);
        }
    }
    Ok(each)
}

/// Policy sets that have the same leases, which go through the recording together.
struct Pass {
    psd: Option<PsdPolicy>,
    /// Place among all sets, name, governor.
    policies: Vec<(usize, (String, IdlePolicy))>,
}

/// The passes that it takes to replay all policy sets.
fn passes(sets: &[PolicySet], setup: &Setup) -> anyhow::Result<Vec<Pass>> {
    let mut passes: Vec<Pass> = Vec::new();
    for (place, set) in sets.iter().enumerate() {
        let what = || format!("--policy '{set}'");
        if let Some(profile) = set.profile() {
            bail!(
                "{}: `{profile}` sets frequencies and latency limits, which cannot act on a recording; a replay takes an \
                 idle governor and psd",
                what()
            );
        }
        let other = set.policies().iter().find(|policy| {
            let on = policy.mechanism().on;
            !on.contains(&Place::Replay)
        });
        if let Some(other) = other {
            bail!(
                "{}: `{other}` cannot act on a recording, whose load is as it was; a replay takes an idle governor and psd",
                what()
            );
        }
        let ran = setup.ran.as_ref().map(|ran| ran.policy);
        let idle = set.idle().or(ran).with_context(|| {
            format!(
                "{}: it names no idle governor, and the recording does not say which one ran",
                what()
            )
        })?;
        let psd = set.psd().map(|settings| leases(settings, &setup.states));
        let psd = psd.transpose().with_context(what)?;
        let policy = (place, (set.to_string(), idle));
        match passes.iter_mut().find(|pass| pass.psd == psd) {
            Some(pass) => pass.policies.push(policy),
            None => passes.push(Pass {
                psd,
                policies: vec![policy],
            }),
        }
    }
    Ok(passes)
}

/// Name and governor of each policy set, in their order.
fn replayed(passes: &[Pass]) -> Vec<(String, IdlePolicy)> {
    let mut all: Vec<&(usize, (String, IdlePolicy))> =
        passes.iter().flat_map(|pass| &pass.policies).collect();
    all.sort_by_key(|(place, _)| *place);
    all.into_iter().map(|(_, policy)| policy.clone()).collect()
}

/// One report of all passes, the policies in the order of the sets.
fn merged(reports: Vec<Report>, passes: &[Pass]) -> Option<Report> {
    let mut policies: Vec<(usize, PolicyReport)> = Vec::new();
    let mut merged: Option<Report> = None;
    for (mut report, pass) in reports.into_iter().zip(passes) {
        // What was recorded comes first.
        let own = report
            .policies
            .split_off(report.policies.len() - pass.policies.len());
        policies.extend(pass.policies.iter().map(|(place, _)| *place).zip(own));
        merged.get_or_insert(report);
    }
    policies.sort_by_key(|(place, _)| *place);
    let mut merged = merged?;
    merged
        .policies
        .extend(policies.into_iter().map(|(_, policy)| policy));
    Some(merged)
}

/// The leases on these idle states. A ceiling by name has to be the same state on every CPU.
fn leases(settings: &PsdSettings, states: &[States]) -> anyhow::Result<PsdPolicy> {
    let mut on = states.iter().map(|states| settings.on(&states.declared));
    let first = on.next().context("there are no idle states")??;
    for other in on {
        anyhow::ensure!(
            other? == first,
            "CPUs of this recording have the state at another index; give the ceiling as a latency, such as 20us"
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
