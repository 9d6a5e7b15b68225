//! Settings that come back at every boot, on a captured machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    BootOutcome, PersistentSettings, ReapplyOutcome, Session, add_old_values_of_replaced_set,
    apply_persistent_settings_at_boot, end_boot_trial, forget_boot_trial, read_persistent_state,
    reapply_after_event, switch_to_set_of_present_supply,
};
use wakepath_system::System;

use crate::common::{assert_same, content, laptop, plan, read, write};

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
    let settings =
        PersistentSettings::for_this_machine(&system, None, "teo".parse().unwrap(), None);
    settings.save_file(&system).unwrap();
    let loaded = PersistentSettings::load(&system).unwrap().unwrap();
    assert_eq!(loaded.to_commented_text(), settings.to_commented_text());
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

const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
/// A file with a setting more than `policy = 'teo'`.
const MORE: &str = "policy = 'teo + epp[value=power]'\n";

#[test]
fn a_changed_file_puts_back_what_it_no_longer_names() {
    let (directory, system) = persistent();
    let machine = directory.path();
    let own = read(machine, EPP);
    let own_governor = governor(machine);
    let apply = |text: &str| {
        write(machine, FILE, text);
        match apply_persistent_settings_at_boot(&system).unwrap() {
            BootOutcome::Applied(plan) => plan.notes.join("\n"),
            other => panic!("{other:?}"),
        }
    };
    for _ in 0..2 {
        assert_eq!(apply(MORE), "");
        assert_eq!(read(machine, EPP), "power");
        let notes = apply("policy = 'teo'\n");
        assert_eq!(
            notes,
            "not in this set: epp:policy0, epp:policy1; put back to the value before"
        );
        assert_eq!(read(machine, EPP), own);
        assert_eq!(governor(machine), "teo");
    }
    // No file names the setting, so that its changes are nobody's drift.
    write(machine, EPP, "performance\n");
    let outcome = reapply_after_event(&system, &ResetEvent::Interval).unwrap();
    assert!(
        matches!(&outcome, ReapplyOutcome::Looked(done) if done.drift.is_empty()),
        "{outcome:?}"
    );
    write(machine, EPP, &own);

    // Somebody else's value stays.
    assert_eq!(apply(MORE), "");
    write(machine, EPP, "performance\n");
    let notes = apply("policy = 'ladder'\n");
    assert_eq!(
        notes,
        "not in this set: epp:policy1; put back to the value before\n\
         not in this set: epp:policy0; left as somebody else has set it"
    );
    assert_eq!(read(machine, EPP), "performance");
    assert_eq!(governor(machine), "ladder");
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(read(machine, EPP), own);
    assert_eq!(governor(machine), own_governor);
}

#[test]
fn a_set_on_trial_is_without_the_one_before_until_that_is_back() {
    let (directory, system) = persistent();
    let machine = directory.path();
    let own = read(machine, EPP);
    write(machine, FILE, MORE);
    apply_persistent_settings_at_boot(&system).unwrap();
    let session = Session::open_and_recover(&system).unwrap();
    let planned = plan(&system, &["ladder"]);
    let whole = add_old_values_of_replaced_set(&session, &planned).unwrap();
    let trial = session.apply_while_held(&whole).unwrap();
    assert_eq!(
        (read(machine, EPP), governor(machine)),
        (own, "ladder".to_owned())
    );
    trial.put_back_and_release().unwrap();
    assert_eq!(read(machine, EPP), "power");
    assert_eq!(governor(machine), "teo");
}

