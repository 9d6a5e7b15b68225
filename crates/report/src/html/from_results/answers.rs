//! Answers to the studies' questions, a sentence each. Questions for the best policy come first.

use wakepath_compare::results::{self, CompareError, Compliance};
use wakepath_results::Question;

use super::super::view::{PageAnswer, PagePolicy, PageRow, Tone, View};
use super::comparison::Compared;
use super::place::Place;

pub(super) fn add_answers(
    view: &mut View,
    places: &[Place<'_>],
    compared: &Compared,
) -> Result<(), CompareError> {
    let mut answers = Vec::new();
    let mut best = Vec::new();
    // With several machines each has its own baseline, and none is general.
    let mut baselines = (0..view.policies.len()).filter(|p| view.policies[*p].baseline);
    let general = baselines.next().filter(|_| baselines.next().is_none());
    for (index, place) in places.iter().enumerate() {
        for question in &place.reader.document().questions {
            if question.goal.is_some() {
                let found = compared.answers(view, index, question);
                if found.is_empty() {
                    best.push(PageAnswer {
                        question: question.ask.clone(),
                        sentence: "These results do not say.".to_owned(),
                        ..PageAnswer::default()
                    });
                }
                best.extend(
                    found
                        .into_iter()
                        .map(|found| answer_best_policy(view, found)),
                );
                continue;
            }
            let named = question.baseline.as_deref();
            let own = named.and_then(|name| Some((name, *place.policies.get(name)?)));
            answers.push(match own.filter(|(_, policy)| Some(*policy) != general) {
                None => answer_question(view, place, question, general, &view.rows),
                Some((name, policy)) => {
                    let rows = compared.with_baseline(view, index, question, name)?;
                    answer_question(view, place, question, Some(policy), &rows)
                }
            });
        }
    }
    best.append(&mut answers);
    if best.is_empty() {
        // Without questions each metric still deserves a sentence.
        best.extend((0..view.metrics.len()).map(|metric| {
            let asked = format!("What changes in {}?", view.metrics[metric].title);
            let rows = view.rows.iter().filter(|r| r.metric == metric);
            answer_sentence(view, asked, general, rows.collect())
        }));
    }
    view.answers = best;
    Ok(())
}

/// The answer to a question for the best policy.
fn answer_best_policy(view: &View, found: results::Answer) -> PageAnswer {
    let mut sentences = found.sentences.into_iter();
    let sentence = sentences.next().unwrap_or_default();
    let mut details: Vec<String> = sentences.collect();
    let first = found.choice.as_ref().and_then(|c| c.candidates.first());
    let policy = first.and_then(|c| view.policies.iter().find(|p| p.name == c.policy));
    if let Some(policy) = policy.filter(|policy| !names_all_settings(policy)) {
        let settings: Vec<String> = policy
            .settings
            .iter()
            .map(|(key, value)| format!("{key} {value}"))
            .collect();
        details.push(format!("{}: {}.", policy.name, settings.join(", ")));
    }
    let named = found
        .choice
        .iter()
        .flat_map(results::Choice::policies_in_sentences);
    let policies = named.filter_map(|name| view.policies.iter().position(|p| p.name == name));
    PageAnswer {
        question: found.question,
        sentence,
        details,
        policies: policies.collect(),
        tone: match first.map(|c| c.holds) {
            Some(Compliance::Surely) => Tone::Better,
            Some(Compliance::Fails) => Tone::Worse,
            Some(Compliance::CannotTell) | None => Tone::Open,
        },
    }
}

/// Whether a policy's name has the values of all settings.
fn names_all_settings(policy: &PagePolicy) -> bool {
    let mut settings = policy.settings.iter();
    settings.all(|(_, value)| policy.name.contains(value))
}

/// The answer to a question, from comparisons with `baseline`.
fn answer_question(
    view: &View,
    place: &Place<'_>,
    question: &Question,
    baseline: Option<usize>,
    rows: &[PageRow],
) -> PageAnswer {
    let metric = view.metrics.iter().position(|m| m.name == question.metric);
    let asked = rows.iter().filter(|row| {
        Some(row.metric) == metric
            && asks_about_policy(question, place, row.policy)
            && asks_about_load(question, place, row.workload)
    });
    answer_sentence(view, question.ask.clone(), baseline, asked.collect())
}

/// Whether a question includes a workload of the view. Workloads of other results have no name in this place: only a
/// question without names includes them.
fn asks_about_load(question: &Question, place: &Place<'_>, index: usize) -> bool {
    let mut loads = place.workloads.iter();
    match loads.find(|(_, workload)| **workload == index) {
        Some(((machine, name), _)) => {
            question.includes_machine(machine) && question.includes_workload(name)
        }
        None => question.machines.is_empty() && question.workloads.is_empty(),
    }
}

/// Whether a question includes a policy of the view, as [`asks_about_load`] does for workloads.
fn asks_about_policy(question: &Question, place: &Place<'_>, index: usize) -> bool {
    let mut policies = place.policies.iter();
    match policies.find(|(_, policy)| **policy == index) {
        Some((name, _)) => question.includes_policy(name),
        None => question.policies.is_empty(),
    }
}

fn answer_sentence(
    view: &View,
    question: String,
    baseline: Option<usize>,
    rows: Vec<&PageRow>,
) -> PageAnswer {
    let rows: Vec<&PageRow> = rows
        .into_iter()
        .filter(|r| match baseline {
            Some(baseline) => r.policy != baseline,
            None => !view.policies[r.policy].baseline,
        })
        .collect();
    let baseline = baseline
        .and_then(|index| view.policies.get(index))
        .map_or(view.baseline_name(), |p| p.name.as_str());
    let mut workloads: Vec<usize> = rows.iter().map(|r| r.workload).collect();
    workloads.dedup();
    let best: Vec<Option<&PageRow>> = workloads.iter().map(|w| best_row(&rows, *w)).collect();
    let (sentence, tone) = if rows.is_empty() {
        ("These results do not say.".to_owned(), Tone::Open)
    } else {
        let (sentence, tone) = summarise_metric(view, baseline, &rows, &best);
        (sentence + &surely_worse(view, &rows), tone)
    };
    let mut policies: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    policies.dedup();
    let listed = &workloads[..workloads.len().min(MAX_WORKLOADS)];
    let mut details: Vec<String> = listed
        .iter()
        .map(|workload| {
            let on_workload = rows.iter().copied().filter(|r| r.workload == *workload);
            let verdicts = list_verdicts(view, on_workload.collect());
            format!("{}: {verdicts}", view.workloads[*workload].name)
        })
        .collect();
    if workloads.len() > listed.len() {
        let more = workloads.len() - listed.len();
        details.push(format!(
            "And {more} more workloads: `wakepath compare` has all."
        ));
    }
    PageAnswer {
        question,
        sentence,
        details,
        policies,
        tone,
    }
}

/// Most workloads in the details: nobody reads more.
const MAX_WORKLOADS: usize = 50;

/// Most policies for each workload in the details.
const MAX_POLICIES: usize = 20;

/// Verdicts on a workload's policies. If there are too many, the policies with the largest gains remain.
fn list_verdicts(view: &View, mut rows: Vec<&PageRow>) -> String {
    let more = rows.len().saturating_sub(MAX_POLICIES);
    if more > 0 {
        rows.sort_by(|a, b| b.gain_percent().total_cmp(&a.gain_percent()));
        rows.truncate(MAX_POLICIES);
    }
    let mut verdicts: Vec<String> = rows
        .iter()
        .map(|r| format!("{}: {}", view.policies[r.policy].name, r.verdict))
        .collect();
    if more > 0 {
        verdicts.push(format!(
            "and {more} more that gain less (`wakepath compare` has all)"
        ));
    }
    verdicts.join("; ")
}

/// The surely better policy with the largest gain on a workload.
fn best_row<'a>(rows: &[&'a PageRow], workload: usize) -> Option<&'a PageRow> {
    let better = rows
        .iter()
        .filter(|r| r.workload == workload && r.tone == Tone::Better);
    // Among equals the first wins.
    better
        .copied()
        .rev()
        .max_by(|a, b| a.gain_percent().total_cmp(&b.gain_percent()))
}

