//! Clocks: who decides a frequency, and when the CPUs run at it.
//!
//! The kernel's rules are those of `wakepath-policies` (`schedutil`, `intel_pstate`, `amd-pstate`), and the processor's own
//! choice is that of `wakepath-hardware` (HWP, CPPC).
//!
//! - Setup: `setup` makes the figures of a cluster (`clocks::cluster`) of a machine's.
//! - State: `clocks` has the CPUs that share a clock, and who decides for them. `slots` are the slots of time in which
//!   hardware looks.
//! - Events: `events` accounts utilisation, asks for frequencies and changes them.
//! - Totals: the time and the changes of each clock, in `clocks`, and what `result` says of them.

pub(crate) mod clocks;
pub(crate) mod events;
pub(crate) mod result;
pub(crate) mod setup;
pub(crate) mod slots;
