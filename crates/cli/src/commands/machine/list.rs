//! `wakepath machine list`: models, recorded systems, and drivers' idle-state tables.

use clap::ValueEnum;
use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{FigureCounts, builtin_machine_names};
use wakepath_hardware::recorded;

use crate::output::{self, Format, Screen};

const TABLE_HEADER: [&str; 7] = [
    "name", "kind", "cpus", "sockets", "TDP W", "figures", "title",
];
const CSV_HEADER: [&str; 11] = [
    "name",
    "kind",
    "cpus",
    "sockets",
    "TDP W",
    "measured",
    "published",
    "declared",
    "fitted",
    "assumed",
    "title",
];

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
    /// Figures of the simulated machine by origin; `None` where nothing can be simulated.
    figures: Option<FigureCounts>,
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
            figures: None,
            title,
        }
    }

    fn tdp_watts_or_empty(&self) -> String {
        let mark = if self.tdp_is_assumed { " assumed" } else { "" };
        self.tdp_w
            .map_or_else(String::new, |watts| format!("{watts}{mark}"))
    }

    fn first_cells(&self) -> [String; 5] {
        let kind = self.kind.to_possible_value();
        [
            self.name.clone(),
            kind.map_or_else(String::new, |kind| kind.get_name().to_owned()),
            number_or_empty(self.cpus),
            number_or_empty(self.sockets),
            self.tdp_watts_or_empty(),
        ]
    }

    fn table_row(&self) -> [String; 7] {
        let [name, kind, cpus, sockets, tdp] = self.first_cells();
        let figures = self
            .figures
            .map_or_else(String::new, |counts| counts.to_string());
        [name, kind, cpus, sockets, tdp, figures, self.title.clone()]
    }

    fn csv_row(&self) -> [String; 11] {
        let [name, kind, cpus, sockets, tdp] = self.first_cells();
        let counts = self.figures;
        let [measured, published, declared, fitted, assumed] = [
            counts.map(|counts| counts.measured),
            counts.map(|counts| counts.published),
            counts.map(|counts| counts.declared),
            counts.map(|counts| counts.fitted),
            counts.map(|counts| counts.assumed),
        ]
        .map(number_or_empty);
        [
            name,
            kind,
            cpus,
            sockets,
            tdp,
            measured,
            published,
            declared,
            fitted,
            assumed,
            self.title.clone(),
        ]
    }
}

fn number_or_empty(number: Option<usize>) -> String {
    number.map_or_else(String::new, |number| number.to_string())
}

fn list_modelled_and_recorded_machines() -> anyhow::Result<Vec<ListedMachine>> {
    let modelled = builtin_machine_names().map(|name| {
        let machine = Machine::find(name)?;
        Ok(ListedMachine {
            cpus: Some(machine.cpus()),
            figures: Some(machine.count_figures_by_origin()),
            ..ListedMachine::with_name_and_title(MachineKind::Modelled, machine.name, machine.title)
        })
    });
    let recorded = recorded::builtin_recorded_systems().iter().map(|system| {
        let title = format!("{}, Linux {}", system.cpu_model, system.kernel);
        let simulated = Machine::from_recorded(system).ok();
        let entry = ListedMachine {
            figures: simulated.map(|machine| machine.count_figures_by_origin()),
            ..ListedMachine::with_name_and_title(MachineKind::Recorded, system.name.clone(), title)
        };
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
    match args.format {
        Format::Table => print_columns_that_say_something(&machines, out),
        Format::Csv => {
            output::write_csv(out, CSV_HEADER, machines.iter().map(ListedMachine::csv_row))
        }
        Format::Json => output::write_json(out, &machines),
    }
}

/// Prints the table without columns that are empty, or the same in each row.
fn print_columns_that_say_something(
    machines: &[ListedMachine],
    out: &mut Screen,
) -> anyhow::Result<()> {
    let rows: Vec<[String; 7]> = machines.iter().map(ListedMachine::table_row).collect();
    let columns =
        (0..TABLE_HEADER.len()).filter(|column| does_column_say_something(&rows, *column));
    let columns: Vec<usize> = columns.collect();
    let header: Vec<&str> = columns.iter().map(|column| TABLE_HEADER[*column]).collect();
    let cells = rows.iter().map(|row| {
        let told = columns.iter().map(|column| row[*column].clone());
        told.collect::<Vec<String>>()
    });
    output::write_table(out, header, cells)
}

/// Whether a column has a value, and the column with kinds more than one.
fn does_column_say_something(rows: &[[String; 7]], column: usize) -> bool {
    let mut cells = rows.iter().map(|row| row[column].as_str());
    match (TABLE_HEADER[column], rows.first()) {
        ("kind", Some(first)) => cells.any(|cell| cell != first[column]),
        _ => cells.any(|cell| !cell.is_empty()),
    }
}
