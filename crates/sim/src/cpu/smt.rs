//! Hardware threads sharing a core slow each other down.
//!
//! A thread has the core alone while all other threads sleep. While another thread polls, the thread loses a share;
//! while all are busy, all have `smt_speedup` cores together. Only machines with these figures pay for any of this.

use crate::core::basics::{CpuId, FULL_SHARE};
use crate::core::observer::Observer;
use crate::cpu::phase::{CoreUse, Mode};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Notes that a CPU does something else than before, which may change the speed of its core's other threads.
    #[inline(always)]
    pub(crate) fn update_core_use(&mut self, cpu: CpuId) {
        if self.setup.cpu.threads_slow_each_other() {
            self.update_shares_on_core(cpu);
        }
    }

    fn update_shares_on_core(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let core_use = match c.phase.mode {
            Mode::Idle if c.idle.polling_until.is_some() => CoreUse::Polls,
            Mode::Idle | Mode::Waking => CoreUse::None,
            Mode::Interrupt | Mode::Task => CoreUse::Busy,
        };
        if std::mem::replace(&mut c.phase.core_use, core_use) == core_use {
            return;
        }
        for other in self
            .setup
            .topology
            .cpus_on_same_core(self.cpus[cpu].cluster, cpu)
        {
            if other != cpu {
                self.update_core_speed_share(other);
            }
        }
    }

    /// A CPU's present share in its core's speed, with [`FULL_SHARE`] as all.
    fn core_speed_share(&self, cpu: CpuId) -> u64 {
        let Some(shares) = &self.setup.cpu.core_shares else {
            return FULL_SHARE;
        };
        let cluster = self.cpus[cpu].cluster;
        let shares = shares[cluster];
        let mut polls = false;
        let core = self.setup.topology.cpus_on_same_core(cluster, cpu);
        for other in core.filter(|other| *other != cpu) {
            match self.cpus[other].phase.core_use {
                CoreUse::Busy => return shares.all_busy,
                CoreUse::Polls => polls = true,
                CoreUse::None => {}
            }
        }
        if polls {
            shares.another_polls
        } else {
            FULL_SHARE
        }
    }

    /// Updates a CPU's share in its core's speed, and cuts running work so that each part has one speed.
    fn update_core_speed_share(&mut self, cpu: CpuId) {
        let share = self.core_speed_share(cpu);
        if self.cpus[cpu].phase.share == share {
            return;
        }
        let mode = self.cpus[cpu].phase.mode;
        if !matches!(mode, Mode::Task | Mode::Interrupt) {
            self.cpus[cpu].phase.share = share;
            return;
        }
        let left = self.cpus[cpu].phase.work - self.work_done_so_far(cpu);
        self.account_work_until_now(cpu);
        self.cpus[cpu].phase.share = share;
        self.cpus[cpu].phase.work = left;
        let length = self.time_for_remaining_work(cpu, left);
        self.begin_phase(cpu, mode, length);
    }
}
