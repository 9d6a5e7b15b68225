//! The event loop: interrupts, idle loop, tasks and the drive.
//!
//! Every CPU is in one [`Mode`] and has at most one phase that ends by itself (a wake-up, a segment
//! of work, a polling limit, an interrupt on its way to a sleeping CPU).

use std::collections::VecDeque;

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::{IdleDecision, IdleGovernor, IdleOutcome, IdleQuery};
use wakepath_policies::psd::Grant;
use wakepath_units::Nanoseconds;

use crate::attribution::{Part, Parts, Work};
use crate::cpu::{Cpu, CpuId, Interrupt, Mode, NEVER, RequestId, TaskId, Timer};
use crate::drive::{Direction, Drive};
use crate::frequency::Domain;
use crate::observer::{Activity, Observer, RequestStep};
use crate::power::PowerTracker;
use crate::queue::{EventQueue, Next};
use crate::random::Streams;
use crate::recorder::Recorder;
use crate::setup::{Cycles, Setup};
use crate::task::{Step, Task};

/// The latency request when nobody asks for anything: 2147483647 us
/// (`PM_QOS_CPU_LATENCY_DEFAULT_VALUE`).
const NO_LATENCY_REQUEST: i64 = 2_147_483_647_000;

/// Who has a slot in the event queue: each CPU two, for the end of its phase and for its next tick
/// or timer, and each cluster one, for the arrival of its next frequency.
#[derive(Clone, Copy, Debug)]
enum Slot {
    Phase(CpuId),
    Clock(CpuId),
    Frequency(usize),
}

impl Slot {
    fn number(self, cpus: usize) -> usize {
        match self {
            Self::Phase(cpu) => 2 * cpu,
            Self::Clock(cpu) => 2 * cpu + 1,
            Self::Frequency(cluster) => 2 * cpus + cluster,
        }
    }

    fn of(number: usize, cpus: usize) -> Self {
        match (number / 2, number % 2) {
            _ if number >= 2 * cpus => Self::Frequency(number - 2 * cpus),
            (cpu, 0) => Self::Phase(cpu),
            (cpu, _) => Self::Clock(cpu),
        }
    }
}

/// A request on its way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) task: TaskId,
    pub(crate) direction: Direction,
    /// When its submission began.
    pub(crate) begun: u64,
    /// Its latency so far, up to `cut`.
    pub(crate) parts: Parts,
    /// Up to when its time is attributed.
    pub(crate) cut: u64,
    /// How long the task's CPU takes to hear of the completion.
    pub(crate) ipi: u64,
}

pub(crate) struct Engine<'a, O> {
    observer: &'a mut O,
    setup: &'a Setup,
    /// As declared to the governors.
    states: &'a IdleStates,
    now: u64,
    /// The events without a slot are finished requests.
    queue: EventQueue<RequestId>,
    cpus: Vec<Cpu>,
    domains: Vec<Domain>,
    power: PowerTracker,
    tasks: Vec<Task>,
    requests: Vec<Request>,
    free_requests: Vec<RequestId>,
    drive: Drive,
    random: Streams,
    recorder: Recorder,
    jobs_running: usize,
}

impl<'a, O: Observer> Engine<'a, O> {
    pub(crate) fn new(
        setup: &'a Setup,
        cpus: Vec<Cpu>,
        domains: Vec<Domain>,
        states: &'a IdleStates,
        seed: u64,
        observer: &'a mut O,
    ) -> Self {
        let mut engine = Self {
            observer,
            now: 0,
            queue: EventQueue::new(2 * cpus.len() + setup.clusters.len()),
            domains,
            power: PowerTracker::new(setup),
            tasks: Vec::new(),
            requests: Vec::new(),
            free_requests: Vec::new(),
            drive: Drive::new(setup.units),
            random: Streams::new(seed, cpus.len(), setup.background.len()),
            recorder: Recorder::default(),
            jobs_running: 0,
            cpus,
            setup,
            states,
        };
        engine.start_background();
        (0..engine.domains.len()).for_each(|cluster| engine.observe_frequency(cluster));
        for cpu in 0..engine.cpus.len() {
            engine.enter_idle(cpu);
        }
        engine.start_jobs();
        engine
    }

