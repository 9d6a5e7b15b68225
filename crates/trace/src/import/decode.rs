//! The kernel's trace events needed for recordings, with their fields (`include/trace/events`, Linux 4.4 to 6.12).

use super::wheel;
use crate::recording::{Block, Durability, Interrupt, QueueStep, TimerKind};

/// A trace event in the terms of the kernel, whatever the trace's format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TraceEvent {
    /// Index of the idle state that was entered; `u32::MAX` is the exit.
    CpuIdle {
        state: u32,
        cpu: u32,
    },
    /// `blocked`: the task that stops running sleeps uninterruptibly, as for I/O.
    Switch {
        previous: u32,
        blocked: bool,
        next: u32,
        next_name: ShortName,
    },
    /// `waking`: from `sched_waking`, which the waking CPU traces; otherwise `sched_wakeup`.
    Wake {
        pid: u32,
        target: u32,
        waking: bool,
    },
    Block {
        complete: bool,
        block: Block,
    },
    /// A step of a bio or request before its issue. `background`: no task waits for the request.
    Queueing {
        step: QueueStep,
        background: bool,
    },
    DeviceInterrupt {
        irq: u32,
        name: ShortName,
    },
    Interrupt(Interrupt),
    /// A softirq that completes no block requests, such as the timers'.
    OtherSoftirq,
    Frequency {
        khz: u32,
        cpu: u32,
    },
    TimerStart {
        timer: u64,
        expires: i64,
        function: TimerFunction,
    },
    TimerCancel {
        timer: u64,
    },
    TimerExpire {
        timer: u64,
        now: i64,
        function: TimerFunction,
    },
    /// Jiffies until the timer wheel runs the timer. `None`: unknown, or the idle loop does not wait for the timer.
    WheelStart {
        timer: u64,
        ticks: Option<i64>,
    },
    WheelCancel {
        timer: u64,
    },
    WheelExpire {
        timer: u64,
    },
    TickStop {
        success: bool,
    },
    /// A hotplug step of a CPU on its way on- or offline.
    Hotplug {
        cpu: u32,
        online: bool,
    },
}

/// The first 16 bytes of a task's or interrupt's name, padded with zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ShortName([u8; 16]);

impl ShortName {
    pub(super) fn from_bytes_cut_to_16(text: &[u8]) -> Self {
        let mut name = Self::default();
        for (to, from) in name.0.iter_mut().zip(text) {
            *to = *from;
        }
        name
    }

    /// The name as text; `None` where the trace has none.
    pub(super) fn text_if_any(&self) -> Option<String> {
        let bytes = self.0.split(|byte| *byte == 0).next()?;
        (!bytes.is_empty()).then(|| String::from_utf8_lossy(bytes).into_owned())
    }
}

/// The function called by a high-resolution timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimerFunction {
    /// The scheduler's tick.
    Tick,
    /// Anything else.
    Other,
    /// A function that the trace gives by address only, without its name.
    Address(u64),
}

impl TimerFunction {
    /// [`TimerFunction::Tick`] if the kernel's symbol is the tick's handler: `tick_sched_timer` until Linux 6.8,
    /// `tick_nohz_handler` since.
    pub(super) fn tick_or_other_from_symbol(name: &str) -> Self {
        let name = name.split(['+', '/']).next().unwrap_or(name);
        match name {
            "tick_sched_timer" | "tick_nohz_handler" => Self::Tick,
            _ => Self::Other,
        }
    }

    /// The kind of a high-resolution timer that calls this function.
    pub(super) fn timer_kind(self) -> TimerKind {
        if self == Self::Tick {
            TimerKind::Tick
        } else {
            TimerKind::HighResolution
        }
    }
}

/// Events with a meaning for recordings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KernelEvent {
    CpuIdle,
    Switch,
    Waking,
    Wakeup,
    BlockIssue,
    BlockComplete,
    BioQueue,
    GetRequest,
    RequestInsert,
    RequestMerge,
    BioSplit,
    BioRemap,
    DeviceInterrupt,
    Softirq,
    CallFunction,
    Reschedule,
    IpiSent,
    IpiSpared,
    Frequency,
    TimerStart,
    TimerCancel,
    TimerExpire,
    WheelStart,
    WheelCancel,
    WheelExpire,
    TickStop,
    Hotplug,
}

