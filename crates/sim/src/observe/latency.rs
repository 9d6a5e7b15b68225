//! A run's request latency, and its parts.

use serde::Serialize;

use crate::observe::attribution::Attribution;

/// A run's request latency in microseconds. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Latency {
    /// Arithmetic mean of all request latencies.
    pub mean: f64,
    /// Mean over reads; 0 without any.
    pub read_mean: f64,
    /// Mean over writes; 0 without any.
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

/// A run's fsync and fdatasync calls, as databases make them for each commit. Percentiles are within 0.1 %.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct FsyncCalls {
    /// Number of calls after the warm-up.
    pub calls: u64,
    /// Calls per second, all jobs together.
    pub per_second: f64,
    /// Mean duration in microseconds, with the write-back of dirty pages.
    pub mean_us: f64,
    /// 99th percentile of the duration in microseconds.
    pub p99_us: f64,
}

/// Request latency by part, in microseconds. The parts add up to the latency.
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
