//! The kernel's idle loop around a governor, over one idle span (`do_idle()` and `cpuidle_idle_call()`,
//! `kernel/sched/idle.c`, Linux 6.1 and 6.12).

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::kernel::{IdleCall, own_poll_limit_or};
use wakepath_policies::idle::{Governor, GovernorOperation, IdleGovernor, IdleOutcome};
use wakepath_policies::psd::Ceiling;
use wakepath_policies::utilisation::CpuUtilisation;
use wakepath_units::Nanoseconds;

use crate::cost::{IdlePeriodJudge, TotalsByBlock};
use crate::package::PackageTally;
use crate::span::IdleSpan;

/// Facts common to all idle spans of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct SpanContext<'a> {
    /// The CPU's idle states.
    pub states: &'a IdleStates,
    /// Judge of the CPU's idle periods, with an oracle.
    pub judge: &'a IdlePeriodJudge,
    /// Period of the tick, in ns.
    pub tick_period: u64,
    /// Deepest sleep under a PSD lease; `None` without leases.
    pub ceiling: Option<Ceiling>,
    /// Longest exit latency allowed in ns, in addition to recorded requests.
    pub latency_limit: i64,
}

/// A governor on one CPU of a replay, with counts of what it did.
#[derive(Debug)]
pub struct IdleLoop {
    governor: Governor,
    poll_limit: u64,
    tick_stopped: bool,
    busy: CpuUtilisation,
    /// Counts so far.
    pub counts: Counts,
}

/// Counts of what a governor did on one CPU in a replay.
#[derive(Clone, Debug)]
pub struct Counts {
    /// Sums over idle periods, by block of time and idle state.
    pub totals: TotalsByBlock,
    /// Number of times that the governor was asked.
    pub selections: u64,
    /// Number of times that the governor stopped a running tick.
    pub tick_stops: u64,
    /// Number of times that polling ended at the limit.
    pub poll_limit_hits: u64,
}

impl IdleLoop {
    /// An idle loop around a governor, on a CPU that has never been idle. `poll_limit`: longest
    /// time in the polling state in ns, unless the governor has a limit; `totals`: empty sums.
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

    /// Replaces the governor by that of `fresh`, without history, for a CPU that comes online.
    /// Counts stay.
    pub fn take_governor_from(&mut self, fresh: Self) {
        self.governor = fresh.governor;
        self.tick_stopped = false;
        self.busy = CpuUtilisation::default();
    }

    /// Why the user's own governor no longer answers; `None` while it answers.
    pub fn failure_reason(&self) -> Option<&str> {
        self.governor.failure_reason()
    }

    /// Runs the idle loop over recorded idle spans, in order. `package`: the package's tally, and
    /// this governor's index there.
    pub(crate) fn run_spans(
        &mut self,
        context: SpanContext<'_>,
        spans: &[IdleSpan],
        package: Option<(&mut PackageTally, usize)>,
    ) {
        if package.is_none() && context.ceiling.is_none() {
            self.run_spans_as::<true>(context, spans, None);
        } else {
            self.run_spans_as::<false>(context, spans, package);
        }
    }

    fn run_spans_as<const PLAIN: bool>(
        &mut self,
        context: SpanContext<'_>,
        spans: &[IdleSpan],
        package: Option<(&mut PackageTally, usize)>,
    ) {
        self.governor.run_operation(SpanRun::<PLAIN> {
            context,
            spans,
            package,
            poll_limit: self.poll_limit,
            tick_stopped: &mut self.tick_stopped,
            busy: &mut self.busy,
            counts: &mut self.counts,
        });
    }
}

/// Idle spans for a governor of any type. `PLAIN`: neither leases nor a package, as in most
/// replays.
struct SpanRun<'a, const PLAIN: bool> {
    context: SpanContext<'a>,
    spans: &'a [IdleSpan],
    package: Option<(&'a mut PackageTally, usize)>,
    poll_limit: u64,
    tick_stopped: &'a mut bool,
    busy: &'a mut CpuUtilisation,
    counts: &'a mut Counts,
}

impl<const PLAIN: bool> GovernorOperation for SpanRun<'_, PLAIN> {
    fn run_on_governor<G: IdleGovernor>(mut self, governor: &mut G) {
        for span in self.spans {
            self.run_one_span(governor, span);
        }
    }
}

