//! How many machines and days find a given harm: trial roll-outs resampled from a fleet's own history.
//!
//! A trial picks a moment without any change, draws machines with replacement, adds the harm to some machines, and
//! judges all as [`judge_roll_out`](super::judge_roll_out) does. So noise, day curves, unlike machines and gaps come
//! from the fleet itself.

use std::ops::Range;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use serde::Serialize;

use super::CanaryError;
use super::harm::{CanaryVerdict, GroupHarm, decide_by_harm};
use super::judgement::FEWEST_MACHINES;
use super::metric::CanaryMetric;
use super::schedule::{InterimAnalysis, plan_analyses};
use super::series::{FleetSeries, UnixHour};

/// Lengths of roll-outs to choose from, in days.
const DAYS: [u32; 6] = [1, 2, 4, 7, 14, 28];

/// Hours that the history needs before a trial's change.
const HOURS_BEFORE: i64 = 24;

/// Most moments in the history at which trials begin.
const MOST_MOMENTS: i64 = 48;

/// Trials behind each step when the number of machines is searched.
const SEARCH_TRIALS: u32 = 1000;

/// A plan's request.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlanRequest {
    /// Harm to find, as a share: 0.05 for 5 %.
    pub harm: f64,
    /// Machines in the fleet: changed and left alone.
    pub machines: usize,
    /// Wanted probability of finding the harm.
    pub power: f64,
    /// Error rate of both wrong verdicts.
    pub alpha: f64,
    /// Number of trials to confirm each row, on fresh seeds.
    pub trials: u32,
    /// Start of all random numbers.
    pub seed: u64,
}

/// A roll-out of some days.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PlannedRollOut {
    /// Days until the last analysis.
    pub days: u32,
    /// Fewest machines to change; `None`: even half the fleet does not find the harm in time.
    pub changed: Option<usize>,
    /// Machines to leave alone.
    pub left_alone: Option<usize>,
    /// Share of harmful trials with the verdict to take back.
    pub found: Option<f64>,
    /// Share of harmless trials with the verdict to take back.
    pub false_alarms: Option<f64>,
    /// Standard deviation between machines without any change, in %.
    pub spread_percent: f64,
}

/// How many machines and days find a harm.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RollOutPlan {
    /// Name of the metric.
    pub metric: String,
    /// Harm to find, in %.
    pub harm_percent: f64,
    /// Machines of the fleet.
    pub machines: usize,
    /// Machines in the history.
    pub machines_in_history: usize,
    /// Hours of history.
    pub hours: i64,
    /// Wanted probability of finding the harm.
    pub power: f64,
    /// Number of trials behind each share.
    pub trials: u32,
    /// Roll-outs by length.
    pub roll_outs: Vec<PlannedRollOut>,
    /// What a reader should know.
    pub notes: Vec<String>,
}

/// Machines' noise at a moment without any change: a machine per row, an analysis per column; NaN where a machine does
/// not count.
type MachineNoise = Vec<Vec<f64>>;

/// Trials for one length.
struct Trials {
    analyses: Vec<InterimAnalysis>,
    moments: Vec<MachineNoise>,
    sign: f64,
}

/// How a trial is set up.
#[derive(Clone, Copy)]
struct TrialSetup {
    changed: usize,
    left_alone: usize,
    /// Harm as a share; 0 for trials of false alarms.
    harm: f64,
    /// Harm that is tolerated, as a share.
    tolerated: f64,
}

impl TrialSetup {
    /// Trials with the requested harm, to so many machines.
    const fn with_harm(request: &PlanRequest, changed: usize) -> Self {
        Self {
            changed,
            left_alone: request.machines - changed,
            harm: request.harm,
            tolerated: request.harm,
        }
    }
}

/// Plans a roll-out by a history without changes.
///
/// # Errors
/// The history has too few machines, or is shorter than two days; the request is impossible.
pub fn plan_roll_out(
    series: &FleetSeries,
    metric: &CanaryMetric,
    request: &PlanRequest,
) -> Result<RollOutPlan, CanaryError> {
    check_request(request)?;
    let (first, last) = series
        .first_and_last_hour()
        .ok_or_else(|| CanaryError::Machines("no machine has any value".to_owned()))?;
    let end = last.plus_hours(1);
    let hours = end.0 - first.0;
    let mut roll_outs = Vec::new();
    for days in DAYS {
        let trials = Trials::from_history(series, metric, first..end, days, request.alpha);
        if let Some(trials) = trials {
            roll_outs.push(trials.plan_for_days(days, request));
        }
    }
    if roll_outs.is_empty() {
        return Err(CanaryError::History(format!(
            "{hours} hours of {} machines: a plan needs two days of at least {FEWEST_MACHINES} machines without a change",
            series.machines.len()
        )));
    }
    let mut notes = series.notes.clone();
    notes.extend(describe_unplanned_days(&roll_outs, hours));
    Ok(RollOutPlan {
        metric: metric.name().to_owned(),
        harm_percent: request.harm * 100.0,
        machines: request.machines,
        machines_in_history: series.machines.len(),
        hours,
        power: request.power,
        trials: request.trials,
        roll_outs,
        notes,
    })
}

