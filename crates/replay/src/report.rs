//! The report of a replay.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Warning;

use crate::agreement::Agreement;
use crate::cost::Totals;
use crate::drives::DriveReport;
use crate::package::PackageReport;

/// Fewest idle spans for a verdict on how governors differ (assumed; a rule of thumb).
pub const FEWEST_SPANS: u64 = 30;

/// The report of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Recorded idle periods.
    pub periods: u64,
    /// Idle spans made from the idle periods.
    pub spans: u64,
    /// The CPUs with idle periods, in order.
    pub cpus: Vec<u32>,
    /// Length of the recording in ns.
    pub duration_ns: u64,
    /// The recorded choices first, then each governor.
    pub policies: Vec<PolicyReport>,
    /// How often the governor that ran answers as recorded, with its name.
    pub agreement: Option<(String, Agreement)>,
    /// The drives.
    pub drives: Vec<DriveReport>,
    /// Idle spans ended by an I/O completion.
    pub io_wake_ups: u64,
    /// I/O completions, including completions on busy CPUs.
    pub io_completions: u64,
    /// The same by block of time ([`crate::Setup::blocks`]); the blocks add up to the whole.
    #[serde(skip)]
    pub blocks: Vec<BlockReport>,
    /// Idle periods that make the result approximate, by missing fact.
    pub approximate: BTreeMap<&'static str, u64>,
    /// Wake-up latencies are measured, rather than declared upper bounds.
    pub measured_latencies: bool,
    /// Faults of the recording.
    pub warnings: Vec<Warning>,
}

/// The report of a block of time.
#[derive(Clone, Debug)]
pub struct BlockReport {
    /// Length of the block in ns.
    pub duration_ns: u64,
    /// Idle spans that began in the block.
    pub spans: u64,
    /// Idle spans ended by an I/O completion.
    pub io_wake_ups: u64,
    /// I/O completions in the block.
    pub io_completions: u64,
    /// How often the governor that ran answers as recorded.
    pub agreement: Agreement,
    /// As in [`Report::policies`].
    pub policies: Vec<BlockPolicy>,
}

/// One governor in a block of time.
#[derive(Clone, Debug)]
pub struct BlockPolicy {
    /// By group of CPUs ([`crate::Setup::states`]) and by state; empty for a group without CPUs in the recording.
    pub groups: Vec<Vec<StateReport>>,
    /// The package, if its power is known.
    pub package: Option<PackageReport>,
    /// Idle spans that began under a PSD lease; `None` without PSD.
    pub leased_spans: Option<u64>,
}

/// A governor's sums over states and the package.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Idle periods.
    pub count: u64,
    /// See [`StateReport::too_deep`].
    pub too_deep: u64,
    /// See [`StateReport::too_shallow`].
    pub too_shallow: u64,
    /// Time by which wake-ups were slower than the oracle's, in ns, including waits for the package.
    pub added_latency_ns: u64,
    /// Delay of I/O completions by slower wake-ups, in ns.
    pub added_io_latency_ns: u64,
    /// Exit latencies that I/O completions waited for, in ns, of CPUs and the package, whatever the oracle's.
    pub io_exit_ns: u64,
    /// Energy beyond the oracle's in J, if power is known.
    pub wasted_j: Option<f64>,
    /// Energy in J, if power is known.
    pub energy_j: Option<f64>,
}

impl Sums {
    /// Sums over these states and the package.
    pub fn over<'s>(
        states: impl Iterator<Item = &'s StateReport> + Clone,
        package: Option<PackageReport>,
    ) -> Self {
        let package = package.unwrap_or_default();
        let mut sums = Self {
            added_latency_ns: package.added_latency_ns,
            added_io_latency_ns: package.added_io_latency_ns,
            io_exit_ns: package.io_exit_ns,
            ..Self::default()
        };
        for state in states.clone() {
            sums.count += state.count;
            sums.too_deep += state.too_deep;
            sums.too_shallow += state.too_shallow;
            sums.added_latency_ns += state.added_latency_ns;
            sums.added_io_latency_ns += state.added_io_latency_ns;
            sums.io_exit_ns += state.io_exit_ns;
        }
        let wasted: Option<f64> = states.clone().map(|s| s.wasted_j).sum();
        let energy: Option<f64> = states.map(|s| s.energy_j).sum();
        sums.wasted_j = wasted.map(|joules| joules + package.wasted_j);
        sums.energy_j = energy.map(|joules| joules + package.energy_j);
        sums
    }
}