    /// Runs until every job has ended.
    pub(crate) fn run(mut self) -> Finished {
        while self.jobs_running > 0 && !self.observer.has_enough() {
            let Some((time, next)) = self.queue.pop() else {
                break;
            };
            debug_assert!(
                time >= self.now,
                "{next:?} at {time} comes after {}",
                self.now
            );
            self.now = time;
            match next {
                Next::Other(request) => self.served(request),
                Next::Slot(number) => match Slot::of(number, self.cpus.len()) {
                    Slot::Phase(cpu) => self.end_phase(cpu),
                    Slot::Clock(cpu) => self.clock(cpu),
                    Slot::Frequency(cluster) => self.frequency_changed(cluster),
                },
            }
        }
        self.finish()
    }

    // Start and end

    fn start_background(&mut self) {
        for cpu in 0..self.cpus.len() {
            for index in 0..self.setup.background.len() {
                // The first tasks are the workers, numbered by CPU and source.
                self.tasks.push(Task::worker(cpu));
                self.arm_background(cpu, index);
            }
        }
    }

    fn start_jobs(&mut self) {
        let setup = self.setup;
        let home = &setup.clusters[setup.home];
        let mut next = 0;
        for (job, of_job) in setup.jobs.iter().enumerate() {
            for _ in 0..of_job.processes {
                let cpu = home.first_cpu + next % home.cpus;
                next += 1;
                let task = self.tasks.len();
                self.tasks.push(Task::job(job, cpu));
                self.jobs_running += 1;
                self.wake_task(None, task, cpu);
            }
        }
    }

    fn finish(mut self) -> Finished {
        for cpu in 0..self.cpus.len() {
            self.charge(cpu);
            let c = &mut self.cpus[cpu];
            c.settle_power(self.now, self.domains[c.cluster].current());
            if matches!(c.mode, Mode::Idle | Mode::Waking) || c.polling_until.is_some() {
                c.stats[c.state].time += self.now - c.idle_since - c.busy_in_stay;
            }
        }
        self.power.finish(self.now);
        self.observer.finished(Nanoseconds(self.now));
        Finished {
            end: self.now,
            power: self.power,
            cpus: self.cpus,
            domains: self.domains,
            recorder: self.recorder,
        }
    }

    // Clock

    /// Arms the next arrival of a background source on a CPU.
    fn arm_background(&mut self, cpu: CpuId, index: usize) {
        let source = self.setup.background[index];
        let delay = self.random.background(cpu, index, source.mean_interval);
        let timer = Timer::Background(index);
        if source.as_task {
            // A timer-wheel timer expires with a tick.
            let period = self.setup.tick.period().0;
            let at = (self.now + delay).div_ceil(period) * period;
            self.cpus[cpu].wheel.push((at, timer));
        } else {
            self.cpus[cpu].timers.push((self.now + delay, timer));
        }
    }

    fn schedule(&mut self, slot: Slot, time: u64) {
        self.queue.schedule(slot.number(self.cpus.len()), time);
    }

    /// Schedules the next clock event of a CPU, if it has changed.
    fn arm_clock(&mut self, cpu: CpuId) {
        let slot = Slot::Clock(cpu).number(self.cpus.len());
        let at = self.cpus[cpu].next_clock_event();
        if at == NEVER {
            self.queue.cancel(slot);
        } else if at != self.queue.due(slot) {
            self.queue.schedule(slot, at);
        }
    }

