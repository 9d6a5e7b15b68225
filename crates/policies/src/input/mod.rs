//! What single policies are asked, as text: state tables, governor call logs, answers to them and event lists, all CSV.
//!
//! Readers take any [`std::io::Read`] with a name for messages, and keep a single line in memory. A wrong line, or an
//! input without lines, is a [`ReadError`] with position, fault and expectation. A first line with field names is
//! skipped.

mod calls;
mod decisions;
pub mod events;
mod rows;
mod states;

pub use calls::{Call, CallReader};
pub use decisions::read_decisions;
pub use rows::ReadError;
pub use states::read_states;
