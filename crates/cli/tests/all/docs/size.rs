//! How much there is to read: hand-written pages stay below a limit, so that what is new replaces something.

use std::fs;

use super::{PAGES_OF_THE_ROOT, pages, root};

/// Pages that a program writes as a whole.
const GENERATED: [&str; 2] = ["background/validation.md", "background/fidelity.md"];

/// The most that hand-written pages of `docs/` have together. It may only become less.
const MOST_BYTES: usize = 345_000;

/// A page without what programs write into it: outputs of commands, and blocks between marks.
fn hand_written(page: &str) -> usize {
    let mut is_kept = true;
    let mut bytes = 0;
    for line in page.lines() {
        if line == "<!-- end -->" || line == "<!-- end of figures -->" || line == "```" {
            is_kept = true;
        }
        if is_kept || line.starts_with("$ ") {
            bytes += line.len() + 1;
        }
        if line.starts_with("<!-- $ ") || line == "<!-- figures -->" || line.starts_with("```console") {
            is_kept = false;
        }
    }
    bytes
}

#[test]
fn hand_written_pages_stay_readable_in_an_afternoon() {
    let mut sizes: Vec<(usize, String)> = Vec::new();
    for path in pages() {
        let shown = path.strip_prefix(root().join("docs"));
        let name = shown.map_or_else(|_| String::new(), |p| p.display().to_string());
        let is_of_root = PAGES_OF_THE_ROOT.iter().any(|page| root().join(page) == path);
        if !is_of_root && !GENERATED.contains(&name.as_str()) {
            sizes.push((hand_written(&fs::read_to_string(&path).unwrap()), name));
        }
    }
    sizes.sort();
    let bytes: usize = sizes.iter().map(|(bytes, _)| bytes).sum();
    assert!(bytes <= MOST_BYTES, "{bytes} bytes are hand-written: {sizes:?}");
}
