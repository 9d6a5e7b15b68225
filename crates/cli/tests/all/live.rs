//! `wakepath apply` and `restore` as whole commands, killed at random points.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::captured::{content, copy_of_laptop, copy_of_server, different, laptop};
use crate::common::{fails_with, json, wakepath};
use wakepath_system::setting::SETTINGS;
use wakepath_system::{SettingKey, System};

const MANY: [&str; 7] = [
    "teo",
    "idle-states[ceiling=20us]",
    "cpu-latency[limit=50us,cpus=all]",
    "intel_pstate-hwp[epp=power,hwp_dynamic_boost=on]",
    "frequency[min=800MHz,max=2000MHz]",
    "drive-latency[tolerance=25000us]",
    "apst",
];

fn start(arguments: &[&str], more: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(arguments)
        .args(more)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Runs an apply to its end.
fn apply(policies: &[&str], more: &[&str]) {
    let mut arguments = vec!["apply"];
    arguments.extend(policies);
    assert!(start(&arguments, more).wait().unwrap().success());
}

/// Starts an apply and kills it after `part` of the time that it takes.
fn kill(policies: &[&str], more: &[&str], time: Duration, part: f64) {
    let mut arguments = vec!["apply"];
    arguments.extend(policies);
    let mut child = start(&arguments, more);
    sleep(time.mul_f64(part));
    let _ = child.kill();
    child.wait().unwrap();
}

/// Numbers from 0 to 1 that lie evenly and look random (the golden ratio's multiples).
fn part(i: u32) -> f64 {
    (f64::from(i) * 0.618_033_988_749_895).fract()
}

fn restore(more: &[&str]) -> bool {
    start(&["restore"], more).wait().unwrap().success()
}

#[test]
fn a_thousand_killed_applies_leave_nothing_behind() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = ["--root", machine.path().to_str().unwrap()];
    let begin = Instant::now();
    apply(&MANY, &root);
    let time = begin.elapsed();
    assert!(restore(&root));
    assert!(different(&content(machine.path()), &before).is_empty());

    let journal = machine.path().join("var/lib/wakepath/journal.json");
    let (mut journals, mut halfway) = (0, 0);
    for i in 0..1000 {
        // Every fourth time it is the second apply that is killed, or the restore.
        match i % 4 {
            1 => apply(&["ladder", "cpu-latency[limit=0us,cpus=all]"], &root),
            2 => apply(&MANY, &root),
            _ => {}
        }
        if i % 4 == 2 {
            let mut child = start(&["restore"], &root);
            sleep(time.mul_f64(part(i)));
            let _ = child.kill();
            child.wait().unwrap();
        } else {
            kill(&MANY, &root, time, part(i));
        }
        journals += u32::from(journal.exists());
        let changed = different(&content(machine.path()), &before).len();
        halfway += u32::from((1..17).contains(&changed));
        assert!(restore(&root), "run {i}");
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "run {i}: {left:?}");
    }
    // Else the kills came too early or too late to show anything.
    assert!(journals > 100, "{journals} of 1000 left a journal");
    assert!(halfway > 0, "no run was killed between two writes");
}

/// Every setting of this machine that can be read.
pub(super) fn settings() -> BTreeMap<String, String> {
    let system = System::live();
    let mut all = BTreeMap::new();
    for setting in SETTINGS {
        for at in system.places_in_scope(setting.scope) {
            let key = SettingKey::for_matching_scope(setting, at).unwrap();
            if let Ok(value) = system.read_setting(&key) {
                all.insert(key.to_string(), value);
            }
        }
    }
    all
}

