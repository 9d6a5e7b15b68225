//! What requests tell of exits, for a replay of their recording.

use std::collections::BTreeMap;

use wakepath_trace::recording::Metadata;

use crate::report::RequestKind;
use crate::split::Unseparated;

/// Exits of idle states for a replay, above the exit of the shallowest state compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayExits {
    /// Exits by index of the idle state, in ns.
    pub by_state_ns: BTreeMap<u8, u64>,
    /// Names of states that no request, or too few, met: these have the declared exit less the reference's.
    pub declared: Vec<String>,
}

impl ReplayExits {
    /// Takes the exits that requests of this kind tell, and declared ones where no request met a state.
    ///
    /// # Errors
    /// Why requests do not tell the exits.
    pub fn from_kind(kind: &RequestKind, metadata: &Metadata) -> Result<Self, String> {
        let [group] = &metadata.idle_states[..] else {
            return Err("kinds of CPUs differ in their idle states".to_owned());
        };
        let Some(reference) = kind.split.reference else {
            return Err("requests tell no exits".to_owned());
        };
        let declared_of_reference = group.states.get(usize::from(reference));
        let mut exits = Self::default();
        for (index, state) in (0..=u8::MAX).zip(&group.states) {
            let mut met = kind.split.states.iter();
            let known = met.find(|met| met.state == index);
            let exit = match known.map(|met| (met.cost, met.reason)) {
                _ if index <= reference => 0,
                Some((Some(cost), _)) => cost.mean_ns.max(0.0).round() as u64,
                None | Some((None, None | Some(Unseparated::TooFew))) => {
                    exits.declared.push(state.name.clone());
                    let shallower = declared_of_reference.map_or(0, |state| state.exit_latency.0);
                    state.exit_latency.0.saturating_sub(shallower)
                }
                Some((None, Some(_))) => {
                    return Err(format!("requests do not tell the exit from {}", state.name));
                }
            };
            exits.by_state_ns.insert(index, exit);
        }
        Ok(exits)
    }
}

/// The most that shorter exits could save per request, in ns: over all kinds, the exits charged at the upper ends of their
/// intervals, with those begun by something else, and whole exits for requests that met a state later than charged requests did.
/// Where a kind has no costs, its time from issue to interrupt.
pub fn most_that_exits_cost_ns(kinds: &[RequestKind]) -> f64 {
    let requests: u64 = kinds.iter().map(|kind| kind.requests).sum();
    let costs = kinds.iter().map(|kind| {
        let begun = kind.begun_exits.map_or(0.0, |begun| begun.highest_ns);
        let later = kind.split.states.iter().filter_map(|exit| {
            let share = kind.share_of_requests(exit.met - exit.charged);
            Some(exit.cost?.high_ns * share)
        });
        let charged = kind.split.charged;
        let exits = charged.map(|charged| charged.high_ns + later.sum::<f64>() + begun);
        kind.requests as f64 * exits.unwrap_or(kind.parts.out_ns)
    });
    costs.sum::<f64>() / requests.max(1) as f64
}
