//! Goes through a recording.

use std::collections::BTreeMap;
use std::io::Write;
use std::ops::Range;

use wakepath_policies::idle::Governor;
use wakepath_policies::poll;
use wakepath_policies::psd::Grant;
use wakepath_trace::recording::{
    Before, Event, EventKind, FlagCounts, IdlePeriod, Known as Recorded, Metadata,
    PackedIdlePeriod, Reader, RecordingError, TimerKind, Visitor,
};
use wakepath_units::cpus::MAX_CPUS;
use wakepath_units::{Nanoseconds, TickRate};

use crate::agreement::{Agreement, Shadow};
use crate::blocks::{Blocks, MAX_BLOCKS, Near};
use crate::cost::{Judge, Totals, TotalsByBlock};
use crate::drives::Drives;
use crate::idle_loop::{IdleLoop, Terms};
use crate::leases::Leases;
use crate::package::{self, Tally};
use crate::report::{BlockPolicy, BlockReport, PolicyReport, Report, StateReport};
use crate::setup::{Setup, SetupError, States};
use crate::span::{CAUSE_WITHIN, IdleSpan, IdleSpans, MAX_IDLE_PERIOD, Residency};
use crate::windows::{Finder, Windows};

/// Why a replay failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplayError {
    /// The recording cannot be read.
    #[error(transparent)]
    Recording(#[from] RecordingError),
    /// There are no idle states.
    #[error(transparent)]
    Setup(#[from] SetupError),
    /// The call log cannot be written.
    #[error("the call log: {0}")]
    Calls(#[from] std::io::Error),
    /// A recorded period is in a state that there is not.
    #[error(
        "CPU {cpu} was in idle state {state} at {time} ns, and there are only {states} (counted from 0). \
         The recording is of another machine than the states are"
    )]
    NoSuchState {
        /// The CPU.
        cpu: u32,
        /// The index of the state.
        state: u8,
        /// When the idle period ended, in ns.
        time: u64,
        /// How many there are.
        states: usize,
    },
    /// Whoever is told of the progress wants no more of it.
    #[error("stopped before the end of the recording")]
    Stopped,
    /// A governor of one's own no longer answers.
    #[error("the governor {0}")]
    Governor(String),
    /// Neither idle periods nor block I/O.
    #[error("the recording has no idle periods and no block I/O, so there is nothing to replay")]
    NoPeriods,
    /// A recording of more CPUs than any machine has.
    #[error("an event on CPU {0}; the recording is damaged")]
    NoSuchCpu(u32),
}

/// A CPU's idle span that ended so long before what is read now will not change any more, in ns.
const SETTLED_AFTER: u64 = 1_000_000_000;

/// What is the same for all CPUs of a kind.
struct Group<'a> {
    states: &'a States,
    judge: Judge,
    poll_limit: u64,
}

impl<'a> Group<'a> {
    fn new(states: &'a States, tick: TickRate) -> Self {
        Self {
            states,
            judge: Judge::new(states, tick),
            poll_limit: poll::limit(&states.declared, tick, None).0,
        }
    }
}

struct Cpu<'a> {
    number: usize,
    group: &'a Group<'a>,
    spans: IdleSpans,
    leases: Option<Leases>,
    latency_limit: i64,
    /// When the last idle span ended, if what woke the CPU is not known yet.
    woken_at: Option<u64>,
    /// The last completion of a request here.
    completed_at: u64,
    /// A completion ended the idle span before the CPU left its idle state.
    woken_inside: bool,
    phase: u64,
    loops: Vec<IdleLoop>,
    /// The end of the last idle span that all governors have gone through.
    asked_until: u64,
    /// A window near the last idle span.
    window: usize,
    recorded: TotalsByBlock,
    /// Block and state of the last idle period, and how much longer than the oracle's the wake-up took, in ns.
    recorded_last: (usize, usize, u64),
    /// The block of the last idle span.
    near: Near,
    /// The governor that ran is asked again, or the calls are wanted.
    watched: bool,
    shadow: Shadow,
    last: u64,
    has_periods: bool,
}

struct Run<'a> {
    cpus: Vec<Option<Box<Cpu<'a>>>>,
    common: Common<'a>,
}

