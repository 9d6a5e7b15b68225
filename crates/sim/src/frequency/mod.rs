//! Clocks: deciders for a frequency, and when the CPUs run at the frequency.
//!
//! The kernel's rules are in `wakepath-policies` (`schedutil`, `intel_pstate`, `amd-pstate`), and the processor's own
//! choice is in `wakepath-hardware` (HWP, CPPC).
//!
//! - Setup: `setup` makes a cluster's figures (`clocks::cluster`) from a machine's.
//! - State: `clocks` has the CPUs on a clock, and their decider. `slots` are the time slots in which hardware looks.
//! - Events: `events` accounts utilisation, asks for frequencies and changes them.
//! - Totals: time and changes by clock, in `clocks`; `result` has a run's figures.

pub(crate) mod clocks;
pub(crate) mod events;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod slots;
