//! The search: successive halving over shortened runs, steps to neighbours, and a decision on fresh seeds.
//!
//! Halving begins with random sets. A model ([`EffectsModel`]) then says which other sets join.
//! All sets in a rung run on the same seeds (common random numbers), and each rung has other seeds. Where every set
//! fits into the budget, every set is run. Only the last rung, on fresh seeds, decides.

use std::collections::{BTreeMap, BTreeSet};

use wakepath_policies::PolicySet;
use wakepath_results::LoadCondition;

use crate::TuneError;
use crate::answer::SearchAnswer;
use crate::budget::Budget;
use crate::evaluator::{Effort, Evaluator, Trial, TrialOutcome};
use crate::figures::{Question, Score};
use crate::finalists::{Decision, FINALISTS};
use crate::judgement::note_waits_for_drives_that_never_wake;
use crate::load::{DailyLoad, check_hours_and_count_rest};
use crate::missed_rates::note_missed_rates;
use crate::objective::SearchObjective;
use crate::percentile::{find_repeats_for_percentiles, note_objective_of_short_runs};
use crate::proposals::{PREDICTIONS, RANDOM_SHARE};
use crate::ranking::{Ranking, rank_distinct_best_first, rank_scores};
use crate::space::{SetChoice, Space};
use crate::state::SearchState;

/// Halving keeps one of so many sets in each rung.
const KEEP: usize = 3;

/// Fewest and most fresh runs of a finalist.
const FINAL_REPEATS: (u32, u32) = (5, 20);

/// Most fresh runs of a finalist for a percentile with many requests.
const MOST_REPEATS_FOR_PERCENTILES: u32 = 40;

/// Share of the budget that is spent when halving ends.
const HALVING_END: f64 = 0.4;

/// Share of the budget that is spent when steps to neighbours end; the decision has the remainder.
const STEPS_END: f64 = 0.6;

/// Runs of each semifinalist, on seeds of their own.
const SEMIFINAL_REPEATS: u32 = 6;

/// Number of the semifinal's stage, whose seeds no other stage has.
const SEMIFINAL_STAGE: u64 = 3;

/// Most sets in the semifinal.
const SEMIFINALISTS: usize = 60;

/// Number of sets that run before the search checks its budget again.
const BATCH: usize = 16;

/// The rungs of halving.
const RUNGS: [Rung; 3] = [Rung::new(0, 1, 4), Rung::new(1, 1, 1), Rung::new(2, 3, 1)];

/// The last rung, with whole runs.
const LAST_RUNG: Rung = RUNGS[RUNGS.len() - 1];

/// Most requests of a useful shortened run, as a share of a whole run: the warm-up is never cut.
pub(crate) const MOST_OF_SHORTENED_RUN: f64 = 0.6;

/// A budget so many times too small is refused by an estimate, before any whole run.
const FAR_TOO_SMALL: u64 = 4;

/// Runs of what is in force that show how noisy the metrics of conditions are.
const NOISE_REPEATS: u32 = 4;

/// What a user asks a search for.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// The user's loads with their hours.
    pub loads: Vec<DailyLoad>,
    /// What to minimise or maximise.
    pub objective: SearchObjective,
    /// Conditions on the answer.
    pub conditions: Vec<LoadCondition>,
    /// How many requests may be simulated, or replayed.
    pub budget: Budget,
    /// The number from which all seeds follow.
    pub seed: u64,
}

impl SearchRequest {
    /// The conditions, and one on `iops` for each load without a rate and without a condition on rates.
    pub fn conditions_with_implied_rates(&self) -> Vec<LoadCondition> {
        let mut all = self.conditions.clone();
        for load in self.loads.iter().filter(|load| load.is_closed_loop()) {
            let maximises_rate = matches!(&*self.objective.metric.name, "iops" | "bandwidth_mbs");
            if !maximises_rate && !self.has_rate_condition_on(load) {
                all.push(LoadCondition::implied_iops_near_present(&load.name));
            }
        }
        all
    }

    /// Whether a condition limits the load's rate.
    fn has_rate_condition_on(&self, load: &DailyLoad) -> bool {
        let mut concerned = self
            .conditions
            .iter()
            .filter(|c| c.concerns_load(&load.name) && c.job_of_load(&load.name).is_none());
        concerned.any(|c| matches!(c.condition.metric.as_str(), "iops" | "bandwidth_mbs"))
    }