/// What is not of one CPU.
struct Common<'a> {
    setup: &'a Setup,
    groups: &'a [Group<'a>],
    period: u64,
    drives: Drives,
    periods: u64,
    blocks: Blocks,
    counts: Vec<BlockCounts>,
    flags: FlagCounts,
    /// A CPU, and where its governor call log goes.
    calls: Option<(u32, &'a mut dyn Write)>,
    long_periods: u64,
    clock_jumps: u64,
    hotplug: Hotplug,
    package: PackageStage,
    /// Neither leases nor a package, as in most replays.
    plain: bool,
}

/// What is counted in a block of time beside what governors do.
#[derive(Clone, Copy, Debug, Default)]
struct BlockCounts {
    spans: u64,
    leased_spans: u64,
    io_wake_ups: u64,
    io_completions: u64,
}

/// What is done about the package.
enum PackageStage {
    /// Nothing: its power is not known.
    None,
    /// A first passage looks for the times in which all CPUs are idle, and for nothing else.
    Finds(Finder),
    /// Its sleep in these times under each governor.
    Tallies(Box<Tally>),
}

impl PackageStage {
    fn tally(&mut self) -> Option<&mut Tally> {
        match self {
            Self::Tallies(tally) => Some(tally),
            Self::None | Self::Finds(_) => None,
        }
    }
}

/// Takes note of what is done in an idle span by the governor that ran and by the oracle. `near`: where windows were found last.
#[inline(never)]
fn tally_span(
    tally: &mut Tally,
    near: &mut usize,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.windows = tally.windows.within(*near, span.start, span.end);
    *near = span.windows.end.saturating_sub(1);
    if !span.windows.is_empty() {
        tally_recorded(tally, judge, span, earlier, last);
    }
    span.judge(judge);
    if !judge.is_deepest(span.best.state) {
        tally.awake(package::ORACLE, &span.windows, span.start, span.end);
    }
}

/// Takes note of what the governor that ran did in an idle span in which the package may sleep.
fn tally_recorded(
    tally: &mut Tally,
    judge: &Judge,
    span: &mut IdleSpan,
    earlier: &[Residency],
    last: Residency,
) {
    span.package_saving = tally.saving(&span.windows, span.end);
    let mut slept = false;
    let mut tally_period = |period: Residency, start: u64| {
        let deepest = judge.is_deepest(usize::from(period.state));
        let time = start..start + period.duration;
        tally.idle_period(package::RECORDED, &span.windows, time, deepest, slept);
        slept = deepest;
    };
    let mut start = span.start;
    for period in earlier {
        tally_period(*period, start);
        start += period.duration;
    }
    tally_period(last, span.end - last.duration);
}

/// What becomes of a governor when its CPU goes off- and online.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hotplug {
    /// It begins anew.
    Restarts,
    /// It goes on with what it knows.
    GoesOn,
}

impl Hotplug {
    /// Drivers that enable a CPU's idle states anew each time it comes online, which resets the governor's
    /// data: `acpi_processor_hotplug()`, `haltpoll_cpu_online()`, and those of POWER (Linux 6.1 and 6.12).
    /// Others, such as `intel_idle` and those of device trees, leave them alone.
    fn of(driver: Option<&str>) -> Self {
        match driver {
            None | Some("acpi_idle" | "haltpoll" | "powernv_idle" | "pseries_idle") => {
                Self::Restarts
            }
            Some(_) => Self::GoesOn,
        }
    }
}

