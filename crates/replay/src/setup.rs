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

/// The setup of a replay.
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
    /// Power-sleep demotion prevention around each governor, if wanted.
    pub psd: Option<PsdPolicy>,
    /// A latency request to each governor, in addition to recorded requests.
    pub latency: Option<LatencyLimits>,
    /// The governor that ran during the recording, if known.
    pub recorded_governor: Option<RecordedGovernor>,
    /// Number of blocks of equal time with separate sums: 1 to [`MAX_BLOCKS`].
    pub blocks: usize,
}

/// A latency request, as a limit for each idle driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LatencyLimits {
    /// The longest exit latency, for each group of [`Setup::states`].
    pub limits: Vec<Nanoseconds>,
    /// The CPUs under the request; empty: all.
    pub cpus: Vec<usize>,
}

/// The governor that ran during the recording.
#[derive(Clone, Debug)]
pub struct RecordedGovernor {
    /// Name in the report.
    pub name: String,
    /// Governor and parameters.
    pub policy: IdlePolicy,
    /// The parameters are as recorded, rather than defaults.
    pub parameters_known: bool,
}

/// The idle states of some CPUs.
#[derive(Clone, Debug)]
pub struct States {
    /// The CPUs; empty: all CPUs in no other group.
    pub cpus: Vec<u32>,
    /// As declared to the governor, shallowest first.
    pub declared: IdleStates,
    /// True exit latency of each state; the declared latency where nothing better is known.
    pub exit: Vec<Nanoseconds>,
    /// [`States::exit`] is measured rather than declared.
    pub measured: bool,
    /// Power in the states, if known.
    pub power: Option<IdlePower>,
}

/// Why there are no idle states to replay with.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// The recording has no idle states.
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
    /// Impossible number of blocks.
    #[error("{0} blocks of time; there can be 1 to {MAX_BLOCKS}")]
    Blocks(usize),
    /// Impossible idle states in the recording.
    #[error("the idle states of the recording: {0}")]
    Impossible(#[from] IdleStatesError),
}

impl States {
    /// States known only as declared.
    pub fn declared(cpus: Vec<u32>, declared: IdleStates) -> Self {
        Self {
            cpus,
            exit: declared.iter().map(|s| s.exit_latency).collect(),
            measured: false,
            declared,
            power: None,
        }
    }

    /// The states in a recording. A recording with block events alone gets a single stand-in state.
    pub fn of_recording(metadata: &Metadata) -> Result<Vec<Self>, SetupError> {
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
            return Ok(vec![Self::declared(Vec::new(), never_entered)]);
        }
        if metadata.idle_states.is_empty() {
            // Names of governor and driver are read together, so a governor without a driver means that there is none.
            let names_were_read = metadata.idle_governor.is_some();
            return Err(if names_were_read && metadata.idle_driver.is_none() {
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

    /// The states of a machine model, with true latencies and power where known. A polling CPU's power is taken at the
    /// highest frequency.
    pub fn of_machine(machine: &Machine) -> Result<Vec<Self>, SetupError> {
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
    /// Index of a CPU's group of states; the last group if none names the CPU.
    pub fn group_of(&self, cpu: u32) -> usize {
        self.states
            .iter()
            .position(|group| group.cpus.is_empty() || group.cpus.contains(&cpu))
            .unwrap_or(self.states.len().saturating_sub(1))
    }

    /// Limit of the exit latency on a CPU in ns, in addition to recorded requests.
    pub(crate) fn latency_limit(&self, cpu: u32) -> i64 {
        let request = self.latency.as_ref();
        request
            .filter(|request| request.cpus.is_empty() || request.cpus.contains(&(cpu as usize)))
            .and_then(|request| request.limits.get(self.group_of(cpu)))
            .and_then(|limit| i64::try_from(limit.0).ok())
            .unwrap_or(NO_LATENCY_REQUEST)
    }

    /// A copy of the governor that ran during the recording, without history.
    pub(crate) fn shadow_governor(&self, states: &States) -> Option<Governor> {
        let recorded = self.recorded_governor.as_ref()?;
        Some(Governor::in_kernel(
            &recorded.policy,
            &states.declared,
            self.tick,
        ))
    }
}
