//! Files of strangers through whole commands: results, captured machines, journals, tables.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::captured::{content, copy_of_laptop, different};
use crate::common::files::{change, fifo, tiny_results};
use crate::common::{fails_with, json, wakepath};

const JOURNAL: &str = "var/lib/wakepath/journal.json";

#[test]
fn a_level_out_of_range_is_refused() {
    for level in ["5", "-1", "0", "1", "1e308"] {
        let dir = tiny_results();
        let level = format!("\"level\": {level}");
        change(&dir.path().join("result.json"), "\"level\": 0.95", &level);
        let path = dir.path().to_str().unwrap();
        let page = dir.path().join("page.html");
        for command in [
            &["compare", path][..],
            &["report", path, "-o", page.to_str().unwrap()],
        ] {
            fails_with(wakepath(command), &["result.json", "0.5 to 0.999"]);
        }
    }
}

#[test]
fn a_report_has_no_file_from_elsewhere() {
    let secret = tempfile::tempdir().unwrap();
    fs::write(secret.path().join("secret"), "the secret").unwrap();
    let outside = secret.path().join("secret");
    let climbing = format!("../../../../../..{}", outside.display());
    for (own, foreign) in [
        ("machine.toml", climbing.as_str()),
        ("workloads/reads.fio", climbing.as_str()),
        ("workloads/reads.fio", outside.to_str().unwrap()),
    ] {
        let dir = tiny_results();
        let source = |name: &str| format!("\"source\": \"{name}\"");
        change(
            &dir.path().join("result.json"),
            &source(own),
            &source(foreign),
        );
        let page = dir.path().join("page.html");
        let report = wakepath(&[
            "report",
            dir.path().to_str().unwrap(),
            "-o",
            page.to_str().unwrap(),
        ]);
        fails_with(report, &["result.json", "below this directory"]);
        assert!(!page.exists());
    }
    // By a link in the directory.
    for name in ["machine.toml", "workloads/reads.fio", "study.toml"] {
        let dir = tiny_results();
        let path = dir.path().join(name);
        fs::remove_file(&path).unwrap();
        symlink(&outside, &path).unwrap();
        let page = dir.path().join("page.html");
        let report = wakepath(&[
            "report",
            dir.path().to_str().unwrap(),
            "-o",
            page.to_str().unwrap(),
        ]);
        fails_with(report, &[name, "link"]);
        assert!(!page.exists());
    }
}

#[test]
fn a_page_has_no_commands_of_a_stranger() {
    let dir = tiny_results();
    let document = dir.path().join("result.json");
    change(
        &document,
        "\"wakepath\": \"0.1.0\"",
        "\"wakepath\": \"0\\nreboot\"",
    );
    change(&document, "\"name\": \"tiny\"", "\"name\": \"a\\rhalt\"");
    let page = dir.path().join("page.html");
    let path = dir.path().to_str().unwrap();
    let report = wakepath(&["report", path, "-o", page.to_str().unwrap()]);
    report.success();
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("# a halt, with wakepath 0 reboot"));
}

#[test]
fn counts_beyond_all_bounds_are_refused() {
    let most = u64::MAX.to_string();
    for (from, to) in [
        ("\"latency\":[", format!("\"latency\":[[1,2,{most}],")),
        ("\"entries\":513,", format!("\"entries\":{most},")),
    ] {
        let dir = tiny_results();
        let run = dir.path().join("runs/000001.json");
        for table in [
            "metrics",
            "latency",
            "attribution",
            "idle",
            "frequency",
            "timeline",
        ] {
            fs::remove_file(dir.path().join(format!("{table}.parquet"))).unwrap();
        }
        let document = dir.path().join("result.json");
        change(&document, "\"complete\": true", "\"complete\": false");
        change(&run, from, &to);
        let path = dir.path().to_str().unwrap();
        let page = dir.path().join("page.html");
        let report = wakepath(&["report", path, "-o", page.to_str().unwrap()]);
        fails_with(report, &["000001.json", &most[..15]]);
    }
}

#[test]
fn no_device_and_no_fifo_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    fifo(&pipe);
    for path in [pipe.to_str().unwrap(), "/dev/zero"] {
        for command in [
            &["compare", path][..],
            &["report", path],
            &["study", "check", path],
            &["replay", path],
            &[
                "import",
                path,
                "-o",
                folder.path().join("x").to_str().unwrap(),
            ],
            &["counters", path],
            &[
                "policy",
                "idle",
                "--governor",
                "menu",
                "--states",
                path,
                path,
            ],
            &["sim", path, "--machine", "rk3399"],
        ] {
            let assert = wakepath(command).failure();
            let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
            assert!(
                said.contains("FIFO") || said.contains("device"),
                "{command:?}: {said}"
            );
        }
    }
}

