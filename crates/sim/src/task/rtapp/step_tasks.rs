//! Tasks of given steps, compiled into programs of threads.
//!
//! A run of such a task is CPU time as it was recorded, with the kernel's work for the task's requests inside. The engine does that
//! work itself, so it is taken out here: from the runs after a request, and from those between two waits in general. A recorded run
//! may be shorter than the work by the machine's figures; then nothing of it is left.

use wakepath_hardware::machine::DriveModel;
use wakepath_workloads::tasks::{MAX_TASKS, RequestSource, TasksFile, WorkStep};

use crate::block::cost::IoCost;
use crate::core::basics::{Cycles, Direction};
use crate::error::SimError;
use crate::frequency::setup::FrequencySetup;
use crate::scheduler::state::Class;
use crate::task::rtapp::program::{Op, Program, Programs, Stage, StepRules};

/// Compiles a file for a machine with so many CPUs, whose drives have a volatile cache or none.
pub(crate) fn compile_step_tasks(
    file: &TasksFile,
    io: &IoCost,
    frequency: &FrequencySetup,
    (cpus, has_volatile_cache): (usize, bool),
) -> Programs {
    let mut cpu_sets: Vec<Vec<bool>> = Vec::new();
    let is_known_machine = file.was_recorded_with(cpus);
    let kernel_work = RecordedKernelWork::new(file, io);
    let mut programs = Vec::with_capacity(file.tasks.len());
    for (number, task) in file.tasks.iter().enumerate() {
        let keeps_cpus = is_known_machine || task.is_bound;
        let named = task.cpus.as_ref().filter(|_| keeps_cpus);
        let allowed = compile_cpu_set(named, cpus, &mut cpu_sets);
        let mut compiler = StepCompiler {
            io,
            frequency,
            has_volatile_cache,
            is_known_machine,
            cpus,
            card_queue: number,
            kernel_work,
            uses_page_cache: task.uses_page_cache,
            has_submission_times: file.submission.is_some(),
            semaphore: number,
            ops: Vec::with_capacity(task.steps.len()),
            runs: Vec::new(),
            owed: 0,
            in_flight: 0,
            sync: None,
        };
        for step in &task.steps {
            compiler.compile_step(step);
        }
        programs.push(Program {
            name: task.name.clone(),
            instances: 1,
            delay: task.delay.0,
            loops: None,
            class: Class::fair_with_nice(0),
            stages: vec![Stage {
                loops: Some(1),
                class: None,
                allowed,
                ops: compiler.ops,
            }],
            own_timers: 0,
            step_rules: Some(StepRules {
                first_cpu: (task.first_cpu).filter(|cpu| *cpu < cpus && keeps_cpus),
                depth: task.depth,
                io_wait: task.io_wait,
                uses_page_cache: task.uses_page_cache,
                counts_from: if task.is_counted { 0 } else { u64::MAX },
            }),
        });
    }
    let semaphores = (file.tasks.iter())
        .map(|task| format!("wake-up of {}", task.name))
        .collect();
    let logs = count_logs(file);
    let end = file.simulated_time().0;
    Programs::for_step_tasks(programs, (semaphores, logs), cpu_sets, end)
}

/// Number of logs whose syncs tasks share.
fn count_logs(file: &TasksFile) -> usize {
    let steps = file.tasks.iter().flat_map(|task| &task.steps);
    let logs = steps.filter_map(|step| match step {
        WorkStep::JoinSync { log, .. } => Some(*log as usize + 1),
        _ => None,
    });
    logs.max().unwrap_or(0)
}

/// Checks that a drive's flush time is known, if tasks flush or write past its cache.
///
/// # Errors
/// The time is not known.
pub(crate) fn check_flushes_of_tasks(file: &TasksFile, drive: &DriveModel) -> Result<(), SimError> {
    if file.needs_flush_time() && !drive.flush_us.is_given() {
        return Err(SimError::Workload {
            job: file.name.clone(),
            what: "`flush` or `forced` on a drive whose time of a flush is not known. Give drive.flush_us in the machine's file, 0 \
                   for a drive without a volatile cache"
                .to_owned(),
        });
    }
    Ok(())
}

