//! Cost of exits from idle states, by requests alike but for the state.
//!
//! Compared are the times from issue to the interrupted CPU's first sign of life. The interrupt's handler comes behind it, and may
//! take longer after a deep state, whose caches went cold. That time is measured, and belongs to no exit.
//!
//! A request counts by the state chosen *first* after issue, because long requests let the governor choose again, and
//! deeper. The state met follows from the first choice by chance alone, so the first state serves as an instrument:
//! two-stage least squares within strata by gap, depth, clock and other CPUs. Without second choices the estimate is the
//! plain difference between means. Intervals come from a bootstrap over time blocks.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::comparison::{compare_states, is_possible};
use crate::estimate::ExitEstimate;
use crate::goes_with::GoesWith;
use crate::least_squares::{estimate_costs, estimate_mean_costs};
use crate::quantiles::{QuantileCost, compare_quantiles};
use crate::requests::{MetState, TracedRequest};
use crate::strata::{
    FEWEST, Sample, Stratum, keep_comparable_samples, largest_connected_states, make_sample,
};
use crate::variation::{Variation, cost_beside_cpus};

/// Why a state has no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseparated {
    /// Too few requests met the state.
    TooFew,
    /// The state goes with gap, depth, clock or other CPUs: no stratum has another state beside the state.
    GoesWithGap,
    /// The governor chose again during too many requests, so the state met was not the first choice.
    ChosenAnew,
    /// The cost differs between short and long gaps: package, link or drive sleep too, or hardware demotes.
    VariesWithGap,
    /// The cost depends on what other CPUs of the cluster or package did: cluster or package sleep with the state.
    VariesWithOtherCpus,
    /// A deeper state comes out surely cheaper than a shallower state: requests waited for something else beside the
    /// exit, such as other requests in a busy drive.
    GoesWithLoad,
}

/// Cost of an exit from a state above the exit from the reference.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ExitCost {
    /// Index of the idle state.
    pub state: u8,
    /// Requests with an interrupt that ended this state first.
    pub met: u64,
    /// Requests charged with the cost: 0 without a cost, otherwise `met`. If a late choice costs something else, only first choices
    /// count.
    pub charged: u64,
    /// Mean cost above the reference's, where known.
    pub cost: Option<ExitEstimate>,
    /// Differences between quantiles of the time to the first sign of life at 50, 90 and 99 %, where the cost is known, hardly any
    /// request saw the governor choose again, and enough requests lie beyond the quantile. Requests with the reference are weighted
    /// by the strata with the state.
    pub quantiles: [Option<QuantileCost>; 3],
    /// How much longer the interrupt's handler takes after this state than after the reference, in the mean in ns, such as by cold
    /// caches. Part of the measured interrupt, not of the cost. `None` where no cost is known.
    pub handler_ns: Option<f64>,
    /// Why no cost is known; `None` where one is.
    pub reason: Option<Unseparated>,
    /// What the state goes with, if that is the reason; `None` also where too few requests met another state.
    pub goes_with: Option<GoesWith>,
    /// The exit and what goes with the gap, such as the drive's sleep, where these cannot be parted: mean time to the first sign
    /// of life of requests that met the state above that of requests that met the shallowest state.
    pub together: Option<SumWithGap>,
    /// The cost while another CPU of the cluster ran, or of the package, if no cluster is known. `None` unless the cost varies with
    /// other CPUs and is one cost then.
    pub while_others_ran: Option<ExitEstimate>,
    /// The cost while no other CPU of the cluster or package ran, as `while_others_ran`.
    pub while_others_slept: Option<ExitEstimate>,
}

impl ExitCost {
    /// The cost, if the request met the state and is among those charged.
    pub(crate) fn cost_for(&self, request: &TracedRequest) -> Option<ExitEstimate> {
        let is_charged = self.charged == self.met || request.first == Some(self.state);
        self.cost.filter(|_| is_charged)
    }
}

