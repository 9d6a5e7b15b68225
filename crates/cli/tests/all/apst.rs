//! `wakepath apst` and `wakepath drive` as a user meets them.

#![allow(
    clippy::unwrap_used,
    reason = "a failed test may panic in a helper too"
)]

#[path = "../../../hardware/tests/nvme_cli/mod.rs"]
mod nvme_cli;

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use nvme_cli::NvmeCli;
use predicates::prelude::*;
use predicates::str::{contains, is_empty};

fn wakepath(arguments: &[&str]) -> Command {
    let mut command = Command::cargo_bin("wakepath").unwrap();
    command.current_dir(tests()).args(arguments);
    command
}

fn tests() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

fn stdout(arguments: &[&str]) -> Vec<u8> {
    wakepath(arguments)
        .assert()
        .success()
        .get_output()
        .stdout
        .clone()
}

/// One message on standard error, nothing else, and exit code 1.
fn fails(arguments: &[&str], input: &[u8], message: &str) {
    wakepath(arguments)
        .write_stdin(input)
        .assert()
        .code(1)
        .stdout(is_empty())
        .stderr(contains(message).and(predicate::function(|e: &str| e.lines().count() == 1)));
}

/// The 4096 bytes behind `data/sn530.*`.
fn sn530() -> Vec<u8> {
    let mut data = vec![0; 4096];
    data[..4].copy_from_slice(&[0xb7, 0x15, 0xb7, 0x15]);
    data[4..72].fill(b' ');
    data[24..54].copy_from_slice(b"WDC PC SN530 SDBPNPZ-256G-1006");
    data[64..68].copy_from_slice(b"HPS2");
    data[263] = 4;
    data[265] = 1;
    let states: [(u16, u8, u32, u32, u16); 5] = [
        (350, 0, 0, 0, 180),
        (240, 0, 0, 0, 160),
        (190, 0, 0, 0, 150),
        (250, 3, 3900, 11_000, 0),
        (50, 3, 5000, 39_000, 0),
    ];
    for (i, (power, flags, entry, exit, active)) in states.into_iter().enumerate() {
        let descriptor = &mut data[2048 + 32 * i..2080 + 32 * i];
        descriptor[..2].copy_from_slice(&power.to_le_bytes());
        descriptor[3] = flags;
        descriptor[4..8].copy_from_slice(&entry.to_le_bytes());
        descriptor[8..12].copy_from_slice(&exit.to_le_bytes());
        descriptor[12..16].fill(i as u8);
        descriptor[20..22].copy_from_slice(&active.to_le_bytes());
        descriptor[22] = if active == 0 { 0 } else { 0x81 };
    }
    data
}

/// Every file in `golden/` holds a command and what it prints. `UPDATE_GOLDEN=1` rewrites them.
#[test]
fn golden_outputs() {
    let mut checked = 0;
    for file in std::fs::read_dir(tests().join("golden")).unwrap() {
        let path = file.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let (command, expected) = text.split_once('\n').unwrap();
        let words = command.strip_prefix("$ wakepath ").unwrap();
        // Words in single quotes may hold blanks.
        let arguments: Vec<&str> = words
            .split('\'')
            .enumerate()
            .flat_map(|(i, part)| match i % 2 {
                0 => part.split_whitespace().collect(),
                _ => vec![part],
            })
            .collect();
        let printed = String::from_utf8(stdout(&arguments)).unwrap();
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&path, format!("{command}\n{printed}")).unwrap();
        } else {
            assert_eq!(printed, expected, "{}", path.display());
        }
        checked += 1;
    }
    assert!(checked > 0);
}

#[test]
fn all_sources_of_a_drive_lead_to_the_same_table() {
    let library = stdout(&[
        "apst",
        "plan",
        "--drive",
        "SDBPNPZ-256G-1006",
        "--format",
        "bin",
    ]);
    assert_eq!(library.len(), 256);
    let plan = ["apst", "plan", "--format", "bin", "--id-ctrl"];
    for file in ["data/sn530.txt", "data/sn530.json"] {
        assert_eq!(stdout(&[&plan[..], &[file]].concat()), library, "{file}");
    }
    wakepath(&[&plan[..], &["-"]].concat())
        .write_stdin(sn530())
        .assert()
        .success()
        .stdout(library)
        .stderr(is_empty());
}