fn check_request(request: &PlanRequest) -> Result<(), CanaryError> {
    if !(request.harm.is_finite() && request.harm > 0.0) {
        return Err(CanaryError::Machines(
            "the harm to find must be above 0 %".to_owned(),
        ));
    }
    if request.machines < 2 * FEWEST_MACHINES {
        return Err(CanaryError::Machines(format!(
            "a fleet of {} machines: at least {FEWEST_MACHINES} are changed and {FEWEST_MACHINES} left alone",
            request.machines
        )));
    }
    Ok(())
}

/// A note on the lengths that the history is too short for.
fn describe_unplanned_days(roll_outs: &[PlannedRollOut], hours: i64) -> Option<String> {
    let longest = roll_outs.last()?.days;
    let next = DAYS.into_iter().find(|days| *days > longest)?;
    Some(format!(
        "{hours} hours of history reach for roll-outs of {longest} days; {next} days need {} hours",
        i64::from(next) * 24 + HOURS_BEFORE
    ))
}

impl Trials {
    /// Prepares trials of some days; `None` if the history is too short, or has too few machines.
    fn from_history(
        series: &FleetSeries,
        metric: &CanaryMetric,
        history: Range<UnixHour>,
        days: u32,
        alpha: f64,
    ) -> Option<Self> {
        let analyses = plan_analyses(days, alpha);
        let begin = history.start.0 + HOURS_BEFORE;
        let end = history.end.0 - i64::from(days) * 24;
        if end < begin {
            return None;
        }
        let step = ((end - begin) / MOST_MOMENTS + 1).max(1);
        let moments = (begin..=end)
            .step_by(usize::try_from(step).unwrap_or(1))
            .map(|moment| measure_noise(series, metric, history.start, UnixHour(moment), &analyses))
            .filter(|machines: &MachineNoise| machines.len() >= FEWEST_MACHINES)
            .collect::<Vec<_>>();
        (!moments.is_empty()).then_some(Self {
            analyses,
            moments,
            sign: metric.harm_sign(),
        })
    }

    /// Finds the fewest changed machines, and confirms them on fresh seeds.
    fn plan_for_days(&self, days: u32, request: &PlanRequest) -> PlannedRollOut {
        let most = request.machines / 2;
        let mut changed = find_fewest(FEWEST_MACHINES, most, |changed| {
            let setup = TrialSetup::with_harm(request, changed);
            self.share_taken_back(setup, SEARCH_TRIALS, request.seed) >= request.power
        });
        let fresh_seed = request.seed.wrapping_add(1 << 32);
        let mut found = None;
        // The smallest number of a noisy search is often too small by chance: fresh trials decide.
        while let Some(machines) = changed {
            let setup = TrialSetup::with_harm(request, machines);
            let share = self.share_taken_back(setup, request.trials, fresh_seed);
            found = Some(share);
            if share >= request.power {
                break;
            }
            changed = (machines < most).then_some(machines + 1);
        }
        let false_alarms = changed.map(|machines| {
            let setup = TrialSetup {
                harm: 0.0,
                ..TrialSetup::with_harm(request, machines)
            };
            self.share_taken_back(setup, request.trials, fresh_seed)
        });
        PlannedRollOut {
            days,
            changed,
            left_alone: changed.map(|machines| request.machines - machines),
            found: changed.and(found),
            false_alarms,
            spread_percent: (self.spread_at_last_analysis().exp() - 1.0) * 100.0,
        }
    }

    /// Share of trials with the verdict to take back.
    fn share_taken_back(&self, setup: TrialSetup, trials: u32, seed: u64) -> f64 {
        let taken_back = (0..trials)
            .into_par_iter()
            .filter(|trial| {
                let mut random = Pcg64Mcg::seed_from_u64(seed.wrapping_add(u64::from(*trial)));
                self.run_trial(setup, &mut random) == Some(CanaryVerdict::TakeBack)
            })
            .count();
        taken_back as f64 / f64::from(trials.max(1))
    }

