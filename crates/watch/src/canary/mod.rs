//! Whether a change that some machines of a fleet got does harm.
//!
//! The unit is a machine. Each machine is compared with its own time before the change, hour of the day by hour of the
//! day, and the changed machines are then compared with machines left alone (difference in differences). Analyses take
//! place at planned times ([`plan_analyses`]), which share the error rate. [`judge_roll_out`] gives the verdict;
//! [`plan_roll_out`] says how many machines and days find a given harm. [`SeriesCollector`] reads what was measured.
//!
//! Everything but [`SeriesCollector`] is pure: no clock, no file.

mod collector;
mod counters;
mod difference;
mod error;
mod harm;
mod histogram;
mod judgement;
mod metric;
mod plan;
mod prometheus;
mod samples;
mod schedule;
mod series;
mod table;

pub use collector::SeriesCollector;
pub use error::CanaryError;
pub use harm::CanaryVerdict;
pub use histogram::{LatencyHistogram, NO_UPPER_END_NS};
pub use judgement::{
    AnalysisOutcome, FEWEST_MACHINES, Judgement, MachineChange, RollOut, UncountedMachine,
    judge_roll_out,
};
pub use metric::{CanaryMetric, MetricKind, WorseDirection};
pub use plan::{PlanRequest, PlannedRollOut, RollOutPlan, plan_roll_out};
pub use samples::{BucketUnit, parse_time_to_seconds};
pub use schedule::{InterimAnalysis, plan_analyses};
pub use series::{
    FEWEST_REQUESTS, FleetSeries, HourlyValue, MachineSeries, MetricChange, Uncounted, UnixHour,
};
