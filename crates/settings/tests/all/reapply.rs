//! Persistent settings that an event has reset, and settings that somebody else has changed, on a captured machine.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::symlink;

use wakepath_settings::reset::ResetEvent;
use wakepath_settings::{
    DriftEvidence, Reapplied, ReapplyOutcome, Session, apply_persistent_settings_at_boot,
    read_persistent_state, reapply_after_event,
};
use wakepath_system::System;

use crate::common::{assert_same, content, laptop, plan, read, write};

const GOVERNOR: &str = "sys/devices/system/cpu/cpuidle/current_governor";
const POLICY: &str = "sys/devices/system/cpu/cpufreq/policy0";
const EPP: &str = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
const LATENCY: &str = "sys/devices/system/cpu/cpu1/power/pm_qos_resume_latency_us";

/// A laptop after a boot with persistent settings, with more lines in the file.
fn booted_with(more: &str) -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    let text =
        format!("policy = 'teo + epp[value=power] + cpu-latency[limit=20us,cpus=all]'\n{more}");
    write(directory.path(), "etc/wakepath/settings.toml", &text);
    apply_persistent_settings_at_boot(&system).unwrap();
    (directory, system)
}

fn look(system: &System, event: &ResetEvent) -> Reapplied {
    match reapply_after_event(system, event).unwrap() {
        ReapplyOutcome::Looked(done) => done,
        other => panic!("{other:?}"),
    }
}

fn names<T>(items: &[T], name: impl Fn(&T) -> String) -> Vec<String> {
    items.iter().map(name).collect()
}

#[test]
fn an_event_that_reset_nothing_writes_nothing() {
    let (directory, system) = booted_with("");
    let before = content(directory.path());
    for event in [ResetEvent::Resume, ResetEvent::Interval] {
        let done = look(&system, &event);
        assert!(done.reset.is_empty() && done.drift.is_empty(), "{done:?}");
        assert_same(directory.path(), &before);
    }
}

#[test]
fn only_what_the_event_can_reset_is_written_again() {
    let (directory, system) = laptop();
    let (own_epp, own_governor) = (
        read(directory.path(), EPP),
        read(directory.path(), GOVERNOR),
    );
    drop(directory);
    drop(system);
    for (event, is_reset) in [
        (ResetEvent::Resume, true),
        (ResetEvent::CpuOnline(0), true),
        // Of the same policy, and of another one.
        (ResetEvent::CpuOnline(2), true),
        (ResetEvent::CpuOnline(3), false),
        (ResetEvent::DriveReady("nvme0".to_owned()), false),
        (ResetEvent::Interval, false),
    ] {
        let (directory, system) = booted_with("");
        let machine = directory.path();
        write(machine, &format!("{POLICY}/related_cpus"), "0 2\n");
        // No event resets the governor: somebody has written this boot's own value.
        write(machine, GOVERNOR, &own_governor);
        write(machine, EPP, &own_epp);
        let done = look(&system, &event);
        let reset = names(&done.reset, ToString::to_string);
        let drift = names(&done.drift, |drifted| drifted.key.to_string());
        if is_reset {
            assert_eq!(reset, ["epp:policy0"], "{event:?}");
            assert_eq!(drift, ["idle-governor"], "{event:?}");
            assert_eq!(read(machine, EPP), "power");
        } else {
            assert!(reset.is_empty(), "{event:?}: {reset:?}");
            assert_eq!(drift, ["idle-governor", "epp:policy0"], "{event:?}");
            assert_eq!(read(machine, EPP), own_epp);
        }
        assert_eq!(read(machine, GOVERNOR), own_governor);
        // Told once.
        let again = look(&system, &event);
        assert!(
            again.reset.is_empty() && again.drift.is_empty(),
            "{again:?}"
        );
    }
}

#[test]
fn another_value_is_from_somebody_else_even_after_an_event() {
    let (directory, system) = booted_with("");
    write(directory.path(), EPP, "performance\n");
    let done = look(&system, &ResetEvent::Resume);
    assert!(done.reset.is_empty(), "{done:?}");
    let [drifted] = &done.drift[..] else {
        panic!("{done:?}");
    };
    assert_eq!(drifted.found, "performance");
    assert_eq!(drifted.expected, "power");
    assert_eq!(read(directory.path(), EPP), "performance");
    // Another foreign value is told again.
    write(directory.path(), EPP, "balance_power\n");
    assert_eq!(look(&system, &ResetEvent::Interval).drift.len(), 1);
}

