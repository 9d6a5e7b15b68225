//! Tasks as steps: CPU bursts, requests to the drive, sleeps and wake-ups in a fixed order, repeated.
//!
//! `wakepath workload extract` makes such files of recordings. Each wait is closed: for the task's own requests, for a timer that the
//! task starts, or for another task. So the file answers to other machines, drives and policies. [`parse`] reads a TOML file whose
//! steps are lines of text.
//!
//! ```
//! use wakepath_workloads::tasks;
//!
//! let text = "kind = 'tasks'\nname = 'reader'\nseconds = 1.0\n\
//!             [[task]]\nname = 'reader'\nsteps = '''\nread 4096 0\nwait 0\nrun 20us\nsleep 300us\n'''\n";
//! let file = tasks::parse(text, "reader.toml")?;
//! assert_eq!(file.tasks[0].steps.len(), 4);
//! # Ok::<(), wakepath_workloads::tasks::TasksError>(())
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::Deserialize;
use toml::Spanned;
use wakepath_units::Nanoseconds;
use wakepath_units::printable::escape_for_one_line;
use wakepath_units::spelling::suggestion_with_known_names;

mod error;
mod model;
mod print;
mod step_lines;

#[cfg(test)]
mod tests;

pub use error::TasksError;
pub use model::{
    MAX_DEPTH, MAX_IO_BYTES, MAX_SECONDS, MAX_STEPS, MAX_SUBMISSION_CYCLES, MAX_TASKS,
    RequestSource, StepTask, SubmissionWork, TasksFile, WorkStep,
};

use self::error::FilePlace;
use self::model::MAX_CPU;
use self::step_lines::StepLines;
use crate::text::escape_and_shorten;

/// Longest file with tasks that is accepted, in bytes.
pub const MAX_FILE_BYTES: usize = 48 << 20;

/// Longest name in bytes.
const MAX_NAME_BYTES: usize = 60;

/// A file with tasks as it is written, before any check.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    kind: Spanned<String>,
    name: Spanned<String>,
    seconds: Spanned<f64>,
    #[serde(default)]
    has_background: bool,
    machine_cpus: Option<Spanned<usize>>,
    grace_period_cpu: Option<Spanned<usize>>,
    submission: Option<Spanned<RawSubmission>>,
    #[serde(default)]
    task: Vec<RawTask>,
}

/// `submission` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSubmission {
    bytes: u64,
    cycles: u64,
}

/// A `[[task]]` as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawTask {
    name: Spanned<String>,
    starts_us: Option<Spanned<f64>>,
    first_cpu: Option<Spanned<usize>>,
    cpus: Option<Spanned<Vec<usize>>>,
    #[serde(default)]
    bound: bool,
    depth: Option<Spanned<u32>>,
    #[serde(default = "default_io_wait")]
    io_wait: bool,
    #[serde(default)]
    page_cache: bool,
    #[serde(default = "default_counted")]
    counted: bool,
    steps: Spanned<String>,
}

const fn default_io_wait() -> bool {
    true
}

const fn default_counted() -> bool {
    true
}

/// Whether a TOML text says that it has tasks, so that [`parse`] is its reader: the first `kind` is `tasks`.
pub fn is_tasks_file(text: &str) -> bool {
    let kind = text.lines().find_map(|line| {
        let (key, value) = line.split_once('=')?;
        (key.trim() == "kind").then(|| value.trim())
    });
    kind.is_some_and(|value| value.starts_with("\"tasks\"") || value.starts_with("'tasks'"))
}

/// Parses a file with tasks. `origin` is the file's name for messages.
///
/// # Errors
/// The first problem with its line: no TOML, another `kind`, an unknown or missing key, a figure out of range, a step that is not
/// understood, a wait for a wake-up that no task makes, more than [`MAX_TASKS`] or [`MAX_STEPS`]. Also more than
/// [`MAX_FILE_BYTES`].
pub fn parse(text: &str, origin: &str) -> Result<TasksFile, TasksError> {
    let place = FilePlace { text, origin };
    if text.len() > MAX_FILE_BYTES {
        let message = crate::file::too_large_message(MAX_FILE_BYTES);
        return Err(place.error_in_line(None, message));
    }
    let raw: RawFile = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let message = wakepath_units::spelling::toml_error_with_key(e.message(), text, at);
        let line = Some(place.line_of_byte(at));
        place.error_in_line(line, escape_for_one_line(&message).into_owned())
    })?;
    check_tasks_file(&raw, place)
}

