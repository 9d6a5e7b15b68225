//! An rt-app file as text, which says all that was understood and parses to the same.

use std::fmt;

use wakepath_units::Nanoseconds;

use super::{Calibration, Phase, RtAppEvent, RtAppFile, RtAppVersion, RtTask, Scheduling};

pub(super) fn file(file: &RtAppFile, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let duration = match file.duration {
        Some(duration) => (duration.0 / 1_000_000_000).to_string(),
        None => "-1".to_owned(),
    };
    writeln!(f, "{{")?;
    let calibration = match file.calibration {
        Calibration::Cpu(cpu) => format!("\"CPU{cpu}\""),
        Calibration::LoopNs(ns) => ns.to_string(),
    };
    let version = match file.version {
        RtAppVersion::V2025 => String::new(),
        version @ RtAppVersion::V1 => format!(", \"rt_app_version\": \"{version}\""),
    };
    writeln!(
        f,
        "  \"global\": {{ \"duration\": {duration}, \"calibration\": {calibration}{version} }},"
    )?;
    writeln!(f, "  \"tasks\": {{")?;
    separated(f, &file.tasks, |f, task| self::task(task, f))?;
    writeln!(f, "  }}\n}}")
}

fn task(task: &RtTask, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "    {}: {{", quoted(&task.name))?;
    writeln!(f, "      \"instance\": {},", task.instances)?;
    writeln!(f, "      \"delay\": {},", task.delay.0 / 1000)?;
    writeln!(f, "      \"loop\": {},", loops(task.loops))?;
    scheduling(f, Some(task.scheduling), "      ")?;
    cpus(f, task.cpus.as_deref(), "      ")?;
    writeln!(f, "      \"phases\": {{")?;
    separated(f, &task.phases, |f, phase| self::phase(phase, f))?;
    write!(f, "      }}\n    }}")
}

fn phase(phase: &Phase, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "        {}: {{", quoted(&phase.name))?;
    writeln!(f, "          \"loop\": {},", loops(phase.loops))?;
    scheduling(f, phase.scheduling, "          ")?;
    cpus(f, phase.cpus.as_deref(), "          ")?;
    let mut number = 0;
    separated(f, &phase.events, |f, event| {
        // Keys of an object have to differ for rt-app itself.
        number += 1;
        write!(f, "          ")?;
        self::event(event, number, f)
    })?;
    write!(f, "        }}")
}

fn event(event: &RtAppEvent, number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (name, value) = match event {
        RtAppEvent::Run(time) => ("run", microseconds(*time)),
        RtAppEvent::Runtime(time) => ("runtime", microseconds(*time)),
        RtAppEvent::Sleep(time) => ("sleep", microseconds(*time)),
        RtAppEvent::Timer {
            timer,
            period,
            absolute,
        } => (
            "timer",
            format!(
                "{{ \"ref\": {}, \"period\": {}, \"mode\": \"{}\" }}",
                quoted(timer),
                microseconds(*period),
                if *absolute { "absolute" } else { "relative" }
            ),
        ),
        RtAppEvent::Lock(name) => ("lock", quoted(name)),
        RtAppEvent::Unlock(name) => ("unlock", quoted(name)),
        RtAppEvent::Wait { condition, mutex } => ("wait", condition_and_mutex(condition, mutex)),
        RtAppEvent::Signal(name) => ("signal", quoted(name)),
        RtAppEvent::Broadcast(name) => ("broad", quoted(name)),
        RtAppEvent::Sync { condition, mutex } => ("sync", condition_and_mutex(condition, mutex)),
        RtAppEvent::Barrier(name) => ("barrier", quoted(name)),
        RtAppEvent::Suspend(name) => ("suspend", quoted(name)),
        RtAppEvent::Resume(name) => ("resume", quoted(name)),
        RtAppEvent::SemPost(name) => ("sem_post", quoted(name)),
        RtAppEvent::SemWait(name) => ("sem_wait", quoted(name)),
        RtAppEvent::Yield => ("yield", "\"\"".to_owned()),
        RtAppEvent::Mem(bytes) => ("mem", bytes.to_string()),
        RtAppEvent::IoRun(bytes) => ("iorun", bytes.to_string()),
    };
    write!(f, "\"{name}{number}\": {value}")
}

fn microseconds(time: Nanoseconds) -> String {
    (time.0 / 1000).to_string()
}

fn condition_and_mutex(condition: &str, mutex: &str) -> String {
    format!(
        "{{ \"ref\": {}, \"mutex\": {} }}",
        quoted(condition),
        quoted(mutex)
    )
}

fn loops(loops: Option<u64>) -> String {
    loops.map_or_else(|| "-1".to_owned(), |n| n.to_string())
}

fn scheduling(
    f: &mut fmt::Formatter<'_>,
    scheduling: Option<Scheduling>,
    indent: &str,
) -> fmt::Result {
    let Some(scheduling) = scheduling else {
        return Ok(());
    };
    writeln!(f, "{indent}\"policy\": \"{}\",", scheduling.policy())?;
    writeln!(f, "{indent}\"priority\": {},", scheduling.priority())
}

fn cpus(f: &mut fmt::Formatter<'_>, cpus: Option<&[usize]>, indent: &str) -> fmt::Result {
    match cpus {
        Some(cpus) => writeln!(f, "{indent}\"cpus\": {cpus:?},"),
        None => Ok(()),
    }
}

/// Writes items with commas in between, a line each.
fn separated<T>(
    f: &mut fmt::Formatter<'_>,
    items: &[T],
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            writeln!(f, ",")?;
        }
        write(f, item)?;
    }
    writeln!(f)
}

/// A JSON string.
fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c.is_control() => out.extend(format!("\\u{:04x}", c as u32).chars()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
