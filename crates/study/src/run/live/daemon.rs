//! Running `wakepath daemon` as a process, for policies with leases.
//!
//! A study holds the other settings of a policy, and lends its lock to the daemon, which journals leases above them.
//! The daemon ends with the policy, with the study's process, and before the study puts its own settings back.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use wakepath_settings::Tenant;
use wakepath_system::{Root, System};

use crate::file::StudyError;

/// How long the daemon may take to start: a slow emulated machine needs seconds to load eBPF programs.
const STARTS_WITHIN: Duration = Duration::from_secs(60);

/// How long the daemon may take to put limits back.
const ENDS_WITHIN: Duration = Duration::from_secs(10);

/// Interval at which the daemon is checked for being ready, or having ended.
const LOOK: Duration = Duration::from_millis(20);

/// Longest message from the daemon that an error quotes, in characters.
const MAX_QUOTE: usize = 400;

/// Environment variable with the path of the program `wakepath`, for other processes such as Python.
const PROGRAM_VARIABLE: &str = "WAKEPATH_PROGRAM";

/// Path of the program `wakepath`: from the environment variable, else this process if named so, else from `PATH`.
pub(super) fn find_daemon_program() -> PathBuf {
    if let Some(path) = std::env::var_os(PROGRAM_VARIABLE) {
        return path.into();
    }
    let name = Path::new("wakepath");
    std::env::current_exe()
        .ok()
        .filter(|path| path.file_name() == Some(name.as_os_str()))
        .unwrap_or_else(|| name.to_owned())
}

/// Runs the daemon to check a configuration on a machine, which changes nothing.
///
/// # Errors
/// The program is missing, or refuses the configuration.
pub(super) fn check_configuration(
    program: &Path,
    system: &System,
    config: &str,
) -> Result<(), StudyError> {
    let folder = create_private_folder()?;
    let output = daemon_command(program, system.root(), &write_config(&folder, config)?)
        .arg("--check-config")
        .stdin(Stdio::null())
        .output()
        .map_err(|e| start_error(program, &e))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(StudyError::Settings(format!(
        "{} daemon: {}",
        program.display(),
        daemon_failure_reason(&said, output.status)
    )))
}

/// Why the daemon ended: its last message, else its exit status.
fn daemon_failure_reason(messages: &str, status: ExitStatus) -> String {
    match last_daemon_message(messages) {
        "" => status.to_string(),
        line => line.to_owned(),
    }
}

/// A daemon process that gives leases until dropped.
#[derive(Debug)]
pub(super) struct DaemonProcess {
    child: Mutex<Child>,
    /// Folder with the configuration, the notification socket and the messages.
    folder: TempDir,
}

impl DaemonProcess {
    /// Starts a daemon under a lock that this process holds, and waits until leases can be given.
    ///
    /// # Errors
    /// The daemon ends at once, as without the right to load eBPF programs; its reason is in the message.
    pub(super) fn start(
        program: &Path,
        system: &System,
        config: &str,
        lock: OwnedFd,
        cancelled: &AtomicBool,
    ) -> Result<Self, StudyError> {
        let folder = create_private_folder()?;
        let path = folder.path().join("ready");
        let ready = UnixDatagram::bind(&path).map_err(|e| unusable_path_error(&path, &e))?;
        ready
            .set_read_timeout(Some(LOOK))
            .map_err(|e| unusable_path_error(&path, &e))?;
        let messages = messages_path(&folder);
        let log = File::create(&messages).map_err(|e| unusable_path_error(&messages, &e))?;
        let child = daemon_command(program, system.root(), &write_config(&folder, config)?)
            .arg(format!("--lent-by={}", std::process::id()))
            .env("NOTIFY_SOCKET", &path)
            .env_remove("JOURNAL_STREAM")
            .stdin(Stdio::from(lock))
            .stdout(Stdio::null())
            .stderr(log)
            // The daemon ignores Ctrl-C: Ctrl-C ends the study, and the study ends its daemon.
            .process_group(0)
            .spawn()
            .map_err(|e| start_error(program, &e))?;
        let daemon = Self {
            child: Mutex::new(child),
            folder,
        };
        daemon.wait_until_ready(&ready, cancelled)?;
        Ok(daemon)
    }

    fn wait_until_ready(
        &self,
        ready: &UnixDatagram,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let until = Instant::now() + STARTS_WITHIN;
        let mut message = [0; 4096];
        while Instant::now() < until {
            let length = ready.recv(&mut message).unwrap_or(0);
            let mut lines = message[..length].split(|byte| *byte == b'\n');
            if lines.any(|line| line == b"READY=1") {
                return Ok(());
            }
            self.check_alive()?;
            if cancelled.load(Ordering::Relaxed) {
                return Err(StudyError::Interrupted);
            }
        }
        let seconds = STARTS_WITHIN.as_secs();
        Err(StudyError::Settings(format!(
            "wakepath daemon: not ready after {seconds} s"
        )))
    }

    /// Checks that the daemon process still runs.
    ///
    /// # Errors
    /// The daemon has ended; its last message is quoted.
    pub(super) fn check_alive(&self) -> Result<(), StudyError> {
        let Ok(Some(status)) = self.lock_child().try_wait() else {
            return Ok(());
        };
        let said = fs::read_to_string(messages_path(&self.folder)).unwrap_or_default();
        Err(StudyError::Settings(format!(
            "wakepath daemon has ended: {}",
            daemon_failure_reason(&said, status)
        )))
    }

