//! Running fio and commands, and reading their output.

use std::fs;
use std::io;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::NamedTempFile;
use wakepath_results::{RequestedRate, RunRecord};

use crate::file::StudyError;
use crate::plan::Reading;
use wakepath_results::import::fio::FioOutput;

/// What an error says about how to install fio.
const NO_FIO: &str = "fio is not installed: `apt install fio` on Debian and Ubuntu, `dnf install fio` on Fedora, \
                      `zypper install fio` on openSUSE, `pacman -S fio` on Arch";

/// How long a program has to end after being told to, before it is killed.
const GRACE: Duration = Duration::from_secs(5);

/// Interval for checking cancellation, and for reading a run's counters.
const LOOK: Duration = Duration::from_millis(200);

/// Most output accepted from a command, in bytes.
const MAX_OUTPUT: u64 = 64 << 20;

/// fio's version.
pub(super) fn read_fio_version() -> Result<String, StudyError> {
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

/// Whether a fio makes the pauses of a job (`thinktime`) right after a `ramp_time`, by its version as `fio --version` prints
/// it: from 3.35 on (fio's commit cfc4ad2e). A version that cannot be read counts as older.
pub(super) fn pauses_after_ramp(version: &str) -> bool {
    const MENDED: [u32; 2] = [3, 35];
    let numbers = version.trim().strip_prefix("fio-").unwrap_or_default();
    let mut parts = numbers.split(['.', '-']).map(str::parse::<u32>);
    match (parts.next(), parts.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => [major, minor] >= MENDED,
        _ => false,
    }
}

/// Runs a fio job in the current directory for what it does to the machine, and throws its figures away.
pub(super) fn warm_up_by_fio(text: &str, cancelled: &AtomicBool) -> Result<(), String> {
    execute_fio(text, cancelled, &mut || {}).map(drop)
}

/// Runs a fio job in the current directory, and fills `run`; `rates` are the rates that the jobs ask for. Calls `look`
/// several times a second. Returns the duration.
pub(super) fn run_fio(
    text: &str,
    rates: &[RequestedRate],
    run: &mut RunRecord,
    cancelled: &AtomicBool,
    look: &mut dyn FnMut(),
) -> Result<Duration, String> {
    let finished = execute_fio(text, cancelled, look)?;
    let output = FioOutput::parse_first_document(&finished.stdout).ok_or_else(|| {
        format!(
            "fio has printed no JSON{}",
            finished.format_last_line_for_message_end()
        )
    })??;
    output
        .fill_metrics_and_histogram(run)
        .map_err(|e| format!("{e}{}", finished.format_last_line_for_message_end()))?;
    if let Some(percent) = output.smallest_reached_rate_percent(rates) {
        run.metrics.push(("rate_reached".to_owned(), percent));
    }
    let times = ["user_s", "system_s"]
        .into_iter()
        .zip(output.cpu_seconds_of_jobs());
    run.metrics
        .extend(times.map(|(name, seconds)| (name.to_owned(), seconds)));
    if let Some(rate) = output.context_switches_per_second() {
        run.metrics.push(("switches_per_s".to_owned(), rate));
    }
    Ok(finished.took)
}

/// Runs a fio job that has to succeed.
fn execute_fio(
    text: &str,
    cancelled: &AtomicBool,
    look: &mut dyn FnMut(),
) -> Result<Finished, String> {
    let job = create_output_file()?;
    fs::write(job.path(), text).map_err(|e| e.to_string())?;
    let mut command = Command::new("fio");
    command.arg("--output-format=json+").arg(job.path());
    let finished = execute_program(command, cancelled, look).map_err(|e| match e.kind() {
        io::ErrorKind::NotFound => NO_FIO.to_owned(),
        _ => format!("fio: {e}"),
    })?;
    finished.require_exit_success("fio")?;
    Ok(finished)
}

/// Runs a command in the current directory, reads its metrics into `run`, and calls `look` several times a second.
/// Returns the duration.
pub(super) fn run_command(
    words: &[String],
    readings: &[Reading],
    run: &mut RunRecord,
    cancelled: &AtomicBool,
    look: &mut dyn FnMut(),
) -> Result<Duration, String> {
    let [name, arguments @ ..] = words else {
        return Err("the command has no words".to_owned());
    };
    let mut command = Command::new(name);
    command.args(arguments);
    let finished = execute_program(command, cancelled, look).map_err(|e| format!("{name}: {e}"))?;
    finished.require_exit_success(name)?;
    for (name, time) in [
        ("wall_s", finished.took),
        ("user_s", finished.user),
        ("system_s", finished.system),
    ] {
        run.metrics.push((name.to_owned(), time.as_secs_f64()));
    }
    for reading in readings {
        if finished.stdout.trim().is_empty() {
            return Err(format!(
                "{name} has printed nothing{}",
                finished.format_last_line_for_message_end()
            ));
        }
        let value = reading.read_number(&finished.stdout)?;
        run.metrics.retain(|(name, _)| *name != reading.metric.name);
        run.metrics.push((reading.metric.name.to_string(), value));
    }
    Ok(finished.took)
}

fn create_output_file() -> Result<NamedTempFile, String> {
    NamedTempFile::new().map_err(|e| format!("no temporary file: {e}"))
}

/// An ended program.
struct Finished {
    status: ExitStatus,
    stdout: String,
    stderr: String,
    took: Duration,
    /// CPU time of the program, including children that were waited for.
    user: Duration,
    system: Duration,
}

impl Finished {
    fn require_exit_success(&self, name: &str) -> Result<(), String> {
        if self.status.success() {
            return Ok(());
        }
        Err(format!(
            "{name} failed, {}{}",
            self.status,
            self.format_last_line_for_message_end()
        ))
    }

    /// The last line of standard error, else of standard output, for the end of a message; empty without output.
    fn format_last_line_for_message_end(&self) -> String {
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

/// Runs a program to its end in its own process group. Ctrl-C then reaches the group only through this process, and
/// descendants end with the program.
fn execute_program(
    mut command: Command,
    cancelled: &AtomicBool,
    look: &mut dyn FnMut(),
) -> io::Result<Finished> {
    let (out, err) = (NamedTempFile::new()?, NamedTempFile::new()?);
    command
        .stdin(Stdio::null())
        .stdout(out.reopen()?)
        .stderr(err.reopen()?)
        .process_group(0);
    let started = Instant::now();
    let child = command.spawn()?;
    let group = process_group_led_by(&child);
    let (sender, ended) = mpsc::channel();
    // A thread that waits measures the time to the microsecond without frequent polling.
    let waiter = thread::spawn(move || {
        let end = wait_for_child(&child);
        // The receiver is gone only after a panic.
        _ = sender.send((end, started.elapsed()));
    });
    let (end, took) = wait_for_end_or_kill_group_if_cancelled(&ended, group, cancelled, look)?;
    _ = waiter.join();
    let (status, user, system) = end?;
    Ok(Finished {
        status,
        stdout: read_output_within_limit(&out)?,
        stderr: read_output_within_limit(&err)?,
        took,
        user,
        system,
    })
}

/// Exit status of a program, and CPU time in user space and in the kernel.
type ProgramEnd = io::Result<(ExitStatus, Duration, Duration)>;

/// Waits until the program has ended. After cancellation ends its process group, first politely, then by force.
fn wait_for_end_or_kill_group_if_cancelled(
    ended: &Receiver<(ProgramEnd, Duration)>,
    group: Option<Pid>,
    cancelled: &AtomicBool,
    look: &mut dyn FnMut(),
) -> io::Result<(ProgramEnd, Duration)> {
    let mut told: Option<Instant> = None;
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(_) if told.is_some() => return Err(io::Error::other("interrupted")),
            Ok(end) => return Ok(end),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(io::Error::other("the thread that waited for it is gone"));
            }
            Err(RecvTimeoutError::Timeout) => look(),
        }
        if cancelled.load(Ordering::Relaxed) {
            let signal = match told {
                None => Signal::TERM,
                Some(at) if at.elapsed() > GRACE => Signal::KILL,
                Some(_) => continue,
            };
            told = told.or(Some(Instant::now()));
            if let Some(group) = group {
                // The group may just have ended, so a failure is ignored.
                _ = kill_process_group(group, signal);
            }
        }
    }
}

