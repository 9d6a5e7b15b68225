//! Apply, hold, restore on a captured machine, and what a crash leaves behind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use crate::common::{assert_same, content, laptop, plan, read, write};
use wakepath_settings::{
    Hold, Session, SettingsError, SettingsPlan, Targets, Tenant, WantedSetting, policy,
};
use wakepath_system::{AppliedSettings, SettingKey, System, journal};

const MANY: &[&str] = &[
    "teo",
    "idle-states[ceiling=20us]",
    "cpu-latency[limit=50us,cpus=all]",
    "intel_pstate-hwp[epp=power,hwp_dynamic_boost=on]",
    "frequency[min=800MHz,max=2000MHz]",
    "drive-latency[tolerance=25000us]",
    "apst",
];

#[test]
fn what_somebody_changes_after_apply_has_drifted() {
    let (directory, system) = laptop();
    assert_eq!(
        AppliedSettings::read(&system),
        Some(AppliedSettings::default())
    );
    let mut session = Session::open_and_recover(&system).unwrap();
    let plan = plan(&system, &["teo", "cpu-latency[limit=50us,cpus=all]"]);
    session.apply_plan(&plan).unwrap();
    let expected = |drifted| AppliedSettings {
        applied: 3,
        drifted,
    };
    assert_eq!(AppliedSettings::read(&system), Some(expected(0)));
    let governor = "sys/devices/system/cpu/cpuidle/current_governor";
    fs::write(directory.path().join(governor), "menu\n").unwrap();
    assert_eq!(AppliedSettings::read(&system), Some(expected(1)));
}

/// With or without HWP is decided at boot, so neither policy stands for the other.
#[test]
fn policies_of_intel_pstate_that_take_another_boot_are_refused() {
    let (directory, system) = laptop();
    let refusal = |name: &str| {
        policy::resolve_to_settings(&system, &name.parse().unwrap(), &Targets::default())
            .map(|wanted| wanted.values)
            .map_err(|error| error.to_string())
    };
    let with_hwp = refusal("intel_pstate").unwrap_err();
    assert!(
        with_hwp.contains("--kernel-word intel_pstate=no_hwp"),
        "{with_hwp}"
    );
    assert!(refusal("intel_pstate-hwp").is_ok());
    let cpus = directory.path().join("sys/devices/system/cpu");
    fs::remove_file(cpus.join("intel_pstate/hwp_dynamic_boost")).unwrap();
    for entry in fs::read_dir(cpus.join("cpufreq")).unwrap() {
        let preference = entry.unwrap().path().join("energy_performance_preference");
        fs::remove_file(preference).unwrap();
    }
    let without = refusal("intel_pstate-hwp").unwrap_err();
    assert!(without.contains("intel_pstate=no_hwp"), "{without}");
    assert!(refusal("intel_pstate").is_ok());
    assert!(refusal("tuned[balanced]").is_ok());
}

#[test]
fn what_is_applied_is_in_force_and_is_put_back_to_the_byte() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, MANY)).unwrap();
    let text = |path: &str| fs::read_to_string(directory.path().join(path)).unwrap();
    let cpu = "sys/devices/system/cpu";
    assert_eq!(text(&format!("{cpu}/cpuidle/current_governor")), "teo\n");
    assert_eq!(text(&format!("{cpu}/cpu1/cpuidle/state1/disable")), "0\n");
    assert_eq!(text(&format!("{cpu}/cpu1/cpuidle/state2/disable")), "1\n");
    assert_eq!(
        text(&format!(
            "{cpu}/cpufreq/policy1/energy_performance_preference"
        )),
        "power\n"
    );
    let table = fs::read(directory.path().join("dev/nvme0.feature-0c")).unwrap();
    assert!(table[0] == 1 && table[4..].iter().any(|b| *b != 0));
    assert_eq!(journal::has_pending_restore(system.root()), Some(true));
    drop(session);

    let restored = Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert!(restored.written.len() > 10);
    assert_same(directory.path(), &before);
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
    let again = Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert!(again.written.is_empty());
}

#[test]
fn a_second_apply_keeps_the_first_values() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    for policies in [
        &["teo"][..],
        &["ladder", "cpu-latency[limit=0us,cpus=all]"],
        MANY,
    ] {
        let mut session = Session::open_and_recover(&system).unwrap();
        session.apply_plan(&plan(&system, policies)).unwrap();
    }
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
}

#[test]
fn what_is_held_goes_back_to_what_was_applied() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, &["teo"])).unwrap();
    let applied = content(directory.path());

    let held = plan(&system, &["ladder", "cpu-latency[limit=10us]"]);
    let hold = session.apply_while_held(&held).unwrap();
    assert!(content(directory.path()) != applied);
    let message = Session::open_and_recover(&system).unwrap_err();
    assert!(matches!(message, SettingsError::Locked { .. }), "{message}");
    let (session, restored) = hold.put_back_and_release().unwrap().unwrap();
    assert_eq!(restored.written.len(), 2);
    assert_same(directory.path(), &applied);

    // Dropped, and lost without being dropped, as after a kill.
    drop(session.apply_while_held(&held).unwrap());
    assert_same(directory.path(), &applied);
    let journal = directory.path().join("var/lib/wakepath/journal.json");
    let session = Session::open_and_recover(&system).unwrap();
    let hold = session.apply_while_held(&held).unwrap();
    let (written, during) = (fs::read(&journal).unwrap(), content(directory.path()));
    drop(hold);
    fs::write(&journal, written).unwrap();
    for (path, bytes) in during {
        fs::write(directory.path().join(path), bytes).unwrap();
    }
    let mut session = Session::open_and_recover(&system).unwrap();
    assert_eq!(session.restored_at_opening().written.len(), 2);
    assert_same(directory.path(), &applied);
    session.restore_all().unwrap();
    assert_same(directory.path(), &before);
}

/// A tenant in this process, which dies without putting anything back unless `hold` is dropped with it.
#[derive(Debug)]
struct TestTenant(Mutex<Option<Hold>>);

impl Tenant for TestTenant {
    fn stop_and_wait(&self) {
        self.0.lock().unwrap().take();
    }
}

