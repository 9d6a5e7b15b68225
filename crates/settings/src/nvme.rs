//! Sets the APST feature of a drive.

use std::io;

use wakepath_system::Root;
use wakepath_system::nvme::{APST, ApstFeature, captured_feature_path, find_character_device};

use crate::text_file::overwrite_existing_file;

/// Opcode of Set Features (NVMe Base Specification, "Admin Command Set").
const SET_FEATURES: u8 = 0x09;

/// Sets the APST feature of a drive until its next reset. For a captured drive, a file takes the value.
///
/// # Errors
/// The device's; `Other` with the status if the drive refuses.
pub(crate) fn set_apst_until_drive_reset(
    root: &Root,
    drive_name: &str,
    feature: &ApstFeature,
) -> io::Result<()> {
    let dword11 = u32::from(feature.enabled);
    let mut table = feature.table.to_bytes();
    if let Some(device) = find_character_device(root, drive_name) {
        // Bit 31 of dword 10, "save", stays 0: the drive forgets the change at its next reset, even if wakepath is
        // killed.
        let dwords = (u32::from(APST), dword11);
        return device
            .send_admin_command(SET_FEATURES, dwords, &mut table)
            .map(|_| ());
    }
    let mut content = dword11.to_le_bytes().to_vec();
    content.extend_from_slice(&table);
    overwrite_existing_file(root, &captured_feature_path(drive_name, APST), &content)
}
