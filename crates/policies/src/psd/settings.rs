//! Settings of PSD, as given and as resolved for a machine.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

use super::ceiling::{Ceiling, LeaseCeiling};
use crate::idle::limit::NoSuchState;

/// Trigger of a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// A completion on the CPU, as in the patch.
    #[default]
    Completion,
    /// A request issued by the CPU.
    Issue,
    /// Either.
    Both,
}

impl Grant {
    /// A completion gives a lease.
    pub fn on_completion(self) -> bool {
        self != Self::Issue
    }

    /// An issued request gives a lease.
    pub fn on_issue(self) -> bool {
        self != Self::Completion
    }
}

/// Implementation whose lease rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseRule {
    /// Proposed kernel patch: leases last whole ticks.
    #[default]
    Patch,
    /// wakepath's kernel module.
    Module,
    /// `wakepath daemon`.
    Daemon,
}

impl LeaseRule {
    /// Default settings under this rule.
    pub const fn settings(self) -> PsdSettings {
        PsdSettings {
            timeout_ms: 3,
            ceiling: self.ceiling(),
            grant: Grant::Completion,
            start_after: self.start_after(),
            rule: self,
        }
    }

    /// How deeply a CPU with a lease may sleep, where nothing else is said.
    pub const fn ceiling(self) -> LeaseCeiling {
        match self {
            Self::Patch => LeaseCeiling::Of(Ceiling::Shallowest),
            // `ceiling_us` in module/wakepath_psd.c.
            Self::Module => LeaseCeiling::Of(Ceiling::Latency(Nanoseconds(20_000))),
            Self::Daemon => LeaseCeiling::Auto,
        }
    }

    /// The I/O of a burst that gives the first lease, where nothing else is said.
    pub const fn start_after(self) -> u32 {
        match self {
            Self::Patch | Self::Module => 1,
            Self::Daemon => 2,
        }
    }
}

/// PSD settings, parsed from text such as `psd[timeout=3ms,ceiling=C1E]` ([`crate::spec`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PsdSettings {
    /// How long a lease lasts, in ms; 0 switches PSD off.
    pub timeout_ms: u32,
    /// How deeply a CPU with a lease may sleep.
    pub ceiling: LeaseCeiling,
    /// Trigger of a lease.
    pub grant: Grant,
    /// Number of the I/O within a burst that grants the first lease, 1 to 1000.
    pub start_after: u32,
    /// Lease rule.
    pub rule: LeaseRule,
}

/// Why the leases of a set cannot be simulated or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PsdError {
    /// The ceiling names no state of the machine.
    #[error("ceiling: {0}")]
    Ceiling(#[from] NoSuchState),
}

impl PsdSettings {
    /// The leases on a machine with these idle states.
    ///
    /// # Errors
    /// The ceiling names an unknown state.
    pub fn on(&self, states: &IdleStates) -> Result<PsdPolicy, PsdError> {
        Ok(PsdPolicy {
            timeout_ms: self.timeout_ms,
            ceiling: self.ceiling.on(states)?,
            grant: self.grant,
            start_after: self.start_after,
            rule: self.rule,
        })
    }
}

/// PSD settings resolved for a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PsdPolicy {
    /// How long a lease lasts, in ms; 0 switches PSD off.
    pub timeout_ms: u32,
    /// Ceiling while a lease holds.
    pub ceiling: Ceiling,
    /// Trigger of a lease.
    pub grant: Grant,
    /// Number of the I/O within a burst that grants the first lease.
    pub start_after: u32,
    /// Lease rule.
    pub rule: LeaseRule,
}

impl Default for PsdPolicy {
    fn default() -> Self {
        Self {
            timeout_ms: 3,
            ceiling: Ceiling::default(),
            grant: Grant::default(),
            start_after: 1,
            rule: LeaseRule::default(),
        }
    }
}
