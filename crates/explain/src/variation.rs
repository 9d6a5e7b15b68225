//! Whether a state costs the same whatever the gap, and whatever other CPUs do.

use std::collections::BTreeMap;

use crate::estimate::ExitEstimate;
use crate::least_squares::{estimate_costs, estimate_mean_costs};
use crate::strata::{FEWEST, Sample};

/// Largest difference between the costs of a state under two conditions, as a share of the larger cost.
const LARGEST_VARIATION: f64 = 0.2;
/// Half widths per 95 % interval that a difference between two halves reaches by chance: four standard errors, so about
/// 1 recording in 16,000 is refused for nothing.
const CHANCE: f64 = 4.0 / 1.96;

/// What the cost of a state depends on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Variation {
    /// The gap before the request.
    WithGap,
    /// Whether other CPUs ran, or which states they were in.
    WithOtherCpus,
}

/// What the cost of each state in `others` depends on, beyond the intervals; `None` for one cost.
pub(crate) fn find_variations(
    samples: &[Sample],
    reference: u8,
    others: &[u8],
) -> Vec<Option<Variation>> {
    let mut gaps: Vec<u64> = samples.iter().map(|sample| sample.gap).collect();
    gaps.sort_unstable();
    let middle = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    let halves = group_samples_by(samples, |sample| sample.gap < middle);
    let around = group_samples_by(samples, |sample| sample.stratum.others);
    let with_gap = costs_vary_between(&halves, reference, others);
    let with_others = costs_vary_between(&around, reference, others);
    with_gap
        .into_iter()
        .zip(with_others)
        .map(|varies| match varies {
            (_, true) => Some(Variation::WithOtherCpus),
            (true, false) => Some(Variation::WithGap),
            (false, false) => None,
        })
        .collect()
}

/// Cost of a state among requests during which other CPUs ran, or during which none did; `None` where that is no one cost either.
pub(crate) fn cost_beside_cpus(
    samples: &[Sample],
    reference: u8,
    state: u8,
    ran: bool,
) -> Option<ExitEstimate> {
    let mut beside = samples.to_vec();
    beside.retain(|sample| sample.stratum.others.any_ran() == Some(ran));
    let estimate = costs_in_group(&beside, reference, &[state], Intervals::Bootstrap);
    let varies = find_variations(&beside, reference, &[state]);
    let found = estimate.into_iter().next().flatten()?;
    varies.iter().all(Option::is_none).then_some(found)
}

fn group_samples_by<K: Ord>(samples: &[Sample], key: impl Fn(&Sample) -> K) -> Vec<Vec<Sample>> {
    let mut groups: BTreeMap<K, Vec<Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry(key(sample)).or_default().push(*sample);
    }
    groups.into_values().collect()
}

/// Whether each state in `others` has different costs in some two groups, beyond the intervals.
fn costs_vary_between(groups: &[Vec<Sample>], reference: u8, others: &[u8]) -> Vec<bool> {
    let estimate_groups = |intervals| -> Vec<Vec<Option<ExitEstimate>>> {
        let groups = groups.iter();
        groups
            .map(|group| costs_in_group(group, reference, others, intervals))
            .collect()
    };
    // Intervals take a thousand times as long as means.
    let means = estimate_groups(Intervals::None);
    let places = 0..others.len();
    if !places
        .clone()
        .any(|place| any_two_contradict(&means, place))
    {
        return vec![false; others.len()];
    }
    let estimates = estimate_groups(Intervals::Bootstrap);
    places
        .map(|place| any_two_contradict(&estimates, place))
        .collect()
}

/// Whether two groups contradict each other about the state at this place.
fn any_two_contradict(groups: &[Vec<Option<ExitEstimate>>], place: usize) -> bool {
    let costs: Vec<ExitEstimate> = groups
        .iter()
        .filter_map(|group| group.get(place).copied().flatten())
        .collect();
    let mut rest = costs.as_slice();
    while let Some((first, later)) = rest.split_first() {
        if later.iter().any(|other| estimates_contradict(first, other)) {
            return true;
        }
        rest = later;
    }
    false
}

/// Whether estimates come with intervals, or with means alone.
#[derive(Clone, Copy)]
enum Intervals {
    /// Intervals have no width.
    None,
    Bootstrap,
}

/// Costs of the states in `others` by a group of samples; `None` for states that are too rare there.
fn costs_in_group(
    group: &[Sample],
    reference: u8,
    others: &[u8],
    intervals: Intervals,
) -> Vec<Option<ExitEstimate>> {
    let is_frequent = |state: u8| {
        let chosen = group
            .iter()
            .filter(|sample| sample.first == state && sample.met == state);
        chosen.take(FEWEST).count() == FEWEST
    };
    let nothing = vec![None; others.len()];
    if !is_frequent(reference) {
        return nothing;
    }
    let frequent: Vec<u8> = others
        .iter()
        .copied()
        .filter(|state| is_frequent(*state))
        .collect();
    let mut compared = group.to_vec();
    compared.retain(|sample| {
        [sample.first, sample.met]
            .iter()
            .all(|state| *state == reference || frequent.contains(state))
    });
    let costs = match intervals {
        Intervals::None => estimate_mean_costs(&compared, &frequent)
            .map(|means| means.into_iter().map(ExitEstimate::without_width).collect()),
        Intervals::Bootstrap => estimate_costs(&compared, &frequent).map(|costs| costs.by_state),
    };
    let Some(costs): Option<Vec<ExitEstimate>> = costs else {
        return nothing;
    };
    let place = |state: &u8| frequent.iter().position(|known| known == state);
    others
        .iter()
        .map(|state| costs.get(place(state)?).copied())
        .collect()
}

impl ExitEstimate {
    fn without_width(mean_ns: f64) -> Self {
        Self {
            mean_ns,
            low_ns: mean_ns,
            high_ns: mean_ns,
        }
    }
}

/// Two estimates contradict each other.
fn estimates_contradict(a: &ExitEstimate, b: &ExitEstimate) -> bool {
    let by_chance = CHANCE * a.half_width().hypot(b.half_width());
    let larger = a.mean_ns.abs().max(b.mean_ns.abs());
    (a.mean_ns - b.mean_ns).abs() > by_chance.max(LARGEST_VARIATION * larger)
}
