//! Turns records from the eBPF programs into events of a recording.
//!
//! An idle period is seen in up to four records: the governor chose a state, the CPU entered the state and left it, and
//! the governor was told the outcome. [`EventAssembler`] puts the records together, CPU by CPU.

use std::collections::HashMap;

use wakepath_trace::recording::{
    self, Event, IdleInputs, IdlePeriod, IdleTracker, OpenIdlePeriod, TimerKind,
};
use wakepath_units::{Kilohertz, Nanoseconds};

use crate::wire::{Record, RecordKind, Reflect, Select};

/// Makes events from records in order of time.
#[derive(Debug, Default)]
pub struct EventAssembler {
    cpus: HashMap<u16, Cpu>,
    /// Whether outcomes reported to governors are recorded; then a period is complete only with its outcome.
    reflects: bool,
}

/// What is known so far of a CPU's current idle period.
#[derive(Debug, Default)]
struct Cpu {
    tracker: IdleTracker,
    /// State that the governor chose last.
    chosen: u8,
    /// The idle period that ended last, perhaps before the governor was told the outcome.
    exited: Option<Exit>,
    /// Events after `exited`, which must be handed out after it.
    held: Vec<Event>,
    /// Whether the CPU goes, or went, online or offline in its last hotplug step.
    online: Option<bool>,
}

#[derive(Clone, Copy, Debug)]
struct Exit {
    time: u64,
    period: IdlePeriod,
}

impl EventAssembler {
    /// An assembler without events. `reflects`: the programs see what governors are told ([`RecordKind::Reflect`]).
    pub fn new(reflects: bool) -> Self {
        Self {
            cpus: HashMap::new(),
            reflects,
        }
    }

    /// Takes a record and appends completed events to `out`, in order of time for each CPU.
    pub fn take_record(&mut self, record: &Record, out: &mut Vec<Event>) {
        let reflects = self.reflects;
        let number = record.cpu;
        let cpu = self.cpus.entry(number).or_default();
        let kind = match record.kind {
            RecordKind::Select(select) => {
                // The outcome of the CPU's last choice was missed.
                cpu.release_ended_period_and_held_events(number, out);
                cpu.note_governor_choice(record.time_ns, &select);
                return;
            }
            RecordKind::IdleEnter { state, left } => {
                cpu.release_ended_period_and_held_events(number, out);
                cpu.note_if_left_idle_loop(left);
                // The state's index fits, since no driver has more states than a u8 can count.
                if let Ok(state) = u8::try_from(state) {
                    cpu.tracker
                        .note_idle_entry(Nanoseconds(record.time_ns), state);
                }
                return;
            }
            RecordKind::IdleExit => {
                let told = reflects && cpu.tracker.has_pending_governor_call();
                cpu.end_idle_period(record.time_ns);
                if !told {
                    cpu.release_ended_period_and_held_events(number, out);
                }
                return;
            }
            RecordKind::Reflect(reflect) => {
                cpu.note_outcome_told_to_governor(record.time_ns, reflect);
                cpu.release_ended_period_and_held_events(number, out);
                return;
            }
            RecordKind::Hotplug { online } => {
                // Each hotplug step of a CPU sends a record; the first counts.
                if cpu.online == Some(online) {
                    return;
                }
                cpu.release_ended_period_and_held_events(number, out);
                *cpu = Cpu {
                    online: Some(online),
                    ..Cpu::default()
                };
                recording::EventKind::Hotplug { online }
            }
            other => match convert_independent_record(other) {
                Some(kind) => kind,
                None => return,
            },
        };
        let event = Event {
            time: Nanoseconds(record.time_ns),
            cpu: u32::from(number),
            kind,
        };
        cpu.add_complete_event(event, out);
    }