/// Limits of all CPUs, reserved and set under a lent lock.
fn reserve_under(lock: OwnedFd, system: &System) -> Hold {
    let limits = plan(system, &["cpu-latency[limit=20us,cpus=all]"]);
    let hold = Session::open_with_lent_lock(system, lock)
        .unwrap()
        .reserve_for_repeated_changes(&limits)
        .unwrap();
    for change in &limits.changes {
        hold.write_or_put_back(&change.key, Some("20")).unwrap();
    }
    hold
}

#[test]
fn a_tenant_changes_settings_above_those_of_the_lender_and_both_are_put_back() {
    for (set, dies) in [("teo", false), ("teo", true), ("", false), ("", true)] {
        let (directory, system) = laptop();
        let before = content(directory.path());
        let nothing = SettingsPlan::from_wanted(&system, WantedSetting::default()).unwrap();
        let settings = if set.is_empty() {
            nothing
        } else {
            plan(&system, &[set])
        };
        let hold = Session::open_and_recover(&system)
            .unwrap()
            .apply_while_held(&settings)
            .unwrap();
        let lent = hold.lend_lock_to_tenant(|lock| -> Result<_, io::Error> {
            let above = reserve_under(lock?, &system);
            if dies {
                // As after SIGKILL: the journal alone says what was changed.
                std::mem::forget(above);
                return Ok(Arc::new(TestTenant(Mutex::default())));
            }
            Ok(Arc::new(TestTenant(Mutex::new(Some(above)))))
        });
        lent.unwrap().unwrap();
        let error = Session::open_and_recover(&system).unwrap_err();
        assert!(matches!(error, SettingsError::Locked { .. }), "{error}");
        let (session, _) = hold.put_back_and_release().unwrap().unwrap();
        assert_same(directory.path(), &before);
        drop(session);
        assert_eq!(
            journal::list_held_settings_and_new_values(system.root()),
            Some(Vec::new())
        );
    }
}

#[test]
fn a_tenant_that_fails_to_start_leaves_nothing() {
    let (directory, system) = laptop();
    let hold = Session::open_and_recover(&system).unwrap();
    let hold = hold.apply_while_held(&plan(&system, &["teo"])).unwrap();
    let held = content(directory.path());
    let lent = hold.lend_lock_to_tenant(|lock| -> Result<Arc<TestTenant>, io::Error> {
        std::mem::forget(reserve_under(lock?, &system));
        Err(io::Error::other("no"))
    });
    assert_eq!(lent.unwrap_err().to_string(), "no");
    assert_same(directory.path(), &held);
}

#[test]
fn a_tenant_whose_settings_cannot_be_put_back_keeps_the_lenders_from_nothing() {
    for starts in [true, false] {
        let (directory, system) = laptop();
        let before = content(directory.path());
        let hold = Session::open_and_recover(&system).unwrap();
        let hold = hold.apply_while_held(&plan(&system, &["teo"])).unwrap();
        let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
        let limit = directory.path().join(limits.changes[0].key.relative_path());
        let moved = limit.with_extension("moved");
        let lent = hold.lend_lock_to_tenant(|lock| -> Result<_, io::Error> {
            std::mem::forget(reserve_under(lock?, &system));
            // A directory can neither be read nor written.
            fs::rename(&limit, &moved).unwrap();
            fs::create_dir(&limit).unwrap();
            if starts {
                Ok(Arc::new(TestTenant(Mutex::default())))
            } else {
                Err(io::Error::other("no"))
            }
        });
        assert_eq!(lent.is_ok(), starts);
        let error = hold.put_back_and_release().unwrap_err();
        assert!(matches!(error, SettingsError::NotRestored(_)), "{error}");
        let governor = "sys/devices/system/cpu/cpuidle/current_governor";
        let now = fs::read(directory.path().join(governor)).unwrap();
        assert_eq!(Some(&now), before.get(governor), "{starts}");
        let kept = journal::list_held_settings_and_new_values(system.root()).unwrap();
        let keys: Vec<&SettingKey> = kept.iter().map(|(key, _)| key).collect();
        assert_eq!(keys, [&limits.changes[0].key]);
    }
}

#[test]
fn a_tenant_that_leaves_something_away_is_told() {
    let (directory, system) = laptop();
    let hold = Session::open_and_recover(&system).unwrap();
    let hold = hold.apply_while_held(&plan(&system, &["teo"])).unwrap();
    let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
    let limit = directory.path().join(limits.changes[0].key.relative_path());
    let lent = hold.lend_lock_to_tenant(|lock| -> Result<_, io::Error> {
        std::mem::forget(reserve_under(lock?, &system));
        fs::remove_file(&limit).unwrap();
        Ok(Arc::new(TestTenant(Mutex::default())))
    });
    lent.unwrap().unwrap();
    let (_, restored) = hold.put_back_and_release().unwrap().unwrap();
    assert_eq!(restored.away.len(), 1, "{restored:?}");
}

#[test]
fn a_lock_of_another_machine_is_not_lent() {
    let (_directory, system) = laptop();
    let (_other, elsewhere) = laptop();
    let hold = Session::open_and_recover(&system).unwrap();
    let hold = hold.apply_while_held(&plan(&system, &["teo"])).unwrap();
    _ = hold.lend_lock_to_tenant(|lock| -> Result<Arc<TestTenant>, io::Error> {
        let error = Session::open_with_lent_lock(&elsewhere, lock?).unwrap_err();
        assert!(matches!(error, SettingsError::Unsafe { .. }), "{error}");
        Err(io::Error::other("no"))
    });
}

#[test]
fn what_is_reserved_can_change_again_and_again() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let session = Session::open_and_recover(&system).unwrap();
    let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
    let hold = session.reserve_for_repeated_changes(&limits).unwrap();
    // In the journal, and not yet in force.
    assert_same(directory.path(), &before);
    let held = journal::list_held_settings_and_new_values(system.root()).unwrap();
    assert_eq!(held.len(), 2);
    let key = &limits.changes[1].key;
    assert_eq!(held[1], (key.clone(), Some("20".to_owned())));
    for value in [Some("20"), None, Some("30"), Some("n/a"), None] {
        hold.write_or_put_back(key, value).unwrap();
        assert_eq!(system.read_setting(key).unwrap(), value.unwrap_or("0"));
    }
    hold.write_or_put_back(key, Some("-1")).unwrap_err();
    let other = "idle-governor".parse().unwrap();
    let error = hold.write_or_put_back(&other, Some("teo")).unwrap_err();
    assert!(matches!(error, SettingsError::NotHeld(_)), "{error}");
    hold.write_or_put_back(key, Some("30")).unwrap();
    drop(hold);
    assert_same(directory.path(), &before);
    assert_eq!(
        journal::list_held_settings_and_new_values(system.root()),
        Some(Vec::new())
    );
}

