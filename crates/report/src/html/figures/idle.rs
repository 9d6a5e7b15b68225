//! Idle states: where the CPUs' time goes, and what the wrong states cost.

use std::fmt::Write as _;

use serde_json::json;
use wakepath_compare::figure::Unit;

use super::super::number::{json as number, share, short};
use super::super::view::{PageIdle, PageWorkload, View};
use super::{Choice, Figure, Table, alt, distinct, policy_name};

fn kinds(workload: &PageWorkload) -> Vec<&str> {
    distinct(workload.idle.iter().map(|i| i.cpu_kind.as_str()))
}

/// A choice of CPU kinds, if there are several.
pub(super) fn kind_choice(kinds: &[&str]) -> Vec<Choice> {
    if kinds.len() < 2 {
        return Vec::new();
    }
    vec![Choice {
        key: "kind",
        label: "CPUs",
        options: kinds
            .iter()
            .enumerate()
            .map(|(i, kind)| (i.to_string(), (*kind).to_owned()))
            .collect(),
    }]
}

pub(super) fn residency(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let kinds = kinds(workload);
    if kinds.is_empty() {
        return None;
    }
    let mut table = Table::new(3, ["CPUs", "policy", "state", "time", "entries per s"]);
    for of in &workload.idle {
        for state in &of.states {
            table.row([
                of.cpu_kind.clone(),
                policy_name(view, of.policy).to_owned(),
                state.name.clone(),
                share(state.share),
                if state.busy {
                    "–".into()
                } else {
                    short(state.entries)
                },
            ]);
        }
    }
    let clause = |of: &PageIdle| {
        let deepest = of.states.last().map_or(String::new(), |s| {
            format!("{} in {}", share(s.share), s.name)
        });
        let busy: f64 = of.states.iter().filter(|s| s.busy).map(|s| s.share).sum();
        format!(
            "{} CPUs under {}: {} busy, {deepest}",
            of.cpu_kind,
            policy_name(view, of.policy),
            share(busy)
        )
    };
    Some(Figure {
        id: String::new(),
        kind: "residency",
        title: "Time in idle states, % of CPU time".into(),
        note: "The further from the colour of the page, the deeper. All CPUs of a kind, all runs together.".into(),
        alt: alt(
            "Stacked bars of the share of CPU time in each idle state, one bar per policy.",
            workload.idle.iter().map(clause),
        ),
        choices: kind_choice(&kinds),
        table,
        data: json!({
            "kinds": kinds.iter().map(|kind| {
                let rows: Vec<&PageIdle> = workload.idle.iter().filter(|i| i.cpu_kind == *kind).collect();
                let states = distinct(rows.iter().flat_map(|r| r.states.iter().map(|s| s.name.as_str())));
                json!({
                    "name": kind,
                    "states": states,
                    "busy": states.iter().map(|name| {
                        rows.iter().any(|r| r.states.iter().any(|s| s.busy && s.name == *name))
                    }).collect::<Vec<_>>(),
                    "rows": rows.iter().map(|row| json!({
                        "policy": row.policy,
                        "values": states.iter().map(|name| {
                            row.states.iter().find(|s| s.name == *name).map(|s| number(s.share * 100.0))
                        }).collect::<Vec<_>>(),
                    })).collect::<Vec<_>>(),
                })
            }).collect::<Vec<_>>(),
        }),
    })
}

pub(super) fn misfits(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let kinds = kinds(workload);
    let any = workload
        .idle
        .iter()
        .any(|i| i.states.iter().any(|s| !s.busy));
    if kinds.is_empty() || !any {
        return None;
    }
    let wasted = |of: &PageIdle| {
        of.states
            .iter()
            .filter(|s| !s.busy)
            .map(|s| s.wasted_mw)
            .sum()
    };
    let power = Unit::for_values("mW", workload.idle.iter().map(wasted));
    let head = [
        "CPUs",
        "policy",
        "state",
        "entries per s",
        "too deep per s",
        "too shallow per s",
        "added latency, us per s",
    ];
    let head = head.map(str::to_owned).into_iter();
    let mut table = Table::new(3, head.chain([power.title("wasted power")]));
    for of in &workload.idle {
        for s in of.states.iter().filter(|s| !s.busy) {
            let mut row = vec![
                of.cpu_kind.clone(),
                policy_name(view, of.policy).to_owned(),
                s.name.clone(),
            ];
            row.extend(
                [
                    s.entries,
                    s.too_deep,
                    s.too_shallow,
                    s.added_us,
                    s.wasted_mw * power.factor,
                ]
                .map(short),
            );
            table.row(row);
        }
    }
    let sums = |of: &PageIdle| {
        let mut sums = [0.0; 5];
        for s in of.states.iter().filter(|s| !s.busy) {
            let values = [
                s.entries,
                s.too_deep,
                s.too_shallow,
                s.added_us,
                s.wasted_mw * power.factor,
            ];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum += value;
            }
        }
        sums
    };
    let clause = |of: &PageIdle| {
        let [entries, deep, shallow, added, wasted] = sums(of);
        let mut clause = format!(
            "{} CPUs under {}: {} too deep and {} too shallow of {} idle periods per second",
            of.cpu_kind,
            policy_name(view, of.policy),
            short(deep),
            short(shallow),
            short(entries),
        );
        if added.is_finite() {
            let _ = write!(clause, ", {} us per second added to wake-ups", short(added));
        }
        if wasted.is_finite() {
            let _ = write!(clause, ", {} {} wasted", short(wasted), power.name);
        }
        clause
    };
    Some(Figure {
        id: String::new(),
        kind: "misfits",
        title: format!(
            "Too deep and too shallow, idle periods per s, and what they cost, us per s and {}",
            power.name
        ),
        note: "Too deep: the stay ended before the state's target residency; the CPU woke up later than it had to. Too \
               shallow: a deeper state would have fitted; energy was wasted."
            .into(),
        alt: alt(
            "Bars to the left for idle periods in too deep states, to the right for too shallow ones, per policy.",
            workload.idle.iter().map(clause),
        ),
        choices: kind_choice(&kinds),
        table,
        data: json!({
            "power": power.name,
            "kinds": kinds.iter().map(|kind| json!({
                "name": kind,
                "rows": workload.idle.iter().filter(|i| i.cpu_kind == *kind).map(|of| {
                    let sums = sums(of).map(number);
                    json!({"policy": of.policy, "sums": sums})
                }).collect::<Vec<_>>(),
            })).collect::<Vec<_>>(),
        }),
    })
}
