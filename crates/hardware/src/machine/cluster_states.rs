//! Idle states that differ between core types: overrides per cluster.
//!
//! The kernel has a driver, and so a table, for each CPU (`CONFIG_CPU_IDLE_MULTIPLE_DRIVERS`). Device trees declare
//! states for each kind of core, ACPI for each CPU. The driver intel_idle has one table for both kinds of a hybrid
//! processor, whose cores may take different times to leave them.

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::validate::{Fault, idle_table};
use super::{Cluster, Figure, Machine, MachineError, MachineIdleState};
use crate::idle::{IdleState, IdleStates, IdleStatesError};

/// Override for an idle state on one cluster; the name refers to the machine's `[[idle_state]]`.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClusterIdleState {
    /// Name of the overridden state.
    pub name: String,
    /// The cluster's CPUs lack the state or do not use it. Absent: `false`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub disabled: bool,
    /// Declared exit latency (an upper bound). Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub exit_latency_us: Figure,
    /// Declared target residency. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub target_residency_us: Figure,
    /// Time until the state is reached; a wake-up meanwhile waits for its end. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub true_entry_us: Figure,
    /// Mean time that leaving the state really takes. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub true_exit_us: Figure,
    /// Standard deviation of the exit time over the mean. Absent: as the machine's state has it.
    #[schemars(extend("maximum" = 10.0))]
    #[serde(default)]
    pub exit_spread: Figure,
    /// Extra work after a wake-up with cold caches and predictors, on the biggest core. Absent: as the machine's state
    /// has it.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub cold_start_kcycles: Figure,
    /// Power of a CPU in the state; of `scope = "cluster"`, while the cluster is down. Absent: as the machine's state
    /// has it.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub power_mw: Figure,
    /// Power of a CPU that enters or leaves the state, at least `power_mw`. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub transition_mw: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

impl ClusterIdleState {
    /// A state that differs in nothing yet.
    pub fn named(name: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            disabled: false,
            exit_latency_us: Figure::default(),
            target_residency_us: Figure::default(),
            true_entry_us: Figure::default(),
            true_exit_us: Figure::default(),
            exit_spread: Figure::default(),
            cold_start_kcycles: Figure::default(),
            power_mw: Figure::default(),
            transition_mw: Figure::default(),
            source: source.to_owned(),
        }
    }

    /// Overrides the figures of `state`.
    fn apply(&self, state: &mut MachineIdleState) {
        state.disabled |= self.disabled;
        for (figure, own) in [
            (&mut state.exit_latency_us, &self.exit_latency_us),
            (&mut state.target_residency_us, &self.target_residency_us),
            (&mut state.true_entry_us, &self.true_entry_us),
            (&mut state.true_exit_us, &self.true_exit_us),
            (&mut state.exit_spread, &self.exit_spread),
            (&mut state.cold_start_kcycles, &self.cold_start_kcycles),
            (&mut state.power_mw, &self.power_mw),
            (&mut state.transition_mw, &self.transition_mw),
        ] {
            if own.is_given() {
                figure.clone_from(own);
            }
        }
    }
}

impl Machine {
    /// The idle states of a cluster's CPUs, shallowest first: as many as the machine has, under the same names.
    pub fn idle_states_of(&self, cluster: &Cluster) -> Cow<'_, [MachineIdleState]> {
        if cluster.idle_state.is_empty() {
            return Cow::Borrowed(&self.idle_state);
        }
        let mut states = self.idle_state.clone();
        for own in &cluster.idle_state {
            if let Some(state) = states.iter_mut().find(|s| s.name == own.name) {
                own.apply(state);
            }
        }
        Cow::Owned(states)
    }

    /// The idle states of a cluster's CPUs as the driver declares them to a governor.
    ///
    /// # Errors
    /// The states form no valid table; impossible on a checked machine.
    pub fn declared_idle_states_of(
        &self,
        cluster: &Cluster,
    ) -> Result<IdleStates, IdleStatesError> {
        declared(&self.idle_states_of(cluster))
    }

    /// Switches idle states off on the CPUs of one cluster only, as [`Self::disable_idle_states`] does on all.
    ///
    /// # Errors
    /// There is no such cluster or state, or none would be left.
    pub fn disable_idle_states_on(
        &mut self,
        cluster: &str,
        names: &[&str],
    ) -> Result<(), MachineError> {
        let Some(index) = self.cluster.iter().position(|c| c.name == cluster) else {
            return Err(self.wrong("cluster", format!("no cluster is called '{cluster}'")));
        };
        self.can_disable(&self.cluster[index..=index], names)?;
        let own = &mut self.cluster[index].idle_state;
        for name in names {
            match own.iter_mut().find(|state| state.name == *name) {
                Some(state) => state.disabled = true,
                None => own.push(ClusterIdleState {
                    disabled: true,
                    ..ClusterIdleState::named(name, "switched off")
                }),
            }
        }
        Ok(())
    }

    /// Checks that the states exist, and that each cluster keeps an enabled state without them.
    pub(super) fn can_disable(
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
                return Err(self.wrong("idle_state", message));
            }
        }
        let off = |s: &MachineIdleState| s.disabled || names.contains(&s.name.as_str());
        let all_off = |cluster: &Cluster| self.idle_states_of(cluster).iter().all(off);
        if clusters.iter().any(all_off) {
            let message = "at least one state has to stay enabled";
            return Err(self.wrong("idle_state", message.to_owned()));
        }
        Ok(())
    }

    fn wrong(&self, key: &str, message: String) -> MachineError {
        MachineError::Invalid {
            origin: self.name.clone(),
            key: key.to_owned(),
            message,
        }
    }

    /// The cluster that a CPU belongs to.
    pub fn cluster_of(&self, cpu: usize) -> Option<&Cluster> {
        let mut end = 0;
        self.cluster.iter().find(|cluster| {
            end += cluster.cpus;
            cpu < end
        })
    }
}

