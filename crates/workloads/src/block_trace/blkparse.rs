//! Text of `blkparse`, in its default format.
//!
//! `259,0    3       11     0.009507758   697  D   R 223490 + 8 [fio]`: device, CPU, number, seconds, process, action, kind,
//! first sector and number of sectors. Behind the events there is a summary.

use crate::text::escape_and_shorten;

use super::line::{LineEnd, LineRequest, TraceLine, multiply, parse_number};
use super::request::TraceIo;

/// Bytes of a sector, whatever the drive's.
pub(super) const SECTOR: u64 = 512;

/// Which events are the requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestAction {
    /// `D`: requests as the drive got them.
    Dispatch,
    /// `Q`: requests as they were queued, in a trace without `D`.
    Queue,
}

impl RequestAction {
    /// Chooses the action by the first lines of a trace; `None`: they have neither.
    pub(super) fn choose_by_lines<'a>(lines: impl Iterator<Item = &'a str>) -> Option<Self> {
        let mut found = None;
        for line in lines {
            match line.split_ascii_whitespace().nth(5) {
                Some("D") if begins_with_device(line) => return Some(Self::Dispatch),
                Some("Q") if begins_with_device(line) => found = Some(Self::Queue),
                _ => {}
            }
        }
        found
    }

    fn letter(self) -> &'static str {
        match self {
            Self::Dispatch => "D",
            Self::Queue => "Q",
        }
    }
}

/// Reads the lines of a trace.
#[derive(Clone, Copy, Debug)]
pub(super) struct BlkparseParser {
    action: RequestAction,
    is_in_summary: bool,
}

/// Whether a line begins as an event: with the numbers of a device.
pub(super) fn begins_with_device(line: &str) -> bool {
    let first = line.split_ascii_whitespace().next();
    first
        .and_then(|word| word.split_once(','))
        .is_some_and(|(major, minor): (&str, &str)| is_digits(major) && is_digits(minor))
}

/// blkparse's letters for actions, by its manual page.
const ACTIONS: [&str; 17] = [
    "A", "B", "C", "D", "F", "G", "I", "M", "P", "Q", "R", "S", "T", "U", "UT", "X", "m",
];

/// How many lines of a file are looked at to tell the format.
const LINES_OF_FORMAT: usize = 20;

/// Whether text is probably from `blkparse -f`: each of the first lines has numbers and an action, and none is an event in the
/// default format.
pub(super) fn looks_like_own_format(text: &str) -> bool {
    let mut lines = (text.lines())
        .filter(|line| !line.trim().is_empty())
        .take_while(|line| !begins_summary(line))
        .peekable();
    lines.peek().is_some()
        && lines
            .take(LINES_OF_FORMAT)
            .all(|line| !is_default_event(line) && has_number_and_action(line))
}

/// Whether a line belongs to the beginning of the summary behind the events.
fn begins_summary(line: &str) -> bool {
    let starts = ["CPU", "Total", "Input file"];
    starts.iter().any(|start| line.starts_with(start))
}

/// Whether a line has the words of an event in their places: device, CPU, number, seconds, process, action.
fn is_default_event(line: &str) -> bool {
    let words: Vec<&str> = line.split_ascii_whitespace().take(6).collect();
    let [_, cpu, number, time, process, _] = words[..] else {
        return false;
    };
    begins_with_device(line)
        && [cpu, number, process].into_iter().all(is_digits)
        && nanoseconds_of_decimal(time).is_some()
}

