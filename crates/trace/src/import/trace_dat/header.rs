//! Everything in a `trace.dat` but the events.

use std::ops::Range;

use wakepath_units::cpus::MAX_CPUS;

use super::cursor::FileCursor;
use super::unpack::unpack_zstd;
use crate::file_kind::TRACE_DAT_MAGIC;
use crate::import::ReadAt;
use crate::import::formats::{EventFormats, decode_unsigned};

/// A file's description.
pub(super) struct TraceDatHeader {
    pub(super) version: u32,
    pub(super) formats: EventFormats,
    pub(super) compressed: bool,
    pub(super) page_size: u32,
    /// Size of the traced kernel's `long` in bytes.
    pub(super) long_size: usize,
    pub(super) clock: Option<String>,
    pub(super) uname: Option<String>,
    /// Multiplier, shift and offset from time stamps to nanoseconds.
    pub(super) tsc: Option<(u32, u32, u64)>,
    /// Nanoseconds to be added to each time stamp, after conversion.
    pub(super) offset: i64,
    pub(super) cpu_count: u32,
    pub(super) overruns: u64,
    pub(super) other_buffers: u32,
    pub(super) cpus: Vec<CpuData>,
}

/// Where the events of a CPU are in the file.
#[derive(Clone, Copy, Debug)]
pub(super) struct CpuData {
    pub(super) cpu: u32,
    pub(super) offset: u64,
    pub(super) size: u64,
}

const OPTION_DONE: u16 = 0;
const OPTION_CPUSTAT: u16 = 2;
const OPTION_BUFFER: u16 = 3;
const OPTION_CLOCK: u16 = 4;
const OPTION_UNAME: u16 = 5;
const OPTION_OFFSET: u16 = 7;
const OPTION_CPUS: u16 = 8;
const OPTION_TSC: u16 = 14;
const OPTION_HEADER: u16 = 16;
const OPTION_FTRACE: u16 = 17;
const OPTION_EVENTS: u16 = 18;
const OPTION_SYMBOLS: u16 = 19;
const OPTION_BUFFER_TEXT: u16 = 22;

/// Limit on sections with options: a file with more has links that go round in circles.
const MAX_SECTIONS: usize = 1000;

const LATENCY: &str = "made by a latency tracer, as text; record events: trace-cmd record -e \
                       power:cpu_idle ...";

pub(super) fn read_trace_dat_header(input: &dyn ReadAt) -> Result<TraceDatHeader, String> {
    let (mut header, mut at, version) = read_header_start_and_version(input)?;
    header.version = match version.as_str() {
        "6" => 6,
        "7" => 7,
        other => {
            return Err(format!(
                "version '{}' of trace.dat; versions 6 and 7 can be read",
                other.chars().take(20).collect::<String>()
            ));
        }
    };
    if header.version == 6 {
        header.read_rest_of_version_6(&mut at)?;
    } else {
        header.read_rest_of_version_7(input, &mut at)?;
    }
    if !matches!(header.long_size, 4 | 8) {
        return Err(format!(
            "damaged: numbers of {} bytes for the kernel's long; expected 4 or 8",
            header.long_size
        ));
    }
    Ok(header)
}

/// Event formats in a perf.data, whatever version the file gives.
pub(super) fn read_formats_of_any_version(input: &dyn ReadAt) -> Result<EventFormats, String> {
    let (mut header, mut at, _) = read_header_start_and_version(input)?;
    header.read_long_size_from_page_layout(&mut at)?;
    header.add_event_formats(&mut at)?;
    header.add_formats_of_subsystems(&mut at)?;
    header.add_tick_handler_symbols(&mut at)?;
    Ok(header.formats)
}