/// A table as a governor sees it.
pub(super) fn declared(states: &[MachineIdleState]) -> Result<IdleStates, IdleStatesError> {
    let declared = states.iter().map(|s| IdleState {
        name: s.name.clone(),
        exit_latency: s.exit_latency_us.micros(),
        target_residency: s.target_residency_us.micros(),
        polling: s.polling,
        disabled: s.disabled,
    });
    IdleStates::new(declared.collect())
}

/// Whether the states of each cluster can be.
pub(super) fn check(machine: &Machine) -> Result<(), Fault> {
    for cluster in &machine.cluster {
        let key = format!("cluster.{}.idle_state", cluster.name);
        let mut seen: Vec<&str> = Vec::new();
        for own in &cluster.idle_state {
            if !machine.idle_state.iter().any(|s| s.name == own.name) {
                let names: Vec<&str> = machine.idle_state.iter().map(|s| &*s.name).collect();
                let known = names.join(", ");
                let message = format!("the machine has no state '{}', but {known}", own.name);
                return Err((key, message));
            }
            if seen.contains(&own.name.as_str()) {
                return Err((key, format!("'{}' appears twice", own.name)));
            }
            seen.push(&own.name);
        }
        if !cluster.idle_state.is_empty() {
            idle_table(&key, &machine.idle_states_of(cluster))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::Machine;
    use crate::machine::Figure;

    use super::ClusterIdleState;

    fn with(change: impl FnOnce(&mut ClusterIdleState)) -> Machine {
        let mut machine = Machine::find("rk3399").unwrap();
        let mut own = ClusterIdleState::named("cpu-sleep", "a device tree");
        change(&mut own);
        machine.cluster[1].idle_state.push(own);
        machine
    }

    #[test]
    fn a_cluster_has_what_it_says_and_the_rest_of_the_machine() {
        let machine = with(|own| own.exit_latency_us = Figure::plain(300.0));
        machine.check().unwrap();
        let index = |name: &str| machine.idle_state.iter().position(|s| s.name == name);
        let sleep = index("cpu-sleep").unwrap();
        let little = &machine.idle_states_of(&machine.cluster[0])[sleep];
        let big = &machine.idle_states_of(&machine.cluster[1])[sleep];
        assert!((big.exit_latency_us.value - 300.0).abs() < 1e-9);
        assert_eq!(
            little.exit_latency_us,
            machine.idle_state[sleep].exit_latency_us
        );
        assert_eq!(big.power_mw, machine.idle_state[sleep].power_mw);
        let figures = machine.figures();
        let key = "cluster.big.idle_state.cpu-sleep.exit_latency_us";
        let found = figures.iter().find(|figure| figure.key == key).unwrap();
        assert_eq!(found.reason(), "a device tree");
        assert_eq!(machine.cluster_of(3).unwrap().name, "little");
        assert_eq!(machine.cluster_of(4).unwrap().name, "big");
        assert!(machine.cluster_of(6).is_none());
    }

    #[test]
    fn it_is_read_and_written() {
        let machine = with(|own| {
            own.disabled = true;
            own.true_exit_us = Figure::plain(12.5);
        });
        let text = machine.to_toml().unwrap();
        assert!(text.contains("[[cluster.idle_state]]"), "{text}");
        let again = Machine::parse(&text, "written").unwrap();
        let cluster = &again.cluster[1];
        assert!(cluster.idle_state[0].disabled);
        let own = again.idle_states_of(cluster);
        assert!(own.iter().any(|s| s.name == "cpu-sleep" && s.disabled));
        assert_eq!(again.to_toml().unwrap(), text);
    }

    #[test]
    fn what_cannot_be_names_the_cluster() {
        let fault = |machine: &Machine| machine.check().unwrap_err().to_string();
        let message = fault(&with(|own| own.name = "C99".to_owned()));
        assert!(
            message.contains("cluster.big.idle_state")
                && message.contains("no state 'C99', but WFI, cpu-sleep"),
            "{message}"
        );
        // A target residency above the next state's.
        let message = fault(&with(|own| own.target_residency_us = Figure::plain(1e6)));
        assert!(message.contains("target residency"), "{message}");
        let mut twice = with(|_| {});
        let again = twice.cluster[1].idle_state[0].clone();
        twice.cluster[1].idle_state.push(again);
        assert!(fault(&twice).contains("appears twice"));
        let mut none = with(|own| own.disabled = true);
        for state in &none.idle_state[..] {
            if state.name != "cpu-sleep" {
                let mut own = ClusterIdleState::named(&state.name, "a test");
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
        assert!(machine.disable_idle_states(&others).is_err());
        assert!(machine.disable_idle_states_on("big", &others).is_err());
        assert!(machine.disable_idle_states_on("bi", &["WFI"]).is_err());
        assert!(machine.idle_state.iter().all(|s| !s.disabled));
    }
}
