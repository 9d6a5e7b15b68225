//! The NVMe admin commands that reading a drive needs.

use std::io;

/// A drive that answers admin commands.
pub trait NvmeAdmin {
    /// Reads the drive's Identify Controller data structure.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses.
    fn read_identify_controller(&self) -> io::Result<Vec<u8>>;

    /// Reads the value in force of a feature: returns dword 0 of the completion, and fills `data`.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses.
    fn get_feature(&self, feature: u8, data: &mut [u8]) -> io::Result<u32>;

    /// Reads the begin of a log page of the controller, as long as `data`.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses; `InvalidInput` for a length that is not in whole dwords.
    fn get_log(&self, log: u8, data: &mut [u8]) -> io::Result<()>;
}
