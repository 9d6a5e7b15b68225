//! A run's figures about clocks.

use serde::Serialize;

use crate::cpu::totals::CpuTotals;
use crate::frequency::clocks::{Domain, HwpBoostRun};

/// One clock's figures.
#[derive(Clone, Debug, Serialize)]
pub struct ClockTime {
    /// Number of the first CPU on the clock.
    pub first_cpu: usize,
    /// Number of CPUs on the clock.
    pub cpus: usize,
    /// Mean frequency in MHz over the time with CPUs powered; 0 if no CPU ever was.
    pub mean_mhz: f64,
    /// How often the frequency changed with a CPU powered, or on the way to such a time.
    pub changes: u64,
    /// Mean frequency in MHz over the whole time, asleep or not.
    pub set_mhz: f64,
    /// Frequencies with CPUs powered, slowest first.
    pub residency: Vec<FrequencyTime>,
    /// HWP dynamic boost, if it is on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hwp_boost: Option<HwpBoostRun>,
}

/// Time at a frequency.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FrequencyTime {
    /// The frequency in MHz.
    pub mhz: f64,
    /// Seconds powered at this frequency, summed over CPUs.
    pub seconds: f64,
}

impl ClockTime {
    /// Figures of a clock in a run that ends at `now`, `time` ns after its warm-up; `cpus` are the totals of all CPUs.
    pub(crate) fn new(domain: &Domain, cpus: &[CpuTotals], time: u64, now: u64) -> Self {
        let frequencies = domain.frequencies();
        let mut powered_at = vec![0_u64; frequencies.len()];
        for cpu in &cpus[domain.cpus()] {
            for (sum, powered) in powered_at.iter_mut().zip(cpu.powered_time_by_opp()) {
                *sum += powered;
            }
        }
        let residency: Vec<FrequencyTime> = frequencies
            .iter()
            .zip(powered_at)
            .filter(|(_, ns)| *ns > 0)
            .map(|(frequency, ns)| FrequencyTime {
                mhz: f64::from(frequency.0) / 1e3,
                seconds: ns as f64 / 1e9,
            })
            .collect();
        let seconds: f64 = residency.iter().map(|r| r.seconds).sum();
        let weighted: f64 = residency.iter().map(|r| r.mhz * r.seconds).sum();
        Self {
            first_cpu: domain.cpus().start,
            cpus: domain.cpus().len(),
            mean_mhz: if seconds > 0.0 {
                weighted / seconds
            } else {
                0.0
            },
            changes: domain.frequency_change_count(),
            set_mhz: domain.khz_time_until(now) as f64 / time.max(1) as f64 / 1e3,
            residency,
            hwp_boost: domain.hwp_boost_counts(),
        }
    }
}
