//! Turns on a machine whose CPUs take turns, and the player: the CPU that plays the drives.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use wakepath_hardware::machine::Emulator;

use crate::core::basics::{CpuId, Interrupt, NEVER, RequestId, Timer};

/// Figures of the emulator and of the player, compiled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EmulatorSetup {
    /// The player's work for each wake-up, and for each request when taken and when completed, in ns.
    pub(super) wake: u64,
    pub(super) take: u64,
    pub(super) complete: u64,
    /// How long in ns before a request's end the player's timer fires.
    pub(super) lead: u64,
    /// Interval in ns between the player's looks at the clock after its timer has fired.
    pub(super) look: u64,
    /// Last part of an exit latency in ns for which a CPU keeps the turn.
    pub(super) exit_hold: u64,
    /// Interval in ns at which a CPU lets others run while its program spins without pauses; 0: never.
    pub(super) spin_turn: u64,
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
            spin_turn: figures.spin_turn_us.micros_to_time().0,
        }
    }
}

/// What a CPU will do in its next turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waiting {
    /// Whether work was cut off at the end of the CPU's last turn.
    pub(super) cut: bool,
    /// Whether a phase has ended whose follow-up waits.
    pub(super) phase_over: bool,
    /// Whether interrupts wait to be served.
    pub(super) interrupted: bool,
}

impl Waiting {
    /// Whether work cut off waits for the turn.
    pub(crate) fn has_cut_work(self) -> bool {
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
    pub(crate) fn has_anything(self) -> bool {
        self.cut || self.phase_over || self.interrupted
    }
}

/// How far a CPU is with leaving an idle state, on an emulated machine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Exit {
    #[default]
    None,
    /// First part of the exit: other CPUs may have the turn. Holds the time when the exit ends.
    Yields(u64),
    /// Last part of the exit, which needs and keeps the turn. Holds the time when the exit ends.
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
    /// The CPU with the turn, if any; the player's number follows those of all CPUs.
    pub(super) holder: Option<usize>,
    /// The CPU that had the turn last.
    pub(super) last: usize,
    pub(super) waiting: Vec<Waiting>,
    pub(super) exits: Vec<Exit>,
    pub(super) player: Player,
    /// Whether a timer has expired, which ends the turn.
    pub(super) deadline: bool,
    pub(super) spins: SpinTurns,
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
            spins: SpinTurns::new(cpus),
        }
    }

    /// Whether a CPU may act now: by having the turn, or by taking a free turn.
    pub(crate) fn has_or_takes_turn(&mut self, cpu: CpuId) -> bool {
        *self.holder.get_or_insert(cpu) == cpu
    }

    /// Whether the player, the CPU that plays the drives, has halted.
    pub(crate) fn player_is_halted(&self) -> bool {
        self.player.is_halted()
    }

    /// Whether a CPU keeps the turn, although it does nothing for a task or an interrupt.
    pub(crate) fn keeps_turn_for_exit(&self, cpu: CpuId) -> bool {
        matches!(self.exits[cpu], Exit::Holds(_))
    }

    /// Begins the exit from an idle state of a CPU with the turn. Returns the time when it needs the turn again, or is awake.
    pub(crate) fn begin_idle_exit(&mut self, cpu: CpuId, now: u64, exit_latency: u64) -> u64 {
        let end = now + exit_latency;
        let hold = self.player.setup.exit_hold;
        if exit_latency > hold {
            self.exits[cpu] = Exit::Yields(end);
            end - hold
        } else {
            self.exits[cpu] = Exit::Holds(end);
            end
        }
    }

    /// Goes on with the idle exit of a CPU that gets the turn. Returns the time when the exit will be done, unless it is
    /// done already.
    pub(crate) fn continue_idle_exit(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
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

    /// Whether any CPU but the holder, or the player, waits for the turn.
    pub(crate) fn others_wait(&self, holder: usize, now: u64) -> bool {
        (0..=self.waiting.len()).any(|who| who != holder && self.wants_turn(who, now))
    }

    fn wants_turn(&self, cpu_or_player: usize, now: u64) -> bool {
        match self.waiting.get(cpu_or_player) {
            Some(waiting) => waiting.has_anything(),
            None => self.player.wants_turn(now),
        }
    }

    /// The CPU that gets the turn next. A CPU that is to pause lets the others go first.
    pub(crate) fn next_holder(&mut self, now: u64) -> Option<usize> {
        let next = self.next_in_turn(now)?;
        if self.spins.take_due_pause(next) && self.others_wait(next, now) {
            self.last = next;
            return self.next_holder(now);
        }
        Some(next)
    }

    /// The next CPU that wants the turn, searched round the CPUs from the last holder; `None` if nobody wants it.
    pub(crate) fn next_in_turn(&self, now: u64) -> Option<usize> {
        let all = self.waiting.len() + 1;
        (1..=all)
            .map(|step| (self.last + step) % all)
            .find(|who| self.wants_turn(*who, now))
    }
}

/// Timers at which CPUs pause whose programs spin without pauses, as those of `rig/spin`.
#[derive(Debug)]
pub(crate) struct SpinTurns {
    /// Number of programs that spin.
    programs: u32,
    /// By CPU, whether the CPU pauses as soon as it has the turn.
    pauses: Vec<bool>,
    /// When the timers expire next; [`NEVER`] if no program spins.
    pub(super) next: u64,
}

