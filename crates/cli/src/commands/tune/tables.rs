//! The answer of `wakepath tune` as tables, CSV and JSON.

use std::collections::BTreeSet;
use std::path::Path;

use serde::Serialize;
use wakepath_compare::Gain;
use wakepath_tune::{
    AnswerOrigin, Finalist, KeptCondition, PredictedFigure, SearchAnswer, SearchRequest,
    Sensitivity, UNCHANGED, VariedFigure,
};

use super::cost::{DayCost, DayCosts};
use super::figure_budget::find_budget_with_share_for_figures;
use super::steps::StepsIntoForce;
use crate::output::{self, Screen, count_with_noun};

/// Metrics shown for each load beside the objective, where the load has them.
const SHOWN_IN_EACH_LOAD: [&str; 10] = [
    "added_us_per_io",
    "added_us_per_wake",
    "commits_per_s",
    "sync_p99_us",
    "package_mw",
    "mean_mw",
    "p99_us",
    "iops",
    "wake_p99_us",
    "ops_per_s",
];

/// Unchanged policies, in tables.
const IN_FORCE: &str = "(in force)";

/// A prediction beside what was measured.
#[derive(Serialize)]
pub(super) struct PredictionReport {
    /// The answer of the search, from simulated runs.
    pub(super) answer: SearchAnswer,
    /// Predicted and measured figures; power is not among them.
    pub(super) errors: Vec<PredictedFigure>,
}

/// The answer with what the command adds to it; JSON has all of it.
#[derive(Serialize)]
pub(super) struct TuneReport<'a> {
    /// Name of the machine.
    pub(super) machine: &'a str,
    /// The answer of the search.
    #[serde(flatten)]
    pub(super) answer: &'a SearchAnswer,
    /// Energy and cost of a day, where the search was about power.
    pub(super) day: Option<DayCosts>,
    /// How the answer comes into force; `None` where nothing is to change.
    pub(super) steps: Option<StepsIntoForce>,
    /// What became of the answer while assumed figures were varied; `None` where that was not asked for.
    pub(super) sensitivity: Option<&'a Sensitivity>,
    /// The prediction beside measured figures; `None` where the answer is the prediction.
    pub(super) prediction: Option<&'a PredictionReport>,
}

/// Writes the answer and its tables. `daemon_toml` is the file that has the daemon's configuration.
pub(super) fn write_answer_and_tables(
    out: &mut Screen,
    request: &SearchRequest,
    report: &TuneReport<'_>,
    daemon_toml: Option<&Path>,
) -> anyhow::Result<()> {
    let answer = report.answer;
    out.write_folded(&answer_sentence(report.machine, answer), 2)?;
    if let Some(steps) = &report.steps {
        write_steps_into_force(out, steps, daemon_toml)?;
    }
    writeln!(out)?;
    let finalists = finalist_table(answer);
    output::write_table(out, &finalists.head, &finalists.rows)?;
    load_table(answer).write_with_title(out)?;
    let optional = [
        condition_table(answer),
        contribution_table(answer),
        report.prediction.and_then(prediction_table),
    ];
    for table in optional.into_iter().flatten() {
        table.write_with_title(out)?;
    }
    if let Some(sensitivity) = report.sensitivity {
        write_sensitivity(out, sensitivity)?;
    }
    if let Some(days) = &report.day {
        write_daily_costs(out, days)?;
    }
    writeln!(out)?;
    out.write_folded(&effort_sentence(request, answer), 2)?;
    Ok(())
}

/// Writes the commands that put the answer in force. Without a file for it, the daemon's configuration is shown.
fn write_steps_into_force(
    out: &mut Screen,
    steps: &StepsIntoForce,
    daemon_toml: Option<&Path>,
) -> anyhow::Result<()> {
    writeln!(out)?;
    out.write_lines_unfolded(&steps.shell_commands(daemon_toml));
    if let (Some(text), None) = (&steps.daemon_toml, daemon_toml) {
        writeln!(out)?;
        writeln!(out, "The daemon.toml, which --daemon-toml FILE writes:")?;
        writeln!(out)?;
        for line in text.lines() {
            writeln!(out, "{}", format!("  {line}").trim_end())?;
        }
    }
    Ok(())
}