fn check_tasks_file(raw: &RawFile, place: FilePlace<'_>) -> Result<TasksFile, TasksError> {
    if raw.kind.get_ref() != "tasks" {
        let wrong = escape_and_shorten(raw.kind.get_ref());
        let known = suggestion_with_known_names(raw.kind.get_ref(), &["server", "tasks"]);
        let message = format!("no kind of workload is called `{wrong}`{known}");
        return Err(place.error_at_value(&raw.kind, message));
    }
    check_name(&raw.name, place)?;
    let submission = (raw.submission.as_ref())
        .map(|submission| check_submission(submission, place))
        .transpose()?;
    if let Some(cpus) = &raw.machine_cpus
        && !(1..=MAX_CPU + 1).contains(cpus.get_ref())
    {
        let message = format!(
            "`machine_cpus` is {}, and may be 1 to {}",
            cpus.get_ref(),
            MAX_CPU + 1
        );
        return Err(place.error_at_value(cpus, message));
    }
    let seconds = *raw.seconds.get_ref();
    if !(0.001..=MAX_SECONDS).contains(&seconds) {
        let message = format!("`seconds` is {seconds}, and may be 0.001 to {MAX_SECONDS}");
        return Err(place.error_at_value(&raw.seconds, message));
    }
    if raw.task.is_empty() || raw.task.len() > MAX_TASKS {
        let message = format!(
            "there are {} tables `[[task]]`, and there may be 1 to {MAX_TASKS}",
            raw.task.len()
        );
        return Err(place.error_in_line(None, message));
    }
    let mut numbers = BTreeMap::new();
    for (number, task) in raw.task.iter().enumerate() {
        check_name(&task.name, place)?;
        if numbers
            .insert(task.name.get_ref().as_str(), number)
            .is_some()
        {
            let name = escape_and_shorten(task.name.get_ref());
            let message =
                format!("a second task is called `{name}`; `wake` needs one name for each");
            return Err(place.error_at_value(&task.name, message));
        }
    }
    let mut lines = StepLines::new(place, &numbers);
    let mut tasks = Vec::with_capacity(raw.task.len());
    for task in &raw.task {
        tasks.push(check_task(task, &mut lines, place)?);
    }
    check_that_each_awaited_wake_up_comes(raw, &tasks, place)?;
    Ok(TasksFile {
        name: raw.name.get_ref().clone(),
        duration: Nanoseconds((seconds * 1e9).round() as u64),
        at_most: None,
        has_background: raw.has_background,
        machine_cpus: raw.machine_cpus.as_ref().map(|cpus| *cpus.get_ref()),
        grace_period_cpu: check_cpu(raw.grace_period_cpu.as_ref(), "grace_period_cpu", place)?,
        submission,
        tasks,
    })
}

/// A CPU's number, given under this key.
fn check_cpu(
    cpu: Option<&Spanned<usize>>,
    key: &str,
    place: FilePlace<'_>,
) -> Result<Option<usize>, TasksError> {
    match cpu {
        Some(cpu) if *cpu.get_ref() > MAX_CPU => {
            let message = format!("`{key}` is {}, and may be 0 to {MAX_CPU}", cpu.get_ref());
            Err(place.error_at_value(cpu, message))
        }
        _ => Ok(cpu.map(|cpu| *cpu.get_ref())),
    }
}