/// Replays a recording. `calls`: a CPU, and where its governor call log goes. `progress` is told the
/// events so far, and whether to go on is what it answers.
///
/// # Errors
/// The recording cannot be read, or does not fit the states; [`ReplayError::Stopped`].
pub fn replay(
    reader: &mut Reader,
    setup: &Setup,
    calls: Option<(u32, &mut dyn Write)>,
    progress: &mut dyn FnMut(u64) -> bool,
) -> Result<Report, ReplayError> {
    if setup.states.is_empty() {
        return Err(SetupError::NoStates.into());
    }
    if !(1..=MAX_BLOCKS).contains(&setup.blocks) {
        return Err(SetupError::Blocks(setup.blocks).into());
    }
    let (first, last) = reader.extent()?.ok_or(ReplayError::NoPeriods)?;
    let blocks = Blocks::new(first.0, last.0, setup.blocks);
    let hotplug = Hotplug::of(reader.metadata().idle_driver.as_deref());
    let groups: Vec<Group<'_>> = setup
        .states
        .iter()
        .map(|states| Group::new(states, setup.tick))
        .collect();
    let passages = 1 + u64::from(setup.package.is_some());
    let mut events = 0;
    let mut go_through = |reader: &mut Reader, run: &mut Run<'_>| -> Result<(), ReplayError> {
        while let Some(batch) = reader.next_batch()? {
            events += batch.len() as u64;
            batch.visit(run)?;
            run.settle_windows();
            run.check_governors()?;
            if !progress(events / passages) {
                return Err(ReplayError::Stopped);
            }
        }
        Ok(())
    };
    let package = match setup.package {
        None => PackageStage::None,
        Some(package) => {
            let alone = Setup {
                policies: Vec::new(),
                psd: None,
                latency: None,
                ran: None,
                blocks: 1,
                ..setup.clone()
            };
            let sleep = package.sleep;
            let finder = Finder::new(sleep.hysteresis.0, sleep.delay().0);
            let whole = Blocks::new(first.0, last.0, 1);
            let finds = PackageStage::Finds(finder);
            let mut run = Run::new(&alone, &groups, whole, None, hotplug, finds);
            go_through(reader, &mut run)?;
            reader.rewind();
            let windows = run.windows();
            let governors = setup.policies.len();
            PackageStage::Tallies(Box::new(Tally::new(package, windows, governors, blocks)))
        }
    };
    let calls = calls.map(|(cpu, out)| (cpu, out as &mut dyn Write));
    let mut run = Run::new(setup, &groups, blocks, calls, hotplug, package);
    go_through(reader, &mut run)?;
    run.finish(reader.metadata())
}

impl Visitor for Run<'_> {
    type Error = ReplayError;

    // Inlined, so that a period need not go through memory.
    #[inline(always)]
    fn idle(
        &mut self,
        end: Nanoseconds,
        number: u32,
        period: &PackedIdlePeriod,
    ) -> Result<(), ReplayError> {
        let (cpu, common) = self.cpu(end.0, number)?;
        common.idle(cpu, end.0, number, period)
    }

    #[inline(never)]
    fn other(&mut self, event: &Event) -> Result<(), ReplayError> {
        let (cpu, common) = self.cpu(event.time.0, event.cpu)?;
        common.other(cpu, event)
    }
}

impl<'a> Run<'a> {
    fn new(
        setup: &'a Setup,
        groups: &'a [Group<'a>],
        blocks: Blocks,
        calls: Option<(u32, &'a mut dyn Write)>,
        hotplug: Hotplug,
        package: PackageStage,
    ) -> Self {
        Self {
            cpus: Vec::new(),
            common: Common::new(setup, groups, blocks, calls, hotplug, package),
        }
    }

    /// The times in which all CPUs are idle, after a passage that looks for them.
    fn windows(mut self) -> Windows {
        for cpu in self.cpus.iter_mut().flatten() {
            self.common.end_span(cpu);
        }
        match self.common.package {
            PackageStage::Finds(finder) => finder.finish(),
            PackageStage::None | PackageStage::Tallies(_) => Windows::default(),
        }
    }

    /// Adds up the windows that all CPUs have gone through, if they are many.
    fn settle_windows(&mut self) {
        let common = &mut self.common;
        let Some(extents) = common.package.tally().and_then(|tally| {
            let cpus = &tally.windows.cpus;
            tally.is_worth_settling().then(|| cpus.clone())
        }) else {
            return;
        };
        let now = self.cpus.iter().flatten().map(|cpu| cpu.last).max();
        let now = now.unwrap_or(0);
        let mut through = u64::MAX;
        for (number, extent) in extents.into_iter().enumerate() {
            let Some(extent) = extent else { continue };
            let Some(Some(cpu)) = self.cpus.get_mut(number) else {
                through = through.min(extent.first);
                continue;
            };
            if cpu.spans.end().saturating_add(SETTLED_AFTER) < now {
                if cpu.spans.end() >= extent.last {
                    common.end_span(cpu);
                }
                if cpu.spans.are_closed() {
                    common.ask_governors(cpu);
                }
            }
            if cpu.asked_until < extent.last {
                through = through.min(cpu.asked_until);
            }
        }
        if let Some(tally) = common.package.tally() {
            tally.settle(through);
        }
    }

