//! The admin commands that the rest needs of a drive.

use std::io;

/// A drive that answers admin commands.
pub trait NvmeAdmin {
    /// The Identify Controller data structure.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses.
    fn identify(&self) -> io::Result<Vec<u8>>;

    /// The value in force of a feature: dword 0 of the completion, and the data.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses.
    fn get_feature(&self, feature: u8, data: &mut [u8]) -> io::Result<u32>;
}
