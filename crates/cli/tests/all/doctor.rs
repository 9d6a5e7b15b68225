//! `wakepath doctor`: each fault is found when it is there, and only then.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use crate::common::captured::{copy_of_laptop, copy_of_server, laptop, planted};
use crate::common::{json, wakepath};
use serde_json::Value;
use tempfile::TempDir;

fn examine(root: &Path) -> Vec<Value> {
    let root = root.to_str().unwrap();
    let report = json(&wakepath(&["doctor", "--format", "json", "--root", root]).success());
    report["findings"].as_array().unwrap().clone()
}

/// The finding of this name.
fn finding(root: &Path, name: &str) -> Option<Value> {
    examine(root).into_iter().find(|f| f["name"] == name)
}

fn set(root: &Path, path: &str, value: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{value}\n")).unwrap();
}

const CPU: &str = "sys/devices/system/cpu";

fn set_states(root: &Path, file: &str, values: [u64; 5]) {
    for cpu in 0..2 {
        for (state, value) in values.iter().enumerate() {
            let path = format!("{CPU}/cpu{cpu}/cpuidle/state{state}/{file}");
            set(root, &path, &value.to_string());
        }
    }
}

/// Costs of the finding that a fault adds, which must not be there without it.
fn found_with(name: &str, fault: impl FnOnce(&Path)) -> Value {
    let machine = copy_of_laptop();
    assert!(
        finding(machine.path(), name).is_none(),
        "{name} without its fault"
    );
    fault(machine.path());
    finding(machine.path(), name).unwrap_or_else(|| panic!("no {name}"))
}

/// Costs of the finding that goes away with its fault.
fn gone_with(name: &str, remedy: impl FnOnce(&Path)) -> Value {
    gone_from(&copy_of_laptop(), name, remedy)
}

fn gone_from(machine: &TempDir, name: &str, remedy: impl FnOnce(&Path)) -> Value {
    let found = finding(machine.path(), name).unwrap_or_else(|| panic!("no {name}"));
    remedy(machine.path());
    assert!(
        finding(machine.path(), name).is_none(),
        "{name} is still there"
    );
    found
}

fn text<'a>(finding: &'a Value, field: &str) -> &'a str {
    finding[field].as_str().unwrap()
}

#[test]
fn findings_come_worst_first_and_their_commands_exist() {
    let laptop = laptop();
    let findings = examine(&laptop);
    let weights: Vec<f64> = findings
        .iter()
        .map(|f| f["weight"].as_f64().unwrap())
        .collect();
    assert!(
        weights.len() > 3 && weights.is_sorted_by(|a, b| a >= b),
        "{weights:?}"
    );
    for finding in &findings {
        let fix = text(finding, "fix");
        let Some(command) = fix.strip_prefix("wakepath ") else {
            assert!(finding["set"].is_null(), "{finding}");
            continue;
        };
        let set = command.strip_prefix("apply ").unwrap();
        let set = set.split(" --root").next().unwrap().trim_matches('\'');
        let parsed: wakepath_policies::PolicySet = set.parse().unwrap();
        assert_eq!(finding["set"], parsed.to_string(), "{fix}");
        let (_, root) = command.split_once(" --root ").unwrap();
        let words = ["apply", set, "--root", root, "--dry-run"];
        // The root is relative to where the documentation is read.
        wakepath(&words).success();
    }
}

