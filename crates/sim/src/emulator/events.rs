//! How the turn goes from CPU to CPU on an emulated machine.
//!
//! One clock counts for all CPUs. The CPU with the turn works until idle, or until a timer expires. A CPU is idle when
//! halted, when polling, while its task spins with `pause`, or while leaving an idle state, except for the last part. A CPU
//! whose task spins without `pause` has a timer at equal intervals, whose interrupt pauses. No
//! other CPU begins anything meanwhile: interrupts, ends of exit latencies and work cut off wait for the turn. Only
//! emulated machines pay for any part of this.

use crate::core::basics::CpuId;
use crate::core::observer::Observer;
use crate::emulator::state::{Exit, Waiting};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Passes the turn to the next CPU that wants it, unless its holder keeps it. Returns that CPU with everything
    /// that waited for its turn.
    pub(crate) fn pass_turn_to_next_cpu(&mut self) -> Option<(CpuId, Waiting)> {
        let now = self.context.now();
        let cpus = self.cpus.len();
        loop {
            let holder = self.emulator.turns.as_ref()?.holder;
            let works = holder.is_some_and(|holder| self.holder_keeps_turn(holder));
            let turns = self.emulator.turns.as_mut()?;
            if let Some(holder) = holder {
                if works && !(turns.deadline && turns.others_wait(holder, now)) {
                    // Where nobody waits, a pause is over at once.
                    turns.spins.take_due_pause(holder);
                    return None;
                }
                // If a timer ends the turn, the next CPU finds no time left, and is passed over.
                turns.last = holder;
                turns.holder = None;
                if works {
                    turns.last = (holder + usize::from(holder < cpus)) % (cpus + 1);
                    if holder < cpus {
                        self.stop_work_until_next_turn(holder);
                    } else {
                        turns.player.cut_off_work(now);
                    }
                }
            }
            let turns = self.emulator.turns.as_mut()?;
            turns.deadline = false;
            let next = turns.next_holder(now)?;
            turns.holder = Some(next);
            if next < cpus {
                return Some((next, std::mem::take(&mut turns.waiting[next])));
            }
            turns.player.continue_with_turn(now);
        }
    }

    /// Whether the turn's holder, a CPU or the player, works or is in the last part of an exit, so that it keeps the turn.
    fn holder_keeps_turn(&self, holder: usize) -> bool {
        let Some(turns) = &self.emulator.turns else {
            return false;
        };
        match self.cpus.get(holder) {
            Some(cpu) => {
                (cpu.is_busy() && !self.task_spins_with_pauses(holder))
                    || turns.keeps_turn_for_exit(holder)
            }
            None => turns.player.is_working(),
        }
    }

    /// Whether a CPU's task spins in a loop with `pause`, at which others may have the turn.
    fn task_spins_with_pauses(&self, cpu: CpuId) -> bool {
        let c = &self.cpus[cpu];
        let task = c.run_queue.current_task().filter(|_| c.runs_task());
        task.is_some_and(|task| self.tasks[task].spins_with_pauses())
    }

    /// Stops a CPU's present work, or exit from an idle state, until its next turn.
    fn stop_work_until_next_turn(&mut self, cpu: CpuId) {
        if let Some(turns) = &mut self.emulator.turns
            && let Exit::Holds(end) = turns.exits[cpu]
        {
            // The end of an idle exit is a time on the clock, which goes on meanwhile.
            turns.exits[cpu] = Exit::Yields(end);
            turns.waiting[cpu].phase_over = true;
            self.cancel_phase_end(cpu);
            return;
        }
        self.stop_work(cpu);
        if let Some(turns) = &mut self.emulator.turns {
            turns.waiting[cpu].cut = true;
        }
    }
}
