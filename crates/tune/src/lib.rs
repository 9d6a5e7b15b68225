//! The best policy set for one's loads: a search over simulated runs.
//!
//! A [`DailyLoad`] is a workload with its hours per day; what is left of the day is rest. [`LoadCondition`](wakepath_results::LoadCondition)s limit
//! metrics, and an [`SearchObjective`] names what to minimise or maximise. [`Space`] has the choices: one [`Dimension`]
//! per mechanism. [`search_best_policy_set`] asks an [`Evaluator`] for runs and returns an [`SearchAnswer`];
//! [`Simulation`] is the evaluator over the simulator, [`DriveReplay`] that over recorded I/O,
//! and [`IdleReplay`] that over recorded idle periods. [`vary_assumed_figures`] says which assumed figures of the machine would
//! change the answer.
//!
//! [`decide_by_measurements`] decides between the best few sets of a search by runs on a real machine.
//!
//! The search is pure: no clock, no file. A [`LoadArgument`] is a load as people write it. The same space, seed and budget give the same answer for any number of threads.

mod answer;
mod assumption;
mod budget;
mod drive_replay;
mod effects;
mod epp_effect;
mod error;
mod evaluator;
mod figures;
mod finalists;
mod idle_replay;
mod influence;
mod judgement;
mod load;
mod load_argument;
mod measured;
mod missed_rates;
mod objective;
mod offered;
mod percentile;
mod prediction;
mod proposals;
mod range_study;
mod ranking;
mod recorded_search;
mod rest;
mod screening;
mod search;
mod sensitivity;
mod simulation;
mod space;
mod state;
mod varied_figure;

pub use answer::{
    AnswerOrigin, Contribution, Finalist, KeptCondition, LoadFigures, PredictedFigure,
    SearchAnswer, UNCHANGED,
};
pub use budget::Budget;
pub use drive_replay::DriveReplay;
pub use error::TuneError;
pub use evaluator::{Effort, Evaluator, LoadRuns, Trial, TrialOutcome};
pub use idle_replay::{IdleRecording, IdleReplay};
pub use load::{DailyLoad, leaves_hours_of_rest, rest_workload};
pub use load_argument::LoadArgument;
pub use measured::{
    MeasuredSet, compare_prediction_with_measurement, decide_by_measurements,
    request_with_measured_metrics,
};
pub use objective::SearchObjective;
pub use rest::add_power_at_rest_to_answer;
pub use search::{SearchRequest, find_least_budget, search_best_policy_set};
pub use sensitivity::vary_assumed_figures;
pub use simulation::Simulation;
pub use space::{Dimension, SetChoice, Space};
pub use varied_figure::{AnswerAtRangeEnd, Sensitivity, VariedFigure};