#[test]
fn measured_figures_of_a_calibration_stand_in_place_of_declared_ones() {
    let root = laptop();
    let root = root.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("calibrated.toml");
    let system = wakepath_system::System::new(wakepath_system::Root::at_directory(root));
    let (mut machine, _) =
        wakepath_system::capture::machine::describe_machine(&system, "laptop").unwrap();
    let deepest = machine.idle_state.last_mut().unwrap();
    let measurement = wakepath_hardware::machine::Measurement {
        n: 400,
        low: Some(910.0),
        high: Some(912.0),
        date: "2026-11-27".to_owned(),
        kernel: "6.12.48".to_owned(),
        what: "test".to_owned(),
    };
    deepest.true_exit_us = wakepath_hardware::machine::Figure::measured_here(911.0, measurement);
    let key = format!("idle_state.{}.true_exit_us", deepest.name);
    machine.calibrated_on = Some(calibrated_on("6.12.48+deb13-amd64"));
    fs::write(&file, machine.to_toml().unwrap()).unwrap();
    let with = arguments_with_machine(root, &file);
    let measured = json(&wakepath(&with).success());
    let plain = json(&wakepath(&with[..5]).success());
    let note = |report: &Value| {
        let notes = report["notes"].as_array().unwrap().clone();
        notes
            .into_iter()
            .find(|note| note.as_str().unwrap().contains("1 figure is measured"))
    };
    let note_text = note(&measured).unwrap();
    assert!(note_text.as_str().unwrap().contains(&key), "{note_text}");
    assert_eq!(note(&plain), None);
    let too_deep = |report: &Value| {
        let findings = report["findings"].as_array().unwrap();
        findings
            .iter()
            .find(|f| f["name"] == "too-deep")
            .unwrap()
            .clone()
    };
    let [before, after] = [&plain, &measured].map(too_deep);
    assert!(
        text(&after, "computed").contains("measured exit latencies"),
        "{after}"
    );
    assert!(
        after["costs_us_per_io"].as_f64().unwrap() > before["costs_us_per_io"].as_f64().unwrap(),
        "{before} {after}"
    );
    // Figures of another kernel's days are told, and are not used.
    machine.calibrated_on = Some(calibrated_on("6.18.1"));
    fs::write(&file, machine.to_toml().unwrap()).unwrap();
    let stale = wakepath(&with).success();
    let told = String::from_utf8_lossy(&stale.get_output().stderr).into_owned();
    assert!(
        told.contains("kernel 6.18.1, now 6.12.48+deb13-amd64"),
        "{told}"
    );
    assert_eq!(note(&json(&stale)), None);
    // A file that is no machine is an error.
    fs::write(&file, "name = 1\n").unwrap();
    wakepath(&with).code(1);
}

#[test]
fn exits_of_each_kind_of_core_stand_in_place_of_declared_ones() {
    let captured = copy_of_laptop();
    hybrid(captured.path());
    let root = captured.path().to_str().unwrap();
    let system = wakepath_system::System::new(wakepath_system::Root::at_directory(root));
    let (mut machine, _) =
        wakepath_system::capture::machine::describe_machine(&system, "laptop").unwrap();
    assert_eq!(machine.cluster.len(), 2);
    let deepest = machine.idle_state.last().unwrap().name.clone();
    for (cluster, exit_us) in machine.cluster.iter_mut().zip([911.0, 1_822.0]) {
        let measurement = wakepath_hardware::machine::Measurement {
            n: 400,
            low: None,
            high: None,
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            what: "test".to_owned(),
        };
        cluster.idle_state.retain(|own| own.name != deepest);
        let mut own = wakepath_hardware::machine::ClusterIdleState::without_overrides(
            &deepest,
            "measure wake",
        );
        own.true_exit_us = wakepath_hardware::machine::Figure::measured_here(exit_us, measurement);
        cluster.idle_state.push(own);
    }
    machine.calibrated_on = Some(calibrated_on("6.12.48+deb13-amd64"));
    let file = captured.path().join("calibrated.toml");
    fs::write(&file, machine.to_toml().unwrap()).unwrap();
    let with = arguments_with_machine(root, &file);
    let report = json(&wakepath(&with).success()).to_string();
    for said in [
        "2 figures are measured",
        &format!("cluster.efficiency.idle_state.{deepest}.true_exit_us"),
        "measured exit latencies",
    ] {
        assert!(report.contains(said), "{said}: {report}");
    }
}

