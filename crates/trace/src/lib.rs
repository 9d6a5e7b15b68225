//! Recorded inputs: recordings of whole machines, and the small tables and lists of single policies.
//!
//! - [`recording`]: what happened on a real machine, in wakepath's own Parquet format.
//! - [`import`]: making recordings of what other tools recorded.
//! - [`states`], [`calls`], [`events`]: state tables, governor call logs and event lists, all CSV
//!   without a header. Readers take any [`std::io::Read`] and the name under which to report it, go
//!   through it once and keep one line in memory. A line that is not as it should be is a
//!   [`ReadError`], which says where it is, what is wrong and what was expected; so is an input
//!   without any line.

pub mod calls;
pub mod events;
pub mod import;
pub mod recording;
mod rows;
pub mod states;

pub use calls::{Call, CallReader};
pub use rows::ReadError;
pub use states::read_states;
