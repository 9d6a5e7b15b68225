//! What single policies are asked, as text: state tables, governor call logs, answers to them and event lists, all CSV.
//!
//! Readers take any [`std::io::Read`] and the name under which to report it, go through it once and keep one line in
//! memory. A wrong line is a [`ReadError`], which says where it is, what is wrong and what was expected; so is an
//! input without any line. A first line with the names of the fields is skipped.

mod calls;
mod decisions;
pub mod events;
mod rows;
mod states;

pub use calls::{Call, CallReader};
pub use decisions::read_decisions;
pub use rows::ReadError;
pub use states::read_states;
