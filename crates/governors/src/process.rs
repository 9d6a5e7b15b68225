//! A child process that is asked and answers, over a socket, within a time limit.

use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal, kill_process_group};
use wakepath_units::median;

use crate::group::Group;
use crate::sandbox::Limits;
use crate::text::printable_text;

/// Longest real time that an answer may take. A decision takes a kernel less than a microsecond;
/// this is for programs that start slowly, on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);
/// Interval at which a wait for an answer checks whether the user interrupted the run.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);
/// Time for which a process may live on after closing its output.
const GRACE: Duration = Duration::from_millis(500);
/// Resource limits of a governor's process.
pub(crate) const LIMITS: Limits = Limits {
    cpu_s: None,
    memory: 4 << 30,
    file: 1 << 20,
};
/// Bytes of a process's standard error that error messages show, from the end.
const LAST_WORDS: u64 = 2000;

/// Whether this process is about to end, so that nobody waits for answers.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Makes every governor process fail that does not answer at once, now and from now on: this
/// process is about to end.
pub fn interrupt_governors() {
    INTERRUPTED.store(true, Ordering::Relaxed);
}

/// A command to start, and the channel for its process.
type Order = (Command, Sender<io::Result<Child>>);

/// Channel to the thread that starts processes, and the process which that thread belongs to.
static STARTER: Mutex<Option<(u32, Sender<Order>)>> = Mutex::new(None);

const STARTER_GONE: &str = "the thread that starts processes is gone";

/// Starts a command in a process that ends with this one. The kernel ends a child with its starting
/// thread, hence a thread that stays.
pub(crate) fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    let (to, started) = mpsc::channel();
    let mut starter = STARTER.lock().unwrap_or_else(PoisonError::into_inner);
    let own = std::process::id();
    // A forked process lacks its parent's threads and needs a starter thread of its own.
    let orders = match &*starter {
        Some((process, orders)) if *process == own => orders.clone(),
        _ => {
            let (orders, ordered) = mpsc::channel::<Order>();
            thread::Builder::new()
                .name("starter".to_owned())
                .spawn(move || serve_start_orders(ordered))?;
            *starter = Some((own, orders.clone()));
            orders
        }
    };
    drop(starter);
    orders
        .send((command, to))
        .map_err(|_| io::Error::other(STARTER_GONE))?;
    started.recv().map_err(|_| io::Error::other(STARTER_GONE))?
}

/// Error text for a program's process that could not be started.
pub(crate) fn describe_start_error(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EMFILE | libc::ENFILE) => format!(
            "too many open files ({error}): a program needs two for each CPU and run at a time. Raise the limit \
             (`ulimit -n`), or run fewer at a time (`--jobs 1`)"
        ),
        Some(libc::EAGAIN) => format!(
            "too many processes ({error}): a program needs some for each CPU and run at a time. Raise the limit \
             (`ulimit -u`), or run fewer at a time (`--jobs 1`)"
        ),
        _ => format!("cannot be started: {error}"),
    }
}

fn serve_start_orders(ordered: Receiver<Order>) {
    for (mut command, to) in ordered {
        // The requesting thread waits for the result of the start.
        _ = to.send(command.spawn());
    }
}

/// Path under which a child process finds a file that stays open for it.
pub(crate) fn inherited_path(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}

/// Creates a file in memory, without a name, with this content.
pub(crate) fn create_memory_file(content: &[u8]) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("wakepath", MemfdFlags::CLOEXEC)?);
    file.write_all(content)?;
    Ok(file.into())
}

/// Leaves a file open in the process that a command starts, under the same number. The file has to
/// stay open until the start.
#[expect(unsafe_code, reason = "nothing safe acts between fork and exec")]
pub(crate) fn keep_open_in_child(command: &mut Command, file: &OwnedFd) {
    let number = file.as_raw_fd();
    // SAFETY: the closure only calls the kernel, without allocating or locking.
    unsafe {
        command.pre_exec(move || clear_close_on_exec(number));
    }
}

