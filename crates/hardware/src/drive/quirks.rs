//! The kernel's list of drives with faulty power management.
//!
//! The list is data (`data/quirks.toml`), read from Linux 6.12. What identifies a drive differs:
//! some entries go by what Identify Controller says, most by PCI id, some by PCI id and computer.
//! [`Quirks::find_entries_for_drive`] tells the entries that apply to a drive for sure from those that its name makes
//! likely.

use std::sync::OnceLock;

use serde::Deserialize;

use super::Drive;

const BUILTIN: &str = include_str!("../../data/quirks.toml");

/// What a quirk does to a drive's power management.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QuirkKind {
    /// APST never enters the last power state (`NVME_QUIRK_NO_DEEPEST_PS`).
    NoDeepest,
    /// APST stays off (`NVME_QUIRK_NO_APST`).
    NoApst,
    /// Suspend shuts the drive down (`NVME_QUIRK_SIMPLE_SUSPEND`).
    SimpleSuspend,
    /// Overrides the firmware's wish for a simple suspend (`NVME_QUIRK_FORCE_NO_SIMPLE_SUSPEND`).
    ForceNoSimpleSuspend,
}

impl QuirkKind {
    /// The kernel's name.
    pub const fn kernel_constant_name(self) -> &'static str {
        match self {
            Self::NoDeepest => "NVME_QUIRK_NO_DEEPEST_PS",
            Self::NoApst => "NVME_QUIRK_NO_APST",
            Self::SimpleSuspend => "NVME_QUIRK_SIMPLE_SUSPEND",
            Self::ForceNoSimpleSuspend => "NVME_QUIRK_FORCE_NO_SIMPLE_SUSPEND",
        }
    }
}

impl QuirkKind {
    /// Name in `nvme.quirks=` and in the controller's attribute `quirks` (`nvme_quirk_name()`, Linux 7.0).
    pub const fn kernel_parameter_name(self) -> &'static str {
        match self {
            Self::NoDeepest => "no_deepest_ps",
            Self::NoApst => "no_apst",
            Self::SimpleSuspend => "simple_suspend",
            Self::ForceNoSimpleSuspend => "force_no_simple_suspend",
        }
    }
}

/// The quirk list of a kernel version.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirks {
    /// The kernel version that the list was read from.
    pub kernel: String,
    /// Explanation for each kind of quirk.
    pub kind: KindTexts,
    /// The entries.
    #[serde(rename = "quirk")]
    pub entries: Vec<Quirk>,
}

/// A text on every kind of quirk.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct KindTexts {
    no_deepest: KindText,
    no_apst: KindText,
    simple_suspend: KindText,
    force_no_simple_suspend: KindText,
}

/// What a kind of quirk means, and what can be done about it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KindText {
    /// The kernel's name.
    pub kernel_name: String,
    /// What the quirk does to power management.
    pub effect: String,
    /// How an administrator overrides the quirk.
    pub lifted_by: String,
}

/// An entry of the kernel's quirk list. A drive must meet every criterion that the entry has.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quirk {
    /// The quirks that the entry applies.
    pub kinds: Vec<QuirkKind>,
    /// The kernel's source file with the entry.
    pub file: String,
    /// The affected drives, in words.
    pub drives: String,
    /// What goes wrong without the quirk.
    pub why: String,
    /// What the drive's Identify data must say, if the entry goes by that.
    pub identify: Option<IdentifyCriterion>,
    /// The drive's PCI id must be any of these, `vendor:device` in hexadecimal, if there are any.
    #[serde(default)]
    pub pci: Vec<PciId>,
    /// Criterion: the computer.
    pub dmi: Option<Dmi>,
    /// Model strings behind which an entry by PCI id is to be expected; this list is not the kernel's.
    pub likely: Option<LikelyModels>,
}

/// Vendor, and model or firmware, as Identify Controller has them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IdentifyCriterion {
    /// PCI vendor id.
    pub vendor: u16,
    /// The whole model string without padding; `None`: any.
    pub model: Option<String>,
    /// The whole firmware revision without padding; `None`: any.
    pub firmware: Option<String>,
}

