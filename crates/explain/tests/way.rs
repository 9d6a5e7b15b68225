//! Ways of single requests: each part where it belongs, and all parts together the latency and the wait.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may stop where its premises fail"
)]

use wakepath_explain::{
    Collected, Collector, Hop, MetState, NeighbourState, Notification, TimerLateness, TracedRequest,
};
use wakepath_hardware::IdleState;
use wakepath_trace::recording::{
    Block, ClockCycles, CpuIdleStates, DataQuality, Durability, Event, EventKind, IdleInputs,
    IdlePeriod, Interrupt, Metadata, QueueStep, Recorded, TaskStep, TimerKind,
};
use wakepath_units::{Kilohertz, Nanoseconds};

const DRIVE_IRQ: Interrupt = Interrupt::Device { irq: 36 };
const TASK: u32 = 812;

const READ: Block = Block {
    device: 259 << 20,
    sector: 64,
    bytes: 4096,
    write: false,
};

fn at(time: u64, cpu: u32, kind: EventKind) -> Event {
    let time = Nanoseconds(time);
    Event { time, cpu, kind }
}

fn idle(entry: u64, exit: u64, cpu: u32, state: u8) -> Event {
    let period = IdlePeriod {
        state,
        duration: Nanoseconds(exit - entry),
        ..IdlePeriod::default()
    };
    at(exit, cpu, EventKind::Idle(period))
}

fn interrupt(time: u64, cpu: u32, interrupt: Interrupt) -> Event {
    at(time, cpu, EventKind::Interrupt(interrupt))
}

fn task(time: u64, cpu: u32, step: TaskStep) -> Event {
    at(time, cpu, EventKind::Task { task: TASK, step })
}

/// A read by a task on CPU 0: queued at 1 us, a tag at 3 us, issued at 7 us.
fn submission() -> Vec<Event> {
    let queued = QueueStep::Queued {
        block: READ,
        task: Some(TASK),
        background: false,
        durability: Durability::default(),
    };
    vec![
        at(1_000, 0, EventKind::Queueing(queued)),
        at(3_000, 0, EventKind::Queueing(QueueStep::Tagged(READ))),
        at(7_000, 0, EventKind::BlockIssue(READ)),
    ]
}

fn follow(events: &[Event]) -> TracedRequest {
    follow_with_names(events, &[])
}

/// Follows the request on a machine whose interrupts have these names.
fn follow_with_names(events: &[Event], names: &[(u32, &str)]) -> TracedRequest {
    let names = names.iter().map(|(irq, name)| (*irq, (*name).to_owned()));
    let recorded = Recorded {
        tasks: DataQuality::Exact,
        ..Recorded::default()
    };
    let metadata = Metadata {
        recorded,
        siblings: vec![vec![0, 4]],
        interrupts: names.collect(),
        ..Metadata::default()
    };
    let mut collector = Collector::new(&metadata);
    for event in events {
        collector.push_event(event);
    }
    let requests = collector.finish().requests;
    let [request] = requests[..] else {
        panic!("{} requests", requests.len())
    };
    let parts = request.out + request.interrupt + request.remote_completion_ns();
    assert_eq!(parts, request.latency, "{request:?}");
    request
}

/// Parts of a wait: queued, hand-over, exit of the task's CPU, run queue.
fn wait(request: &TracedRequest) -> [u64; 4] {
    let wake = request.wake.unwrap();
    let queued = request.queued.unwrap();
    let run_queue = wake.run_queue.unwrap();
    [queued.total_ns(), wake.hand_over, wake.exit, run_queue]
}

#[test]
fn one_cpu_does_it_all() {
    let mut events = submission();
    events.extend([
        idle(8_000, 90_000, 0, 2),
        interrupt(90_500, 0, DRIVE_IRQ),
        interrupt(91_000, 0, Interrupt::BlockSoftirq),
        at(92_000, 0, EventKind::BlockComplete(READ)),
        task(92_700, 0, TaskStep::Waking),
        task(93_000, 0, TaskStep::Woken { target: 0 }),
        task(95_000, 0, TaskStep::Running),
    ]);
    let request = follow(&events);
    assert_eq!((request.out, request.interrupt), (83_000, 2_000));
    assert_eq!((request.irq, request.cpu), (Some(36), 0));
    assert_eq!(request.met, MetState::State(2));
    assert_eq!(wait(&request), [6_000, 700, 0, 2_300]);
    assert_eq!(request.task_wait_ns(), Some(94_000));
    assert_eq!(request.wake.unwrap().notification, Notification::SameCpu);
}