/// What the best policies on each workload say together.
fn summarise_metric(
    view: &View,
    baseline: &str,
    rows: &[&PageRow],
    best: &[Option<&PageRow>],
) -> (String, Tone) {
    let mut winners: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    winners.sort_unstable();
    winners.dedup();
    match winners[..] {
        [] => none_is_better(baseline, rows),
        [winner] => (one_is_better(view, baseline, winner, best), Tone::Better),
        _ => (
            several_are_better(view, baseline, &winners, best),
            Tone::Better,
        ),
    }
}

/// The names of the workloads on which a policy wins.
fn won_workloads<'a>(view: &'a View, winner: usize, best: &[Option<&PageRow>]) -> Vec<&'a str> {
    let won = best.iter().flatten().filter(|r| r.policy == winner);
    won.map(|r| view.workloads[r.workload].name.as_str())
        .collect()
}

fn one_is_better(view: &View, baseline: &str, winner: usize, best: &[Option<&PageRow>]) -> String {
    let all = best.len();
    let workloads = won_workloads(view, winner, best);
    let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
    for [from, to] in best.iter().flatten().filter_map(|row| row.gain?.interval) {
        low = low.min(from);
        high = high.max(to);
    }
    let place = match (all, workloads.len()) {
        (1, _) => String::new(),
        (2, 2) => " on both workloads".to_owned(),
        (_, count) if count == all => format!(" on all {all} workloads"),
        (_, 1) => format!(" on {}", workloads.concat()),
        (_, count) => format!(" on {count} of {all} workloads"),
    };
    let elsewhere = if workloads.len() < all {
        format!("; elsewhere nothing is surely better than {baseline}")
    } else {
        String::new()
    };
    format!(
        "{}{place}: better than {baseline} by {} %{elsewhere}.",
        view.policies[winner].name,
        wakepath_compare::format_percent_range([low, high])
    )
}

