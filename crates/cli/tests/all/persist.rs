//! The question of `wakepath apply --persist`, answered on a terminal, and what is said beside it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::{fails_with, skip, wakepath};

/// What a person gets to see, and the exit code.
struct TerminalRun {
    shown: String,
    code: Option<i32>,
}

/// Runs `apply teo --persist` in a pseudo terminal of script(1). The keys are hit when the prompt is shown.
fn persist_with_keys(machine: &Path, trial: &str, prompt: &str, keys: &str) -> Option<TerminalRun> {
    let command = format!(
        "exec '{}' apply teo --persist --for {trial} --root '{}'",
        env!("CARGO_BIN_EXE_wakepath"),
        machine.display()
    );
    let mut child = Command::new("script")
        .args(["-qec", &command, "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .ok()?;
    // Kept open to the end: a terminal that goes away is an answer, too.
    let mut keyboard = child.stdin.take().unwrap();
    let mut screen = child.stdout.take().unwrap();
    let mut shown = String::new();
    let mut piece = [0; 256];
    while !shown.contains(prompt) {
        let length = screen.read(&mut piece).unwrap();
        assert!(length > 0, "no `{prompt}` in {shown}");
        shown.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
    keyboard.write_all(keys.as_bytes()).unwrap();
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).unwrap();
    shown.push_str(&String::from_utf8_lossy(&rest));
    Some(TerminalRun {
        shown,
        code: child.wait().unwrap().code(),
    })
}

const QUESTION: &str = "[y/N]";
const NO_TERMINAL: &str = "script(1) of util-linux gives a pseudo terminal, and is not installed";

#[test]
fn yes_on_a_terminal_keeps_the_set() {
    for answer in ["y\n", "Y\n", "Yes\n", " YES \n"] {
        let machine = copy_of_laptop();
        let Some(run) = persist_with_keys(machine.path(), "50ms", QUESTION, answer) else {
            return skip("yes_on_a_terminal_keeps_the_set", NO_TERMINAL);
        };
        assert_eq!(run.code, Some(0), "{answer:?}: {}", run.shown);
        let file = fs::read_to_string(machine.path().join("etc/wakepath/settings.toml"));
        let kept = file.unwrap_or_default();
        assert!(
            kept.contains("policy = \"teo\""),
            "{answer:?}: {}",
            run.shown
        );
    }
}

#[test]
fn anything_else_on_a_terminal_puts_everything_back() {
    for answer in ["\n", "n\n", "what?\n", "\u{4}"] {
        let machine = copy_of_laptop();
        let before = content(machine.path());
        let Some(run) = persist_with_keys(machine.path(), "50ms", QUESTION, answer) else {
            return skip(
                "anything_else_on_a_terminal_puts_everything_back",
                NO_TERMINAL,
            );
        };
        assert_eq!(run.code, Some(0), "{answer:?}: {}", run.shown);
        assert!(run.shown.contains("nothing is kept"), "{}", run.shown);
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "{answer:?}: {left:?}");
    }
}

#[test]
fn ctrl_c_on_a_terminal_puts_everything_back() {
    for (trial, prompt) in [("1h", "on trial"), ("1ms", QUESTION)] {
        let machine = copy_of_laptop();
        let before = content(machine.path());
        let Some(run) = persist_with_keys(machine.path(), trial, prompt, "\u{3}") else {
            return skip("ctrl_c_on_a_terminal_puts_everything_back", NO_TERMINAL);
        };
        assert_eq!(run.code, Some(128 + 2), "{trial}: {}", run.shown);
        let left = different(&content(machine.path()), &before);
        assert!(left.is_empty(), "{trial}: {left:?}");
    }
}

#[test]
fn a_set_takes_the_place_of_the_one_before_unless_the_answer_is_no() {
    let epp = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
    for (answer, is_kept) in [("y\n", true), ("n\n", false)] {
        let machine = copy_of_laptop();
        let root = machine.path();
        let own = content(root);
        let path = root.to_str().unwrap();
        let set = "teo + epp[value=power]";
        wakepath(&["apply", set, "--persist", "--yes", "--root", path]).success();
        let before = content(root);
        assert_eq!(before[epp], b"power\n");
        let Some(run) = persist_with_keys(root, "50ms", QUESTION, answer) else {
            return skip(
                "a_set_takes_the_place_of_the_one_before_unless_the_answer_is_no",
                NO_TERMINAL,
            );
        };
        assert_eq!(run.code, Some(0), "{answer:?}: {}", run.shown);
        if is_kept {
            assert_eq!(content(root)[epp], own[epp], "{}", run.shown);
            let named = "not in this set: epp:policy0, epp:policy1; put back to the value before";
            assert!(run.shown.contains(named), "{}", run.shown);
        } else {
            let left = different(&content(root), &before);
            assert!(left.is_empty(), "{left:?}");
        }
    }
}

/// Writes a file below a machine.
fn put(machine: &Path, file: &str, text: &str) {
    let path = machine.join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

#[test]
fn a_dry_run_prints_settings_and_file_and_changes_nothing() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    wakepath(&[
        "apply",
        "epp[value=power]",
        "--persist",
        "--yes",
        "--root",
        root,
    ])
    .success();
    let before = content(machine.path());
    let dry_run = [
        "apply",
        "teo",
        "--persist",
        "--on",
        "battery",
        "--dry-run",
        "--root",
        root,
    ];
    let run = wakepath(&dry_run).success();
    let [shown, said] = [&run.get_output().stdout, &run.get_output().stderr]
        .map(|text| String::from_utf8_lossy(text).into_owned());
    for part in [
        "idle-governor",
        "policy = \"epp[value=power]\"",
        "battery = \"teo\"",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    for part in [
        "would be written after 10 min with the set and a question",
        "not in this set: epp:policy0, epp:policy1; put back to the value before",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert!(different(&content(machine.path()), &before).is_empty());
    // What the printed file says is what is written.
    wakepath(&[&dry_run[..5], &["--yes", "--root", root]].concat()).success();
    let written = fs::read_to_string(machine.path().join("etc/wakepath/settings.toml")).unwrap();
    assert!(shown.ends_with(&written), "{shown}\n{written}");
}

#[test]
fn tools_that_overwrite_the_set_are_named_first() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let wants = "etc/systemd/system/multi-user.target.wants";
    put(root, "proc/812/comm", "tuned\n");
    put(root, "proc/813/comm", "tuned-ppd\n");
    // The kernel cuts names after 15 bytes.
    put(root, "proc/814/comm", "power-profiles-\n");
    put(root, "run/systemd/units/invocation:tlp.service", "");
    put(root, &format!("{wants}/cpupower.service"), "");
    // thermald writes nothing of this set, however it is found.
    put(root, "proc/815/comm", "thermald\n");
    let path = root.to_str().unwrap();
    let persist = ["apply", "epp[value=power]", "--persist", "--yes", "--root"];
    let run = wakepath(&[&persist[..], &[path]].concat()).success();
    let told = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    for line in [
        "TuneD is running (process 812) and may overwrite epp; `systemctl disable --now tuned` ends that",
        "tuned-ppd is running (process 813) and may overwrite epp",
        "power-profiles-daemon is running (process 814) and may overwrite epp",
        "TLP is active (tlp.service) and may overwrite epp",
        "cpupower starts at boot (cpupower.service) and may overwrite epp",
    ] {
        assert!(told.contains(line), "{line} is not in\n{told}");
    }
    assert!(!told.contains("thermald"), "{told}");
    let applied = told.find("applied, and again").unwrap();
    assert!(told.find("cpupower starts").unwrap() < applied, "{told}");
}

#[test]
fn thermald_is_named_before_a_highest_frequency_is_kept() {
    let machine = copy_of_laptop();
    put(machine.path(), "proc/815/comm", "thermald\n");
    let set = "frequency[max=2000MHz]";
    let root = machine.path().to_str().unwrap();
    let run = wakepath(&["apply", set, "--persist", "--yes", "--root", root]).success();
    let told = String::from_utf8(run.get_output().stderr.clone()).unwrap();
    let rival = "thermald is running (process 815) and may overwrite frequency-max";
    assert!(told.contains(rival), "{told}");
}

#[test]
fn a_set_for_the_battery_waits_for_it() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let epp = "sys/devices/system/cpu/cpufreq/policy0/energy_performance_preference";
    put(root, "sys/class/power_supply/BAT0/type", "Battery\n");
    let before = content(root);
    let run = |arguments: &[&str]| {
        let run = wakepath(&[arguments, &["--root", root.to_str().unwrap()]].concat()).success();
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    };
    let told = run(&[
        "apply",
        "epp[value=power]",
        "--persist",
        "--yes",
        "--on",
        "battery",
    ]);
    assert!(told.contains("kept for battery"), "{told}");
    let file = fs::read_to_string(root.join("etc/wakepath/settings.toml")).unwrap();
    assert!(file.contains("battery = \"epp[value=power]\""), "{file}");
    assert_eq!(content(root)[epp], before[epp]);

    put(root, "sys/class/power_supply/AC/online", "0\n");
    let told = run(&["apply", "--supply-changed"]);
    assert!(told.contains("on battery: wrote"), "{told}");
    assert_eq!(fs::read_to_string(root.join(epp)).unwrap().trim(), "power");

    // A change by somebody else is told and stays.
    put(root, epp, "performance\n");
    put(root, "sys/class/power_supply/AC/online", "1\n");
    let told = run(&["apply", "--supply-changed"]);
    assert!(
        told.contains(
            "epp:policy0 is 'performance', not 'power': somebody else has set it, so it stays"
        ),
        "{told}"
    );
    assert_eq!(
        fs::read_to_string(root.join(epp)).unwrap().trim(),
        "performance"
    );
    run(&["restore"]);
    assert!(!root.join("var/lib/wakepath/supply.json").exists());
}

const MANY: &str =
    "teo + idle-states[ceiling=20us] + cpu-latency[limit=50us,cpus=all] + epp[value=power] + apst";

/// A set in the form of a tool, and the notes about it.
fn printed_form(machine: &Path, set: &str, tool: &str) -> (String, String) {
    let root = machine.to_str().unwrap();
    let run = wakepath(&["apply", set, "--as", tool, "--root", root]).success();
    let output = run.get_output();
    (
        String::from_utf8(output.stdout.clone()).unwrap(),
        String::from_utf8(output.stderr.clone()).unwrap(),
    )
}

#[test]
fn forms_of_other_tools_hold_the_set_and_name_the_rest() {
    let machine = copy_of_laptop();
    let before = content(machine.path());
    let cpu = "sys/devices/system/cpu";
    for (tool, held, left) in [
        (
            "tuned",
            format!("\n/{cpu}/cpuidle/current_governor=teo\n"),
            "apst:nvme0: is written by an NVMe command",
        ),
        (
            "tmpfiles",
            format!("w /{cpu}/cpu0/power/pm_qos_resume_latency_us - - - - 50\n"),
            "apst:nvme0: is written by an NVMe command",
        ),
        (
            "udev",
            "KERNEL==\"cpu1\", ATTR{cpuidle/state4/disable}=\"1\"\n".to_owned(),
            "idle-governor: belongs to no device",
        ),
        (
            "tlp",
            "\nCPU_ENERGY_PERF_POLICY_ON_AC=power\nCPU_ENERGY_PERF_POLICY_ON_BAT=power\n"
                .to_owned(),
            "cpu-latency:cpu1: TLP has no option",
        ),
    ] {
        let (text, told) = printed_form(machine.path(), MANY, tool);
        assert!(text.contains(&held), "{tool}: {text}");
        for output in [&text, &told] {
            assert!(
                output.contains(&format!("left out: {left}")),
                "{tool}: {output}"
            );
        }
    }
    let (playbook, _) = printed_form(machine.path(), "teo + epp[value=power]", "ansible");
    assert!(
        playbook.contains("          policy = \"teo + epp[value=power]\"\n"),
        "{playbook}"
    );
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn tlp_has_options_for_turbo_and_link_power() {
    let set = "turbo[value=off] + aspm[policy=powersave]";
    for (file, on) in [
        ("sys/devices/system/cpu/intel_pstate/no_turbo", "0\n"),
        ("sys/devices/system/cpu/cpufreq/boost", "1\n"),
    ] {
        let machine = copy_of_laptop();
        let root = machine.path();
        // Whatever the captured laptop has: turbo by this file alone.
        let by_driver = root.join("sys/devices/system/cpu/intel_pstate");
        if by_driver.exists() {
            fs::remove_dir_all(by_driver).unwrap();
        }
        put(root, file, on);
        put(
            root,
            "sys/module/pcie_aspm/parameters/policy",
            "[default] performance powersave powersupersave \n",
        );
        let (text, told) = printed_form(root, set, "tlp");
        for option in [
            "CPU_BOOST_ON_AC=0",
            "CPU_BOOST_ON_BAT=0",
            "PCIE_ASPM_ON_AC=powersave",
            "PCIE_ASPM_ON_BAT=powersave",
        ] {
            assert!(text.lines().any(|line| line == option), "{file}: {text}");
        }
        assert!(
            !text.contains("left out") && !told.contains("left out"),
            "{text}{told}"
        );
    }
}

#[test]
fn a_form_is_for_one_power_supply_or_refuses() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let set = "epp[value=power]";
    let form_on_battery = |tool: &str| {
        wakepath(&[
            "apply", set, "--as", tool, "--on", "battery", "--root", root,
        ])
    };
    let printed = |tool: &str| {
        let run = form_on_battery(tool).success();
        String::from_utf8(run.get_output().stdout.clone()).unwrap()
    };
    let options = printed("tlp");
    assert!(
        options.ends_with("\nCPU_ENERGY_PERF_POLICY_ON_BAT=power\n") && !options.contains("_ON_AC"),
        "{options}"
    );
    let playbook = printed("ansible");
    assert!(
        playbook.contains("\n          battery = \"epp[value=power]\"\n")
            && !playbook.contains("\n          policy ="),
        "{playbook}"
    );
    for (tool, file) in [
        ("tuned", "a profile of TuneD"),
        ("udev", "a rule of udev"),
        ("tmpfiles", "a file of tmpfiles.d"),
    ] {
        let refused = form_on_battery(tool).code(1);
        let told = String::from_utf8_lossy(&refused.get_output().stderr);
        let expected = format!(
            "--on battery: {file} holds for every power supply; leave --on out, or take --as tlp or --as ansible"
        );
        assert!(told.contains(&expected), "{told}");
    }
    // Without a form and without --persist there is nothing that a supply could be for.
    wakepath(&["apply", set, "--on", "battery", "--root", root]).code(2);
}

/// What `status` says about persistent settings.
fn status_of(machine: &Path) -> String {
    let run = wakepath(&["status", "--root", machine.to_str().unwrap()]).success();
    let text = String::from_utf8(run.get_output().stdout.clone()).unwrap();
    let start = text.find("persistent settings");
    start.map_or_else(String::new, |start| text[start..].to_owned())
}

#[test]
fn status_says_what_is_in_force_and_names_writers_only_on_evidence() {
    let machine = copy_of_laptop();
    let root = machine.path();
    assert_eq!(status_of(root), "");
    let path = root.to_str().unwrap();
    let persist = [
        "apply",
        "teo + epp[value=power]",
        "--persist",
        "--yes",
        "--root",
    ];
    wakepath(&[&persist[..], &[path]].concat()).success();
    let cpus = "sys/devices/system/cpu";
    let epp = format!("{cpus}/cpufreq/policy0/energy_performance_preference");
    let governor = format!("{cpus}/cpuidle/current_governor");
    let fine = status_of(root);
    let (head, _) = fine
        .split_once(" in force (teo + epp[value=power])")
        .unwrap();
    let (found, all) = head
        .rsplit_once(": ")
        .unwrap()
        .1
        .split_once(" of ")
        .unwrap();
    assert_eq!(found, all, "{fine}");

    put(root, &epp, "performance\n");
    put(root, &governor, "menu\n");
    // A tool that writes EPP runs; no tool that is known writes the idle governor. TLP is not running.
    put(root, "proc/812/comm", "tuned\n");
    put(
        root,
        "etc/systemd/system/multi-user.target.wants/tlp.service",
        "",
    );
    let drifted = status_of(root);
    for line in [
        "drifted: epp:policy0 is performance, not power; TuneD is running and writes it\n",
        "drifted: idle-governor is menu, not teo; by whom is unknown\n",
    ] {
        assert!(drifted.contains(line), "{drifted}");
    }
    let run = wakepath(&["status", "--format", "json", "--root", path]).success();
    let report: serde_json::Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let [governor, epp] = report["persistent"]["drifted"]
        .as_array()
        .unwrap()
        .as_slice()
    else {
        panic!("{report}");
    };
    assert_eq!(governor["writers"].as_array().unwrap().len(), 0);
    assert_eq!(epp["writers"][0], "TuneD");

    let file = root.join("etc/wakepath/settings.toml");
    let text = fs::read_to_string(&file).unwrap();
    wakepath(&["apply", "--at-boot", "--root", path]).success();
    fs::write(
        &file,
        text.replace("teo + epp[value=power]", "ladder + epp[value=power]"),
    )
    .unwrap();
    let edited = status_of(root);
    let line = "drifted: idle-governor is teo, not ladder; by the file before it was changed; \
                `systemctl restart wakepath-settings` puts the file in force\n";
    assert!(edited.contains(line), "{edited}");
    fs::write(
        &file,
        text.replace("processor = \"", "processor = \"Another "),
    )
    .unwrap();
    let elsewhere = status_of(root);
    assert!(
        elsewhere.contains("not possible here")
            && elsewhere.contains("made for the processor Another"),
        "{elsewhere}"
    );
}

#[test]
fn a_set_that_is_left_out_names_the_reason_and_each_setting() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let cpus = "sys/devices/system/cpu";
    put(root, &format!("{cpus}/cpuidle/current_governor"), "teo\n");
    put(
        root,
        &format!("{cpus}/cpufreq/policy0/energy_performance_preference"),
        "performance\n",
    );
    // The kernel is an older one, without such a setting.
    let set = "policy = 'teo + epp[value=power] + c1-demotion[value=off]'\n";
    put(root, "etc/wakepath/settings.toml", set);
    let status = status_of(root);
    for line in [
        "not possible here, so that a boot applies none: ",
        "settings.toml: policy: `c1-demotion[value=off]`",
        "  in force: idle-governor, though the set is left out\n",
        "  not in force: epp:policy0 is performance, not power; the set is left out\n",
    ] {
        assert!(status.contains(line), "'{line}': {status}");
    }
    assert!(!status.contains("drifted"), "{status}");
}

