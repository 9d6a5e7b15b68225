//! The turn goes from CPU to CPU.
//!
//! One clock counts for all CPUs. The CPU with the turn works until idle, or until a timer expires. A CPU is idle when
//! halted, when polling, or while leaving an idle state, except for the last part. No other CPU begins anything
//! meanwhile: interrupts, ends of exit latencies and work cut off wait for the turn. Only emulated machines pay for
//! any part of this.

use crate::core::basics::CpuId;
use crate::core::observer::Observer;
use crate::emulator::state::{Exit, Waiting};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Passes the turn to the next CPU that wants the turn, unless a CPU keeps it. Returns the CPU with everything
    /// that waits.
    pub(crate) fn pass_turn(&mut self) -> Option<(CpuId, Waiting)> {
        let now = self.context.now();
        let cpus = self.cpus.len();
        loop {
            let turns = self.emulator.turns.as_mut()?;
            if let Some(holder) = turns.holder {
                let works = match self.cpus.get(holder) {
                    Some(cpu) => cpu.is_busy() || turns.holds(holder),
                    None => turns.player.works(),
                };
                if works && !(turns.deadline && turns.others_wait(holder, now)) {
                    return None;
                }
                // The one after whom a timer stops finds no time left, and is passed over.
                turns.last = holder;
                turns.holder = None;
                if works {
                    turns.last = (holder + usize::from(holder < cpus)) % (cpus + 1);
                    if holder < cpus {
                        self.cut_turn(holder);
                    } else {
                        turns.player.cut(now);
                    }
                }
            }
            let turns = self.emulator.turns.as_mut()?;
            turns.deadline = false;
            let next = turns.next(now)?;
            turns.holder = Some(next);
            if next < cpus {
                return Some((next, std::mem::take(&mut turns.waiting[next])));
            }
            turns.player.go_on(now);
        }
    }

    /// A CPU stops the present work, until the next turn.
    fn cut_turn(&mut self, cpu: CpuId) {
        if let Some(turns) = &mut self.emulator.turns
            && let Exit::Holds(end) = turns.exits[cpu]
        {
            // The CPU looks at the clock, which goes on.
            turns.exits[cpu] = Exit::Yields(end);
            turns.waiting[cpu].phase_over = true;
            self.cancel_phase(cpu);
            return;
        }
        self.stop_phase(cpu);
        if let Some(turns) = &mut self.emulator.turns {
            turns.waiting[cpu].cut = true;
        }
    }
}
