//! Persistent sets for mains and battery, on a captured machine whose plug is pulled.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    DriftEvidence, PersistentSettings, PowerSupply, ReapplyOutcome, Session, SupplyOutcome,
    apply_persistent_settings_at_boot, read_persistent_state, reapply_after_event,
    remove_supply_record, switch_to_set_of_present_supply,
};
use wakepath_system::System;

use crate::common::{assert_same, content, laptop, read, write};

const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
const FILE: &str = "etc/wakepath/settings.toml";

fn pull_plug(machine: &Path) {
    write(machine, "sys/class/power_supply/AC/online", "0\n");
}

fn plug_in(machine: &Path) {
    write(machine, "sys/class/power_supply/AC/online", "1\n");
}

/// A laptop with a battery, on mains, after a boot with `teo` for mains and a low EPP for battery.
fn booted_on_mains() -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    let machine = directory.path();
    write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
    let text = "mains = 'teo'\nbattery = 'epp[value=power]'\n";
    write(machine, FILE, text);
    apply_persistent_settings_at_boot(&system).unwrap();
    (directory, system)
}

#[test]
fn a_boot_applies_the_set_of_its_supply() {
    let (directory, system) = laptop();
    let machine = directory.path();
    write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
    pull_plug(machine);
    let governor = read(machine, GOVERNOR);
    let text = "policy = 'teo'\nbattery = 'epp[value=power]'\n";
    write(machine, FILE, text);
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(read(machine, EPP), "power");
    assert_eq!(read(machine, GOVERNOR), governor);
}

#[test]
fn a_change_of_supply_changes_the_set_and_puts_the_other_back() {
    let (directory, system) = booted_on_mains();
    let machine = directory.path();
    let epp = read(machine, EPP);
    assert_eq!(read(machine, GOVERNOR), "teo");
    for _ in 0..2 {
        pull_plug(machine);
        let outcome = switch_to_set_of_present_supply(&system).unwrap();
        assert!(
            matches!(&outcome, SupplyOutcome::Switched(switched) if switched.supply == PowerSupply::Battery && switched.drift.is_empty()),
            "{outcome:?}"
        );
        assert_eq!(read(machine, EPP), "power");
        assert_eq!(read(machine, GOVERNOR), "menu");
        plug_in(machine);
        switch_to_set_of_present_supply(&system).unwrap();
        assert_eq!(read(machine, EPP), epp);
        assert_eq!(read(machine, GOVERNOR), "teo");
    }
}

#[test]
fn an_event_without_a_change_of_supply_writes_nothing() {
    let (directory, system) = booted_on_mains();
    write(directory.path(), GOVERNOR, "ladder\n");
    let before = content(directory.path());
    let outcome = switch_to_set_of_present_supply(&system).unwrap();
    assert!(
        matches!(outcome, SupplyOutcome::Unchanged(PowerSupply::Mains)),
        "{outcome:?}"
    );
    assert_same(directory.path(), &before);
}

#[test]
fn what_somebody_else_has_set_is_reported_and_stays() {
    let (directory, system) = booted_on_mains();
    let machine = directory.path();
    // One setting of each set, by somebody else.
    write(machine, GOVERNOR, "ladder\n");
    write(machine, EPP, "performance\n");
    for pull in [true, false, true] {
        if pull {
            pull_plug(machine);
        } else {
            plug_in(machine);
        }
        let SupplyOutcome::Switched(switched) = switch_to_set_of_present_supply(&system).unwrap()
        else {
            panic!("the supply has changed");
        };
        let found: Vec<(String, &str)> = switched
            .drift
            .iter()
            .map(|drifted| (drifted.key.to_string(), drifted.found.as_str()))
            .collect();
        assert!(
            found.contains(&("idle-governor".to_owned(), "ladder")),
            "{found:?}"
        );
        assert!(
            found.contains(&("epp:policy0".to_owned(), "performance")),
            "{found:?}"
        );
        assert_eq!(read(machine, GOVERNOR), "ladder");
        assert_eq!(read(machine, EPP), "performance");
    }
}

#[test]
fn after_a_restore_a_change_of_supply_writes_nothing() {
    let (directory, system) = booted_on_mains();
    let machine = directory.path();
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    remove_supply_record(&system).unwrap();
    pull_plug(machine);
    let before = content(machine);
    let outcome = switch_to_set_of_present_supply(&system).unwrap();
    assert!(matches!(outcome, SupplyOutcome::NotInForce), "{outcome:?}");
    assert_same(machine, &before);
}

#[test]
fn a_refused_switch_leaves_the_other_set_in_force() {
    let (directory, system) = booted_on_mains();
    let machine = directory.path();
    pull_plug(machine);
    write(
        machine,
        FILE,
        "mains = 'teo'\nbattery = 'epp[value=power] + idle-states[ceiling=C7]'\n",
    );
    let before = content(machine);
    let message = switch_to_set_of_present_supply(&system)
        .unwrap_err()
        .to_string();
    assert!(message.contains("C6"), "{message}");
    assert_same(machine, &before);
    // The event after the file is mended does what this one could not.
    write(
        machine,
        FILE,
        "mains = 'teo'\nbattery = 'epp[value=power]'\n",
    );
    switch_to_set_of_present_supply(&system).unwrap();
    assert_eq!(read(machine, EPP), "power");
}

