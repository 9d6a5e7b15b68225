//! The governor call log: queries to a governor on a CPU, with outcomes.

use std::fmt;
use std::io::Read;

use crate::idle::{IdleOutcome, IdleQuery};

use super::rows::{LONGEST_LOG, ReadError, Row, Rows};

const FIELDS: &[&str] = &[
    "sleep_length_ns",
    "delta_tick_ns",
    "tick_stopped",
    "latency_req_ns",
    "nr_iowait",
    "select_clock_ns",
    "reflect_clock_ns",
    "residency_ns",
    "got_tick",
    "poll_limit_hit",
];

/// A governor's call: the query, and how the idle period after it ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// Query to the governor. The true idle time is the residency of the outcome.
    pub query: IdleQuery,
    /// How the idle period ended. A residency of 0 means that the driver refused the state.
    pub outcome: IdleOutcome,
}

impl fmt::Display for Call {
    /// Writes the call as a line of the call log, without line end.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { query, outcome } = self;
        write!(
            f,
            "{},{},{},{},{},{},{},{},{},{}",
            query.sleep_length,
            query.delta_tick,
            u8::from(query.tick_stopped),
            query.latency_request,
            query.nr_iowait,
            query.clock,
            outcome.clock,
            outcome.residency,
            u8::from(outcome.got_tick),
            u8::from(outcome.poll_limit_hit)
        )
    }
}

/// Reads a call log, one call at a time.
///
/// `sleep_length_ns` and `delta_tick_ns` may be negative. The clock must not go back from one
/// select to the next, nor from a select to its reflect unless the state was refused. After an
/// error the reader ends.
#[derive(Debug)]
pub struct CallReader<R> {
    rows: Rows<R>,
    clock: u64,
    failed: bool,
}

impl<R: Read> CallReader<R> {
    /// Reads a call log from `input`, called `file` in errors.
    pub fn new(input: R, file: &str) -> Self {
        Self {
            rows: Rows::new(input, file, FIELDS, LONGEST_LOG),
            clock: 0,
            failed: false,
        }
    }

    fn read_call(&mut self) -> Result<Option<Call>, ReadError> {
        match self.rows.next_row()? {
            Some(row) => parse_call(row, &mut self.clock).map(Some),
            None => Ok(None),
        }
    }
}

fn parse_call(row: Row<'_>, clock: &mut u64) -> Result<Call, ReadError> {
    let residency = row.parse_unsigned(7, u64::MAX)?;
    let query = IdleQuery {
        sleep_length: row.parse_signed(0)?,
        delta_tick: row.parse_signed(1)?,
        tick_stopped: row.parse_flag(2)?,
        after_tick: false,
        latency_request: row.parse_unsigned(3, i64::MAX as u64)? as i64,
        nr_iowait: row.parse_unsigned(4, u64::from(u32::MAX))? as u32,
        clock: row.parse_time_not_before(5, clock)?,
        true_idle: residency,
        package_saving: 0,
    };
    let reflect_clock = if residency == 0 {
        row.parse_unsigned(6, u64::MAX)?
    } else {
        row.parse_time_not_before(6, &mut query.clock.clone())?
    };
    Ok(Call {
        query,
        outcome: IdleOutcome {
            clock: reflect_clock,
            residency,
            got_tick: row.parse_flag(8)?,
            poll_limit_hit: row.parse_flag(9)?,
        },
    })
}

impl<R: Read> Iterator for CallReader<R> {
    type Item = Result<Call, ReadError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed {
            return None;
        }
        let item = self.read_call().transpose();
        self.failed = matches!(item, Some(Err(_)));
        item
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Vec<Call>, String> {
        CallReader::new(text.as_bytes(), "calls.csv")
            .collect::<Result<_, _>>()
            .map_err(|e| e.to_string())
    }

    #[test]
    fn a_line_is_a_call() {
        let calls = read("-5,100,1,2147483647000,3,7,900,800,1,0\n\n").unwrap();
        assert_eq!(
            calls,
            [Call {
                query: IdleQuery {
                    sleep_length: -5,
                    delta_tick: 100,
                    tick_stopped: true,
                    after_tick: false,
                    latency_request: 2_147_483_647_000,
                    nr_iowait: 3,
                    clock: 7,
                    true_idle: 800,
                    package_saving: 0,
                },
                outcome: IdleOutcome {
                    clock: 900,
                    residency: 800,
                    got_tick: true,
                    poll_limit_hit: false,
                },
            }]
        );
    }

