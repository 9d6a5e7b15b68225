//! Cost of exits from idle states, by requests alike but for the state.
//!
//! Compared are the times from issue to the interrupted CPU's first sign of life. The interrupt's handler comes behind it, and may
//! take longer after a deep state, whose caches went cold. That time is measured, and belongs to no exit.
//!
//! A request counts by the state chosen *first* after issue, because long requests let the governor choose again, and
//! deeper. The state met follows from the first choice by chance alone, so the first state serves as an instrument:
//! two-stage least squares within strata by gap, depth, clock and other CPUs. Without second choices the estimate is the
//! plain difference between means. Intervals come from a bootstrap over time blocks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::estimate::ExitEstimate;
use crate::goes_with::GoesWith;
use crate::least_squares::{CostEstimates, estimate_costs, estimate_mean_costs};
use crate::requests::{MetState, TracedRequest};
use crate::strata::{
    FEWEST, Sample, Stratum, keep_comparable_samples, largest_connected_states, make_sample,
};
use crate::variation::{Variation, cost_beside_cpus, find_variations};

/// Largest share of requests that meet a state without comparable first choices, and are left out.
const MOST_FOREIGN: f64 = 0.05;

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
    /// Mean cost above the reference's, where known.
    pub cost: Option<ExitEstimate>,
    /// Differences between quantiles of the time to the first sign of life at 50, 90 and 99 %, in ns, where the cost is known
    /// and hardly any request saw the governor choose again. Requests with the reference are weighted by the strata with the
    /// state.
    pub quantiles_ns: Option<[f64; 3]>,
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

    /// Mean exit from a state above the reference's, in ns; 0 for the reference and for states without a cost.
    pub(crate) fn mean_exit(&self, state: u8) -> u64 {
        let mut states = self.states.iter();
        let cost = states.find(|exit| exit.state == state).and_then(|s| s.cost);
        cost.map_or(0.0, |cost| cost.mean_ns.max(0.0)).round() as u64
    }

    /// Mean exit from a state above the reference's, in ns; 0 for the reference, `None` for states without a cost.
    pub(crate) fn known_exit(&self, state: u8) -> Option<u64> {
        let mut states = self.states.iter();
        match states.find(|exit| exit.state == state) {
            Some(exit) => exit.cost.map(|_| self.mean_exit(state)),
            None => (self.reference == Some(state)).then_some(0),
        }
    }
}

