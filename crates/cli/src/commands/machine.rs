//! `wakepath machine`: machine models with the origin of each figure, and what is recorded of real
//! systems.

mod keys;

use clap::ValueEnum;
use serde::Serialize;
use wakepath_calibrate::StaleFigure;
use wakepath_hardware::machine::{Figure, MachineFigure, Origin, Platform, builtin_names};
use wakepath_hardware::recorded::{self, DriverTable, RecordedSystem};
use wakepath_hardware::{IdleStates, Machine};
use wakepath_policies::PolicySet;
use wakepath_units::spelling::closest;

use super::here;
use crate::output::{self, Format, Screen};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Machines to simulate, recorded systems, and idle-state tables of drivers.
    List(ListArgs),
    /// A machine with the origin of every figure, or a recorded idle-state table.
    Show(ShowArgs),
    /// The keys of machine files: unit, range, meaning and default of each.
    Keys(keys::Args),
    /// This machine, or a captured one, as a machine file and the raw files that describe it.
    Capture(super::live::capture::Args),
}

/// What is known of a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum Kind {
    /// A model to simulate.
    Modelled,
    /// Settings of a real system.
    Recorded,
    /// An idle-state table of the intel_idle driver.
    Driver,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath machine list
  wakepath machine list --kind modelled")]
struct ListArgs {
    /// Only those of this kind.
    #[arg(long, value_enum)]
    kind: Option<Kind>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

/// What `show` prints.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum ShowFormat {
    /// Columns for people.
    #[default]
    Table,
    /// All that is known, as one JSON document.
    Json,
    /// The rows of the table with a header line.
    Csv,
    /// The declared idle states as `policy idle --states` reads them.
    States,
}

#[derive(clap::Args)]
#[command(after_help = "Examples:
  wakepath machine show rk3399
  wakepath machine show rome0 --format states > rome0.csv")]
struct ShowArgs {
    /// A name that `machine list` prints, or a machine file (*.toml).
    name: String,
    /// A recorded system as the machine that `wakepath sim` makes of it, with what it assumes.
    #[arg(long)]
    model: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: ShowFormat,
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.verb {
        Verb::List(args) => list(args, out),
        Verb::Show(args) => show(args, out),
        Verb::Keys(args) => keys::run(args, out),
        Verb::Capture(args) => super::live::capture::run(args, out),
    }
}

const LIST_HEADER: [&str; 6] = ["name", "kind", "cpus", "sockets", "TDP W", "title"];
const FIGURE_HEADER: [&str; 4] = ["figure", "value", "origin", "because"];
const STATE_HEADER: [&str; 4] = ["state", "exit us", "residency us", "by default"];

#[derive(Serialize)]
struct Entry {
    name: String,
    kind: Kind,
    /// `None`: not known, or not a matter of the table.
    cpus: Option<usize>,
    /// `None`: not known.
    sockets: Option<usize>,
    /// Thermal design power per socket; `None` if unknown.
    tdp_w: Option<f64>,
    tdp_is_assumed: bool,
    title: String,
}

impl Entry {
    fn new(kind: Kind, name: String, title: String) -> Self {
        Self {
            name,
            kind,
            cpus: None,
            sockets: None,
            tdp_w: None,
            tdp_is_assumed: false,
            title,
        }
    }

    fn tdp(&self) -> String {
        let mark = if self.tdp_is_assumed { " assumed" } else { "" };
        self.tdp_w
            .map_or_else(String::new, |watts| format!("{watts}{mark}"))
    }
}

fn entries() -> anyhow::Result<Vec<Entry>> {
    let modelled = builtin_names().map(|name| {
        let machine = Machine::find(name)?;
        Ok(Entry {
            cpus: Some(machine.cpus()),
            ..Entry::new(Kind::Modelled, machine.name, machine.title)
        })
    });
    let recorded = recorded::systems().iter().map(|system| {
        let title = format!("{}, Linux {}", system.cpu_model, system.kernel);
        let entry = Entry::new(Kind::Recorded, system.name.clone(), title);
        Ok(match &system.processor {
            None => entry,
            Some(processor) => Entry {
                cpus: Some(processor.cpus()),
                sockets: Some(processor.sockets),
                tdp_w: processor.tdp_w.is_given().then_some(processor.tdp_w.value),
                tdp_is_assumed: processor.tdp_is_assumed(),
                ..entry
            },
        })
    });
    let driver = recorded::intel_idle_tables().iter().map(|table| {
        let (name, source) = (table.name.clone(), table.source.clone());
        Ok(Entry::new(Kind::Driver, name, source))
    });
    modelled.chain(recorded).chain(driver).collect()
}

