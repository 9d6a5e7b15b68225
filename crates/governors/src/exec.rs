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

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::Command;

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::program::{ProgramAnswer, Running, Start};
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::TickRate;

use crate::Record;
use crate::process::Process;

/// The longest answer in bytes.
const LONGEST: usize = 128;

/// A program.
#[derive(Debug)]
pub(crate) struct Governor {
    path: PathBuf,
    record: Record,
}

impl Governor {
    pub(crate) fn new(path: PathBuf, record: Record) -> Self {
        Self { path, record }
    }
}

impl Start for Governor {
    fn copy(&self) -> Option<(String, &str)> {
        Some((self.record.name.clone(), &self.record.text))
    }

    fn start(&self, states: &IdleStates, tick: TickRate) -> Result<Box<dyn Running>, String> {
        let process = Process::start(Command::new(&self.path)).map_err(|e| {
            let path = self.path.display();
            format!("{path} cannot be started ({e}): it has to be a program of this machine, or a script that begins with #!")
        })?;
        let mut asked = Asked {
            process,
            lines: String::new(),
            utilisation: 0,
        };
        _ = writeln!(asked.lines, "tick,{}", tick.period().0);
        for state in crate::states_text(states) {
            _ = writeln!(asked.lines, "state,{state}");
        }
        Ok(Box::new(asked))
    }
}

/// One that runs.
#[derive(Debug)]
struct Asked {
    process: Process,
    /// What is to be told before the next question.
    lines: String,
    /// What it was told last of its CPU's utilisation.
    utilisation: u16,
}

impl Asked {
    /// The next line that it writes.
    fn line(&mut self) -> Result<String, String> {
        let mut line = Vec::new();
        let mut some = [0; LONGEST];
        while line.last() != Some(&b'\n') {
            let count = self.process.answer(&mut some).map_err(|why| {
                if line.is_empty() {
                    return why;
                }
                let begun = String::from_utf8_lossy(&line).into_owned();
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

impl Running for Asked {
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
        let lines = std::mem::take(&mut self.lines);
        self.process.tell(lines.as_bytes())?;
        // The memory is used again.
        self.lines = lines;
        self.lines.clear();
        let line = self.line()?;
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
