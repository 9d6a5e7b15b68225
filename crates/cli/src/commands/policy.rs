//! `wakepath policy`: one policy alone, over recorded inputs.
//!
//! Every verb except `list`, `show` and `kernels` prints bare numbers, one line per decision, for scripts.

use std::hint::black_box;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::{Subcommand, ValueEnum};
use wakepath_governors as governors;
use wakepath_hardware::IdleStates;
use wakepath_policies::freq::hwp_boost::{HwpBoost, HwpLevels};
use wakepath_policies::freq::iowait_boost::{IowaitBoost, Settings, Step};
use wakepath_policies::idle::Governor;
use wakepath_policies::input::{Call, CallReader, events};
use wakepath_policies::mechanism::Kind;
use wakepath_policies::poll;
use wakepath_policies::psd::{IdleDepthLease, PsdPolicy, PsdSettings};
use wakepath_policies::spec::{PolicySpec, SpecError};
use wakepath_system::dump::GivenStates;
use wakepath_units::pasted::DecodedText;
use wakepath_units::{Capacity, TickRate};

mod kernels;
mod listed;
mod markdown;
mod show;

use self::listed::{ListedPolicy, list_policies_and_profiles};
use super::arguments;
use crate::policy_set::{self, ProgramPermission};

use crate::messages::note;
use crate::output::{self, Screen};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Idle(IdleArgs),
    PollLimit(PollLimitArgs),
    SchedutilBoost(SchedutilBoostArgs),
    HwpBoost(HwpBoostArgs),
    Psd(PsdArgs),
    List(ListArgs),
    Show(show::Args),
    Kernels(kernels::Args),
}

pub(crate) fn run_policy_command(args: Args, out: &mut Screen) -> anyhow::Result<()> {
    match args.verb {
        Verb::Idle(args) => print_idle_decisions(&args, out),
        Verb::PollLimit(args) => print_polling_limit_us(&args, out),
        Verb::SchedutilBoost(args) => print_iowait_boost_after_updates(&args, out),
        Verb::HwpBoost(args) => print_hwp_minimum_after_updates(&args, out),
        Verb::Psd(args) => print_psd_lease_decisions(&args, out),
        Verb::List(args) => print_policy_list(args.format, out),
        Verb::Show(args) => show::show_policy_set(&args, out),
        Verb::Kernels(args) => kernels::print_governor_generations(&args, out),
    }
}

/// Run an idle governor over a call log; prints `index,stop_tick` per call.
///
/// A call is a line of sleep_length_ns, delta_tick_ns, tick_stopped, latency_req_ns, nr_iowait,
/// select_clock_ns, reflect_clock_ns, residency_ns, got_tick and poll_limit_hit, separated by
/// commas; a header line is skipped. A state is a line of name, exit_latency_ns, target_residency_ns, polling
/// and disabled, shallowest first. The `oracle` takes the residency for the true idle time.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath policy idle --governor teo@6.12 --states skylake.csv calls.csv
  wakepath policy idle --governor menu --states skylake.csv --bench 100 < calls.csv")]
struct IdleArgs {
    /// The governor, such as `menu@6.1` or `oracle[goal=latency]`; see `wakepath policy list`.
    #[arg(long, value_name = "NAME")]
    governor: String,
    /// The state table, or a dump of cpuidle's sysfs files as `wakepath counters` reads it.
    #[arg(long, value_name = "FILE")]
    states: PathBuf,
    #[command(flatten)]
    tick: TickArgs,
    /// Run the log N times, each time from a zeroed device. Instead of the decisions, print one line
    /// with the mean time of one (select and reflect).
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    bench: Option<u32>,
    #[command(flatten)]
    programs: ProgramPermission,
    /// The call log; standard input if `-` or not given.
    #[arg(value_name = "CALLS.csv")]
    calls: Option<PathBuf>,
}

/// Print how long the polling idle state polls, in whole microseconds.
#[derive(clap::Args)]
#[command(after_help = "Example:
  wakepath policy poll-limit --states skylake.csv --hz 1000")]
struct PollLimitArgs {
    /// The state table: lines of name, exit_latency_ns, target_residency_ns, polling, disabled; or a dump of cpuidle's
    /// sysfs files.
    #[arg(long, value_name = "FILE")]
    states: PathBuf,
    #[command(flatten)]
    tick: TickArgs,
    /// An explicit limit; clamped to between 10 us and a sixteenth of the tick period.
    #[arg(long, value_name = "N")]
    request_us: Option<u64>,
}

