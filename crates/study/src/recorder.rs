//! Recorder: writes a simulated run as the recording that `wakepath record` would have made.
//!
//! The simulated kernel has no I/O scheduler, so that a bio's way to its request is one step. An interrupt of a drive
//! is taken by the CPU that completes.

mod places;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

use wakepath_hardware::Machine;
use wakepath_hardware::drive::MAX_POWER_STATES;
use wakepath_hardware::machine::{DriveModel, Scope};
use wakepath_policies::PolicySet;
use wakepath_policies::apst::in_force::apst_settings_under_set;
use wakepath_policies::apst::{ApstTable, plan_apst_table};
use wakepath_policies::idle::{IdleDecision, IdleQuery};
use wakepath_sim::observer::{
    Activity, InterruptKind, Observer, RequestOrigin, RequestStep, WakeUpSeen,
};
use wakepath_system::nvme::ApstFeature;
use wakepath_trace::recording::{
    Block, BlockDevice, CpuIdleStates, DataQuality, Durability, Event, EventKind, IdleInputs,
    IdlePairs, Interrupt, Metadata, QueueStep, Recorded, RecordedSetting, RecordingError, TaskStep,
    TimerKind, Writer,
};
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::Workload;

use self::places::{Places, Unplaced};

/// Major number of NVMe drives' partitions and drives (`BLOCK_EXT_MAJOR`).
const DEVICE: u32 = 259 << 20;
/// Kernel's name of the drive's controller.
const CONTROLLER: &str = "nvme0";
/// The drive's interrupt.
const IRQ: u32 = 1;
/// The network card's interrupt.
const NETWORK_IRQ: u32 = 2;
/// Most events that wait for a submission's request. Tasks that submit without a request, as into the page cache, hold
/// back no more.
const MOST_HELD: usize = 1 << 16;

/// Describes a simulated machine as a recording's metadata.
///
/// # Errors
/// The machine's idle states form no valid table; impossible on a checked machine.
pub fn describe_machine(machine: &Machine) -> Result<Metadata, String> {
    let mut first = 0;
    let mut idle_states = Vec::new();
    let mut clusters = Vec::new();
    let mut siblings = Vec::new();
    for cluster in &machine.cluster {
        let cpus: Vec<u32> = (first..first + cluster.cpus)
            .map(|cpu| cpu as u32)
            .collect();
        clusters.push(cpus.clone());
        if cluster.threads_sleep_together && cluster.threads_per_core > 1 {
            let cores = cpus.chunks(cluster.threads_per_core);
            siblings.extend(cores.map(<[u32]>::to_vec));
        }
        let states = machine.declared_idle_states_on_cluster(cluster);
        idle_states.push(CpuIdleStates {
            cpus,
            states: states.map_err(|error| error.to_string())?.to_vec(),
        });
        first += cluster.cpus;
    }
    // CPUs with equal idle states form one group.
    idle_states.dedup_by(|next, group| {
        let same = next.states == group.states;
        if same {
            group.cpus.append(&mut next.cpus);
        }
        same
    });
    // Hardware threads that sleep each for itself are no siblings. A cluster matters only if a state is the whole cluster's.
    let states = &machine.idle_state;
    clusters.retain(|cluster| {
        cluster.len() > 1 && states.iter().any(|state| state.scope == Scope::Cluster)
    });
    let all: Vec<u32> = (0..first as u32).collect();
    Ok(Metadata {
        source: "wakepath sim".to_owned(),
        kernel: machine.kernel.map(|kernel| kernel.to_string()),
        clock: Some("simulated".to_owned()),
        cpus: first as u32,
        siblings,
        clusters,
        packages: if all.len() > 1 { vec![all] } else { Vec::new() },
        idle_states,
        devices: vec![BlockDevice {
            device: DEVICE,
            name: format!("{CONTROLLER}n1"),
            model: Some(drive_model_name(&machine.drive).to_owned()),
        }],
        interrupts: [(IRQ, "nvme0q1".to_owned())].into(),
        recorded: Recorded {
            idle: DataQuality::Exact,
            sleep_length: DataQuality::Exact,
            tick: DataQuality::Exact,
            latency_request: DataQuality::Exact,
            iowaiters: DataQuality::Exact,
            block: DataQuality::Exact,
            wakes: DataQuality::Exact,
            frequency: DataQuality::Exact,
            timers: DataQuality::Exact,
            queueing: DataQuality::Exact,
            interrupts: DataQuality::Exact,
            tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        ..Metadata::default()
    })
}

/// The drive's own model name, if it declares one, as the kernel would show it.
fn drive_model_name(drive: &DriveModel) -> &str {
    let declared = drive.power.as_ref().map(|power| &power.declared.model);
    declared
        .filter(|model| !model.is_empty())
        .unwrap_or(&drive.name)
}

/// Describes the power state table of a simulated drive under a policy set, as `wakepath record` reads it. A volume of several
/// drives has no table that could be told of its single device.
pub fn describe_drive_settings(machine: &Machine, set: &PolicySet) -> Vec<RecordedSetting> {
    let drive = &machine.drive;
    let Some(power) = drive.power.as_ref().filter(|_| drive.count == 1) else {
        return Vec::new();
    };
    let declared = &power.declared;
    let settings = apst_settings_under_set(drive, set);
    let supports = declared.apsta.unwrap_or(true);
    // Where the kernel programs no table, the simulated drive never sleeps.
    let feature = match plan_apst_table(declared.npss, supports, &declared.states, &settings) {
        Ok(plan) => ApstFeature {
            enabled: plan.enabled,
            table: plan.table,
        },
        Err(_) => ApstFeature {
            enabled: false,
            table: ApstTable([0; MAX_POWER_STATES]),
        },
    };
    vec![RecordedSetting {
        name: "apst".to_owned(),
        places: vec![CONTROLLER.to_owned()],
        value: feature.to_string(),
    }]
}

/// A place in the order in which events are written.
enum Place {
    Filled(Event),
    /// A task is submitting, and the request is not known yet: later events wait.
    Open {
        time: Nanoseconds,
        cpu: u32,
        task: usize,
    },
    /// The place stays without an event: the task made no request.
    Unused,
}

/// What a simulated CPU is doing.
#[derive(Clone, Copy, Default)]
struct CpuState {
    task: Option<usize>,
    idle: Option<usize>,
}

/// Whose steps are recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowedTasks {
    /// Of tasks that wait for I/O, as `wakepath record` does.
    WithIo,
    /// Of all tasks, as `wakepath record --all-tasks` does.
    All,
}

