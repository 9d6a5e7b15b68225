//! Hardware threads sharing a core slow each other down.
//!
//! A thread has the core alone while all other threads sleep. While another thread polls, the thread loses a share;
//! while all are busy, all have `smt_speedup` cores together. Only machines with these figures pay for any of this.

use crate::core::basics::{CpuId, FULL_SHARE};
use crate::core::observer::Observer;
use crate::cpu::phase::{CoreUse, Mode};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// A CPU does something else than before.
    #[inline(always)]
    pub(crate) fn core_use_changed(&mut self, cpu: CpuId) {
        if self.setup.cpu.shares_cores() {
            self.settle_core_use(cpu);
        }
    }

    fn settle_core_use(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        let core_use = match c.phase.mode {
            Mode::Idle if c.idle.polling_until.is_some() => CoreUse::Polls,
            Mode::Idle | Mode::Waking => CoreUse::None,
            Mode::Interrupt | Mode::Task => CoreUse::Busy,
        };
        if std::mem::replace(&mut c.phase.core_use, core_use) == core_use {
            return;
        }
        for other in self.setup.topology.core(self.cpus[cpu].cluster, cpu) {
            if other != cpu {
                self.set_share(other);
            }
        }
    }

    /// A CPU's present share in the core's speed.
    fn share_of(&self, cpu: CpuId) -> u64 {
        let Some(shares) = &self.setup.cpu.core_shares else {
            return FULL_SHARE;
        };
        let cluster = self.cpus[cpu].cluster;
        let shares = shares[cluster];
        let mut polls = false;
        let core = self.setup.topology.core(cluster, cpu);
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

    /// Cuts a CPU's work, so that each part has one speed.
    fn set_share(&mut self, cpu: CpuId) {
        let share = self.share_of(cpu);
        if self.cpus[cpu].phase.share == share {
            return;
        }
        let mode = self.cpus[cpu].phase.mode;
        if !matches!(mode, Mode::Task | Mode::Interrupt) {
            self.cpus[cpu].phase.share = share;
            return;
        }
        let left = self.cpus[cpu].phase.work - self.work_done(cpu);
        self.charge(cpu);
        self.cpus[cpu].phase.share = share;
        self.cpus[cpu].phase.work = left;
        let length = self.time_left(cpu, left);
        self.begin_phase(cpu, mode, length);
    }
}