/// Arguments of an examination of a captured machine, at last those that name the file of a calibration.
fn arguments_with_machine<'a>(root: &'a str, file: &'a Path) -> [&'a str; 7] {
    let file = file.to_str().unwrap();
    [
        "doctor",
        "--format",
        "json",
        "--root",
        root,
        "--machine",
        file,
    ]
}

/// A calibration of the captured laptop's two CPUs under a kernel.
fn calibrated_on(kernel: &str) -> wakepath_hardware::machine::CalibratedOn {
    wakepath_hardware::machine::CalibratedOn {
        date: "2026-11-27".to_owned(),
        kernel: kernel.to_owned(),
        cpus: 2,
        processor: Some("12th Gen Intel(R) Core(TM) i7-1260P".to_owned()),
        microcode: None,
        firmware: None,
        disk: None,
        drive: None,
    }
}

#[test]
fn a_machine_that_was_never_calibrated_is_no_calibration() {
    let root = laptop();
    let root = root.to_str().unwrap();
    // A built-in board, one of whose figures was fitted.
    for machine in ["rk3399", "rk3399-depth"] {
        let run = wakepath(&["doctor", "--root", root, "--machine", machine]).code(1);
        let told = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        let expected =
            format!("{machine}: nothing in it was measured by `wakepath calibrate`; give the file");
        assert!(told.contains(&expected), "{told}");
    }
}

#[test]
fn a_drive_that_is_to_sleep_again_gets_no_slow_wake_up_with_it() {
    let machine = copy_of_laptop();
    let off = finding(machine.path(), "apst-off").unwrap();
    assert_eq!(text(&off, "set"), "apst + drive-latency[tolerance=25ms]");
    let root = machine.path().to_str().unwrap();
    wakepath(&["apply", text(&off, "set"), "--root", root]).success();
    for name in ["apst-off", "apst-changed", "drive-slow-to-wake"] {
        assert!(finding(machine.path(), name).is_none(), "{name}");
    }
}

#[test]
fn a_live_machine_is_examined_too() {
    let report = json(&wakepath(&["doctor", "--format", "json"]).success());
    assert!(report["findings"].is_array() && report["machine"].is_string());
}

#[test]
fn deep_states_cost_io_until_a_limit_keeps_cpus_out_of_them() {
    // The menu of 6.12.44 to 6.12.55 does not count I/O wait, and costs nothing here. The exits are twice the laptop's.
    let machine = copy_of_laptop();
    set(machine.path(), "proc/sys/kernel/osrelease", "6.12.75-amd64");
    set_states(machine.path(), "latency", [0, 2, 340, 400, 460]);
    let found = gone_from(&machine, "deep-states", |root| {
        for state in 2..5 {
            for cpu in 0..2 {
                set(
                    root,
                    &format!("{CPU}/cpu{cpu}/cpuidle/state{state}/disable"),
                    "1",
                );
            }
        }
    });
    assert!(found["costs_us_per_io"].as_f64().unwrap() > 1.0);
    assert!(text(&found, "fix").contains("cpu-latency[limit=2us,cpus=all]"));
}