    fn clock(&mut self, cpu: CpuId) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        if !c.tick_stopped && c.next_tick <= now {
            c.next_tick += self.setup.tick.period().0;
            c.got_tick |= c.in_idle_loop;
            c.interrupts.push_back(Interrupt::Tick);
        }
        expire(&mut c.timers, now, &mut c.interrupts);
        // A stopped tick that was left for a timer-wheel timer counts as a tick.
        if expire(&mut c.wheel, now, &mut c.interrupts) {
            c.got_tick |= c.in_idle_loop;
        }
        self.arm_clock(cpu);
        self.kick(cpu);
    }

    // Interrupts

    fn interrupt(&mut self, cpu: CpuId, interrupt: Interrupt) {
        self.cpus[cpu].interrupts.push_back(interrupt);
        self.kick(cpu);
    }

    /// Makes a CPU look at its pending interrupts.
    fn kick(&mut self, cpu: CpuId) {
        match self.cpus[cpu].mode {
            // A polling CPU serves interrupts and goes on polling.
            Mode::Idle if self.cpus[cpu].polling_until.is_some() => self.next(cpu),
            Mode::Idle => self.begin_wake(cpu),
            Mode::Task => {
                self.pause(cpu);
                self.next(cpu);
            }
            // They are served when the wake-up or the interrupt in progress ends.
            Mode::Waking | Mode::Interrupt(_) => {}
        }
    }

    fn serve(&mut self, cpu: CpuId, interrupt: Interrupt) {
        match interrupt {
            Interrupt::Completion(request) => {
                self.grant_lease(cpu, Grant::on_completion);
                self.attribute_interrupt(cpu, request);
                self.observe_request(RequestStep::Delivered { request, cpu });
                let task = self.requests[request].task;
                self.tasks[task].completed.push(request);
                if self.tasks[task].waits_for_io() {
                    let ipi = self.wake_task(Some(cpu), task, self.choose_cpu(task));
                    self.requests[request].ipi = ipi;
                }
            }
            Interrupt::Tick => self.tick(cpu),
            Interrupt::Timer(Timer::Background(index)) => {
                let source = self.setup.background[index];
                if source.as_task {
                    let task = cpu * self.setup.background.len() + index;
                    self.tasks[task].work = source.cycles;
                    if !self.tasks[task].runnable {
                        self.wake_task(Some(cpu), task, cpu);
                    }
                }
                self.arm_background(cpu, index);
                self.arm_clock(cpu);
            }
            Interrupt::Timer(Timer::Task(task)) => {
                self.wake_task(Some(cpu), task, self.choose_cpu(task));
            }
            Interrupt::Reschedule => {}
        }
    }

    /// Keeps a CPU from deep states for a while, if the policy grants leases on this occasion.
    fn grant_lease(&mut self, cpu: CpuId, occasion: fn(Grant) -> bool) {
        if let Some((lease, policy)) = &mut self.cpus[cpu].lease
            && occasion(policy.grant)
        {
            lease.grant(Nanoseconds(self.now));
        }
    }

    fn cost(&self, interrupt: Interrupt) -> Cycles {
        match interrupt {
            Interrupt::Completion(_) => self.setup.io.interrupt,
            Interrupt::Tick => self.setup.tick_cycles,
            Interrupt::Timer(Timer::Background(i)) if !self.setup.background[i].as_task => {
                self.setup.background[i].cycles
            }
            Interrupt::Timer(_) | Interrupt::Reschedule => 0,
        }
    }

    fn tick(&mut self, cpu: CpuId) {
        if let Some(task) = self.cpus[cpu].current {
            self.account(cpu, false);
            self.utilisation_changed(cpu);
            // Round robin among equals, one tick each.
            let c = &mut self.cpus[cpu];
            if let Some(next) = c.run_queue.pop_front() {
                c.run_queue.push_back(task);
                c.current = Some(next);
            }
        }
    }

    // Phases

    fn begin_phase(&mut self, cpu: CpuId, mode: Mode, length: u64) {
        let c = &mut self.cpus[cpu];
        c.mode = mode;
        c.phase_start = self.now;
        self.schedule(Slot::Phase(cpu), self.now + length);
        self.observe_cpu(cpu);
    }

    fn cancel_phase(&mut self, cpu: CpuId) {
        self.queue.cancel(Slot::Phase(cpu).number(self.cpus.len()));
    }

    fn end_phase(&mut self, cpu: CpuId) {
        match self.cpus[cpu].mode {
            // The time limit of a polling state, or else an inter-processor interrupt arrives.
            Mode::Idle if self.cpus[cpu].polling_until.is_some() => self.next(cpu),
            Mode::Idle => self.interrupt(cpu, Interrupt::Reschedule),
            Mode::Waking => {
                self.end_stay(cpu, false);
                self.next(cpu);
            }
            Mode::Interrupt(interrupt) => {
                self.charge(cpu);
                self.serve(cpu, interrupt);
                self.next(cpu);
            }
            Mode::Task => {
                self.charge(cpu);
                self.tasks_turn(cpu);
            }
        }
    }

    /// Starts `work` on a CPU.
    fn execute(&mut self, cpu: CpuId, mode: Mode, work: Cycles) {
        let c = &mut self.cpus[cpu];
        let cold = std::mem::take(&mut c.cold);
        match mode {
            Mode::Task => {
                if let Some(task) = c.current {
                    self.tasks[task].cold += cold;
                }
            }
            _ => c.begin_segment(self.now, cold),
        }
        let c = &mut self.cpus[cpu];
        c.work = work + cold;
        let length = self.domains[c.cluster].time_for(c.work);
        self.begin_phase(cpu, mode, length);
    }

    /// Takes note of how far the running segment has come, and stops it.
    fn pause(&mut self, cpu: CpuId) {
        let done = self.work_done(cpu);
        self.charge(cpu);
        if let Some(task) = self.cpus[cpu].current {
            self.tasks[task].work = self.cpus[cpu].work - done;
        }
        self.cancel_phase(cpu);
    }

    /// Work done in the running segment so far, at least nothing and at most all of it.
    fn work_done(&self, cpu: CpuId) -> Cycles {
        let c = &self.cpus[cpu];
        self.domains[c.cluster]
            .work_in(self.now - c.phase_start)
            .min(c.work)
    }

    /// Decides what a CPU does next; nothing is in progress on it.
    fn next(&mut self, cpu: CpuId) {
        loop {
            if let Some(interrupt) = self.cpus[cpu].interrupts.pop_front() {
                let cost = self.cost(interrupt);
                if cost + self.cpus[cpu].cold == 0 {
                    self.cpus[cpu].begin_segment(self.now, 0);
                    self.serve(cpu, interrupt);
                    continue;
                }
                return self.execute(cpu, Mode::Interrupt(interrupt), cost);
            }
            if let Some(until) = self.cpus[cpu].polling_until {
                let must_run = self.cpus[cpu].has_task();
                if self.now < until && !must_run {
                    return self.begin_phase(cpu, Mode::Idle, until - self.now);
                }
                self.end_stay(cpu, !must_run);
            }
            self.reflect(cpu);
            if !self.cpus[cpu].has_task() {
                return self.enter_idle(cpu);
            }
            self.leave_idle_loop(cpu);
            return self.run_task(cpu);
        }
    }

    // Idle loop

    fn reflect(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if let Some(residency) = c.unreflected.take() {
            let outcome = IdleOutcome {
                clock: self.now,
                residency,
                got_tick: c.got_tick,
                poll_limit_hit: c.poll_limit_hit,
            };
            c.governor.reflect(c.state, &outcome);
        }
    }

    /// The tick comes back when a CPU has something to run.
    fn leave_idle_loop(&mut self, cpu: CpuId) {
        let period = self.setup.tick.period().0;
        let c = &mut self.cpus[cpu];
        if !c.in_idle_loop {
            return;
        }
        c.in_idle_loop = false;
        if c.tick_stopped {
            c.tick_stopped = false;
            c.next_tick = (self.now / period + 1) * period;
            self.arm_clock(cpu);
        }
    }

    fn enter_idle(&mut self, cpu: CpuId) {
        // A polling limit that is reached just now is served already.
        self.cancel_phase(cpu);
        let now = self.now;
        let period = self.setup.tick.period().0;
        let c = &mut self.cpus[cpu];
        c.in_idle_loop = true;
        c.got_tick = false;
        c.poll_limit_hit = false;
        c.current = None;

        // As tick_nohz_get_sleep_length() sees it: a timer-wheel timer within a tick keeps the tick.
        let (timer, wheel) = (c.next_timer(), c.next_wheel());
        let last_jiffy = now / period * period;
        let can_stop = c.tick_stopped || wheel.saturating_sub(last_jiffy) > period;
        let delta_tick = until(now, c.next_clock_event());
        let sleep_length = if can_stop {
            until(now, timer.min(wheel))
        } else {
            delta_tick
        };
        let query = IdleQuery {
            sleep_length,
            delta_tick,
            tick_stopped: c.tick_stopped,
            latency_request: NO_LATENCY_REQUEST,
            nr_iowait: c.nr_iowait,
            clock: now,
            true_idle: 0,
        };
        let IdleDecision { state, stop_tick } = match &c.lease {
            Some((lease, policy)) if lease.holds(Nanoseconds(now)) => {
                policy.ceiling.select(self.states, &mut c.governor, &query)
            }
            _ => c.governor.select(&query),
        };
        c.selections += 1;
        if stop_tick && can_stop && !c.tick_stopped {
            c.tick_stopped = true;
            c.next_tick = NEVER;
            c.tick_stops += 1;
        }
        c.state = state.min(self.setup.states.len() - 1);
        c.idle_since = now;
        c.mode = Mode::Idle;
        c.stats[c.state].entries += 1;
        let entered = &self.setup.states[c.state];
        if !entered.polling {
            c.power_down(now, self.domains[c.cluster].current());
            self.power
                .cpu_asleep(now, c.cluster, entered.whole_cluster, c.state);
        }
        if entered.polling {
            let limit = c.governor.poll_limit().unwrap_or(self.setup.poll_limit).0;
            c.polling_until = Some(now + limit);
            self.begin_phase(cpu, Mode::Idle, limit);
        }
        self.observe_cpu(cpu);
        self.arm_clock(cpu);
    }

    fn begin_wake(&mut self, cpu: CpuId) {
        let setup = self.setup;
        let c = &mut self.cpus[cpu];
        let chosen = &setup.states[c.state];
        c.power_up(self.now);
        let cluster_was_down =
            self.power
                .cpu_awake(self.now, c.cluster, chosen.whole_cluster, c.state);
        let really_in = if chosen.whole_cluster && !cluster_was_down {
            &setup.states[setup.deepest_alone]
        } else {
            chosen
        };
        let entered_at = c.idle_since + really_in.entry;
        let wait = if self.now < entered_at {
            // Too late to turn back, too early to have lost anything.
            entered_at - self.now
        } else {
            c.cold += really_in.cold_start;
            really_in.exit
        };
        self.begin_phase(cpu, Mode::Waking, wait);
    }

    /// Counts a stay in an idle state that ends now.
    fn end_stay(&mut self, cpu: CpuId, poll_limit_hit: bool) {
        let now = self.now;
        let c = &mut self.cpus[cpu];
        let residency = now - c.idle_since;
        c.polling_until = None;
        c.awake_since = now;
        c.poll_limit_hit = poll_limit_hit;
        // A residency of 0 would mean that the driver refused the state.
        c.unreflected = Some(residency.max(1));
        let states = &self.setup.states;
        let stats = &mut c.stats[c.state];
        stats.time += residency - std::mem::take(&mut c.busy_in_stay);
        // The kernel's "above" and "below" counters (drivers/cpuidle/cpuidle.c).
        let entered = &states[c.state];
        if residency < entered.target_residency {
            stats.too_deep += u64::from(c.state > 0);
        } else if residency > entered.exit_latency
            && let Some(deeper) = states.get(c.state + 1)
        {
            stats.too_shallow +=
                u64::from(residency - entered.exit_latency >= deeper.target_residency);
        }
    }

    // Tasks

    /// The CPU on which a woken task runs: its previous one if that is idle, else an idle one of
    /// the same cluster, else its previous one.
    fn choose_cpu(&self, task: TaskId) -> CpuId {
        let previous = self.tasks[task].cpu;
        let idle = |cpu: CpuId| {
            let c = &self.cpus[cpu];
            !c.has_task()
        };
        if idle(previous) {
            return previous;
        }
        let cluster = &self.setup.clusters[self.cpus[previous].cluster];
        (cluster.first_cpu..cluster.first_cpu + cluster.cpus)
            .find(|cpu| idle(*cpu))
            .unwrap_or(previous)
    }

    /// Puts a task on the run queue of `to`; the code that wakes it runs on `from`, if on any CPU.
    /// Returns how long `to` takes to hear of it.
    fn wake_task(&mut self, from: Option<CpuId>, task: TaskId, to: CpuId) -> u64 {
        let t = &mut self.tasks[task];
        let iowait = std::mem::take(&mut t.in_iowait);
        if iowait {
            self.cpus[t.cpu].nr_iowait -= 1;
        }
        let t = &mut self.tasks[task];
        t.cpu = to;
        t.runnable = true;
        if iowait {
            self.update_frequency(to, true);
        }
        self.account(to, self.cpus[to].mode == Mode::Task);
        self.utilisation_changed(to);
        self.cpus[to].run_queue.push_back(task);
        self.observe_runnable(to);
        if from == Some(to) || self.cpus[to].mode != Mode::Idle {
            // It looks at its run queue when it has done what it does.
            return 0;
        }
        if self.cpus[to].polling_until.is_some() {
            // A polling CPU sees its need-resched flag without an interrupt.
            self.next(to);
            return 0;
        }
        let at = self.now + self.setup.ipi;
        if at < self.queue.due(Slot::Phase(to).number(self.cpus.len())) {
            self.schedule(Slot::Phase(to), at);
        }
        self.setup.ipi
    }

    fn run_task(&mut self, cpu: CpuId) {
        let c = &mut self.cpus[cpu];
        if c.current.is_none() {
            c.current = c.run_queue.pop_front();
        }
        let Some(task) = c.current else { return };
        self.account(cpu, false);
        if self.tasks[task].step == Step::Wait {
            self.plan(cpu, task);
        } else {
            self.continue_task(cpu, task);
        }
    }

    /// The current task has done its segment of work.
    fn tasks_turn(&mut self, cpu: CpuId) {
        let Some(task) = self.cpus[cpu].current else {
            return self.next(cpu);
        };
        let now = self.now;
        let step = self.tasks[task].step;
        match step {
            Step::Worker => return self.block(cpu, task, false),
            Step::Submit => {
                self.grant_lease(cpu, Grant::on_issue);
                self.submit(cpu, task);
            }
            Step::Resume => {
                let completed = std::mem::take(&mut self.tasks[task].completed);
                let full_speed = self.domains[self.cpus[cpu].cluster].full_speed();
                let (executed, cold) = (self.tasks[task].executed, self.tasks[task].cold);
                let own = self.setup.io.resume * completed.len() as u64;
                let work = Work {
                    own,
                    cold,
                    full_speed,
                };
                for request in &completed {
                    let mut r = self.requests[*request];
                    r.parts
                        .add_work(Part::Completion, now - r.cut, executed, work);
                    debug_assert_eq!(r.parts.total(), now - r.begun);
                    self.recorder.request(&r.parts, r.direction);
                    self.free_requests.push(*request);
                    self.observe_request(RequestStep::Completed { request: *request });
                }
                self.tasks[task].in_flight -= completed.len() as u32;
            }
            Step::Think | Step::Wait => {}
        }
        self.plan(cpu, task);
    }

    /// Decides a job's next step and starts it, or blocks it.
    fn plan(&mut self, cpu: CpuId, task: TaskId) {
        let job = &self.setup.jobs[self.tasks[task].job];
        let t = &mut self.tasks[task];
        let more = job.end.is_none_or(|end| self.now < end)
            && job.requests.is_none_or(|n| t.submitted < n);
        let full = t.in_flight == job.depth;
        if !t.completed.is_empty() && (full || !more) {
            t.begin(
                Step::Resume,
                self.setup.io.resume * t.completed.len() as u64,
            );
            self.attribute_wake_up(cpu, task);
            return self.continue_task(cpu, task);
        }
        if !more && t.in_flight == 0 {
            self.jobs_running -= 1;
            return self.block(cpu, task, false);
        }
        if !more || full {
            t.step = Step::Wait;
            return self.block(cpu, task, job.iowait);
        }
        if t.thought_cycles < t.submitted && job.think_cycles > 0 {
            t.thought_cycles = t.submitted;
            t.begin(Step::Think, job.think_cycles);
            return self.continue_task(cpu, task);
        }
        if job.think_time > 0 && t.submitted >= t.thought_time + u64::from(job.think_blocks) {
            t.thought_time = t.submitted;
            let spin = self.domains[self.cpus[cpu].cluster].work_in(job.think_spin);
            t.begin(Step::Think, spin);
            if job.think_time > job.think_spin {
                // The spin is done after the sleep: the order does not matter to anyone else.
                let wake_at = self.now + job.think_time - job.think_spin;
                self.cpus[cpu].timers.push((wake_at, Timer::Task(task)));
                self.arm_clock(cpu);
                return self.block(cpu, task, false);
            }
            return self.continue_task(cpu, task);
        }
        t.begin(Step::Submit, self.setup.io.submission);
        t.begun = self.now;
        self.observe_request(RequestStep::Begun { task });
        self.continue_task(cpu, task);
    }

    fn continue_task(&mut self, cpu: CpuId, task: TaskId) {
        self.execute(cpu, Mode::Task, self.tasks[task].work);
    }

    fn block(&mut self, cpu: CpuId, task: TaskId, iowait: bool) {
        let t = &mut self.tasks[task];
        t.runnable = false;
        t.in_iowait = iowait;
        self.cpus[cpu].nr_iowait += u32::from(iowait);
        self.cpus[cpu].current = None;
        self.observe_runnable(cpu);
        self.account(cpu, false);
        self.utilisation_changed(cpu);
        self.next(cpu);
    }

    // Drive

    fn submit(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        let job = &self.setup.jobs[self.tasks[task].job];
        let direction = self.random.direction(job.read_percent);
        let mean = match direction {
            Direction::Read => &self.setup.read_service,
            Direction::Write => &self.setup.write_service,
        };
        let service = self.random.service(mean);
        let t = &mut self.tasks[task];
        t.in_flight += 1;
        t.submitted += 1;
        let mut parts = Parts::default();
        let work = Work {
            own: self.setup.io.submission,
            cold: t.cold,
            full_speed: self.domains[self.cpus[cpu].cluster].full_speed(),
        };
        parts.add_work(Part::Submission, now - t.begun, t.executed, work);
        let done = self.drive.accept(now, service);
        parts.add(Part::Queueing, done - service - now);
        parts.add(Part::DriveService, service);
        let request = Request {
            task,
            direction,
            begun: t.begun,
            parts,
            cut: done,
            ipi: 0,
        };
        let id = self.free_requests.pop().unwrap_or(self.requests.len());
        if id == self.requests.len() {
            self.requests.push(request);
        } else {
            self.requests[id] = request;
        }
        self.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: direction == Direction::Read,
        });
        self.queue.push(done, id);
    }

    fn served(&mut self, request: RequestId) {
        self.observe_request(RequestStep::Served { request });
        let submitter = self.tasks[self.requests[request].task].cpu;
        let cpu = self.setup.completion_cpu.unwrap_or(submitter);
        self.interrupt(cpu, Interrupt::Completion(request));
    }

    // Attribution

    /// A request's completion interrupt has been served.
    fn attribute_interrupt(&mut self, cpu: CpuId, request: RequestId) {
        let c = &self.cpus[cpu];
        let work = Work {
            own: self.setup.io.interrupt,
            cold: c.segment_cold,
            full_speed: self.domains[c.cluster].full_speed(),
        };
        let r = &mut self.requests[request];
        let began = c.segment_start;
        let idle_exit = c.awake_since.min(began).saturating_sub(r.cut);
        r.parts.add(Part::IdleExit, idle_exit);
        r.parts.add(Part::WaitingToRun, began - r.cut - idle_exit);
        let time = self.now - began;
        r.parts.add_work(Part::InterruptDelivery, time, time, work);
        r.cut = self.now;
    }

    /// A task goes on with its completed requests.
    fn attribute_wake_up(&mut self, cpu: CpuId, task: TaskId) {
        let awake_since = self.cpus[cpu].awake_since;
        for request in &self.tasks[task].completed {
            let r = &mut self.requests[*request];
            let ipi = r.ipi.min(self.now - r.cut);
            let idle_exit = awake_since.saturating_sub(r.cut + ipi);
            r.parts.add(Part::InterruptDelivery, ipi);
            r.parts.add(Part::IdleExit, idle_exit);
            r.parts
                .add(Part::WaitingToRun, self.now - r.cut - ipi - idle_exit);
            r.cut = self.now;
        }
    }

    // Frequency and utilisation

    /// Accounts a CPU's utilisation up to now, during which a task ran on it or not.
    fn account(&mut self, cpu: CpuId, ran: bool) {
        let c = &mut self.cpus[cpu];
        let running = if ran {
            self.domains[c.cluster].capacity_now()
        } else {
            0
        };
        c.period_crossed |= c.utilisation.advance(self.now, running);
    }

    /// Accounts the work of a CPU that ends, or is cut, now.
    fn charge(&mut self, cpu: CpuId) {
        let time = self.now - self.cpus[cpu].phase_start;
        match self.cpus[cpu].mode {
            Mode::Idle | Mode::Waking => return,
            Mode::Interrupt(_) => {}
            Mode::Task => {
                self.account(cpu, true);
                let c = &self.cpus[cpu];
                self.domains[c.cluster].charge_task(time);
                if let Some(task) = c.current {
                    self.tasks[task].executed += time;
                }
            }
        }
        let c = &mut self.cpus[cpu];
        c.phase_start = self.now;
        c.busy += time;
        if c.polling_until.is_some() {
            c.busy_in_stay += time;
        }
    }

    /// The scheduler tells cpufreq when a utilisation signal has crossed a period.
    fn utilisation_changed(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].period_crossed) {
            self.update_frequency(cpu, false);
        }
    }

    fn update_frequency(&mut self, cpu: CpuId, iowait: bool) {
        let cluster = self.cpus[cpu].cluster;
        let of = &self.setup.clusters[cluster];
        let cpus = &self.cpus[of.first_cpu..of.first_cpu + of.cpus];
        let domain = &mut self.domains[cluster];
        if domain.update(self.now, cpu - of.first_cpu, iowait, cpus) {
            let at = self.now + of.transition_latency;
            self.schedule(Slot::Frequency(cluster), at);
        }
    }

    fn frequency_changed(&mut self, cluster: usize) {
        let of = &self.setup.clusters[cluster];
        // What is running is cut at the change, so that each part has one frequency.
        for cpu in of.first_cpu..of.first_cpu + of.cpus {
            self.cpus[cpu].settle_power(self.now, self.domains[cluster].current());
            if matches!(self.cpus[cpu].mode, Mode::Task | Mode::Interrupt(_)) {
                let left = self.cpus[cpu].work - self.work_done(cpu);
                self.charge(cpu);
                self.cpus[cpu].work = left;
            }
        }
        self.domains[cluster].arrive();
        self.observe_frequency(cluster);
        for cpu in of.first_cpu..of.first_cpu + of.cpus {
            let mode = self.cpus[cpu].mode;
            if matches!(mode, Mode::Task | Mode::Interrupt(_)) {
                let length = self.domains[cluster].time_for(self.cpus[cpu].work);
                self.begin_phase(cpu, mode, length);
            }
        }
    }
}

