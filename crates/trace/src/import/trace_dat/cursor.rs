//! Reads numbers, strings and blocks one after the other from a `trace.dat`.

use crate::import::ReadAt;
use crate::import::formats::decode_unsigned;

/// Longest block in bytes: event formats have some kB, symbols some MB.
const LONGEST: u64 = 256 << 20;

/// A reading position in a `trace.dat`, or in a decompressed part.
pub(super) struct Cursor<'a> {
    input: &'a dyn ReadAt,
    pub(super) offset: u64,
    pub(super) big_endian: bool,
}

impl<'a> Cursor<'a> {
    pub(super) fn new(input: &'a dyn ReadAt, offset: u64, big_endian: bool) -> Self {
        Self {
            input,
            offset,
            big_endian,
        }
    }

    pub(super) fn take_bytes(&mut self, size: u64, what: &str) -> Result<Vec<u8>, String> {
        if size > LONGEST {
            return Err(format!(
                "damaged: {what} at byte {} would have {size} bytes",
                self.offset
            ));
        }
        let bytes = self.input.read_exactly(self.offset, size, what)?;
        self.offset += size;
        Ok(bytes)
    }

    fn take_number(&mut self, size: u64, what: &str) -> Result<u64, String> {
        let bytes = self.take_bytes(size, what)?;
        decode_unsigned(&bytes, self.big_endian).ok_or_else(|| format!("damaged: {what}"))
    }

    pub(super) fn take_u16(&mut self, what: &str) -> Result<u16, String> {
        self.take_number(2, what).map(|n| n as u16)
    }

    pub(super) fn take_u32(&mut self, what: &str) -> Result<u32, String> {
        self.take_number(4, what).map(|n| n as u32)
    }

    pub(super) fn take_u64(&mut self, what: &str) -> Result<u64, String> {
        self.take_number(8, what)
    }

    /// Takes text up to a zero byte.
    pub(super) fn take_zero_ended_text(&mut self, what: &str) -> Result<String, String> {
        let mut text = Vec::new();
        loop {
            let mut part = [0; 64];
            let read = self.input.read_up_to(self.offset, &mut part)?;
            let end = part[..read].iter().position(|byte| *byte == 0);
            text.extend(&part[..end.unwrap_or(read)]);
            self.offset += end.map_or(read, |end| end + 1) as u64;
            if end.is_some() {
                return Ok(String::from_utf8_lossy(&text).into_owned());
            }
            if read == 0 || text.len() > 4096 {
                return Err(format!("cut off or damaged: {what} does not end"));
            }
        }
    }

    /// Takes a block of bytes behind its 8-byte size.
    pub(super) fn take_block_after_size(&mut self, what: &str) -> Result<Vec<u8>, String> {
        let size = self.take_u64(what)?;
        self.take_bytes(size, what)
    }

    /// Takes bytes that must be `expected`; others are an error.
    pub(super) fn take_expected(&mut self, expected: &[u8], what: &str) -> Result<(), String> {
        let at = self.offset;
        let found = self.take_bytes(expected.len() as u64, what)?;
        if found == expected {
            Ok(())
        } else {
            Err(format!(
                "damaged: expected {what} at byte {at}, found {}",
                found.escape_ascii()
            ))
        }
    }
}