#[test]
fn cycles_tell_the_clock_whatever_was_asked_for() {
    let clock = |time: u64, cycles: u64| {
        let clock = ClockCycles {
            elapsed: Nanoseconds(2_000),
            cycles,
            reference: 4_800,
        };
        at(time, 0, EventKind::Clock(clock))
    };
    let asked = |time: u64| at(time, 0, EventKind::Frequency(Kilohertz(3_200_000)));
    let completed = [
        idle(8_000, 90_000, 0, 2),
        at(92_000, 0, EventKind::BlockComplete(READ)),
    ];
    for (more, khz) in [
        (vec![], 0),
        (vec![asked(6_000)], 3_200_000),
        (vec![asked(6_000), clock(92_100, 1_640)], 800_000),
        // Without a usable reading of its own, a request has the CPU's last one.
        (
            vec![clock(5_000, 1_640), asked(6_000), clock(92_100, 0)],
            800_000,
        ),
    ] {
        let mut events = submission();
        events.extend(completed);
        events.extend(more);
        assert_eq!(follow(&events).khz, khz);
    }
}

#[test]
fn an_interrupt_inside_of_a_halt_ends_out() {
    let mut events = submission();
    events.extend([
        interrupt(90_500, 0, DRIVE_IRQ),
        at(92_000, 0, EventKind::BlockComplete(READ)),
        task(92_700, 0, TaskStep::Waking),
        idle(8_000, 93_500, 0, 1),
        task(95_000, 0, TaskStep::Running),
    ]);
    let request = follow(&events);
    assert_eq!((request.out, request.interrupt), (83_500, 1_500));
    assert_eq!(request.met, MetState::State(1));
    assert_eq!(wait(&request), [6_000, 700, 800, 1_500]);
}

/// CPU 1 is interrupted, CPU 2 completes, CPU 0 has the task; each was idle.
fn three_cpus(told: Interrupt, woken: Interrupt) -> TracedRequest {
    follow(&events_of_three_cpus(told, woken))
}

fn events_of_three_cpus(told: Interrupt, woken: Interrupt) -> Vec<Event> {
    let mut events = submission();
    events.extend([
        idle(2_000, 90_000, 1, 2),
        interrupt(90_500, 1, DRIVE_IRQ),
        interrupt(91_500, 1, told),
        idle(4_000, 121_500, 2, 3),
    ]);
    if told == (Interrupt::Sent { target: 2 }) {
        events.push(interrupt(121_700, 2, Interrupt::CallFunction));
        events.push(interrupt(121_900, 2, Interrupt::BlockSoftirq));
    }
    events.extend([
        at(123_000, 2, EventKind::BlockComplete(READ)),
        task(123_500, 2, TaskStep::Waking),
        interrupt(123_800, 2, woken),
        idle(8_000, 173_500, 0, 3),
        task(175_000, 0, TaskStep::Running),
    ]);
    events
}

/// There are no vectors of IPIs to trace: the one that asks to complete arrives as a handler, like a device's interrupt.
#[test]
fn a_recording_of_arm64_tells_each_cpus_part() {
    let sent = |target| Interrupt::Sent { target };
    let of_x86 = three_cpus(sent(2), sent(0));
    let mut events = events_of_three_cpus(sent(2), sent(0));
    for event in &mut events {
        if event.kind == EventKind::Interrupt(Interrupt::CallFunction) {
            event.kind = EventKind::Interrupt(Interrupt::Device { irq: 2 });
        }
    }
    let names = [(1, "IPI"), (2, "IPI"), (11, "arch_timer"), (36, "nvme0q1")];
    assert_eq!(follow_with_names(&events, &names), of_x86);
    // Where nothing shows the arrival, completion counts as the interrupt of the CPU that completes.
    events.retain(|event| event.kind != EventKind::Interrupt(Interrupt::Device { irq: 2 }));
    let unseen = follow_with_names(&events, &names);
    assert_eq!((unseen.cpu, unseen.remote), (2, None));
}

#[test]
fn three_cpus_have_a_part_each() {
    for (told, woken, notification) in [
        (
            Interrupt::Sent { target: 2 },
            Interrupt::Sent { target: 0 },
            Notification::Ipi,
        ),
        (
            Interrupt::Stored { target: 2 },
            Interrupt::Stored { target: 0 },
            Notification::Store,
        ),
    ] {
        let request = three_cpus(told, woken);
        assert_eq!((request.cpu, request.irq), (1, Some(36)));
        assert_eq!((request.out, request.interrupt), (83_000, 1_500));
        let remote = request.remote.unwrap();
        assert_eq!((remote.exit, remote.handling), (30_000, 1_500));
        assert_eq!(remote.notification, notification);
        assert_eq!(request.met, MetState::State(2));
        assert_eq!(wait(&request), [6_000, 500, 50_000, 1_500]);
        let wake = request.wake.unwrap();
        assert_eq!((wake.notification, wake.cpu), (notification, Some(0)));
        assert_eq!(request.task_wait_ns(), Some(174_000));
    }
}

