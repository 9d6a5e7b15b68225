//! The records exchanged with the C programs. Their layout is `c/record.h`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use wakepath_hardware::IdleState;
use wakepath_policies::idle::{IdleOutcome, IdleQuery};
use wakepath_policies::input;

/// The kernel's default latency request in ns, which limits nothing.
pub const NO_LATENCY_LIMIT: i64 = 2_147_483_647_000;

const CASE_MAGIC: u32 = 0x6573_6163;
/// Flag in the place of haltpoll's last parameter: the kernel's defaults stay.
const KEEP_DEFAULTS: u32 = 2;
const POLLING: u64 = 1;
const DISABLED: u64 = 2;

/// An idle state as the C programs read it. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StateRecord {
    /// Declared worst-case exit latency of the idle state, in ns.
    pub exit_latency: i64,
    /// Shortest residency in the idle state that saves energy, in ns.
    pub target_residency: i64,
    /// The state spins.
    pub polling: bool,
    /// Whether the idle state is switched off.
    pub disabled: bool,
}

impl From<&IdleState> for StateRecord {
    fn from(state: &IdleState) -> Self {
        Self {
            exit_latency: state.exit_latency.0 as i64,
            target_residency: state.target_residency.0 as i64,
            polling: state.polling,
            disabled: state.disabled,
        }
    }
}

/// One call of a governor: query and outcome, in the layout of the C programs, so that both sides
/// of the benchmark walk over the same bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct CallRecord {
    /// Time to the next timer with the tick stopped, in ns.
    pub sleep_length: i64,
    /// Time to the next timer or tick, in ns.
    pub delta_tick: i64,
    /// Longest tolerated exit latency, in ns.
    pub latency_request: i64,
    /// The CPU's clock at select, in ns.
    pub select_clock: u64,
    /// The CPU's clock at reflect, in ns.
    pub reflect_clock: u64,
    /// Measured residency in ns; 0 when the driver refused the state.
    pub residency: u64,
    /// Number of tasks that wait for I/O.
    pub nr_iowait: u32,
    /// Whether the tick is stopped already.
    pub tick_stopped: bool,
    /// Whether the tick woke the CPU.
    pub got_tick: bool,
    /// Whether the polling state gave up at its limit.
    pub poll_limit_hit: bool,
    /// State that is switched on or off in sysfs before the call. The text format has no place for
    /// it, and the benchmark leaves it out.
    pub toggle: Toggle,
}

impl From<(&IdleQuery, &IdleOutcome)> for CallRecord {
    fn from((query, outcome): (&IdleQuery, &IdleOutcome)) -> Self {
        Self {
            sleep_length: query.sleep_length,
            delta_tick: query.delta_tick,
            latency_request: query.latency_request,
            select_clock: query.clock,
            reflect_clock: outcome.clock,
            residency: outcome.residency,
            nr_iowait: query.nr_iowait,
            tick_stopped: query.tick_stopped,
            got_tick: outcome.got_tick,
            poll_limit_hit: outcome.poll_limit_hit,
            toggle: Toggle::default(),
        }
    }
}

/// An idle state that is switched on or off before a call, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct Toggle(u8);

impl Toggle {
    /// Switches idle state number `state` off or on.
    pub const fn switch_state(state: u8, off: bool) -> Self {
        Self((state + 1) << 1 | off as u8)
    }

    /// Index of the idle state, and whether it is switched off; `None` without a change.
    pub const fn state_and_disabled(self) -> Option<(usize, bool)> {
        match self.0 {
            0 => None,
            toggle => Some(((toggle >> 1) as usize - 1, toggle & 1 != 0)),
        }
    }
}

/// The `guest_halt_poll_*` parameters of haltpoll. Times in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaltPoll {
    /// Longest polling time.
    pub limit: u32,
    /// Divisor of haltpoll's polling time when it shrinks; 0 drops to no polling at once.
    pub shrink: u32,
    /// Factor of haltpoll's polling time when it grows.
    pub grow: u32,
    /// First polling time when haltpoll grows it from nothing, in ns.
    pub grow_start: u32,
    /// Whether haltpoll's polling time may shrink at all.
    pub allow_shrink: bool,
}

/// A governor's test case: a state table and a call log, for one CPU from its boot on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case {
    /// Parameters of haltpoll; `None`: the kernel's defaults. Other governors ignore them.
    pub halt_poll: Option<HaltPoll>,
    /// Idle states of the CPU, 1 to 10, shallowest first.
    pub states: Vec<StateRecord>,
    /// Calls of the governor, in their order.
    pub calls: Vec<CallRecord>,
}

