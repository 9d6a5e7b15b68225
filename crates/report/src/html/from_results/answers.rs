//! The questions of the studies, answered in a sentence each: first those that ask for the best policy.

use wakepath_compare::results::{self, CompareError, Compliance};
use wakepath_results::Question;

use super::super::view::{PageAnswer, PagePolicy, PageRow, Tone, View};
use super::Place;
use super::comparison::ComparisonFile;

pub(super) fn add(
    view: &mut View,
    places: &[Place<'_>],
    compared: &ComparisonFile,
) -> Result<(), CompareError> {
    let mut answers = Vec::new();
    let mut best = Vec::new();
    // Of several machines each has its own.
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
                best.extend(found.into_iter().map(|found| best_policy(view, found)));
                continue;
            }
            let own = question.baseline.as_deref();
            let own = own.and_then(|name| Some((name, *place.policies.get(name)?)));
            answers.push(match own.filter(|(_, policy)| Some(*policy) != general) {
                None => answer(view, place, question, general, &view.rows),
                Some((name, policy)) => {
                    let rows = compared.with_baseline(view, index, question, name)?;
                    answer(view, place, question, Some(policy), &rows)
                }
            });
        }
    }
    best.append(&mut answers);
    let mut answers = best;
    if answers.is_empty() {
        // Nobody has asked; what the metrics say is still worth a sentence each.
        answers.extend((0..view.metrics.len()).map(|metric| {
            let asked = format!("What changes in {}?", view.metrics[metric].title);
            let rows = view.rows.iter().filter(|r| r.metric == metric);
            sentence(view, asked, general, rows.collect())
        }));
    }
    view.answers = answers;
    Ok(())
}

/// The answer to a question for the best policy.
fn best_policy(view: &View, found: results::Answer) -> PageAnswer {
    let mut sentences = found.sentences.into_iter();
    let sentence = sentences.next().unwrap_or_default();
    let mut details: Vec<String> = sentences.collect();
    let first = found.choice.as_ref().and_then(|c| c.candidates.first());
    let policy = first.and_then(|c| view.policies.iter().find(|p| p.name == c.policy));
    let says_all = |p: &&PagePolicy| p.settings.iter().all(|(_, value)| p.name.contains(value));
    if let Some(policy) = policy.filter(|p| !says_all(p)) {
        let settings = policy.settings.iter().map(|(k, v)| format!("{k} {v}"));
        let settings: Vec<String> = settings.collect();
        details.push(format!("{}: {}.", policy.name, settings.join(", ")));
    }
    let named = found.choice.iter().flat_map(results::Choice::named);
    let index = |name: &str| view.policies.iter().position(|p| p.name == name);
    PageAnswer {
        question: found.question,
        sentence,
        details,
        policies: named.filter_map(index).collect(),
        tone: match first.map(|c| c.holds) {
            Some(Compliance::Surely) => Tone::Better,
            Some(Compliance::Fails) => Tone::Worse,
            Some(Compliance::CannotTell) | None => Tone::Open,
        },
    }
}

/// The answer to a question, from comparisons with `baseline`.
fn answer(
    view: &View,
    place: &Place<'_>,
    question: &Question,
    baseline: Option<usize>,
    rows: &[PageRow],
) -> PageAnswer {
    let metric = view.metrics.iter().position(|m| m.name == question.metric);
    // What is of other results has no name here, and a question that names something is not about it.
    let is_load = |index: usize| {
        let mut all = place.workloads.iter();
        match all.find(|(_, i)| **i == index) {
            Some(((machine, name), _)) => {
                question.has_machine(machine) && question.has_workload(name)
            }
            None => question.machines.is_empty() && question.workloads.is_empty(),
        }
    };
    let is_policy = |index: usize| {
        let mut all = place.policies.iter();
        match all.find(|(_, i)| **i == index) {
            Some((name, _)) => question.has_policy(name),
            None => question.policies.is_empty(),
        }
    };
    let rows = rows
        .iter()
        .filter(|row| Some(row.metric) == metric && is_policy(row.policy) && is_load(row.workload));
    sentence(view, question.ask.clone(), baseline, rows.collect())
}

fn sentence(
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
    let best: Vec<Option<&PageRow>> = workloads.iter().map(|w| best(&rows, *w)).collect();
    let (sentence, tone) = if rows.is_empty() {
        ("These results do not say.".to_owned(), Tone::Open)
    } else {
        let (sentence, tone) = summary(view, baseline, &rows, &best);
        (sentence + &surely_worse(view, &rows), tone)
    };
    let mut policies: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    policies.dedup();
    let listed = &workloads[..workloads.len().min(MAX_WORKLOADS)];
    let mut details: Vec<String> = listed
        .iter()
        .map(|workload| {
            let of = rows.iter().copied().filter(|r| r.workload == *workload);
            let of = verdicts(view, of.collect());
            format!("{}: {of}", view.workloads[*workload].name)
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

/// Most workloads and policies that the details go through: nobody reads more.
const MAX_WORKLOADS: usize = 50;
const MAX_POLICIES: usize = 20;

/// What is said of each policy on a workload; of too many, of those that gain most.
fn verdicts(view: &View, mut rows: Vec<&PageRow>) -> String {
    let more = rows.len().saturating_sub(MAX_POLICIES);
    if more > 0 {
        rows.sort_by(|a, b| percent(b).total_cmp(&percent(a)));
        rows.truncate(MAX_POLICIES);
    }
    let mut of: Vec<String> = rows
        .iter()
        .map(|r| format!("{}: {}", view.policies[r.policy].name, r.verdict))
        .collect();
    if more > 0 {
        of.push(format!(
            "and {more} more that gain less (`wakepath compare` has all)"
        ));
    }
    of.join("; ")
}

fn percent(row: &PageRow) -> f64 {
    row.gain.map_or(f64::NEG_INFINITY, |g| g.percent)
}

/// The policy that gains most on a workload, of those that gain for sure.
fn best<'a>(rows: &[&'a PageRow], workload: usize) -> Option<&'a PageRow> {
    let better = rows
        .iter()
        .filter(|r| r.workload == workload && r.tone == Tone::Better);
    // Of equals the first.
    better
        .copied()
        .rev()
        .max_by(|a, b| percent(a).total_cmp(&percent(b)))
}