/// A request between issue and completion.
#[derive(Clone, Copy)]
struct Submitted {
    block: Block,
    task: usize,
}

/// Observer of a simulated run that writes the run as a recording.
pub struct Recorder<'a, F> {
    writer: Writer,
    workload: &'a Workload,
    followed: FollowedTasks,
    cpus: Vec<CpuState>,
    /// By CPU, the task that the CPU runs, or left only for an interrupt.
    current: Vec<Option<usize>>,
    kernel_threads: BTreeMap<usize, String>,
    /// Numbers of the CPUs that each clock drives.
    clocks: Vec<Vec<u32>>,
    pairs: IdlePairs,
    requests: HashMap<usize, Submitted>,
    /// Each task's job and the CPU that it ran on last.
    tasks: BTreeMap<usize, (Option<usize>, u32)>,
    /// Tasks with requests that completed while the task did not run, and that was not woken since.
    completed: HashSet<usize>,
    /// Followed tasks that were woken, and that have not run since.
    woken: HashSet<usize>,
    held: VecDeque<Place>,
    /// Number of places that were written or dropped so far.
    released: usize,
    open: HashMap<usize, usize>,
    places: Places,
    cancelled: F,
    failure: Option<RecordingError>,
}

impl<'a, F: Fn() -> bool> Recorder<'a, F> {
    /// A recorder that writes to `writer` until the run ends or `cancelled` returns true. The writer's metadata are
    /// [`describe_machine`]'s.
    pub fn new(
        mut writer: Writer,
        machine: &Machine,
        workload: &'a Workload,
        followed: FollowedTasks,
        cancelled: F,
    ) -> Self {
        if followed == FollowedTasks::All {
            writer.metadata_mut().recorded.all_tasks = DataQuality::Exact;
        }
        let mut cpus: u32 = 0;
        let mut clocks: Vec<Vec<u32>> = Vec::new();
        for cluster in &machine.cluster {
            for index in 0..cluster.cpus {
                if index % cluster.cpus_per_clock() == 0 {
                    clocks.push(Vec::new());
                }
                clocks
                    .last_mut()
                    .into_iter()
                    .for_each(|clock| clock.push(cpus));
                cpus += 1;
            }
        }
        Self {
            writer,
            workload,
            followed,
            cpus: vec![CpuState::default(); cpus as usize],
            current: vec![None; cpus as usize],
            kernel_threads: BTreeMap::new(),
            clocks,
            pairs: IdlePairs::new(true),
            requests: HashMap::new(),
            tasks: BTreeMap::new(),
            completed: HashSet::new(),
            woken: HashSet::new(),
            held: VecDeque::new(),
            released: 0,
            open: HashMap::new(),
            places: Places::new(machine, workload),
            cancelled,
            failure: None,
        }
    }