/// A utilisation update, as seen by a cpufreq governor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventRecord {
    /// When, in ns.
    pub time: u64,
    /// Whether a task woke up from waiting for I/O.
    pub iowait: bool,
    /// Whether another CPU in the same frequency domain asks for its boost; schedutil only.
    pub other_cpu: bool,
    /// Capacity of the CPU at its highest frequency, up to 1024.
    pub max_capacity: u32,
    /// Values of the CPU's counters APERF, MPERF and TSC.
    pub counters: [u64; 3],
}

/// A test case of a boost: a CPU's utilisation updates since boot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EventCase {
    /// Performance levels. For the HWP boost: the lowest, the guaranteed and the highest one. For
    /// `intel_pstate` without HWP: the P-states min, max, `max_physical` and turbo, and the lowest
    /// and highest that the policy allows.
    pub levels: [u8; 6],
    /// Utilisation updates, in their order.
    pub events: Vec<EventRecord>,
}

/// A power state of a drive, as far as APST depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriveState {
    /// Time to enter the power state, in us.
    pub entry_us: u32,
    /// Time to leave the power state, in us.
    pub exit_us: u32,
    /// Whether no I/O is possible in the power state.
    pub non_operational: bool,
}

/// A test case of APST: a drive and the parameters for its table. `None`: the kernel's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DriveCase {
    /// Name of the drive that the power states come from, for messages.
    pub name: String,
    /// Whether the drive knows APST.
    pub apsta: bool,
    /// Number of the drive's deepest power state.
    pub npss: u8,
    /// Whether APST is switched on.
    pub enabled: bool,
    /// Whether the quirk holds that keeps the drive out of its deepest state.
    pub no_deepest: bool,
    /// Latency budget of the drive in us.
    pub max_latency_us: Option<u64>,
    /// Idle time before a power state within the primary tolerance, in ms.
    pub primary_timeout_ms: Option<u64>,
    /// Idle time before a power state within the secondary tolerance, in ms.
    pub secondary_timeout_ms: Option<u64>,
    /// Highest entry plus exit latency of the primary state, in us.
    pub primary_tolerance_us: Option<u64>,
    /// Highest entry plus exit latency of the secondary, deeper state, in us.
    pub secondary_tolerance_us: Option<u64>,
    /// Power states of the drive, at most 32.
    pub states: Vec<DriveState>,
}

/// APST command that the kernel would send to a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApstCommand {
    /// Whether the command switches APST on.
    pub enable: bool,
    /// Table in the command: 32 little-endian entries.
    pub entries: [u64; 32],
}

/// Encodes a decision as the C program prints it: the state in bits 6:0, `stop_tick` in bit 7.
pub const fn encode_decision(state: usize, stop_tick: bool) -> u8 {
    state as u8 & 0x7f | (stop_tick as u8) << 7
}

/// Writes a decision in the text form of `wakepath policy idle`.
pub fn format_decision(byte: u8) -> String {
    format!("{},{}", byte & 0x7f, byte >> 7)
}

