//! `wakepath compare`: which policy is better, by how much, and how sure that is.

mod drawing;
mod prediction;
mod ranking;

use std::path::PathBuf;

use wakepath_compare::figure::{Unit, doubt, fixed, percent, percents, signed};
use wakepath_compare::results::{
    Answer, CompareOptions, Comparison, ComparisonFile, Load, Objective, Points, Row, Source,
    add_idle_rates, answers, choose, compare, front, scopes,
};
use wakepath_compare::{Better, Condition, Goal, Mean, Metric, Verdict};
use wakepath_report::html::{from_results, view};
use wakepath_results::{Question, ResultReader, import};
use wakepath_units::printable;

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
pub(crate) struct Args {
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
    #[arg(long, value_parser = level)]
    level: Option<f64>,
    /// What to print.
    #[arg(long, value_enum, default_value_t)]
    format: PageFormat,
}

fn level(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(level) if (0.5..=0.999).contains(&level) => Ok(level),
        _ => Err("a number from 0.5 to 0.999".to_owned()),
    }
}

pub(crate) fn run(args: &Args, out: &mut Screen) -> anyhow::Result<()> {
    let opened = import::open_all(&args.results)?;
    let mut sources: Vec<Source> = opened
        .iter()
        .map(|o| Source::read(&o.name, &o.results))
        .collect::<Result<_, _>>()?;
    let results: Vec<&ResultReader> = opened.iter().map(|o| &o.results).collect();
    add_idle_rates(&mut sources, &results)?;
    let goal = match (&args.minimise, &args.maximise) {
        (Some(metric), _) => Some((metric, Goal::Minimise)),
        (None, Some(metric)) => Some((metric, Goal::Maximise)),
        (None, None) => None,
    };
    if goal.is_none() && !args.keep.is_empty() {
        anyhow::bail!(
            "--keep: say what is wanted among what keeps it: --minimise METRIC or --maximise METRIC"
        );
    }
    let mut metrics: Vec<String> = args.pareto.clone();
    metrics.extend(goal.map(|(metric, _)| metric.clone()));
    metrics.extend(args.keep.iter().map(|c| c.metric.clone()));
    let asked = !metrics.is_empty();
    if !asked {
        metrics.clone_from(&args.metric);
    }
    if args.brief && metrics.is_empty() {
        let questions = sources.iter().flat_map(|s| &s.document.questions);
        metrics.extend(questions.flat_map(Question::metrics).map(str::to_owned));
    }
    let options = CompareOptions {
        baseline: args.baseline.clone(),
        metrics,
        machines: args.machine.clone(),
        workloads: args.workload.clone(),
        level: args.level,
    };
    let comparison = compare(&sources, &options)?;
    super::tell_shares(&args.keep);
    if let Some((metric, goal)) = goal {
        let choose = |among| {
            let objective = Objective {
                metric: metric.clone(),
                goal,
                keep: args.keep.clone(),
                among,
            };
            choose(&comparison, &objective)
        };
        let choices = scopes(&comparison, choose)?;
        ranking::choices(out, &comparison, &choices, args.top, args.format)?;
        return notes_of_ranking(out, &comparison, args.format);
    }
    if asked {
        let fronts = scopes(&comparison, |among| {
            Ok(Points {
                metrics: args.pareto.clone(),
                points: front(&comparison, &args.pareto, &among)?,
            })
        })?;
        ranking::fronts(out, &comparison, &args.pareto, &fronts, args.format)?;
        return notes_of_ranking(out, &comparison, args.format);
    }
    // Who asks for a part of the results has other questions than the study.
    let answers = if args.metric.is_empty() && args.workload.is_empty() && args.machine.is_empty() {
        answers(&sources, &comparison)
    } else {
        Vec::new()
    };
    if args.brief {
        let results: Vec<ResultReader> = opened.into_iter().map(|o| o.results).collect();
        let answers = from_results::answers(&results, args.baseline.as_deref())?;
        return match args.format {
            PageFormat::Table | PageFormat::Markdown => {
                brief(out, &comparison, &answers, args.top, style(args.format))
            }
            PageFormat::Json | PageFormat::Csv => {
                anyhow::bail!(
                    "--brief: for --format table and markdown; the others are for programs"
                )
            }
        };
    }
    match args.format {
        PageFormat::Json => output::json(
            out,
            &ComparisonFile {
                answers: &answers,
                comparison: &comparison,
            },
        ),
        PageFormat::Csv => csv(out, &comparison),
        PageFormat::Table | PageFormat::Markdown => {
            let style = style(args.format);
            if let Some(pair) = prediction::pair(&sources).filter(|_| args.metric.is_empty()) {
                let unasked = args.baseline.is_none();
                if unasked && prediction::write(out, &comparison, &sources, pair, style)? {
                    return notes(out, &comparison, style);
                }
            }
            answered(out, &answers, style)?;
            if comparison.policies.len() > ranking::RANKED_ABOVE {
                ranking::all(out, &comparison, args.top, style)?;
                return notes(out, &comparison, style);
            }
            let canvas = (args.format == PageFormat::Table).then(Canvas::of_stdout);
            print(out, &comparison, style, canvas.flatten())
        }
    }
}