    /// Writes the rest of the recording. Returns the total number of events.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn finish_recording(mut self) -> Result<u64, RecordingError> {
        for place in &mut self.held {
            if let Place::Open { .. } = place {
                *place = Place::Unused;
            }
        }
        self.write_events_before_open_place();
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        self.writer.metadata_mut().idle_at_end = Some(self.pairs.open_idle_periods());
        if matches!(self.workload, Workload::Server(_)) {
            let interrupts = &mut self.writer.metadata_mut().interrupts;
            interrupts.insert(NETWORK_IRQ, "eth0-rx-0".to_owned());
        }
        let names: Vec<String> = self
            .workload
            .job_or_task_names()
            .into_iter()
            .map(str::to_owned)
            .collect();
        for (task, (job, _)) in &self.tasks {
            if let Some(name) = job.and_then(|job| names.get(job)) {
                self.writer
                    .metadata_mut()
                    .keep_latest_task_name(*task as u32, name);
            }
        }
        if self.followed == FollowedTasks::All {
            for (task, name) in &self.kernel_threads {
                let metadata = self.writer.metadata_mut();
                metadata.keep_latest_task_name(*task as u32, name);
            }
        }
        self.writer.finish_and_count_events()
    }

    fn hold_event(&mut self, time: Nanoseconds, cpu: usize, kind: EventKind) {
        let cpu = cpu as u32;
        self.held
            .push_back(Place::Filled(Event { time, cpu, kind }));
        if self.held.len() > MOST_HELD {
            self.open.clear();
            for place in &mut self.held {
                if let Place::Open { .. } = place {
                    *place = Place::Unused;
                }
            }
        }
        self.write_events_before_open_place();
    }

    /// Writes all events before the first place that is still open.
    fn write_events_before_open_place(&mut self) {
        while let Some(place) = self.held.front() {
            match place {
                Place::Open { .. } => return,
                Place::Filled(event) if self.failure.is_none() => {
                    self.failure = self.writer.add_event(event).err();
                }
                Place::Filled(_) | Place::Unused => {}
            }
            self.held.pop_front();
            self.released += 1;
        }
    }

    /// Removes a task's open place from the list of open places: its index, time and CPU. `None` if the task has none.
    fn take_open_place_of_task(&mut self, task: usize) -> Option<(usize, Nanoseconds, u32)> {
        let index = self.open.remove(&task)?.checked_sub(self.released)?;
        match self.held.get(index)? {
            Place::Open {
                time,
                cpu,
                task: owner,
            } if *owner == task => Some((index, *time, *cpu)),
            _ => None,
        }
    }

    fn open_place_for_submission(&mut self, now: Nanoseconds, task: usize) {
        self.mark_place_of_task_unused(task);
        let cpu = self.last_cpu_of_task(task);
        if self.followed == FollowedTasks::All && self.woken.remove(&task) {
            self.record_running_step(now, cpu as usize, task);
        }
        self.open.insert(task, self.released + self.held.len());
        self.held.push_back(Place::Open {
            time: now,
            cpu,
            task,
        });
    }

    fn record_issue(
        &mut self,
        now: Nanoseconds,
        request: usize,
        submitted: Submitted,
        background: bool,
        durability: Durability,
    ) {
        let Submitted { block, task } = submitted;
        let submitter = self.last_cpu_of_task(task);
        if let Some((index, time, cpu)) = self.take_open_place_of_task(task) {
            let queued = QueueStep::Queued {
                block,
                task: Some(task as u32),
                background,
                durability,
            };
            let kind = EventKind::Queueing(queued);
            self.held[index] = Place::Filled(Event { time, cpu, kind });
        }
        self.requests.insert(request, submitted);
        self.hold_event(now, submitter as usize, EventKind::BlockIssue(block));
    }

    /// Marks a task's open place as unused: the task made no request.
    fn mark_place_of_task_unused(&mut self, task: usize) {
        if let Some((index, ..)) = self.take_open_place_of_task(task) {
            self.held[index] = Place::Unused;
        }
    }

    fn record_completion(&mut self, now: Nanoseconds, cpu: usize, request: usize) {
        let Some(submitted) = self.requests.get(&request).copied() else {
            return;
        };
        self.hold_event(now, cpu, EventKind::BlockComplete(submitted.block));
        let task = submitted.task;
        let runs = self.cpus.iter().any(|state| state.task == Some(task));
        if !runs {
            // The scheduler tells of the wake-up, if there is one.
            self.completed.insert(task);
        }
    }

    /// The CPU on which a task runs, or ran last; 0 if it never ran.
    fn last_cpu_of_task(&self, task: usize) -> u32 {
        let running = self.cpus.iter().position(|state| state.task == Some(task));
        let last = self.tasks.get(&task).map(|(_, cpu)| *cpu);
        running.map(|cpu| cpu as u32).or(last).unwrap_or(0)
    }

    fn note_running_task_and_record_if_woken(
        &mut self,
        now: Nanoseconds,
        cpu: usize,
        task: usize,
        job: Option<usize>,
    ) {
        self.pairs.note_task_ran(cpu as u32);
        self.tasks.insert(task, (job, cpu as u32));
        let is_woken = self.woken.remove(&task);
        self.completed.remove(&task);
        let switches = self.current[cpu] != Some(task);
        if is_woken || (switches && self.followed == FollowedTasks::All) {
            self.record_running_step(now, cpu, task);
        }
    }

    /// Records that a task begins to run on a CPU.
    fn record_running_step(&mut self, now: Nanoseconds, cpu: usize, task: usize) {
        if let Some(current) = self.current.get_mut(cpu) {
            *current = Some(task);
        }
        let step = TaskStep::Running;
        let task = task as u32;
        self.hold_event(now, cpu, EventKind::Task { task, step });
    }
}