#[test]
fn enforced_settings_are_written_again_and_restored_to_the_boots_own_values() {
    let (directory, system) = laptop();
    let own = content(directory.path());
    drop(directory);
    drop(system);
    let (directory, system) = booted_with("enforce = true\n");
    let machine = directory.path();
    write(machine, GOVERNOR, "ladder\n");
    write(machine, EPP, "performance\n");
    write(machine, LATENCY, "100\n");
    let done = look(&system, &ResetEvent::Interval);
    assert_eq!(
        names(&done.enforced, |drifted| drifted.key.to_string()),
        ["idle-governor", "cpu-latency:cpu1", "epp:policy0"]
    );
    assert_eq!(read(machine, GOVERNOR), "teo");
    assert_eq!(read(machine, EPP), "power");
    assert_eq!(read(machine, LATENCY), "20");
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    for file in [GOVERNOR, EPP, LATENCY] {
        assert_eq!(content(machine)[file], own[file], "{file}");
    }
}

/// A setting that the boot had already, so that the journal has no old value of it.
#[test]
fn an_enforced_setting_that_the_boot_had_already_is_restored_to_that() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let own = read(machine, GOVERNOR);
    let text = format!("policy = '{own}'\nenforce = true\n");
    write(machine, "etc/wakepath/settings.toml", &text);
    apply_persistent_settings_at_boot(&system).unwrap();
    write(machine, GOVERNOR, "ladder\n");
    assert_eq!(look(&system, &ResetEvent::Interval).enforced.len(), 1);
    assert_eq!(read(machine, GOVERNOR), own);
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(read(machine, GOVERNOR), own);
}

/// The kernel moves an interrupt to all CPUs that are online when its last one goes (`migrate_one_irq()`,
/// `kernel/irq/cpuhotplug.c`).
#[test]
fn an_interrupt_goes_back_to_its_cpu_once_that_is_online_again() {
    const AFFINITY: &str = "proc/irq/125/smp_affinity_list";
    const ONLINE: &str = "sys/devices/system/cpu/online";
    let (directory, system) = laptop();
    let machine = directory.path();
    let table = " 125:  40  0  IR-PCI-MSI-0000:00:17.0  0-edge  ahci[0000:00:17.0]\n";
    write(machine, "proc/interrupts", table);
    fs::create_dir_all(machine.join("proc/irq/125")).unwrap();
    write(machine, AFFINITY, "0-1\n");
    write(
        machine,
        "etc/wakepath/settings.toml",
        "policy = 'irq-affinity[cpus=1]'\n",
    );
    apply_persistent_settings_at_boot(&system).unwrap();
    assert_eq!(read(machine, AFFINITY), "1");
    write(machine, ONLINE, "0\n");
    write(machine, AFFINITY, "0\n");
    let done = look(&system, &ResetEvent::Interval);
    assert!(done.drift.is_empty(), "{done:?}");
    write(machine, ONLINE, "0-1\n");
    // Between the CPU and its event.
    assert_eq!(look(&system, &ResetEvent::Interval).drift.len(), 1);
    let done = look(&system, &ResetEvent::CpuOnline(1));
    let moved = names(&done.reset, ToString::to_string);
    assert_eq!(moved, ["irq-affinity:irq125"]);
    assert_eq!(read(machine, AFFINITY), "1");
}

