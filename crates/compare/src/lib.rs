//! Whether a series of results is better than its baseline, by how much, and how certain the difference is.
//!
//! [`Metric`] gives a number its meaning. [`estimate_gain`] estimates a gain with an interval.
//! [`correct_by_benjamini_hochberg`] corrects for many comparisons at once. [`Verdict`] says the outcome in a
//! sentence. [`find_series_warnings`] looks for series whose intervals should not be trusted. All calculation
//! is pure: no clock, and the same input gives the same result. Only [`results::Source::new`] and
//! [`results::add_idle_rates`] read files, through a reader of results.
//!
//! # Which interval
//!
//! Benchmarks have few runs, 3 to 20. For so few the percentile bootstrap and BCa are too narrow, because resampled values
//! vary less than the values did. The interval here is the *studentised* bootstrap (bootstrap-t) of the mean ratio's
//! logarithm: dividing each resample by its own standard error makes up for the smaller variation.
//! `tests/all/coverage.rs` measures the coverage over 10,000 simulated studies per case.
//!
//! The correction for many comparisons needs p-values below one over the number of resamples. Such p-values follow the
//! tail of the t distribution.
//!
//! ```
//! use wakepath_compare::{Design, Metric, Verdict, estimate_gain};
//! let iops = Metric::find("iops").unwrap();
//! let before = [2584.0, 2622.0, 2629.0, 2590.0, 2611.0, 2605.0];
//! let after = [4476.0, 4478.0, 4492.0, 4480.0, 4471.0, 4488.0];
//! let gain = estimate_gain(iops, &before, &after, Design::Unpaired, 0.95, 1)?;
//! let verdict = Verdict::from_gain(&gain, gain.p_value, 0.95, 2.0);
//! assert!(verdict.to_string().starts_with("better by 7"));
//! # Ok::<(), wakepath_compare::GainError>(())
//! ```

mod assumed_power;
mod correction;
mod differences;
pub mod figure;
mod gain;
mod power_scope;
pub mod results;
mod shortfalls;
mod verdict;
mod warnings;

pub use assumed_power::{assumes_power, count_assumed_figures};
pub use correction::correct_by_benjamini_hochberg;
pub use differences::describe_differences;
pub use gain::{
    Gain, GainError, RESAMPLES, estimate_gain, interval_of_mean, standard_deviation,
    standard_errors_of_interval,
};
pub use power_scope::describe_mixed_scopes_of_machines;
pub use shortfalls::{
    describe_drift, describe_missed_rate, describe_shortfalls, mean_change_if_significant,
};
pub use verdict::{Doubt, MAX_RUNS, Verdict, format_percent_range};
pub use wakepath_results::{Better, Condition, Design, Goal, METRICS, Mean, Metric};
pub use warnings::{SeriesWarning, find_series_warnings};
