//! Kernel version that a policy's name without version means.

use wakepath_units::KernelVersion;

/// Kernel version meant by a policy's name without version. Fixed to 6.12, the kernel in Debian 13,
/// so that old commands repeat their results. `--kernel`, or a machine with a known kernel,
/// overrides.
pub const BARE: KernelVersion = KernelVersion::V6_12;
