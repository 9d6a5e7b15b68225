//! Traces of Microsoft Research Cambridge (SNIA IOTTA), comma-separated.
//!
//! `128166372003061629,usr,1,Read,7014609920,24576,41286`: Windows' time in 100 ns, host, disk, type, first byte, bytes, and
//! response time in 100 ns. A file may have several disks.

use crate::text::escape_and_shorten;

use super::line::{LineRequest, TraceLine, multiply, parse_number};
use super::request::TraceIo;

/// Nanoseconds of a unit of time in these traces.
const TICK: u64 = 100;

/// Number of columns.
const COLUMNS: usize = 7;

/// Whether a line is the header that some files have.
pub(super) fn is_header(line: &str) -> bool {
    line.get(..10)
        .is_some_and(|start| start.eq_ignore_ascii_case("timestamp,"))
}

/// Whether a line could be one of such a trace.
pub(super) fn looks_like_line(line: &str) -> bool {
    let mut columns = line.split(',');
    let time = columns.next().unwrap_or_default();
    is_header(line)
        || (line.split(',').count() == COLUMNS
            && !time.is_empty()
            && time.bytes().all(|b| b.is_ascii_digit()))
}

/// Reads a line.
///
/// # Errors
/// Says what is wrong with the line.
pub(super) fn parse_line(line: &str) -> Result<TraceLine<'_>, String> {
    if line.trim().is_empty() || is_header(line) {
        return Ok(TraceLine::Other);
    }
    let mut columns = [""; COLUMNS];
    let mut count = 0;
    for column in line.split(',') {
        if let Some(place) = columns.get_mut(count) {
            *place = column;
        }
        count += 1;
    }
    if count != COLUMNS {
        return Err(format!(
            "{count} columns instead of {COLUMNS}: the trace is cut off or damaged"
        ));
    }
    let [time, host, number, kind, offset, bytes, response] = columns;
    let io = if kind.eq_ignore_ascii_case("read") {
        TraceIo::Read
    } else if kind.eq_ignore_ascii_case("write") {
        TraceIo::Write
    } else {
        return Err(format!(
            "the type `{}`, expected Read or Write",
            escape_and_shorten(kind)
        ));
    };
    let begin = multiply(parse_number(time, "time")?, TICK, "time")?;
    let takes = multiply(
        parse_number(response, "response time")?,
        TICK,
        "response time",
    )?;
    let end = (begin.checked_add(takes))
        .ok_or_else(|| format!("the response time {response} is too large"))?;
    parse_number(number, "number of the disk")?;
    let name_begins = time.len() + 1;
    let name_ends = name_begins + host.len() + 1 + number.len();
    Ok(TraceLine::Request(LineRequest {
        // Host and number are the name as they stand.
        disk: &line[name_begins..name_ends],
        time: begin,
        io,
        offset: parse_number(offset, "offset")?,
        bytes: parse_number(bytes, "size")?,
        ended: Some(end),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_its_units() {
        let line = "128166372003061629,usr,1,Read,7014609920,24576,41286";
        let wanted = LineRequest {
            disk: "usr,1",
            time: 12_816_637_200_306_162_900,
            io: TraceIo::Read,
            offset: 7_014_609_920,
            bytes: 24_576,
            ended: Some(12_816_637_200_306_162_900 + 4_128_600),
        };
        assert!(looks_like_line(line));
        assert_eq!(parse_line(line), Ok(TraceLine::Request(wanted)));
        let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime";
        assert!(looks_like_line(header));
        assert_eq!(parse_line(header), Ok(TraceLine::Other));
    }

    #[test]
    fn damaged_lines_are_refused() {
        for (line, wanted) in [
            ("1,usr,1,Read,0,4096", "6 columns instead of 7"),
            ("1,usr,1,Raed,0,4096,1", "the type `Raed`"),
            ("x,usr,1,Read,0,4096,1", "the time `x`"),
            ("1,usr,x,Read,0,4096,1", "the number of the disk `x`"),
            ("1,usr,1,Read,-5,4096,1", "the offset `-5`"),
            ("1,usr,1,Read,0,4k,1", "the size `4k`"),
            ("1,usr,1,Read,0,4096,18446744073709551615", "too large"),
            ("18446744073709551615,usr,1,Read,0,4096,1", "too large"),
        ] {
            let message = parse_line(line).unwrap_err();
            assert!(message.contains(wanted), "{line}: {message}");
        }
    }
}
