//! Idle states by exit latency or name: a state's index means something else on every machine.

use wakepath_policies::idle::limit::{IdleStatesLimit, StateLimit};
use wakepath_system::{At, StateInfo, find_state};
use wakepath_units::Nanoseconds;

use super::Target;
use crate::SettingsError;

impl Target<'_> {
    /// Switches idle states on and off, on every selected CPU. A ceiling switches states above it off and
    /// those up to it on; states that the driver has off by default stay off. The shallowest one always
    /// stays on, unless it is named.
    pub(super) fn idle_states(&mut self, limit: &IdleStatesLimit) -> Result<(), SettingsError> {
        self.check_names(&limit.disable)?;
        let mut found = false;
        for cpu in self.cpus() {
            let states = self.system.idle_states(cpu);
            let named = limit.disable.iter();
            let named: Vec<&StateInfo> =
                named.filter_map(|n| find_state(&states, n).ok()).collect();
            let most = self.ceiling(&states, limit.ceiling.as_ref())?;
            if let Some(most) = most {
                self.warn_of_polling(&states, most);
            }
            for (place, state) in states.iter().enumerate() {
                found = true;
                let above = |most: Nanoseconds| place > 0 && state.latency() > most;
                let by_default = place > 0 && state.off_by_default;
                let off = if named.contains(&state) {
                    Some(true)
                } else {
                    most.map(|most| above(most) || by_default)
                };
                if let Some(off) = off {
                    let at = At::IdleState {
                        cpu,
                        state: state.index,
                    };
                    self.want("idle-state-off", at, if off { "1" } else { "0" });
                }
            }
        }
        if found {
            Ok(())
        } else {
            Err(self.error("this machine has no idle states (no cpuidle driver)"))
        }
    }

    /// Each of these states is on a selected CPU: CPUs of two kinds have different ones.
    fn check_names(&self, names: &[String]) -> Result<(), SettingsError> {
        let cpus = self.cpus().into_iter();
        let states: Vec<_> = cpus.map(|cpu| self.system.idle_states(cpu)).collect();
        for name in names {
            let found = states.iter().map(|states| find_state(states, name));
            let found = found.reduce(Result::or);
            if let Some(Err(why)) = found {
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