/// A controller whose driver is bound anew gets interrupts with the kernel's affinity, also with another number.
#[test]
fn the_interrupt_of_a_new_controller_gets_its_cpus() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let controller = "sys/devices/pci0000:00/0000:00:17.0";
    let unit = format!("{controller}/ata1/host0/target0:0:0/0:0:0:0");
    fs::create_dir_all(machine.join(format!("{unit}/block/sda"))).unwrap();
    symlink("../..", machine.join(format!("{unit}/block/sda/device"))).unwrap();
    symlink(
        format!("../{}/block/sda", unit.strip_prefix("sys/").unwrap()),
        machine.join("sys/block/sda"),
    )
    .unwrap();
    let give_interrupt = |number: u32| {
        let table =
            format!(" {number}:  40  0  PCI-MSI-0000:00:17.0  0-edge  ahci[0000:00:17.0]\n");
        write(machine, "proc/interrupts", &table);
        for folder in [
            format!("proc/irq/{number}"),
            format!("{controller}/msi_irqs"),
        ] {
            fs::create_dir_all(machine.join(folder)).unwrap();
        }
        write(
            machine,
            &format!("proc/irq/{number}/smp_affinity_list"),
            "0-1\n",
        );
        write(machine, &format!("{controller}/msi_irqs/{number}"), "msi\n");
    };
    // The driver is loaded after the boot's settings were written.
    write(machine, "proc/interrupts", "");
    write(
        machine,
        "etc/wakepath/settings.toml",
        "policy = 'irq-affinity[cpus=1]'\n",
    );
    apply_persistent_settings_at_boot(&system).unwrap();
    let other: ResetEvent = "nvme0".parse().unwrap();
    let event: ResetEvent = "sda".parse().unwrap();
    for (number, times) in [(125, 2), (126, 1)] {
        give_interrupt(number);
        assert!(look(&system, &other).reset.is_empty());
        for _ in 0..times {
            give_interrupt(number);
            let done = look(&system, &event);
            let written = names(&done.reset, ToString::to_string);
            assert_eq!(written, [format!("irq-affinity:irq{number}")], "{done:?}");
            let file = format!("proc/irq/{number}/smp_affinity_list");
            assert_eq!(read(machine, &file), "1");
        }
        fs::remove_dir_all(machine.join(format!("proc/irq/{number}"))).unwrap();
        fs::remove_file(machine.join(format!("{controller}/msi_irqs/{number}"))).unwrap();
    }
}

#[test]
fn a_cpu_that_comes_later_gets_its_settings() {
    let (directory, system) = laptop();
    let machine = directory.path();
    // The CPU is switched off at boot.
    let cpu = machine.join("sys/devices/system/cpu/cpu1");
    let away = machine.join("cpu1");
    fs::rename(&cpu, &away).unwrap();
    write(
        machine,
        "etc/wakepath/settings.toml",
        "policy = 'cpu-latency[limit=20us,cpus=all]'\n",
    );
    apply_persistent_settings_at_boot(&system).unwrap();
    fs::rename(&away, &cpu).unwrap();
    let done = look(&system, &ResetEvent::CpuOnline(1));
    assert_eq!(
        names(&done.reset, ToString::to_string),
        ["cpu-latency:cpu1"]
    );
    assert_eq!(read(machine, LATENCY), "20");
    assert!(look(&system, &ResetEvent::CpuOnline(1)).reset.is_empty());
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(read(machine, LATENCY), "0");
}

#[test]
fn a_value_of_the_file_before_an_edit_is_nobodys_drift() {
    const FILE: &str = "etc/wakepath/settings.toml";
    let (directory, system) = booted_with("");
    let machine = directory.path();
    let evidence = || {
        let state = read_persistent_state(&system).unwrap().unwrap();
        assert_eq!(state.other_supply_in_force, None, "{state:?}");
        names(&state.drifted, |drift| {
            format!("{} {:?}", drift.setting, drift.evidence)
        })
    };
    assert!(evidence().is_empty());
    write(
        machine,
        FILE,
        "policy = 'ladder + epp[value=performance]'\n",
    );
    assert_eq!(
        evidence(),
        [
            "idle-governor Some(FileChanged)",
            "epp:policy0 Some(FileChanged)",
            "epp:policy1 Some(FileChanged)"
        ]
    );
    apply_persistent_settings_at_boot(&system).unwrap();
    assert!(evidence().is_empty());

    write(machine, FILE, "policy = 'ladder'\n");
    apply_persistent_settings_at_boot(&system).unwrap();
    // The setting has its own value again, which wakepath has written.
    write(machine, FILE, "policy = 'ladder + epp[value=power]'\n");
    assert_eq!(
        evidence(),
        [
            "epp:policy0 Some(NotInForceYet)",
            "epp:policy1 Some(NotInForceYet)"
        ]
    );
    // A later apply is still told from that.
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["epp[value=balance_power]"]))
        .unwrap();
    assert_eq!(
        evidence(),
        [
            "epp:policy0 Some(LaterApply)",
            "epp:policy1 Some(LaterApply)"
        ]
    );
}