#[test]
fn decode_reads_what_plan_writes() {
    let plan = ["apst", "plan", "--drive", "SDBPNPZ-256G-1006", "--format"];
    let bin = stdout(&[&plan[..], &["bin"]].concat());
    let hex = stdout(&[&plan[..], &["hex"]].concat());
    let decode = |data: &[u8]| {
        wakepath(&["apst", "decode", "-", "--npss", "4", "--format", "json"])
            .write_stdin(data)
            .assert()
            .success()
            .stderr(is_empty())
            .get_output()
            .stdout
            .clone()
    };
    assert_eq!(decode(&bin), decode(&hex));
    let report: serde_json::Value = serde_json::from_slice(&decode(&bin)).unwrap();
    assert_eq!(report["entries"][3]["target"], 4);
    assert_eq!(report["entries"][3]["timeout_ms"], 2000);
    assert_eq!(report["entries"][4]["target"], serde_json::Value::Null);
    assert_eq!(report["problems"], serde_json::json!([]));
    let planned: serde_json::Value =
        serde_json::from_slice(&stdout(&[&plan[..], &["json"]].concat())).unwrap();
    assert_eq!(planned["table_hex"], report["table_hex"]);
    assert_eq!(planned["apste"], true);
    assert_eq!(planned["apsta_assumed"], true);
}

