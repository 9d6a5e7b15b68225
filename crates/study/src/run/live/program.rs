//! Running fio and commands, and reading what they print.

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;
use wakepath_results::Run;

use super::Waiting;
use crate::file::StudyError;
use crate::import::fio::Output;
use crate::plan::Reading;

/// How to get fio.
const NO_FIO: &str = "fio is not installed: `apt install fio` on Debian and Ubuntu, `dnf install fio` on Fedora, \
                      `zypper install fio` on openSUSE, `pacman -S fio` on Arch";

/// How long a program has to end after it was told to.
const GRACE: Duration = Duration::from_secs(5);

/// How often to look whether the user has called it off.
const LOOK: Duration = Duration::from_millis(200);

/// The most that a command may print.
const MAX_OUTPUT: u64 = 64 << 20;

/// fio's version.
pub(super) fn fio_version() -> Result<String, StudyError> {
    match Command::new("fio").arg("--version").output() {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        }
        Ok(output) => Err(StudyError::Settings(format!(
            "fio --version: {}",
            output.status
        ))),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            Err(StudyError::Settings(NO_FIO.to_owned()))
        }
        Err(e) => Err(StudyError::Settings(format!("fio: {e}"))),
    }
}

/// Runs a fio job in the current directory. Returns how long it took.
pub(super) fn fio(text: &str, run: &mut Run, waiting: &Waiting<'_>) -> Result<Duration, String> {
    let job = file()?;
    fs::write(job.path(), text).map_err(|e| e.to_string())?;
    let mut command = Command::new("fio");
    command.arg("--output-format=json+").arg(job.path());
    let finished = execute(command, waiting).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => NO_FIO.to_owned(),
        _ => format!("fio: {e}"),
    })?;
    finished.check("fio")?;
    let output = Output::find(&finished.stdout)
        .ok_or_else(|| format!("fio has printed no JSON{}", finished.last_words()))??;
    output
        .fill(run)
        .map_err(|e| format!("{e}{}", finished.last_words()))?;
    Ok(finished.took)
}

/// Runs a command in the current directory. Returns how long it took.
pub(super) fn command(
    words: &[String],
    readings: &[Reading],
    run: &mut Run,
    waiting: &Waiting<'_>,
) -> Result<Duration, String> {
    let [name, arguments @ ..] = words else {
        return Err("the command has no words".to_owned());
    };
    let mut command = Command::new(name);
    command.args(arguments);
    let finished = execute(command, waiting).map_err(|e| format!("{name}: {e}"))?;
    finished.check(name)?;
    run.metrics
        .push(("wall_s".to_owned(), finished.took.as_secs_f64()));
    for reading in readings {
        if finished.stdout.trim().is_empty() {
            return Err(format!(
                "{name} has printed nothing{}",
                finished.last_words()
            ));
        }
        let value = reading.read(&finished.stdout)?;
        run.metrics.retain(|(name, _)| *name != reading.metric.name);
        run.metrics.push((reading.metric.name.to_string(), value));
    }
    Ok(finished.took)
}

fn file() -> Result<NamedTempFile, String> {
    NamedTempFile::new().map_err(|e| format!("no temporary file: {e}"))
}

/// A program that has ended.
struct Finished {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    took: Duration,
}

impl Finished {
    fn check(&self, name: &str) -> Result<(), String> {
        if self.status.success() {
            return Ok(());
        }
        Err(format!(
            "{name} failed, {}{}",
            self.status,
            self.last_words()
        ))
    }

    /// The last line of its messages.
    fn last_words(&self) -> String {
        let lines = self.stderr.lines().chain(self.stdout.lines());
        let said: Vec<&str> = lines.map(str::trim).filter(|l| !l.is_empty()).collect();
        let of_stderr = self.stderr.lines().map(str::trim).rfind(|l| !l.is_empty());
        of_stderr
            .or(said.last().copied())
            .map_or_else(String::new, |line| {
                format!(": {}", line.chars().take(300).collect::<String>())
            })
    }
}

/// Runs a program to its end. It has a process group of its own, so that Ctrl-C reaches it through us only, and what it
/// started ends with it.
fn execute(mut command: Command, waiting: &Waiting<'_>) -> io::Result<Finished> {
    let (out, err) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command
        .stdin(Stdio::null())
        .stdout(out.reopen()?)
        .stderr(err.reopen()?)
        .process_group(0);
    let started = Instant::now();
    let mut child = command.spawn()?;
    let group = group_of(&child);
    let (sender, ended) = mpsc::channel();
    // Waiting in a thread of its own gives the time to the microsecond without looking often.
    let waiter = thread::spawn(move || {
        let status = child.wait();
        // Nobody listens only after a panic.
        _ = sender.send((status, started.elapsed()));
    });
    let mut told: Option<Instant> = None;
    let (status, took) = loop {
        match ended.recv_timeout(LOOK) {
            Ok(end) => break end,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that waited for it is gone"));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        if waiting.cancelled.load(Ordering::Relaxed) {
            let signal = match told {
                None => Signal::TERM,
                Some(at) if at.elapsed() > GRACE => Signal::KILL,
                Some(_) => continue,
            };
            told = told.or(Some(Instant::now()));
            if let Some(group) = group {
                // It may have ended just now.
                _ = kill_process_group(group, signal);
            }
        }
    };
    _ = waiter.join();
    if told.is_some() {
        return Err(io::Error::other("interrupted"));
    }
    let text = |file: &NamedTempFile| -> io::Result<String> {
        if file.as_file().metadata()?.len() > MAX_OUTPUT {
            return Err(io::Error::other(format!(
                "it prints more than {MAX_OUTPUT} bytes"
            )));
        }
        Ok(String::from_utf8_lossy(&fs::read(file.path())?).into_owned())
    };
    Ok(Finished {
        status: status?,
        stdout: text(&out)?,
        stderr: text(&err)?,
        took,
    })
}

fn group_of(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id() as i32)
}
