//! Events as rows of numbers, and back.
//!
//! Every event is one row with the same columns. All columns are there in every row; those that its
//! kind does not have are 0, which takes next to no room in the file.

use wakepath_units::{Kilohertz, Nanoseconds};

use super::event::{Before, Block, Event, IdleInputs, IdlePeriod, Kind, TimerKind};

/// Columns of 64 bits, in the order of the file.
pub(super) const LONG: [&str; 7] = [
    "time_ns",
    "duration_ns",
    "sleep_length_ns",
    "delta_tick_ns",
    "latency_request_ns",
    "sector",
    "count",
];
/// Columns of 32 bits; they follow the others in the file.
pub(super) const SHORT: [&str; 10] = [
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
];

const TIME: usize = 0;
const DURATION: usize = 1;
const SLEEP: usize = 2;
const DELTA: usize = 3;
const LATENCY: usize = 4;
pub(super) const SECTOR: usize = 5;
const COUNT: usize = 6;

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

const IDLE: i32 = 0;
const BLOCK_ISSUE: i32 = 1;
const BLOCK_COMPLETE: i32 = 2;
const WAKE: i32 = 3;
const FREQUENCY: i32 = 4;
const TIMER: i32 = 5;
const LOST: i32 = 6;
const HOTPLUG: i32 = 7;

const SLEEP_KNOWN: i32 = 1;
const SLEEP_INFERRED: i32 = 1 << 1;
const DELTA_KNOWN: i32 = 1 << 2;
const LATENCY_KNOWN: i32 = 1 << 3;
const IOWAITERS_KNOWN: i32 = 1 << 4;
const LEAD_KNOWN: i32 = 1 << 5;
/// Each of these has "known" at its bit and the value at the next.
const TICK_STOPPED: u32 = 6;
const STOP_TICK: u32 = 8;
const GOT_TICK: u32 = 10;
const POLL_LIMIT_HIT: u32 = 12;
const IN_LOOP: i32 = 1 << 14;
const RAN_TASK: i32 = 1 << 15;
const WRITE: i32 = 1;
const IOWAIT: u32 = 0;
const ONLINE: i32 = 1;

/// Columns of a part of a recording.
#[derive(Clone, Debug, Default)]
pub(super) struct Columns {
    pub(super) long: [Vec<i64>; LONG.len()],
    pub(super) short: [Vec<i32>; SHORT.len()],
}

#[derive(Default)]
struct Row {
    long: [i64; LONG.len()],
    short: [i32; SHORT.len()],
}

fn flag(bit: u32, value: Option<bool>) -> i32 {
    value.map_or(0, |value| (1 | i32::from(value) << 1) << bit)
}

fn flagged(flags: i32, bit: u32) -> Option<bool> {
    (flags & 1 << bit != 0).then_some(flags & 2 << bit != 0)
}

/// An unsigned time as the file's signed one; longer ones than 292 years become that.
fn signed(time: u64) -> i64 {
    i64::try_from(time).unwrap_or(i64::MAX)
}

impl Row {
    fn idle(&mut self, period: &IdlePeriod) {
        let inputs = &period.inputs;
        self.short[KIND] = IDLE;
        self.short[STATE] = i32::from(period.state);
        self.long[DURATION] = signed(period.duration.0);
        let mut flags = flag(TICK_STOPPED, inputs.tick_stopped)
            | flag(STOP_TICK, period.stop_tick)
            | flag(GOT_TICK, period.got_tick)
            | flag(POLL_LIMIT_HIT, period.poll_limit_hit)
            | match period.before {
                Before::Unknown => 0,
                Before::IdleLoop => IN_LOOP,
                Before::Task => RAN_TASK,
            };
        let mut known = |value: Option<i64>, bit| {
            flags |= if value.is_some() { bit } else { 0 };
            value.unwrap_or_default()
        };
        self.long[SLEEP] = known(inputs.sleep_length, SLEEP_KNOWN);
        self.long[DELTA] = known(inputs.delta_tick, DELTA_KNOWN);
        self.long[LATENCY] = known(inputs.latency_request, LATENCY_KNOWN);
        self.short[IOWAITERS] = known(inputs.iowaiters.map(i64::from), IOWAITERS_KNOWN) as i32;
        self.short[LEAD] = known(inputs.select_lead.map(i64::from), LEAD_KNOWN) as i32;
        if inputs.inferred {
            flags |= SLEEP_INFERRED;
        }
        self.short[FLAGS] = flags;
    }

    fn block(&mut self, kind: i32, block: &Block) {
        self.short[KIND] = kind;
        self.short[DEVICE] = block.device as i32;
        self.short[BYTES] = block.bytes as i32;
        self.long[SECTOR] = block.sector as i64;
        self.short[FLAGS] = if block.write { WRITE } else { 0 };
    }

