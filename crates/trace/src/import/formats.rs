//! Event formats as tracefs describes them, and events in binary form.

use std::collections::{HashMap, HashSet};

use super::decode::{self, Event, Fields, Function, TraceEvent};

/// The layout of a trace event in binary form.
#[derive(Clone, Debug)]
pub(super) struct Format {
    /// Event name without the subsystem.
    pub(super) name: String,
    known: Option<(Event, Vec<Option<Field>>)>,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    offset: usize,
    size: usize,
    signed: bool,
    /// The field's bytes are an offset and a length, at which the event's text is.
    dynamic: bool,
}

/// All event formats in a file, by the event's number.
#[derive(Clone, Debug, Default)]
pub(super) struct Formats {
    by_id: HashMap<u32, Format>,
    /// Addresses of the tick's handler from the trace's kernel symbols; none if the file has no symbols, as a
    /// perf.data.
    ticks: HashSet<u64>,
    pub(super) big_endian: bool,
}

impl Formats {
    pub(super) fn new(big_endian: bool) -> Self {
        Self {
            big_endian,
            ..Self::default()
        }
    }

    pub(super) fn find_format(&self, id: u32) -> Option<&Format> {
        self.by_id.get(&id)
    }

    /// Adds an event's `format` file. Unreadable text is ignored, and the event's kind stays unknown.
    pub(super) fn add_format_file(&mut self, text: &[u8]) {
        let text = String::from_utf8_lossy(text);
        let number = find_line_value(&text, "ID:").and_then(|id| id.parse().ok());
        let (Some(name), Some(id)) = (find_line_value(&text, "name:"), number) else {
            return;
        };
        let known = decode::find_known_event(name).map(|known| {
            let fields = known
                .fields
                .iter()
                .map(|name| parse_field_description(&text, name));
            (known.event, fields.collect())
        });
        let name = name.to_owned();
        self.by_id.insert(id, Format { name, known });
    }

    /// Adds the kernel's symbols, as `/proc/kallsyms` has them.
    pub(super) fn add_kernel_symbols(&mut self, text: &[u8]) {
        for line in String::from_utf8_lossy(text).lines() {
            let mut words = line.split_whitespace();
            let address = words
                .next()
                .and_then(|hex| u64::from_str_radix(hex, 16).ok());
            let name = words.nth(1);
            if let (Some(address), Some(name)) = (address, name)
                // An ordinary user sees zeros instead of the addresses of kernel symbols.
                && address != 0
                && Function::from_kernel_symbol(name) == Function::Tick
            {
                self.ticks.insert(address);
            }
        }
    }

    /// Reads an event's number: the first two bytes in the record.
    pub(super) fn read_event_id(&self, record: &[u8]) -> Option<u32> {
        decode_unsigned(record.get(..2)?, self.big_endian).map(|id| id as u32)
    }

    /// Decodes a binary event; `None` if the event has no use in recordings, or a field is missing.
    pub(super) fn decode_record(&self, format: &Format, record: &[u8]) -> Option<TraceEvent> {
        let (event, fields) = format.known.as_ref()?;
        decode::decode_event(
            *event,
            &Record {
                bytes: record,
                fields,
                formats: self,
            },
        )
    }
}

impl Format {
    /// Whether recordings have a use for the event.
    pub(super) fn is_recordable(&self) -> bool {
        self.known.is_some()
    }
}

/// The value on a format file's line that begins with `key`.
fn find_line_value<'t>(text: &'t str, key: &str) -> Option<&'t str> {
    let value = text.lines().find_map(|line| line.strip_prefix(key))?;
    Some(value.trim())
}

/// Parses a field from a format file, such as `field:u32 state; offset:8; size:4; signed:0;`.
fn parse_field_description(text: &str, name: &str) -> Option<Field> {
    text.lines().find_map(|line| {
        let mut parts = line
            .trim()
            .strip_prefix("field:")?
            .split(';')
            .map(str::trim);
        let declaration = parts.next()?;
        let (kind, found) = declaration.rsplit_once(' ')?;
        if found.split('[').next() != Some(name) {
            return None;
        }
        let mut value =
            |key: &str| -> Option<usize> { parts.next()?.strip_prefix(key)?.parse().ok() };
        Some(Field {
            offset: value("offset:")?,
            size: value("size:")?,
            signed: value("signed:").unwrap_or(0) != 0,
            dynamic: kind.starts_with("__data_loc"),
        })
    })
}

/// Decodes an unsigned number of 1, 2, 4 or 8 bytes; `None` for other lengths.
#[inline]
pub(super) fn decode_unsigned(bytes: &[u8], big_endian: bool) -> Option<u64> {
    fn to_array<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
        bytes.try_into().ok()
    }
    Some(match (bytes.len(), big_endian) {
        (1, _) => u64::from(bytes[0]),
        (2, false) => u64::from(u16::from_le_bytes(to_array(bytes)?)),
        (2, true) => u64::from(u16::from_be_bytes(to_array(bytes)?)),
        (4, false) => u64::from(u32::from_le_bytes(to_array(bytes)?)),
        (4, true) => u64::from(u32::from_be_bytes(to_array(bytes)?)),
        (8, false) => u64::from_le_bytes(to_array(bytes)?),
        (8, true) => u64::from_be_bytes(to_array(bytes)?),
        _ => return None,
    })
}

struct Record<'a> {
    bytes: &'a [u8],
    fields: &'a [Option<Field>],
    formats: &'a Formats,
}

impl Fields for Record<'_> {
    #[inline]
    fn field_number(&self, index: usize) -> Option<u64> {
        let field = self.fields.get(index)?.as_ref()?;
        let end = field.offset.checked_add(field.size)?;
        let value = decode_unsigned(self.bytes.get(field.offset..end)?, self.formats.big_endian)?;
        if field.signed && field.size < 8 {
            let unused = 64 - 8 * field.size as u32;
            return Some(((value << unused) as i64 >> unused) as u64);
        }
        Some(value)
    }

    fn field_text(&self, index: usize) -> Option<&[u8]> {
        let field = self.fields.get(index)?.as_ref()?;
        let (start, size) = if field.dynamic {
            let place = self.field_number(index)? as u32;
            ((place & 0xffff) as usize, (place >> 16) as usize)
        } else {
            (field.offset, field.size)
        };
        let bytes = self.bytes.get(start..start.checked_add(size)?)?;
        bytes.split(|byte| *byte == 0).next()
    }

    fn field_function(&self, index: usize) -> Function {
        let Some(address) = self.field_number(index) else {
            return Function::Other;
        };
        if self.formats.ticks.contains(&address) {
            Function::Tick
        } else if self.formats.ticks.is_empty() {
            Function::Address(address)
        } else {
            Function::Other
        }
    }
}
