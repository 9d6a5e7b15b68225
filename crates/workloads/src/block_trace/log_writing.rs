//! A trace written as a log of fio, version 3, which `fio --read_iolog` replays on a real drive.
//!
//! fio 3.33 lets no time pass behind a line at time 0 and leaves out trims with their time (`read_iolog()` in `iolog.c`), so that the
//! first request stands at 1 us, and trims are left out here, where their time stays.

use std::io::{self, Write};

use super::error::BlockTraceError;
use super::request::{BlockTraceRequest, TraceIo};

/// File name in a log; fio's `replay_redirect` replaces the name.
pub const FILE_IN_LOG: &str = "data";

/// The first request's time in us.
const FIRST_US: u64 = 1;

/// Counts for a written log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WrittenLog {
    /// Reads, writes and flushes in the log.
    pub requests: u64,
    /// Trims left out.
    pub left_out: u64,
}

/// Writes requests, with times from the first line on, as fio's log.
///
/// # Errors
/// A request cannot be read from its trace, or the log cannot be written.
pub fn write_fio_log(
    requests: impl Iterator<Item = Result<BlockTraceRequest, BlockTraceError>>,
    out: &mut impl Write,
) -> io::Result<WrittenLog> {
    let file = FILE_IN_LOG;
    let mut written = WrittenLog::default();
    writeln!(out, "fio version 3 iolog\n0 {file} add\n0 {file} open")?;
    let mut time = FIRST_US;
    for read in requests {
        let request = read.map_err(io::Error::other)?;
        time = FIRST_US + request.begin.0 / 1000;
        let word = match request.io {
            TraceIo::Read => "read",
            TraceIo::Write => "write",
            TraceIo::Flush => "sync",
            TraceIo::Trim => {
                written.left_out += 1;
                continue;
            }
        };
        let BlockTraceRequest { offset, bytes, .. } = request;
        writeln!(out, "{time} {file} {word} {offset} {bytes}")?;
        written.requests += 1;
    }
    writeln!(out, "{time} {file} close")?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::super::{BlockTrace, BlockTraceOptions};
    use super::*;

    #[test]
    fn a_log_has_the_requests_of_its_trace_at_their_times() {
        let text = "8,0 0 1 5.000000000 5 D R 8 + 8 [x]\n8,0 0 2 5.000250000 5 D DS 80 + 8 [x]\n\
                    8,0 0 3 5.001500000 5 D FN [x]\n8,0 0 4 6.5 5 D WS 16 + 16 [x]\n";
        let options = BlockTraceOptions::default();
        let trace = BlockTrace::from_text(text.as_bytes(), "t", &options).unwrap();
        let mut log = Vec::new();
        let written = write_fio_log(trace.requests().unwrap(), &mut log).unwrap();
        assert_eq!((written.requests, written.left_out), (3, 1));
        let wanted = "fio version 3 iolog\n0 data add\n0 data open\n1 data read 4096 4096\n1501 data sync 0 0\n\
                      1500001 data write 8192 8192\n1500001 data close\n";
        assert_eq!(String::from_utf8_lossy(&log), wanted);
        let read = BlockTrace::from_text(&log, "log", &options).unwrap();
        let all: Result<Vec<_>, _> = trace.requests().unwrap().collect();
        let mut all = all.unwrap();
        all.retain(|request| request.io != TraceIo::Trim);
        let back: Result<Vec<_>, _> = read.requests().unwrap().collect();
        assert_eq!(back.unwrap(), all);
    }

    #[test]
    fn a_request_that_cannot_be_read_ends_the_log() {
        let failed = BlockTraceError::for_whole_trace("t", "gone");
        let requests = std::iter::once(Err(failed));
        let error = write_fio_log(requests, &mut Vec::new()).unwrap_err();
        assert_eq!(error.to_string(), "t: gone");
    }
}
