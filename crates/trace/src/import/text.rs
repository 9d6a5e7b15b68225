//! The text of `trace-cmd report`, `perf script` and tracefs's `trace` file.
//!
//! All of them have a line per event: the task, the CPU in brackets, perhaps flags, the time in
//! seconds, the event's name, and its fields.
//!
//! ```text
//!  <idle>-0     [002]  2084.021443: cpu_idle:             state=4294967295 cpu_id=2
//! swapper     0 [009] 328983.692207751: power:cpu_idle: state=1 cpu_id=9
//!  <idle>-0       [003] d..2. 5023.111: hrtimer_cancel: hrtimer=00000000d4c5a5b2
//! ```
//!
//! Lines may be quoted, and broken at a space, as mail programs do.

use std::io::{BufRead, BufReader};

use wakepath_units::pasted::{self, DecodedText};

use super::builder::RecordingBuilder;
use super::decode::{self, EventFields, KernelEvent, ShortName, TimerFunction, TraceEvent};
use super::problem::ImportProblem;
use super::source::ReadAt;
use crate::recording::{Block, QueueStep};

/// Number of lines without any event after which a file is no trace.
const LINES_WITHOUT_EVENT: u64 = 10_000;
/// Longest line in bytes: no event is longer, and a longer line is no text.
const LONGEST_LINE: usize = 1 << 16;

/// A line of text that is a trace event, taken to pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct EventLine<'a> {
    cpu: u32,
    time: u64,
    /// Number of digits of the event's time behind the decimal point.
    digits: usize,
    name: &'a str,
    details: &'a str,
}

impl EventLine<'_> {
    /// The event's name without a subsystem.
    fn event_name_without_subsystem(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or(self.name)
    }
}

pub(super) fn read_text_trace(
    input: &dyn ReadAt,
    builder: &mut RecordingBuilder<'_>,
) -> Result<(), ImportProblem> {
    "text of trace events".clone_into(&mut builder.source);
    let decoded = DecodedText::new(input.stream_from_start()).map_err(|error| error.to_string())?;
    let mut reader = BufReader::with_capacity(1 << 18, decoded);
    let mut lines = LineJoiner::default();
    let mut bytes = Vec::new();
    let mut line_number = 0;
    loop {
        bytes.clear();
        let read = (&mut reader)
            .read_line_up_to_limit(&mut bytes)
            .map_err(|error| error.to_string())?;
        if read == 0 {
            break;
        }
        line_number += 1;
        if bytes.len() > LONGEST_LINE {
            return Err(explain_no_events(line_number).into());
        }
        let text = pasted::decode_line(&bytes);
        lines.add_event_or_hold_line(
            pasted::quote_depth_and_text(&text).1,
            line_number,
            builder,
        )?;
        if lines.events == 0 && line_number > LINES_WITHOUT_EVENT {
            return Err(explain_no_events(line_number).into());
        }
    }
    lines.add_or_drop_held_line(builder)?;
    if lines.events == 0 {
        return Err(explain_no_events(line_number).into());
    }
    if lines.coarse {
        builder.metadata_mut().add_or_count_warning("coarse-clock", || {
            "the text gives times in whole microseconds only, and idle periods are no more precise. \
             trace-cmd report -t and perf script --ns give them to the nanosecond"
                .to_owned()
        });
    }
    Ok(())
}

/// Most pieces into which the longest event's line may be broken.
const MOST_PIECES: usize = 4;

/// What the lines read so far leave open: a broken line, lost events.
#[derive(Default)]
struct LineJoiner {
    events: u64,
    /// Whether some times are printed coarser than nanoseconds.
    coarse: bool,
    /// Notes about lost events, which count before the next event on their CPU.
    lost: Vec<(u32, Option<u64>)>,
    /// Start of an event whose line may be broken, held until the rest comes.
    open: Option<OpenLine>,
    /// Whether the line before was an event, which may go on in the next line.
    after_event: bool,
}

/// Start of a broken line, as far as joined again.
struct OpenLine {
    text: String,
    line_number: u64,
    pieces: usize,
}

