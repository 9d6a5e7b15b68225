//! Encodes events as rows of numbers, and decodes them.
//!
//! Every event is a row with all columns. Columns without a meaning for the kind are 0, which takes next to no room in
//! the file.

use wakepath_units::{Kilohertz, Nanoseconds};

use super::event::{
    Before, Block, ClockCycles, Durability, Event, EventKind, IdleInputs, IdlePeriod, Interrupt,
    QueueStep, TaskStep, TimerKind,
};

/// Names of the 64-bit columns of a recording, in file order.
pub(super) const LONG: [&str; 8] = [
    "time_ns",
    "duration_ns",
    "sleep_length_ns",
    "delta_tick_ns",
    "latency_request_ns",
    "sector",
    "count",
    "other_sector",
];
/// Names of the 32-bit columns of a recording, which follow the 64-bit columns in the file.
pub(super) const SHORT: [&str; 13] = [
    "cpu",
    "kind",
    "flags",
    "state",
    "iowaiters",
    "select_lead_ns",
    "device",
    "bytes",
    "khz",
    "target",
    "task",
    "irq",
    "from_device",
];

/// Names of the 64-bit and 32-bit columns in a version of the format.
pub(super) const fn long_and_short_columns_of_schema(
    schema: u32,
) -> (&'static [&'static str], &'static [&'static str]) {
    match schema {
        0 | 1 => (LONG.split_at(7).0, SHORT.split_at(10).0),
        _ => (&LONG, &SHORT),
    }
}

const TIME: usize = 0;
const DURATION: usize = 1;
const SLEEP: usize = 2;
const DELTA: usize = 3;
const LATENCY: usize = 4;
pub(super) const SECTOR: usize = 5;
const COUNT: usize = 6;
const OTHER_SECTOR: usize = 7;

const CPU: usize = 0;
const KIND: usize = 1;
const FLAGS: usize = 2;
const STATE: usize = 3;
const IOWAITERS: usize = 4;
const LEAD: usize = 5;
const DEVICE: usize = 6;
const BYTES: usize = 7;
const KHZ: usize = 8;
const TARGET: usize = 9;
const TASK: usize = 10;
const IRQ: usize = 11;
const FROM_DEVICE: usize = 12;

const IDLE: i32 = 0;
const BLOCK_ISSUE: i32 = 1;
const BLOCK_COMPLETE: i32 = 2;
const WAKE: i32 = 3;
const FREQUENCY: i32 = 4;
const TIMER: i32 = 5;
const LOST: i32 = 6;
const HOTPLUG: i32 = 7;
const QUEUED: i32 = 8;
const TAGGED: i32 = 9;
const INSERTED: i32 = 10;
const MERGED: i32 = 11;
const SPLIT: i32 = 12;
const REMAPPED: i32 = 13;
const INTERRUPT: i32 = 14;
const TASK_STEP: i32 = 15;
const CLOCK: i32 = 16;

const SLEEP_KNOWN: i32 = 1;
const SLEEP_INFERRED: i32 = 1 << 1;
const DELTA_KNOWN: i32 = 1 << 2;
const LATENCY_KNOWN: i32 = 1 << 3;
const IOWAITERS_KNOWN: i32 = 1 << 4;
const LEAD_KNOWN: i32 = 1 << 5;
/// Each flag below has a "known" bit at this position, and its value in the next bit.
const TICK_STOPPED: u32 = 6;
const STOP_TICK: u32 = 8;
const GOT_TICK: u32 = 10;
const POLL_LIMIT_HIT: u32 = 12;
const IN_LOOP: i32 = 1 << 14;
const RAN_TASK: i32 = 1 << 15;
/// Number of flag bits of an idle period.
const FLAG_BITS: u32 = 16;
const WRITE: i32 = 1;
const BACKGROUND: i32 = 1 << 1;
const SUBMITTER_KNOWN: i32 = 1 << 2;
const FLUSHES_FIRST: i32 = 1 << 3;
const FORCED: i32 = 1 << 4;
const IOWAIT: u32 = 0;
const ONLINE: i32 = 1;

