//! Which assumed figures of the machine would change the answer.
//!
//! Each assumed figure goes to the low and the high end of a range, one figure at a time, those of likely influence first if
//! the requests are too few for all. One short run of each set screens
//! all figures ([`Screening`]): first the present settings, the answer and the set nearest to it, then the others, unless a
//! figure changed nothing at all. For figures that come near to a change, the sets run again on the deciding
//! seeds: once each, and several times where a runner-up then looks better. A figure changes the answer only where so few runs
//! decide otherwise than with the assumed figures: the search itself had more runs.

use std::sync::atomic::AtomicBool;

use wakepath_hardware::Machine;

use crate::TuneError;
use crate::answer::SearchAnswer;
use crate::assumption::{Assumption, list_assumptions};
use crate::figures::Question;
use crate::load::check_hours_and_count_rest;
use crate::range_study::{
    Contenders, DecidedAsAssumed, RangeStudy, SCREENING_SHARE, ScreenedFigure,
};
use crate::screening::{NEAR, Screening};
use crate::search::SearchRequest;
use crate::varied_figure::{Sensitivity, VariedFigure};

/// Figures whose influences add up to more are not varied together.
const MOST_OF_GROUP: f64 = 0.02;

/// Runs the answer and its runners-up with each assumed figure of the machine at both ends of a range: all by short runs, and
/// those that come near to a change by whole ones, the nearest first. At most `most_requests` are simulated; figures beyond
/// this budget are named.
///
/// `None` where no set was the answer.
///
/// # Errors
/// Impossible loads, or called off by the user.
pub fn vary_assumed_figures(
    machine: &Machine,
    request: &SearchRequest,
    answer: &SearchAnswer,
    most_requests: u64,
    cancelled: &AtomicBool,
    report_requests: &(dyn Fn(u64) + Sync),
) -> Result<Option<Sensitivity>, TuneError> {
    let Some(contenders) = Contenders::from_answer(answer, request.objective.goal) else {
        return Ok(None);
    };
    let mut assumptions = list_assumptions(machine, &contenders.sets);
    let conditions = request.conditions_with_implied_rates();
    let study = RangeStudy {
        machine,
        request,
        question: Question {
            loads: &request.loads,
            rest_hours: check_hours_and_count_rest(&request.loads)?,
            objective: &request.objective,
            conditions: &conditions,
            noise: Vec::new(),
        },
        contenders: &contenders,
        cancelled,
        report_requests,
    };
    let mut sensitivity = Sensitivity {
        figures: Vec::new(),
        not_reached: Vec::new(),
        not_reached_without_effect: 0,
        ordered_by_shortened: None,
        shortened: 1,
        simulated: 0,
        requests_for_all: None,
    };
    let Some(screening) = study.screen_as_assumed(&assumptions, most_requests, &mut sensitivity)?
    else {
        return Ok(None);
    };
    let requests_as_assumed = sensitivity.simulated;
    study.put_influential_first(
        &screening,
        &mut assumptions,
        most_requests,
        &mut sensitivity,
    )?;
    let mut rounds = ScreeningRounds {
        study: &study,
        screening: &screening,
        assumptions: &assumptions,
        most_requests,
        screened: assumptions.iter().map(|_| None).collect(),
        varied: assumptions.iter().map(|_| None).collect(),
        as_assumed: None,
        requests_as_assumed,
        requests_of_whole_runs: 0,
    };
    rounds.screen_little_ones_together(&mut sensitivity)?;
    rounds.screen_by_nearest_sets(&mut sensitivity)?;
    rounds.run_whole_where_near(&mut sensitivity)?;
    rounds.screen_by_other_sets(&mut sensitivity)?;
    rounds.run_whole_where_near(&mut sensitivity)?;
    sensitivity.requests_for_all = rounds.estimate_requests_for_all();
    let varied = rounds.varied.into_iter();
    for (figure, assumption) in varied.zip(&assumptions) {
        if let Some(figure) = figure {
            sensitivity.figures.push(figure);
            continue;
        }
        let is_without_effect = assumption.influence == Some(0.0);
        sensitivity.not_reached_without_effect += usize::from(is_without_effect);
        sensitivity.not_reached.push(assumption.name.clone());
    }
    Ok(Some(sensitivity))
}

