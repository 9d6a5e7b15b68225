//! The words of the command line, as Python says them.
//!
//! Errors of the crates tell people which option or command helps. In Python that is an argument or a function.

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

/// Options that Python has as `True` or `False`.
const FLAGS: [&str; 4] = ["any-machine", "force", "no-deepest", "resume"];

/// Options with a value that Python has by the same name. Those of other programs stay as they are.
const OPTIONS: [&str; 29] = [
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

/// A text of the crates or of the program with the arguments and functions of Python in it.
#[pyfunction]
pub(crate) fn in_python(text: &str) -> String {
    match &*WORDS {
        Some(words) => words
            .replace_all(text, |found: &Captures<'_>| replaced(found))
            .into_owned(),
        None => text.to_owned(),
    }
}

fn replaced(found: &Captures<'_>) -> String {
    let whole = || found[0].to_owned();
    if let (Some(command), Some(words)) = (found.name("command"), found.name("words")) {
        return function(command.as_str(), words.as_str()).unwrap_or_else(whole);
    }
    if let Some(option) = found.name("clap") {
        return option.as_str().replace('-', "_");
    }
    let Some(option) = found.name("option").map(|option| option.as_str()) else {
        return "(`wakepath.Machine.names()`)".to_owned();
    };
    let before = found.name("before").map_or("", |before| before.as_str());
    let value = found.name("value").map(|value| value.as_str());
    match argument(option, value) {
        Some(argument) => format!("{before}{argument}"),
        None => whole(),
    }
}

/// An option as an argument of Python.
fn argument(option: &str, value: Option<&str>) -> Option<String> {
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

/// The function of Python that does what a command does.
fn function(command: &str, words: &str) -> Option<String> {
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
    // What has no argument of Python is a matter of the command line.
    let arguments = in_python(&format!(" {words}"));
    let arguments = arguments.trim();
    (!arguments.contains("--") && !function.ends_with(')')).then(|| {
        let arguments = arguments.replace(' ', ", ");
        format!("`wakepath.{function}({arguments})`")
    })
}