    /// Whether all governors of one's own still answer.
    fn check_governors(&self) -> Result<(), ReplayError> {
        self.cpus
            .iter()
            .flatten()
            .try_for_each(|cpu| check_governors(cpu))
    }

    /// The CPU of the next event, beside what is not of one CPU.
    #[inline(always)]
    fn cpu(
        &mut self,
        time: u64,
        number: u32,
    ) -> Result<(&mut Cpu<'a>, &mut Common<'a>), ReplayError> {
        let index = number as usize;
        if self.cpus.get(index).is_none_or(Option::is_none) {
            self.begin(number)?;
        }
        let common = &mut self.common;
        let Some(Some(cpu)) = self.cpus.get_mut(index) else {
            return Err(ReplayError::NoSuchCpu(number));
        };
        if time < cpu.last {
            common.jump(cpu);
        }
        cpu.last = time;
        Ok((cpu, common))
    }

    /// A CPU is seen for the first time.
    #[cold]
    fn begin(&mut self, number: u32) -> Result<(), ReplayError> {
        if number >= MAX_CPUS {
            return Err(ReplayError::NoSuchCpu(number));
        }
        let index = number as usize;
        if self.cpus.len() <= index {
            self.cpus.resize_with(index + 1, || None);
        }
        self.cpus[index] = Some(Box::new(self.common.new_cpu(number)));
        Ok(())
    }

    fn finish(mut self, metadata: &Metadata) -> Result<Report, ReplayError> {
        let mut cpus = Vec::new();
        let mut numbers = Vec::new();
        for (number, cpu) in self.cpus.into_iter().enumerate() {
            let Some(mut cpu) = cpu else { continue };
            self.common.end_span(&mut cpu);
            self.common.ask_governors(&mut cpu);
            cpu.shadow.settle(self.common.calls_of(number as u32))?;
            check_governors(&cpu)?;
            if cpu.has_periods {
                numbers.push(number as u32);
            }
            cpus.push(cpu);
        }
        if let Some(tally) = self.common.package.tally() {
            tally.settle(u64::MAX);
        }
        self.common.report(&cpus, numbers, metadata)
    }
}

fn check_governors(cpu: &Cpu<'_>) -> Result<(), ReplayError> {
    let failures = cpu.loops.iter().filter_map(IdleLoop::failure);
    match failures.chain(cpu.shadow.failure()).next() {
        Some(why) => Err(ReplayError::Governor(why.to_owned())),
        None => Ok(()),
    }
}

impl<'a> Common<'a> {
    fn new(
        setup: &'a Setup,
        groups: &'a [Group<'a>],
        blocks: Blocks,
        calls: Option<(u32, &'a mut dyn Write)>,
        hotplug: Hotplug,
        package: PackageStage,
    ) -> Self {
        Self {
            setup,
            groups,
            period: setup.tick.period().0,
            drives: Drives::default(),
            periods: 0,
            blocks,
            counts: vec![BlockCounts::default(); blocks.count()],
            flags: FlagCounts::default(),
            calls,
            long_periods: 0,
            clock_jumps: 0,
            hotplug,
            plain: setup.psd.is_none() && matches!(package, PackageStage::None),
            package,
        }
    }

