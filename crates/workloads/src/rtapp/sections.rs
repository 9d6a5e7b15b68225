//! The objects of a file: global, tasks, phases.

use std::collections::BTreeSet;

use jsonc_parser::ast::{Object, Value};
use wakepath_units::Nanoseconds;
use wakepath_units::spelling::nearest;

use super::events::{self, NAMES};
use super::place::{Entry, Lines, Place, entries};
use super::{
    MAX_EVENTS, MAX_THREADS, Phase, RtAppError, RtAppEvent, RtAppFile, RtAppWarning, RtTask,
    Scheduling,
};
use crate::text::shown;

/// Keys of the global object that a simulation has no use for: where and what to log.
const LOGGING: [&str; 9] = [
    "logdir",
    "log_basename",
    "log_size",
    "ftrace",
    "gnuplot",
    "lock_pages",
    "cumulative_slack",
    "io_device",
    "mem_buffer_size",
];

/// Scheduling policies by name, with the least, the greatest and the default priority.
const POLICIES: [(&str, Scheduling, i64, i64); 4] = [
    ("SCHED_OTHER", Scheduling::Other { nice: 0 }, -20, 19),
    ("SCHED_IDLE", Scheduling::Idle, 0, 0),
    ("SCHED_FIFO", Scheduling::Fifo { priority: 10 }, 1, 99),
    ("SCHED_RR", Scheduling::RoundRobin { priority: 10 }, 1, 99),
];

/// Most loops that can be asked for: the largest `int`, as for rt-app itself.
const MAX_LOOPS: i64 = i32::MAX as i64;

/// Highest number of a CPU.
const MAX_CPUS: i64 = 65_535;

struct Reader<'a> {
    file: RtAppFile,
    default_policy: Scheduling,
    events: usize,
    origin: &'a str,
}

pub(super) fn read(root: &Value<'_>, text: &str, origin: &str) -> Result<RtAppFile, RtAppError> {
    let lines = Lines::new(text);
    let place = Place::root(origin, &lines);
    let Value::Object(root) = root else {
        return Err(place.error("is no object"));
    };
    let mut reader = Reader {
        file: RtAppFile {
            duration: None,
            tasks: Vec::new(),
            copies: 1,
            warm_up: Nanoseconds::ZERO,
            warnings: Vec::new(),
        },
        default_policy: Scheduling::default(),
        events: 0,
        origin,
    };
    // The global object may come last, but its default policy counts for all tasks.
    entries(root, &place, |entry| match entry.name {
        "global" => reader.global(entry.object()?, &entry.place),
        "tasks" | "resources" => Ok(()),
        other => {
            let known = ["tasks", "global", "resources"];
            Err(entry.place.unknown("key", other, known))
        }
    })?;
    entries(root, &place, |entry| match entry.name {
        "tasks" => entries(entry.object()?, &entry.place, |task| reader.task(&task)),
        _ => Ok(()),
    })?;
    reader.finish()
}

