//! Reading the events in a phase of an rt-app file.

use wakepath_units::Nanoseconds;

use super::place::{Entry, for_each_entry};
use super::warnings::Warnings;
use super::{RtAppError, RtAppEvent, RtAppVersion};
use crate::text::escape_and_shorten;

/// Longest time that an event can have, in us: the largest `int`, as for rt-app itself.
const MOST: i64 = i32::MAX as i64;

/// Kind of event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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
pub(super) const NAMES: [(&str, Kind); 20] = [
    ("run", Kind::Run),
    ("runtime", Kind::Runtime),
    ("sleep", Kind::Sleep),
    ("timer", Kind::Timer),
    ("lock", Kind::Lock),
    ("unlock", Kind::Unlock),
    ("wait", Kind::Wait),
    ("signal", Kind::Signal),
    ("broad", Kind::Broadcast),
    ("sync", Kind::Sync),
    ("barrier", Kind::Barrier),
    ("suspend", Kind::Suspend),
    ("resume", Kind::Resume),
    ("sem_post", Kind::SemPost),
    ("sem_wait", Kind::SemWait),
    ("yield", Kind::Yield),
    ("mem", Kind::Mem),
    ("memrun", Kind::MemRun),
    ("iorun", Kind::IoRun),
    ("fork", Kind::Fork),
];

/// The kind of event that a key stands for, and the kind's name: the longest name that the key begins with, as in
/// `run0`. rt-app does the same.
pub(super) fn find_event_kind(key: &str, version: RtAppVersion) -> Option<(Kind, &'static str)> {
    NAMES
        .iter()
        .filter(|(name, kind)| key.starts_with(name) && is_known_to(version, *kind))
        .max_by_key(|(name, _)| name.len())
        .map(|(name, kind)| (*kind, *name))
}