/// The notes below a ranking that people read.
fn notes_of_ranking(
    out: &mut Screen,
    comparison: &Comparison,
    format: PageFormat,
) -> anyhow::Result<()> {
    match format {
        PageFormat::Table | PageFormat::Markdown => notes(out, comparison, style(format)),
        PageFormat::Json | PageFormat::Csv => Ok(()),
    }
}

/// The questions of the studies that have a goal.
fn answered(out: &mut Screen, answers: &[Answer], style: &dyn Style) -> anyhow::Result<()> {
    for answer in answers {
        style.heading(out, &answer.question)?;
        for sentence in &answer.sentences {
            style.sentence(out, sentence)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// How tables are written.
trait Style {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()>;
    fn table(&self, out: &mut Screen, rows: Vec<Vec<String>>) -> anyhow::Result<()>;
}

struct Text;
struct Markdown;

/// How the tables of a page or a terminal are written.
fn style(format: PageFormat) -> &'static dyn Style {
    match format {
        PageFormat::Markdown => &Markdown,
        _ => &Text,
    }
}

impl Style for Text {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        out.prose(text, 0)?;
        Ok(writeln!(out)?)
    }

    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(out.prose(text, 2)?)
    }

    fn table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
        output::table(out, header, rows)
    }
}

impl Style for Markdown {
    fn heading(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(out, "### {}\n", printable::markdown(text))?)
    }

    fn sentence(&self, out: &mut Screen, text: &str) -> anyhow::Result<()> {
        Ok(writeln!(out, "{}", printable::markdown(text))?)
    }

    fn table(&self, out: &mut Screen, mut rows: Vec<Vec<String>>) -> anyhow::Result<()> {
        let header = rows.remove(0);
        output::markdown(out, header, rows)
    }
}

/// The table of each metric as the field reads it, as a drawing too where there is something to draw on, and below a
/// sentence per comparison.
fn print(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    tables(out, comparison, style, canvas)?;
    style.heading(out, &procedure(comparison))?;
    let (rows, reasons) = sentences(comparison);
    if rows.len() > 1 {
        style.table(out, rows)?;
        if !reasons.is_empty() {
            writeln!(out)?;
        }
    }
    for reason in reasons {
        style.sentence(out, &reason)?;
    }
    let repeated = repeated(comparison);
    let warnings: Vec<Vec<String>> = comparison
        .rows
        .iter()
        .filter(|row| !repeated.contains(&row.policy.as_str()))
        .flat_map(|row| {
            let name = format!("{}, {}, {}", row.load, row.policy, row.metric);
            row.warnings
                .iter()
                .map(move |w| vec![name.clone(), w.clone()])
        })
        .collect();
    if !warnings.is_empty() {
        writeln!(out)?;
        style.heading(out, "Warnings")?;
        let header = vec!["series".to_owned(), "what is odd".to_owned()];
        style.table(out, [vec![header], warnings].concat())?;
    }
    notes(out, comparison, style)
}

