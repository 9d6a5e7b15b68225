//! Text of foreign programs and compilers, for people.

use wakepath_units::printable::escape_except_line_ends;

/// Makes foreign text safe for a terminal. Tabs become blanks: compilers quote lines of code.
pub(crate) fn printable(text: &str) -> String {
    escape_except_line_ends(&text.replace('\t', "        ")).into_owned()
}