/// Run schedutil's iowait boost over updates; prints the boost applied after each.
///
/// An update is a line of time_ns, iowait (1: a task wakes up from I/O wait) and max_capacity,
/// separated by commas; a header line is skipped.
#[derive(clap::Args)]
#[command(after_help = "Example:
  printf '1000000,1,1024\\n2000000,1,1024\\n' | wakepath policy schedutil-boost --step linear")]
struct SchedutilBoostArgs {
    /// How the boost grows with each wake-up.
    #[arg(long, value_enum, default_value_t)]
    step: StepArg,
    /// The highest boost, of 1024.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 1024,
        value_parser = clap::value_parser!(u32).range(0..=1024)
    )]
    cap: u32,
    #[command(flatten)]
    tick: TickArgs,
    /// The updates; standard input if `-` or not given.
    #[arg(value_name = "EVENTS.csv")]
    events: Option<PathBuf>,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum StepArg {
    /// Double it, as the kernel does.
    #[default]
    Double,
    /// Add an eighth of the scale.
    Linear,
}

/// Run intel_pstate's HWP dynamic boost over updates; prints the minimum performance in force after
/// each.
///
/// An update is a line of time_ns and iowait (1: a task wakes up from I/O wait), separated by a
/// comma; a header line is skipped.
#[derive(clap::Args)]
#[command(after_help = "Example:
  wakepath policy hwp-boost --min 8 --guaranteed 24 --max 40 updates.csv")]
struct HwpBoostArgs {
    /// The minimum performance that the policy requests, 0 to 255.
    #[arg(long, value_name = "N")]
    min: u8,
    /// The performance that the hardware guarantees, 0 to 255.
    #[arg(long, value_name = "N")]
    guaranteed: u8,
    /// The maximum performance that the policy requests, 0 to 255.
    #[arg(long, value_name = "N")]
    max: u8,
    #[command(flatten)]
    tick: TickArgs,
    /// The updates; standard input if `-` or not given.
    #[arg(value_name = "EVENTS.csv")]
    events: Option<PathBuf>,
}

/// Run the leases of a CPU over events; prints, each time the governor asks, 1 if a lease holds and 0 if not.
///
/// An event is a line of time_ns and completion, separated by a comma; a header line is skipped. completion is
/// 1 where a block I/O completes on this CPU, and 0 where the governor asks.
#[derive(clap::Args)]
#[command(after_help = "Example:
  printf '5000000,1\\n6000000,0\\n9000000,0\\n' | wakepath policy psd --timeout-ms 3
  printf '5000000,1\\n6000000,0\\n9000000,0\\n' | wakepath policy psd --psd 'psd[rule=module]'")]
struct PsdArgs {
    /// Whose leases, such as psd[rule=daemon,start_after=3]. What gives a lease and how deeply a CPU may sleep is not
    /// looked at.
    #[arg(long, value_name = "POLICY", default_value = "psd", value_parser = parse_psd_settings)]
    psd: PsdSettings,
    /// How long a lease lasts, in place of what the policy says; the patch rounds it up to whole ticks. 0 switches leases
    /// off.
    #[arg(long, value_name = "N")]
    timeout_ms: Option<u32>,
    #[command(flatten)]
    tick: TickArgs,
    /// The events; standard input if `-` or not given.
    #[arg(value_name = "EVENTS.csv")]
    events: Option<PathBuf>,
}

/// List all policies with their versions and settings, and the profiles of other tools.
#[derive(clap::Args)]
#[command(after_help = "Example:
  wakepath policy list --format json")]
struct ListArgs {
    /// How to print it.
    #[arg(long, value_enum, default_value_t)]
    format: ListFormat,
}

#[derive(Clone, Copy, Default, ValueEnum)]
enum ListFormat {
    /// For people.
    #[default]
    Table,
    /// One object per policy.
    Json,
    /// One line per setting.
    Csv,
    /// The tables of a page.
    Markdown,
}

#[derive(clap::Args)]
struct TickArgs {
    /// Scheduler ticks per second (CONFIG_HZ), 1 to 6250.
    #[arg(long = "hz", value_name = "HZ", default_value = "250", value_parser = arguments::parse_tick_rate)]
    rate: TickRate,
}

