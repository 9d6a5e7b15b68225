//! Where the time of recorded block requests went: events in, parts out.
//!
//! [`Collector`] follows each request through the events of a recording, from its bio to the task that waited for it, and
//! cuts its time into measured parts. The exit from an idle state hides before the first event of the interrupted CPU.
//! [`split_drive_from_exits`] estimates its cost from requests that are alike but for the state. [`explain_requests`] does both
//! for each kind of request.

mod activity;
mod bootstrap;
mod bounded_exits;
mod clock;
mod collector;
mod comparison;
mod cpu;
mod cpu_interrupts;
mod estimate;
mod exits_met;
mod flushes;
mod goes_with;
mod groups;
mod help;
mod in_flight;
mod lateness;
mod least_squares;
mod measured;
mod order;
mod period;
mod placement;
pub mod probes;
mod quantiles;
mod queueing;
mod replay_exits;
mod replayed;
mod report;
mod requests;
mod residency;
mod siblings;
mod slowest;
mod split;
mod strata;
mod traced;
mod variation;
mod waits;
mod wakeups;

pub use bounded_exits::BoundedExits;
pub use collector::Collector;
pub use estimate::{Disagreement, ExitEstimate};
pub use goes_with::GoesWith;
pub use help::{Help, LEASE_NS, Remedy};
pub use lateness::TimerLateness;
pub use measured::{CpuExits, compare_estimates};
pub use placement::TaskPlacement;
pub use probes::ProbeCost;
pub use quantiles::QuantileCost;
pub use queueing::QueuedParts;
pub use replay_exits::{ReplayExits, most_that_exits_cost_ns};
pub use replayed::{REPLAY_BLOCKS, ReplayedBlock, ReplayedHelp, ReplayedSaving};
pub use report::{
    ClockRange, Explanation, HopParts, InterruptParts, KindGroup, MeanParts, RequestKind,
    Submitter, SubmitterParts, WaitParts, assemble_explanation, explain_request_kinds,
    explain_requests,
};
pub use requests::{
    Collected, Coverage, Hop, MAX_REQUESTS, MetState, NeighbourState, Notification,
    RemoteCompletion, TaskWake, TracedRequest,
};
pub use residency::{ReachedShare, RequestedShare, ResidencyShares};
pub use slowest::SlowestRequests;
pub use split::{ExitCost, Split, SumWithGap, Unseparated, split_drive_from_exits};
pub use traced::{LatencyRange, MeanTimes, MetClass, RequestTimes, TracedLatencies};
pub use waits::TaskWaits;
