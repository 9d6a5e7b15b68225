//! I/O engines.

use std::fmt;

use serde::Serialize;

/// How a job submits I/O and waits for it (fio's `ioengine`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum IoEngine {
    /// Engine `sync`: `read(2)` and `write(2)` after `lseek(2)`.
    Sync,
    /// `pread(2)` and `pwrite(2)`.
    #[default]
    Psync,
    /// `preadv(2)` and `pwritev(2)`.
    Pvsync,
    /// `preadv2(2)` and `pwritev2(2)`.
    Pvsync2,
    /// Engine `libaio`: `io_submit(2)` and `io_getevents(2)`.
    Libaio,
    /// `io_uring_enter(2)`.
    IoUring,
    /// Engine `posixaio`: the C library's threads, one per file, with one I/O at a time.
    Posixaio,
    /// Engine `vsync`: `readv(2)` and `writev(2)` after `lseek(2)`.
    Vsync,
    /// io_uring with commands of the drive (`IORING_OP_URING_CMD`).
    IoUringCmd,
    /// Engine `sg`: SCSI commands by `ioctl(2)`.
    Sg,
    /// `mmap(2)`: the process copies from and to its mapping of the file, and page faults read what is missing.
    Mmap,
}

impl IoEngine {
    /// All supported engines with fio's names for them.
    pub(crate) const NAMES: [(&'static str, Self); 11] = [
        ("sync", Self::Sync),
        ("psync", Self::Psync),
        ("pvsync", Self::Pvsync),
        ("pvsync2", Self::Pvsync2),
        ("libaio", Self::Libaio),
        ("io_uring", Self::IoUring),
        ("posixaio", Self::Posixaio),
        ("vsync", Self::Vsync),
        ("io_uring_cmd", Self::IoUringCmd),
        ("sg", Self::Sg),
        ("mmap", Self::Mmap),
    ];

    /// Whether the engine's system call, or its page faults, return only when the I/O is done, so that a process has at most one
    /// I/O in flight.
    pub const fn is_synchronous(self) -> bool {
        !matches!(
            self,
            Self::Libaio | Self::IoUring | Self::IoUringCmd | Self::Posixaio
        )
    }

    /// Whether the engine submits through an io_uring ring.
    pub const fn is_io_uring(self) -> bool {
        matches!(self, Self::IoUring | Self::IoUringCmd)
    }

    /// Whether the engine never uses the page cache, whatever `direct` says.
    pub const fn is_always_direct(self) -> bool {
        matches!(self, Self::IoUringCmd | Self::Sg)
    }

    /// The engine that is simulated instead of this one, in words for the end of a sentence; `None` if this engine has
    /// its own model.
    pub(crate) const fn simulated_as_other_engine_clause(self) -> Option<&'static str> {
        match self {
            Self::Posixaio => Some(
                "is simulated as psync: the C library's threads do one I/O of a file at a time; waking them is left out",
            ),
            Self::IoUringCmd => {
                Some("is simulated as io_uring: what it saves in the block layer is left out")
            }
            Self::Sg => Some("is simulated as psync"),
            _ => None,
        }
    }

    /// Whether the kernel accounts a wait in this engine as iowait. Synchronous block I/O and io_uring (unless told not
    /// to) do; libaio's `io_getevents(2)` does not.
    pub const fn waits_as_iowait(self) -> bool {
        !matches!(self, Self::Libaio)
    }
}

impl fmt::Display for IoEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = Self::NAMES
            .iter()
            .find(|(_, engine)| engine == self)
            .map_or("psync", |(name, _)| name);
        f.write_str(name)
    }
}