    fn new_cpu(&self, cpu: u32) -> Cpu<'a> {
        let setup = self.setup;
        let group = &self.groups[setup.group_of(cpu)];
        let states = group.states;
        let blocks = self.blocks.count();
        let totals = TotalsByBlock::new(blocks, states.declared.len());
        let loops = setup.policies.iter().map(|(_, policy)| {
            let governor = match &states.power {
                Some(power) => Governor::with_power(policy, &states.declared, setup.tick, power),
                None => Governor::in_kernel(policy, &states.declared, setup.tick),
            };
            IdleLoop::new(governor, group.poll_limit, totals.clone())
        });
        Cpu {
            number: cpu as usize,
            group,
            spans: IdleSpans::default(),
            leases: setup.psd.map(|psd| Leases::new(&psd, setup.tick)),
            latency_limit: setup.latency_limit(cpu),
            woken_at: None,
            completed_at: 0,
            woken_inside: false,
            phase: 0,
            loops: loops.collect(),
            asked_until: 0,
            window: 0,
            recorded: totals.clone(),
            recorded_last: (0, 0, 0),
            near: Near::default(),
            watched: setup.ran.is_some() || self.calls.as_ref().is_some_and(|(of, _)| *of == cpu),
            shadow: Shadow::new(self.governor_that_ran(states), setup.ran.as_ref(), blocks),
            last: 0,
            has_periods: false,
        }
    }

    fn governor_that_ran(&self, states: &States) -> Option<Governor> {
        let ran = self.setup.ran.as_ref()?;
        Some(Governor::in_kernel(
            &ran.policy,
            &states.declared,
            self.setup.tick,
        ))
    }

    /// Where the governor call log of a CPU goes, if it is wanted.
    fn calls_of(&mut self, cpu: u32) -> Option<&mut dyn Write> {
        match &mut self.calls {
            Some((wanted, out)) if *wanted == cpu => Some(&mut **out),
            _ => None,
        }
    }

    fn other(&mut self, cpu: &mut Cpu<'_>, event: &Event) -> Result<(), ReplayError> {
        let time = event.time.0;
        match &event.kind {
            EventKind::Idle(period) => return self.idle(cpu, time, event.cpu, &period.into()),
            EventKind::Timer(TimerKind::Tick) => {
                cpu.phase = time;
                cpu.spans.tick(time);
                cpu.shadow.tick(time);
            }
            EventKind::Timer(_) | EventKind::Wake { .. } => self.end_span(cpu),
            EventKind::BlockIssue(block) => {
                self.end_span(cpu);
                self.drives.issue(time, event.cpu, block);
                self.grant(cpu, time, Grant::on_issue);
            }
            EventKind::BlockComplete(block) => {
                self.end_span(cpu);
                self.drives.complete(time, event.cpu, block);
                let of_time = cpu.near.block(&self.blocks, time);
                self.counts[of_time].io_completions += 1;
                let woken = cpu.woken_at.take();
                if woken.is_some_and(|at| time.saturating_sub(at) <= CAUSE_WITHIN) {
                    self.woken_by_io(cpu);
                }
                cpu.completed_at = time;
                self.grant(cpu, time, Grant::on_completion);
            }
            EventKind::Frequency(_)
            | EventKind::Queueing(_)
            | EventKind::Interrupt(_)
            | EventKind::Task { .. } => {}
            EventKind::Lost { .. } => {
                self.forget(cpu);
                self.drives.lost();
            }
            EventKind::Hotplug { .. } => {
                self.end_span(cpu);
                cpu.shadow.settle(self.calls_of(event.cpu))?;
                cpu.woken_at = None;
                if self.hotplug == Hotplug::Restarts {
                    self.ask_governors(cpu);
                    self.forget(cpu);
                    let fresh = self.new_cpu(event.cpu);
                    cpu.leases = fresh.leases;
                    for (old, new) in cpu.loops.iter_mut().zip(fresh.loops) {
                        old.restart(new);
                    }
                }
            }
        }
        Ok(())
    }

    #[inline(always)]
    fn idle(
        &mut self,
        cpu: &mut Cpu<'_>,
        end: u64,
        number: u32,
        period: &PackedIdlePeriod,
    ) -> Result<(), ReplayError> {
        let group = cpu.group;
        let Some(state) = group.judge.rule(usize::from(period.state())) else {
            return Err(ReplayError::NoSuchState {
                cpu: number,
                state: period.state(),
                time: end,
                states: group.states.declared.len(),
            });
        };
        let goes_on = cpu.spans.continues_with(period);
        if !goes_on {
            self.end_span(cpu);
        }
        self.periods += 1;
        cpu.has_periods = true;
        if cpu.watched {
            cpu.shadow.settle(self.calls_of(number))?;
        }
        if period.duration() > MAX_IDLE_PERIOD {
            self.long_periods += 1;
            self.forget(cpu);
            return Ok(());
        }
        // Where interrupts are on in the idle state, as in the polling one and in others that halt, they come before
        // its exit.
        let start = end.saturating_sub(period.duration());
        let inside =
            |at: u64| at > start && end.saturating_sub(at) <= CAUSE_WITHIN + state.exit_latency;
        let got_tick = period
            .got_tick()
            .or_else(|| (inside(cpu.phase) && !state.polling).then_some(true));
        // Otherwise nobody wants to know.
        if cpu.watched {
            let mut period = IdlePeriod::from(period);
            period.got_tick = got_tick;
            let place = (end, cpu.near.block(&self.blocks, start));
            cpu.shadow
                .period(place, &period, self.period, cpu.spans.longest());
        }
        self.flags.count(period);
        let limit_hit = period
            .poll_limit_hit()
            .unwrap_or_else(|| state.polling && period.duration() >= group.poll_limit);
        cpu.woken_inside = inside(cpu.completed_at);
        if goes_on {
            cpu.spans.extend();
        } else {
            if cpu.spans.is_full() {
                self.ask_governors(cpu);
            }
            cpu.spans.begin(start, period, self.period);
        }
        cpu.spans
            .add(end, period, got_tick == Some(true) || limit_hit);
        Ok(())
    }

    /// The idle span is over.
    #[inline(never)]
    fn end_span(&mut self, cpu: &mut Cpu<'_>) {
        let judge = &cpu.group.judge;
        let Some((span, earlier, last)) = cpu.spans.close(self.period, cpu.phase) else {
            return;
        };
        span.block = cpu.near.block(&self.blocks, span.start);
        let counts = &mut self.counts[span.block];
        counts.spans += 1;
        if self.plain {
            span.judge(judge);
        } else {
            if let Some(leases) = &mut cpu.leases {
                span.lease = leases.found_at(span.start);
                counts.leased_spans += u64::from(span.lease.holds(Nanoseconds(span.start)));
            }
            match &mut self.package {
                PackageStage::None => span.judge(judge),
                PackageStage::Finds(finder) => {
                    finder.span(cpu.number, span.start, span.end);
                    return;
                }
                PackageStage::Tallies(tally) => {
                    tally_span(tally, &mut cpu.window, judge, span, earlier, last);
                }
            }
        }
        let totals = cpu.recorded.of_mut(span.block);
        let mut account = |period: Residency, last| {
            let state = usize::from(period.state);
            judge.account(totals, state, period.duration, last, span.best)
        };
        for period in earlier {
            account(*period, false);
        }
        let added = account(last, true);
        cpu.recorded_last = (span.block, usize::from(last.state), added);
        cpu.woken_at = Some(span.end);
        if std::mem::take(&mut cpu.woken_inside) {
            cpu.woken_at = None;
            self.woken_by_io(cpu);
        }
    }

    /// The idle spans that are over go through all governors.
    fn ask_governors(&mut self, cpu: &mut Cpu<'_>) {
        let terms = Terms {
            states: &cpu.group.states.declared,
            judge: &cpu.group.judge,
            period: self.period,
            ceiling: self.setup.psd.map(|psd| psd.ceiling),
            latency_limit: cpu.latency_limit,
        };
        let spans = cpu.spans.closed();
        let mut tally = self.package.tally();
        for (i, idle_loop) in cpu.loops.iter_mut().enumerate() {
            let tally = tally.as_deref_mut();
            idle_loop.spans(terms, spans, tally.map(|tally| (tally, package::FIRST + i)));
        }
        if let Some(tally) = tally {
            for span in spans {
                tally.end_of_span(&span.windows, span.end, span.woken_by_io);
            }
        }
        if let Some(last) = spans.last() {
            cpu.asked_until = last.end;
        }
        cpu.spans.clear();
    }

    /// A request was issued or completed on this CPU; `counts` tells whether that gives a lease.
    fn grant(&self, cpu: &mut Cpu<'_>, time: u64, counts: fn(Grant) -> bool) {
        if let (Some(leases), Some(psd)) = (&mut cpu.leases, self.setup.psd)
            && counts(psd.grant)
        {
            leases.io(time);
        }
    }

    /// The last idle span was ended by an I/O completion.
    fn woken_by_io(&mut self, cpu: &mut Cpu<'_>) {
        if let Some(span) = cpu.spans.last_mut() {
            span.woken_by_io = true;
        }
        let (block, state, added) = cpu.recorded_last;
        self.counts[block].io_wake_ups += 1;
        if let Some(totals) = cpu.recorded.of_mut(block).get_mut(state) {
            totals.delay_io(added);
        }
    }

    /// The clock of this CPU goes back.
    #[cold]
    fn jump(&mut self, cpu: &mut Cpu<'_>) {
        self.clock_jumps += 1;
        self.forget(cpu);
    }

    /// Events of this CPU are missing: what it was doing is not known.
    fn forget(&self, cpu: &mut Cpu<'_>) {
        cpu.spans.forget();
        cpu.woken_at = None;
        cpu.woken_inside = false;
        cpu.shadow.restart(self.governor_that_ran(cpu.group.states));
    }

    fn report(
        &self,
        cpus: &[Box<Cpu<'_>>],
        numbers: Vec<u32>,
        metadata: &Metadata,
    ) -> Result<Report, ReplayError> {
        if self.periods == 0 && self.drives.is_empty() {
            return Err(ReplayError::NoPeriods);
        }
        let recorded = &metadata.recorded;
        let of = |are: fn(&PackedIdlePeriod) -> bool| self.flags.of(are);
        let known = |are| (recorded.tick != Recorded::Missing).then(|| of(are));
        let tally = match &self.package {
            PackageStage::Tallies(tally) => Some(&**tally),
            PackageStage::None | PackageStage::Finds(_) => None,
        };
        let whole = 0..self.blocks.count();
        let package = |governor| tally.map(|tally| tally.report(governor, whole.clone()));
        let states = |totals: &Of<'_>| merged(self.by_group(cpus, totals, &whole));
        let mut policies = vec![PolicyReport {
            policy: "recorded".to_owned(),
            states: states(&|cpu| &cpu.recorded),
            selections: self.periods,
            tick_stops: known(|period| period.stop_tick() == Some(true)),
            poll_limit_hits: known(|period| period.poll_limit_hit() == Some(true)),
            package: package(package::RECORDED),
        }];
        for (i, (name, _)) in self.setup.policies.iter().enumerate() {
            let sum = |what: fn(&IdleLoop) -> u64| cpus.iter().map(|c| what(&c.loops[i])).sum();
            policies.push(PolicyReport {
                policy: name.clone(),
                states: states(&|cpu| &cpu.loops[i].counts.totals),
                selections: sum(|l| l.counts.selections),
                tick_stops: Some(sum(|l| l.counts.tick_stops)),
                poll_limit_hits: Some(sum(|l| l.counts.poll_limit_hits)),
                package: package(package::FIRST + i),
            });
        }
        let agreement = self.setup.ran.as_ref().map(|ran| {
            let mut all = Agreement::default();
            for agreement in cpus.iter().flat_map(|c| &c.shadow.agreements) {
                all.add(agreement);
            }
            (ran.name.clone(), all)
        });
        let mut warnings = metadata.clone();
        if self.periods == 0 {
            warnings.warn("no-idle-periods", || {
                "the recording has no idle periods, so that governors have nothing to choose. Its drives are all that it shows"
                    .to_owned()
            });
        }
        for _ in 0..self.long_periods {
            warnings.warn("long-idle-period", || {
                "idle periods of more than ten minutes are left out; the clock may have jumped"
                    .to_owned()
            });
        }
        for _ in 0..self.clock_jumps {
            warnings.warn("clock-jump", || {
                "the clock of a CPU goes back; the idle period at that place is left out".to_owned()
            });
        }
        if let Some(tally) = tally {
            for _ in 0..tally.silent_cpus() {
                warnings.warn("silent-cpu", || {
                    "a CPU of the machine has no idle periods in the recording; for the package's energy it counts as \
                     asleep"
                        .to_owned()
                });
            }
            let left_out = tally.windows.left_out;
            if left_out > 0 {
                warnings.warn("short-windows", || {
                    format!(
                        "too many times in which all CPUs are idle: the package counts as awake in those of up to \
                         {left_out} ns"
                    )
                });
            }
        }
        let approximate = [
            (
                "sleep length inferred from timer events",
                of(PackedIdlePeriod::inferred),
            ),
            (
                "sleep length unknown; the CPU's longest idle span so far stands in for it",
                of(|period| period.sleep_length().is_none()),
            ),
            (
                "not known whether a task ran before; one is taken to have",
                of(|period| period.before() == Before::Unknown),
            ),
        ];
        let name = |device: u32| {
            let found = metadata.devices.iter().find(|d| d.device == device);
            found.map_or_else(
                || format!("{}:{}", device >> 20, device & 0xf_ffff),
                |d| d.name.clone(),
            )
        };
        let drives = self.drives.report(name);
        for drive in drives.iter().filter(|drive| drive.is_uncertain()) {
            warnings.warn("missing-completions", || {
                format!(
                    "{} of the {} requests issued to {} have no recorded completion, so its idle gaps and the timeouts \
                     that follow from them are uncertain",
                    drive.missed, drive.issued, drive.name
                )
            });
        }
        let sum = |what: fn(&BlockCounts) -> u64| self.counts.iter().map(what).sum();
        Ok(Report {
            periods: self.periods,
            spans: sum(|counts| counts.spans),
            cpus: numbers,
            duration_ns: self.blocks.duration(0..self.blocks.count()),
            policies,
            agreement,
            drives,
            io_wake_ups: sum(|counts| counts.io_wake_ups),
            io_completions: sum(|counts| counts.io_completions),
            blocks: whole.map(|block| self.block(cpus, tally, block)).collect(),
            approximate: approximate
                .into_iter()
                .filter(|(_, count)| *count > 0)
                .collect::<BTreeMap<_, _>>(),
            measured_latencies: self.setup.states.iter().all(|s| s.measured),
            warnings: warnings.warnings,
        })
    }

    /// One block of time.
    fn block(&self, cpus: &[Box<Cpu<'_>>], tally: Option<&Tally>, block: usize) -> BlockReport {
        let only = block..block + 1;
        let counts = self.counts[block];
        let policy = |governor: usize, totals: &Of<'_>| BlockPolicy {
            groups: self.by_group(cpus, totals, &only),
            package: tally.map(|tally| tally.report(governor, only.clone())),
            leased_spans: None,
        };
        let recorded = policy(package::RECORDED, &|cpu| &cpu.recorded);
        let governors = (0..self.setup.policies.len()).map(|i| BlockPolicy {
            leased_spans: self.setup.psd.map(|_| counts.leased_spans),
            ..policy(package::FIRST + i, &|cpu| &cpu.loops[i].counts.totals)
        });
        let mut agreement = Agreement::default();
        for of_cpu in cpus.iter().filter_map(|c| c.shadow.agreements.get(block)) {
            agreement.add(of_cpu);
        }
        BlockReport {
            duration_ns: self.blocks.duration(block..block + 1),
            spans: counts.spans,
            io_wake_ups: counts.io_wake_ups,
            io_completions: counts.io_completions,
            agreement,
            policies: std::iter::once(recorded).chain(governors).collect(),
        }
    }

    /// Sums over CPUs and over blocks, by group of CPUs and by state; nothing of a group without CPUs in the recording.
    fn by_group(
        &self,
        cpus: &[Box<Cpu<'_>>],
        totals: &Of<'_>,
        blocks: &Range<usize>,
    ) -> Vec<Vec<StateReport>> {
        let of_group = |group: &Group<'_>| {
            let mut sums: Vec<Totals> = Vec::new();
            for cpu in cpus.iter().filter(|cpu| std::ptr::eq(cpu.group, group)) {
                sums.resize(group.states.declared.len(), Totals::default());
                for (sum, of_cpu) in sums.iter_mut().zip(totals(cpu).sums(blocks.clone())) {
                    sum.add(&of_cpu);
                }
            }
            let power = group.states.power.is_some();
            let states = group.states.declared.iter().zip(&sums);
            states
                .map(|(state, sum)| StateReport::new(state.name.clone(), sum, power))
                .collect()
        };
        self.groups.iter().map(of_group).collect()
    }
}

/// What is summed up of a CPU.
type Of<'f> = dyn for<'b> Fn(&'b Cpu<'_>) -> &'b TotalsByBlock + 'f;

/// Sums over groups of CPUs, by the states' names.
fn merged(groups: Vec<Vec<StateReport>>) -> Vec<StateReport> {
    let mut reports: Vec<StateReport> = Vec::new();
    for report in groups.into_iter().flatten() {
        match reports.iter_mut().find(|r| r.state == report.state) {
            Some(found) => found.add(&report),
            None => reports.push(report),
        }
    }
    reports
}