/// A PCI vendor and device id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct PciId {
    /// Vendor id.
    pub vendor: u16,
    /// Device id.
    pub device: u16,
}

/// Parses four hexadecimal digits of a PCI id.
fn parse_four_hexadecimal_digits(text: &str) -> Option<u16> {
    (text.len() == 4).then(|| u16::from_str_radix(text, 16).ok())?
}

impl TryFrom<String> for PciId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.split_once(':')
            .and_then(|(vendor, device)| {
                Some(Self {
                    vendor: parse_four_hexadecimal_digits(vendor)?,
                    device: parse_four_hexadecimal_digits(device)?,
                })
            })
            .ok_or_else(|| format!("\"{text}\" is no PCI id such as 8086:f1a5"))
    }
}

/// A computer's identity from firmware (`/sys/class/dmi/id`). As a criterion, each non-empty field lists accepted
/// values; as a machine, each field has the machine's value.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Dmi {
    /// Maker of the computer.
    pub sys_vendor: Vec<String>,
    /// Product name of the computer.
    pub product_name: Vec<String>,
    /// Maker of the board.
    pub board_vendor: Vec<String>,
    /// Product name of the board.
    pub board_name: Vec<String>,
}

impl Dmi {
    fn accepts_computer(&self, machine: &Self) -> bool {
        is_empty_or_has_any(&self.sys_vendor, &machine.sys_vendor)
            && is_empty_or_has_any(&self.product_name, &machine.product_name)
            && is_empty_or_has_any(&self.board_vendor, &machine.board_vendor)
            && is_empty_or_has_any(&self.board_name, &machine.board_name)
    }
}

/// Whether a list of accepted values is empty or has any of the given values.
fn is_empty_or_has_any(accepted: &[String], values: &[String]) -> bool {
    accepted.is_empty() || values.iter().any(|value| accepted.contains(value))
}

/// Model strings behind which a PCI id is to be expected.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LikelyModels {
    vendor: u16,
    /// With `*` for anything.
    models: Vec<String>,
}

/// Where a drive is plugged in, as far as it is known.
#[derive(Clone, Debug, Default)]
pub struct QuirkPlace {
    /// The drive's PCI id, if known.
    pub pci: Option<PciId>,
    /// The computer.
    pub dmi: Option<Dmi>,
}

/// Certainty that a quirk applies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// The quirk applies for sure: everything that the kernel compares is known, and matches.
    Certain,
    /// The quirk probably applies: the kernel goes by the PCI id, which is not known, but the model makes it likely.
    Likely,
}

impl Quirks {
    /// The built-in quirk list.
    #[expect(
        clippy::expect_used,
        reason = "the data is part of the build and tested"
    )]
    pub fn builtin() -> &'static Self {
        static QUIRKS: OnceLock<Quirks> = OnceLock::new();
        QUIRKS.get_or_init(|| Self::parse(BUILTIN).expect("the built-in quirk list is well-formed"))
    }

    /// Reads a quirk list as described in `data/README.md`.
    ///
    /// # Errors
    /// The TOML parser's, with the line and column.
    pub fn parse(text: &str) -> Result<Self, toml::de::Error> {
        toml::from_str(text)
    }

    /// The explanation of a kind of quirk.
    pub fn effect_and_override_of_kind(&self, kind: QuirkKind) -> &KindText {
        match kind {
            QuirkKind::NoDeepest => &self.kind.no_deepest,
            QuirkKind::NoApst => &self.kind.no_apst,
            QuirkKind::SimpleSuspend => &self.kind.simple_suspend,
            QuirkKind::ForceNoSimpleSuspend => &self.kind.force_no_simple_suspend,
        }
    }

    /// The list's entries that apply to `drive`, or probably do, in order.
    pub fn find_entries_for_drive(
        &self,
        drive: &Drive,
        place: &QuirkPlace,
    ) -> Vec<(&Quirk, Certainty)> {
        self.entries
            .iter()
            .filter_map(|quirk| Some((quirk, quirk.certainty_for_drive(drive, place)?)))
            .collect()
    }
}