#[test]
fn a_plug_that_is_pulled_waits_for_the_lock() {
    let (directory, system) = booted_on_mains();
    let other = Session::open_and_recover(&system).unwrap();
    pull_plug(directory.path());
    let outcome = thread::scope(|scope| {
        let event = scope.spawn(|| switch_to_set_of_present_supply(&system));
        thread::sleep(Duration::from_millis(300));
        assert_eq!(read(directory.path(), GOVERNOR), "teo");
        drop(other);
        event.join().unwrap()
    });
    assert!(
        matches!(outcome, Ok(SupplyOutcome::Switched(_))),
        "{outcome:?}"
    );
    assert_eq!(read(directory.path(), EPP), "power");
}

/// The event of the plug came to nothing, as after a command that had the lock for long.
#[test]
fn the_next_event_of_any_kind_makes_up_for_a_plug_that_was_missed() {
    for event in [
        ResetEvent::Interval,
        ResetEvent::Resume,
        ResetEvent::CpuOnline(1),
    ] {
        let (directory, system) = booted_on_mains();
        let machine = directory.path();
        pull_plug(machine);
        let state = read_persistent_state(&system).unwrap().unwrap();
        assert_eq!(
            state.other_supply_in_force,
            Some(PowerSupply::Mains),
            "{state:?}"
        );
        let shown: Vec<Option<DriftEvidence>> = state
            .drifted
            .iter()
            .filter(|drift| drift.setting == "epp:policy0")
            .map(|drift| drift.evidence)
            .collect();
        // The preference has the value that it has beside the set for mains.
        assert_eq!(shown, [Some(DriftEvidence::OtherSupply)], "{state:?}");
        let ReapplyOutcome::Looked(done) = reapply_after_event(&system, &event).unwrap() else {
            panic!("{event:?}: the settings are in force");
        };
        let switched = done.switched.unwrap();
        assert_eq!(switched.supply, PowerSupply::Battery, "{event:?}");
        assert_eq!(read(machine, EPP), "power", "{event:?}");
        assert_eq!(read(machine, GOVERNOR), "menu", "{event:?}");
        let state = read_persistent_state(&system).unwrap().unwrap();
        assert_eq!(state.other_supply_in_force, None, "{state:?}");
    }
}

/// Sleep has reset the preference of the set for battery, and the plug was put in meanwhile.
#[test]
fn a_reset_and_a_missed_plug_end_with_the_set_of_the_plug() {
    let (directory, system) = laptop();
    let machine = directory.path();
    write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
    pull_plug(machine);
    let own = read(machine, EPP);
    let text = "mains = 'epp[value=performance]'\nbattery = 'epp[value=power]'\n";
    write(machine, FILE, text);
    apply_persistent_settings_at_boot(&system).unwrap();
    write(machine, EPP, &own);
    plug_in(machine);
    reapply_after_event(&system, &ResetEvent::Resume).unwrap();
    assert_eq!(read(machine, EPP), "performance");
}

#[test]
fn a_set_for_one_supply_leaves_the_other_in_the_file() {
    let (directory, system) = booted_on_mains();
    let put = |supply, set: &str, cpus| {
        PersistentSettings::load_and_put_set(&system, supply, set.parse().unwrap(), cpus)
    };
    let (settings, notes) = put(Some(PowerSupply::Battery), "menu", None).unwrap();
    assert_eq!(
        settings.format_sets_without_versions(),
        "on mains teo, on battery menu"
    );
    assert!(
        notes[0].ends_with("other sets of it stay: on mains teo"),
        "{notes:?}"
    );
    // All sets of a file are for the same CPUs.
    let message = put(Some(PowerSupply::Battery), "menu", Some(vec![0]))
        .unwrap_err()
        .to_string();
    assert!(message.contains("has a set for all CPUs"), "{message}");
    // The set for any supply would not be in force on mains.
    let message = put(None, "ladder", None).unwrap_err().to_string();
    assert!(message.contains("give --on mains"), "{message}");
    drop(directory);
}

#[test]
fn a_set_for_any_supply_keeps_what_was_edited_by_hand() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let own = "# Of the desk.\npolicy = 'menu' # why\nbattery = 'epp[value=power]' # travels\nenforce = true\n";
    write(machine, FILE, own);
    let set = "teo".parse().unwrap();
    let (settings, notes) = PersistentSettings::load_and_put_set(&system, None, set, None).unwrap();
    assert!(
        notes[0].ends_with("stay: on battery epp[value=power]"),
        "{notes:?}"
    );
    settings.save_file(&system).unwrap();
    let text = read(machine, FILE);
    for kept in [
        "# Of the desk.\npolicy = \"teo\" # why\n",
        "battery = 'epp[value=power]' # travels\n",
        "enforce = true",
        "processor = \"",
    ] {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
}

#[test]
fn what_cannot_be_kept_is_told_first() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let told = |text: &str| {
        write(machine, FILE, text);
        let set = "teo".parse().unwrap();
        let (_, notes) = PersistentSettings::load_and_put_set(&system, None, set, None).unwrap();
        notes.join("\n")
    };
    let notes = told("policy = 'menu'\ncpus = '0-1'\n");
    assert!(
        notes.contains("was for --cpus 0-1, and is for all CPUs now"),
        "{notes}"
    );
    let notes = told("policy = 'tea'\n");
    assert!(
        notes.contains("did you mean `teo`") && notes.contains("written anew"),
        "{notes}"
    );
    assert_eq!(told("policy = 'menu' # mine\nenforce = true\n"), "");
}