/// Index of the set of CPUs where a task may run; `None`: all, also where the machine has none of those that the file names.
fn compile_cpu_set(
    named: Option<&Vec<usize>>,
    cpus: usize,
    cpu_sets: &mut Vec<Vec<bool>>,
) -> Option<usize> {
    let named = named?;
    let set: Vec<bool> = (0..cpus).map(|cpu| named.contains(&cpu)).collect();
    if !set.contains(&true) {
        return None;
    }
    let known = cpu_sets.iter().position(|other| *other == set);
    Some(known.unwrap_or_else(|| {
        cpu_sets.push(set);
        cpu_sets.len() - 1
    }))
}

/// By how much the kernel's work in recorded runs is larger than this machine's.
///
/// A recorded submission that took fewer cycles says nothing: of a real kernel's, it is a part.
#[derive(Clone, Copy, Debug)]
struct RecordedKernelWork {
    recorded: Cycles,
    own: Cycles,
}

impl RecordedKernelWork {
    fn new(file: &TasksFile, io: &IoCost) -> Self {
        let own = (file.submission).map_or(1, |work| io.submission_work(work.bytes.into()));
        let recorded = file.submission.map_or(1, |work| work.cycles);
        Self {
            recorded: recorded.max(own),
            own: own.max(1),
        }
    }

    /// The recorded machine's cycles for what takes this machine so many.
    fn scale(self, cycles: Cycles) -> Cycles {
        let scaled = u128::from(cycles) * u128::from(self.recorded) / u128::from(self.own);
        Cycles::try_from(scaled).unwrap_or(Cycles::MAX)
    }
}

/// Compiles the steps of a task.
struct StepCompiler<'a> {
    io: &'a IoCost,
    frequency: &'a FrequencySetup,
    /// Whether flushes reach the drives.
    has_volatile_cache: bool,
    /// Whether the CPUs of runs are those of this machine.
    is_known_machine: bool,
    /// Number of CPUs.
    cpus: usize,
    /// Number of the network card's queue for the task's next arrival on a machine that was not recorded. The card has a queue for
    /// each CPU; those who wait for replies keep theirs.
    card_queue: usize,
    kernel_work: RecordedKernelWork,
    /// Whether only sleeps for requests take work, and not each request's end.
    uses_page_cache: bool,
    /// Whether submissions took time in the recording.
    has_submission_times: bool,
    /// Number of the semaphore that counts the task's wake-ups.
    semaphore: usize,
    ops: Vec<Op>,
    /// Indices in `ops` of the runs since the last wait for requests.
    runs: Vec<usize>,
    /// The kernel's work in cycles since then that no run has given yet.
    owed: Cycles,
    /// Requests in flight, as far as the steps show.
    in_flight: u32,
    /// Log and index in `ops` of the sync whose steps follow.
    sync: Option<(usize, usize)>,
}

