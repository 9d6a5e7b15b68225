//! Turns as other mechanisms meet them: whether a CPU may act now, and when an exit from an idle state is over.

use crate::core::basics::{CpuId, NEVER, RequestId};
use crate::core::calendar::Slot;
use crate::core::context::Context;
use crate::core::observer::Observer;
use crate::emulator::state::{Turns, Waiting};

/// A machine's emulator, if the machine is emulated.
#[derive(Debug)]
pub(crate) struct Emulator {
    /// In a box, so that a real machine looks at one pointer.
    pub(super) turns: Option<Box<Turns>>,
}

impl Emulator {
    /// An emulator whose CPUs take turns; `None`: the machine is real.
    pub(crate) fn new(turns: Option<Turns>) -> Self {
        Self {
            turns: turns.map(Box::new),
        }
    }

    /// Whether the CPUs take turns.
    #[inline(always)]
    pub(crate) fn takes_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// Whether a CPU may look at interrupts now; otherwise the next turn does so.
    #[inline(always)]
    pub(crate) fn may_serve(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn(cpu, |waiting| &mut waiting.interrupted)
    }

    /// Whether a CPU may follow up a phase's end now; otherwise the next turn does so.
    #[inline(always)]
    pub(crate) fn may_end_phase(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn(cpu, |waiting| &mut waiting.phase_over)
    }

    /// Whether a CPU has the turn, or takes a free turn; otherwise `to_do` waits for the next turn.
    #[inline(never)]
    fn has_turn(&mut self, cpu: CpuId, to_do: fn(&mut Waiting) -> &mut bool) -> bool {
        self.turns.as_mut().is_none_or(|turns| {
            let may = turns.may_act(cpu);
            *to_do(&mut turns.waiting[cpu]) |= !may;
            may
        })
    }

    /// Phase length for a CPU that begins to leave an idle state now: others may have the turn during the first part.
    #[inline(always)]
    pub(crate) fn begin_exit(&mut self, cpu: CpuId, now: u64, latency: u64) -> u64 {
        match &mut self.turns {
            None => latency,
            Some(turns) => turns.begin_exit(cpu, now, latency) - now,
        }
    }

    /// When the last part of an exit from an idle state ends, if beginning only now.
    #[inline(always)]
    pub(crate) fn begin_last_part_of_exit(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
        (self.turns.as_mut()).and_then(|turns| turns.go_on_with_exit(cpu, now))
    }

    /// A timer on some CPU has expired, which ends the present turn.
    #[inline(always)]
    pub(crate) fn end_turn(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.deadline = true;
        }
    }

    /// Gives a request that ends at `end` to the drives.
    #[inline(always)]
    pub(crate) fn serve<O: Observer>(
        &mut self,
        context: &mut Context<'_, O>,
        end: u64,
        request: RequestId,
    ) {
        match &mut self.turns {
            None => context.serve(end, request),
            Some(turns) => {
                let noticed = end + context.random().missed(turns.player.setup.look);
                turns.player.submit(noticed, request);
            }
        }
    }

    /// Whether the player has halted, if there is a player.
    pub(crate) fn player_is_halted(&self) -> bool {
        (self.turns.as_ref()).is_some_and(|turns| turns.player_is_halted())
    }

    /// The player's wait is over. Returns a request if completed now.
    pub(crate) fn player_event(&mut self, now: u64) -> Option<RequestId> {
        let turns = self.turns.as_mut()?;
        if turns.player.works() {
            return turns.player.end_work(now);
        }
        if turns.player.next_event() <= now && turns.player.is_halted() {
            turns.deadline = true;
        }
        None
    }

    /// Schedules the player's next event, once no CPU wants the turn any more.
    pub(crate) fn schedule_player<O: Observer>(&mut self, context: &mut Context<'_, O>) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        turns.deadline = false;
        let at = turns.player.next_event();
        if at == NEVER || (at <= context.now() && !turns.player.works()) {
            context.cancel(Slot::Player);
        } else {
            context.reschedule(Slot::Player, at);
        }
    }
}
