//! Turns on a machine whose CPUs take turns, and the player: the CPU that plays the drives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wakepath_hardware::machine::Emulator;

use crate::core::basics::{CpuId, Interrupt, NEVER, RequestId, Timer};

/// The emulator's figures, and the player's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmulatorSetup {
    /// The player's work for each wake-up, and for each request when taken and when completed, in ns.
    pub(super) wake: u64,
    pub(super) take: u64,
    pub(super) complete: u64,
    /// The player's timer fires this long before a request ends.
    pub(super) lead: u64,
    /// Interval between looks at the clock from then on, in ns.
    pub(super) look: u64,
    /// A CPU keeps the turn for an exit latency's last part, in ns.
    pub(super) exit_hold: u64,
}

impl EmulatorSetup {
    pub(crate) fn new(figures: &Emulator, khz: u64) -> Self {
        let works = [&figures.drive_wake_kcycles, &figures.drive_request_kcycles];
        let [wake, request] =
            works.map(|work| work.kilocycles_to_cycles() * 1_000_000 / khz.max(1));
        Self {
            wake,
            take: request / 2,
            complete: request - request / 2,
            lead: figures.drive_lead_us.micros_to_time().0,
            look: figures.drive_look_us.micros_to_time().0,
            exit_hold: figures.exit_hold_us.micros_to_time().0,
        }
    }
}

/// What waits for a CPU's turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Work cut off at the last turn's end.
    pub(super) cut: bool,
    /// The follow-up to a phase's end.
    pub(super) phase_over: bool,
    /// Pending interrupts.
    pub(super) interrupted: bool,
}

impl Waiting {
    /// Whether work cut off waits for the turn.
    pub(crate) fn is_cut(self) -> bool {
        self.cut
    }

    /// Whether a phase's end waits for the turn.
    pub(crate) fn has_phase_end(self) -> bool {
        self.phase_over
    }

    /// Whether interrupts wait for the turn.
    pub(crate) fn has_interrupt(self) -> bool {
        self.interrupted
    }

    /// Whether anything waits for the turn.
    pub(crate) fn any(self) -> bool {
        self.cut || self.phase_over || self.interrupted
    }
}

/// How far a CPU is with leaving an idle state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Exit {
    #[default]
    None,
    /// Other CPUs may have the turn meanwhile. The exit ends at this time.
    Yields(u64),
    /// The last part of the exit, which needs and keeps the turn.
    Holds(u64),
}

/// The rank of an interrupt pending on a guest's CPU: the least is served first.
///
/// The player interrupts CPUs for completions, and they end requests in a soft interrupt
/// (`blk_mq_complete_request_remote()`). Completions come after all hard interrupts, but before the soft interrupt for
/// timer-wheel timers: on x86 function calls have a higher vector than the tick, and the tick's soft interrupts are
/// left to `ksoftirqd`. RCU's soft interrupt is the last. `is_on_wheel`: whether a background source's timer is on the
/// timer wheel.
pub(crate) fn interrupt_rank(interrupt: Interrupt, is_on_wheel: impl Fn(usize) -> bool) -> u8 {
    match interrupt {
        Interrupt::Rcu => 3,
        Interrupt::Completion(_) => 1,
        Interrupt::Timer(Timer::Background(source)) if is_on_wheel(source) => 2,
        _ => 0,
    }
}

/// One thread runs all CPUs in turn: a CPU with the turn works until idle, or until any CPU's timer expires.
#[derive(Debug)]
pub(crate) struct Turns {
    /// The working CPU, if any; the player comes after all CPUs.
    pub(super) holder: Option<usize>,
    /// The last holder.
    pub(super) last: usize,
    pub(super) waiting: Vec<Waiting>,
    pub(super) exits: Vec<Exit>,
    pub(super) player: Player,
    /// A timer has expired.
    pub(super) deadline: bool,
}

impl Turns {
    pub(crate) fn new(setup: EmulatorSetup, cpus: usize) -> Self {
        Self {
            holder: None,
            last: cpus,
            waiting: vec![Waiting::default(); cpus],
            exits: vec![Exit::None; cpus],
            player: Player::new(setup),
            deadline: false,
        }
    }