#[test]
fn a_later_apply_is_named_and_a_file_edited_by_hand_is_kept() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let path = root.to_str().unwrap();
    put(root, "sys/class/power_supply/BAT0/type", "Battery\n");
    let file = "etc/wakepath/settings.toml";
    put(
        root,
        file,
        "# Mine.\npolicy = 'menu' # at the desk\nbattery = 'epp[value=power]'\n",
    );
    let run = |arguments: &[&str]| {
        let run = wakepath(&[arguments, &["--root", path]].concat()).success();
        String::from_utf8(run.get_output().stderr.clone()).unwrap()
    };
    let told = run(&["apply", "teo", "--persist", "--yes"]);
    let stays = told.find("other sets of it stay: on battery epp[value=power]");
    assert!(
        stays.unwrap() < told.find("applied, and again").unwrap(),
        "{told}"
    );
    let text = fs::read_to_string(root.join(file)).unwrap();
    assert!(
        text.starts_with("# Mine.\npolicy = \"teo\" # at the desk\nbattery = 'epp[value=power]'\n"),
        "{text}"
    );

    run(&["apply", "ladder"]);
    let status = status_of(root);
    assert!(
        status.contains("idle-governor is ladder, not teo; a later `wakepath apply` has set it"),
        "{status}"
    );
    let told = run(&["apply", "--after-event", "interval"]);
    assert!(
        told.contains(
            "idle-governor is 'ladder', not 'teo': `wakepath apply` has set it, so it stays"
        ),
        "{told}"
    );

    put(root, "sys/class/power_supply/AC/online", "0\n");
    let status = status_of(root);
    assert!(
        status.contains("the set for mains is still in force"),
        "{status}"
    );
    let told = run(&["apply", "--after-event", "interval"]);
    assert!(told.contains("on battery: wrote"), "{told}");
    run(&["restore"]);
}

