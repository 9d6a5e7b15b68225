//! A recorded system as a machine: its own settings, and for what no kernel tells the figures of a
//! built-in machine of the same kind, all of them marked as assumed.

use wakepath_units::Kilohertz;

use super::figure::{Figure, Origin};
use super::{Cluster, Machine, MachineError, MachineIdleState, Opp, Scope};
use crate::idle::IdleState;
use crate::recorded::{RecordedIdle, RecordedPolicy, RecordedSystem};

/// The bus clock of x86 processors, in which their operating points count.
const STEP_KHZ: usize = 100_000;
/// A system with more CPUs than this is a server.
const MOST_CLIENT_CPUS: usize = 24;
/// C1 stops the clock only; nobody declares more for it.
const C1_EXIT_US: f64 = 2.0;

impl Machine {
    /// A recorded system as a machine.
    ///
    /// Idle states, frequency range, base frequency and transition latency are the record's. What
    /// leaving a state really takes, power, the block path and the drive are assumed: a state takes
    /// half of the declared exit latency, as measured for C6 of Sapphire Rapids, or what was measured
    /// on an EPYC 7502 for a system of AMD's; the rest is that of a built-in machine of the same kind.
    /// Hybrid processors become one cluster of their fastest cores.
    ///
    /// # Errors
    /// The record lacks the idle states or the frequencies.
    pub fn from_recorded(system: &RecordedSystem) -> Result<Self, MachineError> {
        let missing = |what: &'static str| MachineError::OnlyRecorded {
            name: system.name.clone(),
            missing: what,
        };
        let idle = system.idle.as_ref().ok_or_else(|| missing("idle states"))?;
        let fastest = system.frequency.iter().max_by_key(|p| p.max);
        let policy = fastest.ok_or_else(|| missing("frequencies"))?;
        let kind = Kind::of(system, idle);
        let template = Self::find(kind.template())?;
        let cluster = cluster(system, idle, policy, kind, &template);
        let mut scheduler = template.scheduler.clone();
        "there is only one".clone_into(&mut scheduler.home.assumed);
        scheduler.home.cluster.clone_from(&cluster.name);
        let machine = Self {
            schema: template.schema,
            name: system.name.clone(),
            title: format!(
                "{} as recorded under Linux {}; what its hardware really takes is assumed",
                system.cpu_model, system.kernel
            ),
            hz: tick_rate(&system.kernel),
            irq_time_accounting: irq_time_accounting(&system.kernel),
            cluster: vec![cluster],
            idle_state: idle
                .states
                .iter()
                .map(|state| idle_state(state, system, kind, &template))
                .collect(),
            scheduler,
            ..template
        };
        super::validate::check(&machine).map_err(|(key, message)| MachineError::Invalid {
            origin: system.name.clone(),
            key,
            message,
        })?;
        Ok(machine)
    }
}

/// What kind of system it is, which says where to take from what was not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Amd,
    Client,
    Server,
}

impl Kind {
    fn of(system: &RecordedSystem, idle: &RecordedIdle) -> Self {
        // CPUID families from 15 on are AMD's; Intel's processors of these decades are family 6.
        let family = system.family_model.split('/').next();
        let family = family.and_then(|f| f.parse().ok()).unwrap_or(6_u32);
        if family >= 15 {
            Self::Amd
        } else if idle.recorded_cpus > MOST_CLIENT_CPUS {
            Self::Server
        } else {
            Self::Client
        }
    }

    const fn template(self) -> &'static str {
        match self {
            Self::Amd => "epyc-7502",
            Self::Client => "laptop",
            Self::Server => "skylake-2s-server",
        }
    }
}

fn assumed(value: f64, why: impl Into<String>) -> Figure {
    Figure {
        value,
        origin: Origin::Assumed(why.into()),
    }
}

/// A figure of another machine; one that is not given there is not given here either.
fn as_on(machine: &Machine, figure: &Figure) -> Figure {
    if figure.is_given() {
        assumed(figure.value, format!("as on {}", machine.name))
    } else {
        figure.clone()
    }
}

fn tick_rate(kernel: &str) -> Figure {
    if kernel.contains(".fc") {
        assumed(1000.0, "CONFIG_HZ of Fedora's kernels")
    } else {
        assumed(250.0, "CONFIG_HZ of most distributions")
    }
}