/// Reads what all versions begin with. Returns the header so far, the position behind it, and the version.
fn read_header_start_and_version(
    input: &dyn ReadAt,
) -> Result<(TraceDatHeader, FileCursor<'_>, String), String> {
    let mut at = FileCursor::new(input, 0, false);
    at.take_expected(TRACE_DAT_MAGIC, "the start of a trace.dat")?;
    let version = at.take_zero_ended_text("the version")?;
    let [endian, long_size] = at.take_bytes(2, "the byte order")?[..] else {
        return Err("cut off after its version".to_owned());
    };
    at.big_endian = endian != 0;
    let page_size = at.take_u32("the page size")?;
    check_page_size(page_size)?;
    let header = TraceDatHeader {
        version: 0,
        formats: EventFormats::new(at.big_endian),
        compressed: false,
        page_size,
        long_size: usize::from(long_size),
        clock: None,
        uname: None,
        tsc: None,
        offset: 0,
        cpu_count: 0,
        overruns: 0,
        other_buffers: 0,
        cpus: Vec::new(),
    };
    Ok((header, at, version))
}

fn check_page_size(size: u32) -> Result<(), String> {
    if (64..=16 << 20).contains(&size) {
        Ok(())
    } else {
        Err(format!("damaged: pages of {size} bytes"))
    }
}

impl TraceDatHeader {
    fn read_rest_of_version_6(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        self.read_long_size_from_page_layout(at)?;
        self.add_event_formats(at)?;
        self.add_formats_of_subsystems(at)?;
        self.add_tick_handler_symbols(at)?;
        let size = at.take_u32("the trace_printk formats")?;
        at.take_bytes(u64::from(size), "the trace_printk formats")?;
        at.take_block_after_u64_size("the command lines")?;
        self.cpu_count = check_cpu_count(at.take_u32("the number of CPUs")?)?;
        let mut section = at.take_bytes(10, "the next section")?;
        if section == b"options  \0" {
            loop {
                let id = at.take_u16("an option")?;
                if id == OPTION_DONE {
                    break;
                }
                let size = at.take_u32("an option's size")?;
                let data = at.take_bytes(u64::from(size), "an option")?;
                self.apply_option(id, &data)?;
                self.other_buffers += u32::from(id == OPTION_BUFFER);
            }
            section = at.take_bytes(10, "the next section")?;
        }
        if section == b"latency  \0" {
            return Err(LATENCY.to_owned());
        }
        if section != b"flyrecord\0" {
            return Err(format!(
                "damaged: expected the events at byte {}, found {}",
                at.offset - 10,
                section.escape_ascii()
            ));
        }
        for cpu in 0..self.cpu_count {
            self.cpus.push(CpuData {
                cpu,
                offset: at.take_u64("where a CPU's events are")?,
                size: at.take_u64("the size of a CPU's events")?,
            });
        }
        Ok(())
    }

    fn read_rest_of_version_7(
        &mut self,
        input: &dyn ReadAt,
        at: &mut FileCursor<'_>,
    ) -> Result<(), String> {
        let compression = at.take_zero_ended_text("the compression")?;
        at.take_zero_ended_text("the compression's version")?;
        self.compressed = match compression.as_str() {
            "none" => false,
            "zstd" => true,
            other => {
                return Err(format!(
                    "compressed with {other}; zstd can be read: trace-cmd convert --compression zstd \
                     (or none) -i FILE -o OTHER"
                ));
            }
        };
        let mut next = at.take_u64("where the options are")?;
        for _ in 0..MAX_SECTIONS {
            if next == 0 {
                return Ok(());
            }
            next = self.read_options_and_next_offset(input, next)?;
        }
        Err("damaged: its options refer to each other without end".to_owned())
    }

