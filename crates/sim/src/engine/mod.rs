//! A run: the context and all mechanisms' parts side by side, and the event loop (`dispatch`).
//!
//! Every mechanism opens its own part only. An event that reaches other mechanisms is a method on the whole, in the
//! mechanism's folder. `tests/all/rooms.rs` lists which folder's events call which; the list has no circle.

mod counted;
mod dispatch;
mod warm_up;
mod watchdog;
use crate::block::requests::Requests;
use crate::core::calendar::Calendar;
use crate::core::context::Context;
use crate::core::observer::Observer;
use crate::core::random::Streams;
use crate::core::span::Span;
use crate::cpu::migratory_timers::MigratoryTimers;
use crate::cpu::state::Cpu;
use crate::cpu::totals::CpuTotals;
use crate::drive::{Drive, DriveTotals};
use crate::emulator::turn_taking::Emulator;
use crate::frequency::clocks::Domain;
use crate::frequency::slots::ClockControl;
use crate::observe::recorder::Recorder;
use crate::page_cache::state::Totals;
use crate::page_cache::write_back::WriteBack;
use crate::power::state::PowerTracker;
use crate::rcu::state::GracePeriods;
use crate::scheduler::run_queue::Scheduler;
use crate::setup::Setup;
use crate::task::fio::rates::JobTotals;
use crate::task::kernel_thread::BackgroundSetup;
use crate::task::rtapp::state::ThreadTotals;
use crate::task::server::state::ServerTotals;
use crate::task::state::Task;
use crate::task::workload::WorkloadState;

use self::counted::WarmUp;

/// A run's whole state: the context, and every mechanism's part.
pub(crate) struct Engine<'a, O> {
    pub(crate) context: Context<'a, O>,
    pub(crate) setup: &'a Setup,
    pub(crate) cpus: Vec<Cpu<'a>>,
    pub(crate) migratory_timers: MigratoryTimers,
    pub(crate) domains: Vec<Domain>,
    pub(crate) clock_control: ClockControl,
    pub(crate) power: PowerTracker,
    pub(crate) scheduler: Scheduler,
    pub(crate) tasks: Vec<Task>,
    pub(crate) workload: WorkloadState,
    pub(crate) requests: Requests,
    pub(crate) drives: Vec<Drive>,
    pub(crate) emulator: Emulator,
    pub(crate) recorder: Recorder,
    /// RCU's grace periods, if the machine's CPUs wait for them.
    pub(crate) rcu: Option<GracePeriods>,
    /// The page cache, if any job writes into it.
    pub(crate) cache: Option<Box<WriteBack>>,
    /// Totals by the end of the warm-up; `None` before, and without a warm-up.
    warm_up: Option<Box<WarmUp>>,
    drives_before: Vec<Option<DriveTotals>>,
}

impl<'a, O: Observer> Engine<'a, O> {
    /// Creates a run, and starts everything that begins at time 0.
    pub(crate) fn new(
        setup: &'a Setup,
        cpus: Vec<Cpu<'a>>,
        domains: Vec<Domain>,
        drives: Vec<Drive>,
        seed: u64,
        observer: &'a mut O,
    ) -> Self {
        let queues = setup.completion.queue_count(drives.len());
        let collecting = setup.completion.collecting_queue_count(drives.len());
        // A drive has no own events unless an observer watches its power state.
        let watched_drives = if O::WATCHES { drives.len() } else { 0 };
        let calendar = Calendar::new(
            cpus.len(),
            domains.len(),
            collecting,
            watched_drives,
            setup.server().is_some() || setup.programs.have_arrivals(),
            setup.cpu.is_stolen_from(),
        );
        let sources = setup.background.len();
        let random = Streams::new(
            seed,
            cpus.len(),
            sources,
            setup.cpu.has_random_exits(),
            setup.cpu.is_stolen_from(),
        );
        let timers_migrate = setup
            .background
            .iter()
            .any(BackgroundSetup::has_migratory_timer);
        let mut engine = Self {
            context: Context::new(calendar, random, observer),
            migratory_timers: MigratoryTimers::new(if timers_migrate { sources } else { 0 }),
            clock_control: ClockControl::new(
                &setup.frequency,
                setup.power.has_power_limit(),
                &domains,
            ),
            domains,
            power: PowerTracker::new(&setup.power, &setup.frequency, &setup.topology),
            scheduler: Scheduler::default(),
            tasks: Vec::new(),
            workload: WorkloadState::new(setup),
            requests: Requests::new(queues, collecting),
            drives,
            emulator: setup.create_emulator(),
            recorder: Recorder::default(),
            rcu: setup.create_grace_periods(),
            cache: None,
            warm_up: None,
            drives_before: Vec::new(),
            cpus,
            setup,
        };
        engine.start_all_at_time_zero();
        engine
    }

