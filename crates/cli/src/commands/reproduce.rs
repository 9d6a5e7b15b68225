//! `wakepath reproduce`: published experiments beside their simulation.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::Path;

use clap::builder::{PossibleValue, StringValueParser, TypedValueParser};
use serde::Serialize;
use wakepath_study::builtin;
use wakepath_study::plan::Plan;
use wakepath_study::reproduce::{
    self, Criterion, FittedFigure, Outcome, ReproductionSummary, Section, TableCell, format_share,
};
use wakepath_study::run::RunControl;
use wakepath_units::printable;

use crate::output::{self, PageFormat, Screen};
use crate::waiting::{self, ThreadCount};

/// Template for the page that `reproduce all --format markdown` prints. The page has no cells: `make validation` writes them beside it, as CSV.
const PAGE: &str = include_str!("../../data/validation.md");

/// The exit code under `--exit-code` where an experiment does not meet its expectations.
const NOT_MET: u8 = 3;

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath reproduce
  wakepath reproduce --brief
  wakepath reproduce iowait-rk3399 --format markdown
  wakepath reproduce mine.toml --exit-code

docs/guides/experiments.md says how to write an experiment.")]
pub(crate) struct Args {
    /// Which experiment: a built-in one, or a study file with published values.
    #[arg(default_value = ALL, hide_default_value = true, value_parser = ExperimentName)]
    experiment: String,
    /// Runs per cell, each with a seed of its own [default: the study's repeats].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    runs: Option<u32>,
    /// Seed of the first run; the others count up from it [default: the study's].
    #[arg(long)]
    seed: Option<u64>,
    #[command(flatten)]
    jobs: ThreadCount,
    /// Print one verdict per experiment and no tables.
    #[arg(long, conflicts_with = "format")]
    brief: bool,
    /// Exit with code 3 if something expected is not met.
    #[arg(long)]
    exit_code: bool,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

const ALL: &str = "all";

/// Names the built-in experiments, and takes files, too.
#[derive(Clone)]
struct ExperimentName;

impl TypedValueParser for ExperimentName {
    type Value = String;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<String, clap::Error> {
        StringValueParser::new().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let plans = builtin::EXPERIMENTS.iter().filter_map(|name| {
            let plan = reproduce::load_experiment(Path::new(name)).ok()?;
            Some(PossibleValue::new(name).help(plan.title().to_owned()))
        });
        let all = PossibleValue::new(ALL).help("all of them (default)");
        Some(Box::new(plans.chain([all])))
    }
}

/// JSON output.
#[derive(Serialize)]
struct Document<'a> {
    /// All built-in experiments in the order in which they are printed.
    experiments: &'a [Outcome],
}

pub(crate) fn reproduce_and_print_experiments(args: &Args, out: &mut Screen) -> anyhow::Result<u8> {
    let all = args.experiment == ALL;
    let named = [&*args.experiment];
    let names = if all { builtin::EXPERIMENTS } else { &named };
    let mut plans = Vec::new();
    for name in names {
        let mut plan = reproduce::load_experiment(Path::new(name))?;
        plan.set_repeats_and_seed(args.runs, args.seed);
        plans.push(plan);
    }
    let runs = plans.iter().map(Plan::run_count).sum();
    let outcomes = waiting::run_with_progress(args.jobs, runs, "runs", |finished, cancelled| {
        let control = RunControl {
            finished,
            cancelled,
        };
        Ok(reproduce::reproduce(&plans, &control)?)
    })?;
    match args.format {
        PageFormat::Json => output::write_json(
            out,
            &Document {
                experiments: &outcomes,
            },
        ),
        PageFormat::Csv => write_cells_as_csv(out, &outcomes),
        PageFormat::Table if args.brief => write_titles_and_summaries(out, &outcomes),
        PageFormat::Table => write_outcomes_as_tables(out, &outcomes),
        PageFormat::Markdown => {
            let mut text = String::new();
            for outcome in &outcomes {
                write_markdown_heading_and_criteria(&mut text, outcome);
                if !all {
                    write_markdown_cells(&mut text, outcome);
                }
                write_markdown_fitted_figures(&mut text, outcome);
            }
            if all {
                text = PAGE
                    .replace("{{summary}}\n", &markdown_summary_table(&outcomes))
                    .replace("{{experiments}}\n", text.trim_start());
            }
            out.write_lines_unfolded(&text);
            Ok(())
        }
    }?;
    let failed = args.exit_code
        && !outcomes
            .iter()
            .all(|outcome: &Outcome| outcome.summary.met == outcome.summary.criteria);
    Ok(if failed { NOT_MET } else { 0 })
}

