//! Reading the events in a phase of an rt-app file.

use wakepath_units::Nanoseconds;

use super::place::{JsonEntry, for_each_json_entry};
use super::warnings::RtAppWarnings;
use super::{RtAppError, RtAppEvent, RtAppVersion};
use crate::text::escape_and_shorten;

/// Longest time that an event can have, in us: the largest `int`, as for rt-app itself.
const MOST: i64 = i32::MAX as i64;

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RtAppEventKind {
    Run,
    Runtime,
    Sleep,
    Timer,
    Lock,
    Unlock,
    Wait,
    Signal,
    Broadcast,
    Sync,
    Barrier,
    Suspend,
    Resume,
    SemPost,
    SemWait,
    Yield,
    Mem,
    MemRun,
    IoRun,
    Fork,
}

/// All kinds of events with rt-app's names for them.
pub(super) const NAMES: [(&str, RtAppEventKind); 20] = [
    ("run", RtAppEventKind::Run),
    ("runtime", RtAppEventKind::Runtime),
    ("sleep", RtAppEventKind::Sleep),
    ("timer", RtAppEventKind::Timer),
    ("lock", RtAppEventKind::Lock),
    ("unlock", RtAppEventKind::Unlock),
    ("wait", RtAppEventKind::Wait),
    ("signal", RtAppEventKind::Signal),
    ("broad", RtAppEventKind::Broadcast),
    ("sync", RtAppEventKind::Sync),
    ("barrier", RtAppEventKind::Barrier),
    ("suspend", RtAppEventKind::Suspend),
    ("resume", RtAppEventKind::Resume),
    ("sem_post", RtAppEventKind::SemPost),
    ("sem_wait", RtAppEventKind::SemWait),
    ("yield", RtAppEventKind::Yield),
    ("mem", RtAppEventKind::Mem),
    ("memrun", RtAppEventKind::MemRun),
    ("iorun", RtAppEventKind::IoRun),
    ("fork", RtAppEventKind::Fork),
];

/// The kind of event that a key stands for, and the kind's name: the longest name that the key begins with, as in
/// `run0`. rt-app does the same.
pub(super) fn find_event_kind_by_prefix(
    key: &str,
    version: RtAppVersion,
) -> Option<(RtAppEventKind, &'static str)> {
    NAMES
        .iter()
        .filter(|(name, kind)| key.starts_with(name) && version_knows_event(version, *kind))
        .max_by_key(|(name, _)| name.len())
        .map(|(name, kind)| (*kind, *name))
}

/// Whether a version of rt-app knows a kind of event; semaphores came later.
fn version_knows_event(version: RtAppVersion, kind: RtAppEventKind) -> bool {
    version != RtAppVersion::V1
        || !matches!(kind, RtAppEventKind::SemPost | RtAppEventKind::SemWait)
}

/// The task that contains the event being read.
#[derive(Clone, Copy)]
pub(super) struct InTask<'a> {
    /// Name of the task that contains the event.
    pub(super) name: &'a str,
    /// Name of the task in the file; `workgen` changes a name that is taken.
    pub(super) written: &'a str,
    pub(super) version: RtAppVersion,
}