impl Quirk {
    fn certainty_for_drive(&self, drive: &Drive, place: &QuirkPlace) -> Option<Certainty> {
        if self
            .identify
            .as_ref()
            .is_some_and(|c| !c.is_met_by_drive(drive))
        {
            return None;
        }
        if let Some(wanted) = &self.dmi {
            // An unknown computer is taken for none of the few in the list.
            if !place
                .dmi
                .as_ref()
                .is_some_and(|machine| wanted.accepts_computer(machine))
            {
                return None;
            }
        }
        match place.pci {
            _ if self.pci.is_empty() => Some(Certainty::Certain),
            Some(id) => self.pci.contains(&id).then_some(Certainty::Certain),
            None => self
                .likely
                .as_ref()
                .is_some_and(|l| l.include_drive(drive))
                .then_some(Certainty::Likely),
        }
    }
}

impl IdentifyCriterion {
    /// Whether a drive meets the criterion, compared as the kernel does: the whole padded field (`string_matches()`,
    /// `core.c`), so that a longer name is another name. A [`Drive`]'s strings are without padding.
    fn is_met_by_drive(&self, drive: &Drive) -> bool {
        drive.vendor_id == Some(self.vendor)
            && self
                .model
                .as_ref()
                .is_none_or(|model| *model == drive.model)
            && self
                .firmware
                .as_ref()
                .is_none_or(|firmware| *firmware == drive.firmware)
    }
}

impl LikelyModels {
    fn include_drive(&self, drive: &Drive) -> bool {
        drive.vendor_id.is_none_or(|vendor| vendor == self.vendor)
            && self
                .models
                .iter()
                .any(|m| matches_star_pattern(m, &drive.model))
    }
}

