//! First column in all tables by `wakepath sim`.

use wakepath_sim::PolicyResult;

/// A header beginning with the policies.
pub(super) fn header<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

pub(super) fn row<const N: usize>(of: &PolicyResult, columns: [String; N]) -> Vec<String> {
    let mut row = vec![of.policy.to_string()];
    row.extend(columns);
    row
}
