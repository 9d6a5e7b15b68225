//! `c:FILE`: a governor in C, as in a kernel, queried through the records in `c/record.h`.
//!
//! A process serves many CPUs, each in a slot with a private copy of the governor's variables (`c/serve.c`), and
//! stays for the next run. Each thread has its own process, so threads never wait for each other. Answers depend on
//! neither: a slot begins as a freshly booted CPU.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::program::{ProgramAnswer, Running, Start};
use wakepath_policies::idle::{IdleDecision, IdleOutcome, IdleQuery};
use wakepath_units::{Nanoseconds, TickRate};

use crate::compile::{self, Binary};
use crate::process::{self, Process};
use crate::sandbox::{self, Need};
use crate::source::Source;

/// `CASE_MAGIC`.
const MAGIC: u32 = 0x6573_6163;
/// `KEEP_DEFAULTS`.
const KEEP_DEFAULTS: u32 = 2;
/// `ASK_REFLECT`, `ASK_TOGGLE` and `ASK_START`.
const REFLECT: u32 = 1;
const TOGGLE: u32 = 2;
const START: u32 = 4;
/// `sizeof(struct question_record)`.
const QUESTION: usize = 72;
/// `sizeof(struct answer_record)`.
const ANSWER: usize = 16;
/// `EXIT_ENDLESS` and `EXIT_UNCONFINED`.
const ENDLESS: i32 = 86;
const UNCONFINED: i32 = 87;
/// The limit of processor time ends an endless loop first, unless others keep the CPUs busy.
const SILENCE_ADVICE: &str =
    "it has a loop without an end, or other programs leave it no processor time";

/// The tick rate that C code is compiled for to see whether it compiles.
const ANY_TICK: TickRate = TickRate::HZ_250;

/// A governor's C code.
#[derive(Debug)]
pub(crate) struct Governor {
    source: Source,
    /// Name of the copy kept with results.
    copy: String,
    need: Need,
    /// Running processes, by tick rate in Hz.
    servers: Mutex<Vec<(u32, Arc<Server>)>>,
}

impl Governor {
    pub(crate) fn new(source: Source, copy: String, need: Need) -> Self {
        Self {
            source,
            copy,
            need,
            servers: Mutex::default(),
        }
    }

    /// A free slot in a process used by this thread or by none.
    fn slot(&self, tick: TickRate) -> Result<Slot, String> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|(_, server)| {
            let served = server.lock();
            served.process.is_ours() && !served.failed
        });
        let same = servers.iter().filter(|(hz, _)| *hz == tick.hz());
        if let Some(slot) = same.map(|(_, server)| server).find_map(Server::take_slot) {
            return Ok(slot);
        }
        let binary = compile::compile(&self.source, tick, self.need)?;
        let server = Arc::new(Server::start(&binary)?);
        servers.push((tick.hz(), Arc::clone(&server)));
        Server::take_slot(&server).ok_or_else(|| "its process serves no CPU".to_owned())
    }
}

impl Start for Governor {
    fn check(&self) -> Result<Option<String>, String> {
        let binary = compile::compile(&self.source, ANY_TICK, self.need)?;
        Ok(binary.warnings().map(str::to_owned))
    }

    fn copy(&self) -> Option<(String, &str)> {
        Some((self.copy.clone(), &self.source.text))
    }

    fn start(&self, states: &IdleStates, tick: TickRate) -> Result<Box<dyn Running>, String> {
        let slot = self.slot(tick)?;
        let begin = question(slot.index, None, &IdleQuery::default(), (0, START), 0);
        let mut bytes = begin.to_vec();
        bytes.extend(case(states));
        slot.server.lock().exchange(&bytes, None)?;
        Ok(Box::new(Compiled { slot, asked: 0 }))
    }
}

/// A process that serves CPUs.
#[derive(Debug)]
struct Server(Mutex<Served>);

#[derive(Debug)]
struct Served {
    process: Process,
    /// Free slots of the process.
    free: Vec<u32>,
    slots: u32,
    /// Thread that uses the process, while a slot is taken.
    user: Option<ThreadId>,
    /// After a missing answer the process is asked no more.
    failed: bool,
}

impl Served {
    fn exchange(
        &mut self,
        question: &[u8],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        let exchanged = self.try_exchange(question, answer);
        self.failed |= exchanged.is_err();
        exchanged
    }

    fn try_exchange(
        &mut self,
        question: &[u8],
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

impl Server {
    fn start(binary: &Binary) -> Result<Self, String> {
        let (mut command, _launcher) = binary.command()?;
        sandbox::limit(&mut command, process::LIMITS);
        let process = Process::start(command, None, SILENCE_ADVICE)
            .map_err(|e| process::describe_start_error(&e))?;
        let slots = binary.slots();
        Ok(Self(Mutex::new(Served {
            process,
            free: (0..slots).rev().collect(),
            slots,
            user: None,
            failed: false,
        })))
    }

    fn lock(&self) -> MutexGuard<'_, Served> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_slot(self: &Arc<Self>) -> Option<Slot> {
        let mut served = self.lock();
        let me = thread::current().id();
        if served.user.is_some_and(|user| user != me) {
            return None;
        }
        let index = served.free.pop()?;
        served.user = Some(me);
        Some(Slot {
            server: Arc::clone(self),
            index,
        })
    }
}

/// A CPU served by a process.
#[derive(Debug)]
struct Slot {
    server: Arc<Server>,
    index: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut served = self.server.lock();
        served.free.push(self.index);
        if served.free.len() == served.slots as usize {
            served.user = None;
        }
    }
}

/// `struct case_record` without calls, followed by the idle states.
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

/// A compiled governor at work.
#[derive(Debug)]
struct Compiled {
    slot: Slot,
    /// Questions so far.
    asked: u64,
}

impl Compiled {
    /// Explains to users why the process ended.
    fn explain(&self, process: &mut Process, why: String) -> String {
        let question = self.asked;
        let Some(status) = process.status() else {
            return why;
        };
        let words = process.last_words();
        match (status.code(), status.signal()) {
            (Some(ENDLESS), _) => format!(
                "it computed for more than a second of processor time without an answer to question {question}: a loop \
                 without an end"
            ),
            (Some(UNCONFINED), _) => Need::refusal(),
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
        &self,
        question: &[u8; QUESTION],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        let mut served = self.slot.server.lock();
        served.process.asked = self.asked;
        let exchanged = served.exchange(question, answer);
        exchanged.map_err(|why| self.explain(&mut served.process, why))
    }
}

/// `struct question_record`.
fn question(
    slot: u32,
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
    put(&slot.to_ne_bytes());
    bytes
}

impl Running for Compiled {
    fn ask(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String> {
        self.asked += 1;
        let ask = if last.is_some() { REFLECT } else { 0 };
        let mut bytes = [0; ANSWER];
        let question = question(self.slot.index, last, query, (0, ask), utilisation);
        self.talk(&question, Some(&mut bytes))?;
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
        let question = question(
            self.slot.index,
            None,
            &IdleQuery::default(),
            (toggle, TOGGLE),
            0,
        );
        self.talk(&question, None)
    }
}
