//! Holds wakepath's policies against the kernel's own C.
//!
//! The kernel's files come from Debian's source packages ([`source`]). They are compiled at test time, whole or cut
//! to single functions ([`subject`], [`cut`], [`program`]). They run over generated inputs ([`generate`]) side by side with ours
//! ([`checks`], [`compare`]). Not one decision may differ. [`recorded`] are decisions of releases whose source is no
//! longer to be had. [`log`] has the kernel answer a call log from elsewhere. [`pelt`] sets the scheduler's signals
//! beside those of its own code. [`leases`] compares the kernel module and the daemon's eBPF program with the rule of
//! leases. [`mutants`] shows that the comparison can fail, [`coverage`] that the inputs get everywhere, and
//! [`mod@bench`] compares the speed.

pub mod bench;
pub mod checks;
pub mod compare;
pub mod coverage;
pub mod cut;
pub mod generate;
pub mod leases;
pub mod log;
pub mod mutants;
pub mod pelt;
pub mod program;
mod recipe;
pub mod record;
pub mod recorded;
pub mod report;
pub mod shrink;
pub mod source;
pub mod subject;
