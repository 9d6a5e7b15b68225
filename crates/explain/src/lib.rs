//! Where the time of recorded block requests went: events in, parts out.
//!
//! [`Collector`] follows each request through the events of a recording and cuts its time into measured parts. The exit
//! from an idle state hides before the first event of the interrupted CPU. [`split`] estimates its cost from requests that
//! are alike but for the state. [`explain`] does both for each kind of request.

mod report;
mod requests;
mod split;

pub use report::{Explanation, MeanParts, RequestKind, explain};
pub use requests::{Collector, Coverage, MAX_REQUESTS, MetState, TracedRequest};
pub use split::{ExitCost, ExitEstimate, Split, Unseparated, split};
