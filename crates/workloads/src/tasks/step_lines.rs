//! The lines that a task's steps are written in.

use std::collections::BTreeMap;

use toml::Spanned;
use wakepath_units::quantity::{parse_frequency, parse_time, parse_whole_number};
use wakepath_units::spelling::suggestion_with_known_names;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::error::{FilePlace, TasksError};
use super::model::{
    MAX_CPU, MAX_DEPTH, MAX_IO_BYTES, MAX_SECONDS, MAX_STEPS, MAX_TASKS, RequestSource, WorkStep,
};
use crate::text::escape_and_shorten;

/// The steps' words.
const WORDS: [&str; 15] = [
    "run", "spin", "on", "read", "write", "flush", "wait", "sync", "synced", "sleep", "timer",
    "arrival", "wake", "await", "callback",
];

/// Size of a sector in bytes.
const SECTOR: u64 = 512;

/// Reads the steps of all tasks in a file, one after the other.
pub(super) struct StepLines<'a> {
    place: FilePlace<'a>,
    /// Number of each task by its name.
    numbers: &'a BTreeMap<&'a str, usize>,
    /// Steps read so far.
    count: usize,
}

/// CPU and clock in whose time further runs are given.
#[derive(Clone, Copy, Default)]
struct RunPlace {
    cpu: Option<u32>,
    clock: Option<Kilohertz>,
}

impl<'a> StepLines<'a> {
    pub(super) fn new(place: FilePlace<'a>, numbers: &'a BTreeMap<&'a str, usize>) -> Self {
        Self {
            place,
            numbers,
            count: 0,
        }
    }

    /// Parses the steps of a task.
    pub(super) fn parse_steps_of_task(
        &mut self,
        steps: &Spanned<String>,
    ) -> Result<Vec<WorkStep>, TasksError> {
        let first_line = self.first_line_of_string(steps);
        let mut place = RunPlace::default();
        let mut all = Vec::new();
        let mut is_in_sync = false;
        for (index, line) in steps.get_ref().lines().enumerate() {
            let words: Vec<&str> = line.split_ascii_whitespace().collect();
            let Some((word, arguments)) = words.split_first() else {
                continue;
            };
            let read = self.parse_step(word, arguments, &mut place);
            let step = read
                .map_err(|message| self.place.error_in_line(Some(first_line + index), message))?;
            if let Some(step) = &step {
                check_place_of_sync(step, &mut is_in_sync).map_err(|message| {
                    self.place.error_in_line(Some(first_line + index), message)
                })?;
            }
            all.extend(step);
            self.count += 1;
            if self.count > MAX_STEPS {
                let message = format!("more than {MAX_STEPS} steps");
                return Err(self.place.error_in_line(Some(first_line + index), message));
            }
        }
        if all.is_empty() {
            let message = "a task has at least one step, such as `run 20us`";
            return Err(self.place.error_at_value(steps, message));
        }
        if is_in_sync {
            let message = "the steps after the last `sync` have no end; add `synced` behind them";
            return Err(self.place.error_at_value(steps, message));
        }
        Ok(all)
    }

    /// The line in the file where a string's text begins: behind the quotes that open it.
    fn first_line_of_string(&self, value: &Spanned<String>) -> usize {
        let start = value.span().start;
        let written = self.place.text.get(start..).unwrap_or_default();
        let has_line_break = ["'''", "\"\"\""].iter().any(|quotes| {
            let rest = written.strip_prefix(quotes);
            rest.is_some_and(|rest| rest.starts_with('\n') || rest.starts_with("\r\n"))
        });
        self.place.line_of_byte(start) + usize::from(has_line_break)
    }

    /// Parses a step; `None`: the line says where further runs were timed.
    fn parse_step(
        &self,
        word: &str,
        arguments: &[&str],
        place: &mut RunPlace,
    ) -> Result<Option<WorkStep>, String> {
        let step = match (word, arguments) {
            ("on", arguments) => {
                *place = parse_run_place(arguments)?;
                return Ok(None);
            }
            ("run", [time]) => place.run_step(parse_step_time(time)?, 0),
            ("run", [time, "interrupts", count]) => {
                let count = parse_number_up_to(count, "a count of interrupts", 1_000_000)?;
                place.run_step(parse_step_time(time)?, count as u32)
            }
            ("spin", [time]) => WorkStep::Spin(parse_step_time(time)?),
            ("read" | "write", [bytes, offset]) => parse_request(word, bytes, offset, false)?,
            ("write", [bytes, offset, "forced"]) => parse_request(word, bytes, offset, true)?,
            ("flush", []) => WorkStep::Flush,
            ("wait", [most]) => WorkStep::AwaitIo(parse_in_flight(most)?),
            ("wait", [most, "passed"]) => WorkStep::PassIo(parse_in_flight(most)?),
            ("sync", [log, bytes]) => parse_sync(log, bytes)?,
            ("synced", []) => WorkStep::EndSync,
            ("sleep", [time]) => WorkStep::Sleep(parse_step_time(time)?),
            ("timer", [time]) => WorkStep::SleepAfterLastTimer(parse_step_time(time)?),
            ("arrival", [time, "cpu", cpu]) => parse_arrival(time, cpu, RequestSource::Own)?,
            ("arrival", [time, "cpu", cpu, "pool", pool]) => {
                let pool = parse_number_up_to(pool, "the number of a pool", MAX_TASKS as u64 - 1)?;
                parse_arrival(time, cpu, RequestSource::Pool(pool as u32))?
            }
            ("arrival", [time, "cpu", cpu, "after", "reply"]) => {
                parse_arrival(time, cpu, RequestSource::Client)?
            }
            ("wake", [name]) => WorkStep::Wake(self.number_of_task(name)?),
            ("await", []) => WorkStep::AwaitWakeUp,
            ("callback", []) => WorkStep::LeaveCallback,
            _ => return Err(describe_wrong_step(word, arguments.len())),
        };
        Ok(Some(step))
    }
}

