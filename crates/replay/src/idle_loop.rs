//! The kernel's idle loop around a governor, over one idle span (`do_idle()` and `cpuidle_idle_call()`,
//! `kernel/sched/idle.c`, Linux 6.1 and 6.12).

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::kernel::{IdleCall, poll_limit};
use wakepath_policies::idle::{Governor, IdleGovernor, IdleOutcome, WithGovernor};
use wakepath_policies::psd::Ceiling;
use wakepath_policies::utilisation::CpuUtilisation;
use wakepath_units::Nanoseconds;

use crate::cost::{Judge, TotalsByBlock};
use crate::package::Tally;
use crate::span::IdleSpan;

/// What is the same for all idle spans of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Terms<'a> {
    /// Its idle states.
    pub states: &'a IdleStates,
    /// What idle periods are judged by.
    pub judge: &'a Judge,
    /// The tick's period, in ns.
    pub period: u64,
    /// How deeply it may sleep while a PSD lease holds; `None`: there are no leases.
    pub ceiling: Option<Ceiling>,
    /// The longest exit latency that it is allowed, in ns, beside the recorded requests.
    pub latency_limit: i64,
}

/// A governor on one CPU, and what came of it.
#[derive(Debug)]
pub struct IdleLoop {
    governor: Governor,
    poll_limit: u64,
    tick_stopped: bool,
    busy: CpuUtilisation,
    /// What came of it.
    pub counts: Counts,
}

/// What came of a governor on one CPU.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Per block of time and state.
    pub totals: TotalsByBlock,
    /// How often the governor was asked.
    pub selections: u64,
    /// How often it stopped a running tick.
    pub tick_stops: u64,
    /// How often polling ended at its limit.
    pub poll_limit_hits: u64,
}

impl IdleLoop {
    /// A CPU that has never been idle. `poll_limit`: how long the polling state polls, in ns, unless the
    /// governor has a limit of its own; `totals`: sums of nothing yet.
    pub fn new(governor: Governor, poll_limit: u64, totals: TotalsByBlock) -> Self {
        Self {
            governor,
            poll_limit,
            tick_stopped: false,
            busy: CpuUtilisation::default(),
            counts: Counts {
                totals,
                selections: 0,
                tick_stops: 0,
                poll_limit_hits: 0,
            },
        }
    }

    /// The CPU comes back online with a governor that knows nothing; what came of it so far stays.
    pub fn restart(&mut self, fresh: Self) {
        self.governor = fresh.governor;
        self.tick_stopped = false;
        self.busy = CpuUtilisation::default();
    }

    /// Why a governor of one's own no longer answers.
    pub fn failure(&self) -> Option<&str> {
        self.governor.failure()
    }

    /// Goes through idle spans, in their order. `package`: what becomes of the package, if that counts, and this governor's
    /// place in it.
    pub(crate) fn spans(
        &mut self,
        terms: Terms<'_>,
        spans: &[IdleSpan],
        package: Option<(&mut Tally, usize)>,
    ) {
        if package.is_none() && terms.ceiling.is_none() {
            self.pass::<true>(terms, spans, None);
        } else {
            self.pass::<false>(terms, spans, package);
        }
    }

    fn pass<const PLAIN: bool>(
        &mut self,
        terms: Terms<'_>,
        spans: &[IdleSpan],
        package: Option<(&mut Tally, usize)>,
    ) {
        self.governor.with(Passage::<PLAIN> {
            terms,
            spans,
            package,
            poll_limit: self.poll_limit,
            tick_stopped: &mut self.tick_stopped,
            busy: &mut self.busy,
            counts: &mut self.counts,
        });
    }
}

/// Some idle spans, with whichever governor. `PLAIN`: neither leases nor a package, as in most replays.
struct Passage<'a, const PLAIN: bool> {
    terms: Terms<'a>,
    spans: &'a [IdleSpan],
    package: Option<(&'a mut Tally, usize)>,
    poll_limit: u64,
    tick_stopped: &'a mut bool,
    busy: &'a mut CpuUtilisation,
    counts: &'a mut Counts,
}

impl<const PLAIN: bool> WithGovernor for Passage<'_, PLAIN> {
    fn run<G: IdleGovernor>(mut self, governor: &mut G) {
        for span in self.spans {
            self.span(governor, span);
        }
    }
}

impl<const PLAIN: bool> Passage<'_, PLAIN> {
    #[inline(always)]
    fn span<G: IdleGovernor>(&mut self, governor: &mut G, span: &IdleSpan) {
        let Terms {
            states,
            judge,
            period,
            ceiling,
            latency_limit,
        } = self.terms;
        let counts = &mut *self.counts;
        let totals = counts.totals.of_mut(span.block);
        // A task gets the tick back; where nothing is recorded of tasks, one is taken to have run.
        let mut tick_stopped = *self.tick_stopped && span.in_loop;
        let mut now = span.start;
        let mut tick = span.tick;
        let mut slept = false;
        let mut after_tick = false;
        if G::WANTS_UTILISATION {
            governor.set_utilisation(self.busy.begin_idle(now));
        }
        loop {
            while tick <= now {
                tick += period;
            }
            let next_timer = if now > span.start && span.timer <= now as i64 {
                span.unknown
            } else {
                span.timer.saturating_sub_unsigned(now)
            };
            let clock = Nanoseconds(now);
            let leased = !PLAIN && span.lease.holds(clock);
            let looks_at = match span.lease.next_look(clock) {
                Some(at) if leased => at.0,
                _ => u64::MAX,
            };
            let call = IdleCall {
                now,
                next_timer: next_timer.min((looks_at - now).min(i64::MAX as u64) as i64),
                tick_stopped,
                after_tick,
                tick,
                keeps_tick: false,
                latency_request: span.latency_request.min(latency_limit),
                nr_iowait: span.iowaiters,
                true_idle: span.end - now,
                package_saving: span.package_saving,
            };
            let ceiling = ceiling.filter(|_| leased);
            let choice = call.choose(&call.query(), states, governor, ceiling);
            let state = choice.state;
            counts.selections += 1;
            if choice.stops_tick {
                tick_stopped = true;
                counts.tick_stops += 1;
            }
            let polls_until = if judge.rule(state).is_some_and(|rule| rule.polling) {
                let limit = poll_limit(governor, Nanoseconds(self.poll_limit));
                now.saturating_add(limit.0.max(1))
            } else {
                u64::MAX
            };
            let ticks_at = if tick_stopped { u64::MAX } else { tick };
            let end = span.end.min(polls_until).min(ticks_at).min(looks_at);
            let last = end == span.end;
            let added = judge.account(totals, state, end - now, last, span.best);
            if !PLAIN && let Some((tally, place)) = &mut self.package {
                let sleeps = judge.is_deepest(state);
                tally.idle_period(*place, &span.windows, now..end, sleeps, slept);
                slept = sleeps;
            }
            let poll_limit_hit = !last && polls_until == end;
            counts.poll_limit_hits += u64::from(poll_limit_hit);
            after_tick = end == ticks_at;
            let outcome = IdleOutcome::of_period(now, end, after_tick, poll_limit_hit);
            governor.reflect(state, &outcome);
            if G::WANTS_UTILISATION {
                governor.set_utilisation(self.busy.idle_until(end));
            }
            if last {
                *self.tick_stopped = tick_stopped;
                if span.woken_by_io {
                    totals[state].delay_io(added);
                }
                return;
            }
            now = end;
        }
    }
}