/// Cost of an idle state together with what goes with the same gaps.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SumWithGap {
    /// Index of the shallowest state met, which the sum is above.
    pub above: u8,
    /// The sum.
    #[serde(flatten)]
    pub estimate: ExitEstimate,
}

/// Drive and idle exits apart.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Split {
    /// The shallowest compared state, the reference for the others. Without a comparison: the state that all exits were from, if
    /// there is one.
    pub reference: Option<u8>,
    /// Requests in strata with more than one state.
    pub compared: u64,
    /// All states met but the reference.
    pub states: Vec<ExitCost>,
    /// Mean cost per request of all exits with a cost, over all requests of the kind; `None` without a reference.
    pub charged: Option<ExitEstimate>,
}

impl Split {
    /// Makes a state the reference that nothing could be compared with, as all exits were from it.
    pub(crate) fn set_only_state(&mut self, only: u8) {
        self.reference = Some(only);
        self.states.retain(|exit| exit.state != only);
    }

    /// Mean exit from a state above the reference's, in ns; 0 for the reference, `None` for states without a cost.
    pub(crate) fn known_exit(&self, state: u8) -> Option<u64> {
        self.exit_by(state, |exit| exit.cost)
    }

    /// Mean exit from a state that the request met, as [`Split::known_exit`]; `None` also for requests that are not charged.
    pub(crate) fn known_exit_for(&self, request: &TracedRequest, state: u8) -> Option<u64> {
        self.exit_by(state, |exit| exit.cost_for(request))
    }

    fn exit_by(&self, state: u8, cost: impl Fn(&ExitCost) -> Option<ExitEstimate>) -> Option<u64> {
        match self.states.iter().find(|exit| exit.state == state) {
            Some(exit) => cost(exit).map(|cost| cost.mean_ns.max(0.0).round() as u64),
            None => (self.reference == Some(state)).then_some(0),
        }
    }
}

/// Splits times from issue to interrupt of requests from one kind, given in completion order.
pub fn split_drive_from_exits(requests: &[&TracedRequest]) -> Split {
    let mut met_counts: BTreeMap<u8, u64> = BTreeMap::new();
    let mut chosen_first: BTreeMap<u8, u64> = BTreeMap::new();
    for request in requests {
        if let MetState::State(state) = request.met {
            *met_counts.entry(state).or_default() += 1;
            *chosen_first.entry(state).or_default() += u64::from(request.first == Some(state));
        }
    }
    let samples: Vec<Sample> = requests.iter().filter_map(|r| make_sample(r)).collect();
    let overlapping = keep_comparable_samples(&samples);
    let component = largest_connected_states(&overlapping);
    let comparison = compare_states(&overlapping, component.clone());
    let others: Vec<u8> = comparison.states.iter().skip(1).copied().collect();
    let estimates = comparison.estimates.as_ref();
    let shallowest = comparison.states.first().copied();
    let reference = shallowest.filter(|_| estimates.is_some());
    let handler_costs =
        compare_handlers(&comparison.samples, &others).filter(|_| estimates.is_some());
    // No deeper exit is cheaper, so such a comparison found something else.
    let cheaper = estimates.is_some_and(|all| all.by_state.iter().any(is_surely_below_zero));
    let mut costs = Vec::new();
    let mut shares = vec![0.0; others.len()];
    for (state, met) in met_counts {
        if Some(state) == reference {
            continue;
        }
        let place = others.iter().position(|other| *other == state);
        let estimate = place.and_then(|place| estimates?.by_state.get(place).copied());
        let varies = comparison.varying.get(&state).copied();
        let possible = estimate.is_some_and(|estimate| is_possible(&estimate, &samples, state));
        let cost = estimate.filter(|_| possible && varies.is_none() && !cheaper);
        let reason = match cost {
            Some(_) => None,
            None if estimate.is_some() && cheaper => Some(Unseparated::GoesWithLoad),
            None if estimate.is_some() && !possible => Some(Unseparated::TooFew),
            None if varies == Some(Variation::WithOtherCpus) => {
                Some(Unseparated::VariesWithOtherCpus)
            }
            None if varies.is_some() => Some(Unseparated::VariesWithGap),
            None if comparison.foreign => Some(Unseparated::ChosenAnew),
            None if component.contains(&state) => Some(Unseparated::TooFew),
            None => Some(find_reason_without_cost(&samples, state)),
        };
        let charged = match cost {
            None => 0,
            Some(_) if comparison.by_first_choice.contains(&state) => {
                chosen_first.get(&state).copied().unwrap_or(0)
            }
            Some(_) => met,
        };
        if let Some(share) = place.and_then(|place| shares.get_mut(place)) {
            *share = charged as f64 / requests.len() as f64;
        }
        let goes_with_gap = matches!(
            reason,
            Some(Unseparated::GoesWithGap | Unseparated::VariesWithGap)
        );
        let cost_while_others = |ran: bool| {
            let varies = reason == Some(Unseparated::VariesWithOtherCpus);
            reference
                .filter(|_| varies)
                .and_then(|shallow| cost_beside_cpus(&overlapping, shallow, state, ran))
        };
        costs.push(ExitCost {
            goes_with: (reason == Some(Unseparated::GoesWithGap))
                .then(|| GoesWith::find(&samples, state))
                .flatten(),
            together: goes_with_gap
                .then(|| sum_with_gap(&samples, state))
                .flatten(),
            while_others_ran: cost_while_others(true),
            while_others_slept: cost_while_others(false),
            state,
            met,
            charged,
            cost,
            handler_ns: place
                .filter(|_| cost.is_some())
                .and_then(|place| handler_costs.as_ref()?.get(place).copied()),
            quantiles: cost
                .and_then(|_| compare_quantiles(&comparison.samples, reference?, state))
                .unwrap_or_default(),
            reason,
        });
    }
    let charged = estimates.and_then(|estimates| estimates.weighted_sum(&shares));
    Split {
        reference,
        compared: comparison.samples.len() as u64,
        states: costs,
        charged: charged.map(|charged| charged.widen_by_share(comparison.unusual)),
    }
}