fn print_idle_decisions(args: &IdleArgs, out: &mut Screen) -> anyhow::Result<()> {
    let spec: PolicySpec = args.governor.parse()?;
    spec.as_idle_policy()?;
    let set = governors::load_governor(spec.into(), Path::new("."), args.programs.allowed)?;
    policy_set::hold_compiler_warnings([&set]);
    let spec = set.policy_of_kind(Kind::Idle).context("no idle governor")?;
    let policy = spec.as_idle_policy()?;
    let states = read_given_states_and_hold_notes(&args.states)?;
    let (input, name) = open_log_or_stdin_with_name(args.calls.as_deref())?;
    // The whole log is read before the first decision: after a bad line nothing must be printed.
    let calls: Vec<Call> = CallReader::new(input, &name).collect::<Result<_, _>>()?;
    let log = calls.iter().map(|call| (&call.query, &call.outcome));

    if let Some(runs) = args.bench {
        let start = Instant::now();
        for _ in 0..runs {
            let mut used = 0_usize;
            let mut governor = Governor::new(&policy, &states, args.tick.rate);
            governor.replay_logged_calls(log.clone(), |decision| {
                used += decision.state + usize::from(decision.stop_tick);
            });
            fail_if_governor_stopped_answering(&governor)?;
            black_box(used);
        }
        let decisions = calls.len() as f64 * f64::from(runs);
        let each = start.elapsed().as_nanos() as f64 / decisions;
        writeln!(
            out,
            "{each:.2} ns per decision of {spec} ({runs} x {} calls)",
            calls.len()
        )?;
        return Ok(());
    }

    let mut written = Ok(());
    let mut governor = Governor::new(&policy, &states, args.tick.rate);
    governor.replay_logged_calls(log.clone(), |decision| {
        if written.is_ok() {
            written = writeln!(out, "{},{}", decision.state, u8::from(decision.stop_tick));
        }
    });
    fail_if_governor_stopped_answering(&governor)?;
    Ok(written?)
}

/// Fails if a custom governor has stopped to answer.
fn fail_if_governor_stopped_answering(governor: &Governor) -> anyhow::Result<()> {
    match governor.failure_reason() {
        Some(why) => bail!("the governor {why}"),
        None => Ok(()),
    }
}

fn print_polling_limit_us(args: &PollLimitArgs, out: &mut Screen) -> anyhow::Result<()> {
    let states = read_given_states_and_hold_notes(&args.states)?;
    let limit = poll::polling_limit(&states, args.tick.rate, args.request_us);
    writeln!(out, "{}", limit.as_micros())?;
    Ok(())
}

fn print_iowait_boost_after_updates(
    args: &SchedutilBoostArgs,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let settings = Settings {
        enabled: true,
        step: match args.step {
            StepArg::Double => Step::Double,
            StepArg::Linear => Step::Linear,
        },
        cap: Capacity(args.cap),
    };
    let (input, name) = open_log_or_stdin_with_name(args.events.as_deref())?;
    let mut boost = IowaitBoost::new(settings, args.tick.rate);
    for event in events::read_util_updates(input, &name)? {
        boost.handle_scheduler_report(event.time, event.iowait);
        writeln!(
            out,
            "{}",
            boost
                .decay_and_scale_boost(event.time, event.max_capacity)
                .0
        )?;
    }
    Ok(())
}

fn print_hwp_minimum_after_updates(args: &HwpBoostArgs, out: &mut Screen) -> anyhow::Result<()> {
    anyhow::ensure!(
        args.min <= args.max,
        "--min {} is above --max {}",
        args.min,
        args.max
    );
    let levels = HwpLevels {
        min: args.min,
        guaranteed: args.guaranteed,
        max: args.max,
    };
    let (input, name) = open_log_or_stdin_with_name(args.events.as_deref())?;
    let mut boost = HwpBoost::new(levels, args.tick.rate);
    for event in events::read_hwp_updates(input, &name)? {
        writeln!(out, "{}", boost.update_minimum(event.time, event.iowait))?;
    }
    Ok(())
}

fn parse_psd_settings(name: &str) -> Result<PsdSettings, SpecError> {
    name.parse::<PolicySpec>()?.as_psd_settings()
}