#[test]
fn switching_deep_states_off_everywhere_costs_power() {
    let disabled = found_with("deep-states-off", |root| {
        set_states(root, "disable", [0, 0, 1, 1, 1]);
    });
    assert!(disabled["costs_mw"].as_f64().unwrap() > 10.0, "{disabled}");
    assert!(text(&disabled, "fix").contains("idle-states[ceiling=none]"));

    let held = found_with("deep-states-off", |root| {
        fs::write(root.join("dev/cpu_dma_latency"), 5_i32.to_ne_bytes()).unwrap();
    });
    assert!(held["evidence"].to_string().contains("held at 5 us"));
    assert!(held["costs_mw"].as_f64().unwrap() > 10.0);

    let profile = "which is the limit of tuned[latency-performance]";
    assert!(!held["evidence"].to_string().contains(profile));
    let held = found_with("deep-states-off", |root| {
        fs::write(root.join("dev/cpu_dma_latency"), 2_i32.to_ne_bytes()).unwrap();
    });
    assert!(held["evidence"].to_string().contains(profile), "{held}");
    assert!(text(&held, "fix").contains("TuneD"), "{held}");

    let limited = found_with("deep-states-off", |root| {
        for cpu in 0..2 {
            set(
                root,
                &format!("{CPU}/cpu{cpu}/power/pm_qos_resume_latency_us"),
                "20",
            );
        }
    });
    assert!(text(&limited, "fix").contains("cpu-latency[limit=none,cpus=all]"));
    let booted = found_with("deep-states-off", |root| {
        set(root, "proc/cmdline", "quiet intel_idle.max_cstate=1");
    });
    assert!(
        booted["evidence"]
            .to_string()
            .contains("intel_idle.max_cstate=1")
    );
    let polls = planted("arm-board");
    set(polls.path(), "proc/cmdline", "quiet nohlt");
    let polls = finding(polls.path(), "deep-states-off").unwrap();
    assert!(polls["evidence"].to_string().contains("nohlt"), "{polls}");
    // Words that only sound like it, and a limit beyond the states that there are.
    let root = copy_of_laptop();
    let words = "idle=nomwait intel_idle.max_cstate=9 processor.max_cstate=9 cpuidle.off=0";
    set(root.path(), "proc/cmdline", words);
    assert!(finding(root.path(), "deep-states-off").is_none());
}

