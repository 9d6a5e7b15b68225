//! Clusters of a recorded system: cores, clocks and operating points.

use wakepath_units::Kilohertz;

use super::record::{RecordAndLender, SystemKind, figure_if_applicable};
use crate::hwp::EPP32_SHARE;
use crate::machine::builtin::load_builtin_machine;
use crate::machine::{
    Cluster, CoreKind, EFFICIENCY_CAPACITY, EFFICIENCY_CAPACITY_WHY, Figure, Opp, TurboLimit,
};
use crate::processor::Processor;
use crate::recorded::{RecordedPolicy, RecordedSystem};

/// Why the range of frequencies begins where it does with EPP 32.
const EPP32_WHY: &str =
    "on a line from EPP 0 to 128; users read 1000 and 3000 MHz off idle laptops with EPP 32";

/// Bus clock of x86 processors, which is the step between operating points.
const STEP_KHZ: usize = 100_000;

/// How often an AMD processor looks at frequency requests, and what a change takes from then on.
const AMD_SLOT_US: f64 = 1000.0;
const AMD_SLOT_WHY: &str = "as measured on an EPYC 7502: changes are uniform within 1 ms";
const SLOTTED_TRANSITION_US: f64 = 371.0;
const SLOTTED_TRANSITION_WHY: &str =
    "as measured on an EPYC 7502: 871 us in the median, less half a slot of 1 ms";

/// Number of kHz that acpi-cpufreq adds to the highest frequency to offer turbo.
const TURBO_MARK_KHZ: u32 = 1000;

/// Makes one cluster for each socket, all alike; `fastest_policy`: the cpufreq policy with the highest frequency.
pub(super) fn make_equal_clusters_per_socket(
    record: &RecordAndLender<'_>,
    fastest_policy: &RecordedPolicy,
) -> Vec<Cluster> {
    let sockets = record.known_processor().map_or(1, |p| p.sockets);
    let first = make_cluster_of_socket(record, record.cpus() / sockets, fastest_policy);
    if sockets == 1 {
        return vec![first];
    }
    (0..sockets)
        .map(|n| Cluster {
            name: format!("socket{n}"),
            ..first.clone()
        })
        .collect()
}

fn make_cluster_of_socket(
    record: &RecordAndLender<'_>,
    cpus: usize,
    fastest_policy: &RecordedPolicy,
) -> Cluster {
    let like = &record.lender.cluster[0];
    let threads = known_or_lent_threads_per_core(record, cpus);
    let (frequencies, opps_assumed) =
        operating_frequencies_and_why_assumed(fastest_policy, record.known_processor());
    // All Intel processors accept frequency requests alike.
    let intel = load_builtin_machine("xeon-e3-1240v5")
        .and_then(|m| m.copy_with_assumed_figures())
        .ok()
        .filter(|_| matches!(record.kind, SystemKind::Client | SystemKind::Server));
    let clock = &intel.as_ref().unwrap_or(record.lender).cluster[0];
    let cppc = record.known_processor().and_then(|p| p.cppc.as_ref());
    // HWP's range of clocks hangs on the base clock.
    let has_hwp = fastest_policy.driver == "intel_pstate"
        && fastest_policy.epp.is_some()
        && fastest_policy.base.is_some();
    let base = fastest_policy
        .base
        .map(|b| Figure::covered_by_table_source(f64::from(b.0) / 1e3));
    Cluster {
        name: "package".to_owned(),
        core: record.system.cpu_model.clone(),
        cpus,
        threads_per_core: threads,
        smt_speedup: figure_if_applicable(threads > 1, &like.smt_speedup),
        smt_poll_loss: figure_if_applicable(threads > 1, &like.smt_poll_loss),
        // Servers have a clock per core, clients and Arm's clusters one for all.
        threads_sleep_together: false,
        clock_cpus: matches!(record.kind, SystemKind::Amd | SystemKind::Server).then_some(threads),
        capacity: 1024,
        capacity_assumed: None,
        transition_latency_us: declared_or_assumed_clock_latency(record, fastest_policy),
        fixed_speed: false,
        clock_slot_us: match cppc {
            Some(_) => Figure::assumed(AMD_SLOT_US, AMD_SLOT_WHY),
            None => clock.clock_slot_us.clone(),
        },
        clock_stall_us: clock.clock_stall_us.clone(),
        base_mhz: base.unwrap_or_default(),
        turbo: known_turbo_limits(record.known_processor()),
        turbo_assumed: None,
        hwp_ramp_ms: figure_if_applicable(has_hwp, &clock.hwp_ramp_ms),
        hwp_full_at_percent: figure_if_applicable(has_hwp, &clock.hwp_full_at_percent),
        hwp_epp32_percent: figure_if_applicable(
            has_hwp && record.system.prefers_speed_by_hwp(),
            &Figure::assumed(EPP32_SHARE * 100.0, EPP32_WHY),
        ),
        cppc: cppc.cloned(),
        opps: frequencies
            .into_iter()
            .map(|f| Opp { khz: f.0, uv: 0 })
            .collect(),
        opps_assumed,
        lowest_uv: Figure::assumed(650_000.0, "no published curve"),
        highest_uv: Figure::assumed(1_100_000.0, "no published curve"),
        dynamic_power_uw_per_mhz_v2: like.dynamic_power_uw_per_mhz_v2.clone(),
        static_mw: like.static_mw.clone(),
        cluster_on_mw: like.cluster_on_mw.clone(),
        cluster_off_mw: like.cluster_off_mw.clone(),
        idle_state: Vec::new(),
        source: record.source_of_plain_figures(),
    }
}