#[test]
fn nvme_cli_decodes_the_same_table() {
    let Some(nvme) = NvmeCli::prepare("apst") else {
        return;
    };
    for drive in [
        "SDBPNPZ-256G-1006",
        "Intel 760p 256GB",
        "KBG40ZNS256G NVMe KIOXIA 256GB",
    ] {
        let bin = stdout(&["apst", "plan", "--drive", drive, "--format", "bin"]);
        let get = |options: &[&str]| {
            let arguments = [&["get-feature", "/dev/null", "-f", "0x0c"], options].concat();
            nvme.output("SHIM_FEATURE", &bin, &arguments)
        };
        let csv = |data: &[u8]| {
            let output = wakepath(&["apst", "decode", "-", "--format", "csv"])
                .write_stdin(data)
                .unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        let ours: Vec<(u64, u64)> = csv(&bin)
            .lines()
            .skip(1)
            .map(|line| {
                let mut numbers = line.split(',').skip(1).map(|n| n.parse().unwrap_or(0));
                (numbers.next().unwrap(), numbers.next().unwrap())
            })
            .collect();
        let explained = String::from_utf8(get(&["-H"])).unwrap();
        let values = |name: &str| -> Vec<u64> {
            explained
                .lines()
                .filter(|line| line.contains(name))
                .map(|line| {
                    let value = line.rsplit(": ").next().unwrap();
                    value.trim_end_matches(" ms").trim().parse().unwrap()
                })
                .collect()
        };
        let theirs: Vec<_> = values("(ITPS)").into_iter().zip(values("(ITPT)")).collect();
        assert_eq!(ours, theirs, "{drive}");
        // Its plain output is a dump that decode reads.
        assert_eq!(csv(&get(&[])), csv(&bin), "{drive}");
        assert_eq!(get(&["-b"]), bin, "{drive}");
    }
}

#[test]
fn options_reach_the_rule() {
    let json = |options: &[&str]| -> serde_json::Value {
        let plan = [
            "apst",
            "plan",
            "--id-ctrl",
            "data/sn530.json",
            "--format",
            "json",
        ];
        serde_json::from_slice(&stdout(&[&plan[..], options].concat())).unwrap()
    };
    let entry = |options: &[&str], state: usize| {
        let entry = &json(options)["entries"][state];
        (entry["target"].as_u64(), entry["timeout_ms"].as_u64())
    };
    assert_eq!(entry(&[], 0), (Some(3), Some(100)));
    assert_eq!(entry(&["--primary-timeout-ms", "7"], 0), (Some(3), Some(7)));
    assert_eq!(
        entry(&["--secondary-timeout-ms", "9"], 3),
        (Some(4), Some(9))
    );
    assert_eq!(entry(&["--secondary-timeout-ms", "0"], 3), (None, None));
    assert_eq!(
        entry(&["--primary-tolerance-us", "14899"], 0),
        (Some(4), Some(2000))
    );
    assert_eq!(
        entry(&["--secondary-tolerance-us", "43999"], 3),
        (None, None)
    );
    assert_eq!(entry(&["--max-latency-us", "38999"], 3), (None, None));
    assert_eq!(entry(&["--no-deepest"], 3), (None, None));
    assert_eq!(entry(&["--rule", "legacy"], 3), (Some(4), Some(2200)));
    assert_eq!(
        entry(&["--primary-timeout-ms", "0"], 0),
        (Some(3), Some(745))
    );
    assert_eq!(json(&["--max-latency-us", "0"])["apste"], false);
    assert_eq!(json(&["--primary-tolerance-us", "0"])["rule"], "legacy");
}

#[test]
fn a_drive_without_apst_gets_an_explanation_but_no_bytes() {
    let mut data = sn530();
    data[265] = 0;
    for format in ["table", "json"] {
        wakepath(&["apst", "plan", "--id-ctrl", "-", "--format", format])
            .write_stdin(data.clone())
            .assert()
            .success()
            .stdout(contains("APSTA is 0"));
    }
    for format in ["bin", "hex"] {
        let arguments = ["apst", "plan", "--id-ctrl", "-", "--format", format];
        fails(&arguments, &data, "APSTA is 0");
    }
}

#[test]
fn quirks_are_named_not_applied() {
    let plan = |drive: &str, option: &[&str]| {
        wakepath(&[&["apst", "plan", "--drive", drive], option].concat())
            .assert()
            .success()
    };
    plan("THNSF5256GPUK", &[]).stderr(contains("has the quirk NVME_QUIRK_NO_APST"));
    let likely = contains("likely has").and(contains("--no-deepest"));
    plan("SOLIDIGM SSDPFKKW020X7", &[]).stderr(likely);
    plan("SOLIDIGM SSDPFKKW020X7", &["--no-deepest"]).stderr(contains("QUIRK").not());
    plan("WDC PC SN530 SDBPNPZ-256G-1006", &[]).stderr(is_empty());
}

#[test]
fn useless_dumps_are_one_error() {
    let plan = ["apst", "plan", "--id-ctrl", "-"];
    fails(&plan, b"", "standard input: the file is empty");
    fails(&plan, &sn530()[..1000], "1000 bytes, expected the 4096");
    fails(&plan, &[0; 4096], "vendor id and model are empty");
    let mut npss = sn530();
    npss[263] = 40;
    fails(
        &plan,
        &npss,
        "npss is 40, but 31 is the last possible power state",
    );
    fails(
        &plan,
        b"{\n\"vid\": }",
        "standard input:2: column 8: not valid JSON",
    );
    let text = std::fs::read_to_string(tests().join("data/sn530.txt")).unwrap();
    let states = text.find("ps      0 :").unwrap();
    fails(
        &plan,
        &text.as_bytes()[..states],
        "npss 4 means 5 power states, but 0 are listed",
    );
    let npss = text.replace("npss      : 4", "npss      : 40");
    fails(&plan, npss.as_bytes(), "npss is 40");
    fails(&plan, &vec![b'x'; 2 << 20], "more than 1048576 bytes");
    fails(
        &["apst", "plan", "--id-ctrl", "no-such-file"],
        b"",
        "no-such-file: No such file",
    );
}

#[test]
fn unknown_drives_are_one_error() {
    for verb in [&["apst", "plan", "--drive"][..], &["drive", "show"]] {
        let with = |name| [verb, &[name]].concat();
        fails(
            &with("Samsun SSD 971 EVO 500GB"),
            b"",
            "nearest: Samsung SSD 970 EVO 500GB",
        );
        fails(&with("PC SN530"), b"", "\"PC SN530\" matches");
        fails(&with(""), b"", "an empty drive name");
    }
    fails(&["drive", "list", "qqqq"], b"", "no drive has \"qqqq\"");
    let show = ["drive", "show", "Intel 760p 256GB", "--firmware", "X"];
    fails(&show, b"", "known: 001C, 004C, 005C");
}

#[test]
fn useless_tables_are_one_error() {
    let decode = ["apst", "decode", "-"];
    fails(&decode, b"", "0 bytes, expected the 256");
    fails(&decode, &[0; 255], "255 bytes, expected the 256");
    fails(
        &decode,
        b"0011\n00xx\n",
        "standard input:2: column 3: 'x' is no hexadecimal digit",
    );
    fails(&decode, b"0011", "4 hexadecimal digits, expected the 512");
}

#[test]
fn calls_that_make_no_sense_exit_with_2() {
    let plan = ["apst", "plan"];
    let drive = ["apst", "plan", "--drive", "SDBPNPZ-256G-1006"];
    for arguments in [
        &plan[..],
        &[&drive[..], &["--id-ctrl", "x"]].concat(),
        &[&drive[..], &["--primary-timeout-ms", "16777216"]].concat(),
        &[&drive[..], &["--secondary-timeout-ms", "-1"]].concat(),
        &[&drive[..], &["--max-latency-us", "NaN"]].concat(),
        &[&drive[..], &["--rule", "newest"]].concat(),
        &[&plan[..], &["--id-ctrl", "x", "--firmware", "y"]].concat(),
        &["apst", "decode"],
        &["apst", "decode", "x", "--npss", "32"],
        &["drive"],
    ] {
        wakepath(arguments).assert().code(2).stdout(is_empty());
    }
    wakepath(&[&drive[..], &["--primary-timeout-ms", "16777216"]].concat())
        .assert()
        .stderr(contains("at most 16777215 ms"));
}

#[test]
fn help_shows_how() {
    for verb in [
        ["apst", "plan"],
        ["apst", "decode"],
        ["drive", "list"],
        ["drive", "show"],
    ] {
        wakepath(&[&verb[..], &["--help"]].concat())
            .assert()
            .success()
            .stdout(contains("Example").and(contains("  wakepath ").or(contains("| wakepath "))));
    }
}