fn check_submission(
    raw: &Spanned<RawSubmission>,
    place: FilePlace<'_>,
) -> Result<SubmissionWork, TasksError> {
    let RawSubmission { bytes, cycles } = *raw.get_ref();
    let is_possible =
        (1..=MAX_IO_BYTES).contains(&bytes) && (1..=MAX_SUBMISSION_CYCLES).contains(&cycles);
    if !is_possible {
        let message = format!(
            "`submission` has `bytes` of 1 to {MAX_IO_BYTES}, and `cycles` of 1 to {MAX_SUBMISSION_CYCLES}"
        );
        return Err(place.error_at_value(raw, message));
    }
    Ok(SubmissionWork {
        bytes: bytes as u32,
        cycles,
    })
}

fn check_name(name: &Spanned<String>, place: FilePlace<'_>) -> Result<(), TasksError> {
    let text = name.get_ref();
    let is_wrong = text.contains(|c: char| c.is_control() || c.is_whitespace() || c == '\'');
    if text.is_empty() || text.len() > MAX_NAME_BYTES || is_wrong {
        let message = format!("`name` has 1 to {MAX_NAME_BYTES} bytes, no blanks and no `'`");
        return Err(place.error_at_value(name, message));
    }
    Ok(())
}

fn check_task(
    raw: &RawTask,
    lines: &mut StepLines<'_>,
    place: FilePlace<'_>,
) -> Result<StepTask, TasksError> {
    let delay_us = raw.starts_us.as_ref().map_or(0.0, |us| *us.get_ref());
    if !(0.0..=MAX_SECONDS * 1e6).contains(&delay_us) {
        let message = format!(
            "`starts_us` is {delay_us}, and may be 0 to {:e}",
            MAX_SECONDS * 1e6
        );
        return Err(match &raw.starts_us {
            Some(value) => place.error_at_value(value, message),
            None => place.error_in_line(None, message),
        });
    }
    if let Some(depth) = &raw.depth
        && !(1..=MAX_DEPTH).contains(depth.get_ref())
    {
        let message = format!(
            "`depth` is {}, and may be 1 to {MAX_DEPTH}",
            depth.get_ref()
        );
        return Err(place.error_at_value(depth, message));
    }
    let first_cpu = check_cpu(raw.first_cpu.as_ref(), "first_cpu", place)?;
    if let Some(cpus) = &raw.cpus
        && (cpus.get_ref().is_empty() || cpus.get_ref().iter().any(|cpu| *cpu > MAX_CPU))
    {
        let message = format!("`cpus` lists numbers of CPUs, 0 to {MAX_CPU}, at least one");
        return Err(place.error_at_value(cpus, message));
    }
    Ok(StepTask {
        name: raw.name.get_ref().clone(),
        delay: Nanoseconds((delay_us * 1e3).round() as u64),
        first_cpu,
        cpus: raw.cpus.as_ref().map(|cpus| cpus.get_ref().clone()),
        is_bound: raw.bound,
        depth: raw.depth.as_ref().map_or(1, |depth| *depth.get_ref()),
        io_wait: raw.io_wait,
        uses_page_cache: raw.page_cache,
        is_counted: raw.counted,
        steps: lines.parse_steps_of_task(&raw.steps)?,
    })
}

/// Refuses a task that waits to be woken if no task wakes it.
fn check_that_each_awaited_wake_up_comes(
    raw: &RawFile,
    tasks: &[StepTask],
    place: FilePlace<'_>,
) -> Result<(), TasksError> {
    let steps = tasks.iter().flat_map(|task| &task.steps);
    let woken: BTreeSet<usize> = steps
        .filter_map(|step| match step {
            WorkStep::Wake(task) => Some(*task as usize),
            _ => None,
        })
        .collect();
    for (number, (task, written)) in tasks.iter().zip(&raw.task).enumerate() {
        if task.steps.contains(&WorkStep::AwaitWakeUp) && !woken.contains(&number) {
            let name = escape_and_shorten(&task.name);
            let message = format!("task `{name}` has `await`, and no task has `wake {name}`");
            return Err(place.error_at_value(&written.name, message));
        }
    }
    Ok(())
}

impl fmt::Display for TasksFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::write_tasks_file(self, f)
    }
}