    /// Reads an options section; returns the offset of the next one.
    fn read_options_and_next_offset(
        &mut self,
        input: &dyn ReadAt,
        offset: u64,
    ) -> Result<u64, String> {
        let section = self.read_section_decompressed(input, offset, 0, "the options")?;
        let data = section.as_slice();
        let mut at = self.cursor_in_file_byte_order(&data);
        loop {
            let id = at.take_u16("an option")?;
            let size = at.take_u32("an option's size")?;
            let option = at.take_bytes(u64::from(size), "an option")?;
            let bytes = option.as_slice();
            let mut inside = self.cursor_in_file_byte_order(&bytes);
            match id {
                OPTION_DONE => return inside.take_u64("where a section is"),
                OPTION_HEADER => {
                    let data =
                        self.read_section_at_option(input, &mut inside, id, "the page header")?;
                    self.read_long_size_from_page_layout(
                        &mut self.cursor_in_file_byte_order(&data.as_slice()),
                    )?;
                }
                OPTION_FTRACE => {
                    let data =
                        self.read_section_at_option(input, &mut inside, id, "ftrace's events")?;
                    self.add_event_formats(&mut self.cursor_in_file_byte_order(&data.as_slice()))?;
                }
                OPTION_EVENTS => {
                    let data =
                        self.read_section_at_option(input, &mut inside, id, "the events' formats")?;
                    self.add_formats_of_subsystems(
                        &mut self.cursor_in_file_byte_order(&data.as_slice()),
                    )?;
                }
                OPTION_SYMBOLS => {
                    let data =
                        self.read_section_at_option(input, &mut inside, id, "the symbols")?;
                    self.add_tick_handler_symbols(
                        &mut self.cursor_in_file_byte_order(&data.as_slice()),
                    )?;
                }
                OPTION_BUFFER => self.add_events_of_main_buffer(&mut inside)?,
                OPTION_BUFFER_TEXT => return Err(LATENCY.to_owned()),
                _ => self.apply_option(id, bytes)?,
            }
        }
    }