#[test]
fn a_captured_machine_with_fifos_and_links_is_read_at_once() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let cpu = "sys/devices/system/cpu";
    fifo(&machine.path().join(cpu).join("cpuidle/current_governor"));
    fifo(&machine.path().join("proc/cpuinfo"));
    for command in [
        &["doctor", "--root", root][..],
        &["status", "--root", root],
        &["apply", "teo", "--root", root],
        &["machine", "capture", "--root", root],
    ] {
        // Whether it can do without them is its own affair.
        wakepath(command);
    }
}

/// sysfs is made of links.
#[test]
fn links_inside_of_a_captured_machine_are_followed() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let before = wakepath(&["doctor", "--root", root])
        .get_output()
        .stdout
        .clone();
    let class = machine.path().join("sys/class/nvme/nvme0");
    let device = machine.path().join("sys/devices/pci0000:00/nvme/nvme0");
    fs::create_dir_all(device.parent().unwrap()).unwrap();
    fs::rename(&class, &device).unwrap();
    for target in [
        "../../devices/pci0000:00/nvme/nvme0",
        "/sys/devices/pci0000:00/nvme/nvme0",
    ] {
        symlink(target, &class).unwrap();
        let after = wakepath(&["doctor", "--root", root])
            .get_output()
            .stdout
            .clone();
        assert_eq!(
            String::from_utf8_lossy(&after),
            String::from_utf8_lossy(&before),
            "{target}"
        );
        fs::remove_file(&class).unwrap();
    }
}

#[test]
fn a_journal_behind_a_link_is_not_touched() {
    let (machine, other) = (copy_of_laptop(), copy_of_laptop());
    wakepath(&["apply", "teo", "--root", other.path().to_str().unwrap()]).success();
    let journal = fs::read(other.path().join(JOURNAL)).unwrap();
    let _ = fs::remove_dir_all(machine.path().join("var"));
    symlink(other.path().join("var"), machine.path().join("var")).unwrap();
    let root = machine.path().to_str().unwrap();
    for command in [
        &["restore", "--root", root][..],
        &["restore", "--held", "--root", root],
        &["apply", "teo", "--root", root],
    ] {
        fails_with(wakepath(command), &["var/lib/wakepath", "link"]);
    }
    assert_eq!(fs::read(other.path().join(JOURNAL)).unwrap(), journal);
    wakepath(&["restore", "--root", other.path().to_str().unwrap()]).success();
}

#[test]
fn a_restore_says_what_is_in_its_way() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    fs::create_dir_all(machine.path().join("var/lib")).unwrap();
    let directory = machine.path().join("var/lib/wakepath");
    fs::write(&directory, "").unwrap();
    fails_with(
        wakepath(&["restore", "--root", root]),
        &["no directory", "remove it"],
    );
    fs::remove_file(&directory).unwrap();
    wakepath(&["apply", "teo", "--root", root]).success();
    let journal = machine.path().join(JOURNAL);
    let content = fs::read(&journal).unwrap();
    fifo(&journal);
    fails_with(
        wakepath(&["restore", "--root", root]),
        &["journal.json", "FIFO"],
    );
    fs::remove_file(&journal).unwrap();
    fs::write(&journal, &content[..content.len() / 2]).unwrap();
    fails_with(
        wakepath(&["restore", "--root", root]),
        &["journal.json", "remove the file"],
    );
    fs::write(&journal, content).unwrap();
    wakepath(&["restore", "--root", root]).success();
}

#[test]
fn a_setting_that_is_away_is_named_with_exit_code_1() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let before = content(machine.path());
    wakepath(&["apply", "frequency[max=2000MHz]", "--root", root]).success();
    let policy = machine
        .path()
        .join("sys/devices/system/cpu/cpufreq/policy0");
    let aside = machine.path().join("aside");
    fs::rename(&policy, &aside).unwrap();
    fails_with(
        wakepath(&["restore", "--root", root]),
        &[
            "is not there now",
            "scaling_max_freq",
            &format!("`wakepath restore --root {root}` again"),
        ],
    );
    fs::rename(&aside, &policy).unwrap();
    wakepath(&["restore", "--root", root]).success();
    let left = different(&content(machine.path()), &before);
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_refused_apply_leaves_nothing_behind() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    for set in [
        "cpu-latency[limit=20us]",
        "c1-demotion[value=on]",
        "idle-states[ceiling=C9]",
    ] {
        wakepath(&["apply", set, "--root", root]).code(1);
        assert!(!machine.path().join("var").exists(), "{set}");
    }
}

