//! The setup of a replay: idle states, and governors to run.

use wakepath_hardware::idle::IdleStatesError;
use wakepath_hardware::{IdleState, IdleStates, Machine};
use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
use wakepath_policies::idle::power::IdlePower;
use wakepath_policies::idle::{Governor, IdlePolicy};
use wakepath_policies::psd::PsdPolicy;
use wakepath_trace::recording::{DataQuality, Metadata};
use wakepath_units::{Nanoseconds, TickRate};

use crate::blocks::MAX_BLOCKS;
use crate::package::PackageFigures;

/// Setup of a replay: machine facts and governors to run.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Idle states of each group of CPUs.
    pub states: Vec<States>,
    /// Power and sleep figures of the CPU package, if known.
    pub package: Option<PackageFigures>,
    /// The tick rate.
    pub tick: TickRate,
    /// Idle policies to replay, with the names to report them by.
    pub policies: Vec<(String, IdlePolicy)>,
    /// Power-sleep demotion prevention around each governor, if wanted.
    pub psd: Option<PsdPolicy>,
    /// Latency request to each governor, in addition to recorded requests.
    pub latency: Option<LatencyLimits>,
    /// The governor that ran during the recording, if known.
    pub recorded_governor: Option<RecordedGovernor>,
    /// Number of blocks of equal time with separate sums: 1 to [`MAX_BLOCKS`].
    pub blocks: usize,
}

/// A latency request in a replay, as a limit for each group of CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyLimits {
    /// Longest exit latency, for each group of [`Setup::states`].
    pub limits: Vec<Nanoseconds>,
    /// CPUs under the latency request; empty: all.
    pub cpus: Vec<usize>,
}

/// The governor that ran during the recording.
#[derive(Clone, Debug)]
pub struct RecordedGovernor {
    /// Name of the recorded governor in the report.
    pub name: String,
    /// Governor and parameters.
    pub policy: IdlePolicy,
    /// Whether the parameters are as recorded, rather than defaults.
    pub parameters_known: bool,
}

/// Idle states of a group of CPUs in a replay.
#[derive(Clone, Debug)]
pub struct States {
    /// Numbers of the CPUs; empty: all CPUs in no other group.
    pub cpus: Vec<u32>,
    /// Idle states as declared to the governor, shallowest first.
    pub declared: IdleStates,
    /// True exit latency of each state; the declared latency where nothing better is known.
    pub exit: Vec<Nanoseconds>,
    /// Whether [`States::exit`] is measured rather than declared.
    pub measured: bool,
    /// Power in the idle states, if known.
    pub power: Option<IdlePower>,
}

/// Why there are no idle states to replay with.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The recording names no idle states.
    #[error(
        "the recording does not say which idle states the machine has. Name the machine (--machine \
         rk3399, `wakepath machine list` has the names) or give its states (--states FILE.csv)"
    )]
    NoStates,
    /// The recorded machine has no idle driver.
    #[error(
        "the machine that was recorded had no idle driver, as most virtual machines, so its governor had nothing to choose \
         among. Record one that has (docs/guides/replay.md), or see what governors would do with other idle states. Give those of a \
         machine (--machine rk3399, `wakepath machine list` has the names) or of your own (--states FILE.csv)"
    )]
    NoDriver,
    /// The number of blocks of time is 0 or too large.
    #[error("{0} blocks of time; there can be 1 to {MAX_BLOCKS}")]
    Blocks(usize),
    /// The recording has impossible idle states.
    #[error("the idle states of the recording: {0}")]
    Impossible(#[from] IdleStatesError),
}

impl States {
    /// Idle states of which only the declared latencies are known.
    pub fn from_declared(cpus: Vec<u32>, declared: IdleStates) -> Self {
        Self {
            cpus,
            exit: declared.iter().map(|s| s.exit_latency).collect(),
            measured: false,
            declared,
            power: None,
        }
    }

    /// Reads the idle states from a recording. A recording with block events alone gets a single
    /// stand-in state.
    pub fn from_recording(metadata: &Metadata) -> Result<Vec<Self>, SetupError> {
        let recorded = &metadata.recorded;
        let only_drives =
            recorded.idle == DataQuality::Missing && recorded.block != DataQuality::Missing;
        if metadata.idle_states.is_empty() && only_drives {
            let never_entered = IdleStates::new(vec![IdleState {
                name: "none".to_owned(),
                exit_latency: Nanoseconds::ZERO,
                target_residency: Nanoseconds::ZERO,
                polling: true,
                disabled: false,
            }])?;
            return Ok(vec![Self::from_declared(Vec::new(), never_entered)]);
        }
        if metadata.idle_states.is_empty() {
            // Recordings have the names of governor and driver together, so a governor without a
            // driver means that there is none.
            let names_were_read = metadata.idle_governor.is_some();
            return Err(if names_were_read && metadata.idle_driver.is_none() {
                SetupError::NoDriver
            } else {
                SetupError::NoStates
            });
        }
        let groups = metadata.idle_states.iter().map(|group| {
            let declared = IdleStates::new(group.states.clone())?;
            Ok(Self::from_declared(group.cpus.clone(), declared))
        });
        groups.collect()
    }

    /// Takes the idle states from a machine model, with true latencies and power where known. A
    /// polling CPU's power is taken at the highest frequency.
    pub fn from_machine(machine: &Machine) -> Result<Vec<Self>, SetupError> {
        let mut first = 0_u32;
        let groups = machine.cluster.iter().map(|cluster| {
            let cpus = (first..first + cluster.cpus as u32).collect();
            first += cluster.cpus as u32;
            let states = machine.idle_states_of(cluster);
            let measured = states.iter().all(|s| s.true_exit_us.is_given());
            let exit = states.iter().map(|s| {
                if measured {
                    s.true_exit_us.micros_to_time()
                } else {
                    s.exit_latency_us.micros_to_time()
                }
            });
            let exit: Vec<Nanoseconds> = exit.collect();
            let power = cluster.opps.last().and_then(|opp| {
                let known = cluster.active_power(opp).0 > 0;
                known.then(|| IdlePower::for_cluster(cluster, opp, &states, &exit))
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
    /// Index of the group of idle states that a CPU has; the last group if none names the CPU.
    pub fn group_index_of_cpu(&self, cpu: u32) -> usize {
        self.states
            .iter()
            .position(|group| group.cpus.is_empty() || group.cpus.contains(&cpu))
            .unwrap_or(self.states.len().saturating_sub(1))
    }

    /// Longest exit latency allowed on a CPU in ns, in addition to recorded requests.
    pub(crate) fn latency_limit_of_cpu(&self, cpu: u32) -> i64 {
        let request = self.latency.as_ref();
        request
            .filter(|request| request.cpus.is_empty() || request.cpus.contains(&(cpu as usize)))
            .and_then(|request| request.limits.get(self.group_index_of_cpu(cpu)))
            .and_then(|limit| i64::try_from(limit.0).ok())
            .unwrap_or(NO_LATENCY_REQUEST)
    }

    /// Makes the governor that ran during the recording, without history; `None` if unknown.
    pub(crate) fn make_shadow_governor(&self, states: &States) -> Option<Governor> {
        let recorded = self.recorded_governor.as_ref()?;
        Some(Governor::new_or_only_state(
            &recorded.policy,
            &states.declared,
            self.tick,
        ))
    }
}
