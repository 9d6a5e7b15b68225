//! CSV rows with numbers and flags; errors name line and field.

use std::fmt;
use std::io::{self, Chain, Read};

use csv::{ErrorKind, Reader, ReaderBuilder, StringRecord, Terminator, Trim};

/// An error in a CSV input: what is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct ReadError {
    /// Name of the faulty input.
    pub file: String,
    /// Faulty line, from 1. `None` where the input as a whole is at fault.
    pub line: Option<u64>,
    /// Name of the faulty field, if a single one is at fault.
    pub field: Option<&'static str>,
    /// What is wrong with the input, and what was expected.
    pub problem: String,
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(field) = self.field {
            write!(f, ": {field}")?;
        }
        write!(f, ": {}", self.problem)
    }
}

/// Most bytes of a log that a reader accepts: hours of a CPU's calls.
pub(crate) const LONGEST_LOG: u64 = 256 << 20;
/// Most bytes of a line that a reader accepts; real lines have a hundred.
const LONGEST_LINE: usize = 1 << 16;

/// An input that fails where it or a line becomes too long: readers keep it in memory.
#[derive(Debug)]
struct Bounded<R> {
    input: R,
    limit: u64,
    read: u64,
    /// Bytes read of the current line.
    line: usize,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read(buffer)?;
        self.read += count as u64;
        if self.read > self.limit {
            let message = format!("more than {} bytes, which no such file has", self.limit);
            return Err(io::Error::other(message));
        }
        for part in buffer[..count].split_inclusive(|byte| *byte == b'\n') {
            self.line += part.len();
            if self.line > LONGEST_LINE {
                let message =
                    format!("a line of more than {LONGEST_LINE} bytes, which no such file has");
                return Err(io::Error::other(message));
            }
            if part.ends_with(b"\n") {
                self.line = 0;
            }
        }
        Ok(count)
    }
}

/// Reader for rows of a CSV input with given fields.
#[derive(Debug)]
pub(crate) struct Rows<R> {
    reader: Reader<Chain<Bounded<R>, &'static [u8]>>,
    record: StringRecord,
    file: String,
    fields: &'static [&'static str],
    any: bool,
    /// Whether the first line was a header.
    has_header: bool,
}

impl<R: Read> Rows<R> {
    /// Reads rows with exactly these fields from `input`, at most `limit` bytes in all. A first
    /// line with the fields' names is skipped.
    pub(crate) fn new(input: R, file: &str, fields: &'static [&'static str], limit: u64) -> Self {
        let input = Bounded {
            input,
            limit,
            read: 0,
            line: 0,
        };
        Self {
            reader: ReaderBuilder::new()
                .has_headers(false)
                .flexible(true)
                // Trimming also removes a carriage return before the line feed.
                .trim(Trim::All)
                .terminator(Terminator::Any(b'\n'))
                // With a line feed after the last line too, a record always ends on the line before
                // the reader's position. The record's start would not do: it comes before any blank
                // lines.
                .from_reader(input.chain(b"\n")),
            record: StringRecord::new(),
            file: file.to_owned(),
            fields,
            any: false,
            has_header: false,
        }
    }

    /// Reads the next row, or `None` after the last one. An input without rows is an error.
    pub(crate) fn next_row(&mut self) -> Result<Option<Row<'_>>, ReadError> {
        let found = loop {
            let found = self.reader.read_record(&mut self.record);
            if !matches!(found, Ok(true)) {
                break found;
            }
            if !self.any && !self.has_header && is_header(&self.record, self.fields) {
                self.has_header = true;
            } else if !is_blank_line(&self.record) {
                break found;
            }
        };
        let row = Row {
            record: &self.record,
            line: self.reader.position().line().saturating_sub(1),
            file: &self.file,
            fields: self.fields,
        };
        match found {
            Err(error) => Err(explain_csv_error(&error, row)),
            Ok(false) if !self.any => Err(ReadError {
                file: self.file.clone(),
                line: None,
                field: None,
                problem: format!("empty; expected lines of {}", self.fields.join(",")),
            }),
            Ok(false) => Ok(None),
            Ok(true) if self.record.len() != self.fields.len() => Err(row.row_error(format!(
                "expected {} fields ({}), found {}",
                self.fields.len(),
                self.fields.join(","),
                self.record.len()
            ))),
            Ok(true) => {
                self.any = true;
                Ok(Some(row))
            }
        }
    }
}