    fn check_loads_of_conditions_exist(&self) -> Result<(), TuneError> {
        for condition in &self.conditions {
            if !self
                .loads
                .iter()
                .any(|load| condition.concerns_load(&load.name))
            {
                let names: Vec<&str> = self.loads.iter().map(|load| load.name.as_str()).collect();
                return Err(TuneError::Condition {
                    condition: condition.to_string(),
                    problem: format!("no load of this name; there are {}", names.join(", ")),
                });
            }
            for load in &self.loads {
                let Some(job) = condition.job_of_load(&load.name) else {
                    continue;
                };
                let jobs = load.names_of_several_jobs();
                if !jobs.contains(&job) {
                    let problem = if jobs.is_empty() {
                        format!("{} has a single job; leave `:{job}` out", load.name)
                    } else {
                        format!(
                            "{} has no job of this name; there are {}",
                            load.name,
                            jobs.join(", ")
                        )
                    };
                    return Err(TuneError::Condition {
                        condition: condition.to_string(),
                        problem,
                    });
                }
            }
        }
        Ok(())
    }
}

/// A rung of halving.
#[derive(Clone, Copy)]
struct Rung {
    /// Number of the stage. No other stage has the same seeds.
    stage: u64,
    /// Runs of each set.
    repeats: u32,
    /// Each load's measured time is divided by this.
    shortened: u32,
}

impl Rung {
    const fn new(stage: u64, repeats: u32, shortened: u32) -> Self {
        Self {
            stage,
            repeats,
            shortened,
        }
    }
}

/// Searches a space of policy sets for the best answer to a request.
///
/// # Errors
/// Impossible loads or conditions, a budget too small, a machine that cannot run unchanged policies, called off.
pub fn search_best_policy_set(
    space: &Space,
    request: &SearchRequest,
    evaluator: &dyn Evaluator,
) -> Result<SearchAnswer, TuneError> {
    request.check_loads_of_conditions_exist()?;
    let conditions = request.conditions_with_implied_rates();
    let mut search = new_search_state(space, request, evaluator, &conditions)?;
    if let Some(each) = evaluator.requests_of_replay() {
        return search.replay_sets_and_decide(each, request.budget);
    }
    let shortened = search.run_policies_in_force(search.effort_of_rung(RUNGS[0]))?;
    // Whole runs may take minutes, so shortened runs already show a budget to be far too small.
    let least_cost =
        shortened.requests as f64 * smallest_cost_of_whole_runs(&request.loads, RUNGS[0].shortened);
    let far_larger = Budget(request.budget.0.saturating_mul(FAR_TOO_SMALL));
    if let Err(TuneError::Budget { needed, least, .. }) =
        StageEnds::new(far_larger, least_cost as u64, &search)
    {
        return Err(TuneError::Budget {
            budget: request.budget.0,
            needed,
            least,
            is_estimate: true,
        });
    }
    let (in_force, cost) = search.run_in_force_and_set_fewest_repeats()?;
    let stage_ends = StageEnds::new(request.budget, cost, &search)?;
    search.question.noise = search.question.measure_noise(&in_force);
    let costs = RunCosts {
        whole: cost,
        shortened: shortened.requests.max(1),
    };
    let sets = space.count_sets() as f64;
    let fits = sets * costs.requests_per_set_in_rung(LAST_RUNG) <= stage_ends.steps_end as f64;
    let found = if fits {
        let all = (0..space.count_sets())
            .map(|number| space.choice_by_number(number))
            .collect();
        let effort = search.effort_of_rung(LAST_RUNG);
        search.run_until_requests_and_rank(all, effort, stage_ends.steps_end)?
    } else {
        let halved = search.run_halving_and_rank_last_rung(&costs, &stage_ends)?;
        search.run_neighbours_of_best_until_budget(halved, &stage_ends)?
    };
    let found = search.rank_semifinalists_by_further_runs(found, request.budget)?;
    let finalists = take_distinct_best_except_unchanged(found, &space.unchanged_choice());
    let decision = Decision {
        repeats: search.affordable_repeats(&finalists, request.budget),
        finalists,
    };
    let answer = decision.run_finalists_and_decide(&mut search)?;
    Ok(SearchAnswer {
        is_exhaustive: answer.tried == space.count_sets(),
        budget: request.budget.0,
        notes: note_what_figures_leave_open(&search, &in_force, &answer),
        ..answer
    })
}

