//! Idle states of a recorded system: declared by its kernel, true by what is published of similar processors.

use super::record::{RecordAndLender, SAPPHIRE_RAPIDS, SystemKind, figure_if_applicable};
use crate::idle::IdleState;
use crate::machine::family_figures::FamilyFigureKey;
use crate::machine::{Figure, Machine, MachineIdleState, Scope};

/// Exit latency of C1, which stops the clock only; no driver declares more for it.
const C1_EXIT_US: f64 = 2.0;

/// Servers with package C6 (`intel_idle` of Linux 6.12): CPUID family and models, and two exit latencies of C6 in us.
/// The kernel declares the first if the package goes down with it, else the second.
const PACKAGE_C6_US: [(&[&str], f64, f64); 3] = [
    (&["6/85"], 133.0, 92.0),
    (&["6/106", "6/108"], 170.0, 128.0),
    (&SAPPHIRE_RAPIDS, 290.0, 190.0),
];

/// Declared exit latencies with a higher ratio belong to different states.
const FAR_APART: f64 = 10.0;

/// Makes the idle states of a recorded system; `package_exit_us`: the package's part of the deepest state's exit
/// latency.
pub(super) fn make_machine_idle_states(
    record: &RecordAndLender<'_>,
    package_exit_us: f64,
) -> Vec<MachineIdleState> {
    let states = record.idle.states.iter();
    let deepest = record.idle.states.len().saturating_sub(1);
    states
        .enumerate()
        .map(|(index, state)| {
            let package_us = if index == deepest {
                package_exit_us
            } else {
                0.0
            };
            make_machine_idle_state(record, state, package_us)
        })
        .collect()
}

/// Makes an idle state. `package_us`: the part of the declared exit latency that is the package's.
fn make_machine_idle_state(
    record: &RecordAndLender<'_>,
    state: &IdleState,
    package_us: f64,
) -> MachineIdleState {
    let kind = record.kind;
    let declared = declared_exit_us(state);
    let like = find_most_similar_lent_state(state, record.lender);
    let lends_exit = kind == SystemKind::Other
        || (kind == SystemKind::Amd && record.lender.name != kind.default_lender_name());
    let (true_exit_us, exit_spread) = if lends_exit && !state.polling {
        lent_or_halved_exit_time_and_spread(declared, like)
    } else {
        estimate_exit_time_and_spread(record, state, package_us, like)
    };
    MachineIdleState {
        name: state.name.clone(),
        scope: Scope::Cpu,
        polling: state.polling,
        mwait: like.mwait,
        disabled: state.disabled,
        exit_latency_us: Figure::covered_by_table_source(declared),
        target_residency_us: Figure::covered_by_table_source(state.target_residency.0 as f64 / 1e3),
        true_entry_us: Figure::assumed(0.0, "inside the exit time"),
        true_exit_us,
        exit_spread,
        deeper_after_us: Figure::default(),
        deeper_exit_us: Figure::default(),
        cold_start_kcycles: like.cold_start_kcycles.clone(),
        power_mw: figure_if_applicable(like.polling == state.polling, &like.power_mw),
        transition_mw: figure_if_applicable(like.polling == state.polling, &like.transition_mw),
        source: record.source_of_plain_figures(),
    }
}

/// Exit latency that an idle state declares, in us.
fn declared_exit_us(state: &IdleState) -> f64 {
    state.exit_latency.0 as f64 / 1e3
}

/// The lender's state with the same name, or else with the nearest exit latency.
fn find_most_similar_lent_state<'a>(
    state: &IdleState,
    lender: &'a Machine,
) -> &'a MachineIdleState {
    let declared = declared_exit_us(state);
    let states = lender.idle_state.iter();
    let candidates = states.filter(|s| s.polling == state.polling);
    // A state with the same name may be another state: C2 on an EPYC is C3 on a laptop. Very different exit latencies
    // tell.
    let same_name = candidates.clone().find(|s| {
        s.name == state.name && !are_exit_latencies_far_apart(declared, s.exit_latency_us.value)
    });
    same_name
        .or_else(|| {
            candidates.min_by(|a, b| {
                let distances = [a, b].map(|s| (s.exit_latency_us.value - declared).abs());
                distances[0].total_cmp(&distances[1])
            })
        })
        .unwrap_or(&lender.idle_state[0])
}

/// Whether two exit latencies in us are so different that they belong to different states.
fn are_exit_latencies_far_apart(one_us: f64, other_us: f64) -> bool {
    one_us.max(other_us) > FAR_APART * one_us.min(other_us).max(1.0)
}