    /// A cursor at the start of some bytes, in the file's byte order.
    fn cursor_in_file_byte_order<'a>(&self, data: &'a dyn ReadAt) -> FileCursor<'a> {
        FileCursor::new(data, 0, self.formats.big_endian)
    }

    /// Content of a section in version 7 whose place an option gives.
    fn read_section_at_option(
        &self,
        input: &dyn ReadAt,
        option: &mut FileCursor<'_>,
        expected: u16,
        part_name: &str,
    ) -> Result<Vec<u8>, String> {
        let place = option.take_u64("where a section is")?;
        self.read_section_decompressed(input, place, expected, part_name)
    }

    /// Reads the content of a section in version 7, decompressed.
    fn read_section_decompressed(
        &self,
        input: &dyn ReadAt,
        offset: u64,
        expected: u16,
        part_name: &str,
    ) -> Result<Vec<u8>, String> {
        let mut at = FileCursor::new(input, offset, self.formats.big_endian);
        let id = at.take_u16(part_name)?;
        if id != expected {
            return Err(format!(
                "damaged: expected {part_name} at byte {offset}, found a section of kind {id}"
            ));
        }
        let compressed = at.take_u16(part_name)? & 1 != 0;
        at.take_u32(part_name)?;
        let size = at.take_u64(part_name)?;
        if !compressed {
            return at.take_bytes(size, part_name);
        }
        let packed = at.take_u32(part_name)?;
        let unpacked = at.take_u32(part_name)?;
        let bytes = at.take_bytes(u64::from(packed), part_name)?;
        unpack_zstd(&bytes, unpacked, part_name)
    }

    fn read_long_size_from_page_layout(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        at.take_expected(b"header_page\0", "header_page")?;
        let bytes = at.take_block_after_u64_size("header_page")?;
        // The kernel's `long` may be longer than the one in user space, whose size the file's start gives.
        let page = String::from_utf8_lossy(&bytes);
        let commit = page.lines().find(|line| line.contains(" commit;"));
        let size = commit
            .and_then(|line| line.split("size:").nth(1))
            .and_then(|rest| rest.split(';').next())
            .and_then(|size| size.parse().ok());
        if let Some(size) = size {
            self.long_size = size;
        }
        at.take_expected(b"header_event\0", "header_event")?;
        at.take_block_after_u64_size("header_event").map(|_| ())
    }

    fn add_event_formats(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        for _ in 0..at.take_u32("the number of ftrace's events")? {
            let format = at.take_block_after_u64_size("an event's format")?;
            self.formats.add_format_file_if_readable(&format);
        }
        Ok(())
    }

    fn add_formats_of_subsystems(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        for _ in 0..at.take_u32("the number of subsystems")? {
            at.take_zero_ended_text("a subsystem's name")?;
            self.add_event_formats(at)?;
        }
        Ok(())
    }

    fn add_tick_handler_symbols(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        let size = at.take_u32("the symbols")?;
        let symbols = at.take_bytes(u64::from(size), "the symbols")?;
        self.formats.keep_tick_handler_addresses(&symbols);
        Ok(())
    }

    /// Notes the place of a CPU's events from an option of version 7.
    fn add_events_of_main_buffer(&mut self, at: &mut FileCursor<'_>) -> Result<(), String> {
        at.take_u64("where the events are")?;
        let name = at.take_zero_ended_text("a buffer's name")?;
        let clock = at.take_zero_ended_text("a buffer's clock")?;
        if !name.is_empty() {
            self.other_buffers += 1;
            return Ok(());
        }
        self.clock = Some(clock).filter(|clock| !clock.is_empty());
        self.page_size = at.take_u32("the size of a page")?;
        check_page_size(self.page_size)?;
        for _ in 0..check_cpu_count(at.take_u32("the number of CPUs")?)? {
            self.cpus.push(CpuData {
                cpu: at.take_u32("a CPU")?,
                offset: at.take_u64("where a CPU's events are")?,
                size: at.take_u64("the size of a CPU's events")?,
            });
        }
        Ok(())
    }

    fn apply_option(&mut self, id: u16, data: &[u8]) -> Result<(), String> {
        let big_endian = self.formats.big_endian;
        match id {
            OPTION_CPUSTAT => {
                for line in text_up_to_zero_byte(data).lines() {
                    let count = parse_lost_count(line).unwrap_or(0);
                    self.overruns = self.overruns.saturating_add(count);
                }
            }
            OPTION_CLOCK => {
                // "[local] global counter ..."
                let clock = text_up_to_zero_byte(data);
                let chosen = clock
                    .split_once('[')
                    .and_then(|(_, rest)| rest.split_once(']'))
                    .map(|(name, _)| name.to_owned());
                self.clock = self.clock.take().or(chosen);
            }
            OPTION_UNAME => self.uname = Some(text_up_to_zero_byte(data)),
            OPTION_OFFSET => self.offset = text_up_to_zero_byte(data).parse().unwrap_or(0),
            OPTION_CPUS => {
                self.cpu_count = decode_number_at(data, 0..4, big_endian).unwrap_or(0) as u32;
            }
            OPTION_TSC => {
                if let (Some(multiplier), Some(shift), Some(offset)) = (
                    decode_number_at(data, 0..4, big_endian),
                    decode_number_at(data, 4..8, big_endian),
                    decode_number_at(data, 8..16, big_endian),
                ) {
                    if shift >= 64 {
                        return Err("damaged: its clock's conversion".to_owned());
                    }
                    self.tsc = Some((multiplier as u32, shift as u32, offset));
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Converts a time stamp of the trace to nanoseconds.
    pub(super) fn stamp_to_nanoseconds(&self, stamp: u64) -> u64 {
        let time = match self.tsc {
            None => stamp,
            Some((multiplier, shift, offset)) => {
                let scaled = (u128::from(stamp) * u128::from(multiplier)) >> shift;
                (scaled as u64).wrapping_sub(offset)
            }
        };
        time.saturating_add_signed(self.offset)
    }
}

/// The text of an option, up to a zero byte.
fn text_up_to_zero_byte(data: &[u8]) -> String {
    let text = data.split(|byte| *byte == 0).next().unwrap_or_default();
    String::from_utf8_lossy(text).trim().to_owned()
}

/// A number at a place in an option's bytes.
fn decode_number_at(data: &[u8], place: Range<usize>, big_endian: bool) -> Option<u64> {
    decode_unsigned(data.get(place)?, big_endian)
}

/// The number of lost events on a line of trace-cmd's statistics.
fn parse_lost_count(line: &str) -> Option<u64> {
    let count = ["overrun:", "dropped events:"]
        .iter()
        .find_map(|start| line.trim().strip_prefix(start))?;
    count.trim().parse().ok()
}

fn check_cpu_count(count: u32) -> Result<u32, String> {
    if count <= MAX_CPUS {
        Ok(count)
    } else {
        Err(format!(
            "damaged: {count} CPUs, and no kernel has more than {MAX_CPUS}"
        ))
    }
}
