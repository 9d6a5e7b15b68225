//! Rows in tables.
//!
//! Every table is in long form: the first four columns name the run. A finished run is a [`crate::RunRecord`], a JSON file;
//! the Parquet tables are made from all such files.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Largest accepted count, and the longest accepted time in ns: 36 CPU years.
pub(crate) const LARGEST_COUNT: u64 = 1 << 60;

/// The key of a run: its machine, workload, policy and repeat. They are the first columns in most tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Machine name.
    pub machine: String,
    /// Workload name.
    pub workload: String,
    /// Policy name.
    pub policy: String,
    /// Number of the repeat, counted from 0.
    pub repeat: u32,
}

impl fmt::Display for RunKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            workload,
            policy,
            repeat,
            ..
        } = self;
        if !self.machine.is_empty() {
            write!(f, "{}: ", self.machine)?;
        }
        write!(f, "{workload} under {policy}, repeat {repeat}")
    }
}

/// A number from a run: `metrics.parquet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricRow {
    /// Machine name.
    pub machine: String,
    /// Workload name.
    pub workload: String,
    /// Policy name.
    pub policy: String,
    /// Number of the repeat, counted from 0.
    pub repeat: u32,
    /// Random seed of the run; none in a measurement.
    pub seed: Option<u64>,
    /// Block of related runs, counted from 0.
    pub block: u32,
    /// Position of the run in the session, counted from 0.
    pub order: u32,
    /// Metric name.
    pub metric: String,
    /// The metric's value in its unit; always finite.
    pub value: f64,
}