#[test]
fn what_somebody_else_has_set_meanwhile_is_not_put_back() {
    let (directory, system) = laptop();
    let session = Session::open_and_recover(&system).unwrap();
    let wanted = ["cpu-latency[limit=20us,cpus=all]", "frequency[min=2000MHz]"];
    let plan = plan(&system, &wanted);
    let key = |text: &str| text.parse::<SettingKey>().unwrap();
    let [cpu0, cpu1] = ["cpu-latency:cpu0", "cpu-latency:cpu1"].map(key);
    let [low0, low1] = ["frequency-min:policy0", "frequency-min:policy1"].map(key);
    let [before0, before1] = [&low0, &low1].map(|key| system.read_setting(key).unwrap());
    let hold = session.reserve_for_repeated_changes(&plan).unwrap();
    let write = |key: &SettingKey, value: &str| {
        fs::write(
            directory.path().join(key.relative_path()),
            format!("{value}\n"),
        )
        .unwrap();
    };
    hold.write_or_put_back(&cpu0, Some("20")).unwrap();
    hold.write_or_put_back(&cpu1, Some("20")).unwrap();
    hold.write_or_put_back(&cpu1, None).unwrap();
    // What we wrote once, and took back, is no longer ours.
    write(&cpu1, "20");
    for key in [&low0, &low1] {
        hold.write_or_put_back(key, Some("2000000")).unwrap();
    }
    write(&low0, "900000");
    // A maximum below the minimum that we wrote: the kernel shows no minimum above it.
    write(&key("frequency-max:policy1"), "1500000");
    write(&low1, "1500000");
    let (session, restored) = hold.put_back_and_release().unwrap().unwrap();
    let read = |key: &SettingKey| system.read_setting(key).unwrap();
    assert_eq!(
        [read(&cpu0), read(&cpu1), read(&low0), read(&low1)],
        ["0", "20", "900000", &before1],
        "{before0}"
    );
    assert_eq!(
        restored.notes,
        [
            "cpu-latency:cpu1 is '20': somebody else has set it, so it stays",
            "frequency-min:policy0 is '900000': somebody else has set it, so it stays"
        ]
    );
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
    drop(session);
    // It is not what a later command puts back either.
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(read(&cpu1), "20");
}

#[test]
fn a_setting_that_does_not_take_undoes_the_whole_plan() {
    let (directory, system) = laptop();
    // A drive whose answers have another size refuses what is written.
    let session = Session::open_and_recover(&system).unwrap();
    let good = plan(&system, MANY);
    fs::write(directory.path().join("dev/nvme0.feature-0c"), [0; 10]).unwrap();
    let before = content(directory.path());
    let error = session.apply_while_held(&good).unwrap_err().to_string();
    assert!(
        error.contains("nvme0") && error.contains("10 bytes"),
        "{error}"
    );
    assert_same(directory.path(), &before);
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
}

#[test]
fn a_crash_after_any_write_can_be_undone() {
    // The state after k of the writes, for every k, with the journal on disk.
    let (directory, system) = laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, MANY)).unwrap();
    drop(session);
    let journal = directory.path().join("var/lib/wakepath/journal.json");
    let (written, after) = (fs::read(&journal).unwrap(), content(directory.path()));
    let changed: Vec<&String> = after.keys().filter(|k| after[*k] != before[*k]).collect();
    for k in 0..=changed.len() {
        for (i, path) in changed.iter().enumerate() {
            let value = if i < k { &after[*path] } else { &before[*path] };
            // The last one written may be cut short.
            let cut = if i + 1 == k {
                value.len() / 2
            } else {
                value.len()
            };
            fs::write(directory.path().join(path), &value[..cut]).unwrap();
        }
        fs::write(&journal, &written).unwrap();
        Session::open_and_recover(&system)
            .unwrap()
            .restore_all()
            .unwrap();
        assert_same(directory.path(), &before);
    }
}

#[test]
fn a_restart_resets_settings_by_itself() {
    let (directory, system) = laptop();
    let boot = directory.path().join("proc/sys/kernel/random");
    fs::create_dir_all(&boot).unwrap();
    fs::write(boot.join("boot_id"), "one\n").unwrap();
    let governor = directory
        .path()
        .join("sys/devices/system/cpu/cpuidle/current_governor");
    let latency = directory
        .path()
        .join("sys/devices/system/cpu/cpu0/power/pm_qos_resume_latency_us");
    let mut session = Session::open_and_recover(&system).unwrap();
    let both = plan(&system, &["teo", "cpu-latency[limit=50us,cpus=all]"]);
    session.apply_plan(&both).unwrap();
    drop(session);
    // The new boot comes up with another governor; the latency limit is still ours.
    fs::write(boot.join("boot_id"), "two\n").unwrap();
    fs::write(&governor, "ladder\n").unwrap();
    let restored = Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(fs::read_to_string(&governor).unwrap(), "ladder\n");
    assert_eq!(fs::read_to_string(&latency).unwrap(), "0\n");
    assert!(
        restored.notes[0].contains("restarted"),
        "{:?}",
        restored.notes
    );
}

#[test]
fn a_request_that_needs_a_process_is_not_applied_for_good() {
    let (_directory, system) = laptop();
    let mut session = Session::open_and_recover(&system).unwrap();
    let error = session
        .apply_plan(&plan(&system, &["cpu-latency[limit=10us]"]))
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("--for") && error.contains("cpus=all"),
        "{error}"
    );
}

