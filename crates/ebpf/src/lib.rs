//! What loaders of eBPF programs share: the kernel's types, its refusals in words, and what programs cost.

#[cfg(target_os = "linux")]
mod load;
#[cfg(target_os = "linux")]
mod meter;

#[cfg(target_os = "linux")]
pub use load::{LoadError, cause, chain, kernel_types, refusal};
#[cfg(target_os = "linux")]
pub use meter::{Meter, Overhead};