    fn new(event: &Event) -> Self {
        let mut row = Self::default();
        row.long[TIME] = signed(event.time.0);
        row.short[CPU] = event.cpu as i32;
        match &event.kind {
            Kind::Idle(period) => row.idle(period),
            Kind::BlockIssue(block) => row.block(BLOCK_ISSUE, block),
            Kind::BlockComplete(block) => row.block(BLOCK_COMPLETE, block),
            Kind::Wake { target, iowait } => {
                row.short[KIND] = WAKE;
                row.short[TARGET] = *target as i32;
                row.short[FLAGS] = flag(IOWAIT, *iowait);
            }
            Kind::Frequency(khz) => {
                row.short[KIND] = FREQUENCY;
                row.short[KHZ] = khz.0 as i32;
            }
            Kind::Timer(kind) => {
                row.short[KIND] = TIMER;
                row.short[FLAGS] = match kind {
                    TimerKind::Tick => 0,
                    TimerKind::HighResolution => 1,
                    TimerKind::Wheel => 2,
                };
            }
            Kind::Lost { count } => {
                row.short[KIND] = LOST;
                row.long[COUNT] = signed(*count);
            }
            Kind::Hotplug { online } => {
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

    pub(super) fn push(&mut self, event: &Event) {
        let row = Row::new(event);
        for (column, value) in self.long.iter_mut().zip(row.long) {
            column.push(value);
        }
        for (column, value) in self.short.iter_mut().zip(row.short) {
            column.push(value);
        }
    }

    /// The event of row `i`; `None` if its numbers stand for none.
    #[inline]
    pub(super) fn event(&self, i: usize) -> Option<Event> {
        let short = |column: usize| self.short[column][i];
        let kind = match short(KIND) {
            IDLE => Kind::Idle(self.idle(i)?),
            BLOCK_ISSUE => Kind::BlockIssue(self.block(i)),
            BLOCK_COMPLETE => Kind::BlockComplete(self.block(i)),
            WAKE => Kind::Wake {
                target: short(TARGET) as u32,
                iowait: flagged(short(FLAGS), IOWAIT),
            },
            FREQUENCY => Kind::Frequency(Kilohertz(short(KHZ) as u32)),
            TIMER => Kind::Timer(match short(FLAGS) {
                0 => TimerKind::Tick,
                1 => TimerKind::HighResolution,
                2 => TimerKind::Wheel,
                _ => return None,
            }),
            LOST => Kind::Lost {
                count: self.long[COUNT][i] as u64,
            },
            HOTPLUG => Kind::Hotplug {
                online: short(FLAGS) == ONLINE,
            },
            _ => return None,
        };
        Some(Event {
            time: Nanoseconds(u64::try_from(self.long[TIME][i]).ok()?),
            cpu: short(CPU) as u32,
            kind,
        })
    }

    #[inline]
    fn idle(&self, i: usize) -> Option<IdlePeriod> {
        let flags = self.short[FLAGS][i];
        let long = |column: usize, known: i32| (flags & known != 0).then(|| self.long[column][i]);
        let short =
            |column: usize, known: i32| (flags & known != 0).then(|| self.short[column][i] as u32);
        Some(IdlePeriod {
            state: u8::try_from(self.short[STATE][i]).ok()?,
            duration: Nanoseconds(u64::try_from(self.long[DURATION][i]).ok()?),
            inputs: IdleInputs {
                sleep_length: long(SLEEP, SLEEP_KNOWN),
                inferred: flags & SLEEP_INFERRED != 0,
                delta_tick: long(DELTA, DELTA_KNOWN),
                tick_stopped: flagged(flags, TICK_STOPPED),
                latency_request: long(LATENCY, LATENCY_KNOWN),
                iowaiters: short(IOWAITERS, IOWAITERS_KNOWN),
                select_lead: short(LEAD, LEAD_KNOWN),
            },
            before: match (flags & IN_LOOP != 0, flags & RAN_TASK != 0) {
                (true, false) => Before::IdleLoop,
                (false, true) => Before::Task,
                _ => Before::Unknown,
            },
            stop_tick: flagged(flags, STOP_TICK),
            got_tick: flagged(flags, GOT_TICK),
            poll_limit_hit: flagged(flags, POLL_LIMIT_HIT),
        })
    }

    fn block(&self, i: usize) -> Block {
        Block {
            device: self.short[DEVICE][i] as u32,
            sector: self.long[SECTOR][i] as u64,
            bytes: self.short[BYTES][i] as u32,
            write: self.short[FLAGS][i] & WRITE != 0,
        }
    }
}
