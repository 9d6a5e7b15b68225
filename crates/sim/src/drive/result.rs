//! A run's figures about drives.

use hdrhistogram::Histogram;
use serde::Serialize;

use super::ledger::DriveTotals;

/// A run's figures about its drives, summed over equal drives.
#[derive(Clone, Debug, Serialize)]
pub struct DriveRun {
    /// Average power in mW.
    pub average_mw: f64,
    /// Energy in picojoules.
    pub energy_pj: u64,
    /// Seconds spent serving requests or emptying the write buffer.
    pub active_seconds: f64,
    /// Seconds spent between power states.
    pub transition_seconds: f64,
    /// Seconds for the drive's own work while asleep; part of the time in power states.
    pub background_seconds: f64,
    /// Power states with nothing to do, PS0 first. Together with active and transition time they
    /// make the run.
    pub states: Vec<DriveStateTime>,
    /// Requests that found the drive asleep, or falling asleep.
    pub wake_ups: u64,
    /// Mean wait for the drive in such requests, in microseconds.
    pub mean_wake_us: f64,
    /// Percentiles of these waits; `None` without a wake-up.
    pub wake_us: Option<DriveWakeUpWaits>,
}

/// How long requests waited that found the drive asleep or falling asleep, in microseconds, each to three significant
/// digits.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct DriveWakeUpWaits {
    /// Half of these requests waited at most this long.
    pub p50: f64,
    /// 99 % of these requests waited at most this long.
    pub p99: f64,
    /// The longest wait.
    pub max: f64,
}

/// A drive's time in a power state.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct DriveStateTime {
    /// Number of the power state.
    pub state: usize,
    /// Seconds in the state with nothing to do.
    pub seconds: f64,
    /// Times that the drive fell asleep into the state.
    pub entries: u64,
}

fn seconds_from_ns(ns: u64) -> f64 {
    ns as f64 / 1e9
}

impl DriveRun {
    /// Figures summed over equal drives, for a run that lasted for `end` ns after its warm-up.
    pub(crate) fn new(drives: &[DriveTotals], end: u64) -> Self {
        let totals = &DriveTotals::sum_over_drives(drives);
        Self {
            // 1 fJ / 1 ns = 1 uW
            average_mw: totals.energy as f64 / end.max(1) as f64 / 1e3,
            energy_pj: u64::try_from(totals.energy / 1000).unwrap_or(u64::MAX),
            active_seconds: seconds_from_ns(totals.active),
            transition_seconds: seconds_from_ns(totals.transition),
            background_seconds: seconds_from_ns(totals.background),
            states: totals
                .states
                .iter()
                .zip(&totals.entries)
                .enumerate()
                .map(|(state, (time, entries))| DriveStateTime {
                    state,
                    seconds: seconds_from_ns(*time),
                    entries: *entries,
                })
                .collect(),
            wake_ups: totals.wake_ups,
            mean_wake_us: totals.waited as f64 / totals.wake_ups.max(1) as f64 / 1e3,
            wake_us: (totals.waits.as_deref()).and_then(DriveWakeUpWaits::from_histogram),
        }
    }
}

impl DriveWakeUpWaits {
    /// The percentiles of a histogram of waits in ns; `None` for an empty one.
    fn from_histogram(waits: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| waits.value_at_quantile(quantile) as f64 / 1e3;
        (!waits.is_empty()).then(|| Self {
            p50: at(0.5),
            p99: at(0.99),
            max: at(1.0),
        })
    }
}
