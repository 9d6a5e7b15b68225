//! What turns mean for other mechanisms: whether a CPU may act now, and when an exit from an idle state is over.

use crate::core::basics::{CpuId, NEVER, RequestId};
use crate::core::calendar::Slot;
use crate::core::context::Context;
use crate::core::observer::Observer;
use crate::emulator::state::{Turns, Waiting};

/// A machine's emulator, if the machine is emulated.
#[derive(Debug)]
pub(crate) struct Emulator {
    /// The turns of an emulated machine; `None` on a real machine, which then looks at one pointer only.
    pub(super) turns: Option<Box<Turns>>,
}

impl Emulator {
    /// An emulator whose CPUs take turns; `None`: the machine is real.
    pub(crate) fn new(turns: Option<Turns>) -> Self {
        Self {
            turns: turns.map(Box::new),
        }
    }

    /// Whether the machine's CPUs take turns.
    #[inline(always)]
    pub(crate) fn cpus_take_turns(&self) -> bool {
        self.turns.is_some()
    }

    /// Whether a CPU may serve interrupts now; if not, notes that its next turn does so.
    #[inline(always)]
    pub(crate) fn may_serve_interrupts(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn_or_defers(cpu, |waiting| &mut waiting.interrupted)
    }

    /// Whether a CPU may follow up the end of a phase now; if not, notes that its next turn does so.
    #[inline(always)]
    pub(crate) fn may_follow_up_phase_end(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn_or_defers(cpu, |waiting| &mut waiting.phase_over)
    }

    /// Whether a CPU has the turn, or takes a free turn; if not, notes `deferred` for its next turn.
    #[inline(never)]
    fn has_turn_or_defers(&mut self, cpu: CpuId, deferred: fn(&mut Waiting) -> &mut bool) -> bool {
        self.turns.as_mut().is_none_or(|turns| {
            let may = turns.has_or_takes_turn(cpu);
            *deferred(&mut turns.waiting[cpu]) |= !may;
            may
        })
    }

    /// Begins a CPU's exit from an idle state. Returns the length in ns of its first phase, in which others may have the turn.
    #[inline(always)]
    pub(crate) fn begin_idle_exit(&mut self, cpu: CpuId, now: u64, exit_latency: u64) -> u64 {
        match &mut self.turns {
            None => exit_latency,
            Some(turns) => turns.begin_idle_exit(cpu, now, exit_latency) - now,
        }
    }

    /// Begins the last part of a CPU's exit from an idle state. Returns its end in ns; `None` if the exit is over.
    #[inline(always)]
    pub(crate) fn begin_last_part_of_idle_exit(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
        (self.turns.as_mut()).and_then(|turns| turns.continue_idle_exit(cpu, now))
    }

    /// Notes that a timer on some CPU has expired, which ends the present turn.
    #[inline(always)]
    pub(crate) fn request_end_of_turn(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.deadline = true;
        }
    }

    /// Notes that a program begins to spin without pauses: a timer pauses for it.
    pub(crate) fn begin_spin_turns(&mut self, now: u64) {
        if let Some(turns) = &mut self.turns {
            let turn = turns.player.setup.spin_turn;
            turns.spins.add_program(now, turn);
        }
    }

    /// Notes that a program that spun has ended.
    pub(crate) fn end_spin_turns(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.spins.remove_program();
        }
    }

    /// Notes whether timers of programs that spin have expired, which ends the turn. Returns whether they have.
    pub(crate) fn expire_spin_timers(&mut self, now: u64) -> bool {
        self.turns.as_mut().is_some_and(|turns| {
            let expired = (turns.spins).expire_timers(now, turns.player.setup.spin_turn);
            turns.deadline |= expired;
            expired
        })
    }

    /// Makes a CPU whose program spins let the others go first, as soon as it has the turn.
    pub(crate) fn request_pause(&mut self, cpu: CpuId) {
        if let Some(turns) = &mut self.turns {
            turns.spins.request_pause(cpu);
        }
    }

    /// Whether any CPU but this one, or the player, waits for the turn.
    pub(crate) fn others_want_turn(&self, cpu: CpuId, now: u64) -> bool {
        (self.turns.as_ref()).is_some_and(|turns| turns.others_wait(cpu, now))
    }

    /// Lets a request end at `end`: by an event on a real machine, by the player on an emulated machine.
    #[inline(always)]
    pub(crate) fn hand_request_to_player_or_schedule_end<O: Observer>(
        &mut self,
        context: &mut Context<'_, O>,
        end: u64,
        request: RequestId,
    ) {
        match &mut self.turns {
            None => context.schedule_end_of_drive_service(end, request),
            Some(turns) => {
                let noticed = end
                    + context
                        .random_streams()
                        .draw_clock_look_delay(turns.player.setup.look);
                turns.player.submit_request(noticed, request);
            }
        }
    }

    /// Whether there is a player and it has halted.
    pub(crate) fn player_is_halted(&self) -> bool {
        (self.turns.as_ref()).is_some_and(|turns| turns.player_is_halted())
    }

    /// Handles the end of the player's work or wait. Returns the request completed with that, if any.
    pub(crate) fn handle_player_event(&mut self, now: u64) -> Option<RequestId> {
        let turns = self.turns.as_mut()?;
        if turns.player.is_working() {
            let is_over = turns.player.next_event_time() <= now;
            return is_over.then(|| turns.player.end_work(now)).flatten();
        }
        if turns.player.next_event_time() <= now && turns.player.is_halted() {
            turns.deadline = true;
        }
        None
    }

    /// Schedules the player's next event, once no CPU wants the turn any more.
    pub(crate) fn schedule_player_event<O: Observer>(&mut self, context: &mut Context<'_, O>) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        turns.deadline = false;
        let own = turns.player.next_event_time();
        let is_due = own <= context.now() && !turns.player.is_working();
        let next_spin_turn = turns.spins.next.max(context.now());
        let at = (if is_due { NEVER } else { own }).min(next_spin_turn);
        if at == NEVER {
            context.cancel(Slot::Player);
        } else {
            context.schedule_unless_due_then(Slot::Player, at);
        }
    }
}