/// The plug is pulled later: what the file names for that supply only has its old value until then.
#[test]
fn a_changed_file_puts_back_what_it_names_for_the_other_supply_only() {
    let (directory, system) = persistent();
    let machine = directory.path();
    write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
    let own = read(machine, EPP);
    write(machine, FILE, MORE);
    apply_persistent_settings_at_boot(&system).unwrap();
    write(
        machine,
        FILE,
        "mains = 'teo'\nbattery = 'epp[value=power]'\n",
    );
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(read(machine, EPP), own);
    // The file is applied again while somebody else's value is in force.
    write(machine, EPP, "performance\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    write(machine, "sys/class/power_supply/AC/online", "0\n");
    switch_to_set_of_present_supply(&system).unwrap();
    assert_eq!(read(machine, EPP), "performance");
    write(machine, "sys/class/power_supply/AC/online", "1\n");
    switch_to_set_of_present_supply(&system).unwrap();
    write(machine, EPP, &own);
    write(machine, "sys/class/power_supply/AC/online", "0\n");
    switch_to_set_of_present_supply(&system).unwrap();
    assert_eq!(read(machine, EPP), "power");
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
fn bytes_that_are_no_text_are_not_an_empty_file() {
    let (directory, system) = persistent();
    // The mark of UTF-16 without any text behind it, half a character of UTF-16, and what is no UTF-8.
    for bytes in [&b"\xff\xfe"[..], b"\xff\xfep", b"policy = '\xff'"] {
        fs::write(directory.path().join(FILE), bytes).unwrap();
        let message = apply_persistent_settings_at_boot(&system)
            .unwrap_err()
            .to_string();
        let usual = PersistentSettings::file_path(&system);
        assert_eq!(
            message,
            format!("{}: cannot be read: is not UTF-8 text", usual.display())
        );
    }
}

#[test]
fn what_this_machine_refuses_names_file_and_key() {
    let (directory, system) = persistent();
    for (text, parts) in [
        (
            "policy = 'teo'\ncpus = '0-99'",
            &["cpus: no CPU", "is online"][..],
        ),
        (
            "battery = 'frequency[max=99GHz]'",
            &["battery: ", "not possible"],
        ),
        (
            "policy = 'teo'\nbattery = 'idle-states[ceiling=C7]'",
            &["battery: ", "C6"],
        ),
        (
            "mains = 'cpu-latency[limit=20us]'",
            &["mains: ", "cpus=all"],
        ),
        (
            "policy = 'teo'\nprocessor = 'another'",
            &["made for the processor another"],
        ),
    ] {
        write(directory.path(), FILE, text);
        let usual = PersistentSettings::file_path(&system);
        let message = apply_persistent_settings_at_boot(&system)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with(&format!("{}: ", usual.display())),
            "{message}"
        );
        assert!(!message.contains('\n'), "{message}");
        for part in parts {
            assert!(message.contains(part), "{text}: {message}");
        }
        // A file elsewhere is named itself.
        let other = directory.path().join("other.toml");
        fs::write(&other, text).unwrap();
        let candidate = PersistentSettings::load_candidate(&other).unwrap();
        let message = candidate
            .plan_for_present_supply(&system)
            .unwrap_err()
            .to_string();
        assert!(
            message.starts_with(&format!("{}: ", other.display())),
            "{message}"
        );
    }
}

#[test]
fn the_state_counts_what_is_possible_beside_what_is_not() {
    let (directory, system) = persistent();
    let state = |text: &str| {
        write(directory.path(), FILE, text);
        read_persistent_state(&system).unwrap().unwrap()
    };
    let all = state("policy = 'menu + epp[value=power]'");
    assert_eq!(all.not_possible, None);
    // The machine is an older one: its kernel has no such setting.
    let some = state("policy = 'menu + c1-demotion[value=off] + epp[value=power]'");
    let why = some.not_possible.unwrap();
    assert!(
        why.contains("policy: ") && why.contains("c1-demotion"),
        "{why}"
    );
    let [refused] = &some.impossible_policies[..] else {
        panic!("{:?}", some.impossible_policies);
    };
    assert!(refused.contains("c1-demotion"), "{refused}");
    assert!(all.in_force_though_left_out.is_empty());
    assert_eq!(some.in_force_though_left_out.len(), some.in_force);
    assert_eq!(
        (some.in_force, some.drifted),
        (all.in_force, all.drifted.clone())
    );
    // The set for battery is not possible: a boot on mains applies nothing, either.
    let other = state("mains = 'menu + epp[value=power]'\nbattery = 'c1-demotion[value=off]'");
    let why = other.not_possible.unwrap();
    assert!(why.contains("battery: "), "{why}");
    assert!(other.impossible_policies.is_empty());
    assert_eq!((other.in_force, other.drifted), (all.in_force, all.drifted));
}

const LATENCY: &str = "power/pm_qos_latency_tolerance_us";

/// A laptop with two drives, of the models `A` and `B`.
fn with_two_drives() -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    for (name, model) in [("nvme0", "A"), ("nvme1", "B")] {
        let drive = format!("sys/class/nvme/{name}");
        write(
            directory.path(),
            &format!("{drive}/model"),
            &format!("{model}   \n"),
        );
        write(directory.path(), &format!("{drive}/serial"), "1\n");
        write(directory.path(), &format!("{drive}/{LATENCY}"), "100000\n");
    }
    (directory, system)
}

