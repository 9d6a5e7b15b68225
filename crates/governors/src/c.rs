//! `c:FILE`: a governor in C, as in a kernel, queried through the records in `c/record.h`.
//!
//! A process serves many CPUs, each in a slot with a private copy of the governor's variables (`c/serve.c`), and
//! stays for the next run. Each thread has its own process, so threads never wait for each other. Answers depend on
//! neither: a slot begins as a freshly booted CPU.

use std::os::unix::process::ExitStatusExt as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use wakepath_hardware::IdleStates;
use wakepath_policies::idle::program::{GovernorStarter, ProgramAnswer, RunningGovernor};
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
/// Request bits `ASK_REFLECT`, `ASK_TOGGLE` and `ASK_START` of a question.
const REFLECT: u32 = 1;
const TOGGLE: u32 = 2;
const START: u32 = 4;
/// Bytes of a question: `sizeof(struct question_record)`.
const QUESTION: usize = 72;
/// Bytes of an answer: `sizeof(struct answer_record)`.
const ANSWER: usize = 16;
/// Exit statuses `EXIT_ENDLESS` and `EXIT_UNCONFINED` of a process that serves C code.
const ENDLESS: i32 = 86;
const UNCONFINED: i32 = 87;
/// Advice for C code that does not answer: the limit of processor time ends an endless loop first,
/// unless others keep the CPUs busy.
const SILENCE_ADVICE: &str =
    "it has a loop without an end, or other programs leave it no processor time";

/// The tick rate that C code is compiled for to see whether it compiles.
const ANY_TICK: TickRate = TickRate::HZ_250;

/// A governor's C code and the processes that run it.
#[derive(Debug)]
pub(crate) struct CGovernor {
    source: Source,
    /// Name of the source's copy that is kept with results.
    copy: String,
    need: Need,
    /// Running processes of the governor, by tick rate in Hz.
    servers: Mutex<Vec<(u32, Arc<Server>)>>,
}

impl CGovernor {
    pub(crate) fn new(source: Source, copy: String, need: Need) -> Self {
        Self {
            source,
            copy,
            need,
            servers: Mutex::default(),
        }
    }

    /// Takes a free slot in a process that this thread or no thread uses; starts a process if there
    /// is none.
    fn take_slot(&self, tick: TickRate) -> Result<Slot, String> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        servers.retain(|(_, server)| {
            let slots = server.lock_slots();
            slots.process.is_own_running_child() && !slots.failed
        });
        let free_slot = servers
            .iter()
            .filter(|(hz, _)| *hz == tick.hz())
            .find_map(|(_, server)| server.take_slot_for_this_thread());
        if let Some(slot) = free_slot {
            return Ok(slot);
        }
        let binary = compile::compile_governor(&self.source, tick, self.need)?;
        let server = Arc::new(Server::start_process(&binary)?);
        servers.push((tick.hz(), Arc::clone(&server)));
        server
            .take_slot_for_this_thread()
            .ok_or_else(|| "its process serves no CPU".to_owned())
    }
}

impl GovernorStarter for CGovernor {
    fn check_governor(&self) -> Result<Option<String>, String> {
        let binary = compile::compile_governor(&self.source, ANY_TICK, self.need)?;
        Ok(binary.gcc_warnings().map(str::to_owned))
    }

    fn copy_for_results(&self) -> Option<(String, &str)> {
        Some((self.copy.clone(), &self.source.text))
    }

    fn start_governor(
        &self,
        states: &IdleStates,
        tick: TickRate,
    ) -> Result<Box<dyn RunningGovernor>, String> {
        let slot = self.take_slot(tick)?;
        let start = encode_question_record(slot.index, None, &IdleQuery::default(), (0, START), 0);
        let mut bytes = start.to_vec();
        bytes.extend(encode_case_record(states));
        slot.server
            .lock_slots()
            .exchange_or_mark_failed(&bytes, None)?;
        Ok(Box::new(RunningCode { slot, asked: 0 }))
    }
}

/// A process that serves CPUs with a C governor.
#[derive(Debug)]
struct Server(Mutex<ServerSlots>);

/// Slots of a server process, one for each CPU.
#[derive(Debug)]
struct ServerSlots {
    process: Process,
    free: Vec<u32>,
    count: u32,
    /// Thread that uses the process; `None` while no slot is taken.
    user: Option<ThreadId>,
    /// Whether an answer was missing: the process is not asked any more.
    failed: bool,
}

impl ServerSlots {
    fn exchange_or_mark_failed(
        &mut self,
        question: &[u8],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        let exchanged = self.send_and_read_answer(question, answer);
        self.failed |= exchanged.is_err();
        exchanged
    }

    fn send_and_read_answer(
        &mut self,
        question: &[u8],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        self.process.send_question(question)?;
        if let Some(answer) = answer {
            let mut filled = 0;
            while filled < ANSWER {
                filled += self.process.read_some_of_answer(&mut answer[filled..])?;
            }
        }
        Ok(())
    }
}

