//! Lines of a job file and its included files, with variables inserted.

use std::path::Path;
use std::rc::Rc;

use super::error::{LinePlace, LineProblem, escape_and_shorten};
use super::surroundings::FioSurroundings;
use super::syntax::strip_comment_and_blanks;
use crate::file;

/// Longest job file that is accepted, in bytes.
pub const MAX_FILE_BYTES: usize = 1 << 20;

/// How deeply job files may include each other.
const MAX_DEPTH: usize = 16;
/// Most lines accepted in a job file with all its includes.
const MAX_LINES: usize = 1 << 20;

/// A line of a job file, or why the line could not be had, with its position.
pub(super) type Line = (LinePlace, Result<String, LineProblem>);

/// All lines of a job file in effective order, included files in place. `origin` is the file's path, the base for
/// included paths.
pub(super) fn read_lines_expanding_includes_and_variables(
    text: &str,
    origin: &str,
    surroundings: &FioSurroundings,
) -> Vec<Line> {
    let mut all = Vec::new();
    add_lines_and_included_files(text, origin, surroundings, 0, &mut all);
    all
}

fn add_lines_and_included_files(
    text: &str,
    origin: &str,
    surroundings: &FioSurroundings,
    depth: usize,
    all: &mut Vec<Line>,
) {
    let shared: Rc<str> = origin.into();
    for (index, raw) in text.lines().enumerate() {
        if all.len() >= MAX_LINES {
            return;
        }
        let place = LinePlace {
            line: index + 1,
            origin: shared.clone(),
        };
        let content = strip_comment_and_blanks(raw);
        let included = content
            .strip_prefix("include")
            .filter(|rest| rest.starts_with([' ', '\t']))
            .map(str::trim);
        match included {
            None => all.push((place, Ok(expand_variables(raw, surroundings)))),
            Some(_) if depth == MAX_DEPTH => {
                let message = format!("include: more than {MAX_DEPTH} files inside each other");
                all.push((place, Err(LineProblem::new(message))));
            }
            Some(name) => {
                let path = Path::new(origin).with_file_name(name);
                match file::read_bounded_text(&path, MAX_FILE_BYTES) {
                    Ok(text) => add_lines_and_included_files(
                        &text,
                        &path.display().to_string(),
                        surroundings,
                        depth + 1,
                        all,
                    ),
                    Err(why) => {
                        let message =
                            format!("include: {}: {}", escape_and_shorten(name), why.message);
                        all.push((place, Err(LineProblem::new(message))));
                    }
                }
            }
        }
    }
}

/// Replaces `${NAME}` in a line by the variable's value, as fio does. Variables that are not set stay as written.
fn expand_variables(line: &str, surroundings: &FioSurroundings) -> String {
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
        match surroundings.value_of_variable(&variable[2..end]) {
            Some(value) if !variable[2..end].is_empty() => text.push_str(&value),
            _ => text.push_str(variable),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}
