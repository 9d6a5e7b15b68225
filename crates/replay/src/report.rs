//! What comes of a replay.

use std::collections::BTreeMap;

use serde::Serialize;
use wakepath_trace::recording::Warning;

use crate::agreement::Agreement;
use crate::cost::Totals;
use crate::drives::DriveReport;
use crate::package::PackageReport;

/// Fewer idle spans than this say little about how governors differ (assumed; a rule of thumb).
pub const FEWEST_SPANS: u64 = 30;

/// What came of a replay.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Recorded idle periods, and the idle spans that they make.
    pub periods: u64,
    /// See [`Report::periods`].
    pub spans: u64,
    /// The CPUs with idle periods, in order.
    pub cpus: Vec<u32>,
    /// How long the recording is, in ns.
    pub duration_ns: u64,
    /// What was chosen when the recording was made comes first, then each governor.
    pub policies: Vec<PolicyReport>,
    /// Whether the governor that ran then answers the same now.
    pub agreement: Option<(String, Agreement)>,
    /// The drives.
    pub drives: Vec<DriveReport>,
    /// Idle spans ended by an I/O completion.
    pub io_wake_ups: u64,
    /// I/O completions, also those that came to a CPU that was not idle.
    pub io_completions: u64,
    /// The same by block of time ([`crate::Setup::blocks`]): their sums are the whole.
    #[serde(skip)]
    pub blocks: Vec<BlockReport>,
    /// What makes the result approximate: periods by what they lack.
    pub approximate: BTreeMap<&'static str, u64>,
    /// Wake-up latencies are measured ones; otherwise they are declared, which are upper bounds.
    pub measured_latencies: bool,
    /// What is wrong with the recording.
    pub warnings: Vec<Warning>,
}

/// What came of a block of time.
#[derive(Clone, Debug)]
pub struct BlockReport {
    /// How long it is, in ns.
    pub duration_ns: u64,
    /// Idle spans that began in it.
    pub spans: u64,
    /// Those of them that an I/O completion ended.
    pub io_wake_ups: u64,
    /// I/O completions in it.
    pub io_completions: u64,
    /// Whether the governor that ran answers the same now.
    pub agreement: Agreement,
    /// As in [`Report::policies`].
    pub policies: Vec<BlockPolicy>,
}

/// What came of one governor in a block of time.
#[derive(Clone, Debug)]
pub struct BlockPolicy {
    /// By group of CPUs ([`crate::Setup::states`]) and by state; empty of a group without CPUs in the recording.
    pub groups: Vec<Vec<StateReport>>,
    /// The package, if its power is known.
    pub package: Option<PackageReport>,
    /// Idle spans that began under a PSD lease; `None` without PSD.
    pub leased_spans: Option<u64>,
}

/// What came of a governor, over states and the package.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Idle periods.
    pub count: u64,
    /// See [`StateReport::too_deep`].
    pub too_deep: u64,
    /// See [`StateReport::too_shallow`].
    pub too_shallow: u64,
    /// How much longer than the oracle's the wake-ups took, in ns, waiting for the package included.
    pub added_latency_ns: u64,
    /// Of it what I/O completions waited for, in ns.
    pub added_io_latency_ns: u64,
    /// Energy beyond the oracle's in J, if power is known.
    pub wasted_j: Option<f64>,
    /// Energy in J, if power is known.
    pub energy_j: Option<f64>,
}

impl Sums {
    /// Over these states and the package.
    pub fn of<'s>(
        states: impl Iterator<Item = &'s StateReport> + Clone,
        package: Option<PackageReport>,
    ) -> Self {
        let sum = |what: fn(&StateReport) -> u64| states.clone().map(what).sum::<u64>();
        let package = package.unwrap_or_default();
        let with_package =
            |of_states: Option<f64>, of_package: f64| of_states.map(|joules| joules + of_package);
        Self {
            count: sum(|s| s.count),
            too_deep: sum(|s| s.too_deep),
            too_shallow: sum(|s| s.too_shallow),
            added_latency_ns: sum(|s| s.added_latency_ns) + package.added_latency_ns,
            added_io_latency_ns: sum(|s| s.added_io_latency_ns) + package.added_io_latency_ns,
            wasted_j: with_package(states.clone().map(|s| s.wasted_j).sum(), package.wasted_j),
            energy_j: with_package(states.map(|s| s.energy_j).sum(), package.energy_j),
        }
    }
}

impl Report {
    /// Whether there are too few idle spans to say that governors differ, or that they do not.
    pub const fn is_sparse(&self) -> bool {
        self.spans < FEWEST_SPANS
    }
}

impl PolicyReport {
    /// Over all states and the package.
    pub fn sums(&self) -> Sums {
        Sums::of(self.states.iter(), self.package)
    }
}

impl BlockPolicy {
    /// Over all CPUs, states and the package.
    pub fn sums(&self) -> Sums {
        Sums::of(self.groups.iter().flatten(), self.package)
    }
}

/// What came of one governor.
#[derive(Clone, Debug, Serialize)]
pub struct PolicyReport {
    /// Its name, or `recorded`.
    pub policy: String,
    /// Per state, shallowest first.
    pub states: Vec<StateReport>,
    /// How often it was asked.
    pub selections: u64,
    /// How often it stopped a running tick; `None` where that was not recorded.
    pub tick_stops: Option<u64>,
    /// How often polling ended at its limit.
    pub poll_limit_hits: Option<u64>,
    /// The package, if its power is known.
    pub package: Option<PackageReport>,
}

/// What came of a governor in one state.
#[derive(Clone, Debug, Serialize)]
pub struct StateReport {
    /// The driver's name for the state.
    pub state: String,
    /// Time in it, in ns.
    pub time_ns: u64,
    /// Idle periods.
    pub count: u64,
    /// Left before the target residency, although a shallower state was there.
    pub too_deep: u64,
    /// As long as a deeper state wants.
    pub too_shallow: u64,
    /// Wake-ups slower than the oracle's, and by how much together, in ns.
    pub slower: u64,
    /// See [`StateReport::slower`].
    pub added_latency_ns: u64,
    /// Those that an I/O completion waited for.
    pub slower_io: u64,
    /// See [`StateReport::slower_io`].
    pub added_io_latency_ns: u64,
    /// Energy beyond the oracle's in J, if power is known. One state can be below zero; the sum counts.
    pub wasted_j: Option<f64>,
    /// Energy in J, if power is known.
    pub energy_j: Option<f64>,
}

impl StateReport {
    /// Of what was added up in a state; `power`: whether its power is known.
    pub fn new(state: String, totals: &Totals, power: bool) -> Self {
        let joules = |femtojoules: f64| power.then_some(femtojoules / 1e15);
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
            wasted_j: joules(totals.wasted as f64),
            energy_j: joules(totals.energy as f64),
        }
    }

    /// Adds that of another group of CPUs.
    pub(crate) fn add(&mut self, other: &Self) {
        self.time_ns += other.time_ns;
        self.count += other.count;
        self.too_deep += other.too_deep;
        self.too_shallow += other.too_shallow;
        self.slower += other.slower;
        self.added_latency_ns += other.added_latency_ns;
        self.slower_io += other.slower_io;
        self.added_io_latency_ns += other.added_io_latency_ns;
        let sum = |a: Option<f64>, b: Option<f64>| a.zip(b).map(|(a, b)| a + b);
        self.wasted_j = sum(self.wasted_j, other.wasted_j);
        self.energy_j = sum(self.energy_j, other.energy_j);
    }
}