/// Whether a version of rt-app knows a kind of event; semaphores came later.
fn is_known_to(version: RtAppVersion, kind: Kind) -> bool {
    version != RtAppVersion::V1 || !matches!(kind, Kind::SemPost | Kind::SemWait)
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
    (kind, kind_name): (Kind, &'static str),
    entry: &Entry<'_, '_>,
    task: InTask<'_>,
    warnings: &mut Warnings,
) -> Result<RtAppEvent, RtAppError> {
    if entry.name[kind_name.len()..].starts_with(|c: char| c.is_lowercase()) {
        let message = format!("is read as `{kind_name}`: it begins so");
        warnings.add(entry, &message);
    }
    Ok(match kind {
        Kind::Run => RtAppEvent::Run(read_micros(entry)?),
        Kind::Runtime => RtAppEvent::Runtime(read_micros(entry)?),
        Kind::Sleep => RtAppEvent::Sleep(read_micros(entry)?),
        Kind::Timer => read_timer(entry, warnings)?,
        Kind::Lock => RtAppEvent::Lock(read_name(entry)?),
        Kind::Unlock => RtAppEvent::Unlock(read_name(entry)?),
        Kind::Wait => {
            let [condition, mutex] = read_condition_and_mutex(entry, warnings)?;
            RtAppEvent::Wait { condition, mutex }
        }
        Kind::Signal => RtAppEvent::Signal(read_name(entry)?),
        Kind::Broadcast => RtAppEvent::Broadcast(read_name(entry)?),
        Kind::Sync => {
            let [condition, mutex] = read_condition_and_mutex(entry, warnings)?;
            RtAppEvent::Sync { condition, mutex }
        }
        Kind::Barrier => RtAppEvent::Barrier(read_name(entry)?),
        Kind::Suspend => RtAppEvent::Suspend(read_suspend_name(entry, task, warnings)?),
        Kind::Resume => RtAppEvent::Resume(read_name(entry)?),
        Kind::SemPost => RtAppEvent::SemPost(read_name(entry)?),
        Kind::SemWait => RtAppEvent::SemWait(read_name(entry)?),
        Kind::Yield => RtAppEvent::Yield,
        Kind::Mem => RtAppEvent::Mem(read_bytes(entry)?),
        Kind::MemRun => {
            return Err(entry
                .place
                .error("is not supported: say how long the work takes with `run`"));
        }
        Kind::IoRun => RtAppEvent::IoRun(read_bytes(entry)?),
        Kind::Fork => {
            return Err(entry.place.error(
                "is not supported: give the task a `delay`, or suspend it until it is resumed",
            ));
        }
    })
}

/// Reads a time in microseconds.
fn read_micros(entry: &Entry<'_, '_>) -> Result<Nanoseconds, RtAppError> {
    let us = entry.integer(0, MOST)?;
    Ok(Nanoseconds::from_micros(us.unsigned_abs()))
}

/// Reads a number of bytes.
fn read_bytes(entry: &Entry<'_, '_>) -> Result<u64, RtAppError> {
    entry.integer(0, MOST).map(i64::unsigned_abs)
}

/// Reads the name of a resource, such as a mutex.
fn read_name(entry: &Entry<'_, '_>) -> Result<String, RtAppError> {
    match entry.text()? {
        "" => Err(entry.place.error("needs a name")),
        name => Ok(name.to_owned()),
    }
}

/// Reads the name that a `suspend` waits for. `workgen` fills in the task's name if the file gives none.
fn read_suspend_name(
    entry: &Entry<'_, '_>,
    task: InTask<'_>,
    warnings: &mut Warnings,
) -> Result<String, RtAppError> {
    let own = match task.version {
        RtAppVersion::V1 => task.written,
        RtAppVersion::V2025 => task.name,
    };
    let given = match (entry.has_no_value(), task.version) {
        (true, _) => own,
        (false, RtAppVersion::V1) => entry.text()?,
        (false, RtAppVersion::V2025) => entry.text().unwrap_or_default(),
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
    entry: &Entry<'_, '_>,
    warnings: &mut Warnings,
) -> Result<[String; 2], RtAppError> {
    let (mut condition, mut mutex) = (None, None);
    for_each_entry(entry.object()?, &entry.place, |e| {
        match e.name {
            "ref" if !e.again => condition = Some(e.text()?.to_owned()),
            "mutex" if !e.again => mutex = Some(e.text()?.to_owned()),
            _ => warnings.add_ignored(&e, ["ref", "mutex"]),
        }
        Ok(())
    })?;
    Ok([
        condition.unwrap_or_else(|| shared_name_with_warning(entry, "ref", warnings)),
        mutex.unwrap_or_else(|| shared_name_with_warning(entry, "mutex", warnings)),
    ])
}

/// The resource that rt-app takes where an event names none, with a warning: all such events share it.
fn shared_name_with_warning(entry: &Entry<'_, '_>, what: &str, warnings: &mut Warnings) -> String {
    let message = format!("has no `{what}`: it takes the one called `unknown`, as rt-app does");
    warnings.add(entry, &message);
    "unknown".to_owned()
}

fn read_timer(entry: &Entry<'_, '_>, warnings: &mut Warnings) -> Result<RtAppEvent, RtAppError> {
    let (mut timer, mut period, mut absolute) = (None, None, false);
    for_each_entry(entry.object()?, &entry.place, |e| {
        match e.name {
            known if e.again => warnings.add_ignored(&e, [known]),
            "ref" => timer = Some(e.text()?.to_owned()),
            "period" => {
                period = Some(read_micros(&e)?);
            }
            "mode" => {
                absolute = match e.text()? {
                    "absolute" => true,
                    "relative" => false,
                    other => {
                        let modes = ["absolute", "relative"];
                        return Err(e.place.unknown_name_error("mode", other, modes));
                    }
                }
            }
            _ => warnings.add_ignored(&e, ["ref", "period", "mode"]),
        }
        Ok(())
    })?;
    Ok(RtAppEvent::Timer {
        timer: timer.unwrap_or_else(|| shared_name_with_warning(entry, "ref", warnings)),
        period: period.ok_or_else(|| entry.place.error("has no `period`"))?,
        absolute,
    })
}