/// The answer in sentences.
pub(super) fn answer_sentence(machine: &str, answer: &SearchAnswer) -> String {
    let (name, unit) = (&answer.objective, &answer.unit);
    let Some(best) = &answer.best else {
        return "No set keeps every condition. The nearest sets:".to_owned();
    };
    if best.changes_nothing() {
        return format!(
            "Keep what is in force on {machine}: {name} {} {unit}. No other set is better by more than chance.",
            format_three_digits(best.objective)
        );
    }
    let gain = best
        .gain
        .map_or_else(String::new, |gain| difference_in_words(&gain));
    let doubt = if best.keeps_conditions_by_whole_intervals() {
        ""
    } else {
        " Perhaps a condition is broken: its interval reaches beyond the limit."
    };
    format!(
        "Best on {machine}: {} with {name} {} {unit}{gain}.{doubt}",
        best.set,
        format_three_digits(best.objective)
    )
}

/// A gain over the present settings, or a loss: an answer that keeps more conditions may be the worse one by the objective.
fn difference_in_words(gain: &Gain) -> String {
    let (percent, [low, high]) = (gain.percent, gain.interval);
    if percent < 0.0 {
        let (least, most, loss) = (-high, -low, -percent);
        return format!(", worse by {loss:.1} % ({least:.1} to {most:.1} %) than what is in force");
    }
    format!(", better by {percent:.1} % ({low:.1} to {high:.1} %) than what is in force")
}

/// A table with its title, for a terminal and for a page.
pub(super) struct TitledTable {
    /// The title, without a full stop.
    pub(super) title: String,
    /// Titles of the columns; the first names the row.
    pub(super) head: Vec<String>,
    /// Rows, as long as the head.
    pub(super) rows: Vec<Vec<String>>,
}

impl TitledTable {
    fn write_with_title(&self, out: &mut Screen) -> anyhow::Result<()> {
        writeln!(out)?;
        writeln!(out, "{}:", self.title)?;
        output::write_table(out, &self.head, &self.rows)
    }
}

/// A table with a row for each finalist.
pub(super) fn finalist_table(answer: &SearchAnswer) -> TitledTable {
    let rows = best_next_and_in_force(answer).map(|finalist| {
        vec![
            set_text_or_in_force(finalist),
            format_with_interval(finalist.objective, finalist.interval),
            finalist
                .gain
                .map_or_else(|| "-".to_owned(), |gain| format!("{:+.1}", gain.percent)),
            kept_perhaps_or_broken(finalist).to_owned(),
        ]
    });
    TitledTable {
        title: "The best sets".to_owned(),
        head: vec![
            "set".to_owned(),
            title_with_unit(&answer.objective, &answer.unit),
            "better by %".to_owned(),
            "conditions".to_owned(),
        ],
        rows: rows.collect(),
    }
}

/// A table with a row for each load: the answer, or the nearest set, beside the policies in force.
pub(super) fn load_table(answer: &SearchAnswer) -> TitledTable {
    let shown = answer.best.as_ref().or(answer.next.first());
    let changed = shown.filter(|finalist| !finalist.changes_nothing());
    let columns = load_and_metric_columns(answer);
    let metrics: BTreeSet<&str> = columns.iter().map(|(_, metric)| metric.as_str()).collect();
    let mut head = vec!["load".to_owned(), "set".to_owned()];
    head.extend(metrics.iter().map(|metric| (*metric).to_owned()));
    let mut rows = Vec::new();
    for figures in &answer.in_force.loads {
        for finalist in changed.into_iter().chain([&answer.in_force]) {
            let mut row = vec![figures.load.clone(), set_text_or_in_force(finalist)];
            row.extend(metrics.iter().map(|metric| {
                let value = metric_value_under_load(finalist, &figures.load, metric);
                value.map_or_else(|| "-".to_owned(), format_three_digits)
            }));
            rows.push(row);
        }
    }
    TitledTable {
        title: "Each load".to_owned(),
        head,
        rows,
    }
}

/// A table of how far the answer, or the nearest set, keeps each condition; `None` without conditions.
pub(super) fn condition_table(answer: &SearchAnswer) -> Option<TitledTable> {
    let first = answer.best.as_ref().or(answer.next.first());
    let shown = first.filter(|shown| !shown.conditions.is_empty())?;
    let rows = shown.conditions.iter().map(|kept| {
        vec![
            kept.condition.clone(),
            kept.load.clone(),
            format_with_interval(kept.value, kept.interval),
            format_three_digits(kept.limit),
            format!("{:+.1}", kept.margin_percent),
            describe_keeping(kept).to_owned(),
        ]
    });
    let head = ["condition", "load", "value", "limit", "margin %", ""];
    Some(TitledTable {
        title: format!("Conditions under {}", set_text_or_in_force(shown)),
        head: head.map(str::to_owned).into(),
        rows: rows.collect(),
    })
}

