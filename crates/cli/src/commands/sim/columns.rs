//! First column in all tables by `wakepath sim`.

use wakepath_sim::PolicyResult;

/// A header beginning with the policies.
pub(super) fn header<'a>(columns: &[&'a str]) -> Vec<&'a str> {
    [&["policy"], columns].concat()
}

pub(super) fn row<const N: usize>(result: &PolicyResult, columns: [String; N]) -> Vec<String> {
    let mut row = vec![result.policy.to_string()];
    row.extend(columns);
    row
}

/// A share of time in percent.
pub(super) fn percent(seconds: f64, all: f64) -> String {
    format!("{:.2}", 100.0 * seconds / all)
}
