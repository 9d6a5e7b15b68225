//! The answer of `wakepath tune` as a page: the answer first, power against latency, and every table.

use std::path::PathBuf;

use anyhow::{Context, bail};
use wakepath_report::html::measurements::{
    AssumedFigure, MeasuredPicture, MeasuredSection, MeasurementPage, PageChoice, PageChoices,
    TradeOffPoint,
};
use wakepath_results::{Goal, LoadCondition, Metric};
use wakepath_tune::{AnswerOrigin, Finalist, SearchAnswer, SearchRequest};

use super::tables::{
    TitledTable, TuneReport, answer_sentence, best_next_and_in_force, condition_table,
    contribution_table, effort_sentence, finalist_table, format_three_digits, load_table,
    prediction_table, sensitivity_sentences, sensitivity_table, set_text_or_in_force,
    title_with_unit,
};
use crate::commands::measure::page::{MADE_BY, write_page};
use crate::new_file;

#[derive(clap::Args)]
pub(super) struct PageArgs {
    /// Write a page with the answer, a picture and every table.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Search for these limits of the first --keep, too, each with the whole budget; the page has a slider for them.
    #[arg(
        long,
        value_name = "LIMIT,...",
        value_delimiter = ',',
        requires = "output",
        allow_negative_numbers = true
    )]
    slider: Vec<f64>,
}

/// The answer for a limit of the first condition.
pub(super) struct AnswerForLimit {
    /// The limit, as the condition has it.
    pub(super) limit: f64,
    /// The answer.
    pub(super) answer: SearchAnswer,
}

impl PageArgs {
    /// Checks the page's place and its limits before anything is searched.
    pub(super) fn check(&self, conditions: &[LoadCondition], force: bool) -> anyhow::Result<()> {
        if let Some(path) = &self.output {
            new_file::check_output_may_be_written(path, force)
                .with_context(|| format!("--output {}", path.display()))?;
        }
        if !self.slider.is_empty() && conditions.is_empty() {
            bail!("--slider: there is no condition to slide; give --keep, such as 'p99_us < 150'");
        }
        if let Some(limit) = self.slider.iter().find(|limit| !limit.is_finite()) {
            bail!("--slider: {limit} is no limit");
        }
        Ok(())
    }

    /// A request for each further limit of the first condition, in order of the limits.
    pub(super) fn requests_for_further_limits(
        &self,
        request: &SearchRequest,
    ) -> Vec<(f64, SearchRequest)> {
        let Some(first) = request.conditions.first() else {
            return Vec::new();
        };
        let mut limits = self.slider.clone();
        limits.sort_by(f64::total_cmp);
        limits.dedup();
        limits.retain(|limit| limit.total_cmp(&first.condition.limit).is_ne());
        let with_limit = limits.into_iter().map(|limit| {
            let mut other = request.clone();
            other.conditions[0].condition.limit = limit;
            (limit, other)
        });
        with_limit.collect()
    }

    /// Whether no further limits are to be searched.
    pub(super) fn requests_no_slider(&self) -> bool {
        self.slider.is_empty()
    }

    /// Writes the page, if one was asked for. `command` gives the same answer again.
    pub(super) fn write(
        &self,
        request: &SearchRequest,
        report: &TuneReport<'_>,
        further: &[AnswerForLimit],
        command: &str,
        force: bool,
    ) -> anyhow::Result<()> {
        match &self.output {
            Some(path) => write_page(
                path,
                force,
                &compose_page(request, report, further, command),
            ),
            None => Ok(()),
        }
    }
}