/// Policies that this machine can really apply; empty if it lets nothing be changed.
fn possible() -> Vec<&'static str> {
    let system = System::live();
    let read = |path: &str| system.root().read_text(path).unwrap_or_default();
    let now = read("sys/devices/system/cpu/cpuidle/current_governor");
    let known = read("sys/devices/system/cpu/cpuidle/available_governors");
    let mut policies: Vec<&str> = ["menu", "ladder", "teo", "haltpoll"]
        .into_iter()
        .filter(|name| *name != now && known.split_whitespace().any(|k| k == *name))
        .take(1)
        .collect();
    policies.extend([
        "cpu-latency[limit=50us,cpus=all]",
        "idle-states[ceiling=0us]",
    ]);
    policies.retain(|policy| {
        let tried = Command::new(env!("CARGO_BIN_EXE_wakepath"))
            .args(["apply", policy, "--for", "1ms"])
            .output()
            .unwrap();
        tried.status.success()
    });
    policies
}

#[test]
fn fifty_killed_applies_on_this_machine_leave_nothing_behind() {
    let _machine = common::lock_machine();
    let policies = possible();
    if policies.is_empty() {
        let reason = "this machine lets no setting be changed (run as root)";
        eprintln!("skipped: fifty_killed_applies_on_this_machine_leave_nothing_behind: {reason}");
        assert!(
            std::env::var_os("WAKEPATH_REQUIRE_ALL").is_none(),
            "{reason}"
        );
        return;
    }
    let before = settings();
    let begin = Instant::now();
    apply(&policies, &[]);
    let time = begin.elapsed();
    assert!(!different(&settings(), &before).is_empty());
    assert!(restore(&[]));
    for i in 0..50 {
        if i % 2 == 1 {
            apply(&["cpu-latency[limit=0us,cpus=all]"], &[]);
        }
        kill(&policies, &[], time, part(i));
        assert!(restore(&[]), "run {i}");
        let left = different(&settings(), &before);
        assert!(left.is_empty(), "run {i}: {left:?}");
    }
}

#[test]
fn a_dry_run_writes_nothing_and_says_all() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut arguments = vec!["apply", "--dry-run", "--format", "json", "--root", root];
    arguments.extend(MANY);
    let report = json(&wakepath(&arguments).success());
    assert_eq!(content(machine.path()), before);
    assert!(!machine.path().join("var").exists());
    let change = |name: &str, place: &str| {
        let all = report["changes"].as_array().unwrap();
        let found = all
            .iter()
            .find(|c| c["setting"] == name && c["of"] == place);
        let found = found.unwrap_or_else(|| panic!("no {name} of {place}"));
        (
            found["old"].as_str().unwrap().to_owned(),
            found["new"].clone(),
        )
    };
    assert_eq!(change("idle-governor", "system").0, "menu");
    assert_eq!(
        change("epp", "policy1"),
        ("balance_performance".into(), "power".into())
    );
    assert_eq!(change("idle-state-off", "cpu0/state4").1, "1");
    let (old, new) = change("apst", "nvme0");
    assert!(old.starts_with("off:0000") && new.as_str().unwrap().starts_with("on:"));
}

