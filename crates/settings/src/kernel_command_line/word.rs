//! A word of the kernel command line.

use std::fmt;
use std::str::FromStr;

use super::boot_setting::BootSetting;
use super::parts::{have_same_key, key_of, value_of};

/// Longest word in bytes; x86 kernels take command lines of 2048 bytes.
const MAX_BYTES: usize = 512;

/// A word of the kernel command line, such as `amd_pstate=active`. It holds no blank and nothing that a shell or a boot loader
/// reads specially.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelWord(String);

impl KernelWord {
    /// The word as it stands on the command line.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The word up to its `=`.
    pub fn key(&self) -> &str {
        key_of(&self.0)
    }

    /// Whether another word of a command line says the same.
    pub(super) fn means_same(&self, other: &str) -> bool {
        let (own, others) = (value_of(&self.0), value_of(other));
        have_same_key(&self.0, other)
            && match BootSetting::for_key(self.key()) {
                Some(known) => known.simplest_value(own) == known.simplest_value(others),
                None => own == others,
            }
    }

    /// Whether another word of a command line has to go for this one to count. Only words of known settings go: without one of
    /// several words such as `rd.lvm.lv=vg/root` a machine may not boot.
    pub(super) fn contradicts(&self, other: &str) -> bool {
        have_same_key(&self.0, other)
            && !self.means_same(other)
            && BootSetting::for_key(self.key())
                .is_some_and(|known| known.are_alternatives(value_of(&self.0), value_of(other)))
    }

    /// Whether the word counts on a command line as it is. Of words that wakepath does not know, the kernel or a module may take
    /// the last one only.
    pub(super) fn counts_among(&self, line: &[&str]) -> bool {
        if BootSetting::for_key(self.key()).is_some() || is_repeated_key(self.key()) {
            return line.iter().any(|other| self.means_same(other));
        }
        let last = line.iter().rfind(|other| have_same_key(&self.0, other));
        last.is_some_and(|other| self.means_same(other))
    }

    /// Whether another word has the same key and another value, and nothing is known of how the two go together.
    pub(super) fn may_contradict(&self, other: &str) -> bool {
        have_same_key(&self.0, other)
            && !self.means_same(other)
            && BootSetting::for_key(self.key()).is_none()
            && !is_repeated_key(self.key())
    }
}

/// Keys of words that a command line may have several of, each with something more
/// (`Documentation/admin-guide/kernel-parameters.txt`, Linux 6.12; `modprobe.d(5)` for `modprobe.blacklist`). Of `module_blacklist`
/// the kernel takes the last word, and of `crashkernel` the last one of each kind.
const REPEATED_KEYS: [&str; 14] = [
    "acpi_osi",
    "amd_iommu",
    "console",
    "dyndbg",
    "earlycon",
    "hugepages",
    "hugepagesz",
    "initcall_blacklist",
    "intel_iommu",
    "iommu",
    "memmap",
    "modprobe.blacklist",
    "pci",
    "video",
];

/// How keys begin that initial RAM disks and systemd read, each word with something more (`dracut.cmdline(7)`, `systemd(1)`).
const REPEATED_PREFIXES: [&str; 2] = ["rd.", "systemd."];

/// How the keys of modules for debug messages end (`Documentation/admin-guide/dynamic-debug-howto.rst`).
const DEBUG_ENDING: &str = ".dyndbg";

fn is_repeated_key(key: &str) -> bool {
    REPEATED_KEYS.iter().any(|known| have_same_key(known, key))
        || REPEATED_PREFIXES.iter().any(|head| key.starts_with(head))
        || key.ends_with(DEBUG_ENDING)
}

/// The words with blanks between them.
pub(super) fn join_words(words: &[KernelWord]) -> String {
    let words: Vec<&str> = words.iter().map(KernelWord::as_str).collect();
    words.join(" ")
}

impl fmt::Display for KernelWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for KernelWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:=@/+^".contains(c);
        let starts_well = text.starts_with(|c: char| c.is_ascii_alphabetic());
        if text.len() > MAX_BYTES || !starts_well || !text.chars().all(is_plain) {
            return Err(
                "expected one word of the kernel command line such as amd_pstate=active: letters, digits and _-.,:=@/+^"
                    .to_owned(),
            );
        }
        BootSetting::check_word(text)?;
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_doctor_names_are_words() {
        for text in [
            "amd_pstate=active",
            "isolcpus=managed_irq,domain,2-3",
            "nvme.quirks=15b7:5009:^no_deepest_ps",
            "nosmt",
        ] {
            assert_eq!(text.parse::<KernelWord>().unwrap().as_str(), text);
        }
        assert_eq!("a.b=c=d".parse::<KernelWord>().unwrap().key(), "a.b");
    }

    #[test]
    fn what_a_shell_or_boot_loader_reads_specially_is_no_word() {
        for text in [
            "", "a b", "a\"b", "a'b", "$(x)", "a\nb", "a\\b", "=x", "a;b", "#x",
        ] {
            assert!(text.parse::<KernelWord>().is_err(), "{text:?}");
        }
        assert!("x".repeat(MAX_BYTES + 1).parse::<KernelWord>().is_err());
    }
}
