//! Lines for the journal, or for a terminal.

use std::io::Write;

use wakepath_units::printable;

/// Level of a line, with the number that syslog has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error = 3,
    /// Something differs from the configuration.
    Warning = 4,
    /// An event in normal operation.
    Info = 6,
}

/// Writes a line to standard error. For systemd's journal the line begins with its level, which the journal takes off.
pub fn log(level: Level, text: &str) {
    // The journal takes one line for one message, and journalctl shows lines on a terminal.
    let printable = printable::escape_for_one_line(text);
    let line = if std::env::var_os("JOURNAL_STREAM").is_some() {
        format!("<{}>{printable}\n", level as u8)
    } else {
        format!("wakepath: {printable}\n")
    };
    // Without a reader the daemon goes on.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Logs an event in normal operation.
pub fn info(text: &str) {
    log(Level::Info, text);
}

/// Logs something that differs from the configuration.
pub fn warning(text: &str) {
    log(Level::Warning, text);
}

/// Logs a failure.
pub fn error(text: &str) {
    log(Level::Error, text);
}
