//! Idle states that differ between core types: overrides per cluster.
//!
//! The kernel has a driver, and so a table, for each CPU (`CONFIG_CPU_IDLE_MULTIPLE_DRIVERS`). Device trees declare
//! states for each kind of core, ACPI for each CPU. The driver intel_idle has one table for both kinds of a hybrid
//! processor, whose cores may take different times to leave them.

use std::borrow::Cow;

use super::{Cluster, ClusterIdleState, Machine, MachineError, MachineIdleState};
use crate::idle::{IdleState, IdleStates, IdleStatesError};

impl Machine {
    /// The machine's idle states as declared to a governor, without overrides per core type
    /// ([`Self::declared_idle_states_on_cluster`]).
    ///
    /// # Errors
    /// The states form no valid table; impossible on a checked machine.
    pub fn common_declared_idle_states(&self) -> Result<IdleStates, IdleStatesError> {
        to_declared_idle_states(&self.idle_state)
    }

    /// Switches idle states off, as writing 1 to their `disable` files in sysfs does on every CPU:
    /// governors see them, and do not use them.
    ///
    /// # Errors
    /// No state has this name, or none would remain.
    pub fn disable_idle_states_everywhere(&mut self, names: &[&str]) -> Result<(), MachineError> {
        self.check_states_can_be_disabled(&self.cluster, names)?;
        for state in &mut self.idle_state {
            state.disabled |= names.contains(&state.name.as_str());
        }
        Ok(())
    }

    /// The idle states of a cluster's CPUs, shallowest first: as many as the machine has, under the same names.
    pub fn idle_states_on_cluster(&self, cluster: &Cluster) -> Cow<'_, [MachineIdleState]> {
        if cluster.idle_state.is_empty() {
            return Cow::Borrowed(&self.idle_state);
        }
        let mut states = self.idle_state.clone();
        for own in &cluster.idle_state {
            if let Some(state) = states.iter_mut().find(|s| s.name == own.name) {
                own.override_machine_state(state);
            }
        }
        Cow::Owned(states)
    }

    /// The idle states of a cluster's CPUs as the driver declares them to a governor.
    ///
    /// # Errors
    /// The states form no valid table; impossible on a checked machine.
    pub fn declared_idle_states_on_cluster(
        &self,
        cluster: &Cluster,
    ) -> Result<IdleStates, IdleStatesError> {
        to_declared_idle_states(&self.idle_states_on_cluster(cluster))
    }

    /// Switches idle states off on the CPUs of one cluster only, as [`Self::disable_idle_states_everywhere`] does on all.
    ///
    /// # Errors
    /// There is no such cluster or state, or none would be left.
    pub fn disable_idle_states_on_cluster(
        &mut self,
        cluster: &str,
        names: &[&str],
    ) -> Result<(), MachineError> {
        let Some(index) = self.cluster.iter().position(|c| c.name == cluster) else {
            let message = format!("no cluster is called '{cluster}'");
            return Err(MachineError::invalid_value_error(
                &self.name, "cluster", message,
            ));
        };
        self.check_states_can_be_disabled(&self.cluster[index..=index], names)?;
        let own = &mut self.cluster[index].idle_state;
        for name in names {
            match own.iter_mut().find(|state| state.name == *name) {
                Some(state) => state.disabled = true,
                None => own.push(ClusterIdleState {
                    disabled: true,
                    ..ClusterIdleState::without_overrides(name, "switched off")
                }),
            }
        }
        Ok(())
    }

    /// Checks that the idle states exist, and that each cluster keeps an enabled state without them.
    pub(super) fn check_states_can_be_disabled(
        &self,
        clusters: &[Cluster],
        names: &[&str],
    ) -> Result<(), MachineError> {
        for name in names {
            if !self.idle_state.iter().any(|s| s.name == *name) {
                let known: Vec<&str> = self.idle_state.iter().map(|s| s.name.as_str()).collect();
                let message = format!(
                    "no state '{name}' to disable; the states are {}",
                    known.join(", ")
                );
                return Err(MachineError::invalid_value_error(
                    &self.name,
                    "idle_state",
                    message,
                ));
            }
        }
        for cluster in clusters {
            let states = self.idle_states_on_cluster(cluster);
            let mut states_left = states.iter().filter(|s| !s.disabled);
            if states_left.all(|s| names.contains(&s.name.as_str())) {
                let message = "at least one state has to stay enabled";
                return Err(MachineError::invalid_value_error(
                    &self.name,
                    "idle_state",
                    message,
                ));
            }
        }
        Ok(())
    }

    /// The deepest idle state that a CPU may be in: enabled and within its latency request, or else the shallowest
    /// enabled one.
    pub fn deepest_allowed_state_index(&self, cpu: usize) -> Option<usize> {
        let limit = self.smallest_latency_request(cpu);
        let states = self.idle_states_on_cluster(self.cluster_of(cpu)?);
        let deepest = states.iter().rposition(|s| {
            !s.disabled && limit.is_none_or(|limit| s.exit_latency_us.micros_to_time() <= limit)
        });
        deepest.or_else(|| states.iter().position(|s| !s.disabled))
    }
}

