//! Answers to the studies' questions, a sentence each. Questions for the best policy come first.

use wakepath_compare::results::{self, CompareError, Compliance};
use wakepath_results::Question;

use super::super::view::{Focus, PageAnswer, PageRow, Tile, Tone, View};
use super::comparison::Compared;
use super::place::PlacedResult;
use super::tiles::{tile_for_best_of_each_workload, tile_for_goal_choice, tile_for_single_winner};

pub(super) fn add_answers_and_focus(
    view: &mut View,
    places: &[PlacedResult<'_>],
    compared: &Compared,
) -> Result<(), CompareError> {
    let mut answers = Vec::new();
    let mut best = Vec::new();
    // A baseline is general if it is the only one: several machines have one each.
    let mut baselines = (0..view.policies.len()).filter(|p| view.policies[*p].baseline);
    let general = baselines.next().filter(|_| baselines.next().is_none());
    for (index, place) in places.iter().enumerate() {
        for question in &place.reader.document().questions {
            if question.goal.is_some() {
                let found = compared.answer_goal_question(view, index, question);
                if found.is_empty() {
                    best.push(PageAnswer {
                        question: question.ask.clone(),
                        sentence: "These results do not say.".to_owned(),
                        ..PageAnswer::default()
                    });
                }
                for found in found {
                    let answer = convert_choice_to_page_answer(view, compared, found);
                    if view.focus.is_none() {
                        view.focus = compared.focus_on_goal_question(
                            view,
                            question,
                            answer.policies.first(),
                        );
                    }
                    best.push(answer);
                }
                continue;
            }
            let named = question.baseline.as_deref();
            let own = named.and_then(|name| Some((name, *place.policies.get(name)?)));
            answers.push(match own.filter(|(_, policy)| Some(*policy) != general) {
                None => answer_from_rows_that_question_asks_for(
                    view, place, question, general, &view.rows,
                ),
                Some((name, policy)) => {
                    let rows = compared.compare_for_question(view, index, question, name)?;
                    answer_from_rows_that_question_asks_for(
                        view,
                        place,
                        question,
                        Some(policy),
                        &rows,
                    )
                }
            });
        }
    }
    best.append(&mut answers);
    if view.focus.is_none() {
        let questions = places
            .iter()
            .flat_map(|place| &place.reader.document().questions);
        let first = questions.into_iter().next();
        view.focus =
            first.and_then(|question| focus_on_question_without_goal(view, question, best.first()));
    }
    if best.is_empty() {
        // Without questions each metric still deserves a sentence.
        best.extend((0..view.metrics.len()).map(|metric| {
            let asked = format!("What changes in {}?", view.metrics[metric].title);
            let rows = view.rows.iter().filter(|r| r.metric == metric);
            build_answer_without_baseline_rows(view, asked, general, rows.collect())
        }));
    }
    view.answers = best;
    Ok(())
}

/// The focus of a question without a goal. A single policy that wins everywhere is the winner.
fn focus_on_question_without_goal(
    view: &View,
    question: &Question,
    answer: Option<&PageAnswer>,
) -> Option<Focus> {
    let metric = view
        .metrics
        .iter()
        .position(|m| m.name == question.metric)?;
    let winner = answer.and_then(|answer| match answer.policies[..] {
        [only] if answer.tone == Tone::Better => Some(only),
        _ => None,
    });
    Some(Focus {
        metric,
        limits: Vec::new(),
        winner,
    })
}

/// The answer to a question for the best policy.
fn convert_choice_to_page_answer(
    view: &View,
    compared: &Compared,
    found: results::Answer,
) -> PageAnswer {
    let mut sentences = found.sentences.into_iter();
    let sentence = sentences.next().unwrap_or_default();
    let mut details: Vec<String> = sentences.collect();
    let first = found.choice.as_ref().and_then(|c| c.candidates.first());
    let policy = first.and_then(|c| view.policies.iter().find(|p| p.name == c.policy));
    if let Some(policy) = policy.filter(|policy| !policy.name_contains_all_setting_values()) {
        details.push(format!("{}: {}.", policy.name, policy.settings_in_words()));
    }
    let choice = found.choice.as_ref();
    let tile = choice.and_then(|choice| tile_for_goal_choice(view, compared, choice));
    let named = found
        .choice
        .iter()
        .flat_map(results::Choice::policies_in_sentences);
    let policies = named.filter_map(|name| view.policies.iter().position(|p| p.name == name));
    PageAnswer {
        question: found.question,
        sentence,
        details,
        tile,
        policies: policies.collect(),
        tone: match first.map(|c| c.holds) {
            Some(Compliance::Surely) => Tone::Better,
            Some(Compliance::Fails) => Tone::Worse,
            Some(Compliance::CannotTell) | None => Tone::Open,
        },
    }
}

/// The answer to a question, from comparisons with `baseline`.
fn answer_from_rows_that_question_asks_for(
    view: &View,
    place: &PlacedResult<'_>,
    question: &Question,
    baseline: Option<usize>,
    rows: &[PageRow],
) -> PageAnswer {
    let metric = view.metrics.iter().position(|m| m.name == question.metric);
    let asked = rows.iter().filter(|row| {
        Some(row.metric) == metric
            && question_includes_policy(question, place, row.policy)
            && question_includes_load(question, place, row.workload)
    });
    build_answer_without_baseline_rows(view, question.ask.clone(), baseline, asked.collect())
}

/// Whether a question includes a workload of the view. Workloads of other results have no name in this place: only a
/// question without names includes them.
fn question_includes_load(question: &Question, place: &PlacedResult<'_>, index: usize) -> bool {
    let mut loads = place.workloads.iter();
    match loads.find(|(_, workload)| **workload == index) {
        Some(((machine, name), _)) => {
            question.includes_machine(machine) && question.includes_workload(name)
        }
        None => question.machines.is_empty() && question.workloads.is_empty(),
    }
}

/// Whether a question includes a policy of the view, as [`question_includes_load`] does for workloads.
fn question_includes_policy(question: &Question, place: &PlacedResult<'_>, index: usize) -> bool {
    let mut policies = place.policies.iter();
    match policies.find(|(_, policy)| **policy == index) {
        Some((name, _)) => question.includes_policy(name),
        None => question.policies.is_empty(),
    }
}

fn build_answer_without_baseline_rows(
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
        .map_or(view.baseline_name_or_phrase(), |p| p.name.as_str());
    let mut workloads: Vec<usize> = rows.iter().map(|r| r.workload).collect();
    workloads.dedup();
    let best: Vec<Option<&PageRow>> = workloads
        .iter()
        .map(|w| row_with_largest_sure_gain_on(&rows, *w))
        .collect();
    let tile = tile_for_sure_winners(view, &rows, &best);
    let (sentence, tone) = if rows.is_empty() {
        ("These results do not say.".to_owned(), Tone::Open)
    } else {
        let (sentence, tone) = summarise_winners(view, baseline, &rows, &best);
        (
            sentence + &name_policies_that_lose_everywhere(view, &rows),
            tone,
        )
    };
    let mut policies: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    policies.dedup();
    let listed = &workloads[..workloads.len().min(MAX_WORKLOADS)];
    let mut details: Vec<String> = listed
        .iter()
        .map(|workload| {
            let on_workload = rows.iter().copied().filter(|r| r.workload == *workload);
            let verdicts = join_verdicts_of_largest_gains(view, on_workload.collect());
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
        tile,
        policies,
        tone,
    }
}

/// The tile of a question without a goal; `None` if no policy is surely better on any workload.
fn tile_for_sure_winners(
    view: &View,
    rows: &[&PageRow],
    best: &[Option<&PageRow>],
) -> Option<Tile> {
    let won: Vec<&PageRow> = best.iter().copied().flatten().collect();
    let first = won.first()?;
    if won.iter().all(|row| row.policy == first.policy) {
        tile_for_single_winner(view, &won, rows)
    } else {
        Some(tile_for_best_of_each_workload(view, &won))
    }
}

/// Most workloads in the details of an answer: nobody reads more.
const MAX_WORKLOADS: usize = 50;

/// Most policies for each workload in the details of an answer.
const MAX_POLICIES: usize = 20;

/// Verdicts on a workload's policies in a line. Beyond [`MAX_POLICIES`] only those with the largest gains are listed.
fn join_verdicts_of_largest_gains(view: &View, mut rows: Vec<&PageRow>) -> String {
    let more = rows.len().saturating_sub(MAX_POLICIES);
    if more > 0 {
        rows.sort_by(|a, b| {
            b.gain_percent_or_lowest()
                .total_cmp(&a.gain_percent_or_lowest())
        });
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
fn row_with_largest_sure_gain_on<'a>(rows: &[&'a PageRow], workload: usize) -> Option<&'a PageRow> {
    let better = rows
        .iter()
        .filter(|r| r.workload == workload && r.tone == Tone::Better);
    // Among equals the first wins.
    better.copied().rev().max_by(|a, b| {
        a.gain_percent_or_lowest()
            .total_cmp(&b.gain_percent_or_lowest())
    })
}

/// An answer in a sentence, from the best policy of each workload; `None` in `best` where nothing is surely better.
fn summarise_winners(
    view: &View,
    baseline: &str,
    rows: &[&PageRow],
    best: &[Option<&PageRow>],
) -> (String, Tone) {
    let mut winners: Vec<usize> = best.iter().flatten().map(|r| r.policy).collect();
    winners.sort_unstable();
    winners.dedup();
    match winners[..] {
        [] => say_no_policy_wins(baseline, rows),
        [winner] => (
            say_one_policy_wins(view, baseline, winner, best),
            Tone::Better,
        ),
        _ => (
            say_winner_depends_on_workload(view, baseline, &winners, best),
            Tone::Better,
        ),
    }
}

/// The names of the workloads on which a policy wins.
fn names_of_won_workloads<'a>(
    view: &'a View,
    winner: usize,
    best: &[Option<&PageRow>],
) -> Vec<&'a str> {
    let won = best.iter().flatten().filter(|r| r.policy == winner);
    won.map(|r| view.workloads[r.workload].name.as_str())
        .collect()
}

