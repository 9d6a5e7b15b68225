//! A process that is asked and answers, over a socket, within a time limit.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, kill_process_group};

use crate::sandbox::{self, Limits};

/// How long an answer may take, in seconds of real time. A decision takes a kernel less than a microsecond; this is for
/// programs that start slowly, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether the user has called it off.
const LOOK: Duration = Duration::from_millis(100);
/// How long one that closes its output has to end.
const GRACE: Duration = Duration::from_millis(500);
/// What it may use.
const LIMITS: Limits = Limits {
    cpu_s: None,
    memory: 4 << 30,
    file: 16 << 20,
};
/// The end of what it says, in bytes.
const LAST_WORDS: u64 = 2000;

/// Nobody waits for answers any more.
static CALLED_OFF: AtomicBool = AtomicBool::new(false);

/// Has every governor of one's own fail that does not answer at once, now and from now on: this process is about to end.
pub fn call_off() {
    CALLED_OFF.store(true, Ordering::Relaxed);
}

/// A process that answers.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    socket: UnixStream,
    /// What it says on standard error.
    said: File,
    /// Questions so far.
    pub(crate) asked: u64,
    /// Why it ended, once it has been waited for.
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command whose standard input and output are this socket.
    pub(crate) fn start(mut command: Command) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(LOOK))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let said = tempfile::tempfile()?;
        command
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(said.try_clone()?);
        sandbox::limit(&mut command, LIMITS);
        let child = command.spawn()?;
        Ok(Self {
            child,
            socket,
            said,
            asked: 0,
            ended: None,
        })
    }

    /// Writes all of it.
    pub(crate) fn tell(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket.write_all(bytes).map_err(|e| self.why(&e))
    }

    /// Reads something of what it answers: at least a byte.
    pub(crate) fn answer(&mut self, into: &mut [u8]) -> Result<usize, String> {
        let began = Instant::now();
        loop {
            match self.socket.read(into) {
                Ok(0) => return Err(self.why(&io::ErrorKind::BrokenPipe.into())),
                Ok(count) => return Ok(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && began.elapsed() < PATIENCE => {
                    if CALLED_OFF.load(Ordering::Relaxed) {
                        return Err(self.called_off(began.elapsed()));
                    }
                }
                Err(e) => return Err(self.why(&e)),
            }
        }
    }

    /// Whether it wrote something that nobody asked for.
    pub(crate) fn is_ahead(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
            && polled[0].revents().contains(PollFlags::IN)
            && !polled[0].revents().contains(PollFlags::HUP)
    }

    /// The status that it ended with, if it does so soon.
    pub(crate) fn status(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + GRACE;
        while self.ended.is_none() && Instant::now() < until {
            self.ended = self.child.try_wait().ok()?;
            if self.ended.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.ended
    }

    /// Why there is no answer.
    fn why(&mut self, error: &io::Error) -> String {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, WouldBlock};
        let question = self.asked;
        match error.kind() {
            WouldBlock | TimedOut => format!(
                "no answer to question {question} within {} s; answer every question with a line, and flush it at once{}",
                PATIENCE.as_secs(),
                self.last_words()
            ),
            BrokenPipe | ConnectionReset => {
                let how = match self.status() {
                    Some(status) => format!("it ended ({status})"),
                    None => "it closed its output".to_owned(),
                };
                format!(
                    "{how} instead of answering question {question}{}",
                    self.last_words()
                )
            }
            _ => format!("question {question}: {error}"),
        }
    }

    /// Why there is no answer where nobody waits for it any longer.
    fn called_off(&mut self, waited: Duration) -> String {
        let words = self.last_words();
        format!(
            "interrupted while it had not answered question {} for {:.1} s{words}",
            self.asked,
            waited.as_secs_f64()
        )
    }

    /// The end of what it said on standard error.
    pub(crate) fn last_words(&mut self) -> String {
        let mut text = Vec::new();
        let length = self.said.metadata().map_or(0, |about| about.len());
        let from = io::SeekFrom::Start(length.saturating_sub(LAST_WORDS));
        if self.said.seek(from).is_ok() {
            _ = self.said.read_to_end(&mut text);
        }
        match String::from_utf8_lossy(&text).trim() {
            "" => String::new(),
            words => format!("; it said: {words}"),
        }
    }
}

impl Drop for Process {
    /// It ends, with all that it started.
    fn drop(&mut self) {
        if self.ended.is_none() {
            if let Some(group) = Pid::from_raw(self.child.id() as i32) {
                _ = kill_process_group(group, Signal::KILL);
            }
            _ = self.child.wait();
        }
    }
}