impl<const PLAIN: bool> SpanRun<'_, PLAIN> {
    /// Runs the idle loop over one span, from its start to its end.
    #[inline(always)]
    fn run_one_span<G: IdleGovernor>(&mut self, governor: &mut G, span: &IdleSpan) {
        // A task restarts the tick; in recordings without tasks, a task is assumed to have run.
        let mut progress = SpanProgress {
            now: span.start,
            tick: span.tick,
            tick_stopped: *self.tick_stopped && span.in_loop,
            after_tick: false,
            slept: false,
        };
        if G::WANTS_UTILISATION {
            governor.set_utilisation(self.busy.begin_idle_period(progress.now));
        }
        while !self.run_period_and_tell_if_span_ended(governor, span, &mut progress) {}
        *self.tick_stopped = progress.tick_stopped;
    }

    /// Runs one idle period of a span; returns whether the span ended.
    #[inline(always)]
    fn run_period_and_tell_if_span_ended<G: IdleGovernor>(
        &mut self,
        governor: &mut G,
        span: &IdleSpan,
        progress: &mut SpanProgress,
    ) -> bool {
        let context = self.context;
        let now = progress.now;
        while progress.tick <= now {
            progress.tick += context.tick_period;
        }
        let leased = !PLAIN && span.lease.holds_at(Nanoseconds(now));
        let lease_timer_at = match span.lease.next_timer_after(Nanoseconds(now)) {
            Some(at) if leased => at.0,
            _ => u64::MAX,
        };
        let call = self.make_idle_call(span, progress, lease_timer_at);
        let ceiling = context.ceiling.filter(|_| leased);
        let choice = call.ask_governor(&call.governor_query(), context.states, governor, ceiling);
        let state = choice.state;
        let counts = &mut *self.counts;
        counts.selections += 1;
        if choice.stops_tick {
            progress.tick_stopped = true;
            counts.tick_stops += 1;
        }
        let polls_until = if context
            .judge
            .rule_for_state(state)
            .is_some_and(|rule| rule.polling)
        {
            let limit = own_poll_limit_or(governor, Nanoseconds(self.poll_limit));
            now.saturating_add(limit.0.max(1))
        } else {
            u64::MAX
        };
        let ticks_at = progress.next_tick_or_never();
        let end = span.end.min(polls_until).min(ticks_at).min(lease_timer_at);
        let last = end == span.end;
        let totals = counts.totals.make_block_current(span.block);
        let added = context.judge.account_period_and_added_latency(
            totals,
            state,
            end - now,
            last,
            span.best,
        );
        if last && span.woken_by_io {
            let exit = context
                .judge
                .rule_for_state(state)
                .map_or(0, |rule| rule.exit);
            totals[state].count_possibly_delayed_io(added, exit);
        }
        if !PLAIN && let Some((tally, place)) = &mut self.package {
            let sleeps = context.judge.is_deepest(state);
            tally.add_period(*place, &span.windows, now..end, sleeps, progress.slept);
            progress.slept = sleeps;
        }
        let poll_limit_hit = !last && polls_until == end;
        counts.poll_limit_hits += u64::from(poll_limit_hit);
        progress.after_tick = end == ticks_at;
        let outcome = IdleOutcome::for_period(now, end, progress.after_tick, poll_limit_hit);
        governor.reflect(state, &outcome);
        if G::WANTS_UTILISATION {
            governor.set_utilisation(self.busy.end_idle_period(end));
        }
        progress.now = end;
        last
    }

    /// Makes the kernel's call to the governor. `lease_timer_at`: time at which the lease's timer wakes
    /// the CPU, in ns.
    #[inline(always)]
    fn make_idle_call(
        &self,
        span: &IdleSpan,
        progress: &SpanProgress,
        lease_timer_at: u64,
    ) -> IdleCall {
        let now = progress.now;
        let next_timer = if now > span.start && span.timer <= now as i64 {
            span.assumed_sleep
        } else {
            span.timer.saturating_sub_unsigned(now)
        };
        IdleCall {
            now,
            next_timer: next_timer.min((lease_timer_at - now).min(i64::MAX as u64) as i64),
            tick_stopped: progress.tick_stopped,
            after_tick: progress.after_tick,
            tick: progress.tick,
            keeps_tick: false,
            latency_request: span.latency_request.min(self.context.latency_limit),
            nr_iowait: span.iowaiters,
            true_idle: span.end - now,
            package_saving: span.package_saving,
        }
    }
}

/// Where the idle loop stands in an idle span. Times in ns.
struct SpanProgress {
    now: u64,
    /// Time of the next tick, if the tick is not stopped.
    tick: u64,
    tick_stopped: bool,
    /// Whether the tick ended the previous idle period.
    after_tick: bool,
    /// Whether the CPU was in its deepest state in the previous idle period.
    slept: bool,
}

impl SpanProgress {
    /// Time of the next tick in ns; [`u64::MAX`] while the tick is stopped.
    #[inline(always)]
    fn next_tick_or_never(&self) -> u64 {
        if self.tick_stopped {
            u64::MAX
        } else {
            self.tick
        }
    }
}
