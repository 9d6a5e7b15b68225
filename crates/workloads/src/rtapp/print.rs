//! Printing an rt-app file: the text has all that was understood, and parses to the same file.

use std::fmt;

use wakepath_units::Nanoseconds;

use super::{Calibration, Phase, RtAppEvent, RtAppFile, RtAppVersion, RtTask, Scheduling};

pub(super) fn write_file(file: &RtAppFile, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    write_separated(f, &file.tasks, |f, task| self::write_task(task, f))?;
    writeln!(f, "  }}\n}}")
}

fn write_task(task: &RtTask, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "    {}: {{", quote_json(&task.name))?;
    writeln!(f, "      \"instance\": {},", task.instances)?;
    writeln!(f, "      \"delay\": {},", task.delay.0 / 1000)?;
    writeln!(f, "      \"loop\": {},", format_loops(task.loops))?;
    write_scheduling(f, Some(task.scheduling), "      ")?;
    write_cpus(f, task.cpus.as_deref(), "      ")?;
    writeln!(f, "      \"phases\": {{")?;
    write_separated(f, &task.phases, |f, phase| self::write_phase(phase, f))?;
    write!(f, "      }}\n    }}")
}

fn write_phase(phase: &Phase, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "        {}: {{", quote_json(&phase.name))?;
    writeln!(f, "          \"loop\": {},", format_loops(phase.loops))?;
    write_scheduling(f, phase.scheduling, "          ")?;
    write_cpus(f, phase.cpus.as_deref(), "          ")?;
    let mut number = 0;
    write_separated(f, &phase.events, |f, event| {
        // rt-app itself wants the keys of an object to differ.
        number += 1;
        write!(f, "          ")?;
        self::write_event(event, number, f)
    })?;
    write!(f, "        }}")
}

fn write_event(event: &RtAppEvent, number: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (name, value) = match event {
        RtAppEvent::Run(time) => ("run", format_microseconds(*time)),
        RtAppEvent::Runtime(time) => ("runtime", format_microseconds(*time)),
        RtAppEvent::Sleep(time) => ("sleep", format_microseconds(*time)),
        RtAppEvent::Timer {
            timer,
            period,
            absolute,
        } => (
            "timer",
            format!(
                "{{ \"ref\": {}, \"period\": {}, \"mode\": \"{}\" }}",
                quote_json(timer),
                format_microseconds(*period),
                if *absolute { "absolute" } else { "relative" }
            ),
        ),
        RtAppEvent::Lock(name) => ("lock", quote_json(name)),
        RtAppEvent::Unlock(name) => ("unlock", quote_json(name)),
        RtAppEvent::Wait { condition, mutex } => {
            ("wait", format_condition_and_mutex(condition, mutex))
        }
        RtAppEvent::Signal(name) => ("signal", quote_json(name)),
        RtAppEvent::Broadcast(name) => ("broad", quote_json(name)),
        RtAppEvent::Sync { condition, mutex } => {
            ("sync", format_condition_and_mutex(condition, mutex))
        }
        RtAppEvent::Barrier(name) => ("barrier", quote_json(name)),
        RtAppEvent::Suspend(name) => ("suspend", quote_json(name)),
        RtAppEvent::Resume(name) => ("resume", quote_json(name)),
        RtAppEvent::SemPost(name) => ("sem_post", quote_json(name)),
        RtAppEvent::SemWait(name) => ("sem_wait", quote_json(name)),
        RtAppEvent::Yield => ("yield", "\"\"".to_owned()),
        RtAppEvent::Mem(bytes) => ("mem", bytes.to_string()),
        RtAppEvent::IoRun(bytes) => ("iorun", bytes.to_string()),
    };
    write!(f, "\"{name}{number}\": {value}")
}

fn format_microseconds(time: Nanoseconds) -> String {
    (time.0 / 1000).to_string()
}

fn format_condition_and_mutex(condition: &str, mutex: &str) -> String {
    format!(
        "{{ \"ref\": {}, \"mutex\": {} }}",
        quote_json(condition),
        quote_json(mutex)
    )
}

fn format_loops(loops: Option<u64>) -> String {
    loops.map_or_else(|| "-1".to_owned(), |n| n.to_string())
}

fn write_scheduling(
    f: &mut fmt::Formatter<'_>,
    scheduling: Option<Scheduling>,
    indent: &str,
) -> fmt::Result {
    let Some(scheduling) = scheduling else {
        return Ok(());
    };
    writeln!(f, "{indent}\"policy\": \"{}\",", scheduling.policy_name())?;
    writeln!(
        f,
        "{indent}\"priority\": {},",
        scheduling.priority_or_nice()
    )
}

fn write_cpus(f: &mut fmt::Formatter<'_>, cpus: Option<&[usize]>, indent: &str) -> fmt::Result {
    match cpus {
        Some(cpus) => writeln!(f, "{indent}\"cpus\": {cpus:?},"),
        None => Ok(()),
    }
}

/// Writes each item on its own line, with commas in between.
fn write_separated<T>(
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
fn quote_json(text: &str) -> String {
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
