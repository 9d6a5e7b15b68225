//! What a replay is to do, on which idle states.

use wakepath_hardware::idle::IdleStatesError;
use wakepath_hardware::{IdleState, IdleStates, Machine};
use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::idle::power::IdlePower;
use wakepath_policies::psd::PsdPolicy;
use wakepath_trace::recording::{Known, Metadata};
use wakepath_units::{Nanoseconds, TickRate};

use crate::blocks::MAX_BLOCKS;
use crate::package::PackageFigures;

/// What to replay.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The idle states of each group of CPUs.
    pub states: Vec<States>,
    /// The package of all CPUs, if its power is known.
    pub package: Option<PackageFigures>,
    /// The tick rate.
    pub tick: TickRate,
    /// The governors to run, with the names to report them by.
    pub policies: Vec<(String, IdlePolicy)>,
    /// Power-sleep demotion prevention around each of them, if wanted.
    pub psd: Option<PsdPolicy>,
    /// A latency request that each of them is told beside those recorded.
    pub latency: Option<LatencyLimits>,
    /// The governor that really ran, if it is one of those known.
    pub ran: Option<Ran>,
    /// So many blocks of equal time have sums of their own: 1 to [`MAX_BLOCKS`].
    pub blocks: usize,
}

/// A latency request, as a limit for each idle driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyLimits {
    /// The longest exit latency, for each group of [`Setup::states`].
    pub limits: Vec<Nanoseconds>,
    /// The CPUs that it holds for; empty: all.
    pub cpus: Vec<usize>,
}

/// The governor that really ran.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The name to report it by.
    pub name: String,
    /// What it is.
    pub policy: IdlePolicy,
    /// Its parameters are those that it had; otherwise the defaults stand in for them.
    pub parameters_known: bool,
}

/// The idle states of some CPUs.
#[derive(Clone, Debug)]
pub struct States {
    /// The CPUs; empty: all that no other group has.
    pub cpus: Vec<u32>,
    /// As declared to the governor, shallowest first.
    pub declared: IdleStates,
    /// The time that leaving each state takes; the declared one where nothing better is known.
    pub exit: Vec<Nanoseconds>,
    /// [`States::exit`] is measured rather than declared.
    pub measured: bool,
    /// What the states draw, if known.
    pub power: Option<IdlePower>,
}

/// Why there are no idle states to replay with.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The recording has none.
    #[error(
        "the recording does not say which idle states the machine has. Name the machine (--machine \
         rk3399, `wakepath machine list` has the names) or give its states (--states FILE.csv)"
    )]
    NoStates,
    /// The machine recorded has no idle driver.
    #[error(
        "the machine that was recorded had no idle driver, as most virtual machines, so its governor had nothing to choose \
         among. Record one that has (docs/replay.md), or see what governors would do with other idle states. Give those of a \
         machine (--machine rk3399, `wakepath machine list` has the names) or of your own (--states FILE.csv)"
    )]
    NoDriver,
    /// So many blocks are not possible.
    #[error("{0} blocks of time; there can be 1 to {MAX_BLOCKS}")]
    Blocks(usize),
    /// Those of the recording are not possible.
    #[error("the idle states of the recording: {0}")]
    Impossible(#[from] IdleStatesError),
}

impl States {
    /// States that are known as they are declared only.
    pub fn declared(cpus: Vec<u32>, declared: IdleStates) -> Self {
        Self {
            cpus,
            exit: declared.iter().map(|s| s.exit_latency).collect(),
            measured: false,
            declared,
            power: None,
        }
    }

    /// The states that a recording has. Drives need none: a recording without idle events gets one to stand in.
    pub fn of_recording(metadata: &Metadata) -> Result<Vec<Self>, SetupError> {
        let recorded = &metadata.recorded;
        let only_drives = recorded.idle == Known::Missing && recorded.block != Known::Missing;
        if metadata.idle_states.is_empty() && only_drives {
            let never_entered = IdleStates::new(vec![IdleState {
                name: "none".to_owned(),
                exit_latency: Nanoseconds::ZERO,
                target_residency: Nanoseconds::ZERO,
                polling: true,
                disabled: false,
            }])?;
            return Ok(vec![Self::declared(Vec::new(), never_entered)]);
        }
        if metadata.idle_states.is_empty() {
            // The governor's name comes from where the driver's does, on the machine itself.
            let looked = metadata.idle_governor.is_some();
            return Err(if looked && metadata.idle_driver.is_none() {
                SetupError::NoDriver
            } else {
                SetupError::NoStates
            });
        }
        let groups = metadata.idle_states.iter().map(|group| {
            let declared = IdleStates::new(group.states.clone())?;
            Ok(Self::declared(group.cpus.clone(), declared))
        });
        groups.collect()
    }

    /// The states of a machine model, with what is known of their true latencies and power. A polling
    /// CPU's power is that at the highest frequency.
    pub fn of_machine(machine: &Machine) -> Result<Vec<Self>, SetupError> {
        let mut first = 0_u32;
        let groups = machine.cluster.iter().map(|cluster| {
            let cpus = (first..first + cluster.cpus as u32).collect();
            first += cluster.cpus as u32;
            let states = machine.idle_states_of(cluster);
            let measured = states.iter().all(|s| s.true_exit_us.is_given());
            let exit = states.iter().map(|s| {
                if measured {
                    s.true_exit_us.micros()
                } else {
                    s.exit_latency_us.micros()
                }
            });
            let exit: Vec<Nanoseconds> = exit.collect();
            let power = cluster.opps.last().and_then(|opp| {
                let known = cluster.active_power(opp).0 > 0;
                known.then(|| IdlePower::of_cluster(cluster, opp, &states, &exit))
            });
            Ok(Self {
                cpus,
                declared: machine.declared_idle_states_of(cluster)?,
                exit,
                measured,
                power,
            })
        });
        groups.collect()
    }
}

impl Setup {
    /// The group of states that a CPU has; the last one if none names it.
    pub fn group_of(&self, cpu: u32) -> usize {
        self.states
            .iter()
            .position(|group| group.cpus.is_empty() || group.cpus.contains(&cpu))
            .unwrap_or(self.states.len().saturating_sub(1))
    }

    /// The longest exit latency that governors of a CPU are told, in ns, if its own requests allow more.
    pub(crate) fn latency_limit(&self, cpu: u32) -> i64 {
        let holds = |of: &&LatencyLimits| of.cpus.is_empty() || of.cpus.contains(&(cpu as usize));
        let limits = self.latency.as_ref().filter(holds);
        limits
            .and_then(|of| of.limits.get(self.group_of(cpu)))
            .and_then(|limit| i64::try_from(limit.0).ok())
            .unwrap_or(NO_LATENCY_REQUEST)
    }
}
