//! The decision: finalists on fresh seeds, intervals corrected for the number of finalists, useless parts left out.

use crate::TuneError;
use crate::answer::{Contribution, Finalist, SearchAnswer};
use crate::evaluator::{Effort, TrialOutcome};
use crate::judgement::{
    Baseline, JudgedSet, LEVEL, choose_smallest_change_as_good_as_best, is_better_beyond_chance,
    is_worth_changing, judge_set, keeps_conditions_by_mean_or_interval, sort_judged_best_first,
};
use crate::space::SetChoice;
use crate::state::SearchState;

/// Number of sets that run on fresh seeds in the decision, beside what is in force.
pub(crate) const FINALISTS: usize = 6;

/// Number of the decision's stage, whose seeds are far from those of the search.
pub(crate) const STAGE: u64 = 1000;

/// The finalists, between which a decision is made.
pub(crate) struct Decision {
    /// Number of fresh runs of each finalist.
    pub(crate) repeats: u32,
    /// The best policy sets of the search.
    pub(crate) finalists: Vec<SetChoice>,
}

impl Decision {
    pub(crate) fn run_finalists_and_decide(
        mut self,
        search: &mut SearchState<'_>,
    ) -> Result<SearchAnswer, TuneError> {
        let effort = search.effort_with_stage_seeds(STAGE, self.repeats, 1);
        let trial = search.run_policies_in_force(effort)?;
        let baseline = Baseline::new(&search.question, trial, self.finalists.len(), search.seed)?;
        let in_force = baseline.judge_itself(&search.question)?;
        // Of equal sets the first in the order of the space comes first.
        self.finalists.sort();
        let mut ran = Vec::new();
        for candidate in &self.finalists {
            ran.extend(run_candidate_on_fresh_seeds(
                search, &baseline, effort, candidate,
            )?);
        }
        let objective = search.question.objective;
        sort_judged_best_first(objective, &mut ran);
        let best = choose_smallest_change_as_good_as_best(objective, &baseline, &ran, &in_force);
        let (best, contributions) = match best {
            Some(index) => {
                let best = &ran[index];
                let candidate = self.candidate_with_text(search, &best.finalist.set);
                drop_useless_parts_and_rate_others(
                    search, &baseline, &in_force, effort, best, candidate,
                )?
            }
            None => (None, Vec::new()),
        };
        let shown = best.as_ref().map(|best: &Finalist| best.set.clone());
        let next = ran
            .into_iter()
            .map(|ran| ran.finalist)
            .filter(|finalist| shown.as_ref() != Some(&finalist.set))
            .collect();
        Ok(SearchAnswer {
            origin: search.evaluator.origin(),
            objective: objective.metric.name.to_string(),
            unit: objective.metric.unit.to_string(),
            best: best.or_else(|| {
                let keeps = in_force.finalist.keeps_conditions_by_means();
                (shown.is_none() && keeps).then(|| in_force.finalist.clone())
            }),
            in_force: in_force.finalist,
            next,
            contributions,
            space: search.space.count_sets(),
            tried: search.tried.len(),
            is_exhaustive: false,
            budget: 0,
            simulated: search.simulated,
            seed: search.seed,
            first_seed_of_decision: effort.first_seed,
            repeats: baseline.values.len() as u32,
            level: baseline.level,
            left_out: search.space.left_out.clone(),
            notes: Vec::new(),
        })
    }

    /// The finalist whose policy set has a text; no change if there is none.
    fn candidate_with_text(&self, search: &SearchState<'_>, text: &str) -> SetChoice {
        let found = self.finalists.iter().find(|candidate| {
            let set = search.space.policy_set_of_choice(candidate);
            set.is_ok_and(|set| set.to_string() == text)
        });
        found
            .cloned()
            .unwrap_or_else(|| search.space.unchanged_choice())
    }
}

fn run_candidate_on_fresh_seeds(
    search: &mut SearchState<'_>,
    baseline: &Baseline,
    effort: Effort,
    candidate: &SetChoice,
) -> Result<Option<JudgedSet>, TuneError> {
    let Ok(set) = search.space.policy_set_of_choice(candidate) else {
        return Ok(None);
    };
    let outcome = search
        .run_sets_and_count_requests(std::slice::from_ref(&set), effort)?
        .pop();
    let Some(TrialOutcome::Ran(trial)) = outcome else {
        return Ok(None);
    };
    let changes = candidate.count_changed_dimensions();
    judge_set(
        &search.question,
        baseline,
        &set.to_string(),
        changes,
        &trial,
    )
    .map(Some)
}

/// Removes useless policies from the best set `kept`, as long as the rest beats what is in force, and returns what each remaining
/// policy contributes.
fn drop_useless_parts_and_rate_others(
    search: &mut SearchState<'_>,
    baseline: &Baseline,
    in_force: &JudgedSet,
    effort: Effort,
    best: &JudgedSet,
    mut kept: SetChoice,
) -> Result<(Option<Finalist>, Vec<Contribution>), TuneError> {
    let mut kept_finalist = best.finalist.clone();
    let mut contributions = Vec::new();
    let parts = if kept.profile.is_some() {
        0
    } else {
        kept.choices.len()
    };
    for dimension in 0..parts {
        let choice = kept.choices[dimension];
        let Some(policy) = choice
            .checked_sub(1)
            .map(|index| search.space.dimensions[dimension].choices[index].clone())
        else {
            continue;
        };
        let mut without = kept.clone();
        without.choices[dimension] = 0;
        let Some(ran) = run_candidate_on_fresh_seeds(search, baseline, effort, &without)? else {
            continue;
        };
        let surely = kept_finalist.keeps_conditions_by_whole_intervals();
        let keeps = keeps_conditions_by_mean_or_interval(&ran.finalist, surely);
        let (objective, drawing) = (search.question.objective, (LEVEL, search.seed));
        let is_worse = is_better_beyond_chance(objective, drawing, &best.values, &ran.values);
        if keeps && !is_worse && is_worth_changing(objective, baseline, &ran, in_force) {
            kept = without;
            kept_finalist = ran.finalist;
            continue;
        }
        let broken = ran.finalist.conditions.iter().filter(|kept| !kept.is_kept);
        contributions.push(Contribution {
            part: policy.to_string(),
            objective_without: ran.finalist.objective,
            broken_without: broken
                .map(|kept| format!("{} on {}", kept.condition, kept.load))
                .collect(),
        });
    }
    Ok((Some(kept_finalist), contributions))
}
