//! Classifies a machine: processor, segment, and the lender of missing figures.

use wakepath_hardware::identity::{ProcessorIdentity, SegmentHints};
use wakepath_hardware::nearest::{Lender, choose_lender_of_figures};

use super::guest::hypervisor_evidence;
use super::tree;
use crate::Root;

const SUPPLIES: &str = "sys/class/power_supply";

/// A machine's class.
#[derive(Clone, Debug)]
pub struct MachineClass {
    /// The machine's processor, by CPUID or Arm core types.
    pub processor: ProcessorIdentity,
    /// What shows that the machine is virtual; `None` if nothing does.
    pub guest: Option<String>,
    /// The built-in machine that lends missing figures.
    pub lender: Lender,
}

impl MachineClass {
    /// Reads the class of the machine below a root.
    pub fn read(root: &Root) -> Self {
        let cpuinfo = root
            .read_text_if_readable("proc/cpuinfo")
            .unwrap_or_default();
        let processor = ProcessorIdentity::from_cpuinfo(&cpuinfo);
        let guest = hypervisor_evidence(root);
        let lender =
            choose_lender_of_figures(&processor, &read_segment_hints(root), guest.as_deref());
        Self {
            processor,
            guest,
            lender,
        }
    }
}

/// Reads what hints at the segment, such as laptop or server.
fn read_segment_hints(root: &Root) -> SegmentHints {
    SegmentHints {
        pm_profile: root
            .folder("sys/firmware/acpi")
            .read_small_number("pm_profile"),
        chassis_type: root
            .folder("sys/class/dmi/id")
            .read_small_number("chassis_type"),
        tree_chassis: tree::read_device_tree_strings(root, "chassis-type")
            .into_iter()
            .next(),
        battery: root
            .list_names(SUPPLIES)
            .iter()
            .any(|name| is_machine_battery(root, name)),
        compatible: tree::read_device_tree_strings(root, "compatible"),
    }
}

/// Whether a power supply is the machine's battery: batteries in mice and headsets have scope `Device`.
fn is_machine_battery(root: &Root, supply: &str) -> bool {
    let folder = root.folder(format!("{SUPPLIES}/{supply}"));
    let kind = folder.read_text_if_readable("type");
    kind.as_deref() == Some("Battery")
        && folder.read_text_if_readable("scope").as_deref() != Some("Device")
}
