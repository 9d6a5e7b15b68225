//! Of which class a machine is: its processor, what kind of machine that is in, and whose figures it is lent.

use wakepath_hardware::identity::{ProcessorIdentity, SegmentHints};
use wakepath_hardware::nearest::{Lender, nearest};

use super::guest::guest;
use super::tree;
use crate::Root;

const SUPPLIES: &str = "sys/class/power_supply";

/// A machine's class.
#[derive(Clone, Debug)]
pub struct MachineClass {
    /// Its processor.
    pub processor: ProcessorIdentity,
    /// What shows that it is a virtual machine.
    pub guest: Option<String>,
    /// Whose figures it is lent.
    pub lender: Lender,
}

impl MachineClass {
    /// The class of the machine below a root.
    pub fn read(root: &Root) -> Self {
        let cpuinfo = root.optional("proc/cpuinfo").unwrap_or_default();
        let processor = ProcessorIdentity::from_cpuinfo(&cpuinfo);
        let guest = guest(root);
        let lender = nearest(&processor, &hints(root), guest.as_deref());
        Self {
            processor,
            guest,
            lender,
        }
    }
}

/// What tells the kind of machine.
fn hints(root: &Root) -> SegmentHints {
    let number = |path: &str| root.number(path).and_then(|n| u32::try_from(n).ok());
    SegmentHints {
        pm_profile: number("sys/firmware/acpi/pm_profile"),
        chassis_type: number("sys/class/dmi/id/chassis_type"),
        tree_chassis: tree::list(root, "chassis-type").into_iter().next(),
        battery: root
            .names(SUPPLIES)
            .iter()
            .any(|name| is_battery(root, name)),
        compatible: tree::list(root, "compatible"),
    }
}

/// Whether a supply is a battery of the machine: those of mice and headsets have the scope `Device`.
fn is_battery(root: &Root, supply: &str) -> bool {
    let file = |name: &str| root.optional(&format!("{SUPPLIES}/{supply}/{name}"));
    file("type").as_deref() == Some("Battery") && file("scope").as_deref() != Some("Device")
}
