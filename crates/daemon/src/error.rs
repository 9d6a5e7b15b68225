//! Errors of the daemon.

use std::io;

use wakepath_settings::SettingsError;
use wakepath_settings::daemon_config::ConfigError;

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting of the machine cannot be changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// This machine has nothing that the configuration asks for.
    #[error("nothing to do: {why}")]
    Nothing {
        /// Missing features.
        why: String,
        /// Whether a later start may find them.
        passes: bool,
    },
    /// A new configuration asks for more than this machine has.
    #[error("this machine cannot have all of it: {0}")]
    Partly(String),
    /// The metrics' port cannot be opened.
    #[error("metrics: port {port} of 127.0.0.1")]
    Port {
        /// Number of the port.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("waiting for events")]
    Wait(#[from] io::Error),
}

impl DaemonError {
    /// Whether every start fails alike, until somebody changes the configuration or the machine.
    pub const fn lasts(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Nothing { passes: false, .. })
    }

    /// The error for a configuration without any part that can be had. `missing`: the reasons.
    pub(crate) fn nothing(missing: &[String], passes: bool) -> Self {
        let why = match missing.len() {
            0 => "the configuration asks for nothing".to_owned(),
            _ => missing.join("; "),
        };
        Self::Nothing { why, passes }
    }
}
