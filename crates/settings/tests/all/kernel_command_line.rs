//! Words for the kernel command line, in the files of boot loaders below a directory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use wakepath_settings::{
    BootLoader, CommandLineOutcome, KernelWord, KernelWordsPlan, put_back_kernel_words,
    write_kernel_words,
};
use wakepath_system::System;

use crate::common::{assert_same, content, laptop, write};

const GRUB: &str = "etc/default/grub";
const GRUB_TEXT: &str = "GRUB_TIMEOUT=5\nGRUB_CMDLINE_LINUX_DEFAULT=\"quiet\"\n";

fn words(texts: &[&str]) -> Vec<KernelWord> {
    texts.iter().map(|text| text.parse().unwrap()).collect()
}

fn plan(system: &System, texts: &[&str]) -> KernelWordsPlan {
    KernelWordsPlan::new(system, &words(texts)).unwrap()
}

fn text(machine: &Path, file: &str) -> String {
    fs::read_to_string(machine.join(file)).unwrap()
}

/// Files of a machine with their texts.
type Files<'a> = &'a [(&'a str, &'a str)];

/// A machine with some files.
fn machine(files: Files<'_>) -> (tempfile::TempDir, System) {
    let (directory, system) = laptop();
    for (file, text) in files {
        write(directory.path(), file, text);
    }
    (directory, system)
}

