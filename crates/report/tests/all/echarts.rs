//! The plotting library in the repository is the one that its authors published.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

const ORIGIN: &str = include_str!("../../assets/echarts/ORIGIN.toml");
const FILE: &str = include_str!("../../assets/echarts/echarts.min.js");

fn value(key: &str) -> &'static str {
    let line = ORIGIN
        .lines()
        .find_map(|l| l.strip_prefix(key)?.strip_prefix(" = \""));
    line.unwrap().trim_end_matches('"')
}

/// scripts/fetch-echarts.sh has compared the package, of which the file is a part, with `integrity`.
#[test]
fn the_file_is_the_recorded_one() {
    let hash = Sha256::digest(FILE.as_bytes());
    let hash = hash.iter().fold(String::new(), |mut text, byte| {
        write!(text, "{byte:02x}").unwrap();
        text
    });
    assert_eq!(hash, value("sha256"));
}

#[test]
fn the_recorded_version_is_that_of_the_file() {
    assert!(FILE.contains(&format!("version=\"{}\"", value("version"))));
    assert!(value("integrity").starts_with("sha512-") && value("integrity").len() == 95);
}