impl StepCompiler<'_> {
    fn compile_step(&mut self, step: &WorkStep) {
        let op = match step {
            WorkStep::Run { .. } => {
                let recorded = self.recorded_cycles(step);
                let paid = self.owed.min(recorded);
                self.owed -= paid;
                self.runs.push(self.ops.len());
                Op::Run(recorded - paid)
            }
            WorkStep::Io {
                write,
                bytes,
                offset,
                is_forced,
            } => {
                let bytes = u64::from(*bytes);
                let work = self.io.submission_work(bytes);
                let paid = self.take_submission_out_of_last_run(work);
                self.owe(work - paid);
                self.in_flight += 1;
                Op::Submit {
                    direction: if *write {
                        Direction::Write
                    } else {
                        Direction::Read
                    },
                    bytes,
                    offset: *offset,
                    is_forced: *is_forced,
                }
            }
            WorkStep::Flush => {
                if self.has_volatile_cache {
                    self.owe(self.io.flush_submission_work());
                    self.in_flight += 1;
                }
                Op::Flush
            }
            WorkStep::AwaitIo(most) => {
                self.owe(self.io.work_to_leave_run_queue().unwrap_or(0));
                self.take_owed_work_out_of_earlier_runs();
                let ended = self.in_flight.saturating_sub(*most).max(1);
                let taken = if self.uses_page_cache { 1 } else { ended };
                self.in_flight = self.in_flight.min(*most);
                let resumption = self.io.resumption_work(taken as usize, true);
                self.owed = self.kernel_work.scale(resumption);
                Op::AwaitIo(*most)
            }
            WorkStep::PassIo(most) => {
                if !self.uses_page_cache {
                    // The recorded task took its requests back without a sleep, within its runs.
                    let ended = self.in_flight.saturating_sub(*most);
                    self.owe(self.io.resumption_work(ended as usize, false));
                }
                self.in_flight = self.in_flight.min(*most);
                Op::AwaitIo(*most)
            }
            WorkStep::Sleep(time) => Op::Pause(time.0),
            WorkStep::SleepAfterLastTimer(time) => Op::PauseAfterLast(time.0),
            WorkStep::Arrival { time, cpu, from } => {
                let queue = if self.is_known_machine {
                    *cpu as usize
                } else {
                    self.card_queue
                };
                self.card_queue += usize::from(*from != RequestSource::Client);
                Op::AwaitArrival {
                    time: time.0,
                    cpu: queue % self.cpus,
                    pool: match from {
                        RequestSource::Client => None,
                        RequestSource::Own => Some(MAX_TASKS + self.semaphore),
                        RequestSource::Pool(pool) => Some(*pool as usize),
                    },
                }
            }
            WorkStep::JoinSync { log, bytes } => {
                self.sync = Some((*log as usize, self.ops.len()));
                Op::JoinSync {
                    log: *log as usize,
                    bytes: u64::from(*bytes),
                    end: self.ops.len(),
                }
            }
            WorkStep::EndSync => {
                let end_of_sync = self.ops.len();
                let Some((log, begin)) = self.sync.take() else {
                    return;
                };
                if let Some(Op::JoinSync { end, .. }) = self.ops.get_mut(begin) {
                    *end = end_of_sync;
                }
                Op::EndSharedSync(log)
            }
            WorkStep::Wake(task) => Op::Post(*task as usize),
            WorkStep::AwaitWakeUp => Op::Pend(self.semaphore),
            WorkStep::Spin(time) => Op::Runtime(time.0),
            WorkStep::LeaveCallback => Op::LeaveCallback,
        };
        self.ops.push(op);
    }

    /// Takes a submission's work out of the run before it, where no submission of the recording took time. Returns what was taken.
    ///
    /// A recording shows the page cache's requests once they are at the drive, after that work.
    fn take_submission_out_of_last_run(&mut self, work: Cycles) -> Cycles {
        let is_before_request = self.uses_page_cache && !self.has_submission_times;
        match self.ops.last_mut() {
            Some(Op::Run(cycles)) if is_before_request => {
                let paid = work.min(*cycles);
                *cycles -= paid;
                paid
            }
            _ => 0,
        }
    }

    /// Adds kernel's work of this machine's, as it was on the recorded machine.
    fn owe(&mut self, cycles: Cycles) {
        self.owed = self.owed.saturating_add(self.kernel_work.scale(cycles));
    }

    /// Work in cycles of a run as it was recorded, without the drive's interrupts.
    fn recorded_cycles(&self, step: &WorkStep) -> Cycles {
        let WorkStep::Run {
            time,
            cpu,
            clock,
            interrupts,
        } = step
        else {
            return 0;
        };
        let known = if self.is_known_machine {
            cpu.and_then(|cpu| self.frequency.speed_khz_at_clock(cpu as usize, *clock))
        } else {
            clock.map(|clock| u64::from(clock.0))
        };
        let khz = known.unwrap_or_else(|| self.frequency.fastest_cpu_khz().into());
        let cycles = u128::from(time.0) * u128::from(khz) / 1_000_000;
        let interrupt = self
            .kernel_work
            .scale(self.io.completion_interrupt_work(false));
        let served = interrupt.saturating_mul(Cycles::from(*interrupts));
        u64::try_from(cycles)
            .unwrap_or(u64::MAX)
            .saturating_sub(served)
    }

    /// Takes the kernel's work out of runs before it, the last first.
    fn take_owed_work_out_of_earlier_runs(&mut self) {
        for index in self.runs.drain(..).rev() {
            if let Some(Op::Run(cycles)) = self.ops.get_mut(index) {
                let paid = self.owed.min(*cycles);
                *cycles -= paid;
                self.owed -= paid;
            }
        }
    }
}