fn latencies(machine: &Path) -> [String; 2] {
    ["nvme0", "nvme1"].map(|name| {
        let path = machine.join(format!("sys/class/nvme/{name}/{LATENCY}"));
        fs::read_to_string(path).unwrap().trim().to_owned()
    })
}

/// Applies a file as a boot does. Returns the latencies of both drives, and the notes.
fn boot_with_drives(text: &str) -> ([String; 2], String) {
    let (directory, system) = with_two_drives();
    write(directory.path(), FILE, text);
    let BootOutcome::Applied(plan) = apply_persistent_settings_at_boot(&system).unwrap() else {
        panic!("the file is there");
    };
    (latencies(directory.path()), plan.notes.join("\n"))
}

#[test]
fn each_model_of_drives_has_its_own_set() {
    let general = "policy = 'drive-latency[tolerance=25ms]'\n";
    assert_eq!(boot_with_drives(general).0, ["25000", "25000"]);
    let by_model =
        format!("{general}[[drive]]\nmodel = 'B'\npolicy = 'drive-latency[tolerance=5ms]'\n");
    assert_eq!(
        boot_with_drives(&by_model),
        (["25000", "5000"].map(str::to_owned), String::new())
    );
    // A table without a set for this supply leaves its drives as they are.
    let on_battery = by_model.replace(
        "policy = 'drive-latency[tolerance=5ms]'",
        "battery = 'drive-latency[tolerance=1ms]'",
    );
    assert_eq!(boot_with_drives(&on_battery).0, ["25000", "100000"]);
    let alone = "[[drive]]\nmodel = 'A'\nmains = 'drive-latency[tolerance=5ms]'\n";
    assert_eq!(boot_with_drives(alone).0, ["5000", "100000"]);
}

#[test]
fn settings_of_disks_are_those_of_a_model_too() {
    let (directory, system) = with_two_drives();
    for drive in ["nvme0", "nvme1"] {
        let queue = format!("sys/block/{drive}n1/queue/read_ahead_kb");
        write(directory.path(), &queue, "128\n");
    }
    let read_ahead = || {
        ["nvme0", "nvme1"].map(|drive| {
            let queue = format!("sys/block/{drive}n1/queue/read_ahead_kb");
            fs::read_to_string(directory.path().join(queue)).unwrap()
        })
    };
    let set = "read-ahead[kb=512]".parse().unwrap();
    let settings = PersistentSettings::for_this_machine(&system, None, set, None);
    assert_eq!(settings.drives, Some(["A", "B"].map(str::to_owned).into()));
    let text = "[[drive]]\nmodel = 'B'\npolicy = 'read-ahead[kb=512]'\n";
    write(directory.path(), FILE, text);
    let applied = apply_persistent_settings_at_boot(&system).unwrap();
    assert!(matches!(applied, BootOutcome::Applied(_)), "{applied:?}");
    assert_eq!(
        read_ahead().map(|value| value.trim().to_owned()),
        ["128", "512"]
    );
    // A drive without a disk yet is no reason to leave the rest out.
    fs::remove_dir_all(directory.path().join("sys/block/nvme1n1")).unwrap();
    write(directory.path(), FILE, &format!("policy = 'menu'\n{text}"));
    let state = read_persistent_state(&system).unwrap().unwrap();
    assert_eq!(state.not_possible, None);
}

#[test]
fn a_drive_that_the_sets_were_not_made_for_is_left_out_and_named() {
    let text = "policy = 'teo + drive-latency[tolerance=25ms]'\ndrives = ['A']\n";
    let (latencies, notes) = boot_with_drives(text);
    assert_eq!(latencies, ["25000", "100000"]);
    assert!(notes.contains("nvme1 (B) is left out"), "{notes}");
    // All drives were exchanged: the rest of the set holds.
    let (latencies, notes) = boot_with_drives(&text.replace("'A'", "'C'"));
    assert_eq!(latencies, ["100000", "100000"]);
    assert!(notes.contains("nvme0 (A) is left out"), "{notes}");
}

