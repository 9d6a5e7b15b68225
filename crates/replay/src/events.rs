//! Handling of a recording's events: idle periods become idle spans, and finished spans go through
//! the governors.

use std::io::Write;

use wakepath_policies::psd::LeaseTrigger;
use wakepath_trace::recording::{
    Block, Event, EventKind, FlagCounts, IdlePeriod, PackedIdlePeriod, TimerKind,
};
use wakepath_units::Nanoseconds;

use crate::blocks::TimeBlocks;
use crate::cpu::{Cpu, CpuGroup, RecordedWakeUp};
use crate::drives::Drives;
use crate::error::ReplayError;
use crate::hotplug::HotplugRule;
use crate::package;
use crate::package_stage::{PackageStage, tally_span_and_set_oracle_choice};
use crate::setup::Setup;
use crate::span::{CAUSE_WITHIN, MAX_IDLE_PERIOD};

/// Number of a CPU, and the destination for its governor call log.
pub(crate) type CallExport<'a> = (u32, &'a mut dyn Write);

/// State of a pass over a recording that belongs to no single CPU.
pub(crate) struct PassState<'a> {
    pub(crate) setup: &'a Setup,
    pub(crate) groups: &'a [CpuGroup<'a>],
    tick_period: u64,
    pub(crate) drives: Drives,
    /// Recorded idle periods.
    pub(crate) periods: u64,
    pub(crate) blocks: TimeBlocks,
    /// Counts of events, one entry for each block of time.
    pub(crate) counts: Vec<TimeBlockCounts>,
    pub(crate) flags: FlagCounts,
    calls: Option<CallExport<'a>>,
    /// Number of idle periods left out because they are implausibly long.
    pub(crate) long_periods: u64,
    /// Number of times at which a CPU's clock went back.
    pub(crate) clock_jumps: u64,
    hotplug: HotplugRule,
    pub(crate) package: PackageStage,
    /// Whether the replay has neither leases nor a package, as most have.
    is_plain: bool,
}

/// Counts of events in a block of time, which do not depend on governors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeBlockCounts {
    pub(crate) spans: u64,
    pub(crate) leased_spans: u64,
    pub(crate) io_wake_ups: u64,
    pub(crate) io_completions: u64,
}