impl LineJoiner {
    fn add_event_or_hold_line(
        &mut self,
        text: &str,
        line_number: u64,
        builder: &mut RecordingBuilder<'_>,
    ) -> Result<(), ImportProblem> {
        if let Some(note) = parse_cpu_and_lost_count(text) {
            self.add_or_drop_held_line(builder)?;
            self.lost.push(note);
            return Ok(());
        }
        match parse_event_line(text) {
            Some(line) => {
                self.add_or_drop_held_line(builder)?;
                let decoded = DecodedLine::decode(&line);
                if decoded.is_whole {
                    self.after_event = true;
                    return self.add_losses_then_event(&line, decoded, line_number, builder);
                }
                self.hold_incomplete_line(text, line_number);
                Ok(())
            }
            None if is_heading_or_stack_line(text) => Ok(()),
            None => self.join_to_held_line_or_warn(text, line_number, builder),
        }
    }

    fn hold_incomplete_line(&mut self, text: &str, line_number: u64) {
        self.after_event = false;
        self.open = Some(OpenLine {
            text: text.trim_end().to_owned(),
            line_number,
            pieces: 1,
        });
    }

    /// Handles a line that is no event by itself: joins it to the broken line before, or gives that up.
    fn join_to_held_line_or_warn(
        &mut self,
        text: &str,
        line_number: u64,
        builder: &mut RecordingBuilder<'_>,
    ) -> Result<(), ImportProblem> {
        if let Some(mut open) = self.open.take() {
            let joined = format!("{} {}", open.text, text.trim());
            let whole = parse_event_line(&joined).map(|line| (line, DecodedLine::decode(&line)));
            if let Some((line, decoded)) = whole.filter(|(_, decoded)| decoded.is_whole) {
                builder
                    .metadata_mut()
                    .add_or_count_warning("broken-lines", broken_lines_warning_text);
                self.after_event = true;
                return self.add_losses_then_event(&line, decoded, open.line_number, builder);
            }
            if open.pieces < MOST_PIECES {
                open.text = joined;
                open.pieces += 1;
                self.open = Some(open);
                return Ok(());
            }
            self.open = Some(open);
            self.add_or_drop_held_line(builder)?;
        }
        if has_cpu_in_brackets(text) {
            self.hold_incomplete_line(text, line_number);
        } else if self.after_event && text.split_whitespace().all(|word| word.contains('=')) {
            // The rest of an event that was complete without the rest.
            builder
                .metadata_mut()
                .add_or_count_warning("broken-lines", broken_lines_warning_text);
        } else {
            self.after_event = false;
            warn_of_unknown_line(text, line_number, builder);
        }
        Ok(())
    }

    /// Gives up a broken line whose rest did not come, and warns.
    fn add_or_drop_held_line(
        &mut self,
        builder: &mut RecordingBuilder<'_>,
    ) -> Result<(), ImportProblem> {
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let Some(line) = parse_event_line(&open.text) else {
            warn_of_unknown_line(&open.text, open.line_number, builder);
            return Ok(());
        };
        // An idle event without `cpu_id` is about the CPU that traced it: a CPU traces its own idle states.
        let with_cpu = format!("{} cpu_id={}", open.text, line.cpu);
        let whole = parse_event_line(&with_cpu).map(|line| (line, DecodedLine::decode(&line)));
        let (line, decoded) = whole
            .filter(|(line, decoded)| {
                line.event_name_without_subsystem() == "cpu_idle" && decoded.is_whole
            })
            .unwrap_or_else(|| (line, DecodedLine::decode(&line)));
        self.add_losses_then_event(&line, decoded, open.line_number, builder)
    }

    fn add_losses_then_event(
        &mut self,
        line: &EventLine<'_>,
        decoded: DecodedLine,
        line_number: u64,
        builder: &mut RecordingBuilder<'_>,
    ) -> Result<(), ImportProblem> {
        self.events += 1;
        self.coarse |= line.digits < 9;
        while let Some(at) = self.lost.iter().position(|(cpu, _)| *cpu == line.cpu) {
            let (cpu, count) = self.lost.swap_remove(at);
            builder.note_lost_events(line.time, cpu, count)?;
        }
        count_and_add_line(line, decoded, line_number, builder)
    }
}

