//! The command line's words, translated for Python.
//!
//! Errors from the crates name a helpful option or command. In Python the help is an argument or a function.

use std::sync::LazyLock;

use pyo3::prelude::*;
use regex::{Captures, Regex};

/// A command in backticks, an option with the name that clap gives its value, or an option with a value.
const PATTERN: &str = concat!(
    r"`wakepath (?<command>[a-z-]+(?: [a-z-]+)?)(?<words>[^`]*)`",
    r"|\(wakepath machine list\)",
    r"|'--(?<clap>[a-z][a-z-]*)(?: <[^>]*>)?(?:\.\.\.)?'",
    r"|(?<before>^|[ (;:,])--(?<option>[a-z][a-z-]*)(?:[ =](?<value>",
    // A quoted text, a placeholder, a shard, a target, a governor, or the name of a machine.
    r"'[^']*'|[A-Z]+(?:\.[a-z]+)?|[0-9]+/[0-9]+|live|sim|replay|menu|teo|[a-z]+[0-9][a-z0-9-]*))?",
);

static WORDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(PATTERN).ok());

/// Options with `True` or `False` in Python.
const FLAGS: [&str; 4] = ["any-machine", "force", "no-deepest", "resume"];

/// Options with a value and the same name in Python. Other programs' options stay unchanged.
const OPTIONS: [&str; 30] = [
    "baseline",
    "blocks",
    "copies",
    "drive",
    "firmware",
    "hz",
    "id-ctrl",
    "jobs",
    "keep",
    "kernel",
    "level",
    "machine",
    "maximise",
    "max-latency-us",
    "metric",
    "minimise",
    "on",
    "over",
    "pareto",
    "policy",
    "primary-timeout-ms",
    "ran",
    "rule",
    "runs",
    "seconds",
    "secondary-timeout-ms",
    "seed",
    "shard",
    "states",
    "top",
];

/// Translates options and commands in a text to Python's arguments and functions.
#[pyfunction]
pub(crate) fn in_python(text: &str) -> String {
    match &*WORDS {
        Some(words) => words
            .replace_all(text, |found: &Captures<'_>| replace_words(found))
            .into_owned(),
        None => text.to_owned(),
    }
}

fn replace_words(found: &Captures<'_>) -> String {
    if let (Some(command), Some(words)) = (found.name("command"), found.name("words")) {
        return python_function(command.as_str(), words.as_str())
            .unwrap_or_else(|| found[0].to_owned());
    }
    if let Some(option) = found.name("clap") {
        return option.as_str().replace('-', "_");
    }
    let Some(option) = found.name("option").map(|option| option.as_str()) else {
        return "(`wakepath.Machine.names()`)".to_owned();
    };
    let before = found.name("before").map_or("", |before| before.as_str());
    let value = found.name("value").map(|value| value.as_str());
    match python_argument(option, value) {
        Some(argument) => format!("{before}{argument}"),
        None => found[0].to_owned(),
    }
}

/// An option as a Python argument.
fn python_argument(option: &str, value: Option<&str>) -> Option<String> {
    let name = option.replace('-', "_");
    if FLAGS.contains(&option) {
        let rest = value.map_or_else(String::new, |value| format!(" {value}"));
        return Some(format!("{name}=True{rest}"));
    }
    if !OPTIONS.contains(&option) {
        return None;
    }
    Some(match value {
        Some(value) => format!("{name}=\"{}\"", value.trim_matches('\'')),
        None => name,
    })
}

/// The Python function for a command.
fn python_function(command: &str, words: &str) -> Option<String> {
    let function = match command {
        "machine list" => "Machine.names()",
        "drive list" => "Drive.names()",
        "study run" => "Study.run",
        "study check" => "Study",
        "import" => "import_trace",
        "replay" => "replay",
        "compare" => "compare",
        "report" => "report",
        _ => return None,
    };
    let words = words.trim();
    if words.is_empty() {
        return Some(format!("`wakepath.{function}`"));
    }
    // Options without a Python argument belong to the command line.
    let arguments = in_python(&format!(" {words}"));
    (!arguments.contains("--") && !function.ends_with(')')).then(|| {
        let list = arguments.trim().replace(' ', ", ");
        format!("`wakepath.{function}({list})`")
    })
}
