//! What all eBPF programs need: compilation in build scripts (the module `build`), loading on the running kernel,
//! explained failures, and the programs' cost.

#[cfg(feature = "build")]
pub mod build;
#[cfg(all(feature = "load", target_os = "linux"))]
mod load;
#[cfg(all(feature = "load", target_os = "linux"))]
mod meter;

#[cfg(all(feature = "load", target_os = "linux"))]
pub use load::{LoadError, error_with_causes, explain_load_failure, read_kernel_btf};
#[cfg(all(feature = "load", target_os = "linux"))]
pub use meter::{Meter, Overhead};
