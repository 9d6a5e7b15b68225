//! Reading at any offset, from a file or from memory.

use std::fs::File;
use std::io::{self, ErrorKind, Read};

/// A source of bytes without a current position.
pub trait ReadAt {
    /// Reads bytes at `offset` into `buffer`, and returns how many; 0 at the end.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize>;

    /// Number of bytes.
    fn size_in_bytes(&self) -> io::Result<u64>;
}

impl ReadAt for File {
    #[cfg(unix)]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, buffer, offset)
    }

    #[cfg(not(unix))]
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        use std::io::{Seek, SeekFrom};
        let mut file = self;
        file.seek(SeekFrom::Start(offset))?;
        file.read(buffer)
    }

    fn size_in_bytes(&self) -> io::Result<u64> {
        self.metadata().map(|m| m.len())
    }
}

impl ReadAt for &[u8] {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset)
            .unwrap_or(usize::MAX)
            .min(self.len());
        let count = buffer.len().min(self.len() - start);
        buffer[..count].copy_from_slice(&self[start..start + count]);
        Ok(count)
    }

    fn size_in_bytes(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl dyn ReadAt + '_ {
    /// Fills `buffer` from `offset` on, as far as the source reaches.
    pub(super) fn read_up_to(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, String> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.read_at(offset.saturating_add(filled as u64), &mut buffer[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(filled)
    }

    /// Reads exactly `size` bytes from `offset` on; fewer are an error.
    pub(super) fn read_exactly(
        &self,
        offset: u64,
        size: u64,
        what: &str,
    ) -> Result<Vec<u8>, String> {
        let end = offset.checked_add(size);
        let total = self.size_in_bytes().map_err(|error| error.to_string())?;
        if end.is_none_or(|end| end > total) {
            return Err(format!(
                "cut off or damaged: {what} takes {size} bytes from byte {offset} on, and the file \
                 has {total}"
            ));
        }
        let mut bytes = vec![0; size as usize];
        let read = self.read_up_to(offset, &mut bytes)?;
        bytes.truncate(read);
        Ok(bytes)
    }

    /// The source as a stream of bytes from its start.
    pub(super) fn stream_from_start(&self) -> Stream<'_> {
        Stream {
            input: self,
            offset: 0,
        }
    }
}

/// See [`ReadAt`].
pub(super) struct Stream<'a> {
    input: &'a dyn ReadAt,
    pub(super) offset: u64,
}

impl Read for Stream<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.input.read_at(self.offset, buffer)?;
        self.offset += count as u64;
        Ok(count)
    }
}

impl io::Seek for Stream<'_> {
    fn seek(&mut self, to: io::SeekFrom) -> io::Result<u64> {
        let (from, by) = match to {
            io::SeekFrom::Start(offset) => {
                self.offset = offset;
                return Ok(offset);
            }
            io::SeekFrom::Current(by) => (self.offset, by),
            io::SeekFrom::End(by) => (self.input.size_in_bytes()?, by),
        };
        self.offset = from
            .checked_add_signed(by)
            .ok_or_else(|| io::Error::from(ErrorKind::InvalidInput))?;
        Ok(self.offset)
    }
}
