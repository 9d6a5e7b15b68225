//! Idle states: residency, and the cost of wrong states.

use std::fmt::Write as _;

use serde_json::{Value, json};
use wakepath_compare::figure::Unit;

use super::super::number::{
    format_four_significant_digits, format_share_as_percent, format_with_decimals_or_four_digits,
    round_to_five_digits_or_null as number,
};
use super::super::view::{PageIdle, PageState, PageWorkload, View};
use super::figure::{Choice, Figure, Table, build_alternative_text, distinct, policy_name};

/// Kinds of CPUs with idle states, in the order of the results.
fn distinct_kinds_of_idle_cpus(workload: &PageWorkload) -> Vec<&str> {
    distinct(workload.idle.iter().map(|i| i.cpu_kind.as_str()))
}

/// A menu of the kinds of CPUs, if there are several.
pub(super) fn menu_of_cpu_kinds_if_several(kinds: &[&str]) -> Vec<Choice> {
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

pub(super) fn draw_residency(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let kinds = distinct_kinds_of_idle_cpus(workload);
    if kinds.is_empty() {
        return None;
    }
    Some(Figure {
        id: String::new(),
        kind: "residency",
        title: "Time in idle states, % of CPU time".into(),
        note: "The further from the colour of the page, the deeper. All CPUs of a kind, all runs together.".into(),
        alt: build_alternative_text(
            "Stacked bars of the share of CPU time in each idle state, one bar per policy.",
            workload.idle.iter().map(|idle| describe_busy_and_deepest_share(view, idle)),
        ),
        choices: menu_of_cpu_kinds_if_several(&kinds),
        table: residency_table(view, workload),
        data: json!({
            "kinds": kinds.iter().map(|kind| residency_for_chart(workload, kind)).collect::<Vec<_>>(),
        }),
    })
}

fn residency_table(view: &View, workload: &PageWorkload) -> Table {
    let mut table = Table::with_head(3, ["CPUs", "policy", "state", "time", "entries per s"]);
    for idle in &workload.idle {
        for state in &idle.states {
            table.add_row([
                idle.cpu_kind.clone(),
                policy_name(view, idle.policy).to_owned(),
                state.name.clone(),
                format_share_as_percent(state.share),
                if state.busy {
                    "–".into()
                } else {
                    format_four_significant_digits(state.entries)
                },
            ]);
        }
    }
    table
}

/// Shares of CPU time for `charts.js`, of one kind of CPUs: a row per policy, a value per idle state.
fn residency_for_chart(workload: &PageWorkload, kind: &str) -> Value {
    let all = workload.idle.iter();
    let rows: Vec<&PageIdle> = all.filter(|idle| idle.cpu_kind == kind).collect();
    let states = rows.iter().flat_map(|row| &row.states);
    let names = distinct(states.clone().map(|state| state.name.as_str()));
    let busy = names.iter().map(|name| {
        states
            .clone()
            .any(|state| state.busy && state.name == *name)
    });
    let policies = rows.iter().map(|row| {
        let shares = names.iter().map(|name| {
            let state = row.states.iter().find(|state| state.name == *name);
            state.map(|state| number(state.share * 100.0))
        });
        json!({"policy": row.policy, "values": shares.collect::<Vec<_>>()})
    });
    json!({
        "name": kind,
        "busy": busy.collect::<Vec<_>>(),
        "rows": policies.collect::<Vec<_>>(),
        "states": names,
    })
}

/// A power in mW as a text with the digits and factor of `unit`.
fn format_power_in_unit(mw: f64, unit: &Unit) -> String {
    let decimals = (mw.abs() > 0.0).then(|| unit.decimals_of_figure(mw, None));
    format_with_decimals_or_four_digits(mw * unit.factor, decimals)
}

/// Busy time and time in the deepest state, in words.
fn describe_busy_and_deepest_share(view: &View, idle: &PageIdle) -> String {
    let deepest = idle.states.last().map_or(String::new(), |s| {
        format!("{} in {}", format_share_as_percent(s.share), s.name)
    });
    let busy_states = idle.states.iter().filter(|s| s.busy);
    let busy: f64 = busy_states.map(|s| s.share).sum();
    format!(
        "{} CPUs under {}: {} busy, {deepest}",
        idle.cpu_kind,
        policy_name(view, idle.policy),
        format_share_as_percent(busy)
    )
}

pub(super) fn draw_misfits(view: &View, workload: &PageWorkload) -> Option<Figure> {
    let kinds = distinct_kinds_of_idle_cpus(workload);
    let mut states = workload.idle.iter().flat_map(|i| &i.states);
    if kinds.is_empty() || !states.any(|s| !s.busy) {
        return None;
    }
    let power = wasted_power_unit(view, workload);
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
        alt: build_alternative_text(
            "Bars to the left for idle periods in too deep states, to the right for too shallow ones, per policy.",
            workload.idle.iter().map(|idle| describe_misfits_per_second(view, idle, &power)),
        ),
        choices: menu_of_cpu_kinds_if_several(&kinds),
        table: misfit_table(view, workload, &power),
        data: sums_of_misfits_for_chart(workload, &kinds, &power),
    })
}