#[test]
fn a_governor_is_judged_by_the_kernels_own_counts() {
    let deep = gone_with("too-deep", |root| set_states(root, "above", [0; 5]));
    assert!(deep["costs_us_per_io"].as_f64().unwrap() > 0.0);
    let shallow = found_with("too-shallow", |root| {
        set_states(root, "below", [0, 300_000, 1000, 1000, 0]);
    });
    assert!(shallow["costs_mw"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_governor_that_was_just_set_is_not_judged_by_the_counters_of_another() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    assert!(finding(machine.path(), "too-deep").is_some());
    wakepath(&["apply", "teo", "--root", root]).success();
    let report = json(&wakepath(&["doctor", "--format", "json", "--root", root]).success());
    let names: Vec<&str> = report["findings"]
        .as_array()
        .unwrap()
        .iter()
        .map(|found| found["name"].as_str().unwrap())
        .collect();
    assert!(!names.contains(&"too-deep"), "{names:?}");
    let notes = report["notes"].to_string();
    assert!(
        notes.contains("mostly under the idle governor menu"),
        "{notes}"
    );
    // Put back, menu is judged again.
    wakepath(&["restore", "--root", root]).success();
    assert!(finding(machine.path(), "too-deep").is_some());
}

#[test]
fn what_teo_would_gain_is_said_where_the_kernel_has_none() {
    let machine = copy_of_laptop();
    let root = machine.path();
    set(root, &format!("{CPU}/cpuidle/current_governor"), "ladder");
    for (offered, said) in [("ladder menu", true), ("ladder menu teo", false)] {
        set(root, &format!("{CPU}/cpuidle/available_governors"), offered);
        let arguments = [
            "doctor",
            "--format",
            "json",
            "--root",
            root.to_str().unwrap(),
        ];
        let notes = json(&wakepath(&arguments).success())["notes"].to_string();
        assert_eq!(notes.contains("CONFIG_CPU_IDLE_GOV_TEO"), said, "{notes}");
    }
}

#[test]
fn a_state_that_is_never_entered_is_named() {
    let found = found_with("unreached-states", |root| {
        set_states(root, "usage", [1000, 400_000, 90_000, 20_000, 3]);
        set_states(
            root,
            "time",
            [9000, 20_000_000, 52_000_000, 12_000_000, 900],
        );
    });
    assert!(
        found["evidence"].to_string().contains("C10 (6 entries)"),
        "{found}"
    );
}

#[test]
fn boost_that_is_off_is_simulated_on() {
    let found = gone_with("boost-off", |root| {
        set(root, &format!("{CPU}/intel_pstate/hwp_dynamic_boost"), "1");
    });
    assert!(found["costs_us_per_io"].as_f64().unwrap() > 1.0);
}

#[test]
fn the_polling_limit_is_compared_with_the_reads() {
    let found = gone_with("polling-limit", |root| {
        set(
            root,
            "sys/block/nvme0n1/stat",
            "100000 0 800000 2000 0 0 0 0 0 2000 2000",
        );
    });
    assert!(text(&found, "title").contains("250 us"), "{found}");
    // Neither polling for longer nor a limit gains anything here, so no command is offered.
    assert_eq!(text(&found, "fix"), "stock kernels have no setting for it");
}

#[test]
fn a_guest_that_does_not_poll_is_told_to() {
    let found = found_with("haltpoll-off", |root| {
        set(root, &format!("{CPU}/cpuidle/current_governor"), "haltpoll");
        set(
            root,
            "sys/module/haltpoll/parameters/guest_halt_poll_ns",
            "0",
        );
    });
    assert!(text(&found, "fix").contains("guest_halt_poll_ns=200000"));
}

#[test]
fn shared_queues_complete_elsewhere() {
    let found = found_with("completions-elsewhere", |root| {
        fs::remove_dir_all(root.join("sys/block/nvme0n1/mq/1")).unwrap();
        set(root, "sys/block/nvme0n1/mq/0/cpu_list", "0, 1");
    });
    assert!(text(&found, "title").contains("50 %"), "{found}");
    assert!(text(&found, "fix").contains("rq-affinity[value=2]"));
}

#[test]
fn an_apst_table_is_explained_when_it_is_empty_and_when_it_was_changed() {
    let off = gone_with("apst-off", |root| {
        let root = root.to_str().unwrap();
        wakepath(&["apply", "apst", "--root", root]).success();
    });
    // Awake, the drive is taken to draw 380 mW, a fifth of what PS2 declares: sleep cannot save more.
    let saved = off["costs_mw"].as_f64().unwrap();
    assert!((100.0..380.0).contains(&saved), "{off}");
    let none = found_with("quirk", |root| {
        // The kernel never uses APST on this drive and firmware (quirks.toml).
        use wakepath_hardware::drive::quirks::{QuirkKind, Quirks};
        let entry = Quirks::builtin()
            .entries
            .iter()
            .find(|q| q.kinds.contains(&QuirkKind::NoApst) && q.pci.is_empty() && q.dmi.is_none());
        let identify = entry.unwrap().identify.as_ref().unwrap();
        let path = root.join("dev/nvme0.id-ctrl");
        let mut data = fs::read(&path).unwrap();
        data[..2].copy_from_slice(&identify.vendor.to_le_bytes());
        for (range, word) in [(24..64, &identify.model), (64..72, &identify.firmware)] {
            let word = word.clone().unwrap_or_default();
            data[range.clone()].fill(b' ');
            data[range.start..range.start + word.len()].copy_from_slice(word.as_bytes());
        }
        fs::write(path, data).unwrap();
    });
    assert!(
        none["evidence"].to_string().contains("NVME_QUIRK_NO_APST"),
        "{none}"
    );

    let budget = copy_of_laptop();
    set(
        budget.path(),
        "sys/class/nvme/nvme0/power/pm_qos_latency_tolerance_us",
        "5000",
    );
    let found = finding(budget.path(), "apst-off").unwrap();
    assert!(
        found["evidence"].to_string().contains("budget 5000 us"),
        "{found}"
    );

    let changed = found_with("apst-changed", |root| {
        let text = root.to_str().unwrap();
        wakepath(&["apply", "apst[rule=legacy]", "--root", text]).success();
    });
    assert!(changed["evidence"].to_string().contains("PS4"), "{changed}");
}

#[test]
fn findings_are_an_exit_code_if_asked_for() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    wakepath(&["doctor", "--root", root]).success();
    let found = wakepath(&["doctor", "--exit-code", "--root", root]).code(3);
    assert!(!found.get_output().stdout.is_empty());
    // What costs less than asked for does not count, and is left out.
    let light = wakepath(&["doctor", "--exit-code", "--min-weight", "1", "--root", root]).success();
    let text = String::from_utf8(light.get_output().stdout.clone()).unwrap();
    assert!(
        text.contains("nothing found") && text.contains("weigh less than 1"),
        "{text}"
    );
    // A machine that is not there is an error, as ever.
    let nowhere = machine.path().join("nowhere");
    wakepath(&["doctor", "--exit-code", "--root", nowhere.to_str().unwrap()]).code(1);
}

#[test]
fn c1_demotion_hides_what_cpus_enter() {
    let found = found_with("c1-demotion", |root| {
        set(root, &format!("{CPU}/cpuidle/intel_c1_demotion"), "1");
    });
    assert!(text(&found, "fix").contains("c1-demotion[value=off]"));
}

#[test]
fn a_controller_says_which_quirks_it_has() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let quirks = "sys/class/nvme/nvme0/quirks";
    // The list has it for this model and this computer only.
    for file in ["vendor", "device"] {
        let id = ["0x15b7", "0x5009"][usize::from(file == "device")];
        set(root, &format!("sys/class/nvme/nvme0/device/{file}"), id);
    }
    let older = finding(root, "quirk").expect("a quirk by its PCI id");
    assert!(!text(&older, "fix").contains("nvme.quirks"), "{older}");
    set(root, quirks, "none");
    let missing = finding(root, "quirk").expect("a quirk by its PCI id");
    let word = "nvme.quirks=15b7:5009:no_deepest_ps";
    assert!(text(&missing, "fix").contains(word), "{missing}");
    set(root, quirks, "no_deepest_ps\nbogus_nid");
    let there = finding(root, "quirk").expect("a quirk by its PCI id");
    let lifts = "nvme.quirks=15b7:5009:^no_deepest_ps";
    assert!(text(&there, "fix").contains(lifts), "{there}");
    assert!(
        there["evidence"].to_string().contains("bogus_nid"),
        "{there}"
    );
}