/// Remarks for the user beside an answer's figures.
fn note_what_figures_leave_open(
    search: &SearchState<'_>,
    in_force: &Trial,
    answer: &SearchAnswer,
) -> Vec<String> {
    let conditions = search.question.conditions;
    let mut notes = note_odd_units_and_implied_conditions(search, conditions, in_force);
    notes.extend(note_waits_for_drives_that_never_wake(conditions, answer));
    notes.extend(note_missed_rates(search.question.loads, answer));
    notes
}

/// The least budget with which a space can be searched for the best answer to a request, whose own budget counts for nothing.
///
/// # Errors
/// As [`search_best_policy_set`].
pub fn find_least_budget(
    space: &Space,
    request: &SearchRequest,
    evaluator: &dyn Evaluator,
) -> Result<Budget, TuneError> {
    request.check_loads_of_conditions_exist()?;
    let conditions = request.conditions_with_implied_rates();
    let mut search = new_search_state(space, request, evaluator, &conditions)?;
    let (_, cost) = search.run_in_force_and_set_fewest_repeats()?;
    match StageEnds::new(Budget(0), cost, &search) {
        Err(TuneError::Budget { least, .. }) => Ok(Budget(least)),
        Err(other) => Err(other),
        Ok(_) => Ok(Budget(0)),
    }
}

/// A search that has run nothing so far.
fn new_search_state<'a>(
    space: &'a Space,
    request: &'a SearchRequest,
    evaluator: &'a dyn Evaluator,
    conditions: &'a [LoadCondition],
) -> Result<SearchState<'a>, TuneError> {
    Ok(SearchState {
        space,
        evaluator,
        question: Question {
            loads: &request.loads,
            rest_hours: check_hours_and_count_rest(&request.loads)?,
            objective: &request.objective,
            conditions,
            noise: Vec::new(),
        },
        seed: request.seed,
        fewest_repeats: FINAL_REPEATS.0,
        simulated: 0,
        costliest_run: 0,
        replayed: BTreeSet::new(),
        tried: BTreeSet::new(),
        refused: BTreeSet::new(),
        in_force: BTreeMap::new(),
        run_costs: BTreeMap::new(),
    })
}

/// Requests in a whole run per request in a shortened run, for the load where shortening saves least.
pub(crate) fn smallest_cost_of_whole_runs(loads: &[DailyLoad], shortened: u32) -> f64 {
    let costs = loads
        .iter()
        .map(|load| load.whole_run_over_shortened_run(shortened));
    costs.reduce(f64::min).unwrap_or(1.0)
}

impl SearchState<'_> {
    /// Searches recordings, each of whose replays goes through so many requests, and decides.
    fn replay_sets_and_decide(
        mut self,
        each: u64,
        budget: Budget,
    ) -> Result<SearchAnswer, TuneError> {
        let in_force = self.run_policies_in_force(self.effort_of_rung(LAST_RUNG))?;
        self.question.noise = self.question.measure_noise(&in_force);
        let replayed = self.replay_sets_within_budget(each, budget)?;
        let unchanged = self.space.unchanged_choice();
        let decision = Decision {
            repeats: self.fewest_repeats,
            finalists: take_distinct_best_except_unchanged(replayed.ranking, &unchanged),
        };
        let answer = decision.run_finalists_and_decide(&mut self)?;
        Ok(SearchAnswer {
            is_exhaustive: replayed.is_exhaustive,
            budget: budget.0,
            notes: note_what_figures_leave_open(&self, &in_force, &answer),
            ..answer
        })
    }
}

/// How the budget is divided: the number of requests simulated when each stage ends.
struct StageEnds {
    halving_end: u64,
    steps_end: u64,
}

