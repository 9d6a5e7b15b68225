//! The package's rules for udev: which events start which units.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use crate::common::captured::copy_of_laptop;
use crate::common::{repository, wakepath};

/// Names and values of an event, as udev has them.
type Event<'a> = [(&'a str, &'a str)];

/// Whether a text matches a pattern of udev's: alternatives with `|`, `*`, `?`, and one of several characters in brackets.
fn matches_pattern(pattern: &str, text: &str) -> bool {
    let mut alternatives = pattern.split('|');
    alternatives.any(|one| matches_one(one.as_bytes(), text.as_bytes()))
}

fn matches_one(pattern: &[u8], text: &[u8]) -> bool {
    match pattern {
        [] => text.is_empty(),
        [b'*', rest @ ..] => (0..=text.len()).any(|skipped| matches_one(rest, &text[skipped..])),
        [b'?', rest @ ..] => !text.is_empty() && matches_one(rest, &text[1..]),
        [b'[', low, b'-', high, b']', rest @ ..] => {
            text.first()
                .is_some_and(|byte| (low..=high).contains(&byte))
                && matches_one(rest, &text[1..])
        }
        [byte, rest @ ..] => text.first() == Some(byte) && matches_one(rest, &text[1..]),
    }
}

/// The units that an event starts.
fn units_started_by(event: &Event<'_>) -> Vec<String> {
    let path = repository().join("packaging/udev/60-wakepath-settings.rules");
    let rules = fs::read_to_string(path).unwrap();
    let value = |name: &str| {
        let found = event.iter().find(|(known, _)| *known == name);
        found.map_or("", |(_, value)| value)
    };
    let mut units = Vec::new();
    for rule in rules.lines().filter(|line| !line.starts_with('#')) {
        let mut is_matched = true;
        let mut command = None;
        for part in rule.split(", ") {
            let (head, quoted) = part.split_once('"').unwrap();
            let text = quoted.strip_suffix('"').unwrap();
            if let Some(name) = head.strip_suffix("==") {
                is_matched &= matches_pattern(text, value(name));
            } else if let Some(name) = head.strip_suffix("!=") {
                is_matched &= !matches_pattern(text, value(name));
            } else {
                assert_eq!(head, "RUN+=");
                command = Some(text.replace("%k", value("KERNEL")));
            }
        }
        let start = "/usr/bin/systemctl --no-block start ";
        let command = command.unwrap();
        let unit = command.strip_prefix(start).unwrap().to_owned();
        units.extend(is_matched.then_some(unit));
    }
    units
}

fn units_for_new_block_device(name: &str, kind: &str) -> Vec<String> {
    units_started_by(&[
        ("ACTION", "add"),
        ("SUBSYSTEM", "block"),
        ("ENV{DEVTYPE}", kind),
        ("KERNEL", name),
    ])
}

#[test]
fn a_new_disk_of_any_driver_starts_one_unit_whose_command_takes_its_name() {
    let laptop = copy_of_laptop();
    let root = laptop.path().to_str().unwrap();
    for disk in [
        "nvme0n1", "nvme12n3", "sda", "sdab", "vda", "xvdb", "mmcblk0",
    ] {
        let units = units_for_new_block_device(disk, "disk");
        assert_eq!(units, [format!("wakepath-settings-reset@{disk}.service")]);
        wakepath(&["apply", "--after-event", disk, "--root", root]).success();
    }
    for (name, kind) in [
        ("sda1", "partition"),
        ("mmcblk0boot0", "disk"),
        ("mmcblk0rpmb", "disk"),
        ("nvme0c1n1", "disk"),
        ("loop0", "disk"),
        ("dm-0", "disk"),
        ("zram0", "disk"),
        ("sr0", "disk"),
    ] {
        assert!(units_for_new_block_device(name, kind).is_empty(), "{name}");
    }
}

#[test]
fn resets_cpus_and_plugs_start_their_units() {
    let connected = [
        ("ACTION", "change"),
        ("SUBSYSTEM", "nvme"),
        ("KERNEL", "nvme3"),
        ("ENV{NVME_EVENT}", "connected"),
    ];
    let reset = |name: &str| vec![format!("wakepath-settings-reset@{name}.service")];
    assert_eq!(units_started_by(&connected), reset("nvme3"));
    assert!(units_started_by(&connected[..3]).is_empty());
    let online = [
        ("ACTION", "online"),
        ("SUBSYSTEM", "cpu"),
        ("KERNEL", "cpu7"),
    ];
    assert_eq!(units_started_by(&online), reset("cpu7"));
    let plug = [
        ("ACTION", "change"),
        ("SUBSYSTEM", "power_supply"),
        ("KERNEL", "AC"),
        ("ENV{POWER_SUPPLY_ONLINE}", "1"),
    ];
    assert_eq!(
        units_started_by(&plug),
        ["wakepath-settings-supply.service"]
    );
    assert!(units_started_by(&plug[..3]).is_empty());
}