#[test]
fn a_drive_that_comes_later_and_is_left_out_is_named_then() {
    let (directory, system) = with_two_drives();
    let machine = directory.path();
    let away = machine.join("nvme1");
    let drive = machine.join("sys/class/nvme/nvme1");
    fs::rename(&drive, &away).unwrap();
    let text = "policy = 'drive-latency[tolerance=25ms]'\ndrives = ['A']\n";
    write(machine, FILE, text);
    apply_persistent_settings_at_boot(&system).unwrap();
    fs::rename(&away, &drive).unwrap();
    let notes_after = |drive: &str| {
        let event = ResetEvent::DriveReady(drive.to_owned());
        match reapply_after_event(&system, &event).unwrap() {
            ReapplyOutcome::Looked(done) => done.notes.join("\n"),
            other => panic!("{other:?}"),
        }
    };
    assert!(notes_after("nvme1").contains("nvme1 (B) is left out"));
    assert_eq!(notes_after("nvme0"), "");
    assert_eq!(latencies(machine), ["25000", "100000"]);
}

#[test]
fn a_drive_that_comes_after_the_boot_gets_the_set() {
    let (directory, system) = with_two_drives();
    let machine = directory.path();
    let drives = machine.join("sys/class/nvme");
    let away = machine.join("away");
    fs::rename(&drives, &away).unwrap();
    let set = "teo + drive-latency[tolerance=25ms]";
    // A command is for drives that are there.
    let command = PersistentSettings::for_this_machine(&system, None, set.parse().unwrap(), None);
    let refused = command.plan_for_present_supply(&system).unwrap_err();
    assert!(refused.to_string().contains("no NVMe drive"), "{refused}");

    write(machine, FILE, &format!("policy = '{set}'\n"));
    let BootOutcome::Applied(plan) = apply_persistent_settings_at_boot(&system).unwrap() else {
        panic!("not applied");
    };
    assert_eq!(governor(machine), "teo");
    assert!(plan.notes.join("\n").contains("comes later"), "{plan:?}");
    fs::rename(&away, &drives).unwrap();
    for drive in ["nvme0", "nvme1"] {
        reapply_after_event(&system, &ResetEvent::DriveReady(drive.to_owned())).unwrap();
    }
    assert_eq!(latencies(machine), ["25000", "25000"]);
}

#[test]
fn a_disk_whose_driver_is_loaded_after_the_boot_gets_the_set() {
    let (directory, system) = with_two_drives();
    let queue = |disk: &str| format!("sys/block/{disk}/queue/read_ahead_kb");
    let read_ahead = |disk: &str| {
        let text = fs::read_to_string(directory.path().join(queue(disk))).unwrap();
        text.trim().to_owned()
    };
    write(directory.path(), FILE, "policy = 'read-ahead[kb=512]'\n");
    write(directory.path(), &queue("nvme0n1"), "128\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(read_ahead("nvme0n1"), "512");
    for disk in ["sda", "mmcblk0"] {
        write(directory.path(), &queue(disk), "128\n");
    }
    let event: ResetEvent = "sda".parse().unwrap();
    reapply_after_event(&system, &event).unwrap();
    // The event is about one disk.
    assert_eq!(["sda", "mmcblk0"].map(read_ahead), ["512", "128"]);
    // The disk is pulled out, and another one has its name.
    write(directory.path(), &queue("sda"), "128\n");
    reapply_after_event(&system, &event).unwrap();
    assert_eq!(read_ahead("sda"), "512");
}

#[test]
fn the_drives_of_a_set_are_noted_with_it() {
    let (directory, system) = with_two_drives();
    let models = |set: &str| {
        let set = set.parse().unwrap();
        let (settings, _) = PersistentSettings::load_and_put_set(&system, None, set, None).unwrap();
        settings.drives
    };
    assert_eq!(models("teo"), None);
    let set = "teo + drive-latency[tolerance=25ms]";
    let both = Some(vec!["A".to_owned(), "B".to_owned()]);
    assert_eq!(models(set), both);
    // A model with a set of its own is in no need of being noted; one that is away for the moment stays noted.
    let text = "policy = 'teo'\ndrives = ['C']\n[[drive]]\nmodel = 'B'\npolicy = 'apst'\n";
    write(directory.path(), FILE, text);
    assert_eq!(models(set), Some(vec!["C".to_owned(), "A".to_owned()]));
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