    /// Whether a CPU may act now: by having the turn, or by taking a free turn.
    pub(crate) fn may_act(&mut self, cpu: CpuId) -> bool {
        *self.holder.get_or_insert(cpu) == cpu
    }

    /// Whether the player has halted.
    pub(crate) fn player_is_halted(&self) -> bool {
        self.player.is_halted()
    }

    /// Whether a CPU keeps the turn, although it does nothing for a task or an interrupt.
    pub(crate) fn holds(&self, cpu: CpuId) -> bool {
        matches!(self.exits[cpu], Exit::Holds(_))
    }

    /// A CPU with the turn begins to leave an idle state. Returns when the CPU wants the turn again, or is done.
    pub(crate) fn begin_exit(&mut self, cpu: CpuId, now: u64, latency: u64) -> u64 {
        let end = now + latency;
        let hold = self.player.setup.exit_hold;
        if latency > hold {
            self.exits[cpu] = Exit::Yields(end);
            end - hold
        } else {
            self.exits[cpu] = Exit::Holds(end);
            end
        }
    }

    /// A CPU gets the turn during an exit from an idle state, or after. Returns when the exit will be done, unless
    /// done.
    pub(crate) fn go_on_with_exit(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
        match self.exits[cpu] {
            Exit::Yields(end) if end > now => {
                self.exits[cpu] = Exit::Holds(end);
                Some(end)
            }
            _ => {
                self.exits[cpu] = Exit::None;
                None
            }
        }
    }

    /// Whether somebody else waits for the turn.
    pub(crate) fn others_wait(&self, holder: usize, now: u64) -> bool {
        (0..=self.waiting.len()).any(|who| who != holder && self.waits(who, now))
    }

    fn waits(&self, who: usize, now: u64) -> bool {
        match self.waiting.get(who) {
            Some(waiting) => waiting.any(),
            None => self.player.wants_turn(now),
        }
    }

    /// The next CPU in turn: round the CPUs from the last holder.
    pub(crate) fn next(&self, now: u64) -> Option<usize> {
        let all = self.waiting.len() + 1;
        (1..=all)
            .map(|step| (self.last + step) % all)
            .find(|who| self.waits(*who, now))
    }
}

/// The player's present activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Playing {
    /// Halted, with a timer for this time.
    Halted(u64),
    /// At work since a time, with this much left in ns, and the next action.
    Works(u64, u64, NextAction),
    /// Cut off, with this much work left.
    Cut(u64, NextAction),
    /// Looking at the clock until a time.
    Looks(u64),
}

/// The player's next action after some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Look for something to do.
    Look,
    /// A request is completed.
    Complete(RequestId),
    /// Halt.
    Halt,
}

/// The player: the CPU that plays the drives. The player takes requests when told, and has a timer a little before the
/// next request ends.
#[derive(Debug)]
pub(crate) struct Player {
    pub(super) setup: EmulatorSetup,
    pub(super) playing: Playing,
    /// The player has been told about requests since the last halt.
    told: bool,
    /// Requests not taken yet, and when they end.
    inbox: Vec<(u64, RequestId)>,
    /// Taken requests, the first to end first; equal ones in arrival order.
    taken: BinaryHeap<Reverse<(u64, u64, RequestId)>>,
    number: u64,
}

impl Player {
    fn new(setup: EmulatorSetup) -> Self {
        Self {
            setup,
            playing: Playing::Halted(NEVER),
            told: false,
            inbox: Vec::new(),
            taken: BinaryHeap::new(),
            number: 0,
        }
    }

    /// A request that ends at `end` has been submitted.
    pub(crate) fn submit(&mut self, end: u64, request: RequestId) {
        self.told |= self.inbox.is_empty();
        self.inbox.push((end, request));
    }

    /// Whether the player works, and so keeps the turn.
    pub(crate) fn works(&self) -> bool {
        matches!(self.playing, Playing::Works(..))
    }

