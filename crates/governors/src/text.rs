//! Text of foreign programs and compilers, for people.

use wakepath_units::printable::escape_except_line_ends;

/// Makes text by foreign programs safe for a terminal. Tabs become blanks: compilers quote lines of
/// code.
pub(crate) fn printable_text(text: &str) -> String {
    escape_except_line_ends(&text.replace('\t', "        ")).into_owned()
}
