//! Latency of a run's requests, and what it is made of.

use serde::Serialize;

use crate::observe::attribution::Attribution;

/// Latency of the requests of a run in microseconds. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Arithmetic mean.
    pub mean: f64,
    /// That of the reads; 0 if there were none.
    pub read_mean: f64,
    /// That of the writes; 0 if there were none.
    pub write_mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
}

/// What the latency of the requests is made of, in microseconds. The parts add up to the latency.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct LatencyParts {
    /// Mean over all requests.
    pub mean: Attribution,
    /// Mean over the requests within 3 % of the median.
    pub p50: Attribution,
    /// Mean over the requests within 3 % of the 90th percentile.
    pub p90: Attribution,
    /// Mean over the requests within 3 % of the 99th percentile.
    pub p99: Attribution,
    /// Mean over the requests within 3 % of the 99.9th percentile.
    pub p999: Attribution,
}