/// The captured laptop runs `intel_pstate` with HWP, the server `amd-pstate-epp`.
#[test]
fn a_profile_sets_what_the_machine_has_and_says_what_is_left_out() {
    let (laptop, server) = (copy_of_laptop(), copy_of_server());
    let dry = |machine: &tempfile::TempDir, profile: &str| {
        let root = machine.path().to_str().unwrap();
        let arguments = [
            "apply",
            "--dry-run",
            "--format",
            "json",
            "--root",
            root,
            profile,
        ];
        let report = json(&wakepath(&arguments).success());
        let changes = report["changes"].as_array().unwrap().iter();
        let new = changes.map(|c| (c["setting"].to_string(), c["new"].to_string()));
        let mut new: Vec<(String, String)> = new.collect();
        new.dedup();
        new.retain(|(_, value)| value != "null");
        let new: Vec<String> = new.iter().map(|(s, v)| format!("{s}={v}")).collect();
        (new.join(" ").replace('"', ""), report["notes"].to_string())
    };
    let (set, notes) = dry(&laptop, "tuned[latency-performance]");
    assert_eq!(set, "system-latency=2 frequency-governor=performance");
    assert!(notes.contains("min_perf_pct=100"), "{notes}");
    let (set, _) = dry(&laptop, "tuned[powersave]");
    assert_eq!(set, "frequency-governor=powersave epp=power");
    // What is given beside a profile holds before it.
    let (set, _) = dry(&laptop, "power-profiles[balanced] + epp[value=128]");
    assert_eq!(set, "frequency-governor=powersave epp=128");
    // A version that is written is not the one that runs, even if it is that of a bare name.
    let (set, notes) = dry(&laptop, "menu@6.12");
    assert_eq!(set, "idle-governor=menu");
    assert!(notes.contains("has its own version of menu"), "{notes}");
    assert_eq!(dry(&laptop, "menu").1, "[]");
    let (set, notes) = dry(&server, "tuned[balanced]");
    assert_eq!(set, "frequency-governor=powersave epp=balance_performance");
    assert!(!notes.contains("is left out"), "{notes}");
    let (set, _) = dry(&server, "power-profiles[performance]");
    assert_eq!(set, "frequency-governor=performance epp=performance");
}

/// As the kernel answers, before anything is written.
#[test]
fn a_preference_under_the_governor_performance_is_refused() {
    for (machine, instead) in [
        (copy_of_laptop(), "add intel_pstate-hwp to the set"),
        (
            copy_of_server(),
            "add amd-pstate[governor=powersave] to the set",
        ),
    ] {
        let root = machine.path().to_str().unwrap();
        let dry =
            |sets: &[&str]| wakepath(&[&["apply", "--dry-run", "--root", root], sets].concat());
        let preference = "epp[value=balance_power]";
        dry(&[preference]).success();
        fails_with(dry(&["performance", preference]), &["EBUSY", instead]);
        for cpu in 0..16 {
            let policy = format!("sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_governor");
            let governor = machine.path().join(policy);
            if governor.exists() {
                fs::write(governor, "performance\n").unwrap();
            }
        }
        fails_with(dry(&[preference]), &["EBUSY", instead]);
        // The preference that comes with it, and a profile, which chooses the other governor.
        dry(&["epp[value=performance]"]).success();
        dry(&["tuned[balanced]"]).success();
    }
}