#[test]
fn frequency_limits_never_cross() {
    let (directory, system) = laptop();
    let policy = directory
        .path()
        .join("sys/devices/system/cpu/cpufreq/policy0");
    for (policies, first) in [
        (
            ["frequency[min=3000MHz,max=4000MHz]"],
            "frequency-min:policy0",
        ),
        (
            ["frequency[min=400MHz,max=1000MHz]"],
            "frequency-min:policy0",
        ),
        (
            ["frequency[min=2000MHz,max=4000MHz]"],
            "frequency-max:policy0",
        ),
    ] {
        let plan = plan(&system, &policies);
        assert_eq!(plan.changes[0].key.to_string(), first, "{policies:?}");
        Session::open_and_recover(&system)
            .unwrap()
            .apply_plan(&plan)
            .unwrap();
    }
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    let max = fs::read_to_string(policy.join("scaling_max_freq")).unwrap();
    assert_eq!(max, "4700000\n");
}

#[test]
fn policies_that_cannot_be_applied_say_why_and_what_can() {
    let (_directory, system) = laptop();
    for (name, says) in [
        ("psd", "daemon"),
        ("oracle", "simulator"),
        ("powersave", "epp[value=power]"),
        ("schedutil[iowait_boost=off]", "iowait_boost"),
        ("schedutil", "performance, powersave"),
        ("haltpoll", "ladder, menu, teo"),
        ("frequency[max=9000MHz]", "4700000"),
        ("idle-states[ceiling=C3]", "C6 (170 us)"),
        ("idle-states[disable=C3]", "C6 (170 us)"),
        ("poll[request_us=20]", "idle-states"),
        ("io_uring[iowait=off]", "simulator"),
        ("cpu-latency[limit=20us,cpus=0-2]", "no CPU 2"),
    ] {
        let set = name.parse().unwrap();
        let planned = policy::resolve_to_settings(&system, &set, &Targets::default())
            .and_then(|wanted| SettingsPlan::from_wanted(&system, wanted));
        let message = planned.unwrap_err().to_string();
        assert!(message.contains(says), "{name}: {message}");
    }
    for (cpus, drives) in [
        (Some(vec![7]), None),
        (None, Some(vec!["nvme7".to_owned()])),
    ] {
        let selection = Targets {
            cpus,
            drives,
            force: false,
            ..Targets::default()
        };
        policy::resolve_to_settings(&system, &"menu".parse().unwrap(), &selection).unwrap_err();
    }
}

#[test]
fn a_set_changes_what_it_names_and_nothing_else() {
    let (_directory, system) = laptop();
    let settings_of_set = |name: &str| -> Vec<(String, String)> {
        let changes = plan(&system, &[name]).changes.into_iter();
        changes
            .map(|c| (c.key.to_string(), c.new.unwrap_or_default()))
            .collect()
    };
    let pairs = |pairs: &[(&str, &str)]| -> Vec<(String, String)> {
        let pairs = pairs.iter();
        pairs
            .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
            .collect()
    };
    assert_eq!(
        settings_of_set("idle-states[disable=c6]"),
        pairs(&[
            ("idle-state-off:cpu0/state2", "1"),
            ("idle-state-off:cpu1/state2", "1"),
        ])
    );
    for (name, value) in [("20us", "20"), ("0us", "n/a"), ("none", "0")] {
        assert_eq!(
            settings_of_set(&format!("cpu-latency[limit={name},cpus=1]")),
            pairs(&[("cpu-latency:cpu1", value)])
        );
    }
    assert_eq!(
        settings_of_set("cpu-latency[limit=none]"),
        pairs(&[("system-latency", "2000000000")])
    );
    assert_eq!(settings_of_set("unchanged"), []);
    // A limit of the whole system cannot be that of some CPUs.
    let selection = Targets {
        cpus: Some(vec![0]),
        ..Targets::default()
    };
    let resolve =
        |name: &str| policy::resolve_to_settings(&system, &name.parse().unwrap(), &selection);
    let error = resolve("cpu-latency[limit=20us]").unwrap_err().to_string();
    assert!(error.contains("cpus=all"), "{error}");
    let of_one = resolve("cpu-latency[limit=20us,cpus=all]").unwrap();
    assert_eq!(of_one.values.len(), 1);
}

#[test]
fn a_governor_of_another_kernel_is_told() {
    let (directory, system) = laptop();
    let notes = |name: &str| plan(&system, &[name]).notes;
    let release = directory.path().join("proc/sys/kernel/osrelease");
    for (running, name, says) in [
        ("6.12.9-amd64", "menu", None),
        ("6.12.9-amd64", "menu@6.1", Some("6.12.9-amd64")),
        ("6.1.0-18-amd64", "menu@6.1", None),
        ("6.1.0-18-amd64", "teo", None),
        ("6.12.48-amd64", "menu@6.12.48", None),
        ("6.12.48-amd64", "menu@6.12.9", Some("6.12.48-amd64")),
        ("nonsense", "menu@6.1", Some("nonsense")),
    ] {
        fs::write(&release, format!("{running}\n")).unwrap();
        let notes = notes(name);
        match says {
            None => assert!(notes.is_empty(), "{notes:?}"),
            Some(says) => assert!(notes[0].contains(says), "{notes:?}"),
        }
    }
}

#[test]
fn a_drive_that_apst_breaks_is_left_alone_unless_forced() {
    let (directory, system) = laptop();
    // The Samsung drives of this PCI id lose contact in their deepest state (quirks.toml).
    let device = directory.path().join("sys/class/nvme/nvme0/device");
    let quirks = wakepath_hardware::drive::quirks::Quirks::builtin();
    let quirk = quirks.entries.iter().find(|q| {
        use wakepath_hardware::drive::quirks::QuirkKind::NoDeepest;
        q.kinds.contains(&NoDeepest) && !q.pci.is_empty() && q.identify.is_none() && q.dmi.is_none()
    });
    let id = quirk.unwrap().pci[0];
    fs::write(device.join("vendor"), format!("0x{:04x}\n", id.vendor)).unwrap();
    fs::write(device.join("device"), format!("0x{:04x}\n", id.device)).unwrap();
    let planned = |force| {
        let selection = Targets {
            force,
            ..Targets::default()
        };
        policy::resolve_to_settings(&system, &"apst".parse().unwrap(), &selection).unwrap()
    };
    let (careful, forced) = (planned(false), planned(true));
    assert!(careful.notes[0].contains("--force"), "{:?}", careful.notes);
    assert!(forced.notes.is_empty());
    assert_ne!(careful.values[0].1, forced.values[0].1);
}