/// A decoded line.
#[derive(Clone, Copy)]
struct DecodedLine {
    /// Whether no field of the event is missing.
    is_whole: bool,
    /// The decoded event; `None` if recordings do not need the event, or a field is missing.
    what: Option<TraceEvent>,
}

impl DecodedLine {
    fn decode(line: &EventLine<'_>) -> Self {
        let known = decode::find_known_event(line.event_name_without_subsystem());
        let what = known.and_then(|known| decode_known_event(known, line));
        Self {
            is_whole: known.is_none() || what.is_some(),
            what,
        }
    }
}

fn broken_lines_warning_text() -> String {
    "lines were broken at a space, as mail programs do, and are joined".to_owned()
}

/// Whether a line may start an event, with a CPU in brackets.
fn has_cpu_in_brackets(text: &str) -> bool {
    text.match_indices('[').any(|(open, _)| {
        let cpu = text[open + 1..].split(']').next().unwrap_or_default();
        !cpu.is_empty() && cpu.bytes().all(|b| b.is_ascii_digit())
    })
}

/// Reads a line of text, cut at [`LONGEST_LINE`] bytes.
trait TakeLine {
    fn read_line_up_to_limit(self, line: &mut Vec<u8>) -> std::io::Result<usize>;
}

impl<R: BufRead> TakeLine for R {
    fn read_line_up_to_limit(self, line: &mut Vec<u8>) -> std::io::Result<usize> {
        self.take(LONGEST_LINE as u64 + 1).read_until(b'\n', line)
    }
}

fn explain_no_events(lines: u64) -> String {
    format!(
        "no trace event in {lines} lines; expected a trace.dat, a perf.data, or the text of trace-cmd \
         report, perf script or tracefs's trace file. Its lines have a CPU in brackets and a time in seconds. \
         perf script -F needs cpu and time; trace-cmd report must have neither -l nor --raw-ts. \
         Times without a point are cycles, of a recording with -C x86-tsc: record with -C mono, or report with --ts2secs HZ. \
         LineJoiner without brackets are ftrace's latency format: write nolatency-format to tracefs's trace_options before reading"
    )
}

/// Whether a line is a heading or a part of a stack trace.
fn is_heading_or_stack_line(text: &str) -> bool {
    let trimmed = text.trim();
    trimmed.is_empty()
        || trimmed.starts_with(['#', '='])
        || trimmed.starts_with("cpus=")
        || trimmed.starts_with("version =")
        || trimmed.starts_with("CPU ")
        || text.starts_with(['\t', ' ']) && !text.contains(['[', '='])
}

/// Warns about a line without an event.
fn warn_of_unknown_line(text: &str, line_number: u64, builder: &mut RecordingBuilder<'_>) {
    builder
        .metadata_mut()
        .add_or_count_warning("unknown-lines", || {
            let start: String = text.trim().chars().take(60).collect();
            format!("line {line_number} is no event: {start}")
        });
}

fn count_and_add_line(
    line: &EventLine<'_>,
    decoded: DecodedLine,
    line_number: u64,
    builder: &mut RecordingBuilder<'_>,
) -> Result<(), ImportProblem> {
    let name = line.event_name_without_subsystem();
    let count = builder.counter_index_or_new(name);
    if !decoded.is_whole {
        builder
            .metadata_mut()
            .add_or_count_warning("damaged-event", || {
                format!("line {line_number}: {name} lacks a field")
            });
    }
    builder.count_and_add_event(line.time, line.cpu, count, decoded.what)
}

/// Decodes a known event; `None` if a field is missing.
fn decode_known_event(known: &decode::KnownEvent, line: &EventLine<'_>) -> Option<TraceEvent> {
    let details = NamedFields {
        text: line.details,
        names: known.fields,
    };
    decode_event_without_field_names(known.event, line.details)
        .or_else(|| decode::decode_event(known.event, &details))
}

