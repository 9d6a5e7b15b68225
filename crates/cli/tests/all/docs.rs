//! The commands in the documentation do what the documentation says.
//!
//! A code block marked `console` holds commands after `$ ` and below each its output. They are run
//! by a shell in the root of the repository, with `wakepath` being the one just built. With
//! `WAKEPATH_UPDATE_DOCS=1` the outputs are written anew instead. Commands in other blocks that
//! start with `wakepath` must at least name subcommands and options that exist.
//!
//! What stands between `<!-- $ COMMAND -->` and `<!-- end -->` is the output of that command, as part of the page.
//!
//! `tutorial.rs` has the tutorial: its commands build on each other, and some are for the reader's own machine.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

mod questions;
mod recipes;
mod size;
mod tutorial;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Pages beside `docs/` whose commands and links are held as well.
const PAGES_OF_THE_ROOT: [&str; 4] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
];

/// All pages: those of the root and every shelf of `docs/`. Captured machines under `docs/examples/` are no pages.
fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = PAGES_OF_THE_ROOT.iter().map(|p| root().join(p)).collect();
    collect_pages(&root().join("docs"), &mut pages);
    pages.sort();
    pages
}

fn collect_pages(folder: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("examples") {
            collect_pages(&path, pages);
        } else if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
}

/// Runs a command line in the repository's root.
fn shell(command: &str) -> Output {
    shell_in(&root(), command)
}

/// Runs a command line in a folder, with `wakepath` being the one just built.
fn shell_in(folder: &Path, command: &str) -> Output {
    let programs = Path::new(env!("CARGO_BIN_EXE_wakepath")).parent().unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .env("WAKEPATH_HERE", "")
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Whether the pages are to be written anew instead of compared.
fn pages_are_updated() -> bool {
    std::env::var_os("WAKEPATH_UPDATE_DOCS").is_some()
}

/// What a command printed, without lines of progress: they come and go with the speed of the machine.
fn printed(output: Output) -> String {
    let text = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
    let is_progress = |line: &str| {
        let rest = line.strip_prefix("wakepath: ").unwrap_or_default();
        rest.starts_with(|c: char| c.is_ascii_digit())
            && rest.contains(" of ")
            && rest.contains(" after ")
    };
    let kept = text.split_inclusive('\n').filter(|line| !is_progress(line));
    kept.collect()
}

/// The page with the output of every console command as it really is, run in a folder. `fence` begins the blocks that are meant, and
/// `setup` stands before each command line.
fn with_real_outputs(page: &str, folder: &Path, fence: &str, setup: &str) -> String {
    let mut text = String::new();
    let mut in_console = false;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(text, "{line}");
        let part = line.strip_prefix("<!-- $ ");
        if let Some(command) = part.and_then(|rest| rest.strip_suffix(" -->")) {
            text.push_str(&printed(shell_in(folder, command)));
            while lines.next_if(|line| *line != "<!-- end -->").is_some() {}
            assert!(lines.peek().is_some(), "no end after {line}");
            continue;
        }
        if line.starts_with("```") {
            in_console = line == fence;
        }
        let Some(command) = line.strip_prefix("$ ").filter(|_| in_console) else {
            continue;
        };
        let mut command = command.to_owned();
        while command.ends_with('\\') {
            let more = lines.next().unwrap();
            let _ = writeln!(text, "{more}");
            command.push('\n');
            command.push_str(more);
        }
        text.push_str(&printed(shell_in(folder, &format!("{setup}{command}"))));
        while lines
            .peek()
            .is_some_and(|line| !line.starts_with("$ ") && !line.starts_with("```"))
        {
            lines.next();
        }
    }
    text
}

/// Where a page differs from what its commands really print: the first line, or nothing.
fn first_difference(path: &Path, page: &str, real: &str) -> Option<String> {
    let both = page.lines().zip(real.lines());
    if let Some((said, really)) = both.into_iter().find(|(said, really)| said != really) {
        return Some(format!(
            "{}:\n  page:   {said}\n  really: {really}\n",
            path.display()
        ));
    }
    (page.lines().count() != real.lines().count())
        .then(|| format!("{}: an output is longer or shorter\n", path.display()))
}

