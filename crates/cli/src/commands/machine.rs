//! `wakepath machine`: the machine models and where each of their figures comes from.

use std::io::Write;

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Origin, builtin_names};

use crate::output::{self, Format};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// The built-in machines.
    List(ListArgs),
    /// A machine, with the origin of every figure.
    Show(ShowArgs),
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath machine list")]
struct ListArgs {
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath machine show rk3399")]
struct ShowArgs {
    /// Built-in machine, or a machine file (*.toml).
    name: String,
    /// What to print. JSON is the whole description, table and CSV are its figures.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    match &args.verb {
        Verb::List(args) => list(args, out),
        Verb::Show(args) => show(args, out),
    }
}

const LIST_HEADER: [&str; 3] = ["name", "cpus", "title"];
const FIGURE_HEADER: [&str; 4] = ["figure", "value", "origin", "because"];

#[derive(Serialize)]
struct Entry {
    name: String,
    cpus: usize,
    title: String,
}

fn list(args: &ListArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let entries = builtin_names()
        .map(|name| {
            let machine = Machine::find(name)?;
            Ok(Entry {
                cpus: machine.cpus(),
                name: machine.name,
                title: machine.title,
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    let rows = entries
        .iter()
        .map(|e| [e.name.clone(), e.cpus.to_string(), e.title.clone()]);
    match args.format {
        Format::Table => output::table(out, LIST_HEADER, rows),
        Format::Csv => output::csv(out, LIST_HEADER, rows),
        Format::Json => output::json(out, &entries),
    }
}

fn show(args: &ShowArgs, out: &mut impl Write) -> anyhow::Result<()> {
    let machine = Machine::find(&args.name)?;
    let rows = machine.figures().into_iter().map(|(key, figure)| {
        let (origin, because) = match &figure.origin {
            Origin::Default => ("default", "not given"),
            Origin::Table => ("source", "the source of its table"),
            Origin::Source(text) => ("source", text.as_str()),
            Origin::Fitted(text) => ("fitted", text.as_str()),
            Origin::Assumed(text) => ("assumed", text.as_str()),
        };
        [
            key,
            figure.value.to_string(),
            origin.to_owned(),
            because.to_owned(),
        ]
    });
    match args.format {
        Format::Json => output::json(out, &machine),
        Format::Csv => output::csv(out, FIGURE_HEADER, rows),
        Format::Table => {
            writeln!(out, "{}", machine.title)?;
            for c in &machine.cluster {
                let khz: Vec<String> = c.opps.iter().map(|o| (o.khz / 1000).to_string()).collect();
                writeln!(
                    out,
                    "{}: {} x {}, capacity {}, {} MHz",
                    c.name,
                    c.cpus,
                    c.core,
                    c.capacity,
                    khz.join(" ")
                )?;
            }
            writeln!(out)?;
            output::table(out, FIGURE_HEADER, rows)
        }
    }
}
