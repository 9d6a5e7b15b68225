//! What is worth saying about a file, each thing once.

use wakepath_units::spelling::similar_name;

use super::RtAppWarning;
use super::place::Entry;

/// Most separate warnings.
const MOST: usize = 40;

/// Warnings about a file.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    all: Vec<RtAppWarning>,
    /// The rule behind each.
    rules: Vec<String>,
    /// Warnings beyond [`MOST`].
    beyond: usize,
}

impl Warnings {
    /// Warns about a key whose effect differs from the obvious one.
    pub(super) fn add(&mut self, entry: &Entry<'_, '_>, message: &str) {
        self.add_case(entry, entry.name, message, String::new);
    }

    /// Warns about an ignored key: not among `known`, or repeated in the object.
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
        self.add_case(entry, entry.name, rule, || suggestion(entry.name, known));
    }

    /// Reports the rule for a key, with the result in the first case. Further cases are counted.
    pub(super) fn add_case(
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

/// The probable meaning of an unknown key, as the end of a sentence; empty if none.
fn suggestion<'k>(key: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    // A key from old rt-app, unlike any present key.
    if key == "frag" {
        return String::new();
    }
    match similar_name(key, known) {
        // A key that belongs elsewhere is like itself.
        Some(near) if near != key => format!("; did you mean `{near}`?"),
        _ => String::new(),
    }
}
