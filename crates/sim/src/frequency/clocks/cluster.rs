//! A cluster's CPUs and their clocks' figures.

use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::amd_pstate::PerfScale;
use wakepath_policies::freq::limits::FrequencyLimits;
use wakepath_units::{Kilohertz, Nanoseconds};

use crate::core::topology::Cluster;

/// A cluster's clocks.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSetup {
    pub(in crate::frequency) name: String,
    /// The cluster's CPUs, cores and clocks.
    pub(in crate::frequency) shape: Cluster,
    pub(in crate::frequency) table: FrequencyTable,
    /// The frequencies of the table that limits allow; without limits the whole table.
    pub(in crate::frequency) allowed: FrequencyTable,
    /// The limits that were asked for.
    pub(in crate::frequency) limits: Option<FrequencyLimits>,
    /// By operating point: thousands of cycles on the biggest core per second on this core.
    pub(in crate::frequency) speed: Vec<u32>,
    /// Whether the speed is fixed: frequency requests change nothing, and the kernel does not know the speed.
    pub(in crate::frequency) fixed_speed: bool,
    pub(in crate::frequency) transition_latency: u64,
    pub(in crate::frequency) stall: u64,
    /// Length in ns of the time slots in which the hardware looks at frequency requests; 0: it looks at once.
    pub(in crate::frequency) slot: u64,
    /// Turbo limits: highest frequency by number of active cores, fewest cores first.
    pub(in crate::frequency) turbo: Vec<(usize, Kilohertz)>,
    /// The highest frequency without turbo.
    pub(in crate::frequency) base: Option<Kilohertz>,
    pub(in crate::frequency) hwp: Option<HwpSetup>,
    pub(in crate::frequency) cppc: Option<CppcSetup>,
    /// Highest frequency by core, for clusters whose cores differ; otherwise empty.
    pub(in crate::frequency) ranking: Vec<Kilohertz>,
    /// Whether the scheduler prefers the cores with the highest frequencies.
    pub(in crate::frequency) prefers_cores: bool,
}

/// The HWP controller, as it is with EPP 128.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HwpSetup {
    pub(in crate::frequency) ramp: Nanoseconds,
    /// Share of the highest performance, 0 to 1, from which on a CPU gets the highest frequency.
    pub(in crate::frequency) full_at: f64,
    /// Where the range of frequencies begins with EPP 32, on the way from the lowest, 0, to the highest, 1.
    pub(in crate::frequency) epp32_share: f64,
}

/// The CPPC performance scale, and the processor's controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CppcSetup {
    pub(in crate::frequency) scale: PerfScale,
    /// Whether requests are written to registers, and not through the firmware.
    pub(in crate::frequency) registers: bool,
    pub(in crate::frequency) hardware: HwpSetup,
}

impl ClusterSetup {
    /// Highest frequency that a CPU of the cluster can ever reach.
    pub(crate) fn highest_frequency_of_cpu(&self, cpu: usize) -> Kilohertz {
        let own = self.ranking.get(self.shape.core_number(cpu)).copied();
        own.unwrap_or(self.table.highest())
    }

    /// Limits on a CPU that can run from `lowest` to `highest`; without limits these two.
    pub(in crate::frequency) fn limits_within(
        &self,
        lowest: Kilohertz,
        highest: Kilohertz,
    ) -> [Kilohertz; 2] {
        self.limits.map_or([lowest, highest], |limits| {
            limits.clamp_to_range(lowest, highest)
        })
    }

    /// Whether the scheduler prefers the cluster's cores with the highest frequencies.
    #[inline(always)]
    pub(crate) fn scheduler_prefers_fast_cores(&self) -> bool {
        self.prefers_cores
    }

    /// Highest frequency in the cluster's table.
    pub(crate) fn highest_frequency(&self) -> Kilohertz {
        self.table.highest()
    }

    /// Frequencies in the cluster's table, slowest first.
    pub(crate) fn frequencies(&self) -> &[Kilohertz] {
        self.table.as_slice()
    }

    /// Length in ns of the time slots in which the hardware looks at frequency requests; 0: it looks at once.
    pub(crate) fn slot_length(&self) -> u64 {
        self.slot
    }

    /// The highest frequency while this many cores are active.
    pub(crate) fn turbo_limit(&self, active_cores: usize) -> Kilohertz {
        let limit = self.turbo.iter().find(|(cores, _)| active_cores <= *cores);
        limit
            .or(self.turbo.last())
            .map_or(self.table.highest(), |(_, limit)| *limit)
    }

    /// Time in ns when the hardware takes up a frequency request made at `now`: the slot's end.
    pub(crate) fn time_request_is_taken_up(&self, now: u64) -> u64 {
        match self.slot {
            0 => now,
            slot => now.div_ceil(slot) * slot,
        }
    }
}
