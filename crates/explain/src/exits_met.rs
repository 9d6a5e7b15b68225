//! Which exits requests had at all, where no comparison of states tells what these cost.

use std::collections::BTreeMap;

use crate::requests::{MetState, TracedRequest};

/// Largest share of the time from issue to interrupt in which exits may hide unnamed.
const LARGEST_UNNAMED: f64 = 0.01;

/// Idle states that CPUs left for requests, whoever began the exit. States that spin have no exit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ExitsMet {
    /// CPUs ran or spun.
    Nothing,
    /// All exits were from this state.
    OnlyFrom(u8),
    /// Exits were from several states, or from unknown ones.
    Several,
}

impl ExitsMet {
    /// Finds the exits of requests from one kind. `polling`: states that spin.
    ///
    /// An exit is within the time that the CPU slept, which so is its bound. Exits are left out if even the bounds together
    /// are next to nothing.
    pub(crate) fn find(requests: &[&TracedRequest], polling: &[u8]) -> Self {
        let mut longest_ns: BTreeMap<Option<u8>, u64> = BTreeMap::new();
        for request in requests {
            let (state, bound_ns) = match request.met {
                MetState::Awake => continue,
                MetState::State(state) | MetState::Leaving(state) | MetState::Behind(state) => {
                    (Some(state), request.slept)
                }
                MetState::Unknown => (None, request.out),
            };
            if !state.is_some_and(|state| polling.contains(&state)) {
                *longest_ns.entry(state).or_default() += bound_ns;
            }
        }
        let out_ns: u64 = requests.iter().map(|request| request.out).sum();
        let is_little = |ns: u64| ns as f64 <= LARGEST_UNNAMED * out_ns as f64;
        let all_ns: u64 = longest_ns.values().sum();
        if is_little(all_ns) {
            return Self::Nothing;
        }
        let most = longest_ns.iter().max_by_key(|(_, ns)| **ns);
        match most {
            Some((Some(state), ns)) if is_little(all_ns - ns) => Self::OnlyFrom(*state),
            _ => Self::Several,
        }
    }
}