    pub(crate) fn is_halted(&self) -> bool {
        matches!(self.playing, Playing::Halted(_))
    }

    fn wants_turn(&self, now: u64) -> bool {
        match self.playing {
            Playing::Halted(timer) => self.told || timer <= now,
            Playing::Cut(..) => true,
            Playing::Looks(until) => until <= now,
            Playing::Works(..) => false,
        }
    }

    /// When something happens by itself.
    pub(crate) fn next_event(&self) -> u64 {
        match self.playing {
            Playing::Halted(timer) => timer,
            Playing::Works(since, left, _) => since + left,
            Playing::Cut(..) => NEVER,
            Playing::Looks(until) => until,
        }
    }

    /// The turn ends before the player's work.
    pub(crate) fn cut(&mut self, now: u64) {
        if let Playing::Works(since, left, then) = self.playing {
            self.playing = Playing::Cut((since + left).saturating_sub(now), then);
        }
    }

    /// The player gets the turn without work: chooses the next action.
    pub(crate) fn go_on(&mut self, now: u64) {
        self.playing = match self.playing {
            Playing::Cut(left, then) => Playing::Works(now, left, then),
            Playing::Halted(_) => {
                self.told = false;
                self.look(now)
            }
            Playing::Looks(_) => self.look(now),
            Playing::Works(..) => return,
        };
    }

    /// The player's work is done. Returns a request if completed now.
    pub(crate) fn end_work(&mut self, now: u64) -> Option<RequestId> {
        let Playing::Works(_, _, then) = self.playing else {
            return None;
        };
        let mut completed = None;
        self.playing = match then {
            NextAction::Halt => {
                let first = self.taken.peek().map(|Reverse((end, ..))| *end);
                Playing::Halted(first.map_or(NEVER, |end| end.saturating_sub(self.setup.lead)))
            }
            NextAction::Complete(request) => {
                completed = Some(request);
                self.look(now)
            }
            NextAction::Look => self.look(now),
        };
        completed
    }

    fn look(&mut self, now: u64) -> Playing {
        if !self.inbox.is_empty() {
            let work = self.setup.take * self.inbox.len() as u64;
            for (end, request) in self.inbox.drain(..) {
                self.taken.push(Reverse((end, self.number, request)));
                self.number += 1;
            }
            return Playing::Works(now, work, NextAction::Look);
        }
        match self.taken.peek() {
            Some(Reverse((end, ..))) if *end <= now + self.setup.lead => {
                if *end > now {
                    return Playing::Looks(*end);
                }
                let Some(Reverse((.., request))) = self.taken.pop() else {
                    return Playing::Halted(NEVER);
                };
                Playing::Works(now, self.setup.complete, NextAction::Complete(request))
            }
            _ => Playing::Works(now, self.setup.wake, NextAction::Halt),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns() -> Turns {
        let setup = EmulatorSetup {
            wake: 0,
            take: 0,
            complete: 0,
            lead: 0,
            look: 0,
            exit_hold: 2_000,
        };
        Turns::new(setup, 1)
    }

    #[test]
    fn the_last_part_of_an_exit_keeps_the_turn() {
        let mut turns = turns();
        assert_eq!(turns.begin_exit(0, 100, 10_000), 8_100);
        assert!(!turns.holds(0));
        assert_eq!(turns.go_on_with_exit(0, 8_100), Some(10_100));
        assert!(turns.holds(0));
        assert_eq!(turns.go_on_with_exit(0, 10_100), None);
        assert!(!turns.holds(0));
    }

    #[test]
    fn a_short_exit_keeps_it_from_the_beginning() {
        let mut turns = turns();
        assert_eq!(turns.begin_exit(0, 100, 2_000), 2_100);
        assert!(turns.holds(0));
        assert_eq!(turns.go_on_with_exit(0, 2_100), None);
    }

    #[test]
    fn whoever_gets_the_turn_after_the_end_is_done_at_once() {
        let mut turns = turns();
        turns.begin_exit(0, 100, 10_000);
        assert_eq!(turns.go_on_with_exit(0, 20_000), None);
        assert!(!turns.holds(0));
    }
}