/// True exit time and its spread, as the lender has them, where it has more than the rule of thumb.
fn lent_or_halved_exit_time_and_spread(
    declared_us: f64,
    like: &MachineIdleState,
) -> (Figure, Figure) {
    // Up to a factor of 2 between declared latencies, the state is the same.
    let ratio = declared_us / like.exit_latency_us.value.max(1e-9);
    if (0.5..=2.0).contains(&ratio) {
        return (like.true_exit_us.clone(), like.exit_spread.clone());
    }
    let why = "half of the declared time: nothing is published for this state";
    (Figure::assumed(declared_us / 2.0, why), Figure::default())
}

/// True exit time and its spread; `package_us`: the package's part of the declared latency.
fn estimate_exit_time_and_spread(
    record: &RecordAndLender<'_>,
    state: &IdleState,
    package_us: f64,
    like: &MachineIdleState,
) -> (Figure, Figure) {
    let declared = declared_exit_us(state);
    if state.polling {
        let why = "the CPU never left its clock";
        return (Figure::assumed(0.0, why), Figure::default());
    }
    if let Some(published) = published_exit_time_and_spread(record, state) {
        return published;
    }
    if record.kind == SystemKind::Amd {
        let why = format!(
            "as measured for {} of an EPYC 7502 (arXiv 2108.00808)",
            like.name
        );
        let spread = match like.exit_spread.value {
            0.0 => Figure::default(),
            value => Figure::assumed(value, why.clone()),
        };
        return (Figure::assumed(like.true_exit_us.value, why), spread);
    }
    if declared <= C1_EXIT_US {
        let why = "about 1 us on newer servers (intel/pepc docs/misc-c1e-cpu-freq.md)";
        return (Figure::assumed(declared.min(1.0), why), Figure::default());
    }
    let half =
        "half of the declared time, as measured for C6 of Sapphire Rapids (97 to 104 of 190 us)";
    let (core_us, why) = if package_us > 0.0 && package_us < declared {
        let why = format!("without the {package_us} us of the package, {half}");
        (declared - package_us, why)
    } else {
        (declared, half.to_owned())
    };
    let spread = Figure::assumed(0.04, "as measured for C6 of Sapphire Rapids");
    (Figure::assumed(core_us / 2.0, why), spread)
}

/// Exit time that is published of the processor's family, with the spread of measured wake-ups; `None` if there is none. It may
/// be longer than the declared one: C1E of Emerald Rapids takes 4 us, and 2 are declared.
fn published_exit_time_and_spread(
    record: &RecordAndLender<'_>,
    state: &IdleState,
) -> Option<(Figure, Figure)> {
    let found = record.find_family_figure(FamilyFigureKey::TrueExitUs, &state.name)?;
    let spread = match (record.kind, state.name.as_str()) {
        (SystemKind::Amd, "C2") => Figure::assumed(
            0.044,
            "5th and 95th percentile of 200 wake-ups of an EPYC 7502 (tud-zih-energy/2021-rome-ee@ee736c3)",
        ),
        (_, "C6" | "C6P") => Figure::assumed(
            0.04,
            "as measured for C6 of Sapphire Rapids: half of the wake-ups within 97.5 and 103.4 us",
        ),
        _ => Figure::default(),
    };
    Some((found.figure, spread))
}

/// Time for a server's package to power up: the part of the deepest state's declared exit latency caused by the
/// package.
pub(super) fn estimate_package_power_up_time(record: &RecordAndLender<'_>) -> Figure {
    let [.., core, deepest] = record.idle.states.as_slice() else {
        return Figure::default();
    };
    let (name, whole) = (&deepest.name, declared_exit_us(deepest));
    let goes_down_with_core = PACKAGE_C6_US.iter().any(|(models, with, _)| {
        models.contains(&&*record.system.family_model) && (with - whole).abs() < 0.5
    });
    if goes_down_with_core
        && let Some(found) = record.find_family_figure(FamilyFigureKey::PackageExitUs, "")
    {
        return found.figure;
    }
    if name.strip_suffix('P') == Some(&core.name) {
        let why = format!(
            "what the kernel declares for {name} ({whole} us) more than for {} ({} us)",
            core.name,
            declared_exit_us(core)
        );
        return Figure::assumed((whole - declared_exit_us(core)).max(0.0), why);
    }
    let known = PACKAGE_C6_US.iter().find(|(models, with, _)| {
        models.contains(&&*record.system.family_model) && (with - whole).abs() < 0.5
    });
    match known {
        Some((_, with, without)) => Figure::assumed(
            with - without,
            format!(
                "the kernel declares {with} us for {name} where the package goes down with it, and {without} us where it does not"
            ),
        ),
        None => Figure::assumed(0.0, format!("the exit time of {name} contains it")),
    }
}
