//! Maximum speeds of controllers in drives from many makers.
//!
//! The data are `data/controller_speeds.csv`. A drive without published speeds takes the speeds of the known or likely
//! controller.

use std::sync::OnceLock;

use serde::Deserialize;

use super::class::{COMMONEST, SpeedClass};
use super::csv_rows::read_well_formed_csv_rows;
use crate::drive::DriveTable;

const CONTROLLERS: &str = include_str!("../../../data/controller_speeds.csv");

/// A controller with maximum speeds, published for the controller or for a drive.
#[derive(Debug, Deserialize)]
pub(super) struct Controller {
    /// PCI vendor id by which drives report the controller's maker, such as `0x126f`.
    pub pci_vendor: String,
    /// Maker and name.
    #[serde(rename = "controller")]
    pub name: String,
    pub pcie_gen: String,
    /// `yes`, `hmb` for the host's memory, or `no`.
    pub dram: String,
    /// The latest NVMe version reported by drives with the controller.
    pub latest_nvme: String,
    pub seq_read_mb_s: Option<f64>,
    pub seq_write_mb_s: Option<f64>,
    pub rand_read_kiops_max: Option<f64>,
    pub rand_write_kiops_max: Option<f64>,
    pub source: String,
    pub note: String,
}

impl Controller {
    fn reads_or_infinity(&self) -> f64 {
        self.seq_read_mb_s.unwrap_or(f64::INFINITY)
    }

    /// Class of a client drive with this controller. Drives without DRAM count as drives with the host's
    /// memory, since figures exist for the latter only.
    pub(super) fn speed_class(&self) -> SpeedClass<'_> {
        SpeedClass {
            pcie_gen: &self.pcie_gen,
            dram: match self.dram.as_str() {
                "no" => "hmb",
                dram => dram,
            },
            ..COMMONEST
        }
    }
}

/// All controllers of the file, in its order.
pub(super) fn builtin_controllers() -> &'static [Controller] {
    static DATA: OnceLock<Vec<Controller>> = OnceLock::new();
    DATA.get_or_init(|| read_well_formed_csv_rows(CONTROLLERS))
}

/// The controller with this maker and name.
pub(super) fn find_controller_by_name(name: &str) -> Option<&'static Controller> {
    builtin_controllers()
        .iter()
        .find(|controller| controller.name == name)
}

/// The controller that a drive is likely to have, by the PCI vendor and the NVMe version that the drive reports: of
/// those of that vendor with the earliest `latest_nvme` that covers the drive, the one with the slowest sequential reads,
/// and of two equally slow ones that without DRAM. A drive that reports no version counts as an early one.
pub(super) fn find_likely_controller(table: &DriveTable) -> Option<&'static Controller> {
    let vendor = format!("0x{:04x}", table.drive.vendor_id?);
    let version = table.nvme_version.as_deref().unwrap_or_default();
    let version = if version.starts_with('<') {
        ""
    } else {
        version
    };
    let fitting: Vec<&Controller> = builtin_controllers()
        .iter()
        .filter(|controller| controller.pci_vendor == vendor)
        .filter(|controller| controller.latest_nvme.as_str() >= version)
        .collect();
    let earliest = fitting.iter().map(|c| &c.latest_nvme).min()?;
    fitting
        .iter()
        .filter(|controller| controller.latest_nvme == *earliest)
        .min_by(|a, b| {
            let by_reads = a.reads_or_infinity().total_cmp(&b.reads_or_infinity());
            by_reads.then_with(|| (a.dram == "yes").cmp(&(b.dram == "yes")))
        })
        .copied()
}
