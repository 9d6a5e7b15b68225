//! An idle state as declared to the kernel and as it really is, and what differs on one cluster.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// How far an idle state reaches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Scope {
    /// The CPU alone.
    #[default]
    Cpu,
    /// The whole cluster, once all CPUs ask for the state; until then a CPU waits in its deepest state with scope
    /// `cpu`.
    Cluster,
}

/// An idle state as declared to the kernel and as it really is.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MachineIdleState {
    /// Name that the driver gives the state.
    pub name: String,
    /// Reach of the state: `cpu`, or `cluster`, which all CPUs of the cluster have to ask for. Absent: `cpu`.
    #[serde(default)]
    pub scope: Scope,
    /// The CPU spins in the state. Absent: `false`.
    #[serde(default)]
    pub polling: bool,
    /// The CPU watches its need-resched flag (MONITOR and MWAIT): another CPU wakes it by a store, without an
    /// inter-processor interrupt. Absent: `false`.
    #[serde(default)]
    pub mwait: bool,
    /// Switched off, as by writing 1 to its `disable` file in sysfs. Absent: `false`.
    #[serde(default)]
    pub disabled: bool,
    /// Declared exit latency (an upper bound).
    #[schemars(extend("unit" = "us"))]
    pub exit_latency_us: Figure,
    /// Declared target residency.
    #[schemars(extend("unit" = "us"))]
    pub target_residency_us: Figure,
    /// Time until the state is reached; a wake-up meanwhile waits for its end. Absent: 0.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub true_entry_us: Figure,
    /// Mean time that leaving the state really takes.
    #[schemars(extend("unit" = "us"))]
    pub true_exit_us: Figure,
    /// Standard deviation of the exit time over the mean. Absent: 0.
    #[schemars(extend("maximum" = 10.0))]
    #[serde(default)]
    pub exit_spread: Figure,
    /// Time in the state after which it is deeper than asked for: a virtual machine's host sleeps by itself, and some
    /// hardware promotes. Absent: never.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub deeper_after_us: Figure,
    /// Mean time that leaving the state takes after `deeper_after_us`, at least `true_exit_us`. Absent: as before.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub deeper_exit_us: Figure,
    /// Extra work after a wake-up with cold caches and predictors, on the biggest core. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub cold_start_kcycles: Figure,
    /// Power of a CPU in the state; of `scope = "cluster"`, while the cluster is down. Absent: 0; a polling state costs
    /// as much as running.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub power_mw: Figure,
    /// Power of a CPU that enters or leaves the state, at least `power_mw`. Absent: `static_mw`, at least `power_mw`
    /// (assumed).
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub transition_mw: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

/// Override for an idle state on one cluster; the name refers to the machine's `[[idle_state]]`.
#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
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
    /// Time in the state after which it is deeper than asked for. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub deeper_after_us: Figure,
    /// Mean time that leaving the state takes after `deeper_after_us`. Absent: as the machine's state has it.
    #[schemars(extend("unit" = "us"))]
    #[serde(default)]
    pub deeper_exit_us: Figure,
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

/// Gives tables of an idle state access to the figures that wake-ups are measured for.
macro_rules! lend_wake_figures {
    ($($table:ty),+) => {$(
        impl $table {
            /// Figures that wake-ups are measured for, each with its key.
            pub fn wake_figures_mut(&mut self) -> [(&'static str, &mut Figure); 4] {
                [
                    ("true_entry_us", &mut self.true_entry_us),
                    ("true_exit_us", &mut self.true_exit_us),
                    ("deeper_after_us", &mut self.deeper_after_us),
                    ("deeper_exit_us", &mut self.deeper_exit_us),
                ]
            }
        }
    )+};
}

lend_wake_figures!(MachineIdleState, ClusterIdleState);

impl MachineIdleState {
    /// Mean exit time after the longest pauses, in us.
    pub fn longest_exit_us(&self) -> &Figure {
        if self.deeper_exit_us.is_given() {
            &self.deeper_exit_us
        } else {
            &self.true_exit_us
        }
    }
}

impl ClusterIdleState {
    /// An override for the idle state `name` that overrides nothing yet.
    pub fn without_overrides(name: &str, source: &str) -> Self {
        Self {
            name: name.to_owned(),
            source: source.to_owned(),
            ..Self::default()
        }
    }

    /// Replaces the figures of the machine's state that this override gives.
    pub(super) fn override_machine_state(&self, state: &mut MachineIdleState) {
        state.disabled |= self.disabled;
        for (figure, own) in [
            (&mut state.exit_latency_us, &self.exit_latency_us),
            (&mut state.target_residency_us, &self.target_residency_us),
            (&mut state.true_entry_us, &self.true_entry_us),
            (&mut state.true_exit_us, &self.true_exit_us),
            (&mut state.exit_spread, &self.exit_spread),
            (&mut state.deeper_after_us, &self.deeper_after_us),
            (&mut state.deeper_exit_us, &self.deeper_exit_us),
            (&mut state.cold_start_kcycles, &self.cold_start_kcycles),
            (&mut state.power_mw, &self.power_mw),
            (&mut state.transition_mw, &self.transition_mw),
        ] {
            figure.replace_if_given(own);
        }
    }
}
