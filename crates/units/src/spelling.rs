//! What a user who misspelt a name probably meant, for error messages.

/// How alike a name must be to be suggested, 0 to 1.
const MEANT: f64 = 0.7;
/// Nothing longer is a misspelt name, and comparing takes quadratic time.
const LONGEST: usize = 64;

/// The known name that was probably meant by `wrong`, if one is like it.
pub fn nearest<'a>(wrong: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    closest(wrong, known)
        .filter(|(likeness, _)| *likeness > MEANT)
        .map(|(_, name)| name)
}

/// The known name most like `wrong` with its [`likeness`], however small; of equals the first. `None` if nothing is known.
pub fn closest<'a>(
    wrong: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<(f64, &'a str)> {
    known
        .into_iter()
        .map(|name| (likeness(wrong, name), name))
        .reduce(|best, next| if next.0 > best.0 { next } else { best })
}

/// How much alike two names are, 0 to 1. One slip of the fingers is the likeliest mistake; in a short name, Jaro-Winkler does
/// not know two letters that changed places.
pub fn likeness(wrong: &str, name: &str) -> f64 {
    if wrong.len() > LONGEST {
        0.0
    } else if wrong == name {
        1.0
    } else if strsim::damerau_levenshtein(wrong, name) <= 1 {
        // Below equality, and above whatever else is alike.
        0.99
    } else {
        strsim::jaro_winkler(wrong, name).min(0.98)
    }
}

/// The end of a message about an unknown name: what was probably meant, and what there is.
pub fn suggestion(wrong: &str, known: &[&str]) -> String {
    let meant = nearest(wrong, known.iter().copied()).map_or_else(
        || ".".to_owned(),
        |name| format!("; did you mean `{name}`?"),
    );
    format!("{meant} Known: {}", known.join(", "))
}

/// A TOML parser's message for users, who know keys and not fields; about an unknown key with the one that was probably
/// meant.
pub fn toml_message(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    match quoted[..] {
        [wrong, ref known @ ..] if message.starts_with("unknown field") && !known.is_empty() => {
            format!("unknown key `{wrong}`{}", suggestion(wrong, known))
        }
        _ => message.replace("field", "key"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_fingers_is_understood() {
        let known = ["menu", "teo", "ladder", "haltpoll"];
        assert_eq!(nearest("mneu", known), Some("menu"));
        assert_eq!(nearest("toe", known), Some("teo"));
        assert_eq!(nearest("ladde", known), Some("ladder"));
        assert_eq!(nearest("halt_poll", known), Some("haltpoll"));
    }

    #[test]
    fn nothing_is_made_up() {
        assert_eq!(nearest("xyz", ["menu", "teo"]), None);
        assert_eq!(nearest("menu", []), None);
        let long = "menu".repeat(100);
        assert_eq!(nearest(&long, ["menu"]), None);
    }

    #[test]
    fn an_exact_name_beats_a_slip() {
        assert_eq!(closest("teo", ["te", "teo"]), Some((1.0, "teo")));
        assert_eq!(nearest("runtimes", ["runtime", "run"]), Some("runtime"));
    }

    #[test]
    fn parsers_speak_of_keys() {
        assert_eq!(
            toml_message("unknown field `repeat`, expected one of `repeats`, `seed`"),
            "unknown key `repeat`; did you mean `repeats`? Known: repeats, seed"
        );
        assert_eq!(
            toml_message("unknown field `zz`, expected `seed`"),
            "unknown key `zz`. Known: seed"
        );
        assert_eq!(toml_message("missing field `name`"), "missing key `name`");
    }
}