// What the observer is told; nothing, and no work for it, when there is none.
impl<O: Observer> Engine<'_, O> {
    fn observe_cpu(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let activity = Activity::of(&self.cpus[cpu], &self.tasks);
            self.observer.cpu(Nanoseconds(self.now), cpu, activity);
        }
    }

    fn observe_runnable(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let c = &self.cpus[cpu];
            let tasks = c.run_queue.len() + usize::from(c.current.is_some());
            self.observer.runnable(Nanoseconds(self.now), cpu, tasks);
        }
    }

    fn observe_frequency(&mut self, cluster: usize) {
        if O::WATCHES {
            let frequency = self.domains[cluster].frequency();
            self.observer
                .frequency(Nanoseconds(self.now), cluster, frequency);
        }
    }

    fn observe_request(&mut self, step: RequestStep) {
        if O::WATCHES {
            self.observer.request(Nanoseconds(self.now), step);
        }
    }
}

/// Moves the timers that are due to the pending interrupts. Returns whether there were any.
fn expire(timers: &mut Vec<(u64, Timer)>, now: u64, interrupts: &mut VecDeque<Interrupt>) -> bool {
    let before = timers.len();
    timers.retain(|(at, timer)| {
        let due = *at <= now;
        if due {
            interrupts.push_back(Interrupt::Timer(*timer));
        }
        !due
    });
    timers.len() != before
}

/// The time from `now` until `at`, as the kernel's signed nanoseconds.
fn until(now: u64, at: u64) -> i64 {
    if at == NEVER {
        i64::MAX
    } else {
        at as i64 - now as i64
    }
}

/// What a run leaves behind.
pub(crate) struct Finished {
    pub(crate) end: u64,
    pub(crate) power: PowerTracker,
    pub(crate) cpus: Vec<Cpu>,
    pub(crate) domains: Vec<Domain>,
    pub(crate) recorder: Recorder,
}
