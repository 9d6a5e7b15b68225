//! What a mechanism decides: its kind, and its keys in typed form.

use wakepath_units::Nanoseconds;

use crate::apst::ApstSettings;
use crate::freq::FreqPolicy;
use crate::freq::epp::Epp;
use crate::freq::limits::FrequencyLimits;
use crate::idle::IdlePolicy;
use crate::idle::limit::IdleStatesLimit;
use crate::kernel_config::KernelConfig;
use crate::latency::{CpuLatency, DriveLatency};
use crate::poll::PollPolicy;
use crate::psd::PsdSettings;

/// What a mechanism decides; a policy set has at most one mechanism of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Decision on the idle state that a CPU enters.
    Idle,
    /// A CPU's frequency.
    Frequency,
    /// Available idle states.
    IdleStates,
    /// Decision on the longest exit latency that the idle governor may accept.
    CpuLatency,
    /// Decision on the longest exit latency during suspend-to-idle.
    WakeupLatency,
    /// Decision whether the firmware keeps CPUs out of deep idle states.
    C1Demotion,
    /// Decision on how long the polling idle state polls.
    Poll,
    /// Decision on how deeply a CPU may sleep after I/O.
    Psd,
    /// Frequency range.
    FrequencyLimits,
    /// Decision whether clocks above the base clock may be used.
    Turbo,
    /// Decision on what the hardware prefers: performance or energy.
    Epp,
    /// Decision whether wake-ups from I/O wait raise the hardware's minimum performance.
    HwpBoost,
    /// Decision on when a drive goes to sleep by itself.
    Apst,
    /// Decision on the exit latency that a drive's power states may have.
    DriveLatency,
    /// Decision on how eagerly PCIe links sleep.
    Aspm,
    /// Decision on how far the kernel reads ahead.
    ReadAhead,
    /// Decision on which CPU completes requests.
    RqAffinity,
    /// Decision on which CPUs drives interrupt.
    IrqAffinity,
    /// Decision whether waiting with `io_uring` counts as waiting for I/O.
    IoUring,
    /// Decision on how the kernel was configured.
    KernelConfig,
}

impl Kind {
    /// Name for users.
    pub const fn name_for_users(self) -> &'static str {
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
            Self::Turbo => "turbo",
            Self::Epp => "EPP",
            Self::HwpBoost => "HWP boost",
            Self::Apst => "APST",
            Self::DriveLatency => "drive latency",
            Self::Aspm => "ASPM",
            Self::ReadAhead => "read-ahead",
            Self::RqAffinity => "rq_affinity",
            Self::IrqAffinity => "interrupt affinity",
            Self::IoUring => "io_uring",
            Self::KernelConfig => "kernel configuration",
        }
    }
}

/// A mechanism with its keys in typed form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Idle governor.
    Idle(IdlePolicy),
    /// Available idle states.
    IdleStates(IdleStatesLimit),
    /// Latency request: the longest exit latency that the idle governor may accept.
    CpuLatency(CpuLatency),
    /// Longest exit latency during suspend-to-idle; `None`: no limit.
    WakeupLatency(Option<Nanoseconds>),
    /// Whether the firmware may demote deep idle states to C1.
    C1Demotion(bool),
    /// How long the polling idle state polls.
    Poll(PollPolicy),
    /// Leases after I/O: how deeply a CPU may sleep for a while.
    Psd(PsdSettings),
    /// Frequency governor.
    Frequency(FreqPolicy),
    /// Frequency range.
    FrequencyLimits(FrequencyLimits),
    /// Whether clocks above the base clock may be used.
    Turbo(bool),
    /// Energy-performance preference.
    Epp(Epp),
    /// Whether HWP dynamic boost is on.
    HwpBoost(bool),
    /// When a drive goes to sleep by itself.
    Apst(ApstSettings),
    /// Latency tolerance of a drive.
    DriveLatency(DriveLatency),
    /// How eagerly PCIe links sleep, in the kernel's words.
    Aspm(&'static str),
    /// Window of sequential buffered readers in KiB.
    ReadAhead(u64),
    /// Which CPU completes requests, as `queue/rq_affinity` has it.
    RqAffinity(u64),
    /// CPUs that interrupts of drives may go to.
    IrqAffinity(Vec<usize>),
    /// Whether waiting with `io_uring` counts as waiting for I/O.
    IoUring(bool),
    /// Changes of the kernel's configuration.
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
            Self::Turbo(_) => Kind::Turbo,
            Self::Epp(_) => Kind::Epp,
            Self::HwpBoost(_) => Kind::HwpBoost,
            Self::Apst(_) => Kind::Apst,
            Self::DriveLatency(_) => Kind::DriveLatency,
            Self::Aspm(_) => Kind::Aspm,
            Self::ReadAhead(_) => Kind::ReadAhead,
            Self::RqAffinity(_) => Kind::RqAffinity,
            Self::IrqAffinity(_) => Kind::IrqAffinity,
            Self::IoUring(_) => Kind::IoUring,
            Self::KernelConfig(_) => Kind::KernelConfig,
        }
    }
}