impl Server {
    fn start_process(binary: &Binary) -> Result<Self, String> {
        let (mut command, _launcher) = binary.server_command()?;
        sandbox::limit_command_resources(&mut command, process::LIMITS);
        let process = Process::start_with_socket(command, None, SILENCE_ADVICE)
            .map_err(|e| process::describe_start_error(&e))?;
        let count = binary.cpus_per_process();
        Ok(Self(Mutex::new(ServerSlots {
            process,
            free: (0..count).rev().collect(),
            count,
            user: None,
            failed: false,
        })))
    }

    fn lock_slots(&self) -> MutexGuard<'_, ServerSlots> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take_slot_for_this_thread(self: &Arc<Self>) -> Option<Slot> {
        let mut slots = self.lock_slots();
        let this_thread = thread::current().id();
        if slots.user.is_some_and(|user| user != this_thread) {
            return None;
        }
        let index = slots.free.pop()?;
        slots.user = Some(this_thread);
        Some(Slot {
            server: Arc::clone(self),
            index,
        })
    }
}

/// A CPU's place in a server process; dropping the value frees the place.
#[derive(Debug)]
struct Slot {
    server: Arc<Server>,
    index: u32,
}

impl Drop for Slot {
    fn drop(&mut self) {
        let mut slots = self.server.lock_slots();
        slots.free.push(self.index);
        if slots.free.len() == slots.count as usize {
            slots.user = None;
        }
    }
}

/// Encodes a `struct case_record` without calls, followed by the idle states.
fn encode_case_record(states: &IdleStates) -> Vec<u8> {
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

/// A compiled governor that serves one CPU.
#[derive(Debug)]
struct RunningCode {
    slot: Slot,
    /// Questions so far.
    asked: u64,
}

impl RunningCode {
    /// Explains to users why the process of a C governor ended; returns `error` if it still runs.
    fn explain_process_end(&self, process: &mut Process, error: String) -> String {
        let question = self.asked;
        let Some(status) = process.wait_briefly_for_exit() else {
            return error;
        };
        let words = process.end_of_standard_error();
        match (status.code(), status.signal()) {
            (Some(ENDLESS), _) => format!(
                "it computed for more than a second of processor time without an answer to question {question}: a loop \
                 without an end"
            ),
            (Some(UNCONFINED), _) => Need::refusal_text(),
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
            _ => error,
        }
    }

    /// Sends a question to the process, and fills in the answer if one is expected.
    fn ask_process(
        &self,
        question: &[u8; QUESTION],
        answer: Option<&mut [u8; ANSWER]>,
    ) -> Result<(), String> {
        let mut slots = self.slot.server.lock_slots();
        slots.process.asked = self.asked;
        let exchanged = slots.exchange_or_mark_failed(question, answer);
        exchanged.map_err(|error| self.explain_process_end(&mut slots.process, error))
    }
}

/// Writes the fields of a `struct question_record` one after another.
struct QuestionWriter {
    bytes: [u8; QUESTION],
    written: usize,
}

impl QuestionWriter {
    fn push_field(&mut self, field: &[u8]) {
        let end = self.written + field.len();
        self.bytes[self.written..end].copy_from_slice(field);
        self.written = end;
    }
}

/// Encodes a `struct question_record`. `toggle` and `ask` have the bits of `c/record.h`.
fn encode_question_record(
    slot: u32,
    last: Option<(usize, &IdleOutcome)>,
    query: &IdleQuery,
    (toggle, ask): (u8, u32),
    utilisation: u16,
) -> [u8; QUESTION] {
    let outcome = last.map(|(_, outcome)| *outcome).unwrap_or_default();
    let entered = last.map_or(0, |(state, _)| state as u32);
    let mut record = QuestionWriter {
        bytes: [0; QUESTION],
        written: 0,
    };
    record.push_field(&query.sleep_length.to_ne_bytes());
    record.push_field(&query.delta_tick.to_ne_bytes());
    record.push_field(&query.latency_request.to_ne_bytes());
    record.push_field(&query.clock.to_ne_bytes());
    record.push_field(&outcome.clock.to_ne_bytes());
    record.push_field(&outcome.residency.to_ne_bytes());
    record.push_field(&query.nr_iowait.to_ne_bytes());
    record.push_field(&[
        u8::from(query.tick_stopped),
        u8::from(outcome.got_tick),
        u8::from(outcome.poll_limit_hit),
        toggle,
    ]);
    record.push_field(&entered.to_ne_bytes());
    record.push_field(&ask.to_ne_bytes());
    record.push_field(&u32::from(utilisation).to_ne_bytes());
    record.push_field(&slot.to_ne_bytes());
    record.bytes
}

impl RunningGovernor for RunningCode {
    fn report_and_query(
        &mut self,
        last: Option<(usize, &IdleOutcome)>,
        query: &IdleQuery,
        utilisation: u16,
    ) -> Result<ProgramAnswer, String> {
        self.asked += 1;
        let ask = if last.is_some() { REFLECT } else { 0 };
        let mut bytes = [0; ANSWER];
        let question = encode_question_record(self.slot.index, last, query, (0, ask), utilisation);
        self.ask_process(&question, Some(&mut bytes))?;
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
        let question = encode_question_record(
            self.slot.index,
            None,
            &IdleQuery::default(),
            (toggle, TOGGLE),
            0,
        );
        self.ask_process(&question, None)
    }
}
