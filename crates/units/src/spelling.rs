//! Suggestions for misspelt names, for error messages.

/// Likeness, 0 to 1, above which a known name is suggested for a misspelt name.
const MEANT: f64 = 0.7;
/// Longest text in bytes that is compared as a misspelt name, since comparing takes quadratic time.
const LONGEST: usize = 64;

/// Longest name of a machine or drive, in bytes. A longer name is refused before any comparison.
pub const LONGEST_NAME: usize = 100;

/// The known name that a user probably meant by `wrong`, if any is similar.
pub fn similar_name<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    most_similar_name(wrong, known)
        .filter(|(likeness, _)| *likeness > MEANT)
        .map(|(_, name)| name)
}

/// The known name most like `wrong` with its [`name_likeness`], however small; of equals the first. `None` if nothing is known.
pub fn most_similar_name<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<(f64, &'a str)> {
    known
        .into_iter()
        .map(|name| (name_likeness(wrong, name), name))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// How much alike two names are, 0 to 1. One slip of the fingers is the likeliest mistake; in a short name, Jaro-Winkler does
/// not know two letters that changed places.
pub fn name_likeness(wrong: &str, name: &str) -> f64 {
    if wrong.len() > LONGEST {
        0.0
    } else if wrong == name {
        1.0
    } else if strsim::damerau_levenshtein(wrong, name) <= 1 {
        // One slip of the fingers ranks below equality, and above any other likeness.
        0.99
    } else {
        strsim::jaro_winkler(wrong, name).min(0.98)
    }
}

/// Makes the end of a message about an unknown name: the probable meaning and all known names.
pub fn suggestion_with_known_names(wrong: &str, known: &[&str]) -> String {
    let meant = similar_name(wrong, known.iter().copied()).map_or_else(
        || ".".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    );
    format!("{meant} Known: {}", known.join(", "))
}

/// Rewrites a TOML parser's message for users, who know keys and not fields. For an unknown key, suggests the
/// probable one.
pub fn toml_message_for_users(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted[..] {
        [wrong, ref known @ ..] if message.starts_with("unknown field") && !known.is_empty() => {
            format!(
                "unknown key `{wrong}`{}",
                suggestion_with_known_names(wrong, known)
            )
        }
        _ => type_error_in_plain_words(&message.replace("field", "key")),
    }
}

/// Type names in messages of the TOML parser, and plain words for them.
const TYPES: [(&str, &str); 21] = [
    ("a borrowed string", "a text"),
    ("a string", "a text"),
    ("string ", "the text "),
    ("a sequence", "a list"),
    ("sequence", "a list"),
    ("a map", "a table"),
    ("map", "a table"),
    ("boolean ", ""),
    ("a boolean", "true or false"),
    ("floating point ", "the number "),
    ("integer ", "the number "),
    ("f64", "a number"),
    ("f32", "a number"),
    ("u8", "a whole number from 0 to 255"),
    ("u16", "a whole number from 0 to 65535"),
    ("u32", "a whole number of at most 4294967295"),
    ("i32", "a whole number from -2147483648 to 2147483647"),
    ("i64", "a whole number"),
    ("isize", "a whole number"),
    ("u64", "a whole number, not below 0"),
    ("usize", "a whole number, not below 0"),
];

/// Puts the parser's message about a wrong type into plain words: `a list instead of a text`.
fn type_error_in_plain_words(message: &str) -> String {
    if let Some(rest) = message.strip_prefix("duplicate key") {
        let name = rest.trim().trim_matches('`');
        return if name.is_empty() {
            "a key or a table is given twice; lists of tables are written with two brackets, [[policy]]".to_owned()
        } else {
            format!(
                "`{name}` is given twice; lists of tables are written with two brackets, such as [[policy]]"
            )
        };
    }
    let parts = message
        .strip_prefix("invalid type: ")
        .or_else(|| message.strip_prefix("invalid value: "))
        .and_then(|rest| rest.rsplit_once(", expected "));
    let Some((found, expected)) = parts else {
        return message.to_owned();
    };
    format!(
        "{} instead of {}",
        replace_type_by_plain_words(found),
        replace_type_by_plain_words(expected)
    )
}

/// Replaces a Rust type's name at the start of a text by plain words.
fn replace_type_by_plain_words(text: &str) -> String {
    // Users do not know the names of Rust structs, which are tables in TOML.
    if text.starts_with("struct ") {
        return "a table".to_owned();
    }
    let known = TYPES.iter().find(|(rust, _)| text.starts_with(rust));
    known.map_or_else(
        || text.to_owned(),
        |(rust, word)| format!("{word}{}", &text[rust.len()..]),
    )
}

/// The key that is set, or the table that is opened, on the line of `text` around byte `at`; parsers' messages leave
/// the key out.
pub fn key_or_table_at(text: &str, at: usize) -> Option<&str> {
    let before = text.get(..at)?;
    let start = before.rfind('\n').map_or(0, |line| line + 1);
    let line = text[start..].lines().next()?;
    table_header_name(line).or_else(|| {
        let key = line.split_once('=')?.0.trim();
        (!key.is_empty() && !key.starts_with(['#', '['])).then_some(key)
    })
}

/// `name` from `[name]` and `[[name]]`. A line inside a list of several lines is neither.
fn table_header_name(line: &str) -> Option<&str> {
    let (opened, behind) = line.trim().strip_prefix('[')?.split_once(']')?;
    let name = opened.strip_prefix('[').unwrap_or(opened).trim();
    let behind = behind.trim_start_matches(']').trim_start();
    let is_header = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        && (behind.is_empty() || behind.starts_with('#'));
    is_header.then_some(name)
}

/// As [`toml_message_for_users`], with the key whose value is wrong. `at`: byte of the error in `text`.
pub fn toml_error_with_key(message: &str, text: &str, at: usize) -> String {
    let said = toml_message_for_users(message);
    // Beginnings of messages that name the key already.
    let of_key = ["unknown field", "missing field", "duplicate key"];
    match key_or_table_at(text, at) {
        Some(key)
            if !of_key.iter().any(|start| message.starts_with(start))
                && !said.contains(&format!("`{key}`")) =>
        {
            format!("`{key}`: {said}")
        }
        _ => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_understood() {
        let known = ["menu", "teo", "ladder", "haltpoll"];
        assert_eq!(similar_name("mneu", known), Some("menu"));
        assert_eq!(similar_name("toe", known), Some("teo"));
        assert_eq!(similar_name("ladde", known), Some("ladder"));
        assert_eq!(similar_name("halt_poll", known), Some("haltpoll"));
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(similar_name("xyz", ["menu", "teo"]), None);
        assert_eq!(similar_name("menu", []), None);
        let long = "menu".repeat(100);
        assert_eq!(similar_name(&long, ["menu"]), None);
    }

    #[test]
    fn an_exact_name_beats_a_slip() {
        assert_eq!(most_similar_name("teo", ["te", "teo"]), Some((1.0, "teo")));
        assert_eq!(
            similar_name("runtimes", ["runtime", "run"]),
            Some("runtime")
        );
    }

    #[test]
    fn types_have_names_that_people_know() {
        let text = "name = 'x'\nrepeats = 'many'\n";
        let message = "invalid type: string \"many\", expected u32";
        assert_eq!(
            toml_error_with_key(message, text, 21),
            "`repeats`: the text \"many\" instead of a whole number of at most 4294967295"
        );
        assert_eq!(
            toml_message_for_users("invalid type: sequence, expected a string"),
            "a list instead of a text"
        );
        assert_eq!(
            toml_error_with_key(
                "invalid type: integer `1`, expected struct PsdConfig",
                "psd = 1",
                6
            ),
            "`psd`: the number `1` instead of a table"
        );
        assert_eq!(
            toml_error_with_key("`0s` is not possible", "[psd]\ntimeout = \"0s\"", 16),
            "`timeout`: `0s` is not possible"
        );
        assert_eq!(
            toml_error_with_key(
                "invalid value: integer `70000`, expected u16",
                "port = 70000",
                7
            ),
            "`port`: the number `70000` instead of a whole number from 0 to 65535"
        );
        for of_key in ["unknown field `b`, expected `a`", "missing field `a`"] {
            assert!(!toml_error_with_key(of_key, "b = 1", 0).starts_with("`b`: "));
        }
        assert!(toml_message_for_users("duplicate key").contains("[[policy]]"));
        assert_eq!(key_or_table_at("", 9), None);
        assert_eq!(key_or_table_at("[a]\nb", 4), None);
        assert_eq!(key_or_table_at("x = [\n [1],\n [true, 1],\n]", 15), None);
    }

    #[test]
    fn an_error_about_a_table_names_it() {
        let message = "invalid type: map, expected a sequence";
        for text in ["[policy]\nx = 1", "[[ policy ]] # mine"] {
            assert_eq!(
                toml_error_with_key(message, text, 0),
                "`policy`: a table instead of a list"
            );
        }
    }

    #[test]
    fn parsers_speak_of_keys() {
        assert_eq!(
            toml_message_for_users("unknown field `repeat`, expected one of `repeats`, `seed`"),
            "unknown key `repeat`; did you mean `repeats`? Known: repeats, seed"
        );
        assert_eq!(
            toml_message_for_users("unknown field `zz`, expected `seed`"),
            "unknown key `zz`. Known: seed"
        );
        assert_eq!(
            toml_message_for_users("missing field `name`"),
            "missing key `name`"
        );
    }
}