fn compose_page(
    request: &SearchRequest,
    report: &TuneReport<'_>,
    further: &[AnswerForLimit],
    command: &str,
) -> MeasurementPage {
    let answer = report.answer;
    let trade_off = draw_trade_off(request, answer, further);
    let finalists = finalist_table(answer);
    let sensitivity = report.sensitivity;
    let tables = [
        Some(load_table(answer)),
        condition_table(answer),
        contribution_table(answer),
        sensitivity.and_then(sensitivity_table),
        report.prediction.and_then(prediction_table),
    ];
    let mut sections = vec![MeasuredSection {
        title: finalists.title.clone(),
        note: match &trade_off {
            Some(_) => "No set beats those on the line in both quantities.".to_owned(),
            None => String::new(),
        },
        picture: trade_off,
        head: finalists.head,
        rows: finalists.rows,
    }];
    sections.extend(tables.into_iter().flatten().map(section_with_table));
    let mut answers = vec![answer_sentence(report.machine, answer)];
    answers.extend(sensitivity.into_iter().flat_map(sensitivity_sentences));
    let steps = report.steps.as_ref();
    let shell_text = steps.map(|steps| steps.shell_commands(None));
    let mut commands: Vec<String> = shell_text
        .iter()
        .flat_map(|text| text.lines())
        .map(|line| line.trim().to_owned())
        .collect();
    if let Some(text) = steps.and_then(|steps| steps.daemon_toml.as_ref()) {
        commands.push("# daemon.toml:".to_owned());
        commands.extend(
            text.lines()
                .map(|line| format!("# {line}").trim_end().to_owned()),
        );
    }
    commands.push("# The same question again:".to_owned());
    commands.push(command.to_owned());
    MeasurementPage {
        title: format!("Best settings on {}", report.machine),
        facts: list_facts(request),
        cautions: vec![
            match answer.origin {
                AnswerOrigin::Simulation => {
                    "This is a prediction by simulation. Measure the answer before you keep it."
                }
                AnswerOrigin::Measurement => "Measured on this machine. A simulated search chose the sets.",
                AnswerOrigin::RecordedIdle => {
                    "This is a prediction: recorded idle periods under other governors. Measure the answer before you keep it."
                }
                AnswerOrigin::Recording => {
                    "This is a prediction: recorded I/O on a modelled drive. Measure the answer before you keep it."
                }
            }
            .to_owned(),
            effort_sentence(request, answer),
        ]
        .into_iter()
        .chain(answer.notes.iter().cloned())
        .collect(),
        is_prediction: answer.origin != AnswerOrigin::Measurement,
        subject: String::new(),
        answers,
        choices: compose_choices(request, report, further),
        sections,
        assumed: sensitivity
            .into_iter()
            .flat_map(|sensitivity| &sensitivity.figures)
            .map(|figure| AssumedFigure {
                key: figure.figure.clone(),
                value: format_three_digits(figure.assumed),
                origin: figure
                    .ends
                    .iter()
                    .map(|end| format_three_digits(end.value))
                    .collect::<Vec<_>>()
                    .join(" to "),
                why: format!("{}; range: {}", figure.reason, figure.range_source),
            })
            .collect(),
        commands,
        made_by: MADE_BY.to_owned(),
    }
}

/// The question of a search in words: loads with their hours, then what is wanted, then each condition.
fn list_facts(request: &SearchRequest) -> Vec<String> {
    let loads = request
        .loads
        .iter()
        .map(|load| format!("{} {} h a day", load.name, format_three_digits(load.hours)));
    let wanted = match request.objective.goal {
        Goal::Minimise => "least",
        Goal::Maximise => "most",
    };
    loads
        .chain([format!("{wanted} {}", request.objective.metric.name)])
        .chain(request.conditions.iter().map(ToString::to_string))
        .collect()
}

fn section_with_table(table: TitledTable) -> MeasuredSection {
    MeasuredSection {
        title: table.title,
        head: table.head,
        rows: table.rows,
        ..MeasuredSection::default()
    }
}

/// The positions of the slider: each limit that was searched, with its answer. None for a single limit.
fn compose_choices(
    request: &SearchRequest,
    report: &TuneReport<'_>,
    further: &[AnswerForLimit],
) -> PageChoices {
    let Some(first) = request.conditions.first().filter(|_| !further.is_empty()) else {
        return PageChoices::default();
    };
    let own = first.condition.limit;
    let mut all: Vec<(f64, &SearchAnswer)> = further
        .iter()
        .map(|searched| (searched.limit, &searched.answer))
        .chain([(own, report.answer)])
        .collect();
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    let choices = all.iter().map(|(limit, answer)| {
        let table = finalist_table(answer);
        PageChoice {
            label: if first.is_relative {
                format!("{limit:+} %")
            } else {
                limit.to_string()
            },
            answers: vec![answer_sentence(report.machine, answer)],
            head: table.head,
            rows: table.rows,
        }
    });
    PageChoices {
        title: format!("Limit of {}", metric_title(&first.condition.metric)),
        choices: choices.collect(),
        first: all
            .iter()
            .position(|(limit, _)| limit.total_cmp(&own).is_eq())
            .unwrap_or(0),
    }
}

