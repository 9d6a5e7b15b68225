//! Making a file with tasks from what tasks did in a recording.

use std::collections::BTreeSet;

use wakepath_trace::task_steps::{ArrivalSource, ObservedStep, ObservedTask, ObservedTasks};
use wakepath_units::printable::escape_for_one_line;
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::tasks::{
    MAX_IO_BYTES, MAX_SECONDS, MAX_SUBMISSION_CYCLES, RequestSource, StepTask, SubmissionWork,
    TasksFile, WorkStep,
};

use super::job::{make_unique_and_insert_name, plain_name_for_task};

/// A task that got a CPU less often may run on all.
const FEWEST_TURNS: u64 = 32;

/// Size of a sector in bytes.
const SECTOR: u64 = 512;

/// Shortest time in ns that a file lasts.
const SHORTEST_NS: u64 = 1_000_000;

/// The file for the tasks observed, and the number of requests that are too large for it.
pub(super) fn make_tasks_file(observed: &ObservedTasks) -> (TasksFile, u64) {
    let mut names = BTreeSet::new();
    let mut too_large = 0;
    let tasks = observed.tasks.iter().map(|task| {
        let plain = plain_name_for_task(task.name.as_deref(), task.number);
        let steps = task.steps.iter().filter_map(|step| {
            let step = convert_step(step);
            too_large += u64::from(step.is_none());
            step
        });
        StepTask {
            name: make_unique_and_insert_name(plain, task.number, &mut names),
            delay: Nanoseconds(task.delay_ns),
            first_cpu: Some(task.first_cpu as usize),
            cpus: cpus_of_task(task),
            is_bound: bound_cpu(task).is_some(),
            depth: task.depth.max(1),
            io_wait: task.io_wait,
            uses_page_cache: task.uses_page_cache,
            is_counted: task.is_waited_for || task.requests == 0,
            steps: steps.collect(),
        }
    });
    let tasks: Vec<StepTask> = tasks.collect();
    let file = TasksFile {
        name: "recorded".to_owned(),
        duration: cap_time(observed.used_ns.max(SHORTEST_NS)),
        at_most: None,
        has_background: true,
        machine_cpus: Some(observed.cpus as usize).filter(|cpus| (1..=65_536).contains(cpus)),
        grace_period_cpu: observed.grace_period_cpu.map(|cpu| cpu as usize),
        submission: (observed.submission)
            .filter(|submission| u64::from(submission.bytes) <= MAX_IO_BYTES)
            .map(|submission| SubmissionWork {
                bytes: submission.bytes,
                cycles: submission.cycles.min(MAX_SUBMISSION_CYCLES),
            }),
        tasks,
    };
    (file, too_large)
}

/// The text of the file, which begins with its origin.
pub(super) fn format_tasks_file(recording: &str, file: &TasksFile) -> String {
    format!(
        "# Made by wakepath workload extract of {}.\n\
         # Times of `run` are measured, with the kernel's work inside; `sleep` and `timer` are what timers were set for.\n{file}",
        escape_for_one_line(recording)
    )
}

/// CPUs where a task may run: where it ran, if it got a CPU often enough to tell. Otherwise chance would move a task in the simulation
/// that had stayed.
fn cpus_of_task(task: &ObservedTask) -> Option<Vec<usize>> {
    if let Some(cpu) = bound_cpu(task) {
        return Some(vec![cpu]);
    }
    let seen = task.cpus.iter().map(|cpu| *cpu as usize);
    (task.turns >= FEWEST_TURNS).then(|| seen.collect())
}

/// The CPU that a kernel thread's name binds it to, such as `kworker/3:1` or `cpuhp/3`.
fn bound_cpu(task: &ObservedTask) -> Option<usize> {
    let (_, rest) = task.name.as_deref()?.split_once('/')?;
    let digits = rest.split_once(':').map_or(rest, |(cpu, _)| cpu);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let cpu: usize = is_number.then(|| digits.parse().ok()).flatten()?;
    (cpu == task.first_cpu as usize).then_some(cpu)
}

/// A time in ns, or the longest that a file may have.
fn cap_time(ns: u64) -> Nanoseconds {
    Nanoseconds(ns.min((MAX_SECONDS * 1e9) as u64))
}

