//! APST tables of persistent sets on a captured machine: which drives get one, and what a reset of the controller leaves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use wakepath_policies::apst::{ApstSettings, plan_apst_table};
use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    BootOutcome, Reapplied, ReapplyOutcome, Session, SupplyOutcome, Targets,
    apply_persistent_settings_at_boot, policy, reapply_after_event,
    switch_to_set_of_present_supply,
};
use wakepath_system::System;
use wakepath_system::nvme::ApstFeature;

use crate::common::{content, laptop, read, write};

const FILE: &str = "etc/wakepath/settings.toml";
const TOLERANCE: &str = "sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us";
const TABLE: &str = "dev/nvme0.feature-0c";
/// A tolerance below the exit latency of the drive's deepest state, and a time that is not the kernel's.
const SET: &str = "drive-latency[tolerance=25ms] + apst[primary_timeout_ms=50]";

/// The table that the kernel's rule gives the laptop's drive.
fn planned_table(system: &System, max_latency_us: u64, primary_timeout_ms: u64) -> ApstFeature {
    let settings = ApstSettings {
        max_latency_us,
        primary_timeout_ms,
        ..ApstSettings::default()
    };
    let drive = system.identify_drive("nvme0").unwrap();
    let plan = plan_apst_table(drive.npss, true, &drive.states, &settings).unwrap();
    ApstFeature {
        enabled: plan.enabled,
        table: plan.table,
    }
}

fn table_in_force(system: &System) -> String {
    system.read_setting(&"apst:nvme0".parse().unwrap()).unwrap()
}

/// Gives the captured drive a table, as its kernel or a program would.
fn write_table(machine: &Path, feature: &ApstFeature) {
    let mut bytes = u32::from(feature.enabled).to_le_bytes().to_vec();
    bytes.extend(feature.table.to_bytes());
    fs::write(machine.join(TABLE), bytes).unwrap();
}

/// Adds a drive `nvme1` that is like the laptop's, without APST.
fn add_drive_without_apst(machine: &Path) {
    let mut identity = fs::read(machine.join("dev/nvme0.id-ctrl")).unwrap();
    identity[265] = 0;
    fs::write(machine.join("dev/nvme1.id-ctrl"), identity).unwrap();
    write(machine, "sys/class/nvme/nvme1/model", "SIMPLE DRIVE\n");
}

#[test]
fn a_set_for_all_drives_leaves_those_without_apst_alone() {
    let (directory, system) = laptop();
    add_drive_without_apst(directory.path());
    let resolve = |drives: Option<Vec<String>>| {
        let targets = Targets {
            drives,
            ..Targets::default()
        };
        policy::resolve_to_settings(&system, &"apst".parse().unwrap(), &targets)
    };
    let wanted = resolve(None).unwrap();
    let keys: Vec<String> = wanted
        .values
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(keys, ["apst:nvme0"]);
    let [note] = &wanted.notes[..] else {
        panic!("{:?}", wanted.notes);
    };
    assert!(
        note.starts_with("nvme1 (") && note.ends_with(") is left alone: it does not support APST"),
        "{note}"
    );
    // A drive that is named has to have a table.
    let error = resolve(Some(vec!["nvme1".to_owned()])).unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("nvme1 (") && message.contains("does not support APST"),
        "{message}"
    );
}

#[test]
fn a_table_keeps_to_the_tolerance_of_the_same_set() {
    let (_directory, system) = laptop();
    let set = SET.parse().unwrap();
    let wanted = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap();
    let (_, table) = wanted
        .values
        .iter()
        .find(|(key, _)| key.setting.name == "apst")
        .unwrap();
    let [within, beyond] = [25_000, 100_000].map(|us| planned_table(&system, us, 50));
    assert_eq!(*table, within.to_string());
    assert_ne!(*table, beyond.to_string());
}

