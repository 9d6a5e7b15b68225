//! CPUs that take turns, as those of an emulator with one thread for all of them.
//!
//! One clock counts what they all do. Who has the turn works until it goes idle, or until a timer expires. Idle is who halts,
//! polls, or waits for all but the last of its exit latency to pass. Nobody else begins anything meanwhile: interrupts, ends of
//! exit latencies and the rest of work that was cut off wait for the turn. Only machines that say so pay for any of this.

use crate::core::basics::{CpuId, Interrupt, NEVER, RequestId, Timer};
use crate::core::calendar::Slot;
use crate::emulator::state::{Exit, Waiting};
use crate::engine::Engine;
use crate::observe::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    /// Whether a CPU may look at its interrupts now; else it does when its turn comes.
    #[inline(always)]
    pub(crate) fn may_serve(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn(cpu, |waiting| &mut waiting.interrupted)
    }

    /// Whether a CPU may do what follows the end of its phase; else it does when its turn comes.
    #[inline(always)]
    pub(crate) fn may_end_phase(&mut self, cpu: CpuId) -> bool {
        self.turns.is_none() || self.has_turn(cpu, |waiting| &mut waiting.phase_over)
    }

    /// Whether a CPU has the turn, or takes it; else it waits to do this.
    #[inline(never)]
    fn has_turn(&mut self, cpu: CpuId, to_do: fn(&mut Waiting) -> &mut bool) -> bool {
        self.turns.as_mut().is_none_or(|turns| {
            let may = turns.may_act(cpu);
            *to_do(&mut turns.waiting[cpu]) |= !may;
            may
        })
    }

    /// The interrupt that a CPU of a guest serves first of several.
    ///
    /// The CPU that plays the drives interrupts the others for completions, and they end requests in a soft interrupt
    /// (`blk_mq_complete_request_remote()`). It comes after all hard ones, but before that for timers of the timer wheel: on x86
    /// calls of functions have a higher vector than the tick, and what the tick raises is left to `ksoftirqd`.
    /// RCU's soft interrupt is the last.
    #[inline(never)]
    pub(crate) fn take_most_urgent(&mut self, cpu: CpuId) -> Option<Interrupt> {
        let setup = self.setup;
        self.cpus[cpu].take_interrupt_by(|interrupt| match interrupt {
            Interrupt::Rcu => 3,
            Interrupt::Completion(_) => 1,
            Interrupt::Timer(Timer::Background(source))
                if setup.background[source].timer.is_on_wheel() =>
            {
                2
            }
            _ => 0,
        })
    }

    /// When the phase of a CPU ends that begins to leave an idle state now: others may have the turn during the first part.
    #[inline(always)]
    pub(crate) fn first_part_of_exit(&mut self, cpu: CpuId, latency: u64) -> u64 {
        match &mut self.turns {
            None => latency,
            Some(turns) => turns.begin_exit(cpu, self.now, latency) - self.now,
        }
    }

    /// Whether the last part of leaving an idle state begins only now.
    #[inline(always)]
    pub(crate) fn begins_last_part_of_exit(&mut self, cpu: CpuId) -> bool {
        let now = self.now;
        let end = (self.turns.as_mut()).and_then(|turns| turns.go_on_with_exit(cpu, now));
        if let Some(end) = end {
            self.calendar.schedule(Slot::Phase(cpu), end);
        }
        end.is_some()
    }

    /// A timer of some CPU has expired, which ends the turn of whoever has it.
    #[inline(always)]
    pub(crate) fn end_turn(&mut self) {
        if let Some(turns) = &mut self.turns {
            turns.deadline = true;
        }
    }

    /// Gives a request that ends at `end` to the drives.
    #[inline(always)]
    pub(crate) fn serve_until(&mut self, end: u64, request: RequestId) {
        match &mut self.turns {
            None => self.calendar.serve(end, request),
            Some(turns) => {
                let end = end + self.random.missed(turns.player.setup.look);
                turns.player.submit(end, request);
            }
        }
    }

    /// What the CPU that plays the drives was waiting for has come.
    pub(crate) fn player_event(&mut self) {
        let now = self.now;
        let Some(turns) = &mut self.turns else {
            return;
        };
        if turns.player.works() {
            if let Some(request) = turns.player.end_work(now) {
                self.served(request);
            }
        } else if turns.player.next_event() <= now && turns.player.is_halted() {
            turns.deadline = true;
        }
    }

    /// Passes the turn on, until whoever has it works, or nobody wants it.
    #[inline(always)]
    pub(crate) fn pass_turns(&mut self) {
        if self.turns.is_some() {
            self.pass_on();
        }
    }

    #[inline(never)]
    fn pass_on(&mut self) {
        let now = self.now;
        loop {
            let cpus = self.cpus.len();
            let Some(turns) = &mut self.turns else {
                return;
            };
            if let Some(holder) = turns.holder {
                let works = match self.cpus.get(holder) {
                    Some(cpu) => cpu.is_busy() || turns.holds(holder),
                    None => turns.player.works(),
                };
                if works && !(turns.deadline && turns.others_wait(holder, now)) {
                    break;
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
            let Some(turns) = &mut self.turns else {
                return;
            };
            turns.deadline = false;
            let Some(next) = turns.next(now) else {
                break;
            };
            turns.holder = Some(next);
            if next < cpus {
                self.take_turn(next);
            } else {
                turns.player.go_on(now);
            }
        }
        let slot = Slot::Device(self.player_slot());
        let Some(turns) = &mut self.turns else {
            return;
        };
        turns.deadline = false;
        let at = turns.player.next_event();
        if at == NEVER || (at <= now && !turns.player.works()) {
            self.calendar.cancel(slot);
        } else {
            self.calendar.reschedule(slot, at);
        }
    }

    /// A CPU has to stop what it is at, until its turn comes again.
    fn cut_turn(&mut self, cpu: CpuId) {
        if let Some(turns) = &mut self.turns
            && let Exit::Holds(end) = turns.exits[cpu]
        {
            // It looks at the clock, which goes on.
            turns.exits[cpu] = Exit::Yields(end);
            turns.waiting[cpu].phase_over = true;
            self.cancel_phase(cpu);
            return;
        }
        self.stop_phase(cpu);
        if let Some(turns) = &mut self.turns {
            turns.waiting[cpu].cut = true;
        }
    }

    /// The turn of a CPU begins.
    fn take_turn(&mut self, cpu: CpuId) {
        let Some(turns) = &mut self.turns else {
            return;
        };
        let waiting = std::mem::take(&mut turns.waiting[cpu]);
        if waiting.cut {
            self.resume_phase(cpu);
        }
        if waiting.phase_over {
            self.end_phase(cpu);
        }
        if waiting.interrupted && self.cpus[cpu].has_interrupt() {
            self.kick(cpu);
        }
    }
}