fn several_are_better(
    view: &View,
    baseline: &str,
    winners: &[usize],
    best: &[Option<&PageRow>],
) -> String {
    let mut clauses: Vec<String> = winners
        .iter()
        .map(|winner| {
            let workloads = won_workloads(view, *winner, best);
            let place = if workloads.len() > 3 {
                format!("{} workloads", workloads.len())
            } else {
                workloads.join(", ")
            };
            format!("{} on {place}", view.policies[*winner].name)
        })
        .collect();
    let nowhere = best.iter().filter(|b| b.is_none()).count();
    if nowhere > 0 {
        clauses.push(format!(
            "on {nowhere} nothing is surely better than {baseline}"
        ));
    }
    format!("It depends on the workload: {}.", clauses.join("; "))
}

/// Policies that surely lose on every workload, in the order of the view; nothing if all policies do, or none.
fn surely_worse(view: &View, rows: &[&PageRow]) -> String {
    const MOST_NAMES: usize = 6;
    let mut policies: Vec<usize> = rows.iter().map(|row| row.policy).collect();
    policies.sort_unstable();
    policies.dedup();
    let count = policies.len();
    policies.retain(|policy| {
        let mut policy_rows = rows.iter().filter(|row| row.policy == *policy);
        policy_rows.all(|row| row.tone == Tone::Worse)
    });
    if policies.len() == count {
        return String::new();
    }
    let more = policies.len().saturating_sub(MOST_NAMES);
    let mut names: Vec<String> = policies
        .iter()
        .take(MOST_NAMES)
        .map(|policy| view.policies[*policy].name.clone())
        .collect();
    if more > 0 {
        names.push(format!("{more} more"));
    }
    if names.is_empty() {
        return String::new();
    }
    format!(" Surely worse: {}.", names.join(", "))
}

fn none_is_better(baseline: &str, rows: &[&PageRow]) -> (String, Tone) {
    let all = rows.len();
    let [worse, same, open] = [Tone::Worse, Tone::Same, Tone::Open]
        .map(|tone| rows.iter().filter(|r| r.tone == tone).count());
    if worse == all {
        (
            format!("{baseline}: everything else is worse."),
            Tone::Worse,
        )
    } else if open == all {
        (
            format!(
                "Cannot tell whether anything is better than {baseline}: {}.",
                name_open_reason(rows)
            ),
            Tone::Open,
        )
    } else if same == all {
        (
            format!("Nothing differs from {baseline} by as much as matters."),
            Tone::Same,
        )
    } else {
        let counts = [(worse, "worse"), (same, "no different"), (open, "open")];
        let clauses: Vec<String> = counts
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, outcome)| format!("{count} {outcome}"))
            .collect();
        (
            format!(
                "Nothing is surely better than {baseline}: of {all} comparisons, {}.",
                clauses.join(", ")
            ),
            if open > 0 { Tone::Open } else { Tone::Same },
        )
    }
}

/// Why nothing can be told, if the reason is always the same.
fn name_open_reason(rows: &[&PageRow]) -> String {
    let reasons: Vec<&str> = rows
        .iter()
        .map(|r| r.verdict.trim_start_matches("cannot tell: "))
        .collect();
    match reasons.first() {
        Some(first) if reasons.iter().all(|r| r == first) => (*first).to_owned(),
        _ => "more runs are needed, see below".to_owned(),
    }
}
