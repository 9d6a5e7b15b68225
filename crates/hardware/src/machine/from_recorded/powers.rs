//! Powers of a recorded system: taken from a similar machine, and scaled by the number of sockets.

use wakepath_units::Kilohertz;

use super::record::{Captured, RecordAndLender, SystemKind};
use crate::machine::family_figures::FamilyFigureKey;
use crate::machine::{
    Cluster, Figure, Machine, Opp, Origin, Platform, PowerLimit, PowerScope, Uncore,
};
use crate::processor::Processor;
use crate::recorded::RecordedSystem;

/// Default power limits for Intel processors without recorded registers: PL1 and PL2 for clients and for servers.
/// Each is a multiple of thermal design power, and seconds.
const CLIENT_LIMITS: [(f64, f64); 2] = [(1.0, 28.0), (1.25, 0.01)];
const CLIENT_LIMITS_WHY: [&str; 2] = [
    "thermal design power over 28 s: the default of PL1, and the window for mobile use (MSR 610h), by the data sheet of the 4th \
     generation Core. turbostat shows 28 s of a Tiger Lake laptop (github.com/horshack-dpreview/setPL, issue 1)",
    "1.25 times the thermal design power, exceeded for at most 10 ms: the default of PL2 (data sheet of the 4th generation Core, MSR 610h)",
];
const SERVER_LIMITS: [(f64, f64); 2] = [(1.0, 1.0), (1.2, 0.011_718_75)];
const SERVER_LIMITS_WHY: [&str; 2] = [
    "thermal design power over 1 s, as recorded of emr0, gnr0 and spr1",
    "1.2 times PL1 over 11.7 ms, as recorded of emr0, gnr0 and spr1",
];

/// Built-in machines with a battery, whose power at rest stands for others of their segment.
const PORTABLE: [&str; 4] = ["laptop", "hybrid-i7-1260p", "ryzen-8840u", "apple-m1-pro"];

/// Copies powers and voltages to a cluster from another cluster.
pub(super) fn copy_powers_and_voltages(cluster: &mut Cluster, like: &Cluster) {
    cluster.dynamic_power_uw_per_mhz_v2 = like.dynamic_power_uw_per_mhz_v2.clone();
    cluster.static_mw = like.static_mw.clone();
    cluster.cluster_on_mw = like.cluster_on_mw.clone();
    cluster.cluster_off_mw = like.cluster_off_mw.clone();
    let lowest = given_voltage_or_that_of_point(like, like.opps.first(), &like.lowest_uv);
    let highest = given_voltage_or_that_of_point(like, like.opps.last(), &like.highest_uv);
    if lowest.is_given() && highest.is_given() {
        (cluster.lowest_uv, cluster.highest_uv) = (lowest, highest);
    }
}

/// Voltage at the slowest or fastest operating point: the figure, or else that of the point itself.
fn given_voltage_or_that_of_point(like: &Cluster, point: Option<&Opp>, figure: &Figure) -> Figure {
    match point {
        Some(point) if !figure.is_given() && point.uv > 0 => {
            let why = format!("as the {} of the machine that lends its powers", like.core);
            Figure::assumed(f64::from(point.uv), why)
        }
        _ => figure.clone(),
    }
}

/// Multiplies the package's power by the sockets: a captured machine is one cluster whatever their number.
pub(super) fn multiply_assumed_package_power(machine: &mut Machine, sockets: usize) {
    let Some(package) = machine.package.as_mut().filter(|_| sockets > 1) else {
        return;
    };
    for figure in [&mut package.idle_mw, &mut package.active_mw] {
        if let Origin::Assumed(why) = &figure.origin {
            let why = format!("of {sockets} sockets; {why}");
            *figure = Figure::assumed(figure.value * sockets as f64, why);
        }
    }
}

/// Sets the power besides the CPUs: the template's, scaled by sockets.
pub(super) fn scale_lent_package_power_to_sockets(machine: &mut Machine, template: &Machine) {
    let (sockets, lender_sockets) = (machine.cluster.len(), template.cluster.len());
    let package = machine.package.as_mut();
    let Some(package) = package.filter(|_| sockets != lender_sockets) else {
        return;
    };
    for figure in [&mut package.idle_mw, &mut package.active_mw] {
        if let Origin::Assumed(why) = &figure.origin {
            let why = format!(
                "{sockets} socket(s), each with its share of the {lender_sockets} there; {why}"
            );
            *figure = Figure::assumed(figure.value * sockets as f64 / lender_sockets as f64, why);
        }
    }
}