/// The table of each metric, as a drawing too where there is something to draw on.
fn tables(
    out: &mut Screen,
    comparison: &Comparison,
    style: &dyn Style,
    canvas: Option<Canvas>,
) -> anyhow::Result<()> {
    for metric in &comparison.metrics {
        style.heading(out, &title(comparison, metric))?;
        style.table(out, means(comparison, metric))?;
        if let Some(canvas) = canvas {
            drawing::write(out, canvas, comparison, metric)?;
        }
        writeln!(out)?;
    }
    let equal = equals(comparison);
    for sentence in &equal {
        style.sentence(out, sentence)?;
    }
    if !equal.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// Most policies that a sentence names.
const NAMED: usize = 4;

/// Which policies gave the same numbers in every run, and are shown once.
fn equals(comparison: &Comparison) -> Vec<String> {
    let groups = comparison.equal_policies().into_iter();
    let sentence = |group: Vec<&str>| {
        let (first, others) = group.split_first()?;
        let others = match others {
            few if few.len() <= NAMED => few.join(", "),
            many => format!(
                "{} and {} more",
                many[..NAMED].join(", "),
                many.len() - NAMED
            ),
        };
        Some(format!(
            "The same numbers as {first} in every run: {others}."
        ))
    };
    groups.filter_map(sentence).collect()
}

/// The policies that equal an earlier one in every run.
fn repeated(comparison: &Comparison) -> Vec<&str> {
    let groups = comparison.equal_policies().into_iter();
    groups.flat_map(|group| group.into_iter().skip(1)).collect()
}

/// The policies of which no earlier one equals them.
fn shown(comparison: &Comparison) -> Vec<&String> {
    let repeated = repeated(comparison);
    let policies = comparison.policies.iter();
    policies
        .filter(|policy| !repeated.contains(&policy.as_str()))
        .collect()
}

/// What a reader should know of all of it, below tables and rankings.
fn notes(out: &mut Screen, comparison: &Comparison, style: &dyn Style) -> anyhow::Result<()> {
    if !comparison.notes.is_empty() {
        writeln!(out)?;
    }
    for note in &comparison.notes {
        style.sentence(out, note)?;
    }
    Ok(())
}

/// The tables, and what a report on the same results answers.
fn brief(
    out: &mut Screen,
    comparison: &Comparison,
    answers: &[view::PageAnswer],
    top: u32,
    style: &dyn Style,
) -> anyhow::Result<()> {
    if comparison.policies.len() > ranking::RANKED_ABOVE {
        ranking::all(out, comparison, top, style)?;
        writeln!(out)?;
    } else {
        tables(out, comparison, style, None)?;
    }
    for answer in answers {
        style.sentence(out, &format!("{} {}", answer.question, answer.sentence))?;
    }
    notes(out, comparison, style)
}

/// What the sentences are about, and how chance was considered.
fn procedure(comparison: &Comparison) -> String {
    let mut baselines: Vec<&str> = Vec::new();
    for name in comparison.rows.iter().filter_map(|r| r.baseline.as_deref()) {
        if !baselines.contains(&name) {
            baselines.push(name);
        }
    }
    let with = match baselines[..] {
        [] => &comparison.baseline,
        [only] => only,
        _ => "the baseline of its machine",
    };
    let families = comparison.families.iter().filter(|f| f.comparisons > 0);
    let families: Vec<String> = families
        .map(|f| format!("{} of {}", f.comparisons, f.metric))
        .collect();
    let corrected = if families.is_empty() {
        String::new()
    } else {
        format!(
            ", p-values corrected for each metric by itself ({}): {}",
            comparison.correction,
            families.join(", ")
        )
    };
    format!(
        "Compared with {with}: intervals of {} %, margin {} %{corrected}",
        comparison.level * 100.0,
        comparison.margin_percent
    )
}

/// The metric, its unit, its mean and which way is better.
fn title(comparison: &Comparison, metric: &Metric) -> String {
    let mean = match metric.mean {
        Mean::Arithmetic => "Amean",
        Mean::Harmonic => "Hmean",
        Mean::Geometric => "Gmean",
    };
    let better = match metric.better {
        Better::Higher => "more is better",
        Better::Lower => "less is better",
        Better::Neither => "neither is better",
    };
    let change = match metric.better {
        Better::Neither => "change in % (plus is more",
        _ => "gain in % (plus is better",
    };
    format!(
        "{}: {mean} with standard deviation, and {change}, * significant); {better}",
        comparison.unit(metric).title(&metric.title)
    )
}

/// A row's mean with the digits that it deserves.
fn mean(row: &Row, unit: &Unit) -> String {
    unit.figure(row.mean, doubt(row.interval, row.deviation))
}

/// The same with the standard deviation behind it, if there are several runs.
fn mean_and_deviation(row: &Row, unit: &Unit) -> String {
    let mean = mean(row, unit);
    let Some(deviation) = row.deviation else {
        return mean;
    };
    let decimals = mean.split_once('.').map_or(0, |(_, after)| after.len());
    let deviation = fixed(deviation * unit.factor, decimals);
    // One that is rounded away says nothing.
    if deviation.bytes().all(|b| b == b'0' || b == b'.') {
        mean
    } else {
        format!("{mean} ± {deviation}")
    }
}

/// The columns that say where a figure is from.
fn load_header(comparison: &Comparison) -> Vec<&'static str> {
    let machine = (!comparison.machines.is_empty()).then_some("machine");
    machine.into_iter().chain(["workload"]).collect()
}