/// What is done after a reset in which the drive got this table.
fn look_after_reset(machine: &Path, system: &System, table: &ApstFeature) -> Reapplied {
    write_table(machine, table);
    let event = ResetEvent::DriveReady("nvme0".to_owned());
    match reapply_after_event(system, &event).unwrap() {
        ReapplyOutcome::Looked(done) => done,
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_kernels_table_for_the_sets_tolerance_is_a_reset_and_any_other_is_drift() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let file = format!("policy = '{SET}'\n");
    write(machine, FILE, &file);
    apply_persistent_settings_at_boot(&system).unwrap();
    let of_set = planned_table(&system, 25_000, 50);
    assert_eq!(table_in_force(&system), of_set.to_string());
    let in_force = content(machine);

    // The kernel fits a table to the tolerance, which it keeps; that is neither the set's table nor the boot's own.
    let by_kernel = planned_table(&system, 25_000, 100);
    let done = look_after_reset(machine, &system, &by_kernel);
    let reset: Vec<String> = done.reset.iter().map(ToString::to_string).collect();
    assert_eq!(reset, ["apst:nvme0"], "{done:?}");
    assert!(done.drift.is_empty(), "{done:?}");
    assert_eq!(table_in_force(&system), of_set.to_string());
    assert_eq!(content(machine)[TOLERANCE], in_force[TOLERANCE]);

    let by_somebody = planned_table(&system, 25_000, 70);
    let done = look_after_reset(machine, &system, &by_somebody);
    assert!(done.reset.is_empty(), "{done:?}");
    let [drifted] = &done.drift[..] else {
        panic!("{done:?}");
    };
    assert_eq!(drifted.key.to_string(), "apst:nvme0");
    assert_eq!(table_in_force(&system), by_somebody.to_string());
}

/// A set with a table for the laptop's drive, and one that only has a tolerance.
const TABLE_SET: &str = "apst[primary_timeout_ms=50]";
const TOLERANCE_SET: &str = "drive-latency[tolerance=25ms]";

/// Applies a file with this set as a boot does. Returns the notes.
fn apply_file_with_set(machine: &Path, system: &System, set: &str) -> String {
    write(machine, FILE, &format!("policy = '{set}'\n"));
    match apply_persistent_settings_at_boot(system).unwrap() {
        BootOutcome::Applied(plan) => plan.notes.join("\n"),
        other => panic!("{other:?}"),
    }
}

const CHOSEN_BY_KERNEL: &str =
    "not in this set: apst:nvme0; as the kernel chooses it for the set's drive-latency";

/// The captured drive has no kernel that chooses a table when the tolerance is written: the set's table stays until the test
/// writes the kernel's.
#[test]
fn a_replaced_table_does_not_overwrite_the_one_for_the_new_sets_tolerance() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let own = table_in_force(&system);
    apply_file_with_set(machine, &system, TABLE_SET);
    let of_set = table_in_force(&system);
    assert_ne!(of_set, own);
    let notes = apply_file_with_set(machine, &system, TOLERANCE_SET);
    assert_eq!(notes, CHOSEN_BY_KERNEL);
    assert_eq!(read(machine, TOLERANCE), "25000");
    assert_eq!(table_in_force(&system), of_set);
    let by_kernel = planned_table(&system, 25_000, 100);
    let done = look_after_reset(machine, &system, &by_kernel);
    assert!(
        done.drift.is_empty() && done.reset.is_empty() && done.notes.is_empty(),
        "{done:?}"
    );
    assert_eq!(table_in_force(&system), by_kernel.to_string());
    let mut session = Session::open_for_restore(&system).unwrap();
    session.restore_all().unwrap();
    assert_eq!(table_in_force(&system), own);
}

#[test]
fn a_replaced_table_becomes_the_kernels_where_the_tolerance_is_in_force_already() {
    let (directory, system) = laptop();
    let machine = directory.path();
    apply_file_with_set(machine, &system, SET);
    let by_kernel = planned_table(&system, 25_000, 100);
    assert_ne!(table_in_force(&system), by_kernel.to_string());
    let notes = apply_file_with_set(machine, &system, TOLERANCE_SET);
    assert_eq!(notes, CHOSEN_BY_KERNEL);
    assert_eq!(table_in_force(&system), by_kernel.to_string());
    // The file is applied once more, and nothing is left to do.
    assert_eq!(apply_file_with_set(machine, &system, TOLERANCE_SET), "");
    assert_eq!(table_in_force(&system), by_kernel.to_string());
}

/// Applies the set of the power supply that the machine has now. Fails if a setting is taken for somebody else's.
fn switch_supply(machine: &Path, system: &System, is_plugged: bool) {
    let online = if is_plugged { "1\n" } else { "0\n" };
    write(machine, "sys/class/power_supply/AC/online", online);
    match switch_to_set_of_present_supply(system).unwrap() {
        SupplyOutcome::Switched(switched) => assert!(switched.drift.is_empty(), "{switched:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_kernels_table_for_a_batterys_tolerance_is_nobodys_drift() {
    for begins_plugged in [true, false] {
        let (directory, system) = laptop();
        let machine = directory.path();
        let tolerance = read(machine, TOLERANCE);
        let of_mains = planned_table(&system, 100_000, 50).to_string();
        let by_kernel = planned_table(&system, 25_000, 100);
        write(machine, "sys/class/power_supply/BAT0/type", "Battery\n");
        let file = format!("mains = '{TABLE_SET}'\nbattery = '{TOLERANCE_SET}'\n");
        write(machine, FILE, &file);
        if begins_plugged {
            apply_persistent_settings_at_boot(&system).unwrap();
            assert_eq!(table_in_force(&system), of_mains);
            switch_supply(machine, &system, false);
            assert_eq!(table_in_force(&system), of_mains);
        } else {
            write(machine, "sys/class/power_supply/AC/online", "0\n");
            apply_persistent_settings_at_boot(&system).unwrap();
        }
        assert_eq!(read(machine, TOLERANCE), "25000");
        let done = look_after_reset(machine, &system, &by_kernel);
        assert!(done.drift.is_empty() && done.reset.is_empty(), "{done:?}");
        switch_supply(machine, &system, true);
        assert_eq!(table_in_force(&system), of_mains);
        assert_eq!(read(machine, TOLERANCE), tolerance);
    }
}
