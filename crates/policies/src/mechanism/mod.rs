//! Every mechanism for policy sets, one file each: name, kernel versions, typed keys, kernel source, rule, and
//! resulting policy.
//!
//! Parsing, error messages, help, completions and the tables of the documentation are made from this.
//! To add one, write its file and name it in [`MECHANISMS`]; a test fails when a file is not named.

pub mod key;

pub mod amd_pstate;
mod apst;
mod c;
mod c1_demotion;
mod cpu_latency;
mod deepest;
mod drive_latency;
mod epp;
mod exec;
mod frequency;
mod haltpoll;
mod hwp_boost;
mod idle_states;
mod intel_pstate;
mod intel_pstate_hwp;
mod io_uring;
mod kernel_config;
mod ladder;
mod menu;
mod ondemand;
mod oracle;
mod performance;
mod poll;
mod powersave;
mod psd;
mod schedutil;
mod shallowest;
mod teo;
mod wakeup_latency;

pub use cpu_latency::{CpuLatency, LatencyLimit, LatencyScope, StateName};
pub use drive_latency::DriveLatency;
pub use epp::{Epp, busy_under_performance};
pub use frequency::FrequencyLimits;
pub use idle_states::{IdleStatesLimit, NoSuchState, StateLimit, state_index};
pub use kernel_config::KernelConfig;

use std::fmt;

use wakepath_units::Nanoseconds;

use self::key::{AnyKey, Fallback, Key};
use crate::apst::ApstSettings;
use crate::freq::FreqPolicy;
use crate::idle::program::{Program, ProgramForm};
use crate::idle::{IdlePolicy, KernelVersion};
use crate::poll::PollPolicy;
use crate::psd::PsdSettings;
use crate::spec::SpecError;

/// All mechanisms, in listing order.
pub static MECHANISMS: &[&Mechanism] = &[
    &menu::MECHANISM,
    &teo::MECHANISM,
    &ladder::MECHANISM,
    &haltpoll::MECHANISM,
    &shallowest::MECHANISM,
    &deepest::MECHANISM,
    &oracle::MECHANISM,
    &c::MECHANISM,
    &exec::MECHANISM,
    &idle_states::MECHANISM,
    &cpu_latency::MECHANISM,
    &wakeup_latency::MECHANISM,
    &c1_demotion::MECHANISM,
    &poll::MECHANISM,
    &psd::MECHANISM,
    &schedutil::MECHANISM,
    &performance::MECHANISM,
    &powersave::MECHANISM,
    &ondemand::MECHANISM,
    &intel_pstate::MECHANISM,
    &intel_pstate_hwp::MECHANISM,
    &amd_pstate::MECHANISM,
    &frequency::MECHANISM,
    &epp::MECHANISM,
    &hwp_boost::MECHANISM,
    &apst::MECHANISM,
    &drive_latency::MECHANISM,
    &io_uring::MECHANISM,
    &kernel_config::MECHANISM,
];

/// A mechanism.
pub struct Mechanism {
    /// Name without version and keys.
    pub name: &'static str,
    /// Kind of decision. A set has at most one mechanism per kind.
    pub kind: Kind,
    /// Kernel versions differ, and the name takes a version. A bare name means [`crate::spec::version::BARE`].
    pub versioned: bool,
    /// The rule, on one line.
    pub summary: &'static str,
    /// Kernel source, or another origin of the rule.
    pub source: &'static str,
    /// Places where the mechanism acts.
    pub on: &'static [Place],
    /// Keys.
    pub keys: &'static [&'static dyn AnyKey],
    /// Keys that set the same as another kind of mechanism: both in a set contradict each other.
    pub overlaps: &'static [(&'static str, Kind)],
    /// Builds the policy.
    pub(crate) build: fn(&GivenPolicy<'_>) -> Result<Policy, SpecError>,
}

/// Where a mechanism can act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// On a simulated machine.
    Sim,
    /// On a recording.
    Replay,
    /// On a real machine.
    Machine,
}

impl Place {
    /// Command with this place.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sim => "sim",
            Self::Replay => "replay",
            Self::Machine => "apply",
        }
    }
}

