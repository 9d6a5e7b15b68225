//! Notes, warnings and errors on standard error.
//!
//! Notes and warnings wait for a result to be about. So an error stands alone, and the same note about twenty workloads is
//! printed once. Terminal controls are shown escaped, and continued lines are marked, so that no stranger's text can fake a
//! message.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use wakepath_units::printable;

/// Kind of a message: how much it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    /// Something happened.
    Remark,
    /// Something to know.
    Note,
    /// A warning: something was done unlike the request.
    Warning,
}

/// Most subjects that are named in front of a message.
const NAMED: usize = 3;

#[derive(Debug)]
struct Message {
    kind: MessageKind,
    /// What the message is about, one per occurrence; none: the whole command.
    about: Vec<Option<String>>,
    text: String,
    /// Whether an error may come from what the message says.
    explains_errors: bool,
    printed: bool,
}

static MESSAGES: Mutex<Vec<Message>> = Mutex::new(Vec::new());

/// Holds a message until there is a result. `about`: the file or workload that the message is about.
pub(crate) fn hold_message_until_result(kind: MessageKind, about: Option<&str>, text: String) {
    hold_message(kind, about, text, false);
}

/// Holds a remark on a line that is read unlike what it looks like, until there is a result or an error.
pub(crate) fn hold_remark_until_result_or_error(about: Option<&str>, text: String) {
    hold_message(MessageKind::Remark, about, text, true);
}

fn hold_message(kind: MessageKind, about: Option<&str>, text: String, explains_errors: bool) {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let about = about.map(str::to_owned);
    match messages
        .iter_mut()
        .find(|message: &&mut Message| message.kind == kind && message.text == text)
    {
        Some(message) => message.about.push(about),
        None => messages.push(Message {
            kind,
            about: vec![about],
            text,
            explains_errors,
            printed: false,
        }),
    }
}

/// Prints all messages that were held, each once.
pub(crate) fn print_held_messages() {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    for message in messages.iter_mut().filter(|message| !message.printed) {
        message.printed = true;
        print_marked_to_stderr(&message.text_with_kind_and_subjects());
    }
}

/// Prints a message to standard error at once.
pub(crate) fn print_after_held_messages(text: &str) {
    print_held_messages();
    print_marked_to_stderr(text);
}

/// Prints the held remarks that an error may come from: on the error's subject, or on no subject.
pub(crate) fn print_remarks_before_error(error: &str) {
    let mut messages = MESSAGES.lock().unwrap_or_else(PoisonError::into_inner);
    let remarks = messages.iter_mut().filter(|message| !message.printed);
    for remark in remarks.filter(|remark| remark.may_explain(error)) {
        remark.printed = true;
        print_marked_to_stderr(&remark.text_with_kind_and_subjects());
    }
}

/// Prints the error that ends the command. Held messages are dropped, since no result comes that they are about.
pub(crate) fn print_error_without_held_messages(text: &str) {
    print_marked_to_stderr(text);
}

/// Prints clap's text about the usage, keeping its line ends.
pub(crate) fn print_usage_lines(text: &str) {
    write_stderr_ignoring_failure(&printable::escape_except_line_ends(text));
}

fn print_marked_to_stderr(text: &str) {
    write_stderr_ignoring_failure(&prefix_and_mark_continued_lines(text));
}

/// A message's text in which every line after the first is marked as continued.
fn prefix_and_mark_continued_lines(text: &str) -> String {
    let shown = printable::escape_except_line_ends(text.trim_end());
    format!("wakepath: {}\n", shown.replace('\n', "\n  | "))
}

fn write_stderr_ignoring_failure(text: &str) {
    // If standard error has no reader, the command goes on.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
}

impl Message {
    /// Whether an error may come from what the message says. The errors of a study begin with a workload's name.
    fn may_explain(&self, error: &str) -> bool {
        let is_about_error = |about: &Option<String>| {
            about
                .as_ref()
                .is_none_or(|name| error.starts_with(&format!("{name} ")))
        };
        self.explains_errors && self.about.iter().any(is_about_error)
    }

    fn text_with_kind_and_subjects(&self) -> String {
        let kind = match self.kind {
            MessageKind::Remark => "",
            MessageKind::Note => "note: ",
            MessageKind::Warning => "warning: ",
        };
        let mut names: Vec<&str> = Vec::new();
        for name in self.about.iter().flatten() {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        let about = match &names[..] {
            [] => String::new(),
            few if few.len() <= NAMED => format!("{}: ", few.join(", ")),
            many => format!(
                "{} and {} more: ",
                many[..NAMED].join(", "),
                many.len() - NAMED
            ),
        };
        let times = match self.about.len() {
            times if names.is_empty() && times > 1 => format!(" ({times} times)"),
            _ => String::new(),
        };
        format!("{about}{kind}{}{times}", self.text)
    }
}

/// Holds a note for the reader, printed once there is a result.
macro_rules! note {
    ($($text:tt)*) => {
        $crate::messages::hold_message_until_result($crate::messages::MessageKind::Note, None, format!($($text)*))
    };
}

/// Holds a warning about something done unlike the request, printed once there is a result.
macro_rules! warning {
    ($($text:tt)*) => {
        $crate::messages::hold_message_until_result($crate::messages::MessageKind::Warning, None, format!($($text)*))
    };
}

/// Prints a remark to standard error at once.
macro_rules! tell {
    ($($text:tt)*) => {
        $crate::messages::print_after_held_messages(&format!($($text)*))
    };
}

pub(crate) use {note, tell, warning};

#[cfg(test)]
mod tests {
    use super::*;

    fn message(about: &[Option<&str>]) -> String {
        let about = about.iter().map(|name| name.map(str::to_owned));
        let message = Message {
            kind: MessageKind::Note,
            about: about.collect(),
            text: "x".to_owned(),
            explains_errors: true,
            printed: false,
        };
        message.text_with_kind_and_subjects()
    }

    #[test]
    fn what_is_said_often_is_said_once() {
        assert_eq!(message(&[None]), "note: x");
        assert_eq!(message(&[None; 20]), "note: x (20 times)");
        assert_eq!(message(&[Some("a"), Some("a"), Some("b")]), "a, b: note: x");
        let names = ["a", "b", "c", "d", "e"].map(Some);
        assert_eq!(message(&names), "a, b, c and 2 more: note: x");
    }

    #[test]
    fn no_text_fakes_a_message() {
        assert_eq!(
            prefix_and_mark_continued_lines("bad name: a\nwakepath: done\r\u{1b}]52;c;x\u{7}\n"),
            "wakepath: bad name: a\n  | wakepath: done\\r\\u{1b}]52;c;x\\u{7}\n"
        );
    }
}
