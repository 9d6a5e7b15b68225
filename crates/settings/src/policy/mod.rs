//! Turns policy sets into settings of a machine.

mod apst;
mod frequency;
mod idle;
mod latency;
mod profile;
mod target;

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Policy;
use wakepath_system::System;
use wakepath_system::setting::NO_LATENCY_LIMIT_US;
use wakepath_units::Nanoseconds;

use crate::{SettingsError, WantedSetting};
use profile::expand_profile;
pub use target::Targets;
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
    let expanded = expand_profile(system, set)?;
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
        want_settings_of_policy(&mut builder)?;
    }
    Ok(wanted)
}

/// Asks for the settings of one policy.
fn want_settings_of_policy(builder: &mut SettingsBuilder<'_>) -> Result<(), SettingsError> {
    match builder.spec.typed_policy() {
            Policy::Idle(policy) => builder.want_idle_governor(policy),
            Policy::IdleStates(limit) => builder.want_idle_states(limit),
            Policy::CpuLatency(latency) => builder.want_cpu_latency(latency),
            Policy::Frequency(_) => builder.want_frequency_governor(),
            Policy::FrequencyLimits(limits) => builder.want_frequency_limits(*limits),
            Policy::Epp(epp) => builder.want_preference(&epp.to_string()),
            Policy::HwpBoost(on) => builder.want_hwp_boost(*on),
            Policy::C1Demotion(on) => builder.want_everywhere("c1-demotion", switch_as_digit(*on)),
            Policy::WakeupLatency(limit) => {
                let us = limit.map_or(NO_LATENCY_LIMIT_US, Nanoseconds::as_micros);
                builder.want_everywhere("wakeup-latency", &us.to_string())
            }
            Policy::Apst(settings) => builder.want_apst(settings),
            Policy::DriveLatency(tolerance) => {
                builder.want_everywhere("drive-latency", &tolerance.to_string())
            }
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
