//! Statistics of a machine's latency after a change: the guard of a policy set.
//!
//! Everything here is pure: latencies in, verdicts out; no clock, no file, no eBPF.
//!
//! - [`LatencyCounts`] counts latencies; [`quantile_interval`] and [`mean_interval`] say how sure a figure of them is.
//! - [`guard`]: conditions on latency, judged window by window, and the decision to take a policy set back.

mod counts;
pub mod guard;
mod interval;

pub use counts::LatencyCounts;
pub use interval::{LatencyInterval, Quantile, mean_interval, quantile_interval};
