//! How long CPUs and drives may take to wake up: latency requests and tolerances.

use std::fmt;

use serde::Serialize;
use wakepath_units::Nanoseconds;

use crate::idle::limit::NoSuchState;

/// A latency request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CpuLatency {
    /// The longest exit latency.
    pub limit: LatencyLimit,
    /// Scope of the request.
    pub scope: LatencyScope,
}

/// The longest exit latency that a request allows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LatencyLimit {
    /// The request is lifted.
    Lifted,
    /// A fixed limit, in whole microseconds.
    Of(Nanoseconds),
    /// Exit latency of a machine's state. Without such a state, or with exit latency 0, `or` applies; without `or`, a
    /// missing state is an error, and exit latency 0 a limit of 0.
    State {
        /// The state.
        state: StateName,
        /// Alternative limit, in whole microseconds.
        or: Option<Nanoseconds>,
    },
}

/// An idle state of a machine.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum StateName {
    /// By the driver's name.
    Name(String),
    /// By kernel index: the shallowest is 0.
    Index(usize),
}

/// Scope of a latency request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum LatencyScope {
    /// The whole system, for as long as a process holds it (`/dev/cpu_dma_latency`).
    System,
    /// Each CPU by itself (`pm_qos_resume_latency_us`).
    EachCpu,
    /// Listed CPUs, ascending.
    Cpus(Vec<usize>),
}

impl LatencyLimit {
    /// The limit on a machine with these idle states, shallowest first, each with name and declared exit latency; `None`: no
    /// limit.
    ///
    /// # Errors
    /// The state does not exist, and there is no alternative.
    pub fn on<'a>(
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

/// A drive's latency tolerance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum DriveLatency {
    /// At most this, in whole microseconds; 0 switches APST off.
    Limit(Nanoseconds),
    /// Any latency.
    Any,
    /// The kernel's default for drives.
    Auto,
}

impl fmt::Display for DriveLatency {
    /// Notation in sysfs (`pm_qos_latency_tolerance_us`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(limit) => write!(f, "{}", limit.as_micros()),
            Self::Any => f.write_str("any"),
            Self::Auto => f.write_str("auto"),
        }
    }
}