    /// The first verdict in a trial; `None`: undecided at the end.
    fn run_trial(&self, setup: TrialSetup, random: &mut Pcg64Mcg) -> Option<CanaryVerdict> {
        let machines = &self.moments[random.random_range(0..self.moments.len())];
        let changed = draw_with_replacement(machines.len(), setup.changed, random);
        let left_alone = draw_with_replacement(machines.len(), setup.left_alone, random);
        let shift = setup.harm.ln_1p();
        self.analyses
            .iter()
            .enumerate()
            .find_map(|(index, analysis)| {
                let harmed = self.harm_at_analysis(machines, &changed, index, shift);
                let others = self.harm_at_analysis(machines, &left_alone, index, 0.0);
                decide_by_harm(&harmed, &others, setup.tolerated, analysis).verdict
            })
    }

    /// Harm to drawn machines at an analysis: noise, and a shift that all share.
    fn harm_at_analysis(
        &self,
        machines: &MachineNoise,
        drawn: &[usize],
        analysis: usize,
        shift: f64,
    ) -> GroupHarm {
        // Drawing with replacement shrinks the spread between a few machines by this factor.
        let count = machines.len() as f64;
        let widening = (count / (count - 1.0)).sqrt();
        let values = drawn
            .iter()
            .map(|machine| machines[*machine][analysis])
            .filter(|noise| !noise.is_nan())
            .map(|noise| self.sign * noise * widening + shift);
        GroupHarm::from_exact_values(values.collect())
    }

    /// Standard deviation of machines' changes at the last analysis, over all moments.
    fn spread_at_last_analysis(&self) -> f64 {
        let (mut squares, mut freedom) = (0.0, 0.0);
        for machines in &self.moments {
            let values: Vec<f64> = machines
                .iter()
                .filter_map(|machine| machine.last().copied())
                .filter(|value| !value.is_nan())
                .collect();
            let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
            squares += values
                .iter()
                .map(|value| (value - mean).powi(2))
                .sum::<f64>();
            freedom += values.len().saturating_sub(1) as f64;
        }
        (squares / f64::max(freedom, 1.0)).sqrt()
    }
}

/// Each machine's change at each analysis around a moment without any change.
fn measure_noise(
    series: &FleetSeries,
    metric: &CanaryMetric,
    first: UnixHour,
    moment: UnixHour,
    analyses: &[InterimAnalysis],
) -> MachineNoise {
    let machines = series.machines.values().map(|machine| {
        let changes = analyses.iter().map(|analysis| {
            let after = moment..moment.plus_hours(i64::from(analysis.hours));
            let change = machine.measure_change(metric, first..moment, after);
            change.map_or(f64::NAN, |change| change.log_ratio)
        });
        changes.collect::<Vec<f64>>()
    });
    // A machine without a value at the last analysis would not count in a real roll-out either.
    machines
        .filter(|changes| changes.last().is_some_and(|change| !change.is_nan()))
        .collect()
}

/// Draws so many machines with replacement.
fn draw_with_replacement(machines: usize, count: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    (0..count)
        .map(|_| random.random_range(0..machines))
        .collect()
}

/// The smallest number from `low` to `high` that is enough, if more is never worse.
fn find_fewest(low: usize, high: usize, is_enough: impl Fn(usize) -> bool) -> Option<usize> {
    if low > high || !is_enough(high) {
        return None;
    }
    let (mut too_few, mut enough) = (low - 1, high);
    while enough - too_few > 1 {
        let middle = usize::midpoint(too_few, enough);
        if is_enough(middle) {
            enough = middle;
        } else {
            too_few = middle;
        }
    }
    Some(enough)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_machines_are_found() {
        for wanted in 2..=40 {
            assert_eq!(find_fewest(2, 40, |count| count >= wanted), Some(wanted));
        }
        assert_eq!(find_fewest(2, 40, |_| false), None);
        assert_eq!(find_fewest(2, 1, |_| true), None);
    }

    #[test]
    fn impossible_plans_are_refused() {
        let request = PlanRequest {
            harm: 0.05,
            machines: 3,
            power: 0.8,
            alpha: 0.05,
            trials: 100,
            seed: 1,
        };
        let metric = CanaryMetric::from_name("mean_mw", None).unwrap();
        let empty = FleetSeries::default();
        let three_machines = plan_roll_out(&empty, &metric, &request).unwrap_err();
        assert!(
            three_machines
                .to_string()
                .contains("at least 2 are changed")
        );
        let no_harm = PlanRequest {
            harm: 0.0,
            machines: 10,
            ..request
        };
        let without_harm = plan_roll_out(&empty, &metric, &no_harm).unwrap_err();
        assert!(without_harm.to_string().contains("above 0 %"));
        let no_data = PlanRequest {
            machines: 10,
            ..request
        };
        let without_data = plan_roll_out(&empty, &metric, &no_data).unwrap_err();
        assert!(
            without_data
                .to_string()
                .contains("no machine has any value")
        );
    }
}