#[test]
fn one_setting_that_cannot_be_put_back_keeps_no_other_from_it() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, &["teo"])).unwrap();
    let table = plan(&system, &["apst", "idle-states[ceiling=20us]"]);
    let hold = session.apply_while_held(&table).unwrap();
    let journal = directory.path().join("var/lib/wakepath/journal.json");
    let of_killed = fs::read(&journal).unwrap();
    drop(hold);
    fs::write(&journal, of_killed).unwrap();
    // The drive does not answer any more.
    let answers = directory.path().join("dev/nvme0.feature-0c");
    let aside = directory.path().join("aside");
    fs::rename(&answers, &aside).unwrap();
    fs::create_dir(&answers).unwrap();
    let error = Session::open_for_restore(&system).unwrap().restore_all();
    let error = error.unwrap_err().to_string();
    assert!(error.contains("1 settings could not"), "{error}");
    let governor = "sys/devices/system/cpu/cpuidle/current_governor";
    assert_eq!(
        fs::read(directory.path().join(governor)).unwrap(),
        before[governor]
    );
    assert_eq!(journal::has_pending_restore(system.root()), Some(true));
    // Once it does, the rest is put back, too.
    fs::remove_dir(&answers).unwrap();
    fs::rename(&aside, &answers).unwrap();
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
}

#[test]
fn a_policy_of_offline_cpus_is_none() {
    let (directory, system) = laptop();
    assert_eq!(system.active_cpufreq_policies(), [0, 1]);
    // It cannot be read; a directory stands for that.
    let cpus = directory
        .path()
        .join("sys/devices/system/cpu/cpufreq/policy1/affected_cpus");
    fs::remove_file(&cpus).unwrap();
    fs::create_dir(&cpus).unwrap();
    assert_eq!(system.active_cpufreq_policies(), [0]);
    let performance = plan(&system, &["performance"]);
    assert!(
        performance
            .changes
            .iter()
            .all(|c| !c.key.to_string().contains("policy1"))
    );
}

#[test]
fn a_drive_that_has_taken_anothers_name_does_not_get_its_table() {
    let (directory, system) = laptop();
    let model = directory.path().join("sys/class/nvme/nvme0/model");
    let table = directory.path().join("dev/nvme0.feature-0c");
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["apst", "teo"]))
        .unwrap();
    fs::write(&model, "ANOTHER DRIVE\n").unwrap();
    fs::write(&table, [7; 260]).unwrap();
    let restored = session.restore_all().unwrap();
    assert!(
        restored.notes.iter().any(|n| n.contains("another drive")),
        "{restored:?}"
    );
    assert_eq!(fs::read(&table).unwrap(), [7; 260]);
    // Everything else is as it was, and nothing is left to do.
    assert_eq!(
        system
            .read_setting(&"idle-governor".parse().unwrap())
            .unwrap(),
        "menu"
    );
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
}

/// The laptop with the files that kernels from 6.16 on add.
fn newer_laptop() -> (tempfile::TempDir, wakepath_system::System) {
    let (directory, system) = laptop();
    let file =
        |path: &str, content: &[u8]| fs::write(directory.path().join(path), content).unwrap();
    file("sys/devices/system/cpu/cpuidle/intel_c1_demotion", b"1\n");
    file("dev/cpu_wakeup_latency", &i32::MAX.to_ne_bytes());
    (directory, system)
}

#[test]
fn settings_of_newer_kernels_are_applied_read_back_and_restored() {
    let (directory, system) = newer_laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["c1-demotion[value=off]"]))
        .unwrap();
    let path = directory
        .path()
        .join("sys/devices/system/cpu/cpuidle/intel_c1_demotion");
    assert_eq!(fs::read_to_string(&path).unwrap(), "0\n");
    assert_eq!(journal::has_pending_restore(system.root()), Some(true));
    drop(session);
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
    for (set, value) in [("200us", "200"), ("none", "2147483647"), ("0us", "0")] {
        let plan = plan(&system, &[&format!("wakeup-latency[limit={set}]")]);
        let change = &plan.changes[0];
        assert_eq!(change.key.to_string(), "wakeup-latency");
        assert_eq!(change.new.as_deref(), Some(value));
    }
}

#[test]
fn settings_of_disks_links_and_turbo_are_applied_and_restored() {
    let (directory, system) = laptop();
    let aspm = "sys/module/pcie_aspm/parameters/policy";
    let read_ahead = "sys/block/nvme0n1/queue/read_ahead_kb";
    let affinity = "sys/block/nvme0n1/queue/rq_affinity";
    let no_turbo = "sys/devices/system/cpu/intel_pstate/no_turbo";
    write(
        directory.path(),
        aspm,
        "[default] performance powersave powersupersave \n",
    );
    write(directory.path(), read_ahead, "128\n");
    let policies = [
        "turbo[value=off]",
        "aspm[policy=performance]",
        "read-ahead[kb=512]",
        "rq-affinity[value=0]",
    ];
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, &policies)).unwrap();
    let values = [no_turbo, aspm, read_ahead, affinity].map(|file| read(directory.path(), file));
    assert_eq!(values, ["1", "performance", "512", "0"]);
    drop(session);
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    let values = [no_turbo, aspm, read_ahead, affinity].map(|file| read(directory.path(), file));
    assert_eq!(values, ["0", "default", "128", "1"]);
}

#[test]
fn disks_of_other_drives_keep_their_settings() {
    let (_directory, system) = laptop();
    let set = "rq-affinity[value=0]".parse().unwrap();
    let targets = Targets {
        drives: Some(vec!["nvme0".to_owned()]),
        ..Targets::default()
    };
    let wanted = policy::resolve_to_settings(&system, &set, &targets).unwrap();
    let keys: Vec<String> = wanted
        .values
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(keys, ["rq-affinity:nvme0n1"]);
    let none = Targets {
        drives: Some(Vec::new()),
        ..Targets::default()
    };
    let error = policy::resolve_to_settings(&system, &set, &none).unwrap_err();
    let expected = "no selected disk with that setting (/sys/block/*/queue/rq_affinity)";
    assert!(error.to_string().contains(expected), "{error}");
}

