//! A CPU's lease by one of three rules: the proposed kernel patch, wakepath's kernel module
//! (`module/wakepath_psd.c`), or `wakepath daemon` (`crates/daemon/bpf/block_io.bpf.c` and [`HeardLease`]).

use wakepath_units::{Nanoseconds, TickRate};

use super::{LeaseRule, PsdPolicy};

/// No such time.
const NEVER: u64 = u64::MAX;
/// Number of looks by the daemon's timer within a lease's timeout; a burst of I/O is over after so
/// many looks in a row without a new I/O (`LOOKS` of `block_io.bpf.c`).
const LOOKS: u64 = 2;

/// A CPU's lease.
#[derive(Clone, Debug)]
pub struct Lease {
    burst: Burst,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Patch(TickLease),
    Module(TimedLease),
    Daemon(WatchedLease),
}

/// A CPU's lease as seen when the CPU goes idle; holds until the CPU's next I/O.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseView {
    /// End of the lease in ns; 0 without a lease.
    until: u64,
    /// First time, in ns, when a timer of the lease interrupts the CPU.
    look: u64,
    /// Period in ns with which the lease's timer interrupts the CPU again until the end; 0: only
    /// once.
    every: u64,
}

impl Lease {
    /// No lease yet.
    pub fn new(policy: &PsdPolicy, tick: TickRate) -> Self {
        let timeout = u64::from(policy.timeout_ms) * 1_000_000;
        Self {
            burst: Burst {
                timeout,
                start_after: policy.start_after,
                last: 0,
                count: 0,
            },
            rule: match policy.rule {
                LeaseRule::Patch => Rule::Patch(TickLease {
                    tick: tick.period().0,
                    timeout_ticks: tick.ticks_from_millis(u64::from(policy.timeout_ms)),
                    expires: 0,
                }),
                LeaseRule::Module => Rule::Module(TimedLease {
                    timeout,
                    end: 0,
                    timer: NEVER,
                }),
                LeaseRule::Daemon => Rule::Daemon(WatchedLease {
                    look: (timeout / LOOKS).max(1),
                    begun: None,
                    last: 0,
                    heard: HeardLease::default(),
                }),
            },
        }
    }

    /// Handles an I/O of the CPU, which may begin or extend the lease. Times must not go back.
    pub fn handle_io(&mut self, now: Nanoseconds) {
        if self.burst.timeout == 0 {
            return;
        }
        match &mut self.rule {
            Rule::Patch(lease) => {
                if self.burst.count_io(now.0) {
                    lease.extend_for_io(now.0);
                }
            }
            Rule::Module(lease) => {
                if self.burst.count_io(now.0) {
                    lease.extend_for_io(now.0);
                }
            }
            Rule::Daemon(lease) => lease.handle_io(&mut self.burst, now.0),
        }
    }

    /// Whether the lease holds at `now`, no earlier than the last I/O.
    pub fn holds_at(&self, now: Nanoseconds) -> bool {
        now.0 < self.end_without_further_io().0
    }

    /// End of the lease if no further I/O comes; 0 without a lease.
    pub fn end_without_further_io(&self) -> Nanoseconds {
        Nanoseconds(match &self.rule {
            Rule::Patch(lease) => lease.expires.saturating_mul(lease.tick),
            Rule::Module(lease) => lease.end,
            Rule::Daemon(lease) => lease.end_without_further_io(),
        })
    }

    /// The lease as seen by the CPU when it goes idle at `now`.
    #[inline]
    pub fn view_at(&self, now: Nanoseconds) -> LeaseView {
        let until = self.end_without_further_io().0;
        let (look, every) = match &self.rule {
            // With the patch's rule the tick goes on, and the governor is asked again after each
            // tick.
            Rule::Patch(_) => (NEVER, 0),
            Rule::Module(lease) if lease.timer > now.0 => (lease.timer, 0),
            Rule::Module(_) => (until, 0),
            Rule::Daemon(lease) => (lease.next_look_after(now.0), lease.look),
        };
        LeaseView { until, look, every }
    }
}

impl LeaseView {
    /// Whether the lease still holds at `now`.
    #[inline(always)]
    pub fn holds_at(&self, now: Nanoseconds) -> bool {
        now.0 < self.until
    }

    /// Next time after `now` when a timer of the lease interrupts the CPU; `None` if none does.
    #[inline]
    pub fn next_timer_after(&self, now: Nanoseconds) -> Option<Nanoseconds> {
        if now.0 >= self.until || self.look == NEVER {
            return None;
        }
        let next = if now.0 < self.look {
            self.look
        } else {
            let looks = (now.0 - self.look).checked_div(self.every);
            looks.map_or(self.until, |n| self.look + (n + 1) * self.every)
        };
        Some(Nanoseconds(next.min(self.until)))
    }
}

