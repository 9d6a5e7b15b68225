//! The guard of a policy set: conditions on latency, judged window by window.
//!
//! A [`Guard`] gets the latencies of each second. A [window](WINDOW_SLICES) ends after ten seconds with requests and 1,000
//! requests; seconds without requests count for nothing, so that quiet time is no verdict. A window breaks a condition if the
//! whole 95 % interval breaks the condition. After [`BREAKING_WINDOWS`] such windows in a row the set is to be put back. A
//! figure that is exactly at its limit breaks a window by chance in at most 2.5 % of cases, and so three in a row in at most
//! 0.002 %. What happens without the set then tells whether the set or the load was the cause.

mod condition;
mod state;
mod window;

pub use condition::GuardCondition;
pub use state::{
    BREAKING_WINDOWS, BrokenCondition, Guard, GuardEvent, PutBackOutcome, WindowReport,
    WindowVerdict,
};
pub use window::{DriveLatencies, LatencySlice, WINDOW_REQUESTS, WINDOW_SLICES};

/// Meaning and limits of a guard's figures, for people, at the start.
pub const WHAT_IS_WATCHED: &str = "the guard watches the block layer: a request's time from its bio until its task runs again, \
     without background requests; fio's latency includes the system call, too";
