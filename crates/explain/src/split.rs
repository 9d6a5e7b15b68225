//! Cost of exits from idle states, by requests alike but for the state.
//!
//! A request counts by the state chosen *first* after issue, because long requests let the governor choose again, and
//! deeper. The state met follows from the first choice by chance alone, so the first state serves as an instrument:
//! two-stage least squares within strata by gap, depth and clock. Without second choices the estimate is the plain
//! difference between means. Intervals come from a bootstrap over time blocks.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::bootstrap::{BLOCKS, add_bootstrap_interval, draw_block_counts};
use crate::estimate::ExitEstimate;
use crate::requests::{MetState, Sibling, TracedRequest};

/// Fewest requests with a state in a stratum; rarer states are left out there.
const FEWEST: usize = 8;
/// Fewest requests in a block of the bootstrap.
const PER_BLOCK: usize = 5;
/// Largest share of requests with a state never chosen first.
const MOST_FOREIGN: f64 = 0.01;

/// Why a state has no cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unseparated {
    /// Too few requests met the state.
    TooFew,
    /// The state goes with gap, depth or clock: no stratum has another state beside the state.
    GoesWithGap,
    /// The governor chose again during too many requests, so the state met was not the first choice.
    ChosenAnew,
    /// The cost differs between short and long gaps: package, link or drive sleep too, or hardware demotes.
    VariesWithGap,
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
    /// Differences between latency quantiles at 50, 90 and 99 %, in ns, where the cost is known and hardly any request saw
    /// the governor choose again. Requests with the reference are weighted by the strata with the state.
    pub quantiles_ns: Option<[f64; 3]>,
    /// Why no cost is known; `None` where one is.
    pub reason: Option<Unseparated>,
    /// The exit and what goes with the gap, such as the drive's sleep, where these cannot be parted: mean latency of requests
    /// that met the state above that of requests that met the shallowest state.
    pub together: Option<SumWithGap>,
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
    /// The shallowest compared state, the reference for the others.
    pub reference: Option<u8>,
    /// Requests in strata with more than one state.
    pub compared: u64,
    /// All states met but the reference.
    pub states: Vec<ExitCost>,
    /// Mean cost per request of all exits with a cost, over all requests of the kind; `None` without a reference.
    pub charged: Option<ExitEstimate>,
}

