//! A CPU idle policy with its settings.

use serde::Serialize;
use wakepath_units::KernelVersion;

use super::interface::{HaltpollParameters, OracleGoal};
use super::program::Program;

/// A CPU idle policy with settings. Parsed from names such as `menu@6.1` ([`crate::spec`]).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum IdlePolicy {
    /// The menu governor of a given kernel ([`super::menu`]).
    Menu(KernelVersion),
    /// The teo governor of a given kernel ([`super::teo`]).
    Teo(KernelVersion),
    /// The ladder governor ([`super::ladder::Ladder`]), equal in all versions.
    Ladder(KernelVersion),
    /// [`super::haltpoll::Haltpoll`].
    Haltpoll(KernelVersion, HaltpollParameters),
    /// [`super::simple::Shallowest`].
    Shallowest,
    /// [`super::simple::Deepest`].
    Deepest,
    /// [`super::oracle::Oracle`].
    Oracle(OracleGoal),
    /// A user's own governor: [`super::program`].
    Program(Program),
}

impl IdlePolicy {
    /// Kernel version that the idle policy follows; `None` for a policy outside the kernel.
    pub const fn kernel_version(&self) -> Option<KernelVersion> {
        match *self {
            Self::Menu(kernel)
            | Self::Teo(kernel)
            | Self::Ladder(kernel)
            | Self::Haltpoll(kernel, _) => Some(kernel),
            Self::Shallowest | Self::Deepest | Self::Oracle(_) | Self::Program(_) => None,
        }
    }
}