impl<F: Fn() -> bool> Observer for Recorder<'_, F> {
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        let Some(state) = self.cpus.get_mut(cpu) else {
            return;
        };
        let before = std::mem::take(state);
        match activity {
            // The CPU chose the same idle state again, after its idle period was cut.
            Activity::Idle(index) if before.idle == Some(index) => *state = before,
            // The simulated CPU leaves its idle state now; the kernel traces the exit when the CPU has left.
            // A guest's kernel traces nothing of stolen time.
            Activity::Waking | Activity::Stolen => *state = before,
            _ => {
                if before.idle.is_some()
                    && let Some(event) = self.pairs.end_idle_period(cpu as u32, now)
                {
                    self.hold_event(now, cpu, event.kind);
                }
            }
        }
        match activity {
            Activity::Idle(index) if before.idle != Some(index) => {
                self.current[cpu] = None;
                self.pairs.note_idle_entry(cpu as u32, now, index as u8);
                self.cpus[cpu].idle = Some(index);
            }
            Activity::Idle(_) | Activity::Waking | Activity::Stolen => {}
            Activity::Task { task, job, .. } => {
                self.cpus[cpu].task = Some(task);
                if before.task != Some(task) {
                    self.note_running_task_and_record_if_woken(now, cpu, task, job);
                }
            }
            Activity::Interrupt(kind) => {
                let kind = match kind {
                    InterruptKind::Completion(_) => {
                        EventKind::Interrupt(Interrupt::Device { irq: IRQ })
                    }
                    InterruptKind::Network => {
                        EventKind::Interrupt(Interrupt::Device { irq: NETWORK_IRQ })
                    }
                    InterruptKind::Tick => EventKind::Timer(TimerKind::Tick),
                    InterruptKind::Timer => EventKind::Timer(TimerKind::HighResolution),
                    InterruptKind::Reschedule => EventKind::Interrupt(Interrupt::Reschedule),
                };
                self.hold_event(now, cpu, kind);
            }
        }
    }

    fn short_timer_served(&mut self, now: Nanoseconds, cpu: usize) {
        self.hold_event(now, cpu, EventKind::Timer(TimerKind::HighResolution));
    }

    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        let inputs = IdleInputs {
            sleep_length: Some(query.sleep_length),
            inferred: false,
            delta_tick: Some(query.delta_tick),
            tick_stopped: Some(query.tick_stopped),
            latency_request: Some(query.latency_request),
            iowaiters: Some(query.nr_iowait),
            select_lead: Some(0),
        };
        let asked = Nanoseconds(query.clock);
        self.pairs
            .note_governor_call(cpu as u32, asked, inputs, Some(decision.stop_tick));
    }

    fn clock_frequency_changed(&mut self, now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        let cpus = self.clocks.get(clock).cloned().unwrap_or_default();
        for cpu in cpus {
            self.hold_event(now, cpu as usize, EventKind::Frequency(frequency));
        }
    }

    fn task_woken(&mut self, now: Nanoseconds, wake_up: WakeUpSeen) {
        let WakeUpSeen {
            task,
            cpu,
            target,
            iowait,
        } = wake_up;
        let is_by_completion = self.completed.remove(&task);
        let is_followed = is_by_completion || self.followed == FollowedTasks::All;
        if !is_followed || !self.woken.insert(task) {
            return;
        }
        self.tasks.entry(task).or_insert((None, 0)).1 = target as u32;
        let Some(cpu) = cpu else {
            return;
        };
        let waking = EventKind::Task {
            task: task as u32,
            step: TaskStep::Waking,
        };
        self.hold_event(now, cpu, waking);
        let wake = EventKind::Wake {
            target: target as u32,
            iowait: Some(iowait),
        };
        self.hold_event(now, cpu, wake);
    }

    fn task_fell_asleep(&mut self, now: Nanoseconds, cpu: usize, task: usize) {
        // The task had a CPU, and nothing to do that takes time.
        if self.followed == FollowedTasks::All && self.woken.remove(&task) {
            if self.cpus[cpu].idle.take().is_some()
                && let Some(event) = self.pairs.end_idle_period(cpu as u32, now)
            {
                self.hold_event(now, cpu, event.kind);
            }
            self.pairs.note_task_ran(cpu as u32);
            self.record_running_step(now, cpu, task);
        }
    }

    fn kernel_thread_named(&mut self, task: usize, name: &str) {
        self.kernel_threads.insert(task, name.to_owned());
    }

    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        match step {
            RequestStep::Begun { submitter, .. } => {
                self.open_place_for_submission(now, submitter);
            }
            RequestStep::Issued {
                submitter,
                origin: RequestOrigin::Cached,
                ..
            } => {
                self.mark_place_of_task_unused(submitter);
                self.write_events_before_open_place();
            }
            RequestStep::Issued {
                task,
                submitter,
                request,
                read,
                bytes,
                origin,
                place,
            } => {
                let is_flush = origin == RequestOrigin::Flush;
                let write = !read && !is_flush;
                let sector = self.places.take_place(&Unplaced {
                    task: submitter,
                    job: self.tasks.get(&submitter).and_then(|(job, _)| *job),
                    write,
                    bytes,
                    place,
                });
                let block = Block {
                    device: DEVICE,
                    sector,
                    bytes: u32::try_from(bytes).unwrap_or(u32::MAX),
                    write,
                };
                // A call that writes back waits for its requests. The flusher thread, to which they belong, waits for none.
                // The kernel marks each read into the page cache as readahead (`REQ_RAHEAD`, `iomap_readahead()`).
                let is_flushers = block.write && submitter == task;
                let background =
                    origin == RequestOrigin::PageCache && (is_flushers || !block.write);
                let durability = Durability {
                    flushes_first: is_flush,
                    is_forced: origin == RequestOrigin::ForcedWrite,
                };
                let submitted = Submitted {
                    block,
                    task: submitter,
                };
                self.record_issue(now, request, submitted, background, durability);
            }
            RequestStep::Delivered { request, cpu } => self.record_completion(now, cpu, request),
            RequestStep::Completed { request } => {
                if let Some(submitted) = self.requests.remove(&request) {
                    self.places.free_place(submitted.block.sector);
                }
            }
            RequestStep::Served { .. } => {}
        }
    }

    fn observation_ended(&mut self, now: Nanoseconds) {
        self.writer.metadata_mut().span_ns = Some([0, now.0]);
    }

    fn lets_run_stop(&self) -> bool {
        self.failure.is_some() || (self.cancelled)()
    }
}
