//! What all eBPF programs share: how build scripts compile them (the module `build`), how they are loaded on the running kernel, its
//! refusals in words, and what the programs cost.

#[cfg(feature = "build")]
pub mod build;
#[cfg(all(feature = "load", target_os = "linux"))]
mod load;
#[cfg(all(feature = "load", target_os = "linux"))]
mod meter;

#[cfg(all(feature = "load", target_os = "linux"))]
pub use load::{LoadError, cause, chain, kernel_types, refusal};
#[cfg(all(feature = "load", target_os = "linux"))]
pub use meter::{Meter, Overhead};
