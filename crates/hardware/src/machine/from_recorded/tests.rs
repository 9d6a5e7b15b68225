use wakepath_units::Kilohertz;

use super::clusters::operating_frequencies_and_why_assumed;
use super::*;
use crate::machine::{Origin, PowerScope};
use crate::recorded;

/// Families of recorded systems with published figures.
const FAMILIES: [&str; 7] = [
    "Sapphire Rapids",
    "Emerald Rapids",
    "Granite Rapids",
    "Ice Lake-SP",
    "Skylake-SP",
    "Rome",
    "Panther Lake",
];

#[test]
fn every_system_with_recorded_idle_states_is_a_machine() {
    for system in recorded::builtin_recorded_systems() {
        let machine = Machine::from_recorded(system);
        let Some(idle) = &system.idle else {
            let message = machine.unwrap_err().to_string();
            assert!(
                message.contains("idle states were not recorded"),
                "{message}"
            );
            continue;
        };
        let machine = machine.unwrap_or_else(|e| panic!("{}: {e}", system.name));
        let processor = system.processor.as_ref().unwrap();
        assert_eq!(machine.cpus(), processor.cpus());
        if !processor.is_hybrid() {
            assert_eq!(machine.cluster.len(), processor.sockets);
        }
        // Governors see the recorded states.
        assert_eq!(machine.common_declared_idle_states().unwrap(), idle.states);
        let fastest = system.frequency.iter().map(|p| p.max).max();
        let turbo = processor
            .turbo
            .first()
            .map(|(_, mhz)| Kilohertz(mhz * 1000));
        let highest = Some(machine.cluster[0].max_frequency());
        assert!(highest == fastest || highest == turbo, "{}", system.name);
    }
}

#[test]
fn a_recorded_system_runs_the_kernel_that_it_was_recorded_under() {
    for (name, kernel) in [
        ("rome0", "6.16.10"),
        ("spr1", "6.18.8"),
        ("lnl0", "6.19.0"),
        ("adl0", "7.0.0"),
    ] {
        let machine = Machine::find(name).unwrap();
        let runs = machine.kernel.map(|kernel| kernel.to_string());
        assert_eq!(runs.as_deref(), Some(kernel), "{name}");
    }
}

#[test]
fn what_the_record_does_not_tell_says_that_it_is_assumed() {
    let machine = Machine::find("emr0").unwrap();
    let c6 = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
    assert_eq!(c6.exit_latency_us.origin, Origin::Table);
    for figure in [&c6.true_exit_us, &c6.exit_spread, &c6.power_mw] {
        assert!(matches!(figure.origin, Origin::Assumed(_)), "{figure:?}");
    }
    assert!(machine.cluster[0].source.contains("emr0"));
}

/// A name, a state, the time of the core and that of the package, in us, and whether both are published.
type PublishedExit = (&'static str, &'static str, f64, f64, bool);

#[test]
fn what_is_published_of_the_family_goes_before_half_of_what_is_declared() {
    let expected: [PublishedExit; 10] = [
        ("spr1", "C6", 100.5, 100.0, true),
        ("emr0", "C6", 100.5, 100.0, false),
        ("emr0", "C1E", 4.0, 100.0, true),
        ("gnr0", "C6", 100.0, 40.0, true),
        ("gnr0", "C6P", 100.0, 40.0, true),
        ("icx2s0", "C6", 41.0, 87.0, true),
        ("sklep0", "C6", 50.0, 41.0, true),
        ("clx4s0", "C6", 50.0, 41.0, false),
        ("rome0", "C2", 21.6, 0.0, true),
        ("milan0", "C2", 21.6, 0.0, false),
    ];
    for (name, state, core, package, is_published) in expected {
        let machine = Machine::find(name).unwrap();
        let states = machine.idle_state.iter();
        let exit = &states
            .clone()
            .find(|s| s.name == state)
            .unwrap()
            .true_exit_us;
        assert!((exit.value - core).abs() < 1e-9, "{name} {state}: {exit:?}");
        let found = matches!(exit.origin, Origin::Source(_));
        assert_eq!(found, is_published, "{name} {state}: {exit:?}");
        let power_up = &machine.package.as_ref().unwrap().exit_us;
        assert!(
            (power_up.value - package).abs() < 1e-9,
            "{name}: {power_up:?}"
        );
        for deep in states.filter(|deep| deep.exit_latency_us.value > 10.0) {
            let declared = deep.exit_latency_us.value;
            assert!(deep.true_exit_us.value <= declared, "{name} {}", deep.name);
        }
    }
}

#[test]
fn package_power_of_laptops_is_that_of_their_family() {
    for (name, milliwatts, is_published) in [
        ("dell-9360-kbl", 562.0, false),
        ("dell-latitude-5420-tgl", 1370.0, false),
        ("adl0", 590.0, false),
        ("ptl-h-4", 730.0, true),
    ] {
        let machine = Machine::find(name).unwrap();
        let package = machine.package.as_ref().unwrap();
        assert_eq!(package.scope, PowerScope::Package);
        let cpus = milliwatts - package.idle_mw.value;
        assert!(
            (0.0..150.0).contains(&cpus),
            "{name}: {:?}",
            package.idle_mw
        );
        let found = matches!(package.idle_mw.origin, Origin::Source(_));
        assert_eq!(found, is_published, "{name}: {:?}", package.idle_mw);
    }
    let lunar_lake = Machine::find("lnl0").unwrap().platform.unwrap();
    assert!((lunar_lake.resting_mw.value - 2900.0).abs() < 1e-9);
}