fn wasted_power_unit(view: &View, workload: &PageWorkload) -> Unit {
    let modelled = Unit::for_values("mW", workload.idle.iter().map(total_wasted_mw));
    if view.assumes_power {
        modelled.for_assumed_power()
    } else {
        modelled
    }
}

fn misfit_table(view: &View, workload: &PageWorkload, power: &Unit) -> Table {
    let head = [
        "CPUs",
        "policy",
        "state",
        "entries per s",
        "too deep per s",
        "too shallow per s",
        "added latency, us per s",
    ];
    let columns = head.map(str::to_owned).into_iter();
    let mut table = Table::with_head(3, columns.chain([power.title_with_unit("wasted power")]));
    for idle in &workload.idle {
        for state in idle.states.iter().filter(|s| !s.busy) {
            let mut row = vec![
                idle.cpu_kind.clone(),
                policy_name(view, idle.policy).to_owned(),
                state.name.clone(),
            ];
            let [entries, deep, shallow, added, _] =
                entries_misfits_and_costs_of_state(state, power);
            row.extend([entries, deep, shallow, added].map(format_four_significant_digits));
            row.push(format_power_in_unit(state.wasted_mw, power));
            table.add_row(row);
        }
    }
    table
}

/// Sums of wrong idle states per policy and kind of CPUs, for `charts.js`.
fn sums_of_misfits_for_chart(workload: &PageWorkload, kinds: &[&str], power: &Unit) -> Value {
    let groups = kinds.iter().map(|kind| {
        let rows = workload.idle.iter().filter(|i| i.cpu_kind == *kind);
        let sums = rows.map(
            |idle| json!({"policy": idle.policy, "sums": sum_entries_misfits_and_costs(idle, power).map(number)}),
        );
        json!({"name": kind, "rows": sums.collect::<Vec<_>>()})
    });
    json!({"power": power.name, "kinds": groups.collect::<Vec<_>>()})
}

/// Power in mW that wrong choices wasted in all idle states together.
fn total_wasted_mw(idle: &PageIdle) -> f64 {
    let states = idle.states.iter().filter(|s| !s.busy);
    states.map(|s| s.wasted_mw).sum()
}

/// Per second of an idle state: entries, too deep and too shallow stays, added latency in us; then wasted power in a unit.
fn entries_misfits_and_costs_of_state(state: &PageState, power: &Unit) -> [f64; 5] {
    [
        state.entries,
        state.too_deep,
        state.too_shallow,
        state.added_us,
        state.wasted_mw * power.factor,
    ]
}

/// [`entries_misfits_and_costs_of_state`], summed over the idle states.
fn sum_entries_misfits_and_costs(idle: &PageIdle, power: &Unit) -> [f64; 5] {
    let mut sums = [0.0; 5];
    for state in idle.states.iter().filter(|s| !s.busy) {
        for (sum, value) in sums
            .iter_mut()
            .zip(entries_misfits_and_costs_of_state(state, power))
        {
            *sum += value;
        }
    }
    sums
}

/// The misfits of a CPU kind under a policy, in words.
fn describe_misfits_per_second(view: &View, idle: &PageIdle, power: &Unit) -> String {
    let [entries, deep, shallow, added, wasted] = sum_entries_misfits_and_costs(idle, power);
    let mut clause = format!(
        "{} CPUs under {}: {} too deep and {} too shallow of {} idle periods per second",
        idle.cpu_kind,
        policy_name(view, idle.policy),
        format_four_significant_digits(deep),
        format_four_significant_digits(shallow),
        format_four_significant_digits(entries),
    );
    if added.is_finite() {
        let _ = write!(
            clause,
            ", {} us per second added to wake-ups",
            format_four_significant_digits(added)
        );
    }
    if wasted.is_finite() {
        let _ = write!(
            clause,
            ", {} {} wasted",
            format_power_in_unit(wasted / power.factor, power),
            power.name
        );
    }
    clause
}