/// Writes the pages with their real outputs, or compares them.
fn update_or_compare(pages: Vec<(PathBuf, String)>) {
    let mut stale = String::new();
    for (path, real) in pages {
        if pages_are_updated() {
            fs::write(&path, real).unwrap();
            continue;
        }
        let page = fs::read_to_string(&path).unwrap();
        stale.extend(first_difference(&path, &page, &real));
    }
    assert!(
        stale.is_empty(),
        "{stale}WAKEPATH_UPDATE_DOCS=1 cargo test -p wakepath-cli --test all docs brings the pages up to date"
    );
}

#[test]
fn commands_print_what_the_pages_say() {
    let all = pages().into_iter().filter(|path| *path != tutorial::page());
    let with_outputs = all.map(|path| {
        let page = fs::read_to_string(&path).unwrap();
        let real = with_real_outputs(&page, &root(), "```console", "");
        (path, real)
    });
    update_or_compare(with_outputs.collect());
}

#[test]
fn commands_in_other_blocks_exist() {
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let mut block = None;
        for line in page.replace("\\\n", " ").lines() {
            if let Some(kind) = line.strip_prefix("```") {
                block = block.is_none().then(|| kind.to_owned());
            }
            if block.as_deref() == Some("sh") && line.starts_with("wakepath ") {
                let line = line.split(" #").next().unwrap_or_default();
                // `--help` wins over missing files and arguments, but not over unknown words.
                let words = line.split_whitespace().skip(1).take(2);
                // What follows in a comment is no argument, and neither would `--help` be. A quoted argument may end later.
                let words: Vec<&str> = words
                    .take_while(|word| *word != "#" && !word.contains(['\'', '"']))
                    .collect();
                let output = shell(&format!("wakepath {} --help", words.join(" ")));
                let help = String::from_utf8_lossy(&output.stdout).into_owned();
                assert!(output.status.success(), "{}: {line}", path.display());
                for option in line
                    .split_whitespace()
                    .filter(|word| word.starts_with("--"))
                {
                    assert!(
                        help.contains(option),
                        "{}: {option} in {line}",
                        path.display()
                    );
                }
            }
        }
    }
}

/// The anchor that Markdown renderers give a heading: lower case, words joined by `-`, punctuation left out.
fn heading_anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter_map(|c| match c {
        ' ' => Some('-'),
        '-' | '_' => Some(c),
        _ if c.is_alphanumeric() => Some(c.to_ascii_lowercase()),
        _ => None,
    });
    kept.collect()
}

/// The anchors of a page's headings, without those of code blocks.
fn page_anchors(page: &str) -> Vec<String> {
    let mut in_code = false;
    let mut anchors = Vec::new();
    for line in page.lines() {
        if line.starts_with("```") {
            in_code = !in_code;
        }
        let heading = line.trim_start_matches('#');
        if !in_code && heading.len() < line.len() && heading.starts_with(' ') {
            anchors.push(heading_anchor(heading));
        }
    }
    anchors
}

/// What a page links to, outside of code blocks: targets of `[text](target)`.
fn link_targets(page: &str) -> Vec<&str> {
    let prose = page.split("\n```").step_by(2);
    let rests = prose.flat_map(|text| text.match_indices("](").map(|(at, _)| &text[at + 2..]));
    rests
        .filter_map(|rest| rest.split(')').next())
        .filter(|target| !target.contains("://"))
        .collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut wrong = Vec::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for target in link_targets(&page) {
            let (file, section) = target.split_once('#').unwrap_or((target, ""));
            let there = match file {
                "" => path.clone(),
                _ => path.parent().unwrap().join(file),
            };
            let leads = if section.is_empty() {
                there.exists()
            } else {
                fs::read_to_string(&there)
                    .is_ok_and(|text| page_anchors(&text).iter().any(|a| a == section))
            };
            if !leads {
                wrong.push(format!("{}: {target}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn each_page_stands_in_an_index() {
    let docs = root().join("docs");
    let indexes = [
        docs.join("README.md"),
        docs.join("background/decisions/README.md"),
        docs.join("reference/recipes/README.md"),
    ];
    let mut named = Vec::new();
    for index in &indexes {
        let text = fs::read_to_string(index).unwrap();
        let targets = link_targets(&text).into_iter();
        let files = targets.filter_map(|target| target.split('#').next());
        named.extend(files.filter_map(|file| index.with_file_name(file).canonicalize().ok()));
    }
    let mut all = Vec::new();
    collect_pages(&docs, &mut all);
    all.retain(|page| !indexes.contains(page) && !named.contains(&page.canonicalize().unwrap()));
    assert!(all.is_empty(), "docs/README.md does not name {all:?}");
}