/// How much longer handlers take after the states in `others` than after the reference, in the mean in ns.
fn compare_handlers(samples: &[Sample], others: &[u8]) -> Option<Vec<f64>> {
    let handlers: Vec<Sample> = samples
        .iter()
        .map(|sample| Sample {
            time: sample.handler,
            ..*sample
        })
        .collect();
    estimate_mean_costs(&handlers, others)
}

/// Mean time with a state above that with the shallowest state met, with its interval; `None` with too few samples, or where
/// the state is the shallowest.
fn sum_with_gap(samples: &[Sample], state: u8) -> Option<SumWithGap> {
    let above = samples.iter().map(|sample| sample.met).min()?;
    let compared: Vec<Sample> = samples
        .iter()
        .filter(|sample| sample.met == state || sample.met == above)
        // One stratum and no choice: the plain difference of means.
        .map(|sample| Sample {
            stratum: Stratum::default(),
            first: sample.met,
            ..*sample
        })
        .collect();
    let estimates = estimate_costs(&compared, &[state]).filter(|_| state != above)?;
    Some(SumWithGap {
        above,
        estimate: *estimates.by_state.first()?,
    })
}

/// The estimate is below zero by three standard errors.
fn is_surely_below_zero(estimate: &ExitEstimate) -> bool {
    estimate.mean_ns + 3.0 / 1.96 * estimate.half_width() < 0.0
}

/// Finds why a state is not compared.
fn find_reason_without_cost(samples: &[Sample], state: u8) -> Unseparated {
    let mut strata: BTreeMap<Stratum, usize> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| sample.first == state) {
        *strata.entry(sample.stratum).or_default() += 1;
    }
    let met = samples.iter().filter(|sample| sample.met == state).count();
    match strata.values().max() {
        Some(most) if *most >= FEWEST => Unseparated::GoesWithGap,
        None if met >= FEWEST => Unseparated::ChosenAnew,
        _ => Unseparated::TooFew,
    }
}
