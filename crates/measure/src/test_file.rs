//! The file or device that a drive is measured through.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{FlockOperation, Mode, OFlags, SeekFrom};
use rustix::io::Errno;
use serde::Serialize;
use wakepath_system::extents::{FileExtent, read_file_extents};
use wakepath_system::{Root, System};

use crate::file_size::{FreeSpace, MIN_BYTES};
use crate::{ExperimentControl, MeasureError};

/// Alignment of addresses, lengths and memory: the largest logical block of drives, and a page.
pub(crate) const ALIGNMENT: usize = 4096;
/// Bytes per write while a file is filled.
const CHUNK: usize = 1 << 20;
/// Number of blocks of a file that are looked at for zeros before the experiment.
const SAMPLED: u64 = 256;
/// File systems without a drive behind them, by `statfs(2)`.
const IN_MEMORY: [(i64, &str); 2] = [(0x0102_1994, "tmpfs"), (0x8584_58f6, "ramfs")];

/// The file or device that a drive is measured through: an existing one, or a new one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TestTarget {
    /// An existing file or device, opened for reading only.
    Read(PathBuf),
    /// A new file: filled with random data, measured by reads and writes, and removed.
    Write {
        /// The new file.
        path: PathBuf,
        /// Size of the new file in bytes.
        bytes: u64,
    },
}

impl TestTarget {
    /// Path of the file or device.
    pub fn path(&self) -> &Path {
        match self {
            Self::Read(path) | Self::Write { path, .. } => path,
        }
    }

    /// Bytes written to fill the file before anything is measured.
    pub const fn fill_bytes(&self) -> u64 {
        match self {
            Self::Read(_) => 0,
            Self::Write { bytes, .. } => *bytes,
        }
    }

    /// Checks what can be known before anything is written.
    ///
    /// # Errors
    /// The file to read is missing, the file to write exists, the size is too small, or no drive is behind the path.
    pub fn check(&self) -> Result<(), MeasureError> {
        match self {
            Self::Read(path) => TestFile::open_to_read(path).map(|_| ()),
            Self::Write { path, bytes } => check_new(path, *bytes),
        }
    }
}

/// The device behind a file, as sysfs names it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackingDevice {
    /// Name of the disk, such as `nvme0n1`.
    pub disk: String,
    /// Model, if the disk tells.
    pub model: Option<String>,
}

impl BackingDevice {
    /// The disk behind a target, also before a file is made; `None` as for [`Self::find`].
    pub(crate) fn find_of_target(root: &Root, target: &TestTarget) -> Option<Self> {
        let about = match target {
            TestTarget::Read(path) => std::fs::metadata(path),
            TestTarget::Write { path, .. } => std::fs::metadata(folder_of(path)),
        };
        Self::find(root, device_number(&about.ok()?))
    }

    /// The disk with a device number; `None` for file systems over several disks, or none.
    fn find(root: &Root, device: u64) -> Option<Self> {
        let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
        let link = root.absolute_path(&format!("sys/dev/block/{major}:{minor}"));
        let place = std::fs::canonicalize(link).ok()?;
        let disk = if place.join("partition").exists() {
            place.parent()?
        } else {
            &place
        };
        let disk = disk.file_name()?.to_str()?.to_owned();
        let model = root.read_text_if_readable(&format!("sys/block/{disk}/device/model"));
        Some(Self {
            model: model.filter(|model| !model.is_empty()),
            disk,
        })
    }
}

/// An open file, read and written past the page cache.
#[derive(Debug)]
pub(crate) struct TestFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    device: Option<BackingDevice>,
}

impl TestFile {
    /// Opens a target; a new file is filled, and loses its name at once, so that nothing is left after a kill.
    pub(crate) fn open(
        target: &TestTarget,
        system: &System,
        control: ExperimentControl<'_>,
    ) -> Result<Self, MeasureError> {
        let mut opened = match target {
            TestTarget::Read(path) => Self::open_to_read(path)?,
            TestTarget::Write { path, bytes } => {
                check_new(path, *bytes)?;
                let file = create(path)?;
                let new = Self {
                    path: path.clone(),
                    file,
                    bytes: *bytes,
                    device: None,
                };
                new.fill(control)?;
                new
            }
        };
        opened.lock()?;
        let metadata = opened.metadata()?;
        let is_device = metadata.file_type().is_block_device();
        opened.device = BackingDevice::find(system.root(), device_number(&metadata));
        if !is_device {
            opened.check_extents()?;
        }
        opened.check_content()?;
        Ok(opened)
    }