/// A trace event's name, and the fields to read from it. A field's index in this list identifies the field.
pub(super) struct KnownEvent {
    pub(super) event: KernelEvent,
    pub(super) name: &'static str,
    pub(super) fields: &'static [&'static str],
}

pub(super) const KNOWN_EVENTS: &[KnownEvent] = &[
    describe_known_event(KernelEvent::CpuIdle, "cpu_idle", &["state", "cpu_id"]),
    describe_known_event(
        KernelEvent::Switch,
        "sched_switch",
        &["prev_pid", "prev_state", "next_pid", "next_comm"],
    ),
    describe_known_event(KernelEvent::Waking, "sched_waking", &["pid", "target_cpu"]),
    describe_known_event(KernelEvent::Wakeup, "sched_wakeup", &["pid", "target_cpu"]),
    describe_known_event(KernelEvent::BlockIssue, "block_rq_issue", BLOCK),
    describe_known_event(KernelEvent::BlockComplete, "block_rq_complete", BLOCK),
    describe_known_event(KernelEvent::BioQueue, "block_bio_queue", BLOCK),
    describe_known_event(KernelEvent::GetRequest, "block_getrq", BLOCK),
    describe_known_event(KernelEvent::RequestInsert, "block_rq_insert", BLOCK),
    describe_known_event(KernelEvent::RequestMerge, "block_rq_merge", BLOCK),
    describe_known_event(
        KernelEvent::BioSplit,
        "block_split",
        &["dev", "sector", "new_sector", "rwbs"],
    ),
    describe_known_event(
        KernelEvent::BioRemap,
        "block_bio_remap",
        &[
            "dev",
            "sector",
            "nr_sector",
            "rwbs",
            "old_dev",
            "old_sector",
        ],
    ),
    describe_known_event(
        KernelEvent::DeviceInterrupt,
        "irq_handler_entry",
        &["irq", "name"],
    ),
    describe_known_event(KernelEvent::Softirq, "softirq_entry", &["vec"]),
    describe_known_event(KernelEvent::CallFunction, "call_function_single_entry", &[]),
    describe_known_event(KernelEvent::Reschedule, "reschedule_entry", &[]),
    describe_known_event(KernelEvent::IpiSent, "ipi_send_cpu", &["cpu"]),
    describe_known_event(
        KernelEvent::IpiSpared,
        "sched_wake_idle_without_ipi",
        &["cpu"],
    ),
    describe_known_event(
        KernelEvent::Frequency,
        "cpu_frequency",
        &["state", "cpu_id"],
    ),
    describe_known_event(
        KernelEvent::TimerStart,
        "hrtimer_start",
        &["hrtimer", "function", "expires"],
    ),
    describe_known_event(KernelEvent::TimerCancel, "hrtimer_cancel", &["hrtimer"]),
    describe_known_event(
        KernelEvent::TimerExpire,
        "hrtimer_expire_entry",
        &["hrtimer", "function", "now"],
    ),
    describe_known_event(
        KernelEvent::WheelStart,
        "timer_start",
        &[
            "timer",
            "expires",
            "now",
            "bucket_expiry",
            "timeout",
            "flags",
        ],
    ),
    describe_known_event(KernelEvent::WheelCancel, "timer_cancel", &["timer"]),
    describe_known_event(KernelEvent::WheelExpire, "timer_expire_entry", &["timer"]),
    describe_known_event(KernelEvent::TickStop, "tick_stop", &["success"]),
    describe_known_event(
        KernelEvent::Hotplug,
        "cpuhp_enter",
        &["cpu", "target", "idx"],
    ),
];

const BLOCK: &[&str] = &["dev", "sector", "nr_sector", "rwbs"];

const fn describe_known_event(
    event: KernelEvent,
    name: &'static str,
    fields: &'static [&'static str],
) -> KnownEvent {
    KnownEvent {
        event,
        name,
        fields,
    }
}

/// The event with this name, without a subsystem.
pub(super) fn find_known_event(name: &str) -> Option<&'static KnownEvent> {
    KNOWN_EVENTS.iter().find(|known| known.name == name)
}

