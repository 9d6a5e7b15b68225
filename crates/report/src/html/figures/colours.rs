//! One colour per thing: names that several pictures draw, so that each has the same colour in all of them.

use serde_json::{Value, json};

use super::super::view::View;
use super::figure::distinct;

/// Names of what the picture of misfits draws.
const MISFITS: [&str; 4] = ["too deep", "too shallow", "added latency", "wasted power"];

/// Idle states from shallow to deep, names of busy time, and all other names that pictures colour, for `look.js`.
pub(crate) fn list_names_to_colour(view: &View) -> Value {
    let (states, busy) = idle_and_busy_state_names(view);
    let parts = view.workloads.iter().flat_map(|w| &w.parts);
    let part_names = parts.flat_map(|parts| parts.parts.iter().map(|(name, _)| name.as_str()));
    let timelines = view.workloads.iter().flat_map(|w| &w.timelines);
    let span_names = timelines.flat_map(|t| t.spans.iter().map(|span| span.name.as_str()));
    let others = distinct(part_names.chain(MISFITS).chain(span_names));
    let others: Vec<&str> = others
        .into_iter()
        .filter(|name| !states.contains(name) && !busy.contains(name))
        .collect();
    json!({"states": states, "busy": busy, "others": others})
}

/// Names of idle states, the shallowest first, and names of busy time. States of different machines are ordered by their
/// place in their own list.
fn idle_and_busy_state_names(view: &View) -> (Vec<&str>, Vec<&str>) {
    let lists = view.workloads.iter().flat_map(|w| &w.idle);
    let mut ranked: Vec<(usize, &str)> = Vec::new();
    let mut busy: Vec<&str> = Vec::new();
    for list in lists {
        let busy_states = list.states.iter().filter(|state| state.busy);
        busy.extend(busy_states.map(|state| state.name.as_str()));
        let idle = list.states.iter().filter(|state| !state.busy).enumerate();
        for (rank, state) in idle {
            match ranked.iter_mut().find(|(_, name)| *name == state.name) {
                Some(known) => known.0 = known.0.max(rank),
                None => ranked.push((rank, &state.name)),
            }
        }
    }
    ranked.sort_by_key(|(rank, _)| *rank);
    let states = ranked.into_iter().map(|(_, name)| name);
    (states.collect(), distinct(busy))
}
