//! What the scheduler does to a waking task.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// What the scheduler does to a waking task.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Scheduler {
    /// Cluster on which tasks start: `{ cluster = "big", assumed = "why" }`.
    pub home: Home,
    /// Time until another CPU sees an inter-processor interrupt.
    #[schemars(extend("unit" = "us"))]
    pub ipi_us: Figure,
    /// Work per tick, on the biggest core.
    #[schemars(extend("unit" = "1000 cycles"))]
    pub tick_kcycles: Figure,
    /// Work to refill caches after a migration. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub migration_kcycles: Figure,
    /// Work to refill caches that other tasks used since the task last ran on the core. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub switch_kcycles: Figure,
    /// How much later than asked for a sleep ends (`/proc/PID/timerslack_ns`): fio's, or that of an rt-app thread. fio
    /// then spins for pauses that are too short to sleep. Absent: 0; sleeps end in time.
    #[schemars(extend("unit" = "us", "see" = "background/model.md#how-fio-sleeps"))]
    #[serde(default)]
    pub timer_slack_us: Figure,
    /// Work of schedutil's thread (`sugov:0`) per frequency change. Absent: fast switching, without a thread.
    #[schemars(extend("unit" = "1000 cycles", "see" = "background/frequency.md#where-the-driver-does-not-switch-fast"))]
    #[serde(default)]
    pub sugov_kcycles: Figure,
    /// Work of the interrupt that wakes that thread (`irq_work`). Absent: 0.
    #[schemars(extend("unit" = "1000 cycles"))]
    #[serde(default)]
    pub sugov_interrupt_kcycles: Figure,
    /// Work of the menu governor for each further pass over the last idle intervals in search of a repeated one. Idle
    /// time is measured only afterwards, so equal periods may differ by a microsecond. Absent: 0.
    #[schemars(extend("unit" = "1000 cycles", "see" = "background/model.md#idle-loop"))]
    #[serde(default)]
    pub menu_round_kcycles: Figure,
}

/// Where tasks start.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Home {
    /// Name of a cluster.
    pub cluster: String,
    /// Why tasks start there.
    pub assumed: String,
}
