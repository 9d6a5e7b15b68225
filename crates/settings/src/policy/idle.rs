//! Settings for idle governors, and for idle states by exit latency or name: a state's index means something else on
//! every machine.

use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::idle::limit::{IdleStatesLimit, StateLimit};
use wakepath_system::capture::runs_under_hypervisor;
use wakepath_system::setting::SettingInfo;
use wakepath_system::{At, StateInfo, find_state_by_name};
use wakepath_units::Nanoseconds;

use super::target::{SettingsBuilder, switch_as_digit};
use crate::SettingsError;
use crate::kernel_command_line::{ACPI_IDLE_STATES, HALTPOLL_DRIVER, INTEL_IDLE_STATES};

/// A limit of idle states that leaves none out.
const ALL_STATES: &str = "9";

impl SettingsBuilder<'_> {
    /// Asks for the policy's idle governor with its parameters.
    pub(super) fn add_wanted_idle_governor(
        &mut self,
        policy: &IdlePolicy,
    ) -> Result<(), SettingsError> {
        let spec = self.spec;
        let name = spec.mechanism().name;
        if matches!(
            policy,
            IdlePolicy::Shallowest | IdlePolicy::Deepest | IdlePolicy::Oracle(_)
        ) {
            return Err(self.policy_error(
                "exists only in the simulator; a limit on a real machine is idle-states[ceiling=20us]",
            ));
        }
        if let IdlePolicy::Program(_) = policy {
            return Err(self.policy_error(
                "runs in sim, replay and study; on a real machine a governor is part of its kernel",
            ));
        }
        self.add_wanted_value("idle-governor", At::System, name);
        if !spec.is_bare() && spec.version() != Some(self.system.nearest_kernel_version()) {
            let running = self
                .system
                .read_kernel_release()
                .unwrap_or_else(|| "unknown".to_owned());
            self.add_note_once(format!(
                "{spec}: the running kernel ({running}) has its own version of {name}; that is the one that runs"
            ));
        }
        for (key, value) in spec.given_keys() {
            if let Some(info) = SettingInfo::find_haltpoll_parameter(key) {
                self.add_wanted_value(info.name, At::System, switch_as_module_parameter(value));
            }
        }
        Ok(())
    }

    /// Asks for idle states to be on or off, on every selected CPU. A ceiling switches states above it off and others
    /// on; states that are off by default stay off. The shallowest state stays on unless named.
    pub(super) fn add_wanted_idle_state_switches(
        &mut self,
        limit: &IdleStatesLimit,
    ) -> Result<(), SettingsError> {
        self.check_states_exist(&limit.disable)?;
        let mut found = false;
        for cpu in self.selected_cpus() {
            let states = self.system.read_idle_states(cpu);
            let names = limit.disable.iter();
            let named: Vec<&StateInfo> = names
                .filter_map(|name| find_state_by_name(&states, name).ok())
                .collect();
            let ceiling = self.resolve_latency_ceiling(&states, limit.ceiling.as_ref())?;
            if let Some(ceiling) = ceiling {
                self.note_if_only_polling_left(&states, ceiling);
            }
            for (place, state) in states.iter().enumerate() {
                found = true;
                let deeper = place > 0;
                let off = if named.contains(&state) {
                    Some(true)
                } else {
                    ceiling.map(|ceiling| {
                        deeper && (state.exit_latency() > ceiling || state.off_by_default)
                    })
                };
                if let Some(off) = off {
                    let at = At::IdleState {
                        cpu,
                        state: state.index,
                    };
                    self.add_wanted_value("idle-state-off", at, switch_as_digit(off));
                }
            }
        }
        if found {
            Ok(())
        } else {
            let advice = if runs_under_hypervisor(self.system.root()) {
                format!(
                    ". A guest has them if its kernel is told so: {}",
                    HALTPOLL_DRIVER.advise_value("Y")
                )
            } else {
                self.advise_to_lift_state_limit()
            };
            Err(self.policy_error(format!(
                "this machine has no idle states (no cpuidle driver){advice}"
            )))
        }
    }

    /// Checks that each named state exists on a selected CPU: core types have different states.
    fn check_states_exist(&self, names: &[String]) -> Result<(), SettingsError> {
        let states: Vec<_> = self
            .selected_cpus()
            .into_iter()
            .map(|cpu| self.system.read_idle_states(cpu))
            .collect();
        for name in names {
            let found = states.iter().map(|states| find_state_by_name(states, name));
            if let Some(Err(why)) = found.reduce(Result::or) {
                let advice = self.advise_to_lift_state_limit();
                return Err(self.policy_error(format!("{why}{advice}")));
            }
        }
        Ok(())
    }

    /// How the next boot gets idle states that words on the kernel command line leave out; empty without such words.
    fn advise_to_lift_state_limit(&self) -> String {
        let driver = "sys/devices/system/cpu/cpuidle/current_driver";
        let driver = self.system.root().read_text_if_readable(driver);
        // intel_idle heeds its own limit only (`drivers/idle/intel_idle.c`, Linux 6.12).
        let mut limits = vec![&INTEL_IDLE_STATES];
        if driver.as_deref() != Some("intel_idle") {
            limits.push(&ACPI_IDLE_STATES);
        }
        let advice = limits.into_iter().filter_map(|known| {
            let most = known.read_from_command_line(self.system);
            let most = most.filter(|most| most != ALL_STATES)?;
            Some(format!(
                ". {}={most} on the kernel command line leaves states out. Instead: {}",
                known.key,
                known.advise_value(ALL_STATES)
            ))
        });
        advice.collect()
    }

    /// The longest exit latency of states that stay on; `None`: no ceiling is set.
    fn resolve_latency_ceiling(
        &self,
        states: &[StateInfo],
        ceiling: Option<&StateLimit>,
    ) -> Result<Option<Nanoseconds>, SettingsError> {
        Ok(match ceiling {
            None => None,
            Some(StateLimit::None) => Some(Nanoseconds(u64::MAX)),
            Some(StateLimit::Latency(limit)) => Some(*limit),
            // A CPU without idle states has nothing to switch off.
            Some(StateLimit::State(_)) if states.is_empty() => None,
            Some(StateLimit::State(name)) => {
                let state = find_state_by_name(states, name).map_err(|why| {
                    let advice = self.advise_to_lift_state_limit();
                    self.policy_error(format!("{why}{advice}"))
                })?;
                Some(state.exit_latency())
            }
        })
    }

    fn note_if_only_polling_left(&mut self, states: &[StateInfo], most: Nanoseconds) {
        let left = states.iter().filter(|s| s.exit_latency() <= most).count();
        if left <= 1 && states.first().is_some_and(|s| s.polling) {
            self.add_note_once(format!(
                "no idle state but POLL has an exit latency of at most {} us: idle CPUs will spin at full power",
                most.as_micros()
            ));
        }
    }
}

/// A switch as a module's parameter: the kernel has Y and N where policies have on and off.
fn switch_as_module_parameter(value: &str) -> &str {
    match value {
        "on" => "Y",
        "off" => "N",
        number => number,
    }
}
