//! What the kernel is told about APST on a machine.

use wakepath_hardware::drive::Drive;
use wakepath_hardware::drive::quirks::{Dmi, PciId, QuirkKind, QuirkPlace, Quirks};
use wakepath_policies::apst::{ApstQuirks, ApstSettings};

use crate::{Root, nvme};

/// The quirks that the running kernel applies to a drive, by the kernel's short names such as `no_deepest_ps`; `None`: it does
/// not say (before Linux 7.0).
pub fn quirks_in_force(root: &Root, name: &str) -> Option<Vec<String>> {
    let text = root.optional(&format!("sys/class/nvme/{name}/quirks"))?;
    let names = text.split_whitespace().filter(|word| *word != "none");
    Some(names.map(str::to_owned).collect())
}

/// Quirks about APST for a drive: as reported by the running kernel, otherwise from the built-in list.
pub fn apst_quirks(root: &Root, name: &str, drive: &Drive) -> ApstQuirks {
    if let Some(quirks) = quirks_in_force(root, name) {
        let has = |kind: QuirkKind| quirks.iter().any(|quirk| *quirk == kind.short_name());
        return ApstQuirks {
            no_deepest: has(QuirkKind::NoDeepest),
            no_apst: has(QuirkKind::NoApst),
        };
    }
    let kinds: Vec<QuirkKind> = Quirks::builtin()
        .on(drive, &place(root, name))
        .into_iter()
        .flat_map(|(quirk, _)| quirk.kinds.clone())
        .collect();
    ApstQuirks {
        no_deepest: kinds.contains(&QuirkKind::NoDeepest),
        no_apst: kinds.contains(&QuirkKind::NoApst),
    }
}

/// Inputs for the kernel's APST table of a drive: module parameters, latency tolerance, quirks.
pub fn kernel_apst(root: &Root, name: &str, drive: &Drive) -> ApstSettings {
    let kernel = ApstSettings::default();
    let parameter = |file: &str, or: u64| {
        let path = format!("sys/module/nvme_core/parameters/{file}");
        root.number(&path).unwrap_or(or)
    };
    let tolerance = nvme::latency_tolerance(root, name);
    let by_default = parameter("default_ps_max_latency_us", kernel.max_latency_us);
    let forced = root.optional("sys/module/nvme_core/parameters/force_apst");
    let quirks = match forced.as_deref() {
        Some("Y") => ApstQuirks::default(),
        _ => apst_quirks(root, name, drive),
    };
    ApstSettings {
        primary_timeout_ms: parameter("apst_primary_timeout_ms", kernel.primary_timeout_ms),
        primary_tolerance_us: parameter("apst_primary_latency_tol_us", kernel.primary_tolerance_us),
        secondary_timeout_ms: parameter("apst_secondary_timeout_ms", kernel.secondary_timeout_ms),
        secondary_tolerance_us: parameter(
            "apst_secondary_latency_tol_us",
            kernel.secondary_tolerance_us,
        ),
        max_latency_us: match tolerance.as_deref() {
            Some("any") => u64::MAX,
            Some(us) => us.parse().unwrap_or(by_default),
            None => by_default,
        },
        quirks,
        ..kernel
    }
}

/// What the quirk list goes by besides the drive's own words: its PCI id and the computer.
pub fn place(root: &Root, name: &str) -> QuirkPlace {
    let id = |file: &str| {
        let text = root.optional(&format!("sys/class/nvme/{name}/device/{file}"))?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let dmi = |file: &str| {
        let text = root.optional(&format!("sys/class/dmi/id/{file}"));
        text.into_iter().collect::<Vec<_>>()
    };
    QuirkPlace {
        pci: id("vendor")
            .zip(id("device"))
            .map(|(vendor, device)| PciId { vendor, device }),
        dmi: root.exists("sys/class/dmi/id").then(|| Dmi {
            sys_vendor: dmi("sys_vendor"),
            product_name: dmi("product_name"),
            board_vendor: dmi("board_vendor"),
            board_name: dmi("board_name"),
        }),
    }
}
