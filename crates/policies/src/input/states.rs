//! State tables: the idle states of a CPU, shallowest first.

use std::io::Read;

use wakepath_hardware::idle::MAX_STATES;
use wakepath_hardware::{IdleState, IdleStates};
use wakepath_units::Nanoseconds;

use super::rows::{ReadError, Row, Rows};

/// Most bytes of a state table that a reader accepts.
const LONGEST_TABLE: u64 = 1 << 20;

const FIELDS: &[&str] = &[
    "name",
    "exit_latency_ns",
    "target_residency_ns",
    "polling",
    "disabled",
];

fn parse_nanoseconds(row: &Row<'_>, field: usize) -> Result<Nanoseconds, ReadError> {
    row.parse_unsigned(field, i64::MAX as u64).map(Nanoseconds)
}

/// Reads a table of a CPU's idle states from `input`, called `file` in errors.
///
/// Target residencies must not decrease from one state to the next deeper one. Exit latencies may: on real machines a
/// cluster state can be left sooner than a core state that pays off earlier. Qualcomm SDM630 in Linux 6.12 declares
/// 2336 us for a core state and 668 us for the next, a cluster state.
pub fn read_states(input: impl Read, file: &str) -> Result<IdleStates, ReadError> {
    let mut rows = Rows::new(input, file, FIELDS, LONGEST_TABLE);
    let mut states: Vec<IdleState> = Vec::new();
    while let Some(row) = rows.next_row()? {
        if states.len() == MAX_STATES {
            return Err(row.row_error(format!(
                "one idle state too many; a cpuidle driver has at most {MAX_STATES}"
            )));
        }
        let state = IdleState {
            name: row.field_text(0).to_owned(),
            exit_latency: parse_nanoseconds(&row, 1)?,
            target_residency: parse_nanoseconds(&row, 2)?,
            polling: row.parse_flag(3)?,
            disabled: row.parse_flag(4)?,
        };
        if state.name.is_empty() {
            return Err(row.unexpected_value_error(0, "the name of the state"));
        }
        if let Some(previous) = states.last()
            && state.target_residency < previous.target_residency
        {
            return Err(row.field_error(
                2,
                format!(
                    "{} is less than the {} of the state before; states must be in order, \
                         shallowest first",
                    state.target_residency.0, previous.target_residency.0
                ),
            ));
        }
        states.push(state);
    }
    IdleStates::new(states).map_err(|error| ReadError {
        file: file.to_owned(),
        line: None,
        field: None,
        problem: error.to_string(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<IdleStates, String> {
        read_states(text.as_bytes(), "states.csv").map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_is_a_state() {
        let states = read("POLL,0,0,1,0\nC1,2000,2000,0,1\n").unwrap();
        assert_eq!(states.len(), 2);
        assert!(states[0].polling && !states[0].disabled);
        assert_eq!(states[1].name, "C1");
        assert_eq!(states[1].exit_latency, Nanoseconds(2000));
        assert!(states[1].disabled);
    }

    #[test]
    fn a_header_is_skipped_once() {
        let states = "C1,2000,2000,0,0\n";
        let header = FIELDS.join(",");
        let known = read(states).unwrap();
        let spaced = FIELDS.join(", ").to_uppercase();
        for first in [&header, &format!("\n{header}"), &format!("# {spaced}")] {
            assert_eq!(
                read(&format!("{first}\n{states}")),
                Ok(known.clone()),
                "{first}"
            );
        }
        let twice = read(&format!("{header}\n{header}\n{states}")).unwrap_err();
        assert!(
            twice.starts_with("states.csv:2: exit_latency_ns: expected a whole number"),
            "{twice}"
        );
        assert!(
            read(&header)
                .unwrap_err()
                .contains("empty; expected lines of name,")
        );
    }

    #[test]
    fn errors_name_line_and_field() {
        for (text, message) in [
            (
                "",
                "states.csv: empty; expected lines of name,exit_latency_ns,",
            ),
            ("C1,1,1,0\n", "states.csv:1: expected 5 fields (name,"),
            ("C1,1,1,0,0,0\n", "states.csv:1: expected 5 fields ("),
            (
                "C1,nan,1,0,0\n",
                "states.csv:1: exit_latency_ns: expected a whole number from 0",
            ),
            ("C1,-1,1,0,0\n", "states.csv:1: exit_latency_ns: expected"),
            ("C1,+1,1,0,0\n", "states.csv:1: exit_latency_ns: expected"),
            (
                "C1,1,9223372036854775808,0,0\n",
                "states.csv:1: target_residency_ns: expected",
            ),
            (
                "C1,1,1e3,0,0\n",
                "states.csv:1: target_residency_ns: expected",
            ),
            (
                "C1,1,1,yes,0\n",
                "states.csv:1: polling: expected 0 or 1, found `yes`",
            ),
            (",1,1,0,0\n", "states.csv:1: name: expected the name"),
            (
                "C1,1,20,0,0\nC2,1,19,0,0\n",
                "states.csv:2: target_residency_ns: 19 is less than the 20 of the state before",
            ),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.starts_with(message), "{error}");
        }
    }

    #[test]
    fn ten_states_are_enough() {
        let ten = "S,1,1,0,0\n".repeat(10);
        assert_eq!(read(&ten).map(|s| s.len()), Ok(10));
        let error = read(&format!("{ten}S,1,1,0,0\n")).unwrap_err();
        assert_eq!(
            error,
            "states.csv:11: one idle state too many; a cpuidle driver has at most 10"
        );
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = read_states(&bytes[..], "states.csv");
        }
    }
}
