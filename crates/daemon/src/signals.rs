//! Catches interruptions of the daemon: signals, and the end of a lender.

use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, getppid, pidfd_open};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// The parent process that lent the lock on the machine's settings.
#[derive(Debug)]
pub struct LockLender {
    lock: OwnedFd,
    /// Descriptor that becomes readable once the parent process has ended.
    process: OwnedFd,
}

impl LockLender {
    /// The parent process as lender, by its id; the lent lock is standard input.
    ///
    /// # Errors
    /// Another process is the parent, or the parent is gone.
    pub fn from_parent_process(id: i32) -> io::Result<Self> {
        let parent = Pid::from_raw(id).ok_or_else(|| parent_gone_error(id))?;
        let process = pidfd_open(parent, PidfdFlags::empty())?;
        // The id is checked again: another process may have got it meanwhile.
        if getppid() != Some(parent) {
            return Err(parent_gone_error(id));
        }
        Ok(Self {
            lock: io::stdin().as_fd().try_clone_to_owned()?,
            process,
        })
    }

    /// Another descriptor of the lent lock.
    pub(crate) fn clone_lock_descriptor(&self) -> io::Result<OwnedFd> {
        self.lock.try_clone()
    }
}

fn parent_gone_error(id: i32) -> io::Error {
    io::Error::other(format!("process {id}, which started this one, is gone"))
}

/// Why the daemon leaves its loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Interruption {
    /// SIGTERM, SIGINT, or the end of the lender.
    Stop,
    /// SIGHUP.
    Reload,
    /// Latency has broken a condition: the set is to be put back.
    ConditionBroken,
    /// Latency without the set is known: the set is to be put in force.
    MeasuredBefore,
    /// An event of the machine wants to borrow the lock.
    LockWanted,
}

/// The signals that this process has caught.
pub(crate) struct Signals {
    wake: UnixStream,
    stop: Arc<AtomicBool>,
    reload: Arc<AtomicBool>,
    lender: Option<OwnedFd>,
}

impl Signals {
    /// Catches signals from now on.
    pub(crate) fn catch_signals(lender: Option<&LockLender>) -> io::Result<Self> {
        let (wake, send) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let lender = lender.map(|lender| lender.process.try_clone());
        let signals = Self {
            wake,
            stop: Arc::default(),
            reload: Arc::default(),
            lender: lender.transpose()?,
        };
        for (signal, flag) in [
            (SIGTERM, &signals.stop),
            (SIGINT, &signals.stop),
            (SIGHUP, &signals.reload),
        ] {
            // The flag is registered first: the loop wakes up and has to find the flag set.
            signal_hook::flag::register(signal, Arc::clone(flag))?;
            signal_hook::low_level::pipe::register(signal, send.try_clone()?)?;
        }
        Ok(signals)
    }

    /// Descriptors that become readable when there is an [`Interruption`].
    pub(crate) fn interruption_descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let lender = self.lender.as_ref().map(AsFd::as_fd);
        [self.wake.as_fd()].into_iter().chain(lender)
    }

    /// Whether the daemon is to stop. Unlike [`Signals::take_interruption`], this takes no reload.
    pub(crate) fn is_stop_demanded(&self) -> bool {
        self.stop.load(Ordering::SeqCst) || self.lender_has_ended()
    }

    /// Takes the interruption since the last call, if any; a second call returns `None`.
    pub(crate) fn take_interruption(&self) -> Option<Interruption> {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
        if self.is_stop_demanded() {
            Some(Interruption::Stop)
        } else {
            self.reload
                .swap(false, Ordering::SeqCst)
                .then_some(Interruption::Reload)
        }
    }

    fn lender_has_ended(&self) -> bool {
        self.lender.as_ref().is_some_and(|process| {
            let mut fds = [PollFd::new(process, PollFlags::IN)];
            let at_once = Timespec::default();
            matches!(poll(&mut fds, Some(&at_once)), Ok(1..))
        })
    }
}