/// The columns of a batch of events, one value per event each.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) long: [Vec<i64>; LONG.len()],
    pub(super) short: [Vec<i32>; SHORT.len()],
}

#[derive(Default)]
struct EventRow {
    long: [i64; LONG.len()],
    short: [i32; SHORT.len()],
}

fn encode_optional_flag(bit: u32, value: Option<bool>) -> i32 {
    value.map_or(0, |value| (1 | i32::from(value) << 1) << bit)
}

fn decode_optional_flag(flags: i32, bit: u32) -> Option<bool> {
    (flags & 1 << bit != 0).then_some(flags & 2 << bit != 0)
}

/// A time as a signed number for the file; times beyond 292 years are cut.
fn saturate_to_i64(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

impl EventRow {
    fn set_idle_period(&mut self, period: &IdlePeriod) {
        let row = PackedIdlePeriod::from(period);
        self.short[KIND] = IDLE;
        self.short[FLAGS] = row.flags;
        self.short[STATE] = i32::from(row.state);
        self.short[IOWAITERS] = row.iowaiters;
        self.short[LEAD] = row.lead;
        self.long[DURATION] = saturate_to_i64(row.duration);
        self.long[SLEEP] = row.sleep;
        self.long[DELTA] = row.delta;
        self.long[LATENCY] = row.latency;
    }

    fn set_block_event(&mut self, kind: i32, block: &Block) {
        self.short[KIND] = kind;
        self.short[DEVICE] = block.device as i32;
        self.short[BYTES] = block.bytes as i32;
        self.long[SECTOR] = block.sector as i64;
        self.short[FLAGS] = if block.write { WRITE } else { 0 };
    }

    fn set_queueing_step(&mut self, step: &QueueStep) {
        match step {
            QueueStep::Queued {
                block,
                task,
                background,
                durability,
            } => {
                self.set_block_event(QUEUED, block);
                self.short[TASK] = task.unwrap_or(0) as i32;
                self.short[FLAGS] |= if *background { BACKGROUND } else { 0 };
                self.short[FLAGS] |= task.map_or(0, |_| SUBMITTER_KNOWN);
                for (is_set, flag) in [
                    (durability.flushes_first, FLUSHES_FIRST),
                    (durability.is_forced, FORCED),
                ] {
                    self.short[FLAGS] |= if is_set { flag } else { 0 };
                }
            }
            QueueStep::Tagged(block) => self.set_block_event(TAGGED, block),
            QueueStep::Inserted(block) => self.set_block_event(INSERTED, block),
            QueueStep::Merged(block) => self.set_block_event(MERGED, block),
            QueueStep::Split { block, at } => {
                self.set_block_event(SPLIT, block);
                self.long[OTHER_SECTOR] = *at as i64;
            }
            QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            } => {
                self.set_block_event(REMAPPED, block);
                self.short[FROM_DEVICE] = *from_device as i32;
                self.long[OTHER_SECTOR] = *from_sector as i64;
            }
        }
    }

    fn set_interrupt(&mut self, interrupt: Interrupt) {
        self.short[KIND] = INTERRUPT;
        let (flags, irq, target) = match interrupt {
            Interrupt::Device { irq } => (0, irq, 0),
            Interrupt::BlockSoftirq => (1, 0, 0),
            Interrupt::CallFunction => (2, 0, 0),
            Interrupt::Reschedule => (3, 0, 0),
            Interrupt::Sent { target } => (4, 0, target),
            Interrupt::Stored { target } => (5, 0, target),
        };
        self.short[FLAGS] = flags;
        self.short[IRQ] = irq as i32;
        self.short[TARGET] = target as i32;
    }

    fn set_task_step(&mut self, task: u32, step: TaskStep) {
        self.short[KIND] = TASK_STEP;
        self.short[TASK] = task as i32;
        (self.short[FLAGS], self.short[TARGET]) = match step {
            TaskStep::Waking => (0, 0),
            TaskStep::Woken { target } => (1, target as i32),
            TaskStep::Running => (2, 0),
        };
    }

    fn new(event: &Event) -> Self {
        let mut row = Self::default();
        row.long[TIME] = saturate_to_i64(event.time.0);
        row.short[CPU] = event.cpu as i32;
        match &event.kind {
            EventKind::Idle(period) => row.set_idle_period(period),
            EventKind::BlockIssue(block) => row.set_block_event(BLOCK_ISSUE, block),
            EventKind::BlockComplete(block) => row.set_block_event(BLOCK_COMPLETE, block),
            EventKind::Wake { target, iowait } => {
                row.short[KIND] = WAKE;
                row.short[TARGET] = *target as i32;
                row.short[FLAGS] = encode_optional_flag(IOWAIT, *iowait);
            }
            EventKind::Frequency(khz) => {
                row.short[KIND] = FREQUENCY;
                row.short[KHZ] = khz.0 as i32;
            }
            EventKind::Timer(kind) => {
                row.short[KIND] = TIMER;
                row.short[FLAGS] = match kind {
                    TimerKind::Tick => 0,
                    TimerKind::HighResolution => 1,
                    TimerKind::Wheel => 2,
                };
            }
            EventKind::Queueing(step) => row.set_queueing_step(step),
            EventKind::Interrupt(interrupt) => row.set_interrupt(*interrupt),
            EventKind::Task { task, step } => row.set_task_step(*task, *step),
            EventKind::Clock(clock) => {
                row.short[KIND] = CLOCK;
                row.long[DURATION] = saturate_to_i64(clock.elapsed.0);
                row.long[COUNT] = clock.cycles as i64;
                row.long[OTHER_SECTOR] = clock.reference as i64;
            }
            EventKind::Lost { count } => {
                row.short[KIND] = LOST;
                row.long[COUNT] = saturate_to_i64(*count);
            }
            EventKind::Hotplug { online } => {
                row.short[KIND] = HOTPLUG;
                row.short[FLAGS] = if *online { ONLINE } else { 0 };
            }
        }
        row
    }
}

