//! Error rates of the canary over simulated roll-outs: for tests, and for the benchmark `canary_figures`.

use std::ops::RangeInclusive;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rayon::prelude::*;
use wakepath_watch::canary::{
    CanaryMetric, CanaryVerdict, FleetSeries, Judgement, PlanRequest, RollOut, UnixHour,
    judge_roll_out, plan_roll_out,
};

use crate::simulated_fleet::{FleetModel, Reported, name_of_machine, simulate_fleet};

/// Hours before the change.
pub(crate) const BEFORE: i64 = 7 * 24;

/// Days after the change.
pub(crate) const DAYS: u32 = 14;

/// Share of fresh roll-outs that find the harm of a plan for 80 % power. A plan knows the noise from one history of three weeks.
pub(crate) const CONFIRMED_POWER: RangeInclusive<f64> = 0.72..=0.97;

/// Largest difference between found and planned share, without noise.
pub(crate) const PLANNED_WITHIN: f64 = 0.05;

pub(crate) fn metric(reported: Reported) -> CanaryMetric {
    let name = match reported {
        Reported::Power => "mean_mw",
        Reported::Latencies => "p99_us",
    };
    CanaryMetric::from_name(name, None).unwrap()
}

pub(crate) fn judge(
    series: &FleetSeries,
    model: FleetModel,
    days: u32,
    tolerated: f64,
) -> Judgement {
    let roll_out = RollOut {
        changed: (0..model.changed).map(name_of_machine).collect(),
        since_s: UnixHour(model.change).begin_s(),
        days,
        tolerated,
        alpha: 0.05,
    };
    judge_roll_out(series, &roll_out, &metric(model.reported)).unwrap()
}

/// A roll-out of random size.
pub(crate) fn random_model(seed: u64, harm: f64, reported: Reported) -> FleetModel {
    let mut random = Pcg64Mcg::seed_from_u64(seed ^ 0x5eed);
    let changed = random.random_range(2..=10);
    FleetModel {
        machines: changed + random.random_range(2..=30),
        hours: BEFORE + i64::from(DAYS) * 24 + 1,
        change: BEFORE,
        changed,
        harm,
        reported,
    }
}

/// Number of roll-outs with each verdict: go on, stop, take back.
pub(crate) fn count_verdicts(
    roll_outs: u64,
    harm: f64,
    tolerated: f64,
    reported: Reported,
) -> [u64; 3] {
    let verdicts: Vec<CanaryVerdict> = (0..roll_outs)
        .into_par_iter()
        .map(|seed| {
            let model = random_model(seed, harm, reported);
            judge(&simulate_fleet(model, seed), model, DAYS, tolerated).verdict
        })
        .collect();
    [
        CanaryVerdict::GoOn,
        CanaryVerdict::Stop,
        CanaryVerdict::TakeBack,
    ]
    .map(|wanted| {
        verdicts
            .iter()
            .filter(|verdict| **verdict == wanted)
            .count() as u64
    })
}

/// A row of a plan, and how often fresh roll-outs of its size find the harm.
#[derive(Debug)]
pub(crate) struct ConfirmedPlan {
    pub(crate) days: u32,
    pub(crate) changed: usize,
    pub(crate) machines: usize,
    /// Share of the plan's own trials that find the harm.
    pub(crate) planned: f64,
    /// Largest share of false alarms in the plan's own trials, of all its roll-outs.
    pub(crate) false_alarms: f64,
    /// Share of fresh roll-outs that find the harm.
    pub(crate) found: f64,
}

impl ConfirmedPlan {
    /// Whether fresh roll-outs find the harm as often as planned: within 5 points, and the noise of both counts (three standard
    /// deviations of the difference of two binomial shares).
    pub(crate) fn is_confirmed(&self, trials: u32, roll_outs: u64) -> bool {
        let variance = self.planned * (1.0 - self.planned);
        let noise = (variance * (1.0 / f64::from(trials) + 1.0 / roll_outs as f64)).sqrt();
        (self.found - self.planned).abs() <= PLANNED_WITHIN + 3.0 * noise
    }
}

/// Plans roll-outs that find 10 % more power with 80 % power, and simulates each row afresh.
pub(crate) fn plan_and_simulate(trials: u32, roll_outs: u64) -> Vec<ConfirmedPlan> {
    let machines = 60;
    let history = FleetModel {
        machines,
        hours: 21 * 24,
        change: 0,
        changed: 0,
        harm: 0.0,
        reported: Reported::Power,
    };
    let request = PlanRequest {
        harm: 0.1,
        machines,
        power: 0.8,
        alpha: 0.05,
        trials,
        seed: 1,
    };
    let plan = plan_roll_out(
        &simulate_fleet(history, 77),
        &metric(Reported::Power),
        &request,
    )
    .unwrap();
    let all_false_alarms = plan.roll_outs.iter().filter_map(|row| row.false_alarms);
    let false_alarms = all_false_alarms.fold(0.0, f64::max);
    let confirmed = plan.roll_outs.iter().filter_map(|row| {
        let changed = row.changed?;
        Some(ConfirmedPlan {
            days: row.days,
            changed,
            machines,
            planned: row.found.unwrap(),
            false_alarms,
            found: share_found(row.days, changed, machines, request.harm, roll_outs),
        })
    });
    confirmed.collect()
}

/// Share of fresh roll-outs that find a harm as a plan says.
fn share_found(days: u32, changed: usize, machines: usize, harm: f64, roll_outs: u64) -> f64 {
    let found = (0..roll_outs)
        .into_par_iter()
        .filter(|seed| {
            let model = FleetModel {
                machines,
                hours: BEFORE + i64::from(days) * 24 + 1,
                change: BEFORE,
                changed,
                harm,
                reported: Reported::Power,
            };
            let series = simulate_fleet(model, 1_000_000 + seed);
            judge(&series, model, days, harm).verdict == CanaryVerdict::TakeBack
        })
        .count();
    found as f64 / roll_outs as f64
}
