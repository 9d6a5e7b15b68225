//! `wakepath doctor`: findings about a machine, worst first, each with what it costs and what fixes it.

use std::io::Write;

use wakepath_doctor::{Finding, Report, examine};

use super::RootArgs;
use crate::output::{self, Format};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath doctor
  wakepath doctor --root my-machine --format json")]
pub(crate) struct Args {
    #[command(flatten)]
    root: RootArgs,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn run(args: &Args, out: &mut impl Write) -> anyhow::Result<()> {
    let system = args.root.system()?;
    let report = examine(&system, &args.root.as_option())?;
    match args.format {
        Format::Json => output::json(out, &report),
        Format::Csv => {
            let header = [
                "finding",
                "us_per_io",
                "mw",
                "weight",
                "title",
                "evidence",
                "computed",
                "fix",
            ];
            output::csv(out, header, report.findings.iter().map(row))
        }
        Format::Table => print(out, &report),
    }
}

fn row(finding: &Finding) -> [String; 8] {
    let number = |value: Option<f64>| value.map_or_else(String::new, |v| v.to_string());
    [
        finding.name.to_owned(),
        number(finding.costs_us_per_io),
        number(finding.costs_mw),
        finding.weight.to_string(),
        finding.title.clone(),
        finding.evidence.join("; "),
        finding.computed.clone().unwrap_or_default(),
        finding.fix.clone().unwrap_or_default(),
    ]
}

fn print(out: &mut impl Write, report: &Report) -> anyhow::Result<()> {
    writeln!(out, "{}", report.machine)?;
    if report.findings.is_empty() {
        writeln!(out, "\nnothing found")?;
    }
    for (i, finding) in report.findings.iter().enumerate() {
        writeln!(out, "\n{}. {}: {}", i + 1, finding.name, finding.title)?;
        for line in &finding.evidence {
            writeln!(out, "   seen   {line}")?;
        }
        if let Some(costs) = costs(finding) {
            writeln!(out, "   costs  {costs}")?;
        }
        if let Some(computed) = &finding.computed {
            writeln!(out, "          ({computed})")?;
        }
        if let Some(fix) = &finding.fix {
            writeln!(out, "   fix    {fix}")?;
        }
    }
    if !report.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &report.notes {
        writeln!(out, "note: {note}")?;
    }
    Ok(())
}

/// What it costs and what it saves, in words.
fn costs(finding: &Finding) -> Option<String> {
    let one = |value: f64, unit: &str| {
        if value >= 0.0 {
            format!("{value:.1} {unit}")
        } else {
            format!("saves {:.1} {unit}", -value)
        }
    };
    let us = finding.costs_us_per_io.map(|us| one(us, "us per I/O"));
    let mw = finding.costs_mw.map(|mw| one(mw, "mW"));
    let parts: Vec<String> = [us, mw].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| parts.join(", "))
}
