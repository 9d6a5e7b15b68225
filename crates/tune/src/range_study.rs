//! Runs of an answer and its runners-up while an assumed figure is at an end of its range.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_results::Goal;

use crate::TuneError;
use crate::answer::SearchAnswer;
use crate::assumption::{Assumption, Variation};
use crate::epp_effect::set_with_scaled_epp_effect;
use crate::evaluator::{Effort, Evaluator, Trial, TrialOutcome};
use crate::figures::{Question, Score, mean};
use crate::finalists;
use crate::influence::{OrderingRuns, movement_of_scores};
use crate::judgement::{LEVEL, is_better_beyond_chance};
use crate::screening::{LOOKS_BETTER, Screening, Standing, has_enough_requests};
use crate::search::{MOST_OF_SHORTENED_RUN, SearchRequest, smallest_cost_of_whole_runs};
use crate::simulation::Simulation;
use crate::varied_figure::{AnswerAtRangeEnd, Sensitivity};

/// Number of sets beside the answer that run at each end of a range.
const NEXT_SETS: usize = 5;

/// Number of runs of a set where another one looks better than the answer.
const REPEATS: u32 = 5;

/// Divisors of the measured time in screening runs, the longest runs first.
const SHORTENED: [u32; 3] = [1, 4, 16];

/// Most requests of the screening as a share of all; the others are for figures that come near to a change.
pub(crate) const SCREENING_SHARE: f64 = 0.6;

/// The answer, the present settings, and the answer's runners-up.
pub(crate) struct Contenders {
    pub(crate) sets: Vec<PolicySet>,
    /// Index of the answer among the sets; 0 is the present settings.
    pub(crate) answer: usize,
    /// How each set stands by the deciding runs.
    pub(crate) decided: Vec<Standing>,
}

/// What screening runs say of a figure.
pub(crate) struct ScreenedFigure {
    pub(crate) ends: Vec<AnswerAtRangeEnd>,
    /// Share of the way to a change of the answer that is left.
    pub(crate) way_left: f64,
    /// Whether all runs were as with the figure as assumed, to the bit.
    pub(crate) is_without_effect: bool,
}

impl Contenders {
    /// `None` where no set was the answer.
    pub(crate) fn from_answer(answer: &SearchAnswer, goal: Goal) -> Option<Self> {
        let best = answer.best.as_ref()?;
        let mut sets = vec![PolicySet::default()];
        let mut decided = vec![Standing::from_finalist(&answer.in_force, goal)];
        let named = std::iter::once(best).chain(answer.next.iter().take(NEXT_SETS));
        for finalist in named.filter(|finalist| !finalist.changes_nothing()) {
            if let Ok(set) = finalist.set.parse::<PolicySet>() {
                sets.push(set);
                decided.push(Standing::from_finalist(finalist, goal));
            }
        }
        Some(Self {
            answer: usize::from(!best.changes_nothing()),
            sets,
            decided,
        })
    }
}

/// The decision by few runs with all figures as assumed: what chance alone says.
pub(crate) struct DecidedAsAssumed {
    /// The set that replaces the answer, if any.
    other_answer: Option<String>,
    /// Number of simulated requests.
    requests: u64,
}

/// The sets to run, and how, whatever is varied.
pub(crate) struct RangeStudy<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) request: &'a SearchRequest,
    pub(crate) question: Question<'a>,
    pub(crate) contenders: &'a Contenders,
    pub(crate) cancelled: &'a AtomicBool,
    pub(crate) report_requests: &'a (dyn Fn(u64) + Sync),
}