fn list(args: &ListArgs, out: &mut Screen) -> anyhow::Result<()> {
    let mut entries = entries()?;
    entries.retain(|e| args.kind.is_none_or(|kind| kind == e.kind));
    let rows = entries.iter().map(|e| {
        let kind = e.kind.to_possible_value();
        [
            e.name.clone(),
            kind.map_or_else(String::new, |k| k.get_name().to_owned()),
            e.cpus.map_or_else(String::new, |n| n.to_string()),
            e.sockets.map_or_else(String::new, |n| n.to_string()),
            e.tdp(),
            e.title.clone(),
        ]
    });
    match args.format {
        // Only recorded systems have sockets and TDP.
        Format::Table if entries.iter().all(|e| e.sockets.is_none()) => output::table(
            out,
            ["name", "kind", "cpus", "title"],
            rows.map(|row: [String; 6]| {
                let [name, kind, cpus, _, _, title] = row;
                [name, kind, cpus, title]
            }),
        ),
        Format::Table => output::table(out, LIST_HEADER, rows),
        Format::Csv => output::csv(out, LIST_HEADER, rows),
        Format::Json => output::json(out, &entries),
    }
}

fn show(args: &ShowArgs, out: &mut Screen) -> anyhow::Result<()> {
    let name = args.name.as_str();
    if let Some(system) = recorded::find(name).filter(|_| !args.model) {
        return show_recorded(system, args.format, out);
    }
    if let Some(table) = recorded::intel_idle_tables()
        .iter()
        .find(|t| t.name == name)
    {
        return show_driver_table(table, args.format, out);
    }
    if let Some(nearest) = nearest_table(name) {
        anyhow::bail!(
            "unknown machine '{name}'; did you mean '{nearest}'? `wakepath machine list` prints all names"
        );
    }
    let machine = Machine::find(name)?;
    let stale = here::stale_figures(Some(name), &machine);
    show_model(&machine, &stale, args.format, out)
}

/// The driver table closest to a misspelt name, unless a machine is closer.
fn nearest_table(name: &str) -> Option<&'static str> {
    let machines = builtin_names().chain(recorded::systems().iter().map(|s| s.name.as_str()));
    let tables = recorded::intel_idle_tables()
        .iter()
        .map(|t| t.name.as_str());
    let (of_machines, _) = closest(name, machines)?;
    closest(name, tables)
        .filter(|(likeness, _)| *likeness > of_machines)
        .filter(|_| !name.contains('/') && !name.contains('.'))
        .map(|(_, table)| table)
}

/// Why a figure has its value, and what has changed since it was measured.
fn describe_origin(figure: &MachineFigure, stale: &[StaleFigure]) -> String {
    let reason = figure.reason();
    match stale.iter().find(|other| other.key == figure.key) {
        Some(other) => format!("stale ({}): {reason}", other.changes.join(", ")),
        None => reason,
    }
}

fn show_model(
    machine: &Machine,
    stale: &[StaleFigure],
    format: ShowFormat,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let figures = machine.figures();
    let rows = figures.iter().filter(|f| f.figure.is_given()).map(|f| {
        [
            f.key.clone(),
            f.figure.value.to_string(),
            f.figure.origin.word().to_owned(),
            describe_origin(f, stale),
        ]
    });
    match format {
        ShowFormat::Json => output::json(out, machine),
        ShowFormat::Csv => output::csv(out, FIGURE_HEADER, rows),
        ShowFormat::States => write_states(&machine.declared_idle_states()?, out),
        ShowFormat::Table => {
            out.prose(&machine.title, 2)?;
            for c in &machine.cluster {
                let mhz: Vec<String> = c.opps.iter().map(|o| (o.khz / 1000).to_string()).collect();
                let cores = format!(
                    "{}: {} x {}, capacity {}, {} MHz",
                    c.name,
                    c.cpus,
                    c.core,
                    c.capacity,
                    mhz.join(" ")
                );
                out.prose(&cores, 2)?;
                for (what, why) in [
                    ("capacity", &c.capacity_assumed),
                    ("frequencies", &c.opps_assumed),
                ] {
                    if let Some(why) = why {
                        out.prose(&format!("  {what} assumed: {why}"), 2)?;
                    }
                }
            }
            if let Some(kernel) = machine.kernel {
                let from = machine.kernel_from.as_deref().unwrap_or("its file");
                out.prose(&format!("kernel: {kernel}, {from}"), 2)?;
            }
            if let Some(system) = recorded::find(&machine.name) {
                write_processor(system, out)?;
            }
            if let Some(platform) = &machine.platform {
                out.prose(&in_words(platform), 2)?;
            }
            for drive in &machine.other_drives {
                let device = drive.device.as_deref().unwrap_or_default();
                writeln!(out, "another drive: {device} {}", drive.name)?;
            }
            let given = figures.iter().filter(|f| f.figure.is_given());
            let assumed = given
                .clone()
                .filter(|f| matches!(f.figure.origin, Origin::Assumed(_)));
            let (assumed, given) = (assumed.count(), given.count());
            writeln!(out, "{assumed} of {given} figures assumed\n")?;
            output::table(out, FIGURE_HEADER, rows)
        }
    }
}

