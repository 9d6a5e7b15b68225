//! Holds the page of options, docs/reference/fio-jobs.md, to the options that the parser knows.

#![expect(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::path::PathBuf;

use wakepath_workloads::fio::{OptionSupport, known_options};

/// What stands between backticks in a part of the page; one that ends in `*` or `_` stands for all that begin so.
fn names(part: &str) -> Vec<&str> {
    part.split('`').skip(1).step_by(2).collect()
}

fn has(names: &[&str], option: &str) -> bool {
    names.iter().any(|name| {
        let name = name.split_once('=').map_or(*name, |(name, _)| name);
        match name.strip_suffix('*') {
            Some(start) => option.starts_with(start),
            None if name.ends_with('_') => option.starts_with(name),
            None => option == name,
        }
    })
}

/// The part of the page from one heading to the next of its kind.
fn part<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("\n## {heading}\n")).unwrap();
    rest.split_once("\n## ").map_or(rest, |(part, _)| part)
}

#[test]
fn the_page_names_every_option_where_it_belongs() {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/fio-jobs.md");
    let page = std::fs::read_to_string(path).unwrap();
    let table = |text: &str| -> String {
        let first = |line: &str| line.split('|').nth(1).unwrap_or_default().to_owned();
        let rows = text.lines().filter(|line| line.starts_with("| `"));
        rows.map(first).collect::<Vec<_>>().join(" ")
    };
    let sets = table(part(&page, "Options that set something"));
    let warns = part(&page, "Warnings");
    let refused = table(part(&page, "Refused"));
    let mut missing = Vec::new();
    for (option, support) in known_options() {
        let (place, names) = match support {
            OptionSupport::Full => ("Options that set something", names(&sets)),
            OptionSupport::Refused(_) => ("Refused", names(&refused)),
            OptionSupport::Ignored(_) | OptionSupport::Depends => ("Warnings", names(warns)),
        };
        if !has(&names, option) {
            missing.push(format!("{option} under {place}"));
        }
    }
    assert!(
        missing.is_empty(),
        "docs/reference/fio-jobs.md: {missing:#?}"
    );
    // And nothing that no longer exists.
    for name in names(&sets) {
        assert!(known_options().any(|(option, _)| option == name), "{name}");
    }
}
