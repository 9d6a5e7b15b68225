//! State of a CPU during a replay: its open idle span, its lease, and its governors.

use wakepath_policies::idle::Governor;
use wakepath_policies::poll;
use wakepath_units::TickRate;

use crate::agreement::ShadowGovernor;
use crate::blocks::{TimeBlockCursor, TimeBlocks};
use crate::cost::{IdlePeriodJudge, TotalsByBlock};
use crate::error::ReplayError;
use crate::idle_loop::{IdleLoop, SpanContext};
use crate::leases::LeaseWithPendingIo;
use crate::setup::{GroupIdleStates, Setup};
use crate::span::IdleSpans;

/// CPUs with the same idle states.
pub(crate) struct CpuGroup<'a> {
    pub(crate) states: &'a GroupIdleStates,
    pub(crate) judge: IdlePeriodJudge,
    /// Longest time in the polling state in ns, unless a governor has its own limit.
    pub(crate) poll_limit: u64,
}

impl<'a> CpuGroup<'a> {
    /// Prepares a replay on CPUs with these idle states.
    pub(crate) fn new(states: &'a GroupIdleStates, tick: TickRate) -> Self {
        Self {
            states,
            judge: IdlePeriodJudge::new(states, tick),
            poll_limit: poll::polling_limit(&states.declared, tick, None).0,
        }
    }
}

/// A wake-up from a recorded idle span.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecordedWakeUp {
    /// Block of time in which the idle span began.
    pub(crate) block: usize,
    /// Idle state that the CPU left.
    pub(crate) state: usize,
    /// Time by which the wake-up was slower than the oracle's, in ns.
    pub(crate) added: u64,
    /// Exit latency of the state in ns.
    pub(crate) exit: u64,
}

/// One CPU of the recording during a replay.
pub(crate) struct Cpu<'a> {
    pub(crate) number: usize,
    pub(crate) group: &'a CpuGroup<'a>,
    pub(crate) spans: IdleSpans,
    pub(crate) leases: Option<LeaseWithPendingIo>,
    latency_limit: i64,
    /// End of the last idle span in ns; `None` once the cause of the wake-up is known.
    pub(crate) woken_at: Option<u64>,
    /// Time of the last I/O completion on this CPU, in ns.
    pub(crate) completed_at: u64,
    /// Whether a completion ended the idle span before the CPU left its idle state.
    pub(crate) woken_inside: bool,
    /// Any time at which the CPU's tick ran, in ns.
    pub(crate) tick_phase: u64,
    pub(crate) loops: Vec<IdleLoop>,
    /// End of the last idle span that all governors have gone through, in ns.
    pub(crate) asked_until: u64,
    /// Index of a window near the last idle span.
    pub(crate) window: usize,
    pub(crate) recorded: TotalsByBlock,
    pub(crate) last_wake_up: RecordedWakeUp,
    /// Cursor of the last idle span's block of time.
    pub(crate) block_cursor: TimeBlockCursor,
    /// Whether the shadow governor is asked, or its calls are exported.
    pub(crate) is_watched: bool,
    pub(crate) shadow: ShadowGovernor,
    /// Time of the last event in ns.
    pub(crate) last_event: u64,
    pub(crate) has_periods: bool,
}

impl<'a> Cpu<'a> {
    /// A CPU before its first event. `exports_calls`: its governor call log is wanted.
    pub(crate) fn new(
        setup: &Setup,
        group: &'a CpuGroup<'a>,
        number: u32,
        blocks: TimeBlocks,
        exports_calls: bool,
    ) -> Self {
        let states = group.states;
        let totals = TotalsByBlock::new(blocks.block_count(), states.declared.len());
        let recorded = setup.recorded_governor.as_ref();
        let shadow = setup.make_shadow_governor(states);
        Self {
            number: number as usize,
            group,
            spans: IdleSpans::default(),
            leases: setup
                .psd
                .map(|psd| LeaseWithPendingIo::new(&psd, setup.tick)),
            latency_limit: setup.latency_limit_of_cpu(number),
            woken_at: None,
            completed_at: 0,
            woken_inside: false,
            tick_phase: 0,
            loops: make_idle_loops(setup, group, &totals),
            asked_until: 0,
            window: 0,
            recorded: totals,
            last_wake_up: RecordedWakeUp::default(),
            block_cursor: TimeBlockCursor::default(),
            is_watched: recorded.is_some() || exports_calls,
            shadow: ShadowGovernor::new(shadow, recorded, blocks.block_count()),
            last_event: 0,
            has_periods: false,
        }
    }

    /// Forgets the open idle span and the shadow's history after missing events, because nothing is
    /// known of the time between.
    pub(crate) fn forget_open_span_and_shadow_history(&mut self, setup: &Setup) {
        self.spans.drop_open_span();
        self.woken_at = None;
        self.woken_inside = false;
        self.shadow
            .restart_without_history(setup.make_shadow_governor(self.group.states));
    }

    /// Restarts leases and governors without history, as for a CPU that comes online.
    pub(crate) fn restart_leases_and_governors(&mut self, setup: &Setup) {
        self.leases = setup
            .psd
            .map(|psd| LeaseWithPendingIo::new(&psd, setup.tick));
        let nothing = TotalsByBlock::new(1, self.group.states.declared.len());
        let fresh = make_idle_loops(setup, self.group, &nothing);
        for (idle_loop, fresh_loop) in self.loops.iter_mut().zip(fresh) {
            idle_loop.take_governor_from(fresh_loop);
        }
    }

    /// Facts common to this CPU's idle spans. `tick_period` in ns.
    pub(crate) fn span_context(&self, setup: &Setup, tick_period: u64) -> SpanContext<'a> {
        let group = self.group;
        SpanContext {
            states: &group.states.declared,
            judge: &group.judge,
            tick_period,
            ceiling: setup.psd.map(|psd| psd.ceiling),
            latency_limit: self.latency_limit,
        }
    }

    /// Fails if a user's own governor on this CPU no longer answers.
    pub(crate) fn fail_if_own_governor_stopped(&self) -> Result<(), ReplayError> {
        let failures = self.loops.iter().filter_map(IdleLoop::failure_reason);
        match failures.chain(self.shadow.failure_reason()).next() {
            Some(why) => Err(ReplayError::Governor(why.to_owned())),
            None => Ok(()),
        }
    }
}

/// Makes an idle loop around each governor of the setup. `totals`: empty sums to start with.
fn make_idle_loops(setup: &Setup, group: &CpuGroup<'_>, totals: &TotalsByBlock) -> Vec<IdleLoop> {
    let states = group.states;
    let loops = setup.policies.iter().map(|(_, policy)| {
        let governor = match &states.power {
            Some(power) => {
                Governor::new_with_idle_power(policy, &states.declared, setup.tick, power)
            }
            None => Governor::new_or_only_state_rule(policy, &states.declared, setup.tick),
        };
        IdleLoop::new(governor, group.poll_limit, totals.clone())
    });
    loops.collect()
}
