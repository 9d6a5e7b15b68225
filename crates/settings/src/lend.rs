//! The daemon lends its lock to events of the machine, such as a pulled plug.
//!
//! The daemon offers the lock at a Unix socket in the private directory of lock and journal. For each borrower it puts its own
//! settings back, hands the lock's file over, and waits until the borrower has closed the connection. So the borrower finds
//! the machine as it is without a daemon, and the lock is never free between the two: a kill of either leaves the other with
//! the lock, and the journal complete.

use std::io::{self, IoSlice, IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::time::Duration;

use rustix::fs::{AtFlags, unlinkat};
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use wakepath_system::journal::{DIRECTORY, open_journal_directory};
use wakepath_system::{Root, SystemError};

use crate::SettingsError;

/// Name of the socket in the directory of lock and journal.
const SOCKET: &str = "daemon.socket";
/// How long a borrower waits for a daemon to put its settings back.
const LENDER_PATIENCE: Duration = Duration::from_secs(20);
/// The byte that the lock's file is sent with.
const LOCK_BYTE: &[u8] = b"L";

/// The daemon's offer to lend its lock; the socket goes with it.
#[derive(Debug)]
pub struct LockOffer {
    listener: UnixListener,
    directory: OwnedFd,
}

impl LockOffer {
    /// Offers the lock that this process has on a machine's settings.
    ///
    /// # Errors
    /// The socket cannot be made.
    pub fn open(root: &Root) -> Result<Self, SettingsError> {
        let opened = open_journal_directory(root, true).and_then(|directory| {
            let directory = directory.ok_or(io::ErrorKind::NotFound)?;
            // A killed daemon may have left its socket.
            match unlinkat(&directory, SOCKET, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                Err(error) => return Err(error.into()),
            }
            let listener = UnixListener::bind(socket_path_below(&directory))?;
            listener.set_nonblocking(true)?;
            Ok(Self {
                listener,
                directory,
            })
        });
        opened.map_err(|source| {
            let path = root.absolute_path(&format!("{DIRECTORY}/{SOCKET}"));
            SystemError::Read { path, source }.into()
        })
    }

    /// Descriptor that becomes readable when somebody wants to borrow the lock.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
    }

    /// The next process that wants to borrow the lock; `None` if there is none any more.
    pub fn accept_borrower(&self) -> Option<LockBorrower> {
        let (stream, _) = self.listener.accept().ok()?;
        Some(LockBorrower { stream })
    }
}

impl Drop for LockOffer {
    fn drop(&mut self) {
        // Nobody is left to be told of a failure, and a socket that nobody listens at does no harm.
        let _ = unlinkat(&self.directory, SOCKET, AtFlags::empty());
    }
}

/// A process that wants to borrow the lock.
#[derive(Debug)]
pub struct LockBorrower {
    stream: UnixStream,
}

impl LockBorrower {
    /// Sends the lock's file.
    pub(crate) fn send_lock(&self, lock: BorrowedFd<'_>) -> io::Result<()> {
        let files = [lock];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        let sent = sendmsg(
            &self.stream,
            &[IoSlice::new(LOCK_BYTE)],
            &mut control,
            SendFlags::NOSIGNAL,
        )?;
        if sent == LOCK_BYTE.len() {
            Ok(())
        } else {
            Err(io::ErrorKind::WriteZero.into())
        }
    }

    /// Waits for a while until the borrower has closed the connection, or has ended. Returns whether it has.
    pub(crate) fn wait_for_end(&self, longest: Duration) -> bool {
        let waited = self
            .stream
            .set_read_timeout(Some(longest))
            .and_then(|()| (&self.stream).read(&mut [0; 16]));
        match waited {
            // A borrower sends nothing; one that does is waited for as well.
            Ok(count) => count == 0,
            Err(error) => !matches!(
                error.kind(),
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut | io::ErrorKind::Interrupted
            ),
        }
    }
}

/// A lock that a daemon has lent, until the connection is closed.
#[derive(Debug)]
pub(crate) struct BorrowedLock {
    pub(crate) lock: OwnedFd,
    pub(crate) lender: UnixStream,
}

/// Borrows the lock from the daemon that has it; `None` if no daemon lends it.
pub(crate) fn borrow_lock_from_daemon(root: &Root) -> Option<BorrowedLock> {
    let directory = open_journal_directory(root, false).ok()??;
    let lender = UnixStream::connect(socket_path_below(&directory)).ok()?;
    lender.set_read_timeout(Some(LENDER_PATIENCE)).ok()?;
    let mut byte = [0; LOCK_BYTE.len()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    recvmsg(
        &lender,
        &mut [IoSliceMut::new(&mut byte)],
        &mut control,
        RecvFlags::CMSG_CLOEXEC,
    )
    .ok()?;
    let lock = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    })?;
    Some(BorrowedLock { lock, lender })
}

/// Path of the socket by the open directory: of any depth, and no link on the way is followed again.
fn socket_path_below(directory: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", directory.as_raw_fd()))
}
