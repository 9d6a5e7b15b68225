//! `wakepath machine list`: models, recorded systems, and drivers' idle-state tables.

use clap::ValueEnum;
use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::builtin_machine_names;
use wakepath_hardware::recorded;

use crate::output::{self, Format, Screen};

const LIST_HEADER: [&str; 6] = ["name", "kind", "cpus", "sockets", "TDP W", "title"];

/// What kind of description a machine has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum MachineKind {
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
pub(super) struct Args {
    /// Only those of this kind.
    #[arg(long, value_enum)]
    kind: Option<MachineKind>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(Serialize)]
struct ListedMachine {
    name: String,
    kind: MachineKind,
    /// Number of idle states; `None`: not known, or not a matter for this table.
    cpus: Option<usize>,
    /// `None`: not known.
    sockets: Option<usize>,
    /// Thermal design power per socket; `None` if unknown.
    tdp_w: Option<f64>,
    tdp_is_assumed: bool,
    title: String,
}

impl ListedMachine {
    fn with_name_and_title(kind: MachineKind, name: String, title: String) -> Self {
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

    fn tdp_watts_or_empty(&self) -> String {
        let mark = if self.tdp_is_assumed { " assumed" } else { "" };
        self.tdp_w
            .map_or_else(String::new, |watts| format!("{watts}{mark}"))
    }
}

fn list_modelled_and_recorded_machines() -> anyhow::Result<Vec<ListedMachine>> {
    let modelled = builtin_machine_names().map(|name| {
        let machine = Machine::find(name)?;
        Ok(ListedMachine {
            cpus: Some(machine.cpus()),
            ..ListedMachine::with_name_and_title(MachineKind::Modelled, machine.name, machine.title)
        })
    });
    let recorded = recorded::builtin_recorded_systems().iter().map(|system| {
        let title = format!("{}, Linux {}", system.cpu_model, system.kernel);
        let entry =
            ListedMachine::with_name_and_title(MachineKind::Recorded, system.name.clone(), title);
        Ok(match &system.processor {
            None => entry,
            Some(processor) => ListedMachine {
                cpus: Some(processor.cpus()),
                sockets: Some(processor.sockets),
                tdp_w: processor.tdp_w.is_given().then_some(processor.tdp_w.value),
                tdp_is_assumed: processor.tdp_is_assumed(),
                ..entry
            },
        })
    });
    let driver = recorded::builtin_intel_idle_tables().iter().map(|table| {
        let (name, source) = (table.name.clone(), table.source.clone());
        Ok(ListedMachine::with_name_and_title(
            MachineKind::Driver,
            name,
            source,
        ))
    });
    modelled.chain(recorded).chain(driver).collect()
}

pub(super) fn print_machine_list(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let mut machines = list_modelled_and_recorded_machines()?;
    machines.retain(|e| args.kind.is_none_or(|kind| kind == e.kind));
    let rows = machines.iter().map(|e| {
        let kind = e.kind.to_possible_value();
        [
            e.name.clone(),
            kind.map_or_else(String::new, |k| k.get_name().to_owned()),
            e.cpus.map_or_else(String::new, |n| n.to_string()),
            e.sockets.map_or_else(String::new, |n| n.to_string()),
            e.tdp_watts_or_empty(),
            e.title.clone(),
        ]
    });
    match args.format {
        // Only recorded systems have sockets and TDP in the list.
        Format::Table if machines.iter().all(|e| e.sockets.is_none()) => output::write_table(
            out,
            ["name", "kind", "cpus", "title"],
            rows.map(|row: [String; 6]| {
                let [name, kind, cpus, _, _, title] = row;
                [name, kind, cpus, title]
            }),
        ),
        Format::Table => output::write_table(out, LIST_HEADER, rows),
        Format::Csv => output::write_csv(out, LIST_HEADER, rows),
        Format::Json => output::write_json(out, &machines),
    }
}