fn say_one_policy_wins(
    view: &View,
    baseline: &str,
    winner: usize,
    best: &[Option<&PageRow>],
) -> String {
    let all = best.len();
    let workloads = names_of_won_workloads(view, winner, best);
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

fn say_winner_depends_on_workload(
    view: &View,
    baseline: &str,
    winners: &[usize],
    best: &[Option<&PageRow>],
) -> String {
    let mut clauses: Vec<String> = winners
        .iter()
        .map(|winner| {
            let workloads = names_of_won_workloads(view, *winner, best);
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

/// A sentence that names policies that surely lose on every workload; empty if all policies do, or none.
fn name_policies_that_lose_everywhere(view: &View, rows: &[&PageRow]) -> String {
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

fn say_no_policy_wins(baseline: &str, rows: &[&PageRow]) -> (String, Tone) {
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
                common_reason_or_more_runs_needed(rows)
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

/// Why no comparison has a verdict, if the reason is the same for all.
fn common_reason_or_more_runs_needed(rows: &[&PageRow]) -> String {
    let reasons: Vec<&str> = rows
        .iter()
        .map(|r| r.verdict.trim_start_matches("cannot tell: "))
        .collect();
    match reasons.first() {
        Some(first) if reasons.iter().all(|r| r == first) => (*first).to_owned(),
        _ => "more runs are needed, see below".to_owned(),
    }
}