#[test]
fn what_is_applied_for_a_while_goes_back_by_itself_and_at_a_signal() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = ["--root", machine.path().to_str().unwrap()];
    apply(&["teo", "cpu-latency[limit=10us]", "--for", "1ms"], &root);
    assert!(different(&content(machine.path()), &before).is_empty());

    let mut child = start(&["apply", "teo", "--for", "1h"], &root);
    while different(&content(machine.path()), &before).is_empty() {
        assert!(child.try_wait().unwrap().is_none());
        sleep(Duration::from_millis(5));
    }
    // Meanwhile nobody else may change anything, and whoever asks learns who does.
    let owner = format!("process {}", child.id());
    let other = wakepath(&["apply", "ladder", root[0], root[1]]);
    fails_with(other, &["another wakepath", &owner]);
    let kill = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(kill.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_server_is_changed_and_put_back_and_says_what_it_lacks() {
    let machine = copy_of_server();
    let before = content(machine.path());
    let root = ["--root", machine.path().to_str().unwrap()];
    let policies = [
        "teo",
        "idle-states[ceiling=C1]",
        "cpu-latency[limit=1us,cpus=all]",
        "frequency[min=2000MHz]",
        "epp[value=power]",
        "drive-latency[tolerance=25000us]",
    ];
    apply(&policies, &root);
    // A governor, and per CPU a state, a limit, two frequency settings; and the drive's tolerance.
    assert_eq!(
        different(&content(machine.path()), &before).len(),
        1 + 4 * 4 + 1
    );
    assert!(restore(&root));
    assert!(different(&content(machine.path()), &before).is_empty());
    for (policy, part) in [
        ("intel_pstate-hwp", "amd-pstate-epp"),
        ("hwp-boost[value=on]", "hwp_dynamic_boost"),
        ("apst", "does not support APST"),
        ("powersave", "epp[value=power]"),
    ] {
        fails_with(wakepath(&["apply", policy, root[0], root[1]]), &[part]);
    }
    let doctor = json(&wakepath(&["doctor", "--format", "json", root[0], root[1]]).success());
    let findings = doctor["findings"].as_array().unwrap();
    let found = |name: &str| findings.iter().any(|f| f["name"] == name);
    assert!(found("apst-unsupported"), "{doctor}");
    let status = json(&wakepath(&["status", "--format", "json", root[0], root[1]]).success());
    assert_eq!(status["governor"], "menu (acpi_idle)");
    assert_eq!(status["cpus"].as_array().unwrap().len(), 4);
}

#[test]
fn errors_say_what_to_do() {
    let laptop = laptop();
    let root = laptop.to_str().unwrap();
    let apply = |policy: &str, more: &[&str]| {
        let mut arguments = vec!["apply", policy, "--dry-run", "--root", root];
        arguments.extend(more);
        wakepath(&arguments)
    };
    fails_with(apply("tea", &[]), &["did you mean `teo`", "idle-states"]);
    fails_with(
        apply("tuned[latency-perf]", &[]),
        &["did you mean `latency-performance`?", "TuneD 2.28"],
    );
    fails_with(apply("cpu-latency[state=C7]", &[]), &["`C7` here", "C6"]);
    // Several arguments are one set, which has at most one policy of a kind.
    fails_with(apply("menu", &["teo"]), &["both idle policies"]);
    fails_with(apply("menu + ", &[]), &["a name is missing", "A + B"]);
    fails_with(apply("unchanged", &[]), &["changes nothing"]);
    fails_with(apply("", &[]), &["changes nothing"]);
    fails_with(apply("cpu-latency[limit=20]", &[]), &["20us", "none"]);
    fails_with(
        apply("cpu-latency[limit=20us]", &["--cpus", "0"]),
        &["cpus=all"],
    );
    fails_with(
        apply("menu", &["--cpus", "5"]),
        &["no CPU 5", "the last is 1"],
    );
    fails_with(
        apply("apst", &["--drives", "nvme3"]),
        &["no drive nvme3", "nvme0"],
    );
    fails_with(apply("idle-states[ceiling=C7]", &[]), &["C6 (170 us)"]);
    // The policy is named as it was given, and what to write instead.
    let machine = copy_of_laptop();
    let copy = ["--root", machine.path().to_str().unwrap()];
    let limit = "cpu-latency[limit=20us]";
    let refused = [
        "`cpu-latency[limit=20us]`",
        "--for 10m",
        "limit=20us,cpus=all]",
    ];
    fails_with(wakepath(&[&["apply", limit], &copy[..]].concat()), &refused);
    let told = |assert: assert_cmd::assert::Assert| {
        String::from_utf8_lossy(&assert.success().get_output().stderr).into_owned()
    };
    let dry = told(apply(limit, &[]));
    assert!(refused.iter().all(|part| dry.contains(part)), "{dry}");
    assert_eq!(told(apply(limit, &["--for", "10m"])), "");
    // The kernel drops the request itself, and it is put back all the same.
    let held = told(wakepath(
        &[&["apply", limit, "--for", "1ms"], &copy[..]].concat(),
    ));
    assert!(held.contains("put 1 setting(s) back"), "{held}");
    let nowhere = wakepath(&["apply", "menu", "--root", "/nonexistent"]);
    fails_with(nowhere, &["/nonexistent", "no captured machine"]);
    wakepath(&["apply", "menu", "--for", "10 parsecs"]).code(2);
    wakepath(&["restore", "--root", root])
        .success()
        .stdout("nothing to put back\n");
    assert!(!Path::new(root).join("var").exists());
}

#[test]
fn a_closed_terminal_does_not_end_what_nohup_started() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut child = Command::new("nohup")
        .args([
            env!("CARGO_BIN_EXE_wakepath"),
            "apply",
            "teo",
            "--for",
            "1h",
            "--root",
            root,
        ])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let signal = |name: &str| {
        let pid = child.id().to_string();
        Command::new("kill").args([name, &pid]).status().unwrap();
    };
    while different(&content(machine.path()), &before).is_empty() {
        sleep(Duration::from_millis(5));
    }
    signal("-HUP");
    sleep(Duration::from_millis(200));
    assert!(!different(&content(machine.path()), &before).is_empty());
    signal("-TERM");
    assert_eq!(child.wait().unwrap().code(), Some(128 + 15));
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn who_may_not_see_the_journal_is_told_so() {
    if !rustix::process::geteuid().is_root() {
        return common::skip(
            "who_may_not_see_the_journal_is_told_so",
            "only root can become somebody else",
        );
    }
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    apply(&["teo"], &["--root", root]);
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(machine.path(), open).unwrap();
    let program = machine.path().join("wakepath");
    std::fs::copy(env!("CARGO_BIN_EXE_wakepath"), &program).unwrap();
    let as_nobody = |arguments: &[&str]| {
        let output = Command::new("setpriv")
            .args(["--reuid=65534", "--regid=65534", "--clear-groups", "--"])
            .arg(&program)
            .args(arguments)
            .args(["--root", root])
            .output()
            .unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (
            output.status.success(),
            text(output.stdout),
            text(output.stderr),
        )
    };
    let (success, _, errors) = as_nobody(&["restore"]);
    assert!(!success, "{errors}");
    let (_, shown, errors) = as_nobody(&["status"]);
    assert!(shown.contains("only root can see"), "{shown}{errors}");
    let status = json(&wakepath(&["status", "--root", root, "--format", "json"]).success());
    assert_eq!(
        (&status["applied"], &status["holder"]),
        (&true.into(), &serde_json::Value::Null)
    );
}

#[test]
fn a_watch_whose_output_cannot_be_written_says_so() {
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_wakepath"))
        .args(["status", "--watch", "--interval", "10ms", "--format", "csv"])
        .stdout(full)
        .output()
        .unwrap();
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("No space left"), "{errors}");
}

