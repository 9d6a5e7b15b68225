//! How much there is to read: hand-written pages stay below a limit, so that what is new replaces something.

use std::fs;

use super::{pages, root};

/// Pages written by a program as a whole, and a folder with such pages.
const GENERATED: [&str; 2] = ["background/validation.md", "background/fidelity.md"];
const GENERATED_FOLDER: &str = "reference/recipes/";

/// The most bytes that hand-written pages have together: of the shelf `reference`, where readers look things up, and of all else.
const MOST_BYTES_OF_REFERENCE: usize = 75_000;
const MOST_BYTES_TO_READ: usize = 340_000;

/// The bytes of a page without what programs write into it: outputs of commands, and blocks between marks.
fn hand_written_bytes(page: &str) -> usize {
    // What ends the part that is being left out.
    let mut end: Option<&str> = None;
    let mut bytes = 0;
    for line in page.lines() {
        if end == Some(line) {
            end = None;
        }
        if end.is_none() || line.starts_with("$ ") {
            bytes += line.len() + 1;
        }
        if end.is_none() {
            end = match line {
                "<!-- figures -->" => Some("<!-- end of figures -->"),
                _ if line.starts_with("<!-- $ ") => Some("<!-- end -->"),
                _ if line.starts_with("```console") => Some("```"),
                _ => None,
            };
        }
    }
    bytes
}

/// The sizes of pages of `docs/` that people wrote, smallest first.
fn page_sizes() -> Vec<(usize, String)> {
    let mut sizes = Vec::new();
    for path in pages() {
        let Ok(shown) = path.strip_prefix(root().join("docs")) else {
            continue;
        };
        let name = shown.display().to_string();
        if !GENERATED.contains(&name.as_str()) && !name.starts_with(GENERATED_FOLDER) {
            let page = fs::read_to_string(&path).unwrap();
            sizes.push((hand_written_bytes(&page), name));
        }
    }
    sizes.sort();
    sizes
}

#[test]
fn hand_written_pages_stay_short() {
    let sizes = page_sizes();
    let (reference, to_read): (Vec<_>, Vec<_>) = sizes
        .iter()
        .partition(|(_, name)| name.starts_with("reference/"));
    let sum = |pages: &[&(usize, String)]| pages.iter().map(|(bytes, _)| bytes).sum::<usize>();
    let (looked_up, read) = (sum(&reference), sum(&to_read));
    assert!(
        looked_up <= MOST_BYTES_OF_REFERENCE && read <= MOST_BYTES_TO_READ,
        "{looked_up} bytes of reference, {read} bytes to read: {sizes:?}"
    );
}
