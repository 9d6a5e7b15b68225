//! A captured drive, whose answers to commands are files.

use std::io;

use super::commands::NvmeAdmin;
use crate::Root;

/// The file below a captured root that holds a drive's Identify Controller structure.
pub fn captured_identity_path(drive: &str) -> String {
    format!("dev/{drive}.id-ctrl")
}

/// The file below a captured root that holds a drive's feature: dword 0, little-endian, and the data.
pub fn captured_feature_path(drive: &str, feature: u8) -> String {
    format!("dev/{drive}.feature-{feature:02x}")
}

/// The file below a captured root that holds a log page of a drive's controller.
pub fn captured_log_path(drive: &str, log: u8) -> String {
    format!("dev/{drive}.log-{log:02x}")
}

/// A captured drive.
pub struct NvmeFiles {
    root: Root,
    drive: String,
}

impl NvmeFiles {
    /// The captured drive of this name.
    pub fn new(root: Root, drive: &str) -> Self {
        Self {
            root,
            drive: drive.to_owned(),
        }
    }

    fn read_captured_answer(&self, file: &str) -> io::Result<Vec<u8>> {
        self.root.read_bytes(file).map_err(|e| match e {
            crate::SystemError::Read { source, .. } => source,
            other => io::Error::other(other),
        })
    }
}

impl NvmeAdmin for NvmeFiles {
    fn read_identify_controller(&self) -> io::Result<Vec<u8>> {
        self.read_captured_answer(&captured_identity_path(&self.drive))
    }

    fn get_feature(&self, feature: u8, data: &mut [u8]) -> io::Result<u32> {
        let held = self.read_captured_answer(&captured_feature_path(&self.drive, feature))?;
        let (dword, content) = held
            .split_first_chunk::<4>()
            .filter(|(_, content)| content.len() == data.len())
            .ok_or_else(|| {
                io::Error::other(format!(
                    "{} bytes were captured of the feature, expected {}",
                    held.len(),
                    data.len() + 4
                ))
            })?;
        data.copy_from_slice(content);
        Ok(u32::from_le_bytes(*dword))
    }

    fn get_log(&self, log: u8, data: &mut [u8]) -> io::Result<()> {
        let held = self.read_captured_answer(&captured_log_path(&self.drive, log))?;
        let begin = held.get(..data.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        data.copy_from_slice(begin);
        Ok(())
    }
}
