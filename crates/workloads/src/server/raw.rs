//! A server file as it is written, before any check.

use serde::Deserialize;
use toml::Spanned;

use super::figure::ServerFigure;
use super::log_checks::{RawBackground, RawLog};
use super::model::{CallDirection, Spacing};

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawFile {
    pub(super) kind: Spanned<String>,
    pub(super) name: Spanned<String>,
    pub(super) workers: Option<Spanned<u32>>,
    pub(super) seconds: Option<Spanned<f64>>,
    pub(super) warm_up_s: Option<Spanned<f64>>,
    pub(super) arrivals: Spanned<RawArrivals>,
    pub(super) request: Spanned<RawRequest>,
    pub(super) log: Option<RawLog>,
    #[serde(default)]
    pub(super) background: Vec<Spanned<RawBackground>>,
}

/// How requests arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Pattern {
    Fixed,
    Poisson,
    Recorded,
    Clients,
}

/// `[arrivals]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawArrivals {
    pub(super) pattern: Spanned<Pattern>,
    pub(super) rate: Option<Spanned<ServerFigure>>,
    pub(super) clients: Option<Spanned<u32>>,
    pub(super) think_us: Option<Spanned<ServerFigure>>,
    pub(super) think: Option<Spanned<Spacing>>,
    pub(super) in_process: Option<Spanned<bool>>,
    /// A CSV file, its column, and the column's unit.
    pub(super) times: Option<Spanned<String>>,
    pub(super) column: Option<Spanned<String>>,
    pub(super) unit: Option<Spanned<TimeUnit>>,
    /// Times in ns, in place of a CSV file.
    pub(super) times_ns: Option<Spanned<Vec<u64>>>,
    pub(super) interrupt_cpus: Option<Spanned<Vec<usize>>>,
}

/// Unit of the times in a CSV file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TimeUnit {
    #[default]
    S,
    Ms,
    Us,
    Ns,
}

impl TimeUnit {
    /// Nanoseconds in one unit.
    pub(super) const fn nanoseconds(self) -> f64 {
        match self {
            Self::S => 1e9,
            Self::Ms => 1e6,
            Self::Us => 1e3,
            Self::Ns => 1.0,
        }
    }
}

/// `[request]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawRequest {
    pub(super) work_us: Option<Spanned<ServerFigure>>,
    pub(super) work_kcycles: Option<Spanned<ServerFigure>>,
    pub(super) reply_us: Option<Spanned<ServerFigure>>,
    pub(super) reply_kcycles: Option<Spanned<ServerFigure>>,
    pub(super) at_mhz: Option<Spanned<f64>>,
    #[serde(default)]
    pub(super) spread: Spacing,
    #[serde(default)]
    pub(super) disk: Vec<Spanned<RawCall>>,
}

/// `[[request.disk]]`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawCall {
    pub(super) operation: Spanned<CallDirection>,
    pub(super) bytes: Spanned<u64>,
    pub(super) direct: Option<Spanned<bool>>,
    pub(super) calls: Option<Spanned<u32>>,
    #[serde(default)]
    pub(super) together: bool,
    pub(super) share: Option<Spanned<ServerFigure>>,
}
