//! A cluster's CPUs and their clocks' figures.

use wakepath_policies::freq::FrequencyTable;
use wakepath_policies::freq::amd_pstate::PerfScale;
use wakepath_units::{Kilohertz, Nanoseconds};

use crate::core::topology::Cluster;

/// A cluster's clocks.
#[derive(Clone, Debug)]
pub(crate) struct ClusterSetup {
    pub(in crate::frequency) name: String,
    /// The CPUs.
    pub(in crate::frequency) shape: Cluster,
    pub(in crate::frequency) table: FrequencyTable,
    /// By operating point: thousands of cycles on the biggest core per second on this core.
    pub(in crate::frequency) speed: Vec<u32>,
    /// Requests change nothing, and the kernel does not know how fast a CPU is.
    pub(in crate::frequency) fixed_speed: bool,
    pub(in crate::frequency) transition_latency: u64,
    pub(in crate::frequency) stall: u64,
    /// How often the hardware looks at requests, in ns; 0: always.
    pub(in crate::frequency) slot: u64,
    /// Highest frequencies by number of active cores, most last.
    pub(in crate::frequency) turbo: Vec<(usize, Kilohertz)>,
    /// The highest frequency without turbo.
    pub(in crate::frequency) base: Option<Kilohertz>,
    pub(in crate::frequency) hwp: Option<HwpSetup>,
    pub(in crate::frequency) cppc: Option<CppcSetup>,
    /// The highest frequency by core, where cores differ.
    pub(in crate::frequency) ranking: Vec<Kilohertz>,
    /// The scheduler prefers cores with the highest ranks.
    pub(in crate::frequency) prefers_cores: bool,
}

/// The HWP controller, as it is with EPP 128.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HwpSetup {
    pub(in crate::frequency) ramp: Nanoseconds,
    /// A CPU gets the highest frequency from this share of its highest performance on.
    pub(in crate::frequency) full_at: f64,
}

/// The CPPC performance scale, and the processor's controller.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CppcSetup {
    pub(in crate::frequency) scale: PerfScale,
    /// Requests are written to registers.
    pub(in crate::frequency) registers: bool,
    pub(in crate::frequency) hardware: HwpSetup,
}

impl ClusterSetup {
    /// The highest possible frequency for a CPU in the cluster.
    pub(crate) fn own_limit(&self, cpu: usize) -> Kilohertz {
        let own = self.ranking.get(self.shape.core_number(cpu)).copied();
        own.unwrap_or(self.table.highest())
    }

    /// Whether the scheduler prefers cores with the highest ranks.
    #[inline(always)]
    pub(crate) fn prefers_cores(&self) -> bool {
        self.prefers_cores
    }

    /// The highest frequency.
    pub(crate) fn highest(&self) -> Kilohertz {
        self.table.highest()
    }

    /// The frequencies, slowest first.
    pub(crate) fn frequencies(&self) -> &[Kilohertz] {
        self.table.as_slice()
    }

    /// How often the hardware looks at requests, in ns; 0: always.
    pub(crate) fn slot(&self) -> u64 {
        self.slot
    }

    /// The highest frequency while this many cores are active.
    pub(crate) fn turbo_limit(&self, active_cores: usize) -> Kilohertz {
        let limit = self.turbo.iter().find(|(cores, _)| active_cores <= *cores);
        limit
            .or(self.turbo.last())
            .map_or(self.table.highest(), |(_, limit)| *limit)
    }

    /// When the hardware takes up a request made at `now`.
    pub(crate) fn taken_up(&self, now: u64) -> u64 {
        match self.slot {
            0 => now,
            slot => now.div_ceil(slot) * slot,
        }
    }
}
