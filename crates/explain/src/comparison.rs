//! Comparison of requests that are alike but for the state, without states that have no cost of their own.

use std::collections::{BTreeMap, BTreeSet};

use crate::estimate::ExitEstimate;
use crate::least_squares::{CostEstimates, estimate_costs};
use crate::strata::{CpusAround, Sample};
use crate::variation::{Variation, find_variations};

/// Largest share of requests that meet a state without comparable first choices, and are left out.
const MOST_FOREIGN: f64 = 0.05;
/// Largest share of requests beside other CPUs that do something unusual, which may be left out.
const MOST_UNUSUAL: f64 = 0.05;
/// Stands for a state that is compared by first choices alone, where a request met the state after another choice.
const CHOSEN_LATER: u8 = u8::MAX;

/// Costs of some idle states, from requests that are alike but for the state.
pub(crate) struct Comparison {
    pub(crate) states: BTreeSet<u8>,
    pub(crate) samples: Vec<Sample>,
    /// Costs, one per state after the first.
    pub(crate) estimates: Option<CostEstimates>,
    /// States whose cost is not one cost, with what the cost depends on. Varying states may be among `states`.
    pub(crate) varying: BTreeMap<u8, Variation>,
    /// States that are compared by requests which chose the state first.
    pub(crate) by_first_choice: BTreeSet<u8>,
    /// Share of requests beside unusual activity of other CPUs, which are left out of the comparison.
    pub(crate) unusual: f64,
    /// Too many requests met a state without comparable first choices.
    pub(crate) foreign: bool,
}

/// Compares the states. Leaves out states without one cost of their own, which would spoil the costs of other states, and compares the
/// rest: states whose cost varies, and states that too few requests tell from others. States that vary with other CPUs go first.
pub(crate) fn compare_states(samples: &[Sample], states: BTreeSet<u8>) -> Comparison {
    let mut comparison = compare_constant_states(samples, states);
    let mut compared = samples.to_vec();
    let mut by_first_choice = comparison.find_impossible_states(samples);
    match compare_by_first_choice(samples, &comparison, &by_first_choice) {
        Some(found) => (compared, comparison) = found,
        None => by_first_choice.clear(),
    }
    let mut unusual = 0.0;
    // The bootstrap makes variations slow to find: each comparison is searched once.
    let mut known_variations = Some(comparison.find_varying_states());
    if let Some(variations) = &known_variations
        && vary_with_cpus(variations)
        && let Some((usual, found)) = compare_beside_usual_cpus(&compared, &comparison)
    {
        let variations = found.find_varying_states();
        if !vary_with_cpus(&variations) {
            unusual = 1.0 - usual.len() as f64 / compared.len() as f64;
            (compared, comparison) = (usual, found);
            known_variations = Some(variations);
        }
    }
    let mut varying = BTreeMap::new();
    loop {
        let impossible = comparison.find_impossible_states(samples);
        let known = known_variations.take();
        let mut found = if impossible.is_empty() {
            known.unwrap_or_else(|| comparison.find_varying_states())
        } else {
            BTreeMap::new()
        };
        if vary_with_cpus(&found) {
            found.retain(|_, variation| *variation == Variation::WithOtherCpus);
        }
        let mut constant = comparison.states.clone();
        constant.retain(|state| !impossible.contains(state) && !found.contains_key(state));
        let is_last = constant.len() == comparison.states.len() || constant.len() < 2;
        varying.extend(found);
        let rest = (!is_last).then(|| compare_constant_states(&compared, constant));
        match rest.filter(|rest| rest.estimates.is_some() || !impossible.is_empty()) {
            Some(rest) => comparison = rest,
            None => {
                return Comparison {
                    varying,
                    by_first_choice,
                    unusual,
                    ..comparison
                };
            }
        }
    }
}

