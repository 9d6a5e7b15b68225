//! Text of foreign programs and compilers, for people.

use wakepath_units::printable::own_lines;

/// Makes text by foreign programs safe for a terminal. Tabs become blanks: compilers quote lines of
/// code.
pub(crate) fn printable_text(text: &str) -> String {
    own_lines(&text.replace('\t', "        ")).into_owned()
}