#[test]
fn a_checked_file_is_named_with_the_key_of_the_mistake() {
    let machine = copy_of_laptop();
    let root = machine.path();
    put(root, "c.toml", "policy = 'teo'\ncpus = '0-99'\n");
    let file = root.join("c.toml");
    let check = |parts: &[&str]| {
        let arguments = [
            "apply",
            "--check",
            file.to_str().unwrap(),
            "--root",
            root.to_str().unwrap(),
        ];
        crate::common::fails_with(wakepath(&arguments), parts);
    };
    check(&["c.toml: cpus: no CPU"]);
    put(root, "c.toml", "policy = 'teo'\nprocessor = 'Another'\n");
    check(&["c.toml: made for the processor Another"]);
    put(
        root,
        "c.toml",
        "policy = 'teo'\nbattery = 'frequency[max=99GHz]'\n",
    );
    check(&["c.toml: battery: ", "not possible"]);
}

#[test]
fn a_set_for_drives_is_kept_for_their_model_beside_all_else() {
    const MODEL: &str = "WDC PC SN530 SDBPNPZ-256G-1006";
    const TOLERANCE: &str = "sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us";
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let file = machine.path().join("etc/wakepath/settings.toml");
    let text = || fs::read_to_string(&file).unwrap();
    let persist = |set: &str, more: &[&str]| {
        let fixed = ["apply", set, "--persist", "--yes", "--root", root];
        wakepath(&[&fixed[..], more].concat())
    };
    put(
        machine.path(),
        "etc/wakepath/settings.toml",
        "# By hand.\npolicy = 'teo' # why\n\n[[drive]]\nmodel = 'Another' # of the dock\nmains = 'apst'\n",
    );
    let by_hand = text();
    let refused_by = |set: &str, more: &[&str], parts: &[&str]| {
        fails_with(persist(set, more), parts);
        assert_eq!(text(), by_hand);
    };
    refused_by(
        "teo + apst",
        &["--drives", "nvme0"],
        &["`teo`", "no policy of a drive", "apst, drive-latency"],
    );
    refused_by(
        "apst",
        &["--drives", "nvme7"],
        &[
            "no drive nvme7",
            &format!("expected one of nvme0 ({MODEL})"),
        ],
    );
    refused_by(
        "apst",
        &["--drives", "nvme0", "--cpus", "0"],
        &["leave --cpus out"],
    );
    persist("drive-latency[tolerance=25ms]", &["--drives", "nvme0"]).success();
    let with_table = format!(
        "{by_hand}\n[[drive]]\nmodel = \"{MODEL}\"\npolicy = \"drive-latency[tolerance=25ms]\"\n"
    );
    assert_eq!(text(), with_table);
    let tolerance = || fs::read_to_string(machine.path().join(TOLERANCE)).unwrap();
    assert_eq!(tolerance().trim(), "25000");
    // The other supply's set goes into the same table, which a model names as well as a drive does.
    let told = persist(
        "drive-latency[tolerance=99ms]",
        &["--drives", MODEL, "--on", "battery"],
    )
    .success();
    let told = String::from_utf8(told.get_output().stderr.clone()).unwrap();
    assert!(told.contains("kept for battery"), "{told}");
    assert_eq!(
        text(),
        format!("{with_table}battery = \"drive-latency[tolerance=99ms]\"\n")
    );
    assert_eq!(tolerance().trim(), "25000");
    let checked = wakepath(&["apply", "--check", "--root", root]).success();
    let shown = String::from_utf8(checked.get_output().stdout.clone()).unwrap();
    for part in [
        format!("drive-latency[tolerance=25ms] for {MODEL}"),
        format!("on battery drive-latency[tolerance=99ms] for {MODEL}"),
        "on mains apst for Another".to_owned(),
    ] {
        let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words(&shown).contains(&words(&part)),
            "{part} is not in {shown}"
        );
    }
    wakepath(&["restore", "--root", root]).success();
    assert_eq!(tolerance().trim(), "auto");
}