impl StepLines<'_> {
    fn number_of_task(&self, name: &str) -> Result<u32, String> {
        let number = self.numbers.get(name).map(|number| *number as u32);
        number.ok_or_else(|| {
            let names: Vec<&str> = self.numbers.keys().copied().collect();
            let known = suggestion_with_known_names(name, &names);
            format!("no task is called `{}`{known}", escape_and_shorten(name))
        })
    }
}

impl RunPlace {
    fn run_step(self, time: Nanoseconds, interrupts: u32) -> WorkStep {
        WorkStep::Run {
            time,
            cpu: self.cpu,
            clock: self.clock,
            interrupts,
        }
    }
}

/// Parses `cpu 0 clock 1416000kHz`, each of them or both.
fn parse_run_place(arguments: &[&str]) -> Result<RunPlace, String> {
    let mut place = RunPlace::default();
    for pair in arguments.chunks(2) {
        match pair {
            ["cpu", number] => {
                let cpu = parse_number_up_to(number, "a CPU", MAX_CPU as u64)?;
                place.cpu = Some(cpu as u32);
            }
            ["clock", frequency] => {
                let clock = parse_frequency(frequency).filter(|clock| clock.0 > 0);
                place.clock = Some(clock.ok_or_else(|| {
                    let wrong = escape_and_shorten(frequency);
                    format!("`{wrong}` is no clock; expected one such as 1800000kHz or 1.8GHz")
                })?);
            }
            _ => return Err("expected `on cpu 0 clock 1800000kHz`, or one of both".to_owned()),
        }
    }
    Ok(place)
}

/// Parses a read or write of so many bytes at an offset.
fn parse_request(
    word: &str,
    bytes: &str,
    offset: &str,
    is_forced: bool,
) -> Result<WorkStep, String> {
    let bytes = parse_number_up_to(bytes, "a size in bytes", MAX_IO_BYTES)?;
    if bytes == 0 || bytes % SECTOR != 0 {
        return Err(format!(
            "{bytes} bytes; a request has a multiple of {SECTOR}"
        ));
    }
    Ok(WorkStep::Io {
        write: word == "write",
        bytes: bytes as u32,
        offset: parse_number_up_to(offset, "an offset in bytes", u64::MAX >> 1)?,
        is_forced,
    })
}

/// Parses a wait for a request from the network.
fn parse_arrival(time: &str, cpu: &str, from: RequestSource) -> Result<WorkStep, String> {
    Ok(WorkStep::Arrival {
        time: parse_step_time(time)?,
        cpu: parse_number_up_to(cpu, "a CPU", MAX_CPU as u64)? as u32,
        from,
    })
}

/// Parses what a task appends to a log.
fn parse_sync(log: &str, bytes: &str) -> Result<WorkStep, String> {
    Ok(WorkStep::JoinSync {
        log: parse_number_up_to(log, "the number of a log", MAX_TASKS as u64 - 1)? as u32,
        bytes: parse_number_up_to(bytes, "a size in bytes", MAX_IO_BYTES)? as u32,
    })
}

/// Checks that `sync` and `synced` come by turns, the one first.
fn check_place_of_sync(step: &WorkStep, is_in_sync: &mut bool) -> Result<(), &'static str> {
    match step {
        WorkStep::JoinSync { .. } if std::mem::replace(is_in_sync, true) => {
            Err("`sync` among the steps of another one; end these with `synced`")
        }
        WorkStep::EndSync if !std::mem::take(is_in_sync) => {
            Err("`synced` without a `sync` before it; write `sync 0 4096` where the sync begins")
        }
        _ => Ok(()),
    }
}

/// Parses the most requests in flight after a wait.
fn parse_in_flight(text: &str) -> Result<u32, String> {
    let limit = u64::from(MAX_DEPTH) - 1;
    Ok(parse_number_up_to(text, "requests in flight", limit)? as u32)
}

fn parse_step_time(text: &str) -> Result<Nanoseconds, String> {
    let longest = (MAX_SECONDS * 1e9) as u64;
    let time = parse_time(text).filter(|time| time.0 <= longest);
    time.ok_or_else(|| {
        let wrong = escape_and_shorten(text);
        format!("`{wrong}` is no time; expected one such as 12.5us, of at most {MAX_SECONDS} s")
    })
}

fn parse_number_up_to(text: &str, what: &str, most: u64) -> Result<u64, String> {
    let number = parse_whole_number(text).filter(|number| *number <= most);
    number.ok_or_else(|| {
        let wrong = escape_and_shorten(text);
        format!("`{wrong}` is not {what}: a whole number from 0 to {most}")
    })
}

/// Describes a step with an unknown word, or with other arguments than its word takes.
fn describe_wrong_step(word: &str, arguments: usize) -> String {
    let example = match word {
        "run" => "run 20us",
        "spin" => "spin 50us",
        "read" | "write" => "read 4096 0",
        "wait" => "wait 0",
        "sync" => "sync 0 4096",
        "synced" => "synced",
        "sleep" | "timer" => "sleep 300us",
        "arrival" => "arrival 300us cpu 0",
        "wake" => "wake NAME",
        "flush" => "flush",
        "await" => "await",
        "callback" => "callback",
        _ => {
            let known = suggestion_with_known_names(word, &WORDS);
            return format!("no step is called `{}`{known}", escape_and_shorten(word));
        }
    };
    format!("`{word}` has {arguments} arguments; expected `{example}`")
}