fn irq_time_accounting(kernel: &str) -> Figure {
    if kernel.contains(".fc") || kernel.contains(".el") {
        assumed(1.0, "CONFIG_IRQ_TIME_ACCOUNTING of Fedora's kernels")
    } else {
        assumed(0.0, "CONFIG_IRQ_TIME_ACCOUNTING of Debian's kernels")
    }
}

fn cluster(
    system: &RecordedSystem,
    idle: &RecordedIdle,
    policy: &RecordedPolicy,
    kind: Kind,
    template: &Machine,
) -> Cluster {
    let like = &template.cluster[0];
    let cpus = idle.recorded_cpus;
    let threads = if cpus.is_multiple_of(like.threads_per_core) {
        like.threads_per_core
    } else {
        1
    };
    let (frequencies, opps_assumed) = frequencies(policy);
    let declared = policy.transition_latency.0 as f64 / 1e3;
    let hwp = policy.driver == "intel_pstate" && policy.epp.is_some();
    // Intel's hardware takes up requests alike in all of its processors.
    let intel = Machine::find("xeon-e3-1240v5").ok();
    let intel = intel.as_ref().filter(|_| kind != Kind::Amd);
    let clock = |figure: fn(&Cluster) -> &Figure| {
        let of = intel.unwrap_or(template);
        as_on(of, figure(&of.cluster[0]))
    };
    let hwp_clock = |figure| {
        if hwp {
            clock(figure)
        } else {
            Figure::default()
        }
    };
    let smt = |figure: &Figure| {
        if threads > 1 {
            as_on(template, figure)
        } else {
            Figure::default()
        }
    };
    Cluster {
        name: "package".to_owned(),
        core: system.cpu_model.clone(),
        cpus,
        threads_per_core: threads,
        smt_speedup: smt(&like.smt_speedup),
        smt_poll_loss: smt(&like.smt_poll_loss),
        // Servers have a clock per core, clients one for all.
        clock_cpus: (kind != Kind::Client).then_some(threads),
        capacity: 1024,
        transition_latency_us: if declared > 0.0 {
            Figure::plain(declared)
        } else {
            as_on(template, &like.transition_latency_us)
        },
        clock_slot_us: clock(|c| &c.clock_slot_us),
        clock_stall_us: clock(|c| &c.clock_stall_us),
        base_mhz: policy
            .base
            .map_or_else(Figure::default, |b| Figure::plain(f64::from(b.0) / 1e3)),
        turbo: Vec::new(),
        turbo_assumed: None,
        hwp_ramp_ms: hwp_clock(|c| &c.hwp_ramp_ms),
        hwp_full_at_percent: hwp_clock(|c| &c.hwp_full_at_percent),
        opps: frequencies
            .into_iter()
            .map(|f| Opp { khz: f.0, uv: 0 })
            .collect(),
        opps_assumed,
        lowest_uv: assumed(650_000.0, "no published curve"),
        highest_uv: assumed(1_100_000.0, "no published curve"),
        dynamic_power_uw_per_mhz_v2: as_on(template, &like.dynamic_power_uw_per_mhz_v2),
        static_mw: as_on(template, &like.static_mw),
        cluster_on_mw: as_on(template, &like.cluster_on_mw),
        cluster_off_mw: as_on(template, &like.cluster_off_mw),
        source: format!("recorded {}: {}", system.name, system.source),
    }
}

/// The operating points: those recorded, or else every step of the recorded range. With turbo the
/// highest frequency is not in the list.
fn frequencies(policy: &RecordedPolicy) -> (Vec<Kilohertz>, Option<String>) {
    let (mut points, why) = if policy.available.is_empty() {
        let range = (policy.min.0..=policy.max.0).step_by(STEP_KHZ);
        let why = "the recorded range in steps of 100 MHz".to_owned();
        (range.map(Kilohertz).collect(), Some(why))
    } else {
        (policy.available.clone(), None)
    };
    points.push(policy.max);
    points.sort_unstable();
    points.dedup();
    (points, why)
}

