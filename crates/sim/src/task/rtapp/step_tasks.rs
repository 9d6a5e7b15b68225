//! Tasks of given steps, compiled into programs of threads.
//!
//! A run of such a task is CPU time as it was recorded, with the kernel's work for the task's requests inside. The engine does that
//! work itself, so it is taken out here: from the runs after a request, and from those between two waits in general. A recorded run
//! may be shorter than the work by the machine's figures; then nothing of it is left.

use wakepath_hardware::machine::DriveModel;
use wakepath_workloads::tasks::{StepTask, TasksFile, WorkStep};

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
    let mut programs = Vec::with_capacity(file.tasks.len());
    for (number, task) in file.tasks.iter().enumerate() {
        let allowed = compile_cpu_set(task, cpus, &mut cpu_sets);
        let mut compiler = StepCompiler {
            io,
            frequency,
            has_volatile_cache,
            semaphore: number,
            ops: Vec::with_capacity(task.steps.len()),
            runs: Vec::new(),
            owed: 0,
            in_flight: 0,
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
                first_cpu: task.first_cpu.filter(|cpu| *cpu < cpus),
                depth: task.depth,
                io_wait: task.io_wait,
                counts_from: if task.is_counted { 0 } else { u64::MAX },
            }),
        });
    }
    let semaphores = (file.tasks.iter())
        .map(|task| format!("wake-up of {}", task.name))
        .collect();
    Programs::for_step_tasks(programs, semaphores, cpu_sets, file.simulated_time().0)
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
fn compile_cpu_set(task: &StepTask, cpus: usize, cpu_sets: &mut Vec<Vec<bool>>) -> Option<usize> {
    let named = task.cpus.as_ref()?;
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

/// Compiles the steps of a task.
struct StepCompiler<'a> {
    io: &'a IoCost,
    frequency: &'a FrequencySetup,
    /// Whether flushes reach the drives.
    has_volatile_cache: bool,
    /// Number of the semaphore that counts the task's wake-ups.
    semaphore: usize,
    ops: Vec<Op>,
    /// Indices in `ops` of the runs since the last wait for requests.
    runs: Vec<usize>,
    /// The kernel's work in cycles since then that no run has given yet.
    owed: Cycles,
    /// Requests in flight, as far as the steps show.
    in_flight: u32,
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
                self.owed += self.io.submission_work(bytes);
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
                    self.owed += self.io.flush_submission_work();
                    self.in_flight += 1;
                }
                Op::Flush
            }
            WorkStep::AwaitIo(most) => {
                self.owed += self.io.work_to_leave_run_queue().unwrap_or(0);
                self.take_owed_work_out_of_earlier_runs();
                let taken = self.in_flight.saturating_sub(*most).max(1);
                self.in_flight = self.in_flight.min(*most);
                self.owed = self.io.resumption_work(taken as usize, true);
                Op::AwaitIo(*most)
            }
            WorkStep::Sleep(time) => Op::Pause(time.0),
            WorkStep::SleepAfterLastTimer(time) => Op::PauseAfterLast(time.0),
            WorkStep::Wake(task) => Op::Post(*task as usize),
            WorkStep::AwaitWakeUp => Op::Pend(self.semaphore),
            WorkStep::LeaveCallback => Op::LeaveCallback,
        };
        self.ops.push(op);
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
        let known = cpu.and_then(|cpu| self.frequency.speed_khz_at_clock(cpu as usize, *clock));
        let khz = known.unwrap_or_else(|| self.frequency.fastest_cpu_khz().into());
        let cycles = u128::from(time.0) * u128::from(khz) / 1_000_000;
        let served = self.io.completion_interrupt_work(false) * Cycles::from(*interrupts);
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