impl StageEnds {
    fn new(
        budget: Budget,
        requests_per_run: u64,
        search: &SearchState<'_>,
    ) -> Result<Self, TuneError> {
        let runs = search.most_sets_in_decision() * u64::from(search.fewest_repeats);
        let needed = requests_per_run.saturating_mul(runs);
        let least = (needed as f64 / (1.0 - STEPS_END)).ceil() as u64;
        if budget.0 < least {
            return Err(TuneError::Budget {
                budget: budget.0,
                needed,
                least,
                is_estimate: false,
            });
        }
        Ok(Self {
            halving_end: (budget.0 as f64 * HALVING_END) as u64,
            steps_end: (budget.0 as f64 * STEPS_END) as u64,
        })
    }
}

/// Number of requests per run of all loads, with unchanged policies.
struct RunCosts {
    whole: u64,
    /// Requests of a run that is shortened as in the first rung; the warm-up is not shortened.
    shortened: u64,
}

impl RunCosts {
    /// The rungs, without shortened runs where the warm-up makes shortened runs as costly as whole runs.
    fn rungs_worth_their_cost(&self) -> &'static [Rung] {
        if self.shortened as f64 > MOST_OF_SHORTENED_RUN * self.whole as f64 {
            &RUNGS[1..]
        } else {
            &RUNGS
        }
    }

    /// Number of requests per set in a rung.
    fn requests_per_set_in_rung(&self, rung: Rung) -> f64 {
        let run = if rung.shortened > 1 {
            self.shortened
        } else {
            self.whole
        };
        run as f64 * f64::from(rung.repeats)
    }

    /// Number of requests in each rung per set drawn: later rungs have a share of the sets.
    fn requests_per_set_drawn(&self) -> Vec<f64> {
        let rungs = self.rungs_worth_their_cost().iter().enumerate();
        rungs
            .map(|(index, rung)| {
                self.requests_per_set_in_rung(*rung) / KEEP.pow(index as u32) as f64
            })
            .collect()
    }
}

