//! Runs that answer a question.
//!
//! - [`mod@file`] reads study files, [`plan`] finds the named parts, [`run`] runs them.
//! - [`timeline`] watches a simulated run, [`recorder`] writes it as a recording.
//! - [`builtin`] has studies without a file, [`recipes`] the built-in workloads that stand for programs.
//! - [`reproduce`] simulates published experiments beside their published numbers.

pub mod builtin;
pub mod file;
pub mod plan;
pub mod recipes;
pub mod recorder;
pub mod reproduce;
pub mod run;
pub mod timeline;
