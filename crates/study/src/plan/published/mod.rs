//! An experiment's tables, cell by cell, and expectations about them.

mod decision;
mod expectation;
mod study;
mod table;
pub(super) mod tables;
mod value;

pub(super) use study::all;
pub use tables::{Expectation, Pair, PublishedCell, Quantity, Table, ValueRecipe};
pub use value::{Published, format_decimal};
