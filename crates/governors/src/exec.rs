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
use wakepath_policies::idle::program::{ProgramAnswer, Running, Start};
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::TickRate;

use crate::group;
use crate::process::{self, Process};
use crate::sandbox::{self, Files, Need};
use crate::text::printable;

/// Advice for a program that does not answer.
const SILENCE_ADVICE: &str = "answer every question with a line, and flush it at once";
/// The longest answer in bytes.
const LONGEST: usize = 128;

/// Environment variables passed on to a program: where programs are, language, and time zone.
const ENVIRONMENT: [&str; 6] = ["PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TZ"];

/// Record kept with results, for `sha256sum -c`.
#[derive(Debug)]
pub(crate) struct Record {
    /// File name.
    pub(crate) name: String,
    /// Hash and path.
    pub(crate) text: String,
}

/// A program.
#[derive(Debug)]
pub(crate) struct Governor {
    path: PathBuf,
    record: Record,
    need: Need,
}

impl Governor {
    pub(crate) fn new(path: PathBuf, record: Record, need: Need) -> Self {
        Self { path, record, need }
    }

    fn process(&self) -> Result<Process, String> {
        let mut command = Command::new(&self.path);
        let kept = ENVIRONMENT
            .iter()
            .filter_map(|name| Some((name, env::var_os(name)?)));
        command.env_clear().envs(kept);
        if let Some(folder) = self.path.parent() {
            command.current_dir(folder);
        }
        let files = Files {
            read: own_files(&self.path),
            write: Vec::new(),
        };
        let group = group::shared();
        if let Some(group) = &group {
            group.take(&mut command);
        }
        sandbox::confine(&mut command, process::LIMITS, &files, self.need)?;
        Process::start(command, group, SILENCE_ADVICE).map_err(|e| match e.raw_os_error() {
            Some(libc::ENOEXEC | libc::ENOENT | libc::EACCES) => format!(
                "{} cannot be started ({e}): it has to be a program of this machine, or a script that begins with #! and \
                 the path of its language",
                self.path.display()
            ),
            _ => process::describe_start_error(&e),
        })
    }
}

/// Readable files besides the system's: the program's folder, and the interpreter in the first line.
fn own_files(program: &Path) -> Vec<PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    let found = program
        .canonicalize()
        .unwrap_or_else(|_| program.to_owned());
    // A whole home, or all, is not the folder of a program.
    let is_wide = |folder: &Path| {
        home.as_ref().is_some_and(|home| home.starts_with(folder)) || folder.parent().is_none()
    };
    let mut all = vec![found.clone()];
    all.extend(
        found
            .parent()
            .filter(|folder| !is_wide(folder))
            .map(Path::to_owned),
    );
    all.extend(
        interpreter(&found)
            .iter()
            .flat_map(|language| parts_of(language)),
    );
    all
}

/// The interpreter that runs a script, if found on the user's `PATH`.
fn interpreter(script: &Path) -> Option<PathBuf> {
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
    let folders = env::var_os("PATH")?;
    let mut folders = env::split_paths(&folders).filter(|folder| folder.is_absolute());
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

/// Folders of an interpreter outside the system: the folders next to the program, at each step along its links.
fn parts_of(language: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut at = language.to_owned();
    for _ in 0..8 {
        if !sandbox::is_of_system(&at)
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

impl Start for Governor {
    fn copy(&self) -> Option<(String, &str)> {
        Some((self.record.name.clone(), &self.record.text))
    }

    fn start(&self, states: &IdleStates, tick: TickRate) -> Result<Box<dyn Running>, String> {
        let process = self.process()?;
        let mut asked = RunningProgram {
            process,
            lines: String::new(),
            lines_told: String::new(),
            utilisation: 0,
        };
        _ = writeln!(asked.lines, "tick,{}", tick.period().0);
        for state in states_text(states) {
            _ = writeln!(asked.lines, "state,{state}");
        }
        Ok(Box::new(asked))
    }
}

/// Fields of the `state` lines.
fn states_text(states: &IdleStates) -> impl Iterator<Item = String> + '_ {
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

/// A program at work.
#[derive(Debug)]
struct RunningProgram {
    process: Process,
    /// What is to be told before the next question.
    lines: String,
    /// Lines sent along with the last query.
    lines_told: String,
    /// Last utilisation sent to the program.
    utilisation: u16,
}

impl RunningProgram {
    /// Reads the program's next line.
    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let mut some = [0; LONGEST];
        while line.last() != Some(&b'\n') {
            let count = self.process.answer(&mut some).map_err(|why| {
                if line.is_empty() {
                    return why;
                }
                let begun = String::from_utf8_lossy(&line).into_owned();
                let begun = printable(&begun);
                format!("{why}; it began to answer `{begun}`, without the end of the line")
            })?;
            line.extend(&some[..count]);
            if line.len() > LONGEST {
                break;
            }
        }
        Ok(String::from_utf8_lossy(&line)
            .trim_end_matches('\n')
            .to_owned())
    }
}

fn decision(line: &str) -> Option<IdleDecision> {
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

impl Running for RunningProgram {
    fn ask(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String> {
        self.process.asked += 1;
        let question = self.process.asked;
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
        if self.process.is_ahead() {
            return Err(format!(
                "it wrote something before it was asked question {question}; expected one line for each `select`, and none \
                 for other lines{}",
                self.process.last_words()
            ));
        }
        self.process.tell(self.lines.as_bytes())?;
        // The memory is used again.
        std::mem::swap(&mut self.lines, &mut self.lines_told);
        self.lines.clear();
        let line = self.line().map_err(|why| {
            let asked = self
                .lines_told
                .trim_end()
                .lines()
                .last()
                .unwrap_or_default();
            format!("{why}. What was not answered: `{asked}`")
        })?;
        let decision = decision(&line).ok_or_else(|| {
            let shown: String = line.chars().take(60).collect();
            format!(
                "it answered `{}` to question {question}. Expected one line such as 2,1: the index of an idle state, and 1 \
                 if the tick may stop, else 0{}",
                shown.escape_default(),
                self.process.last_words()
            )
        })?;
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