impl SearchState<'_> {
    /// Whole runs of what is in force, and the number of requests in one of them. They show how often a finalist has to run.
    fn run_in_force_and_set_fewest_repeats(&mut self) -> Result<(Trial, u64), TuneError> {
        let in_force =
            self.run_policies_in_force(self.effort_with_stage_seeds(2, NOISE_REPEATS, 1))?;
        let cost = (in_force.requests / u64::from(NOISE_REPEATS)).max(1);
        self.fewest_repeats = find_repeats_for_percentiles(
            &self.question,
            &in_force,
            (FINAL_REPEATS.0, MOST_REPEATS_FOR_PERCENTILES),
        )?;
        Ok((in_force, cost))
    }

    fn effort_of_rung(&self, rung: Rung) -> Effort {
        self.effort_with_stage_seeds(rung.stage, rung.repeats, rung.shortened)
    }

    /// Number of sets that the decision runs: finalists, unchanged policies, and the answer without each part.
    fn most_sets_in_decision(&self) -> u64 {
        (FINALISTS + 1 + self.space.dimensions.len()) as u64
    }

    /// Number of requests per fresh run of all sets in a decision between the costliest candidates.
    fn requests_of_decision_per_repeat(&self, candidates: &[SetChoice]) -> u64 {
        let mut costs: Vec<u64> = candidates
            .iter()
            .map(|set| *self.run_costs.get(set).unwrap_or(&self.costliest_run))
            .collect();
        costs.sort_unstable_by(|a, b| b.cmp(a));
        let finalists: u64 = costs.into_iter().take(FINALISTS).sum();
        let changed = candidates.iter().map(SetChoice::count_changed_dimensions);
        // The policies in force, and the answer without each part; without a part a set may do more requests.
        let others = 1 + changed.max().unwrap_or(0) as u64;
        finalists.saturating_add(self.costliest_run.saturating_mul(others))
    }

    /// Number of fresh runs per finalist that the remaining budget allows.
    fn affordable_repeats(&self, finalists: &[SetChoice], budget: Budget) -> u32 {
        let (_, most) = FINAL_REPEATS;
        let each = self.requests_of_decision_per_repeat(finalists).max(1);
        let affordable = budget.0.saturating_sub(self.simulated) / each;
        u32::try_from(affordable)
            .unwrap_or(most)
            .clamp(self.fewest_repeats, most.max(self.fewest_repeats))
    }

    /// Runs sets with an effort until `requests_end` requests are simulated, and ranks the sets.
    fn run_until_requests_and_rank(
        &mut self,
        candidates: Vec<SetChoice>,
        effort: Effort,
        requests_end: u64,
    ) -> Result<Ranking, TuneError> {
        let scored = self.run_until_requests_and_score(candidates, effort, requests_end)?;
        Ok(rank_distinct_best_first(scored))
    }

    /// Runs sets with an effort until `requests_end` requests are simulated. A set refused by the machine falls out.
    fn run_until_requests_and_score(
        &mut self,
        candidates: Vec<SetChoice>,
        effort: Effort,
        requests_end: u64,
    ) -> Result<Vec<(Score, SetChoice)>, TuneError> {
        let in_force = self.run_policies_in_force(effort)?;
        let mut able = Vec::new();
        for candidate in candidates {
            able.extend(
                self.space
                    .policy_set_of_choice(&candidate)
                    .ok()
                    .map(|set| (candidate, set)),
            );
        }
        let mut scored = Vec::new();
        for batch in able.chunks(BATCH) {
            if self.simulated >= requests_end && scored.len() >= FINALISTS {
                break;
            }
            let sets: Vec<PolicySet> = batch.iter().map(|(_, set)| set.clone()).collect();
            let outcomes = self.run_sets_and_count_requests(&sets, effort)?;
            for ((candidate, _), outcome) in batch.iter().zip(outcomes) {
                let TrialOutcome::Ran(trial) = outcome else {
                    self.refused.insert(candidate.clone());
                    continue;
                };
                self.tried.insert(candidate.clone());
                if effort.shortened == 1 {
                    let run = trial.requests / u64::from(effort.repeats.max(1));
                    self.run_costs.insert(candidate.clone(), run);
                }
                let whole_runs = f64::from(effort.repeats) / f64::from(effort.shortened);
                let score = self.question.score_trial(&trial, &in_force, whole_runs)?;
                scored.push((score, candidate.clone()));
            }
        }
        Ok(scored)
    }

    /// Runs successive halving and returns the last rung's ranking. Each rung has a share of the requests, by its
    /// planned runs.
    fn run_halving_and_rank_last_rung(
        &mut self,
        costs: &RunCosts,
        stage_ends: &StageEnds,
    ) -> Result<Ranking, TuneError> {
        let budget = stage_ends.halving_end.saturating_sub(self.simulated) as f64;
        let per_set = costs.requests_per_set_drawn();
        let all_rungs: f64 = per_set.iter().sum();
        let first = (budget / all_rungs) as usize;
        let mut candidates = Vec::new();
        let mut ranking = Ranking::new();
        let mut end = self.simulated as f64;
        for (index, rung) in costs.rungs_worth_their_cost().iter().enumerate() {
            end += budget * per_set[index] / all_rungs;
            let effort = self.effort_of_rung(*rung);
            ranking = if index == 0 {
                self.run_drawn_and_predicted_sets(first.max(FINALISTS), effort, end as u64)?
            } else {
                self.run_until_requests_and_rank(candidates, effort, end as u64)?
            };
            let keep = (ranking.len() / KEEP).max(FINALISTS);
            let best = ranking.iter().take(keep);
            candidates = best.map(|(_, candidate)| candidate.clone()).collect();
        }
        Ok(ranking)
    }

    /// Runs the first rung: random sets, then sets with the best predictions.
    fn run_drawn_and_predicted_sets(
        &mut self,
        count: usize,
        effort: Effort,
        requests_end: u64,
    ) -> Result<Ranking, TuneError> {
        let drawn = self.draw_sets_for_first_rung(
            ((count as f64 * RANDOM_SHARE).ceil() as usize).max(FINALISTS),
        );
        let each = count.saturating_sub(drawn.len()).div_ceil(PREDICTIONS);
        let mut scored = self.run_until_requests_and_score(drawn, effort, requests_end)?;
        for _ in 0..PREDICTIONS {
            if self.simulated >= requests_end {
                break;
            }
            let predicted = self.predict_best_untried_sets(&scored, each);
            scored.extend(self.run_until_requests_and_score(predicted, effort, requests_end)?);
        }
        Ok(rank_distinct_best_first(scored))
    }

    /// Runs all neighbours of the best sets, again and again, as long as the budget lasts.
    fn run_neighbours_of_best_until_budget(
        &mut self,
        found: Ranking,
        stage_ends: &StageEnds,
    ) -> Result<Ranking, TuneError> {
        let effort = self.effort_of_rung(LAST_RUNG);
        let mut scores: BTreeMap<SetChoice, Score> = found
            .into_iter()
            .map(|(score, candidate)| (candidate, score))
            .collect();
        let mut centres = BTreeSet::new();
        while self.simulated < stage_ends.steps_end && centres.len() < FINALISTS {
            let ranking = rank_scores(&scores);
            let centre = ranking
                .iter()
                .find(|(_, candidate)| !centres.contains(candidate));
            let Some((_, centre)) = centre else {
                break;
            };
            centres.insert(centre.clone());
            let mut unknown = self.space.neighbours_differing_in_one_dimension(centre);
            unknown.retain(|neighbour| !scores.contains_key(neighbour));
            for (score, candidate) in
                self.run_until_requests_and_rank(unknown, effort, stage_ends.steps_end)?
            {
                scores.insert(candidate, score);
            }
        }
        Ok(rank_scores(&scores))
    }
}

