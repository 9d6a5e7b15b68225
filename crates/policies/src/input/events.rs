//! Event lists, the input for frequency boosts and the PSD lease: an event per line, ordered by time.

use std::io::Read;

use wakepath_units::{Capacity, Nanoseconds};

use super::rows::{LONGEST_LOG, ReadError, Rows};

/// Event: the scheduler reports the utilisation of a CPU to schedutil.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UtilUpdate {
    /// When.
    pub time: Nanoseconds,
    /// Whether a task wakes up from waiting for I/O.
    pub iowait: bool,
    /// Capacity of the CPU at its highest frequency.
    pub max_capacity: Capacity,
}

/// Event: the scheduler reports a change to intel_pstate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HwpUpdate {
    /// When.
    pub time: Nanoseconds,
    /// Whether a task wakes up from waiting for I/O.
    pub iowait: bool,
}

/// Event that a PSD lease depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseEvent {
    /// When.
    pub time: Nanoseconds,
    /// Whether a block I/O completes on this CPU; otherwise the governor asks whether the lease
    /// holds.
    pub completion: bool,
}

/// Reads utilisation reports, lines of `time_ns,iowait,max_capacity`, from `input`, called `file`
/// in errors.
pub fn read_util_updates(input: impl Read, file: &str) -> Result<Vec<UtilUpdate>, ReadError> {
    let mut rows = Rows::new(
        input,
        file,
        &["time_ns", "iowait", "max_capacity"],
        LONGEST_LOG,
    );
    let mut clock = 0;
    let mut events = Vec::new();
    while let Some(row) = rows.next_row()? {
        events.push(UtilUpdate {
            time: Nanoseconds(row.parse_time_not_before(0, &mut clock)?),
            iowait: row.parse_flag(1)?,
            max_capacity: Capacity(row.parse_unsigned(2, u64::from(u32::MAX))? as u32),
        });
    }
    Ok(events)
}

/// Reads reports to intel_pstate, lines of `time_ns,iowait`, from `input`, called `file` in errors.
pub fn read_hwp_updates(input: impl Read, file: &str) -> Result<Vec<HwpUpdate>, ReadError> {
    let events = read_times_with_flag(input, file, &["time_ns", "iowait"])?;
    Ok(events
        .into_iter()
        .map(|(time, iowait)| HwpUpdate { time, iowait })
        .collect())
}

/// Reads lease events, lines of `time_ns,completion`, from `input`, called `file` in errors.
pub fn read_lease_events(input: impl Read, file: &str) -> Result<Vec<LeaseEvent>, ReadError> {
    let events = read_times_with_flag(input, file, &["time_ns", "completion"])?;
    Ok(events
        .into_iter()
        .map(|(time, completion)| LeaseEvent { time, completion })
        .collect())
}

fn read_times_with_flag(
    input: impl Read,
    file: &str,
    fields: &'static [&'static str],
) -> Result<Vec<(Nanoseconds, bool)>, ReadError> {
    let mut rows = Rows::new(input, file, fields, LONGEST_LOG);
    let mut clock = 0;
    let mut events = Vec::new();
    while let Some(row) = rows.next_row()? {
        let time = Nanoseconds(row.parse_time_not_before(0, &mut clock)?);
        events.push((time, row.parse_flag(1)?));
    }
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_an_event() {
        assert_eq!(
            read_util_updates(&b"5,1,1024\n5,0,446\n"[..], "e"),
            Ok(vec![
                UtilUpdate {
                    time: Nanoseconds(5),
                    iowait: true,
                    max_capacity: Capacity(1024),
                },
                UtilUpdate {
                    time: Nanoseconds(5),
                    iowait: false,
                    max_capacity: Capacity(446),
                },
            ])
        );
        assert_eq!(
            read_hwp_updates(&b"5,1"[..], "e"),
            Ok(vec![HwpUpdate {
                time: Nanoseconds(5),
                iowait: true,
            }])
        );
        assert_eq!(
            read_lease_events(&b"5,0"[..], "e"),
            Ok(vec![LeaseEvent {
                time: Nanoseconds(5),
                completion: false,
            }])
        );
    }

    fn error(text: &str) -> String {
        let read = read_lease_events(text.as_bytes(), "e.csv");
        read.unwrap_err().to_string()
    }

    #[test]
    fn errors_name_line_and_field() {
        assert_eq!(
            error(""),
            "e.csv: empty; expected lines of time_ns,completion"
        );
        assert_eq!(
            error("1\n"),
            "e.csv:1: expected 2 fields (time_ns,completion), found 1"
        );
        assert_eq!(
            error("7,1\n6,0\n"),
            "e.csv:2: time_ns: 6 is before 7; lines must be in order of time"
        );
        assert_eq!(
            error("7,1\n8,x\n"),
            "e.csv:2: completion: expected 0 or 1, found `x`"
        );
        let capacity = read_util_updates(&b"1,1,-4"[..], "e.csv").unwrap_err();
        assert_eq!(
            capacity.to_string(),
            "e.csv:1: max_capacity: expected a whole number from 0 to 4294967295, found `-4`"
        );
    }
}