/// `CPU:3 [LOST 17 EVENTS]` in tracefs, `CPU:3 [17 EVENTS DROPPED]` or, with an unknown number, `CPU:3 [EVENTS
/// DROPPED]` in trace-cmd.
fn parse_cpu_and_lost_count(text: &str) -> Option<(u32, Option<u64>)> {
    let (cpu, note) = text.trim().strip_prefix("CPU:")?.split_once(" [")?;
    let cpu = cpu.parse().ok()?;
    let note = note.strip_suffix(']')?;
    let count = note
        .strip_suffix("EVENTS DROPPED")
        .or_else(|| note.strip_prefix("LOST ")?.strip_suffix(" EVENTS"))?
        .trim();
    Some((cpu, count.parse().ok()))
}

/// Takes a line of text to pieces; `None` if the line is no trace event.
fn parse_event_line(text: &str) -> Option<EventLine<'_>> {
    // The CPU's brackets have a number inside and a time behind; a task's name may have brackets as well.
    let mut from = 0;
    while let Some(open) = text[from..].find('[') {
        let open = from + open;
        from = open + 1;
        let Some((cpu, rest)) = text[from..].split_once(']') else {
            break;
        };
        if cpu.is_empty() || !cpu.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        // Flags may stand before the time.
        let mut rest = rest;
        for _ in 0..2 {
            rest = rest.trim_start();
            let (word, after) = rest.split_once(|c: char| c.is_whitespace())?;
            let time = word.strip_suffix(':').and_then(parse_time_and_decimals);
            let Some((time, digits)) = time else {
                rest = after;
                continue;
            };
            let (name, details) = split_event_name_and_details(after.trim_start())?;
            return Some(EventLine {
                cpu: cpu.parse().ok()?,
                time,
                digits,
                name,
                details,
            });
        }
    }
    None
}

/// Splits `cpu_idle: state=1` into name and details, also with perf's period in front: `1 power:cpu_idle: state=1`.
fn split_event_name_and_details(text: &str) -> Option<(&str, &str)> {
    let text = match text.split_once(char::is_whitespace) {
        Some((period, rest)) if period.bytes().all(|b| b.is_ascii_digit()) => rest.trim_start(),
        _ => text,
    };
    // Mail programs and editors make tabs of blanks.
    let end = text
        .match_indices(':')
        .find(|(at, _)| text[at + 1..].starts_with([' ', '\t']))
        .map(|(at, _)| at)
        .or_else(|| text.trim_end().strip_suffix(':').map(str::len))?;
    let name = &text[..end];
    let details = text.get(end + 1..).unwrap_or("").trim();
    let is_plain = name
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b"_:-.".contains(&b));
    (!name.is_empty() && is_plain).then_some((name, details))
}

/// Parses a time such as `2084.021443` as nanoseconds; also returns the number of decimals. Some locales print a comma.
fn parse_time_and_decimals(text: &str) -> Option<(u64, usize)> {
    let (seconds, fraction) = text.split_once(['.', ','])?;
    if !is_all_digits(seconds) || !is_all_digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u64.pow(9 - fraction.len() as u32);
    let fraction_ns = fraction.parse::<u64>().ok()? * scale;
    let seconds: u64 = seconds.parse().ok()?;
    let time = seconds
        .checked_mul(1_000_000_000)?
        .checked_add(fraction_ns)?;
    Some((time, fraction.len()))
}

/// Whether the text consists of decimal digits.
fn is_all_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())
}

/// Decodes events that are not printed as `name=value`.
fn decode_event_without_field_names(event: KernelEvent, details: &str) -> Option<TraceEvent> {
    match event {
        KernelEvent::Switch => parse_task_switch(details),
        KernelEvent::BlockIssue | KernelEvent::BlockComplete => {
            let (block, _) = parse_block_and_background(details)?;
            Some(TraceEvent::Block {
                complete: event == KernelEvent::BlockComplete,
                block,
            })
        }
        KernelEvent::BioQueue
        | KernelEvent::GetRequest
        | KernelEvent::RequestInsert
        | KernelEvent::RequestMerge => {
            let (block, background) = parse_block_and_background(details)?;
            let (_, letters) = parse_device_and_letters(details)?;
            let durability = decode::durability_from_letters(letters);
            let step = decode::queueing_step_for_block(event, block, durability);
            Some(TraceEvent::Queueing { step, background })
        }
        KernelEvent::BioRemap => parse_bio_remap(details),
        KernelEvent::BioSplit => parse_bio_split(details),
        KernelEvent::Waking | KernelEvent::Wakeup => parse_wake_up(event, details),
        KernelEvent::Hotplug => parse_hotplug_step(details),
        _ => None,
    }
}