#[test]
fn a_hybrid_processor_has_a_cluster_for_each_kind_of_core() {
    // CPUs, threads per core, highest MHz and capacity, as `scaling_max_freq` and `acpi_cppc/highest_perf` were recorded.
    for (name, kinds) in [
        ("adl0", &[(8, 2, 4700, 1024), (8, 1, 3400, 580)][..]),
        ("rpl0", &[(8, 2, 4600, 1024), (8, 1, 3400, 590)]),
        ("lnl0", &[(4, 1, 4500, 1024), (4, 1, 3500, 689)]),
        (
            "mtl-m-2",
            &[(4, 2, 4800, 1024), (8, 1, 3800, 648), (2, 1, 2100, 358)],
        ),
        (
            "arl-h-1",
            &[(4, 1, 4500, 1024), (8, 1, 3900, 782), (2, 1, 2500, 355)],
        ),
        ("ptl-h-4", &[(2, 1, 3200, 1024), (8, 1, 2400, 682)]),
    ] {
        let machine = Machine::find(name).unwrap();
        let clusters = machine.cluster.iter();
        let found: Vec<_> = clusters
            .map(|c| {
                let mhz = c.max_frequency().0 / 1000;
                (c.cpus, c.threads_per_core, mhz, c.capacity)
            })
            .collect();
        assert_eq!(found, kinds, "{name}");
        assert_eq!(machine.scheduler.home.cluster, "performance");
        assert_eq!(machine.power_limit.unwrap().clusters, kinds.len());
    }
}

#[test]
fn only_figures_of_the_system_itself_have_a_source() {
    for system in recorded::builtin_recorded_systems()
        .iter()
        .filter(|s| s.idle.is_some())
    {
        let machine = Machine::from_recorded(system).unwrap();
        let record = format!("emul-data/{}", system.name);
        for figure in machine.figures() {
            let what = format!(
                "{} {}: {}",
                system.name,
                figure.key,
                figure.origin_in_words()
            );
            assert_eq!(figure.figure.fitted_to(), None, "{what}");
            let has_source = matches!(figure.figure.origin, Origin::Table | Origin::Source(_));
            // What is published of the processor's family begins with the family's name.
            let words = figure.origin_in_words();
            let is_of_family = FAMILIES
                .iter()
                .any(|name| words.starts_with(&format!("{name}: ")));
            assert!(
                !has_source || words.contains(&record) || is_of_family,
                "{what}"
            );
        }
    }
}

#[test]
fn sapphire_and_emerald_rapids_leave_c6_as_fast_as_measured() {
    for name in ["spr1", "spr-nomwait", "emr0", "emr9"] {
        let machine = Machine::find(name).unwrap();
        let c6 = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
        assert!((97.0..=104.0).contains(&c6.true_exit_us.value), "{name}");
    }
}

#[test]
fn each_socket_has_its_cores_its_turbo_limits_and_its_share_of_package_power() {
    let four = Machine::find("spr1").unwrap();
    assert_eq!(four.cluster.len(), 4);
    for cluster in &four.cluster {
        assert_eq!((cluster.cpus, cluster.threads_per_core), (80, 2));
        let last = cluster.turbo.last().unwrap();
        assert_eq!((last.active_cores, last.khz), (40, 3_100_000));
    }
    let package = |name: &str| Machine::find(name).unwrap().package.unwrap();
    let two = package("skylake-2s-server");
    let ice = package("icx2s0");
    assert!((ice.idle_mw.value - two.idle_mw.value).abs() < 1e-6);
    assert_eq!((ice.scope, two.scope), (PowerScope::Wall, PowerScope::Wall));
    // Figures for the family from package counters, minus the power of CPUs in C6 and of the mesh.
    for (name, sockets) in [("spr1", 4.0), ("spr-nomwait", 1.0), ("emr0", 2.0)] {
        let machine = Machine::find(name).unwrap();
        let package = machine.package.as_ref().unwrap();
        assert_eq!(package.scope, PowerScope::Package);
        let resting = machine.idle_state.last().unwrap().power_mw.value * machine.cpus() as f64;
        let socket = (package.idle_mw.value + resting) / sockets;
        assert!((socket - 68_900.0).abs() < 1.0, "{name}: {socket}");
        let uncore = machine.uncore.as_ref().unwrap();
        let mesh = uncore
            .cluster_power_at_clock(uncore.clock_within_limits(Kilohertz(0)))
            .0 as f64
            / 1e3;
        let step = package.active_mw.value / sockets + mesh;
        assert!((step - 39_500.0).abs() < 1.0, "{name}: {step}");
        let why = package.idle_mw.origin.describe_origin("");
        assert!(why.contains("68.9 to 70.5 W by RAPL"), "{why}");
    }
    let uncore = four.uncore.unwrap();
    assert!((uncore.min_mhz.value - 800.0).abs() < 1e-9);
}