/// Access to the fields of a trace event, whatever the trace's format.
pub(super) trait EventFields {
    /// A field as a number, by index in [`KnownEvent::fields`]; signed numbers are extended.
    fn field_number(&self, field_index: usize) -> Option<u64>;
    /// A field as a number, cut to its lower 32 bits.
    fn field_low_32_bits(&self, field_index: usize) -> Option<u32> {
        self.field_number(field_index).map(|number| number as u32)
    }
    /// A field as text.
    fn field_text(&self, field_index: usize) -> Option<&[u8]>;
    /// The timer function whose address or name a field has.
    fn timer_function_in_field(&self, field_index: usize) -> TimerFunction;
}

/// Whether a task's state is `TASK_UNINTERRUPTIBLE` without `TASK_NOLOAD`, which idle kernel threads set besides
/// (`include/linux/sched.h`).
fn state_means_blocked_on_io(task_state: u64) -> bool {
    task_state & 2 != 0 && task_state & 0x400 == 0
}

/// `BLOCK_SOFTIRQ` (`include/linux/interrupt.h`).
const BLOCK_SOFTIRQ: u64 = 4;

/// The block of a bio or request, and whether nobody waits for it.
fn decode_block_and_background(
    fields: &impl EventFields,
    letters_field: usize,
) -> Option<(Block, bool)> {
    let letters = fields.field_text(letters_field)?;
    let block = Block {
        device: fields.field_number(0)? as u32,
        sector: fields.field_number(1)?,
        bytes: (fields.field_number(2)? as u32).saturating_mul(512),
        write: letters_mean_write(letters),
    };
    Some((block, letters_mean_background(letters)))
}

/// Decodes a step before the issue, from fields in the order of [`KNOWN_EVENTS`].
fn decode_queueing_step(event: KernelEvent, fields: &impl EventFields) -> Option<TraceEvent> {
    let (block, background) = decode_block_and_background(fields, 3)?;
    let durability = durability_from_letters(fields.field_text(3)?);
    let step = match event {
        KernelEvent::BioRemap => QueueStep::Remapped {
            block,
            from_device: fields.field_number(4)? as u32,
            from_sector: fields.field_number(5)?,
        },
        KernelEvent::BioSplit => queueing_step_for_split(
            block.device,
            block.sector,
            fields.field_number(2)?,
            block.write,
        ),
        _ => queueing_step_for_block(event, block, durability),
    };
    Some(TraceEvent::Queueing { step, background })
}

/// The queueing step of an event that has nothing but a block and, for a bio, what it asks of the drive's cache.
pub(super) fn queueing_step_for_block(
    event: KernelEvent,
    block: Block,
    durability: Durability,
) -> QueueStep {
    match event {
        KernelEvent::GetRequest => QueueStep::Tagged(block),
        KernelEvent::RequestInsert => QueueStep::Inserted(block),
        KernelEvent::RequestMerge => QueueStep::Merged(block),
        // The trace does not say who submitted the bio.
        _ => QueueStep::Queued {
            block,
            task: None,
            background: false,
            durability,
        },
    }
}

/// A bio's split at a sector. The event has no length, so the first half stands for the bio. The kernel passes the
/// tracepoint only 32 bits from the second half's sector.
pub(super) fn queueing_step_for_split(
    device: u32,
    sector: u64,
    new_sector: u64,
    write: bool,
) -> QueueStep {
    const LOW: u64 = u32::MAX as u64;
    let near = (sector & !LOW) | (new_sector & LOW);
    let at = match near {
        _ if new_sector > LOW => new_sector,
        _ if near < sector => near.saturating_add(LOW + 1),
        _ => near,
    };
    let sectors = at.saturating_sub(sector).min(u64::from(u32::MAX) / 512);
    let block = Block {
        device,
        sector,
        bytes: sectors as u32 * 512,
        write,
    };
    QueueStep::Split { block, at }
}

