//! `wakepath apply --kernel-word` as a whole command.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;

use predicates::prelude::*;

use crate::common::captured::copy_of_laptop;
use crate::common::{fails_with, json, wakepath};

const GRUB: &str = "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n";

#[test]
fn words_are_printed_written_and_put_back() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let file = machine.path().join("etc/default/grub");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, GRUB).unwrap();
    let apply = |more: &[&str]| {
        let words = [
            "apply",
            "--kernel-word",
            "amd_pstate=active",
            "--root",
            root,
        ];
        wakepath(&[&words[..], more].concat())
    };
    apply(&[])
        .success()
        .stdout(predicate::str::contains("GRUB: to write in "))
        .stdout(predicate::str::contains(
            "  + GRUB_CMDLINE_LINUX_DEFAULT=\"quiet amd_pstate=active\"\n",
        ))
        .stdout(predicate::str::contains("  update-grub\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), GRUB);
    let written = json(&apply(&["--write-cmdline", "--format", "json"]).success());
    assert_eq!(written["written"], true);
    let copy = written["copy"].as_str().unwrap();
    assert_eq!(fs::read_to_string(copy).unwrap(), GRUB);
    assert!(
        fs::read_to_string(&file)
            .unwrap()
            .contains("amd_pstate=active")
    );
    apply(&["--write-cmdline"])
        .success()
        .stdout(predicate::str::contains("has the words already"))
        .stdout(predicate::str::contains(
            "amd_pstate=active: the mode of the cpufreq driver amd-pstate\n",
        ));
    // `--now` leaves what is for the next boot.
    wakepath(&["restore", "--now", "--root", root]).success();
    assert_ne!(fs::read_to_string(&file).unwrap(), GRUB);
    wakepath(&["restore", "--root", root])
        .success()
        .stderr(predicate::str::contains(
            "is as it was; now run: update-grub",
        ));
    assert_eq!(fs::read_to_string(&file).unwrap(), GRUB);
}

#[test]
fn words_that_are_not_known_remove_nothing_and_say_what_stays() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let file = machine.path().join("etc/default/grub");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(
        &file,
        "GRUB_CMDLINE_LINUX_DEFAULT=\"rd.lvm.lv=vg/root module_blacklist=a\"\n",
    )
    .unwrap();
    let words = [
        "--kernel-word",
        "rd.lvm.lv=vg/swap",
        "--kernel-word",
        "module_blacklist=b",
    ];
    let apply = [&["apply"], &words[..], &["--root", root]].concat();
    wakepath(&apply)
        .success()
        .stdout(predicate::str::contains(
            "\"rd.lvm.lv=vg/root module_blacklist=a rd.lvm.lv=vg/swap module_blacklist=b\"\n",
        ))
        .stdout(predicate::str::contains(
            "left beside, since of some words every one counts: module_blacklist=a; of most",
        ));
    let report = json(&wakepath(&[&apply[..], &["--format", "json"]].concat()).success());
    assert_eq!(report["kept_beside"][0], "module_blacklist=a");
    assert_eq!(report["kept_beside"].as_array().unwrap().len(), 1);
}

#[test]
fn a_machine_without_a_known_boot_loader_and_a_bad_word_are_refused() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    fails_with(
        wakepath(&["apply", "--kernel-word", "nosmt", "--root", root]),
        &[
            "no boot loader is known here",
            "Put nosmt on the kernel command line by hand",
        ],
    );
    wakepath(&["apply", "--kernel-word", "a b", "--root", root])
        .code(2)
        .stderr(predicate::str::contains("expected one word"));
}

#[test]
fn known_words_are_checked_and_say_what_they_decide_and_what_runs() {
    let machine = copy_of_laptop();
    let root = machine.path().to_str().unwrap();
    let put = |file: &str, text: &str| {
        let path = machine.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    put("etc/default/grub", GRUB);
    put("sys/module/nvme/parameters/poll_queues", "2\n");
    let words = [
        "--kernel-word",
        "nvme.poll_queues=4",
        "--kernel-word",
        "nosmt",
    ];
    let apply = [&["apply"], &words[..], &["--root", root]].concat();
    wakepath(&apply).success().stdout(predicate::str::contains(
        "nvme.poll_queues=4: how many queues of each NVMe drive are polled and not interrupted; now 2 (/sys/module/nvme/parameters/poll_queues)\n",
    ));
    let report = json(&wakepath(&[&apply[..], &["--format", "json"]].concat()).success());
    let settings = report["settings"].as_array().unwrap();
    assert_eq!(settings.len(), 1);
    assert_eq!(settings[0]["running"], "2");
    wakepath(&["apply", "--kernel-word", "amd_pstate=actve", "--root", root])
        .code(2)
        .stderr(predicate::str::contains("did you mean `active`"));
}
