//! Filled in by the next commits.
fn main() {}