#[test]
fn a_wake_up_latency_limit_lasts_as_long_as_it_is_held() {
    let (directory, system) = newer_laptop();
    let before = content(directory.path());
    let limit = || {
        let key = "wakeup-latency".parse().unwrap();
        system.read_setting(&key).unwrap()
    };
    let none = limit();
    let wanted = plan(&system, &["wakeup-latency[limit=200us]"]);
    // It needs a process, so that it cannot be applied for good.
    let error = Session::open_and_recover(&system)
        .unwrap()
        .apply_plan(&wanted)
        .unwrap_err();
    assert!(error.to_string().contains("--for"), "{error}");
    assert_same(directory.path(), &before);

    let hold = Session::open_and_recover(&system)
        .unwrap()
        .apply_while_held(&wanted)
        .unwrap();
    assert_eq!(limit(), "200");
    assert_eq!(journal::has_pending_restore(system.root()), Some(true));
    hold.put_back_and_release().unwrap();
    assert_eq!(limit(), none);
    assert_same(directory.path(), &before);

    // Killed while it is held: the next session finds the journal.
    let journal = directory.path().join("var/lib/wakepath/journal.json");
    let hold = Session::open_and_recover(&system)
        .unwrap()
        .apply_while_held(&wanted)
        .unwrap();
    let (written, during) = (fs::read(&journal).unwrap(), content(directory.path()));
    drop(hold);
    fs::write(&journal, written).unwrap();
    for (path, bytes) in during {
        fs::write(directory.path().join(path), bytes).unwrap();
    }
    drop(Session::open_and_recover(&system).unwrap());
    assert_eq!(limit(), none);
    assert_same(directory.path(), &before);
}

#[test]
fn a_kernel_without_a_setting_says_so() {
    let (_directory, system) = laptop();
    for (set, path) in [
        ("c1-demotion[value=on]", "cpuidle/intel_c1_demotion"),
        ("wakeup-latency[limit=200us]", "dev/cpu_wakeup_latency"),
        ("amd-pstate", "amd_pstate/status"),
    ] {
        let set = set.parse().unwrap();
        let error = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap_err();
        assert!(error.to_string().contains(path), "{error}");
    }
}

#[test]
fn amd_pstate_keeps_its_mode_and_sets_what_is_below() {
    let (directory, system) = laptop();
    let cpus = directory.path().join("sys/devices/system/cpu");
    fs::create_dir(cpus.join("amd_pstate")).unwrap();
    fs::write(cpus.join("amd_pstate/status"), "active\n").unwrap();
    for policy in system.active_cpufreq_policies() {
        fs::write(cpus.join(format!("cpufreq/policy{policy}/boost")), "1\n").unwrap();
    }
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["amd-pstate[epp=power,boost=off]"]))
        .unwrap();
    let text = |file: &str| fs::read_to_string(cpus.join("cpufreq/policy0").join(file)).unwrap();
    assert_eq!(text("energy_performance_preference"), "power\n");
    assert_eq!(text("boost"), "0\n");
    assert_eq!(text("scaling_governor"), "powersave\n");
    drop(session);
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
    let set = "amd-pstate[mode=guided]".parse().unwrap();
    let error = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap_err();
    assert!(error.to_string().contains("amd_pstate=guided"), "{error}");
}

/// The state after a process that held `wanted` was killed: what was on disk then.
fn kill_holder(directory: &std::path::Path, hold: wakepath_settings::Hold) {
    let journal = directory.join("var/lib/wakepath/journal.json");
    let (written, during) = (fs::read(&journal).unwrap(), content(directory));
    drop(hold);
    fs::write(&journal, written).unwrap();
    for (path, bytes) in during {
        fs::write(directory.join(path), bytes).unwrap();
    }
}

#[test]
fn a_value_whose_file_is_away_stays_in_the_journal() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["teo", "frequency[max=2000MHz]"]))
        .unwrap();
    drop(session);
    // A CPU that is offline takes its frequency policy with it.
    let policy = directory
        .path()
        .join("sys/devices/system/cpu/cpufreq/policy1");
    let aside = directory.path().join("aside");
    fs::rename(&policy, &aside).unwrap();
    for _ in 0..2 {
        let error = Session::open_for_restore(&system).unwrap().restore_all();
        let error = error.unwrap_err().to_string();
        assert!(
            error.contains("scaling_max_freq: is not there now") && error.contains("again"),
            "{error}"
        );
        assert_eq!(journal::has_pending_restore(system.root()), Some(true));
    }
    let governor = system
        .read_setting(&"idle-governor".parse().unwrap())
        .unwrap();
    assert_eq!(governor, "menu");
    fs::rename(&aside, &policy).unwrap();
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
    assert_eq!(journal::has_pending_restore(system.root()), Some(false));
}

#[test]
fn what_a_killed_process_held_waits_for_its_file_and_keeps_nobody_out() {
    let (directory, system) = laptop();
    let before = content(directory.path());
    let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
    let hold = Session::open_and_recover(&system)
        .unwrap()
        .reserve_for_repeated_changes(&limits)
        .unwrap();
    for change in &limits.changes {
        hold.write_or_put_back(&change.key, Some("20")).unwrap();
    }
    kill_holder(directory.path(), hold);
    let power = directory.path().join("sys/devices/system/cpu/cpu1/power");
    let aside = directory.path().join("aside");
    fs::rename(&power, &aside).unwrap();
    let mut session = Session::open_and_recover(&system).unwrap();
    assert_eq!(session.restored_at_opening().away.len(), 1);
    session.apply_plan(&plan(&system, &["teo"])).unwrap();
    drop(session);
    assert_eq!(
        journal::list_held_settings_and_new_values(system.root())
            .unwrap()
            .len(),
        1
    );
    fs::rename(&aside, &power).unwrap();
    let session = Session::open_and_recover(&system).unwrap();
    assert_eq!(session.restored_at_opening().written.len(), 1);
    assert!(session.restored_at_opening().away.is_empty());
    drop(session);
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_same(directory.path(), &before);
}

