//! What the kernel goes by for a drive's APST table on a machine: module parameters, latency tolerance, quirks.

use wakepath_hardware::drive::Drive;
use wakepath_hardware::drive::quirks::{Dmi, PciId, QuirkKind, QuirkPlace, Quirks};
use wakepath_policies::apst::{ApstQuirks, ApstSettings, plan_apst_table};

use crate::nvme::ApstFeature;
use crate::{Root, SystemFolder, nvme};

/// The quirks that the running kernel applies to a drive, by the kernel's short names such as `no_deepest_ps`; `None`:
/// the kernel does not tell (before Linux 7.0).
pub fn read_quirks_told_by_kernel(root: &Root, drive_name: &str) -> Option<Vec<String>> {
    let text = root.read_text_if_readable(&format!("sys/class/nvme/{drive_name}/quirks"))?;
    let names = text.split_whitespace().filter(|word| *word != "none");
    Some(names.map(str::to_owned).collect())
}

/// Quirks about APST for a drive: as reported by the running kernel, otherwise from the built-in list.
pub fn apst_quirks_by_kernel_or_list(root: &Root, drive_name: &str, drive: &Drive) -> ApstQuirks {
    if let Some(quirks) = read_quirks_told_by_kernel(root, drive_name) {
        return ApstQuirks {
            no_deepest: quirks.contains(&QuirkKind::NoDeepest.kernel_parameter_name().to_owned()),
            no_apst: quirks.contains(&QuirkKind::NoApst.kernel_parameter_name().to_owned()),
        };
    }
    let kinds: Vec<QuirkKind> = Quirks::builtin()
        .find_entries_for_drive(drive, &read_pci_id_and_dmi_names(root, drive_name))
        .into_iter()
        .flat_map(|(quirk, _)| quirk.kinds.clone())
        .collect();
    ApstQuirks {
        no_deepest: kinds.contains(&QuirkKind::NoDeepest),
        no_apst: kinds.contains(&QuirkKind::NoApst),
    }
}

/// Inputs for the kernel's APST table of a drive: module parameters, latency tolerance, quirks.
pub fn read_inputs_of_kernel_apst_table(
    root: &Root,
    drive_name: &str,
    drive: &Drive,
) -> ApstSettings {
    let kernel = ApstSettings::default();
    let parameters = root.folder("sys/module/nvme_core/parameters");
    let tolerance = nvme::read_latency_tolerance(root, drive_name);
    let by_default = parameters
        .read_number_if_readable("default_ps_max_latency_us")
        .unwrap_or(kernel.max_latency_us);
    let quirks = match parameters.read_text_if_readable("force_apst").as_deref() {
        Some("Y") => ApstQuirks::default(),
        _ => apst_quirks_by_kernel_or_list(root, drive_name, drive),
    };
    ApstSettings {
        primary_timeout_ms: parameters
            .read_number_if_readable("apst_primary_timeout_ms")
            .unwrap_or(kernel.primary_timeout_ms),
        primary_tolerance_us: parameters
            .read_number_if_readable("apst_primary_latency_tol_us")
            .unwrap_or(kernel.primary_tolerance_us),
        secondary_timeout_ms: parameters
            .read_number_if_readable("apst_secondary_timeout_ms")
            .unwrap_or(kernel.secondary_timeout_ms),
        secondary_tolerance_us: parameters
            .read_number_if_readable("apst_secondary_latency_tol_us")
            .unwrap_or(kernel.secondary_tolerance_us),
        max_latency_us: match tolerance.as_deref() {
            // The kernel takes the request away, and with it its own default.
            Some("any" | "auto") => u64::MAX,
            Some(us) => us.parse().unwrap_or(by_default),
            None => by_default,
        },
        quirks,
        ..kernel
    }
}

/// Predicts the APST feature set by the kernel itself after a reset of the controller or a change of the latency tolerance;
/// `None`: the kernel sets no table.
pub fn predict_kernel_apst_feature(
    root: &Root,
    drive_name: &str,
    drive: &Drive,
) -> Option<ApstFeature> {
    let settings = read_inputs_of_kernel_apst_table(root, drive_name, drive);
    let supported = drive.apsta.unwrap_or(true);
    let plan = plan_apst_table(drive.npss, supported, &drive.states, &settings).ok()?;
    Some(ApstFeature {
        enabled: plan.enabled,
        table: plan.table,
    })
}

/// What the quirk list goes by besides the drive's Identify data: the drive's PCI id, and the computer's DMI names.
pub fn read_pci_id_and_dmi_names(root: &Root, drive_name: &str) -> QuirkPlace {
    let device = root.folder(format!("sys/class/nvme/{drive_name}/device"));
    let computer = root.folder("sys/class/dmi/id");
    QuirkPlace {
        pci: read_hexadecimal_u16(&device, "vendor")
            .zip(read_hexadecimal_u16(&device, "device"))
            .map(|(vendor, device)| PciId { vendor, device }),
        dmi: root.exists("sys/class/dmi/id").then(|| Dmi {
            sys_vendor: computer
                .read_text_if_readable("sys_vendor")
                .into_iter()
                .collect(),
            product_name: computer
                .read_text_if_readable("product_name")
                .into_iter()
                .collect(),
            board_vendor: computer
                .read_text_if_readable("board_vendor")
                .into_iter()
                .collect(),
            board_name: computer
                .read_text_if_readable("board_name")
                .into_iter()
                .collect(),
        }),
    }
}

/// The hexadecimal number in a file, such as `0x144d`.
fn read_hexadecimal_u16(folder: &SystemFolder<'_>, file: &str) -> Option<u16> {
    let text = folder.read_text_if_readable(file)?;
    u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}
