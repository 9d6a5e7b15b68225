//! Sentences that explain a choice of a policy.

use wakepath_results::{Goal, Metric};

use super::candidate::{Candidate, Choice, Compliance, MetricFigure};
use crate::figure::{Unit, doubt_about_mean, format_percent, unit_as_suffix};

/// Most workloads that a sentence lists; for more, the sentence gives the mean and both ends.
const MAX_WORKLOADS: usize = 4;

impl Choice {
    /// Writes the sentences of the choice anew from the candidates.
    pub(super) fn update_sentences(&mut self) {
        let mut sentences = Vec::new();
        if let Some(first) = self.candidates.first() {
            sentences.push(self.describe_answer(first));
            let next = self.runner_up(first);
            sentences.extend(next.map(|next| self.describe_runner_up(first, next)));
            if first.holds == Compliance::Surely {
                for holds in [Compliance::CannotTell, Compliance::Fails] {
                    sentences.extend(self.describe_better_but_failing(first, holds));
                }
            }
            sentences.push(format!(
                "Intervals: {} %, of each mean by Student's t, not corrected for the number of policies.",
                self.level * 100.0
            ));
        }
        self.sentences = sentences;
    }

    /// Policies that the sentences name: the chosen one, the next, then better policies that miss a
    /// condition.
    pub fn policies_in_sentences(&self) -> impl Iterator<Item = &str> {
        let first = self.candidates.first();
        let next = first.and_then(|first| self.runner_up(first));
        let sure = first.filter(|first| first.holds == Compliance::Surely);
        let better = [Compliance::CannotTell, Compliance::Fails]
            .map(|holds| sure.and_then(|first| self.next_better_candidate(first, holds)));
        let candidates = [first, next].into_iter().chain(better).flatten();
        candidates.map(|candidate| candidate.policy.as_str())
    }

    /// The second candidate, if it keeps the conditions as the first does.
    fn runner_up(&self, first: &Candidate) -> Option<&Candidate> {
        let second = self.candidates.get(1);
        second.filter(|second| second.holds == first.holds)
    }

    /// Titles of the choice's metrics, joined as in `power and p99 latency`.
    pub(super) fn metrics_in_words(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for metric in &self.metrics {
            if !titles.contains(&&*metric.title) {
                titles.push(&metric.title);
            }
        }
        titles.join(" and ")
    }

    fn find_metric(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }

    fn format_figure(&self, figure: &MetricFigure) -> String {
        let metric = self.find_metric(&figure.metric);
        metric.map_or_else(String::new, |metric| {
            let unit = self.reduce_digits_if_assumed(Unit::for_value(&metric.unit, figure.mean));
            format_figure(&unit, figure)
        })
    }

    /// Unit for the goal's metric, common to all candidates.
    pub fn unit_for_goal(&self) -> Unit {
        let values = self.candidates.iter().map(|c| c.value);
        self.reduce_digits_if_assumed(Unit::for_values(&self.metric.unit, values))
    }

    fn reduce_digits_if_assumed(&self, unit: Unit) -> Unit {
        if self.assumes_power {
            unit.for_assumed_power()
        } else {
            unit
        }
    }

    /// Says the value of the goal's metric, on each workload or over all workloads.
    fn describe_goal_value(&self, candidate: &Candidate) -> String {
        let title = &self.metric.title;
        let figures = candidate.figures.iter();
        if figures.len() <= MAX_WORKLOADS {
            let each: Vec<String> = figures
                .map(|figure| self.format_figure_on_load(figure))
                .collect();
            return format!("{title} {}", each.join(", "));
        }
        let ends = [
            figures.clone().min_by(|a, b| a.mean.total_cmp(&b.mean)),
            figures.max_by(|a, b| a.mean.total_cmp(&b.mean)),
        ];
        let [low, high] =
            ends.map(|end| end.map_or_else(String::new, |end| self.format_figure_on_load(end)));
        let unit =
            self.reduce_digits_if_assumed(Unit::for_value(&self.metric.unit, candidate.value));
        format!(
            "{title} {}{} (geometric mean over {} workloads), from {low} to {high}",
            unit.format_figure(candidate.value, candidate.doubt),
            unit_as_suffix(&unit.name),
            candidate.figures.len()
        )
    }

    /// Says a figure with its workload.
    fn format_figure_on_load(&self, figure: &MetricFigure) -> String {
        format!("{} on {}", self.format_figure(figure), figure.load)
    }

