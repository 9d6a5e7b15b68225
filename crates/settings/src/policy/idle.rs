//! Idle governors, and idle states by exit latency or name: a state's index means something else on every machine.

use wakepath_policies::idle::IdlePolicy;
use wakepath_policies::idle::limit::{IdleStatesLimit, StateLimit};
use wakepath_system::setting::SettingInfo;
use wakepath_system::{At, StateInfo, find_state};
use wakepath_units::Nanoseconds;

use super::target::{SettingsBuilder, binary};
use crate::SettingsError;

impl SettingsBuilder<'_> {
    /// Wants a governor with the given parameters.
    pub(super) fn want_idle_governor(&mut self, policy: &IdlePolicy) -> Result<(), SettingsError> {
        let spec = self.spec;
        let name = spec.mechanism().name;
        if matches!(
            policy,
            IdlePolicy::Shallowest | IdlePolicy::Deepest | IdlePolicy::Oracle(_)
        ) {
            return Err(self.error(
                "exists only in the simulator; a limit on a real machine is idle-states[ceiling=20us]",
            ));
        }
        if let IdlePolicy::Program(_) = policy {
            return Err(self.error(
                "runs in sim, replay and study; on a real machine a governor is part of its kernel",
            ));
        }
        self.want("idle-governor", At::System, name);
        if !spec.is_bare() && spec.version() != Some(self.system.kernel_version()) {
            let running = self
                .system
                .kernel_release()
                .unwrap_or_else(|| "unknown".to_owned());
            self.note(format!(
                "{spec}: the running kernel ({running}) has its own version of {name}; that is the one that runs"
            ));
        }
        for (key, value) in spec.given_keys() {
            if let Some(info) = SettingInfo::of_haltpoll(key) {
                self.want(info.name, At::System, module_parameter(value));
            }
        }
        Ok(())
    }

    /// Switches idle states on and off, on every selected CPU. A ceiling switches states above it off and
    /// others on; states that are off by default stay off. The shallowest state stays on unless named.
    pub(super) fn want_idle_states(
        &mut self,
        limit: &IdleStatesLimit,
    ) -> Result<(), SettingsError> {
        self.check_names(&limit.disable)?;
        let mut found = false;
        for cpu in self.cpus() {
            let states = self.system.idle_states(cpu);
            let names = limit.disable.iter();
            let named: Vec<&StateInfo> = names
                .filter_map(|name| find_state(&states, name).ok())
                .collect();
            let ceiling = self.ceiling(&states, limit.ceiling.as_ref())?;
            if let Some(ceiling) = ceiling {
                self.warn_of_polling(&states, ceiling);
            }
            for (place, state) in states.iter().enumerate() {
                found = true;
                let deeper = place > 0;
                let off = if named.contains(&state) {
                    Some(true)
                } else {
                    ceiling.map(|ceiling| {
                        deeper && (state.latency() > ceiling || state.off_by_default)
                    })
                };
                if let Some(off) = off {
                    let at = At::IdleState {
                        cpu,
                        state: state.index,
                    };
                    self.want("idle-state-off", at, binary(off));
                }
            }
        }
        if found {
            Ok(())
        } else {
            Err(self.error("this machine has no idle states (no cpuidle driver)"))
        }
    }

    /// Checks that each named state exists on a selected CPU: core types have different states.
    fn check_names(&self, names: &[String]) -> Result<(), SettingsError> {
        let states: Vec<_> = self
            .cpus()
            .into_iter()
            .map(|cpu| self.system.idle_states(cpu))
            .collect();
        for name in names {
            let found = states.iter().map(|states| find_state(states, name));
            if let Some(Err(why)) = found.reduce(Result::or) {
                return Err(self.error(why));
            }
        }
        Ok(())
    }

    /// The longest exit latency that stays on; `None` leaves states as they are.
    fn ceiling(
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
                let state = find_state(states, name).map_err(|why| self.error(why))?;
                Some(state.latency())
            }
        })
    }

    fn warn_of_polling(&mut self, states: &[StateInfo], most: Nanoseconds) {
        let left = states.iter().filter(|s| s.latency() <= most).count();
        if left <= 1 && states.first().is_some_and(|s| s.polling) {
            self.note(format!(
                "no idle state but POLL has an exit latency of at most {} us: idle CPUs will spin at full power",
                most.as_micros()
            ));
        }
    }
}

/// A value of a module's parameter: the kernel has Y and N where policies have on and off.
fn module_parameter(value: &str) -> &str {
    match value {
        "on" => "Y",
        "off" => "N",
        number => number,
    }
}
