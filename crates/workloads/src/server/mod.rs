//! Request servers: arrivals, CPU work and disk calls of each request, worker threads.
//!
//! [`parse`] reads a TOML file. An unknown key is an error with the nearest known key. A figure is a plain number, or a table with
//! its origin: `{ value = 300, assumed = "why" }`.
//!
//! ```
//! use wakepath_workloads::server;
//!
//! let text = "kind = 'server'\nname = 'web'\nworkers = 4\n\
//!             [arrivals]\npattern = 'poisson'\nrate = 1000\n\
//!             [request]\nwork_us = 300\n";
//! let file = server::parse(text, "web.toml", None)?;
//! assert_eq!(file.workers, 4);
//! # Ok::<(), wakepath_workloads::server::ServerError>(())
//! ```

use std::fmt;
use std::path::Path;

use wakepath_units::printable::escape_for_one_line;

mod checks;
mod error;
mod figure;
mod log;
mod log_checks;
mod model;
mod print;
mod ranges;
mod raw;
mod times;
mod variables;

#[cfg(test)]
mod tests;

pub use error::ServerError;
pub use figure::{FigureOrigin, ServerFigure};
pub use log::{
    AppendLog, BackgroundWriter, JournaledSyncs, LogJournal, LogSync, MAX_BACKGROUND_DEPTH,
    MAX_BACKGROUND_WRITERS, RoundReads, RoundStart, RoundWrites,
};
pub use model::{
    Arrivals, CallDirection, CpuAmount, CpuWork, DiskCall, MAX_CALL_KINDS, MAX_SECONDS, MAX_TIMES,
    ServerFile, Spacing,
};

/// Longest server file that is accepted, in bytes: a copy with recorded arrival times may have a million of these.
pub const MAX_FILE_BYTES: usize = 24 << 20;

/// Parses a server file. `origin` is the file's name for messages. `folder` is where a CSV file with arrival times lies; without
/// it, a file that names one is refused.
///
/// # Errors
/// The first problem with its line: no TOML, another `kind`, an unknown or missing key, a figure out of range, arrival times that
/// cannot be read, are not in order or are too many. Also more than [`MAX_FILE_BYTES`].
pub fn parse(text: &str, origin: &str, folder: Option<&Path>) -> Result<ServerFile, ServerError> {
    if text.len() > MAX_FILE_BYTES {
        let message = crate::file::too_large_message(MAX_FILE_BYTES);
        return Err(ServerError::for_file(origin, message));
    }
    let place = error::TextPlace { text, origin };
    let file: raw::RawFile = toml::from_str(text).map_err(|e| {
        let at = e.span().map_or(0, |span| span.start);
        let message = wakepath_units::spelling::toml_error_with_key(e.message(), text, at);
        place.error_at_byte(at, escape_for_one_line(&message).into_owned())
    })?;
    checks::check_server_file(&file, place, folder)
}

impl fmt::Display for ServerFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print::write_server_file(self, f)
    }
}