    /// Says the figure that is nearest to a limit or furthest beyond a limit; `None` without
    /// conditions.
    fn describe_worst_figure(&self, candidate: &Candidate) -> Option<String> {
        let figure = candidate.worst.as_ref()?;
        let title = &self.find_metric(&figure.metric)?.title;
        Some(format!("{title} {}", self.format_figure_on_load(figure)))
    }

    fn describe_conditions(&self) -> String {
        let all: Vec<String> = self.keep.iter().map(ToString::to_string).collect();
        all.join(" and ")
    }

    fn describe_answer(&self, first: &Candidate) -> String {
        let (policy, goal, keep) = (
            &first.policy,
            self.describe_goal_value(first),
            self.describe_conditions(),
        );
        match (first.holds, self.describe_worst_figure(first)) {
            (_, None) => format!("{policy}: {goal}."),
            (Compliance::Surely, Some(worst)) => {
                format!("{policy}: {goal}; surely keeps {keep}, at worst {worst}.")
            }
            (_, Some(worst)) => {
                let misses = describe_worst_condition(first);
                format!(
                    "Nothing surely keeps {keep}. Nearest: {policy}, {misses}: {worst}; {goal}."
                )
            }
        }
    }

    /// Says how much more or less another policy has of the goal's metric than the first.
    fn describe_change(&self, first: &Candidate, other: &Candidate) -> String {
        let percent = (other.value / first.value - 1.0) * 100.0;
        format!("{} {} %", self.metric.title, format_percent(percent, 1))
    }

    fn describe_runner_up(&self, first: &Candidate, runner_up: &Candidate) -> String {
        let pairs = first.figures.iter().zip(&runner_up.figures);
        let overlaps: Option<Vec<bool>> = pairs
            .map(|(a, b)| Some(intervals_overlap(a.interval?, b.interval?)))
            .collect();
        let apart = match overlaps {
            None => "; too few runs for intervals",
            Some(overlaps) if overlaps.iter().all(|overlap| *overlap) => "; the intervals overlap",
            Some(_) => "",
        };
        format!(
            "Next: {}, {}: {}{apart}.",
            runner_up.policy,
            self.describe_change(first, runner_up),
            self.describe_goal_value(runner_up)
        )
    }

    /// The most preferred candidate with this compliance that is better by the goal than the first.
    fn next_better_candidate(&self, first: &Candidate, holds: Compliance) -> Option<&Candidate> {
        let mut missing = self.candidates.iter().filter(|c| c.holds == holds);
        missing.find(|candidate| match self.goal {
            Goal::Minimise => candidate.value < first.value,
            Goal::Maximise => candidate.value > first.value,
        })
    }

    fn describe_better_but_failing(&self, first: &Candidate, holds: Compliance) -> Option<String> {
        let near = self.next_better_candidate(first, holds)?;
        let worst = self.describe_worst_figure(near)?;
        let says = describe_worst_condition(near);
        let change = self.describe_change(first, near);
        Some(format!(
            "Better, but {says}: {}, {change}, {worst}.",
            near.policy
        ))
    }
}

fn intervals_overlap(a: [f64; 2], b: [f64; 2]) -> bool {
    a[0] <= b[1] && b[0] <= a[1]
}

/// Says how a policy misses its worst condition.
fn describe_worst_condition(candidate: &Candidate) -> String {
    let worst = candidate.condition.as_ref();
    let condition = worst.map_or_else(String::new, ToString::to_string);
    let by = format_percent_of_limit(candidate.miss_percent);
    match candidate.holds {
        Compliance::Fails => format!("misses {condition} by {by}"),
        _ if candidate.miss_percent > 0.0 => {
            format!("cannot tell whether it keeps {condition}, which its mean misses by {by}")
        }
        _ => format!("cannot tell whether it keeps {condition}"),
    }
}

/// Formats a percentage of a limit; "far" if the limit is 0.
fn format_percent_of_limit(of_limit: f64) -> String {
    if of_limit < 1e6 {
        let decimals = usize::from(of_limit < 100.0);
        format!("{of_limit:.decimals$} %")
    } else {
        "far".to_owned()
    }
}

/// Formats a figure with its interval and unit.
fn format_figure(unit: &Unit, figure: &MetricFigure) -> String {
    let mean = unit.format_figure(figure.mean, doubt_about_mean(figure.interval, None));
    let interval = match (figure.interval, figure.runs) {
        (Some(ends), _) => unit.format_interval(figure.mean, ends),
        (None, 1) => "1 run".to_owned(),
        (None, runs) => format!("{runs} runs"),
    };
    format!("{mean}{} ({interval})", unit_as_suffix(&unit.name))
}