    fn open_to_read(path: &Path) -> Result<Self, MeasureError> {
        let there = std::fs::metadata(path).map_err(|source| MeasureError::Io {
            path: path.to_owned(),
            action: "opening it",
            source,
        })?;
        let kind = there.file_type();
        if !kind.is_file() && !kind.is_block_device() {
            let expected = "expected a regular file, or a drive's block device";
            return Err(MeasureError::refuse(path, expected));
        }
        let flags = OFlags::RDONLY | OFlags::DIRECT | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file: File = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|source| MeasureError::Io {
                path: path.to_owned(),
                action: "opening it for direct reads",
                source: source.into(),
            })?
            .into();
        let end = rustix::fs::seek(&file, SeekFrom::End(0)).unwrap_or(there.len());
        // What is behind the last whole block is not read.
        let bytes = end - end % CHUNK as u64;
        if bytes < MIN_BYTES {
            let why = format!(
                "has {end} bytes; expected at least {} MiB, so that a drive's own cache does not answer",
                MIN_BYTES >> 20
            );
            return Err(MeasureError::refuse(path, why));
        }
        // Devices are in devtmpfs, which says that it is tmpfs.
        if kind.is_file() {
            check_file_system(&file, path)?;
        }
        Ok(Self {
            path: path.to_owned(),
            file,
            bytes,
            device: None,
        })
    }

    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) const fn device(&self) -> Option<&BackingDevice> {
        self.device.as_ref()
    }

    pub(crate) const fn file(&self) -> &File {
        &self.file
    }

    /// A second way to write the file: each write ends when it is on the media (`O_DSYNC`).
    pub(crate) fn open_forced(&self) -> Result<File, MeasureError> {
        use std::os::fd::AsRawFd;
        let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let flags = OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC | OFlags::CLOEXEC;
        let opened = rustix::fs::open(own, flags, Mode::empty());
        opened
            .map(File::from)
            .map_err(|errno| self.error("opening it for forced writes", errno.into()))
    }

    pub(crate) fn error(&self, action: &'static str, source: std::io::Error) -> MeasureError {
        MeasureError::Io {
            path: self.path.clone(),
            action,
            source,
        }
    }

    /// The error that this file cannot serve as the measured one.
    pub(crate) fn refuse(&self, why: impl Into<String>) -> MeasureError {
        MeasureError::refuse(&self.path, why)
    }

    fn metadata(&self) -> Result<Metadata, MeasureError> {
        let metadata = self.file.metadata();
        metadata.map_err(|source| self.error("looking at it", source))
    }

    /// Keeps a second measurement, also one without root, from the same file.
    fn lock(&self) -> Result<(), MeasureError> {
        match rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockExclusive) {
            // Not every file system has locks.
            Ok(()) | Err(Errno::NOLCK | Errno::OPNOTSUPP) => Ok(()),
            Err(Errno::AGAIN) => Err(self.refuse(
                "another process has locked the file, such as a second measurement; wait for its end",
            )),
            Err(errno) => Err(self.error("locking it", errno.into())),
        }
    }

    /// Writes random data over the whole file and waits until the drive has it.
    fn fill(&self, control: ExperimentControl<'_>) -> Result<(), MeasureError> {
        let mut random = Pcg64Mcg::seed_from_u64(0x5eed);
        let mut buffer = AlignedBuffer::new(CHUNK);
        let mut offset = 0;
        while offset < self.bytes {
            if control.is_cancelled() {
                return Err(MeasureError::Cancelled);
            }
            // New data for each chunk: drives and file systems recognise data that repeats.
            random.fill(buffer.bytes_mut());
            let length = CHUNK.min((self.bytes - offset) as usize);
            let written = rustix::io::pwrite(&self.file, &buffer.bytes()[..length], offset)
                .map_err(|e| self.error("filling it with random data", e.into()))?;
            if written == 0 {
                return Err(self.error("filling it with random data", Errno::NOSPC.into()));
            }
            offset += written as u64;
        }
        rustix::fs::fsync(&self.file).map_err(|e| self.error("writing it to the drive", e.into()))
    }

    /// Refuses files with bytes that no read fetches from the device.
    fn check_extents(&self) -> Result<(), MeasureError> {
        let extents = match read_file_extents(&self.file) {
            Ok(extents) => extents,
            Err(error) if error.kind() == std::io::ErrorKind::Unsupported => {
                return Err(self.refuse(
                    "its file system does not tell where the blocks are (FIEMAP), so reads may not reach the drive; \
                     name a file on ext4, XFS, Btrfs or F2FS, or the device",
                ));
            }
            Err(error) => return Err(self.error("asking for its extents", error)),
        };
        match find_unsuitable_extent(&extents, self.bytes) {
            None => Ok(()),
            Some((offset, why)) => Err(self.refuse(format!(
                "the block at byte {offset} is {why}, so reads do not reach the drive; name a file that was written through"
            ))),
        }
    }

    /// Refuses content that reads as zeros: drives and hosts answer for trimmed blocks without their media.
    fn check_content(&self) -> Result<(), MeasureError> {
        let mut buffer = AlignedBuffer::new(ALIGNMENT);
        let blocks = self.bytes / ALIGNMENT as u64;
        let mut zeros = 0;
        for sample in 0..SAMPLED {
            let block = u128::from(blocks) * u128::from(sample) / u128::from(SAMPLED);
            let offset = block as u64 * ALIGNMENT as u64;
            let read = rustix::io::pread(&self.file, buffer.bytes_mut(), offset)
                .map_err(|e| self.error("reading it", e.into()))?;
            zeros += u64::from(buffer.bytes()[..read].iter().all(|byte| *byte == 0));
        }
        if zeros * 10 > SAMPLED {
            return Err(self.refuse(format!(
                "{zeros} of {SAMPLED} sampled blocks are zeros, as trimmed blocks read; drives answer for these without \
                 their media. Name a file with data, or let --write-to make one"
            )));
        }
        Ok(())
    }
}