    #[test]
    fn errors_name_line_and_field() {
        let good = "1,1,0,1,0,10,20,10,0,0\n";
        for (bad, message) in [
            ("", ": empty; expected lines of sleep_length_ns,"),
            ("\n\n", ": empty; expected lines of"),
            (
                "1,1,0,1,0,10,20,10,0\n",
                ":2: expected 10 fields (sleep_length_ns,",
            ),
            (
                "NaN,1,0,1,0,10,20,10,0,0",
                ":2: sleep_length_ns: expected a whole number from -9",
            ),
            (
                "1,1.5,0,1,0,10,20,10,0,0",
                ":2: delta_tick_ns: expected a whole number",
            ),
            (
                "1,1,2,1,0,10,20,10,0,0",
                ":2: tick_stopped: expected 0 or 1, found `2`",
            ),
            (
                "1,1,0,-1,0,10,20,10,0,0",
                ":2: latency_req_ns: expected a whole number from 0",
            ),
            ("1,1,0,1,4294967296,10,20,10,0,0", ":2: nr_iowait: expected"),
            (
                "1,1,0,1,0,9,20,10,0,0",
                ":2: select_clock_ns: 9 is before 10; lines must be",
            ),
            (
                "1,1,0,1,0,30,29,10,0,0",
                ":2: reflect_clock_ns: 29 is before 30",
            ),
            ("1,1,0,1,0,10,20,-1,0,0", ":2: residency_ns: expected"),
            (
                "1,1,0,1,0,10,20,18446744073709551616,0,0",
                ":2: residency_ns: expected",
            ),
            (
                "1,1,0,1,0,10,20,10,,0",
                ":2: got_tick: expected 0 or 1, found ``",
            ),
            (
                "1,1,0,1,0,10,20,10,0,true",
                ":2: poll_limit_hit: expected 0 or 1",
            ),
        ] {
            let text = if message.contains(":2:") {
                format!("{good}{bad}")
            } else {
                bad.to_owned()
            };
            let error = read(&text).unwrap_err();
            assert!(error.starts_with(&format!("calls.csv{message}")), "{error}");
        }
    }

    #[test]
    fn blank_lines_do_not_shift_line_numbers() {
        for text in [
            "1,1,0,1,0,10,20,10,0,0\n\n\nx\n",
            "\r\n \n1,1,0,1,0,10,20,10,0,0\r\nx",
        ] {
            let error = read(text).unwrap_err();
            assert!(
                error.starts_with("calls.csv:4: expected 10 fields"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_refused_state_has_no_reflect_clock_to_check() {
        assert!(read("1,1,0,1,0,10,0,0,0,0").is_ok());
    }

    #[test]
    fn bytes_that_are_not_text_are_an_error() {
        let mut reader = CallReader::new(&b"\xff\xfe\n"[..], "calls.csv");
        let error = reader.next().unwrap().unwrap_err();
        assert_eq!(error.to_string(), "calls.csv:1: not text (invalid UTF-8)");
        assert!(reader.next().is_none());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            sleep in any::<i64>(),
            delta in any::<i64>(),
            latency in 0..=i64::MAX,
            waiting in any::<u32>(),
            clock in any::<u64>(),
            length in any::<u64>(),
        ) {
            let line = format!("{sleep},{delta},0,{latency},{waiting},{clock},{clock},{length},0,1\n");
            let call = read(&line).unwrap()[0];
            prop_assert_eq!(call.query.sleep_length, sleep);
            prop_assert_eq!(call.query.delta_tick, delta);
            prop_assert_eq!(call.query.latency_request, latency);
            prop_assert_eq!(call.query.nr_iowait, waiting);
            prop_assert_eq!(call.query.clock, clock);
            prop_assert_eq!(call.outcome.residency, length);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = CallReader::new(&bytes[..], "calls.csv").count();
        }
    }
}
