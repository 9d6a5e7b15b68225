//! fio's own logs of I/O (`write_iolog`), versions 2 and 3.
//!
//! Version 2 has waits between requests, each counted from the end of the last wait. Version 3 has a time in every line, in
//! us with fio 3.33 (its `log_io_u()`).

use serde::Serialize;

use crate::text::escape_and_shorten;

use super::line::{LineRequest, TraceLine, multiply, parse_number};
use super::request::TraceIo;

/// Nanoseconds of a microsecond, the unit of both versions.
const MICROSECOND: u64 = 1_000;

/// Version of a log of fio.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum FioLogVersion {
    /// Waits between requests.
    Two,
    /// A time in every line.
    Three,
}

/// A line of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FioLogLine<'a> {
    /// Time in ns; 0 in version 2.
    pub(super) time: u64,
    pub(super) action: FioLogAction<'a>,
}

/// What a line of a log asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FioLogAction<'a> {
    /// The header, or a blank line.
    Nothing,
    /// A file is added, opened or closed.
    FileChange { file: &'a str },
    /// Time passes: a number in a unit that depends on the reader, and whether a length stands behind the number.
    Wait { number: u64, has_length: bool },
    /// A request to a file, and fio's word for the action. A flush may have a length, which has no meaning.
    Request {
        file: &'a str,
        word: &'a str,
        io: TraceIo,
        offset: u64,
        bytes: u64,
    },
}

/// Reads a line of a log.
///
/// # Errors
/// Says what is wrong with the line.
pub(super) fn parse_log_line(version: FioLogVersion, line: &str) -> Result<FioLogLine<'_>, String> {
    if line.trim().is_empty() || line.starts_with("fio version ") {
        let action = FioLogAction::Nothing;
        return Ok(FioLogLine { time: 0, action });
    }
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let (time, rest) = match version {
        FioLogVersion::Two => (0, &words[..]),
        FioLogVersion::Three => {
            let time = parse_number(words[0], "time")?;
            (multiply(time, MICROSECOND, "time")?, &words[1..])
        }
    };
    let action = match *rest {
        [file, "add" | "open" | "close"] => FioLogAction::FileChange { file },
        [_, "wait", wait] | [_, "wait", wait, _] => FioLogAction::Wait {
            number: parse_number(wait, "wait")?,
            has_length: rest.len() == 4,
        },
        [file, word, offset, bytes] => {
            let io = io_by_action(word)?;
            let [offset, bytes] = match io {
                TraceIo::Flush => [0, bytes.parse().unwrap_or(0)],
                _ => [
                    parse_number(offset, "offset")?,
                    parse_number(bytes, "length")?,
                ],
            };
            FioLogAction::Request {
                file,
                word,
                io,
                offset,
                bytes,
            }
        }
        _ => {
            let first = match version {
                FioLogVersion::Two => "a file",
                FioLogVersion::Three => "a time, a file",
            };
            return Err(format!(
                "`{}` is no line of fio's log: expected {first}, an action, an offset and a length",
                escape_and_shorten(line)
            ));
        }
    };
    Ok(FioLogLine { time, action })
}

/// Reads the lines of a log as those of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct FioLogParser {
    version: FioLogVersion,
    /// Sum of all waits in ns.
    waited: u64,
}

impl FioLogParser {
    pub(super) fn new(version: FioLogVersion) -> Self {
        Self { version, waited: 0 }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    pub(super) fn parse_line<'a>(&mut self, line: &'a str) -> Result<TraceLine<'a>, String> {
        let FioLogLine { time, action } = parse_log_line(self.version, line)?;
        match action {
            FioLogAction::Nothing | FioLogAction::FileChange { .. } => Ok(TraceLine::Other),
            FioLogAction::Wait { number, .. } => self.wait(number),
            FioLogAction::Request {
                file,
                io,
                offset,
                bytes,
                ..
            } => Ok(TraceLine::Request(LineRequest {
                disk: file,
                time: match self.version {
                    FioLogVersion::Two => self.waited,
                    FioLogVersion::Three => time,
                },
                io,
                offset,
                bytes: if io == TraceIo::Flush { 0 } else { bytes },
                ended: None,
            })),
        }
    }

    fn wait<'a>(&mut self, wait: u64) -> Result<TraceLine<'a>, String> {
        let time = multiply(wait, MICROSECOND, "wait")?;
        self.waited = (self.waited.checked_add(time))
            .ok_or_else(|| "all waits together are too long".to_owned())?;
        Ok(TraceLine::Other)
    }
}

fn io_by_action(action: &str) -> Result<TraceIo, String> {
    match action {
        "read" => Ok(TraceIo::Read),
        "write" => Ok(TraceIo::Write),
        "trim" => Ok(TraceIo::Trim),
        "sync" | "datasync" | "sync_file_range" => Ok(TraceIo::Flush),
        _ => Err(format!(
            "`{}` is no action of fio's log: expected read, write, trim, sync, datasync, wait, add, open or close",
            escape_and_shorten(action)
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requests(version: FioLogVersion, text: &str) -> Vec<(u64, TraceIo, u64, u64)> {
        let mut parser = FioLogParser::new(version);
        let lines = text.lines().map(|line| parser.parse_line(line).unwrap());
        lines
            .filter_map(|line| match line {
                TraceLine::Request(r) => Some((r.time, r.io, r.offset, r.bytes)),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn waits_of_version_2_add_up() {
        let text = "fio version 2 iolog\nf add\nf open\nf read 0 4096\nf wait 100\nf write 4096 8192\n\
                    f wait 50 0\nf sync 0 0\nf trim 8192 4096\nf close\n";
        let wanted = [
            (0, TraceIo::Read, 0, 4096),
            (100_000, TraceIo::Write, 4096, 8192),
            (150_000, TraceIo::Flush, 0, 0),
            (150_000, TraceIo::Trim, 8192, 4096),
        ];
        assert_eq!(requests(FioLogVersion::Two, text), wanted);
    }

    #[test]
    fn times_of_version_3_are_microseconds() {
        let text = "fio version 3 iolog\n0 f add\n0 f open\n12 f read 4096 512\n90 f datasync 0 0\n91 f close\n";
        let wanted = [
            (12_000, TraceIo::Read, 4096, 512),
            (90_000, TraceIo::Flush, 0, 0),
        ];
        assert_eq!(requests(FioLogVersion::Three, text), wanted);
    }

    #[test]
    fn damaged_lines_are_refused() {
        for (version, line, wanted) in [
            (FioLogVersion::Two, "f read 0", "no line of fio's log"),
            (FioLogVersion::Two, "f reed 0 4096", "`reed` is no action"),
            (FioLogVersion::Two, "f read -1 4096", "the offset `-1`"),
            (FioLogVersion::Two, "f wait x", "the wait `x`"),
            (
                FioLogVersion::Two,
                "f wait 18446744073709551615",
                "too large",
            ),
            (FioLogVersion::Three, "f read 0 4096", "the time `f`"),
            (FioLogVersion::Three, "12 f read", "no line of fio's log"),
            (FioLogVersion::Three, "12", "no line of fio's log"),
        ] {
            let mut parser = FioLogParser::new(version);
            let message = parser.parse_line(line).unwrap_err();
            assert!(message.contains(wanted), "{line}: {message}");
        }
    }
}