/// Compares the states in `impossible` by first choices alone, and returns the samples with the comparison; `None` if a cost stays
/// impossible. A state that the governor chose late may cost less, because the package does not sleep yet.
fn compare_by_first_choice(
    samples: &[Sample],
    comparison: &Comparison,
    impossible: &BTreeSet<u8>,
) -> Option<(Vec<Sample>, Comparison)> {
    if impossible.is_empty() {
        return None;
    }
    let mut by_first_choice = samples.to_vec();
    for sample in &mut by_first_choice {
        if sample.first != sample.met && impossible.contains(&sample.met) {
            sample.met = CHOSEN_LATER;
        }
    }
    let found = compare_constant_states(&by_first_choice, comparison.states.clone());
    let is_better = found.has_costs_of_all(&comparison.states)
        && found.find_impossible_states(samples).is_empty();
    is_better.then_some((by_first_choice, found))
}

/// Compares states by requests beside the usual activity of other CPUs, and returns these samples with the comparison; `None` where
/// other CPUs did nothing unusual, or a state has no cost without the unusual requests.
fn compare_beside_usual_cpus(
    samples: &[Sample],
    comparison: &Comparison,
) -> Option<(Vec<Sample>, Comparison)> {
    let usual = keep_usual_surroundings(samples);
    if usual.len() == samples.len() {
        return None;
    }
    let found = compare_constant_states(&usual, comparison.states.clone());
    let has_all = found.has_costs_of_all(&comparison.states);
    has_all.then_some((usual, found))
}

fn vary_with_cpus(variations: &BTreeMap<u8, Variation>) -> bool {
    let mut all = variations.values();
    all.any(|variation| *variation == Variation::WithOtherCpus)
}

/// Leaves out what other CPUs did rarely, up to [`MOST_UNUSUAL`] of all requests.
fn keep_usual_surroundings(samples: &[Sample]) -> Vec<Sample> {
    let mut counts: BTreeMap<CpusAround, usize> = BTreeMap::new();
    for sample in samples {
        *counts.entry(sample.stratum.others).or_default() += 1;
    }
    let mut rarest_first: Vec<(usize, CpusAround)> = counts
        .into_iter()
        .map(|(around, count)| (count, around))
        .collect();
    rarest_first.sort_unstable();
    let mut left_out = 0;
    rarest_first.retain(|(count, _)| {
        left_out += count;
        left_out as f64 > MOST_UNUSUAL * samples.len() as f64
    });
    let usual: BTreeSet<CpusAround> = rarest_first.into_iter().map(|(_, around)| around).collect();
    let mut kept = samples.to_vec();
    kept.retain(|sample| usual.contains(&sample.stratum.others));
    kept
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
                by_first_choice: BTreeSet::new(),
                unusual: 0.0,
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

/// Widens the costs of all states but the first by what left-out requests might have changed. A request is left out if the state met is
/// none of `states`. Such requests may be the longest of their first choice: long requests give the governor time to choose again.
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
    let reference_raised = raised.next().unwrap_or(0.0);
    for (cost, state_raised) in costs.iter_mut().zip(raised) {
        cost.low_ns -= reference_raised;
        cost.high_ns += state_raised;
    }
}

