//! The Debian package: what is in it, and that its removal puts settings back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod common;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use common::captured::{content, copy_of_laptop, different};
use common::{repository, skip};

fn text(output: &Output) -> String {
    let all = [&output.stdout[..], &output.stderr[..]].concat();
    String::from_utf8_lossy(&all).into_owned()
}

fn dpkg_deb(option: &str, package: &Path) -> String {
    let output = Command::new("dpkg-deb").arg(option).arg(package).output();
    text(&output.unwrap())
}

#[test]
fn the_package_installs_everything_and_its_removal_restores() {
    let test = "the_package_installs_everything_and_its_removal_restores";
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let made = Command::new(repository().join("scripts/package-debian.sh"))
        .args([Path::new(env!("CARGO_BIN_EXE_wakepath")), folder.path()])
        .output()
        .unwrap();
    if !made.status.success() {
        let said = text(&made);
        assert!(said.contains("no cargo-deb"), "{said}");
        return skip(test, said.trim());
    }
    let package = fs::read_dir(folder.path())
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let listed = dpkg_deb("--contents", &package);
    for file in [
        "./usr/bin/wakepath",
        "./etc/wakepath/daemon.toml",
        "./usr/lib/systemd/system/wakepath.service",
        "./usr/share/man/man1/wakepath.1.gz",
        "./usr/share/man/man1/wakepath-daemon.1.gz",
        "./usr/share/bash-completion/completions/wakepath",
        "./usr/share/zsh/vendor-completions/_wakepath",
        "./usr/share/fish/vendor_completions.d/wakepath.fish",
        "./usr/share/doc/wakepath/copyright",
    ] {
        assert!(
            listed.lines().any(|line| line.ends_with(file)),
            "{file} is not in\n{listed}"
        );
    }
    // Nothing runs with more rights than who calls it.
    assert!(
        listed.lines().all(|line| !line[..10].contains('s')),
        "{listed}"
    );
    let about = dpkg_deb("--info", &package);
    assert!(
        about.contains("Package: wakepath") && about.contains("libc6"),
        "{about}"
    );

    if !rustix::process::geteuid().is_root() {
        return skip(test, "dpkg installs only for root");
    }
    // Installed below a directory that is a machine, too.
    let machine = copy_of_laptop();
    let root = machine.path();
    let before = content(root);
    for directory in [
        "var/lib/dpkg/updates",
        "var/lib/dpkg/info",
        "var/lib/dpkg/triggers",
    ] {
        fs::create_dir_all(root.join(directory)).unwrap();
    }
    fs::write(root.join("var/lib/dpkg/status"), "").unwrap();
    fs::write(root.join("var/lib/dpkg/available"), "").unwrap();
    let dpkg = |arguments: &[&str]| {
        let output = Command::new("dpkg")
            .arg(format!("--root={}", root.display()))
            .args([
                "--force-depends",
                "--force-script-chrootless",
                "--force-not-root",
            ])
            .arg(format!("--log={}", folder.path().join("log").display()))
            .args(arguments)
            // The scripts must not stop a service of this machine.
            .env("SYSTEMD_OFFLINE", "1")
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "dpkg {arguments:?}: {}",
            text(&output)
        );
    };
    dpkg(&["--install", package.to_str().unwrap()]);
    check_unit(test, root, folder.path());
    let applied = Command::new(root.join("usr/bin/wakepath"))
        .args(["apply", "teo", "cpu-latency[limit=20us]", "--root"])
        .arg(root)
        .output()
        .unwrap();
    assert!(applied.status.success(), "{}", text(&applied));
    let governor = root.join("sys/devices/system/cpu/cpuidle/current_governor");
    assert_eq!(fs::read_to_string(&governor).unwrap(), "teo\n");
    dpkg(&["--remove", "wakepath"]);
    assert_eq!(fs::read_to_string(&governor).unwrap(), "menu\n");
    dpkg(&["--purge", "wakepath"]);
    assert!(!root.join("var/lib/wakepath").exists());
    let left = different(&content(root), &before);
    assert!(left.is_empty(), "{left:?}");
}

/// systemd takes the unit as it is, and finds it well locked up: its rating goes from 0, locked up, to 10, and is shown here
/// times ten. It is 9.6 for a service of root's without any restrictions.
fn check_unit(test: &str, root: &Path, folder: &Path) {
    let installed = root.join("usr/lib/systemd/system/wakepath.service");
    let unit = fs::read_to_string(installed).unwrap();
    assert!(unit.contains("\nExecStart=/usr/bin/wakepath daemon\n"));
    // Programs have to exist, and documentation to be installed.
    let here = unit
        .replace("/usr/bin/wakepath", env!("CARGO_BIN_EXE_wakepath"))
        .replace("Documentation=", "#");
    let path = folder.join("wakepath.service");
    fs::write(&path, here).unwrap();
    for arguments in [
        &["verify"][..],
        &["security", "--offline=yes", "--threshold=30"],
    ] {
        let output = Command::new("systemd-analyze")
            .args(arguments)
            .arg(&path)
            .output();
        let Ok(output) = output else {
            return skip(test, "no systemd-analyze (Debian: systemd)");
        };
        let said = text(&output);
        assert!(output.status.success(), "{arguments:?}: {said}");
        assert!(arguments[0] != "verify" || said.is_empty(), "{said}");
    }
}
