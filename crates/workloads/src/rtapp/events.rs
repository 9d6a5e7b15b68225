//! The events of a phase.

use wakepath_units::Nanoseconds;

use super::place::{Entry, entries};
use super::{RtAppError, RtAppEvent};

/// Longest time that an event can name, in us: the largest `int`, as for rt-app itself.
const MOST: i64 = i32::MAX as i64;

/// A kind of event.
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
    Yield,
    Mem,
    IoRun,
    Fork,
}

/// All kinds with rt-app's names for them.
pub(super) const NAMES: [(&str, Kind); 17] = [
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
    ("yield", Kind::Yield),
    ("mem", Kind::Mem),
    ("iorun", Kind::IoRun),
    ("fork", Kind::Fork),
];

/// The kind of event that a key stands for. What follows its name only makes the key unique, as in
/// `run0`; it may not begin with a small letter.
pub(super) fn kind(key: &str) -> Option<Kind> {
    NAMES.iter().find_map(|(name, kind)| {
        let rest = key.strip_prefix(name)?;
        (!rest.starts_with(|c: char| c.is_lowercase())).then_some(*kind)
    })
}

/// Reads the event of a key, in a task of this name.
pub(super) fn read(
    kind: Kind,
    entry: &Entry<'_, '_>,
    task: &str,
) -> Result<RtAppEvent, RtAppError> {
    let micros = || {
        entry
            .integer(0, MOST)
            .map(|us| Nanoseconds::from_micros(us.unsigned_abs()))
    };
    let bytes = || entry.integer(0, MOST).map(i64::unsigned_abs);
    let name = || match entry.text()? {
        "" => Err(entry.place.error("needs a name")),
        name => Ok(name.to_owned()),
    };
    Ok(match kind {
        Kind::Run => RtAppEvent::Run(micros()?),
        Kind::Runtime => RtAppEvent::Runtime(micros()?),
        Kind::Sleep => RtAppEvent::Sleep(micros()?),
        Kind::Timer => timer(entry)?,
        Kind::Lock => RtAppEvent::Lock(name()?),
        Kind::Unlock => RtAppEvent::Unlock(name()?),
        Kind::Wait => {
            let [condition, mutex] = entry.pair(["ref", "mutex"])?;
            RtAppEvent::Wait { condition, mutex }
        }
        Kind::Signal => RtAppEvent::Signal(name()?),
        Kind::Broadcast => RtAppEvent::Broadcast(name()?),
        Kind::Sync => {
            let [condition, mutex] = entry.pair(["ref", "mutex"])?;
            RtAppEvent::Sync { condition, mutex }
        }
        Kind::Barrier => RtAppEvent::Barrier(name()?),
        Kind::Suspend => match entry.text()? {
            "" => RtAppEvent::Suspend(task.to_owned()),
            name => RtAppEvent::Suspend(name.to_owned()),
        },
        Kind::Resume => RtAppEvent::Resume(name()?),
        Kind::Yield => {
            entry.text()?;
            RtAppEvent::Yield
        }
        Kind::Mem => RtAppEvent::Mem(bytes()?),
        Kind::IoRun => RtAppEvent::IoRun(bytes()?),
        Kind::Fork => {
            return Err(entry.place.error(
                "is not supported: give the task a `delay`, or suspend it until it is resumed",
            ));
        }
    })
}

fn timer(entry: &Entry<'_, '_>) -> Result<RtAppEvent, RtAppError> {
    let (mut timer, mut period, mut absolute) = (None, None, false);
    entries(entry.object()?, &entry.place, |e| {
        match e.name {
            "ref" => timer = Some(e.text()?.to_owned()),
            "period" => {
                period = Some(Nanoseconds::from_micros(e.integer(0, MOST)?.unsigned_abs()));
            }
            "mode" => {
                absolute = match e.text()? {
                    "absolute" => true,
                    "relative" => false,
                    other => {
                        let modes = ["absolute", "relative"];
                        return Err(e.place.unknown("mode", other, modes));
                    }
                }
            }
            other => {
                let known = ["ref", "period", "mode"];
                return Err(e.place.unknown("key", other, known));
            }
        }
        Ok(())
    })?;
    let missing = |what: &str| entry.place.error(format!("has no `{what}`"));
    Ok(RtAppEvent::Timer {
        timer: timer.ok_or_else(|| missing("ref"))?,
        period: period.ok_or_else(|| missing("period"))?,
        absolute,
    })
}