    /// Starts everything that begins at time 0: background work, clocks, the first jobs, threads.
    fn start_all_at_time_zero(&mut self) {
        self.create_background_workers();
        self.create_page_cache_and_flusher();
        self.create_journal_and_threads();
        self.create_sugov_threads();
        (0..self.drives.len()).for_each(|drive| self.tell_observer_of_drive_state(drive));
        (0..self.domains.len()).for_each(|domain| self.tell_observer_of_frequency(domain));
        for cpu in 0..self.cpus.len() {
            self.enter_idle(cpu);
            self.schedule_next_clock_event(cpu);
            self.schedule_next_theft(cpu);
        }
        self.start_slots_of_awake_clusters();
        self.start_next_job_group();
        self.create_rtapp_threads();
        self.create_server();
    }

    fn finish_run(mut self, events: u64) -> Finished {
        (0..self.cpus.len()).for_each(|cpu| self.account_work_until_now(cpu));
        self.end_due_uncore_slots();
        let now = self.context.now();
        let mut cpus = self.cpu_totals_by_now();
        self.power.settle_all_times(now);
        self.context.end_observation();
        let programs = &self.setup.programs;
        let never_ran = (0..programs.task_count())
            .map(|program| self.why_never_ran(program))
            .collect();
        let begin = self.subtract_warm_up(&mut cpus);
        let requests_from = match self.setup.server() {
            Some(server) => server.span_with_counted_requests().0,
            None => self.workload.jobs().first_counted_time(),
        };
        let server = self.workload.server_totals();
        let is_capped = self.context.has_unended_process() && programs.is_ended_by_cap(now);
        let migrations = self.scheduler.migration_count();
        let (threads, jobs) = (self.workload).into_totals(never_ran, is_capped, migrations);
        Finished {
            span: Span::new(begin, now, requests_from, events),
            threads,
            jobs,
            server,
            power: self.power,
            cpus,
            domains: self.domains,
            recorder: self.recorder,
            page_cache: self.cache.map(|cache| cache.into_totals()),
            drives: {
                let mut totals = self
                    .drives
                    .into_iter()
                    .map(|d| d.into_totals_at(now))
                    .collect::<Option<Vec<_>>>();
                let before = self.drives_before.iter().flatten();
                for (totals, before) in totals.iter_mut().flatten().zip(before) {
                    totals.subtract_earlier(before);
                }
                totals
            },
        }
    }
}

/// What a finished run leaves for its result.
pub(crate) struct Finished {
    pub(crate) span: Span,
    pub(crate) power: PowerTracker,
    pub(crate) cpus: Vec<CpuTotals>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) recorder: Recorder,
    pub(crate) threads: ThreadTotals,
    pub(crate) jobs: JobTotals,
    server: Option<ServerTotals>,
    /// Totals of the page cache, if any job wrote into it.
    pub(crate) page_cache: Option<Totals>,
    /// Totals by drive; `None` if drives have no power states.
    pub(crate) drives: Option<Vec<DriveTotals>>,
}

impl Finished {
    /// Totals of the server, if the workload is one.
    pub(crate) fn server_totals(&self) -> Option<&ServerTotals> {
        self.server.as_ref()
    }
}