/// Sets package power of a family that was measured by the package's energy counter: without fans, memory and losses. CPUs
/// and uncore have figures of their own, which the counter counted, too.
pub(super) fn use_package_power_of_family(
    machine: &mut Machine,
    record: &RecordAndLender<'_>,
    sockets: usize,
) {
    let Some(rest) = record.find_family_figure(FamilyFigureKey::PackageRestW, "") else {
        return;
    };
    let cpus = machine.cpus() as f64;
    let deepest = machine.idle_state.last();
    let resting_mw = deepest.map_or(0.0, |state| state.power_mw.value) * cpus;
    let lowest_uncore = machine.uncore.as_ref().map_or(0, |uncore| {
        let clock = uncore.clock_within_limits(Kilohertz(0));
        uncore.cluster_power_at_clock(clock).0
    });
    // Each cluster of the machine has an uncore.
    let uncore_mw = lowest_uncore as f64 / 1e3 * machine.cluster.len() as f64;
    let awake = record.find_family_figure(FamilyFigureKey::PackageAwakeW, "");
    let Some(package) = &mut machine.package else {
        return;
    };
    if package.scope != PowerScope::Package && awake.is_none() {
        return;
    }
    package.scope = PowerScope::Package;
    package.idle_mw = rest.milliwatts_of_sockets(
        sockets,
        resting_mw,
        "what its CPUs draw in their deepest state",
    );
    if let Some(awake) = awake {
        package.active_mw =
            awake.milliwatts_of_sockets(sockets, uncore_mw, "the uncore at its lowest clock");
    }
}

/// Limits the uncore's clock to the recorded range.
pub(super) fn use_recorded_uncore_clock_range(uncore: &mut Uncore, processor: &Processor) {
    let Some((lowest, highest)) = processor.uncore_mhz else {
        return;
    };
    [uncore.min_mhz, uncore.max_mhz] = [lowest, highest]
        .map(|mhz| Figure::with_own_source(f64::from(mhz), processor.source.clone()));
}

/// Power limits of an Intel processor: from the register, or else usual multiples of thermal design power.
pub(super) fn recorded_or_usual_intel_power_limit(
    processor: &Processor,
    kind: SystemKind,
) -> Option<PowerLimit> {
    if let Some(recorded) = processor.power_limits {
        let limits = recorded.map(|(watts, seconds)| {
            [watts, seconds].map(|value| Figure::covered_by_table_source(value * 1e3))
        });
        return Some(power_limit_of_one_package(processor, limits));
    }
    if !processor.tdp_w.is_given() {
        return None;
    }
    let (rule, why) = match kind {
        SystemKind::Client | SystemKind::Other => (CLIENT_LIMITS, CLIENT_LIMITS_WHY),
        SystemKind::Server | SystemKind::Amd => (SERVER_LIMITS, SERVER_LIMITS_WHY),
    };
    let mut figures = [0, 1].map(|index| {
        let (times, seconds) = rule[index];
        let milliwatts = processor.tdp_w.value * times * 1e3;
        [milliwatts, seconds * 1e3].map(|value| Figure::assumed(value, why[index]))
    });
    // The rating may have a source, but not the claim that the system uses the rating as limit.
    let rating = &processor.max_turbo_w;
    if let (true, Origin::Assumed(why) | Origin::Source(why)) = (rating.is_given(), &rating.origin)
    {
        let why = format!("the rated maximum turbo power as PL2: {why}");
        figures[1][0] = Figure::assumed(rating.value * 1e3, why);
    }
    Some(power_limit_of_one_package(processor, figures))
}

/// Power limits of one package; `limits`: power and window, of PL1 and of PL2.
fn power_limit_of_one_package(processor: &Processor, limits: [[Figure; 2]; 2]) -> PowerLimit {
    let [[pl1_mw, pl1_window_ms], [pl2_mw, pl2_window_ms]] = limits;
    PowerLimit {
        pl1_mw,
        pl1_window_ms,
        pl2_mw,
        pl2_window_ms,
        clusters: 1,
        source: processor.source.clone(),
    }
}

/// Power of the whole machine at rest. Servers of an unknown family have no figure: families differ by a factor of
/// five for each socket.
pub(super) fn published_or_lent_power_at_rest(
    record: &RecordAndLender<'_>,
    clusters: usize,
) -> Option<Platform> {
    let system = record.system;
    let sockets = record.known_processor().map_or(clusters, |p| p.sockets);
    let published = Platform::for_server(&system.family_model, &system.cpu_model, sockets);
    let name = system.cpu_model.to_lowercase();
    // Recorded Atoms are parts of servers and network devices.
    let is_portable =
        record.kind == SystemKind::Client && !name.contains("xeon") && !name.contains("atom");
    let lent = record.lender.platform.clone().filter(|_| is_portable);
    published.or_else(|| {
        let of_family = Platform::for_laptop(&system.family_model, &system.cpu_model);
        lent.map(|lent| of_family.unwrap_or(lent))
    })
}

/// Power at rest of a captured machine: published for its family, or else that of a lender with a battery.
pub(super) fn power_at_rest_of_captured_machine(
    system: &RecordedSystem,
    captured: &Captured<'_>,
    template: &Machine,
) -> Option<Platform> {
    let lender = captured.lender;
    let published = Platform::for_server(
        &system.family_model,
        &system.cpu_model,
        captured.sockets.max(1),
    );
    let lent = template.platform.as_ref();
    let is_portable = PORTABLE.contains(&lender.machine);
    published
        .or_else(|| {
            let of_family = Platform::for_laptop(&system.family_model, &system.cpu_model);
            of_family.or_else(|| lent.cloned()).filter(|_| is_portable)
        })
        .filter(|_| lender.power)
}