#[test]
fn another_interrupt_first_means_that_the_cpu_was_leaving() {
    let mut events = submission();
    events.extend([
        idle(8_000, 90_000, 0, 2),
        interrupt(90_200, 0, Interrupt::Device { irq: 50 }),
        interrupt(90_500, 0, DRIVE_IRQ),
        at(92_000, 0, EventKind::BlockComplete(READ)),
    ]);
    let request = follow(&events);
    assert_eq!((request.irq, request.met), (Some(36), MetState::Leaving(2)));

    // A timer behind the interrupt's handler ended nothing.
    let mut events = submission();
    events.extend([
        idle(8_000, 90_000, 0, 2),
        interrupt(90_500, 0, DRIVE_IRQ),
        at(91_000, 0, EventKind::Timer(TimerKind::Tick)),
        at(92_000, 0, EventKind::BlockComplete(READ)),
    ]);
    assert_eq!(follow(&events).met, MetState::State(2));
}

#[test]
fn a_polled_queue_has_no_interrupt() {
    let mut events = submission();
    events.push(at(50_000, 0, EventKind::BlockComplete(READ)));
    let request = follow(&events);
    assert_eq!((request.out, request.interrupt), (43_000, 0));
    assert_eq!((request.irq, request.met), (None, MetState::Awake));
    assert_eq!(request.task_wait_ns(), None, "it woke nobody");
}

/// Two reads of one task, whose completions share an interrupt on CPU 0, which is where the task waits; with these events
/// behind the interrupt.
fn two_reads_in_one_interrupt(behind: &[Event]) -> Vec<TracedRequest> {
    let other = other_read();
    let queued = QueueStep::Queued {
        block: other,
        task: Some(TASK),
        background: false,
        durability: Durability::default(),
    };
    let mut events = submission();
    events.extend([
        at(7_100, 0, EventKind::Queueing(queued)),
        at(7_200, 0, EventKind::Queueing(QueueStep::Tagged(other))),
        at(7_300, 0, EventKind::BlockIssue(other)),
        idle(8_000, 90_000, 0, 2),
        interrupt(90_500, 0, DRIVE_IRQ),
    ]);
    events.extend_from_slice(behind);
    let mut collector = Collector::new(&Metadata {
        recorded: Recorded {
            tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        ..Metadata::default()
    });
    for event in &events {
        collector.push_event(event);
    }
    collector.finish().requests
}

fn other_read() -> Block {
    Block {
        sector: 128,
        ..READ
    }
}

/// With libaio and io_uring a task waits for some of its requests, and the kernel wakes it once.
#[test]
fn the_completion_that_woke_the_task_ends_the_wait_and_others_have_no_run_queue() {
    let completed = |time, block| at(time, 0, EventKind::BlockComplete(block));
    let (first, second) = (READ, other_read());
    let waking = task(92_700, 0, TaskStep::Waking);
    let running = task(95_000, 0, TaskStep::Running);
    for (behind, woke) in [
        // The first satisfied the wait: the second found a task that was awake already.
        (
            [
                completed(92_000, first),
                waking,
                completed(93_000, second),
                running,
            ],
            0,
        ),
        // The task waited for both.
        (
            [
                completed(92_000, first),
                completed(92_300, second),
                waking,
                running,
            ],
            1,
        ),
    ] {
        let requests = two_reads_in_one_interrupt(&behind);
        assert_eq!(requests.len(), 2);
        let (satisfying, other) = (requests[woke], requests[1 - woke]);
        let wake = satisfying.wake.unwrap();
        assert_eq!(
            (wake.task, wake.run_queue),
            (Some(TASK), Some(2_300)),
            "{behind:?}"
        );
        assert_eq!(wake.hand_over, 92_700 - satisfying.completed);
        // From the bio until the task ran.
        let queued = [1_000, 7_100][woke];
        assert_eq!(satisfying.task_wait_ns(), Some(95_000 - queued));
        assert_eq!((other.wake, other.task_wait_ns()), (None, None));
    }
}

#[test]
fn a_sibling_says_what_the_core_could_reach() {
    let whole = |sibling: &[Event]| {
        let mut events = submission();
        events.extend([
            idle(8_000, 90_000, 0, 2),
            interrupt(90_500, 0, DRIVE_IRQ),
            at(92_000, 0, EventKind::BlockComplete(READ)),
        ]);
        events.extend_from_slice(sibling);
        follow(&events).sibling
    };
    assert_eq!(
        whole(&[idle(1_000, 200_000, 4, 1)]),
        NeighbourState::Idle(1)
    );
    assert_eq!(whole(&[idle(1_000, 80_000, 4, 1)]), NeighbourState::Unknown);
    let later = [idle(1_000, 80_000, 4, 1), idle(95_000, 99_000, 4, 1)];
    assert_eq!(whole(&later), NeighbourState::Running);
}

/// How late two timers were that ended idle periods of state 2, which this description knows.
fn lateness_of_two_timers(metadata: &Metadata) -> Vec<TimerLateness> {
    let mut collector = Collector::new(metadata);
    for (due, exit) in [(50_000_i64, 55_000), (150_000, 153_000)] {
        let entry = due as u64 - 40_000;
        let period = IdlePeriod {
            state: 2,
            duration: Nanoseconds(exit - entry),
            stop_tick: Some(true),
            inputs: IdleInputs {
                sleep_length: Some(40_500),
                select_lead: Some(500),
                ..IdleInputs::default()
            },
            ..IdlePeriod::default()
        };
        collector.push_event(&at(exit, 0, EventKind::Idle(period)));
        let timer = EventKind::Timer(TimerKind::HighResolution);
        collector.push_event(&at(exit + 300, 0, timer));
    }
    collector.finish().timers
}

#[test]
fn timers_say_how_late_they_were() {
    let late = TimerLateness {
        state: 2,
        timers: 2,
        median_ns: 5_000.0,
        interval_ns: None,
    };
    assert_eq!(lateness_of_two_timers(&Metadata::default()), [late]);
}

#[test]
fn a_state_that_stops_the_cpus_timer_has_no_lateness() {
    let state = |name: &str| IdleState {
        name: name.to_owned(),
        exit_latency: Nanoseconds::ZERO,
        target_residency: Nanoseconds::ZERO,
        polling: false,
        disabled: false,
    };
    let metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0],
            states: ["WFI", "cpu-sleep-0", "cluster-sleep-0"]
                .map(state)
                .to_vec(),
        }],
        timer_stops: vec!["cluster-sleep-0".to_owned()],
        ..Metadata::default()
    };
    assert_eq!(lateness_of_two_timers(&metadata), []);
}