impl SearchState<'_> {
    /// Runs the best sets again, as many as the decision leaves budget for, and ranks them by these runs. Few runs rank sets
    /// near a limit by chance, and only finalists can be the answer.
    fn rank_semifinalists_by_further_runs(
        &mut self,
        found: Ranking,
        budget: Budget,
    ) -> Result<Ranking, TuneError> {
        let (_, most_repeats) = FINAL_REPEATS;
        let likely: Vec<SetChoice> = found
            .iter()
            .take(2 * FINALISTS)
            .map(|(_, candidate)| candidate.clone())
            .collect();
        let decision = self.requests_of_decision_per_repeat(&likely);
        let end = budget
            .0
            .saturating_sub(decision.saturating_mul(u64::from(most_repeats)));
        let each = self.costliest_run.max(1) * u64::from(SEMIFINAL_REPEATS);
        // What is in force runs on the same seeds.
        let affordable = (end.saturating_sub(self.simulated) / each).saturating_sub(1);
        let most = SEMIFINALISTS.min(found.len());
        let count = usize::try_from(affordable).map_or(most, |affordable| affordable.min(most));
        if count <= FINALISTS {
            return Ok(found);
        }
        let best = found.into_iter().take(count);
        let candidates = best.map(|(_, candidate)| candidate).collect();
        let effort = self.effort_with_stage_seeds(SEMIFINAL_STAGE, SEMIFINAL_REPEATS, 1);
        self.run_until_requests_and_rank(candidates, effort, end)
    }
}

/// The best sets of a ranking, without unchanged policies.
fn take_distinct_best_except_unchanged(ranking: Ranking, in_force: &SetChoice) -> Vec<SetChoice> {
    let others = ranking.into_iter().map(|(_, candidate)| candidate);
    others
        .filter(|candidate| candidate != in_force)
        .take(FINALISTS)
        .collect()
}

/// Remarks for the user beside the figures.
fn note_odd_units_and_implied_conditions(
    search: &SearchState<'_>,
    conditions: &[LoadCondition],
    in_force: &Trial,
) -> Vec<String> {
    let mut notes = Vec::new();
    for (condition, load) in search.question.conditions_with_load_indices() {
        let runs = search.question.runs_of_condition(in_force, condition, load);
        let value = runs.and_then(|runs| runs.metric_over_all_runs(&condition.condition.metric));
        notes.extend(value.and_then(|value| condition.note_if_unit_looks_wrong(value)));
    }
    notes.extend(note_objective_of_short_runs(&search.question, in_force));
    for implied in conditions.iter().filter(|condition| condition.is_implied) {
        notes.push(format!(
            "{} asks for no rate: a slower set would save power by doing less, so its iops stay at 98 % of what is in force",
            implied.load.as_deref().unwrap_or("a load")
        ));
    }
    notes
}