#[test]
fn each_boot_loader_has_its_file_and_command() {
    let cases: [(BootLoader, Files<'_>, &str, &str); 5] = [
        (
            BootLoader::GrubMkconfig,
            &[(GRUB, GRUB_TEXT)],
            "GRUB_CMDLINE_LINUX_DEFAULT=\"quiet nosmt\"",
            "update-grub",
        ),
        (
            BootLoader::SystemdBoot,
            &[("etc/kernel/cmdline", "root=/dev/sda1 ro\n")],
            "root=/dev/sda1 ro nosmt",
            "kernel-install add \"$(uname -r)\" \"/boot/vmlinuz-$(uname -r)\"",
        ),
        (
            BootLoader::UBootMenu,
            &[
                ("etc/default/u-boot", "U_BOOT_PARAMETERS=\"ro\"\n"),
                ("usr/sbin/u-boot-update", ""),
            ],
            "U_BOOT_PARAMETERS=\"ro nosmt\"",
            "u-boot-update",
        ),
        (
            BootLoader::Extlinux,
            &[("boot/extlinux/extlinux.conf", "label a\n append ro\n")],
            " append ro nosmt",
            "",
        ),
        (
            BootLoader::Grubby,
            &[(GRUB, GRUB_TEXT), ("usr/sbin/grubby", "")],
            "",
            "grubby --update-kernel=ALL --args='nosmt'",
        ),
    ];
    for (loader, files, line, command) in cases {
        let (directory, system) = machine(files);
        let before = content(directory.path());
        let plan = plan(&system, &["nosmt"]);
        assert_eq!(plan.loader, loader);
        let lines = plan.changes.iter().map(|(_, new)| new.as_str());
        assert_eq!(lines.collect::<String>(), line, "{loader:?}");
        assert_eq!(plan.commands.concat(), command, "{loader:?}");
        // A plan writes nothing.
        assert_same(directory.path(), &before);
        if loader == BootLoader::Grubby {
            let refused = write_kernel_words(&system, &plan).unwrap_err().to_string();
            assert!(refused.contains("run: grubby"), "{refused}");
            continue;
        }
        let copy = write_kernel_words(&system, &plan).unwrap().unwrap();
        assert_eq!(fs::read_to_string(copy).unwrap(), files[0].1);
        assert!(text(directory.path(), files[0].0).contains("nosmt"));
        let outcome = put_back_kernel_words(&system).unwrap();
        assert!(
            matches!(outcome, CommandLineOutcome::PutBack { .. }),
            "{outcome:?}"
        );
        assert_eq!(text(directory.path(), files[0].0), files[0].1);
        assert_same(directory.path(), &before);
        assert_eq!(
            put_back_kernel_words(&system).unwrap(),
            CommandLineOutcome::NothingWritten
        );
    }
}

#[test]
fn words_written_one_after_the_other_are_put_back_together() {
    let (directory, system) = machine(&[(GRUB, GRUB_TEXT)]);
    for word in ["nosmt", "amd_pstate=active", "amd_pstate=passive"] {
        write_kernel_words(&system, &plan(&system, &[word])).unwrap();
    }
    let written = text(directory.path(), GRUB);
    assert!(
        written.contains("\"quiet nosmt amd_pstate=passive\""),
        "{written}"
    );
    assert!(plan(&system, &["nosmt"]).has_all_words_already());
    put_back_kernel_words(&system).unwrap();
    assert_eq!(text(directory.path(), GRUB), GRUB_TEXT);
}

#[test]
fn what_somebody_else_changed_since_stays_and_is_named() {
    let (directory, system) = machine(&[(GRUB, GRUB_TEXT)]);
    write_kernel_words(&system, &plan(&system, &["nosmt"])).unwrap();
    let changed = text(directory.path(), GRUB).replace("TIMEOUT=5", "TIMEOUT=1");
    write(directory.path(), GRUB, &changed);
    let outcome = put_back_kernel_words(&system).unwrap();
    let CommandLineOutcome::ChangedSince { words, copy, .. } = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(words, ["nosmt"]);
    assert_eq!(fs::read_to_string(copy).unwrap(), GRUB_TEXT);
    assert_eq!(text(directory.path(), GRUB), changed);
}

#[test]
fn a_file_that_changed_after_the_plan_is_not_written() {
    let (directory, system) = machine(&[(GRUB, GRUB_TEXT)]);
    let plan = plan(&system, &["nosmt"]);
    write(directory.path(), GRUB, "GRUB_TIMEOUT=1\n");
    let refused = write_kernel_words(&system, &plan).unwrap_err().to_string();
    assert!(refused.contains("has changed meanwhile"), "{refused}");
    assert_eq!(text(directory.path(), GRUB), "GRUB_TIMEOUT=1\n");
}

#[test]
fn files_that_are_not_understood_are_refused_with_the_words() {
    let drop_in = "etc/default/grub.d/50-cloud.cfg";
    let cases: [(Files<'_>, &str); 4] = [
        (&[], "no boot loader is known here"),
        (&[(GRUB, "GRUB_CMDLINE_LINUX_DEFAULT=\"$X\"\n")], "line 1: "),
        (
            &[
                (GRUB, GRUB_TEXT),
                (drop_in, "GRUB_CMDLINE_LINUX_DEFAULT=\"x\"\n"),
            ],
            "50-cloud.cfg sets GRUB_CMDLINE_LINUX_DEFAULT, too",
        ),
        (
            &[
                ("etc/default/u-boot", "#U_BOOT_PARAMETERS=\"ro\"\n"),
                ("usr/sbin/u-boot-update", ""),
            ],
            "U_BOOT_PARAMETERS is not set",
        ),
    ];
    for (files, expected) in cases {
        let (_directory, system) = machine(files);
        let refused = KernelWordsPlan::new(&system, &words(&["nosmt"]))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(refused.contains("Put nosmt "), "{refused}");
    }
}

#[test]
fn the_boot_loader_that_left_its_name_in_efi_wins() {
    let name = "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";
    let (directory, system) = machine(&[(GRUB, GRUB_TEXT), ("proc/cmdline", "ro quiet\n")]);
    let wide = "systemd-boot 257".encode_utf16().flat_map(u16::to_le_bytes);
    let bytes: Vec<u8> = [6, 0, 0, 0].into_iter().chain(wide).collect();
    fs::create_dir_all(directory.path().join(name).parent().unwrap()).unwrap();
    fs::write(directory.path().join(name), bytes).unwrap();
    let plan = plan(&system, &["nosmt"]);
    assert_eq!(plan.loader, BootLoader::SystemdBoot);
    assert_eq!(plan.changes, [(None, "ro quiet nosmt".to_owned())]);
    assert_eq!(write_kernel_words(&system, &plan).unwrap(), None);
    put_back_kernel_words(&system).unwrap();
    assert!(!directory.path().join("etc/kernel/cmdline").exists());
}