fn summary(
    view: &View,
    baseline: &str,
    rows: &[&PageRow],
    best: &[Option<&PageRow>],
) -> (String, Tone) {
    let all = best.len();
    let mut winners: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    winners.sort_unstable();
    winners.dedup();
    let name = |policy: usize| view.policies[policy].name.as_str();
    let on = |policy: usize| best.iter().flatten().filter(move |r| r.policy == policy);
    let nowhere = best.iter().filter(|b| b.is_none()).count();
    match winners[..] {
        [winner] => {
            let count = on(winner).count();
            let ends = on(winner).filter_map(|r| r.gain?.interval);
            let (low, high) = ends.fold(
                (f64::INFINITY, f64::NEG_INFINITY),
                |(low, high), [from, to]| (low.min(from), high.max(to)),
            );
            let place = match (all, count) {
                (1, _) => String::new(),
                (2, 2) => " on both workloads".to_owned(),
                (_, c) if c == all => format!(" on all {all} workloads"),
                (_, 1) => format!(
                    " on {}",
                    on(winner)
                        .map(|r| view.workloads[r.workload].name.as_str())
                        .collect::<String>()
                ),
                _ => format!(" on {count} of {all} workloads"),
            };
            let rest = if nowhere > 0 {
                format!("; elsewhere nothing is surely better than {baseline}")
            } else {
                String::new()
            };
            (
                format!(
                    "{}{place}: better than {baseline} by {} %{rest}.",
                    name(winner),
                    wakepath_compare::range([low, high])
                ),
                Tone::Better,
            )
        }
        [] => none_is_better(baseline, rows),
        _ => {
            let mut clauses: Vec<String> = winners
                .iter()
                .map(|winner| {
                    let on: Vec<&str> = on(*winner)
                        .map(|r| view.workloads[r.workload].name.as_str())
                        .collect();
                    let on = if on.len() > 3 {
                        format!("{} workloads", on.len())
                    } else {
                        on.join(", ")
                    };
                    format!("{} on {on}", name(*winner))
                })
                .collect();
            if nowhere > 0 {
                clauses.push(format!(
                    "on {nowhere} nothing is surely better than {baseline}"
                ));
            }
            (
                format!("It depends on the workload: {}.", clauses.join("; ")),
                Tone::Better,
            )
        }
    }
}

/// The policies that lose for sure on every workload, in the order of the view; nothing if all policies do, or none.
fn surely_worse(view: &View, rows: &[&PageRow]) -> String {
    const MOST_NAMES: usize = 6;
    let loses = |policy: &usize| {
        let mut of = rows.iter().filter(|row| row.policy == *policy);
        of.all(|row| row.tone == Tone::Worse)
    };
    let mut policies: Vec<usize> = rows.iter().map(|row| row.policy).collect();
    policies.sort_unstable();
    policies.dedup();
    if policies.iter().all(loses) {
        return String::new();
    }
    policies.retain(loses);
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
    let count = |tone: Tone| rows.iter().filter(|r| r.tone == tone).count();
    let all = rows.len();
    let (worse, same, open) = (count(Tone::Worse), count(Tone::Same), count(Tone::Open));
    if worse == all {
        (
            format!("{baseline}: everything else is worse."),
            Tone::Worse,
        )
    } else if open == all {
        (
            format!(
                "Cannot tell whether anything is better than {baseline}: {}.",
                reason(rows)
            ),
            Tone::Open,
        )
    } else if same == all {
        (
            format!("Nothing differs from {baseline} by as much as matters."),
            Tone::Same,
        )
    } else {
        let clauses = [(worse, "worse"), (same, "no different"), (open, "open")];
        let clauses: Vec<String> = clauses
            .iter()
            .filter(|(count, _)| *count > 0)
            .map(|(count, what)| format!("{count} {what}"))
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
fn reason(rows: &[&PageRow]) -> String {
    let reasons: Vec<&str> = rows
        .iter()
        .map(|r| r.verdict.trim_start_matches("cannot tell: "))
        .collect();
    match reasons.first() {
        Some(first) if reasons.iter().all(|r| r == first) => (*first).to_owned(),
        _ => "more runs are needed, see below".to_owned(),
    }
}
