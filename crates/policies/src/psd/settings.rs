//! Settings of PSD leases, as given by users and as resolved for a machine.

use serde::Serialize;
use wakepath_hardware::IdleStates;
use wakepath_units::Nanoseconds;

use super::ceiling::{Ceiling, LeaseCeiling};
use crate::idle::limit::NoSuchState;

/// Which event gives a CPU a lease.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Grant {
    /// A block I/O completion on the CPU gives a lease, as in the proposed kernel patch.
    #[default]
    Completion,
    /// A request that the CPU issues gives a lease.
    Issue,
    /// Either.
    Both,
}

impl Grant {
    /// Whether an I/O completion on the CPU gives a lease.
    pub fn grants_on_completion(self) -> bool {
        self != Self::Issue
    }

    /// Whether a request that the CPU issues gives a lease.
    pub fn grants_on_issue(self) -> bool {
        self != Self::Completion
    }
}

/// Implementation of leases whose rule applies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum LeaseRule {
    /// Rule of the proposed kernel patch: leases last whole ticks.
    #[default]
    Patch,
    /// wakepath's kernel module.
    Module,
    /// `wakepath daemon`.
    Daemon,
}

impl LeaseRule {
    /// Default PSD settings under this lease rule.
    pub const fn default_settings(self) -> PsdSettings {
        PsdSettings {
            timeout_ms: 3,
            ceiling: self.default_ceiling(),
            grant: Grant::Completion,
            start_after: self.default_start_after(),
            rule: self,
        }
    }

    /// Default for how deeply a CPU with a lease may sleep, under this lease rule.
    pub const fn default_ceiling(self) -> LeaseCeiling {
        match self {
            Self::Patch => LeaseCeiling::Of(Ceiling::Shallowest),
            // Default of `ceiling_us` in module/wakepath_psd.c.
            Self::Module => LeaseCeiling::Of(Ceiling::Latency(Nanoseconds(20_000))),
            Self::Daemon => LeaseCeiling::Auto,
        }
    }

    /// Default for the I/O of a burst that gives the first lease, under this lease rule.
    pub const fn default_start_after(self) -> u32 {
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
    /// Which event gives a CPU a lease.
    pub grant: Grant,
    /// Number of the I/O within a burst that grants the first lease, 1 to 1000.
    pub start_after: u32,
    /// Lease rule.
    pub rule: LeaseRule,
}

/// Why the leases of a policy set cannot be simulated or replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PsdError {
    /// The lease's ceiling names an idle state that the machine does not have.
    #[error("ceiling: {0}")]
    Ceiling(#[from] NoSuchState),
}

impl PsdSettings {
    /// Resolves the settings for a machine with these idle states.
    ///
    /// # Errors
    ///
    /// The ceiling names an unknown state.
    pub fn resolve_for_states(&self, states: &IdleStates) -> Result<PsdPolicy, PsdError> {
        Ok(PsdPolicy {
            timeout_ms: self.timeout_ms,
            ceiling: self.ceiling.resolve_for_states(states)?,
            grant: self.grant,
            start_after: self.start_after,
            rule: self.rule,
        })
    }
}

/// PSD settings resolved for a machine: its ceiling is a state or a latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct PsdPolicy {
    /// How long a lease lasts, in ms; 0 switches PSD off.
    pub timeout_ms: u32,
    /// How deeply a CPU may sleep while a lease holds.
    pub ceiling: Ceiling,
    /// Which event gives a CPU a lease.
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