/// Sapphire Rapids declares 190 us where the package stays up, and takes 100.
#[test]
fn a_declared_latency_that_was_measured_to_be_shorter_is_told() {
    let machine = copy_of_laptop();
    let root = machine.path();
    let cpuinfo = fs::read_to_string(root.join("proc/cpuinfo")).unwrap();
    let model = cpuinfo
        .lines()
        .find(|l| l.starts_with("model\t"))
        .unwrap()
        .to_owned();
    fs::write(
        root.join("proc/cpuinfo"),
        cpuinfo.replace(&model, "model\t\t: 143"),
    )
    .unwrap();
    set(root, &format!("{CPU}/cpuidle/current_driver"), "intel_idle");
    for cpu in 0..2 {
        for state in 3..5 {
            fs::remove_dir_all(root.join(format!("{CPU}/cpu{cpu}/cpuidle/state{state}"))).unwrap();
        }
    }
    set_states_of(root, 2, 190, 600);
    let found = finding(root, "declared-latency").expect("a latency that is too long");
    assert!(
        text(&found, "fix").contains("intel_idle.table=C6:101:"),
        "{found}"
    );
    set_states_of(root, 2, 140, 600);
    assert!(finding(root, "declared-latency").is_none());
}

fn set_states_of(root: &Path, state: usize, latency: u64, residency: u64) {
    for cpu in 0..2 {
        let path = format!("{CPU}/cpu{cpu}/cpuidle/state{state}");
        set(root, &format!("{path}/latency"), &latency.to_string());
        set(root, &format!("{path}/residency"), &residency.to_string());
    }
}