/// A cell's texts behind its labels: published value, simulated value, error or agreement, and whether a model was
/// fitted to it.
fn published_and_simulated_cells(cell: &TableCell) -> [String; 4] {
    let verdict = match (cell.relative_error, cell.agrees) {
        (Some(error), _) => format_share(error),
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

/// How a criterion came out, in words; `marked` formats an outcome unlike the expected.
fn outcome_marked_if_unmet(criterion: &Criterion, mark_unmet: impl Fn(&str) -> String) -> String {
    match criterion.outcome_in_words() {
        word if criterion.met => word.to_owned(),
        word => mark_unmet(word),
    }
}

fn write_cells_as_csv(out: &mut Screen, outcomes: &[Outcome]) -> anyhow::Result<()> {
    let header = [&["experiment", "metric", "of"], &VALUES[..]].concat();
    let rows = outcomes.iter().flat_map(|outcome| {
        let sections = outcome.sections.iter();
        let cells = sections.flat_map(|s| s.cells.iter().map(|cell| (&s.metric, cell)));
        cells.map(|(metric, cell)| {
            let mut row = vec![
                outcome.experiment.clone(),
                metric.clone(),
                cell.label_text(),
            ];
            row.extend(published_and_simulated_cells(cell));
            row
        })
    });
    output::write_csv(out, header, rows)
}

fn write_outcomes_as_tables(out: &mut Screen, outcomes: &[Outcome]) -> anyhow::Result<()> {
    for outcome in outcomes {
        let r = outcome;
        writeln!(out, "{}: {}", outcome.experiment, r.title)?;
        writeln!(out, "published: {}", r.source)?;
        writeln!(
            out,
            "simulated: {}, {}",
            r.machines.join("; "),
            runs_per_cell_in_words(outcome.runs)
        )?;
        for section in &r.sections {
            write_section_table(out, section)?;
        }
        if !r.criteria.is_empty() {
            writeln!(out, "\nCriteria:\n")?;
            output::write_table(
                out,
                ["expected", "", "found"],
                r.criteria.iter().map(|c| {
                    [
                        c.expected.clone(),
                        outcome_marked_if_unmet(c, str::to_uppercase),
                        c.found.clone(),
                    ]
                }),
            )?;
        }
        if !r.fitted_figures.is_empty() {
            writeln!(out, "\nFitted figures:")?;
        }
        for figure in &r.fitted_figures {
            writeln!(
                out,
                "  {} = {}  ({})",
                figure_model_and_key(figure),
                figure.value,
                figure.fitted
            )?;
        }
        writeln!(out)?;
    }
    for outcome in outcomes {
        writeln!(
            out,
            "{}: {}",
            outcome.experiment,
            summary_in_words(&outcome.summary)
        )?;
    }
    Ok(())
}

/// Writes a line per experiment: title and outcome.
fn write_titles_and_summaries(out: &mut Screen, outcomes: &[Outcome]) -> anyhow::Result<()> {
    for outcome in outcomes {
        let title = &outcome.title;
        writeln!(out, "{}: {title}", outcome.experiment)?;
        writeln!(out, "   {}", summary_in_words(&outcome.summary))?;
    }
    Ok(())
}

fn write_section_table(out: &mut Screen, section: &Section) -> anyhow::Result<()> {
    writeln!(out, "\n{}:\n", section.metric)?;
    let (header, rows) = section_header_and_rows(section);
    output::write_table(out, header, rows)
}

/// Header and rows of a section's table; a wide label becomes columns.
fn section_header_and_rows(section: &Section) -> (Vec<&str>, Vec<Vec<String>>) {
    let labels = section.columns.iter().map(String::as_str);
    let Some(wide) = section.wide else {
        let rows = section.cells.iter().map(|cell| {
            let mut row = cell.labels.clone();
            row.extend(published_and_simulated_cells(cell));
            row
        });
        return (labels.chain(VALUES).collect(), rows.collect());
    };
    let mut across: Vec<&str> = Vec::new();
    let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
    for cell in &section.cells {
        let mut labels = cell.labels.clone();
        labels.remove(wide);
        let name = cell.labels[wide].as_str();
        let column = across
            .iter()
            .position(|other| *other == name)
            .unwrap_or_else(|| {
                across.push(name);
                across.len() - 1
            });
        let row = rows
            .iter()
            .position(|(others, _)| *others == labels)
            .unwrap_or_else(|| {
                rows.push((labels, Vec::new()));
                rows.len() - 1
            });
        let values = &mut rows[row].1;
        values.resize(values.len().max(column + 1), String::new());
        values[column] = cell.simulated.to_string();
    }
    let labels = labels.enumerate().filter(|(column, _)| *column != wide);
    let header = labels.map(|(_, label)| label).chain(across.iter().copied());
    let rows = rows.into_iter().map(|(mut row, mut values)| {
        values.resize(across.len(), String::new());
        row.append(&mut values);
        row
    });
    (header.collect(), rows.collect())
}

fn runs_per_cell_in_words(runs: usize) -> String {
    match runs {
        1 => "one run per cell".to_owned(),
        n => format!("median of {n} runs per cell"),
    }
}

fn figure_model_and_key(figure: &FittedFigure) -> String {
    let model = figure
        .model
        .as_deref()
        .map_or_else(String::new, |m| format!("{m}: "));
    format!("{model}{}", figure.key)
}

/// An experiment's outcome in a line.
fn summary_in_words(summary: &ReproductionSummary) -> String {
    let mut text = format!(
        "{} of {} criteria met; {} values compared",
        summary.met, summary.criteria, summary.compared
    );
    if summary.fitted > 0 {
        let _ = write!(text, ", {} of them fitted", summary.fitted);
    }
    if let (Some(median), Some(worst)) = (summary.median_error, summary.worst_error) {
        let [median, worst] = [median, worst].map(|e| e * 100.0);
        let _ = write!(
            text,
            "; not fitted: median error {median:.1} %, largest {worst:.1} %"
        );
    }
    text
}

/// The heading of an experiment, what was simulated, and its criteria.
fn write_markdown_heading_and_criteria(text: &mut String, outcome: &Outcome) {
    let r = outcome;
    let _ = writeln!(
        text,
        "\n## {}: {}\n\nPublished: {}.\n\nSimulated, {}:\n\n- {}\n\n{}.",
        outcome.experiment,
        r.title,
        r.source,
        runs_per_cell_in_words(outcome.runs),
        r.machines.join("\n- "),
        capitalise_first_letter(&summary_in_words(&outcome.summary))
    );
    if !r.criteria.is_empty() {
        let rows = r.criteria.iter().map(|c| {
            let verdict = outcome_marked_if_unmet(c, |word| format!("**{word}**"));
            vec![c.expected.clone(), verdict, c.found.clone()]
        });
        let _ = writeln!(text);
        append_markdown_table(text, &["expected", "", "found"], rows);
    }
}

/// A table for each metric of an experiment, with a row per cell.
fn write_markdown_cells(text: &mut String, outcome: &Outcome) {
    for section in &outcome.sections {
        let _ = writeln!(text, "\n### {}: {}\n", outcome.experiment, section.metric);
        let (header, rows) = section_header_and_rows(section);
        append_markdown_table(text, &header, rows.into_iter());
    }
}

/// The figures of machines that were fitted to an experiment.
fn write_markdown_fitted_figures(text: &mut String, outcome: &Outcome) {
    if !outcome.fitted_figures.is_empty() {
        let _ = writeln!(text, "\n### {}: fitted figures\n", outcome.experiment);
        let rows = outcome.fitted_figures.iter().map(|f| {
            vec![
                figure_model_and_key(f),
                f.value.to_string(),
                f.fitted.clone(),
            ]
        });
        append_markdown_table(text, &["figure", "value", "fitted to"], rows);
    }
}

/// A Markdown table with a row per experiment.
fn markdown_summary_table(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    let rows = outcomes.iter().map(|o| {
        vec![
            o.experiment.clone(),
            o.title.clone(),
            summary_in_words(&o.summary),
        ]
    });
    append_markdown_table(&mut text, &["experiment", "", "in short"], rows);
    text
}

fn append_markdown_table(
    text: &mut String,
    header: &[&str],
    rows: impl Iterator<Item = Vec<String>>,
) {
    let names = header.iter().map(|name| (*name).to_owned()).collect();
    let rule = vec!["---".to_owned(); header.len()];
    for row in [names, rule].into_iter().chain(rows) {
        let cells: Vec<String> = row
            .iter()
            .map(|cell| printable::escape_tags_for_markdown(cell).replace('|', "\\|"))
            .collect();
        let _ = writeln!(text, "| {} |", cells.join(" | "));
    }
}

fn capitalise_first_letter(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
