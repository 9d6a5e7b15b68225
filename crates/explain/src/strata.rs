//! Requests that are alike but for the state: what is compared with what.

use std::collections::{BTreeMap, BTreeSet};

use crate::requests::{MetState, NeighbourState, TracedRequest};

/// Fewest requests with a state in a stratum; rarer states are left out there.
pub(crate) const FEWEST: usize = 8;

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

/// Deepest state allowed by SMT siblings; `None` if a sibling ran, or may have run.
fn deepest_allowed_state(request: &TracedRequest) -> Option<u8> {
    match request.sibling {
        NeighbourState::None => Some(u8::MAX),
        NeighbourState::Idle(state) => Some(state),
        NeighbourState::Running | NeighbourState::Unknown => None,
    }
}

/// What requests have in common that are compared with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Stratum {
    /// Gap in eighths per octave.
    gap: u32,
    /// Requests in flight in octaves.
    depth: u32,
    khz: u32,
    pub(crate) others: CpusAround,
}

impl Stratum {
    /// The stratum of requests after a gap in ns.
    #[cfg(test)]
    pub(crate) fn with_gap(gap: u64) -> Self {
        Self {
            gap: gap_class(gap),
            ..Self::default()
        }
    }

    /// A stratum by gap alone, and those below by one other property.
    pub(crate) fn gap_alone(self) -> Self {
        Self {
            gap: self.gap,
            ..Self::default()
        }
    }

    pub(crate) fn depth_alone(self) -> Self {
        Self {
            depth: self.depth,
            ..Self::default()
        }
    }

    pub(crate) fn clock_alone(self) -> Self {
        Self {
            khz: self.khz,
            ..Self::default()
        }
    }

    pub(crate) fn others_alone(self) -> Self {
        Self {
            others: self.others,
            ..Self::default()
        }
    }
}

/// What other CPUs were doing, as far as the interrupted CPU's exit may depend on these CPUs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CpusAround {
    /// The shallowest state in the cluster, which the cluster reached.
    cluster: NeighbourState,
    /// Whether a CPU of the package ran; `None` if not known.
    package_awake: Option<bool>,
}

impl CpusAround {
    fn for_request(request: &TracedRequest) -> Self {
        Self {
            cluster: request.cluster,
            package_awake: match request.package {
                NeighbourState::None | NeighbourState::Unknown => None,
                NeighbourState::Running => Some(true),
                NeighbourState::Idle(_) => Some(false),
            },
        }
    }

    #[cfg(test)]
    pub(crate) fn with_package_awake(awake: bool) -> Self {
        Self {
            package_awake: Some(awake),
            ..Self::default()
        }
    }

    /// Whether another CPU of the cluster ran, or where no cluster is known, of the package; `None` if neither is known.
    pub(crate) fn any_ran(self) -> Option<bool> {
        match self.cluster {
            NeighbourState::None | NeighbourState::Unknown => self.package_awake,
            NeighbourState::Running => Some(true),
            NeighbourState::Idle(_) => Some(false),
        }
    }
}

/// A request as the comparison of states sees it.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sample {
    pub(crate) stratum: Stratum,
    pub(crate) gap: u64,
    pub(crate) first: u8,
    pub(crate) met: u8,
    /// Time that is compared, in ns: from issue to the interrupted CPU's first sign of life.
    pub(crate) time: f64,
    /// Time from there on, in ns: the interrupt's handler. It takes longer where the state let caches go cold.
    pub(crate) handler: f64,
}

pub(crate) fn make_sample(request: &TracedRequest) -> Option<Sample> {
    // During a deep exit only long requests are not overtaken, so overtaken requests are never compared.
    if request.overtaken {
        return None;
    }
    let met = find_reached_state(request)?;
    let gap = request.gap?;
    Some(Sample {
        stratum: Stratum {
            gap: gap_class(gap),
            depth: depth_class(request.in_flight),
            khz: request.khz,
            others: CpusAround::for_request(request),
        },
        gap,
        first: request.first?.min(deepest_allowed_state(request)?),
        met,
        time: request.out as f64,
        handler: request.interrupt as f64,
    })
}

/// Eighths per octave: a drive that falls asleep after some gap spoils a single class.
fn gap_class(gap: u64) -> u32 {
    let octave = gap.checked_ilog2().unwrap_or(0);
    let eighth = (gap >> octave.saturating_sub(3)) & 7;
    octave * 8 + eighth as u32
}

/// Keeps strata in which at least two states have enough requests at the same gaps.
///
/// Within a stratum a governor may still choose by gap, so gaps count only if all states had them.
pub(crate) fn keep_comparable_samples(samples: &[Sample]) -> Vec<Sample> {
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
pub(crate) fn largest_connected_states(samples: &[Sample]) -> BTreeSet<u8> {
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