impl SpinTurns {
    fn new(cpus: usize) -> Self {
        Self {
            programs: 0,
            pauses: vec![false; cpus],
            next: NEVER,
        }
    }

    /// Notes that a program begins to spin, with a timer that expires every `turn` ns.
    pub(super) fn add_program(&mut self, now: u64, turn: u64) {
        self.programs += 1;
        self.set_timers(now, turn);
    }

    pub(super) fn remove_program(&mut self) {
        self.programs = self.programs.saturating_sub(1);
        if self.programs == 0 {
            self.next = NEVER;
        }
    }

    /// Sets the timers anew if they have expired. Returns whether they had.
    pub(super) fn expire_timers(&mut self, now: u64, turn: u64) -> bool {
        let expire = self.next <= now;
        if expire {
            self.set_timers(now, turn);
        }
        expire
    }

    fn set_timers(&mut self, now: u64, turn: u64) {
        self.next = (now / turn.max(1) + 1).saturating_mul(turn.max(1));
    }

    /// Makes a CPU pause as soon as it has the turn.
    pub(super) fn request_pause(&mut self, cpu: CpuId) {
        self.pauses[cpu] = true;
    }

    /// Whether a CPU was to pause; then it need not any more.
    pub(super) fn take_due_pause(&mut self, cpu_or_player: usize) -> bool {
        (self.pauses.get_mut(cpu_or_player)).is_some_and(std::mem::take)
    }
}

/// The player's present activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Playing {
    /// Halted, with a timer that fires at this time.
    Halted(u64),
    /// At work: since when, work left at that time in ns, and the action after the work.
    Works(u64, u64, NextAction),
    /// Work cut off at the turn's end: work left in ns, and the action after the work.
    Cut(u64, NextAction),
    /// Looking at the clock until this time, when the next request ends.
    Looks(u64),
}

/// The player's next action after some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextAction {
    /// Look for requests to take or to complete.
    Look,
    /// Complete the request with this number.
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
    /// Whether the player has been told of new requests since its last halt.
    told: bool,
    /// Submitted requests that the player has not taken yet, and when they end.
    inbox: Vec<(u64, RequestId)>,
    /// Taken requests in the order of their ends, equal ends in arrival order.
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

    /// Tells the player of a submitted request that ends at `end`.
    pub(crate) fn submit_request(&mut self, end: u64, request: RequestId) {
        self.told |= self.inbox.is_empty();
        self.inbox.push((end, request));
    }

    /// Whether the player works, and so keeps the turn.
    pub(crate) fn is_working(&self) -> bool {
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

    /// Time in ns of the player's next event; [`NEVER`] without any.
    pub(crate) fn next_event_time(&self) -> u64 {
        match self.playing {
            Playing::Halted(timer) => timer,
            Playing::Works(since, left, _) => since + left,
            Playing::Cut(..) => NEVER,
            Playing::Looks(until) => until,
        }
    }

    /// Cuts off the player's work at the end of its turn.
    pub(crate) fn cut_off_work(&mut self, now: u64) {
        if let Playing::Works(since, left, then) = self.playing {
            self.playing = Playing::Cut((since + left).saturating_sub(now), then);
        }
    }

    /// Lets the player go on with its turn: resumes cut-off work, or chooses what to do.
    pub(crate) fn continue_with_turn(&mut self, now: u64) {
        self.playing = match self.playing {
            Playing::Cut(left, then) => Playing::Works(now, left, then),
            Playing::Halted(_) => {
                self.told = false;
                self.choose_activity(now)
            }
            Playing::Looks(_) => self.choose_activity(now),
            Playing::Works(..) => return,
        };
    }

    /// Ends the player's work and chooses what to do next. Returns the request completed with that, if any.
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
                self.choose_activity(now)
            }
            NextAction::Look => self.choose_activity(now),
        };
        completed
    }

    fn choose_activity(&mut self, now: u64) -> Playing {
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
            spin_turn: 0,
        };
        Turns::new(setup, 1)
    }

    #[test]
    fn the_last_part_of_an_exit_keeps_the_turn() {
        let mut turns = turns();
        assert_eq!(turns.begin_idle_exit(0, 100, 10_000), 8_100);
        assert!(!turns.keeps_turn_for_exit(0));
        assert_eq!(turns.continue_idle_exit(0, 8_100), Some(10_100));
        assert!(turns.keeps_turn_for_exit(0));
        assert_eq!(turns.continue_idle_exit(0, 10_100), None);
        assert!(!turns.keeps_turn_for_exit(0));
    }

    #[test]
    fn a_short_exit_keeps_it_from_the_beginning() {
        let mut turns = turns();
        assert_eq!(turns.begin_idle_exit(0, 100, 2_000), 2_100);
        assert!(turns.keeps_turn_for_exit(0));
        assert_eq!(turns.continue_idle_exit(0, 2_100), None);
    }

    #[test]
    fn whoever_gets_the_turn_after_the_end_is_done_at_once() {
        let mut turns = turns();
        turns.begin_idle_exit(0, 100, 10_000);
        assert_eq!(turns.continue_idle_exit(0, 20_000), None);
        assert!(!turns.keeps_turn_for_exit(0));
    }
}