/// Kind of decision by a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A CPU's idle state.
    Idle,
    /// A CPU's frequency.
    Frequency,
    /// Available idle states.
    IdleStates,
    /// The longest exit latency that the governor may accept.
    CpuLatency,
    /// The longest exit latency during suspend-to-idle.
    WakeupLatency,
    /// Whether the firmware keeps CPUs out of deep idle states.
    C1Demotion,
    /// How long the polling idle state polls.
    Poll,
    /// How deeply a CPU may sleep after I/O.
    Psd,
    /// Frequency range.
    FrequencyLimits,
    /// What the hardware prefers: performance or energy.
    Epp,
    /// Whether wake-ups from I/O wait raise the hardware's minimum performance.
    HwpBoost,
    /// When a drive goes to sleep by itself.
    Apst,
    /// The exit latency that a drive's power states may have.
    DriveLatency,
    /// Whether waiting with `io_uring` counts as waiting for I/O.
    IoUring,
    /// How the kernel was configured.
    KernelConfig,
}

impl Kind {
    /// Name for users.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::IdleStates => "idle state",
            Self::CpuLatency => "CPU latency",
            Self::WakeupLatency => "wake-up latency",
            Self::C1Demotion => "C1 demotion",
            Self::Poll => "polling",
            Self::Psd => "PSD",
            Self::Frequency => "frequency",
            Self::FrequencyLimits => "frequency limit",
            Self::Epp => "EPP",
            Self::HwpBoost => "HWP boost",
            Self::Apst => "APST",
            Self::DriveLatency => "drive latency",
            Self::IoUring => "io_uring",
            Self::KernelConfig => "kernel configuration",
        }
    }
}

/// A mechanism's keys in typed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Idle governor.
    Idle(IdlePolicy),
    /// Available idle states.
    IdleStates(IdleStatesLimit),
    /// The longest exit latency.
    CpuLatency(CpuLatency),
    /// The longest exit latency during suspend-to-idle; `None`: no limit.
    WakeupLatency(Option<Nanoseconds>),
    /// The firmware may demote deep idle states to C1.
    C1Demotion(bool),
    /// How long to poll.
    Poll(PollPolicy),
    /// How deeply after I/O.
    Psd(PsdSettings),
    /// Frequency governor.
    Frequency(FreqPolicy),
    /// Frequency range.
    FrequencyLimits(FrequencyLimits),
    /// Energy-performance preference.
    Epp(Epp),
    /// HWP dynamic boost is on.
    HwpBoost(bool),
    /// When a drive sleeps.
    Apst(ApstSettings),
    /// A drive's latency tolerance.
    DriveLatency(DriveLatency),
    /// Waiting with `io_uring` counts as waiting for I/O.
    IoUring(bool),
    /// How the kernel was configured.
    KernelConfig(KernelConfig),
}

impl Policy {
    /// Kind of decision.
    pub const fn kind(&self) -> Kind {
        match self {
            Self::Idle(_) => Kind::Idle,
            Self::IdleStates(_) => Kind::IdleStates,
            Self::CpuLatency(_) => Kind::CpuLatency,
            Self::WakeupLatency(_) => Kind::WakeupLatency,
            Self::C1Demotion(_) => Kind::C1Demotion,
            Self::Poll(_) => Kind::Poll,
            Self::Psd(_) => Kind::Psd,
            Self::Frequency(_) => Kind::Frequency,
            Self::FrequencyLimits(_) => Kind::FrequencyLimits,
            Self::Epp(_) => Kind::Epp,
            Self::HwpBoost(_) => Kind::HwpBoost,
            Self::Apst(_) => Kind::Apst,
            Self::DriveLatency(_) => Kind::DriveLatency,
            Self::IoUring(_) => Kind::IoUring,
            Self::KernelConfig(_) => Kind::KernelConfig,
        }
    }
}