/// All figures on their way through the rounds of screening and whole runs.
struct ScreeningRounds<'a> {
    study: &'a RangeStudy<'a>,
    screening: &'a Screening,
    assumptions: &'a [Assumption],
    most_requests: u64,
    /// What screening says of each figure; `None` for figures that no requests were left for.
    screened: Vec<Option<ScreenedFigure>>,
    /// The result of each figure so far; `None` while it is not known.
    varied: Vec<Option<VariedFigure>>,
    as_assumed: Option<DecidedAsAssumed>,
    /// Number of requests of the runs with all figures as assumed.
    requests_as_assumed: u64,
    /// Number of requests of whole runs with varied figures.
    requests_of_whole_runs: u64,
}

impl ScreeningRounds<'_> {
    /// About how many requests would reach every figure, one by one and with every set; `None` where every figure ran
    /// so, or had no effect. As large a share of all figures as of those judged is taken to come near to a change.
    fn estimate_requests_for_all(&self) -> Option<u64> {
        let mut results = self.varied.iter().map(Option::as_ref);
        if results.all(|varied| varied.is_some_and(|varied| !varied.with_nearest_only)) {
            return None;
        }
        let screening = self.screening;
        let as_assumed = self.requests_as_assumed as f64;
        // With less, figures of little influence would go together.
        let all: Vec<usize> = (0..screening.trials.len()).collect();
        let screened_singly =
            (as_assumed + screening.requests_of_sets(&all) + self.requests_at_all_ends(&all))
                / SCREENING_SHARE;
        let run_whole = self.requests_of_whole_runs_per_judged_figure();
        let run_in_all = as_assumed
            + self.requests_at_all_ends(&screening.nearest_sets())
            + self.requests_at_all_ends(&screening.other_sets_beside_answer())
            + run_whole * self.assumptions.len() as f64;
        Some(screened_singly.max(run_in_all).ceil() as u64)
    }

    /// Number of requests at both ends of every figure, with these sets.
    fn requests_at_all_ends(&self, sets: &[usize]) -> f64 {
        let ends: usize = self.assumptions.iter().map(|one| one.ends.len()).sum();
        ends as f64 * self.screening.requests_of_sets(sets)
    }

    /// Number of requests that whole runs of all figures near to a change take, per judged figure.
    fn requests_of_whole_runs_per_judged_figure(&self) -> f64 {
        let results = self.varied.iter().zip(&self.screened);
        let (mut judged, mut near, mut run_whole) = (0.0_f64, 0.0, 0.0);
        for (varied, screened) in results {
            let is_whole = varied.as_ref().is_some_and(|varied| !varied.by_one_run);
            let is_near = screened.as_ref().is_some_and(|one| one.way_left < NEAR);
            judged += f64::from(u8::from(varied.is_some() || screened.is_some()));
            near += f64::from(u8::from(is_near));
            run_whole += f64::from(u8::from(is_whole));
        }
        let per_figure = if run_whole > 0.0 {
            self.requests_of_whole_runs as f64 / run_whole
        } else {
            2.0 * self.requests_as_assumed as f64
        };
        per_figure * near / judged.max(1.0)
    }

    /// Figures of little influence in groups of little joint influence, the weakest first in a group and in the last group.
    fn group_figures_of_little_influence(&self) -> Vec<Vec<usize>> {
        let mut groups: Vec<Vec<usize>> = vec![Vec::new()];
        let mut moved = 0.0;
        let assumptions = self.assumptions.iter().enumerate().rev();
        for (index, assumption) in assumptions {
            let Some(own) = assumption.influence_if_little() else {
                continue;
            };
            moved += own;
            if moved > MOST_OF_GROUP {
                moved = own;
                groups.push(Vec::new());
            }
            if let Some(last) = groups.last_mut() {
                last.push(index);
            }
        }
        groups.reverse();
        groups
    }

    /// Varies figures of little influence together: all low, then all high. Where no change comes near, the whole group is
    /// judged; a group near a change is halved.
    fn screen_little_ones_together(
        &mut self,
        sensitivity: &mut Sensitivity,
    ) -> Result<(), TuneError> {
        let nearest = self.screening.nearest_sets();
        let has_others = nearest.len() < self.study.contenders.sets.len();
        // Half of what is left is for figures of more influence, one by one.
        let screening_end = (self.most_requests as f64 * SCREENING_SHARE) as u64;
        let most = sensitivity.simulated.midpoint(screening_end);
        let mut groups = self.group_figures_of_little_influence();
        while let Some(mut group) = groups.pop() {
            if sensitivity.simulated >= most {
                break;
            }
            let members = group.iter().map(|index| &self.assumptions[*index]);
            let Some(joined) = Assumption::join(members) else {
                continue;
            };
            let study = self.study;
            let judged = study.screen_figure(self.screening, &joined, &nearest, sensitivity)?;
            // A machine may be impossible with a whole group at one end: nothing was seen of the group then.
            if judged.way_left < NEAR || judged.ends.len() < joined.ends.len() {
                // The weaker half comes first in the group, and has its turn first.
                let stronger = group.split_off(group.len() / 2);
                groups.extend([stronger, group]);
                continue;
            }
            for index in group {
                self.varied[index] = Some(VariedFigure {
                    together: true,
                    with_nearest_only: has_others && !judged.is_without_effect,
                    ..self.assumptions[index].with_ends(Vec::new(), true)
                });
            }
        }
        Ok(())
    }

    /// Runs the present settings, the answer and the set nearest to it with each figure.
    fn screen_by_nearest_sets(&mut self, sensitivity: &mut Sensitivity) -> Result<(), TuneError> {
        let nearest = self.screening.nearest_sets();
        let has_others = nearest.len() < self.study.contenders.sets.len();
        // The rest is for figures that come near to a change.
        let most = (self.most_requests as f64 * SCREENING_SHARE) as u64;
        for (index, assumption) in self.assumptions.iter().enumerate() {
            let is_out_of_requests = sensitivity.simulated >= most && index > 0;
            if is_out_of_requests || self.varied[index].is_some() {
                continue;
            }
            let study = self.study;
            let judged = study.screen_figure(self.screening, assumption, &nearest, sensitivity)?;
            self.varied[index] = (judged.way_left >= NEAR).then(|| VariedFigure {
                with_nearest_only: has_others && !judged.is_without_effect,
                ..assumption.with_ends(judged.ends.clone(), true)
            });
            self.screened[index] = Some(judged);
        }
        Ok(())
    }

    /// Runs the other sets with each figure that is not judged yet, those first whose change is nearest.
    fn screen_by_other_sets(&mut self, sensitivity: &mut Sensitivity) -> Result<(), TuneError> {
        let sets = self.screening.other_sets_beside_answer();
        for index in self.figures_nearest_first(VariedFigure::needs_other_sets) {
            if sensitivity.simulated >= self.most_requests {
                break;
            }
            let assumption = &self.assumptions[index];
            let study = self.study;
            let more = study.screen_figure(self.screening, assumption, &sets, sensitivity)?;
            let is_far = more.way_left >= NEAR;
            self.varied[index] = is_far.then(|| assumption.with_ends(more.ends.clone(), true));
            self.screened[index] = Some(more);
        }
        Ok(())
    }

    /// Runs all sets whole with each figure that came near to a change and is not judged yet.
    fn run_whole_where_near(&mut self, sensitivity: &mut Sensitivity) -> Result<(), TuneError> {
        for index in self.figures_nearest_first(|varied| varied.is_none()) {
            if sensitivity.simulated >= self.most_requests {
                break;
            }
            let assumption = &self.assumptions[index];
            let before = sensitivity.simulated;
            let ends =
                self.study
                    .run_whole_at_each_end(assumption, &mut self.as_assumed, sensitivity)?;
            self.requests_of_whole_runs += sensitivity.simulated - before;
            self.varied[index] = Some(assumption.with_ends(ends, false));
        }
        Ok(())
    }

    /// Screened figures whose results pass a test, the nearest to a change first.
    fn figures_nearest_first(
        &self,
        is_wanted: impl Fn(Option<&VariedFigure>) -> bool,
    ) -> Vec<usize> {
        let screened = self.screened.iter().zip(&self.varied).enumerate();
        let mut wanted: Vec<(f64, usize)> = screened
            .filter(|(_, (_, varied))| is_wanted(varied.as_ref()))
            .filter_map(|(index, (screened, _))| Some((screened.as_ref()?.way_left, index)))
            .collect();
        wanted.sort_by(|one, other| one.0.total_cmp(&other.0));
        wanted.into_iter().map(|(_, index)| index).collect()
    }
}
