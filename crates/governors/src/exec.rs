//! `exec:FILE`: a program that reads lines and answers each question with a line.
//!
//! | line | fields |
//! |---|---|
//! | `tick` | the tick's period in ns; the first line |
//! | `state` | name, exit latency, target residency (ns), polling, disabled; one for each state, shallowest first |
//! | `utilisation` | how busy its CPU was of late, of 1024; before a `select`, where it has changed |
//! | `select` | the first six fields of a call log; it is answered with `index,stop_tick` |
//! | `reflect` | the index of the state that was entered, and the last four fields of a call log |
//! | `disable` | the index of a state, and 1 if it was switched off, 0 if on |

use std::env;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::program::{GovernorStarter, ProgramAnswer, RunningGovernor};
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::TickRate;

use crate::group;
use crate::process::{self, Process};
use crate::sandbox::{self, Files, Need};
use crate::text::printable_text;

/// Advice for a program that does not answer.
const SILENCE_ADVICE: &str = "answer every question with a line, and flush it at once";
/// Longest answer of a program, in bytes.
const LONGEST: usize = 128;

/// Environment variables passed on to a program: where programs are, language, and time zone.
const ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];

/// Hash and path of a governor's program, kept with results in the form that `sha256sum -c` reads.
#[derive(Debug)]
pub(crate) struct HashRecord {
    /// File name.
    pub(crate) name: String,
    /// Hash and path.
    pub(crate) text: String,
}

/// A program.
#[derive(Debug)]
pub(crate) struct ExecGovernor {
    path: PathBuf,
    record: HashRecord,
    need: Need,
}

impl ExecGovernor {
    pub(crate) fn new(path: PathBuf, record: HashRecord, need: Need) -> Self {
        Self { path, record, need }
    }

    fn start_process(&self) -> Result<Process, String> {
        let mut command = Command::new(&self.path);
        let variables = ENVIRONMENT
            .iter()
            .filter_map(|name| Some((name, env::var_os(name)?)));
        command.env_clear().envs(variables);
        if let Some(folder) = self.path.parent() {
            command.current_dir(folder);
        }
        let files = Files {
            read: readable_program_files(&self.path),
            write: Vec::new(),
        };
        let group = group::shared_control_group();
        if let Some(group) = &group {
            group.adopt_command(&mut command);
        }
        sandbox::confine_command(&mut command, process::LIMITS, &files, self.need)?;
        Process::start_with_socket(command, group, SILENCE_ADVICE).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOEXEC | libc::ENOENT | libc::EACCES) => format!(
                "{} cannot be started ({e}): it has to be a program of this machine, or a script that begins with #! and \
                 the path of its language",
                self.path.display()
            ),
            _ => process::describe_start_error(&e),
        })
    }
}

/// Files that a program may read besides the system's: its own folder, and the interpreter in its
/// first line.
fn readable_program_files(program: &Path) -> Vec<PathBuf> {
    let real_path = program
        .canonicalize()
        .unwrap_or_else(|_| program.to_owned());
    let mut files = vec![real_path.clone()];
    if let Some(folder) = real_path.parent()
        && !is_home_or_above(folder)
    {
        files.push(folder.to_owned());
    }
    if let Some(language) = find_interpreter(&real_path) {
        files.extend(interpreter_folders(&language));
    }
    files
}

/// Whether a folder is too wide to count as a program's own: the user's home, a folder above the
/// home, or the root.
fn is_home_or_above(folder: &Path) -> bool {
    let home = env::var_os("HOME").map(PathBuf::from);
    home.is_some_and(|home| home.starts_with(folder)) || folder.parent().is_none()
}

/// Finds the interpreter that runs a script, by its first line and the user's `PATH`.
fn find_interpreter(script: &Path) -> Option<PathBuf> {
    let mut start = [0; 256];
    let count = File::open(script)
        .and_then(|mut file| file.read(&mut start))
        .ok()?;
    let line = start
        .get(..count)?
        .strip_prefix(b"#!")?
        .split(|byte| *byte == b'\n')
        .next()?;
    let words: Vec<&str> = std::str::from_utf8(line).ok()?.split_whitespace().collect();
    let named = Path::new(*words.first()?);
    let search_path = env::var_os("PATH")?;
    let mut folders = env::split_paths(&search_path).filter(|folder| folder.is_absolute());
    if named.file_name()? == "env" {
        let language = words[1..]
            .iter()
            .find(|word| !word.starts_with('-') && !word.contains('='))?;
        return folders
            .map(|folder| folder.join(language))
            .find(|file| file.is_file());
    }
    let folder = named.parent()?;
    folders
        .any(|on_path| on_path == folder)
        .then(|| named.to_owned())
}

/// Folders of an interpreter outside the system: the folders next to the interpreter, at each step
/// along its links.
fn interpreter_folders(language: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut at = language.to_owned();
    for _ in 0..8 {
        if !sandbox::is_readable_by_all(&at)
            && let Some(prefix) = at.parent().and_then(Path::parent)
        {
            all.push(at.clone());
            // A shim by pyenv or rbenv starts the version installed elsewhere below the same root.
            if at.parent().is_some_and(|folder| folder.ends_with("shims")) {
                all.push(prefix.to_owned());
            }
            all.extend(["bin", "lib", "lib64", "pyvenv.cfg"].map(|part| prefix.join(part)));
        }
        match fs::read_link(&at) {
            Ok(target) => at = at.parent().unwrap_or(Path::new("/")).join(target),
            Err(_) => break,
        }
    }
    all
}