/// A step as the file has it; `None`: a request that is too large.
fn convert_step(step: &ObservedStep) -> Option<WorkStep> {
    Some(match *step {
        ObservedStep::Run(run) => WorkStep::Run {
            time: cap_time(run.time_ns),
            cpu: Some(run.cpu),
            clock: run.khz.filter(|khz| *khz > 0).map(Kilohertz),
            interrupts: run.interrupts.min(1_000_000),
        },
        ObservedStep::Io(io) => {
            let whole = u64::from(io.bytes).div_ceil(SECTOR) * SECTOR;
            if whole > MAX_IO_BYTES {
                return None;
            }
            WorkStep::Io {
                write: io.write,
                bytes: whole as u32,
                offset: io.sector.saturating_mul(SECTOR).min(u64::MAX >> 1),
                is_forced: io.is_forced,
            }
        }
        ObservedStep::Flush => WorkStep::Flush,
        ObservedStep::JoinSync { log, bytes } => WorkStep::JoinSync {
            log,
            bytes: bytes.min(MAX_IO_BYTES as u32),
        },
        ObservedStep::EndSync => WorkStep::EndSync,
        ObservedStep::AwaitIo(most) => WorkStep::AwaitIo(most),
        ObservedStep::PassIo(most) => WorkStep::PassIo(most),
        ObservedStep::Sleep(ns) => WorkStep::Sleep(cap_time(ns)),
        ObservedStep::SleepAfterLastTimer(ns) => WorkStep::SleepAfterLastTimer(cap_time(ns)),
        ObservedStep::Arrival {
            after_ns,
            cpu,
            from,
        } => WorkStep::Arrival {
            time: cap_time(after_ns),
            cpu,
            from: match from {
                ArrivalSource::Client => RequestSource::Client,
                ArrivalSource::Own => RequestSource::Own,
                ArrivalSource::Pool(pool) => RequestSource::Pool(pool),
            },
        },
        ObservedStep::Wake(task) => WorkStep::Wake(task as u32),
        ObservedStep::AwaitWakeUp => WorkStep::AwaitWakeUp,
        ObservedStep::Spin(ns) => WorkStep::Spin(cap_time(ns)),
        ObservedStep::LeaveCallback => WorkStep::LeaveCallback,
    })
}

#[cfg(test)]
mod tests {
    use wakepath_trace::task_steps::ObservedIo;

    use super::*;

    fn task(name: &str, first_cpu: u32) -> ObservedTask {
        ObservedTask {
            number: 7,
            name: Some(name.to_owned()),
            delay_ns: 0,
            first_cpu,
            cpus: vec![first_cpu],
            turns: 1,
            depth: 0,
            requests: 0,
            io_wait: true,
            uses_page_cache: false,
            is_waited_for: false,
            waits: 0,
            outside_wake_ups: 0,
            steps: vec![ObservedStep::Sleep(5)],
        }
    }

    #[test]
    fn the_name_of_a_kernel_thread_binds_it() {
        for (name, cpu) in [
            ("kworker/3:1", Some(3)),
            ("cpuhp/3", Some(3)),
            ("kworker/u8:2", None),
            ("kworker/2:1", None),
            ("a/b", None),
            ("fio", None),
        ] {
            assert_eq!(bound_cpu(&task(name, 3)), cpu, "{name}");
        }
    }

    #[test]
    fn a_task_stays_where_it_often_ran() {
        let mut often = task("fio", 1);
        often.cpus = vec![1, 3];
        assert_eq!(cpus_of_task(&often), None);
        often.turns = FEWEST_TURNS;
        assert_eq!(cpus_of_task(&often), Some(vec![1, 3]));
    }

    #[test]
    fn names_without_blanks_are_given_once() {
        let observed = ObservedTasks {
            tasks: vec![task("a b", 0), task("a b", 0), task("", 0)],
            used_ns: 5_000_000,
            ..ObservedTasks::default()
        };
        let (file, _) = make_tasks_file(&observed);
        let names: Vec<&str> = file.tasks.iter().map(|task| task.name.as_str()).collect();
        assert_eq!(names, ["a_b", "a_b-7", "task-7"]);
        let text = format_tasks_file("rec\n.parquet", &file);
        assert_eq!(wakepath_workloads::tasks::parse(&text, "x").unwrap(), file);
    }

    #[test]
    fn a_request_beyond_the_largest_is_left_out() {
        let mut large = task("a", 0);
        large.steps.push(ObservedStep::Io(ObservedIo {
            write: true,
            bytes: u32::MAX,
            sector: u64::MAX,
            is_forced: false,
        }));
        large.steps.extend([
            ObservedStep::JoinSync {
                log: 0,
                bytes: u32::MAX,
            },
            ObservedStep::EndSync,
        ]);
        let observed = ObservedTasks {
            tasks: vec![large],
            ..ObservedTasks::default()
        };
        let (file, too_large) = make_tasks_file(&observed);
        assert_eq!((file.tasks[0].steps.len(), too_large), (3, 1));
        // What a commit adds to a sync is capped, so that the file can be read.
        let text = format_tasks_file("rec.parquet", &file);
        assert_eq!(wakepath_workloads::tasks::parse(&text, "x").unwrap(), file);
    }
}