/// Declares two structs: `$row`, a whole row of a table, and `$part`, the same columns without the run's key.
macro_rules! run_rows {
    (
        $(#[$row_doc:meta])* $row:ident,
        $(#[$part_doc:meta])* $part:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    ) => {
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        $(#[$row_doc])*
        pub struct $row {
            /// Machine name.
            pub machine: String,
            /// Workload name.
            pub workload: String,
            /// Policy name.
            pub policy: String,
            /// Number of the repeat, counted from 0.
            pub repeat: u32,
            $($(#[$field_doc])* pub $field: $type,)*
        }

        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        $(#[$part_doc])*
        pub struct $part {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $part {
            /// Makes the table's row by adding the run's key.
            pub(crate) fn make_row_with_key(&self, key: &RunKey) -> $row {
                $row {
                    machine: key.machine.clone(),
                    workload: key.workload.clone(),
                    policy: key.policy.clone(),
                    repeat: key.repeat,
                    $($field: self.$field.clone(),)*
                }
            }
        }
    };
}

/// Implements conversions between a struct and a tuple: run files hold tuples.
macro_rules! as_tuple {
    ($name:ident { $($field:ident: $type:ty),* }) => {
        impl From<($($type,)*)> for $name {
            fn from(($($field,)*): ($($type,)*)) -> Self {
                Self { $($field),* }
            }
        }

        impl From<$name> for ($($type,)*) {
            fn from($name { $($field),* }: $name) -> Self {
                ($($field,)*)
            }
        }
    };
}

run_rows! {
    /// Requests with about the same latency: `latency.parquet`.
    LatencyRow,
    /// A [`LatencyRow`] without its run.
    #[serde(from = "(u64, u64, u64)", into = "(u64, u64, u64)")]
    LatencyCount {
        /// Shortest latency in this histogram bucket, in ns.
        low_ns: u64,
        /// Longest latency in this histogram bucket, in ns.
        high_ns: u64,
        /// Request count.
        count: u64,
    }
}

as_tuple!(LatencyCount {
    low_ns: u64,
    high_ns: u64,
    count: u64
});

run_rows! {
    /// One part of the latency: `attribution.parquet`. All parts with the same `at` add up to the latency.
    AttributionRow,
    /// An [`AttributionRow`] without its run.
    #[serde(from = "(String, String, f64)", into = "(String, String, f64)")]
    LatencyPart {
        /// Whose latency is divided: `mean` of all requests, or requests about a percentile, `p50`, `p90`, `p99`,
        /// `p99.9`.
        at: String,
        /// Name of the part, listed in [`crate::rows::PARTS`].
        part: String,
        /// Time in ns.
        ns: f64,
    }
}

as_tuple!(LatencyPart {
    at: String,
    part: String,
    ns: f64
});

run_rows! {
    /// Time in an idle state, over all CPUs of a kind: `idle.parquet`.
    IdleRow,
    /// An [`IdleRow`] without its run.
    #[serde(deny_unknown_fields)]
    Idle {
        /// CPU kind.
        cpu_kind: String,
        /// Name of the idle state, or [`crate::rows::BUSY`].
        state: String,
        /// Time in the idle state, summed over the CPUs, in ns.
        time_ns: u64,
        /// How often the idle state was entered.
        entries: u64,
        /// Idle periods that were too short for the state although a shallower state was enabled. The true idle time
        /// decides: from entry to the event that ended the idle period.
        too_deep: u64,
        /// Idle periods that were long enough for a deeper enabled state, by the true idle time.
        too_shallow: u64,
        /// Idle periods that the kernel counts as too deep (`above` in sysfs), by its own measure of the length; none
        /// in results older than the column.
        #[serde(default)]
        above: Option<u64>,
        /// Idle periods that the kernel counts as too shallow (`below` in sysfs).
        #[serde(default)]
        below: Option<u64>,
        /// Added wake-up latency of too deep idle periods over the fitting state, in ns; none if unknown, as in a
        /// measurement.
        #[serde(default)]
        added_latency_ns: Option<u64>,
        /// Energy of too deep and too shallow idle periods beyond the fitting states, in uJ; none if unknown, as in a
        /// measurement or without power figures.
        #[serde(default)]
        wasted_energy_uj: Option<f64>,
    }
}

run_rows! {
    /// Time powered at a frequency, over all CPUs of a kind: `frequency.parquet`.
    FrequencyRow,
    /// A [`FrequencyRow`] without its run.
    #[serde(from = "(String, u64, u64)", into = "(String, u64, u64)")]
    FrequencyResidency {
        /// CPU kind.
        cpu_kind: String,
        /// The frequency in kHz.
        khz: u64,
        /// Time that CPUs were busy, waking up or polling at this frequency, summed over the CPUs, in ns.
        time_ns: u64,
    }
}

as_tuple!(FrequencyResidency {
    cpu_kind: String,
    khz: u64,
    time_ns: u64
});

/// A span in a timeline: `timeline.parquet`. Each workload and policy has a few milliseconds around a request with about
/// the median latency, and around a request near the 99th percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineRow {
    /// Machine name.
    pub machine: String,
    /// Workload name.
    pub workload: String,
    /// Policy name.
    pub policy: String,
    /// The request in the middle: `p50` or `p99`, for the percentile that its latency is near.
    pub at: String,
    /// Track of the span: a CPU, a clock, the drive, a request.
    pub track: String,
    /// Name of the span: an idle state, a task, a frequency, a part of a request's way.
    pub name: String,
    /// Start of the span in ns since the run began.
    pub start_ns: u64,
    /// End of the span in ns since the run began.
    pub end_ns: u64,
}

/// A [`TimelineRow`] without its run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    from = "(String, String, String, u64, u64)",
    into = "(String, String, String, u64, u64)"
)]
#[expect(missing_docs, reason = "documented in TimelineRow")]
pub struct TimelineSpan {
    pub at: String,
    pub track: String,
    pub name: String,
    pub start_ns: u64,
    pub end_ns: u64,
}

as_tuple!(TimelineSpan {
    at: String,
    track: String,
    name: String,
    start_ns: u64,
    end_ns: u64
});

/// Name that [`IdleRow`] has in place of an idle state for busy time.
pub const BUSY: &str = "(busy)";

impl Idle {
    /// Makes the row for busy time in ns. `has_power`: the run has powers, so that busy time wastes no energy.
    pub fn for_busy_time(cpu_kind: &str, time_ns: u64, has_power: bool) -> Self {
        Self {
            cpu_kind: cpu_kind.to_owned(),
            state: BUSY.to_owned(),
            time_ns,
            entries: 0,
            too_deep: 0,
            too_shallow: 0,
            above: Some(0),
            below: Some(0),
            added_latency_ns: Some(0),
            wasted_energy_uj: has_power.then_some(0.0),
        }
    }
}

/// Parts of a request's way, in order, for [`AttributionRow`]. `drive` is queueing, wake-up and service together, where
/// these cannot be told apart. The last two are those of requests to a server.
pub const PARTS: [&str; 12] = [
    "submission",
    "queueing",
    "drive wake-up",
    "drive service",
    "drive",
    "interrupt delivery",
    "idle exit",
    "frequency shortfall",
    "waiting to run",
    "completion",
    "waiting for a worker",
    "server work",
];

/// The requests whose latency an [`AttributionRow`] divides: all, or those about a percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributionAt {
    /// All requests.
    Mean,
    /// About the median.
    P50,
    /// Requests with about the 90th percentile's latency.
    P90,
    /// Requests with about the 99th percentile's latency.
    P99,
    /// Requests with about the 99.9th percentile's latency.
    P999,
}

impl AttributionAt {
    /// All variants, the mean first, then by percentile.
    pub const ALL: [Self; 5] = [Self::Mean, Self::P50, Self::P90, Self::P99, Self::P999];

    /// The variant's name in the table's column `at`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }
}
