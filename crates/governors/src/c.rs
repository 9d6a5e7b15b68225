//! `c:FILE`: C code of a kernel's governor, asked in the records of `c/record.h`.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;
use std::sync::Arc;

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::program::{ProgramAnswer, Running, Start};
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::{Nanoseconds, TickRate};

use crate::compile::{self, Binary};
use crate::process::Process;
use crate::source::Source;

/// `CASE_MAGIC`.
const MAGIC: u32 = 0x6573_6163;
/// `KEEP_DEFAULTS`.
const KEEP_DEFAULTS: u32 = 2;
/// `ASK_REFLECT` and `ASK_TOGGLE`.
const REFLECT: u32 = 1;
const TOGGLE: u32 = 2;
/// `sizeof(struct question_record)`.
const QUESTION: usize = 72;
/// `sizeof(struct answer_record)`.
const ANSWER: usize = 16;
/// `EXIT_ENDLESS`.
const ENDLESS: i32 = 86;

/// A governor's C code.
#[derive(Debug)]
pub(crate) struct Governor {
    source: Source,
    /// What results call their copy of it.
    copy: String,
}

impl Governor {
    pub(crate) fn new(source: Source, copy: String) -> Self {
        Self { source, copy }
    }
}

impl Start for Governor {
    fn check(&self) -> Result<(), String> {
        compile::compile(&self.source, crate::ANY_TICK).map(drop)
    }

    fn copy(&self) -> Option<(String, &str)> {
        Some((self.copy.clone(), &self.source.text))
    }

    fn start(&self, states: &IdleStates, tick: TickRate) -> Result<Box<dyn Running>, String> {
        let binary = compile::compile(&self.source, tick)?;
        let mut command = Command::new(binary.path());
        command.arg("--serve").env_clear();
        let process = Process::start(command).map_err(|e| format!("cannot be started: {e}"))?;
        let mut running = Compiled {
            process,
            _binary: binary,
        };
        running.process.tell(&case(states))?;
        Ok(Box::new(running))
    }
}

/// `struct case_record` without calls, and its states.
fn case(states: &IdleStates) -> Vec<u8> {
    let words = [MAGIC, states.len() as u32, 0, 0, 0, 0, 0, KEEP_DEFAULTS];
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
    for state in states.iter() {
        let flags = u64::from(state.polling) | u64::from(state.disabled) << 1;
        for field in [state.exit_latency.0, state.target_residency.0, flags] {
            bytes.extend(field.to_ne_bytes());
        }
    }
    bytes
}

/// One that runs.
#[derive(Debug)]
struct Compiled {
    process: Process,
    // Its program.
    _binary: Arc<Binary>,
}

impl Compiled {
    /// What its end means.
    fn explain(&mut self, why: String) -> String {
        let question = self.process.asked;
        let Some(status) = self.process.status() else {
            return why;
        };
        let words = self.process.last_words();
        match (status.code(), status.signal()) {
            (Some(ENDLESS), _) => format!(
                "it computed for more than a second of processor time without an answer to question {question}: a loop \
                 without an end"
            ),
            (_, Some(libc::SIGKILL)) => format!(
                "it was ended at question {question} for asking the kernel for something: a governor may only compute"
            ),
            (_, Some(signal)) => {
                let name = match signal {
                    libc::SIGSEGV | libc::SIGBUS => "it used memory that is not its own",
                    libc::SIGFPE => "it divided by zero",
                    libc::SIGILL | libc::SIGTRAP | libc::SIGABRT => "it ran into a trap",
                    _ => "it was ended by a signal",
                };
                format!(
                    "it crashed at question {question}: {name} ({status}){words}. `wakepath replay --calls FILE` writes \
                     what it was asked, and `wakepath policy idle` asks it again"
                )
            }
            _ => why,
        }
    }

    fn talk(
        &mut self,
        question: &[u8; QUESTION],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        self.process.tell(question)?;
        if let Some(answer) = answer {
            let mut filled = 0;
            while filled < ANSWER {
                filled += self.process.answer(&mut answer[filled..])?;
            }
        }
        Ok(())
    }
}

/// `struct question_record`.
fn question(
    last: Option<(usize, &IdleOutcome)>,
    query: &IdleQuery,
    (toggle, ask): (u8, u32),
    utilisation: u16,
) -> [u8; QUESTION] {
    let outcome = last.map(|(_, outcome)| *outcome).unwrap_or_default();
    let entered = last.map_or(0, |(state, _)| state as u32);
    let mut bytes = [0; QUESTION];
    let mut at = 0;
    let mut put = |field: &[u8]| {
        bytes[at..at + field.len()].copy_from_slice(field);
        at += field.len();
    };
    put(&query.sleep_length.to_ne_bytes());
    put(&query.delta_tick.to_ne_bytes());
    put(&query.latency_request.to_ne_bytes());
    put(&query.clock.to_ne_bytes());
    put(&outcome.clock.to_ne_bytes());
    put(&outcome.residency.to_ne_bytes());
    put(&query.nr_iowait.to_ne_bytes());
    put(&[
        u8::from(query.tick_stopped),
        u8::from(outcome.got_tick),
        u8::from(outcome.poll_limit_hit),
        toggle,
    ]);
    put(&entered.to_ne_bytes());
    put(&ask.to_ne_bytes());
    put(&u32::from(utilisation).to_ne_bytes());
    bytes
}

impl Running for Compiled {
    fn ask(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String> {
        self.process.asked += 1;
        let ask = if last.is_some() { REFLECT } else { 0 };
        let mut bytes = [0; ANSWER];
        let question = question(last, query, (0, ask), utilisation);
        self.talk(&question, Some(&mut bytes))
            .map_err(|why| self.explain(why))?;
        let [a, b, c, d, tick, _, _, _, limit @ ..] = bytes;
        let state = i32::from_ne_bytes([a, b, c, d]);
        let limit = u64::from_ne_bytes(limit);
        Ok(ProgramAnswer {
            decision: IdleDecision {
                state: usize::try_from(state)
                    .map_err(|_| format!("it chose idle state {state}"))?,
                stop_tick: tick != 0,
            },
            poll_limit: (limit > 0).then_some(Nanoseconds(limit)),
        })
    }

    fn set_disabled(&mut self, state: usize, disabled: bool) -> Result<(), String> {
        let toggle = (state as u8 + 1) << 1 | u8::from(disabled);
        let question = question(None, &IdleQuery::default(), (toggle, TOGGLE), 0);
        self.talk(&question, None).map_err(|why| self.explain(why))
    }
}