/// Whether a line begins with a number or a device, and has an action of blkparse as a word.
fn has_number_and_action(line: &str) -> bool {
    let first = line.trim_start().bytes().next();
    let mut words = line.split([' ', '\t', ',', ';', '|']);
    first.is_some_and(|letter| letter.is_ascii_digit())
        && !line.contains('=')
        && words.any(|word| ACTIONS.contains(&word))
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

impl BlkparseParser {
    pub(super) fn new(action: RequestAction) -> Self {
        Self {
            action,
            is_in_summary: false,
        }
    }

    /// Reads a line.
    ///
    /// # Errors
    /// Says what is wrong with the line.
    pub(super) fn parse_line<'a>(&mut self, line: &'a str) -> Result<TraceLine<'a>, String> {
        if !begins_with_device(line) {
            self.is_in_summary |= begins_summary(line);
            if self.is_in_summary || line.trim().is_empty() {
                return Ok(TraceLine::Other);
            }
            return Err(format!(
                "`{}` is no event of blkparse: expected a device, such as 259,0",
                escape_and_shorten(line)
            ));
        }
        let mut words = line.split_ascii_whitespace();
        let disk = next_word(&mut words, "device")?;
        parse_number(next_word(&mut words, "CPU")?, "CPU")?;
        parse_number(next_word(&mut words, "number")?, "number")?;
        let time = parse_seconds(next_word(&mut words, "time")?)?;
        parse_number(next_word(&mut words, "process")?, "process")?;
        let action = next_word(&mut words, "action")?;
        if action != self.action.letter() && action != "C" {
            return Ok(TraceLine::Other);
        }
        let kind = next_word(&mut words, "kind of request")?;
        let Some((sector, sectors)) = parse_place(&mut words)? else {
            // Without a place: a flush, or a command of the drive's own.
            let flushes = kind.starts_with('F') && action != "C";
            return Ok(if flushes {
                TraceLine::Request(LineRequest {
                    disk,
                    time,
                    io: TraceIo::Flush,
                    offset: 0,
                    bytes: 0,
                    ended: None,
                })
            } else {
                TraceLine::Other
            });
        };
        let offset = multiply(sector, SECTOR, "sector")?;
        if action == "C" {
            return Ok(TraceLine::End(LineEnd { disk, time, offset }));
        }
        let bytes = multiply(sectors, SECTOR, "number of sectors")?;
        let Some(io) = io_by_letters(kind, bytes) else {
            return Ok(TraceLine::Other);
        };
        Ok(TraceLine::Request(LineRequest {
            disk,
            time,
            io,
            offset,
            bytes,
            ended: None,
        }))
    }
}

fn next_word<'a>(words: &mut impl Iterator<Item = &'a str>, what: &str) -> Result<&'a str, String> {
    words
        .next()
        .ok_or_else(|| format!("the line ends before the {what}: the trace is cut off or damaged"))
}

/// First sector and number of sectors, `223490 + 8`; `None` for events without a place.
fn parse_place<'a>(
    words: &mut impl Iterator<Item = &'a str>,
) -> Result<Option<(u64, u64)>, String> {
    let Some(first) = words.next() else {
        return Err("the line ends before the sector: the trace is cut off or damaged".to_owned());
    };
    if first.starts_with('[') || first.starts_with('(') {
        return Ok(None);
    }
    let sector = parse_number(first, "sector")?;
    match words.next() {
        Some("+") => {
            let sectors = next_word(words, "number of sectors")?;
            Ok(Some((sector, parse_number(sectors, "number of sectors")?)))
        }
        // A command of the drive's own has a number of bytes, and the command in parentheses.
        Some(word) if word.starts_with('(') || word.starts_with('[') => Ok(None),
        Some(word) => Err(format!(
            "`{}` behind the sector, expected `+`",
            escape_and_shorten(word)
        )),
        None => Err("the line ends before `+`: the trace is cut off or damaged".to_owned()),
    }
}

/// What a request does, by the kernel's letters (`blk_fill_rwbs()`, Linux 6.12): `F` in front asks for a flush first.
fn io_by_letters(letters: &str, bytes: u64) -> Option<TraceIo> {
    let (flushes_first, operation) = match letters.strip_prefix('F') {
        Some(rest) => (true, rest),
        None => (false, letters),
    };
    match operation.chars().next() {
        Some('R') => Some(TraceIo::Read),
        Some('W') if bytes > 0 || !flushes_first => Some(TraceIo::Write),
        Some('D') => Some(TraceIo::Trim),
        Some('F') => Some(TraceIo::Flush),
        _ if flushes_first => Some(TraceIo::Flush),
        _ => None,
    }
}

/// Seconds with up to nine decimals, in ns.
fn parse_seconds(text: &str) -> Result<u64, String> {
    nanoseconds_of_decimal(text).ok_or_else(|| {
        format!(
            "the time `{}` is no number of seconds",
            escape_and_shorten(text)
        )
    })
}