impl Columns {
    pub(super) fn len(&self) -> usize {
        self.long[TIME].len()
    }

    pub(super) fn clear(&mut self) {
        self.long.iter_mut().for_each(Vec::clear);
        self.short.iter_mut().for_each(Vec::clear);
    }

    pub(super) fn push_event(&mut self, event: &Event) {
        let row = EventRow::new(event);
        for (column, value) in self.long.iter_mut().zip(row.long) {
            column.push(value);
        }
        for (column, value) in self.short.iter_mut().zip(row.short) {
            column.push(value);
        }
    }

    /// The event in row `i`; `None` if the numbers have no meaning.
    #[inline]
    pub(super) fn decode_row(&self, i: usize) -> Option<Event> {
        let short = |column: usize| self.short[column][i];
        let kind = match short(KIND) {
            IDLE => {
                let idle = self.idle_columns_of_first_rows(i + 1);
                if !idle.row_has_valid_numbers(i) {
                    return None;
                }
                EventKind::Idle((&idle.idle_period_in_row(i)).into())
            }
            BLOCK_ISSUE => EventKind::BlockIssue(self.decode_block(i)),
            BLOCK_COMPLETE => EventKind::BlockComplete(self.decode_block(i)),
            WAKE => EventKind::Wake {
                target: short(TARGET) as u32,
                iowait: decode_optional_flag(short(FLAGS), IOWAIT),
            },
            FREQUENCY => EventKind::Frequency(Kilohertz(short(KHZ) as u32)),
            TIMER => EventKind::Timer(match short(FLAGS) {
                0 => TimerKind::Tick,
                1 => TimerKind::HighResolution,
                2 => TimerKind::Wheel,
                _ => return None,
            }),
            LOST => EventKind::Lost {
                count: self.long[COUNT][i] as u64,
            },
            HOTPLUG => EventKind::Hotplug {
                online: short(FLAGS) == ONLINE,
            },
            QUEUED..=REMAPPED => EventKind::Queueing(self.decode_queueing_step(i)?),
            INTERRUPT => EventKind::Interrupt(self.decode_interrupt(i)?),
            TASK_STEP => EventKind::Task {
                task: short(TASK) as u32,
                step: match short(FLAGS) {
                    0 => TaskStep::Waking,
                    1 => TaskStep::Woken {
                        target: short(TARGET) as u32,
                    },
                    2 => TaskStep::Running,
                    _ => return None,
                },
            },
            CLOCK => EventKind::Clock(ClockCycles {
                elapsed: Nanoseconds(u64::try_from(self.long[DURATION][i]).ok()?),
                cycles: self.long[COUNT][i] as u64,
                reference: self.long[OTHER_SECTOR][i] as u64,
            }),
            _ => return None,
        };
        Some(Event {
            time: Nanoseconds(u64::try_from(self.long[TIME][i]).ok()?),
            cpu: short(CPU) as u32,
            kind,
        })
    }

