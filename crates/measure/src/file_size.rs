//! The size of a new test file, where nobody names one.

use std::fs::File;
use std::path::Path;

use crate::MeasureError;

/// Least size of a measured file in bytes: a smaller one would be read from the drive's own cache.
pub(crate) const MIN_BYTES: u64 = 16 << 20;
/// Most bytes of a test file: client drives have up to 1 GiB of memory of their own, and each writing step may go through the file.
const MOST_BYTES: u64 = 2 << 30;
/// A test file larger than most drives' memory, where it leaves half of the room.
const ENOUGH_BYTES: u64 = 1 << 30;
/// Part of the free space that a test file takes, between these.
const SHARE: u64 = 16;

/// Free space on a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FreeSpace {
    /// Free for this user.
    pub(crate) free: u64,
    /// Kept free by every experiment: a hundredth of the file system.
    pub(crate) reserve: u64,
}

impl FreeSpace {
    /// Looks at the file system of a folder.
    pub(crate) fn look(folder: &Path) -> Result<Self, MeasureError> {
        let opened = File::open(folder).map_err(|source| MeasureError::Io {
            path: folder.to_owned(),
            action: "opening the folder",
            source,
        })?;
        let room = rustix::fs::fstatvfs(&opened).map_err(|errno| MeasureError::Io {
            path: folder.to_owned(),
            action: "looking for room",
            source: errno.into(),
        })?;
        Ok(Self {
            free: room.f_bavail.saturating_mul(room.f_frsize),
            reserve: room.f_blocks.saturating_mul(room.f_frsize) / 100,
        })
    }

    /// Whether so many bytes leave the reserve free.
    pub(crate) const fn has_room_for(self, bytes: u64) -> bool {
        self.room() >= bytes
    }

    /// What test files may take.
    const fn room(self) -> u64 {
        self.free.saturating_sub(self.reserve)
    }
}

/// A size for test files, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TestFileSize {
    /// Bytes of each file, whole MiB.
    pub bytes: u64,
    /// How the size was chosen, in a sentence for people.
    pub reason: String,
}

impl TestFileSize {
    /// Chooses the size of so many files that are in a folder at the same time.
    ///
    /// Each has a sixteenth of the free space there, 1 to 2 GiB. All of them take at most half of the room.
    ///
    /// # Errors
    /// The folder cannot be looked at, or has no room for the smallest files.
    pub fn choose(folder: &Path, files: u64) -> Result<Self, MeasureError> {
        let space = FreeSpace::look(folder)?;
        Self::choose_by_space(space, files).ok_or_else(|| {
            let why = format!(
                "{} MiB are free there; expected {} MiB for test files, with a hundredth of the file system kept free; make room, or \
                 name another folder",
                space.free >> 20,
                (2 * files * MIN_BYTES + space.reserve) >> 20
            );
            MeasureError::refuse(folder, why)
        })
    }

    fn choose_by_space(space: FreeSpace, files: u64) -> Option<Self> {
        let wanted = (space.free / SHARE).clamp(ENOUGH_BYTES, MOST_BYTES);
        let most = space.room() / files.max(1) / 2;
        let bytes = wanted.min(most) >> 20 << 20;
        let reason = format!(
            "takes {} MiB for {}, by the {} MiB that are free; --size names another size",
            bytes >> 20,
            if files > 1 {
                "each test file"
            } else {
                "the test file"
            },
            space.free >> 20
        );
        (bytes >= MIN_BYTES).then_some(Self { bytes, reason })
    }

    /// Checks that so many files of this size have room in a folder at the same time.
    ///
    /// # Errors
    /// As [`Self::choose`].
    pub fn check_room(folder: &Path, bytes: u64, files: u64) -> Result<(), MeasureError> {
        let space = FreeSpace::look(folder)?;
        let needed = bytes.saturating_mul(files);
        if space.has_room_for(needed) {
            return Ok(());
        }
        let why = format!(
            "{} MiB are free there; expected {} MiB for {files} test files, with a hundredth of the file system kept free. A smaller \
             --size needs less",
            space.free >> 20,
            needed.saturating_add(space.reserve) >> 20
        );
        Err(MeasureError::refuse(folder, why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choose(free_mib: u64, files: u64) -> Option<u64> {
        let space = FreeSpace {
            free: free_mib << 20,
            reserve: 100 << 20,
        };
        let chosen = TestFileSize::choose_by_space(space, files)?;
        assert!(chosen.reason.contains(&format!("{free_mib} MiB")));
        Some(chosen.bytes >> 20)
    }

    #[test]
    fn a_file_grows_with_the_free_space_and_leaves_half_of_it() {
        assert_eq!(choose(1 << 20, 1), Some(2048));
        assert_eq!(choose(24 << 10, 1), Some(1536));
        assert_eq!(choose(8 << 10, 1), Some(1024));
        // Half of 1,500 MiB that are free beyond the reserve, by one file and by two.
        assert_eq!(choose(1600, 1), Some(750));
        assert_eq!(choose(1600, 2), Some(375));
        assert_eq!(choose(100 + 32, 1), Some(16));
        assert_eq!(choose(100 + 31, 1), None);
        assert_eq!(choose(50, 1), None);
    }

    #[test]
    fn a_folder_without_room_is_refused_in_one_sentence() {
        let folder = tempfile::tempdir().unwrap();
        let most = u64::MAX >> 20 << 20;
        let refused = TestFileSize::check_room(folder.path(), most, 2).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("MiB are free there; expected") && text.contains("smaller --size"),
            "{text}"
        );
        TestFileSize::check_room(folder.path(), 1 << 20, 2).unwrap();
        let gone = TestFileSize::choose(&folder.path().join("none"), 1).unwrap_err();
        assert!(gone.to_string().contains("opening the folder"), "{gone}");
    }
}