/// Splits times from issue to interrupt of requests from one kind, given in completion order.
pub fn split_drive_from_exits(requests: &[&TracedRequest]) -> Split {
    let mut met_counts: BTreeMap<u8, u64> = BTreeMap::new();
    for request in requests {
        if let MetState::State(state) = request.met {
            *met_counts.entry(state).or_default() += 1;
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
        if let Some(share) = place
            .filter(|_| cost.is_some())
            .and_then(|place| shares.get_mut(place))
        {
            *share = met as f64 / requests.len() as f64;
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
            cost,
            handler_ns: place
                .filter(|_| cost.is_some())
                .and_then(|place| handler_costs.as_ref()?.get(place).copied()),
            quantiles_ns: cost
                .and_then(|_| exit_cost_at_quantiles(&comparison.samples, reference?, state)),
            reason,
        });
    }
    Split {
        reference,
        compared: comparison.samples.len() as u64,
        states: costs,
        charged: estimates.and_then(|estimates| estimates.weighted_sum(&shares)),
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

/// Costs of some idle states, from requests that are alike but for the state.
struct Comparison {
    states: BTreeSet<u8>,
    samples: Vec<Sample>,
    /// Costs, one per state after the first.
    estimates: Option<CostEstimates>,
    /// States without a cost of their own, with what the cost depends on. They may be among `states`.
    varying: BTreeMap<u8, Variation>,
    /// Too many requests met a state without comparable first choices.
    foreign: bool,
}

/// Compares the states, and then all but those without a cost of their own, which would spoil the costs of others: states whose cost
/// varies, and states that too few requests tell from others. States that vary with other CPUs are left out before further ones.
fn compare_states(samples: &[Sample], states: BTreeSet<u8>) -> Comparison {
    let mut comparison = compare_constant_states(samples, states);
    let mut varying = BTreeMap::new();
    loop {
        let impossible = comparison.find_impossible_states(samples);
        let mut found = if impossible.is_empty() {
            comparison.find_varying_states()
        } else {
            BTreeMap::new()
        };
        if found.values().any(|v| *v == Variation::WithOtherCpus) {
            found.retain(|_, variation| *variation == Variation::WithOtherCpus);
        }
        let mut constant = comparison.states.clone();
        constant.retain(|state| !impossible.contains(state) && !found.contains_key(state));
        let is_last = constant.len() == comparison.states.len() || constant.len() < 2;
        varying.extend(found);
        let rest = (!is_last).then(|| compare_constant_states(samples, constant));
        match rest.filter(|rest| rest.estimates.is_some() || !impossible.is_empty()) {
            Some(rest) => comparison = rest,
            None => {
                return Comparison {
                    varying,
                    ..comparison
                };
            }
        }
    }
}

/// Compares the states as if each had one cost; drops the rarest state while too many resamples have no solution.
fn compare_constant_states(samples: &[Sample], mut states: BTreeSet<u8>) -> Comparison {
    loop {
        let mut compared = samples.to_vec();
        compared.retain(|sample| states.contains(&sample.first));
        let all = compared.len();
        compared.retain(|sample| states.contains(&sample.met));
        let foreign = (all - compared.len()) as f64 > MOST_FOREIGN * all as f64;
        let others: Vec<u8> = states.iter().skip(1).copied().collect();
        let mut estimates = estimate_costs(&compared, &others).filter(|_| !foreign);
        if let Some(estimates) = &mut estimates {
            widen_by_left_out_requests(&mut estimates.by_state, samples, &states);
        }
        if estimates.is_some() || foreign || states.len() <= 2 {
            return Comparison {
                samples: compared,
                states,
                estimates,
                varying: BTreeMap::new(),
                foreign,
            };
        }
        let rarest = states.iter().copied().min_by_key(|state| {
            let chosen = compared.iter().filter(|sample| sample.first == *state);
            chosen.count()
        });
        if let Some(rarest) = rarest {
            states.remove(&rarest);
        }
    }
}

/// Widens the costs of all states but the first by what requests left out might have changed: all that met another state than
/// `states`. These may be the longest requests of their first choice, which gave the governor time to choose again.
fn widen_by_left_out_requests(
    costs: &mut [ExitEstimate],
    samples: &[Sample],
    states: &BTreeSet<u8>,
) {
    let mut raised = states.iter().map(|state| {
        let first = samples.iter().filter(|sample| sample.first == *state);
        let (kept, left_out): (Vec<&Sample>, Vec<&Sample>) =
            first.partition(|sample| states.contains(&sample.met));
        let times: Vec<f64> = kept.iter().map(|sample| sample.time).collect();
        mean_raised_by_longest(times, left_out.len())
    });
    let of_reference = raised.next().unwrap_or(0.0);
    for (cost, of_state) in costs.iter_mut().zip(raised) {
        cost.low_ns -= of_reference;
        cost.high_ns += of_state;
    }
}

/// How much greater a mean were with so many values more, each like the longest of those here.
fn mean_raised_by_longest(mut times: Vec<f64>, more: usize) -> f64 {
    let longest = more.min(times.len());
    if longest == 0 {
        return 0.0;
    }
    times.sort_by(|a, b| b.total_cmp(a));
    let mean = times.iter().sum::<f64>() / times.len() as f64;
    let mean_of_longest = times.iter().take(longest).sum::<f64>() / longest as f64;
    let share = more as f64 / (times.len() + more) as f64;
    share * (mean_of_longest - mean)
}

impl Comparison {
    /// States whose cost would be longer than the requests that met the state.
    fn find_impossible_states(&self, samples: &[Sample]) -> BTreeSet<u8> {
        let others = self.states.iter().skip(1);
        let costs = self.estimates.iter().flat_map(|all| &all.by_state);
        let impossible =
            (others.zip(costs)).filter(|(state, cost)| !is_possible(cost, samples, **state));
        impossible.map(|(state, _)| *state).collect()
    }

    /// States whose cost depends on something.
    fn find_varying_states(&self) -> BTreeMap<u8, Variation> {
        let Some(reference) = self.states.first().filter(|_| self.estimates.is_some()) else {
            return BTreeMap::new();
        };
        let others: Vec<u8> = self.states.iter().skip(1).copied().collect();
        let found = find_variations(&self.samples, *reference, &others);
        let pairs = others.into_iter().zip(found);
        pairs
            .filter_map(|(state, variation)| Some((state, variation?)))
            .collect()
    }
}

/// The estimate is below zero by three standard errors.
fn is_surely_below_zero(estimate: &ExitEstimate) -> bool {
    estimate.mean_ns + 3.0 / 1.96 * estimate.half_width() < 0.0
}

/// An exit takes no longer than the requests that met its state. Otherwise hardly any request tells the state from others.
fn is_possible(estimate: &ExitEstimate, samples: &[Sample], state: u8) -> bool {
    let met = samples.iter().filter(|sample| sample.met == state);
    let (sum, count) = met.fold((0.0, 0.0), |(sum, count), sample| {
        (sum + sample.time, count + 1.0)
    });
    estimate.mean_ns * count <= sum
}

/// Largest share of requests with another state than the first choice, for a comparison by quantiles.
const MOST_CHOSEN_ANEW: f64 = 0.02;

/// Differences between quantiles with a state and with the reference.
fn exit_cost_at_quantiles(samples: &[Sample], reference: u8, state: u8) -> Option<[f64; 3]> {
    let mut counts: BTreeMap<Stratum, (f64, f64)> = BTreeMap::new();
    let mut chosen_anew = 0_usize;
    for sample in samples {
        chosen_anew += usize::from(sample.first != sample.met);
        let count = counts.entry(sample.stratum).or_default();
        count.0 += f64::from(u8::from(sample.met == state));
        count.1 += f64::from(u8::from(sample.met == reference));
    }
    if chosen_anew as f64 > MOST_CHOSEN_ANEW * samples.len() as f64 {
        return None;
    }
    let mut met = Vec::new();
    let mut others = Vec::new();
    for sample in samples {
        match counts.get(&sample.stratum) {
            Some((deep, shallow)) if *deep > 0.0 && *shallow > 0.0 => {
                if sample.met == state {
                    met.push((sample.time, 1.0));
                } else if sample.met == reference {
                    others.push((sample.time, deep / shallow));
                }
            }
            _ => {}
        }
    }
    let [met, others] = [met, others].map(|mut weighted| {
        weighted.sort_by(|a, b| a.0.total_cmp(&b.0));
        weighted
    });
    let mut found = [0.0; 3];
    for (difference, share) in found.iter_mut().zip([0.5, 0.9, 0.99]) {
        *difference = weighted_quantile(&met, share)? - weighted_quantile(&others, share)?;
    }
    Some(found)
}

/// Quantile over sorted values with weights.
fn weighted_quantile(values: &[(f64, f64)], share: f64) -> Option<f64> {
    let all: f64 = values.iter().map(|(_, weight)| weight).sum();
    let mut below = 0.0;
    let reached = values.iter().find(|(_, weight)| {
        below += weight;
        below >= share * all
    });
    reached.or(values.last()).map(|(value, _)| *value)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_takes_no_longer_than_the_requests_that_met_it() {
        let sample = |met: u8, time: f64| Sample {
            first: met,
            met,
            time,
            ..Sample::default()
        };
        // Requests without the state are short, and do not count.
        let samples = [sample(1, 80.0), sample(4, 400.0), sample(4, 360.0)];
        for (mean_ns, possible) in [(290.0, true), (380.0, true), (1_545.0, false)] {
            let estimate = ExitEstimate {
                mean_ns,
                low_ns: 280.0,
                high_ns: 2_800.0,
            };
            assert_eq!(is_possible(&estimate, &samples, 4), possible, "{mean_ns}");
        }
    }

    /// Some requests that begin with state 2 meet state 8. Of state 8, eight slow requests compare with state 4 only, so that its
    /// cost comes out far too long, and would make state 4 cost three times as much.
    #[test]
    fn a_state_that_few_requests_tell_from_others_spoils_no_other_cost() {
        let in_stratum = |gap: u64, first: u8, met: u8, time: f64| Sample {
            stratum: Stratum::with_gap(gap),
            gap,
            first,
            met,
            time,
            ..Sample::default()
        };
        let mut samples = Vec::new();
        for number in 0..4000_u32 {
            let jitter = f64::from(number % 17);
            samples.push(match number % 25 {
                0 => in_stratum(1 << 10, 2, 8, 528.0 + jitter),
                even if even % 2 == 0 => in_stratum(1 << 10, 2, 2, 95.0 + jitter),
                _ => in_stratum(1 << 10, 4, 4, 132.0 + jitter),
            });
            if number % 100 == 0 {
                samples.push(in_stratum(1 << 20, 4, 4, 132.0 + jitter));
            }
            if number % 500 == 0 {
                samples.push(in_stratum(1 << 20, 8, 8, 1500.0 + jitter));
            }
        }
        let comparison = compare_states(&samples, [2, 4, 8].into());
        assert_eq!(comparison.states, [2, 4].into());
        let cost = comparison.estimates.unwrap().by_state[0];
        assert!((cost.mean_ns - 37.0).abs() < 1.0, "{cost:?}");
        // A left-out request may have been as long as the longest.
        assert!(cost.low_ns < 36.5 && cost.low_ns > 33.0, "{cost:?}");
    }
}
