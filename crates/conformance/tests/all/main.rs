//! The integration tests of this crate in one binary, which is linked once.

mod conformance;
mod kernel_style;
mod leases;
mod pelt;
mod recorded;
mod simulated;
