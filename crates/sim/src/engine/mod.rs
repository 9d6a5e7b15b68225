//! A run: the parts of all mechanisms side by side, and the event loop over them (`dispatch`).
//!
//! Every mechanism opens its own part only, and tells the others what happens by their methods. No rule of a mechanism is
//! here.

mod counted;
mod dispatch;
mod warm_up;
mod watchdog;
use crate::block::request::Request;
use crate::core::basics::RequestId;
use crate::core::calendar::Calendar;
use crate::core::random::Streams;
use crate::core::span::Span;
use crate::cpu::pulled::MigratoryTimer;
use crate::cpu::state::Cpu;
use crate::cpu::totals::CpuTotals;
use crate::drive::{Drive, DriveTotals};
use crate::emulator::state::Turns;
use crate::error::SimError;
use crate::frequency::clocks::Domain;
use crate::frequency::slots::ClockControl;
use crate::observe::observer::Observer;
use crate::observe::recorder::Recorder;
use crate::page_cache::state::Totals;
use crate::page_cache::write_back::WriteBack;
use crate::power::state::PowerTracker;
use crate::rcu::state::GracePeriods;
use crate::scheduler::run_queue::Scheduler;
use crate::setup::Setup;
use crate::task::fio::jobs::Jobs;
use crate::task::fio::rates::JobTotals;
use crate::task::rtapp::state::{ThreadTotals, Threads};
use crate::task::state::Task;

use self::counted::WarmUp;

pub(crate) struct Engine<'a, O> {
    pub(crate) observer: &'a mut O,
    /// The observer has not said that it wants no more.
    pub(crate) watched: bool,
    pub(crate) setup: &'a Setup,
    pub(crate) now: u64,
    pub(crate) calendar: Calendar,
    pub(crate) cpus: Vec<Cpu<'a>>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) clock_control: ClockControl,
    pub(crate) power: PowerTracker,
    pub(crate) tasks: Vec<Task>,
    pub(crate) requests: Vec<Request>,
    pub(crate) free_requests: Vec<RequestId>,
    pub(crate) drives: Vec<Drive>,
    /// By background source, if there are timers that other CPUs take over.
    pub(crate) pulled: Vec<MigratoryTimer>,
    /// If the CPUs take turns.
    pub(crate) turns: Option<Turns>,
    /// What each queue has collected; empty where none does.
    pub(crate) collected: Vec<Vec<RequestId>>,
    pub(crate) random: Streams,
    pub(crate) recorder: Recorder,
    pub(crate) threads: Threads,
    pub(crate) scheduler: Scheduler,
    pub(crate) job_totals: JobTotals,
    /// Which jobs have started and ended.
    pub(crate) jobs: Jobs,
    /// If CPUs wait for grace periods.
    pub(crate) rcu: Option<GracePeriods>,
    /// If somebody writes into the page cache.
    pub(crate) cache: Option<Box<WriteBack>>,
    /// Processes of jobs and threads that have not ended.
    processes: usize,
    /// Why the run has no result.
    failure: Option<SimError>,
    /// Events that were only there for the observer.
    looks: u64,
    /// What had been counted by the end of the warm-up, once that is over.
    warm_up: Option<Box<WarmUp>>,
    drives_before: Vec<Option<DriveTotals>>,
}