fn print_psd_lease_decisions(args: &PsdArgs, out: &mut Screen) -> anyhow::Result<()> {
    let (input, name) = open_log_or_stdin_with_name(args.events.as_deref())?;
    let policy = PsdPolicy {
        timeout_ms: args.timeout_ms.unwrap_or(args.psd.timeout_ms),
        start_after: args.psd.start_after,
        rule: args.psd.rule,
        ..PsdPolicy::default()
    };
    let mut lease = IdleDepthLease::new(&policy, args.tick.rate);
    for event in events::read_lease_events(input, &name)? {
        if event.completion {
            lease.begin_or_extend_for_io(event.time);
        } else {
            writeln!(out, "{}", u8::from(lease.holds_at(event.time)))?;
        }
    }
    Ok(())
}

fn read_given_states_and_hold_notes(path: &Path) -> anyhow::Result<IdleStates> {
    let given = if crate::input::means_standard_input(path) {
        GivenStates::read_input(io::stdin().lock(), "<stdin>")?
    } else {
        GivenStates::read_file_or_folder(path)?
    };
    for text in &given.notes {
        note!("{}: {text}", path.display());
    }
    Ok(given.states)
}

/// Opens a log file, or standard input for `-` and for no path. Returns the name for messages, too.
fn open_log_or_stdin_with_name(path: Option<&Path>) -> anyhow::Result<(Box<dyn Read>, String)> {
    match path {
        Some(path) if !crate::input::means_standard_input(path) => {
            let file = wakepath_files::open_regular_file(path)
                .with_context(|| path.display().to_string())?;
            let text = DecodedText::new(file).with_context(|| path.display().to_string())?;
            Ok((Box::new(text), path.display().to_string()))
        }
        _ => Ok((Box::new(io::stdin().lock()), "<stdin>".to_owned())),
    }
}

fn print_policy_list(format: ListFormat, out: &mut Screen) -> anyhow::Result<()> {
    let policies = list_policies_and_profiles();
    match format {
        ListFormat::Json => output::write_json(out, &policies)?,
        ListFormat::Csv => write_policies_as_csv(&policies, out)?,
        ListFormat::Markdown => markdown::write_policies_as_markdown(&policies, out)?,
        ListFormat::Table => {
            write_policy_table(&policies, out)?;
            writeln!(out)?;
            out.write_folded(&kernels::count_generations_in_words(), 0)?;
        }
    }
    Ok(())
}

fn write_policies_as_csv(policies: &[ListedPolicy], out: &mut Screen) -> anyhow::Result<()> {
    let header = [
        "policy", "kind", "versions", "summary", "source", "on", "key", "default", "unit",
        "allowed", "meaning",
    ];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for policy in policies {
        let versions = policy.versions.join(" ");
        let on = policy.on.join(" ");
        let about = [
            policy.name,
            policy.kind,
            &versions,
            policy.summary,
            &policy.source,
            &on,
        ];
        if policy.settings.is_empty() {
            rows.push(
                about
                    .into_iter()
                    .chain([""; 5])
                    .map(str::to_owned)
                    .collect(),
            );
        }
        for s in &policy.settings {
            let setting = [s.key, s.default, s.unit, &s.allowed, s.meaning];
            rows.push(
                about
                    .into_iter()
                    .chain(setting)
                    .map(str::to_owned)
                    .collect(),
            );
        }
    }
    output::write_csv(out, header, rows)
}

fn write_policy_table(policies: &[ListedPolicy], out: &mut Screen) -> anyhow::Result<()> {
    let rows = policies.iter().map(|policy| {
        let name = match (policy.versions.first(), policy.versions.last()) {
            (Some(first), Some(last)) => format!("{0}@{first} to {0}@{last}", policy.name),
            _ => policy.name.to_owned(),
        };
        let settings: Vec<_> = policy
            .settings
            .iter()
            .map(|s| match s.unit {
                // A default in words is printed without a unit.
                unit if !unit.is_empty() && s.default.starts_with(|c: char| c.is_ascii_digit()) => {
                    format!("{} ({} {unit})", s.key, s.default)
                }
                _ => format!("{} ({})", s.key, s.default),
            })
            .collect();
        [
            name,
            policy.kind.to_owned(),
            policy.summary.to_owned(),
            settings.join(", "),
        ]
    });
    let header = ["policy", "kind", "what it goes by", "settings (default)"];
    output::write_table(out, header, rows)
}
