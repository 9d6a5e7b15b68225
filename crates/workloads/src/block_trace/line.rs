//! A line's meaning, whatever the format.

use crate::text::escape_and_shorten;

use super::request::TraceIo;

/// Most bytes of a read or write. Nothing issues more at once, and no time overflows with it.
const MAX_REQUEST_BYTES: u64 = 1 << 30;

/// A line's meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceLine<'a> {
    /// A request began.
    Request(LineRequest<'a>),
    /// A request ended.
    End(LineEnd<'a>),
    /// Nothing about a request.
    Other,
}

/// A request to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineRequest<'a> {
    /// Name of the disk or file.
    pub(super) disk: &'a str,
    /// Begin in ns, on the trace's clock.
    pub(super) time: u64,
    pub(super) io: TraceIo,
    /// First byte on the disk, and number of bytes.
    pub(super) offset: u64,
    pub(super) bytes: u64,
    /// End in ns, if the same line says so.
    pub(super) ended: Option<u64>,
}

/// A request's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LineEnd<'a> {
    /// Name of the disk.
    pub(super) disk: &'a str,
    /// End in ns, on the trace's clock.
    pub(super) time: u64,
    /// The request's first byte on the disk.
    pub(super) offset: u64,
}

impl LineRequest<'_> {
    /// Checks that a drive could have got such a request.
    ///
    /// # Errors
    /// A size of 0, a size beyond what anything issues at once, or an end beyond all addresses.
    pub(super) fn check_size_and_end(&self) -> Result<(), String> {
        let moves_data = matches!(self.io, TraceIo::Read | TraceIo::Write);
        let name = self.io.name();
        if self.bytes == 0 && self.io != TraceIo::Flush {
            return Err(format!("a {name} of 0 bytes: the trace is damaged"));
        }
        if moves_data && self.bytes > MAX_REQUEST_BYTES {
            return Err(format!(
                "a {name} of {} bytes, and nothing issues more than {MAX_REQUEST_BYTES} at once: the trace is damaged",
                self.bytes
            ));
        }
        if self.offset.checked_add(self.bytes).is_none() {
            return Err(format!(
                "a {name} of {} bytes at byte {}: its end is beyond all addresses: the trace is damaged",
                self.bytes, self.offset
            ));
        }
        Ok(())
    }
}

/// Parses a whole number called `what`.
pub(super) fn parse_number(text: &str, what: &str) -> Result<u64, String> {
    text.parse().map_err(|_| {
        format!(
            "the {what} `{}` is no whole number below 2^64",
            escape_and_shorten(text)
        )
    })
}

/// A number of units in bytes or ns.
pub(super) fn multiply(number: u64, unit: u64, what: &str) -> Result<u64, String> {
    number
        .checked_mul(unit)
        .ok_or_else(|| format!("the {what} {number} is too large"))
}
