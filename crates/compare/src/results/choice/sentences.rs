//! A choice in sentences.

use wakepath_results::Goal;

use super::{Candidate, Choice, Holds, MetricFigure};
use crate::Metric;
use crate::figure::{Unit, doubt, percent as percent_text};

/// Of more workloads than this only the mean and both ends are said.
const MAX_WORKLOADS: usize = 4;

impl Choice {
    /// Says anew what the candidates are.
    pub(super) fn say(&mut self) {
        let mut sentences = Vec::new();
        if let Some(first) = self.candidates.first() {
            sentences.push(self.answer(first));
            let next = self.candidates.get(1);
            let next = next.filter(|next| next.holds == first.holds);
            sentences.extend(next.map(|next| self.next(first, next)));
            if first.holds == Holds::Surely {
                for holds in [Holds::CannotTell, Holds::Fails] {
                    sentences.extend(self.better_but(first, holds));
                }
            }
            sentences.push(format!(
                "Intervals: {} %, of each mean by Student's t, not corrected for the number of policies.",
                self.level * 100.0
            ));
        }
        self.sentences = sentences;
    }

    /// The policies that the sentences name: the answer, then the next one, then better ones that miss.
    pub fn named(&self) -> impl Iterator<Item = &str> {
        let first = self.candidates.first();
        let next = self.candidates.get(1);
        let next = next.filter(|next| first.is_some_and(|first| next.holds == first.holds));
        let sure = first.filter(|first| first.holds == Holds::Surely);
        let better = [Holds::CannotTell, Holds::Fails];
        let better = better.map(|holds| sure.and_then(|first| self.nearest_better(first, holds)));
        let all = [first, next].into_iter().chain(better);
        all.flatten().map(|candidate| candidate.policy.as_str())
    }

    /// The metrics that matter, such as `power and p99 latency`.
    pub(super) fn metrics_in_words(&self) -> String {
        let mut titles: Vec<&str> = Vec::new();
        for metric in &self.metrics {
            if !titles.contains(&&*metric.title) {
                titles.push(&metric.title);
            }
        }
        titles.join(" and ")
    }

    fn about(&self, name: &str) -> Option<&Metric> {
        self.metrics.iter().find(|m| m.name == name)
    }

    fn shown(&self, figure: &MetricFigure) -> String {
        let about = self.about(&figure.metric);
        about.map_or_else(String::new, |metric| {
            let unit = self.digits_of(Unit::of(&metric.unit, figure.mean));
            shown(&unit, figure)
        })
    }

    /// The unit of what is minimised or maximised, for all candidates.
    pub fn unit(&self) -> Unit {
        let values = self.candidates.iter().map(|c| c.value);
        self.digits_of(Unit::of_all(&self.metric.unit, values))
    }

    fn digits_of(&self, unit: Unit) -> Unit {
        if self.assumes_power {
            unit.assumed()
        } else {
            unit
        }
    }

    /// What is minimised or maximised, on each workload or over all of them.
    fn goal(&self, of: &Candidate) -> String {
        let what = &self.metric.title;
        let on = |f: &MetricFigure| format!("{} on {}", self.shown(f), f.load);
        if of.figures.len() <= MAX_WORKLOADS {
            let each: Vec<String> = of.figures.iter().map(on).collect();
            return format!("{what} {}", each.join(", "));
        }
        let by_mean = |a: &&MetricFigure, b: &&MetricFigure| a.mean.total_cmp(&b.mean);
        let ends = [
            of.figures.iter().min_by(by_mean),
            of.figures.iter().max_by(by_mean),
        ];
        let [low, high] = ends.map(|end| end.map_or_else(String::new, on));
        let unit = self.digits_of(Unit::of(&self.metric.unit, of.value));
        format!(
            "{what} {}{} (geometric mean over {} workloads), from {low} to {high}",
            unit.figure(of.value, of.doubt),
            with_space(&unit.name),
            of.figures.len()
        )
    }

    /// The figure that is nearest to a limit or furthest beyond one.
    fn worst(&self, of: &Candidate) -> Option<String> {
        let figure = of.worst.as_ref()?;
        let title = &self.about(&figure.metric)?.title;
        let shown = self.shown(figure);
        Some(format!("{title} {shown} on {}", figure.load))
    }

