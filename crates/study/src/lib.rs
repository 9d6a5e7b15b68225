//! Runs that answer a question.
//!
//! [`reproduce`] simulates published experiments and sets the result beside the published numbers.

pub mod reproduce;
