//! The report of a replay.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Warning;

use crate::agreement::Agreement;
use crate::cost::IdlePeriodTotals;
use crate::drives::DriveReport;
use crate::package::PackageReport;

/// Fewest idle spans for a verdict on how governors differ (assumed; a rule of thumb).
pub const FEWEST_SPANS: u64 = 30;

/// Report of a replay: the recorded choices beside each governor's.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Recorded idle periods.
    pub periods: u64,
    /// Number of idle spans made from the recorded idle periods.
    pub spans: u64,
    /// Numbers of the CPUs with idle periods, ascending.
    pub cpus: Vec<u32>,
    /// Length of the recording in ns.
    pub duration_ns: u64,
    /// Results of the recorded choices first, then of each replayed governor.
    pub policies: Vec<PolicyReport>,
    /// How often the governor that ran answers as recorded, with the governor's name.
    pub agreement: Option<(String, Agreement)>,
    /// The drives.
    pub drives: Vec<DriveReport>,
    /// Number of idle spans that an I/O completion ended.
    pub io_wake_ups: u64,
    /// Number of I/O completions, including completions on busy CPUs.
    pub io_completions: u64,
    /// Results by block of time ([`crate::Setup::blocks`]); the blocks add up to the whole.
    #[serde(skip)]
    pub blocks: Vec<TimeBlockReport>,
    /// Number of idle periods that make the result approximate, by missing fact.
    pub approximate: BTreeMap<&'static str, u64>,
    /// Whether wake-up latencies are measured, rather than declared upper bounds.
    pub measured_latencies: bool,
    /// Faults of the recording.
    pub warnings: Vec<Warning>,
}

/// Report of a replay on a block of time.
#[derive(Clone, Debug)]
pub struct TimeBlockReport {
    /// Length of the block of time in ns.
    pub duration_ns: u64,
    /// Number of idle spans that began in the block of time.
    pub spans: u64,
    /// Number of idle spans in the block that an I/O completion ended.
    pub io_wake_ups: u64,
    /// Number of I/O completions in the block of time.
    pub io_completions: u64,
    /// How often the governor that ran answers as recorded.
    pub agreement: Agreement,
    /// Results by policy in the block, in the order of [`Report::policies`].
    pub policies: Vec<TimeBlockPolicy>,
}

/// Result of one governor in a block of time.
#[derive(Clone, Debug)]
pub struct TimeBlockPolicy {
    /// States by group of CPUs ([`crate::Setup::states`]); empty for a group without CPUs in the
    /// recording.
    pub groups: Vec<Vec<StateReport>>,
    /// Sleep of the package in the block, if its power is known.
    pub package: Option<PackageReport>,
    /// Number of idle spans that began under a PSD lease; `None` without PSD.
    pub leased_spans: Option<u64>,
}

/// A governor's sums over all idle states and the package.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Idle periods.
    pub count: u64,
    /// Number of idle periods in too deep a state; see [`StateReport::too_deep`].
    pub too_deep: u64,
    /// Number of idle periods in too shallow a state; see [`StateReport::too_shallow`].
    pub too_shallow: u64,
    /// Total time by which wake-ups were slower than the oracle's, in ns, including waits for the
    /// package.
    pub added_latency_ns: u64,
    /// Total delay of I/O completions by wake-ups slower than the oracle's, in ns.
    pub added_io_latency_ns: u64,
    /// Exit latencies that I/O completions waited for, in ns, of CPUs and the package, whatever the oracle's.
    pub io_exit_ns: u64,
    /// Energy beyond the oracle's in J, if power is known.
    pub wasted_j: Option<f64>,
    /// Energy in idle states and of the package in J, if power is known.
    pub energy_j: Option<f64>,
}

impl Sums {
    /// Adds up the reports of these idle states and of the package.
    pub fn from_states_and_package<'s>(
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
    pub const fn has_too_few_spans(&self) -> bool {
        self.spans < FEWEST_SPANS
    }
}

impl PolicyReport {
    /// Adds up all idle states and the package.
    pub fn total_sums(&self) -> Sums {
        Sums::from_states_and_package(self.states.iter(), self.package)
    }
}

impl TimeBlockPolicy {
    /// Adds up all CPUs, idle states and the package.
    pub fn total_sums(&self) -> Sums {
        Sums::from_states_and_package(self.groups.iter().flatten(), self.package)
    }
}

/// Result of one governor over the whole recording.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// Name of the governor, or `recorded` for the recorded choices.
    pub policy: String,
    /// Results by idle state, shallowest first.
    pub states: Vec<StateReport>,
    /// Number of times that the governor was asked.
    pub selections: u64,
    /// Number of times that the governor stopped a running tick; `None` if not recorded.
    pub tick_stops: Option<u64>,
    /// Number of times that polling ended at the limit; `None` if not recorded.
    pub poll_limit_hits: Option<u64>,
    /// Sleep of the package under the governor, if the package's power is known.
    pub package: Option<PackageReport>,
}

/// Result of one governor's idle periods in one state.
#[derive(Clone, Debug, Serialize)]
pub struct StateReport {
    /// Driver's name of the idle state.
    pub state: String,
    /// Time spent in the idle state, in ns.
    pub time_ns: u64,
    /// Idle periods.
    pub count: u64,
    /// Number of idle periods shorter than the target residency, although a shallower state was
    /// enabled.
    pub too_deep: u64,
    /// Number of idle periods that were long enough for a deeper state.
    pub too_shallow: u64,
    /// Number of wake-ups that took longer than the oracle's.
    pub slower: u64,
    /// Total time by which wake-ups took longer than the oracle's, in ns.
    pub added_latency_ns: u64,
    /// Number of wake-ups that took longer than the oracle's and delayed an I/O completion.
    pub slower_io: u64,
    /// Total delay of I/O completions by wake-ups that took longer than the oracle's, in ns.
    pub added_io_latency_ns: u64,
    /// Total exit latency that I/O completions waited for, in ns, whatever the oracle's.
    #[serde(skip)]
    pub io_exit_ns: u64,
    /// Energy beyond the oracle's in J, if power is known. A single state can be below zero; only
    /// the sum over states counts.
    pub wasted_j: Option<f64>,
    /// Energy of the idle periods in the state in J, if power is known.
    pub energy_j: Option<f64>,
}

impl StateReport {
    /// Makes a state's report from the sums in nanoseconds and femtojoules.
    pub fn from_totals(state: String, totals: &IdlePeriodTotals, power_known: bool) -> Self {
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

    /// Adds the report of the same idle state in another group of CPUs.
    pub(crate) fn add_report(&mut self, other: &Self) {
        self.time_ns += other.time_ns;
        self.count += other.count;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.slower += other.slower;
        self.added_latency_ns += other.added_latency_ns;
        self.slower_io += other.slower_io;
        self.added_io_latency_ns += other.added_io_latency_ns;
        self.io_exit_ns += other.io_exit_ns;
        self.wasted_j = add_if_both_known(self.wasted_j, other.wasted_j);
        self.energy_j = add_if_both_known(self.energy_j, other.energy_j);
    }
}

/// Adds two energies; `None` unless both are known.
fn add_if_both_known(a: Option<f64>, b: Option<f64>) -> Option<f64> {
    a.zip(b).map(|(a, b)| a + b)
}