    /// The columns of idle periods among the first `rows` rows.
    #[inline]
    pub(super) fn idle_columns_of_first_rows(&self, rows: usize) -> IdleColumns<'_> {
        let long = |column: usize| &self.long[column][..rows];
        let short = |column: usize| &self.short[column][..rows];
        IdleColumns {
            time: long(TIME),
            duration: long(DURATION),
            sleep: long(SLEEP),
            delta: long(DELTA),
            latency: long(LATENCY),
            cpu: short(CPU),
            kind: short(KIND),
            flags: short(FLAGS),
            state: short(STATE),
            iowaiters: short(IOWAITERS),
            lead: short(LEAD),
        }
    }

    fn decode_queueing_step(&self, i: usize) -> Option<QueueStep> {
        let block = self.decode_block(i);
        let flags = self.short[FLAGS][i];
        Some(match self.short[KIND][i] {
            QUEUED => QueueStep::Queued {
                block,
                task: (flags & SUBMITTER_KNOWN != 0).then_some(self.short[TASK][i] as u32),
                background: flags & BACKGROUND != 0,
                durability: Durability {
                    flushes_first: flags & FLUSHES_FIRST != 0,
                    is_forced: flags & FORCED != 0,
                },
            },
            TAGGED => QueueStep::Tagged(block),
            INSERTED => QueueStep::Inserted(block),
            MERGED => QueueStep::Merged(block),
            SPLIT => QueueStep::Split {
                block,
                at: self.long[OTHER_SECTOR][i] as u64,
            },
            REMAPPED => QueueStep::Remapped {
                block,
                from_device: self.short[FROM_DEVICE][i] as u32,
                from_sector: self.long[OTHER_SECTOR][i] as u64,
            },
            _ => return None,
        })
    }

    fn decode_interrupt(&self, i: usize) -> Option<Interrupt> {
        let target = self.short[TARGET][i] as u32;
        Some(match self.short[FLAGS][i] {
            0 => Interrupt::Device {
                irq: self.short[IRQ][i] as u32,
            },
            1 => Interrupt::BlockSoftirq,
            2 => Interrupt::CallFunction,
            3 => Interrupt::Reschedule,
            4 => Interrupt::Sent { target },
            5 => Interrupt::Stored { target },
            _ => return None,
        })
    }

    fn decode_block(&self, i: usize) -> Block {
        Block {
            device: self.short[DEVICE][i] as u32,
            sector: self.long[SECTOR][i] as u64,
            bytes: self.short[BYTES][i] as u32,
            write: self.short[FLAGS][i] & WRITE != 0,
        }
    }
}

/// Columns for idle periods, all equally long.
#[derive(Clone, Copy)]
pub(super) struct IdleColumns<'a> {
    time: &'a [i64],
    duration: &'a [i64],
    sleep: &'a [i64],
    delta: &'a [i64],
    latency: &'a [i64],
    cpu: &'a [i32],
    kind: &'a [i32],
    flags: &'a [i32],
    state: &'a [i32],
    iowaiters: &'a [i32],
    lead: &'a [i32],
}