/// Power at rest for the whole machine, with range and origin.
fn in_words(platform: &Platform) -> String {
    let resting = watts(&platform.resting_mw);
    let ends = [&platform.lowest_mw, &platform.highest_mw];
    let range = if ends.iter().all(|figure| figure.is_given()) {
        let [lowest, highest] = ends.map(watts);
        format!(" ({lowest} to {highest})")
    } else {
        String::new()
    };
    let step = if platform.first_core_mw.is_given() {
        let step = watts(&platform.first_core_mw);
        format!(", {step} more for the first core awake")
    } else {
        String::new()
    };
    let origin = &platform.resting_mw.origin;
    let (word, why) = (origin.word(), origin.reason(&platform.source));
    let counts = &platform.counts;
    format!(
        "whole machine at rest: {resting}{range}{step}. Counts {counts}; never added to package power. {word}: {why}"
    )
}

/// Watts with digits fit for whole machines.
fn watts(figure: &Figure) -> String {
    let watts = figure.value / 1e3;
    let decimals = usize::from(watts < 10.0);
    format!("{watts:.decimals$} W")
}

/// Sockets, cores, threads, clocks and thermal design power.
fn write_processor(system: &RecordedSystem, out: &mut Screen) -> anyhow::Result<()> {
    let Some(p) = &system.processor else {
        return Ok(());
    };
    write!(out, "{} socket(s) of ", p.sockets)?;
    match p.efficiency_cores {
        0 => write!(out, "{} cores", p.cores)?,
        n => write!(out, "{} performance and {n} efficiency cores", p.cores - n)?,
    }
    writeln!(
        out,
        ", {} thread(s) each{}: {} CPUs",
        p.threads_per_core,
        if p.is_hybrid() {
            " (efficiency cores 1)"
        } else {
            ""
        },
        p.cpus()
    )?;
    let machine = Machine::from_recorded(system).ok();
    if let Some(machine) = machine.as_ref().filter(|_| p.is_hybrid()) {
        let kinds: Vec<String> = machine
            .cluster
            .iter()
            .map(|c| format!("{} {} CPUs", c.cpus, c.name))
            .collect();
        out.prose(&format!("simulated as {}", kinds.join(", ")), 2)?;
    }
    if p.base_mhz.is_given() {
        writeln!(out, "base: {} MHz", p.base_mhz.value)?;
    }
    let turbo: Vec<String> = p
        .turbo
        .iter()
        .map(|(n, mhz)| format!("{mhz} up to {n}"))
        .collect();
    match turbo.as_slice() {
        [] => writeln!(out, "turbo by active cores: not known")?,
        limits => out.prose(
            &format!("turbo MHz by active cores: {}", limits.join(", ")),
            2,
        )?,
    }
    match (&p.tdp_w.origin, p.tdp_w.value) {
        (Origin::Default, _) => writeln!(out, "TDP: not known")?,
        (Origin::Assumed(why), watts) => out.prose(&format!("TDP: {watts} W assumed: {why}"), 2)?,
        (Origin::Table, watts) => out.prose(&format!("TDP: {watts} W"), 2)?,
        (origin, watts) => {
            let because = origin.reason("");
            out.prose(&format!("TDP: {watts} W ({because})"), 2)?;
        }
    }
    if let Some(limit) = machine.and_then(|m| m.power_limit) {
        let assumed = matches!(limit.pl1_mw.origin, Origin::Assumed(_));
        let limits: Vec<String> = limit
            .limits()
            .zip(["PL1", "PL2"])
            .map(|((power, window), name)| {
                let (watts, ms) = (power.0 as f64 / 1e6, window.0 as f64 / 1e6);
                let tenths = (ms * 10.0).round() / 10.0;
                format!("{name} {watts} W over {tenths} ms")
            })
            .collect();
        let assumed = if assumed { " (assumed)" } else { "" };
        out.prose(&format!("power limits: {}{assumed}", limits.join(", ")), 2)?;
    }
    if let Some(note) = &p.note {
        out.prose(note, 2)?;
    }
    out.prose(&format!("processor: {}", p.source), 2)?;
    let ran = system.kernel_policy();
    out.prose(
        &format!("simulated by default: {}, {}", ran.idle, ran.freq),
        2,
    )?;
    if let Some(stands_in) = &ran.stands_in {
        out.prose(stands_in, 2)?;
    }
    Ok(())
}

