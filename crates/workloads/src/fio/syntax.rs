//! Notation in fio job files: comments, section headers, lists.

use super::error::{Problem, escape_and_shorten};

/// Removes the comment from a line, and the blanks around the rest. fio takes every `;` and `#` as the start of a
/// comment, wherever it stands.
pub(super) fn strip_comment_and_blanks(line: &str) -> &str {
    let end = line.find([';', '#']).unwrap_or(line.len());
    line[..end].trim_matches(|c: char| c.is_ascii_whitespace() || c.is_ascii_control())
}

pub(super) fn section_name(header: &str) -> Result<&str, Problem> {
    let name = header
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .ok_or_else(|| {
            Problem::new(format!(
                "`{}` is not a section header; expected [name] alone on the line",
                escape_and_shorten(header)
            ))
        })?;
    if name.trim().is_empty() {
        return Err(Problem::new("a section needs a name between its brackets"));
    }
    if name.contains(['[', ']']) {
        return Err(Problem::new(format!(
            "the section name `{}` has a bracket in it",
            escape_and_shorten(name)
        )));
    }
    Ok(name)
}

/// Splits a list as fio does: at each colon without a backslash before.
pub(super) fn split_at_colons(value: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut before = None;
    for letter in value.chars() {
        if let Some(last) = all.last_mut() {
            match letter {
                ':' if before == Some('\\') => {
                    last.pop();
                    last.push(':');
                }
                // fio skips colons at the start of a name.
                ':' if last.is_empty() => {}
                ':' => all.push(String::new()),
                _ => last.push(letter),
            }
        }
        before = Some(letter);
    }
    all.retain(|name| !name.is_empty());
    all
}