#[test]
fn cpus_that_are_kept_free_are_told() {
    let found = found_with("isolated-cpus", |root| {
        set(root, &format!("{CPU}/isolated"), "1");
        set(root, &format!("{CPU}/nohz_full"), "1");
    });
    assert!(
        found["evidence"]
            .to_string()
            .contains("isolcpus 1; nohz_full 1"),
        "{found}"
    );
    assert!(text(&found, "fix").contains("isolcpus=managed_irq,domain,1"));
    // All of them is as good as none.
    let machine = copy_of_laptop();
    set(machine.path(), &format!("{CPU}/isolated"), "0-1");
    assert!(finding(machine.path(), "isolated-cpus").is_none());
}

/// A performance core and an efficiency core.
fn hybrid(root: &Path) {
    set(root, "sys/devices/cpu_core/cpus", "0");
    set(root, "sys/devices/cpu_atom/cpus", "1");
}

#[test]
fn a_limit_leaves_each_kind_of_core_its_shallow_states() {
    let machine = copy_of_laptop();
    let root = machine.path();
    // Another governor would be the better fix.
    set(root, &format!("{CPU}/cpuidle/available_governors"), "menu");
    let limit = |root: &Path| {
        let found = finding(root, "too-deep").unwrap();
        text(&found, "set").to_owned()
    };
    assert_eq!(limit(root), "cpu-latency[limit=2us,cpus=all]");
    // Efficiency cores that take longer to leave C1: a limit of 2 us would have them spin.
    hybrid(root);
    for (state, latency) in [(1, "4"), (2, "6")] {
        set(
            root,
            &format!("{CPU}/cpu1/cpuidle/state{state}/latency"),
            latency,
        );
    }
    assert_eq!(limit(root), "cpu-latency[limit=6us,cpus=all]");
}

#[test]
fn states_that_are_off_on_one_kind_of_core_are_told_and_switched_on_there() {
    let found = found_with("states-off-on-a-kind", |root| {
        hybrid(root);
        for state in 3..5 {
            set(
                root,
                &format!("{CPU}/cpu1/cpuidle/state{state}/disable"),
                "1",
            );
        }
    });
    assert!(
        found["evidence"]
            .to_string()
            .contains("switched off on every efficiency CPU: C8, C10"),
        "{found}"
    );
    assert_eq!(text(&found, "set"), "idle-states[ceiling=none]");
    // The efficiency core is idle in them again.
    assert!(found["costs_mw"].as_f64().unwrap() > 0.0, "{found}");
}

#[test]
fn kinds_of_cores_with_other_preferences_are_told() {
    let found = found_with("kinds-differ", |root| {
        hybrid(root);
        let path =
            |policy: u32| format!("{CPU}/cpufreq/policy{policy}/energy_performance_preference");
        set(root, &path(0), "balance_performance");
        set(root, &path(1), "power");
    });
    let evidence = found["evidence"].to_string();
    let told = "energy_performance_preference: performance balance_performance, efficiency power";
    assert!(evidence.contains(told), "{found}");
    assert_eq!(text(&found, "set"), "epp[value=balance_performance]");
    // The efficiency core is slower and draws less than it would with the preference of the others.
    let computed = text(&found, "computed");
    assert!(computed.contains("on CPU 1 (efficiency)"), "{found}");
    assert!(found["costs_us_per_io"].as_f64().unwrap() > 0.0, "{found}");
    assert!(found["costs_mw"].as_f64().unwrap() < 0.0, "{found}");
}

#[test]
fn kinds_of_cores_with_other_governors_are_told_and_priced() {
    let found = found_with("kinds-differ", |root| {
        hybrid(root);
        let path = |policy: u32| format!("{CPU}/cpufreq/policy{policy}/scaling_governor");
        set(root, &path(0), "powersave");
        set(root, &path(1), "performance");
    });
    let evidence = found["evidence"].to_string();
    let told = "scaling_governor: performance powersave, efficiency performance";
    assert!(evidence.contains(told), "{found}");
    // Here the fix saves power, and I/O pays for it.
    let computed = text(&found, "computed");
    assert!(
        computed.contains("performance against intel_pstate-hwp["),
        "{found}"
    );
    assert!(found["costs_us_per_io"].as_f64().unwrap() < 0.0, "{found}");
    assert!(found["costs_mw"].as_f64().unwrap() > 0.0, "{found}");
}

