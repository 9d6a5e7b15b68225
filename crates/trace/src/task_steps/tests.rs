use wakepath_hardware::IdleState;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::*;
use crate::recording::{
    Block, CpuIdleStates, Durability, Event, EventKind, IdleInputs, IdlePeriod, Interrupt,
    Overwrite, QueueStep, Recorded, TaskStep, TimerKind, Writer,
};

const US: u64 = 1_000;

/// An event with its time in us and its CPU.
type TimedEvent = (u64, u32, EventKind);

/// Steps of the tasks in a recording of these events, on a machine whose state leaves in 10 us.
fn collect(events: &[TimedEvent]) -> ObservedTasks {
    collect_with_names(events, &[])
}

fn collect_with_names(events: &[TimedEvent], names: &[(u32, &str)]) -> ObservedTasks {
    try_collect(events, names).unwrap()
}

fn try_collect(
    events: &[TimedEvent],
    names: &[(u32, &str)],
) -> Result<ObservedTasks, TaskStepsError> {
    let state = IdleState {
        name: "C1".to_owned(),
        exit_latency: Nanoseconds(10 * US),
        target_residency: Nanoseconds(10 * US),
        polling: false,
        disabled: false,
    };
    let mut metadata = Metadata {
        idle_states: vec![CpuIdleStates {
            cpus: vec![0, 1],
            states: vec![state],
        }],
        recorded: Recorded {
            idle: DataQuality::Exact,
            queueing: DataQuality::Exact,
            all_tasks: DataQuality::Exact,
            ..Recorded::default()
        },
        ..Metadata::default()
    };
    for (task, name) in names {
        metadata.keep_latest_task_name(*task, name);
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("recording.parquet");
    let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
    for (us, cpu, kind) in events {
        let event = Event {
            time: Nanoseconds(us * US),
            cpu: *cpu,
            kind: *kind,
        };
        writer.add_event(&event).unwrap();
    }
    writer.finish_and_count_events().unwrap();
    collect_task_steps(&mut Reader::open(&path).unwrap())
}

fn task_step(task: u32, step: TaskStep) -> EventKind {
    EventKind::Task { task, step }
}

fn waking(task: u32) -> EventKind {
    task_step(task, TaskStep::Waking)
}

fn running(task: u32) -> EventKind {
    task_step(task, TaskStep::Running)
}

/// An idle period of so many us, whose governor was told that the next timer comes after `timer_us`.
fn idle(us: u64, timer_us: i64) -> EventKind {
    EventKind::Idle(IdlePeriod {
        duration: Nanoseconds(us * US),
        inputs: IdleInputs {
            sleep_length: Some(timer_us * 1000),
            ..IdleInputs::default()
        },
        ..IdlePeriod::default()
    })
}

fn read(sector: u64) -> Block {
    Block {
        device: 1,
        sector,
        bytes: 4096,
        write: false,
    }
}

fn queued(sector: u64, task: u32) -> EventKind {
    EventKind::Queueing(QueueStep::Queued {
        block: read(sector),
        task: Some(task),
        background: false,
        durability: Durability::default(),
    })
}

fn complete(sector: u64) -> EventKind {
    EventKind::BlockComplete(read(sector))
}

const TIMER: EventKind = EventKind::Timer(TimerKind::HighResolution);

fn run(us: u64, cpu: u32) -> ObservedStep {
    ObservedStep::Run(ObservedRun {
        time_ns: us * US,
        cpu,
        khz: None,
        interrupts: 0,
    })
}

fn io(sector: u64) -> ObservedStep {
    ObservedStep::Io(ObservedIo {
        write: false,
        bytes: 4096,
        sector,
        is_forced: false,
    })
}

/// A reader that sleeps by a timer after each request. The timer is late by the exit of 10 us.
fn thinking_reader(period_us: u64) -> Vec<TimedEvent> {
    let mut events = vec![(0, 0, running(7))];
    for number in 0..5 {
        let at = 10 + number * period_us;
        events.extend([
            (at, 0, queued(number * 8, 7)),
            // The request is submitted until 5 us later, and the CPU sleeps.
            (at + 85, 0, idle(80, 10_000)),
            (at + 87, 0, complete(number * 8)),
            (at + 87, 0, waking(7)),
            (at + 90, 0, running(7)),
            // The task thinks for 20 us, and sleeps by a timer of 200 us.
            (at + 320, 0, idle(210, 200)),
            (at + 320, 0, TIMER),
            (at + 321, 0, waking(7)),
            (at + 323, 0, running(7)),
        ]);
    }
    events
}

#[test]
fn a_sleep_lasts_as_long_as_its_timer_was_set_for() {
    let observed = collect(&thinking_reader(330));
    let task = &observed.tasks[0];
    assert_eq!((task.number, task.depth, task.requests), (7, 1, 5));
    let round = [
        io(0),
        run(5, 0),
        ObservedStep::AwaitIo(0),
        run(20, 0),
        ObservedStep::Sleep(200 * US),
    ];
    assert_eq!(task.steps[0], run(10, 0));
    assert_eq!(task.steps[1..6], round);
    assert_eq!(task.steps[6], run(7, 0));
    // The last burst has no wait behind it, and all requests end before the loop does.
    assert_eq!(task.steps.last(), Some(&ObservedStep::AwaitIo(0)));
    assert_eq!(observed.outside_wake_ups, 0);
}

/// Two tasks by turns: after the first, the tick is the next timer and comes; after the second, it could stop.
#[test]
fn a_task_after_which_no_tick_stops_leaves_callbacks() {
    let told = |us: u64, timer: i64, tick: i64| {
        EventKind::Idle(IdlePeriod {
            duration: Nanoseconds(us * US),
            inputs: IdleInputs {
                sleep_length: Some(timer * 1000),
                delta_tick: Some(tick * 1000),
                ..IdleInputs::default()
            },
            ..IdlePeriod::default()
        })
    };
    let mut events = Vec::new();
    for number in 0..40 {
        let at = number * 20_000;
        events.extend([
            (at, 0, waking(7)),
            (at, 0, running(7)),
            (at + 4_010, 0, told(4_000, 3_990, 3_990)),
            (at + 4_010, 0, EventKind::Timer(TimerKind::Tick)),
            (at + 12_010, 0, told(8_000, 7_990, 3_990)),
            (at + 12_010, 0, TIMER),
            (at + 12_010, 0, waking(8)),
            (at + 12_010, 0, running(8)),
            (at + 20_000, 0, told(7_980, 7_970, 3_990)),
            (at + 20_000, 0, TIMER),
        ]);
    }
    let observed = collect_with_names(&events, &[(7, "leaver"), (8, "other")]);
    let steps_of = |number: u32| {
        let mut tasks = observed.tasks.iter();
        &tasks.find(|task| task.number == number).unwrap().steps
    };
    // Each burst begins with its callback.
    for (before, step) in steps_of(7).iter().zip(&steps_of(7)[1..]) {
        let is_burst = matches!(step, ObservedStep::Run(_));
        assert_eq!(is_burst, *before == ObservedStep::LeaveCallback);
    }
    assert_eq!(steps_of(7)[0], ObservedStep::LeaveCallback);
    assert!(!steps_of(8).contains(&ObservedStep::LeaveCallback));
}

#[test]
fn number_zero_is_a_task_where_a_name_says_so() {
    let mut events = Vec::new();
    for number in 0..3 {
        let at = number * 1_000;
        events.extend([
            (at + 910, 0, idle(900, 890)),
            (at + 910, 0, TIMER),
            (at + 910, 0, waking(0)),
            (at + 912, 0, running(0)),
        ]);
    }
    assert_eq!(
        collect_with_names(&events, &[(0, "kworker/0:0")])
            .tasks
            .len(),
        1
    );
    for names in [&[][..], &[(0, "swapper/0")]] {
        let found = try_collect(&events, names);
        assert!(matches!(found, Err(TaskStepsError::NoTask)), "{names:?}");
    }
}

#[test]
fn timers_at_regular_intervals_are_periodic() {
    // A burst of another length before each sleep, and the timer always 1000 us after the one before.
    let mut events = vec![(0, 0, running(7))];
    for number in 0..8_u64 {
        let burst = 100 + 37 * (number % 3);
        let begin = number * 1000 + 10 * number.min(1);
        let expiry = (number + 1) * 1000;
        let sleep = expiry - begin - burst;
        events.extend([
            (expiry + 10, 0, idle(sleep + 10, sleep as i64)),
            (expiry + 10, 0, TIMER),
            (expiry + 10, 0, waking(7)),
            (expiry + 10, 0, running(7)),
        ]);
    }
    let observed = collect(&events);
    let sleeps: Vec<&ObservedStep> = (observed.tasks[0].steps.iter())
        .filter(|step| !matches!(step, ObservedStep::Run(_)))
        .collect();
    // The first one too: the timer runs from the task's begin on, whatever the task did first.
    let period = ObservedStep::SleepAfterLastTimer(1000 * US);
    assert!(sleeps.iter().all(|step| **step == period), "{sleeps:?}");
}

#[test]
fn a_task_is_woken_by_the_task_that_runs() {
    // Task 1 sleeps by a timer and wakes task 2 on the other CPU, which wakes it back.
    let mut events = Vec::new();
    for round in 0..4 {
        let at = 1000 + round * 1000;
        events.extend([
            (at, 0, idle(500, 490)),
            (at, 0, TIMER),
            (at, 0, waking(1)),
            (at + 1, 0, running(1)),
            (at + 51, 0, waking(2)),
            (at + 70, 1, idle(400, 100_000)),
            (at + 71, 1, running(2)),
            (at + 101, 1, waking(1)),
            (at + 131, 0, idle(60, 100_000)),
            (at + 132, 0, running(1)),
        ]);
    }
    let observed = collect(&events);
    let [first, second] = &observed.tasks[..] else {
        panic!("{observed:?}");
    };
    assert_eq!((first.number, second.number), (1, 2));
    assert_eq!(
        first.steps[..4],
        [
            run(50, 0),
            ObservedStep::Wake(1),
            run(20, 0),
            ObservedStep::AwaitWakeUp
        ]
    );
    assert_eq!(
        second.steps[..3],
        [ObservedStep::AwaitWakeUp, run(30, 1), ObservedStep::Wake(0)]
    );
    let count = |task: &ObservedTask, wanted: ObservedStep| {
        task.steps.iter().filter(|step| **step == wanted).count()
    };
    let await_wake_up = ObservedStep::AwaitWakeUp;
    assert_eq!(
        count(first, ObservedStep::Wake(1)),
        count(second, await_wake_up)
    );
    assert_eq!(
        count(second, ObservedStep::Wake(0)),
        count(first, await_wake_up)
    );
}

#[test]
fn a_wait_ends_with_the_request_that_woke_the_task() {
    let mut events = vec![(0, 0, running(7))];
    for (number, at) in [10, 12, 14].into_iter().enumerate() {
        events.push((at, 0, queued(number as u64 * 8, 7)));
    }
    events.extend([
        (100, 0, idle(80, 10_000)),
        (101, 0, complete(8)),
        (101, 0, waking(7)),
        // A second request ends before the task has the CPU.
        (102, 0, complete(0)),
        (105, 0, running(7)),
        (110, 0, queued(24, 7)),
        (200, 0, idle(80, 10_000)),
        (201, 0, complete(16)),
        (201, 0, waking(7)),
        (205, 0, running(7)),
    ]);
    let observed = collect(&events);
    let task = &observed.tasks[0];
    assert_eq!(task.depth, 3);
    let waits: Vec<&ObservedStep> = (task.steps.iter())
        .filter(|step| matches!(step, ObservedStep::AwaitIo(_)))
        .collect();
    // At the end of the loop, everything is waited for.
    assert_eq!(
        waits,
        [2, 1, 0]
            .map(ObservedStep::AwaitIo)
            .iter()
            .collect::<Vec<_>>()
    );
}

#[test]
fn a_burst_has_its_clock_and_its_interrupts() {
    let clock = |khz| EventKind::Frequency(Kilohertz(khz));
    let observed = collect(&[
        (0, 0, clock(1_000_000)),
        (10, 0, running(7)),
        (20, 0, queued(0, 7)),
        (25, 0, complete(0)),
        (30, 0, clock(2_000_000)),
        (70, 0, idle(30, 1000)),
        (75, 0, waking(7)),
        (80, 0, running(7)),
    ]);
    let steps = &observed.tasks[0].steps;
    let timed = |us: u64, khz, interrupts| {
        ObservedStep::Run(ObservedRun {
            time_ns: us * US,
            cpu: 0,
            khz: Some(khz),
            interrupts,
        })
    };
    assert_eq!(steps[0], timed(10, 1_000_000, 0));
    assert!(steps.contains(&timed(10, 1_000_000, 1)), "{steps:?}");
    assert!(steps.contains(&timed(10, 2_000_000, 0)), "{steps:?}");
}

#[test]
fn another_tasks_turn_on_the_cpu_is_no_wait() {
    let observed = collect(&[
        (0, 0, running(7)),
        (50, 0, running(8)),
        (80, 0, running(7)),
        (200, 0, idle(100, 90)),
        (200, 0, TIMER),
        (200, 0, waking(7)),
        (201, 0, running(7)),
        (300, 0, idle(50, 40)),
    ]);
    let task = observed.tasks.iter().find(|task| task.number == 7).unwrap();
    // The last sleep is cut off by the recording's end.
    let expected = [
        run(70, 0),
        ObservedStep::Sleep(90 * US),
        run(49, 0),
        ObservedStep::Sleep(50 * US),
    ];
    assert_eq!(task.steps, expected);
}

#[test]
fn threads_that_a_simulator_has_itself_are_left_out() {
    let mut events = thinking_reader(330);
    events.push((2000, 1, waking(9)));
    events.push((2001, 1, running(9)));
    let observed = collect_with_names(&events, &[(7, "fio"), (9, "rcu_preempt")]);
    let numbers: Vec<u32> = observed.tasks.iter().map(|task| task.number).collect();
    assert_eq!(numbers, [7]);
    assert_eq!(observed.tasks[0].name.as_deref(), Some("fio"));
}

#[test]
fn a_wake_up_from_outside_keeps_its_length_and_is_counted() {
    let observed = collect(&[
        (0, 0, running(7)),
        (300, 0, idle(200, 10_000)),
        (300, 0, waking(7)),
        (301, 0, running(7)),
    ]);
    assert_eq!(observed.outside_wake_ups, 1);
    let steps = &observed.tasks[0].steps;
    // The last 10 us are the idle state's exit, which another state does not have.
    assert_eq!(steps[..2], [run(100, 0), ObservedStep::Sleep(190 * US)]);
}

#[test]
fn a_sleep_that_the_end_cuts_off_is_part_of_the_loop() {
    let observed = collect(&[
        (0, 0, running(7)),
        (100, 0, idle(80, 10_000)),
        (100, 0, TIMER),
        (101, 0, waking(7)),
        (101, 0, running(7)),
        (1_000, 0, idle(890, 10_000)),
        (1_000, 0, TIMER),
        (1_000, 1, TIMER),
    ]);
    let steps = &observed.tasks[0].steps;
    assert_eq!(
        steps[2..],
        [run(9, 0), ObservedStep::Sleep(890 * US)],
        "{steps:?}"
    );
}

#[test]
fn a_timer_that_the_governor_knew_of_wakes_a_task_on_a_busy_cpu() {
    let observed = collect(&[
        (0, 0, running(7)),
        // CPU 0 was told of the timer at 320 us, and leaves idle for another task before.
        (310, 0, idle(290, 300)),
        (310, 0, EventKind::Interrupt(Interrupt::Reschedule)),
        (312, 0, running(8)),
        (322, 0, waking(7)),
        (330, 0, running(7)),
        (400, 0, idle(60, 10_000)),
    ]);
    let steps = &observed.tasks[0].steps;
    assert_eq!(steps[..2], [run(20, 0), ObservedStep::Sleep(300 * US)]);
}

#[test]
fn a_reader_goes_on_beside_its_read_ahead() {
    let mut events = vec![(0, 0, running(7))];
    for round in 0..3_u64 {
        let at = round * 1_000;
        events.extend([
            (at + 10, 0, queued(round * 8, 7)),
            // The task thinks from 20 to 520 us, and the request ends meanwhile.
            (at + 120, 0, idle(100, 500)),
            (at + 120, 0, complete(round * 8)),
            (at + 530, 0, idle(400, 400)),
            (at + 530, 0, TIMER),
            (at + 531, 0, waking(7)),
            (at + 532, 0, running(7)),
        ]);
    }
    let observed = collect(&events);
    let task = &observed.tasks[0];
    assert!(task.uses_page_cache && task.is_waited_for);
    let waits = task
        .steps
        .iter()
        .filter(|step| matches!(step, ObservedStep::AwaitIo(_) | ObservedStep::PassIo(_)));
    // Each read-ahead is followed by a wait for the one before; the loop's end waits for all.
    let expected = [
        ObservedStep::PassIo(1),
        ObservedStep::PassIo(1),
        ObservedStep::AwaitIo(0),
    ];
    assert!(waits.eq(&expected), "{:?}", task.steps);
    assert_eq!(task.depth, 2);
}

#[test]
fn any_events_are_followed() {
    use proptest::prelude::*;

    let kind = (0_usize..8, 0_u32..4, 0_u64..6).prop_map(|(kind, task, sector)| match kind {
        0 => waking(task),
        1 => running(task),
        2 => queued(sector * 8, task),
        3 => complete(sector * 8),
        4 => TIMER,
        5 => idle(sector * 7, sector as i64 - 2),
        6 => EventKind::Lost { count: sector },
        _ => EventKind::Frequency(Kilohertz(task)),
    });
    let events = prop::collection::vec((0_u64..40, 0_u32..3, kind), 1..120);
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(200));
    runner
        .run(&events, |gaps| {
            let mut now = 0;
            let events: Vec<TimedEvent> = (gaps.into_iter())
                .map(|(gap, cpu, kind)| {
                    now += gap;
                    (now, cpu, kind)
                })
                .collect();
            let Ok(observed) = try_collect(&events, &[]) else {
                return Ok(());
            };
            let steps = observed.tasks.iter().flat_map(|task| &task.steps);
            let (mut wakes, mut waits) = (0, 0);
            for step in steps {
                match step {
                    ObservedStep::Wake(index) => {
                        prop_assert!(*index < observed.tasks.len());
                        wakes += 1;
                    }
                    ObservedStep::AwaitWakeUp => waits += 1,
                    _ => {}
                }
            }
            prop_assert_eq!(wakes, waits);
            Ok(())
        })
        .unwrap();
}

