//! The rows of the tables.
//!
//! Every table is in long form: the first four columns say which run a row belongs to. One finished run is a
//! [`RunRecord`], a JSON file of its own; the Parquet tables are made from these files.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::metric;

/// The largest count, and the longest time in ns: 36 years of one CPU.
pub(crate) const LARGEST_COUNT: u64 = 1 << 60;

/// Which run: the columns that all tables but [`MetricRow`] and [`TimelineRow`] begin with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunKey {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
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

/// A number that a run gave: `metrics.parquet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Seed of its random numbers; none if it was measured.
    pub seed: Option<u64>,
    /// The block of runs that belong together, from 0.
    pub block: u32,
    /// Which run of the session it was, from 0.
    pub order: u32,
    /// Name of the metric.
    pub metric: String,
    /// Its value, in the metric's unit; always finite.
    pub value: f64,
}

/// Requests of about the same latency: `latency.parquet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LatencyRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Shortest latency of the bucket in ns.
    pub low_ns: u64,
    /// Longest latency of the bucket in ns.
    pub high_ns: u64,
    /// Requests in it.
    pub count: u64,
}

/// What latency is made of: `attribution.parquet`. The parts of one `at` add up to its latency.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttributionRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Of which requests: `mean`, or about a percentile, `p50`, `p90`, `p99`, `p99.9`.
    pub at: String,
    /// The part of the way; [`crate::rows::PARTS`] has the order.
    pub part: String,
    /// Its time in ns.
    pub ns: f64,
}

/// Time in an idle state, over all CPUs of a kind: `idle.parquet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdleRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The kind of CPU.
    pub cpu_kind: String,
    /// Name of the state, or [`crate::rows::BUSY`].
    pub state: String,
    /// Time in it, summed over the CPUs, in ns.
    pub time_ns: u64,
    /// Times entered.
    pub entries: u64,
    /// Idle periods that were too short for it although a shallower state was enabled, judged by the true idle
    /// time: from entry to the event that ended it.
    pub too_deep: u64,
    /// Idle periods that were long enough for a deeper enabled state, judged in the same way.
    pub too_shallow: u64,
    /// Stays that the kernel counts as too deep (`above` in sysfs), by its own measure of their length; none in results that are
    /// older than the column.
    #[serde(default)]
    pub above: Option<u64>,
    /// Stays that the kernel counts as too shallow (`below` in sysfs).
    #[serde(default)]
    pub below: Option<u64>,
    /// What too deep idle periods took longer to wake up than from the state that would have fitted, in ns; none if that
    /// is not known, as in a measurement.
    pub added_latency_ns: Option<u64>,
    /// What too deep and too shallow idle periods cost in energy beyond the states that would have fitted, in uJ; none
    /// if that is not known, as in a measurement or without power figures.
    pub wasted_energy_uj: Option<f64>,
}

/// Time powered at a frequency, over all CPUs of a kind: `frequency.parquet`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FrequencyRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// The kind of CPU.
    pub cpu_kind: String,
    /// The frequency in kHz.
    pub khz: u64,
    /// Time busy, waking up or polling at it, summed over the CPUs, in ns.
    pub time_ns: u64,
}

/// A stretch of a timeline: `timeline.parquet`. Of each workload under each policy a few milliseconds around a
/// request of about the median latency and around one of about the 99th percentile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelineRow {
    /// Name of the machine.
    pub machine: String,
    /// Name of the workload.
    pub workload: String,
    /// Name of the policy.
    pub policy: String,
    /// Around which request: `p50` or `p99`.
    pub at: String,
    /// Where: a CPU, a clock, the drive, a request.
    pub track: String,
    /// What: an idle state, a task, a frequency, a part of a request's way.
    pub name: String,
    /// Its start in ns since the start of the run.
    pub start_ns: u64,
    /// Its end in ns since the start of the run.
    pub end_ns: u64,
}

/// The state under which [`IdleRow`] has the time that CPUs were not idle.
pub const BUSY: &str = "(busy)";

/// The parts of a request's way, in its order, as [`AttributionRow`] names them.
pub const PARTS: [&str; 9] = [
    "submission",
    "queueing",
    "drive wake-up",
    "drive service",
    "interrupt delivery",
    "idle exit",
    "frequency shortfall",
    "waiting to run",
    "completion",
];

