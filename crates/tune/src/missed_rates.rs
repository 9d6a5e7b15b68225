//! Remarks on loads that get less done than they ask for.

use wakepath_compare::describe_missed_rate;
use wakepath_study::plan::requested_rates;

use crate::answer::{Finalist, SearchAnswer};
use crate::load::DailyLoad;

/// Remarks on jobs, servers and traces with a rate that the best set, or what is in force, cannot keep up with.
pub(crate) fn note_missed_rates(loads: &[DailyLoad], answer: &SearchAnswer) -> Vec<String> {
    let changed = answer.best.iter().filter(|best| !best.changes_nothing());
    let finalists: Vec<&Finalist> = changed.chain([&answer.in_force]).collect();
    loads
        .iter()
        .filter_map(|load| {
            let rates = requested_rates(load.workload.as_ref()?);
            let reached: Vec<(String, f64)> = finalists
                .iter()
                .filter_map(|finalist| {
                    let percent = finalist.metric_of_load(&load.name, "rate_reached")?;
                    let set = if finalist.changes_nothing() {
                        "what is in force"
                    } else {
                        &finalist.set
                    };
                    Some((set.to_owned(), percent))
                })
                .collect();
            describe_missed_rate(&format!("load `{}`", load.name), &rates, &reached)
        })
        .collect()
}
