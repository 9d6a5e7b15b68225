//! What requests tell of exits from idle states, in sentences.

use wakepath_explain::{ExitCost, ExitEstimate, GoesWith, RequestKind, Unseparated};

use super::wording::{count_in_words, format_us, interval_in_words};

/// What the requests tell of an exit, or why they tell nothing.
pub(super) fn exit_cost_sentence(kind: &RequestKind, state: &ExitCost) -> Option<String> {
    let name = kind.state_name(state.state);
    if let (Some(cost), Some(reference)) = (state.cost, kind.split.reference) {
        let verb = if cost.low_ns <= 0.0 && cost.high_ns >= 0.0 {
            "shows no sure cost:"
        } else {
            "costs"
        };
        return Some(format!(
            "  {name} {verb} {} us{} more than {}.{}",
            format_us(cost.mean_ns),
            interval_in_words([cost.low_ns, cost.high_ns]),
            kind.state_name(reference),
            slower_handler_sentence(state),
        ));
    }
    if kind.polling.contains(&state.state) {
        let met = count_in_words(state.met, "request");
        return Some(format!(
            "  {name} spins, and so has no exit ({met} met it)."
        ));
    }
    let why = explain_absence(state.reason?, state.goes_with);
    let together = state.together.map_or_else(String::new, |sum| {
        format!(
            " {name}, package, link and drive sleep together: {} us{} more than {}.",
            format_us(sum.estimate.mean_ns),
            interval_in_words([sum.estimate.low_ns, sum.estimate.high_ns]),
            kind.state_name(sum.above)
        )
    });
    let beside: String = [
        (state.while_others_ran, "while other CPUs ran"),
        (state.while_others_slept, "while none ran"),
    ]
    .into_iter()
    .filter_map(|(estimate, when)| cost_beside_cpus_sentence(kind, state.state, estimate?, when))
    .collect();
    Some(format!(
        "  {name}: {why} ({} met it).{together}{beside}",
        count_in_words(state.met, "request")
    ))
}

/// Differences between handlers below this are not worth a sentence.
const LEAST_HANDLER_NS: f64 = 1_000.0;

/// A sentence on the interrupt's handler, where it takes longer after the state; empty elsewhere.
fn slower_handler_sentence(state: &ExitCost) -> String {
    let longer_ns = state.handler_ns.filter(|ns| *ns >= LEAST_HANDLER_NS);
    longer_ns.map_or_else(String::new, |ns| {
        format!(
            " The interrupt's handler takes {} us longer after it, as with cold caches.",
            format_us(ns)
        )
    })
}

fn cost_beside_cpus_sentence(
    kind: &RequestKind,
    state: u8,
    cost: ExitEstimate,
    when: &str,
) -> Option<String> {
    Some(format!(
        " {} costs {} us{} more than {} {when}.",
        kind.state_name(state),
        format_us(cost.mean_ns),
        interval_in_words([cost.low_ns, cost.high_ns]),
        kind.state_name(kind.split.reference?)
    ))
}

/// Why no request without the state is like those with it.
fn confounders_in_words(goes_with: Option<GoesWith>) -> String {
    let Some(found) = goes_with else {
        return "not separated, too few requests met another state".to_owned();
    };
    let properties = [
        (found.gap, "gap"),
        (found.depth, "depth"),
        (found.clock, "clock"),
        (found.other_cpus, "other CPUs"),
    ];
    let named = properties.into_iter().filter(|(is_one, _)| *is_one);
    let names: Vec<&str> = named.map(|(_, name)| name).collect();
    if names.is_empty() {
        return "not separated, it goes with gap, depth, clock and other CPUs together".to_owned();
    }
    let slept = if found.gap {
        ", and so with a drive that slept"
    } else {
        ""
    };
    format!("not separated, it goes with {}{slept}", names.join(" and "))
}

fn explain_absence(reason: Unseparated, goes_with: Option<GoesWith>) -> String {
    let why = match reason {
        Unseparated::GoesWithGap => return confounders_in_words(goes_with),
        Unseparated::TooFew => "not known, too few requests compare",
        Unseparated::VariesWithGap => {
            "not separated, it costs something else at short gaps than at long ones: package, link or drive sleep with it, \
             caches go cold, or hardware demotes it"
        }
        Unseparated::VariesWithOtherCpus => {
            "not separated, it depends on other CPUs: their cluster or package sleeps with it"
        }
        Unseparated::GoesWithLoad => {
            "not separated, deeper states come out cheaper than shallower ones: something else goes with the state, such as \
             waiting in a busy drive"
        }
        Unseparated::ChosenAnew => {
            "not separated, the governor chose again during too many requests"
        }
    };
    why.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_with_a_state_is_named_where_it_is_known() {
        let goes_with = |gap, depth, clock, other_cpus| GoesWith {
            gap,
            depth,
            clock,
            other_cpus,
        };
        for (found, words) in [
            (
                Some(goes_with(true, false, false, false)),
                "not separated, it goes with gap, and so with a drive that slept",
            ),
            (
                Some(goes_with(false, true, true, false)),
                "not separated, it goes with depth and clock",
            ),
            (
                Some(goes_with(false, false, false, false)),
                "not separated, it goes with gap, depth, clock and other CPUs together",
            ),
            (None, "not separated, too few requests met another state"),
        ] {
            assert_eq!(confounders_in_words(found), words);
        }
    }
}