fn nanoseconds_of_decimal(text: &str) -> Option<u64> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    if !is_digits(whole) || !is_digits(decimals) || decimals.len() > 9 {
        return None;
    }
    let seconds: u64 = whole.parse().ok()?;
    let fraction: u64 = decimals.parse().ok()?;
    let unit = 10_u64.pow(9 - decimals.len() as u32);
    seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction * unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<TraceLine<'_>, String> {
        BlkparseParser::new(RequestAction::Dispatch).parse_line(line)
    }

    fn request(line: &str) -> (TraceIo, u64, u64, u64) {
        match parse(line) {
            Ok(TraceLine::Request(request)) => {
                (request.io, request.time, request.offset, request.bytes)
            }
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn events_are_read_as_blkparse_prints_them() {
        let read = "259,0    3       11     0.009507758   697  D   R 223490 + 8 [fio]";
        let place = 223_490 * 512;
        assert_eq!(request(read), (TraceIo::Read, 9_507_758, place, 4096));
        let elapsed = "  8,16   1  5  12.5  0  D WS 8 + 16 ( 1234) [kworker/0:1]";
        let wanted = (TraceIo::Write, 12_500_000_000, 4096, 8192);
        assert_eq!(request(elapsed), wanted);
        for (letters, io) in [
            ("RA", TraceIo::Read),
            ("RM", TraceIo::Read),
            ("WFS", TraceIo::Write),
            ("FWFS", TraceIo::Write),
            ("DS", TraceIo::Trim),
            ("DE", TraceIo::Trim),
        ] {
            let line = format!("8,0 0 1 0.0 5 D {letters} 8 + 8 [x]");
            assert_eq!(request(&line).0, io, "{letters}");
        }
        for line in [
            "8,0 0 1 0.0 5 D FN [kworker]",
            "8,0 0 1 0.0 5 D FF [x]",
            "8,0 0 1 0.0 5 D FWS 0 + 0 [x]",
        ] {
            assert_eq!(request(line).0, TraceIo::Flush, "{line}");
        }
    }

    #[test]
    fn ends_have_a_place_and_other_events_are_left_out() {
        let end = parse("8,0 0 1 1.000000001 0 C R 8 + 8 [0]").unwrap();
        let wanted = LineEnd {
            disk: "8,0",
            time: 1_000_000_001,
            offset: 4096,
        };
        assert_eq!(end, TraceLine::End(wanted));
        for line in [
            "8,0 0 1 0.0 5 Q R 8 + 8 [x]",
            "8,0 0 1 0.0 5 m N cfq5 slice expired t=0",
            "8,0 0 1 0.0 5 P N [x]",
            "8,0 0 1 0.0 5 D R 255 (12 01 00 00 ff 00 ..) [smartd]",
            "8,0 0 1 0.0 5 D N [x]",
            "8,0 0 1 0.0 5 C FN [0]",
            "",
        ] {
            assert_eq!(parse(line), Ok(TraceLine::Other), "{line}");
        }
    }

    #[test]
    fn a_summary_follows_the_events() {
        let mut parser = BlkparseParser::new(RequestAction::Dispatch);
        for line in [
            "CPU0 (trace):",
            " Reads Queued:           1,        4KiB",
            "",
            "Throughput (R/W): 4KiB/s / 0KiB/s",
        ] {
            assert_eq!(parser.parse_line(line), Ok(TraceLine::Other), "{line}");
        }
        let message = parse("Throughput (R/W): 4KiB/s / 0KiB/s").unwrap_err();
        assert!(message.contains("no event of blkparse"), "{message}");
    }

    #[test]
    fn damaged_events_are_refused() {
        for (line, wanted) in [
            ("8,0 0 1", "ends before the time"),
            ("8,0 0 1 0.5 5 D R", "ends before the sector"),
            ("8,0 0 1 0.5 5 D R 8", "ends before `+`"),
            ("8,0 0 1 0.5 5 D R 8 +", "ends before the number of sectors"),
            ("8,0 0 1 0.5 5 D R 8 - 8 [x]", "`-` behind the sector"),
            ("8,0 0 1 x 5 D R 8 + 8 [x]", "the time `x`"),
            ("8,0 0 1 1.0000000001 5 D R 8 + 8 [x]", "the time"),
            ("8,0 0 1 99999999999.0 5 D R 8 + 8 [x]", "the time"),
            (
                "8,0 0 1 0.5 5 D R 99999999999999999999 + 8 [x]",
                "the sector",
            ),
            ("8,0 0 1 0.5 5 D R 9999999999999999999 + 8 [x]", "too large"),
            ("8,0 0 one 0.5 5 D R 8 + 8 [x]", "the number `one`"),
        ] {
            let message = parse(line).unwrap_err();
            assert!(message.contains(wanted), "{line}: {message}");
        }
    }

    #[test]
    fn queued_requests_count_where_nothing_is_dispatched() {
        let [queue, dispatch] =
            ["Q", "D"].map(|letter| format!("8,0 0 1 0.0 5 {letter} R 8 + 8 [x]"));
        let choose = |lines: &[&str]| RequestAction::choose_by_lines(lines.iter().copied());
        assert_eq!(choose(&[&queue, &dispatch]), Some(RequestAction::Dispatch));
        assert_eq!(choose(&[&queue]), Some(RequestAction::Queue));
        assert_eq!(choose(&["8,0 0 1 0.0 5 C R 8 + 8 [0]"]), None);
    }
}
