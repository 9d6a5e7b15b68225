//! `wakepath reproduce`: published experiments beside their simulation.

use std::io::Write;

use clap::ValueEnum;
use wakepath_study::reproduce::{self, Cell, Reproduction, Section};

use super::sim::seeds;
use crate::output::{self, Format};

/// A published experiment.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// iowait heuristics against teo on RK3399.
    #[value(name = "B", alias = "b")]
    B,
    /// APST by the legacy and the current rule on five drives.
    #[value(name = "D", alias = "d")]
    D,
}

#[derive(clap::Args)]
#[command(after_help = "Example:\n  wakepath reproduce B --runs 5")]
pub(crate) struct Args {
    /// Which experiment.
    part: Part,
    /// Runs per cell, each with a seed of its own.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: u32,
    /// Seed of the first run; the others count up from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let seeds = seeds(args.seed, args.runs);
    let reproduction = match args.part {
        Part::B => reproduce::part_b(&seeds)?,
        Part::D => reproduce::part_d(&seeds)?,
    };
    match args.format {
        Format::Json => output::json(out, &reproduction),
        Format::Csv => write_csv(out, &reproduction),
        Format::Table => write_table(out, &reproduction),
    }
}

/// The columns after the labels, from the published to the simulated value and what to think of it.
fn values(cell: &Cell) -> [String; 4] {
    let verdict = match (cell.relative_error, cell.agrees) {
        (Some(error), _) => format!("{:+.1}", error * 100.0),
        (None, Some(true)) => "as published".to_owned(),
        (None, Some(false)) => "not as published".to_owned(),
        (None, None) => String::new(),
    };
    [
        cell.published.to_string(),
        cell.simulated.to_string(),
        verdict,
        if cell.fitted { "yes" } else { "no" }.to_owned(),
    ]
}

const VALUES: [&str; 4] = ["published", "simulated", "error %", "model fitted to it"];

fn write_csv(out: &mut impl Write, reproduction: &Reproduction) -> anyhow::Result<()> {
    let header = [&["metric", "of"], &VALUES[..]].concat();
    let rows = reproduction.sections.iter().flat_map(|section| {
        section.cells.iter().map(|cell| {
            let mut row = vec![section.metric.clone(), cell.labels.join(" / ")];
            row.extend(values(cell));
            row
        })
    });
    output::csv(out, header, rows)
}

fn write_table(out: &mut impl Write, reproduction: &Reproduction) -> anyhow::Result<()> {
    writeln!(out, "{}", reproduction.title)?;
    writeln!(out, "published: {}", reproduction.source)?;
    writeln!(out, "simulated: {}", reproduction.machine)?;
    for section in &reproduction.sections {
        write_section(out, section)?;
    }
    writeln!(out, "\nFitted figures:")?;
    for figure in &reproduction.fitted_figures {
        let model = figure.model.as_deref();
        writeln!(
            out,
            "  {}{} = {}  ({})",
            model.map_or_else(String::new, |m| format!("{m}: ")),
            figure.key,
            figure.value,
            figure.fitted
        )?;
    }
    Ok(())
}

fn write_section(out: &mut impl Write, section: &Section) -> anyhow::Result<()> {
    writeln!(out, "\n{}:\n", section.metric)?;
    let header = [&section.columns[..], &VALUES].concat();
    let rows = section.cells.iter().map(|cell| {
        let mut row = cell.labels.clone();
        row.extend(values(cell));
        row
    });
    output::table(out, header, rows)
}