impl Reader<'_> {
    fn warn(&mut self, entry: &Entry<'_, '_>, message: &str) {
        self.file.warnings.push(RtAppWarning {
            line: entry.place.line(),
            key: entry.name.to_owned(),
            message: message.to_owned(),
        });
    }

    fn global(&mut self, object: &Object<'_>, place: &Place<'_>) -> Result<(), RtAppError> {
        entries(object, place, |entry| {
            match entry.name {
                "duration" => {
                    let seconds = entry.integer(-1, MAX_LOOPS)?;
                    self.file.duration = match u64::try_from(seconds) {
                        Ok(0) => return Err(entry.place.error("a run of no time shows nothing")),
                        Ok(seconds) => Some(Nanoseconds::from_secs(seconds)),
                        Err(_) => None,
                    };
                }
                "default_policy" => self.default_policy = policy(&entry)?,
                "calibration" => self.warn(
                    &entry,
                    "is not needed: `run` counts in time of the biggest core at its highest frequency",
                ),
                "pi_enabled" => {
                    if entry.boolean()? {
                        return Err(entry.place.error("priority inheritance is not supported"));
                    }
                }
                other if LOGGING.contains(&other) => {
                    self.warn(&entry, "has no effect on a simulation");
                }
                other => {
                    let known = ["duration", "default_policy", "calibration", "pi_enabled"];
                    let known = known.into_iter().chain(LOGGING);
                    return Err(entry.place.unknown("key", other, known));
                }
            }
            Ok(())
        })
    }

    fn task(&mut self, task: &Entry<'_, '_>) -> Result<(), RtAppError> {
        if task.name.is_empty() {
            return Err(task.place.error("a task needs a name"));
        }
        if self.file.tasks.iter().any(|t| t.name == task.name) {
            return Err(task.place.error("there is a task of this name already"));
        }
        let object = task.object()?;
        let mut own = Properties::default();
        let (mut instances, mut delay) = (1, Nanoseconds::ZERO);
        let mut phases = Vec::new();
        let mut events = Vec::new();
        entries(object, &task.place, |entry| {
            match entry.name {
                "instance" => {
                    let most = i64::from(MAX_THREADS);
                    instances = u32::try_from(entry.integer(0, most)?).unwrap_or_default();
                }
                "delay" => {
                    let us = entry.integer(0, MAX_LOOPS)?;
                    delay = Nanoseconds::from_micros(us.unsigned_abs());
                }
                "phases" => entries(entry.object()?, &entry.place, |phase| {
                    phases.push(self.phase(&phase, task.name)?);
                    Ok(())
                })?,
                "dl-runtime" | "dl-period" | "dl-deadline" => {
                    return Err(entry.place.error("SCHED_DEADLINE is not supported"));
                }
                _ => self.common(&entry, task.name, &mut own, &mut events)?,
            }
            Ok(())
        })?;
        match (phases.is_empty(), events.is_empty()) {
            (true, true) => return Err(task.place.error("does nothing: it has no event")),
            (false, false) => {
                return Err(task
                    .place
                    .error("has events both inside and outside of `phases`"));
            }
            (true, false) => phases.push(Phase {
                name: "phase".to_owned(),
                loops: Some(1),
                scheduling: None,
                cpus: None,
                events,
            }),
            (false, true) => {}
        }
        let scheduling = own.scheduling(self.default_policy, &task.place)?;
        self.file.tasks.push(RtTask {
            name: task.name.to_owned(),
            line: task.place.line(),
            instances,
            delay,
            loops: own.loops(-1),
            scheduling: scheduling.unwrap_or(self.default_policy),
            cpus: own.cpus,
            phases,
        });
        let most = u64::from(MAX_THREADS);
        if self.file.threads() > most || self.file.tasks.len() as u64 > most {
            let message = format!("makes more than {MAX_THREADS} threads");
            return Err(task.place.error(message));
        }
        Ok(())
    }

    fn phase(&mut self, phase: &Entry<'_, '_>, task: &str) -> Result<Phase, RtAppError> {
        let mut own = Properties::default();
        let mut events = Vec::new();
        entries(phase.object()?, &phase.place, |entry| {
            self.common(&entry, task, &mut own, &mut events)
        })?;
        if events.is_empty() {
            return Err(phase.place.error("does nothing: it has no event"));
        }
        Ok(Phase {
            name: phase.name.to_owned(),
            loops: own.loops(1),
            scheduling: own.scheduling(self.default_policy, &phase.place)?,
            cpus: own.cpus,
            events,
        })
    }

    /// A key that tasks and phases have in common.
    fn common(
        &mut self,
        entry: &Entry<'_, '_>,
        task: &str,
        own: &mut Properties,
        events: &mut Vec<RtAppEvent>,
    ) -> Result<(), RtAppError> {
        match entry.name {
            "loop" => {
                own.loops = Some(match entry.integer(-1, MAX_LOOPS)? {
                    0 => return Err(entry.place.error("0 loops: is -1 for ever, or at least 1")),
                    loops => loops,
                });
            }
            "policy" => own.policy = Some(policy(entry)?),
            "priority" => own.priority = Some(entry.integer(-20, 99)?),
            "cpus" => own.cpus = Some(cpus(entry)?),
            "util_min" | "util_max" => {
                return Err(entry.place.error("utilisation clamping is not supported"));
            }
            "taskgroup" => {
                if !entry.text()?.is_empty() {
                    return Err(entry.place.error("task groups are not supported"));
                }
            }
            "membind_nodes" | "nodes_membind" => {
                self.warn(entry, "has no effect: memory is the same everywhere");
            }
            key => match events::kind(key) {
                Some(kind) => {
                    events.push(events::read(kind, entry, task)?);
                    self.events += 1;
                    if self.events > MAX_EVENTS {
                        let message = format!("is one more than {MAX_EVENTS} events");
                        return Err(entry.place.error(message));
                    }
                }
                None => return Err(entry.place.unknown("key", key, common_keys())),
            },
        }
        Ok(())
    }

    /// What can be checked only when all tasks are known.
    fn finish(self) -> Result<RtAppFile, RtAppError> {
        let error = |line: Option<usize>, key: Option<String>, message: String| RtAppError {
            origin: self.origin.to_owned(),
            line,
            key,
            message,
            suggestion: None,
        };
        if self.file.threads() == 0 {
            return Err(error(None, None, "has no task with a thread".to_owned()));
        }
        let suspended: BTreeSet<&str> = self
            .file
            .tasks
            .iter()
            .flat_map(RtTask::events)
            .filter_map(|e| match e {
                RtAppEvent::Suspend(name) => Some(name.as_str()),
                _ => None,
            })
            .collect();
        for task in &self.file.tasks {
            for event in task.events() {
                if let RtAppEvent::Resume(name) = event
                    && !suspended.contains(name.as_str())
                {
                    let message = format!("resumes `{}`, on which nobody suspends", shown(name));
                    let key = format!("tasks.{}", shown(&task.name));
                    return Err(RtAppError {
                        suggestion: nearest(name, suspended.iter().copied()).map(str::to_owned),
                        ..error(Some(task.line), Some(key), message)
                    });
                }
            }
        }
        Ok(self.file)
    }
}

