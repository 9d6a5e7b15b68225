//! Decision log: a governor's answer to each call in a call log.

use std::io::Read;

use crate::idle::IdleDecision;

use super::rows::{LONGEST_LOG, ReadError, Rows};

/// Reads a decision log, lines of `index,stop_tick`, from `input`, called `file` in errors.
///
/// # Errors
///
/// A line is no decision, or the input has no lines.
pub fn read_decisions(input: impl Read, file: &str) -> Result<Vec<IdleDecision>, ReadError> {
    let mut rows = Rows::new(input, file, &["index", "stop_tick"], LONGEST_LOG);
    let mut decisions = Vec::new();
    while let Some(row) = rows.next_row()? {
        decisions.push(IdleDecision {
            state: row.parse_unsigned(0, u64::from(u32::MAX))? as usize,
            stop_tick: row.parse_flag(1)?,
        });
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What never ends, in a line or in many.
    #[test]
    fn an_input_without_an_end_is_refused() {
        for (piece, says) in [
            ("0", "a line of more than"),
            ("0,1\n", "more than 1048576 bytes"),
        ] {
            struct Endless(&'static [u8]);
            impl Read for Endless {
                fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                    let whole = buffer.len() / self.0.len() * self.0.len();
                    for chunk in buffer[..whole].chunks_mut(self.0.len()) {
                        chunk.copy_from_slice(self.0);
                    }
                    Ok(whole)
                }
            }
            let input = std::io::BufReader::with_capacity(1 << 16, Endless(piece.as_bytes()));
            let rows = Rows::new(input, "a.csv", &["index", "stop_tick"], 1 << 20);
            let error = last_error(rows);
            assert!(error.contains(says), "{error}");
        }
    }

    fn last_error<R: Read>(mut rows: Rows<R>) -> String {
        loop {
            if let Err(error) = rows.next_row() {
                return error.to_string();
            }
        }
    }

    #[test]
    fn a_line_is_an_answer() {
        let read = |text: &str| read_decisions(text.as_bytes(), "a.csv").map_err(|e| e.to_string());
        let answers = read("2,1\n0,0\n").unwrap();
        assert_eq!(answers.len(), 2);
        assert_eq!((answers[0].state, answers[0].stop_tick), (2, true));
        for (text, says) in [
            ("", "a.csv: empty; expected lines of index,stop_tick"),
            ("1\n", "a.csv:1: expected 2 fields"),
            ("1,0\n-1,0\n", "a.csv:2: index: expected a whole number"),
            ("1,yes\n", "a.csv:1: stop_tick: expected 0 or 1"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