/// What requests an attribution is of, as [`AttributionRow`] names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttributionAt {
    /// All of them.
    Mean,
    /// About the median.
    P50,
    /// About the 90th percentile.
    P90,
    /// About the 99th percentile.
    P99,
    /// About the 99.9th percentile.
    P999,
}

impl AttributionAt {
    /// All of them, in the order of their latency.
    pub const ALL: [Self; 5] = [Self::Mean, Self::P50, Self::P90, Self::P99, Self::P999];

    /// Its name in the table.
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

/// One finished run: a file `runs/NNNNNN.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// [`crate::document::VERSION`].
    pub version: u32,
    /// Which run.
    pub key: RunKey,
    /// Seed of its random numbers; none if it was measured.
    pub seed: Option<u64>,
    /// The block of runs that belong together, from 0.
    pub block: u32,
    /// Which run of the session it was, from 0.
    pub order: u32,
    /// When it began, of a measurement: seconds since 1970 began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_s: Option<f64>,
    /// How long it took, simulated or real, in ns.
    pub duration_ns: u64,
    /// Numbers by name of the metric.
    pub metrics: Vec<(String, f64)>,
    /// `(low_ns, high_ns, count)` of [`LatencyRow`].
    pub latency: Vec<(u64, u64, u64)>,
    /// `(at, part, ns)` of [`AttributionRow`].
    pub attribution: Vec<(String, String, f64)>,
    /// [`IdleRow`] without its key.
    pub idle: Vec<Idle>,
    /// `(cpu_kind, khz, time_ns)` of [`FrequencyRow`].
    pub frequency: Vec<(String, u64, u64)>,
    /// `(at, track, name, start_ns, end_ns)` of [`TimelineRow`].
    pub timeline: Vec<(String, String, String, u64, u64)>,
}

/// An [`IdleRow`] without its key.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(missing_docs, reason = "IdleRow says what they are")]
pub struct Idle {
    pub cpu_kind: String,
    pub state: String,
    pub time_ns: u64,
    pub entries: u64,
    pub too_deep: u64,
    pub too_shallow: u64,
    #[serde(default)]
    pub above: Option<u64>,
    #[serde(default)]
    pub below: Option<u64>,
    #[serde(default)]
    pub added_latency_ns: Option<u64>,
    #[serde(default)]
    pub wasted_energy_uj: Option<f64>,
}

impl RunRecord {
    /// A run without any numbers yet.
    pub fn new(key: RunKey, seed: Option<u64>, block: u32, order: u32) -> Self {
        Self {
            version: crate::document::VERSION,
            key,
            seed,
            block,
            order,
            started_unix_s: None,
            duration_ns: 0,
            metrics: Vec::new(),
            latency: Vec::new(),
            attribution: Vec::new(),
            idle: Vec::new(),
            frequency: Vec::new(),
            timeline: Vec::new(),
        }
    }

    /// The metric whose value is no finite number, if any. No such run is written.
    pub fn not_finite(&self) -> Option<(&str, f64)> {
        let wrong = self.metrics.iter().find(|(_, value)| !value.is_finite());
        wrong.map(|(name, value)| (name.as_str(), *value))
    }

    /// What it has more of than can be: its name and the number.
    pub(crate) fn too_large(&self) -> Option<(&'static str, f64)> {
        let counts = self.counts();
        let mut wrong = counts.filter(|(_, number)| *number > LARGEST_COUNT);
        let count = wrong.next().map(|(what, number)| (what, number as f64));
        let energies = self.idle.iter().filter_map(|idle| idle.wasted_energy_uj);
        let times = self
            .attribution
            .iter()
            .map(|(.., ns)| ("a part of a latency", *ns));
        let mut numbers = times.chain(energies.map(|uj| ("an energy", uj)));
        count.or_else(|| numbers.find(|(_, number)| number.abs() > metric::LARGEST))
    }