#[test]
fn status_leaves_out_what_a_captured_machine_does_not_tell() {
    let machine = copy_of_laptop();
    std::fs::remove_file(machine.path().join("proc/uptime")).unwrap();
    std::fs::remove_dir_all(machine.path().join("sys/devices/system/cpu/cpu1/cpuidle")).unwrap();
    let root = machine.path().to_str().unwrap();
    let status = json(&wakepath(&["status", "--root", root, "--format", "json"]).success());
    let cpu = &status["cpus"][0];
    assert!(
        status["seconds"].is_null() && cpu["states"][0]["entries_per_s"].is_null(),
        "{cpu}"
    );
    // A CPU without idle states still has a limit.
    let shown = wakepath(&["status", "--root", root, "--format", "csv"]).success();
    let shown = String::from_utf8(shown.get_output().stdout.clone()).unwrap();
    assert!(
        shown.lines().any(|line| line.starts_with("1,none,")),
        "{shown}"
    );
}

#[test]
fn a_signal_ends_what_a_script_started_in_the_background() {
    // Such a program ignores Ctrl-C.
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = machine.path().to_str().unwrap();
    let mut child = Command::new("sh")
        .args([
            "-c",
            "trap '' INT; exec \"$0\" \"$@\"",
            env!("CARGO_BIN_EXE_wakepath"),
        ])
        .args(["apply", "teo", "--for", "1h", "--root", root])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while different(&content(machine.path()), &before).is_empty() {
        sleep(Duration::from_millis(5));
    }
    let pid = child.id().to_string();
    Command::new("kill").args(["-INT", &pid]).status().unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(128 + 2));
    assert!(different(&content(machine.path()), &before).is_empty());
}