/// Decodes an event; `None` if a field is missing.
pub(super) fn decode_event(event: KernelEvent, fields: &impl EventFields) -> Option<TraceEvent> {
    Some(match event {
        KernelEvent::CpuIdle => TraceEvent::CpuIdle {
            state: fields.field_low_32_bits(0)?,
            cpu: fields.field_low_32_bits(1)?,
        },
        KernelEvent::Switch => TraceEvent::Switch {
            previous: fields.field_low_32_bits(0)?,
            blocked: state_means_blocked_on_io(fields.field_number(1)?),
            next: fields.field_low_32_bits(2)?,
            next_name: fields
                .field_text(3)
                .map(ShortName::from_bytes_cut_to_16)
                .unwrap_or_default(),
        },
        KernelEvent::Waking | KernelEvent::Wakeup => TraceEvent::Wake {
            pid: fields.field_low_32_bits(0)?,
            target: fields.field_low_32_bits(1)?,
            waking: event == KernelEvent::Waking,
        },
        KernelEvent::BlockIssue | KernelEvent::BlockComplete => TraceEvent::Block {
            complete: event == KernelEvent::BlockComplete,
            block: decode_block_and_background(fields, 3)?.0,
        },
        KernelEvent::BioQueue
        | KernelEvent::GetRequest
        | KernelEvent::RequestInsert
        | KernelEvent::RequestMerge
        | KernelEvent::BioSplit
        | KernelEvent::BioRemap => decode_queueing_step(event, fields)?,
        KernelEvent::DeviceInterrupt => TraceEvent::DeviceInterrupt {
            irq: fields.field_low_32_bits(0)?,
            name: fields
                .field_text(1)
                .map(ShortName::from_bytes_cut_to_16)
                .unwrap_or_default(),
        },
        KernelEvent::Softirq => block_or_other_softirq(fields.field_number(0)?),
        KernelEvent::CallFunction => TraceEvent::Interrupt(Interrupt::CallFunction),
        KernelEvent::Reschedule => TraceEvent::Interrupt(Interrupt::Reschedule),
        KernelEvent::IpiSent => TraceEvent::Interrupt(Interrupt::Sent {
            target: fields.field_low_32_bits(0)?,
        }),
        KernelEvent::IpiSpared => TraceEvent::Interrupt(Interrupt::Stored {
            target: fields.field_low_32_bits(0)?,
        }),
        KernelEvent::Frequency => TraceEvent::Frequency {
            khz: fields.field_low_32_bits(0)?,
            cpu: fields.field_low_32_bits(1)?,
        },
        KernelEvent::TimerStart
        | KernelEvent::TimerCancel
        | KernelEvent::TimerExpire
        | KernelEvent::WheelStart
        | KernelEvent::WheelCancel
        | KernelEvent::WheelExpire => decode_timer_event(event, fields)?,
        KernelEvent::TickStop => TraceEvent::TickStop {
            success: fields.field_number(0)? != 0,
        },
        KernelEvent::Hotplug => TraceEvent::Hotplug {
            cpu: fields.field_low_32_bits(0)?,
            online: is_step_of_coming_online(
                fields.field_number(1)? as i64,
                fields.field_number(2)? as i64,
            ),
        },
    })
}

/// The event of a softirq with this vector number.
fn block_or_other_softirq(vector: u64) -> TraceEvent {
    match vector {
        BLOCK_SOFTIRQ => TraceEvent::Interrupt(Interrupt::BlockSoftirq),
        _ => TraceEvent::OtherSoftirq,
    }
}

/// Decodes an event about a timer.
fn decode_timer_event(event: KernelEvent, fields: &impl EventFields) -> Option<TraceEvent> {
    let timer = fields.field_number(0)?;
    Some(match event {
        KernelEvent::TimerStart => TraceEvent::TimerStart {
            timer,
            function: fields.timer_function_in_field(1),
            expires: fields.field_number(2)? as i64,
        },
        KernelEvent::TimerCancel => TraceEvent::TimerCancel { timer },
        KernelEvent::TimerExpire => TraceEvent::TimerExpire {
            timer,
            function: fields.timer_function_in_field(1),
            now: fields.field_number(2)? as i64,
        },
        KernelEvent::WheelStart => decode_wheel_timer_start(fields)?,
        KernelEvent::WheelCancel => TraceEvent::WheelCancel { timer },
        KernelEvent::WheelExpire => TraceEvent::WheelExpire { timer },
        _ => return None,
    })
}