/// A write that a task queues, which asks this of the drive's cache.
fn queued_write(sector: u64, bytes: u32, durability: Durability) -> EventKind {
    let block = Block {
        write: true,
        bytes,
        ..read(sector)
    };
    EventKind::Queueing(QueueStep::Queued {
        block,
        task: Some(7),
        background: false,
        durability,
    })
}

/// The end of a flush as the kernel tells it: first of its own command, then of the task's.
fn flush_completed(us: u64) -> [TimedEvent; 2] {
    let own = Block {
        bytes: 0,
        ..read(u64::MAX)
    };
    let of_task = Block {
        bytes: 0,
        write: true,
        ..read(0)
    };
    [own, of_task].map(|block| (us, 0, EventKind::BlockComplete(block)))
}

#[test]
fn a_flush_is_a_step_of_the_task_that_waits_for_it() {
    let flush = Durability {
        flushes_first: true,
        is_forced: false,
    };
    let mut events = vec![(0, 0, running(7))];
    for round in 0..3 {
        let (at, sector) = (round * 1000, (round + 1) * 8);
        events.extend([
            (
                at + 10,
                0,
                queued_write(sector, 4096, Durability::default()),
            ),
            (at + 100, 0, idle(80, 10_000)),
            (at + 101, 0, complete(sector)),
            (at + 101, 0, waking(7)),
            (at + 105, 0, running(7)),
            (at + 110, 0, queued_write(0, 0, flush)),
            (at + 700, 0, idle(580, 10_000)),
        ]);
        events.extend(flush_completed(at + 702));
        events.extend([(at + 702, 0, waking(7)), (at + 705, 0, running(7))]);
    }
    let observed = collect(&events);
    let task = &observed.tasks[0];
    assert_eq!((task.depth, task.requests), (1, 6));
    let kinds: Vec<&str> = (task.steps.iter())
        .filter_map(|step| match step {
            ObservedStep::Io(io) if io.write && !io.is_forced => Some("write"),
            ObservedStep::Flush => Some("flush"),
            ObservedStep::AwaitIo(0) => Some("wait"),
            ObservedStep::Run(_) => None,
            _ => Some("other"),
        })
        .collect();
    assert_eq!(kinds, ["write", "wait", "flush", "wait"].repeat(3));
}

