//! `aspm`: how eagerly PCIe links sleep.

use super::key::{Fallback, Form, Key, KeyInfo};
use super::{Kind, Mechanism, Place, Policy};

static POLICY: Key<&str> = Key {
    info: KeyInfo {
        name: "policy",
        meaning: "default is the firmware's choice; performance keeps links awake; powersupersave adds L1 substates",
        unit: "",
        fallback: Fallback::Required,
        example: "performance",
    },
    words: &[
        ("default", "default"),
        ("performance", "performance"),
        ("powersave", "powersave"),
        ("powersupersave", "powersupersave"),
    ],
    form: Form::WordsOnly,
};

pub(super) static MECHANISM: Mechanism = Mechanism {
    name: "aspm",
    kind: Kind::Aspm,
    versioned: false,
    summary: "how eagerly PCIe links sleep, of all devices at once",
    source: "pcie_aspm.policy, drivers/pci/pcie/aspm.c",
    on: &[Place::Machine],
    keys: &[&POLICY],
    overlaps: &[],
    build: |given| Ok(Policy::Aspm(given.value_or_default(&POLICY)?)),
};
