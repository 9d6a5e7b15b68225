//! Sends admin commands to a controller's character device, by ioctl.

use std::io;
use std::os::fd::AsRawFd;

use rustix::fs::OFlags;
use wakepath_hardware::drive::id_ctrl;

use super::commands::NvmeAdmin;
use crate::Root;

/// `NVME_IOCTL_ADMIN_CMD`, `_IOWR('N', 0x41, struct nvme_admin_cmd)` (`include/uapi/linux/nvme_ioctl.h`).
const ADMIN_COMMAND: u64 = 0xC048_4E41;
/// Opcodes (NVMe Base Specification, "Admin Command Set").
const IDENTIFY: u8 = 0x06;
const GET_FEATURES: u8 = 0x0a;
const GET_LOG_PAGE: u8 = 0x02;
/// Identify: the controller.
const CNS_CONTROLLER: u32 = 1;

/// The kernel's `struct nvme_passthru_cmd`.
#[repr(C)]
#[derive(Default)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dword2: u32,
    dword3: u32,
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    dword10: u32,
    dword11: u32,
    dword12_to_15: [u32; 4],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// A controller's character device, such as `/dev/nvme0`.
pub struct NvmeDevice {
    root: Root,
    path: String,
}

impl NvmeDevice {
    /// The controller whose character device is at this path below a root.
    pub const fn new(root: Root, path: String) -> Self {
        Self { root, path }
    }

    /// Sends an admin command by opcode and dwords 10 and 11, and returns dword 0 of its completion.
    ///
    /// The kernel writes to `data` for commands that read and reads from it for those that write; it is
    /// mutable for both, which is the stricter of the two.
    ///
    /// # Errors
    /// The device's; `Other` with the status if the drive refuses.
    #[expect(unsafe_code, reason = "there is no safe way to send an admin command")]
    pub fn send_admin_command(
        &self,
        opcode: u8,
        (dword10, dword11): (u32, u32),
        data: &mut [u8],
    ) -> io::Result<u32> {
        let device = self.root.open_file_or_folder(&self.path, OFlags::RDONLY)?;
        let mut command = Command {
            opcode,
            dword10,
            dword11,
            ..Command::default()
        };
        command.address = data.as_mut_ptr() as u64;
        command.data_length = u32::try_from(data.len()).map_err(io::Error::other)?;
        // SAFETY: the request number names a structure of the size of `Command`, which lives until the
        // call returns, as does the buffer that it points to, of the length that it gives.
        let status = unsafe {
            libc::ioctl(
                device.as_raw_fd(),
                ADMIN_COMMAND as libc::Ioctl,
                &raw mut command,
            )
        };
        match status {
            0 => Ok(command.result),
            status if status > 0 => Err(io::Error::other(format!(
                "the drive refuses it with NVMe status {status:#x}"
            ))),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl NvmeAdmin for NvmeDevice {
    fn read_identify_controller(&self) -> io::Result<Vec<u8>> {
        let mut data = vec![0; id_ctrl::SIZE];
        self.send_admin_command(IDENTIFY, (CNS_CONTROLLER, 0), &mut data)?;
        Ok(data)
    }

    fn get_feature(&self, feature: u8, data: &mut [u8]) -> io::Result<u32> {
        self.send_admin_command(GET_FEATURES, (u32::from(feature), 0), data)
    }

    fn get_log(&self, log: u8, data: &mut [u8]) -> io::Result<()> {
        // Number of dwords, counted from 0, in the upper half of dword 10 and the lower half of dword 11.
        let last_dword = u32::try_from(data.len() / 4)
            .ok()
            .and_then(|dwords| dwords.checked_sub(1))
            .filter(|_| data.len().is_multiple_of(4))
            .ok_or(io::ErrorKind::InvalidInput)?;
        let dword10 = u32::from(log) | ((last_dword & 0xffff) << 16);
        self.send_admin_command(GET_LOG_PAGE, (dword10, last_dword >> 16), data)
            .map(|_| ())
    }
}