#[test]
fn a_write_that_flushes_first_is_a_flush_and_a_write() {
    let commit = Durability {
        flushes_first: true,
        is_forced: true,
    };
    let observed = collect(&[
        (0, 0, running(7)),
        (10, 0, queued_write(8, 4096, commit)),
        (700, 0, idle(680, 10_000)),
        (701, 0, complete(8)),
        (701, 0, waking(7)),
        (705, 0, running(7)),
    ]);
    let steps: Vec<&ObservedStep> = (observed.tasks[0].steps.iter())
        .filter(|step| !matches!(step, ObservedStep::Run(_)))
        .collect();
    let write = ObservedStep::Io(ObservedIo {
        write: true,
        bytes: 4096,
        sector: 8,
        is_forced: true,
    });
    let wait = ObservedStep::AwaitIo(0);
    assert_eq!(steps, [&ObservedStep::Flush, &wait, &write, &wait]);
}

/// Rounds of 1 ms: a task runs for so many us and sleeps on CPU 0. A device's interrupt on CPU 1 wakes the task; 5 us after the
/// interrupt, CPU 1 is idle again.
fn served_rounds(ran: u64) -> Vec<TimedEvent> {
    let mut events = vec![(0, 0, running(7))];
    for round in 0..6 {
        let start = round * 1000;
        let idle_before = if round == 0 { 950 } else { 995 };
        let interrupt = EventKind::Interrupt(Interrupt::Device { irq: 24 });
        events.extend([
            (start + 960, 1, idle(idle_before, 10_000)),
            (start + 960, 1, interrupt),
            (start + 965, 1, waking(7)),
            (start + 1000, 0, idle(1000 - ran, 10_000)),
            (start + 1000, 0, running(7)),
        ]);
    }
    events.push((6965, 1, idle(1000, 10_000)));
    events
}