#[expect(
    clippy::inline_always,
    reason = "a period would go through memory otherwise, in pieces of which the processor cannot forward all"
)]
impl IdleColumns<'_> {
    /// Whether row `i` is an idle period.
    #[inline(always)]
    pub(super) fn is_idle_row(&self, i: usize) -> bool {
        self.kind[i] == IDLE
    }

    /// Whether the numbers of all rows could be those of an idle period, whatever the row's kind. A check over whole
    /// columns is faster than a check per row.
    pub(super) fn all_rows_have_valid_numbers(&self) -> bool {
        let states = self.state.iter().fold(0, |all, state| all | state);
        union_of_bits(self.time) | union_of_bits(self.duration) >= 0 && u8::try_from(states).is_ok()
    }

    /// Whether the numbers of row `i` could be those of an idle period.
    #[inline(always)]
    pub(super) fn row_has_valid_numbers(&self, i: usize) -> bool {
        self.time[i] >= 0 && self.duration[i] >= 0 && u8::try_from(self.state[i]).is_ok()
    }

    /// End time and CPU of the idle period in row `i`.
    #[inline(always)]
    pub(super) fn end_and_cpu_of_row(&self, i: usize) -> (Nanoseconds, u32) {
        (Nanoseconds(self.time[i] as u64), self.cpu[i] as u32)
    }

    /// The idle period in row `i`.
    #[inline(always)]
    pub(super) fn idle_period_in_row(&self, i: usize) -> PackedIdlePeriod {
        PackedIdlePeriod {
            duration: self.duration[i] as u64,
            sleep: self.sleep[i],
            delta: self.delta[i],
            latency: self.latency[i],
            flags: self.flags[i],
            iowaiters: self.iowaiters[i],
            lead: self.lead[i],
            state: self.state[i] as u8,
        }
    }
}

/// All bits that are set in any value of the column.
fn union_of_bits(column: &[i64]) -> i64 {
    column.iter().fold(0, |all, value| all | value)
}

/// An idle period as stored: an [`IdlePeriod`] with all flags in a word, which is faster to pass around.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackedIdlePeriod {
    duration: u64,
    sleep: i64,
    delta: i64,
    latency: i64,
    flags: i32,
    iowaiters: i32,
    lead: i32,
    state: u8,
}

impl PackedIdlePeriod {
    #[inline]
    fn value_if_flagged<T>(&self, flag: i32, value: T) -> Option<T> {
        (self.flags & flag != 0).then_some(value)
    }

    /// See [`IdlePeriod::state`].
    #[inline]
    pub fn state(&self) -> u8 {
        self.state
    }

    /// Length of the idle period in ns, see [`IdlePeriod::duration`].
    #[inline]
    pub fn duration(&self) -> u64 {
        self.duration
    }

    /// Time to the next timer in ns, see [`IdleInputs::sleep_length`].
    #[inline]
    pub fn sleep_length(&self) -> Option<i64> {
        self.value_if_flagged(SLEEP_KNOWN, self.sleep)
    }

    /// See [`IdleInputs::inferred`].
    #[inline]
    pub fn inferred(&self) -> bool {
        self.flags & SLEEP_INFERRED != 0
    }

    /// Time to the next timer or tick in ns, see [`IdleInputs::delta_tick`].
    #[inline]
    pub fn delta_tick(&self) -> Option<i64> {
        self.value_if_flagged(DELTA_KNOWN, self.delta)
    }

    /// Whether the tick was stopped already, see [`IdleInputs::tick_stopped`].
    #[inline]
    pub fn tick_stopped(&self) -> Option<bool> {
        decode_optional_flag(self.flags, TICK_STOPPED)
    }

    /// Longest tolerated exit latency in ns, see [`IdleInputs::latency_request`].
    #[inline]
    pub fn latency_request(&self) -> Option<i64> {
        self.value_if_flagged(LATENCY_KNOWN, self.latency)
    }

    /// See [`IdleInputs::iowaiters`].
    #[inline]
    pub fn iowaiters(&self) -> Option<u32> {
        self.value_if_flagged(IOWAITERS_KNOWN, self.iowaiters as u32)
    }

    /// How long before the entry the governor was asked, in ns, see [`IdleInputs::select_lead`].
    #[inline]
    pub fn select_lead(&self) -> Option<u32> {
        self.value_if_flagged(LEAD_KNOWN, self.lead as u32)
    }