/// The daemon was killed: it had written 20 to the limit of one CPU and never touched that of the other.
fn killed_daemon() -> (tempfile::TempDir, wakepath_system::System, [SettingKey; 2]) {
    let (directory, system) = laptop();
    let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
    let keys = [0, 1].map(|cpu: usize| limits.changes[cpu].key.clone());
    let hold = Session::open_and_recover(&system)
        .unwrap()
        .reserve_for_repeated_changes(&limits)
        .unwrap();
    hold.write_or_put_back(&keys[0], Some("20")).unwrap();
    kill_holder(directory.path(), hold);
    (directory, system, keys)
}

#[test]
fn after_a_kill_what_others_have_set_stays() {
    for whole in [true, false] {
        let (directory, system, keys) = killed_daemon();
        for key in &keys {
            fs::write(directory.path().join(key.relative_path()), "33\n").unwrap();
        }
        let restored = if whole {
            Session::open_for_restore(&system)
                .unwrap()
                .restore_all()
                .unwrap()
        } else {
            Session::open_and_recover(&system)
                .unwrap()
                .restored_at_opening()
                .clone()
        };
        assert!(restored.written.is_empty(), "{restored:?}");
        assert_eq!(restored.notes.len(), 2, "{restored:?}");
        for key in &keys {
            assert_eq!(system.read_setting(key).unwrap(), "33");
        }
        assert_eq!(journal::has_pending_restore(system.root()), Some(false));
    }
}

#[test]
fn after_a_kill_what_the_daemon_wrote_is_put_back() {
    let (directory, system, keys) = killed_daemon();
    let restored = Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!((restored.written.len(), restored.unchanged), (1, 1));
    assert!(restored.notes.is_empty(), "{restored:?}");
    assert_eq!(system.read_setting(&keys[0]).unwrap(), "0");
    // Also what it wrote in place of the first value.
    let limits = plan(&system, &["cpu-latency[limit=20us,cpus=all]"]);
    let hold = Session::open_and_recover(&system)
        .unwrap()
        .reserve_for_repeated_changes(&limits)
        .unwrap();
    for value in ["20", "30", "40", "50", "60", "70"] {
        hold.write_or_put_back(&keys[0], Some(value)).unwrap();
    }
    kill_holder(directory.path(), hold);
    assert_eq!(system.read_setting(&keys[0]).unwrap(), "70");
    Session::open_for_restore(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(system.read_setting(&keys[0]).unwrap(), "0");
}

#[test]
fn a_journal_of_another_machine_is_refused_and_kept() {
    let (one, system) = laptop();
    let (other, elsewhere) = laptop();
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, &["teo"])).unwrap();
    drop(session);
    let journal = "var/lib/wakepath/journal.json";
    let content = fs::read(one.path().join(journal)).unwrap();
    drop(Session::open_and_recover(&elsewhere).unwrap());
    fs::create_dir_all(other.path().join("var/lib/wakepath")).unwrap();
    let private = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    fs::set_permissions(other.path().join("var/lib/wakepath"), private).unwrap();
    let of_machine = String::from_utf8(content.clone()).unwrap();
    let start = of_machine.find("\"owner\"").unwrap();
    let end = of_machine.find("\"layers\"").unwrap();
    let of_machine = format!(
        "{}\"owner\": \"machine\", {}",
        &of_machine[..start],
        &of_machine[end..]
    );
    for (content, whose) in [
        (content, one.path().display().to_string()),
        (of_machine.into_bytes(), "a running machine".to_owned()),
    ] {
        fs::write(other.path().join(journal), &content).unwrap();
        let error = Session::open_for_restore(&elsewhere)
            .unwrap_err()
            .to_string();
        assert!(
            error.contains(&whose) && error.contains("wakepath restore"),
            "{error}"
        );
        assert_eq!(fs::read(other.path().join(journal)).unwrap(), content);
    }
}

#[test]
fn a_damaged_journal_says_what_it_still_has_and_what_to_do() {
    let (directory, system) = laptop();
    let mut session = Session::open_and_recover(&system).unwrap();
    session.apply_plan(&plan(&system, &["teo"])).unwrap();
    drop(session);
    let journal = directory.path().join("var/lib/wakepath/journal.json");
    let content = fs::read(&journal).unwrap();
    fs::write(&journal, &content[..content.len() - 20]).unwrap();
    let error = Session::open_for_restore(&system).unwrap_err().to_string();
    for part in [
        "journal.json",
        "idle-governor was 'menu'",
        "echo menu > ",
        "cpuidle/current_governor",
        "remove the file",
    ] {
        assert!(error.contains(part), "'{part}' is not in: {error}");
    }
    assert!(journal.exists());
    // Who copies the command runs nothing of the journal's.
    let hostile = String::from_utf8(content[..content.len() - 20].to_vec()).unwrap();
    let hostile = hostile.replace("\"menu\"", "\"x'; touch pwned; echo '\"");
    fs::write(&journal, hostile).unwrap();
    let error = Session::open_for_restore(&system).unwrap_err().to_string();
    assert!(
        error.contains("echo 'x'\\''; touch pwned; echo '\\''' > "),
        "{error}"
    );
}

