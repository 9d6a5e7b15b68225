//! `wakepath drive add` and `remove`: any dump makes a drive, for every command that takes one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use assert_cmd::Command;
use assert_cmd::assert::Assert;

use crate::common::{fails_with, json, repository};

/// Runs `wakepath` for a user with a data folder of their own.
fn wakepath_for_user(data: &Path, arguments: &[&str]) -> Assert {
    Command::cargo_bin("wakepath")
        .unwrap()
        .args(arguments)
        .env("COLUMNS", "1000")
        .env("WAKEPATH_HERE", "")
        .env("XDG_DATA_HOME", data)
        .assert()
}

fn stdout(assert: Assert) -> String {
    String::from_utf8(assert.success().get_output().stdout.clone()).unwrap()
}

#[test]
fn a_kept_dump_is_a_drive_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = |arguments: &[&str]| wakepath_for_user(&data, arguments);
    let dump = repository().join("crates/cli/tests/data/sn530.txt");
    let dump = dump.to_str().unwrap();
    let added = stdout(run(&["drive", "add", dump, "--name", "work"]));
    assert!(
        added.contains("'work'") && added.contains("work.toml"),
        "{added}"
    );
    let listed = json(&run(&["drive", "list", "work", "--format", "json"]));
    assert_eq!(
        (&listed[0]["model"], &listed[0]["kept"]),
        (&"work".into(), &true.into())
    );
    // All commands take the drive's own table, under its name as under the dump's.
    for command in [
        &["apst", "plan", "--format", "hex", "--drive"][..],
        &[
            "sim",
            "workloads/apst-7.fio",
            "--machine",
            "laptop",
            "--format",
            "json",
            "--drive",
        ],
    ] {
        let [kept, file] = ["work", dump].map(|drive| {
            let arguments = [command, &[drive]].concat();
            stdout(
                Command::cargo_bin("wakepath")
                    .unwrap()
                    .current_dir(repository())
                    .args(arguments)
                    .env("WAKEPATH_HERE", "")
                    .env("XDG_DATA_HOME", &data)
                    .assert(),
            )
        });
        assert_eq!(kept, file, "{command:?}");
    }
    let shown = stdout(run(&["drive", "show", "work"]));
    assert!(shown.contains("drive.PS3.true_exit_us"), "{shown}");
    fails_with(
        run(&["drive", "add", dump, "--name", "work"]),
        &["a drive 'work' is kept already; --force replaces it"],
    );
    stdout(run(&["drive", "remove", "work"]));
    fails_with(run(&["drive", "show", "work"]), &["work"]);
}

#[test]
fn nothing_of_a_hostile_dump_reaches_the_terminal_or_another_folder() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let run = |arguments: &[&str]| wakepath_for_user(&data, arguments);
    let file = folder.path().join("evil.toml");
    let text = "schema = 1\nname = \"../../x\\u001b[31m\\n\"\nsource = \"\\u202egnp\"\n";
    fs::write(&file, text).unwrap();
    let added = stdout(run(&["drive", "add", file.to_str().unwrap()]));
    assert!(added.contains("my-x-31m.toml"), "{added}");
    assert!(!added.contains('\u{1b}'), "{added}");
    let listed = stdout(run(&["drive", "list", "my-x"]));
    let shown = stdout(run(&["drive", "show", "my-x-31m"]));
    for text in [listed, shown] {
        assert!(
            !text.contains('\u{1b}') && !text.contains('\u{202e}'),
            "{text}"
        );
    }
    for name in ["../x", "/tmp/x", "a b"] {
        fails_with(
            run(&["drive", "add", file.to_str().unwrap(), "--name", name]),
            &["no name for a drive"],
        );
    }
    // A file that became unusable is named, and the others stay.
    let kept = data.join("wakepath/drives");
    fs::write(kept.join("broken.toml"), "nonsense").unwrap();
    let list = run(&["drive", "list", "my-"]).success();
    let errors = String::from_utf8(list.get_output().stderr.clone()).unwrap();
    assert!(errors.contains("broken.toml"), "{errors}");
}
