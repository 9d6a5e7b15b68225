//! Every mechanism for policy sets, one file each: name, kernel versions, typed keys, kernel source, rule, and
//! resulting policy.
//!
//! Parsing, error messages, help, completions and the tables of the documentation are made from this.
//! To add one, write its file and name it in [`MECHANISMS`]; a test fails when a file is not named.

mod declaration;
pub mod key;
mod policy;

pub mod amd_pstate;
mod apst;
mod aspm;
mod c;
mod c1_demotion;
mod cpu_latency;
mod deepest;
mod drive_latency;
mod epp;
mod exec;
mod frequency;
mod haltpoll;
mod hwp_boost;
mod idle_states;
mod intel_pstate;
mod intel_pstate_hwp;
mod io_uring;
mod irq_affinity;
mod kernel_config;
mod ladder;
mod menu;
mod ondemand;
mod oracle;
mod performance;
mod poll;
mod powersave;
mod psd;
mod read_ahead;
mod rq_affinity;
mod schedutil;
mod shallowest;
mod teo;
mod turbo;
mod wakeup_latency;

use declaration::{EVERYWHERE, SIM_AND_MACHINE, build_program_policy};
pub(crate) use declaration::{GivenKey, GivenPolicy};
pub use declaration::{Mechanism, Place};
pub use policy::{Kind, Policy};

/// All mechanisms that a policy set can name, in listing order.
pub static MECHANISMS: &[&Mechanism] = &[
    &menu::MECHANISM,
    &teo::MECHANISM,
    &ladder::MECHANISM,
    &haltpoll::MECHANISM,
    &shallowest::MECHANISM,
    &deepest::MECHANISM,
    &oracle::MECHANISM,
    &c::MECHANISM,
    &exec::MECHANISM,
    &idle_states::MECHANISM,
    &cpu_latency::MECHANISM,
    &wakeup_latency::MECHANISM,
    &c1_demotion::MECHANISM,
    &poll::MECHANISM,
    &psd::MECHANISM,
    &schedutil::MECHANISM,
    &performance::MECHANISM,
    &powersave::MECHANISM,
    &ondemand::MECHANISM,
    &intel_pstate::MECHANISM,
    &intel_pstate_hwp::MECHANISM,
    &amd_pstate::MECHANISM,
    &frequency::MECHANISM,
    &turbo::MECHANISM,
    &epp::MECHANISM,
    &hwp_boost::MECHANISM,
    &apst::MECHANISM,
    &drive_latency::MECHANISM,
    &aspm::MECHANISM,
    &read_ahead::MECHANISM,
    &rq_affinity::MECHANISM,
    &irq_affinity::MECHANISM,
    &io_uring::MECHANISM,
    &kernel_config::MECHANISM,
];

/// Finds a mechanism by its name in policy sets.
pub fn find_mechanism(name: &str) -> Option<&'static Mechanism> {
    MECHANISMS.iter().copied().find(|m| m.name == name)
}

#[cfg(test)]
mod tests;
