//! A study with all named parts found: machines, workloads, policies, and the list with runs.

mod block_trace;
mod build;
mod cell;
mod duration;
mod grid;
mod machine;
mod names;
mod planned;
mod policy;
mod provenance;
pub mod published;
mod question;
mod reading;
mod recorded_requests;
mod recording;
mod replay;
mod requested_rates;
mod seconds;
mod stored;
mod workload;

pub use block_trace::load_block_trace;
pub use cell::Cell;
pub use duration::longest_simulated_time;
pub use machine::{PlannedMachine, host_name};
pub use planned::Plan;
pub use policy::{PlannedPolicy, reason_against_replay};
pub use provenance::Provenance;
pub use published::{Expectation, Table};
pub use reading::Reading;
pub use recording::PlannedRecording;
pub(crate) use recording::hash_file;
pub use replay::{RECORDED, ReplayRequest};
pub use requested_rates::requested_rates;
pub use workload::{PlannedWorkload, Task};
