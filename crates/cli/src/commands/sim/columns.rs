//! The column that every table of `wakepath sim` begins with.

use wakepath_sim::PolicyResult;

/// A header that begins with the policies.
pub(super) fn header<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

pub(super) fn row<const N: usize>(of: &PolicyResult, columns: [String; N]) -> Vec<String> {
    let mut row = vec![of.policy.to_string()];
    row.extend(columns);
    row
}
