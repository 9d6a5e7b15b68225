//! Which boot loader a machine has, its file with the kernel command line, and its commands.
//!
//! Sources: `update-grub(8)`, `grubby(8)`, `kernel-install(8)` and `loader.conf(5)`, `u-boot-update(8)` of Debian's u-boot-menu,
//! and the syslinux wiki on `APPEND`.

use serde::{Deserialize, Serialize};
use wakepath_system::Root;

use super::word::{KernelWord, join_words};

/// Variable of EFI in which a boot loader leaves its name (systemd's Boot Loader Interface).
const LOADER_INFO: &str =
    "sys/firmware/efi/efivars/LoaderInfo-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f";

/// A boot loader, by the way in which it gets its kernel command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum BootLoader {
    /// GRUB whose configuration `grub-mkconfig` makes from `/etc/default/grub`, as on Debian.
    GrubMkconfig,
    /// GRUB with an entry for each kernel, which `grubby` edits, as on Fedora and RHEL.
    Grubby,
    /// systemd-boot with entries that `kernel-install` makes.
    SystemdBoot,
    /// extlinux or U-Boot with a configuration that Debian's `u-boot-update` makes.
    UBootMenu,
    /// extlinux or U-Boot with a configuration that is edited by hand.
    Extlinux,
}

impl BootLoader {
    /// The boot loader of a machine: the one that left its name in EFI, or else the first whose files are there.
    pub fn find(root: &Root) -> Option<Self> {
        if names_systemd_boot(root) {
            return Some(Self::SystemdBoot);
        }
        let is_there = |names: &[&str]| names.iter().any(|name| root.exists(name));
        if is_there(&["usr/sbin/grubby", "usr/bin/grubby", "sbin/grubby"]) {
            Some(Self::Grubby)
        } else if root.exists("etc/default/grub") {
            Some(Self::GrubMkconfig)
        } else if root.exists("etc/default/u-boot")
            && is_there(&["usr/sbin/u-boot-update", "usr/bin/u-boot-update"])
        {
            Some(Self::UBootMenu)
        } else if root.exists("boot/extlinux/extlinux.conf") {
            Some(Self::Extlinux)
        } else if is_there(&[
            "etc/kernel/cmdline",
            "boot/loader/loader.conf",
            "efi/loader/loader.conf",
            "boot/efi/loader/loader.conf",
        ]) {
            Some(Self::SystemdBoot)
        } else {
            None
        }
    }

    /// Name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::GrubMkconfig => "GRUB",
            Self::Grubby => "GRUB (grubby)",
            Self::SystemdBoot => "systemd-boot",
            Self::UBootMenu => "extlinux (u-boot-menu)",
            Self::Extlinux => "extlinux",
        }
    }

    /// The file that the command line comes from, below the root.
    pub(super) fn file_below_root(self) -> &'static str {
        match self {
            Self::GrubMkconfig | Self::Grubby => "etc/default/grub",
            Self::SystemdBoot => "etc/kernel/cmdline",
            Self::UBootMenu => "etc/default/u-boot",
            Self::Extlinux => "boot/extlinux/extlinux.conf",
        }
    }

    /// Commands that make the boot loader take the words, after its file was edited. `grubby` edits by itself.
    pub(super) fn commands(self, words: &[KernelWord]) -> Vec<String> {
        match self {
            Self::Grubby => vec![format!(
                "grubby --update-kernel=ALL --args='{}'",
                join_words(words)
            )],
            _ => self.command_after_edit().into_iter().collect(),
        }
    }

    /// The command after an edit of the boot loader's file, also after it was put back; `None`: the file itself is read at boot.
    pub(super) fn command_after_edit(self) -> Option<String> {
        match self {
            Self::GrubMkconfig => Some("update-grub".to_owned()),
            Self::SystemdBoot => {
                Some("kernel-install add \"$(uname -r)\" \"/boot/vmlinuz-$(uname -r)\"".to_owned())
            }
            Self::UBootMenu => Some("u-boot-update".to_owned()),
            Self::Grubby | Self::Extlinux => None,
        }
    }
}

/// Whether the boot loader that started this machine says that it is systemd-boot. The variable is UTF-16 after four bytes.
fn names_systemd_boot(root: &Root) -> bool {
    let Ok(bytes) = root.read_bytes(LOADER_INFO) else {
        return false;
    };
    let letters: Vec<u8> = bytes.into_iter().skip(4).step_by(2).collect();
    letters.starts_with(b"systemd-boot")
}