/// A key with its value, as given.
pub(crate) type GivenKey = (&'static dyn AnyKey, String);

/// A mechanism's version and keys, as given.
pub(crate) struct GivenPolicy<'a> {
    pub(crate) mechanism: &'static Mechanism,
    pub(crate) version: Option<KernelVersion>,
    pub(crate) keys: &'a [GivenKey],
    /// The user's own governor, if named.
    pub(crate) program: Option<&'a Program>,
}

impl GivenPolicy<'_> {
    /// The version; without one, the version of a bare name.
    pub(crate) fn version(&self) -> KernelVersion {
        self.version.unwrap_or(crate::spec::version::BARE)
    }

    /// The value that was given, if any.
    pub(crate) fn given<T: Clone + Sync>(&self, key: &Key<T>) -> Result<Option<T>, SpecError> {
        let text = self
            .keys
            .iter()
            .find(|(given, _)| given.info().name == key.info.name);
        text.map(|(_, text)| self.value(key, text)).transpose()
    }

    /// The value that was given, or the default.
    pub(crate) fn get<T: Clone + Sync>(&self, key: &Key<T>) -> Result<T, SpecError> {
        if let Some(value) = self.given(key)? {
            return Ok(value);
        }
        match key.info.fallback {
            Fallback::Value(text) => self.value(key, text),
            Fallback::Derived(_) | Fallback::Required => Err(SpecError::MissingKey {
                name: self.mechanism.name,
                key: key.info.name,
                example: key.info.example,
            }),
        }
    }

    /// The keys contradict each other, or say nothing.
    pub(crate) fn error(&self, problem: impl Into<String>) -> SpecError {
        SpecError::Keys {
            name: self.mechanism.name,
            problem: problem.into(),
        }
    }

    fn value<T: Clone + Sync>(&self, key: &Key<T>, text: &str) -> Result<T, SpecError> {
        key.parse(text).ok_or_else(|| SpecError::BadValue {
            name: self.mechanism.name,
            key: key.info.name,
            value: text.to_owned(),
            allowed: key.describe(),
        })
    }
}

impl Mechanism {
    /// Finds a key by name.
    pub fn key(&self, name: &str) -> Option<&'static dyn AnyKey> {
        self.keys.iter().copied().find(|k| k.info().name == name)
    }

    /// The name with a placeholder for required text: `menu`, `c:FILE`.
    pub fn label(&self) -> &'static str {
        ProgramForm::named(self.name).map_or(self.name, ProgramForm::label)
    }

    /// An example with every key that has to be given.
    pub fn example(&self) -> String {
        if let Some(form) = ProgramForm::named(self.name) {
            return form.example().to_owned();
        }
        let required = self.keys.iter().map(|key| key.info());
        let required: Vec<String> = required
            .filter(|key| key.fallback == Fallback::Required)
            .map(|key| format!("{}={}", key.name, key.example))
            .collect();
        let first = self.keys.first().map(|key| key.info());
        match (&required[..], first) {
            ([], Some(key)) => format!("{}[{}={}]", self.name, key.name, key.example),
            ([], None) => self.name.to_owned(),
            (keys, _) => format!("{}[{}]", self.name, keys.join(",")),
        }
    }
}

impl PartialEq for Mechanism {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Mechanism {}

impl fmt::Debug for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Finds a mechanism by name.
pub fn find(name: &str) -> Option<&'static Mechanism> {
    MECHANISMS.iter().copied().find(|m| m.name == name)
}

/// Builds a policy that names a file.
fn program_of(given: &GivenPolicy<'_>) -> Result<Policy, SpecError> {
    let program = given.program.ok_or_else(|| {
        let example = ProgramForm::named(given.mechanism.name).map_or("", ProgramForm::example);
        given.error(format!("a file has to follow, as in {example}"))
    })?;
    Ok(Policy::Idle(IdlePolicy::Program(program.clone())))
}

/// Places of mechanisms that act everywhere.
const EVERYWHERE: &[Place] = &[Place::Sim, Place::Replay, Place::Machine];
/// Places of mechanisms that need a reacting machine.
const SIM_AND_MACHINE: &[Place] = &[Place::Sim, Place::Machine];

#[cfg(test)]
mod tests;