#[test]
fn interrupts_on_efficiency_cores_are_told() {
    let alone = |root: &Path, takes: &str| {
        hybrid(root);
        // One queue for both.
        fs::remove_dir_all(root.join("sys/block/nvme0n1/mq/1")).unwrap();
        set(root, "sys/block/nvme0n1/mq/0/cpu_list", "0, 1");
        set(root, "proc/irq/121/effective_affinity_list", takes);
    };
    let found = found_with("interrupts-on-small-cores", |root| alone(root, "1"));
    let evidence = found["evidence"].to_string();
    assert!(
        evidence.contains("nvme0q1 serves 1 performance CPU(s) and interrupts CPU 1"),
        "{found}"
    );
    assert!(text(&found, "fix").contains("isolcpus=managed_irq,1"));
    assert!(found["costs_us_per_io"].as_f64().unwrap() > 0.0, "{found}");
    let machine = copy_of_laptop();
    alone(machine.path(), "0");
    assert!(finding(machine.path(), "interrupts-on-small-cores").is_none());
}

#[test]
fn a_finding_that_nothing_can_be_done_about_is_a_note() {
    let server = copy_of_server();
    let findings = examine(server.path());
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(
        (text(&findings[0], "name"), &findings[0]["note"]),
        ("apst-unsupported", &Value::Bool(true))
    );
    wakepath(&[
        "doctor",
        "--exit-code",
        "--root",
        server.path().to_str().unwrap(),
    ])
    .success();
}

#[test]
fn states_that_are_refused_are_a_finding_and_no_reason_for_others() {
    let tree = planted("refused-states");
    let findings = examine(tree.path());
    let names: Vec<&str> = findings.iter().map(|found| text(found, "name")).collect();
    assert_eq!(names, ["refused-states"]);
    let found = &findings[0];
    let title = text(found, "title");
    let expected = "the idle states cpu-sleep-0 and cluster-sleep-0 are refused in 100 % of the attempts and never entered";
    assert!(title.starts_with(expected), "{title}");
    assert_eq!(
        (&found["note"], text(found, "set")),
        (&Value::Bool(false), "idle-states[ceiling=WFI]")
    );
    // Half of the attempts are enough, a few are none.
    let rejected = |state: usize, count: &str| {
        for cpu in 0..4 {
            set(
                tree.path(),
                &format!("{CPU}/cpu{cpu}/cpuidle/state{state}/rejected"),
                count,
            );
        }
    };
    rejected(1, "0");
    rejected(2, "900");
    for cpu in 0..4 {
        set(
            tree.path(),
            &format!("{CPU}/cpu{cpu}/cpuidle/state2/usage"),
            "800",
        );
    }
    let found = finding(tree.path(), "refused-states").unwrap();
    assert!(
        text(&found, "title").starts_with("the idle state cluster-sleep-0 is refused in 52 %"),
        "{found}"
    );
    rejected(2, "10");
    assert!(finding(tree.path(), "refused-states").is_none());
}

#[test]
fn a_drive_whose_sleep_makes_one_wait_is_a_finding() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    assert!(finding(machine.path(), "drive-slow-to-wake").is_none());
    wakepath(&["apply", "apst", "--root", root]).success();
    let found = finding(machine.path(), "drive-slow-to-wake").unwrap();
    let title = text(&found, "title");
    assert!(
        title.contains("a read after 2.1 s waits") && title.contains("ends that"),
        "{title}"
    );
    assert!(text(&found, "fix").starts_with("wakepath apply 'drive-latency[tolerance="));
    let faster = found["costs_us_per_io"].as_f64().unwrap();
    assert!(faster > 10_000.0, "{faster}");
    // The fix exists.
    let set = text(&found, "set");
    wakepath(&["apply", set, "--root", root, "--dry-run"]).success();
}