/// By how much a mean of times grows with `more` further times that are like the longest of `times`.
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

    fn has_costs_of_all(&self, states: &BTreeSet<u8>) -> bool {
        self.states == *states && self.estimates.is_some()
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

/// An exit takes no longer than the requests that met its state. Otherwise hardly any request tells the state from others.
pub(crate) fn is_possible(estimate: &ExitEstimate, samples: &[Sample], state: u8) -> bool {
    let met = samples.iter().filter(|sample| sample.met == state);
    let (sum, count) = met.fold((0.0, 0.0), |(sum, count), sample| {
        (sum + sample.time, count + 1.0)
    });
    estimate.mean_ns * count <= sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::strata::Stratum;

    #[test]
    fn an_exit_takes_no_longer_than_the_requests_that_met_it() {
        // Requests without the state are short, and do not count.
        let samples = [(1, 80.0), (4, 400.0), (4, 360.0)]
            .map(|(state, time)| sample_after_gap(GAP, state, state, time));
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
        let mut samples = Vec::new();
        for number in 0..4000_u32 {
            let jitter = f64::from(number % 17);
            samples.push(match number % 25 {
                0 => sample_after_gap(GAP, 2, 8, 528.0 + jitter),
                even if even % 2 == 0 => sample_after_gap(GAP, 2, 2, 95.0 + jitter),
                _ => sample_after_gap(GAP, 4, 4, 132.0 + jitter),
            });
            if number % 100 == 0 {
                samples.push(sample_after_gap(LONG_GAP, 4, 4, 132.0 + jitter));
            }
            if number % 500 == 0 {
                samples.push(sample_after_gap(LONG_GAP, 8, 8, 1500.0 + jitter));
            }
        }
        let comparison = compare_states(&samples, [2, 4, 8].into());
        assert_eq!(comparison.states, [2, 4].into());
        let cost = comparison.estimates.unwrap().by_state[0];
        assert!((cost.mean_ns - 37.0).abs() < 1.0, "{cost:?}");
        // A left-out request may have been as long as the longest.
        assert!(cost.low_ns < 36.5 && cost.low_ns > 33.0, "{cost:?}");
    }

    const GAP: u64 = 1 << 10;
    const LONG_GAP: u64 = 1 << 20;

    fn sample_after_gap(gap: u64, first: u8, met: u8, time: f64) -> Sample {
        Sample {
            stratum: Stratum::with_gap(gap),
            gap,
            first,
            met,
            time,
            ..Sample::default()
        }
    }

    fn sample(number: u32, first: u8, met: u8, time: f64) -> Sample {
        sample_after_gap(GAP, first, met, time + f64::from(number % 17))
    }

    /// The package sleeps some time after its last CPU, and requests that met state 8 by a second choice came before.
    #[test]
    fn a_state_that_was_chosen_late_costs_what_its_first_choices_cost() {
        let samples: Vec<Sample> = (0..4000)
            .map(|number| match number % 40 {
                0 | 1 => sample(number, 2, 8, 300.0),
                kind if kind < 20 => sample(number, 2, 2, 95.0),
                kind if kind < 37 => sample(number, 4, 4, 132.0),
                _ => sample(number, 8, 8, 529.0),
            })
            .collect();
        let comparison = compare_states(&samples, [2, 4, 8].into());
        assert_eq!(comparison.by_first_choice, [8].into());
        let costs = comparison.estimates.unwrap().by_state;
        for (cost, truth) in costs.iter().zip([37.0, 434.0]) {
            assert!((cost.mean_ns - truth).abs() < 2.0, "{cost:?}");
        }
    }

    /// Requests of which one in `rarely` finds another CPU awake, which keeps state 8 from its depth.
    fn record_beside_rare_wake_ups(rarely: u32) -> Vec<Sample> {
        let samples = (0..8000).map(|number| {
            let is_awake = (number / 2) % rarely == 0;
            let mut found = match (number % 2, is_awake) {
                (0, _) => sample(number, 2, 2, 95.0),
                (_, true) => sample(number, 8, 8, 150.0),
                (_, false) => sample(number, 8, 8, 189.0),
            };
            found.stratum.others = CpusAround::with_package_awake(is_awake);
            found
        });
        samples.collect()
    }

    #[test]
    fn rare_wake_ups_of_other_cpus_leave_a_state_its_cost() {
        let comparison = compare_states(&record_beside_rare_wake_ups(50), [2, 8].into());
        assert!(comparison.varying.is_empty());
        let cost = comparison.estimates.unwrap().by_state[0];
        assert!((cost.mean_ns - 94.0).abs() < 1.0, "{cost:?}");
        // Beside a CPU that is often awake, the state has no single cost.
        let comparison = compare_states(&record_beside_rare_wake_ups(5), [2, 8].into());
        assert!(matches!(
            comparison.varying.get(&8),
            Some(Variation::WithOtherCpus)
        ));
    }
}
