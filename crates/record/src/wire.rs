//! Decodes records from the eBPF programs, in the layout of `bpf/wire.h`.

use thiserror::Error;
use wakepath_trace::recording::{Block, ClockCycles, Durability, Interrupt, QueueStep, TaskStep};
use wakepath_units::Nanoseconds;

/// An event on a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Time of the event on CLOCK_MONOTONIC, in ns.
    pub time_ns: u64,
    /// CPU of the event; for frequency changes and hotplug, the affected CPU.
    pub cpu: u16,
    /// Kind of the event, with its fields.
    pub kind: RecordKind,
}

/// What a record says, by kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// The CPU entered an idle state.
    IdleEnter {
        /// Index of the entered idle state.
        state: u32,
        /// Whether the CPU left the idle loop since its last such record, or [`RecordKind::Select`].
        left: bool,
    },
    /// The CPU left its idle state.
    IdleExit,
    /// The governor chose a state. Its inputs are `None` where the governor did not ask, or the kernel hides them.
    Select(Select),
    /// The governor was told the outcome of an idle state.
    Reflect(Reflect),
    /// A block request was issued to a drive.
    BlockIssue(Block),
    /// A drive completed a block request.
    BlockComplete(Block),
    /// A task was made runnable on `target`.
    Wake {
        /// The CPU that is to run the woken task.
        target: u32,
        /// Whether the task waited for I/O.
        iowait: bool,
    },
    /// The CPU's frequency changed.
    Frequency {
        /// The frequency in kHz.
        khz: u32,
    },
    /// A high-resolution timer fired.
    Hrtimer {
        /// Whether the timer is the scheduler's tick.
        tick: bool,
    },
    /// A timer of the timer wheel fired.
    Timer,
    /// The CPU takes a step, among many, to go online or offline.
    Hotplug {
        /// Whether the CPU goes online, rather than offline.
        online: bool,
    },
    /// A bio or request took a step towards its issue.
    Queueing(QueueStep),
    /// The CPU took an interrupt, or woke another CPU.
    Interrupt(Interrupt),
    /// A task that waits for I/O took a step back to running.
    Task {
        /// The thread number.
        task: u32,
        /// The step.
        step: TaskStep,
    },
    /// The name of a task that does I/O.
    TaskName {
        /// The thread number.
        task: u32,
        /// The task's name, padded with zeros.
        name: [u8; 16],
    },
    /// Cycles of a CPU before it completes a request.
    Clock(ClockCycles),
    /// The cgroup of a task that does I/O, at its first I/O and after each move to another cgroup.
    TaskCgroup {
        /// The thread number.
        task: u32,
        /// Inode number of the cgroup's directory in the hierarchy of version 2.
        cgroup: u64,
    },
    /// A task stopped running without a run of the eBPF programs: the kernel may run none while this task runs, so that events
    /// of the CPU are missing.
    UnseenSwitch {
        /// The thread number.
        task: u32,
    },
}

/// The governor's input and choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Select {
    /// Index of the chosen idle state.
    pub state: u32,
    /// Whether the governor wants the tick stopped.
    pub stop_tick: bool,
    /// Time to the next timer if the tick is stopped, in ns; it may be negative.
    pub sleep_length_ns: Option<i64>,
    /// Time to the next timer, the tick included, in ns; it may be negative.
    pub delta_tick_ns: Option<i64>,
    /// The latency limit in force, in ns.
    pub latency_ns: Option<i64>,
    /// Number of tasks that wait for I/O and ran on this CPU last.
    pub iowaiters: Option<u32>,
    /// Whether the tick was stopped when the governor was asked.
    pub tick_stopped: Option<bool>,
    /// Whether the CPU left the idle loop since its last such record, or [`RecordKind::IdleEnter`].
    pub left: bool,
}

/// The outcome of an idle state, as the governor was told.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reflect {
    /// Index of the idle state that was entered; `None` when the driver refused, or work came before.
    pub state: Option<u32>,
    /// How long the CPU was idle as the kernel counts it, in ns.
    pub residency_ns: u64,
    /// Whether the tick ended the idle state, where the governor asked.
    pub got_tick: Option<bool>,
    /// Whether polling ended at its time limit.
    pub poll_limit_hit: bool,
}