impl Split {
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

/// Requests in flight at issue, in octaves; 0: none.
pub(crate) fn depth_class(in_flight: u32) -> u32 {
    in_flight.checked_ilog2().map_or(0, |log| log + 1)
}

/// Deepest state possible for the interrupted core: the shallowest among SMT siblings. `None` unless the request's own interrupt ended
/// a state.
pub(crate) fn find_reached_state(request: &TracedRequest) -> Option<u8> {
    let MetState::State(requested) = request.met else {
        return None;
    };
    Some(requested.min(deepest_allowed_state(request)?))
}

/// Deepest state allowed by SMT siblings; `None` if a sibling ran.
fn deepest_allowed_state(request: &TracedRequest) -> Option<u8> {
    match request.sibling {
        Sibling::None | Sibling::Unknown => Some(u8::MAX),
        Sibling::Idle(state) => Some(state),
        Sibling::Running => None,
    }
}

/// Gap in eighths per octave, requests in flight in octaves, clock.
type Stratum = (u32, u32, u32);

/// A request as the comparison of states sees it.
#[derive(Clone, Copy)]
struct Sample {
    stratum: Stratum,
    gap: u64,
    first: u8,
    met: u8,
    latency: f64,
}

/// Splits latencies of requests from one kind, given in completion order.
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
        let varies = place.is_some_and(|place| comparison.varies.get(place) == Some(&true));
        let possible = estimate.is_some_and(|estimate| is_possible(&estimate, &samples, state));
        let cost = estimate.filter(|_| possible && !varies && !cheaper);
        let reason = match cost {
            Some(_) => None,
            None if estimate.is_some() && cheaper => Some(Unseparated::GoesWithLoad),
            None if estimate.is_some() && !possible => Some(Unseparated::TooFew),
            None if estimate.is_some() => Some(Unseparated::VariesWithGap),
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
        costs.push(ExitCost {
            together: goes_with_gap
                .then(|| sum_with_gap(&samples, state))
                .flatten(),
            state,
            met,
            cost,
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

/// Mean latency with a state above that with the shallowest state met, with its interval; `None` with too few samples, or where
/// the state is the shallowest.
fn sum_with_gap(samples: &[Sample], state: u8) -> Option<SumWithGap> {
    let above = samples.iter().map(|sample| sample.met).min()?;
    let compared: Vec<Sample> = samples
        .iter()
        .filter(|sample| sample.met == state || sample.met == above)
        // One stratum and no choice: the plain difference of means.
        .map(|sample| Sample {
            stratum: (0, 0, 0),
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
    /// Whether each cost differs between short and long gaps.
    varies: Vec<bool>,
    /// Too many requests met a state never chosen first.
    foreign: bool,
}

/// Compares the states; drops the rarest state while too many resamples have no solution.
fn compare_states(samples: &[Sample], mut states: BTreeSet<u8>) -> Comparison {
    loop {
        let mut compared = samples.to_vec();
        compared.retain(|sample| states.contains(&sample.first));
        let all = compared.len();
        compared.retain(|sample| states.contains(&sample.met));
        let foreign = (all - compared.len()) as f64 > MOST_FOREIGN * all as f64;
        let others: Vec<u8> = states.iter().skip(1).copied().collect();
        let estimates = estimate_costs(&compared, &others).filter(|_| !foreign);
        if estimates.is_some() || foreign || states.len() <= 2 {
            return Comparison {
                varies: estimates
                    .as_ref()
                    .map_or_else(Vec::new, |_| costs_vary_with_gap(&compared, &others)),
                samples: compared,
                states,
                estimates,
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

/// Largest difference between the costs at short and at long gaps, as a share of the larger cost.
const LARGEST_VARIATION: f64 = 0.2;

/// Whether each state in `others` has different costs at short and long gaps, beyond the intervals.
fn costs_vary_with_gap(samples: &[Sample], others: &[u8]) -> Vec<bool> {
    let mut gaps: Vec<u64> = samples.iter().map(|sample| sample.gap).collect();
    gaps.sort_unstable();
    let middle = gaps.get(gaps.len() / 2).copied().unwrap_or(0);
    let (short, long): (Vec<Sample>, Vec<Sample>) =
        samples.iter().partition(|sample| sample.gap < middle);
    // Intervals take a thousand times as long as means.
    let means = (
        estimate_mean_costs(&short, others),
        estimate_mean_costs(&long, others),
    );
    let (Some(at_short), Some(at_long)) = means else {
        return vec![false; others.len()];
    };
    let mut pairs = at_short.iter().zip(&at_long);
    if !pairs.any(|(a, b)| (a - b).abs() > LARGEST_VARIATION * a.abs().max(b.abs())) {
        return vec![false; others.len()];
    }
    let halves = (
        estimate_costs(&short, others),
        estimate_costs(&long, others),
    );
    let (Some(short), Some(long)) = halves else {
        return vec![false; others.len()];
    };
    let pairs = short.by_state.iter().zip(&long.by_state);
    pairs
        .map(|(short, long)| estimates_contradict(short, long))
        .collect()
}

/// Half widths per 95 % interval that a difference between two halves reaches by chance: four standard errors, so about
/// 1 recording in 16,000 is refused for nothing.
const CHANCE: f64 = 4.0 / 1.96;

fn estimate_mean_costs(samples: &[Sample], others: &[u8]) -> Option<Vec<f64>> {
    solve_costs(
        &sum_by_block_and_stratum(samples, others, 1),
        &[1],
        others.len(),
    )
}

impl ExitEstimate {
    fn half_width(&self) -> f64 {
        (self.high_ns - self.low_ns) / 2.0
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
        (sum + sample.latency, count + 1.0)
    });
    estimate.mean_ns * count <= sum
}

/// Two estimates contradict each other.
fn estimates_contradict(a: &ExitEstimate, b: &ExitEstimate) -> bool {
    let by_chance = CHANCE * a.half_width().hypot(b.half_width());
    let larger = a.mean_ns.abs().max(b.mean_ns.abs());
    (a.mean_ns - b.mean_ns).abs() > by_chance.max(LARGEST_VARIATION * larger)
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
                    met.push((sample.latency, 1.0));
                } else if sample.met == reference {
                    others.push((sample.latency, deep / shallow));
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

fn make_sample(request: &TracedRequest) -> Option<Sample> {
    // During a deep exit only long requests are not overtaken, so overtaken requests are never compared.
    if request.overtaken {
        return None;
    }
    let met = find_reached_state(request)?;
    let gap = request.gap?;
    Some(Sample {
        stratum: (gap_class(gap), depth_class(request.in_flight), request.khz),
        gap,
        first: request.first?.min(deepest_allowed_state(request)?),
        met,
        latency: (request.latency - request.remote_completion_ns()) as f64,
    })
}

/// Eighths per octave: a drive that falls asleep after some gap spoils a single class.
fn gap_class(gap: u64) -> u32 {
    let octave = gap.checked_ilog2().unwrap_or(0);
    let eighth = (gap >> octave.saturating_sub(3)) & 7;
    octave * 8 + eighth as u32
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

/// Keeps strata in which at least two states have enough requests at the same gaps.
///
/// Within a stratum a governor may still choose by gap, so gaps count only if all states had them.
fn keep_comparable_samples(samples: &[Sample]) -> Vec<Sample> {
    let mut strata: BTreeMap<Stratum, BTreeMap<u8, Vec<u64>>> = BTreeMap::new();
    for sample in samples {
        let states = strata.entry(sample.stratum).or_default();
        states.entry(sample.first).or_default().push(sample.gap);
    }
    let ranges: BTreeMap<Stratum, (u64, u64)> = strata
        .iter_mut()
        .filter_map(|(stratum, states)| Some((*stratum, keep_common_gaps(states)?)))
        .collect();
    let mut kept = samples.to_vec();
    kept.retain(|sample| {
        let range = ranges.get(&sample.stratum);
        let enough = strata
            .get(&sample.stratum)
            .is_some_and(|states| states.contains_key(&sample.first));
        enough && range.is_some_and(|(low, high)| (*low..=*high).contains(&sample.gap))
    });
    kept
}

/// Gaps common to all states with enough requests. Other states are removed.
fn keep_common_gaps(states: &mut BTreeMap<u8, Vec<u64>>) -> Option<(u64, u64)> {
    states.retain(|_, gaps| gaps.len() >= FEWEST);
    let low = states.values().filter_map(|gaps| gaps.iter().min()).max()?;
    let high = states.values().filter_map(|gaps| gaps.iter().max()).min()?;
    let (low, high) = (*low, *high);
    states.retain(|_, gaps| gaps.iter().filter(|g| (low..=high).contains(g)).count() >= FEWEST);
    (states.len() >= 2).then_some((low, high))
}

/// States connected by common strata; the set with most requests, if several.
fn largest_connected_states(samples: &[Sample]) -> BTreeSet<u8> {
    let mut strata: BTreeMap<Stratum, BTreeSet<u8>> = BTreeMap::new();
    let mut counts: BTreeMap<u8, usize> = BTreeMap::new();
    for sample in samples {
        strata
            .entry(sample.stratum)
            .or_default()
            .insert(sample.first);
        *counts.entry(sample.first).or_default() += 1;
    }
    let mut components: Vec<BTreeSet<u8>> = Vec::new();
    for states in strata.into_values() {
        let (touching, mut apart): (Vec<_>, Vec<_>) = components
            .into_iter()
            .partition(|component| !component.is_disjoint(&states));
        apart.push(touching.into_iter().flatten().chain(states).collect());
        components = apart;
    }
    let largest = components.into_iter().max_by_key(|component| {
        let requests = component.iter().filter_map(|state| counts.get(state));
        requests.sum::<usize>()
    });
    largest.unwrap_or_default()
}

/// Sums over a stratum's samples in a block; `x` marks the state met, `z` the first choice.
#[derive(Clone, Default)]
struct Sums {
    n: f64,
    y: f64,
    x: Vec<f64>,
    z: Vec<f64>,
    zx: Vec<Vec<f64>>,
    zy: Vec<f64>,
}

impl Sums {
    fn zeros(states: usize) -> Self {
        Self {
            n: 0.0,
            y: 0.0,
            x: vec![0.0; states],
            z: vec![0.0; states],
            zx: vec![vec![0.0; states]; states],
            zy: vec![0.0; states],
        }
    }

    fn add_sample(&mut self, latency: f64, first: Option<usize>, met: Option<usize>) {
        self.n += 1.0;
        self.y += latency;
        for (place, x) in self.x.iter_mut().enumerate() {
            *x += f64::from(u8::from(met == Some(place)));
        }
        let rows = self.z.iter_mut().zip(&mut self.zy).zip(&mut self.zx);
        for (_, ((z, zy), row)) in rows.enumerate().filter(|(row, _)| first == Some(*row)) {
            *z += 1.0;
            *zy += latency;
            for (place, zx) in row.iter_mut().enumerate() {
                *zx += f64::from(u8::from(met == Some(place)));
            }
        }
    }

    fn add_multiple(&mut self, times: f64, other: &Self) {
        let add = |to: &mut [f64], from: &[f64]| {
            for (to, from) in to.iter_mut().zip(from) {
                *to += times * from;
            }
        };
        self.n += times * other.n;
        self.y += times * other.y;
        add(&mut self.x, &other.x);
        add(&mut self.z, &other.z);
        add(&mut self.zy, &other.zy);
        for (to, from) in self.zx.iter_mut().zip(&other.zx) {
            add(to, from);
        }
    }
}

/// Costs of states above the reference, state by state.
struct CostEstimates {
    by_state: Vec<ExitEstimate>,
    /// Costs of all states in each resample of the bootstrap.
    drawn: Vec<Vec<f64>>,
}

impl CostEstimates {
    /// The sum of all costs, each times its weight. Costs are drawn together, so that the interval knows how they depend on
    /// each other.
    fn weighted_sum(&self, weights: &[f64]) -> Option<ExitEstimate> {
        let means = self.by_state.iter().map(|estimate| estimate.mean_ns);
        let drawn = self
            .drawn
            .iter()
            .map(|costs| sum_of_products(costs.iter().copied(), weights));
        add_bootstrap_interval(sum_of_products(means, weights), drawn.collect())
    }
}

fn sum_of_products(values: impl Iterator<Item = f64>, weights: &[f64]) -> f64 {
    values
        .zip(weights)
        .map(|(value, weight)| value * weight)
        .sum()
}

/// Sums by stratum, block by block.
type Blocks = Vec<BTreeMap<Stratum, Sums>>;

/// Estimates costs for `others` above the reference, with intervals; `None` with too few samples.
fn estimate_costs(samples: &[Sample], others: &[u8]) -> Option<CostEstimates> {
    let blocks = BLOCKS.min(samples.len() / PER_BLOCK);
    if others.is_empty() || blocks < BLOCKS / 2 {
        return None;
    }
    let sums = sum_by_block_and_stratum(samples, others, blocks);
    let means = solve_costs(&sums, &vec![1; blocks], others.len())?;
    let drawn: Vec<Vec<f64>> = draw_block_counts(blocks)
        .filter_map(|times| solve_costs(&sums, &times, others.len()))
        .collect();
    let means = means.into_iter().enumerate();
    let by_state = means.map(|(place, mean)| {
        let values = drawn.iter().filter_map(|costs| costs.get(place).copied());
        add_bootstrap_interval(mean, values.collect())
    });
    Some(CostEstimates {
        by_state: by_state.collect::<Option<_>>()?,
        drawn,
    })
}

fn sum_by_block_and_stratum(samples: &[Sample], others: &[u8], blocks: usize) -> Blocks {
    let mut sums: Blocks = vec![BTreeMap::new(); blocks];
    let place = |state: u8| others.iter().position(|other| *other == state);
    for (index, sample) in samples.iter().enumerate() {
        let Some(block) = sums.get_mut(index * blocks / samples.len()) else {
            continue;
        };
        let cell = block
            .entry(sample.stratum)
            .or_insert_with(|| Sums::zeros(others.len()));
        cell.add_sample(sample.latency, place(sample.first), place(sample.met));
    }
    sums
}

/// The costs, with each block counted so many times.
fn solve_costs(blocks: &Blocks, times: &[u32], states: usize) -> Option<Vec<f64>> {
    let mut strata: BTreeMap<Stratum, Sums> = BTreeMap::new();
    for (block, times) in blocks.iter().zip(times).filter(|(_, times)| **times > 0) {
        for (stratum, sums) in block {
            let total = strata
                .entry(*stratum)
                .or_insert_with(|| Sums::zeros(states));
            total.add_multiple(f64::from(*times), sums);
        }
    }
    // Each row: states met and latency, as explained by the first state.
    let mut rows = vec![vec![0.0; states + 1]; states];
    for sums in strata.values() {
        let parts = rows
            .iter_mut()
            .zip(&sums.z)
            .zip(sums.zx.iter().zip(&sums.zy));
        for ((row, z), (zx, zy)) in parts {
            let products = zx.iter().chain([zy]).zip(sums.x.iter().chain([&sums.y]));
            for (cell, (product, sum)) in row.iter_mut().zip(products) {
                *cell += product - z * sum / sums.n;
            }
        }
    }
    solve_linear_equations(rows)
}

/// Solves linear equations, the right side last in each row; `None` without a single solution.
fn solve_linear_equations(mut rows: Vec<Vec<f64>>) -> Option<Vec<f64>> {
    let count = rows.len();
    for column in 0..count {
        let size = |row: &usize| {
            rows.get(*row)
                .and_then(|r| r.get(column))
                .map_or(0.0, |v| v.abs())
        };
        let best = (column..count).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        // The unit is requests: less than a whole request tells nothing.
        if size(&best) < 1.0 {
            return None;
        }
        rows.swap(column, best);
        let pivot_row = rows.get(column)?.clone();
        let pivot = *pivot_row.get(column)?;
        for row in (0..count).filter(|row| *row != column) {
            let target = rows.get_mut(row)?;
            let factor = target.get(column)? / pivot;
            for (cell, value) in target.iter_mut().zip(&pivot_row) {
                *cell -= factor * value;
            }
        }
    }
    let solution = rows.iter().enumerate();
    solution
        .map(|(i, row)| Some(row.last()? / row.get(i)?))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_takes_no_longer_than_the_requests_that_met_it() {
        let sample = |met: u8, latency: f64| Sample {
            stratum: (0, 0, 0),
            gap: 0,
            first: met,
            met,
            latency,
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
}