/// How sure it is that a condition is kept.
const fn describe_keeping(kept: &KeptCondition) -> &'static str {
    match (kept.is_kept, kept.is_sure) {
        (true, true) => "kept",
        (true, false) if kept.interval.is_none() => "kept; too few requests to be sure",
        (true, false) => "perhaps kept",
        _ => "broken",
    }
}

/// A table of what each part of the answer contributes; `None` without an answer of several parts.
pub(super) fn contribution_table(answer: &SearchAnswer) -> Option<TitledTable> {
    let best = answer.best.as_ref()?;
    if answer.contributions.is_empty() {
        return None;
    }
    let rows = answer.contributions.iter().map(|part| {
        let change = 100.0 * (part.objective_without / best.objective - 1.0);
        vec![
            part.part.clone(),
            format_three_digits(part.objective_without),
            format!("{change:+.1}"),
            if part.broken_without.is_empty() {
                "-".to_owned()
            } else {
                part.broken_without.join("; ")
            },
        ]
    });
    Some(TitledTable {
        title: "Without one of its parts".to_owned(),
        head: vec![
            "without".to_owned(),
            title_with_unit(&answer.objective, &answer.unit),
            "change %".to_owned(),
            "breaks".to_owned(),
        ],
        rows: rows.collect(),
    })
}