/// What these columns say.
fn load_cells(comparison: &Comparison, load: &Load) -> Vec<String> {
    let machine = (!comparison.machines.is_empty()).then(|| load.machine.clone());
    machine.into_iter().chain([load.workload.clone()]).collect()
}

/// A line per workload, a column per policy, and the geometric mean below.
fn means(comparison: &Comparison, metric: &Metric) -> Vec<Vec<String>> {
    let header = load_header(comparison).into_iter().map(str::to_owned);
    let mut table = vec![header.collect::<Vec<String>>()];
    let policies = shown(comparison);
    table[0].extend(policies.iter().map(|policy| (*policy).clone()));
    let unit = comparison.unit(metric);
    let of_metric: Vec<&Row> = comparison
        .rows
        .iter()
        .filter(|r| r.metric == metric.name)
        .collect();
    for load in &comparison.loads {
        let rows: Vec<&&Row> = of_metric.iter().filter(|r| r.load == *load).collect();
        if rows.is_empty() {
            continue;
        }
        let cell = |policy: &&String| {
            let row = rows.iter().find(|r| r.policy == **policy);
            row.map_or_else(String::new, |row| {
                let star = if row.significant { "*" } else { "" };
                let gain = row.gain.map_or_else(String::new, |g| {
                    let [percent] = percents([g.percent], Some(g.interval));
                    format!(" ({star}{percent} %{star})")
                });
                format!("{}{gain}", mean_and_deviation(row, &unit))
            })
        };
        let mut line = load_cells(comparison, load);
        line.extend(policies.iter().map(cell));
        table.push(line);
    }
    let summaries: Vec<_> = comparison
        .summaries
        .iter()
        .filter(|s| s.metric == metric.name)
        .collect();
    if !summaries.is_empty() {
        let mut line = vec!["Gmean".to_owned()];
        line.resize(load_header(comparison).len(), String::new());
        line.extend(policies.iter().map(|policy| {
            let found = summaries.iter().find(|s| s.policy == **policy);
            found.map_or_else(String::new, |s| format!("({} %)", percent(s.percent, 1)))
        }));
        table.push(line);
    }
    table
}

/// A line per comparison, those that differ first. What cannot be compared is not in the table: its reasons are said once.
fn sentences(comparison: &Comparison) -> (Vec<Vec<String>>, Vec<String>) {
    let mut header = vec!["metric"];
    header.extend(load_header(comparison));
    header.extend([
        "policy",
        "verdict",
        "gain %",
        "interval %",
        "p",
        "effect",
        "runs",
    ]);
    let repeated = repeated(comparison);
    let compared = comparison.rows.iter();
    let compared =
        compared.filter(|r| r.baseline.is_some() && !repeated.contains(&r.policy.as_str()));
    let (mut rows, without): (Vec<&Row>, Vec<&Row>) = compared.partition(|row| row.gain.is_some());
    rows.sort_by_key(|row| match row.verdict {
        Some(Verdict::Better { .. } | Verdict::Worse { .. }) => 0,
        Some(Verdict::CannotTell { .. }) => 1,
        _ => 2,
    });
    let mut table = vec![header.into_iter().map(str::to_owned).collect()];
    table.extend(rows.into_iter().map(|row| sentence(comparison, row)));
    (table, reasons(&without))
}