#[test]
fn an_interrupt_from_outside_is_an_arrival_on_its_cpu() {
    use ArrivalSource::{Client, Own};
    for (ran, first_us, further_us, from) in [(100, 950, 1000, Own), (900, 50, 50, Client)] {
        let observed = collect(&served_rounds(ran));
        let arrival = |us: u64| ObservedStep::Arrival {
            // The 10 us before the interrupt are the idle state's exit.
            after_ns: us * US,
            cpu: 1,
            from,
        };
        let steps = &observed.tasks[0].steps;
        assert_eq!(steps[..2], [run(ran, 0), arrival(first_us)]);
        assert_eq!(steps[2..4], [run(ran, 0), arrival(further_us)]);
        assert_eq!(observed.outside_wake_ups, 0);
    }
}

#[test]
fn an_interrupt_takes_longer_at_a_low_clock() {
    for (khz, is_arrival) in [(400_000, true), (2_000_000, false)] {
        let interrupt = EventKind::Interrupt(Interrupt::Device { irq: 24 });
        let observed = collect(&[
            (0, 0, running(7)),
            (1, 1, EventKind::Frequency(Kilohertz(khz))),
            (2, 1, running(8)),
            (300, 1, interrupt),
            (320, 1, waking(7)),
            (321, 0, idle(200, 10_000)),
            (321, 0, running(7)),
            (400, 1, idle(50, 10_000)),
        ]);
        let task = &observed.tasks[0];
        assert_eq!(task.number, 7);
        let has_arrival = task
            .steps
            .iter()
            .any(|step| matches!(step, ObservedStep::Arrival { cpu: 1, .. }));
        assert_eq!(has_arrival, is_arrival, "{khz}: {:?}", task.steps);
    }
}
