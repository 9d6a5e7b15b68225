//! CPUs that the kernel's command line keeps free: `isolcpus=` and `nohz_full=`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Figure;

/// What a system call costs more on a CPU of `nohz_full`: 340 ns at 2.2 GHz.
const SYSCALL_KCYCLES: f64 = 0.75;
const SYSCALL_WHY: &str = "wake-ups by clock_nanosleep() took 2270 ns in place of 1930 on a Xeon Gold 6338N with Linux 6.12.78 PREEMPT_RT (linux-kernel, 26 March 2026). \
     The clock is taken to be its base clock of 2.2 GHz";

/// CPUs that are not for everybody. The others are for housekeeping.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Isolation {
    /// CPUs reserved for tasks bound there (`isolcpus=`). Absent: none.
    #[serde(default)]
    pub isolcpus: Vec<usize>,
    /// CPUs without a tick while a single task runs (`nohz_full=`). Housekeeping work moves elsewhere. Absent: none.
    #[serde(default)]
    pub nohz_full: Vec<usize>,
    /// Drive interrupts avoid `isolcpus` where the queue has another CPU (`isolcpus=managed_irq`). Absent: `false`.
    #[serde(default)]
    pub managed_irq: bool,
    /// Extra cost of a system call on `nohz_full` CPUs, on the biggest core: every kernel entry and exit accounts the
    /// task's time (`CONFIG_VIRT_CPU_ACCOUNTING_GEN`, context tracking). Absent: 0.75, assumed.
    #[schemars(extend("unit" = "1000 cycles", "maximum" = 1e3))]
    #[serde(default = "default_syscall_cost")]
    pub syscall_kcycles: Figure,
}

fn default_syscall_cost() -> Figure {
    Figure::assumed(SYSCALL_KCYCLES, SYSCALL_WHY)
}

impl Default for Isolation {
    fn default() -> Self {
        Self {
            isolcpus: Vec::new(),
            nohz_full: Vec::new(),
            managed_irq: false,
            syscall_kcycles: default_syscall_cost(),
        }
    }
}

impl Isolation {
    /// Whether no CPU is isolated.
    pub fn isolates_no_cpu(&self) -> bool {
        self.isolcpus.is_empty() && self.nohz_full.is_empty()
    }

    /// Whether a CPU does the work of others, such as timers and kernel workers.
    pub fn is_housekeeping(&self, cpu: usize) -> bool {
        !self.isolcpus.contains(&cpu) && !self.nohz_full.contains(&cpu)
    }

    /// The first fault of the isolation on a machine with `cpus` CPUs: key and explanation.
    pub(super) fn first_fault(&self, cpus: usize) -> Option<(&'static str, String)> {
        for (key, list) in [("isolcpus", &self.isolcpus), ("nohz_full", &self.nohz_full)] {
            if let Some(cpu) = list.iter().find(|cpu| **cpu >= cpus) {
                return Some((key, format!("CPU {cpu} of a machine with {cpus} CPUs")));
            }
        }
        let none = !(0..cpus).any(|cpu| self.is_housekeeping(cpu));
        let message = "at least one CPU is left for everything else";
        none.then(|| ("nohz_full", message.to_owned()))
    }
}
