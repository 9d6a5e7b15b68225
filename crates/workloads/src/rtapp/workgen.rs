//! What rt-app's front end `workgen` and its JSON library allow beyond JSON, made JSON.
//!
//! A key without a value gets `null`, and `True` is written as JSON writes it. No line begins elsewhere than before, so that
//! messages name the lines of the file as it is.

use std::borrow::Cow;

/// Position in an object or an array: what comes next.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inside {
    Array,
    /// A key, a comma or the end of the object is next.
    BeforeKey,
    /// A key has ended at this byte; a colon comes next.
    AfterKey(usize),
    /// The value of a key is next.
    BeforeValue,
}

/// A token: a piece of the text other than white space and comments.
enum Token {
    String,
    Word,
    Mark(u8),
}

/// Adds `: null` to keys without a value, and writes `True`, `False` and `Null` in small letters, as JSON does.
pub(super) fn complete_values(text: &str) -> Cow<'_, str> {
    let mut changes: Vec<(std::ops::Range<usize>, String)> = Vec::new();
    let mut open: Vec<Inside> = Vec::new();
    let mut at = 0;
    while let Some((token, range)) = next_token(text, at) {
        at = range.end;
        if let Some(Inside::AfterKey(end)) = open.last().copied() {
            if matches!(token, Token::Mark(b':')) {
                replace_last(&mut open, Inside::BeforeValue);
                continue;
            }
            changes.push((end..end, ": null".to_owned()));
            replace_last(&mut open, Inside::BeforeKey);
        }
        match token {
            Token::Mark(b'{') => {
                expect_key_after_value(&mut open);
                open.push(Inside::BeforeKey);
            }
            Token::Mark(b'[') => {
                expect_key_after_value(&mut open);
                open.push(Inside::Array);
            }
            Token::Mark(b'}' | b']') => {
                open.pop();
            }
            Token::Mark(_) => {}
            Token::String if open.last() == Some(&Inside::BeforeKey) => {
                replace_last(&mut open, Inside::AfterKey(range.end));
            }
            Token::String => expect_key_after_value(&mut open),
            Token::Word => {
                expect_key_after_value(&mut open);
                let word = &text[range.clone()];
                let keyword = word.to_ascii_lowercase();
                if word != keyword && ["true", "false", "null"].contains(&keyword.as_str()) {
                    changes.push((range, keyword));
                }
            }
        }
    }
    if changes.is_empty() {
        return Cow::Borrowed(text);
    }
    changes.sort_by_key(|(range, _)| range.start);
    let mut completed = text.to_owned();
    for (range, with) in changes.into_iter().rev() {
        completed.replace_range(range, &with);
    }
    Cow::Owned(completed)
}

fn replace_last(open: &mut [Inside], with: Inside) {
    if let Some(last) = open.last_mut() {
        *last = with;
    }
}

/// A value begins: after the value of a key comes the next key.
fn expect_key_after_value(open: &mut [Inside]) {
    if open.last() == Some(&Inside::BeforeValue) {
        replace_last(open, Inside::BeforeKey);
    }
}

/// The first token from byte `from` on, with its bytes' range.
fn next_token(text: &str, from: usize) -> Option<(Token, std::ops::Range<usize>)> {
    let bytes = text.as_bytes();
    let mut at = from;
    loop {
        let first = *bytes.get(at)?;
        let rest = &text[at..];
        if rest.starts_with("//") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if first == b'"' || first == b'\'' {
            return Some((Token::String, at..end_of_string(bytes, at)));
        } else if is_word(first) {
            let length = bytes[at..].iter().take_while(|b| is_word(**b)).count();
            return Some((Token::Word, at..at + length));
        } else if b"{}[]:,".contains(&first) {
            return Some((Token::Mark(first), at..at + 1));
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"+-._".contains(&byte)
}

/// Position behind the string that begins at `start`.
fn end_of_string(bytes: &[u8], start: usize) -> usize {
    let quote = bytes[start];
    let mut at = start + 1;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'\\' => at += 1,
            byte if *byte == quote => return at + 1,
            _ => {}
        }
        at += 1;
    }
    bytes.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_without_a_value_have_none() {
        for (text, completed) in [
            (r#"{"suspend", "run": 1}"#, r#"{"suspend": null, "run": 1}"#),
            ("{\"a\"\n\"b\": 1 }", "{\"a\": null\n\"b\": 1 }"),
            ("{\"a\" /* , */ }", "{\"a\": null /* , */ }"),
            (r#"{"a" , }"#, r#"{"a": null , }"#),
            (r#"{'a', 'b': 'x\'"'}"#, r#"{'a': null, 'b': 'x\'"'}"#),
            (
                r#"{"a": {"b"} "c": ["d", "e"], "f"}"#,
                r#"{"a": {"b": null} "c": ["d", "e"], "f": null}"#,
            ),
            (r#"{"a": True, "b": "True"}"#, r#"{"a": true, "b": "True"}"#),
            (r#"[{"a"}, "b"]"#, r#"[{"a": null}, "b"]"#),
        ] {
            assert_eq!(complete_values(text), completed);
        }
    }

    #[test]
    fn json_stays_as_it_is() {
        for text in [
            r#"{"a": "b", "c": [1, "x", {"y": null}], "d": {"e": -1.5e3}}"#,
            "{ // \"a\"\n }",
            "",
            "{\"a",
            "{\"a\"",
            "}]\"",
        ] {
            assert_eq!(complete_values(text), text);
        }
    }
}
