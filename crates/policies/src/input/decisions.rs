//! A log of answers: what a governor answered to each call of a call log.

use std::io::Read;

use crate::idle::IdleDecision;

use super::rows::{ReadError, Rows};

/// Reads lines of `index,stop_tick` from `input`, called `file` in errors.
///
/// # Errors
/// A line is none, or there is none at all.
pub fn read_decisions(input: impl Read, file: &str) -> Result<Vec<IdleDecision>, ReadError> {
    let mut rows = Rows::new(input, file, &["index", "stop_tick"]);
    let mut decisions = Vec::new();
    while let Some(row) = rows.next()? {
        decisions.push(IdleDecision {
            state: row.unsigned(0, u64::from(u32::MAX))? as usize,
            stop_tick: row.flag(1)?,
        });
    }
    Ok(decisions)
}

#[cfg(test)]
mod tests {
    use super::*;

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
