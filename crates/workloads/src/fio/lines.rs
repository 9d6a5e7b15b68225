//! Lines of a job file and its included files, with environment variables inserted.

use std::path::Path;
use std::rc::Rc;

use super::error::{Place, Problem, shown};
use super::syntax::strip;
use crate::file;

/// Longest job file that is read, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// How deeply files may include each other.
const MAX_DEPTH: usize = 16;
/// Most lines in a file with all includes.
const MAX_LINES: usize = 1 << 20;

/// A line, or why there is none.
pub(super) type Line = (Place, Result<String, Problem>);

/// All lines in effective order. `origin` is the file's path, the base for included paths.
pub(super) fn lines(text: &str, origin: &str) -> Vec<Line> {
    let mut all = Vec::new();
    add(text, origin, 0, &mut all);
    all
}

fn add(text: &str, origin: &str, depth: usize, all: &mut Vec<Line>) {
    let shared: Rc<str> = origin.into();
    for (index, raw) in text.lines().enumerate() {
        if all.len() >= MAX_LINES {
            return;
        }
        let place = Place {
            line: index + 1,
            origin: shared.clone(),
        };
        let content = strip(raw);
        let included = content
            .strip_prefix("include")
            .filter(|rest| rest.starts_with([' ', '\t']))
            .map(str::trim);
        match included {
            None => all.push((place, Ok(with_variables(raw)))),
            Some(_) if depth == MAX_DEPTH => {
                let message = format!("include: more than {MAX_DEPTH} files inside each other");
                all.push((place, Err(Problem::new(message))));
            }
            Some(name) => {
                let path = Path::new(origin).with_file_name(name);
                match file::read(&path, MAX_FILE_BYTES) {
                    Ok(text) => add(&text, &path.display().to_string(), depth + 1, all),
                    Err(why) => {
                        let message = format!("include: {}: {}", shown(name), why.message);
                        all.push((place, Err(Problem::new(message))));
                    }
                }
            }
        }
    }
}

/// The line with `${NAME}` replaced by the environment's variable, as fio does. One that is not set stays as it is.
fn with_variables(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(start) = rest.find("${") {
        let (before, from) = rest.split_at(start);
        text.push_str(before);
        let Some(end) = from.find('}') else {
            rest = from;
            break;
        };
        let (variable, after) = from.split_at(end + 1);
        match std::env::var(&variable[2..end]) {
            Ok(value) if !variable[2..end].is_empty() => text.push_str(&value),
            _ => text.push_str(variable),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}
