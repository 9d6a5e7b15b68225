//! Warnings about an rt-app file, each case once.

use wakepath_units::spelling::similar_name;

use super::RtAppWarning;
use super::place::Entry;

/// Most separate warnings.
const MOST: usize = 40;

/// Warnings about an rt-app file so far.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    all: Vec<RtAppWarning>,
    /// Rules that the warnings are about, each with the position of its warning.
    rules: Vec<String>,
    /// Warnings beyond [`MOST`].
    beyond: usize,
}

impl Warnings {
    /// Adds a warning about a key that has another effect than a user may expect.
    pub(super) fn add(&mut self, entry: &Entry<'_, '_>, message: &str) {
        self.add_or_count_case(entry, entry.name, message, String::new);
    }

    /// Adds a warning about an ignored key: not among `known`, or repeated in the object.
    pub(super) fn add_ignored<'k>(
        &mut self,
        entry: &Entry<'_, '_>,
        known: impl IntoIterator<Item = &'k str>,
    ) {
        if entry.again {
            self.add(
                entry,
                "occurs again, and the first one counts, as with workgen",
            );
            return;
        }
        let rule = "is not known, and ignored as by rt-app";
        self.add_or_count_case(entry, entry.name, rule, || suggestion(entry.name, known));
    }

    /// Adds a warning for the first case of a rule on a key, with the text from `first_case`. Further cases are only
    /// counted.
    pub(super) fn add_or_count_case(
        &mut self,
        entry: &Entry<'_, '_>,
        key: &str,
        rule: &str,
        first_case: impl FnOnce() -> String,
    ) {
        let known = (self.all.iter().zip(&self.rules))
            .position(|(warning, other)| warning.key == key && other == rule);
        if let Some(index) = known {
            self.all[index].count += 1;
        } else if self.all.len() < MOST {
            self.all.push(RtAppWarning {
                line: entry.place.line(),
                key: key.to_owned(),
                message: format!("{rule}{}", first_case()),
                count: 1,
            });
            self.rules.push(rule.to_owned());
        } else {
            self.beyond += 1;
        }
    }

    pub(super) fn into_list(mut self) -> Vec<RtAppWarning> {
        if let Some(last) = self.all.last_mut()
            && self.beyond > 0
        {
            let more = format!(" (and {} more warnings)", self.beyond);
            last.message.push_str(&more);
        }
        self.all
    }
}

/// The probable meaning of an unknown key, as the end of a sentence; empty without a guess.
fn suggestion<'k>(key: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    // A key from old versions of rt-app resembles no present key.
    if key == "frag" {
        return String::new();
    }
    match similar_name(key, known) {
        // A known key in the wrong object would be suggested for itself.
        Some(near) if near != key => format!("; did you mean `{near}`?"),
        _ => String::new(),
    }
}
