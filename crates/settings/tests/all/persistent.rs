//! Settings that come back at every boot, on a captured machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wakepath_settings::{
    BootOutcome, PersistentSettings, Session, apply_persistent_settings_at_boot, end_boot_trial,
    forget_boot_trial,
};
use wakepath_system::System;

use crate::common::{assert_same, content, laptop, plan, write};

const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const BOOT_ID: &str = "proc/sys/kernel/random/boot_id";
const UPTIME: &str = "proc/uptime";
const FILE: &str = "etc/wakepath/settings.toml";

/// A restart: a new boot with the governor of the kernel.
fn restart(machine: &Path, boot: &str) {
    write(machine, BOOT_ID, boot);
    write(machine, UPTIME, "9.80 15.31\n");
    write(machine, GOVERNOR, "menu\n");
}

fn governor(machine: &Path) -> String {
    let text = fs::read_to_string(machine.join(GOVERNOR)).unwrap();
    text.trim().to_owned()
}

/// A machine in its first boot, with `teo` for every boot.
fn persistent() -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    restart(directory.path(), "first");
    let settings = PersistentSettings::for_any_supply(&system, "teo".parse().unwrap(), None);
    settings.save_file(&system).unwrap();
    assert_eq!(PersistentSettings::load(&system).unwrap(), Some(settings));
    (directory, system)
}

#[test]
fn each_boot_applies_the_set_and_keeps_its_own_old_values() {
    let (directory, system) = persistent();
    let machine = directory.path();
    for boot in ["first", "second", "third"] {
        restart(machine, boot);
        let outcome = apply_persistent_settings_at_boot(&system).unwrap();
        assert!(matches!(outcome, BootOutcome::Applied(_)), "{outcome:?}");
        assert_eq!(governor(machine), "teo");
        end_boot_trial(&system).unwrap();
    }
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(governor(machine), "menu");
}

#[test]
fn the_old_values_are_those_of_the_present_boot() {
    let (directory, system) = persistent();
    let machine = directory.path();
    apply_persistent_settings_at_boot(&system).unwrap();
    end_boot_trial(&system).unwrap();
    write(machine, BOOT_ID, "second");
    write(machine, GOVERNOR, "ladder\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(governor(machine), "ladder");
}

#[test]
fn what_a_killed_process_held_is_no_old_value_of_the_boot() {
    let (directory, system) = persistent();
    let machine = directory.path();
    let journal = machine.join("var/lib/wakepath/journal.json");
    let hold = Session::open_and_recover(&system)
        .unwrap()
        .apply_while_held(&plan(&system, &["ladder"]))
        .unwrap();
    let journalled = fs::read(&journal).unwrap();
    drop(hold);
    // As after a kill: the settings and the journal of the process stay.
    fs::write(&journal, journalled).unwrap();
    write(machine, GOVERNOR, "ladder\n");

    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(governor(machine), "teo");
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(governor(machine), "menu");
}

#[test]
fn a_boot_after_an_unclean_one_leaves_the_set_out() {
    let (directory, system) = persistent();
    let machine = directory.path();
    apply_persistent_settings_at_boot(&system).unwrap();
    // No orderly end.
    for boot in ["second", "third"] {
        restart(machine, boot);
        let outcome = apply_persistent_settings_at_boot(&system).unwrap();
        assert!(
            matches!(&outcome, BootOutcome::LeftOut(set) if set == "teo"),
            "{outcome:?}"
        );
        assert_eq!(governor(machine), "menu");
        // An orderly end of a boot without the set proves nothing.
        end_boot_trial(&system).unwrap();
    }
    forget_boot_trial(&system).unwrap();
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(governor(machine), "teo");
}

#[test]
fn a_set_applied_late_in_a_boot_is_not_on_trial() {
    let (directory, system) = persistent();
    let machine = directory.path();
    write(machine, UPTIME, "601.25 1180.03\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    // No orderly end.
    restart(machine, "second");
    let outcome = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(outcome, BootOutcome::Applied(_)), "{outcome:?}");
    restart(machine, "third");
    let outcome = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(outcome, BootOutcome::LeftOut(_)), "{outcome:?}");
}

#[test]
fn another_set_is_tried_after_an_unclean_boot() {
    let (directory, system) = persistent();
    let machine = directory.path();
    apply_persistent_settings_at_boot(&system).unwrap();
    restart(machine, "second");
    write(machine, FILE, "policy = 'ladder'\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(governor(machine), "ladder");
}

#[test]
fn the_same_set_on_other_cpus_is_tried_after_an_unclean_boot() {
    let (directory, system) = persistent();
    let machine = directory.path();
    let text = "policy = 'cpu-latency[limit=20us,cpus=all]'\n";
    write(machine, FILE, text);
    apply_persistent_settings_at_boot(&system).unwrap();
    restart(machine, "second");
    write(machine, FILE, &format!("{text}cpus = '0'\n"));
    let outcome = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(outcome, BootOutcome::Applied(_)), "{outcome:?}");
}

#[test]
fn a_word_on_the_command_line_leaves_the_set_out() {
    let (directory, system) = persistent();
    write(
        directory.path(),
        "proc/cmdline",
        "quiet wakepath.persist=0\n",
    );
    let before = content(directory.path());
    let outcome = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(outcome, BootOutcome::SwitchedOff), "{outcome:?}");
    assert_same(directory.path(), &before);
}

#[test]
fn a_wrong_file_changes_nothing() {
    let (directory, system) = persistent();
    for (text, part) in [
        ("policy = 'tea'", "did you mean `teo`"),
        ("policy = 'teo + idle-states[ceiling=C7]'", "C6"),
        ("policy = 'cpu-latency[limit=20us]'", "cpus=all"),
        ("policy = 'teo'\nprocessor = 'another'", "another"),
        ("policy = 'psd'", "wakepath daemon"),
    ] {
        write(directory.path(), FILE, text);
        let before = content(directory.path());
        let message = apply_persistent_settings_at_boot(&system)
            .unwrap_err()
            .to_string();
        assert!(message.contains(part), "{text}: {message}");
        assert_same(directory.path(), &before);
    }
}

#[test]
fn a_link_in_place_of_the_file_is_not_followed() {
    let (directory, system) = persistent();
    let file = directory.path().join(FILE);
    fs::remove_file(&file).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &file).unwrap();
    assert!(PersistentSettings::load(&system).is_err());
}

#[test]
fn a_file_that_others_may_write_or_replace_is_refused() {
    let (directory, system) = persistent();
    let file = directory.path().join(FILE);
    for (path, mode, part) in [
        (&*file, 0o664, "others may write it"),
        (&*file, 0o646, "others may write it"),
        (file.parent().unwrap(), 0o775, "others may write its folder"),
    ] {
        let before = fs::metadata(path).unwrap().permissions();
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        let message = PersistentSettings::load(&system).unwrap_err().to_string();
        assert!(message.contains(part), "{message}");
        fs::set_permissions(path, before).unwrap();
    }
    PersistentSettings::load(&system).unwrap();
}

#[test]
fn without_a_file_a_boot_changes_nothing() {
    let (directory, system) = persistent();
    assert!(PersistentSettings::remove_file(&system).unwrap());
    assert!(!PersistentSettings::remove_file(&system).unwrap());
    let before = content(directory.path());
    let outcome = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(outcome, BootOutcome::NoFile), "{outcome:?}");
    assert_same(directory.path(), &before);
}