fn read_output_within_limit(file: &NamedTempFile) -> io::Result<String> {
    if file.as_file().metadata()?.len() > MAX_OUTPUT {
        return Err(io::Error::other(format!(
            "it prints more than {MAX_OUTPUT} bytes"
        )));
    }
    Ok(String::from_utf8_lossy(&fs::read(file.path())?).into_owned())
}

/// Waits until a child has ended. Returns its status, and CPU time in user space and in the kernel, including
/// descendants that were waited for.
#[expect(
    unsafe_code,
    reason = "there is no safe way to wait for one child's usage"
)]
fn wait_for_child(child: &Child) -> ProgramEnd {
    let mut status = 0;
    // SAFETY: all fields are integers, for which zero is valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    loop {
        // SAFETY: both pointers are to variables that live through the call.
        let ended = unsafe { libc::wait4(child.id() as i32, &raw mut status, 0, &raw mut usage) };
        if ended >= 0 {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let [user, system] = [usage.ru_utime, usage.ru_stime].map(|time| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    });
    Ok((ExitStatus::from_raw(status), user, system))
}

fn process_group_led_by(child: &Child) -> Option<Pid> {
    Pid::from_raw(child.id() as i32)
}

#[cfg(test)]
mod tests {
    use wakepath_results::RunKey;

