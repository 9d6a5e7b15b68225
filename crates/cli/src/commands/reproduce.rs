//! `wakepath reproduce`: published experiments beside their simulation.

use std::io::Write;

use clap::ValueEnum;
use wakepath_study::reproduce::{self, Reproduction};

use super::sim::seeds;
use crate::output::{self, Format};

/// A published experiment.
#[derive(Clone, Copy, ValueEnum)]
enum Part {
    /// iowait heuristics against teo on RK3399.
    #[value(name = "B", alias = "b")]
    B,
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

pub(crate) fn run(args: Args, out: &mut impl Write) -> anyhow::Result<()> {
    let seeds = seeds(args.seed, args.runs);
    let reproduction = match args.part {
        Part::B => reproduce::part_b(&seeds)?,
    };
    match args.format {
        Format::Json => output::json(out, &reproduction),
        Format::Csv => output::csv(out, HEADER, rows(&reproduction)),
        Format::Table => write_table(out, &reproduction),
    }
}

const HEADER: [&str; 6] = [
    "idle",
    "freq",
    "published",
    "simulated",
    "error %",
    "model fitted to it",
];

fn rows(reproduction: &Reproduction) -> impl Iterator<Item = [String; 6]> {
    reproduction.cells.iter().map(|cell| {
        [
            cell.idle.clone(),
            cell.freq.clone(),
            format!("{:.0}", cell.published_median),
            format!("{:.0}", cell.simulated_median),
            format!("{:+.1}", cell.relative_error * 100.0),
            if cell.fitted { "yes" } else { "no" }.to_owned(),
        ]
    })
}

fn write_table(out: &mut impl Write, reproduction: &Reproduction) -> anyhow::Result<()> {
    writeln!(
        out,
        "{} ({}, medians)",
        reproduction.title, reproduction.metric
    )?;
    writeln!(out, "published: {}", reproduction.source)?;
    writeln!(out, "simulated: {}\n", reproduction.machine)?;
    output::table(out, HEADER, rows(reproduction))?;
    writeln!(out, "\nFitted figures of the machine:")?;
    for figure in &reproduction.fitted_figures {
        writeln!(
            out,
            "  {} = {}  ({})",
            figure.key, figure.value, figure.fitted
        )?;
    }
    Ok(())
}
