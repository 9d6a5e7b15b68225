//! Notation of job files: comments, section headers, lists.

use super::error::{Problem, shown};

/// Cuts a comment off and the blanks around the rest. fio takes every `;` and `#` as the start of a
/// comment, wherever it stands.
pub(super) fn strip(line: &str) -> &str {
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
                shown(header)
            ))
        })?;
    if name.trim().is_empty() {
        return Err(Problem::new("a section needs a name between its brackets"));
    }
    if name.contains(['[', ']']) {
        return Err(Problem::new(format!(
            "the section name `{}` has a bracket in it",
            shown(name)
        )));
    }
    Ok(name)
}

/// Splits a list as fio does: at colons without a backslash.
pub(super) fn split_list(value: &str) -> Vec<String> {
    let mut all = vec![String::new()];
    let mut before = None;
    for letter in value.chars() {
        if let Some(last) = all.last_mut() {
            match letter {
                ':' if before == Some('\\') => {
                    last.pop();
                    last.push(':');
                }
                // Colons at the start of a name are skipped.
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
