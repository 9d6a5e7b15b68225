//! CPU frequency policies: which operating point to run at, and how far waiting for I/O raises it.

pub mod hwp_boost;
pub mod iowait_boost;

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// The settings of schedutil.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
pub struct SchedutilSettings {
    /// How wake-ups from I/O wait raise the utilisation.
    pub boost: iowait_boost::Settings,
    /// The shortest time between two changes of frequency. `None` leaves it to the machine, as the
    /// kernel derives it from the driver's transition latency.
    pub rate_limit: Option<Nanoseconds>,
}

/// Which frequency policy to use, with its settings. A name such as `schedutil[iowait_boost=off]`
/// parses into it ([`crate::spec`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum FreqPolicy {
    /// Frequency from the scheduler's utilisation signals.
    Schedutil(SchedutilSettings),
    /// Always the highest frequency.
    Performance,
    /// Always the lowest frequency.
    Powersave,
    /// Frequency from the share of busy time, sampled.
    Ondemand,
    /// intel_pstate in active mode without hardware-managed P-states, powersave algorithm.
    IntelPstate {
        /// Whether wake-ups from I/O wait raise the busy fraction.
        iowait_boost: bool,
    },
    /// intel_pstate in active mode with hardware-managed P-states (HWP).
    IntelPstateHwp {
        /// Whether wake-ups from I/O wait raise the minimum performance (`hwp_dynamic_boost`).
        dynamic_boost: bool,
        /// Energy-performance preference: 0 is performance, 255 is power saving.
        epp: u8,
    },
}