#[test]
fn events_of_other_cpus_may_come_late() {
    let mut events = submission();
    events.extend([
        interrupt(90_500, 0, DRIVE_IRQ),
        at(92_000, 0, EventKind::BlockComplete(READ)),
        task(92_700, 0, TaskStep::Waking),
        task(95_000, 0, TaskStep::Running),
        // Written once its governor was told.
        idle(8_000, 90_000, 0, 2),
    ]);
    assert_eq!(follow(&events).met, MetState::State(2));
}

/// A read completed by a thread of this name, which waits for 60 us behind its interrupt and then works for 20 us.
fn completed_in_thread(name: &str) -> TracedRequest {
    let mut collector = Collector::new(&Metadata {
        recorded: Recorded {
            tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        tasks: [(THREAD, name.to_owned())].into(),
        ..Metadata::default()
    });
    let mut events = submission();
    events.extend([
        idle(8_000, 90_000, 0, 2),
        interrupt(90_500, 0, DRIVE_IRQ),
        step(91_000, 0, THREAD, TaskStep::Waking),
        step(151_000, 0, THREAD, TaskStep::Running),
        at(171_000, 0, EventKind::BlockComplete(READ)),
        task(171_400, 0, TaskStep::Waking),
        task(173_000, 0, TaskStep::Running),
    ]);
    for event in &events {
        collector.push_event(event);
    }
    let collected = collector.finish();
    assert!(collected.hops.is_empty());
    collected.requests[0]
}

#[test]
fn a_thread_belongs_to_its_interrupt_however_long_it_waited() {
    let request = completed_in_thread("irq/36-nvme0q1");
    assert_eq!(request.irq, Some(36));
    assert_eq!(request.met, MetState::State(2));
    assert_eq!((request.out, request.interrupt), (83_000, 81_000));
    assert_eq!(request.wake.unwrap().hand_over, 400);
    assert_eq!(request.task_wait_ns(), Some(172_000));
    // Of other threads nobody knows what they worked for, and out ends with the completion.
    for name in ["irq/37-nvme0q2", "kworker/0:1"] {
        let request = completed_in_thread(name);
        assert_eq!(
            (request.irq, request.met),
            (None, MetState::Awake),
            "{name}"
        );
        assert_eq!((request.out, request.interrupt), (164_000, 0), "{name}");
    }
}

/// A read whose completion follows 180 us behind its interrupt, with more events; the recording has all wake-ups.
fn completed_in_long_handler(more: &[Event]) -> Vec<TracedRequest> {
    let mut collector = Collector::new(&Metadata {
        recorded: Recorded {
            tasks: DataQuality::Exact,
            wakes: DataQuality::Exact,
            ..Recorded::default()
        },
        ..Metadata::default()
    });
    let mut events = submission();
    events.extend([
        interrupt(90_500, 0, DRIVE_IRQ),
        at(270_500, 0, EventKind::BlockComplete(READ)),
        task(270_500, 0, TaskStep::Waking),
        at(270_500, 0, wake(0)),
        task(273_000, 0, TaskStep::Running),
    ]);
    events.extend_from_slice(more);
    events.sort_by_key(|event| event.time);
    for event in &events {
        collector.push_event(event);
    }
    collector.finish().requests
}

fn wake(target: u32) -> EventKind {
    let iowait = Some(true);
    EventKind::Wake { target, iowait }
}

#[test]
fn a_handler_takes_as_long_as_it_likes_on_a_cpu_that_slept() {
    let slept = idle(8_000, 90_000, 0, 2);
    let halted = idle(8_000, 272_000, 0, 2);
    for (period, out) in [(slept, 83_000), (halted, 83_500)] {
        let requests = completed_in_long_handler(&[period]);
        let [request] = requests[..] else {
            panic!("{} requests", requests.len())
        };
        assert_eq!((request.irq, request.met), (Some(36), MetState::State(2)));
        assert_eq!(request.out, out);
        assert_eq!(request.out + request.interrupt, request.latency);
    }
}

#[test]
fn a_long_handler_completes_several_requests() {
    let other = Block {
        sector: 128,
        ..READ
    };
    let requests = completed_in_long_handler(&[
        at(7_500, 0, EventKind::BlockIssue(other)),
        idle(8_000, 90_000, 0, 2),
        at(272_000, 0, EventKind::BlockComplete(other)),
    ]);
    assert_eq!(requests.len(), 2);
    for (request, interrupt) in requests.iter().zip([180_500, 182_000]) {
        assert_eq!((request.irq, request.interrupt), (Some(36), interrupt));
    }
    assert_eq!(requests[0].met, MetState::State(2));
    assert_eq!(requests[1].met, MetState::Behind(2));
}

#[test]
fn a_long_handler_of_a_busy_cpu_counts_once_its_interrupt_is_known() {
    let awake = completed_in_long_handler(&[]);
    assert_eq!((awake[0].irq, awake[0].interrupt), (None, 0));
    let other = Block {
        sector: 128,
        ..READ
    };
    let after = completed_in_long_handler(&[
        idle(8_000, 90_000, 0, 2),
        at(300_000, 0, EventKind::BlockIssue(other)),
        interrupt(400_000, 0, DRIVE_IRQ),
        at(580_000, 0, EventKind::BlockComplete(other)),
    ]);
    assert_eq!((after[1].irq, after[1].interrupt), (Some(36), 180_000));
    assert_eq!(after[1].met, MetState::Awake);
}

#[test]
fn a_completion_behind_a_task_is_not_that_of_an_old_handler() {
    let slept = idle(8_000, 90_000, 0, 2);
    for between in [
        task(150_000, 0, TaskStep::Running),
        at(150_000, 1, wake(0)),
        idle(92_000, 150_000, 0, 1),
    ] {
        let requests = completed_in_long_handler(&[slept, between]);
        assert_eq!(requests[0].irq, None, "{between:?}");
    }
}

/// A flush bio, or the request made for it; a flush that the block layer issues for such bios.
const FLUSH_BIO: Block = Block {
    sector: 0,
    bytes: 0,
    write: true,
    ..READ
};
const FLUSH: Block = Block {
    write: false,
    ..FLUSH_BIO
};

/// Two tasks' flush bios, served by one flush that a kernel thread issues. Both requests end behind the flush, and wake their
/// tasks, 2 and 5 us after the drive's completion.
fn events_of_two_flushes(end_of_flush: Block) -> Vec<Event> {
    let mut events = Vec::new();
    for (time, cpu, task) in [(1_000, 0, TASK), (2_000, 2, THREAD)] {
        let queued = QueueStep::Queued {
            block: FLUSH_BIO,
            task: Some(task),
            background: false,
            durability: Durability::default(),
        };
        events.extend([
            at(time, cpu, EventKind::Queueing(queued)),
            at(
                time + 500,
                cpu,
                EventKind::Queueing(QueueStep::Tagged(FLUSH_BIO)),
            ),
        ]);
    }
    events.extend([
        at(9_000, 0, EventKind::BlockIssue(FLUSH)),
        idle(4_000, 80_000, 1, 2),
        interrupt(80_500, 1, DRIVE_IRQ),
        at(83_000, 1, EventKind::BlockComplete(end_of_flush)),
        at(84_500, 1, EventKind::BlockComplete(FLUSH_BIO)),
        step(85_000, 1, TASK, TaskStep::Waking),
        at(87_000, 1, EventKind::BlockComplete(FLUSH_BIO)),
        step(88_000, 1, THREAD, TaskStep::Waking),
        step(89_000, 0, TASK, TaskStep::Running),
        step(93_000, 2, THREAD, TaskStep::Running),
        idle(95_000, 190_000, 1, 2),
    ]);
    events
}

#[test]
fn a_flush_is_followed_from_its_bios_to_the_tasks_that_wait() {
    // The kernel's request ends at no sector; traces name sector 0 at the issue only.
    for sector in [0, u64::MAX] {
        let mut collector = collector_with_thread("postgres");
        for event in &events_of_two_flushes(Block { sector, ..FLUSH }) {
            collector.push_event(event);
        }
        let collected = collector.finish();
        assert_eq!(collected.coverage.requests, 2);
        assert_eq!(collected.coverage.flushes, 0);
        let [first, second] = &collected.requests[..] else {
            panic!("{collected:?}");
        };
        assert_eq!([first.task, second.task], [Some(TASK), Some(THREAD)]);
        assert_eq!(
            [first.met, second.met],
            [MetState::State(2), MetState::Behind(2)]
        );
        for (request, tag, flush, after, run_queue) in [
            (first, 500, 7_500, 2_000, 4_000),
            (second, 500, 6_500, 5_000, 5_000),
        ] {
            assert!(!request.write && !request.background && request.bytes == 0);
            assert_eq!((request.out, request.interrupt), (71_000, 3_000));
            let queued = request.queued.unwrap();
            assert_eq!(
                (queued.tag, queued.flush, queued.total_ns()),
                (tag, flush, tag + flush)
            );
            let wake = request.wake.unwrap();
            assert_eq!(wake.task, request.task);
            assert_eq!((wake.hand_over, wake.run_queue), (after, Some(run_queue)));
            let wait = tag + flush + 74_000 + after + run_queue;
            assert_eq!(request.task_wait_ns(), Some(wait));
        }
    }
}

/// A journal's commit: a flush before the data, and a flush behind, with which the write ends a second time. Kernels name the
/// write's first sector there, or the sector behind the last.
#[test]
fn a_write_between_flushes_ends_with_the_second() {
    let write = Block {
        write: true,
        ..READ
    };
    for sector in [write.sector, write.sector + 8] {
        let end = Block {
            sector,
            bytes: 0,
            ..write
        };
        let queued = QueueStep::Queued {
            block: write,
            task: Some(TASK),
            background: false,
            durability: Durability::default(),
        };
        let events = [
            at(1_000, 0, EventKind::Queueing(queued)),
            at(2_000, 0, EventKind::Queueing(QueueStep::Tagged(write))),
            at(5_000, 0, EventKind::BlockIssue(FLUSH)),
            at(405_000, 1, EventKind::BlockComplete(FLUSH)),
            at(410_000, 0, EventKind::BlockIssue(write)),
            at(460_000, 1, EventKind::BlockComplete(write)),
            at(465_000, 0, EventKind::BlockIssue(FLUSH)),
            at(865_000, 1, EventKind::BlockComplete(FLUSH)),
            at(867_000, 1, EventKind::BlockComplete(end)),
            task(868_000, 1, TaskStep::Waking),
            task(875_000, 0, TaskStep::Running),
        ];
        let mut collector = collector_with_thread("postgres");
        for event in &events {
            collector.push_event(event);
        }
        let collected = collector.finish();
        let coverage = collected.coverage;
        assert_eq!((coverage.flushes, coverage.without_issue), (0, 0));
        let mut waited = collected.requests.iter().filter(|r| r.wake.is_some());
        let request = waited.next().unwrap();
        assert_eq!(waited.next(), None);
        assert_eq!((request.latency, request.task), (50_000, Some(TASK)));
        let queued = request.queued.unwrap();
        assert_eq!((queued.tag, queued.flush, queued.plug), (1_000, 408_000, 0));
        let wake = request.wake.unwrap();
        assert_eq!((wake.hand_over, wake.run_queue), (408_000, Some(7_000)));
        assert_eq!(request.task_wait_ns(), Some(874_000));
    }
}

#[test]
fn flushes_without_a_bio_or_an_issue_are_counted() {
    let all = events_of_two_flushes(FLUSH).into_iter();
    let (_, without_bios): (Vec<Event>, Vec<Event>) = all
        .clone()
        .partition(|event| matches!(event.kind, EventKind::Queueing(_)));
    let without_issue = all.filter(|event| !matches!(event.kind, EventKind::BlockIssue(_)));
    let without_flush = without_issue
        .filter(|event| event.kind != EventKind::BlockComplete(FLUSH))
        .collect();
    for (events, requests) in [(without_bios, 1), (without_flush, 0)] {
        let mut collector = collector_with_thread("postgres");
        for event in &events {
            collector.push_event(event);
        }
        let collected = collector.finish();
        assert_eq!(collected.coverage.flushes, 2);
        assert_eq!(collected.coverage.without_issue, 0);
        assert_eq!(collected.requests.len(), requests);
    }
}

/// A driver without room puts a request back, which is then issued again: no other request, and no completion is missing.
#[test]
fn a_request_that_a_driver_put_back_keeps_its_way() {
    let mut events = submission();
    events.extend([
        at(57_000, 0, EventKind::BlockIssue(READ)),
        at(107_000, 0, EventKind::BlockIssue(READ)),
        at(150_000, 1, EventKind::BlockComplete(READ)),
    ]);
    let mut collector = collector_with_thread("postgres");
    for event in &events {
        collector.push_event(event);
    }
    let collected = collector.finish();
    assert_eq!(collected.coverage.without_completion, 0);
    let [request] = &collected.requests[..] else {
        panic!("{collected:?}");
    };
    assert_eq!((request.latency, request.task), (43_000, Some(TASK)));
    let queued = request.queued.unwrap();
    assert_eq!((queued.scheduler, queued.total_ns()), (100_000, 106_000));

    // The same sector after a lost completion is another request, with bios of its own.
    let mut collector = collector_with_thread("postgres");
    let later = submission().into_iter().map(|event| Event {
        time: Nanoseconds(event.time.0 + 500_000),
        ..event
    });
    for event in submission().into_iter().chain(later) {
        collector.push_event(&event);
    }
    collector.push_event(&at(550_000, 1, EventKind::BlockComplete(READ)));
    let collected = collector.finish();
    assert_eq!(collected.coverage.without_completion, 1);
    let latencies: Vec<_> = collected.requests.iter().map(|r| r.latency).collect();
    assert_eq!(latencies, [43_000]);
}

/// A task's flush at this time in us: queued, and issued 100 us later; after 400 us it and its flush end, and wake the task.
fn events_of_flush(start: u64, task: u32) -> [Event; 7] {
    let queued = QueueStep::Queued {
        block: FLUSH_BIO,
        task: Some(task),
        background: false,
        durability: Durability::default(),
    };
    let us = |after: u64| (start + after) * 1_000;
    [
        at(us(0), 0, EventKind::Queueing(queued)),
        at(us(2), 0, EventKind::Queueing(QueueStep::Tagged(FLUSH_BIO))),
        at(us(100), 0, EventKind::BlockIssue(FLUSH)),
        at(us(400), 1, EventKind::BlockComplete(FLUSH)),
        at(us(403), 1, EventKind::BlockComplete(FLUSH_BIO)),
        step(us(405), 1, task, TaskStep::Waking),
        step(us(410), 0, task, TaskStep::Running),
    ]
}

/// Follows flushes every 10 ms, of these tasks one after the other, of which some ends are missing.
fn follow_flushes_without(tasks: &[u32], missing: impl Fn(usize, &EventKind) -> bool) -> Collected {
    let mut collector = collector_with_thread("postgres");
    for (index, task) in tasks.iter().enumerate() {
        let events = events_of_flush(index as u64 * 10_000, *task).into_iter();
        for event in events.filter(|event| !missing(index, &event.kind)) {
            collector.push_event(&event);
        }
    }
    collector.finish()
}

/// Waits until the task ran, in us, of the tasks that did.
fn waits_us(collected: &Collected) -> Vec<(u32, u64)> {
    let requests = collected.requests.iter();
    let waits = requests.filter_map(|request| Some((request.task?, request.task_wait_ns()?)));
    waits.map(|(task, ns)| (task, ns / 1_000)).collect()
}

/// Whichever end of a flush is missing, the waits of the flushes behind are their own.
#[test]
fn a_missing_end_of_a_flush_is_no_wait_of_later_flushes() {
    let ends_of_flush = EventKind::BlockComplete(FLUSH);
    let end_of_bio = EventKind::BlockComplete(FLUSH_BIO);
    for (missing, counts) in [
        (vec![ends_of_flush], (1, 0)),
        (vec![end_of_bio], (0, 1)),
        (vec![ends_of_flush, end_of_bio], (0, 1)),
    ] {
        let collected = follow_flushes_without(&[TASK; 5], |index, kind| {
            index == 1 && missing.contains(kind)
        });
        assert_eq!(waits_us(&collected), [(TASK, 410); 4], "{missing:?}");
        let coverage = collected.coverage;
        let found = (coverage.flushes, coverage.flushes_without_end);
        assert_eq!(found, counts, "{missing:?}");
    }
}

/// A task whose flush has no end, and that never flushes again, takes few flushes of others.
#[test]
fn a_missing_end_of_a_task_that_is_gone_is_forgotten() {
    let mut tasks = [TASK; 8];
    tasks[1] = THREAD;
    let collected = follow_flushes_without(&tasks, |index, kind| {
        index == 1 && matches!(kind, EventKind::BlockComplete(_))
    });
    let waits = waits_us(&collected);
    let own = waits.iter().filter(|wait| **wait == (TASK, 410));
    assert!(own.count() >= 5, "{waits:?}");
    assert_eq!(waits[waits.len() - 4..], [(TASK, 410); 4], "{waits:?}");
    assert_eq!(collected.coverage.flushes_without_end, 1);
}

/// A kernel thread, and the task that waits for it.
const THREAD: u32 = 90;

fn step(time: u64, cpu: u32, task: u32, step: TaskStep) -> Event {
    at(time, cpu, EventKind::Task { task, step })
}

/// A collector that knows the name of [`THREAD`].
fn collector_with_thread(name: &str) -> Collector {
    Collector::new(&Metadata {
        recorded: Recorded {
            tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        tasks: [(THREAD, name.to_owned())].into(),
        ..Metadata::default()
    })
}

/// Events of a read that [`THREAD`] may pass on to [`TASK`], submitted by `submitter`; `between` follows when the thread runs.
fn events_of_passing_on(submitter: u32, between: &[Event]) -> Vec<Event> {
    let queued = QueueStep::Queued {
        block: READ,
        task: Some(submitter),
        background: false,
        durability: Durability::default(),
    };
    let mut events = vec![
        at(1_000, 0, EventKind::Queueing(queued)),
        at(7_000, 0, EventKind::BlockIssue(READ)),
        interrupt(90_500, 1, DRIVE_IRQ),
        at(92_000, 1, EventKind::BlockComplete(READ)),
        step(92_400, 1, THREAD, TaskStep::Waking),
        step(94_000, 1, THREAD, TaskStep::Running),
    ];
    events.extend_from_slice(between);
    events.extend([
        step(110_000, 1, TASK, TaskStep::Waking),
        idle(50_000, 140_000, 0, 2),
        step(142_000, 0, TASK, TaskStep::Running),
    ]);
    events
}

/// A read that a thread passes on to [`TASK`], submitted by `submitter`.
fn passed_on(submitter: u32, name: &str, between: &[Event]) -> (TracedRequest, Vec<Hop>) {
    let mut collector = collector_with_thread(name);
    for event in &events_of_passing_on(submitter, between) {
        collector.push_event(event);
    }
    let collected = collector.finish();
    (collected.requests[0], collected.hops)
}

#[test]
fn a_wait_through_another_thread_ends_with_the_task_that_waits() {
    // Submitted by the task, as through dm-crypt, or by the thread itself, as by the journal.
    for (submitter, name) in [(TASK, "some thread"), (THREAD, "jbd2/vda1-8")] {
        let (request, hops) = passed_on(submitter, name, &[]);
        let wake = request.wake.unwrap();
        assert_eq!((wake.task, wake.hops), (Some(TASK), 1));
        assert_eq!((wake.hand_over, wake.through), (400, 17_600));
        assert_eq!((wake.exit, wake.run_queue), (30_000, Some(2_000)));
        assert_eq!(request.task_wait_ns(), Some(141_000));
        let hop = hops[0];
        assert_eq!((hop.task, hop.waited, hop.ran), (THREAD, 1_600, 16_000));
    }
}

#[test]
fn a_task_that_wakes_others_after_its_own_read_passes_nothing_on() {
    let (request, hops) = passed_on(THREAD, "postgres", &[]);
    assert_eq!(request.wake.unwrap().task, Some(THREAD));
    assert_eq!(request.task_wait_ns(), Some(93_000));
    assert!(hops.is_empty());
}

#[test]
fn a_thread_that_slept_or_did_other_io_meanwhile_passes_nothing_on() {
    let other_read = QueueStep::Queued {
        block: Block { sector: 9, ..READ },
        task: Some(THREAD),
        background: false,
        durability: Durability::default(),
    };
    for between in [
        idle(96_000, 105_000, 1, 1),
        at(96_000, 1, EventKind::Queueing(other_read)),
    ] {
        let (request, hops) = passed_on(TASK, "kworker/1:1", &[between]);
        assert_eq!(request.wake.unwrap().task, Some(THREAD));
        assert!(hops.is_empty());
    }
}

#[test]
fn requests_of_another_device_take_their_hops_along() {
    let (read, hops) = passed_on(TASK, "kworker/1:1", &[]);
    let other = TracedRequest { device: 1, ..read };
    let mut collected = Collected {
        requests: vec![other, read],
        hops: vec![
            hops[0],
            Hop {
                request: 1,
                ..hops[0]
            },
        ],
        ..Collected::default()
    };
    collected.keep_only_device(READ.device);
    assert_eq!(collected.requests, [read]);
    assert_eq!(collected.hops, [hops[0]]);
}

#[test]
fn hops_belong_to_their_requests_when_requests_are_taken_meanwhile() {
    let mut collector = collector_with_thread("kworker/1:1");
    let events = events_of_passing_on(TASK, &[]);
    for (turn, taken) in [(0, 0), (1, 0), (2, 1), (3, 1)] {
        for event in &events {
            let time = Nanoseconds(event.time.0 + turn * 2_000_000_000);
            collector.push_event(&Event { time, ..*event });
        }
        // Events of this turn wait to be sorted, and requests of the turn before have just completed.
        let collected = collector.take_settled_requests();
        assert_eq!(collected.requests.len(), taken);
        let hops: Vec<usize> = collected.hops.iter().map(|hop| hop.request).collect();
        assert_eq!(hops, vec![0; taken]);
    }
    assert_eq!(collector.finish().hops.len(), 2);
}