/// Whether `text` is `pattern` with something in place of each `*`.
fn matches_star_pattern(pattern: &str, text: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == text,
        Some((head, rest)) => text.strip_prefix(head).is_some_and(|tail| {
            tail.char_indices()
                .map(|(at, _)| &tail[at..])
                .chain(std::iter::once(""))
                .any(|tail| matches_star_pattern(rest, tail))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::DriveLibrary;

    fn drive(vendor_id: u16, model: &str, firmware: &str) -> Drive {
        Drive {
            model: model.to_owned(),
            firmware: firmware.to_owned(),
            vendor_id: Some(vendor_id),
            subsystem_vendor_id: None,
            npss: 0,
            states: vec![crate::drive::PowerState::default()],
            apsta: None,
            capacity_bytes: None,
            source: String::new(),
        }
    }

    fn found(drive: &Drive, place: &QuirkPlace) -> Vec<(QuirkKind, Certainty)> {
        Quirks::builtin()
            .find_entries_for_drive(drive, place)
            .into_iter()
            .flat_map(|(q, c)| q.kinds.iter().map(move |k| (*k, c)))
            .collect()
    }

    fn id(text: &str) -> Option<PciId> {
        PciId::try_from(text.to_owned()).ok()
    }

    #[test]
    fn the_list_is_complete_and_consistent() {
        fn count(kind: QuirkKind) -> usize {
            let entries = Quirks::builtin().entries.iter();
            entries.filter(|q| q.kinds.contains(&kind)).count()
        }
        let quirks = Quirks::builtin();
        // As in 6.12.117: core.c 1 and pci.c 10 by PCI id and 1 by computer; core.c 2, pci.c 2;
        // core.c 1, pci.c 1; pci.c 2.
        assert_eq!(count(QuirkKind::NoDeepest), 12);
        assert_eq!(count(QuirkKind::NoApst), 4);
        assert_eq!(count(QuirkKind::SimpleSuspend), 2);
        assert_eq!(count(QuirkKind::ForceNoSimpleSuspend), 2);
        for kind in [
            QuirkKind::NoDeepest,
            QuirkKind::NoApst,
            QuirkKind::SimpleSuspend,
            QuirkKind::ForceNoSimpleSuspend,
        ] {
            assert_eq!(
                quirks.effect_and_override_of_kind(kind).kernel_name,
                kind.kernel_constant_name()
            );
        }
        for quirk in &quirks.entries {
            assert!(
                quirk.identify.is_some() || !quirk.pci.is_empty() || quirk.dmi.is_some(),
                "{} has no criterion",
                quirk.drives
            );
        }
    }

    #[test]
    fn identify_strings_match_whole() {
        let certain = [(QuirkKind::NoApst, Certainty::Certain)];
        let here = QuirkPlace::default();
        assert_eq!(found(&drive(0x1e0f, "KCD6XVUL6T40", "x"), &here), certain);
        assert_eq!(found(&drive(0x1e0f, "KCD6XVUL6T40 Z", "x"), &here), []);
        assert_eq!(found(&drive(0x1179, "KCD6XVUL6T40", "x"), &here), []);
        let lite_on = drive(0x14a4, "any", "22301111");
        assert_eq!(
            found(&lite_on, &here),
            [(QuirkKind::SimpleSuspend, Certainty::Certain)]
        );
        let library = DriveLibrary::builtin();
        let toshiba = library
            .find_one_model("THNSF5256GPUK")
            .unwrap()
            .most_frequent_table();
        assert_eq!(found(&toshiba.drive, &here), certain);
    }

    #[test]
    fn a_pci_id_decides_where_it_is_known() {
        const fn at(pci: Option<PciId>) -> QuirkPlace {
            QuirkPlace { pci, dmi: None }
        }
        let sn550 = drive(0x15b7, "WDC WDS500G2B0C-00PXH0", "x");
        assert_eq!(
            found(&sn550, &at(None)),
            [(QuirkKind::NoDeepest, Certainty::Likely)]
        );
        assert_eq!(
            found(&sn550, &at(id("15b7:5009"))),
            [(QuirkKind::NoDeepest, Certainty::Certain)]
        );
        assert_eq!(found(&sn550, &at(id("15b7:5008"))), []);
    }

    #[test]
    fn a_computer_must_match_in_every_field() {
        let sm951 = drive(0x144d, "SM951 NVMe SAMSUNG 256GB", "x");
        let on = |vendor: &str, product: &str| QuirkPlace {
            pci: id("144d:a802"),
            dmi: Some(Dmi {
                sys_vendor: vec![vendor.to_owned()],
                product_name: vec![product.to_owned()],
                ..Dmi::default()
            }),
        };
        assert_eq!(found(&sm951, &on("Dell Inc.", "Precision 5510")).len(), 1);
        assert_eq!(found(&sm951, &on("Dell Inc.", "Precision 5520")), []);
        assert_eq!(found(&sm951, &on("HP", "Precision 5510")), []);
        let n60z = QuirkPlace {
            pci: None,
            dmi: Some(Dmi {
                board_name: vec!["LXKT-ZXEG-N6".to_owned()],
                ..Dmi::default()
            }),
        };
        assert_eq!(
            found(&sm951, &n60z),
            [(QuirkKind::NoApst, Certainty::Certain)]
        );
    }

    #[test]
    fn likely_models_are_found_in_the_library() {
        let library = DriveLibrary::builtin();
        let here = QuirkPlace::default();
        for model in [
            "INTEL SSDPEKKW512G7",
            "INTEL SSDPEKKW010T7",
            "WDC WDS500G2B0C-00PXH0",
            "SOLIDIGM SSDPFKKW020X7",
            "KINGSTON SA2000M8250G",
            "ADATA SX8200PNP",
        ] {
            let drive = &library
                .find_one_model(model)
                .unwrap()
                .most_frequent_table()
                .drive;
            let expected = [(QuirkKind::NoDeepest, Certainty::Likely)];
            assert_eq!(found(drive, &here), expected, "{model}");
        }
        for model in ["INTEL SSDPEKKW256G8", "KINGSTON SKC3000S1024G"] {
            let drive = &library
                .find_one_model(model)
                .unwrap()
                .most_frequent_table()
                .drive;
            assert_eq!(found(drive, &here), [], "{model}");
        }
    }

    #[test]
    fn patterns_match_whole_names() {
        assert!(matches_star_pattern("A*C", "ABBC") && matches_star_pattern("A*", "A"));
        assert!(matches_star_pattern("*7*", "x7") && matches_star_pattern("A", "A"));
        assert!(!matches_star_pattern("A*C", "ABCD") && !matches_star_pattern("A", "AB"));
    }
}
