//! Errors of the daemon.

use std::io;
use std::path::PathBuf;

use wakepath_settings::SettingsError;
use wakepath_settings::daemon_config::ConfigError;

/// Why the daemon does not run, or refuses a configuration.
#[derive(Debug, thiserror::Error)]
pub enum DaemonError {
    /// The configuration cannot be used.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A setting of the machine cannot be changed or put back.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The machine has none of the parts that the configuration asks for.
    #[error("nothing to do: {why}")]
    Nothing {
        /// Missing features.
        why: String,
        /// Whether a later start may find the missing parts.
        passes: bool,
    },
    /// A new configuration asks for more than this machine has.
    #[error("this machine cannot have all of it: {0}")]
    Partly(String),
    /// The port for metrics cannot be opened.
    #[error("metrics: port {port} of 127.0.0.1")]
    Port {
        /// Number of the port for metrics.
        port: u16,
        /// The system's error.
        source: io::Error,
    },
    /// The Unix socket for metrics cannot be opened.
    #[error("metrics: {}", path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// Waiting failed.
    #[error("waiting for events")]
    Wait(#[from] io::Error),
}

impl DaemonError {
    /// Whether every start fails in the same way, until somebody changes the configuration or the machine.
    pub const fn is_permanent(&self) -> bool {
        matches!(self, Self::Config(_) | Self::Nothing { passes: false, .. })
    }

    /// The error for a configuration of which the machine has no part. `missing`: the reasons.
    pub(crate) fn nothing_to_do(missing: &[String], passes: bool) -> Self {
        let why = match missing.len() {
            0 => "the configuration asks for nothing".to_owned(),
            _ => missing.join("; "),
        };
        Self::Nothing { why, passes }
    }
}