impl<'a> PassState<'a> {
    /// Starts a pass over a recording, with empty counts for these blocks of time.
    pub(crate) fn new(
        setup: &'a Setup,
        groups: &'a [CpuGroup<'a>],
        blocks: TimeBlocks,
        calls: Option<CallExport<'a>>,
        hotplug: HotplugRule,
        package: PackageStage,
    ) -> Self {
        Self {
            setup,
            groups,
            tick_period: setup.tick.period().0,
            drives: Drives::default(),
            periods: 0,
            blocks,
            counts: vec![TimeBlockCounts::default(); blocks.block_count()],
            flags: FlagCounts::default(),
            calls,
            long_periods: 0,
            clock_jumps: 0,
            hotplug,
            is_plain: setup.psd.is_none() && matches!(package, PackageStage::None),
            package,
        }
    }

    /// Makes a CPU before its first event.
    pub(crate) fn new_cpu(&self, number: u32) -> Cpu<'a> {
        let group = &self.groups[self.setup.group_index_of_cpu(number)];
        let exports_calls = self.calls.as_ref().is_some_and(|(cpu, _)| *cpu == number);
        Cpu::new(self.setup, group, number, self.blocks, exports_calls)
    }

    /// Tells a CPU's shadow governor how its last idle period ended, and exports the call if
    /// wanted.
    pub(crate) fn reflect_and_export_shadow_call(
        &mut self,
        cpu: &mut Cpu<'_>,
    ) -> Result<(), ReplayError> {
        let out: Option<&mut dyn Write> = match &mut self.calls {
            Some((wanted, out)) if *wanted as usize == cpu.number => Some(&mut **out),
            _ => None,
        };
        Ok(cpu.shadow.reflect_and_export_last_call(out)?)
    }

    /// Handles one event of the recording.
    pub(crate) fn handle_event(
        &mut self,
        cpu: &mut Cpu<'_>,
        event: &Event,
    ) -> Result<(), ReplayError> {
        let time = event.time.0;
        match &event.kind {
            EventKind::Idle(period) => {
                return self.handle_idle_period(cpu, time, &period.into());
            }
            EventKind::Timer(TimerKind::Tick) => {
                cpu.tick_phase = time;
                cpu.spans.note_tick_as_possible_end(time);
                cpu.shadow.note_tick_as_possible_end(time);
            }
            EventKind::Timer(_) | EventKind::Wake { .. } => self.end_and_judge_span(cpu),
            EventKind::BlockIssue(block) => {
                self.end_and_judge_span(cpu);
                self.drives.note_request_issue(time, event.cpu, block);
                self.grant_lease_if_io_counts(cpu, time, LeaseTrigger::is_issue_a_trigger);
            }
            EventKind::BlockComplete(block) => self.handle_block_completion(cpu, time, block),
            EventKind::Frequency(_)
            | EventKind::Queueing(_)
            | EventKind::Interrupt(_)
            | EventKind::Task { .. }
            | EventKind::Clock(_) => {}
            EventKind::Lost { .. } => {
                cpu.forget_open_span_and_shadow_history(self.setup);
                self.drives.forget_requests_in_flight();
            }
            EventKind::Hotplug { .. } => return self.handle_hotplug(cpu),
        }
        Ok(())
    }

    /// Handles the completion of a block request on a CPU.
    fn handle_block_completion(&mut self, cpu: &mut Cpu<'_>, time: u64, block: &Block) {
        self.end_and_judge_span(cpu);
        self.drives
            .note_request_completion(time, cpu.number as u32, block);
        let time_block = cpu.block_cursor.block_at(&self.blocks, time);
        self.counts[time_block].io_completions += 1;
        let woken_at = cpu.woken_at.take();
        if woken_at.is_some_and(|at| time.saturating_sub(at) <= CAUSE_WITHIN) {
            self.count_io_wake_up(cpu);
        }
        cpu.completed_at = time;
        self.grant_lease_if_io_counts(cpu, time, LeaseTrigger::is_completion_a_trigger);
    }

    /// Handles a CPU that goes offline or comes online.
    fn handle_hotplug(&mut self, cpu: &mut Cpu<'_>) -> Result<(), ReplayError> {
        self.end_and_judge_span(cpu);
        self.reflect_and_export_shadow_call(cpu)?;
        cpu.woken_at = None;
        if self.hotplug == HotplugRule::Restarts {
            self.replay_finished_spans(cpu);
            cpu.forget_open_span_and_shadow_history(self.setup);
            cpu.restart_leases_and_governors(self.setup);
        }
        Ok(())
    }

    /// Handles a recorded idle period that ended at `end` ns: begins an idle span or continues the
    /// last one.
    #[inline(always)]
    pub(crate) fn handle_idle_period(
        &mut self,
        cpu: &mut Cpu<'_>,
        end: u64,
        period: &PackedIdlePeriod,
    ) -> Result<(), ReplayError> {
        let group = cpu.group;
        let Some(state) = group.judge.rule_for_state(usize::from(period.state())) else {
            return Err(ReplayError::NoSuchState {
                cpu: cpu.number as u32,
                state: period.state(),
                time: end,
                states: group.states.declared.len(),
            });
        };
        let continues = cpu.spans.is_continued_by(period);
        if !continues {
            self.end_and_judge_span(cpu);
        }
        self.periods += 1;
        cpu.has_periods = true;
        if cpu.is_watched {
            self.reflect_and_export_shadow_call(cpu)?;
        }
        if period.duration() > MAX_IDLE_PERIOD {
            self.long_periods += 1;
            cpu.forget_open_span_and_shadow_history(self.setup);
            return Ok(());
        }
        let start = end.saturating_sub(period.duration());
        // Interrupts that are on in the idle state, as in the polling state and in halt states,
        // come before the exit from the state.
        let cause_within = CAUSE_WITHIN + state.exit_latency;
        let got_tick = period.got_tick().or_else(|| {
            let tick_inside = is_near_end_of_period(cpu.tick_phase, start..end, cause_within);
            (tick_inside && !state.polling).then_some(true)
        });
        if cpu.is_watched {
            self.ask_shadow_governor(cpu, end, period, got_tick);
        }
        self.flags.count_flags_of_period(period);
        let limit_hit = period
            .poll_limit_hit()
            .unwrap_or_else(|| state.polling && period.duration() >= group.poll_limit);
        cpu.woken_inside = is_near_end_of_period(cpu.completed_at, start..end, cause_within);
        if continues {
            cpu.spans.keep_last_period_as_earlier();
        } else {
            if cpu.spans.has_full_batch() {
                self.replay_finished_spans(cpu);
            }
            cpu.spans.begin_span(start, period, self.tick_period);
        }
        cpu.spans
            .set_last_period(end, period, got_tick == Some(true) || limit_hit);
        Ok(())
    }

    /// Asks the shadow governor about an idle period that ended at `end` ns.
    fn ask_shadow_governor(
        &self,
        cpu: &mut Cpu<'_>,
        end: u64,
        packed: &PackedIdlePeriod,
        got_tick: Option<bool>,
    ) {
        let period = IdlePeriod {
            got_tick,
            ..IdlePeriod::from(packed)
        };
        let start = end.saturating_sub(packed.duration());
        let place = (end, cpu.block_cursor.block_at(&self.blocks, start));
        cpu.shadow.ask_and_compare_about_period(
            place,
            &period,
            self.tick_period,
            cpu.spans.longest_span_ns(),
        );
    }

    /// Ends a CPU's open idle span, if any, and judges the recorded idle periods of the span.
    #[inline(never)]
    pub(crate) fn end_and_judge_span(&mut self, cpu: &mut Cpu<'_>) {
        let judge = &cpu.group.judge;
        let Some((span, earlier, last)) =
            cpu.spans.close_open_span(self.tick_period, cpu.tick_phase)
        else {
            return;
        };
        span.block = cpu.block_cursor.block_at(&self.blocks, span.start);
        let counts = &mut self.counts[span.block];
        counts.spans += 1;
        let best = if self.is_plain {
            span.set_oracle_choice(judge)
        } else {
            if let Some(leases) = &mut cpu.leases {
                span.lease = leases.lease_after_io_until(span.start);
                counts.leased_spans += u64::from(span.lease.holds_at(Nanoseconds(span.start)));
            }
            match &mut self.package {
                PackageStage::None => {
                    span.set_oracle_choice(judge);
                }
                PackageStage::FindsWindows(finder) => {
                    finder.add_idle_span(cpu.number, span.start, span.end);
                    return;
                }
                PackageStage::Tallies(tally) => {
                    tally_span_and_set_oracle_choice(
                        tally,
                        &mut cpu.window,
                        judge,
                        span,
                        earlier,
                        last,
                    );
                }
            }
            span.best
        };
        let totals = cpu.recorded.make_block_current(span.block);
        for period in earlier {
            let state = usize::from(period.state);
            judge.account_period_and_added_latency(totals, state, period.duration, false, best);
        }
        let last_state = usize::from(last.state);
        let added =
            judge.account_period_and_added_latency(totals, last_state, last.duration, true, best);
        cpu.last_wake_up = RecordedWakeUp {
            block: span.block,
            state: last_state,
            added,
            exit: judge.rule_for_state(last_state).map_or(0, |rule| rule.exit),
        };
        cpu.woken_at = Some(span.end);
        if std::mem::take(&mut cpu.woken_inside) {
            cpu.woken_at = None;
            self.count_io_wake_up(cpu);
        }
    }

    /// Sends a CPU's finished idle spans through all governors, and drops the spans.
    pub(crate) fn replay_finished_spans(&mut self, cpu: &mut Cpu<'_>) {
        let context = cpu.span_context(self.setup, self.tick_period);
        let spans = cpu.spans.closed_spans();
        let mut tally = self.package.tally_mut();
        for (i, idle_loop) in cpu.loops.iter_mut().enumerate() {
            let place = tally
                .as_deref_mut()
                .map(|tally| (tally, package::FIRST + i));
            idle_loop.run_spans(context, spans, place);
        }
        if let Some(tally) = tally {
            for span in spans {
                tally.note_window_end_by_cpu(&span.windows, span.end, span.woken_by_io);
            }
        }
        if let Some(last) = spans.last() {
            cpu.asked_until = last.end;
        }
        cpu.spans.drop_all_spans();
    }

    /// Gives a CPU a lease at `time`, or extends it, if the PSD setting counts this kind of I/O
    /// event (`grants`).
    fn grant_lease_if_io_counts(
        &self,
        cpu: &mut Cpu<'_>,
        time: u64,
        grants: fn(LeaseTrigger) -> bool,
    ) {
        if let (Some(leases), Some(psd)) = (&mut cpu.leases, self.setup.psd)
            && grants(psd.grant)
        {
            leases.queue_io(time);
        }
    }

    /// Counts that an I/O completion ended a CPU's last idle span, and how long the wake-up delayed
    /// it.
    fn count_io_wake_up(&mut self, cpu: &mut Cpu<'_>) {
        if let Some(span) = cpu.spans.last_span() {
            span.woken_by_io = true;
        }
        let wake_up = cpu.last_wake_up;
        self.counts[wake_up.block].io_wake_ups += 1;
        let totals = cpu.recorded.make_block_current(wake_up.block);
        if let Some(state_totals) = totals.get_mut(wake_up.state) {
            state_totals.count_possibly_delayed_io(wake_up.added, wake_up.exit);
        }
    }

    /// Handles a CPU's clock that went back: counts it and forgets the CPU's history.
    #[cold]
    pub(crate) fn handle_clock_jump(&mut self, cpu: &mut Cpu<'_>) {
        self.clock_jumps += 1;
        cpu.forget_open_span_and_shadow_history(self.setup);
    }
}

/// Whether an event at `event_time` came during an idle period, and at most `within` ns before the period's
/// end.
#[inline(always)]
fn is_near_end_of_period(event_time: u64, period: std::ops::Range<u64>, within: u64) -> bool {
    event_time > period.start && period.end.saturating_sub(event_time) <= within
}