    use super::*;

    /// A command's run, and the number of looks.
    fn run(words: &[&str]) -> (RunRecord, u32) {
        let key = RunKey {
            machine: String::new(),
            workload: String::new(),
            policy: String::new(),
            repeat: 0,
        };
        let mut run = RunRecord::new(key, None, 0, 0);
        let words: Vec<String> = words.iter().map(|w| (*w).to_owned()).collect();
        let cancelled = AtomicBool::new(false);
        let mut looks = 0;
        run_command(&words, &[], &mut run, &cancelled, &mut || looks += 1).unwrap();
        (run, looks)
    }

    #[test]
    fn fio_makes_pauses_after_a_ramp_from_3_35_on() {
        for mended in ["fio-3.35", "fio-3.41-12-gabcdef", "fio-4.0\n"] {
            assert!(pauses_after_ramp(mended), "{mended}");
        }
        for older in ["fio-3.33", "fio-3.34-dirty", "fio-2.99", "", "fio", "fio-3"] {
            assert!(!pauses_after_ramp(older), "{older}");
        }
    }

    #[test]
    fn a_command_gives_its_cpu_time_and_that_of_its_children() {
        let value = |run: &RunRecord, name: &str| {
            let found = run.metrics.iter().find(|(metric, _)| metric == name);
            found.unwrap_or_else(|| panic!("no {name}")).1
        };
        let (idle, looks) = run(&["sleep", "0.5"]);
        assert!(looks > 0 && value(&idle, "wall_s") >= 0.5);
        assert!(value(&idle, "user_s") < 0.1 && value(&idle, "system_s") < 0.1);
        // The work is in a child.
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        let (busy, _) = run(&["sh", "-c", &format!("sh -c '{busy}'; :")]);
        let (user, system) = (value(&busy, "user_s"), value(&busy, "system_s"));
        assert!(user > 0.02, "{user}");
        assert!(user + system <= value(&busy, "wall_s") + 0.02);
    }
}