    fn lock_child(&self) -> MutexGuard<'_, Child> {
        self.child.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tenant for DaemonProcess {
    fn stop_and_wait(&self) {
        let mut child = self.lock_child();
        let until = Instant::now() + ENDS_WITHIN;
        // A child keeps its process id until waited for, so the id cannot be another process's.
        while let Ok(None) = child.try_wait() {
            if Instant::now() >= until {
                // After a kill, leases are put back when the journal is reclaimed.
                _ = child.kill();
                _ = child.wait();
                return;
            }
            _ = kill_process(Pid::from_child(&child), Signal::TERM);
            thread::sleep(LOOK);
        }
    }
}

impl Drop for DaemonProcess {
    fn drop(&mut self) {
        self.stop_and_wait();
    }
}

fn daemon_command(program: &Path, root: &Root, config: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg("daemon").arg("--config").arg(config);
    if !root.is_live() {
        command.arg("--root").arg(root.absolute_path(""));
    }
    command
}

fn create_private_folder() -> Result<TempDir, StudyError> {
    tempfile::tempdir().map_err(|e| StudyError::Settings(format!("no temporary directory: {e}")))
}

fn messages_path(folder: &TempDir) -> PathBuf {
    folder.path().join("messages")
}

/// Writes the configuration with its owner as only writer, as the daemon demands.
fn write_config(folder: &TempDir, config: &str) -> Result<PathBuf, StudyError> {
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.path().join("daemon.toml");
    File::options()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)
        .and_then(|mut file| file.write_all(config.as_bytes()))
        .map_err(|e| unusable_path_error(&path, &e))?;
    Ok(path)
}

fn unusable_path_error(path: &Path, error: &io::Error) -> StudyError {
    StudyError::Settings(format!("{}: {error}", path.display()))
}

fn start_error(program: &Path, error: &io::Error) -> StudyError {
    StudyError::Settings(match error.kind() {
        io::ErrorKind::NotFound => {
            "psd needs the program `wakepath`, whose daemon gives the leases; install it, or put it into PATH".to_owned()
        }
        _ => format!("{}: {error}", program.display()),
    })
}

/// The last line of the daemon's messages, without the program's name.
fn last_daemon_message(messages: &str) -> &str {
    let line = messages
        .lines()
        .map(str::trim)
        .rfind(|line| !line.is_empty())
        .unwrap_or_default();
    let text = line
        .strip_prefix("wakepath: ")
        .or_else(|| line.strip_prefix("error: "))
        .unwrap_or(line);
    match text.char_indices().nth(MAX_QUOTE) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::OpenOptionsExt;

    use wakepath_results::{Mode, RunOrigin};

    use super::*;
    use crate::plan::Plan;
    use crate::run::live::Live;
    use crate::run::{RunControl, run_plan};

    const STUDY: &str = "name = 'x'\nsettle_s = 0\npolicy = ['psd[ceiling=20us]']\n\
                         [[workload]]\nname = 'a'\ncommand = ['true']\n";

    /// Error from a study with `script` as its `wakepath`, after releasing the fake machine.
    fn error_with(script: &str) -> String {
        let temp = tempfile::tempdir().unwrap();
        let program = temp.path().join("wakepath");
        let mut file = File::options()
            .write(true)
            .create_new(true)
            .mode(0o700)
            .open(&program)
            .unwrap();
        io::Write::write_all(&mut file, format!("#!/bin/sh\n{script}\n").as_bytes()).unwrap();
        drop(file);
        let root = temp.path().join("machine");
        fs::create_dir(&root).unwrap();
        let system = System::new(Root::at_directory(&root));
        let plan = Plan::from_text(STUDY, "x", Path::new("."), RunOrigin::Live).unwrap();
        let results = temp.path().join("results");
        let done = Live::on_system(&plan, system.clone(), program).and_then(|live| {
            let control = RunControl::without_reports_or_cancellation();
            run_plan(&plan, &live, None, &results, Mode::New, &control)
        });
        // The lock is free again.
        wakepath_settings::Session::open_and_recover(&system).unwrap();
        done.unwrap_err().to_string()
    }

    #[test]
    fn a_configuration_that_the_daemon_refuses_is_named_before_any_run() {
        let error = error_with("echo 'wakepath: policy: no idle state C9' >&2; exit 1");
        assert!(error.contains("policy 'psd[ceiling=20us]'"), "{error}");
        assert!(error.contains(": policy: no idle state C9"), "{error}");
    }

    #[test]
    fn a_daemon_that_ends_at_once_ends_the_study_with_its_reason() {
        let script = "case \"$*\" in *--check-config*) exit 0; esac\n\
                      echo 'wakepath: nothing to do: psd: no right to load eBPF programs' >&2; exit 78";
        let error = error_with(script);
        assert!(error.contains("policy 'psd[ceiling=20us]'"), "{error}");
        assert!(
            error.contains("has ended: nothing to do: psd: no right to load eBPF programs"),
            "{error}"
        );
        let silent = error_with("case \"$*\" in *--check-config*) exit 0; esac\nexit 3");
        assert!(silent.contains("exit status: 3"), "{silent}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let system = System::new(Root::at_directory("/nowhere"));
        let error = check_configuration(Path::new("/nowhere/wakepath"), &system, "").unwrap_err();
        assert!(error.to_string().contains("put it into PATH"), "{error}");
    }
}
