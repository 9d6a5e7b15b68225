//! Printing a file with tasks.

use std::fmt::{self, Formatter};

use wakepath_units::{Kilohertz, Nanoseconds};

use super::model::{RequestSource, StepTask, SubmissionWork, TasksFile, WorkStep};

/// Writes a file with tasks as TOML that reads as the same file. A caller's time limit is left out.
pub(super) fn write_tasks_file(file: &TasksFile, f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "kind = \"tasks\"\nname = {}", quote(&file.name))?;
    writeln!(f, "seconds = {:?}", file.duration.as_secs_f64())?;
    if file.has_background {
        writeln!(f, "has_background = true")?;
    }
    if let Some(cpus) = file.machine_cpus {
        writeln!(f, "machine_cpus = {cpus}")?;
    }
    if let Some(cpu) = file.grace_period_cpu {
        writeln!(f, "grace_period_cpu = {cpu}")?;
    }
    if let Some(SubmissionWork { bytes, cycles }) = file.submission {
        writeln!(f, "submission = {{ bytes = {bytes}, cycles = {cycles} }}")?;
    }
    for task in &file.tasks {
        write_task(task, &file.tasks, f)?;
    }
    Ok(())
}

fn write_task(task: &StepTask, all: &[StepTask], f: &mut Formatter<'_>) -> fmt::Result {
    writeln!(f, "\n[[task]]\nname = {}", quote(&task.name))?;
    if task.delay.0 > 0 {
        writeln!(f, "starts_us = {:?}", task.delay.0 as f64 / 1e3)?;
    }
    if let Some(cpu) = task.first_cpu {
        writeln!(f, "first_cpu = {cpu}")?;
    }
    if let Some(cpus) = &task.cpus {
        writeln!(f, "cpus = {cpus:?}")?;
    }
    if task.is_bound {
        writeln!(f, "bound = true")?;
    }
    if task.depth != 1 {
        writeln!(f, "depth = {}", task.depth)?;
    }
    if !task.io_wait {
        writeln!(f, "io_wait = false")?;
    }
    if task.uses_page_cache {
        writeln!(f, "page_cache = true")?;
    }
    if !task.is_counted {
        writeln!(f, "counted = false")?;
    }
    writeln!(f, "steps = '''")?;
    let mut place = (None, None);
    for step in &task.steps {
        write_step(step, all, &mut place, f)?;
    }
    writeln!(f, "'''")
}

/// CPU and clock of the steps before, which a line says only where one of them changes.
type RunPlace = (Option<u32>, Option<Kilohertz>);

fn write_step(
    step: &WorkStep,
    all: &[StepTask],
    place: &mut RunPlace,
    f: &mut Formatter<'_>,
) -> fmt::Result {
    match step {
        WorkStep::Run {
            time,
            cpu,
            clock,
            interrupts,
        } => {
            if *place != (*cpu, *clock) {
                write!(f, "on")?;
                if let Some(cpu) = cpu {
                    write!(f, " cpu {cpu}")?;
                }
                if let Some(clock) = clock {
                    write!(f, " clock {}kHz", clock.0)?;
                }
                writeln!(f)?;
                *place = (*cpu, *clock);
            }
            write!(f, "run {}", print_time(*time))?;
            if *interrupts > 0 {
                write!(f, " interrupts {interrupts}")?;
            }
            writeln!(f)
        }
        WorkStep::Io {
            write,
            bytes,
            offset,
            is_forced,
        } => {
            let operation = if *write { "write" } else { "read" };
            let forced = if *is_forced { " forced" } else { "" };
            writeln!(f, "{operation} {bytes} {offset}{forced}")
        }
        WorkStep::Flush => writeln!(f, "flush"),
        WorkStep::AwaitIo(most) => writeln!(f, "wait {most}"),
        WorkStep::PassIo(most) => writeln!(f, "wait {most} passed"),
        WorkStep::Sleep(time) => writeln!(f, "sleep {}", print_time(*time)),
        WorkStep::SleepAfterLastTimer(time) => writeln!(f, "timer {}", print_time(*time)),
        WorkStep::Arrival { time, cpu, from } => {
            write!(f, "arrival {} cpu {cpu}", print_time(*time))?;
            match from {
                RequestSource::Client => writeln!(f, " after reply"),
                RequestSource::Own => writeln!(f),
                RequestSource::Pool(pool) => writeln!(f, " pool {pool}"),
            }
        }
        WorkStep::JoinSync { log, bytes } => writeln!(f, "sync {log} {bytes}"),
        WorkStep::EndSync => writeln!(f, "synced"),
        WorkStep::Wake(task) => match all.get(*task as usize) {
            Some(task) => writeln!(f, "wake {}", task.name),
            None => Ok(()),
        },
        WorkStep::AwaitWakeUp => writeln!(f, "await"),
        WorkStep::Spin(time) => writeln!(f, "spin {}", print_time(*time)),
        WorkStep::LeaveCallback => writeln!(f, "callback"),
    }
}

/// A time in us, to the nanosecond.
fn print_time(time: Nanoseconds) -> String {
    let (us, ns) = (time.0 / 1000, time.0 % 1000);
    if ns == 0 {
        return format!("{us}us");
    }
    let fraction = format!("{ns:03}");
    format!("{us}.{}us", fraction.trim_end_matches('0'))
}

/// A text as a TOML string.
fn quote(text: &str) -> String {
    toml::Value::from(text).to_string()
}