fn is_blank_line(record: &StringRecord) -> bool {
    record.len() == 1 && record[0].is_empty()
}

/// Whether a record is a header: the names of the fields, perhaps as a comment.
fn is_header(record: &StringRecord, fields: &[&str]) -> bool {
    let names = record
        .iter()
        .map(|text| text.trim_start_matches(['#', ' ', '\u{feff}']));
    record.len() == fields.len()
        && names
            .zip(fields)
            .all(|(name, field)| name.eq_ignore_ascii_case(field))
}

fn explain_csv_error(error: &csv::Error, row: Row<'_>) -> ReadError {
    match error.kind() {
        ErrorKind::Io(cause) => ReadError {
            line: None,
            ..row.row_error(cause.to_string())
        },
        ErrorKind::Utf8 { .. } => row.row_error("not text (invalid UTF-8)".to_owned()),
        _ => row.row_error(error.to_string()),
    }
}

/// One CSV row with the right number of fields. Fields are asked for by index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row<'a> {
    record: &'a StringRecord,
    line: u64,
    file: &'a str,
    fields: &'static [&'static str],
}

impl<'a> Row<'a> {
    pub(crate) fn field_text(&self, field: usize) -> &'a str {
        self.record.get(field).unwrap_or("")
    }

    /// Reads a field as a whole number from 0 to `max`.
    pub(crate) fn parse_unsigned(&self, field: usize, max: u64) -> Result<u64, ReadError> {
        let text = self.field_text(field);
        // The field may have digits only: the standard parser would also take a plus sign.
        let digits = text.bytes().all(|b| b.is_ascii_digit());
        match text.parse() {
            Ok(number) if digits && number <= max => Ok(number),
            _ => {
                Err(self.unexpected_value_error(field, &format!("a whole number from 0 to {max}")))
            }
        }
    }

    /// Reads a field as a whole number, possibly negative, that fits 64 bits.
    pub(crate) fn parse_signed(&self, field: usize) -> Result<i64, ReadError> {
        let text = self.field_text(field);
        match text.parse() {
            Ok(number) if !text.starts_with('+') => Ok(number),
            _ => Err(self.unexpected_value_error(
                field,
                &format!("a whole number from {} to {}", i64::MIN, i64::MAX),
            )),
        }
    }

    /// 0 or 1.
    pub(crate) fn parse_flag(&self, field: usize) -> Result<bool, ReadError> {
        match self.field_text(field) {
            "0" => Ok(false),
            "1" => Ok(true),
            _ => Err(self.unexpected_value_error(field, "0 or 1")),
        }
    }

    /// Reads a field as a time no earlier than `earlier`, and sets `earlier` to the time.
    pub(crate) fn parse_time_not_before(
        &self,
        field: usize,
        earlier: &mut u64,
    ) -> Result<u64, ReadError> {
        let time = self.parse_unsigned(field, u64::MAX)?;
        if time < *earlier {
            return Err(self.field_error(
                field,
                format!("{time} is before {earlier}; lines must be in order of time"),
            ));
        }
        *earlier = time;
        Ok(time)
    }

    /// Makes an error about the row as a whole.
    pub(crate) fn row_error(&self, problem: String) -> ReadError {
        ReadError {
            file: self.file.to_owned(),
            line: Some(self.line),
            field: None,
            problem,
        }
    }

    /// Makes an error about one field of the row.
    pub(crate) fn field_error(&self, field: usize, problem: String) -> ReadError {
        ReadError {
            field: self.fields.get(field).copied(),
            ..self.row_error(problem)
        }
    }

    /// Makes an error about a field with another value than `expected`.
    pub(crate) fn unexpected_value_error(&self, field: usize, expected: &str) -> ReadError {
        let found: String = self.field_text(field).chars().take(40).collect();
        self.field_error(field, format!("expected {expected}, found `{found}`"))
    }
}
