//! Where a file's blocks are on its device, and which of them a device never sees.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `FS_IOC_FIEMAP`, `_IOWR('f', 11, struct fiemap)` (`include/uapi/linux/fs.h`).
const FIEMAP: u64 = 0xC020_660B;
/// Flag of the request: the kernel writes dirty data out before it answers, so that no extent is still without a place.
const SYNC: u32 = 1;
/// Extents per call.
const BATCH: usize = 64;
/// Limit on the extents that are read of a file: a file with more is badly fragmented.
const MAX_EXTENTS: usize = 1 << 20;
/// `FIEMAP_EXTENT_LAST` (`include/uapi/linux/fiemap.h`, as the other flags).
const LAST: u32 = 0x1;
/// Flags of an extent whose blocks are not read from the device as they are in the file, with the reason for each.
const OBSTACLES: [(u32, &str); 6] = [
    (
        0x800,
        "unwritten: the file system answers with zeros by itself",
    ),
    (0x004, "not allocated yet: the data is in memory only"),
    (0x080, "encrypted by the file system"),
    (0x008, "compressed or encoded by the file system"),
    (0x200, "kept among the file system's own data"),
    (0x002, "without a known place on the device"),
];

/// A run of a file's bytes that lies in one piece on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileExtent {
    /// Offset of the extent's first byte in the file.
    pub start: u64,
    /// Number of bytes.
    pub length: u64,
    /// The kernel's flags of the extent, `FIEMAP_EXTENT_*`.
    pub flags: u32,
}

impl FileExtent {
    /// Why reads of this extent do not reach the device as they are; `None` if reads do.
    pub fn why_reads_are_indirect(&self) -> Option<&'static str> {
        let found = OBSTACLES.iter().find(|(flag, _)| self.flags & flag != 0);
        found.map(|(_, why)| *why)
    }
}

/// `struct fiemap_extent`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

/// The kernel's `struct fiemap`, with room for a batch of extents.
#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

const _: () = assert!(size_of::<RawExtent>() == 56 && size_of::<Request>() == 32 + 56 * BATCH);

/// The extents of a file in the order of its bytes. Bytes between two of them are a hole.
///
/// # Errors
/// The file system's; `Unsupported` where it does not tell.
pub fn read_file_extents(file: &File) -> io::Result<Vec<FileExtent>> {
    let mut all: Vec<FileExtent> = Vec::new();
    let mut next = 0;
    while all.len() < MAX_EXTENTS {
        let batch = read_extents_from_offset(file, next)?;
        let Some(last) = batch.last().copied() else {
            break;
        };
        all.extend(batch);
        next = last.start.saturating_add(last.length);
        if last.flags & LAST != 0 || last.length == 0 {
            break;
        }
    }
    Ok(all)
}

#[expect(unsafe_code, reason = "there is no safe way to ask for extents")]
fn read_extents_from_offset(file: &File, start: u64) -> io::Result<Vec<FileExtent>> {
    let mut request = Request {
        start,
        length: u64::MAX - start,
        flags: SYNC,
        mapped: 0,
        count: BATCH as u32,
        reserved: 0,
        extents: [RawExtent::default(); BATCH],
    };
    // SAFETY: the request number names a structure with the layout of `Request`, which lives until the call returns. Its
    // `count` is the number of extents that there is room for.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as libc::Ioctl, &raw mut request) };
    if status < 0 {
        return Err(io::Error::last_os_error());
    }
    let found = request.extents.iter().take(request.mapped as usize);
    Ok(found
        .map(|raw| FileExtent {
            start: raw.logical,
            length: raw.length,
            flags: raw.flags,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn written_blocks_have_extents_and_holes_have_none() {
        let directory = tempfile::tempdir().unwrap();
        let mut file = File::create_new(directory.path().join("file")).unwrap();
        file.write_all(&vec![7; 1 << 16]).unwrap();
        file.set_len(1 << 20).unwrap();
        let extents = match read_file_extents(&file) {
            Ok(extents) => extents,
            // As tmpfs does.
            Err(error) => return assert_eq!(error.kind(), io::ErrorKind::Unsupported),
        };
        let bytes: u64 = extents.iter().map(|extent| extent.length).sum();
        assert_eq!(bytes, 1 << 16, "{extents:?}");
        assert_eq!(extents[0].why_reads_are_indirect(), None);
    }

    #[test]
    fn blocks_that_never_reach_a_device_are_named() {
        let obstacles = [LAST, 0x801, 0x008].map(|flags| {
            let extent = FileExtent {
                start: 0,
                length: 4096,
                flags,
            };
            extent.why_reads_are_indirect()
        });
        assert_eq!(obstacles[0], None);
        assert!(obstacles[1].unwrap().contains("unwritten"));
        assert!(obstacles[2].unwrap().contains("compressed"));
    }
}