impl GovernorStarter for ExecGovernor {
    fn copy_for_results(&self) -> Option<(String, &str)> {
        Some((self.record.name.clone(), &self.record.text))
    }

    fn start_governor(
        &self,
        states: &IdleStates,
        tick: TickRate,
    ) -> Result<Box<dyn RunningGovernor>, String> {
        let process = self.start_process()?;
        let mut program = RunningProgram {
            process,
            lines: String::new(),
            sent_lines: String::new(),
            utilisation: 0,
        };
        _ = writeln!(program.lines, "tick,{}", tick.period().0);
        for state in format_state_lines(states) {
            _ = writeln!(program.lines, "state,{state}");
        }
        Ok(Box::new(program))
    }
}

/// Values of the `state` lines that a program is told at its start.
fn format_state_lines(states: &IdleStates) -> impl Iterator<Item = String> + '_ {
    states.iter().map(|state| {
        format!(
            "{},{},{},{},{}",
            state.name,
            state.exit_latency.0,
            state.target_residency.0,
            u8::from(state.polling),
            u8::from(state.disabled)
        )
    })
}

/// A program that serves one CPU as its governor.
#[derive(Debug)]
struct RunningProgram {
    process: Process,
    /// Lines that go to the program along with the next question.
    lines: String,
    /// Lines that went to the program along with the last question.
    sent_lines: String,
    /// CPU utilisation that the program was told last, 0 to 1024.
    utilisation: u16,
}

impl RunningProgram {
    /// Appends the lines about the last idle period and the next query to the lines for the
    /// program.
    fn write_question(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) {
        if let Some((entered, outcome)) = last {
            _ = writeln!(
                self.lines,
                "reflect,{entered},{},{},{},{}",
                outcome.clock,
                outcome.residency,
                u8::from(outcome.got_tick),
                u8::from(outcome.poll_limit_hit)
            );
        }
        if utilisation != self.utilisation {
            self.utilisation = utilisation;
            _ = writeln!(self.lines, "utilisation,{utilisation}");
        }
        _ = writeln!(
            self.lines,
            "select,{},{},{},{},{},{}",
            query.sleep_length,
            query.delta_tick,
            u8::from(query.tick_stopped),
            query.latency_request,
            query.nr_iowait,
            query.clock
        );
    }

    /// Reads the program's next line, waiting until the time limit for answers.
    fn read_answer_line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let mut chunk = [0; LONGEST];
        while line.last() != Some(&b'\n') {
            let count = self
                .process
                .read_some_of_answer(&mut chunk)
                .map_err(|error| {
                    if line.is_empty() {
                        return error;
                    }
                    let begun = printable_text(&String::from_utf8_lossy(&line));
                    format!("{error}; it began to answer `{begun}`, without the end of the line")
                })?;
            line.extend(&chunk[..count]);
            if line.len() > LONGEST {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&line)
            .trim_end_matches('\n')
            .to_owned())
    }

    /// Last line sent to the program, the one that it should have answered.
    fn last_sent_line(&self) -> &str {
        let lines = self.sent_lines.trim_end().lines();
        lines.last().unwrap_or_default()
    }

    /// Error text about a program's answer that is no decision.
    fn explain_bad_answer(&mut self, line: &str) -> String {
        let question = self.process.asked;
        let shown: String = line.chars().take(60).collect();
        format!(
            "it answered `{}` to question {question}. Expected one line such as 2,1: the index of an idle state, and 1 if the \
             tick may stop, else 0{}",
            shown.escape_default(),
            self.process.end_of_standard_error()
        )
    }
}

/// Parses a program's answer such as `2,1`: state and whether the tick stops.
fn parse_decision(line: &str) -> Option<IdleDecision> {
    let (state, stop_tick) = line.trim().split_once(',')?;
    Some(IdleDecision {
        state: state.trim().parse().ok()?,
        stop_tick: match stop_tick.trim() {
            "0" => false,
            "1" => true,
            _ => return None,
        },
    })
}

impl RunningGovernor for RunningProgram {
    fn report_and_query(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String> {
        self.process.asked += 1;
        let question = self.process.asked;
        self.write_question(last, query, utilisation);
        if self.process.wrote_unasked() {
            return Err(format!(
                "it wrote something before it was asked question {question}; expected one line for each `select`, and none for \
                 other lines{}",
                self.process.end_of_standard_error()
            ));
        }
        self.process.send_question(self.lines.as_bytes())?;
        // After the exchange both strings keep their memory for the next question.
        std::mem::swap(&mut self.lines, &mut self.sent_lines);
        self.lines.clear();
        let line = self.read_answer_line().map_err(|error| {
            format!(
                "{error}. What was not answered: `{}`",
                self.last_sent_line()
            )
        })?;
        let decision = parse_decision(&line).ok_or_else(|| self.explain_bad_answer(&line))?;
        Ok(ProgramAnswer {
            decision,
            poll_limit: None,
        })
    }

    fn set_disabled(&mut self, state: usize, disabled: bool) -> Result<(), String> {
        _ = writeln!(self.lines, "disable,{state},{}", u8::from(disabled));
        Ok(())
    }
}