/// Reads the event that a key stands for.
pub(super) fn read_event(
    (kind, kind_name): (RtAppEventKind, &'static str),
    entry: &JsonEntry<'_, '_>,
    task: InTask<'_>,
    warnings: &mut RtAppWarnings,
) -> Result<RtAppEvent, RtAppError> {
    if entry.name[kind_name.len()..].starts_with(|c: char| c.is_lowercase()) {
        let message = format!("is read as `{kind_name}`: it begins so");
        warnings.add(entry, &message);
    }
    Ok(match kind {
        RtAppEventKind::Run => RtAppEvent::Run(read_microseconds(entry)?),
        RtAppEventKind::Runtime => RtAppEvent::Runtime(read_microseconds(entry)?),
        RtAppEventKind::Sleep => RtAppEvent::Sleep(read_microseconds(entry)?),
        RtAppEventKind::Timer => read_timer(entry, warnings)?,
        RtAppEventKind::Lock => RtAppEvent::Lock(read_resource_name(entry)?),
        RtAppEventKind::Unlock => RtAppEvent::Unlock(read_resource_name(entry)?),
        RtAppEventKind::Wait => {
            let [condition, mutex] = read_condition_and_mutex(entry, warnings)?;
            RtAppEvent::Wait { condition, mutex }
        }
        RtAppEventKind::Signal => RtAppEvent::Signal(read_resource_name(entry)?),
        RtAppEventKind::Broadcast => RtAppEvent::Broadcast(read_resource_name(entry)?),
        RtAppEventKind::Sync => {
            let [condition, mutex] = read_condition_and_mutex(entry, warnings)?;
            RtAppEvent::Sync { condition, mutex }
        }
        RtAppEventKind::Barrier => RtAppEvent::Barrier(read_resource_name(entry)?),
        RtAppEventKind::Suspend => {
            RtAppEvent::Suspend(read_name_to_suspend_on(entry, task, warnings)?)
        }
        RtAppEventKind::Resume => RtAppEvent::Resume(read_resource_name(entry)?),
        RtAppEventKind::SemPost => RtAppEvent::SemPost(read_resource_name(entry)?),
        RtAppEventKind::SemWait => RtAppEvent::SemWait(read_resource_name(entry)?),
        RtAppEventKind::Yield => RtAppEvent::Yield,
        RtAppEventKind::Mem => RtAppEvent::Mem(read_byte_count(entry)?),
        RtAppEventKind::MemRun => {
            return Err(entry
                .place
                .error_here("is not supported: say how long the work takes with `run`"));
        }
        RtAppEventKind::IoRun => RtAppEvent::IoRun(read_byte_count(entry)?),
        RtAppEventKind::Fork => {
            return Err(entry.place.error_here(
                "is not supported: give the task a `delay`, or suspend it until it is resumed",
            ));
        }
    })
}

/// Reads a time in microseconds.
fn read_microseconds(entry: &JsonEntry<'_, '_>) -> Result<Nanoseconds, RtAppError> {
    let us = entry.expect_integer_within(0, MOST)?;
    Ok(Nanoseconds::from_micros(us.unsigned_abs()))
}

/// Reads a number of bytes.
fn read_byte_count(entry: &JsonEntry<'_, '_>) -> Result<u64, RtAppError> {
    entry.expect_integer_within(0, MOST).map(i64::unsigned_abs)
}

/// Reads the name of a resource, such as a mutex.
fn read_resource_name(entry: &JsonEntry<'_, '_>) -> Result<String, RtAppError> {
    match entry.expect_text()? {
        "" => Err(entry.place.error_here("needs a name")),
        name => Ok(name.to_owned()),
    }
}

/// Reads the name that a `suspend` waits for. `workgen` fills in the task's name if the file gives none.
fn read_name_to_suspend_on(
    entry: &JsonEntry<'_, '_>,
    task: InTask<'_>,
    warnings: &mut RtAppWarnings,
) -> Result<String, RtAppError> {
    let own = match task.version {
        RtAppVersion::V1 => task.written,
        RtAppVersion::V2025 => task.name,
    };
    let given = match (entry.has_no_value(), task.version) {
        (true, _) => own,
        (false, RtAppVersion::V1) => entry.expect_text()?,
        (false, RtAppVersion::V2025) => entry.expect_text().unwrap_or_default(),
    };
    if given.is_empty() || given == own {
        return Ok(own.to_owned());
    }
    let (waits_for, rule) = match task.version {
        RtAppVersion::V1 => (
            given,
            "waits for the name that it gives, as in rt-app 1.0; rt-app since 2025-05-31 waits for the name of its task",
        ),
        RtAppVersion::V2025 => (
            own,
            "waits for the name of its task, as in rt-app since 2025-05-31; older rt-app waits for the name that it gives: \
             --rt-app 1.0, or \"rt_app_version\": \"1.0\" in `global`",
        ),
    };
    warnings.add_or_count_case(entry, "suspend", rule, || {
        format!(
            "; here `{}` in the task `{}`",
            escape_and_shorten(given),
            escape_and_shorten(own)
        )
    });
    Ok(waits_for.to_owned())
}

/// Reads the condition and the mutex of a `wait` or a `sync`.
fn read_condition_and_mutex(
    entry: &JsonEntry<'_, '_>,
    warnings: &mut RtAppWarnings,
) -> Result<[String; 2], RtAppError> {
    let (mut condition, mut mutex) = (None, None);
    for_each_json_entry(entry.expect_object()?, &entry.place, |e| {
        match e.name {
            "ref" if !e.again => condition = Some(e.expect_text()?.to_owned()),
            "mutex" if !e.again => mutex = Some(e.expect_text()?.to_owned()),
            _ => warnings.add_ignored_key(&e, ["ref", "mutex"]),
        }
        Ok(())
    })?;
    Ok([
        condition.unwrap_or_else(|| warn_and_name_shared_resource(entry, "ref", warnings)),
        mutex.unwrap_or_else(|| warn_and_name_shared_resource(entry, "mutex", warnings)),
    ])
}

/// The resource that rt-app takes where an event names none, with a warning: all such events share it.
fn warn_and_name_shared_resource(
    entry: &JsonEntry<'_, '_>,
    missing_key: &str,
    warnings: &mut RtAppWarnings,
) -> String {
    let message =
        format!("has no `{missing_key}`: it takes the one called `unknown`, as rt-app does");
    warnings.add(entry, &message);
    "unknown".to_owned()
}

fn read_timer(
    entry: &JsonEntry<'_, '_>,
    warnings: &mut RtAppWarnings,
) -> Result<RtAppEvent, RtAppError> {
    let (mut timer, mut period, mut absolute) = (None, None, false);
    for_each_json_entry(entry.expect_object()?, &entry.place, |e| {
        match e.name {
            known if e.again => warnings.add_ignored_key(&e, [known]),
            "ref" => timer = Some(e.expect_text()?.to_owned()),
            "period" => {
                period = Some(read_microseconds(&e)?);
            }
            "mode" => {
                absolute = match e.expect_text()? {
                    "absolute" => true,
                    "relative" => false,
                    other => {
                        let modes = ["absolute", "relative"];
                        return Err(e.place.unknown_name_error("mode", other, modes));
                    }
                }
            }
            _ => warnings.add_ignored_key(&e, ["ref", "period", "mode"]),
        }
        Ok(())
    })?;
    Ok(RtAppEvent::Timer {
        timer: timer.unwrap_or_else(|| warn_and_name_shared_resource(entry, "ref", warnings)),
        period: period.ok_or_else(|| entry.place.error_here("has no `period`"))?,
        absolute,
    })
}
