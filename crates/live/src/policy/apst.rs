//! The APST table of a drive: planned as the kernel would, with the quirk list respected.

use wakepath_hardware::drive::Drive;
use wakepath_hardware::drive::quirks::{Dmi, PciId, Place, QuirkKind, Quirks};
use wakepath_policies::apst::{ApstQuirks, ApstSettings, plan};

use super::Target;
use crate::nvme::{self, ApstFeature};
use crate::{At, LiveError, Root};

impl Target<'_> {
    pub(super) fn apst(&mut self, settings: &ApstSettings) -> Result<(), LiveError> {
        let drives = self.drives();
        if drives.is_empty() {
            return Err(self.error("this machine shows no NVMe drive"));
        }
        for name in drives {
            let feature = self.table(&name, settings)?;
            self.want("apst", At::Drive(name), feature.to_string());
        }
        Ok(())
    }

    fn table(&mut self, name: &str, settings: &ApstSettings) -> Result<ApstFeature, LiveError> {
        let root = self.system.root();
        let drive = nvme::identify(root, name).map_err(|source| LiveError::Nvme {
            path: root.path(&format!("dev/{name}")),
            command: "Identify Controller",
            source,
        })?;
        let mut settings = *settings;
        let quirks = apst_quirks(root, name, &drive);
        if !self.selection.force {
            if quirks.no_apst {
                return Err(self.error(format!(
                    "{name} ({}): the kernel never uses APST on this drive, because it is known to break it; \
                     --force does it anyway",
                    drive.model
                )));
            }
            if quirks.no_deepest && !settings.quirks.no_deepest {
                settings.quirks.no_deepest = true;
                self.note(format!(
                    "{name} ({}): the deepest power state is left out, because it is known to break this drive; \
                     --force uses it",
                    drive.model
                ));
            }
        }
        let supported = drive.apsta.unwrap_or(true);
        let planned = plan(drive.npss, supported, &drive.states, &settings)
            .map_err(|why| self.error(format!("{name} ({}): {why}", drive.model)))?;
        if let Some(problem) = planned.table.problems(Some(drive.npss)).first() {
            return Err(self.error(format!(
                "{name} ({}): these settings give a table that the drive need not accept: {problem}",
                drive.model
            )));
        }
        if planned.enabled && planned.targets().next().is_none() {
            self.note(format!(
                "{name} ({}): no power state fits, so that the table is empty; `wakepath apst plan` says why",
                drive.model
            ));
        }
        Ok(ApstFeature {
            enabled: planned.enabled,
            table: planned.table,
        })
    }
}

/// What the kernel's quirk list says of APST on a drive of this machine.
pub(crate) fn apst_quirks(root: &Root, name: &str, drive: &Drive) -> ApstQuirks {
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

/// What the kernel is told to program into a drive of this machine: module parameters, latency tolerance, quirks.
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
pub fn place(root: &Root, name: &str) -> Place {
    let id = |file: &str| {
        let text = root.optional(&format!("sys/class/nvme/{name}/device/{file}"))?;
        u16::from_str_radix(text.trim_start_matches("0x"), 16).ok()
    };
    let dmi = |file: &str| {
        let text = root.optional(&format!("sys/class/dmi/id/{file}"));
        text.into_iter().collect::<Vec<_>>()
    };
    Place {
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
