//! The search: successive halving over shortened runs, steps to neighbours, and a decision on fresh seeds.
//!
//! All sets of a rung run on the same seeds (common random numbers), and each rung has seeds of its own. Where every set
//! fits into the budget, every set is run. Only the last rung, on fresh seeds, decides.

use std::collections::{BTreeMap, BTreeSet};

use rand::SeedableRng;
use rand::seq::index;
use rand_pcg::Pcg64Mcg;

use crate::TuneError;
use crate::answer::Answer;
use crate::budget::Budget;
use crate::condition::LoadCondition;
use crate::evaluator::{Effort, Evaluator, Outcome, Trial};
use crate::figures::{Question, Score};
use crate::finalists::Decision;
use crate::load::{Load, rest_hours};
use crate::objective::Objective;
use crate::space::{Candidate, Space};
use crate::state::SearchState;

/// Sets that stay of each rung: one in so many.
const KEEP: usize = 3;

/// Sets that run on fresh seeds, beside what is in force.
const FINALISTS: usize = 6;

/// Fewest and most fresh runs of a finalist.
const FINAL_REPEATS: (u32, u32) = (5, 20);

/// Runs of what is in force beside each rung and each step, for the budget.
const RUNS_IN_FORCE: u64 = 24;

/// Share of the budget for the decision.
const DECISION_SHARE: f64 = 0.4;

/// Share of the budget for steps to neighbours.
const LOCAL_SHARE: f64 = 0.2;

/// The rungs: runs per load, and how much they are shortened.
const RUNGS: [(u32, u32); 3] = [(1, 4), (1, 1), (3, 1)];

/// What to search for.
#[derive(Clone, Debug)]
pub struct SearchRequest {
    /// Loads with their hours.
    pub loads: Vec<Load>,
    /// What to minimise or maximise.
    pub objective: Objective,
    /// Conditions on the answer.
    pub conditions: Vec<LoadCondition>,
    /// How much may be simulated.
    pub budget: Budget,
    /// Start of all seeds.
    pub seed: u64,
}

impl SearchRequest {
    /// The conditions, and one on `iops` for each load without a rate and without a condition on rates.
    pub fn all_conditions(&self) -> Vec<LoadCondition> {
        let mut all = self.conditions.clone();
        for load in self.loads.iter().filter(|load| load.is_closed_loop()) {
            let has_rate = |c: &LoadCondition| {
                c.concerns(&load.name)
                    && matches!(c.condition.metric.as_str(), "iops" | "bandwidth_mbs")
            };
            let maximises_rate = matches!(&*self.objective.metric.name, "iops" | "bandwidth_mbs");
            if !maximises_rate && !self.conditions.iter().any(has_rate) {
                all.push(LoadCondition::least_iops(&load.name));
            }
        }
        all
    }

    fn check_loads(&self) -> Result<(), TuneError> {
        for condition in &self.conditions {
            if !self.loads.iter().any(|load| condition.concerns(&load.name)) {
                let names: Vec<&str> = self.loads.iter().map(|load| load.name.as_str()).collect();
                return Err(TuneError::Condition {
                    condition: condition.to_string(),
                    problem: format!("no load of this name; there are {}", names.join(", ")),
                });
            }
        }
        Ok(())
    }
}

/// Sets of a rung with their scores, the best first.
type Ranking = Vec<(Score, Candidate)>;

/// Searches a space.
///
/// # Errors
/// Impossible loads or conditions, a budget that is too small, what is in force cannot be run, called off.
pub fn search(
    space: &Space,
    request: &SearchRequest,
    evaluator: &dyn Evaluator,
) -> Result<Answer, TuneError> {
    request.check_loads()?;
    let conditions = request.all_conditions();
    let mut search = SearchState {
        space,
        evaluator,
        question: Question {
            loads: &request.loads,
            rest_hours: rest_hours(&request.loads)?,
            objective: &request.objective,
            conditions: &conditions,
        },
        seed: request.seed,
        simulated: 0,
        tried: BTreeSet::new(),
    };
    let whole = search.run_in_force(search.effort(2, 1, 1))?;
    let cost = whole.requests.max(1);
    let plan = Shares::new(request.budget, cost, space.dimensions.len())?;
    let is_exhaustive = plan.fits(space.size());
    let found = if is_exhaustive {
        let all = (0..space.size()).map(|n| space.candidate(n)).collect();
        search.rank(all, search.rung_effort(RUNGS.len() - 1))?
    } else {
        let halved = search.halve(&plan)?;
        search.step_to_neighbours(halved, &plan)?
    };
    let decision = Decision {
        repeats: plan.repeats,
        finalists: search.pick_finalists(found),
    };
    let answer = decision.decide(&mut search)?;
    Ok(Answer {
        is_exhaustive,
        budget: request.budget.0,
        notes: notes(&search, &conditions, &whole),
        ..answer
    })
}