fn idle_state(
    state: &IdleState,
    system: &RecordedSystem,
    kind: Kind,
    template: &Machine,
) -> MachineIdleState {
    let declared = state.exit_latency.0 as f64 / 1e3;
    let like = most_similar(state, declared, template);
    let (true_exit_us, exit_spread) = true_exit(state, declared, kind, like);
    let as_like = |figure: &Figure| {
        if figure.is_given() {
            assumed(
                figure.value,
                format!("as {} of {}", like.name, template.name),
            )
        } else {
            figure.clone()
        }
    };
    MachineIdleState {
        name: state.name.clone(),
        scope: Scope::Cpu,
        polling: state.polling,
        mwait: like.mwait,
        disabled: state.disabled,
        exit_latency_us: Figure::plain(declared),
        target_residency_us: Figure::plain(state.target_residency.0 as f64 / 1e3),
        true_entry_us: assumed(0.0, "inside the exit time"),
        true_exit_us,
        exit_spread,
        cold_start_kcycles: as_like(&like.cold_start_kcycles),
        power_mw: as_like(&like.power_mw),
        transition_mw: as_like(&like.transition_mw),
        source: format!("recorded {}: {}", system.name, system.source),
    }
}

/// The state of another machine with the same name, or else the one that is left as fast.
fn most_similar<'a>(state: &IdleState, declared: f64, of: &'a Machine) -> &'a MachineIdleState {
    let apart = |other: &MachineIdleState| (other.exit_latency_us.value - declared).abs();
    let states = of.idle_state.iter();
    let mut candidates = states.filter(|s| s.polling == state.polling);
    let by_name = candidates.clone().find(|s| s.name == state.name);
    by_name
        .or_else(|| {
            candidates
                .clone()
                .min_by(|a, b| apart(a).total_cmp(&apart(b)))
        })
        .or_else(|| candidates.next())
        .unwrap_or(&of.idle_state[0])
}

/// What leaving a state really takes, and how much that varies.
fn true_exit(
    state: &IdleState,
    declared: f64,
    kind: Kind,
    like: &MachineIdleState,
) -> (Figure, Figure) {
    if state.polling {
        let why = "the CPU never left its clock";
        return (assumed(0.0, why), Figure::default());
    }
    if kind == Kind::Amd {
        let why = format!(
            "as measured for {} of an EPYC 7502 (arXiv 2108.00808)",
            like.name
        );
        let spread = match like.exit_spread.value {
            0.0 => Figure::default(),
            value => assumed(value, why.clone()),
        };
        return (assumed(like.true_exit_us.value, why), spread);
    }
    if declared <= C1_EXIT_US {
        let why = "about 1 us on newer servers (intel/pepc docs/misc-c1e-cpu-freq.md)";
        return (assumed(declared.min(1.0), why), Figure::default());
    }
    let why =
        "half of the declared time, as measured for C6 of Sapphire Rapids (97 to 104 of 190 us)";
    let spread = assumed(0.04, "as measured for C6 of Sapphire Rapids");
    (assumed(declared / 2.0, why), spread)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recorded;

    #[test]
    fn every_system_with_recorded_idle_states_is_a_machine() {
        for system in recorded::systems() {
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
            assert_eq!(machine.cpus(), idle.recorded_cpus);
            // What a governor is told is what was recorded.
            assert_eq!(machine.declared_idle_states().unwrap(), idle.states);
            let fastest = system.frequency.iter().map(|p| p.max).max();
            assert_eq!(Some(machine.cluster[0].max_frequency()), fastest);
        }
    }

    #[test]
    fn what_the_record_does_not_tell_says_that_it_is_assumed() {
        let machine = Machine::find("spr1").unwrap();
        let c6 = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
        assert_eq!(c6.exit_latency_us.origin, Origin::Table);
        for figure in [&c6.true_exit_us, &c6.exit_spread, &c6.power_mw] {
            assert!(matches!(figure.origin, Origin::Assumed(_)), "{figure:?}");
        }
        assert!((c6.true_exit_us.value * 2.0 - c6.exit_latency_us.value).abs() < 1e-9);
        assert!(machine.cluster[0].source.contains("spr1"));
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
        let mut policy = recorded::systems()[0].frequency[0].clone();
        policy.available.clear();
        (policy.min, policy.max) = (Kilohertz(800_000), Kilohertz(1_050_000));
        let (steps, _) = frequencies(&policy);
        assert_eq!(
            steps,
            [800_000, 900_000, 1_000_000, 1_050_000].map(Kilohertz)
        );
        policy.available = [900_000, 800_000].map(Kilohertz).to_vec();
        let turbo = [800_000, 900_000, 1_050_000].map(Kilohertz).to_vec();
        assert_eq!(frequencies(&policy), (turbo, None));
    }
}
