//! What all eBPF programs need: compilation in build scripts (the module `build`), loading on the running kernel,
//! explained failures, and the programs' cost.

#[cfg(feature = "build")]
pub mod build;
#[cfg(all(feature = "load", target_os = "linux"))]
mod load;
#[cfg(all(feature = "load", target_os = "linux"))]
mod meter;

#[cfg(all(feature = "load", target_os = "linux"))]
pub use load::{LoadError, error_with_causes, read_kernel_btf, explain_load_failure};
#[cfg(all(feature = "load", target_os = "linux"))]
pub use meter::{Meter, Overhead};