/// Decodes the start of a timer on the wheel.
fn decode_wheel_timer_start(fields: &impl EventFields) -> Option<TraceEvent> {
    let expires = fields.field_number(1)?;
    // In text, a wheel timer's start has only the difference to the present jiffies.
    let now = fields
        .field_number(2)
        .or_else(|| Some(expires.wrapping_sub(fields.field_number(4)?)));
    let bucket = fields
        .field_number(3)
        .or_else(|| Some(wheel::expiry_tick_on_wheel(expires, now?)));
    // A wheel timer's flags in text say nothing: trace-cmd and perf print the names of all flags.
    let deferrable = fields
        .field_number(5)
        .is_some_and(|flags| flags & wheel::DEFERRABLE != 0);
    let ticks = now.zip(bucket).filter(|_| !deferrable);
    Some(TraceEvent::WheelStart {
        timer: fields.field_number(0)?,
        ticks: ticks.map(|(now, bucket)| bucket.wrapping_sub(now) as i64),
    })
}

/// Whether a CPU at hotplug step `step` goes to `target` to come online. The target alone is not enough: a CPU going
/// offline first has a target in the middle (`_cpu_down()`, `kernel/cpu.c`).
pub(super) fn is_step_of_coming_online(target: i64, step: i64) -> bool {
    step <= target
}

/// Whether the block layer's letters for a request mean a write (or a discard). The first letter may be F, for a flush.
pub(super) fn letters_mean_write(letters: &[u8]) -> bool {
    letters
        .iter()
        .find(|letter| **letter != b'F')
        .is_some_and(|letter| matches!(letter, b'W' | b'D'))
}

/// Whether the block layer's letters mean that nobody waits: readahead, or an asynchronous write.
pub(super) fn letters_mean_background(letters: &[u8]) -> bool {
    letters.contains(&b'A') || (letters_mean_write(letters) && !letters.contains(&b'S'))
}

/// What the block layer's letters ask of the drive's cache: an F before the operation's letter is a flush, an F behind it a
/// forced write (`blk_fill_rwbs()`, `block/blk-core.c` and `kernel/trace/blktrace.c`, Linux 6.12).
pub(super) fn durability_from_letters(letters: &[u8]) -> Durability {
    let flushes_first = letters.first() == Some(&b'F');
    let behind_operation = letters.get(usize::from(flushes_first) + 1..);
    Durability {
        flushes_first,
        is_forced: behind_operation.is_some_and(|rest| rest.contains(&b'F')),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn letters_tell_flushes_from_forced_writes() {
        for (letters, flushes_first, is_forced) in [
            ("WS", false, false),
            ("FWS", true, false),
            ("WFS", false, true),
            ("FWFS", true, true),
            ("FWFSM", true, true),
            ("F", true, false),
            ("", false, false),
        ] {
            let wanted = Durability {
                flushes_first,
                is_forced,
            };
            assert_eq!(
                durability_from_letters(letters.as_bytes()),
                wanted,
                "{letters}"
            );
        }
    }

    use super::*;

    /// Fields in a `timer_start`.
    struct Numbers([Option<u64>; 6]);

    impl EventFields for Numbers {
        fn field_number(&self, field: usize) -> Option<u64> {
            self.0[field]
        }

        fn field_text(&self, _: usize) -> Option<&[u8]> {
            None
        }

        fn timer_function_in_field(&self, _: usize) -> TimerFunction {
            TimerFunction::Other
        }
    }

    /// Ticks until the wheel looks at timer 7.
    fn ticks(numbers: [Option<u64>; 6]) -> Option<i64> {
        match decode_event(KernelEvent::WheelStart, &Numbers(numbers)) {
            Some(TraceEvent::WheelStart { timer: 7, ticks }) => ticks,
            other => unreachable!("{other:?}"),
        }
    }

    #[test]
    fn a_timer_of_the_wheel_is_looked_at_after_it_is_due() {
        let (timer, due, now) = (Some(7), Some(1_100), Some(1_000));
        // As Linux 6.12 records it, as Linux 6.1 does, and both as text.
        let bucket = Some(1_104);
        for numbers in [
            [timer, due, now, bucket, None, Some(0)],
            [timer, due, now, None, None, Some(0)],
            [timer, due, None, bucket, Some(100), None],
            [timer, due, None, None, Some(100), None],
        ] {
            assert_eq!(ticks(numbers), Some(104), "{numbers:?}");
        }
        // For a deferrable one no CPU wakes up.
        assert_eq!(
            ticks([timer, due, now, bucket, None, Some(wheel::DEFERRABLE | 3)]),
            None
        );
        assert_eq!(ticks([timer, due, None, None, None, None]), None);
    }
}