/// How the budget is divided.
struct Shares {
    /// Requests of one run of all loads.
    cost: u64,
    /// Requests for halving.
    halving: u64,
    /// Requests for steps to neighbours.
    local: u64,
    /// Fresh runs of each finalist.
    repeats: u32,
}

impl Shares {
    fn new(budget: Budget, cost: u64, dimensions: usize) -> Result<Self, TuneError> {
        let (fewest, most) = FINAL_REPEATS;
        // The decision runs the finalists, what is in force, and the answer without each of its parts.
        let decided = cost.saturating_mul((FINALISTS + 1 + dimensions) as u64);
        let needed = decided.saturating_mul(u64::from(fewest));
        let least = (needed as f64 / DECISION_SHARE).ceil() as u64;
        if budget.0 < least {
            return Err(TuneError::Budget {
                budget: budget.0,
                needed,
                least,
            });
        }
        let affordable = budget.0 as f64 * DECISION_SHARE / decided as f64;
        let repeats = (affordable as u32).clamp(fewest, most);
        let decision = decided * u64::from(repeats);
        let rest = budget.0.saturating_sub(decision + cost * RUNS_IN_FORCE);
        let local = (rest as f64 * LOCAL_SHARE / (1.0 - DECISION_SHARE)) as u64;
        Ok(Self {
            cost,
            halving: rest - local,
            local,
            repeats,
        })
    }

    /// Requests of one set in a rung.
    fn cost_of_rung(&self, rung: usize) -> f64 {
        let (repeats, shortened) = RUNGS[rung];
        self.cost as f64 * f64::from(repeats) / f64::from(shortened)
    }

    /// Whether so many sets fit into the last rung.
    fn fits(&self, sets: usize) -> bool {
        sets as f64 * self.cost_of_rung(RUNGS.len() - 1) <= (self.halving + self.local) as f64
    }

    /// How many sets the first rung takes.
    fn first_rung(&self) -> usize {
        let per_set: f64 = (0..RUNGS.len())
            .map(|rung| self.cost_of_rung(rung) / KEEP.pow(rung as u32) as f64)
            .sum();
        (self.halving as f64 / per_set) as usize
    }
}