/// Parses trace-cmd's form of a task switch: `fio:812 [120] D ==> swapper/2:0 [120]`.
fn parse_task_switch(details: &str) -> Option<TraceEvent> {
    let (before, after) = details.split_once(" ==> ")?;
    let (previous, _, rest) = split_pid_name_and_rest(before)?;
    let state = rest.split_once("] ").map_or("", |(_, state)| state);
    let (next, name, _) = split_pid_name_and_rest(after)?;
    Some(TraceEvent::Switch {
        previous,
        blocked: state_letter_means_blocked(state),
        next,
        next_name: ShortName::from_bytes_cut_to_16(name.as_bytes()),
    })
}

/// Splits `fio:812 [120] D` into the task's number, its name, and the text behind the bracket.
fn split_pid_name_and_rest(text: &str) -> Option<(u32, &str, &str)> {
    let (task, rest) = text.rsplit_once(" [")?;
    let (name, number) = task.rsplit_once(':')?;
    Some((number.parse().ok()?, name.trim(), rest))
}

/// Whether a task's state is the letter for an uninterruptible sleep.
fn state_letter_means_blocked(state: &str) -> bool {
    state.trim().starts_with('D')
}

/// Parses trace-cmd's form of a wake-up: `fio:812 [120] CPU:002`, in between perhaps `success=1`.
fn parse_wake_up(event: KernelEvent, details: &str) -> Option<TraceEvent> {
    let (before, target) = details.rsplit_once("CPU:")?;
    let (name, _) = before.split_once(" [")?;
    let (_, pid) = name.rsplit_once(':')?;
    Some(TraceEvent::Wake {
        pid: pid.parse().ok()?,
        target: target.trim().parse().ok()?,
        waking: event == KernelEvent::Waking,
    })
}

/// Parses a block request: `259,0 R 4096 () 123456 + 8 [fio]` or `259,0 R () 123456 + 8 [0]`, and for bios `259,0 R
/// 123456 + 8 [fio]`.
fn parse_block_and_background(details: &str) -> Option<(Block, bool)> {
    let (device, letters) = parse_device_and_letters(details)?;
    let (before, after) = details.rsplit_once(" + ")?;
    let sectors: u32 = after.split(' ').next()?.parse().ok()?;
    let block = Block {
        device,
        sector: before.rsplit(' ').next()?.parse().ok()?,
        bytes: sectors.saturating_mul(512),
        write: decode::letters_mean_write(letters),
    };
    Some((block, decode::letters_mean_background(letters)))
}

fn parse_device_and_letters(details: &str) -> Option<(u32, &[u8])> {
    let mut words = details.split_whitespace();
    let device = parse_device_number(words.next()?)?;
    Some((device, words.next()?.as_bytes()))
}

/// `259,0`
fn parse_device_number(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(',')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(major.checked_shl(20)? | minor)
}

/// `259,0 R 123456 + 8 <- (259,1) 121408`
fn parse_bio_remap(details: &str) -> Option<TraceEvent> {
    let (below, above) = details.split_once(" <- (")?;
    let (block, background) = parse_block_and_background(below)?;
    let (from, sector) = above.split_once(") ")?;
    let step = QueueStep::Remapped {
        block,
        from_device: parse_device_number(from)?,
        from_sector: sector.trim().parse().ok()?,
    };
    Some(TraceEvent::Queueing { step, background })
}

