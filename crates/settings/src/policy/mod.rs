//! Turns policy sets into settings of a machine.

mod apst;
mod frequency;
mod idle;
mod interrupt;
mod latency;
mod profile;
mod target;

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Policy;
use wakepath_system::System;
use wakepath_system::setting::NO_LATENCY_LIMIT_US;
use wakepath_units::Nanoseconds;

use crate::kernel_command_line::PCIE_ASPM;
use crate::{SettingsError, WantedSetting};
use profile::replace_profile_by_offered_policies;
pub use target::Targets;
pub(crate) use target::check_cpus_online;
use target::{SettingsBuilder, check_targets_exist, switch_as_digit};

/// Turns a policy set into settings of this machine. Other policies stay in force. A note names parts of a profile that the
/// machine lacks.
///
/// # Errors
/// The machine cannot follow a policy; the message says why.
pub fn resolve_to_settings(
    system: &System,
    set: &PolicySet,
    targets: &Targets,
) -> Result<WantedSetting, SettingsError> {
    check_targets_exist(system, targets)?;
    let expanded = replace_profile_by_offered_policies(system, set)?;
    let mut wanted = WantedSetting {
        notes: expanded.notes,
        ..WantedSetting::default()
    };
    for spec in expanded.set.policies() {
        let mut builder = SettingsBuilder {
            system,
            targets,
            set: &expanded.set,
            spec,
            wanted: &mut wanted,
        };
        add_wanted_settings_of_policy(&mut builder)?;
    }
    Ok(wanted)
}

/// Asks for the settings of one policy.
fn add_wanted_settings_of_policy(builder: &mut SettingsBuilder<'_>) -> Result<(), SettingsError> {
    match builder.spec.typed_policy() {
            Policy::Idle(policy) => builder.add_wanted_idle_governor(policy),
            Policy::IdleStates(limit) => builder.add_wanted_idle_state_switches(limit),
            Policy::CpuLatency(latency) => builder.add_wanted_cpu_latency_limits(latency),
            Policy::Frequency(_) => builder.add_wanted_frequency_governor(),
            Policy::FrequencyLimits(limits) => builder.add_wanted_frequency_limits(*limits),
            Policy::Epp(epp) => builder.add_wanted_energy_preference(&epp.to_string()),
            Policy::HwpBoost(on) => builder.add_wanted_hwp_boost(*on),
            Policy::C1Demotion(on) => builder.add_wanted_value_at_selected_places("c1-demotion", switch_as_digit(*on)),
            Policy::WakeupLatency(limit) => {
                let us = limit.map_or(NO_LATENCY_LIMIT_US, Nanoseconds::as_micros);
                builder.add_wanted_value_at_selected_places("wakeup-latency", &us.to_string())
            }
            Policy::Apst(_) => builder.add_wanted_apst_tables(),
            Policy::DriveLatency(tolerance) => {
                builder.add_wanted_value_at_selected_places("drive-latency", &tolerance.to_string())
            }
            Policy::Turbo(on) => builder.add_wanted_turbo(*on),
            Policy::Aspm(policy) => {
                // `pcie_aspm=force` would not do instead: it may lock machines up (`kernel-parameters.txt`).
                if PCIE_ASPM.is_on_command_line(builder.system, "off") {
                    return Err(builder.policy_error(
                        "pcie_aspm=off on the kernel command line leaves ASPM as the firmware set it; take that word out for the next boot",
                    ));
                }
                builder.add_wanted_value_at_selected_places("aspm", policy)
            }
            Policy::ReadAhead(kib) => {
                builder.add_wanted_value_at_selected_places("read-ahead", &kib.to_string())
            }
            Policy::RqAffinity(value) => {
                builder.add_wanted_value_at_selected_places("rq-affinity", &value.to_string())
            }
            Policy::IrqAffinity(cpus) => builder.add_wanted_interrupt_affinity(cpus),
            Policy::Psd(_) => Err(builder.policy_error(
                "a lease follows each burst of I/O, so a process has to run: `wakepath daemon` does that. \
                 A limit that stays is cpu-latency[limit=20us,cpus=all]",
            )),
            Policy::Poll(_) => Err(builder.policy_error(
                "stock kernels take the polling limit from the idle states; switching a state off moves it: \
                 idle-states[ceiling=...]",
            )),
            Policy::IoUring(_) => Err(builder.policy_error(
                "exists only in the simulator: on a real machine each program asks io_uring for it",
            )),
            Policy::KernelConfig(_) => Err(builder.policy_error(
                "exists only in the simulator: on a real machine it takes another kernel",
            )),
        }
}