#[test]
fn a_capture_is_not_written_through_a_link() {
    let machine = copy_of_laptop();
    let elsewhere = tempfile::tempdir().unwrap();
    let out = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), out.path().join("sys")).unwrap();
    let capture = [
        "machine",
        "capture",
        "--root",
        machine.path().to_str().unwrap(),
        "-o",
        out.path().to_str().unwrap(),
        "--force",
    ];
    let error = wakepath(&capture).failure();
    let said = String::from_utf8_lossy(&error.get_output().stderr).into_owned();
    assert!(said.contains("link"), "{said}");
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_control_character_of_the_firmware_is_spelt_out() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    change(
        &machine.path().join("proc/cpuinfo"),
        "12th Gen Intel(R) Core(TM)",
        "12th \u{1b}[31mGen Intel(R)\u{7} Core(TM)",
    );
    let capture = wakepath(&["machine", "capture", "--root", root]).success();
    let text = String::from_utf8_lossy(&capture.get_output().stdout).into_owned();
    assert!(
        !text.contains('\u{1b}') && text.contains("u{1b}[31mGen"),
        "{text}"
    );
    wakepath(&["doctor", "--root", root]).success();
}

#[test]
fn status_has_null_for_no_limit() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let status = || json(&wakepath(&["status", "--root", root, "--format", "json"]).success());
    assert!(
        status()["cpus"][0]["latency_limit"].is_null(),
        "{}",
        status()
    );
    wakepath(&["apply", "cpu-latency[limit=20us,cpus=all]", "--root", root]).success();
    assert_eq!(status()["cpus"][0]["latency_limit"], 20);
}

#[test]
fn a_port_out_of_range_is_refused_with_the_range() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("daemon.toml");
    fs::write(&config, "[metrics]\nport = 70000\n").unwrap();
    let check = [
        "daemon",
        "--check-config",
        "--config",
        config.to_str().unwrap(),
    ];
    let assert = wakepath(&check).failure();
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(
        said.contains("0 to 65535") && !said.contains("u16"),
        "{said}"
    );
}

#[test]
fn a_name_without_an_end_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let study = folder.path().join("study.toml");
    let name = "x".repeat(500_000);
    for key in ["drive", "machine"] {
        let machine = if key == "drive" {
            "machine = \"rk3399\"\n"
        } else {
            ""
        };
        let text = format!(
            "name = \"s\"\n{machine}{key} = \"{name}\"\npolicy = [\"menu\"]\n[[workload]]\nname = \"w\"\nfio = \"iowait-rk3399.fio\"\n"
        );
        fs::write(&study, text).unwrap();
        let assert = wakepath(&["study", "check", study.to_str().unwrap()]).failure();
        let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
        assert!(
            said.contains("500000 bytes") && said.len() < 2000,
            "{} bytes: {}",
            said.len(),
            &said[..said.len().min(300)]
        );
    }
}

/// What a recording cannot have, no import makes.
#[test]
fn an_import_refuses_a_cpu_that_replay_refuses() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.txt");
    let line = |time: &str, state: u32, cpu: &str| {
        format!(
            "          <idle>-0     [{cpu}] d..1. {time}: cpu_idle: state={state} cpu_id={cpu}\n"
        )
    };
    let text = line("10.000001", 1, "100000000") + &line("10.000901", 4_294_967_295, "100000000");
    fs::write(&trace, text).unwrap();
    let out = folder.path().join("out.parquet");
    fails_with(
        wakepath(&[
            "import",
            trace.to_str().unwrap(),
            "-o",
            out.to_str().unwrap(),
        ]),
        &["CPU 100000000", "8192"],
    );
    assert!(!out.exists());
}

#[test]
fn a_dump_of_more_cpus_than_any_kernel_has_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("dump.txt");
    let mut text = String::new();
    for cpu in [0, 8192] {
        for (file, value) in [("name", "C1"), ("usage", "1"), ("time", "1")] {
            let folder = format!("/sys/devices/system/cpu/cpu{cpu}/cpuidle/state0");
            text.extend([&folder, "/", file, ":", value, "\n"]);
        }
    }
    fs::write(&dump, text).unwrap();
    fails_with(
        wakepath(&["counters", dump.to_str().unwrap()]),
        &["CPU 8192"],
    );
}