/// A comparison in cells.
fn sentence(comparison: &Comparison, row: &Row) -> Vec<String> {
    let of = |text: &dyn Fn(&wakepath_compare::Gain) -> String| {
        row.gain.as_ref().map_or_else(String::new, text)
    };
    let mut line = vec![row.metric.clone()];
    line.extend(load_cells(comparison, &row.load));
    line.extend([
        row.policy.clone(),
        row.sentence.clone(),
        of(&|g| percents([g.percent], Some(g.interval)).concat()),
        of(&|g| {
            let [low, high] = percents(g.interval, Some(g.interval));
            format!("{low} to {high}")
        }),
        row.corrected_p.map_or_else(String::new, |p| match p {
            p if p < 1e-4 => "<0.0001".to_owned(),
            p => format!("{p:.4}"),
        }),
        of(&|g| g.effect.map_or_else(String::new, effect)),
        row.runs.to_string(),
    ]);
    line
}

/// Why rows cannot be compared, each reason once.
fn reasons(rows: &[&Row]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<&Row>)> = Vec::new();
    for row in rows {
        match reasons.iter_mut().find(|(why, _)| *why == row.sentence) {
            Some((_, of)) => of.push(row),
            None => reasons.push((&row.sentence, vec![row])),
        }
    }
    let say = |(why, of): (&str, Vec<&Row>)| {
        let advice = if why.contains("no interval") {
            "; give `repeats` of 4 or more"
        } else {
            ""
        };
        match of[..] {
            [row] => format!(
                "{why} ({}, {}, {}){advice}.",
                row.metric, row.load, row.policy
            ),
            _ => format!("{why} ({} comparisons){advice}.", of.len()),
        }
    };
    reasons.into_iter().map(say).collect()
}

/// An effect size; beyond 100 standard deviations it only says that the runs hardly vary.
fn effect(value: f64) -> String {
    if value.abs() <= 100.0 {
        signed(value, 1)
    } else {
        format!("{}100", if value < 0.0 { "<-" } else { ">+" })
    }
}

fn csv(out: &mut Screen, comparison: &Comparison) -> anyhow::Result<()> {
    let mut header = vec!["metric", "unit"];
    header.extend(load_header(comparison));
    let rest = [
        "policy",
        "baseline",
        "runs",
        "mean",
        "deviation",
        "gain_percent",
        "low_percent",
        "high_percent",
        "p",
        "corrected_p",
        "effect",
        "significant",
        "verdict",
        "warnings",
    ];
    header.extend(rest);
    let rows = comparison.rows.iter().map(|row| {
        let of = |value: fn(&wakepath_compare::Gain) -> f64| {
            row.gain
                .as_ref()
                .map_or_else(String::new, |g| value(g).to_string())
        };
        let metric = comparison.metrics.iter().find(|m| m.name == row.metric);
        let unit = metric.map_or_else(String::new, |m| m.unit.to_string());
        let mut line = vec![row.metric.clone(), unit];
        line.extend(load_cells(comparison, &row.load));
        line.extend([
            row.policy.clone(),
            row.baseline.as_ref().unwrap_or(&row.policy).clone(),
            row.runs.to_string(),
            row.mean.to_string(),
            row.deviation.map_or_else(String::new, |d| d.to_string()),
            of(|g| g.percent),
            of(|g| g.interval[0]),
            of(|g| g.interval[1]),
            of(|g| g.p_value),
            row.corrected_p.map_or_else(String::new, |p| p.to_string()),
            row.gain
                .and_then(|g| g.effect)
                .map_or_else(String::new, |g| g.to_string()),
            row.significant.to_string(),
            row.sentence.clone(),
            row.warnings.join("; "),
        ]);
        line
    });
    output::csv(out, header, rows)
}
