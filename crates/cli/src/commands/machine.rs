//! `wakepath machine`: machine models with the origin of each figure, and what is recorded of real
//! systems.

mod keys;
mod list;
mod processor;

use clap::ValueEnum;
use wakepath_calibrate::StaleFigure;
use wakepath_hardware::machine::{
    Cluster, Figure, FigureCounts, MachineFigure, Platform, builtin_machine_names,
};
use wakepath_hardware::recorded::{self, DriverTable, RecordedSystem};
use wakepath_hardware::{IdleStates, Machine};
use wakepath_policies::PolicySet;
use wakepath_units::spelling::most_similar_name;

use super::here;
use crate::output::{self, Screen};
use processor::write_processor_if_known;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Machines to simulate, recorded systems, and idle-state tables of drivers.
    List(list::Args),
    /// A machine with the origin of every figure, or a recorded idle-state table.
    Show(ShowArgs),
    /// The keys of machine files: unit, range, meaning and default of each.
    Keys(keys::Args),
    /// This machine, or a captured one, as a machine file and the raw files that describe it.
    Capture(super::live::capture::CaptureArgs),
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

pub(crate) fn run_machine_command(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    match &args.verb {
        Verb::List(args) => list::print_machine_list(args, out),
        Verb::Show(args) => show_recorded_driver_or_model(args, out),
        Verb::Keys(args) => keys::print_machine_file_keys(args, out),
        Verb::Capture(args) => super::live::capture::capture_machine(args, out),
    }
}

const FIGURE_HEADER: [&str; 4] = ["figure", "value", "origin", "because"];
const STATE_HEADER: [&str; 4] = ["state", "exit us", "residency us", "by default"];

fn show_recorded_driver_or_model(args: &ShowArgs, out: &mut Screen) -> anyhow::Result<()> {
    let name = args.name.as_str();
    if let Some(system) = recorded::find_recorded_system(name).filter(|_| !args.model) {
        return show_recorded_system(system, args.format, out);
    }
    if let Some(table) = recorded::builtin_intel_idle_tables()
        .iter()
        .find(|t| t.name == name)
    {
        return show_driver_table(table, args.format, out);
    }
    if let Some(nearest) = driver_table_nearer_than_machines(name) {
        anyhow::bail!(
            "unknown machine '{name}'; did you mean '{nearest}'? `wakepath machine list` prints all names"
        );
    }
    let machine = Machine::find(name)?;
    let stale = here::stale_figures_if_calibrated(Some(name), &machine);
    show_machine_model(&machine, &stale, args.format, out)
}

/// The driver's idle-state table with the name closest to `name`, unless a machine's name is closer.
fn driver_table_nearer_than_machines(name: &str) -> Option<&'static str> {
    let machines = builtin_machine_names().chain(
        recorded::builtin_recorded_systems()
            .iter()
            .map(|s| s.name.as_str()),
    );
    let tables = recorded::builtin_intel_idle_tables()
        .iter()
        .map(|t| t.name.as_str());
    let (of_machines, _) = most_similar_name(name, machines)?;
    most_similar_name(name, tables)
        .filter(|(likeness, _)| *likeness > of_machines)
        .filter(|_| !name.contains('/') && !name.contains('.'))
        .map(|(_, table)| table)
}

/// Where a figure's value comes from, and what has changed since it was measured.
fn origin_and_staleness_in_words(figure: &MachineFigure, stale: &[StaleFigure]) -> String {
    let reason = figure.origin_in_words();
    match stale.iter().find(|other| other.key == figure.key) {
        Some(other) => format!("stale ({}): {reason}", other.changes.join(", ")),
        None => reason,
    }
}

fn show_machine_model(
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
            f.figure.origin.origin_kind_name().to_owned(),
            origin_and_staleness_in_words(f, stale),
        ]
    });
    match format {
        ShowFormat::Json => output::write_json(out, machine),
        ShowFormat::Csv => output::write_csv(out, FIGURE_HEADER, rows),
        ShowFormat::States => {
            write_states_as_readable_csv(&machine.common_declared_idle_states()?, out)
        }
        ShowFormat::Table => {
            write_model_beside_figures(machine, out)?;
            let given = figures.iter().filter(|f| f.figure.is_given());
            let counts = FigureCounts::count(&figures);
            let known = FigureCounts {
                assumed: 0,
                ..counts
            };
            let (assumed, given) = (counts.assumed, given.count());
            if let Some(text) = machine.describe_prediction_error() {
                out.write_folded(&text, 2)?;
            }
            writeln!(out, "{assumed} of {given} figures assumed; {known}\n")?;
            output::write_table(out, FIGURE_HEADER, rows)
        }
    }
}

/// Writes what a machine has beside its figures: clusters, kernel, processor, whole machine, drives.
fn write_model_beside_figures(machine: &Machine, out: &mut Screen) -> anyhow::Result<()> {
    out.write_folded(&machine.title, 2)?;
    for cluster in &machine.cluster {
        write_cluster_and_assumptions(cluster, out)?;
    }
    if let Some(kernel) = machine.kernel {
        let from = machine.kernel_from.as_deref().unwrap_or("its file");
        out.write_folded(&format!("kernel: {kernel}, {from}"), 2)?;
    }
    if let Some(system) = recorded::find_recorded_system(&machine.name) {
        write_processor_if_known(system, out)?;
    }
    if let Some(platform) = &machine.platform {
        out.write_folded(&resting_power_in_words(platform), 2)?;
    }
    for drive in &machine.other_drives {
        let device = drive.device.as_deref().unwrap_or_default();
        writeln!(out, "another drive: {device} {}", drive.name)?;
    }
    Ok(())
}