impl Report {
    /// Whether there are too few idle spans to say that governors differ, or that they do not.
    pub const fn is_sparse(&self) -> bool {
        self.spans < FEWEST_SPANS
    }
}

impl PolicyReport {
    /// Sums over all states and the package.
    pub fn sums(&self) -> Sums {
        Sums::over(self.states.iter(), self.package)
    }
}

impl BlockPolicy {
    /// Sums over all CPUs, states and the package.
    pub fn sums(&self) -> Sums {
        Sums::over(self.groups.iter().flatten(), self.package)
    }
}

/// One governor over the whole recording.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// The governor's name, or `recorded`.
    pub policy: String,
    /// Sums by state, shallowest first.
    pub states: Vec<StateReport>,
    /// Times that the governor was asked.
    pub selections: u64,
    /// Times that the governor stopped a running tick; `None` if not recorded.
    pub tick_stops: Option<u64>,
    /// Times that polling ended at the limit; `None` if not recorded.
    pub poll_limit_hits: Option<u64>,
    /// The package, if its power is known.
    pub package: Option<PackageReport>,
}

/// A governor's idle periods in one state.
#[derive(Clone, Debug, Serialize)]
pub struct StateReport {
    /// The driver's name for the state.
    pub state: String,
    /// Time in the state, in ns.
    pub time_ns: u64,
    /// Idle periods.
    pub count: u64,
    /// Idle periods shorter than the target residency, although a shallower state was enabled.
    pub too_deep: u64,
    /// Idle periods long enough for a deeper state.
    pub too_shallow: u64,
    /// Wake-ups slower than the oracle's.
    pub slower: u64,
    /// Total time by which wake-ups were slower than the oracle's, in ns.
    pub added_latency_ns: u64,
    /// Slower wake-ups that delayed an I/O completion.
    pub slower_io: u64,
    /// Total delay of I/O completions by slower wake-ups, in ns.
    pub added_io_latency_ns: u64,
    /// Total exit latency that I/O completions waited for, in ns, whatever the oracle's.
    #[serde(skip)]
    pub io_exit_ns: u64,
    /// Energy beyond the oracle's in J, if power is known. A single state can be below zero; only the sum counts.
    pub wasted_j: Option<f64>,
    /// Energy in J, if power is known.
    pub energy_j: Option<f64>,
}

impl StateReport {
    /// A report from the sums in a state.
    pub fn from_totals(state: String, totals: &Totals, power_known: bool) -> Self {
        Self {
            state,
            time_ns: totals.time,
            count: totals.count,
            too_deep: totals.too_deep,
            too_shallow: totals.too_shallow,
            slower: totals.slower,
            added_latency_ns: totals.added_latency,
            slower_io: totals.slower_io,
            added_io_latency_ns: totals.added_io_latency,
            io_exit_ns: totals.io_exit,
            wasted_j: power_known.then_some(totals.wasted as f64 / 1e15),
            energy_j: power_known.then_some(totals.energy as f64 / 1e15),
        }
    }

    /// Adds the sums from another group of CPUs.
    pub(crate) fn add(&mut self, other: &Self) {
        self.time_ns += other.time_ns;
        self.count += other.count;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.slower += other.slower;
        self.added_latency_ns += other.added_latency_ns;
        self.slower_io += other.slower_io;
        self.added_io_latency_ns += other.added_io_latency_ns;
        self.io_exit_ns += other.io_exit_ns;
        self.wasted_j = add_known(self.wasted_j, other.wasted_j);
        self.energy_j = add_known(self.energy_j, other.energy_j);
    }
}

/// The sum of two energies; `None` unless both are known.
fn add_known(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a + b)
}