impl Case {
    /// Appends the case to the input of a governor's C program.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let halt_poll = self.halt_poll.map_or([0, 0, 0, 0, KEEP_DEFAULTS], |p| {
            let allow_shrink = u32::from(p.allow_shrink);
            [p.limit, p.shrink, p.grow, p.grow_start, allow_shrink]
        });
        let table = [
            CASE_MAGIC,
            self.states.len() as u32,
            self.calls.len() as u32,
        ];
        for word in table.into_iter().chain(halt_poll) {
            out.extend(word.to_le_bytes());
        }
        for state in &self.states {
            out.extend(state.exit_latency.to_le_bytes());
            out.extend(state.target_residency.to_le_bytes());
            let polling = if state.polling { POLLING } else { 0 };
            let disabled = if state.disabled { DISABLED } else { 0 };
            out.extend((polling | disabled).to_le_bytes());
        }
        for call in &self.calls {
            call.append_to(out);
        }
    }

    /// Writes state table and call log to `PREFIXstates.csv` and `PREFIXcalls.csv` in `folder`, and
    /// returns these paths.
    pub fn write_csv_files(&self, folder: &Path, prefix: &str) -> Result<(PathBuf, PathBuf)> {
        fs::create_dir_all(folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        let states = folder.join(format!("{prefix}states.csv"));
        let calls = folder.join(format!("{prefix}calls.csv"));
        for (path, text) in [(&states, self.states_csv()), (&calls, self.calls_csv())] {
            fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok((states, calls))
    }

    /// State table of the case in the form that `wakepath policy idle --states` reads.
    pub fn states_csv(&self) -> String {
        let mut text = String::new();
        for (i, s) in self.states.iter().enumerate() {
            let (polling, disabled) = (u8::from(s.polling), u8::from(s.disabled));
            let (exit, residency) = (s.exit_latency, s.target_residency);
            let _ = writeln!(text, "S{i},{exit},{residency},{polling},{disabled}");
        }
        text
    }

    /// Call log of the case in the form that `wakepath policy idle` reads.
    pub fn calls_csv(&self) -> String {
        self.calls.iter().fold(String::new(), |mut text, call| {
            let _ = writeln!(text, "{}", call.to_input_call());
            text
        })
    }
}

impl CallRecord {
    fn append_to(&self, out: &mut Vec<u8>) {
        out.extend(self.sleep_length.to_le_bytes());
        out.extend(self.delta_tick.to_le_bytes());
        out.extend(self.latency_request.to_le_bytes());
        out.extend(self.select_clock.to_le_bytes());
        out.extend(self.reflect_clock.to_le_bytes());
        out.extend(self.residency.to_le_bytes());
        out.extend(self.nr_iowait.to_le_bytes());
        out.extend([
            u8::from(self.tick_stopped),
            u8::from(self.got_tick),
            u8::from(self.poll_limit_hit),
            self.toggle.0,
        ]);
    }

    /// The call in the form that wakepath's governors take.
    #[inline]
    pub fn to_input_call(&self) -> input::Call {
        input::Call {
            query: IdleQuery {
                sleep_length: self.sleep_length,
                delta_tick: self.delta_tick,
                tick_stopped: self.tick_stopped,
                after_tick: false,
                latency_request: self.latency_request,
                nr_iowait: self.nr_iowait,
                clock: self.select_clock,
                true_idle: self.residency,
                package_saving: 0,
            },
            outcome: IdleOutcome {
                clock: self.reflect_clock,
                residency: self.residency,
                got_tick: self.got_tick,
                poll_limit_hit: self.poll_limit_hit,
            },
        }
    }
}

impl EventCase {
    /// Appends the case to the input of a boost's C program.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        out.extend(CASE_MAGIC.to_le_bytes());
        out.extend((self.events.len() as u32).to_le_bytes());
        out.extend(self.levels);
        out.extend([0, 0]);
        for event in &self.events {
            out.extend(event.time.to_le_bytes());
            out.extend(encode_event_flags(event).to_le_bytes());
            out.extend(event.max_capacity.to_le_bytes());
            for counter in event.counters {
                out.extend(counter.to_le_bytes());
            }
        }
    }
}

fn encode_event_flags(event: &EventRecord) -> u32 {
    u32::from(event.iowait) | u32::from(event.other_cpu) << 1
}

impl DriveCase {
    /// Appends the drive to the input of the APST program.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        for word in [
            u32::from(self.apsta),
            u32::from(self.npss),
            u32::from(self.enabled),
            u32::from(self.no_deepest),
        ] {
            out.extend(word.to_le_bytes());
        }
        for parameter in [
            self.max_latency_us,
            self.primary_timeout_ms,
            self.secondary_timeout_ms,
            self.primary_tolerance_us,
            self.secondary_tolerance_us,
        ] {
            out.extend(parameter.unwrap_or(u64::MAX).to_le_bytes());
        }
        for i in 0..32 {
            let state = self.states.get(i).copied().unwrap_or_default();
            out.extend(state.entry_us.to_le_bytes());
            out.extend(state.exit_us.to_le_bytes());
            out.extend(u64::from(state.non_operational).to_le_bytes());
        }
    }
}

impl ApstCommand {
    /// Bytes of one answer by the APST program.
    pub const SIZE: usize = 8 * 34;

    /// Decodes one answer of the APST program; `None` when the kernel would send nothing to the
    /// drive.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (words, _) = bytes.as_chunks::<8>();
        let mut words = words.iter().map(|word| u64::from_le_bytes(*word));
        let (sent, enabled) = (words.next()?, words.next()?);
        let mut entries = [0; 32];
        for (entry, word) in entries.iter_mut().zip(words) {
            *entry = word;
        }
        (sent != 0).then_some(Self {
            enable: enabled != 0,
            entries,
        })
    }
}