/// A record that contradicts `bpf/wire.h`: programs and this module disagree.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum WireError {
    /// The record ends too early.
    #[error("a record of kind {kind} has {length} bytes, not {expected}")]
    Length {
        /// Number of the record's kind; 0 when there is not even a header.
        kind: u16,
        /// Bytes present.
        length: usize,
        /// Number of bytes in a record with this kind.
        expected: usize,
    },
    /// The number of the record's kind is unknown.
    #[error("there is no record of kind {0}")]
    Kind(u16),
}

const HEADER: usize = 16;

/// Marks a nested record in place of a buffer's generation: `WP_NESTED`.
const NESTED: u64 = u64::MAX;

/// Size of a CPU's buffer in 8-byte words: `WP_PILE_WORDS`.
const PILE_WORDS: usize = 188;
/// Number of words in a CPU's buffer before the records.
const PILE_HEAD: usize = 3;

/// What a CPU handed over at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delivered<'a> {
    /// A buffer of records, with the buffer's generation on this CPU.
    CpuBuffer(u64, &'a [u8]),
    /// A single record from an interruption while the CPU added to its buffer: earlier records come with the buffer.
    Nested(&'a [u8]),
}

impl<'a> Delivered<'a> {
    /// Splits a delivery into its header and its records.
    ///
    /// # Errors
    /// The delivery is too short for a header.
    pub fn split_header(bytes: &'a [u8]) -> Result<Self, WireError> {
        let mut fields = Fields(bytes);
        match fields.take_u64() {
            Some(NESTED) => Ok(Self::Nested(fields.0)),
            Some(generation) => Ok(Self::CpuBuffer(generation, fields.0)),
            None => Err(WireError::Length {
                kind: 0,
                length: bytes.len(),
                expected: size_of::<u64>(),
            }),
        }
    }
}

/// The words of a CPU's buffer: `struct wp_cpu_buffer`.
pub type CpuBufferWords = [u64; PILE_HEAD + PILE_WORDS];

/// A copy of a CPU's buffer in the kernel. Each word was read at another moment.
#[derive(Clone, Copy, Debug)]
pub struct CpuBuffer(pub CpuBufferWords);

impl CpuBuffer {
    /// A buffer with a given generation and number of data words, all 0.
    #[cfg(test)]
    pub(crate) fn with_words(generation: u64, words: u32) -> Self {
        let mut buffer = [0; PILE_HEAD + PILE_WORDS];
        let mut head = [0; 8];
        head[..4].copy_from_slice(&words.to_ne_bytes());
        buffer[0] = u64::from_ne_bytes(head);
        buffer[2] = generation;
        Self(buffer)
    }

    /// The first of the two 32-bit fields in a word of the buffer.
    fn first_u32_of_word(&self, word: usize) -> u32 {
        Fields(&self.0[word].to_ne_bytes()).take_u32().unwrap_or(0)
    }

    /// Number of the buffer's words in use.
    pub fn data_words_in_use(&self) -> usize {
        (self.first_u32_of_word(0) as usize).min(PILE_WORDS)
    }

    /// Whether the CPU is just adding a record.
    pub fn is_being_written(&self) -> bool {
        self.first_u32_of_word(1) != 0
    }

    /// Generation of the buffer: the number of earlier buffers on the CPU.
    pub fn generation(&self) -> u64 {
        self.0[2]
    }

    /// The first `words` words of records, as bytes.
    pub fn data_bytes(&self, words: usize) -> Vec<u8> {
        let data = &self.0[PILE_HEAD..];
        let taken = data.iter().take(words);
        taken.flat_map(|word| word.to_ne_bytes()).collect()
    }
}

/// Decodes the records that were delivered together.
///
/// # Errors
/// A record has an impossible length or kind.
pub fn decode_records(mut bytes: &[u8]) -> impl Iterator<Item = Result<Record, WireError>> {
    std::iter::from_fn(move || {
        if bytes.is_empty() {
            return None;
        }
        let record = decode_first_record(bytes);
        // After a malformed record, the next one's start is unknown.
        bytes = record.as_ref().map_or(&[], |(_, rest)| *rest);
        Some(record.map(|(record, _)| record))
    })
}

/// Decodes the first record; also returns the remaining bytes.
fn decode_first_record(bytes: &[u8]) -> Result<(Record, &[u8]), WireError> {
    let mut fields = Fields(bytes);
    let header = (
        fields.take_u64(),
        fields.take_u16(),
        fields.take_u16(),
        fields.take_u32(),
    );
    let (Some(time_ns), Some(number), Some(cpu), Some(word)) = header else {
        return Err(WireError::Length {
            kind: 0,
            length: bytes.len(),
            expected: HEADER,
        });
    };
    let (kind, expected) = match number {
        1 => (Some(decode_idle_enter(word)), HEADER),
        2 => (Some(RecordKind::IdleExit), HEADER),
        3 => (
            fields.take_governor_choice(word).map(RecordKind::Select),
            HEADER + 32,
        ),
        4 => (
            fields.take_governor_outcome(word).map(RecordKind::Reflect),
            HEADER + 16,
        ),
        5 => (
            fields.take_block_request(word).map(RecordKind::BlockIssue),
            HEADER + 16,
        ),
        6 => (
            fields
                .take_block_request(word)
                .map(RecordKind::BlockComplete),
            HEADER + 16,
        ),
        7 => (Some(decode_wake_up(word)), HEADER),
        8 => (Some(RecordKind::Frequency { khz: word }), HEADER),
        9 => (Some(RecordKind::Hrtimer { tick: word != 0 }), HEADER),
        10 => (Some(RecordKind::Timer), HEADER),
        11 => (Some(RecordKind::Hotplug { online: word != 0 }), HEADER),
        12 => (
            fields.take_queued_step(word).map(RecordKind::Queueing),
            HEADER + 24,
        ),
        13..=15 => (
            fields
                .take_request_step(number, word)
                .map(RecordKind::Queueing),
            HEADER + 16,
        ),
        16 | 17 => (
            fields
                .take_split_or_remap(number, word)
                .map(RecordKind::Queueing),
            HEADER + 32,
        ),
        18..=23 => (Some(decode_interrupt(number, word)), HEADER),
        24 => (Some(task_step_record(word, TaskStep::Waking)), HEADER),
        25 => (fields.take_woken_step(word), HEADER + 8),
        26 => (Some(task_step_record(word, TaskStep::Running)), HEADER),
        27 => (fields.take_task_name_if_complete(word), HEADER + 16),
        28 => (fields.take_task_cgroup(word), HEADER + 8),
        29 => (
            fields.take_clock_cycles().map(RecordKind::Clock),
            HEADER + 24,
        ),
        30 => (Some(RecordKind::UnseenSwitch { task: word }), HEADER),
        other => return Err(WireError::Kind(other)),
    };
    match kind {
        Some(kind) => Ok((Record { time_ns, cpu, kind }, fields.0)),
        None => Err(WireError::Length {
            kind: number,
            length: bytes.len(),
            expected,
        }),
    }
}

/// A flag in the highest bit of a word, such as `WP_LEFT` and `WP_IOWAIT`.
const FLAG: u32 = 1 << 31;

fn decode_idle_enter(word: u32) -> RecordKind {
    RecordKind::IdleEnter {
        state: word & !FLAG,
        left: word & FLAG != 0,
    }
}

fn decode_wake_up(word: u32) -> RecordKind {
    RecordKind::Wake {
        target: word & !FLAG,
        iowait: word & FLAG != 0,
    }
}

const fn decode_interrupt(kind_number: u16, word: u32) -> RecordKind {
    RecordKind::Interrupt(match kind_number {
        18 => Interrupt::Device { irq: word },
        19 => Interrupt::BlockSoftirq,
        20 => Interrupt::CallFunction,
        21 => Interrupt::Reschedule,
        22 => Interrupt::Sent { target: word },
        _ => Interrupt::Stored { target: word },
    })
}

const fn task_step_record(task: u32, step: TaskStep) -> RecordKind {
    RecordKind::Task { task, step }
}

const fn has_bit(flags: u32, bit: u32) -> bool {
    flags & 1 << bit != 0
}

/// The bytes of a record that are left to decode.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take_bytes<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*first)
    }

    fn take_u16(&mut self) -> Option<u16> {
        self.take_bytes().map(u16::from_ne_bytes)
    }

    fn take_u32(&mut self) -> Option<u32> {
        self.take_bytes().map(u32::from_ne_bytes)
    }

    fn take_u64(&mut self) -> Option<u64> {
        self.take_bytes().map(u64::from_ne_bytes)
    }

    fn take_i64(&mut self) -> Option<i64> {
        self.take_bytes().map(i64::from_ne_bytes)
    }

    fn take_governor_choice(&mut self, state: u32) -> Option<Select> {
        let (sleep, delta, latency) = (self.take_i64()?, self.take_i64()?, self.take_i64()?);
        let (iowaiters, flags) = (self.take_u32()?, self.take_u32()?);
        Some(Select {
            state,
            stop_tick: has_bit(flags, 5),
            sleep_length_ns: has_bit(flags, 0).then_some(sleep),
            delta_tick_ns: has_bit(flags, 0).then_some(delta),
            latency_ns: has_bit(flags, 1).then_some(latency),
            iowaiters: has_bit(flags, 2).then_some(iowaiters),
            tick_stopped: has_bit(flags, 3).then_some(has_bit(flags, 4)),
            left: flags & FLAG != 0,
        })
    }

    fn take_governor_outcome(&mut self, state: u32) -> Option<Reflect> {
        let (residency_ns, flags, _unused) = (self.take_u64()?, self.take_u32()?, self.take_u32()?);
        Some(Reflect {
            // A negative state is an error code of the driver's.
            state: (state.cast_signed() >= 0).then_some(state),
            residency_ns,
            got_tick: (flags & 1 != 0).then_some(flags & 2 != 0),
            poll_limit_hit: flags & 4 != 0,
        })
    }

    fn take_block_request(&mut self, device: u32) -> Option<Block> {
        Some(self.take_block_and_flags(device)?.0)
    }

    fn take_block_and_flags(&mut self, device: u32) -> Option<(Block, u32)> {
        let (sector, bytes, flags) = (self.take_u64()?, self.take_u32()?, self.take_u32()?);
        let block = Block {
            device,
            sector,
            bytes,
            write: flags & 1 != 0,
        };
        Some((block, flags))
    }

    fn take_queued_step(&mut self, device: u32) -> Option<QueueStep> {
        let (block, flags) = self.take_block_and_flags(device)?;
        let (task, _unused) = (self.take_u32()?, self.take_u32()?);
        Some(QueueStep::Queued {
            block,
            task: Some(task),
            background: flags & 2 != 0,
            durability: Durability {
                flushes_first: flags & 4 != 0,
                is_forced: flags & 8 != 0,
            },
        })
    }

    fn take_request_step(&mut self, kind_number: u16, device: u32) -> Option<QueueStep> {
        let block = self.take_block_request(device)?;
        Some(match kind_number {
            13 => QueueStep::Tagged(block),
            14 => QueueStep::Inserted(block),
            _ => QueueStep::Merged(block),
        })
    }

    fn take_split_or_remap(&mut self, kind_number: u16, device: u32) -> Option<QueueStep> {
        let block = self.take_block_request(device)?;
        let (from_sector, from_device, _unused) =
            (self.take_u64()?, self.take_u32()?, self.take_u32()?);
        Some(match kind_number {
            16 => QueueStep::Split {
                block,
                at: from_sector,
            },
            _ => QueueStep::Remapped {
                block,
                from_device,
                from_sector,
            },
        })
    }

    fn take_woken_step(&mut self, task: u32) -> Option<RecordKind> {
        let (target, _unused) = (self.take_u32()?, self.take_u32()?);
        Some(task_step_record(task, TaskStep::Woken { target }))
    }

    fn take_task_name_if_complete(&mut self, task: u32) -> Option<RecordKind> {
        let name = self.take_bytes()?;
        Some(RecordKind::TaskName { task, name })
    }

    fn take_clock_cycles(&mut self) -> Option<ClockCycles> {
        Some(ClockCycles {
            elapsed: Nanoseconds(self.take_u64()?),
            cycles: self.take_u64()?,
            reference: self.take_u64()?,
        })
    }

    fn take_task_cgroup(&mut self, task: u32) -> Option<RecordKind> {
        let cgroup = self.take_u64()?;
        Some(RecordKind::TaskCgroup { task, cgroup })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn header(kind: u16, word: u32) -> Vec<u8> {
        let mut bytes = 77_u64.to_ne_bytes().to_vec();
        bytes.extend(kind.to_ne_bytes());
        bytes.extend(3_u16.to_ne_bytes());
        bytes.extend(word.to_ne_bytes());
        bytes
    }

    fn kind_of(bytes: &[u8]) -> RecordKind {
        let records: Vec<Record> = decode_records(bytes).map(Result::unwrap).collect();
        let [record] = records[..] else {
            panic!("{} records", records.len())
        };
        assert_eq!((record.time_ns, record.cpu), (77, 3));
        record.kind
    }

    #[test]
    fn plain_records_are_a_header() {
        let (state, left) = (2, true);
        assert_eq!(
            kind_of(&header(1, 2 | 1 << 31)),
            RecordKind::IdleEnter { state, left }
        );
        let wake = kind_of(&header(7, 1 << 31 | 5));
        assert_eq!(
            wake,
            RecordKind::Wake {
                target: 5,
                iowait: true
            }
        );
        let unknown: Vec<_> = decode_records(&header(99, 0)).collect();
        assert_eq!(unknown, [Err(WireError::Kind(99))]);
    }

    #[test]
    fn records_come_one_after_the_other() {
        let mut bytes = header(2, 0);
        bytes.extend(header(5, 6));
        bytes.extend([0; 16]);
        bytes.extend(header(8, 9));
        let kinds: Vec<_> = decode_records(&bytes)
            .map(|record| record.unwrap().kind)
            .collect();
        let block = Block {
            device: 6,
            sector: 0,
            bytes: 0,
            write: false,
        };
        let frequency = RecordKind::Frequency { khz: 9 };
        assert_eq!(
            kinds,
            [
                RecordKind::IdleExit,
                RecordKind::BlockIssue(block),
                frequency
            ]
        );
        assert_eq!(decode_records(&[]).count(), 0);

        // However short the last record, only that record is an error.
        for cut in [1, 8, 15] {
            let seen: Vec<_> = decode_records(&bytes[..bytes.len() - cut]).collect();
            assert_eq!(seen.len(), 3);
            assert!(seen[1].is_ok());
            let length = 16 - cut;
            let (kind, expected) = (0, 16);
            let error = WireError::Length {
                kind,
                length,
                expected,
            };
            assert_eq!(seen[2], Err(error));
        }
    }

    #[test]
    fn what_is_handed_over_says_which_buffer_it_was() {
        let mut bytes = 7_u64.to_ne_bytes().to_vec();
        bytes.extend(header(2, 0));
        assert_eq!(
            Delivered::split_header(&bytes),
            Ok(Delivered::CpuBuffer(7, &bytes[8..]))
        );
        bytes[..8].copy_from_slice(&u64::MAX.to_ne_bytes());
        assert_eq!(
            Delivered::split_header(&bytes),
            Ok(Delivered::Nested(&bytes[8..]))
        );
        assert!(Delivered::split_header(&bytes[..7]).is_err());
    }

    #[test]
    fn what_a_buffer_has_is_told_by_its_head() {
        for (words, there) in [(0, 0), (5, 5), (u32::MAX, PILE_WORDS)] {
            let mut buffer = CpuBuffer::with_words(7, words);
            assert_eq!(
                (buffer.data_words_in_use(), buffer.generation()),
                (there, 7)
            );
            assert_eq!(buffer.data_bytes(there).len(), there * 8);
            assert!(!buffer.is_being_written());
            buffer.0[1] = u64::MAX;
            assert!(buffer.is_being_written());
        }
    }

    #[test]
    fn what_was_not_seen_is_none() {
        let mut bytes = header(3, 4);
        bytes.extend((-5_i64).to_ne_bytes());
        bytes.extend(7_i64.to_ne_bytes());
        bytes.extend(8_i64.to_ne_bytes());
        bytes.extend(9_u32.to_ne_bytes());
        bytes.extend((1_u32 | 1 << 3 | 1 << 5).to_ne_bytes());
        let expected = Select {
            state: 4,
            stop_tick: true,
            sleep_length_ns: Some(-5),
            delta_tick_ns: Some(7),
            latency_ns: None,
            iowaiters: None,
            tick_stopped: Some(false),
            left: false,
        };
        assert_eq!(kind_of(&bytes), RecordKind::Select(expected));
        assert!(decode_records(&bytes[..47]).all(|record| record.is_err()));
    }

    #[test]
    fn steps_of_requests_and_tasks_have_their_numbers() {
        let mut bytes = header(12, 6);
        bytes.extend(80_u64.to_ne_bytes());
        bytes.extend([4096_u32, 3 | 4, 812, 0].map(u32::to_ne_bytes).concat());
        let block = Block {
            device: 6,
            sector: 80,
            bytes: 4096,
            write: true,
        };
        let step = QueueStep::Queued {
            block,
            task: Some(812),
            background: true,
            durability: Durability {
                flushes_first: true,
                is_forced: false,
            },
        };
        assert_eq!(kind_of(&bytes), RecordKind::Queueing(step));
        assert!(decode_records(&bytes[..39]).all(|record| record.is_err()));

        let irq = RecordKind::Interrupt(Interrupt::Device { irq: 36 });
        assert_eq!(kind_of(&header(18, 36)), irq);
        let spared = RecordKind::Interrupt(Interrupt::Stored { target: 1 });
        assert_eq!(kind_of(&header(23, 1)), spared);
        let mut bytes = header(25, 812);
        bytes.extend([3_u32, 0].map(u32::to_ne_bytes).concat());
        let woken = task_step_record(812, TaskStep::Woken { target: 3 });
        assert_eq!(kind_of(&bytes), woken);
        let mut bytes = header(28, 812);
        bytes.extend((1_u64 << 40 | 7).to_ne_bytes());
        let (task, cgroup) = (812, 1 << 40 | 7);
        assert_eq!(kind_of(&bytes), RecordKind::TaskCgroup { task, cgroup });
        let unseen = RecordKind::UnseenSwitch { task: 75 };
        assert_eq!(kind_of(&header(30, 75)), unseen);
        let mut bytes = header(29, 0);
        bytes.extend([2_000_u64, 6_400, 4_800].map(u64::to_ne_bytes).concat());
        let clock = ClockCycles {
            elapsed: Nanoseconds(2_000),
            cycles: 6_400,
            reference: 4_800,
        };
        assert_eq!(kind_of(&bytes), RecordKind::Clock(clock));
        assert!(decode_records(&bytes[..23]).all(|record| record.is_err()));
    }

    #[test]
    fn a_refused_state_is_none() {
        let mut bytes = header(4, (-16_i32).cast_unsigned());
        bytes.extend(0_u64.to_ne_bytes());
        bytes.extend(3_u32.to_ne_bytes());
        bytes.extend(0_u32.to_ne_bytes());
        let RecordKind::Reflect(reflect) = kind_of(&bytes) else {
            panic!("not a reflect")
        };
        assert_eq!((reflect.state, reflect.got_tick), (None, Some(true)));
    }

    proptest! {
        #[test]
        fn no_input_panics(bytes in proptest::collection::vec(any::<u8>(), 0..128)) {
            let records = decode_records(&bytes).count();
            prop_assert!(records <= bytes.len().div_ceil(HEADER));
        }
    }
}