/// The finalists of all limits as points: the objective against the metric of the first condition. `None` without a
/// condition.
fn draw_trade_off(
    request: &SearchRequest,
    answer: &SearchAnswer,
    further: &[AnswerForLimit],
) -> Option<MeasuredPicture> {
    let condition = request.conditions.first()?;
    let more_is_better = !condition.condition.below;
    let answers = [answer]
        .into_iter()
        .chain(further.iter().map(|searched| &searched.answer));
    let mut points: Vec<TradeOffPoint> = Vec::new();
    for finalist in answers.flat_map(best_next_and_in_force) {
        let name = set_text_or_in_force(finalist);
        let known = points.iter().any(|point| point.name == name);
        if let (Some(x), false) = (
            worst_value_of_first_condition(finalist, more_is_better),
            known,
        ) {
            let best = answer.best.as_ref();
            points.push(TradeOffPoint {
                is_answer: best.is_some_and(|best| best.set == finalist.set),
                name,
                x,
                y: finalist.objective,
            });
        }
    }
    (!points.is_empty()).then(|| MeasuredPicture::TradeOff {
        x_title: metric_title(&condition.condition.metric),
        y_title: title_with_unit(&answer.objective, &answer.unit),
        more_is_better: [more_is_better, request.objective.goal == Goal::Maximise],
        points,
    })
}

/// The value of the first condition's metric in the load where it is worst.
fn worst_value_of_first_condition(finalist: &Finalist, more_is_better: bool) -> Option<f64> {
    let first = &finalist.conditions.first()?.condition;
    let kept = finalist.conditions.iter();
    let values = kept
        .filter(|kept| kept.condition == *first)
        .map(|kept| kept.value);
    values.reduce(if more_is_better { f64::min } else { f64::max })
}

fn metric_title(name: &str) -> String {
    title_with_unit(name, Metric::find(name).map_or("", |metric| &*metric.unit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use wakepath_tune::{Budget, SearchObjective};

    fn request(conditions: &[&str]) -> SearchRequest {
        SearchRequest {
            loads: Vec::new(),
            objective: SearchObjective::new("mean_mw", Goal::Minimise).unwrap(),
            conditions: conditions
                .iter()
                .map(|text| text.parse().unwrap())
                .collect(),
            budget: Budget(1),
            seed: 1,
        }
    }

    fn args(slider: &[f64]) -> PageArgs {
        PageArgs {
            output: None,
            slider: slider.to_vec(),
        }
    }

    #[test]
    fn each_further_limit_is_searched_once() {
        let found = args(&[150.0, 100.0, 200.0, 100.0])
            .requests_for_further_limits(&request(&["p99_us < 150", "mean_us < 90"]));
        let limits: Vec<f64> = found.iter().map(|(limit, _)| *limit).collect();
        assert_eq!(limits, [100.0, 200.0]);
        assert_eq!(found[0].1.conditions[0].to_string(), "p99_us < 100");
        assert_eq!(found[0].1.conditions[1].to_string(), "mean_us < 90");
    }

    #[test]
    fn a_slider_needs_a_condition_and_limits() {
        let refused = args(&[1.0]).check(&[], false).unwrap_err().to_string();
        assert!(refused.contains("give --keep"), "{refused}");
        let conditions = request(&["p99_us < 150"]).conditions;
        let refused = args(&[f64::NAN]).check(&conditions, false).unwrap_err();
        assert!(refused.to_string().contains("is no limit"), "{refused}");
        assert!(args(&[1.0]).check(&conditions, false).is_ok());
    }
}
