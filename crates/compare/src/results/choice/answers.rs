//! Answers to a study's questions that have a goal.

use serde::Serialize;
use wakepath_results::{Document, Goal, Question};

use super::candidate::Choice;
use super::choose::{Objective, choose_policy};
use super::front::find_pareto_front;
use super::subset::Subset;
use crate::results::comparison::Comparison;
use crate::results::error::CompareError;
use crate::results::source::{Load, Source, name_beside_sources};

/// Most policies of a Pareto front that a sentence lists.
const MAX_LISTED: usize = 10;

/// A study's question with a goal, and the answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// The question in words.
    pub question: String,
    /// Choice of a policy; `None` where the results do not say.
    pub choice: Option<Choice>,
    /// Policies on the Pareto front in the metrics of the question; empty if the question has only
    /// one metric.
    pub front: Vec<String>,
    /// Answer in sentences, or why there is none.
    pub sentences: Vec<String>,
}

/// Answers all questions with a goal, in the order of the sources, which the comparison has to
/// cover.
pub fn answer_all_questions(sources: &[Source], comparison: &Comparison) -> Vec<Answer> {
    let answers = sources.iter().enumerate().flat_map(|(index, source)| {
        let questions = source.document.questions.iter();
        questions.flat_map(move |question| answer_question(sources, index, question, comparison))
    });
    answers.collect()
}

/// Answers a question from source number `index` alone: over all machines, and on each machine if
/// there are several. A question without a goal has no answer.
pub fn answer_question(
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
    let policies: Vec<String> = policies
        .filter(|name| question.includes_policy(name))
        .map(|name| name_beside_sources(sources, source, name))
        .collect();
    let mut machines: Vec<&str> = document
        .planned_machine_workload_pairs()
        .filter(|(machine, workload)| {
            question.includes_machine(&machine.name) && question.includes_workload(&workload.name)
        })
        .map(|(machine, _)| machine.name.as_str())
        .collect();
    machines.dedup();
    let scopes: Vec<Option<&str>> = match machines[..] {
        [] => Vec::new(),
        [_] if document.machines.len() == 1 => vec![None],
        [only] => vec![Some(only)],
        _ => [None]
            .into_iter()
            .chain(machines.into_iter().map(Some))
            .collect(),
    };
    let answers = scopes.into_iter().map(|machine| {
        let subset = Subset {
            policies: policies.clone(),
            loads: loads_of_question(document, question, machine),
        };
        let suffix = machine.map_or_else(String::new, |name| format!(" ({name})"));
        answer_for_subset(comparison, question, goal, subset, &suffix)
    });
    answers.collect()
}

/// Loads that a question is about, on one machine or on all machines.
fn loads_of_question(document: &Document, question: &Question, machine: Option<&str>) -> Vec<Load> {
    document
        .planned_machine_workload_pairs()
        .filter(|(on, workload)| {
            question.includes_machine(&on.name) && question.includes_workload(&workload.name)
        })
        .filter(|(on, _)| machine.is_none_or(|name| on.name == name))
        .map(|(on, workload)| Load::new(document, &on.name, &workload.name))
        .collect()
}

fn answer_for_subset(
    comparison: &Comparison,
    question: &Question,
    goal: Goal,
    among: Subset,
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
    match choose_policy(comparison, &objective) {
        Ok(choice) => {
            answer.front =
                policies_on_front(comparison, question, &objective.among).unwrap_or_default();
            answer.choice = Some(choice);
            answer.update_sentences();
        }
        Err(error) => answer.sentences = vec![format!("These results do not say: {error}.")],
    }
    answer
}

/// Policies on the Pareto front in the metrics of a question; none if the question has only one
/// metric.
fn policies_on_front(
    comparison: &Comparison,
    question: &Question,
    among: &Subset,
) -> Result<Vec<String>, CompareError> {
    let mut metrics: Vec<String> = Vec::new();
    for name in question.metric_names() {
        if !metrics.iter().any(|m| m == name) {
            metrics.push(name.to_owned());
        }
    }
    if metrics.len() < 2 {
        return Ok(Vec::new());
    }
    let points = find_pareto_front(comparison, &metrics, among)?.into_iter();
    let on_front = points.filter(|point| point.on_front);
    Ok(on_front.map(|point| point.policy).collect())
}

impl Answer {
    /// Renames the policies in the answer, and writes the sentences anew.
    pub fn rename_policies(&mut self, name: impl Fn(&str) -> String) {
        for policy in &mut self.front {
            *policy = name(policy);
        }
        if let Some(choice) = &mut self.choice {
            for candidate in &mut choice.candidates {
                candidate.policy = name(&candidate.policy);
            }
            choice.update_sentences();
            self.update_sentences();
        }
    }

    fn update_sentences(&mut self) {
        let choice = self.choice.as_ref();
        self.sentences = choice.map_or_else(Vec::new, |c| c.sentences.clone());
        if self.front.len() > 1 {
            let some = self.front[..self.front.len().min(MAX_LISTED)].join("; ");
            let more = match self.front.len().saturating_sub(MAX_LISTED) {
                0 => String::new(),
                more => format!("; and {more} more"),
            };
            let metrics = choice.map_or_else(String::new, Choice::metrics_in_words);
            let sentence = format!("On the Pareto front of {metrics}, by the means: {some}{more}.");
            self.sentences.push(sentence);
        }
    }
}
