//! `wakepath compare`: the better policy, by how much, and with how much certainty.

mod cells;
mod csv;
mod drawing;
mod prediction;
mod ranking;
mod style;
mod tables;

use std::path::PathBuf;

use wakepath_compare::results::{
    Answer, CompareOptions, Comparison, ComparisonFile, Objective, Points, Source, add_idle_rates,
    answer_all_questions, choose_policy, compare_results, find_pareto_front, say_per_machine,
};
use wakepath_compare::{Condition, Goal};
use wakepath_report::html::from_results;
use wakepath_results::{Question, ResultReader, import};

use self::style::markdown_or_text_style;
use super::arguments;
use crate::bars::Canvas;
use crate::output::{self, PageFormat, Screen};

#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  wakepath compare idle-governor-sim
  wakepath compare my-study-sim my-study-live --metric mean_us
  wakepath compare before.json after.json --format markdown
  wakepath compare sweep-sim --minimise mean_mw --keep 'p99_us<150' --top 5
  wakepath compare sweep-sim --pareto mean_mw,p99_us")]
pub(crate) struct CompareArgs {
    /// Result directories; also fio JSON, hyperfine JSON and MMTests log directories, or directories of such files.
    #[arg(required = true, value_name = "RESULT")]
    results: Vec<PathBuf>,
    /// The policy that the others are compared with [default: the first result's, of each machine].
    #[arg(long, value_name = "NAME")]
    baseline: Option<String>,
    /// Metrics, separated by commas; all: every one that there is [default: those of interest].
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    metric: Vec<String>,
    /// Only these machines of studies with several, separated by commas.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    machine: Vec<String>,
    /// Only these workloads, separated by commas.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    workload: Vec<String>,
    /// The policy with least of this metric on the workloads.
    #[arg(long, value_name = "METRIC", conflicts_with_all = ["maximise", "pareto"])]
    minimise: Option<String>,
    /// The policy with most of this metric on the workloads.
    #[arg(long, value_name = "METRIC", conflicts_with = "pareto")]
    maximise: Option<String>,
    /// Only policies that keep this on every workload, such as 'p99_us<150'; may be given several times.
    #[arg(long, value_name = "CONDITION")]
    keep: Vec<Condition>,
    /// The policies that no other one beats in all of these metrics.
    #[arg(long, value_name = "A,B", value_delimiter = ',')]
    pareto: Vec<String>,
    /// Most policies of a ranking.
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    top: u32,
    /// Only the tables, and a sentence for each question of the study.
    #[arg(long, conflicts_with_all = ["minimise", "maximise", "pareto"])]
    brief: bool,
    /// Confidence level of the intervals, 0.5 to 0.999 [default: the study's].
    #[arg(long, value_parser = parse_confidence_level)]
    level: Option<f64>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

fn parse_confidence_level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if (0.5..=0.999).contains(&level) => Ok(level),
        _ => Err("a number from 0.5 to 0.999".to_owned()),
    }
}

pub(crate) fn compare_and_print_results(
    args: &CompareArgs,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let opened = import::open_results(&args.results)?;
    let mut sources: Vec<Source> = opened
        .iter()
        .map(|o| Source::read_result(&o.name, &o.results))
        .collect::<Result<_, _>>()?;
    let results: Vec<&ResultReader> = opened.iter().map(|o| &o.results).collect();
    add_idle_rates(&mut sources, &results)?;
    let goal = args.wanted_metric_and_goal()?;
    let comparison = compare_results(&sources, &args.make_compare_options(&sources))?;
    arguments::note_percent_limits_like_shares(&args.keep);
    if let Some((metric, goal)) = goal {
        return choose_and_print_policies(args, metric, goal, &comparison, out);
    }
    if !args.pareto.is_empty() {
        return find_and_print_pareto_fronts(args, &comparison, out);
    }
    if args.brief {
        let results: Vec<ResultReader> = opened.into_iter().map(|o| o.results).collect();
        return print_brief_for_people(args, &comparison, &results, out);
    }
    // All results answer the questions of the study.
    let answers = if args.metric.is_empty() && args.workload.is_empty() && args.machine.is_empty() {
        answer_all_questions(&sources, &comparison)
    } else {
        Vec::new()
    };
    match args.format {
        PageFormat::Json => output::write_json(
            out,
            &ComparisonFile {
                answers: &answers,
                comparison: &comparison,
            },
        ),
        PageFormat::Csv => csv::write_comparison_as_csv(out, &comparison),
        PageFormat::Table | PageFormat::Markdown => {
            print_prediction_ranking_or_tables(args, &sources, &comparison, &answers, out)
        }
    }
}

