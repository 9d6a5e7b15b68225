//! A finished run.

use serde::{Deserialize, Serialize};

use crate::document::VERSION;
use crate::metric;
use crate::rows::{
    AttributionRow, FrequencyResidency, FrequencyRow, Idle, IdleRow, LARGEST_COUNT, LatencyCount,
    LatencyPart, LatencyRow, MetricRow, RunKey, TimelineRow, TimelineSpan,
};

/// The record of a finished run, in the file `runs/NNNNNN.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunRecord {
    /// [`crate::document::VERSION`].
    pub version: u32,
    /// The run's machine, workload, policy and repeat.
    pub key: RunKey,
    /// Random seed of the run; none in a measurement.
    pub seed: Option<u64>,
    /// Block of related runs, counted from 0.
    pub block: u32,
    /// Position of the run in the session, counted from 0.
    pub order: u32,
    /// When the measurement began, in seconds since 1970; absent in a simulation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_unix_s: Option<f64>,
    /// Duration of the run, simulated or real, in ns.
    pub duration_ns: u64,
    /// Numbers by metric.
    pub metrics: Vec<(String, f64)>,
    /// Latency histogram.
    pub latency: Vec<LatencyCount>,
    /// Parts that add up to the requests' latency.
    pub attribution: Vec<LatencyPart>,
    /// Time in each idle state, by CPU kind.
    pub idle: Vec<Idle>,
    /// Time at frequencies.
    pub frequency: Vec<FrequencyResidency>,
    /// Spans of a few milliseconds around representative requests.
    pub timeline: Vec<TimelineSpan>,
}

impl RunRecord {
    /// A record with key, seed and position, and without any numbers yet.
    pub fn new(key: RunKey, seed: Option<u64>, block: u32, order: u32) -> Self {
        Self {
            version: VERSION,
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

    /// Name and value of the first metric that is infinite or NaN, if any. Such a run is never written.
    pub fn first_non_finite_metric(&self) -> Option<(&str, f64)> {
        let wrong = self.metrics.iter().find(|(_, value)| !value.is_finite());
        wrong.map(|(name, value)| (name.as_str(), *value))
    }

    /// Name and value of the first count, time or energy beyond the largest accepted, if any.
    pub(crate) fn first_too_large_number(&self) -> Option<(&'static str, f64)> {
        let mut counts = self.counts_named_for_errors();
        let count = counts.find(|(_, count)| *count > LARGEST_COUNT);
        let energies = self.idle.iter().filter_map(|idle| idle.wasted_energy_uj);
        let mut numbers = self
            .attribution
            .iter()
            .map(|part| ("a part of a latency", part.ns))
            .chain(energies.map(|uj| ("an energy", uj)));
        count
            .map(|(name, count)| (name, count as f64))
            .or_else(|| numbers.find(|(_, number)| number.abs() > metric::LARGEST))
    }

    /// All counts, and all times in whole ns, each with its name.
    fn counts_named_for_errors(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let latency = self.latency.iter().flat_map(|bucket| {
            [
                ("the end of a latency bucket", bucket.high_ns),
                ("a count of requests", bucket.count),
            ]
        });
        let frequency = self.frequency.iter();
        let timeline = self.timeline.iter();
        self.idle
            .iter()
            .flat_map(idle_counts_named_for_errors)
            .chain(latency)
            .chain(frequency.map(|time| ("the time at a frequency", time.time_ns)))
            .chain(timeline.map(|span| ("the end of a stretch of its timeline", span.end_ns)))
            .chain([("its duration", self.duration_ns)])
    }

    /// The run's rows in `metrics.parquet`.
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

    /// The run's rows in `latency.parquet`.
    pub fn latency_rows(&self) -> impl Iterator<Item = LatencyRow> {
        self.latency
            .iter()
            .map(|bucket| bucket.make_row_with_key(&self.key))
    }

    /// The run's rows in `attribution.parquet`.
    pub fn attribution_rows(&self) -> impl Iterator<Item = AttributionRow> {
        self.attribution
            .iter()
            .map(|part| part.make_row_with_key(&self.key))
    }

    /// The run's rows in `idle.parquet`.
    pub fn idle_rows(&self) -> impl Iterator<Item = IdleRow> {
        self.idle
            .iter()
            .map(|idle| idle.make_row_with_key(&self.key))
    }

    /// The run's rows in `frequency.parquet`.
    pub fn frequency_rows(&self) -> impl Iterator<Item = FrequencyRow> {
        self.frequency
            .iter()
            .map(|time| time.make_row_with_key(&self.key))
    }

    /// The run's rows in `timeline.parquet`.
    pub fn timeline_rows(&self) -> impl Iterator<Item = TimelineRow> {
        let key = &self.key;
        self.timeline.iter().map(|span| TimelineRow {
            machine: key.machine.clone(),
            workload: key.workload.clone(),
            policy: key.policy.clone(),
            at: span.at.clone(),
            track: span.track.clone(),
            name: span.name.clone(),
            start_ns: span.start_ns,
            end_ns: span.end_ns,
        })
    }
}

/// The known counts of an idle state, each with its name.
fn idle_counts_named_for_errors(idle: &Idle) -> impl Iterator<Item = (&'static str, u64)> {
    let counts = [
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
    ];
    let known = counts.into_iter();
    known.filter_map(|(name, count)| Some((name, count?)))
}
