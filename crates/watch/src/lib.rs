//! Statistics after a change of power settings: the guard of a policy set, and the canary of a fleet.
//!
//! Everything here is pure, but for the reader of what a fleet measured: numbers in, verdicts out; no clock, no eBPF.
//!
//! - [`LatencyCounts`] counts latencies; [`quantile_interval`] and [`mean_interval`] say how sure a figure of them is.
//! - [`guard`]: conditions on latency, judged window by window, and the decision to take a policy set back.
//! - [`canary`]: whether a change that some machines of a fleet got does harm.

pub mod canary;
mod counts;
pub mod guard;
mod interval;

pub use counts::LatencyCounts;
pub use interval::{LatencyInterval, Quantile, mean_interval, quantile_interval};