/// A first byte that reads do not fetch from the device, and why.
fn find_unsuitable_extent(extents: &[FileExtent], bytes: u64) -> Option<(u64, &'static str)> {
    let mut next = 0;
    for extent in extents.iter().filter(|extent| extent.start < bytes) {
        if extent.start > next {
            break;
        }
        if let Some(why) = extent.why_reads_are_indirect() {
            return Some((extent.start, why));
        }
        next = extent.start.saturating_add(extent.length);
    }
    (next < bytes).then_some((next, "in a hole of the file"))
}

fn check_new(path: &Path, bytes: u64) -> Result<(), MeasureError> {
    if path.symlink_metadata().is_ok() {
        let why = "is there already, and measuring would write over it; name a new file";
        return Err(MeasureError::refuse(path, why));
    }
    if bytes < MIN_BYTES || !bytes.is_multiple_of(CHUNK as u64) {
        let why = format!(
            "a size of {bytes} bytes; expected whole MiB, at least {}",
            MIN_BYTES >> 20
        );
        return Err(MeasureError::refuse(path, why));
    }
    let folder = folder_of(path);
    let opened = File::open(folder).map_err(|source| MeasureError::Io {
        path: folder.to_owned(),
        action: "opening the folder",
        source,
    })?;
    check_file_system(&opened, path)?;
    let space = FreeSpace::look(folder)?;
    if !space.has_room_for(bytes) {
        let why = format!(
            "{} MiB are free in its folder; expected {} MiB, a hundredth of the file system kept free. A smaller --size \
             needs less",
            space.free >> 20,
            bytes.saturating_add(space.reserve) >> 20
        );
        return Err(MeasureError::refuse(path, why));
    }
    Ok(())
}

/// Number of a block device, or of the device below a file.
fn device_number(about: &Metadata) -> u64 {
    if about.file_type().is_block_device() {
        about.rdev()
    } else {
        about.dev()
    }
}

/// The folder of a file.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn check_file_system(file: &File, path: &Path) -> Result<(), MeasureError> {
    let kind = rustix::fs::fstatfs(file).map(|about| about.f_type);
    let in_memory = kind.ok().and_then(|kind| {
        let known = IN_MEMORY.iter().find(|(magic, _)| *magic == kind);
        known.map(|(_, name)| *name)
    });
    match in_memory {
        None => Ok(()),
        Some(name) => Err(MeasureError::File {
            path: path.to_owned(),
            why: format!("is on {name}, which is memory; name a file on the drive"),
        }),
    }
}

/// Makes a new file of random data that stays, for reads by other programs.
///
/// # Errors
/// As [`TestTarget::check`] for a new file; the drive is full, or a signal came.
pub fn write_random_file(
    path: &Path,
    bytes: u64,
    control: ExperimentControl<'_>,
) -> Result<(), MeasureError> {
    check_new(path, bytes)?;
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    let file = made.map_err(|errno| MeasureError::Io {
        path: path.to_owned(),
        action: "making it",
        source: errno.into(),
    })?;
    let new = TestFile {
        path: path.to_owned(),
        file: file.into(),
        bytes,
        device: None,
    };
    new.fill(control)
}

