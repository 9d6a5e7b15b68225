//! The integration tests of this crate in one binary, which is linked once.

mod against_scipy;
mod choice;
mod coverage;