/// `259,0 R 123456 / 123712 [fio]`
fn parse_bio_split(details: &str) -> Option<TraceEvent> {
    let (device, letters) = parse_device_and_letters(details)?;
    let (before, after) = details.rsplit_once(" / ")?;
    let sector = before.rsplit(' ').next()?.parse().ok()?;
    let at = after.split(' ').next()?.parse().ok()?;
    Some(TraceEvent::Queueing {
        step: decode::queueing_step_for_split(
            device,
            sector,
            at,
            decode::letters_mean_write(letters),
        ),
        background: decode::letters_mean_background(letters),
    })
}

/// `cpu: 0001 target: 237 step: ...`
fn parse_hotplug_step(details: &str) -> Option<TraceEvent> {
    let target = find_number_after(details, "target:")?;
    let step = find_number_after(details, "step:")?;
    Some(TraceEvent::Hotplug {
        cpu: u32::try_from(find_number_after(details, "cpu:")?).ok()?,
        online: decode::is_step_of_coming_online(target, step),
    })
}

/// The number behind the text `key`.
fn find_number_after(details: &str, key: &str) -> Option<i64> {
    let (_, rest) = details.split_once(key)?;
    rest.split_whitespace().next()?.parse().ok()
}

/// `name=value` pairs.
struct NamedFields<'a> {
    text: &'a str,
    names: &'static [&'static str],
}

impl NamedFields<'_> {
    fn find_field_value(&self, field: usize) -> Option<&str> {
        let name = self.names.get(field)?;
        let mut from = 0;
        loop {
            let at = from + self.text.get(from..)?.find(name)?;
            from = at + name.len();
            let starts = at == 0 || matches!(self.text.as_bytes()[at - 1], b' ' | b'[');
            if let Some(rest) = self.text[from..].strip_prefix('=').filter(|_| starts) {
                let value = rest.trim_start();
                return Some(value.split([' ', ',', ']']).next().unwrap_or(value));
            }
        }
    }
}

