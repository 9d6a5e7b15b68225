//! Further findings: C1 demotion, latencies declared by intel_idle, and isolated CPUs.

use wakepath_hardware::machine::{Figure, Origin};

use crate::case::Case;
use crate::finding::Finding;
use crate::model::READS;

/// The first kernel release whose intel_idle takes `table=`.
const FIRST_WITH_TABLE: (u16, u16, u16) = (7, 0, 0);
/// Ratio between declared and measured exit latency from which on a state is reported.
const FAR: f64 = 1.5;

/// Finds that the firmware may answer requests for deep idle states with C1.
pub(crate) fn find_c1_demotion(case: &Case<'_>) -> Option<Finding> {
    let path = "sys/devices/system/cpu/cpuidle/intel_c1_demotion";
    if case.system.root().read_text_if_readable(path)? != "1" {
        return None;
    }
    let set = "c1-demotion[value=off]".parse().ok()?;
    Some(
        Finding::new(
            "c1-demotion",
            "C1 demotion is on: the firmware may keep CPUs that wake up often in C1, whatever the governor asked for",
        )
        .with_evidence(format!(
            "/{path} is 1; usage and time of idle states count what was asked for"
        ))
        .fixed_by_set(case, set),
    )
}

/// Finds a state whose measured exit latency is far from what intel_idle declares.
pub(crate) fn find_wrong_declared_latency(case: &mut Case<'_>) -> Option<Finding> {
    let driver = "sys/devices/system/cpu/cpuidle/current_driver";
    if case.system.root().read_text_if_readable(driver)? != "intel_idle" {
        return None;
    }
    let machine = &case.model.machine;
    let package = machine
        .package
        .as_ref()
        .map_or(0.0, |package| package.exit_us.value);
    // The package goes down in the deepest state, so that its exit time is part of the measured one.
    let state = machine.idle_state.last()?;
    // One table serves all kinds of cores, so that the slowest decides.
    let exits = machine.cluster.iter().filter_map(|cluster| {
        let states = machine.idle_states_on_cluster(cluster);
        Some(states.last()?.longest_exit_us().clone())
    });
    let exit = exits.max_by(|a, b| a.value.total_cmp(&b.value))?;
    let truth = (exit.value + package).ceil();
    let (name, declared) = (state.name.clone(), state.exit_latency_us.value);
    if !is_exit_time_measured(&exit) || declared <= FAR * truth {
        return None;
    }
    let whose = match &exit.origin {
        Origin::Measured(measurement) => format!("here ({measurement})"),
        _ => "on processors of this kind".to_owned(),
    };
    let residency = state.target_residency_us.value;
    let mut machine = case.model.machine.clone();
    let changed = machine.idle_state.iter_mut().find(|s| s.name == name)?;
    changed.exit_latency_us.value = truth;
    // Most tables of intel_idle have a fixed ratio of residency to exit latency.
    changed.target_residency_us.value = (residency * truth / declared).ceil().max(truth);
    let word = format!(
        "intel_idle.table={name}:{truth}:{}",
        changed.target_residency_us.value
    );
    machine.check().ok()?;
    let what = format!("{name} declared with {truth} us");
    let simulated = case
        .model
        .simulate_cost_compared_to(&machine, &case.model.now, READS, &what);
    let difference = case.result_or_note_without_cost("declared-latency", simulated)?;
    let fix = if case.system.nearest_kernel_version().release() >= FIRST_WITH_TABLE {
        format!("put {word} on the kernel command line")
    } else {
        format!("kernels from 7.0 on take {word} on their command line")
    };
    Some(
        Finding::new(
            "declared-latency",
            format!("intel_idle declares {declared} us for leaving {name}, which takes {truth} us {whose}"),
        )
        .with_evidence(format!(
            "declared {declared} us exit latency and {residency} us residency; latency requests and governors go by them"
        ))
        .with_fix(fix)
        .with_costs(&difference),
    )
}

/// Whether an exit time was measured, here or on processors of the kind: on a captured machine, other exit times are half
/// the declared times.
fn is_exit_time_measured(figure: &Figure) -> bool {
    match &figure.origin {
        Origin::Measured(_) => true,
        Origin::Source(why) | Origin::Assumed(why) => why.contains("median of"),
        _ => false,
    }
}

/// CPUs separated by commas, or "none".
fn join_cpus_or_say_none(cpus: &[usize]) -> String {
    if cpus.is_empty() {
        return "none".to_owned();
    }
    let numbers: Vec<String> = cpus.iter().map(usize::to_string).collect();
    numbers.join(",")
}

/// Finds CPUs in `isolcpus=` and `nohz_full=` that drives may still interrupt.
pub(crate) fn find_cpus_kept_free_by_isolation(case: &Case<'_>) -> Option<Finding> {
    let isolation = &case.model.machine.isolation;
    if isolation.isolates_no_cpu() {
        return None;
    }
    let finding = Finding::new(
        "isolated-cpus",
        "some CPUs are kept free: tasks go there only where they are bound, and without a tick their utilisation is seldom looked at",
    )
    .with_evidence(format!(
        "isolcpus {}; nohz_full {}",
        join_cpus_or_say_none(&isolation.isolcpus),
        join_cpus_or_say_none(&isolation.nohz_full)
    ));
    if isolation.managed_irq || isolation.isolcpus.is_empty() {
        return Some(finding);
    }
    Some(
        finding
            .with_evidence("without managed_irq, interrupts of drives come to them as well")
            .with_fix(format!(
                "put isolcpus=managed_irq,domain,{} on the kernel command line",
                join_cpus_or_say_none(&isolation.isolcpus)
            )),
    )
}
