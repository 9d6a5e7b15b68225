//! Lines for the journal, or for a terminal.

use std::io::Write;

use wakepath_units::printable;

/// How much a line matters, as syslog counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Something does not work.
    Error = 3,
    /// Something is not as it was asked for.
    Warning = 4,
    /// Something happened.
    Info = 6,
}

/// Writes a line to standard error. To systemd's journal it begins with its level, which the journal takes off.
pub fn log(level: Level, text: &str) {
    // The journal takes one line for one message, and journalctl shows it on a terminal.
    let text = printable::one_line(text);
    let line = if std::env::var_os("JOURNAL_STREAM").is_some() {
        format!("<{}>{text}\n", level as u8)
    } else {
        format!("wakepath: {text}\n")
    };
    // Without a reader the daemon goes on.
    let _ = std::io::stderr().lock().write_all(line.as_bytes());
}

/// Something happened.
pub fn info(text: &str) {
    log(Level::Info, text);
}

/// Something is not as it was asked for.
pub fn warning(text: &str) {
    log(Level::Warning, text);
}

/// Something does not work.
pub fn error(text: &str) {
    log(Level::Error, text);
}