    /// Drops what is known of a CPU after lost records, and appends an event about the loss.
    pub fn forget_cpu_after_lost_records(
        &mut self,
        cpu: u16,
        time_ns: u64,
        count: u64,
        out: &mut Vec<Event>,
    ) {
        let known = self.cpus.entry(cpu).or_default();
        known.release_ended_period_and_held_events(cpu, out);
        *known = Cpu {
            online: known.online,
            ..Cpu::default()
        };
        out.push(Event {
            time: Nanoseconds(time_ns),
            cpu: cpu.into(),
            kind: recording::EventKind::Lost { count },
        });
    }

    /// The idle periods that CPUs have entered and not left, by CPU.
    pub fn open_idle_periods(&self) -> Vec<OpenIdlePeriod> {
        let open = self
            .cpus
            .iter()
            .filter_map(|(number, cpu)| cpu.tracker.open_period(u32::from(*number)));
        let mut periods: Vec<OpenIdlePeriod> = open.collect();
        periods.sort_unstable_by_key(|period| period.cpu);
        periods
    }

    /// Appends all events that wait for records which will never come.
    pub fn release_waiting_events(&mut self, out: &mut Vec<Event>) {
        let mut numbers: Vec<u16> = self.cpus.keys().copied().collect();
        numbers.sort_unstable();
        for number in numbers {
            if let Some(cpu) = self.cpus.get_mut(&number) {
                cpu.release_ended_period_and_held_events(number, out);
            }
        }
    }
}

/// The event of a record that is complete by itself; `None` for records about idle periods, hotplug and names.
fn convert_independent_record(kind: RecordKind) -> Option<recording::EventKind> {
    Some(match kind {
        RecordKind::BlockIssue(block) => recording::EventKind::BlockIssue(block),
        RecordKind::BlockComplete(block) => recording::EventKind::BlockComplete(block),
        RecordKind::Wake { target, iowait } => {
            let iowait = Some(iowait);
            recording::EventKind::Wake { target, iowait }
        }
        RecordKind::Frequency { khz } => recording::EventKind::Frequency(Kilohertz(khz)),
        RecordKind::Hrtimer { tick: true } => recording::EventKind::Timer(TimerKind::Tick),
        RecordKind::Hrtimer { tick: false } => {
            recording::EventKind::Timer(TimerKind::HighResolution)
        }
        RecordKind::Queueing(step) => recording::EventKind::Queueing(step),
        RecordKind::Interrupt(interrupt) => recording::EventKind::Interrupt(interrupt),
        RecordKind::Task { task, step } => recording::EventKind::Task { task, step },
        RecordKind::Clock(clock) => recording::EventKind::Clock(clock),
        RecordKind::Timer => recording::EventKind::Timer(TimerKind::Wheel),
        // Names and cgroups of tasks, and where events are missing, belong to the recording's metadata.
        RecordKind::TaskName { .. }
        | RecordKind::TaskCgroup { .. }
        | RecordKind::UnseenSwitch { .. }
        | RecordKind::Select(_)
        | RecordKind::IdleEnter { .. }
        | RecordKind::IdleExit
        | RecordKind::Reflect(_)
        | RecordKind::Hotplug { .. } => return None,
    })
}

impl Cpu {
    /// Adds an event that is complete by itself, behind an unfinished idle period if there is one.
    fn add_complete_event(&mut self, event: Event, out: &mut Vec<Event>) {
        if self.exited.is_some() {
            self.held.push(event);
        } else {
            out.push(event);
        }
    }

    /// Notes whether the CPU left the idle loop since its last idle period.
    fn note_if_left_idle_loop(&mut self, left: bool) {
        if left {
            self.tracker.note_task_ran();
        }
    }

    /// Notes a governor's choice of an idle state.
    fn note_governor_choice(&mut self, time: u64, select: &Select) {
        self.note_if_left_idle_loop(select.left);
        self.chosen = u8::try_from(select.state).unwrap_or(u8::MAX);
        let inputs = governor_inputs_from_record(select);
        self.tracker
            .note_governor_call(Nanoseconds(time), inputs, Some(select.stop_tick));
    }

    /// Ends the CPU's idle period, unless the recording began in the middle of it.
    fn end_idle_period(&mut self, time: u64) {
        if let Some(period) = self.tracker.end_idle_period(Nanoseconds(time)) {
            self.exited = Some(Exit { time, period });
        }
    }