/// What a task or a phase says about itself.
#[derive(Default)]
struct Properties {
    /// As in the file: -1 for ever.
    loops: Option<i64>,
    policy: Option<Scheduling>,
    priority: Option<i64>,
    cpus: Option<Vec<usize>>,
}

impl Properties {
    /// How often; `None` is for ever.
    fn loops(&self, default: i64) -> Option<u64> {
        u64::try_from(self.loops.unwrap_or(default)).ok()
    }

    /// The scheduling that it asks for, if any.
    fn scheduling(
        &self,
        default: Scheduling,
        place: &Place<'_>,
    ) -> Result<Option<Scheduling>, RtAppError> {
        let (policy, priority) = match (self.policy, self.priority) {
            (None, None) => return Ok(None),
            (Some(policy), None) => return Ok(Some(policy)),
            (policy, Some(priority)) => (policy.unwrap_or(default), priority),
        };
        let range = POLICIES
            .iter()
            .find(|(name, ..)| *name == policy.policy())
            .map_or(0..=0, |(.., least, most)| *least..=*most);
        if !range.contains(&priority) {
            return Err(place.error(format!(
                "priority {priority} is not between {} and {}, as {} has it",
                range.start(),
                range.end(),
                policy.policy()
            )));
        }
        let small = |p: i64| u8::try_from(p).unwrap_or_default();
        Ok(Some(match policy {
            Scheduling::Other { .. } => Scheduling::Other {
                nice: i8::try_from(priority).unwrap_or_default(),
            },
            Scheduling::Idle => Scheduling::Idle,
            Scheduling::Fifo { .. } => Scheduling::Fifo {
                priority: small(priority),
            },
            Scheduling::RoundRobin { .. } => Scheduling::RoundRobin {
                priority: small(priority),
            },
        }))
    }
}

fn policy(entry: &Entry<'_, '_>) -> Result<Scheduling, RtAppError> {
    let name = entry.text()?;
    if name == "SCHED_DEADLINE" {
        return Err(entry.place.error("SCHED_DEADLINE is not supported"));
    }
    POLICIES
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, policy, ..)| *policy)
        .ok_or_else(|| {
            let known = POLICIES.iter().map(|(known, ..)| *known);
            entry.place.unknown("policy", name, known)
        })
}

fn cpus(entry: &Entry<'_, '_>) -> Result<Vec<usize>, RtAppError> {
    let mut cpus = Vec::new();
    for value in &entry.array()?.elements {
        let element = Entry { value, ..*entry };
        cpus.push(usize::try_from(element.integer(0, MAX_CPUS)?).unwrap_or_default());
    }
    if cpus.is_empty() {
        return Err(entry.place.error("names no CPU"));
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Everything that a task or a phase can have.
fn common_keys() -> impl Iterator<Item = &'static str> {
    let own = [
        "loop", "phases", "instance", "delay", "policy", "priority", "cpus",
    ];
    NAMES.iter().map(|(name, _)| *name).chain(own)
}
