//! The tables of a published experiment, cell by cell, and the expectations about them.

mod decision;
mod expectation;
mod study;
mod table;
pub(super) mod tables;
mod value;

pub(super) use study::plan_tables_and_expectations;
pub use tables::{Expectation, Pair, PublishedCell, Quantity, Table, ValueRecipe};
pub use value::{Published, format_decimal};