/// A table of predicted figures beside the measured ones; `None` without any.
pub(super) fn prediction_table(prediction: &PredictionReport) -> Option<TitledTable> {
    let rows = prediction.errors.iter().map(|error| {
        vec![
            error.load.clone(),
            if error.set == UNCHANGED {
                IN_FORCE.to_owned()
            } else {
                error.set.clone()
            },
            error.metric.clone(),
            format_three_digits(error.predicted),
            format_three_digits(error.measured),
            error
                .error_percent
                .map_or_else(|| "-".to_owned(), |percent| format!("{percent:+.1}")),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    let head = ["load", "set", "metric", "predicted", "measured", "error %"];
    (!rows.is_empty()).then(|| TitledTable {
        title: "Predicted by simulation, beside what was measured".to_owned(),
        head: head.map(str::to_owned).into(),
        rows,
    })
}

/// A table of the assumed figures that would change the answer; `None` if there are none.
pub(super) fn sensitivity_table(sensitivity: &Sensitivity) -> Option<TitledTable> {
    let mut rows = Vec::new();
    for figure in sensitivity.figures_that_change_answer() {
        for end in &figure.ends {
            let Some(other) = &end.other_answer else {
                continue;
            };
            rows.push(vec![
                figure.figure.clone(),
                format_three_digits(figure.assumed),
                format_three_digits(end.value),
                other.clone(),
                if end.breaks_condition { "yes" } else { "-" }.to_owned(),
            ]);
        }
    }
    let head = [
        "figure",
        "assumed",
        "if it were",
        "better would be",
        "breaks",
    ];
    (!rows.is_empty()).then(|| TitledTable {
        title: format!(
            "Would change the answer, of {}",
            count_with_noun(sensitivity.figures.len() as u64, "assumed figure")
        ),
        head: head.map(str::to_owned).into(),
        rows,
    })
}

/// Sentences beside the table of assumed figures: whether any changes the answer, how they were varied, and how many were not.
pub(super) fn sensitivity_sentences(sensitivity: &Sensitivity) -> Vec<String> {
    let varied = count_with_noun(sensitivity.figures.len() as u64, "assumed figure");
    let is_robust = sensitivity.figures_that_change_answer().next().is_none();
    let robust =
        is_robust.then(|| format!("None of {varied} changes the answer at an end of its range."));
    let by_one = count_figures(sensitivity, |figure| figure.by_one_run);
    let by_runs = (by_one > 0).then(|| {
        let length = match sensitivity.shortened {
            1 => String::new(),
            shortened => format!(" of 1/{shortened} of the time"),
        };
        let joined = joined_figures_sentence(sensitivity);
        let nearest = count_figures(sensitivity, |one| one.with_nearest_only && !one.together);
        let sets = match nearest {
            0 => String::new(),
            _ => format!(" For want of requests, {nearest} of them ran with the answer and the set nearest to it only."),
        };
        format!("One run of a set{length} was enough for {by_one}: no change came near.{joined}{sets}")
    });
    let left = sensitivity.not_reached.len() as u64;
    let not_reached = (left > 0).then(|| {
        let order = sensitivity
            .ordered_by_shortened
            .map_or_else(String::new, |shortened| {
                let unmoved = match sensitivity.not_reached_without_effect {
                    0 => String::new(),
                    unmoved => format!("; {unmoved} of the others moved nothing there"),
                };
                format!(" Those that move most in 1/{shortened} of the time came first{unmoved}.")
            });
        format!(
            "{} not varied, for want of requests.{order}",
            count_with_noun(left, "more assumed figure")
        )
    });
    let for_all = sensitivity.requests_for_all.map(|requests| {
        format!(
            "About `--budget {}` reaches every figure, with every set.",
            find_budget_with_share_for_figures(requests)
        )
    });
    let all = [robust, by_runs, not_reached, for_all];
    all.into_iter().flatten().collect()
}

/// How figures of little effect were varied together, behind a blank; empty where none were. No other sets run with such
/// figures, however many requests are left.
fn joined_figures_sentence(sensitivity: &Sensitivity) -> String {
    let together = count_figures(sensitivity, |figure| figure.together);
    let nearest = count_figures(sensitivity, |one| one.together && one.with_nearest_only);
    let sets = match nearest {
        0 => String::new(),
        all if all == together => ", and only with the answer and the set nearest to it".to_owned(),
        some => format!(", {some} of them only with the answer and the set nearest to it"),
    };
    match together {
        0 => String::new(),
        _ => format!(" Those of little effect, {together}, were varied together{sets}."),
    }
}

fn count_figures(sensitivity: &Sensitivity, is_counted: impl Fn(&VariedFigure) -> bool) -> u64 {
    let figures = sensitivity.figures.iter();
    figures.filter(|figure| is_counted(figure)).count() as u64
}

/// Writes which assumed figures would change the answer.
fn write_sensitivity(out: &mut Screen, sensitivity: &Sensitivity) -> anyhow::Result<()> {
    match sensitivity_table(sensitivity) {
        Some(table) => table.write_with_title(out)?,
        None => writeln!(out)?,
    }
    for sentence in sensitivity_sentences(sensitivity) {
        out.write_folded(&sentence, 2)?;
    }
    Ok(())
}

fn write_daily_costs(out: &mut Screen, days: &DayCosts) -> anyhow::Result<()> {
    writeln!(out)?;
    writeln!(
        out,
        "A day in force: {}.",
        daily_cost_in_words(&days.in_force)
    )?;
    if let Some(best) = &days.best {
        writeln!(out, "A day with the answer: {}.", daily_cost_in_words(best))?;
    }
    Ok(())
}

fn daily_cost_in_words(day: &DayCost) -> String {
    let price = day.price_per_year.map(|price| {
        format!(
            "{} kWh and {price:.2} per year",
            format_three_digits(day.kwh_per_year())
        )
    });
    let battery = day
        .battery_hours
        .map(|hours| format!("{hours:.1} hours on the battery"));
    let energy = format!("{} Wh", format_three_digits(day.wh));
    let parts: Vec<String> = [Some(energy), price, battery]
        .into_iter()
        .flatten()
        .collect();
    parts.join(", ")
}

/// What was simulated, and how to get the same answer again.
pub(super) fn effort_sentence(request: &SearchRequest, answer: &SearchAnswer) -> String {
    match answer.origin {
        AnswerOrigin::Recording => {
            return format!(
                "Tried {} of {}. {}{} blocks of time give the intervals; waits are of the whole recording. The load is as \
                 recorded: it does not wait for a slower drive.",
                answer.tried,
                count_with_noun(answer.space as u64, "table"),
                describe_replays_within_budget(answer, "requests"),
                answer.repeats
            );
        }
        AnswerOrigin::RecordedIdle => {
            return format!(
                "Replayed {} of {} on recorded idle periods. {}{} blocks of time give the intervals. The load is as recorded: \
                 it does not answer to faster or slower service, and hours beyond the recordings' are left out.",
                answer.tried,
                count_with_noun(answer.space as u64, "set"),
                describe_replays_within_budget(answer, "events"),
                answer.repeats
            );
        }
        AnswerOrigin::Simulation | AnswerOrigin::Measurement => {}
    }
    let searched = describe_search(request, answer);
    if answer.origin == AnswerOrigin::Measurement {
        return format!(
            "Measured {} and what is in force, interleaved, {} times each. A simulated search chose them. {searched}",
            count_with_noun(
                answer.next.len() as u64 + u64::from(changes_something(answer)),
                "set"
            ),
            answer.repeats,
        );
    }
    searched
}

/// What a budget left out of recordings, and how to get the answer again; empty where everything was replayed.
fn describe_replays_within_budget(answer: &SearchAnswer, unit: &str) -> String {
    if answer.is_exhaustive {
        return String::new();
    }
    format!(
        "The budget left out the others: {} {unit} were replayed. `--budget {} --seed {}` gives the same answer anywhere. ",
        answer.simulated, answer.budget, answer.seed
    )
}

/// Whether an answer is a set that changes something.
fn changes_something(answer: &SearchAnswer) -> bool {
    let best = answer.best.as_ref();
    best.is_some_and(|best| !best.changes_nothing())
}

/// How a search went, and how to get it again.
fn describe_search(request: &SearchRequest, answer: &SearchAnswer) -> String {
    let how = if answer.is_exhaustive {
        "every set"
    } else {
        "by halving and steps to neighbours"
    };
    format!(
        "Tried {} of {} ({how}){}. Simulated {} requests; `--budget {} --seed {}` gives the same {} anywhere.",
        answer.tried,
        count_with_noun(answer.space as u64, "set"),
        match answer.origin {
            AnswerOrigin::Measurement => String::new(),
            _ => format!("; {} fresh seeds decide", answer.repeats),
        },
        answer.simulated,
        request.budget,
        answer.seed,
        match answer.origin {
            AnswerOrigin::Measurement => "prediction",
            _ => "answer",
        }
    )
}

/// Writes CSV with a row for each finalist, with the metrics of each load.
pub(super) fn write_finalists_as_csv(
    out: &mut Screen,
    answer: &SearchAnswer,
) -> anyhow::Result<()> {
    let columns = load_and_metric_columns(answer);
    let mut header = vec![
        "set".to_owned(),
        answer.objective.clone(),
        "low".to_owned(),
        "high".to_owned(),
        "better_by_percent".to_owned(),
        "conditions".to_owned(),
    ];
    header.extend(
        columns
            .iter()
            .map(|(load, metric)| format!("{load}:{metric}")),
    );
    let rows = best_next_and_in_force(answer).map(|finalist| {
        let [low, high] = finalist
            .interval
            .map_or([String::new(), String::new()], |interval| {
                interval.map(|value| value.to_string())
            });
        let mut row = vec![
            finalist.set.clone(),
            finalist.objective.to_string(),
            low,
            high,
            finalist
                .gain
                .map_or_else(String::new, |gain| gain.percent.to_string()),
            kept_perhaps_or_broken(finalist).to_owned(),
        ];
        row.extend(columns.iter().map(|(load, metric)| {
            metric_value_under_load(finalist, load, metric)
                .map_or_else(String::new, |value| value.to_string())
        }));
        row
    });
    output::write_csv(out, &header, rows)
}

/// The finalists to list: the answer, the next best, and the policies in force, each once.
pub(super) fn best_next_and_in_force(answer: &SearchAnswer) -> impl Iterator<Item = &Finalist> {
    let is_in_force = |finalist: &&Finalist| !finalist.changes_nothing();
    let best = answer.best.iter().filter(is_in_force);
    best.chain(&answer.next).chain([&answer.in_force])
}

/// Columns for finalists: each load with each metric that is the objective or is usually asked for.
fn load_and_metric_columns(answer: &SearchAnswer) -> Vec<(String, String)> {
    let mut columns = Vec::new();
    let finalists = [&answer.in_force]
        .into_iter()
        .chain(best_next_and_in_force(answer));
    for figures in finalists.flat_map(|finalist| &finalist.loads) {
        for (metric, _) in &figures.metrics {
            let is_asked = *metric == answer.objective
                || SHOWN_IN_EACH_LOAD.contains(&metric.as_str())
                || (answer.origin == AnswerOrigin::Recording && metric != "drive_mw");
            let column = (figures.load.clone(), metric.clone());
            if is_asked && !columns.contains(&column) {
                columns.push(column);
            }
        }
    }
    columns
}

fn metric_value_under_load(finalist: &Finalist, load: &str, metric: &str) -> Option<f64> {
    let figures = finalist.loads.iter().find(|figures| figures.load == load)?;
    let (_, value) = figures.metrics.iter().find(|(name, _)| name == metric)?;
    Some(*value)
}

pub(super) fn set_text_or_in_force(finalist: &Finalist) -> String {
    if finalist.changes_nothing() {
        IN_FORCE.to_owned()
    } else {
        finalist.set.clone()
    }
}

fn kept_perhaps_or_broken(finalist: &Finalist) -> &'static str {
    match (
        finalist.keeps_conditions_by_means(),
        finalist.keeps_conditions_by_whole_intervals(),
    ) {
        (_, true) => "kept",
        (true, false) => "perhaps",
        _ => "broken",
    }
}

pub(super) fn title_with_unit(metric: &str, unit: &str) -> String {
    if unit.is_empty() {
        metric.to_owned()
    } else {
        format!("{metric}, {unit}")
    }
}

fn format_with_interval(value: f64, interval: Option<[f64; 2]>) -> String {
    // Waits of a whole recording have no spread, and so no interval to show.
    let spread = interval.filter(|[low, high]| low < high);
    spread.map_or_else(
        || format_three_digits(value),
        |[low, high]| {
            format!(
                "{} ({} to {})",
                format_three_digits(value),
                format_three_digits(low),
                format_three_digits(high)
            )
        },
    )
}

/// A number with three to four digits.
pub(super) fn format_three_digits(value: f64) -> String {
    match value.abs() {
        size if size >= 1000.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sentences about figures that one run of each set judged, each varied together or with the nearest set only, or both.
    fn sentences_about(figures: &[(bool, bool)]) -> String {
        let varied = figures
            .iter()
            .map(|(together, with_nearest_only)| VariedFigure {
                figure: "drive.flush_us".to_owned(),
                assumed: 1.0,
                reason: String::new(),
                range_source: String::new(),
                by_one_run: true,
                with_nearest_only: *with_nearest_only,
                together: *together,
                ends: Vec::new(),
            });
        let sensitivity = Sensitivity {
            figures: varied.collect(),
            not_reached: Vec::new(),
            not_reached_without_effect: 0,
            ordered_by_shortened: None,
            shortened: 1,
            simulated: 0,
            requests_for_all: None,
        };
        sensitivity_sentences(&sensitivity).join(" ")
    }

    #[test]
    fn a_condition_without_an_interval_says_why_nobody_is_sure() {
        let mut kept = KeptCondition {
            condition: "p99_us < 900".to_owned(),
            is_implied: false,
            load: "log".to_owned(),
            value: 9.2,
            interval: None,
            limit: 900.0,
            margin_percent: 99.0,
            is_kept: true,
            is_sure: false,
        };
        assert_eq!(describe_keeping(&kept), "kept; too few requests to be sure");
        kept.interval = Some([8.0, 1_000.0]);
        assert_eq!(describe_keeping(&kept), "perhaps kept");
        kept.is_sure = true;
        assert_eq!(describe_keeping(&kept), "kept");
        kept.is_kept = false;
        assert_eq!(describe_keeping(&kept), "broken");
    }

    #[test]
    fn figures_varied_together_are_not_left_for_want_of_requests() {
        let only_together = sentences_about(&[(true, true), (true, true)]);
        assert!(
            only_together.ends_with(
                "Those of little effect, 2, were varied together, and only with the answer and the set nearest to it."
            ),
            "{only_together}"
        );
        let mixed = sentences_about(&[(true, true), (true, false), (false, true), (false, false)]);
        assert!(
            mixed.ends_with(
                "Those of little effect, 2, were varied together, 1 of them only with the answer and the set nearest to it. For \
                 want of requests, 1 of them ran with the answer and the set nearest to it only."
            ),
            "{mixed}"
        );
        assert!(sentences_about(&[(true, false)]).ends_with("were varied together."));
        let singly = sentences_about(&[(false, true)]);
        assert!(!singly.contains("together"), "{singly}");
        assert!(
            singly.contains(" For want of requests, 1 of them"),
            "{singly}"
        );
    }
}
