//! NVMe admin commands that read: Identify Controller and Get Features.
//!
//! [`NvmeAdmin`] is what the rest needs of a drive. [`NvmeDevice`] sends the commands to a character device;
//! [`NvmeFiles`] answers them from the files of a captured machine. [`open_drive_or_capture`] picks the right one.

mod commands;
mod device;
mod files;

use std::fmt;
use std::io;

use rustix::fs::FileType;
use wakepath_hardware::drive::id_ctrl;
use wakepath_policies::apst::{ApstTable, TABLE_BYTES};

use crate::Root;
pub use commands::NvmeAdmin;
pub use device::NvmeDevice;
pub use files::{NvmeFiles, captured_feature_path, captured_identity_path, captured_log_path};

/// Identifier of the APST feature (NVMe Base Specification, Feature Identifier 0Ch).
pub const APST: u8 = 0x0c;

/// A drive of a machine by its name: its character device if there is one, or else its captured answers.
pub fn open_drive_or_capture(root: &Root, drive_name: &str) -> Box<dyn NvmeAdmin> {
    match find_character_device(root, drive_name) {
        Some(device) => Box::new(device),
        None => Box::new(NvmeFiles::new(root.clone(), drive_name)),
    }
}

/// The character device of a drive by its name; `None` on a captured machine that has its answers as files.
pub fn find_character_device(root: &Root, drive_name: &str) -> Option<NvmeDevice> {
    let path = format!("dev/{drive_name}");
    let is_device = matches!(
        root.type_and_permissions(&path),
        Some((FileType::CharacterDevice, _))
    );
    (root.is_live() || is_device).then(|| NvmeDevice::new(root.clone(), path))
}

/// The APST feature of a drive: whether it is on, and the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApstFeature {
    /// `APSTE`.
    pub enabled: bool,
    /// The table.
    pub table: ApstTable,
}

impl ApstFeature {
    /// Reads the APST feature from a drive.
    ///
    /// # Errors
    /// As [`NvmeAdmin::get_feature`].
    pub fn read_from_drive(drive: &dyn NvmeAdmin) -> io::Result<Self> {
        let mut data = [0; TABLE_BYTES];
        let dword = drive.get_feature(APST, &mut data)?;
        Ok(Self {
            enabled: dword & 1 != 0,
            table: ApstTable::from_bytes(&data).map_err(io::Error::other)?,
        })
    }

    /// Parses the APST feature from the text that [`fmt::Display`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let (switch, hex) = text.trim().split_once(':')?;
        let enabled = match switch {
            "on" => true,
            "off" => false,
            _ => return None,
        };
        if hex.len() != 2 * TABLE_BYTES || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let mut data = [0; TABLE_BYTES];
        for (i, byte) in data.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&hex[2 * i..2 * i + 2], 16).ok()?;
        }
        let table = ApstTable::from_bytes(&data).ok()?;
        Some(Self { enabled, table })
    }
}

impl fmt::Display for ApstFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.enabled { "on:" } else { "off:" })?;
        for byte in self.table.to_bytes() {
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

/// Mean power of a drive over the last second in uW, by its SMART log: the field "Interval Power Measurement" (NVMe Base
/// Specification 2.3, log page 02h, bytes 240 to 243). `None` for drives that do not measure, which is the most.
pub fn read_interval_power_uw(root: &Root, drive_name: &str) -> Option<u64> {
    const SMART_LOG: u8 = 0x02;
    const SIZE: usize = 512;
    const FIELD: usize = 240;
    let mut log = [0; SIZE];
    let drive = open_drive_or_capture(root, drive_name);
    drive.get_log(SMART_LOG, &mut log).ok()?;
    let field = log.get(FIELD..)?.first_chunk::<4>()?;
    let measured = u32::from_le_bytes(*field);
    let value = u64::from(measured & 0xffff);
    // The scale of the states' powers: 0 is "not reported", 3 reserved.
    match (measured >> 16) & 0b11 {
        1 => Some(value * 100),
        2 => Some(value * 10_000),
        _ => None,
    }
}

/// The latency tolerance of a drive, to which the kernel fits the drive's table, in the kernel's words: microseconds,
/// `any` or `auto`.
pub fn read_latency_tolerance(root: &Root, drive_name: &str) -> Option<String> {
    root.read_text_if_readable(&format!(
        "sys/class/nvme/{drive_name}/power/pm_qos_latency_tolerance_us"
    ))
}

/// Reads the Identify Controller data of a drive.
///
/// # Errors
/// The device's, or `InvalidData` for an answer that is no Identify Controller structure.
pub fn identify_drive(
    root: &Root,
    drive_name: &str,
) -> io::Result<wakepath_hardware::drive::Drive> {
    let data = open_drive_or_capture(root, drive_name).read_identify_controller()?;
    let found = id_ctrl::parse_drive_dump(drive_name, &data);
    found
        .map(|found| found.drive)
        .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn features_print_and_parse_back(entries in prop::array::uniform32(any::<u64>()), enabled in any::<bool>()) {
            let feature = ApstFeature { enabled, table: ApstTable(entries) };
            prop_assert_eq!(ApstFeature::parse(&feature.to_string()), Some(feature));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,20}", long in "(on|off):.{512}") {
            let _ = ApstFeature::parse(&text);
            let _ = ApstFeature::parse(&long);
        }
    }
}
