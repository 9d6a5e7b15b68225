//! Lines of a trace, one at a time, however long the trace is.

use std::borrow::Cow;
use std::io::{BufRead, Read};

use super::error::LineProblem;

/// Most bytes of a line. The longest line of a tool has a path or a message of the kernel.
const MAX_LINE_BYTES: usize = 16 << 10;

/// Reads lines, and counts them.
#[derive(Debug)]
pub(super) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    is_last_line_ended: bool,
}

impl<R: BufRead> Lines<R> {
    pub(super) fn new(reader: R) -> Self {
        Self {
            reader,
            buffer: Vec::new(),
            number: 0,
            is_last_line_ended: true,
        }
    }

    /// Number of the last line read, counted from 1.
    pub(super) fn last_line_number(&self) -> u64 {
        self.number
    }

    /// Whether the last line read ends with a line feed.
    pub(super) fn is_last_line_ended(&self) -> bool {
        self.is_last_line_ended
    }

    /// Adds what to do to a problem of the last line read, where the trace was cut off in the line.
    pub(super) fn explain_problem_in_cut_line(&self, problem: LineProblem) -> LineProblem {
        if self.is_last_line_ended {
            return problem;
        }
        let message = format!(
            "{}; this last line has no end: remove it to take what stands before",
            problem.message
        );
        LineProblem { message, ..problem }
    }

    /// The next line without its end; `None` after the last.
    ///
    /// # Errors
    /// The line is too long or has a NUL byte, or the trace cannot be read.
    pub(super) fn next_line(&mut self) -> Result<Option<Cow<'_, str>>, LineProblem> {
        self.buffer.clear();
        self.number += 1;
        let line = self.number;
        let mut bounded = (&mut self.reader).take(MAX_LINE_BYTES as u64 + 1);
        bounded
            .read_until(b'\n', &mut self.buffer)
            .map_err(|e| LineProblem {
                line,
                message: format!("cannot read: {e}"),
            })?;
        if self.buffer.is_empty() {
            self.number -= 1;
            return Ok(None);
        }
        if self.buffer.len() > MAX_LINE_BYTES {
            let message = format!("the line has more than {MAX_LINE_BYTES} bytes");
            return Err(LineProblem { line, message });
        }
        if self.buffer.contains(&0) {
            let message = "the line has a NUL byte: the trace is damaged, or no text".to_owned();
            return Err(LineProblem { line, message });
        }
        self.is_last_line_ended = self.buffer.ends_with(b"\n");
        let text = self.buffer.trim_ascii_end();
        Ok(Some(String::from_utf8_lossy(text)))
    }
}
