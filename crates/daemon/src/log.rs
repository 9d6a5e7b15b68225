//! Logs lines to the journal of systemd, or to a terminal.

use std::io::Write;

use wakepath_units::printable;

/// Level of a logged line, with the number that syslog has for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something failed.
    Error = 3,
    /// Something differs from the configuration.
    Warning = 4,
    /// An event in normal operation.
    Info = 6,
}

/// Logs a line to standard error. For systemd's journal the line begins with its level, which the journal takes off.
pub fn log_line(level: Level, text: &str) {
    // Line ends are replaced: the journal takes one line for one message, and journalctl shows lines on a terminal.
    let printable = printable::escape_for_one_line(text);
    let line = if std::env::var_os("JOURNAL_STREAM").is_some() {
        format!("<{}>{printable}\n", level as u8)
    } else {
        format!("wakepath: {printable}\n")
    };
    // If nobody reads standard error, the daemon goes on.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Logs an event in normal operation.
pub fn log_info(text: &str) {
    log_line(Level::Info, text);
}

/// Logs something that differs from the configuration.
pub fn log_warning(text: &str) {
    log_line(Level::Warning, text);
}

/// Logs a failure.
pub fn log_error(text: &str) {
    log_line(Level::Error, text);
}