impl RangeStudy<'_> {
    /// Runs all sets with the figures as assumed, and chooses how long screening runs are. `None` where the answer cannot run.
    pub(crate) fn screen_as_assumed(
        &self,
        assumptions: &[Assumption],
        most_requests: u64,
        sensitivity: &mut Sensitivity,
    ) -> Result<Option<Screening>, TuneError> {
        let simulation = self.simulate_on(self.machine)?;
        let (whole, cost) = self.run_sets(&simulation, &self.contenders.sets, 1, 1)?;
        sensitivity.simulated += cost;
        let ends: usize = assumptions.iter().map(|one| one.ends.len()).sum();
        let left = most_requests.saturating_sub(cost) as f64 * SCREENING_SHARE;
        let lengths = SHORTENED.into_iter();
        let useful: Vec<u32> = lengths
            .filter(|s| self.is_length_useful(&whole, *s))
            .collect();
        let affordable = useful.iter().find(|s| {
            let ratio = smallest_cost_of_whole_runs(self.question.loads, **s);
            cost as f64 / ratio * (ends + 1) as f64 <= left
        });
        let chosen = *affordable.or(useful.last()).unwrap_or(&1);
        if chosen > 1 {
            let (trials, requests) =
                self.run_sets(&simulation, &self.contenders.sets, 1, chosen)?;
            sensitivity.simulated += requests;
            match self.standings_of_trials(&trials, chosen) {
                // Short runs may be over before something rare happens, such as a commit.
                Err(TuneError::NoMetric { .. }) => {}
                standings => {
                    sensitivity.shortened = chosen;
                    return Ok(standings?.map(|short| self.screening(trials, short)));
                }
            }
        }
        sensitivity.shortened = 1;
        let standings = self.standings_of_trials(&whole, 1)?;
        Ok(standings.map(|short| self.screening(whole, short)))
    }

    fn screening(&self, trials: Vec<Option<Trial>>, short: Vec<Option<Standing>>) -> Screening {
        Screening {
            decided: self.contenders.decided.clone(),
            trials,
            short,
            answer: self.contenders.answer,
        }
    }

    /// Whether runs with the measured time divided by so much are cheaper, and long enough. The warm-up is never cut, so that
    /// shortened runs may cost nearly as much as whole ones.
    fn is_length_useful(&self, whole: &[Option<Trial>], shortened: u32) -> bool {
        let ratio = smallest_cost_of_whole_runs(self.question.loads, shortened);
        let is_cheaper = 1.0 / ratio <= MOST_OF_SHORTENED_RUN;
        shortened == 1 || (is_cheaper && has_enough_requests(whole, shortened, &self.question))
    }

    /// Puts figures of likely influence first, if the requests of the screening are too few for all figures. Very short runs show
    /// what each figure moves.
    pub(crate) fn put_influential_first(
        &self,
        screening: &Screening,
        assumptions: &mut [Assumption],
        most_requests: u64,
        sensitivity: &mut Sensitivity,
    ) -> Result<(), TuneError> {
        let nearest = screening.nearest_sets();
        let left = most_requests as f64 * SCREENING_SHARE - sensitivity.simulated as f64;
        let ends: usize = assumptions.iter().skip(1).map(|one| one.ends.len()).sum();
        if ends as f64 * screening.requests_of_sets(&nearest) <= left {
            return Ok(());
        }
        let pair = &nearest[..nearest.len().min(2)];
        let loads = self.question.loads;
        let whole = screening.requests_of_sets(pair)
            * smallest_cost_of_whole_runs(loads, sensitivity.shortened);
        let all_whole = whole * (assumptions.len() + 1) as f64;
        let Some(runs) = OrderingRuns::plan(&self.question, all_whole, left)? else {
            return Ok(());
        };
        let sets_as_assumed = &self.contenders.sets;
        let Some(before) =
            self.score_ordering_runs(&runs, self.machine, sets_as_assumed, pair, sensitivity)?
        else {
            return Ok(());
        };
        let answer = usize::from(self.contenders.answer > 0);
        for assumption in assumptions.iter_mut() {
            let mut ends = assumption.ends_farthest_first().into_iter();
            let varied = ends.find_map(|end| self.vary(&assumption.name, end));
            let after = match &varied {
                Some((_, machine, sets)) => {
                    self.score_ordering_runs(&runs, machine, sets, pair, sensitivity)?
                }
                None => None,
            };
            // A figure without such runs has not been seen to move nothing.
            assumption.influence = after.map(|after| movement_of_scores(&before, &after, answer));
        }
        assumptions.sort_by(|one, other| {
            let moved = [one, other].map(|figure| figure.influence.unwrap_or(0.0));
            moved[1].total_cmp(&moved[0])
        });
        sensitivity.ordered_by_shortened = Some(runs.shortened);
        Ok(())
    }

    /// Scores of some of the sets, by their numbers, in the runs that order figures; `None` where one cannot run, or lacks a metric.
    fn score_ordering_runs(
        &self,
        runs: &OrderingRuns,
        machine: &Machine,
        sets: &[PolicySet],
        numbers: &[usize],
        sensitivity: &mut Sensitivity,
    ) -> Result<Option<Vec<Score>>, TuneError> {
        let has_rest = runs.objective.counts_hours_of_rest();
        let simulation = Simulation::new(
            machine,
            &runs.loads,
            has_rest,
            self.cancelled,
            self.report_requests,
        )?;
        let chosen: Vec<PolicySet> = numbers.iter().map(|set| sets[*set].clone()).collect();
        let (made, requests) = self.run_sets(&simulation, &chosen, 1, runs.shortened)?;
        sensitivity.simulated += requests;
        let all_trials: Option<Vec<Trial>> = made.into_iter().collect();
        match all_trials.map(|trials| runs.score_trials(&trials, self.question.rest_hours)) {
            Some(Err(TuneError::NoMetric { .. })) | None => Ok(None),
            Some(scores) => scores.map(Some),
        }
    }

    /// Runs some of the sets, by their numbers, with a figure at each end of its range.
    pub(crate) fn screen_figure(
        &self,
        screening: &Screening,
        assumption: &Assumption,
        numbers: &[usize],
        sensitivity: &mut Sensitivity,
    ) -> Result<ScreenedFigure, TuneError> {
        let mut screened = ScreenedFigure {
            ends: Vec::new(),
            way_left: 1.0,
            is_without_effect: true,
        };
        for variation in &assumption.ends {
            let Some((value, machine, sets)) = self.vary(&assumption.name, variation) else {
                continue;
            };
            let simulation = self.simulate_on(&machine)?;
            let chosen: Vec<PolicySet> = numbers.iter().map(|set| sets[*set].clone()).collect();
            let (made, requests) = self.run_sets(&simulation, &chosen, 1, sensitivity.shortened)?;
            sensitivity.simulated += requests;
            let mut trials: Vec<Option<Trial>> = vec![None; sets.len()];
            for (number, trial) in numbers.iter().zip(made) {
                let before = screening.trials[*number].as_ref();
                screened.is_without_effect &= trial
                    .as_ref()
                    .zip(before)
                    .is_some_and(|(now, before)| now.has_same_metrics(before));
                trials[*number] = trial;
            }
            let standings = self.standings_of_trials(&trials, sensitivity.shortened)?;
            let judged = standings.and_then(|standings| screening.judge_varied(&standings));
            let Some(judged) = judged else {
                continue;
            };
            screened.way_left = screened.way_left.min(judged.way_left);
            screened.ends.push(AnswerAtRangeEnd {
                value,
                gain_percent: self.gain_of_answer(100.0 * judged.change),
                other_answer: None,
                breaks_condition: false,
            });
        }
        Ok(screened)
    }

    /// The answer by whole runs with a figure at each end of its range.
    pub(crate) fn run_whole_at_each_end(
        &self,
        assumption: &Assumption,
        as_assumed: &mut Option<DecidedAsAssumed>,
        sensitivity: &mut Sensitivity,
    ) -> Result<Vec<AnswerAtRangeEnd>, TuneError> {
        let mut ends = Vec::new();
        for variation in &assumption.ends {
            let found = self.find_answer_under(&assumption.name, variation)?;
            let Some((mut end, requests)) = found else {
                continue;
            };
            sensitivity.simulated += requests;
            if end.other_answer.is_some() {
                let decided = if let Some(known) = as_assumed.take() {
                    known
                } else {
                    let decided = self.decide_with_assumed_figures()?;
                    sensitivity.simulated += decided.requests;
                    decided
                };
                end.other_answer = end
                    .other_answer
                    .filter(|other| decided.other_answer.as_ref() != Some(other));
                *as_assumed = Some(decided);
            }
            ends.push(end);
        }
        Ok(ends)
    }

    /// The gain over the present settings in percent, from the change of the objective; `None` where nothing was to be changed.
    fn gain_of_answer(&self, change_percent: f64) -> Option<f64> {
        let gain = -change_percent * self.request.objective.goal.sign_to_minimise();
        (self.contenders.answer > 0 && gain.is_finite()).then_some(gain)
    }

    /// How each set stands in runs; `None` where the present settings or the answer did not run.
    fn standings_of_trials(
        &self,
        trials: &[Option<Trial>],
        shortened: u32,
    ) -> Result<Option<Vec<Option<Standing>>>, TuneError> {
        let scores = self.score_trials(trials, shortened)?;
        Ok(scores.map(|scores| {
            let standings = scores.iter();
            standings
                .map(|score| score.as_ref().map(Standing::from_score))
                .collect()
        }))
    }

    /// The value, machine and sets of a variation; `None` where the machine cannot have it.
    fn vary(&self, name: &str, variation: &Variation) -> Option<(f64, Machine, Vec<PolicySet>)> {
        match variation {
            Variation::Figure(value) => {
                let machine = self.machine.with_figure_value(name, *value).ok()?;
                Some((*value, machine, self.contenders.sets.clone()))
            }
            Variation::Figures(values) => {
                let mut machine = self.machine.clone();
                for (figure, value) in values {
                    machine = machine.with_figure_value(figure, *value).ok()?;
                }
                Some((0.0, machine, self.contenders.sets.clone()))
            }
            Variation::EppEffect(factor) => {
                let sets = self.contenders.sets.iter();
                let scaled = sets.map(|set| set_with_scaled_epp_effect(self.machine, set, *factor));
                Some((*factor, self.machine.clone(), scaled.collect()))
            }
        }
    }

    /// The answer under a variation, and the number of simulated requests. `None` where the machine cannot have the variation,
    /// or the present settings cannot run under the variation.
    fn find_answer_under(
        &self,
        name: &str,
        variation: &Variation,
    ) -> Result<Option<(AnswerAtRangeEnd, u64)>, TuneError> {
        let Some((value, machine, sets)) = self.vary(name, variation) else {
            return Ok(None);
        };
        let simulation = self.simulate_on(&machine)?;
        let (trials, mut requests) = self.run_sets(&simulation, &sets, 1, 1)?;
        let Some(scores) = self.score_trials(&trials, 1)? else {
            return Ok(None);
        };
        let trials = if self.does_any_set_look_better_than_answer(&scores) {
            let (more, added) = self.run_sets(&simulation, &sets, REPEATS, 1)?;
            requests += added;
            more
        } else {
            trials
        };
        let end = self.decide_between_trials(value, &trials)?;
        Ok(end.map(|end| (end, requests)))
    }

    /// Decides with all figures as assumed, by as many runs as a changed answer takes.
    fn decide_with_assumed_figures(&self) -> Result<DecidedAsAssumed, TuneError> {
        let simulation = self.simulate_on(self.machine)?;
        let (trials, requests) = self.run_sets(&simulation, &self.contenders.sets, REPEATS, 1)?;
        let decided = self.decide_between_trials(0.0, &trials)?;
        Ok(DecidedAsAssumed {
            other_answer: decided.and_then(|end| end.other_answer),
            requests,
        })
    }

    fn simulate_on<'m>(&'m self, machine: &'m Machine) -> Result<Simulation<'m>, TuneError> {
        Simulation::new(
            machine,
            &self.request.loads,
            self.request.objective.counts_hours_of_rest(),
            self.cancelled,
            self.report_requests,
        )
    }

    /// Runs of each set on the first deciding seeds, `None` for a refused set; and the simulated requests.
    fn run_sets(
        &self,
        simulation: &Simulation<'_>,
        sets: &[PolicySet],
        repeats: u32,
        shortened: u32,
    ) -> Result<(Vec<Option<Trial>>, u64), TuneError> {
        let (seed, stage) = (self.request.seed, finalists::STAGE);
        let effort = Effort::with_stage_seeds(seed, stage, repeats, shortened);
        let outcomes = simulation.run_sets_in_order(sets, effort)?;
        let trials: Vec<Option<Trial>> = outcomes
            .into_iter()
            .map(|outcome| match outcome {
                TrialOutcome::Ran(trial) => Some(trial),
                TrialOutcome::Refused(_) => None,
            })
            .collect();
        let requests = trials.iter().flatten().map(|trial| trial.requests).sum();
        Ok((trials, requests))
    }

    /// The score of each set with runs; `None` where the present settings or the answer did not run.
    fn score_trials(
        &self,
        trials: &[Option<Trial>],
        shortened: u32,
    ) -> Result<Option<Vec<Option<Score>>>, TuneError> {
        let Some(Some(in_force)) = trials.first() else {
            return Ok(None);
        };
        if trials[self.contenders.answer].is_none() {
            return Ok(None);
        }
        let scores = trials.iter().map(|trial| {
            let score = |trial| {
                self.question
                    .score_trial(trial, in_force, 1.0 / f64::from(shortened))
            };
            trial.as_ref().map(score).transpose()
        });
        scores.collect::<Result<_, _>>().map(Some)
    }

    fn does_any_set_look_better_than_answer(&self, scores: &[Option<Score>]) -> bool {
        let answer = scores[self.contenders.answer].as_ref();
        scores.iter().flatten().any(|score| {
            answer.is_some_and(|answer| {
                let clearly = answer.objective - LOOKS_BETTER * answer.objective.abs();
                score.excess < answer.excess
                    || (score.excess <= answer.excess && score.objective < clearly)
            })
        })
    }

    /// Decides between the sets as the search does. `None` where the present settings or the answer did not run.
    fn decide_between_trials(
        &self,
        value: f64,
        trials: &[Option<Trial>],
    ) -> Result<Option<AnswerAtRangeEnd>, TuneError> {
        let answer = self.contenders.answer;
        let (Some(scores), Some(Some(in_force)), Some(Some(answer_trial))) = (
            self.score_trials(trials, 1)?,
            trials.first(),
            trials.get(answer),
        ) else {
            return Ok(None);
        };
        let (objective, drawing) = (&self.request.objective, (LEVEL, self.request.seed));
        let answer_values = self.question.objective_in_each_seed(answer_trial)?;
        let answer_excess = scores[answer].as_ref().map_or(0.0, |score| score.excess);
        let mut better = None;
        for (index, (trial, score)) in trials.iter().zip(&scores).enumerate() {
            let (Some(trial), Some(score)) = (trial, score) else {
                continue;
            };
            let values = self.question.objective_in_each_seed(trial)?;
            let replaces = if answer_excess > 0.0 {
                score.excess < answer_excess
            } else {
                index != answer
                    && score.excess <= 0.0
                    && is_better_beyond_chance(objective, drawing, &values, &answer_values)
            };
            let key = (score.excess, score.objective);
            if replaces && better.is_none_or(|(_, best)| key < best) {
                better = Some((index, key));
            }
        }
        let before = mean(&self.question.objective_in_each_seed(in_force)?);
        let change = 100.0 * (mean(&answer_values) / before - 1.0);
        Ok(Some(AnswerAtRangeEnd {
            value,
            gain_percent: self.gain_of_answer(change),
            other_answer: better.map(|(index, _)| match index {
                0 => "what is in force".to_owned(),
                _ => self.contenders.sets[index].to_string(),
            }),
            breaks_condition: answer_excess > 0.0,
        }))
    }
}
