//! What is worth saying about a file, each thing once.

use wakepath_units::spelling::nearest;

use super::RtAppWarning;
use super::place::Entry;

/// Most warnings that are kept apart.
const MOST: usize = 40;

/// The warnings of a file.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    all: Vec<RtAppWarning>,
    /// The rule behind each.
    rules: Vec<String>,
    /// Those beyond the most that are kept.
    beyond: usize,
}

impl Warnings {
    /// Says of a key what happens instead of what it might seem to ask for.
    pub(super) fn add(&mut self, entry: &Entry<'_, '_>, message: &str) {
        self.add_case(entry, entry.name, message, String::new);
    }

    /// Says of a key that it counts for nothing: it is none of the `known` ones, or the object has it already.
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

    /// Says by which rule a key was read, and what that came to in its first case. Further cases are counted.
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

/// The key that an unknown one may stand for, as the end of a sentence; empty if there is none.
fn suggestion<'k>(key: &str, known: impl IntoIterator<Item = &'k str>) -> String {
    // A key of old rt-app, which is like none of today's.
    if key == "frag" {
        return String::new();
    }
    match nearest(key, known) {
        // A key that belongs elsewhere is like itself.
        Some(near) if near != key => format!("; did you mean `{near}`?"),
        _ => String::new(),
    }
}