/// A laptop with an AHCI controller beside its NVMe drive.
fn laptop_with_interrupts() -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    let table = "            CPU0       CPU1\n \
                 122:          0          9  IR-PCI-MSI-0000:02:00.0    0-edge      nvme0q0\n \
                 123:         12          0  IR-PCI-MSI-0000:02:00.0    1-edge      nvme0q1\n \
                 125:         40          0  IR-PCI-MSI-0000:00:17.0    0-edge      ahci[0000:00:17.0]\n \
                 NMI:          0          0   Non-maskable interrupts\n";
    let proc = directory.path().join("proc");
    fs::write(proc.join("interrupts"), table).unwrap();
    for number in [122, 123, 125] {
        let folder = proc.join(format!("irq/{number}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("smp_affinity_list"), "0-3\n").unwrap();
    }
    (directory, system)
}

#[test]
fn interrupts_of_drives_move_and_come_back_except_those_of_nvme() {
    let (directory, system) = laptop_with_interrupts();
    let file = |number: u32| format!("proc/irq/{number}/smp_affinity_list");
    let values = || [123, 125].map(|number| read(directory.path(), &file(number)));
    let set = "irq-affinity[cpus=1]".parse().unwrap();
    let wanted = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap();
    assert!(wanted.notes[0].contains("(nvme0q1)"), "{wanted:?}");
    let mut session = Session::open_and_recover(&system).unwrap();
    session
        .apply_plan(&plan(&system, &["irq-affinity[cpus=1]"]))
        .unwrap();
    assert_eq!(values(), ["0-3", "1"]);
    drop(session);
    Session::open_and_recover(&system)
        .unwrap()
        .restore_all()
        .unwrap();
    assert_eq!(values(), ["0-3", "0-3"]);
}

#[test]
fn the_only_interrupt_of_a_controller_moves() {
    let (directory, system) = laptop_with_interrupts();
    let table = directory.path().join("proc/interrupts");
    let with_queue = fs::read_to_string(&table).unwrap();
    let alone: Vec<&str> = with_queue
        .lines()
        .filter(|line| !line.contains("nvme0q1"))
        .collect();
    fs::write(&table, alone.join("\n")).unwrap();
    let set = "irq-affinity[cpus=1]".parse().unwrap();
    let wanted = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap();
    assert!(wanted.notes.is_empty(), "{wanted:?}");
    assert_eq!(wanted.values.len(), 2, "{wanted:?}");
}

/// A virtio disk's queues have managed interrupts, and Linux 6.13 and newer write-protect the files of all such.
#[test]
fn interrupts_that_the_kernel_manages_stay_and_are_named() {
    let (directory, system) = laptop_with_interrupts();
    let table = directory.path().join("proc/interrupts");
    let with_disk = fs::read_to_string(&table).unwrap()
        + " 126:  1  0  PCI-MSIX-0000:00:02.0  1-edge  virtio0-req.0\n"
        + " 127:  1  0  PCI-MSIX-0000:00:03.0  0-edge  hpsa0-msix0\n";
    fs::write(&table, with_disk).unwrap();
    for number in [126, 127] {
        let folder = directory.path().join(format!("proc/irq/{number}"));
        fs::create_dir_all(&folder).unwrap();
        let file = folder.join("smp_affinity_list");
        fs::write(&file, "0-3\n").unwrap();
        let mode = if number == 127 { 0o444 } else { 0o644 };
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    }
    let set = "irq-affinity[cpus=1]".parse().unwrap();
    let wanted = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap();
    let places: Vec<String> = wanted
        .values
        .iter()
        .map(|(key, _)| key.to_string())
        .collect();
    assert_eq!(places, ["irq-affinity:irq125"]);
    let note = "the kernel manages the interrupts of drives' queues (nvme0q1 and 2 more)";
    assert!(wanted.notes[0].contains(note), "{wanted:?}");
}

/// Before Linux 6.13 only names, parameters of modules and hints tell which interrupts of RAID controllers the kernel manages.
#[test]
fn queues_of_raid_controllers_stay_unless_their_driver_leaves_them_to_others() {
    let (directory, system) = laptop_with_interrupts();
    let names = [
        "hpsa0-msix1",
        "megasas0-msix9",
        "mpt3sas0-msix0",
        "mpt3sas0-msix8",
        "smartpqi",
        "megasas0",
    ];
    let mut lines = vec!["            CPU0  CPU1".to_owned()];
    for (place, name) in names.iter().enumerate() {
        let number = 130 + place;
        lines.push(format!(
            " {number}:  1  0  PCI-MSIX-0000:02:00.0  {place}-edge  {name}"
        ));
        let hint = if *name == "mpt3sas0-msix0" { "f" } else { "0" };
        let folder = format!("proc/irq/{number}");
        write(
            directory.path(),
            &format!("{folder}/smp_affinity_list"),
            "0-3",
        );
        let mask = format!("00000000,0000000{hint}");
        write(directory.path(), &format!("{folder}/affinity_hint"), &mask);
    }
    write(directory.path(), "proc/interrupts", &lines.join("\n"));
    let movable = || {
        let set = "irq-affinity[cpus=1]".parse().unwrap();
        let wanted = policy::resolve_to_settings(&system, &set, &Targets::default()).unwrap();
        let keys = wanted.values.iter().map(|(key, _)| key.to_string());
        (keys.collect::<Vec<String>>(), wanted.notes)
    };
    let (moved, notes) = movable();
    assert_eq!(moved, ["irq-affinity:irq132", "irq-affinity:irq135"]);
    assert!(notes[0].contains("(hpsa0-msix1 and 3 more)"), "{notes:?}");

    let modules = "sys/module";
    write(
        directory.path(),
        &format!("{modules}/smartpqi/parameters/disable_managed_interrupts"),
        "1",
    );
    write(
        directory.path(),
        &format!("{modules}/mpt3sas/parameters/smp_affinity_enable"),
        "0",
    );
    write(
        directory.path(),
        &format!("{modules}/megaraid_sas/parameters/smp_affinity_enable"),
        "1",
    );
    let (moved, notes) = movable();
    let now = [132, 133, 134, 135].map(|number| format!("irq-affinity:irq{number}"));
    assert_eq!(moved, now);
    assert!(notes[0].contains("(hpsa0-msix1 and 1 more)"), "{notes:?}");

    // A kernel that protects one of the files would protect the others, too.
    let protected = directory.path().join("proc/irq/130/smp_affinity_list");
    fs::set_permissions(&protected, fs::Permissions::from_mode(0o444)).unwrap();
    let (moved, notes) = movable();
    assert_eq!(moved.len(), 5);
    assert!(notes[0].contains("(hpsa0-msix1)"), "{notes:?}");
}

#[test]
fn interrupts_that_cannot_move_are_refused_in_one_sentence() {
    let (_directory, system) = laptop_with_interrupts();
    let refuse = |text: &str, targets: &Targets| {
        let set = text.parse().unwrap();
        let refused = policy::resolve_to_settings(&system, &set, targets);
        refused.unwrap_err().to_string()
    };
    let nvme = Targets {
        drives: Some(vec!["nvme0".to_owned()]),
        ..Targets::default()
    };
    let managed = refuse("irq-affinity[cpus=1]", &nvme);
    assert!(
        managed.contains("the kernel manages the interrupts of NVMe queues (nvme0q1)"),
        "{managed}"
    );
    let missing = refuse("irq-affinity[cpus=99]", &Targets::default());
    assert!(missing.contains("no CPU 99 is online"), "{missing}");
}
