//! How long CPUs and drives may take to wake up: latency requests and tolerances.

use std::fmt;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::idle::limit::NoSuchState;

/// A latency request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CpuLatency {
    /// The longest exit latency that the request allows.
    pub limit: LatencyLimit,
    /// CPUs that the latency request holds for.
    pub scope: LatencyScope,
}

/// The longest exit latency that a request allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LatencyLimit {
    /// The request is lifted: any exit latency is allowed.
    Lifted,
    /// A fixed limit on the exit latency, in whole microseconds.
    Of(Nanoseconds),
    /// The exit latency of a machine's idle state is the limit. Without such a state, or with exit
    /// latency 0, `or` applies; without `or`, a missing state is an error, and exit latency 0 a
    /// limit of 0.
    State {
        /// The state.
        state: StateName,
        /// Limit in whole microseconds for a machine without the state, or with exit latency 0.
        or: Option<Nanoseconds>,
    },
}

/// How a latency limit names a machine's idle state.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum StateName {
    /// Idle state by the driver's name, such as `C1E`.
    Name(String),
    /// Idle state by kernel index: the shallowest is 0.
    Index(usize),
}

/// Scope of a latency request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LatencyScope {
    /// Latency request for the whole system, for as long as a process holds it
    /// (`/dev/cpu_dma_latency`).
    System,
    /// Latency request at each CPU by itself (`pm_qos_resume_latency_us`).
    EachCpu,
    /// Listed CPUs, ascending.
    Cpus(Vec<usize>),
}

impl LatencyLimit {
    /// Exit latency limit in ns on a machine with these idle states, shallowest first, each with
    /// name and declared exit latency; `None`: no limit.
    ///
    /// # Errors
    ///
    /// The idle state does not exist on the machine, and the limit has no alternative.
    pub fn resolve_for_states<'a>(
        &self,
        states: impl Iterator<Item = (&'a str, Nanoseconds)> + Clone,
    ) -> Result<Option<Nanoseconds>, NoSuchState> {
        let (state, or) = match self {
            Self::Lifted => return Ok(None),
            Self::Of(limit) => return Ok(Some(*limit)),
            Self::State { state, or } => (state, or),
        };
        let mut all = states.clone();
        let found = match state {
            StateName::Name(name) => all.find(|(known, _)| known.eq_ignore_ascii_case(name)),
            StateName::Index(index) => all.nth(*index),
        };
        match (found, or) {
            (Some((_, latency)), None) => Ok(Some(latency)),
            (Some((_, latency)), Some(_)) if latency > Nanoseconds::ZERO => Ok(Some(latency)),
            (_, Some(or)) => Ok(Some(*or)),
            (None, None) => Err(NoSuchState {
                name: match state {
                    StateName::Name(name) => name.clone(),
                    StateName::Index(index) => index.to_string(),
                },
                known: states.map(|(known, _)| known.to_owned()).collect(),
            }),
        }
    }
}

/// How long a drive may take to leave a power state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum DriveLatency {
    /// Drive latency of at most this, in whole microseconds; 0 switches APST off.
    Limit(Nanoseconds),
    /// Any latency.
    Any,
    /// No request, which the kernel's NVMe driver takes as any latency.
    Auto,
}

impl fmt::Display for DriveLatency {
    /// Writes the drive's tolerance as sysfs shows it (`pm_qos_latency_tolerance_us`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "{}", limit.as_micros()),
            Self::Any => f.write_str("any"),
            Self::Auto => f.write_str("auto"),
        }
    }
}
