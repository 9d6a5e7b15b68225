//! Whatever reaches a terminal goes through the two writers that show what a terminal would obey: `Screen` for standard output and
//! `messages` for standard error, and the daemon's `log`.

#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// What writes, and the files that may.
const WRITERS: [&str; 7] = [
    "println!",
    "eprintln!",
    "print!(",
    "eprint!(",
    "dbg!(",
    "stdout()",
    "stderr()",
];
const ALLOWED: [&str; 4] = [
    // It asks the terminal about itself.
    "cli/src/bars.rs",
    "cli/src/output.rs",
    "cli/src/messages.rs",
    "daemon/src/log.rs",
];

/// Asking how wide a terminal is, or whether there is one, prints nothing, nor does handing it to a command that a user runs.
const ASKS: [&str; 3] = ["is_terminal()", "size()", "as_fd()"];

/// Programs for developers only.
const TOOLS: [&str; 2] = ["conformance", "ebpf"];

fn sources(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|e| e == "rs") {
            all.push(path);
        }
    }
}

#[test]
fn nothing_else_writes_to_a_terminal() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut files = Vec::new();
    for entry in fs::read_dir(&crates).unwrap() {
        let entry = entry.unwrap();
        let tool = TOOLS.iter().any(|tool| entry.file_name() == *tool);
        let source = entry.path().join("src");
        if !tool && source.is_dir() {
            sources(&source, &mut files);
        }
    }
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&crates).unwrap().display().to_string();
        if ALLOWED.contains(&name.as_str()) {
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        // Unit tests say what they skip.
        let tests = "#[cfg(test)]\nmod tests {";
        let text = text.split_once(tests).map_or(&*text, |(code, _)| code);
        // A call may be in several lines.
        let joined: String = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.starts_with("//"))
            .collect();
        for writer in WRITERS {
            for (at, _) in joined.match_indices(writer) {
                let before = joined[..at].chars().next_back();
                let part_of_word = before.is_some_and(|c| c.is_alphanumeric() || c == '_');
                let after = joined[at + writer.len()..].trim_start_matches('.');
                let asks = ASKS.iter().any(|ask| after.starts_with(ask));
                // `of_stdout()` and a program's own `stdout()` in a builder are other things.
                let builder = before == Some('.');
                if !part_of_word && !asks && !builder {
                    found.push(format!("{name}: {writer}"));
                }
            }
        }
    }
    found.sort();
    found.dedup();
    assert!(found.is_empty(), "{found:#?}");
}

/// What terminals obey, and what turns text around.
const EVIL: &str = "\u{1b}[2J\u{1b}]8;;http://x\u{7}\u{1b}]52;c;ZQ==\u{7}\u{9b}31m\u{202e}\u{2066}\u{200b}\u{2028}";

fn run(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

/// Neither output has a character that a terminal obeys.
fn assert_shown(what: &str, output: &Output) {
    for bytes in [&output.stdout, &output.stderr] {
        let text = String::from_utf8(bytes.clone()).unwrap();
        let hidden = text.chars().find(|c| {
            *c != '\n' && (c.is_control() || "\u{202e}\u{2066}\u{200b}\u{2028}".contains(*c))
        });
        assert_eq!(hidden, None, "{what}: {text:?}");
    }
}

#[test]
fn strangers_files_do_not_steer_a_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let study = format!(
        "title = \"t\"\n\"un{EVIL}known\" = 1\n",
        EVIL = toml_escaped()
    );
    fs::write(path.join("s.toml"), study).unwrap();
    fs::write(path.join("t.txt"), format!("cpu 0 {EVIL} no event\n")).unwrap();
    fs::write(
        path.join("j.fio"),
        format!(
            "[a{EVIL}]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nsize=1m\nx{EVIL}=1\n"
        ),
    )
    .unwrap();
    let machine = fs::read_to_string(
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/board.toml"),
    )
    .unwrap();
    let title = machine
        .lines()
        .map(|line| match line.strip_prefix("title = ") {
            Some(_) => format!("title = \"{}\\nwakepath: fine\"", toml_escaped()),
            None => line.to_owned(),
        })
        .collect::<Vec<_>>()
        .join("\n");
    fs::write(path.join("m.toml"), title).unwrap();
    let evil_file = format!("no{EVIL}.fio");
    for arguments in [
        &["study", "check", "s.toml"][..],
        &["import", "t.txt", "-o", "t.parquet"],
        &["sim", "j.fio", "--machine", "rk3399", "--runs", "1"],
        &["sim", &evil_file, "--machine", "rk3399"],
        &["sim", "j.fio", "--machine", &evil_file],
        &[
            "sim",
            "j.fio",
            "--machine",
            "rk3399",
            "--policy",
            &evil_file,
        ],
        &["machine", "show", "m.toml"],
        &["machine", "show", "m.toml", "--format", "json"],
        &["machine", "show", "m.toml", "--format", "csv"],
        &["compare", &evil_file],
        &["apply", &evil_file, "--root", "."],
    ] {
        let output = run(path, arguments);
        assert_shown(&arguments.join(" "), &output);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.contains("\nwakepath: fine"), "{text}");
    }
}

#[test]
fn arguments_do_not_steer_a_terminal() {
    let title = "x\u{1b}]0;title\u{7}";
    for arguments in [
        &[title][..],
        &["sim", title],
        &["compare", "x", "--format", title],
        &["policy", "show", title],
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_wakepath"))
            .args(arguments)
            .env("CLICOLOR_FORCE", "1")
            .output()
            .unwrap();
        assert_shown(&arguments.join(" "), &output);
    }
}

/// The same in a text of TOML, which takes no raw control characters.
fn toml_escaped() -> String {
    EVIL.chars()
        .map(|c| format!("\\U{:08X}", u32::from(c)))
        .collect::<Vec<String>>()
        .concat()
}