/// Number of hardware threads per core in a cluster, whose cores are all alike.
fn known_or_lent_threads_per_core(record: &RecordAndLender<'_>, cpus: usize) -> usize {
    let lent = record.lender.cluster[0].threads_per_core;
    match record.known_processor() {
        Some(processor) if processor.is_hybrid() => 1,
        Some(processor) => processor.threads_per_core,
        None if cpus.is_multiple_of(lent) => lent,
        None => 1,
    }
}

fn declared_or_assumed_clock_latency(
    record: &RecordAndLender<'_>,
    policy: &RecordedPolicy,
) -> Figure {
    let declared_us = policy.transition_latency.0 as f64 / 1e3;
    if record.known_processor().is_some_and(|p| p.cppc.is_some()) {
        Figure::assumed(SLOTTED_TRANSITION_US, SLOTTED_TRANSITION_WHY)
    } else if declared_us > 0.0 {
        Figure::covered_by_table_source(declared_us)
    } else {
        record.lender.cluster[0].transition_latency_us.clone()
    }
}

/// Turbo limits by active cores of a socket, where known.
fn known_turbo_limits(processor: Option<&Processor>) -> Vec<TurboLimit> {
    let limits = processor.map_or(&[][..], |p| &p.turbo).iter();
    limits
        .map(|(cores, mhz)| TurboLimit {
            active_cores: *cores,
            khz: mhz * 1000,
        })
        .collect()
}

/// The frequencies of the operating points: those recorded, or else every step of the recorded range. With turbo the
/// highest frequency is not in the list, or stands there as 1 MHz more than the one before.
pub(super) fn operating_frequencies_and_why_assumed(
    policy: &RecordedPolicy,
    processor: Option<&Processor>,
) -> (Vec<Kilohertz>, Option<String>) {
    let (mut points, why) = if policy.available.is_empty() {
        let range = (policy.min.0..=policy.max.0).step_by(STEP_KHZ);
        let why = "the recorded range in steps of 100 MHz".to_owned();
        (range.map(Kilohertz).collect(), Some(why))
    } else {
        (policy.available.clone(), None)
    };
    let turbo = processor.and_then(|p| p.turbo.first());
    let marked = Kilohertz(policy.max.0.saturating_sub(TURBO_MARK_KHZ));
    match turbo {
        Some((_, mhz)) if policy.available.contains(&marked) => {
            points.retain(|point| *point != policy.max);
            points.push(Kilohertz(mhz * 1000));
        }
        _ => points.push(policy.max),
    }
    points.sort_unstable();
    points.dedup();
    (points, why)
}

/// Core types of a hybrid processor. A record leaves out repeated policies, so a new highest frequency marks the next
/// core type. `None`: one type only, or a record that does not fit the processor.
pub(super) fn infer_core_kinds_of_hybrid(system: &RecordedSystem) -> Option<Vec<CoreKind>> {
    let processor = system.processor.as_ref().filter(|p| p.is_hybrid())?;
    let mut firsts = system.frequency.clone();
    firsts.sort_by_key(|policy| policy.policy);
    firsts.dedup_by_key(|policy| policy.max);
    let next_firsts = firsts.iter().skip(1).map(|policy| policy.policy);
    let ends = next_firsts.chain([processor.cpus()]);
    let fastest = firsts.iter().max_by_key(|policy| policy.max)?;
    let kinds: Option<Vec<CoreKind>> = firsts
        .iter()
        .zip(ends)
        .map(|(policy, end)| core_kind_from_policy_up_to_cpu(processor, policy, fastest, end))
        .collect();
    let biggest = processor.cpus() - processor.efficiency_cores;
    kinds.filter(|kinds| kinds.len() > 1 && kinds[0].cpus == biggest)
}

/// The core type whose CPUs are those from a policy's first up to `end_cpu`; `None` if that is before the policy.
fn core_kind_from_policy_up_to_cpu(
    processor: &Processor,
    policy: &RecordedPolicy,
    fastest: &RecordedPolicy,
    end_cpu: usize,
) -> Option<CoreKind> {
    let is_fastest = policy.max == fastest.max;
    let (points, points_assumed) = operating_frequencies_and_why_assumed(policy, None);
    let (capacity, capacity_assumed) =
        match (policy.highest_performance, fastest.highest_performance) {
            _ if is_fastest => (1024, None),
            (Some(own), Some(biggest)) if biggest > 0 => (1024 * own / biggest, None),
            _ => (
                EFFICIENCY_CAPACITY,
                Some(EFFICIENCY_CAPACITY_WHY.to_owned()),
            ),
        };
    Some(CoreKind {
        cpus: end_cpu.checked_sub(policy.policy)?,
        threads_per_core: if is_fastest {
            processor.threads_per_core
        } else {
            1
        },
        capacity,
        capacity_assumed,
        points,
        points_assumed,
        base: policy.base,
    })
}
