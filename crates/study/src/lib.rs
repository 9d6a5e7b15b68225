//! Runs that answer a question.
//!
//! - [`mod@file`] reads study files, [`plan`] finds what they name, [`run`] runs them.
//! - [`timeline`] watches a simulated run, [`recorder`] writes it as a recording.
//! - [`builtin`] has studies that need no file.
//! - [`reproduce`] simulates published experiments and sets the result beside the published numbers.

pub mod builtin;
pub mod file;
pub mod plan;
pub mod recorder;
pub mod reproduce;
pub mod run;
pub mod timeline;