impl EventFields for NamedFields<'_> {
    fn field_number(&self, field: usize) -> Option<u64> {
        let text = self.find_field_value(field)?;
        if let Some(hex) = text.strip_prefix("0x") {
            return u64::from_str_radix(hex, 16).ok();
        }
        let decimal = text
            .parse::<i64>()
            .map(|n| n as u64)
            .or(text.parse::<u64>());
        if let Ok(number) = decimal
            // Pointers are printed in hexadecimal without a leading `0x`.
            && !matches!(self.names[field], "hrtimer" | "timer")
        {
            return Some(number);
        }
        match self.names[field] {
            "hrtimer" | "timer" => u64::from_str_radix(text, 16).ok(),
            "prev_state" => Some(if state_letter_means_blocked(text) {
                2
            } else {
                0
            }),
            _ => None,
        }
    }

    fn field_text(&self, field: usize) -> Option<&[u8]> {
        self.find_field_value(field).map(str::as_bytes)
    }

    fn timer_function_in_field(&self, field: usize) -> TimerFunction {
        let Some(value) = self.find_field_value(field) else {
            return TimerFunction::Other;
        };
        // Without the kernel's symbols, perf script prints a function's address; trace-cmd appends the offset `+0x0`.
        let number = value.strip_suffix("/0x0").unwrap_or(value);
        match number
            .strip_prefix("0x")
            .map(|hex| u64::from_str_radix(hex, 16))
        {
            Some(Ok(address)) => TimerFunction::Address(address),
            _ => TimerFunction::tick_or_other_from_symbol(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::{Durability, Interrupt};

    #[test]
    fn lines_of_each_tool_are_taken_to_pieces() {
        for (text, cpu, time, name, details) in [
            (
                "          <idle>-0     [002]  2084.021443: cpu_idle:             state=4294967295 cpu_id=2",
                2,
                2_084_021_443_000,
                "cpu_idle",
                "state=4294967295 cpu_id=2",
            ),
            (
                "         swapper     0 [009] 328983.692207751: power:cpu_idle: state=1 cpu_id=9",
                9,
                328_983_692_207_751,
                "power:cpu_idle",
                "state=1 cpu_id=9",
            ),
            (
                "  odd [1] name-17      [003] d..2.  5023.111: hrtimer_cancel: hrtimer=00000000d4c5a5b2",
                3,
                5_023_111_000_000,
                "hrtimer_cancel",
                "hrtimer=00000000d4c5a5b2",
            ),
            (
                "\t<idle>-0\t[002] d..1. 2084.021443:\tcpu_idle:\tstate=1 cpu_id=2",
                2,
                2_084_021_443_000,
                "cpu_idle",
                "state=1 cpu_id=2",
            ),
            (
                "  <idle>-0 [002] 2084,021443: cpu_idle: state=1 cpu_id=2",
                2,
                2_084_021_443_000,
                "cpu_idle",
                "state=1 cpu_id=2",
            ),
            (
                "fio 81/82 [010] 1.000000001:          1 sched:sched_waking: comm=a pid=5 target_cpu=3",
                10,
                1_000_000_001,
                "sched:sched_waking",
                "comm=a pid=5 target_cpu=3",
            ),
        ] {
            let line = parse_event_line(text).unwrap();
            assert_eq!(
                (line.cpu, line.time, line.name, line.details),
                (cpu, time, name, details)
            );
        }
    }

    #[test]
    fn headings_and_stacks_are_no_events() {
        for text in [
            "",
            "cpus=6",
            "# tracer: nop",
            "\t ffff81 do_idle+0x1",
            "a [b] c: d",
        ] {
            assert_eq!(parse_event_line(text), None, "{text}");
        }
    }

    fn decode_known_event(name: &str, details: &str) -> Option<TraceEvent> {
        let line = EventLine {
            cpu: 0,
            time: 0,
            digits: 9,
            name,
            details,
        };
        super::decode_known_event(decode::find_known_event(name).unwrap(), &line)
    }

    #[test]
    fn both_ways_to_print_a_switch_are_one() {
        let expected = Some(TraceEvent::Switch {
            previous: 812,
            blocked: true,
            next: 0,
            next_name: ShortName::from_bytes_cut_to_16(b"swapper/2"),
        });
        for details in [
            "fio:812 [120] D ==> swapper/2:0 [120]",
            "prev_comm=fio prev_pid=812 prev_prio=120 prev_state=D ==> next_comm=swapper/2 next_pid=0 next_prio=120",
        ] {
            assert_eq!(
                decode_known_event("sched_switch", details),
                expected,
                "{details}"
            );
        }
    }

    #[test]
    fn events_in_words_have_their_numbers() {
        let block = Block {
            device: 259 << 20,
            sector: 1234,
            bytes: 4096,
            write: true,
        };
        assert_eq!(
            decode_known_event("block_rq_complete", "259,0 FWS () 1234 + 8 [0]"),
            Some(TraceEvent::Block {
                complete: true,
                block
            })
        );
        assert_eq!(
            decode_known_event("sched_waking", "fio:812 [120] CPU:002"),
            Some(TraceEvent::Wake {
                pid: 812,
                target: 2,
                waking: true
            })
        );
        assert_eq!(
            decode_known_event(
                "hrtimer_start",
                "hrtimer=0xffff8881 function=tick_sched_timer expires=5000 softexpires=5000 mode=ABS"
            ),
            Some(TraceEvent::TimerStart {
                timer: 0xffff_8881,
                expires: 5000,
                function: TimerFunction::Tick
            })
        );
        assert_eq!(
            decode_known_event(
                "timer_start",
                "timer=00d4 function=f expires=4294 [timeout=12] cpu=0"
            ),
            Some(TraceEvent::WheelStart {
                timer: 0xd4,
                // Due in 12 ticks, so the wheel looks in the next tick.
                ticks: Some(13),
            })
        );
        for (details, online) in [
            ("cpu: 0001 target:   0 step: 191 (x)", false),
            ("cpu: 0001 target:  86 step: 191 (x)", false),
            ("cpu: 0001 target: 238 step:   1 (x)", true),
            ("cpu: 0001 target: 238 step: 238 (x)", true),
        ] {
            assert_eq!(
                decode_known_event("cpuhp_enter", details),
                Some(TraceEvent::Hotplug { cpu: 1, online })
            );
        }
        assert_eq!(decode_known_event("cpu_idle", "state=1"), None);
    }

    #[test]
    fn steps_before_the_issue_are_read_as_the_kernel_prints_them() {
        for (name, details, step, background) in printed_steps() {
            let expected = Some(TraceEvent::Queueing { step, background });
            assert_eq!(
                decode_known_event(name, details),
                expected,
                "{name}: {details}"
            );
        }
        for cut in [
            "259,0 R 1234 + ",
            "259,0",
            "x R 1 + 8",
            "259,0 R 1234 <- (259,1",
        ] {
            assert_eq!(decode_known_event("block_bio_remap", cut), None, "{cut}");
            assert_eq!(decode_known_event("block_bio_queue", cut), None, "{cut}");
        }
    }

    /// Names and details of events as printed, with the expected step and whether nobody waits.
    fn printed_steps() -> [(&'static str, &'static str, QueueStep, bool); 7] {
        let block = Block {
            device: 259 << 20,
            sector: 1234,
            bytes: 4096,
            write: false,
        };
        let queued = QueueStep::Queued {
            block,
            task: None,
            background: false,
            durability: Durability::default(),
        };
        let remapped = QueueStep::Remapped {
            block,
            from_device: 259 << 20 | 1,
            from_sector: 210,
        };
        [
            ("block_bio_queue", "259,0 R 1234 + 8 [fio]", queued, false),
            ("block_bio_queue", "259,0 RA 1234 + 8 [fio]", queued, true),
            (
                "block_getrq",
                "259,0 R 1234 + 8 [fio]",
                QueueStep::Tagged(block),
                false,
            ),
            (
                "block_rq_insert",
                "259,0 R 4096 () 1234 + 8 be,0,4 [fio]",
                QueueStep::Inserted(block),
                false,
            ),
            (
                "block_bio_remap",
                "259,0 R 1234 + 8 <- (259,1) 210",
                remapped,
                false,
            ),
            (
                "block_split",
                "259,0 R 1234 / 1242 [fio]",
                QueueStep::Split { block, at: 1242 },
                false,
            ),
            (
                "block_split",
                "259,0 R 4294967292 / 4 [fio]",
                QueueStep::Split {
                    block: Block {
                        sector: (1 << 32) - 4,
                        ..block
                    },
                    at: (1 << 32) + 4,
                },
                false,
            ),
        ]
    }

    #[test]
    fn interrupts_are_read_as_the_kernel_prints_them() {
        assert_eq!(
            decode_known_event("irq_handler_entry", "irq=36 name=nvme0q1"),
            Some(TraceEvent::DeviceInterrupt {
                irq: 36,
                name: ShortName::from_bytes_cut_to_16(b"nvme0q1")
            })
        );
        assert_eq!(
            decode_known_event("softirq_entry", "vec=4 [action=BLOCK]"),
            Some(TraceEvent::Interrupt(Interrupt::BlockSoftirq))
        );
        assert_eq!(
            decode_known_event("softirq_entry", "vec=1 [action=TIMER]"),
            Some(TraceEvent::OtherSoftirq)
        );
        assert_eq!(
            decode_known_event("ipi_send_cpu", "cpu=3 callsite=native_smp+0x1 callback=0x0"),
            Some(TraceEvent::Interrupt(Interrupt::Sent { target: 3 }))
        );
    }

    #[test]
    fn lost_events_are_noted() {
        assert_eq!(
            parse_cpu_and_lost_count("CPU:3 [LOST 17 EVENTS]\n"),
            Some((3, Some(17)))
        );
        assert_eq!(
            parse_cpu_and_lost_count("CPU:3 [17 EVENTS DROPPED]"),
            Some((3, Some(17)))
        );
        assert_eq!(
            parse_cpu_and_lost_count("CPU:3 [EVENTS DROPPED]"),
            Some((3, None))
        );
        assert_eq!(parse_cpu_and_lost_count("CPU 0 is empty"), None);
    }
}