#[test]
fn processors_may_draw_what_their_register_says_or_what_is_usual() {
    const W: u64 = 1_000_000;
    const MS: u64 = 1_000_000;
    fn limits_and_origin(name: &str) -> Option<(Vec<(u64, u64)>, Origin)> {
        let limit = Machine::find(name).unwrap().power_limit?;
        let all: Vec<(u64, u64)> = limit
            .limits_with_windows()
            .map(|(p, w)| (p.0, w.0))
            .collect();
        Some((all, limit.pl1_mw.origin))
    }
    for (name, pl1, window, pl2) in [
        ("spr1", 330, 1000 * MS, (396 * W, 11_718_750)),
        ("hswex0", 165, 12_000 * MS, (198 * W, 7_812_500)),
    ] {
        let (limits, origin) = limits_and_origin(name).unwrap();
        assert_eq!(limits, [(pl1 * W, window), pl2], "{name}");
        assert_eq!(origin, Origin::Table, "{name}");
    }
    // The rest is assumed: a laptop with a rating for its turbo power, one without, and a server.
    for (name, pl1, window, pl2) in [
        ("adl0", 28, 28_000 * MS, (64 * W, 10 * MS)),
        ("dell-9360-kbl", 15, 28_000 * MS, (18_750_000, 10 * MS)),
        ("clx2s0", 165, 1000 * MS, (198 * W, 11_718_750)),
    ] {
        let (limits, origin) = limits_and_origin(name).unwrap();
        assert_eq!(limits, [(pl1 * W, window), pl2], "{name}");
        assert!(matches!(origin, Origin::Assumed(_)), "{name}");
    }
    // Not AMD's, and not where the thermal design power is not known.
    assert!(limits_and_origin("rome0").is_none() && limits_and_origin("snr0").is_none());
}

/// A processor holds the base clock within thermal design power. This bounds the error of borrowed powers.
#[test]
fn borrowed_powers_come_near_the_limit_at_the_base_clock() {
    for system in recorded::builtin_recorded_systems()
        .iter()
        .filter(|s| s.idle.is_some())
    {
        let machine = Machine::from_recorded(system).unwrap();
        let Some(limit) = &machine.power_limit else {
            continue;
        };
        let at_base = |cluster: &Cluster| {
            let base = (cluster.base_mhz.value * 1e3) as u32;
            let opp = cluster.opps.iter().rfind(|opp| opp.khz <= base)?;
            Some((base, cluster.cpus as u64 * cluster.cpu_active_power(opp).0))
        };
        let Some((base, _)) = at_base(&machine.cluster[0]) else {
            continue;
        };
        // Per socket, or for all core types.
        let of_one = &machine.cluster[..limit.clusters];
        let cpus: u64 = of_one
            .iter()
            .filter_map(at_base)
            .map(|(_, power)| power)
            .sum();
        let sockets = (machine.cluster.len() / limit.clusters) as u64;
        let package = machine
            .package
            .as_ref()
            .map_or(0, |p| p.extra_power_while_up().0)
            / sockets;
        let uncore = (machine.uncore.as_ref()).map_or(0, |u| {
            u.cluster_power_at_clock(u.clock_within_limits(Kilohertz(base)))
                .0
        });
        let busy = cpus + package + uncore;
        let share = busy as f64 / limit.limits_with_windows().next().unwrap().0.0 as f64;
        assert!((0.55..1.2).contains(&share), "{}: {share}", system.name);
    }
}

#[test]
fn a_frequency_that_only_stands_for_turbo_becomes_the_real_one() {
    let machine = Machine::find("dnv0").unwrap();
    let points = machine.cluster[0].frequencies();
    assert_eq!(points.last(), Some(&Kilohertz(2_400_000)));
    assert!(!points.contains(&Kilohertz(2_101_000)));
}

#[test]
fn amd_leaves_its_deep_state_as_fast_as_measured() {
    let machine = Machine::find("rome0").unwrap();
    let c2 = machine.idle_state.iter().find(|s| s.name == "C2").unwrap();
    assert!(
        c2.exit_latency_us.value > 100.0 && c2.true_exit_us.value < 30.0,
        "{c2:?}"
    );
}

#[test]
fn a_range_that_ends_between_two_steps_keeps_its_end() {
    let mut policy = recorded::builtin_recorded_systems()[0].frequency[0].clone();
    policy.available.clear();
    (policy.min, policy.max) = (Kilohertz(800_000), Kilohertz(1_050_000));
    let (steps, _) = operating_frequencies_and_why_assumed(&policy, None);
    assert_eq!(
        steps,
        [800_000, 900_000, 1_000_000, 1_050_000].map(Kilohertz)
    );
    policy.available = [900_000, 800_000].map(Kilohertz).to_vec();
    let turbo = [800_000, 900_000, 1_050_000].map(Kilohertz).to_vec();
    assert_eq!(
        operating_frequencies_and_why_assumed(&policy, None),
        (turbo, None)
    );
}
