//! The best policy set for one's loads: a search over simulated runs.
//!
//! A [`Load`] is a workload with its hours per day; what is left of the day is rest. [`LoadCondition`]s limit metrics, and an
//! [`Objective`] names what to minimise or maximise. [`Space`] has the choices: one [`Dimension`] per mechanism. [`search`]
//! asks an [`Evaluator`] for runs and returns an [`Answer`]; [`Simulation`] is the evaluator over the simulator.
//!
//! The search is pure: no clock, no file. The same space, seed and budget give the same answer for any number of threads.

mod answer;
mod budget;
mod condition;
mod error;
mod evaluator;
mod figures;
mod finalists;
mod load;
mod objective;
mod search;
mod simulation;
mod space;
mod state;

pub use answer::{Answer, Contribution, Finalist, KeptCondition, LoadFigures};
pub use budget::Budget;
pub use condition::LoadCondition;
pub use error::TuneError;
pub use evaluator::{Effort, Evaluator, LoadRuns, Outcome, Trial};
pub use load::{Load, rest_workload};
pub use objective::Objective;
pub use search::{SearchRequest, search};
pub use simulation::Simulation;
pub use space::{Candidate, Dimension, Space};