/// Counter of I/Os that follow each other closely: a lease after a single I/O may serve none.
#[derive(Clone, Copy, Debug)]
struct Burst {
    /// Longest gap between I/Os of a burst, in ns; a later I/O begins a new burst.
    timeout: u64,
    start_after: u32,
    last: u64,
    count: u32,
}

impl Burst {
    /// Counts an I/O in its burst. Returns whether the burst is long enough for a lease.
    fn count_io(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.last) > self.timeout {
            self.count = 0;
        }
        self.last = now;
        self.count = self.count.saturating_add(1);
        self.count >= self.start_after
    }
}

/// Lease by the patch's rule: its clock is the tick, so that a lease begins and ends on tick
/// boundaries.
#[derive(Clone, Copy, Debug)]
struct TickLease {
    tick: u64,
    /// Length of a lease in whole ticks, rounded up.
    timeout_ticks: u64,
    expires: u64,
}

impl TickLease {
    /// Extends the lease for an I/O at `now`; never shortens it.
    fn extend_for_io(&mut self, now: u64) {
        let expires = (now / self.tick).saturating_add(self.timeout_ticks);
        self.expires = self.expires.max(expires);
    }
}

/// Lease by the kernel module's rule: it ends exactly a timeout after the last I/O.
#[derive(Clone, Copy, Debug)]
struct TimedLease {
    timeout: u64,
    end: u64,
    /// When the timer fires in ns: it withdraws the latency limit, or waits on for an end that is
    /// later by then (`psd_lease_ends()`).
    timer: u64,
}

impl TimedLease {
    fn extend_for_io(&mut self, now: u64) {
        if self.timer <= now && self.end > self.timer {
            self.timer = self.end;
        }
        let held = self.timer != NEVER && now < self.timer;
        self.end = self.end.max(now.saturating_add(self.timeout));
        if !held {
            self.timer = self.end;
        }
    }
}

/// Lease by the daemon's rule: a program in the kernel sees where a burst of I/O begins and ends,
/// and tells user space.
#[derive(Clone, Copy, Debug)]
struct WatchedLease {
    /// Time between two looks by the daemon's timer, in ns.
    look: u64,
    /// Beginning of the present burst, by the I/O that user space heard of, in ns.
    begun: Option<u64>,
    /// Time of the last I/O in the burst, in ns.
    last: u64,
    heard: HeardLease,
}

impl WatchedLease {
    fn handle_io(&mut self, burst: &mut Burst, now: u64) {
        if self.begun.is_some() {
            if now <= self.end_without_further_io() {
                // An I/O while the lease holds is only counted.
                self.last = self.last.max(now);
                return;
            }
            self.heard
                .handle_event(BurstEvent::Quiet, self.end_without_further_io());
            self.begun = None;
        }
        if burst.count_io(now) {
            (self.begun, self.last) = (Some(now), now);
            self.heard.handle_event(BurstEvent::Io, now);
        }
    }

    /// End of the lease in ns: the second consecutive look without a new I/O. A look sees every I/O
    /// up to and including its own time.
    fn end_without_further_io(&self) -> u64 {
        match self.begun {
            Some(begun) if self.heard.wants_lease() => {
                let seen_by = (self.last - begun).div_ceil(self.look);
                begun.saturating_add((seen_by + LOOKS).saturating_mul(self.look))
            }
            _ => 0,
        }
    }

    fn next_look_after(&self, now: u64) -> u64 {
        self.begun.map_or(NEVER, |begun| {
            begun + (now.saturating_sub(begun) / self.look + 1) * self.look
        })
    }
}

/// Event in a burst of I/O, as received by the daemon in user space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BurstEvent {
    /// One of the first I/Os of a burst was seen.
    Io,
    /// The burst of I/O is over.
    Quiet,
}

/// A CPU's lease as the daemon in user space sees it.
#[derive(Clone, Copy, Debug, Default)]
pub struct HeardLease {
    /// Time of the latest I/O that was heard of, in ns.
    last: u64,
    wanted: bool,
    given: bool,
}

impl HeardLease {
    /// Handles an event of the time in ns. Events may arrive out of order.
    pub fn handle_event(&mut self, event: BurstEvent, time: u64) {
        match event {
            BurstEvent::Io => {
                self.last = self.last.max(time);
                self.wanted = true;
            }
            // An end of a burst from before the latest I/O was overtaken by that I/O.
            BurstEvent::Quiet if time < self.last => {}
            BurstEvent::Quiet => self.wanted = false,
        }
    }

    /// Whether the CPU is to have a lease, after all events so far.
    pub fn wants_lease(&self) -> bool {
        self.wanted
    }

    /// Takes the pending change: give a lease (`true`), withdraw the lease (`false`), or nothing. A
    /// lease that begins and ends in between changes nothing.
    pub fn take_change(&mut self) -> Option<bool> {
        let changes = self.wanted != self.given;
        self.given = self.wanted;
        changes.then_some(self.wanted)
    }

