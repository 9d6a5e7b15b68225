//! Idle states that belong to a core: the core sleeps as its thread in the shallowest state does.
//!
//! While a thread runs, polls or wakes up, its core is awake, and sleeping threads of the core only halt: these are in the shallowest
//! state that is no polling. Only clusters with `threads_sleep_together` pay for any of this.

use crate::core::basics::CpuId;
use crate::core::observer::Observer;
use crate::cpu::phase::Mode;
use crate::cpu::state::Cpu;
use crate::engine::Engine;

/// What the other threads of a core let a thread sleep in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CoreLimit {
    /// Index of the deepest idle state possible.
    pub(super) state: usize,
    /// Time in ns since when the limit has held.
    pub(super) since: u64,
}

impl<O: Observer> Engine<'_, O> {
    /// The limit by the core's other threads; `None` where each thread sleeps for itself.
    #[inline(always)]
    pub(super) fn limit_by_other_threads(&self, cpu: CpuId) -> Option<CoreLimit> {
        let together = &self.setup.cpu.threads_sleep_together;
        if !together.get(self.cpus[cpu].cluster).is_some_and(|so| *so) {
            return None;
        }
        self.find_limit_of_core(cpu)
    }

    fn find_limit_of_core(&self, cpu: CpuId) -> Option<CoreLimit> {
        let topology = &self.setup.topology;
        let core = topology.cpus_on_same_core(self.cpus[cpu].cluster, cpu);
        let others = core.filter(|other| *other != cpu);
        let limits = others.map(|other| self.cpus[other].limit_for_other_threads());
        // The core goes down with the thread that falls asleep last.
        limits.reduce(|one, other| CoreLimit {
            state: one.state.min(other.state),
            since: one.since.max(other.since),
        })
    }

    /// Accounts sleep of a core's threads until now. From now on these are in the state that the core allows.
    #[inline(always)]
    pub(super) fn update_sleep_of_core(&mut self, cpu: CpuId) {
        if !self.setup.cpu.threads_sleep_together.is_empty() {
            let cluster = self.cpus[cpu].cluster;
            for thread in self.setup.topology.cpus_on_same_core(cluster, cpu) {
                if let Some(limit) = self.limit_by_other_threads(thread) {
                    let now = self.context.now();
                    self.cpus[thread].limit_sleep_from(now, limit);
                }
            }
        }
    }
}

impl Cpu<'_> {
    fn limit_for_other_threads(&self) -> CoreLimit {
        let is_asleep = self.phase.mode == Mode::Idle && self.idle.polling_until.is_none();
        if is_asleep {
            CoreLimit {
                state: self.power.asked_for,
                since: self.idle.since,
            }
        } else {
            CoreLimit {
                state: self.idle.table.halt_state(),
                since: 0,
            }
        }
    }

    /// Accounts a sleeping thread's time until now, and puts the thread into the state that its core reaches.
    fn limit_sleep_from(&mut self, now: u64, limit: CoreLimit) {
        if self.power.powered_since.is_none() {
            self.account_sleep_until(now);
            self.power.asleep_in = self.power.asked_for.min(limit.state);
        }
    }
}