#[expect(
    unsafe_code,
    reason = "rustix wants a borrowed file, which a fork does not have"
)]
fn clear_close_on_exec(number: RawFd) -> io::Result<()> {
    // SAFETY: numbers only.
    match unsafe { libc::fcntl(number, libc::F_SETFD, 0) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Measures how long a question and its answer take between two threads of this process now: the
/// median, without the waits of a busy machine. Another process takes about as long.
pub fn measure_exchange_time() -> Duration {
    const TIMES: u32 = 300;
    let Ok((mut here, mut there)) = UnixStream::pair() else {
        return Duration::ZERO;
    };
    let answers = thread::spawn(move || {
        let mut question = [0; 72];
        while there.read_exact(&mut question).is_ok() && there.write_all(&[0; 16]).is_ok() {}
    });
    let exchanges: Vec<f64> = (0..TIMES)
        .map_while(|_| measure_question_seconds(&mut here).ok())
        .collect();
    drop(here);
    _ = answers.join();
    Duration::from_secs_f64(median(exchanges).unwrap_or_default())
}

/// Sends a question and waits for the answer; returns the time in seconds.
fn measure_question_seconds(socket: &mut UnixStream) -> io::Result<f64> {
    let started = Instant::now();
    socket.write_all(&[0; 72])?;
    socket.read_exact(&mut [0; 16])?;
    Ok(started.elapsed().as_secs_f64())
}

/// A child process that answers a governor's queries.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
    socket: UnixStream,
    /// File that receives the process's standard error.
    said: File,
    /// Process that started the child.
    owner: u32,
    // Limits shared with other processes.
    _group: Option<Arc<Group>>,
    /// Advice for users when the process does not answer in time.
    silence_advice: &'static str,
    /// Questions so far.
    pub(crate) asked: u64,
    /// Exit status of the process, once known.
    ended: Option<ExitStatus>,
}

impl Process {
    /// Starts a command with a socket as its standard input and output.
    pub(crate) fn start_with_socket(
        mut command: Command,
        group: Option<Arc<Group>>,
        silence_advice: &'static str,
    ) -> io::Result<Self> {
        let (socket, theirs) = UnixStream::pair()?;
        socket.set_read_timeout(Some(CHECK_INTERVAL))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let said = File::from(create_memory_file(&[])?);
        command
            .stdin(Stdio::from(OwnedFd::from(theirs.try_clone()?)))
            .stdout(Stdio::from(OwnedFd::from(theirs)))
            .stderr(said.try_clone()?);
        Ok(Self {
            child: spawn_from_lasting_thread(command)?,
            socket,
            said,
            owner: std::process::id(),
            _group: group,
            silence_advice,
            asked: 0,
            ended: None,
        })
    }

    /// Whether this process started the child and has not seen it end; a forked process shares the
    /// socket and must not use it.
    pub(crate) fn is_own_running_child(&self) -> bool {
        self.ended.is_none() && self.owner == std::process::id()
    }

    /// Sends all bytes of a question to the process.
    pub(crate) fn send_question(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.socket
            .write_all(bytes)
            .map_err(|e| self.explain_silence(&e))
    }

    /// Reads at least a byte of the process's answer, waiting until the time limit.
    pub(crate) fn read_some_of_answer(&mut self, buffer: &mut [u8]) -> Result<usize, String> {
        let began = Instant::now();
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Err(self.explain_silence(&io::ErrorKind::BrokenPipe.into())),
                Ok(count) => return Ok(count),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock && began.elapsed() < PATIENCE => {
                    if INTERRUPTED.load(Ordering::Relaxed) {
                        return Err(self.explain_interruption(began.elapsed()));
                    }
                }
                Err(e) => return Err(self.explain_silence(&e)),
            }
        }
    }

    /// Whether the process wrote something without being asked.
    pub(crate) fn wrote_unasked(&self) -> bool {
        let mut polled = [PollFd::new(&self.socket, PollFlags::IN)];
        let now = Timespec::default();
        poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
            && polled[0].revents().contains(PollFlags::IN)
            && !polled[0].revents().contains(PollFlags::HUP)
    }

    /// Exit status of the process; waits briefly for its end, then `None`.
    pub(crate) fn wait_briefly_for_exit(&mut self) -> Option<ExitStatus> {
        let until = Instant::now() + GRACE;
        while self.ended.is_none() && Instant::now() < until {
            self.ended = self.child.try_wait().ok()?;
            if self.ended.is_none() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        self.ended
    }

    /// Error text for an answer that the process did not give.
    fn explain_silence(&mut self, error: &io::Error) -> String {
        use io::ErrorKind::{BrokenPipe, ConnectionReset, TimedOut, WouldBlock};
        let (question, advice) = (self.asked, self.silence_advice);
        match error.kind() {
            WouldBlock | TimedOut => format!(
                "no answer to question {question} within {} s; {advice}{}",
                PATIENCE.as_secs(),
                self.end_of_standard_error()
            ),
            BrokenPipe | ConnectionReset => {
                let event = match self.wait_briefly_for_exit() {
                    Some(status) => format!("it ended ({status})"),
                    None => "it closed its output".to_owned(),
                };
                format!(
                    "{event} instead of answering question {question}{}",
                    self.end_of_standard_error()
                )
            }
            _ => format!("question {question}: {error}"),
        }
    }

    /// Error text for a missing answer after the user has interrupted the run.
    fn explain_interruption(&mut self, waited: Duration) -> String {
        let words = self.end_of_standard_error();
        format!(
            "interrupted while it had not answered question {} for {:.1} s{words}",
            self.asked,
            waited.as_secs_f64()
        )
    }

    /// End of the process's standard error, as text for messages.
    pub(crate) fn end_of_standard_error(&mut self) -> String {
        let mut text = Vec::new();
        let length = self.said.metadata().map_or(0, |metadata| metadata.len());
        let from = io::SeekFrom::Start(length.saturating_sub(LAST_WORDS));
        if self.said.seek(from).is_ok() {
            _ = self.said.read_to_end(&mut text);
        }
        match String::from_utf8_lossy(&text).trim() {
            "" => String::new(),
            words => format!("; it said: {}", printable_text(words)),
        }
    }
}

impl Drop for Process {
    /// Kills the process and all processes of its group.
    fn drop(&mut self) {
        if self.is_own_running_child() {
            if let Some(group) = Pid::from_raw(self.child.id() as i32) {
                _ = kill_process_group(group, Signal::KILL);
            }
            _ = self.child.wait();
        }
    }
}
