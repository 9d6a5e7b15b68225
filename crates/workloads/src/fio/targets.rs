//! What a load follows: a latency that decides the depth, a steady state that ends the job, a ratio of several jobs.

use serde::Serialize;
use wakepath_units::Nanoseconds;

/// Parts of a percent or of a limit in [`LatencyTarget`] and [`SteadyState`].
pub(super) const MILLION: u64 = 1_000_000;

/// A latency that decides the depth (fio's `latency_target` and its companions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LatencyTarget {
    /// Latency that is not to be exceeded, whole microseconds; 0: the depth is fixed. Default 0.
    pub target: Nanoseconds,
    /// Time for which a depth is tried, whole microseconds. Default 0.
    pub window: Nanoseconds,
    /// Share of I/Os that have to keep to the target, in millionths of a percent, 0 to 100,000,000. Default all.
    pub millionths_of_percent: u64,
    /// Whether the search goes on when a depth is found. Default false: the job ends.
    pub goes_on: bool,
}

impl Default for LatencyTarget {
    fn default() -> Self {
        Self {
            target: Nanoseconds::ZERO,
            window: Nanoseconds::ZERO,
            millionths_of_percent: 100 * MILLION,
            goes_on: false,
        }
    }
}

/// Figures that have to be steady (fio's `steadystate`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SteadyFigure {
    /// Largest deviation of I/Os per second from their mean.
    Iops,
    /// Slope of the I/Os per second.
    #[default]
    IopsSlope,
    /// Largest deviation of bytes per second from their mean.
    Bw,
    /// Slope of the bytes per second.
    BwSlope,
}

impl SteadyFigure {
    /// All figures, with fio's names.
    pub(super) const NAMES: [(&'static str, Self); 4] = [
        ("iops", Self::Iops),
        ("iops_slope", Self::IopsSlope),
        ("bw", Self::Bw),
        ("bw_slope", Self::BwSlope),
    ];

    /// fio's name.
    pub(super) fn name(self) -> &'static str {
        let found = Self::NAMES.iter().find(|(_, figure)| *figure == self);
        found.map_or("", |(name, _)| *name)
    }
}

/// When a job is steady, which ends it (fio's `steadystate` and its companions).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SteadyState {
    /// What is judged. Default: the slope of I/Os per second.
    pub figure: SteadyFigure,
    /// Limit of the deviation or slope in millionths: of a percent, or of an I/O or byte per second. Default 0.01 %.
    pub limit_millionths: u64,
    /// Whether the limit is a share of the mean in percent. Default true.
    pub in_percent: bool,
    /// Seconds that are judged together; 0: nothing is. Default 0.
    pub seconds: u32,
    /// Time before the first second that is judged. Default 0.
    pub ramp: Nanoseconds,
}

impl Default for SteadyState {
    fn default() -> Self {
        Self {
            figure: SteadyFigure::default(),
            limit_millionths: MILLION / 100,
            in_percent: true,
            seconds: 0,
            ramp: Nanoseconds::ZERO,
        }
    }
}

/// The part of a job in a flow of several jobs (fio's `flow` and its companions).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// Weight of each process, 0 to 1000; 0: the job is in no flow. Default 0.
    pub weight: u32,
    /// Number of the flow. Default 0.
    pub id: u32,
    /// How long a process sleeps when it is ahead of the others; 0: it spins. Default 0.
    pub sleep: Nanoseconds,
}