fn write_cluster_and_assumptions(cluster: &Cluster, out: &mut Screen) -> anyhow::Result<()> {
    let points = cluster.opps.iter();
    let mhz: Vec<String> = points.map(|opp| (opp.khz / 1000).to_string()).collect();
    let cores = format!(
        "{}: {} x {}, capacity {}, {} MHz",
        cluster.name,
        cluster.cpus,
        cluster.core,
        cluster.capacity,
        mhz.join(" ")
    );
    out.write_folded(&cores, 2)?;
    for (what, why) in [
        ("capacity", &cluster.capacity_assumed),
        ("frequencies", &cluster.opps_assumed),
    ] {
        if let Some(why) = why {
            out.write_folded(&format!("  {what} assumed: {why}"), 2)?;
        }
    }
    Ok(())
}

/// Power of the whole machine at rest, with range and origin.
fn resting_power_in_words(platform: &Platform) -> String {
    let resting = format_milliwatt_figure_in_watts(&platform.resting_mw);
    let ends = [&platform.lowest_mw, &platform.highest_mw];
    let range = if ends.iter().all(|figure| figure.is_given()) {
        let [lowest, highest] = ends.map(format_milliwatt_figure_in_watts);
        format!(" ({lowest} to {highest})")
    } else {
        String::new()
    };
    let step = if platform.first_core_mw.is_given() {
        let step = format_milliwatt_figure_in_watts(&platform.first_core_mw);
        format!(", {step} more for the first core awake")
    } else {
        String::new()
    };
    let origin = &platform.resting_mw.origin;
    let (word, why) = (
        origin.origin_kind_name(),
        origin.describe_origin(&platform.source),
    );
    let counts = &platform.counts;
    format!(
        "whole machine at rest: {resting}{range}{step}. Counts {counts}; never added to package power. {word}: {why}"
    )
}

/// A power in W, with digits fit for a whole machine.
fn format_milliwatt_figure_in_watts(figure: &Figure) -> String {
    let watts = figure.value / 1e3;
    let decimals = usize::from(watts < 10.0);
    format!("{watts:.decimals$} W")
}

fn recorded_idle_states_or_error(system: &RecordedSystem) -> anyhow::Result<&IdleStates> {
    let idle = system.idle.as_ref().map(|idle| &idle.states);
    idle.ok_or_else(|| anyhow::anyhow!("{}: no idle states were recorded", system.name))
}

fn show_recorded_system(
    system: &RecordedSystem,
    format: ShowFormat,
    out: &mut Screen,
) -> anyhow::Result<()> {
    match format {
        ShowFormat::Json => output::write_json(out, system),
        ShowFormat::Csv => output::write_csv(
            out,
            STATE_HEADER,
            state_rows_in_microseconds(recorded_idle_states_or_error(system)?),
        ),
        ShowFormat::States => {
            write_states_as_readable_csv(recorded_idle_states_or_error(system)?, out)
        }
        ShowFormat::Table => {
            writeln!(out, "{}, Linux {}", system.cpu_model, system.kernel)?;
            write_processor_if_known(system, out)?;
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
            // A system that cannot be simulated has no line about the simulation.
            if let Ok(machine) = Machine::from_recorded(system) {
                for note in
                    wakepath_sim::notes_on_machine_and_policies(&machine, &PolicySet::default())?
                {
                    out.write_folded(&note, 2)?;
                }
            }
            if let Some(boost) = system.hwp_dynamic_boost {
                writeln!(
                    out,
                    "HWP dynamic boost: {}",
                    if boost { "on" } else { "off" }
                )?;
            }
            out.write_folded(&format!("source: {}", system.source), 2)?;
            match &system.idle {
                None => writeln!(out, "no idle states were recorded")?,
                Some(idle) => {
                    writeln!(out, "idle: {}, {}\n", idle.driver, idle.governor)?;
                    output::write_table(
                        out,
                        STATE_HEADER,
                        state_rows_in_microseconds(&idle.states),
                    )?;
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
        ShowFormat::Json => output::write_json(out, table),
        ShowFormat::Csv => {
            output::write_csv(out, STATE_HEADER, state_rows_in_microseconds(&table.states))
        }
        ShowFormat::States => write_states_as_readable_csv(&table.states, out),
        ShowFormat::Table => {
            writeln!(out, "{}\n", table.source)?;
            output::write_table(out, STATE_HEADER, state_rows_in_microseconds(&table.states))
        }
    }
}

fn state_rows_in_microseconds(states: &IdleStates) -> impl Iterator<Item = [String; 4]> {
    states.iter().map(|s| {
        [
            s.name.clone(),
            (s.exit_latency.0 as f64 / 1e3).to_string(),
            (s.target_residency.0 as f64 / 1e3).to_string(),
            if s.disabled { "off" } else { "on" }.to_owned(),
        ]
    })
}

/// Writes idle states as `wakepath_policies::input::read_states` reads them: no header, times in nanoseconds.
fn write_states_as_readable_csv(states: &IdleStates, out: &mut Screen) -> anyhow::Result<()> {
    let mut writer = csv::WriterBuilder::new()
        .has_headers(false)
        .from_writer(out.raw_bytes());
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