fn recorded_states(system: &RecordedSystem) -> anyhow::Result<&IdleStates> {
    let idle = system.idle.as_ref().map(|idle| &idle.states);
    idle.ok_or_else(|| anyhow::anyhow!("{}: no idle states were recorded", system.name))
}

fn show_recorded(
    system: &RecordedSystem,
    format: ShowFormat,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        ShowFormat::Json => output::json(out, system),
        ShowFormat::Csv => output::csv(out, STATE_HEADER, state_rows(recorded_states(system)?)),
        ShowFormat::States => write_states(recorded_states(system)?, out),
        ShowFormat::Table => {
            writeln!(out, "{}, Linux {}", system.cpu_model, system.kernel)?;
            write_processor(system, out)?;
            for p in &system.frequency {
                write!(
                    out,
                    "policy {}: {}, {}, {} to {}",
                    p.policy, p.driver, p.governor, p.min, p.max
                )?;
                if let Some(base) = p.base {
                    write!(out, ", base {base}")?;
                }
                if let Some(epp) = &p.epp {
                    write!(out, ", EPP {epp}")?;
                }
                writeln!(out)?;
            }
            // Machines that cannot be simulated have no such line.
            if let Ok(machine) = Machine::from_recorded(system) {
                for note in wakepath_sim::notes(&machine, &PolicySet::default())? {
                    out.prose(&note, 2)?;
                }
            }
            if let Some(boost) = system.hwp_dynamic_boost {
                writeln!(
                    out,
                    "HWP dynamic boost: {}",
                    if boost { "on" } else { "off" }
                )?;
            }
            out.prose(&format!("source: {}", system.source), 2)?;
            match &system.idle {
                None => writeln!(out, "no idle states were recorded")?,
                Some(idle) => {
                    writeln!(out, "idle: {}, {}\n", idle.driver, idle.governor)?;
                    output::table(out, STATE_HEADER, state_rows(&idle.states))?;
                }
            }
            Ok(())
        }
    }
}

fn show_driver_table(
    table: &DriverTable,
    format: ShowFormat,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        ShowFormat::Json => output::json(out, table),
        ShowFormat::Csv => output::csv(out, STATE_HEADER, state_rows(&table.states)),
        ShowFormat::States => write_states(&table.states, out),
        ShowFormat::Table => {
            writeln!(out, "{}\n", table.source)?;
            output::table(out, STATE_HEADER, state_rows(&table.states))
        }
    }
}

fn state_rows(states: &IdleStates) -> impl Iterator<Item = [String; 4]> {
    states.iter().map(|s| {
        [
            s.name.clone(),
            (s.exit_latency.0 as f64 / 1e3).to_string(),
            (s.target_residency.0 as f64 / 1e3).to_string(),
            if s.disabled { "off" } else { "on" }.to_owned(),
        ]
    })
}

/// Writes states as `wakepath_policies::input::read_states` reads them: no header, times in nanoseconds.
fn write_states(states: &IdleStates, out: &mut Screen) -> anyhow::Result<()> {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out.raw());
    for s in states.iter() {
        writer.serialize((
            &s.name,
            s.exit_latency.0,
            s.target_residency.0,
            u8::from(s.polling),
            u8::from(s.disabled),
        ))?;
    }
    writer.flush()?;
    Ok(())
}
