//! The commands in the documentation do what the documentation says.
//!
//! A code block marked `console` holds commands after `$ ` and below each its output. They are run
//! by a shell in the root of the repository, with `wakepath` being the one just built. With
//! `WAKEPATH_UPDATE_DOCS=1` the outputs are written anew instead. Commands in other blocks that
//! start with `wakepath` must at least name subcommands and options that exist.
//!
//! What stands between `<!-- $ COMMAND -->` and `<!-- end -->` is the output of that command, as part of the page.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The README and all pages of `docs/`.
fn pages() -> Vec<PathBuf> {
    let mut pages = vec![root().join("README.md")];
    for entry in fs::read_dir(root().join("docs")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "md") {
            pages.push(path);
        }
    }
    pages.sort();
    pages
}

fn shell(command: &str) -> Output {
    let folder = Path::new(env!("CARGO_BIN_EXE_wakepath")).parent().unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    Command::new("sh")
        .args(["-c", command])
        .env("PATH", path)
        .env("WAKEPATH_HERE", "")
        .current_dir(root())
        .output()
        .unwrap()
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

/// The page with the output of every console command as it really is.
fn with_real_outputs(page: &str) -> String {
    let mut text = String::new();
    let mut in_console = false;
    let mut lines = page.lines().peekable();
    while let Some(line) = lines.next() {
        let _ = writeln!(text, "{line}");
        let part = line.strip_prefix("<!-- $ ");
        if let Some(command) = part.and_then(|rest| rest.strip_suffix(" -->")) {
            text.push_str(&printed(shell(command)));
            while lines.next_if(|line| *line != "<!-- end -->").is_some() {}
            assert!(lines.peek().is_some(), "no end after {line}");
            continue;
        }
        if line.starts_with("```") {
            in_console = line == "```console";
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
        text.push_str(&printed(shell(&command)));
        while lines
            .peek()
            .is_some_and(|line| !line.starts_with("$ ") && !line.starts_with("```"))
        {
            lines.next();
        }
    }
    text
}

#[test]
fn commands_print_what_the_pages_say() {
    let update = std::env::var_os("WAKEPATH_UPDATE_DOCS").is_some();
    let mut stale = String::new();
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        let real = with_real_outputs(&page);
        if update {
            fs::write(&path, real).unwrap();
            continue;
        }
        for (said, really) in page.lines().zip(real.lines()) {
            if said != really {
                let _ = writeln!(
                    stale,
                    "{}:\n  page:   {said}\n  really: {really}",
                    path.display()
                );
                break;
            }
        }
        if page.lines().count() != real.lines().count() && stale.is_empty() {
            let _ = writeln!(stale, "{}: an output is longer or shorter", path.display());
        }
    }
    assert!(
        stale.is_empty(),
        "{stale}WAKEPATH_UPDATE_DOCS=1 cargo test -p wakepath-cli --test all docs brings the pages up to date"
    );
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

#[test]
fn links_between_pages_lead_somewhere() {
    for path in pages() {
        let page = fs::read_to_string(&path).unwrap();
        for (_, rest) in page
            .match_indices("](")
            .map(|(at, _)| page.split_at(at + 2))
        {
            let target = rest.split(')').next().unwrap_or_default();
            let file = target.split('#').next().unwrap_or_default();
            if file.is_empty() || file.contains("://") {
                continue;
            }
            let there = path.parent().unwrap().join(file).exists();
            assert!(there, "{}: {target}", path.display());
        }
    }
}
