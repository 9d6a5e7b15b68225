//! What checks of a machine report.

use super::Figure;

/// What a check reports: the key of an impossible value, and an explanation.
pub(super) type Fault = (String, String);

/// Fails a check, with the key of the impossible value and an explanation.
pub(super) fn fail_check<T>(key: &str, message: &str) -> Result<T, Fault> {
    Err((key.to_owned(), message.to_owned()))
}

/// Checks that names are unique, since they are parts of keys.
pub(super) fn check_unique<'a>(
    key: &str,
    names: impl Iterator<Item = &'a str>,
) -> Result<(), Fault> {
    let mut seen = Vec::new();
    for name in names {
        if seen.contains(&name) {
            return fail_check(key, &format!("'{name}' appears twice"));
        }
        seen.push(name);
    }
    Ok(())
}

/// Whether a figure is a whole number.
pub(super) fn is_whole(figure: &Figure) -> bool {
    figure.value.fract() == 0.0
}