#[test]
fn without_settings_in_force_nothing_is_written() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let event = ResetEvent::Resume;
    let outcome = reapply_after_event(&system, &event).unwrap();
    assert!(matches!(outcome, ReapplyOutcome::NoFile), "{outcome:?}");
    assert_same(directory.path(), &before);
    write(
        directory.path(),
        "etc/wakepath/settings.toml",
        "policy = 'teo'\n",
    );
    let outcome = reapply_after_event(&system, &event).unwrap();
    assert!(matches!(outcome, ReapplyOutcome::NotInForce), "{outcome:?}");
    write(
        directory.path(),
        "proc/cmdline",
        "quiet wakepath.persist=0\n",
    );
    let outcome = reapply_after_event(&system, &event).unwrap();
    assert!(
        matches!(outcome, ReapplyOutcome::SwitchedOff),
        "{outcome:?}"
    );
}

fn apply(system: &System, policies: &[&str]) {
    let mut session = Session::open_and_recover(system).unwrap();
    session.apply_plan(&plan(system, policies)).unwrap();
}

#[test]
fn a_later_apply_is_told_apart_from_somebody_else() {
    let (directory, system) = booted_with("");
    apply(&system, &["ladder"]);
    write(directory.path(), EPP, "performance\n");
    let done = look(&system, &ResetEvent::Interval);
    let told = names(&done.drift, |drifted| {
        format!("{} {}", drifted.key, drifted.by_later_apply)
    });
    assert_eq!(told, ["idle-governor true", "epp:policy0 false"]);
    assert_eq!(read(directory.path(), GOVERNOR), "ladder");
}

/// The setting and the evidence of each row of drift.
fn evidence(system: &System) -> Vec<(String, Option<DriftEvidence>)> {
    let state = read_persistent_state(system).unwrap().unwrap();
    let rows = state.drifted.into_iter();
    rows.map(|drift| (drift.setting, drift.evidence)).collect()
}

#[test]
fn the_state_names_what_a_value_is_from_by_evidence_alone() {
    let (directory, system) = laptop();
    let machine = directory.path();
    let (own_epp, own_governor) = (read(machine, EPP), read(machine, GOVERNOR));
    drop(directory);
    drop(system);
    let one = |name: &str, evidence| vec![(name.to_owned(), evidence)];

    let (directory, system) = booted_with("");
    assert_eq!(evidence(&system), []);
    apply(&system, &["ladder"]);
    assert_eq!(
        evidence(&system),
        one("idle-governor", Some(DriftEvidence::LaterApply))
    );
    // Somebody has written after wakepath.
    write(directory.path(), GOVERNOR, "haltpoll\n");
    assert_eq!(evidence(&system), one("idle-governor", None));

    // Sleep gives the preference the boot's own value; nothing gives that to the governor.
    let (directory, system) = booted_with("");
    write(directory.path(), EPP, &own_epp);
    assert_eq!(
        evidence(&system),
        one("epp:policy0", Some(DriftEvidence::Reset))
    );
    let (directory, system) = booted_with("");
    write(directory.path(), GOVERNOR, &own_governor);
    assert_eq!(evidence(&system), one("idle-governor", None));

    let (_directory, system) = booted_with("");
    let session = Session::open_and_recover(&system).unwrap();
    let held = session
        .apply_while_held(&plan(&system, &["ladder"]))
        .unwrap();
    assert_eq!(
        evidence(&system),
        one("idle-governor", Some(DriftEvidence::HeldForATime))
    );
    let (session, _) = held.put_back_and_release().unwrap().unwrap();
    let wanted = plan(&system, &["ladder"]);
    let reserved = session.reserve_for_repeated_changes(&wanted).unwrap();
    reserved
        .write_or_put_back(&wanted.changes[0].key, Some("ladder"))
        .unwrap();
    assert_eq!(
        evidence(&system),
        one("idle-governor", Some(DriftEvidence::Daemon))
    );
}