/// Makes a new file without leaving its name behind.
fn create(path: &Path) -> Result<File, MeasureError> {
    let flags = OFlags::RDWR
        | OFlags::CREATE
        | OFlags::EXCL
        | OFlags::NOFOLLOW
        | OFlags::DIRECT
        | OFlags::CLOEXEC;
    let made = rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR);
    // A file system may make the file and refuse direct I/O then (open(2)).
    let removed = match &made {
        Ok(_) | Err(Errno::INVAL) => rustix::fs::unlink(path),
        Err(_) => Ok(()),
    };
    let file = made.map_err(|errno| MeasureError::Io {
        path: path.to_owned(),
        action: "making it for direct I/O",
        source: errno.into(),
    })?;
    removed.map_err(|errno| MeasureError::Io {
        path: path.to_owned(),
        action: "taking its name away",
        source: errno.into(),
    })?;
    Ok(file.into())
}

/// Memory that direct I/O accepts.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    length: usize,
}

impl AlignedBuffer {
    /// Zeroed memory with this length, aligned to [`ALIGNMENT`].
    pub(crate) fn new(length: usize) -> Self {
        let memory = vec![0; length + ALIGNMENT];
        let start = memory.as_ptr().align_offset(ALIGNMENT);
        Self {
            memory,
            start,
            length,
        }
    }

    /// Memory with random content.
    pub(crate) fn with_random_content(length: usize, seed: u64) -> Self {
        let mut buffer = Self::new(length);
        Pcg64Mcg::seed_from_u64(seed).fill(buffer.bytes_mut());
        buffer
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.memory[self.start..][..self.length]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..][..self.length]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, length: u64, flags: u32) -> FileExtent {
        FileExtent {
            start,
            length,
            flags,
        }
    }

    #[test]
    fn holes_and_unwritten_blocks_are_found() {
        let whole = [extent(0, 4096, 0), extent(4096, 8192, 1)];
        assert_eq!(find_unsuitable_extent(&whole, 12288), None);
        assert_eq!(find_unsuitable_extent(&whole, 16384).unwrap().0, 12288);
        assert_eq!(find_unsuitable_extent(&whole[1..], 12288).unwrap().0, 0);
        assert_eq!(find_unsuitable_extent(&[], 4096).unwrap().0, 0);
        let unwritten = [extent(0, 4096, 0), extent(4096, 8192, 0x800)];
        let (offset, why) = find_unsuitable_extent(&unwritten, 12288).unwrap();
        assert!(offset == 4096 && why.contains("unwritten"));
        // What is behind the measured part does not matter.
        assert_eq!(find_unsuitable_extent(&unwritten, 4096), None);
    }

    #[test]
    fn buffers_are_aligned() {
        for length in [512, 4096, 1 << 20] {
            let mut buffer = AlignedBuffer::new(length);
            assert_eq!(buffer.bytes_mut().len(), length);
            assert_eq!(buffer.bytes().as_ptr() as usize % ALIGNMENT, 0);
        }
        let [one, other] = [1, 2].map(|seed| AlignedBuffer::with_random_content(64, seed));
        assert_ne!(one.bytes(), other.bytes());
    }

    fn new_target(path: PathBuf, bytes: u64) -> TestTarget {
        TestTarget::Write { path, bytes }
    }

    #[track_caller]
    fn says(target: &TestTarget, part: &str) {
        let error = target.check().unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }

    #[test]
    fn what_cannot_be_measured_through_is_refused() {
        let directory = tempfile::tempdir_in(".").unwrap();
        let path = directory.path().join("file");
        let read = TestTarget::Read(path.clone());
        says(&read, "No such file");
        says(
            &TestTarget::Read(directory.path().to_owned()),
            "regular file",
        );
        File::create(&path).unwrap();
        says(&read, "0 bytes");
        says(&new_target(path, MIN_BYTES), "is there already");
        let new = directory.path().join("new");
        says(&new_target(new.clone(), 5), "at least 16");
        says(&new_target(new.clone(), 1 << 60), "are free");
        says(&new_target(new.join("below"), MIN_BYTES), "No such file");
        says(&new_target("/dev/shm/new".into(), MIN_BYTES), "memory");
        new_target(new, MIN_BYTES).check().unwrap();
    }
}