impl CompareArgs {
    /// The metric to minimise or maximise, if `--minimise` or `--maximise` is given.
    fn wanted_metric_and_goal(&self) -> anyhow::Result<Option<(&str, Goal)>> {
        let goal = match (&self.minimise, &self.maximise) {
            (Some(metric), _) => Some((metric.as_str(), Goal::Minimise)),
            (None, Some(metric)) => Some((metric.as_str(), Goal::Maximise)),
            (None, None) => None,
        };
        anyhow::ensure!(
            goal.is_some() || self.keep.is_empty(),
            "--keep: say what is wanted among what keeps it: --minimise METRIC or --maximise METRIC"
        );
        Ok(goal)
    }

    /// The options for the comparison. Metrics of goal and front come before `--metric`; only `--brief` answers the
    /// study's questions.
    fn make_compare_options(&self, sources: &[Source]) -> CompareOptions {
        let mut metrics: Vec<String> = self.pareto.clone();
        metrics.extend(self.minimise.iter().chain(&self.maximise).cloned());
        metrics.extend(self.keep.iter().map(|condition| condition.metric.clone()));
        if metrics.is_empty() {
            metrics.clone_from(&self.metric);
        }
        if self.brief && metrics.is_empty() {
            let questions = sources.iter().flat_map(|s| &s.document.questions);
            metrics.extend(
                questions
                    .flat_map(Question::metric_names)
                    .map(str::to_owned),
            );
        }
        CompareOptions {
            baseline: self.baseline.clone(),
            metrics,
            machines: self.machine.clone(),
            workloads: self.workload.clone(),
            level: self.level,
        }
    }
}

/// Prints the ranking that `--minimise` or `--maximise` asks for.
fn choose_and_print_policies(
    args: &CompareArgs,
    metric: &str,
    goal: Goal,
    comparison: &Comparison,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let choices = say_per_machine(comparison, |among| {
        let objective = Objective {
            metric: metric.to_owned(),
            goal,
            keep: args.keep.clone(),
            among,
        };
        choose_policy(comparison, &objective)
    })?;
    ranking::print_choices_per_machine(out, comparison, &choices, args.top, args.format)?;
    print_notes_for_people(out, comparison, args.format)
}

/// Prints the Pareto front that `--pareto` asks for.
fn find_and_print_pareto_fronts(
    args: &CompareArgs,
    comparison: &Comparison,
    out: &mut Screen,
) -> anyhow::Result<()> {
    let fronts = say_per_machine(comparison, |among| {
        Ok(Points {
            metrics: args.pareto.clone(),
            points: find_pareto_front(comparison, &args.pareto, &among)?,
        })
    })?;
    ranking::print_fronts_per_machine(out, comparison, &args.pareto, &fronts, args.format)?;
    print_notes_for_people(out, comparison, args.format)
}

/// Prints notes below a ranking, in formats for people.
fn print_notes_for_people(
    out: &mut Screen,
    comparison: &Comparison,
    format: PageFormat,
) -> anyhow::Result<()> {
    match format {
        PageFormat::Table | PageFormat::Markdown => {
            tables::write_comparison_notes(out, comparison, markdown_or_text_style(format))
        }
        PageFormat::Json | PageFormat::Csv => Ok(()),
    }
}

fn print_brief_for_people(
    args: &CompareArgs,
    comparison: &Comparison,
    results: &[ResultReader],
    out: &mut Screen,
) -> anyhow::Result<()> {
    let answers = from_results::build_answers(results, args.baseline.as_deref())?;
    match args.format {
        PageFormat::Table | PageFormat::Markdown => tables::write_means_or_rankings_and_answers(
            out,
            comparison,
            &answers,
            args.top,
            markdown_or_text_style(args.format),
        ),
        PageFormat::Json | PageFormat::Csv => {
            anyhow::bail!("--brief: for --format table and markdown; the others are for programs")
        }
    }
}

fn print_prediction_ranking_or_tables(
    args: &CompareArgs,
    sources: &[Source],
    comparison: &Comparison,
    answers: &[Answer],
    out: &mut Screen,
) -> anyhow::Result<()> {
    let style = markdown_or_text_style(args.format);
    if let Some(pair) = prediction::find_simulation_and_measurement_pair(sources)
        && args.metric.is_empty()
        && args.baseline.is_none()
        && prediction::write_prediction_if_any_cell(out, comparison, sources, pair, style)?
    {
        return tables::write_comparison_notes(out, comparison, style);
    }
    tables::write_study_answers(out, answers, style)?;
    if comparison.policies.len() > ranking::RANKED_ABOVE {
        ranking::print_rankings_per_metric(out, comparison, args.top, style)?;
        return tables::write_comparison_notes(out, comparison, style);
    }
    let canvas = (args.format == PageFormat::Table).then(Canvas::for_stdout_if_terminal);
    tables::write_means_and_verdicts(out, comparison, style, canvas.flatten())
}