    /// Notes what the kernel told the governor about the ended idle period.
    fn note_outcome_told_to_governor(&mut self, time: u64, reflect: Reflect) {
        if let Some(exit) = &mut self.exited {
            exit.period.duration = Nanoseconds(reflect.state.map_or(0, |_| reflect.residency_ns));
            exit.period.got_tick = reflect.got_tick;
            exit.period.poll_limit_hit = Some(reflect.poll_limit_hit);
        } else if let Some(period) = self.tracker.end_call_without_idle_entry(self.chosen) {
            // Work came before the CPU could enter the state that the governor chose.
            self.exited = Some(Exit { time, period });
        }
    }

    /// Appends the CPU's ended idle period, and the events that waited behind it.
    fn release_ended_period_and_held_events(&mut self, cpu_number: u16, out: &mut Vec<Event>) {
        if let Some(exit) = self.exited.take() {
            out.push(Event {
                time: Nanoseconds(exit.time),
                cpu: cpu_number.into(),
                kind: recording::EventKind::Idle(exit.period),
            });
        }
        out.append(&mut self.held);
    }
}

fn governor_inputs_from_record(select: &Select) -> IdleInputs {
    IdleInputs {
        sleep_length: select.sleep_length_ns,
        inferred: false,
        delta_tick: select.delta_tick_ns,
        tick_stopped: select.tick_stopped,
        latency_request: select.latency_ns,
        iowaiters: select.iowaiters,
        select_lead: None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use wakepath_trace::recording::Before;

    use super::*;

    fn events(records: &[(u64, RecordKind)], reflects: bool) -> Vec<Event> {
        let mut assembler = EventAssembler::new(reflects);
        let mut out = Vec::new();
        for &(time_ns, kind) in records {
            assembler.take_record(
                &Record {
                    time_ns,
                    cpu: 0,
                    kind,
                },
                &mut out,
            );
        }
        assembler.release_waiting_events(&mut out);
        out
    }

    #[test]
    fn an_entry_without_an_exit_is_an_open_period() {
        let mut assembler = EventAssembler::new(false);
        for (time_ns, cpu, kind) in [
            (90, 3, enter(2, true)),
            (100, 1, enter(1, true)),
            (110, 0, enter(1, true)),
            (120, 0, RecordKind::IdleExit),
        ] {
            let record = Record { time_ns, cpu, kind };
            assembler.take_record(&record, &mut Vec::new());
        }
        let open = assembler.open_idle_periods();
        let found: Vec<_> = open.iter().map(|p| (p.cpu, p.state, p.since_ns)).collect();
        assert_eq!(found, [(1, 1, 100), (3, 2, 90)]);
    }

    fn enter(state: u32, left: bool) -> RecordKind {
        RecordKind::IdleEnter { state, left }
    }

    fn select(state: u32) -> RecordKind {
        RecordKind::Select(Select {
            state,
            stop_tick: true,
            sleep_length_ns: Some(900),
            latency_ns: Some(5),
            ..Select::default()
        })
    }

    fn reflect(state: Option<u32>, residency_ns: u64) -> RecordKind {
        RecordKind::Reflect(Reflect {
            state,
            residency_ns,
            got_tick: Some(false),
            poll_limit_hit: false,
        })
    }

    fn period(event: &Event) -> IdlePeriod {
        match event.kind {
            recording::EventKind::Idle(period) => period,
            other => panic!("no idle period: {other:?}"),
        }
    }

    #[test]
    fn four_records_make_a_period_as_the_kernel_counts_it() {
        let tick = RecordKind::Hrtimer { tick: true };
        let seen = [
            (100, select(2)),
            (110, enter(2, true)),
            (200, RecordKind::IdleExit),
            (205, tick),
            (210, reflect(Some(2), 88)),
        ];
        let out = events(&seen, true);
        assert_eq!(out.len(), 2);
        let p = period(&out[0]);
        assert_eq!((out[0].time.0, p.state, p.duration.0), (200, 2, 88));
        assert_eq!(
            (p.inputs.sleep_length, p.inputs.select_lead),
            (Some(900), Some(10))
        );
        assert_eq!((p.before, p.got_tick), (Before::Task, Some(false)));
        // It happened before the governor was told, and after the period.
        assert_eq!(out[1].kind, recording::EventKind::Timer(TimerKind::Tick));
    }

    #[test]
    fn without_governors_entry_and_exit_are_enough() {
        let seen = [
            (100, enter(1, false)),
            (160, RecordKind::IdleExit),
            (170, enter(1, true)),
            (180, RecordKind::IdleExit),
            (185, enter(1, false)),
            (190, RecordKind::IdleExit),
        ];
        let out = events(&seen, false);
        let before: Vec<_> = out.iter().map(|e| period(e).before).collect();
        assert_eq!(before, [Before::Unknown, Before::Task, Before::IdleLoop]);
        assert_eq!(period(&out[0]).duration.0, 60);
    }

    #[test]
    fn a_state_that_was_not_entered_has_no_duration() {
        let out = events(&[(100, select(3)), (120, reflect(None, 0))], true);
        assert_eq!(out.len(), 1);
        let p = period(&out[0]);
        assert_eq!((out[0].time.0, p.state, p.duration.0), (120, 3, 0));
    }

    #[test]
    fn an_exit_whose_entry_was_not_seen_is_no_period() {
        assert_eq!(
            events(&[(5, RecordKind::IdleExit), (9, reflect(Some(1), 3))], true),
            []
        );
    }

    #[test]
    fn an_exit_without_an_entry_keeps_the_period_before() {
        let seen = [
            (100, select(2)),
            (110, enter(2, true)),
            (200, RecordKind::IdleExit),
            (205, RecordKind::IdleExit),
        ];
        let out = events(&seen, true);
        assert_eq!(out.len(), 1);
        assert_eq!((out[0].time.0, period(&out[0]).duration.0), (200, 90));
    }

    #[test]
    fn a_way_offline_is_one_event_and_begins_anew() {
        let step = |online| RecordKind::Hotplug { online };
        let seen = [
            (100, enter(1, false)),
            (110, RecordKind::IdleExit),
            (120, step(false)),
            (121, step(false)),
            (200, step(true)),
            (201, step(true)),
            (300, enter(1, false)),
            (310, RecordKind::IdleExit),
        ];
        let out = events(&seen, false);
        let hotplug: Vec<_> = out
            .iter()
            .filter_map(|event| match event.kind {
                recording::EventKind::Hotplug { online } => Some((event.time.0, online)),
                _ => None,
            })
            .collect();
        assert_eq!(hotplug, [(120, false), (200, true)]);
        assert_eq!(period(&out[3]).before, Before::Unknown);
    }

    fn kinds() -> impl Strategy<Value = RecordKind> {
        prop_oneof![
            (0..3_u32).prop_map(select),
            (0..3_u32, any::<bool>()).prop_map(|(state, left)| enter(state, left)),
            Just(RecordKind::IdleExit),
            proptest::option::of(0..3_u32).prop_map(|state| reflect(state, 7)),
            Just(RecordKind::Timer),
        ]
    }

    proptest! {
        /// Whatever is missing, events stay in the order of time and nothing but idle records vanishes.
        #[test]
        fn order_is_kept(kinds in proptest::collection::vec(kinds(), 0..60), reflects in any::<bool>()) {
            let seen: Vec<_> = kinds.iter().enumerate().map(|(i, kind)| (i as u64, *kind)).collect();
            let out = events(&seen, reflects);
            prop_assert!(out.is_sorted_by_key(|event| event.time.0));
            let timers = |kind: &recording::EventKind| matches!(kind, recording::EventKind::Timer(_));
            prop_assert_eq!(
                out.iter().filter(|event| timers(&event.kind)).count(),
                kinds.iter().filter(|kind| **kind == RecordKind::Timer).count()
            );
        }
    }
}