    /// All counts, and times in whole ns.
    fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let idle = self.idle.iter().flat_map(|idle| {
            [
                ("the time in an idle state", Some(idle.time_ns)),
                ("the entries of an idle state", Some(idle.entries)),
                ("too deep of an idle state", Some(idle.too_deep)),
                ("too shallow of an idle state", Some(idle.too_shallow)),
                ("above of an idle state", idle.above),
                ("below of an idle state", idle.below),
                (
                    "the latency that an idle state added",
                    idle.added_latency_ns,
                ),
            ]
        });
        let idle = idle.filter_map(|(what, number)| Some((what, number?)));
        let requests = self.latency.iter().flat_map(|(_, high, count)| {
            [
                ("the end of a latency bucket", *high),
                ("a count of requests", *count),
            ]
        });
        let times = self.frequency.iter();
        let times = times.map(|(.., ns)| ("the time at a frequency", *ns));
        let ends = self.timeline.iter();
        let ends = ends.map(|(.., end)| ("the end of a stretch of its timeline", *end));
        let all = idle.chain(requests).chain(times).chain(ends);
        all.chain([("its duration", self.duration_ns)])
    }

    /// Its rows of `metrics.parquet`.
    pub fn metric_rows(&self) -> impl Iterator<Item = MetricRow> {
        let key = &self.key;
        self.metrics.iter().map(move |(metric, value)| MetricRow {
            machine: key.machine.clone(),
            workload: key.workload.clone(),
            policy: key.policy.clone(),
            repeat: key.repeat,
            seed: self.seed,
            block: self.block,
            order: self.order,
            metric: metric.clone(),
            value: *value,
        })
    }

    /// Its rows of `latency.parquet`.
    pub fn latency_rows(&self) -> impl Iterator<Item = LatencyRow> {
        let key = &self.key;
        self.latency
            .iter()
            .map(move |(low, high, count)| LatencyRow {
                machine: key.machine.clone(),
                workload: key.workload.clone(),
                policy: key.policy.clone(),
                repeat: key.repeat,
                low_ns: *low,
                high_ns: *high,
                count: *count,
            })
    }

    /// Its rows of `attribution.parquet`.
    pub fn attribution_rows(&self) -> impl Iterator<Item = AttributionRow> {
        let key = &self.key;
        self.attribution
            .iter()
            .map(move |(at, part, ns)| AttributionRow {
                machine: key.machine.clone(),
                workload: key.workload.clone(),
                policy: key.policy.clone(),
                repeat: key.repeat,
                at: at.clone(),
                part: part.clone(),
                ns: *ns,
            })
    }

    /// Its rows of `idle.parquet`.
    pub fn idle_rows(&self) -> impl Iterator<Item = IdleRow> {
        let key = &self.key;
        self.idle.iter().map(move |idle| IdleRow {
            machine: key.machine.clone(),
            workload: key.workload.clone(),
            policy: key.policy.clone(),
            repeat: key.repeat,
            cpu_kind: idle.cpu_kind.clone(),
            state: idle.state.clone(),
            time_ns: idle.time_ns,
            entries: idle.entries,
            too_deep: idle.too_deep,
            too_shallow: idle.too_shallow,
            above: idle.above,
            below: idle.below,
            added_latency_ns: idle.added_latency_ns,
            wasted_energy_uj: idle.wasted_energy_uj,
        })
    }

    /// Its rows of `frequency.parquet`.
    pub fn frequency_rows(&self) -> impl Iterator<Item = FrequencyRow> {
        let key = &self.key;
        self.frequency
            .iter()
            .map(move |(kind, khz, time)| FrequencyRow {
                machine: key.machine.clone(),
                workload: key.workload.clone(),
                policy: key.policy.clone(),
                repeat: key.repeat,
                cpu_kind: kind.clone(),
                khz: *khz,
                time_ns: *time,
            })
    }

    /// Its rows of `timeline.parquet`.
    pub fn timeline_rows(&self) -> impl Iterator<Item = TimelineRow> {
        let key = &self.key;
        self.timeline
            .iter()
            .map(move |(at, track, name, start, end)| TimelineRow {
                machine: key.machine.clone(),
                workload: key.workload.clone(),
                policy: key.policy.clone(),
                at: at.clone(),
                track: track.clone(),
                name: name.clone(),
                start_ns: *start,
                end_ns: *end,
            })
    }
}