/// The folder of the file is a link, so that the file can be neither written nor removed.
#[test]
fn a_file_that_cannot_be_removed_keeps_no_setting_from_being_put_back() {
    let machine = copy_of_laptop();
    let root = ["--root", machine.path().to_str().unwrap()];
    let governor = machine
        .path()
        .join("sys/devices/system/cpu/cpuidle/current_governor");
    let before = fs::read_to_string(&governor).unwrap();
    let folder = machine.path().join("etc/wakepath");
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(machine.path().join("etc")).unwrap();
    std::os::unix::fs::symlink("elsewhere", &folder).unwrap();

    let kept = wakepath(&["apply", "teo", "--persist", "--yes", root[0], root[1]]);
    let way_out = format!("`wakepath restore --root {}` puts them back", root[1]);
    fails_with(kept, &["in force", &way_out, "cannot be written"]);
    assert_eq!(fs::read_to_string(&governor).unwrap(), "teo\n");

    let restored = wakepath(&["restore", root[0], root[1]]).failure();
    let message = String::from_utf8(restored.get_output().stderr.clone()).unwrap();
    assert!(message.contains("cannot be removed"), "{message}");
    assert_eq!(fs::read_to_string(&governor).unwrap(), before);
}

#[test]
fn the_record_of_a_boot_is_forgotten_with_the_file() {
    let machine = copy_of_laptop();
    let root = ["--root", machine.path().to_str().unwrap()];
    // Of a boot that lasts longer there is no record.
    fs::write(machine.path().join("proc/uptime"), "9.80 15.31\n").unwrap();
    apply(&["teo", "--persist", "--yes"], &root);
    let booted = start(&["apply", "--at-boot"], &root).wait().unwrap();
    assert!(booted.success());
    let record = machine.path().join("var/lib/wakepath/boot.json");
    assert!(record.exists());
    assert!(restore(&root));
    assert!(!record.exists());
}

#[test]
fn persistent_settings_are_kept_checked_and_ended() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let root = ["--root", machine.path().to_str().unwrap()];
    let file = machine.path().join("etc/wakepath/settings.toml");
    // Nobody answers here.
    fails_with(
        wakepath(&["apply", "teo", "--persist", root[0], root[1]]),
        &["--yes"],
    );
    assert!(!file.exists());
    assert!(different(&content(machine.path()), &before).is_empty());

    apply(&["teo", "--persist", "--yes"], &root);
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("policy = \"teo\"")
    );
    let checked = wakepath(&["apply", "--check", root[0], root[1]]).success();
    let told = String::from_utf8(checked.get_output().stdout.clone()).unwrap();
    assert!(told.contains("fine; 1 setting(s) by teo"), "{told}");

    // What is put back now comes again at the next boot.
    assert!(
        start(&["restore", "--now"], &root)
            .wait()
            .unwrap()
            .success()
    );
    assert!(file.exists());
    assert!(
        start(&["apply", "--at-boot"], &root)
            .wait()
            .unwrap()
            .success()
    );
    let governor = "sys/devices/system/cpu/cpuidle/current_governor";
    let read = fs::read_to_string(machine.path().join(governor)).unwrap();
    assert_eq!(read.trim(), "teo");
    assert!(
        start(&["apply", "--boot-ended"], &root)
            .wait()
            .unwrap()
            .success()
    );

    assert!(restore(&root));
    assert!(!file.exists());
    let after: BTreeMap<String, Vec<u8>> = content(machine.path());
    assert_eq!(after.get(governor), before.get(governor));
    fs::write(&file, "policy = 'tea'").unwrap();
    fails_with(
        wakepath(&["apply", "--check", root[0], root[1]]),
        &["settings.toml", "did you mean `teo`"],
    );
}