impl<'a, O: Observer> Engine<'a, O> {
    pub(crate) fn new(
        setup: &'a Setup,
        cpus: Vec<Cpu<'a>>,
        domains: Vec<Domain>,
        drives: Vec<Drive>,
        seed: u64,
        observer: &'a mut O,
    ) -> Self {
        let queues = setup.completion.collecting_queues(drives.len());
        let turns = setup.turns();
        let devices = queues + Self::watched(drives.len()) + usize::from(turns.is_some());
        let mut engine = Self {
            observer,
            watched: true,
            now: 0,
            calendar: Calendar::new(cpus.len(), domains.len(), devices),
            clock_control: ClockControl::new(&setup.frequency, setup.power.has_limit(), &domains),
            domains,
            power: PowerTracker::new(&setup.power, &setup.frequency, &setup.topology),
            tasks: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            turns,
            collected: vec![Vec::new(); queues],
            drives,
            pulled: if setup
                .background
                .iter()
                .any(|source| source.timer.is_pulled())
            {
                vec![MigratoryTimer::default(); setup.background.len()]
            } else {
                Vec::new()
            },
            random: Streams::new(
                seed,
                cpus.len(),
                setup.background.len(),
                setup.cpu.has_random_exits(),
            ),
            recorder: Recorder::default(),
            processes: 0,
            threads: Threads::new(&setup.programs),
            scheduler: Scheduler::default(),
            job_totals: JobTotals::new(setup.jobs.len()),
            failure: None,
            looks: 0,
            jobs: Jobs::new(setup.jobs.len()),
            rcu: setup.grace_periods(),
            cache: None,
            warm_up: None,
            drives_before: Vec::new(),
            cpus,
            setup,
        };
        engine.start_background();
        engine.start_write_back();
        engine.start_sugov();
        (0..engine.drives.len()).for_each(|drive| engine.watch_drive(drive));
        (0..engine.domains.len()).for_each(|domain| engine.observe_frequency(domain));
        for cpu in 0..engine.cpus.len() {
            engine.enter_idle(cpu);
            engine.arm_clock(cpu);
        }
        engine.start_clocks();
        engine.start_next_group();
        engine.start_threads();
        engine
    }

    /// A process of a job or a thread begins. The run lasts until all have ended.
    pub(crate) fn begin_process(&mut self) {
        self.processes += 1;
    }

    pub(crate) fn end_process(&mut self) {
        self.processes -= 1;
    }

    /// Whether a process of a job or a thread has not ended.
    #[inline(always)]
    pub(crate) fn has_process(&self) -> bool {
        self.processes > 0
    }

    /// Ends the run without a result; the first reason counts.
    #[cold]
    pub(crate) fn give_up(&mut self, why: SimError) {
        self.failure.get_or_insert(why);
        self.processes = 0;
    }

    /// The present event was only there for the observer, and costs the run nothing.
    pub(crate) fn note_look(&mut self) {
        self.looks += 1;
    }

    /// How many of the drives have a slot: nothing happens in a drive by itself, unless somebody
    /// looks.
    pub(crate) fn watched(drives: usize) -> usize {
        if O::WATCHES { drives } else { 0 }
    }

    /// Which device is the CPU that plays the drives, if there is one.
    pub(crate) fn player_slot(&self) -> usize {
        self.collected.len() + Self::watched(self.drives.len())
    }

    fn finish(mut self, events: u64) -> Finished {
        (0..self.cpus.len()).for_each(|cpu| self.charge(cpu));
        self.end_uncore_slots();
        let mut cpus = self.cpu_totals();
        self.power.finish(self.now);
        self.end_observation();
        let programs = &self.setup.programs;
        let never_ran = (0..programs.task_count())
            .map(|program| self.why_never_ran(program))
            .collect();
        let begin = self.leave_out_warm_up(&mut cpus);
        let requests_from = self.jobs.counts_from();
        let is_capped = self.processes > 0 && programs.is_capped(self.now);
        let migrations = self.scheduler.migrations();
        Finished {
            span: Span::new(begin, self.now, requests_from, events),
            threads: self.threads.into_totals(never_ran, is_capped, migrations),
            jobs: self.job_totals,
            power: self.power,
            cpus,
            domains: self.domains,
            recorder: self.recorder,
            page_cache: self.cache.map(|cache| cache.into_totals()),
            drives: {
                let mut totals = self
                    .drives
                    .into_iter()
                    .map(|d| d.finish(self.now))
                    .collect::<Option<Vec<_>>>();
                let before = self.drives_before.iter().flatten();
                for (totals, before) in totals.iter_mut().flatten().zip(before) {
                    totals.leave_out(before);
                }
                totals
            },
        }
    }
}

/// What a run leaves behind.
pub(crate) struct Finished {
    pub(crate) span: Span,
    pub(crate) power: PowerTracker,
    pub(crate) cpus: Vec<CpuTotals>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) recorder: Recorder,
    pub(crate) threads: ThreadTotals,
    pub(crate) jobs: JobTotals,
    /// If somebody wrote into the page cache.
    pub(crate) page_cache: Option<Totals>,
    /// Of each drive, if they have power states.
    pub(crate) drives: Option<Vec<DriveTotals>>,
}