impl SearchState<'_> {
    fn rung_effort(&self, rung: usize) -> Effort {
        let (repeats, shortened) = RUNGS[rung];
        self.effort(rung as u64, repeats, shortened)
    }

    /// Runs candidates with an effort, and ranks them. Candidates that cannot be run fall out.
    fn rank(&mut self, candidates: Vec<Candidate>, effort: Effort) -> Result<Ranking, TuneError> {
        let in_force = self.run_in_force(effort)?;
        let mut able = Vec::new();
        let mut sets = Vec::new();
        for candidate in candidates {
            if let Ok(set) = self.space.set(&candidate) {
                able.push(candidate);
                sets.push(set);
            }
        }
        let outcomes = self.run_sets(&sets, effort)?;
        let mut ranking = Ranking::new();
        for (candidate, outcome) in able.into_iter().zip(outcomes) {
            if let Outcome::Ran(trial) = outcome {
                self.tried.insert(candidate.clone());
                ranking.push((self.question.score(&trial, &in_force)?, candidate));
            }
        }
        sort(&mut ranking);
        Ok(ranking)
    }

    /// Successive halving.
    fn halve(&mut self, plan: &Shares) -> Result<Ranking, TuneError> {
        let mut candidates = self.draw_first(plan.first_rung().max(FINALISTS));
        let mut ranking = Ranking::new();
        for rung in 0..RUNGS.len() {
            let keep = (candidates.len() / KEEP).max(FINALISTS);
            ranking = self.rank(candidates, self.rung_effort(rung))?;
            candidates = ranking
                .iter()
                .take(keep)
                .map(|(_, candidate)| candidate.clone())
                .collect();
        }
        Ok(ranking)
    }

    /// Candidates of the first rung: what is in force, profiles, each choice by itself, then others at random.
    fn draw_first(&self, count: usize) -> Vec<Candidate> {
        let mut drawn = vec![self.space.in_force()];
        drawn.extend(self.space.first_candidates());
        drawn.truncate(count);
        let mut known: BTreeSet<Candidate> = drawn.iter().cloned().collect();
        let mut random = Pcg64Mcg::seed_from_u64(self.seed);
        let size = self.space.size();
        let wanted = count.min(size);
        for number in index::sample(&mut random, size, size.min(count.saturating_mul(2))) {
            if drawn.len() >= wanted {
                break;
            }
            let candidate = self.space.candidate(number);
            if known.insert(candidate.clone()) {
                drawn.push(candidate);
            }
        }
        drawn
    }

    /// Steps from the best set to its best neighbour, as long as that is better and the budget lasts.
    fn step_to_neighbours(&mut self, found: Ranking, plan: &Shares) -> Result<Ranking, TuneError> {
        let effort = self.rung_effort(RUNGS.len() - 1);
        let mut scores: BTreeMap<Candidate, Score> = found
            .into_iter()
            .map(|(score, candidate)| (candidate, score))
            .collect();
        let end = self.simulated + plan.local;
        let mut centres = BTreeSet::new();
        while self.simulated < end {
            let ranking = ranked(&scores);
            let centre = ranking.iter().find(|(_, c)| !centres.contains(c));
            let Some((_, centre)) = centre.filter(|_| centres.len() < FINALISTS) else {
                break;
            };
            centres.insert(centre.clone());
            let unknown: Vec<Candidate> = self
                .space
                .neighbours(centre)
                .into_iter()
                .filter(|neighbour| !scores.contains_key(neighbour))
                .collect();
            let affordable = (end - self.simulated) as f64 / plan.cost_of_rung(RUNGS.len() - 1);
            let tried = unknown.into_iter().take(affordable as usize).collect();
            for (score, candidate) in self.rank(tried, effort)? {
                scores.insert(candidate, score);
            }
        }
        Ok(ranked(&scores))
    }

    /// The best sets of a ranking, without what is in force.
    fn pick_finalists(&self, ranking: Ranking) -> Vec<Candidate> {
        let in_force = self.space.in_force();
        let others = ranking.into_iter().map(|(_, candidate)| candidate);
        others
            .filter(|candidate| *candidate != in_force)
            .take(FINALISTS)
            .collect()
    }
}

fn ranked(scores: &BTreeMap<Candidate, Score>) -> Ranking {
    let mut ranking: Ranking = scores
        .iter()
        .map(|(c, score)| (*score, c.clone()))
        .collect();
    sort(&mut ranking);
    ranking
}

/// The best first; of equal ones the smallest change.
fn sort(ranking: &mut Ranking) {
    ranking.sort_by(|(a, first), (b, second)| {
        a.excess
            .total_cmp(&b.excess)
            .then(a.objective.total_cmp(&b.objective))
            .then(first.changes().cmp(&second.changes()))
            .then(first.cmp(second))
    });
}

/// What a reader should know beside the figures.
fn notes(search: &SearchState<'_>, conditions: &[LoadCondition], in_force: &Trial) -> Vec<String> {
    let mut notes = Vec::new();
    for (condition, load) in search.question.limits() {
        let values = in_force.load_values(load, &condition.condition.metric);
        let value = values.map(|values| crate::figures::mean(&values));
        notes.extend(value.and_then(|value| condition.unit_note(value)));
    }
    for implied in conditions.iter().filter(|condition| condition.is_implied) {
        notes.push(format!(
            "{} asks for no rate: a slower set would save power by doing less, so its iops stay at 98 % of what is in force",
            implied.load.as_deref().unwrap_or("a load")
        ));
    }
    notes
}