    /// Whether the CPU has been given the lease.
    pub fn has_lease(&self) -> bool {
        self.given
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MS: u64 = 1_000_000;

    fn policy(rule: LeaseRule, timeout_ms: u32, start_after: u32) -> PsdPolicy {
        PsdPolicy {
            timeout_ms,
            start_after,
            rule,
            ..PsdPolicy::default()
        }
    }

    fn lease(rule: LeaseRule, start_after: u32) -> Lease {
        Lease::new(&policy(rule, 4, start_after), TickRate::HZ_250)
    }

    /// End of a lease after I/Os at given times, all in ms.
    fn end_ms(mut lease: Lease, ios: &[u64]) -> u64 {
        for io in ios {
            lease.handle_io(Nanoseconds(io * MS));
        }
        lease.end_without_further_io().0 / MS
    }

    #[test]
    fn three_milliseconds_are_one_tick_of_250_hz() {
        let mut lease = Lease::new(&PsdPolicy::default(), TickRate::HZ_250);
        assert!(!lease.holds_at(Nanoseconds(0)));
        lease.handle_io(Nanoseconds(5 * MS));
        // Granted in the tick from 4 ms to 8 ms, so it ends at 8 ms.
        assert!(lease.holds_at(Nanoseconds(5 * MS)));
        assert!(lease.holds_at(Nanoseconds(8 * MS - 1)));
        assert!(!lease.holds_at(Nanoseconds(8 * MS)));
        assert_eq!(
            lease
                .view_at(Nanoseconds(6 * MS))
                .next_timer_after(Nanoseconds(6 * MS)),
            None
        );
    }

    #[test]
    fn no_timeout_means_no_lease() {
        for rule in [LeaseRule::Patch, LeaseRule::Module, LeaseRule::Daemon] {
            let mut lease = Lease::new(&policy(rule, 0, 1), TickRate::HZ_1000);
            lease.handle_io(Nanoseconds(10 * MS));
            assert!(!lease.holds_at(Nanoseconds(10 * MS)), "{rule:?}");
        }
    }

    #[test]
    fn each_rule_ends_a_lease_in_its_own_way() {
        // The patch: with the tick. The daemon: looks at 103, 105, ... ms, and ends with the second that finds nothing new.
        for (ios, ends) in [
            (&[101][..], [104, 105, 105]),
            (&[101, 102], [104, 106, 107]),
            (&[101, 102, 103], [104, 107, 107]),
            (&[101, 102, 103, 104], [108, 108, 109]),
        ] {
            let rules = [LeaseRule::Patch, LeaseRule::Module, LeaseRule::Daemon];
            assert_eq!(rules.map(|rule| end_ms(lease(rule, 1), ios)), ends);
        }
    }

    #[test]
    fn the_second_io_of_a_burst_can_give_the_first_lease() {
        for rule in [LeaseRule::Patch, LeaseRule::Module, LeaseRule::Daemon] {
            assert_eq!(end_ms(lease(rule, 2), &[101]), 0, "{rule:?}");
            // 5 ms apart: no burst.
            assert_eq!(end_ms(lease(rule, 2), &[101, 106, 111]), 0, "{rule:?}");
            assert!(end_ms(lease(rule, 2), &[101, 106, 110]) >= 112, "{rule:?}");
        }
        // After the end of a burst counting begins anew.
        assert_eq!(
            end_ms(lease(LeaseRule::Daemon, 2), &[101, 102, 103, 110]),
            0
        );
        assert_eq!(
            end_ms(lease(LeaseRule::Module, 2), &[101, 102, 103, 110]),
            107
        );
    }

    /// When timers interrupt a CPU after I/Os at 101, 102 and 104 ms, in ms.
    fn timer_looks(rule: LeaseRule) -> Vec<u64> {
        let mut lease = lease(rule, 1);
        for io in [101, 102, 104] {
            lease.handle_io(Nanoseconds(io * MS));
        }
        let mut now = Nanoseconds(104 * MS);
        let view = lease.view_at(now);
        let mut looks = Vec::new();
        while let Some(next) = view.next_timer_after(now) {
            looks.push(next.0 / MS);
            now = next;
        }
        assert_eq!(now, lease.end_without_further_io());
        looks
    }

    #[test]
    fn timers_interrupt_the_cpu_until_the_lease_ends() {
        // At the end known when the timer was set, then at the extended end.
        assert_eq!(timer_looks(LeaseRule::Module), [105, 108]);
        assert_eq!(timer_looks(LeaseRule::Daemon), [105, 107, 109]);
    }

    #[test]
    fn an_end_that_was_overtaken_does_not_count() {
        let mut lease = HeardLease::default();
        lease.handle_event(BurstEvent::Io, 50);
        lease.handle_event(BurstEvent::Quiet, 20);
        assert_eq!(lease.take_change(), Some(true));
        assert_eq!(lease.take_change(), None);
        lease.handle_event(BurstEvent::Quiet, 50);
        assert_eq!(lease.take_change(), Some(false));
        // What begins and ends at once changes nothing.
        lease.handle_event(BurstEvent::Io, 60);
        lease.handle_event(BurstEvent::Quiet, 70);
        assert_eq!(lease.take_change(), None);
    }

    /// `block_io.bpf.c` step by step, with its timer.
    #[derive(Default)]
    struct Program {
        total: u64,
        last: u64,
        count: u32,
        told: bool,
        looked: u64,
        unchanged: u64,
        look_at: Option<u64>,
        events: Vec<(BurstEvent, u64)>,
    }

    impl Program {
        fn look(&mut self, until: u64, policy: PsdPolicy) {
            while let Some(now) = self.look_at.filter(|at| *at < until) {
                self.unchanged = if self.total == self.looked {
                    self.unchanged + 1
                } else {
                    0
                };
                self.looked = self.total;
                self.look_at = Some(now + u64::from(policy.timeout_ms) * MS / LOOKS);
                if self.unchanged >= LOOKS {
                    (self.told, self.look_at) = (false, None);
                    self.events.push((BurstEvent::Quiet, now));
                }
            }
        }

        /// Hands on all new events, and returns whether user space then wants the lease.
        fn tell(&mut self, heard: &mut HeardLease, until: u64) -> bool {
            for (event, time) in self.events.drain(..) {
                assert!(time <= until);
                heard.handle_event(event, time);
            }
            heard.wants_lease()
        }

        fn io(&mut self, now: u64, policy: PsdPolicy) {
            self.total += 1;
            if self.told {
                return;
            }
            let timeout = u64::from(policy.timeout_ms) * MS;
            if now - self.last > timeout {
                self.count = 0;
            }
            self.last = now;
            self.count += 1;
            if self.count >= policy.start_after {
                self.told = true;
                (self.looked, self.unchanged) = (self.total, 0);
                self.look_at = Some(now + timeout / LOOKS);
                self.events.push((BurstEvent::Io, now));
            }
        }
    }

    proptest! {
        #[test]
        fn the_daemons_rule_is_what_its_program_tells_and_user_space_makes_of_it(
            gaps in prop::collection::vec(prop_oneof![1..400_000_u64, 1..12_000_000_u64], 1..60),
            start_after in 1_u32..4,
        ) {
            let policy = policy(LeaseRule::Daemon, 4, start_after);
            let mut lease = Lease::new(&policy, TickRate::HZ_250);
            let mut program = Program::default();
            let mut now = 20 * MS;
            let mut heard = HeardLease::default();
            for gap in gaps {
                // Both a little before the I/O and just after it.
                program.look(now + gap, policy);
                let before = Nanoseconds(now + gap - 1);
                prop_assert_eq!(lease.holds_at(before), program.tell(&mut heard, before.0));
                now += gap;
                program.io(now, policy);
                lease.handle_io(Nanoseconds(now));
                prop_assert_eq!(lease.holds_at(Nanoseconds(now)), program.tell(&mut heard, now));
            }
        }

        #[test]
        fn a_lease_lasts_its_timeout_to_within_a_tick(
            now in 0_u64..1 << 50,
            timeout in 1_u32..10_000,
            after in 0_u64..20_000_000_000,
            hz in 1_u32..=1000,
        ) {
            let tick = TickRate::new(hz).unwrap();
            let mut lease = Lease::new(&policy(LeaseRule::Patch, timeout, 1), tick);
            lease.handle_io(Nanoseconds(now));
            let (timeout, period) = (u64::from(timeout) * MS, tick.period().0);
            // A tick's period is itself rounded to whole nanoseconds.
            let slack = period + timeout / 1_000;
            if after + slack < timeout {
                prop_assert!(lease.holds_at(Nanoseconds(now + after)));
            }
            if after > timeout + slack {
                prop_assert!(!lease.holds_at(Nanoseconds(now + after)));
            }
        }

        #[test]
        fn the_modules_timer_fires_at_the_end_and_never_later_than_a_timeout_apart(
            gaps in prop::collection::vec(1..12_000_000_u64, 1..40),
        ) {
            let mut lease = lease(LeaseRule::Module, 1);
            let mut now = 0;
            for gap in gaps {
                now += gap;
                lease.handle_io(Nanoseconds(now));
                prop_assert_eq!(lease.end_without_further_io().0, now + 4 * MS);
                let look = lease.view_at(Nanoseconds(now)).next_timer_after(Nanoseconds(now)).unwrap();
                prop_assert!(now < look.0 && look.0 <= now + 4 * MS);
            }
        }
    }
}