    fn keep(&self) -> String {
        let all: Vec<String> = self.keep.iter().map(ToString::to_string).collect();
        all.join(" and ")
    }

    fn answer(&self, first: &Candidate) -> String {
        let (policy, goal, keep) = (&first.policy, self.goal(first), self.keep());
        match (first.holds, self.worst(first)) {
            (_, None) => format!("{policy}: {goal}."),
            (Holds::Surely, Some(worst)) => {
                format!("{policy}: {goal}; surely keeps {keep}, at worst {worst}.")
            }
            (_, Some(worst)) => {
                let misses = misses(first);
                format!(
                    "Nothing surely keeps {keep}. Nearest: {policy}, {misses}: {worst}; {goal}."
                )
            }
        }
    }

    /// How much more or less of what is wanted another policy has.
    fn change(&self, first: &Candidate, other: &Candidate) -> String {
        let percent = (other.value / first.value - 1.0) * 100.0;
        format!("{} {} %", self.metric.title, percent_text(percent, 1))
    }

    fn next(&self, first: &Candidate, next: &Candidate) -> String {
        let pairs = || first.figures.iter().zip(&next.figures);
        let overlap = |(a, b): (&MetricFigure, &MetricFigure)| match (a.interval, b.interval) {
            (Some(a), Some(b)) => a[0] <= b[1] && b[0] <= a[1],
            _ => false,
        };
        let apart = if pairs().any(|(a, b)| a.interval.is_none() || b.interval.is_none()) {
            "; too few runs for intervals"
        } else if pairs().all(overlap) {
            "; the intervals overlap"
        } else {
            ""
        };
        format!(
            "Next: {}, {}: {}{apart}.",
            next.policy,
            self.change(first, next),
            self.goal(next)
        )
    }

    /// The nearest of the policies that would be better and do not surely keep the conditions.
    fn nearest_better(&self, first: &Candidate, holds: Holds) -> Option<&Candidate> {
        let better = |c: &&Candidate| match self.goal {
            Goal::Minimise => c.value < first.value,
            Goal::Maximise => c.value > first.value,
        };
        let mut missing = self.candidates.iter().filter(|c| c.holds == holds);
        missing.find(better)
    }

    fn better_but(&self, first: &Candidate, holds: Holds) -> Option<String> {
        let near = self.nearest_better(first, holds)?;
        let worst = self.worst(near)?;
        let says = misses(near);
        let change = self.change(first, near);
        Some(format!(
            "Better, but {says}: {}, {change}, {worst}.",
            near.policy
        ))
    }
}

/// What a policy that does not surely keep the conditions makes of the one that it is furthest from.
fn misses(of: &Candidate) -> String {
    let condition = of.condition.as_ref();
    let condition = condition.map_or_else(String::new, ToString::to_string);
    let by = percent(of.miss_percent);
    match of.holds {
        Holds::Fails => format!("misses {condition} by {by}"),
        _ if of.miss_percent > 0.0 => {
            format!("cannot tell whether it keeps {condition}, which its mean misses by {by}")
        }
        _ => format!("cannot tell whether it keeps {condition}"),
    }
}

/// A share of the limit; that of a limit of 0 is no number to show.
fn percent(of_limit: f64) -> String {
    if of_limit < 1e6 {
        let decimals = usize::from(of_limit < 100.0);
        format!("{of_limit:.decimals$} %")
    } else {
        "far".to_owned()
    }
}

fn with_space(unit: &str) -> String {
    match unit {
        "" => String::new(),
        "1/s" => "/s".to_owned(),
        other => format!(" {other}"),
    }
}

/// A figure with its interval and unit.
fn shown(unit: &Unit, figure: &MetricFigure) -> String {
    let mean = unit.figure(figure.mean, doubt(figure.interval, None));
    let interval = match (figure.interval, figure.runs) {
        (Some(ends), _) => unit.interval(figure.mean, ends),
        (None, 1) => "1 run".to_owned(),
        (None, runs) => format!("{runs} runs"),
    };
    format!("{mean}{} ({interval})", with_space(&unit.name))
}
