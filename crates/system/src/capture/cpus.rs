//! CPUs that differ: those kept free by the kernel's command line, and the two kinds of cores of hybrid processors.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, Figure, Isolation, Opp, Origin};
use wakepath_units::cpus;

use crate::System;
use crate::topology::CPUS;

/// The devices of the performance and of the efficiency cores of Intel's hybrid processors, with the list of their CPUs.
const KINDS: [(&str, &str); 2] = [
    ("performance", "sys/devices/cpu_core/cpus"),
    ("efficiency", "sys/devices/cpu_atom/cpus"),
];
/// The capacity of an efficiency core where the kernel does not say it: highest performance 34 to 60, as recorded of adl0.
const EFFICIENCY_CAPACITY: u32 = 580;
/// The bus clock, in which operating points count.
const STEP_KHZ: usize = 100_000;

/// What the kernel's command line keeps free, by place among the CPUs that are online.
pub(super) fn isolation(system: &System) -> Isolation {
    let root = system.root();
    let online = system.cpus();
    let listed = |file: &str| -> Vec<usize> {
        let text = root.optional(&format!("{CPUS}/{file}"));
        let list = text.as_deref().and_then(cpus::parse).unwrap_or_default();
        let place = |cpu: &usize| online.iter().position(|of| of == cpu);
        list.iter().filter_map(place).collect()
    };
    let words = root.optional("proc/cmdline").unwrap_or_default();
    let words = words.split_whitespace();
    let isolation = Isolation {
        isolcpus: listed("isolated"),
        nohz_full: listed("nohz_full"),
        managed_irq: words
            .filter_map(|word| word.strip_prefix("isolcpus="))
            .any(|list| list.split(',').any(|flag| flag == "managed_irq")),
    };
    // A cpuset can isolate all that are left.
    let left = (0..online.len()).any(|cpu| isolation.is_housekeeping(cpu));
    if left {
        isolation
    } else {
        Isolation::default()
    }
}

/// Splits the cluster of a hybrid processor in two, if its cores of each kind follow each other. What the machine then is called,
/// or nothing where it is none.
pub(super) fn hybrid(system: &System, machine: &mut Machine) -> Option<String> {
    let root = system.root();
    let online = system.cpus();
    let of = |path: &str| -> Option<Vec<usize>> {
        let list = cpus::parse(root.optional(path)?.as_str())?;
        Some(
            online
                .iter()
                .copied()
                .filter(|cpu| list.contains(cpu))
                .collect(),
        )
    };
    let kinds = [of(KINDS[0].1)?, of(KINDS[1].1)?];
    if kinds.iter().any(Vec::is_empty) || machine.cluster.len() != 1 {
        return None;
    }
    let together: Vec<usize> = kinds.iter().flatten().copied().collect();
    if together != online {
        return Some("it has cores of two kinds that do not follow each other; the machine has those of the first".to_owned());
    }
    let clusters: Vec<Cluster> = (kinds.iter().zip(KINDS).enumerate())
        .filter_map(|(kind, (cpus, (name, _)))| {
            one_kind(system, machine.cluster[0].clone(), cpus, name, kind == 0)
        })
        .collect();
    if clusters.len() != KINDS.len() {
        return None;
    }
    let mut tried = machine.clone();
    tried.scheduler.home.cluster.clone_from(&clusters[0].name);
    "tasks start on the performance cores".clone_into(&mut tried.scheduler.home.assumed);
    tried.cluster = clusters;
    // A limit of power is that of the package.
    if let Some(limit) = &mut tried.power_limit {
        limit.clusters = KINDS.len();
    }
    if tried.check().is_ok() {
        *machine = tried;
    }
    None
}

/// The cluster of these CPUs, which are alike.
fn one_kind(
    system: &System,
    like: Cluster,
    of: &[usize],
    name: &str,
    biggest: bool,
) -> Option<Cluster> {
    let root = system.root();
    let first = *of.first()?;
    let number = |file: &str| root.number(&format!("{CPUS}/cpu{first}/{file}"));
    let khz = |file: &str| u32::try_from(number(&format!("cpufreq/{file}"))?).ok();
    let policy = |file: &str| {
        let numbered = format!("{CPUS}/cpufreq/policy{first}/{file}");
        khz(file).or_else(|| u32::try_from(root.number(&numbered)?).ok())
    };
    let (lowest, highest) = (policy("cpuinfo_min_freq")?, policy("cpuinfo_max_freq")?);
    let mut opps: Vec<u32> = (lowest..=highest).step_by(STEP_KHZ).collect();
    opps.push(highest);
    opps.dedup();
    let siblings = root.optional(&format!("{CPUS}/cpu{first}/topology/thread_siblings_list"));
    let threads = siblings
        .as_deref()
        .and_then(cpus::parse)
        .map_or(1, |l| l.len());
    let threads = if of.len().is_multiple_of(threads) {
        threads
    } else {
        1
    };
    let told = number("cpu_capacity").and_then(|c| u32::try_from(c).ok());
    let capacity = match (biggest, told) {
        (true, _) => 1024,
        (false, Some(capacity)) => capacity.clamp(1, 1024),
        (false, None) => EFFICIENCY_CAPACITY,
    };
    let base = policy("base_frequency").filter(|base| (lowest..=highest).contains(base));
    let alone = |figure: Figure| {
        if threads > 1 {
            figure
        } else {
            Figure::default()
        }
    };
    Some(Cluster {
        name: name.to_owned(),
        core: format!("{} ({name} cores)", like.core),
        cpus: of.len(),
        threads_per_core: threads,
        smt_speedup: alone(like.smt_speedup),
        smt_poll_loss: alone(like.smt_poll_loss),
        clock_cpus: None,
        capacity,
        base_mhz: base.map_or(like.base_mhz, |khz| Figure::plain(f64::from(khz) / 1e3)),
        turbo: Vec::new(),
        opps: opps.into_iter().map(|khz| Opp { khz, uv: 0 }).collect(),
        opps_assumed: Some("the range of cpufreq in steps of 100 MHz".to_owned()),
        dynamic_power_uw_per_mhz_v2: if biggest {
            like.dynamic_power_uw_per_mhz_v2
        } else {
            Figure {
                value: like.dynamic_power_uw_per_mhz_v2.value / 3.0,
                origin: Origin::Assumed(
                    "a third of a performance core's: four efficiency cores have the area of one performance core".to_owned(),
                ),
            }
        },
        ..like
    })
}
