//! The search on recordings: each set is replayed once and whole, and the budget counts the requests of all replays.
//!
//! Every set is replayed if the budget allows. Otherwise random sets come first, then sets that a model picks, and then
//! the neighbours of the best. There are no shortened runs and no fresh seeds: a recording gives a set equal figures each
//! time. The decision replays nothing but the answer without each of its parts.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_policies::PolicySet;

use crate::TuneError;
use crate::answer::AnswerOrigin;
use crate::budget::Budget;
use crate::evaluator::{Effort, TrialOutcome};
use crate::figures::Score;
use crate::finalists::FINALISTS;
use crate::proposals::{PREDICTIONS, RANDOM_SHARE};
use crate::ranking::{Ranking, rank_distinct_best_first, rank_scores};
use crate::space::SetChoice;
use crate::state::SearchState;

/// Share of the replays after which the neighbours of the best have their turn.
const STEPS_BEGIN: f64 = 0.6;

/// Most sets that are replayed together.
const BATCH: usize = 16;

/// The sets that a search has replayed.
pub(crate) struct ReplayedSets {
    /// The sets with their scores, the best first.
    pub(crate) ranking: Ranking,
    /// Whether every set of the space was replayed.
    pub(crate) is_exhaustive: bool,
}

/// How many replays a search may make.
#[derive(Clone, Copy)]
struct ReplayLimit {
    /// Number of requests per replay.
    each: u64,
    /// Most replays, with the one of what is in force.
    most: u64,
}

impl SearchState<'_> {
    /// Replays as many sets as the budget allows, and ranks them.
    ///
    /// # Errors
    /// The budget is too small for an answer, or the user called the search off.
    pub(crate) fn replay_sets_within_budget(
        &mut self,
        each: u64,
        budget: Budget,
    ) -> Result<ReplayedSets, TuneError> {
        let each = each.max(1);
        let affordable = budget.0 / each;
        let sets = self.space.count_sets();
        if sets as u64 <= affordable {
            let all = (0..sets).map(|number| self.space.choice_by_number(number));
            let limit = ReplayLimit {
                each,
                most: affordable,
            };
            let scored = self.replay_until_limit(all.collect(), limit)?;
            return Ok(ReplayedSets {
                ranking: rank_distinct_best_first(scored),
                is_exhaustive: true,
            });
        }
        // The decision replays the answer without each of its parts.
        let parts = self.space.dimensions.len();
        let replays = (1 + FINALISTS + parts).min(sets) as u64;
        if affordable < replays {
            return Err(TuneError::ReplayBudget {
                budget: budget.0,
                unit: match self.evaluator.origin() {
                    AnswerOrigin::RecordedIdle => "events",
                    _ => "requests",
                },
                replays,
                each,
            });
        }
        let limit = ReplayLimit {
            each,
            most: affordable - parts as u64,
        };
        let scored = self.replay_drawn_and_predicted_sets(limit)?;
        Ok(ReplayedSets {
            ranking: self.replay_neighbours_of_best(scored, limit)?,
            is_exhaustive: false,
        })
    }

    /// Replays random sets, then sets with the best predictions.
    fn replay_drawn_and_predicted_sets(
        &mut self,
        limit: ReplayLimit,
    ) -> Result<Vec<(Score, SetChoice)>, TuneError> {
        let before_steps = ReplayLimit {
            most: (limit.most as f64 * STEPS_BEGIN).ceil() as u64,
            ..limit
        };
        let count = before_steps.most as f64;
        let random = (count * RANDOM_SHARE).ceil() as usize;
        let drawn = self.draw_sets_for_first_rung(random.max(FINALISTS));
        let mut scored = self.replay_until_limit(drawn, before_steps)?;
        let each_time = (count * (1.0 - RANDOM_SHARE)).ceil() as usize;
        for _ in 0..PREDICTIONS {
            let predicted =
                self.predict_best_untried_sets(&scored, each_time.div_ceil(PREDICTIONS));
            scored.extend(self.replay_until_limit(predicted, before_steps)?);
        }
        Ok(scored)
    }

    /// Replays all neighbours of the best sets, again and again, as long as the budget lasts.
    fn replay_neighbours_of_best(
        &mut self,
        scored: Vec<(Score, SetChoice)>,
        limit: ReplayLimit,
    ) -> Result<Ranking, TuneError> {
        let mut scores: BTreeMap<SetChoice, Score> = scored
            .into_iter()
            .map(|(score, candidate)| (candidate, score))
            .collect();
        let mut centres = BTreeSet::new();
        while self.count_replays_left(limit) > 0 {
            let mut ranking = rank_scores(&scores).into_iter();
            let Some((_, centre)) = ranking.find(|(_, candidate)| !centres.contains(candidate))
            else {
                break;
            };
            let mut unknown = self.space.neighbours_differing_in_one_dimension(&centre);
            unknown.retain(|set| !scores.contains_key(set) && !self.refused.contains(set));
            centres.insert(centre);
            for (score, candidate) in self.replay_until_limit(unknown, limit)? {
                scores.insert(candidate, score);
            }
        }
        Ok(rank_scores(&scores))
    }

    /// Replays sets until the limit is reached, and scores them. A set that cannot be replayed falls out.
    fn replay_until_limit(
        &mut self,
        candidates: Vec<SetChoice>,
        limit: ReplayLimit,
    ) -> Result<Vec<(Score, SetChoice)>, TuneError> {
        let whole = Effort {
            first_seed: self.seed,
            repeats: 1,
            shortened: 1,
        };
        let in_force = self.run_policies_in_force(whole)?;
        let space = self.space;
        let mut waiting = candidates.into_iter().filter_map(|candidate| {
            let set = space.policy_set_of_choice(&candidate).ok()?;
            Some((candidate, set))
        });
        let mut scored = Vec::new();
        loop {
            let most = BATCH.min(self.count_replays_left(limit));
            let batch: Vec<(SetChoice, PolicySet)> = waiting.by_ref().take(most).collect();
            if batch.is_empty() {
                return Ok(scored);
            }
            let sets: Vec<PolicySet> = batch.iter().map(|(_, set)| set.clone()).collect();
            let outcomes = self.run_sets_and_count_requests(&sets, whole)?;
            for ((candidate, _), outcome) in batch.into_iter().zip(outcomes) {
                let TrialOutcome::Ran(trial) = outcome else {
                    self.refused.insert(candidate);
                    continue;
                };
                self.tried.insert(candidate.clone());
                let blocks = trial.loads.iter().map(|load| load.runs.len()).min();
                let score =
                    (self.question).score_trial(&trial, &in_force, blocks.unwrap_or(1) as f64)?;
                scored.push((score, candidate));
            }
        }
    }

    fn count_replays_left(&self, limit: ReplayLimit) -> usize {
        let made = self.simulated / limit.each;
        usize::try_from(limit.most.saturating_sub(made)).unwrap_or(usize::MAX)
    }
}