/// A table of idle states as a governor sees it.
pub(super) fn to_declared_idle_states(
    states: &[MachineIdleState],
) -> Result<IdleStates, IdleStatesError> {
    let declared = states.iter().map(|s| IdleState {
        name: s.name.clone(),
        exit_latency: s.exit_latency_us.micros_to_time(),
        target_residency: s.target_residency_us.micros_to_time(),
        polling: s.polling,
        disabled: s.disabled,
    });
    IdleStates::new(declared.collect())
}

#[cfg(test)]
mod tests {
    use crate::Machine;
    use crate::machine::ClusterIdleState;
    use crate::machine::Figure;

    fn with(change: impl FnOnce(&mut ClusterIdleState)) -> Machine {
        let mut machine = Machine::find("rk3399").unwrap();
        let mut own = ClusterIdleState::without_overrides("cpu-sleep", "a device tree");
        change(&mut own);
        machine.cluster[1].idle_state.push(own);
        machine
    }

    #[test]
    fn a_cluster_has_what_it_says_and_the_rest_of_the_machine() {
        let machine = with(|own| own.exit_latency_us = Figure::covered_by_table_source(300.0));
        machine.check().unwrap();
        let mut states = machine.idle_state.iter();
        let sleep = states.position(|s| s.name == "cpu-sleep").unwrap();
        let little = &machine.idle_states_on_cluster(&machine.cluster[0])[sleep];
        let big = &machine.idle_states_on_cluster(&machine.cluster[1])[sleep];
        assert!((big.exit_latency_us.value - 300.0).abs() < 1e-9);
        assert_eq!(
            little.exit_latency_us,
            machine.idle_state[sleep].exit_latency_us
        );
        assert_eq!(big.power_mw, machine.idle_state[sleep].power_mw);
        let figures = machine.figures();
        let key = "cluster.big.idle_state.cpu-sleep.exit_latency_us";
        let found = figures.iter().find(|figure| figure.key == key).unwrap();
        assert_eq!(found.origin_in_words(), "a device tree");
        assert_eq!(machine.cluster_of(3).unwrap().name, "little");
        assert_eq!(machine.cluster_of(4).unwrap().name, "big");
        assert!(machine.cluster_of(6).is_none());
    }

    #[test]
    fn it_is_read_and_written() {
        let machine = with(|own| {
            own.disabled = true;
            own.true_exit_us = Figure::covered_by_table_source(12.5);
        });
        let text = machine.to_toml().unwrap();
        assert!(text.contains("[[cluster.idle_state]]"), "{text}");
        let again = Machine::parse(&text, "written").unwrap();
        let cluster = &again.cluster[1];
        assert!(cluster.idle_state[0].disabled);
        let own = again.idle_states_on_cluster(cluster);
        assert!(own.iter().any(|s| s.name == "cpu-sleep" && s.disabled));
        assert_eq!(again.to_toml().unwrap(), text);
    }

    #[test]
    fn what_cannot_be_names_the_cluster() {
        fn fault(machine: &Machine) -> String {
            machine.check().unwrap_err().to_string()
        }
        let message = fault(&with(|own| own.name = "C99".to_owned()));
        assert!(
            message.contains("cluster.big.idle_state")
                && message.contains("no state 'C99', but WFI, cpu-sleep"),
            "{message}"
        );
        // A target residency above the next state's.
        let message = fault(&with(|own| {
            own.target_residency_us = Figure::covered_by_table_source(1e6);
        }));
        assert!(message.contains("target_residency_us"), "{message}");
        let mut twice = with(|_| {});
        let again = twice.cluster[1].idle_state[0].clone();
        twice.cluster[1].idle_state.push(again);
        assert!(fault(&twice).contains("appears twice"));
        let mut none = with(|own| own.disabled = true);
        for state in &none.idle_state[..] {
            if state.name != "cpu-sleep" {
                let mut own = ClusterIdleState::without_overrides(&state.name, "a test");
                own.disabled = true;
                none.cluster[1].idle_state.push(own);
            }
        }
        assert!(fault(&none).contains("stay enabled"));
        // Switching a state off where the others are off on one cluster only is told, too.
        let mut machine = with(|own| own.disabled = true);
        let others: Vec<String> = (machine.idle_state.iter())
            .map(|s| s.name.clone())
            .filter(|name| name != "cpu-sleep")
            .collect();
        let others: Vec<&str> = others.iter().map(String::as_str).collect();
        assert!(machine.disable_idle_states_everywhere(&others).is_err());
        assert!(
            machine
                .disable_idle_states_on_cluster("big", &others)
                .is_err()
        );
        assert!(
            machine
                .disable_idle_states_on_cluster("bi", &["WFI"])
                .is_err()
        );
        assert!(machine.idle_state.iter().all(|s| !s.disabled));
    }
}
