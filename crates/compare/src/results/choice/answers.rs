//! The questions of studies that have a goal, answered.

use serde::Serialize;
use wakepath_results::{Goal, Question};

use super::{Among, Choice, Objective, choose, front};
use crate::results::{CompareError, Comparison, Load, Source, policy_name};

/// Most policies of a front that a sentence names.
const MAX_LISTED: usize = 10;

/// A question that names a goal, with its answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The question in words.
    pub question: String,
    /// The answer; none where the results do not say.
    pub choice: Option<Choice>,
    /// Which policies no other one beats in the metrics of the question; empty if it has only one metric.
    pub front: Vec<String>,
    /// The answer in sentences, or why there is none.
    pub sentences: Vec<String>,
}

/// The answers to all questions of these results that have a goal, in their order. The comparison has to be of these.
pub fn answers(sources: &[Source], comparison: &Comparison) -> Vec<Answer> {
    let asked = sources.iter().enumerate().flat_map(|(index, source)| {
        let questions = source.document.questions.iter();
        questions.flat_map(move |question| answer(sources, index, question, comparison))
    });
    asked.collect()
}

/// The answers to a question of result number `index`, from that result alone: over all its machines, and on each if
/// there are several. A question without a goal has none.
pub fn answer(
    sources: &[Source],
    index: usize,
    question: &Question,
    comparison: &Comparison,
) -> Vec<Answer> {
    let (Some(source), Some(goal)) = (sources.get(index), question.goal) else {
        return Vec::new();
    };
    let document = &source.document;
    let policies = document.policies.iter().map(|p| &p.name);
    let policies = policies.filter(|name| question.has_policy(name));
    let policies: Vec<String> = policies
        .map(|name| policy_name(sources, source, name))
        .collect();
    let asked = document.loads().filter(|(machine, workload)| {
        question.has_machine(&machine.name) && question.has_workload(&workload.name)
    });
    let asked: Vec<_> = asked.collect();
    let mut machines: Vec<&str> = asked.iter().map(|(m, _)| m.name.as_str()).collect();
    machines.dedup();
    // None: on all machines.
    let on = |machine: Option<&str>| {
        let loads = asked
            .iter()
            .filter(|(on, _)| machine.is_none_or(|name| on.name == name));
        let loads = loads.map(|(on, workload)| Load::new(document, &on.name, &workload.name));
        let of = machine.map_or_else(String::new, |name| format!(" ({name})"));
        let among = Among {
            policies: policies.clone(),
            loads: loads.collect(),
        };
        among_these(comparison, question, goal, among, &of)
    };
    match machines[..] {
        [] => Vec::new(),
        [_] if document.machines.len() == 1 => vec![on(None)],
        [only] => vec![on(Some(only))],
        _ => {
            let each = machines.iter().map(|machine| on(Some(machine)));
            std::iter::once(on(None)).chain(each).collect()
        }
    }
}

fn among_these(
    comparison: &Comparison,
    question: &Question,
    goal: Goal,
    among: Among,
    suffix: &str,
) -> Answer {
    let objective = Objective {
        metric: question.metric.clone(),
        goal,
        keep: question.keep.clone(),
        among,
    };
    let mut answer = Answer {
        question: format!("{}{suffix}", question.ask),
        choice: None,
        front: Vec::new(),
        sentences: Vec::new(),
    };
    match choose(comparison, &objective) {
        Ok(choice) => {
            answer.front =
                front_policies(comparison, question, &objective.among).unwrap_or_default();
            answer.choice = Some(choice);
            answer.say();
        }
        Err(error) => answer.sentences = vec![format!("These results do not say: {error}.")],
    }
    answer
}

/// The front in the metrics of a question, if it has several.
fn front_policies(
    comparison: &Comparison,
    question: &Question,
    among: &Among,
) -> Result<Vec<String>, CompareError> {
    let mut metrics: Vec<String> = Vec::new();
    for name in question.metrics() {
        if !metrics.iter().any(|m| m == name) {
            metrics.push(name.to_owned());
        }
    }
    if metrics.len() < 2 {
        return Ok(Vec::new());
    }
    let points = front(comparison, &metrics, among)?;
    let on = points.into_iter().filter(|p| p.on_front);
    Ok(on.map(|p| p.policy).collect())
}

impl Answer {
    /// Calls the policies otherwise.
    pub fn rename(&mut self, name: impl Fn(&str) -> String) {
        for policy in &mut self.front {
            *policy = name(policy);
        }
        if let Some(choice) = &mut self.choice {
            for candidate in &mut choice.candidates {
                candidate.policy = name(&candidate.policy);
            }
            choice.say();
            self.say();
        }
    }

    fn say(&mut self) {
        let choice = self.choice.as_ref();
        self.sentences = choice.map_or_else(Vec::new, |c| c.sentences.clone());
        if self.front.len() > 1 {
            let some = self.front[..self.front.len().min(MAX_LISTED)].join("; ");
            let more = match self.front.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let of = choice.map_or_else(String::new, Choice::metrics_in_words);
            let sentence = format!("On the Pareto front of {of}, by the means: {some}{more}.");
            self.sentences.push(sentence);
        }
    }
}
