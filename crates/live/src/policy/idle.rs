//! Idle states by a latency ceiling: a state's index means something else on every machine.

use super::Target;
use super::names::Ceiling;
use crate::topology::StateInfo;
use crate::{At, LiveError};

impl Target<'_> {
    /// Switches states above the ceiling off and those below it on, on every selected CPU. States that
    /// the driver has off by default stay off, and the shallowest one always stays on.
    pub(super) fn idle_states(&mut self, ceiling: &Ceiling) -> Result<(), LiveError> {
        let mut found = false;
        for cpu in self.cpus() {
            let states = self.system.idle_states(cpu);
            let most = match ceiling {
                Ceiling::None => u64::MAX,
                Ceiling::Latency(us) => *us,
                Ceiling::State(name) => self.latency_of(&states, name)?,
            };
            let deepest = states.iter().filter(|s| s.latency_us <= most).count();
            if deepest <= 1 && states.first().is_some_and(|s| s.polling) {
                self.note(format!(
                    "no idle state but POLL has an exit latency of at most {most} us: idle CPUs will spin at full power"
                ));
            }
            for (place, state) in states.iter().enumerate() {
                found = true;
                let off = place > 0 && (state.latency_us > most || state.off_by_default);
                let at = At::IdleState {
                    cpu,
                    state: state.index,
                };
                self.want("idle-state-off", at, if off { "1" } else { "0" });
            }
        }
        if found {
            Ok(())
        } else {
            Err(self.error("this machine has no idle states (no cpuidle driver)"))
        }
    }

    fn latency_of(&self, states: &[StateInfo], name: &str) -> Result<u64, LiveError> {
        let state = states.iter().find(|s| s.name.eq_ignore_ascii_case(name));
        state.map(|s| s.latency_us).ok_or_else(|| {
            let known: Vec<String> = states
                .iter()
                .map(|s| format!("{} ({} us)", s.name, s.latency_us))
                .collect();
            self.error(format!(
                "no idle state '{name}'; this machine has {}",
                known.join(", ")
            ))
        })
    }
}