    /// See [`IdlePeriod::before`].
    #[inline]
    pub fn before(&self) -> Before {
        match self.flags & (IN_LOOP | RAN_TASK) {
            IN_LOOP => Before::IdleLoop,
            RAN_TASK => Before::Task,
            _ => Before::Unknown,
        }
    }

    /// Whether the governor asked for the tick to be stopped, see [`IdlePeriod::stop_tick`].
    #[inline]
    pub fn stop_tick(&self) -> Option<bool> {
        decode_optional_flag(self.flags, STOP_TICK)
    }

    /// Whether the tick woke the CPU, see [`IdlePeriod::got_tick`].
    #[inline]
    pub fn got_tick(&self) -> Option<bool> {
        decode_optional_flag(self.flags, GOT_TICK)
    }

    /// Whether polling ended at its time limit, see [`IdlePeriod::poll_limit_hit`].
    #[inline]
    pub fn poll_limit_hit(&self) -> Option<bool> {
        decode_optional_flag(self.flags, POLL_LIMIT_HIT)
    }
}

/// Counts idle periods by combination of flags, which is faster than counting each flag.
#[derive(Clone, Debug)]
pub struct FlagCounts(Box<[u64]>);

impl Default for FlagCounts {
    fn default() -> Self {
        Self(vec![0; 1 << FLAG_BITS].into_boxed_slice())
    }
}

impl FlagCounts {
    /// Counts an idle period under its combination of flags.
    #[inline]
    pub fn count_flags_of_period(&mut self, period: &PackedIdlePeriod) {
        self.0[period.flags as usize % (1 << FLAG_BITS)] += 1;
    }

    /// Number of idle periods for which `holds`, a test of flags only.
    pub fn count_periods_with_flags(&self, holds: impl Fn(&PackedIdlePeriod) -> bool) -> u64 {
        let counts = self.0.iter().enumerate().map(|(flags, &count)| {
            let period = PackedIdlePeriod {
                flags: flags as i32,
                ..PackedIdlePeriod::default()
            };
            if holds(&period) { count } else { 0 }
        });
        counts.sum()
    }
}

impl From<&PackedIdlePeriod> for IdlePeriod {
    fn from(row: &PackedIdlePeriod) -> Self {
        Self {
            state: row.state,
            duration: Nanoseconds(row.duration),
            inputs: IdleInputs {
                sleep_length: row.sleep_length(),
                inferred: row.inferred(),
                delta_tick: row.delta_tick(),
                tick_stopped: row.tick_stopped(),
                latency_request: row.latency_request(),
                iowaiters: row.iowaiters(),
                select_lead: row.select_lead(),
            },
            before: row.before(),
            stop_tick: row.stop_tick(),
            got_tick: row.got_tick(),
            poll_limit_hit: row.poll_limit_hit(),
        }
    }
}

impl From<&IdlePeriod> for PackedIdlePeriod {
    fn from(period: &IdlePeriod) -> Self {
        let inputs = &period.inputs;
        let mut flags = encode_optional_flag(TICK_STOPPED, inputs.tick_stopped)
            | encode_optional_flag(STOP_TICK, period.stop_tick)
            | encode_optional_flag(GOT_TICK, period.got_tick)
            | encode_optional_flag(POLL_LIMIT_HIT, period.poll_limit_hit)
            | match period.before {
                Before::Unknown => 0,
                Before::IdleLoop => IN_LOOP,
                Before::Task => RAN_TASK,
            };
        if inputs.inferred {
            flags |= SLEEP_INFERRED;
        }
        let mut known = |value: Option<i64>, bit| {
            flags |= if value.is_some() { bit } else { 0 };
            value.unwrap_or_default()
        };
        Self {
            sleep: known(inputs.sleep_length, SLEEP_KNOWN),
            delta: known(inputs.delta_tick, DELTA_KNOWN),
            latency: known(inputs.latency_request, LATENCY_KNOWN),
            iowaiters: known(inputs.iowaiters.map(i64::from), IOWAITERS_KNOWN) as i32,
            lead: known(inputs.select_lead.map(i64::from), LEAD_KNOWN) as i32,
            duration: period.duration.0,
            state: period.state,
            flags,
        }
    }
}
