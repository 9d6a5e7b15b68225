//! Threads of rt-app workloads: what has to hold for any of them, and what each event does.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, TaskRun, simulate};
use wakepath_units::Nanoseconds;
use wakepath_workloads::rtapp::{
    self, Calibration, Phase, RtAppEvent, RtAppFile, RtAppVersion, RtTask, Scheduling,
};

const MACHINES: [&str; 3] = ["rk3399", "intel-tbench-80t", "laptop"];

fn combination(idle: &str, freq: &str) -> PolicySet {
    PolicySet::from_names([idle, freq]).unwrap()
}

/// A file of a second, whose work is given in the time of the biggest core.
fn file(tasks: &str) -> RtAppFile {
    let text = format!(
        "{{ \"tasks\": {{ {tasks} }}, \"global\": {{ \"duration\": 1, \"calibration\": 200 }} }}"
    );
    rtapp::parse(&text, "test.json").unwrap()
}

fn on(machine: &str, file: RtAppFile) -> Result<Run, SimError> {
    let machine = Machine::find(machine).unwrap();
    simulate(
        &machine,
        &file.into(),
        &combination("menu", "performance"),
        1,
    )
}

/// A run of a tenth of a second, on a machine without any background.
fn short(machine: &str, tasks: &str) -> Run {
    let mut machine = Machine::find(machine).unwrap();
    machine.background.clear();
    let mut file = file(tasks);
    file.duration = Some(Nanoseconds::from_millis(100));
    simulate(
        &machine,
        &file.into(),
        &combination("menu", "performance"),
        1,
    )
    .unwrap()
}

fn task<'a>(run: &'a Run, name: &str) -> &'a TaskRun {
    let tasks = &run.threads.as_ref().unwrap().tasks;
    tasks.iter().find(|t| t.name == name).unwrap()
}

/// Every CPU's time adds up, and tasks ran no longer than there was time.
fn adds_up(run: &Run) -> Result<(), TestCaseError> {
    for cpu in &run.cpus {
        let idle: f64 = cpu.idle_seconds.iter().sum();
        prop_assert!(
            (idle + cpu.busy_seconds - run.seconds).abs() < 1e-9,
            "{cpu:?} {}",
            run.seconds
        );
        let sum = cpu.powered_seconds + cpu.asleep_seconds;
        prop_assert!((sum - run.seconds).abs() < 1e-9, "{cpu:?} {}", run.seconds);
    }
    for task in &run.threads.as_ref().unwrap().tasks {
        let parts = &task.wake_parts;
        let sum =
            parts.timer_slack + parts.interrupt_delivery + parts.idle_exit + parts.waiting_to_run;
        prop_assert!((sum - task.wake_us.mean).abs() < 1e-6, "{task:?}");
        prop_assert!(task.wake_us.p50 <= task.wake_us.max + 1e-9, "{task:?}");
    }
    Ok(())
}

fn any_event() -> impl Strategy<Value = RtAppEvent> {
    let name = || prop::sample::select(vec!["a".to_owned(), "b".to_owned()]);
    let time = || (0_u64..400).prop_map(Nanoseconds::from_micros);
    prop_oneof![
        5 => time().prop_map(RtAppEvent::Run),
        1 => time().prop_map(RtAppEvent::Runtime),
        2 => time().prop_map(RtAppEvent::Sleep),
        1 => (prop::sample::select(vec!["unique".to_owned(), "t".to_owned()]), time(), any::<bool>())
            .prop_map(|(timer, period, absolute)| RtAppEvent::Timer { timer, period, absolute }),
        2 => name().prop_map(RtAppEvent::Lock),
        2 => name().prop_map(RtAppEvent::Unlock),
        1 => (name(), name()).prop_map(|(condition, mutex)| RtAppEvent::Wait { condition, mutex }),
        1 => (name(), name()).prop_map(|(condition, mutex)| RtAppEvent::Sync { condition, mutex }),
        1 => name().prop_map(RtAppEvent::Signal),
        2 => name().prop_map(RtAppEvent::Broadcast),
        1 => name().prop_map(RtAppEvent::Barrier),
        1 => name().prop_map(RtAppEvent::SemPost),
        1 => name().prop_map(RtAppEvent::SemWait),
        1 => name().prop_map(RtAppEvent::Suspend),
        2 => name().prop_map(RtAppEvent::Resume),
        1 => Just(RtAppEvent::Yield),
        1 => (0_u64..200_000).prop_map(RtAppEvent::IoRun),
    ]
}

fn any_scheduling() -> impl Strategy<Value = Scheduling> {
    prop_oneof![
        4 => (-20_i8..20).prop_map(|nice| Scheduling::Other { nice }),
        1 => Just(Scheduling::Idle),
        1 => (1_u8..100).prop_map(|priority| Scheduling::Fifo { priority }),
        1 => (1_u8..100).prop_map(|priority| Scheduling::RoundRobin { priority }),
    ]
}

fn any_cpus() -> impl Strategy<Value = Option<Vec<usize>>> {
    let some = prop::collection::btree_set(0_usize..4, 1..4);
    prop::option::weighted(0.3, some.prop_map(|cpus| cpus.into_iter().collect()))
}

prop_compose! {
    fn any_phase()(
        loops in prop::option::weighted(0.9, 1_u64..5),
        scheduling in prop::option::weighted(0.2, any_scheduling()),
        cpus in any_cpus(),
        events in prop::collection::vec(any_event(), 1..7),
    ) -> Phase {
        Phase { name: "p".into(), loops, scheduling, cpus, events }
    }
}

prop_compose! {
    fn any_task()(
        instances in 1_u32..12,
        delay in 0_u64..500,
        loops in prop::option::of(1_u64..50),
        scheduling in any_scheduling(),
        cpus in any_cpus(),
        phases in prop::collection::vec(any_phase(), 1..4),
    ) -> RtTask {
        RtTask {
            name: "task".into(),
            line: 0,
            instances,
            delay: Nanoseconds::from_micros(delay),
            loops,
            scheduling,
            cpus,
            phases,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_program_ends_or_is_diagnosed(
        tasks in prop::collection::vec(any_task(), 1..5),
        copies in 1_u32..4,
        machine in 0..MACHINES.len(),
        idle in prop::sample::select(vec!["menu", "teo", "ladder", "shallowest", "deepest"]),
        freq in prop::sample::select(vec!["schedutil", "performance"]),
        ms in 1_u64..20,
        seed in any::<u64>(),
    ) {
        let machine = Machine::find(MACHINES[machine]).unwrap();
        let file = RtAppFile {
            duration: Some(Nanoseconds::from_millis(ms)),
            at_most: None,
            version: RtAppVersion::default(),
            calibration: Calibration::default(),
            tasks,
            copies,
            warm_up: Nanoseconds::ZERO,
            warnings: Vec::new(),
        };
        let workload = file.into();
        let policies = combination(idle, freq);
        match simulate(&machine, &workload, &policies, seed) {
            Ok(run) => {
                adds_up(&run)?;
                let again = simulate(&machine, &workload, &policies, seed).unwrap();
                prop_assert_eq!(format!("{run:?}"), format!("{again:?}"));
            }
            Err(error) => prop_assert!(matches!(error, SimError::NoProgress { .. }), "{error}"),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn as_many_busy_tasks_as_cpus_get_a_cpu_each(
        machine in 0..MACHINES.len(),
        quarters in 1_usize..=4,
    ) {
        let name = MACHINES[machine];
        let mut machine = Machine::find(name).unwrap();
        machine.background.clear();
        let cpus = machine.cpus();
        let tasks = (cpus * quarters).div_ceil(4);
        let mut file = file(&format!("\"busy\": {{ \"instance\": {tasks}, \"run\": 100 }}"));
        file.duration = Some(Nanoseconds::from_millis(200));
        let run = simulate(&machine, &file.into(), &combination("menu", "performance"), 1).unwrap();
        // They may go to other CPUs, but none waits for another one.
        let busy: f64 = run.cpus.iter().map(|c| c.busy_seconds).sum();
        prop_assert!(busy > 0.97 * tasks as f64 * run.seconds, "{} {} {}", name, tasks, busy);
    }
}

#[test]
fn work_takes_the_time_of_the_biggest_core() {
    let run = short(
        "rk3399",
        "\"big\": { \"cpus\": [4], \"run\": 1000 }, \"little\": { \"cpus\": [0], \"run\": 1000 }",
    );
    let big = task(&run, "big").loop_us.p50;
    let little = task(&run, "little").loop_us.p50;
    assert!((990.0..1020.0).contains(&big), "{big}");
    assert!((1.5..4.0).contains(&(little / big)), "{little} {big}");
    // A given time is the same everywhere.
    let run = short("rk3399", "\"little\": { \"cpus\": [0], \"runtime\": 1000 }");
    let time = task(&run, "little").loop_us.p50;
    assert!((990.0..1020.0).contains(&time), "{time}");
}

#[test]
fn a_runtime_ends_by_the_clock() {
    // The clock rises during it under schedutil, and a sibling of its core slows it down.
    let mut machine = Machine::find("laptop").unwrap();
    machine.background.clear();
    machine.scheduler.timer_slack_us = Figure::covered_by_table_source(0.0);
    for cluster in &mut machine.cluster {
        cluster.smt_speedup = Figure::covered_by_table_source(1.25);
    }
    let tasks = "\"a\": { \"cpus\": [0], \"runtime\": 5000, \"sleep\": 2000 }, \
                 \"b\": { \"cpus\": [1], \"run\": 300, \"sleep\": 900 }";
    for freq in ["performance", "schedutil"] {
        let run = simulate(&machine, &file(tasks).into(), &combination("menu", freq), 1).unwrap();
        let time = task(&run, "a").loop_us;
        // The timer's interrupt and the way out of the idle state come on top.
        assert!((7000.0..7200.0).contains(&time.p50), "{freq}: {time:?}");
        assert!(time.p99 < 7250.0, "{freq}: {time:?}");
    }
}

#[test]
fn without_an_operation_none_has_an_energy() {
    let run = short("rk3399", "\"t\": { \"run\": 1000000 }");
    let energy = run.energy.unwrap();
    assert!(
        energy.total_mj > 0.0 && energy.per_io_uj.is_none(),
        "{energy:?}"
    );
    let run = short("rk3399", "\"t\": { \"run\": 1000 }");
    let energy = run.energy.unwrap();
    let loops = run.threads.unwrap().operations as f64;
    let per_loop = energy.total_mj * 1e3 / loops;
    assert!((energy.per_io_uj.unwrap() - per_loop).abs() < 1e-6 * per_loop);
}

#[test]
fn a_timer_keeps_its_period_and_a_sleep_does_not() {
    let run = short(
        "rk3399",
        "\"t\": { \"run\": 300, \"timer\": { \"ref\": \"unique\", \"period\": 1000 } }, \"s\": { \"run\": 300, \"sleep\": 700 }",
    );
    let (timer, sleep) = (task(&run, "t"), task(&run, "s"));
    assert_eq!(timer.loops, 99, "{timer:?}");
    assert!(
        timer.loop_us.mean < 1001.0 && sleep.loop_us.mean > 1001.0,
        "{sleep:?}"
    );
    assert!(
        timer.wake_us.mean > 0.0 && timer.wake_parts.idle_exit > 0.0,
        "{timer:?}"
    );
}

/// As in Linux, the slack of a sleep delays all but threads of real-time classes.
#[test]
fn timer_slack_delays_sleeps_and_timers() {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    let with_slack = |us: f64, policy: &str| {
        let mut machine = machine.clone();
        machine.scheduler.timer_slack_us = Figure::assumed(us, "test");
        let mut file = file(&format!(
            "\"t\": {{ {policy} \"run\": 300, \"timer\": {{ \"ref\": \"unique\", \"period\": 1000 }} }}, \
             \"s\": {{ {policy} \"run\": 300, \"sleep\": 700 }}"
        ));
        file.duration = Some(Nanoseconds::from_millis(100));
        let policies = combination("menu", "performance");
        let run = simulate(&machine, &file.into(), &policies, 1).unwrap();
        ["t", "s"].map(|name| task(&run, name).clone())
    };
    for (with, without) in with_slack(50.0, "").iter().zip(&with_slack(0.0, "")) {
        let parts = &with.wake_parts;
        assert!((parts.timer_slack - 50.0).abs() < 1e-9, "{with:?}");
        assert!(without.wake_parts.timer_slack.abs() < 1e-9);
        let later = with.wake_us.mean - without.wake_us.mean;
        assert!((later - 50.0).abs() < 5.0, "{later}");
    }
    let realtime = with_slack(50.0, "\"policy\": \"SCHED_FIFO\",");
    assert!(realtime[0].wake_parts.timer_slack.abs() < 1e-9);
}

#[test]
fn a_mutex_lets_one_in_at_a_time() {
    let lines = |name: &str, cpu: usize| {
        format!(
            "\"{name}\": {{ \"cpus\": [{cpu}], \"lock\": \"m\", \"run\": 100, \"unlock\": \"m\" }}"
        )
    };
    let run = short(
        "intel-tbench-80t",
        &[lines("a", 0), lines("b", 4)].join(", "),
    );
    let loops = task(&run, "a").loops + task(&run, "b").loops;
    assert!((500..=1000).contains(&loops), "{loops}");
    assert!(task(&run, "a").loops.abs_diff(task(&run, "b").loops) < 20);
}

#[test]
fn a_barrier_keeps_threads_together() {
    let run = short(
        "intel-tbench-80t",
        "\"quick\": { \"instance\": 3, \"run\": 10, \"barrier\": \"b\" }, \"slow\": { \"run\": 200, \"barrier\": \"b\" }",
    );
    let (quick, slow) = (task(&run, "quick").loops, task(&run, "slow").loops);
    assert!(quick.abs_diff(slow * 3) <= 3, "{quick} {slow}");
    assert!((400..=500).contains(&slow), "{slow}");
}

#[test]
fn weights_share_a_cpu() {
    let run = short(
        "rk3399",
        "\"much\": { \"cpus\": [4], \"run\": 100, \"priority\": -5 }, \"little\": { \"cpus\": [4], \"run\": 100, \"priority\": 5 }",
    );
    let ratio = task(&run, "much").loops as f64 / task(&run, "little").loops as f64;
    // 1.25 ^ 10 = 9.3
    assert!((6.0..13.0).contains(&ratio), "{ratio}");
}

#[test]
fn real_time_tasks_come_first() {
    let run = short(
        "rk3399",
        "\"rt\": { \"cpus\": [4], \"policy\": \"SCHED_FIFO\", \"run\": 500, \"sleep\": 500 }, \"other\": { \"cpus\": [4], \"run\": 100 }",
    );
    assert!(
        task(&run, "rt").wake_us.max < 20.0,
        "{:?}",
        task(&run, "rt")
    );
    assert!(
        (480..=510).contains(&task(&run, "other").loops),
        "{:?}",
        task(&run, "other")
    );
}

#[test]
fn a_woken_task_takes_the_cpu_from_a_busy_one() {
    let run = short(
        "rk3399",
        "\"busy\": { \"cpus\": [4], \"run\": 1000 }, \"light\": { \"cpus\": [4], \"run\": 50, \"sleep\": 10000 }",
    );
    let light = task(&run, "light");
    assert!(light.loops >= 8 && light.wake_us.p50 < 100.0, "{light:?}");
}

#[test]
fn what_a_file_names_first_is_what_is_counted() {
    let run = short(
        "intel-tbench-80t",
        "\"a\": { \"instance\": 2, \"run\": 1000 }, \"b\": { \"run\": 1 }",
    );
    let threads = run.threads.as_ref().unwrap();
    assert_eq!(threads.operations, task(&run, "a").loops);
    assert!((195..=200).contains(&threads.operations), "{threads:?}");
}

#[test]
fn a_run_that_goes_nowhere_says_why() {
    for (tasks, why) in [
        (
            "\"a\": { \"suspend\": \"\" }, \"b\": { \"lock\": \"m\", \"lock1\": \"m\" }",
            "every thread waits for another one: 'a' waits to be resumed (\"suspend\": \"a\"), 'b' waits for the mutex \"m\"",
        ),
        (
            "\"a\": { \"lock\": \"x\", \"sleep\": 10, \"lock1\": \"y\" }, \"b\": { \"lock\": \"y\", \"sleep\": 10, \"lock1\": \"x\" }",
            "'a' waits for the mutex \"y\", 'b' waits for the mutex \"x\"",
        ),
        (
            "\"a\": { \"run\": 0, \"yield\": \"\" }",
            "task 'a' takes steps without end and without taking time",
        ),
        (
            "\"a\": { \"instance\": 12, \"wait\": { \"ref\": \"c\", \"mutex\": \"m\" } }",
            "waits for the condition \"c\" and 4 more threads wait",
        ),
        (
            "\"a\": { \"sem_wait\": \"s\" }",
            "'a' waits for the semaphore \"s\"",
        ),
    ] {
        let error = on("laptop", file(tasks)).unwrap_err().to_string();
        assert!(
            error.contains("makes no progress") && error.contains(why),
            "{error}"
        );
    }
}

#[test]
fn a_run_that_has_done_something_lasts_its_duration() {
    for (tasks, why) in [
        (
            "\"a\": { \"loop\": 1, \"run\": 1, \"barrier\": \"b\" }, \"b\": { \"loop\": 2, \"barrier\": \"b\" }",
            Some("'b' waits at the barrier \"b\""),
        ),
        (
            "\"a\": { \"run\": 1, \"lock\": \"x\", \"sleep\": 10, \"lock1\": \"y\" }, \
             \"b\": { \"lock\": \"y\", \"sleep\": 10, \"lock1\": \"x\" }",
            Some("'a' waits for the mutex"),
        ),
        ("\"a\": { \"loop\": 3, \"run\": 1 }", None),
    ] {
        for machine in MACHINES {
            let run = short(machine, tasks);
            assert!((run.seconds - 0.1).abs() < 1e-9, "{}", run.seconds);
            adds_up(&run).unwrap();
            let halted = run.threads.unwrap().halted;
            assert_eq!(halted.is_some(), why.is_some());
            if let (Some(halted), Some(why)) = (halted, why) {
                assert!(
                    halted.after_seconds < 0.01 && halted.waits.contains(why),
                    "{halted:?}"
                );
            }
        }
    }
}

#[test]
fn a_semaphore_remembers() {
    // The poster is far ahead: the other one has each of its 30 turns, if later.
    let run = short(
        "laptop",
        "\"a\": { \"loop\": 30, \"run\": 10, \"sem_post\": \"s\" }, \"b\": { \"sem_wait\": \"s\", \"run\": 500 }",
    );
    assert_eq!((task(&run, "a").loops, task(&run, "b").loops), (30, 30));
}

#[test]
fn a_sync_gives_its_mutex_back_or_keeps_it() {
    let run = |sync: &str| {
        let tasks = format!(
            "\"a\": {{ \"loop\": 5, {sync}, \"run\": 10, \"sleep\": 100 }}, \
             \"b\": {{ \"lock\": \"m\", \"wait\": {{ \"ref\": \"q\", \"mutex\": \"m\" }}, \"unlock\": \"m\", \
             \"lock1\": \"m\", \"signal\": \"q\", \"unlock1\": \"m\" }}, \
             \"c\": {{ \"sleep\": 5000, \"lock\": \"m\", \"run\": 1, \"unlock\": \"m\" }}"
        );
        let run = short("laptop", &tasks);
        ["a", "b", "c"].map(|name| task(&run, name).loops)
    };
    let [a, b, c] = run("\"sleep1\": 100, \"sync\": { \"ref\": \"q\", \"mutex\": \"m\" }");
    assert!(a == 5 && b == 5 && c > 16, "{a} {b} {c}");
    // It has the mutex before and after, and c waits for it.
    let [a, b, c] = run(
        "\"sleep1\": 100, \"lock\": \"m\", \"sync\": { \"ref\": \"q\", \"mutex\": \"m\" }, \"sleep2\": 8000, \"unlock\": \"m\"",
    );
    assert!(a == 5 && b == 5 && (8..=15).contains(&c), "{a} {b} {c}");
}

/// A board's tasks begin wherever a CPU is free, and go to a bigger one when they are too big for theirs.
#[test]
fn a_heavy_task_moves_to_a_bigger_cpu() {
    let tasks = "\"heavy\": { \"run\": 1000 }, \"light\": { \"run\": 100, \"sleep\": 10000 }";
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    let policies = combination("menu", "performance");
    let run = simulate(&machine, &file(tasks).into(), &policies, 1).unwrap();
    let heavy = task(&run, "heavy").loop_us;
    assert!((990.0..1020.0).contains(&heavy.p50), "{heavy:?}");
    // It began on a small one.
    assert!(heavy.max > 2000.0, "{heavy:?}");
    let big: f64 = run.cpus[4..].iter().map(|c| c.busy_seconds).sum();
    assert!((0.85..1.0).contains(&big), "{big}");
    let light: f64 = run.cpus[..4].iter().map(|c| c.busy_seconds).sum();
    assert!(light > 0.01, "{light}");
}

#[test]
fn a_thread_waits_for_what_it_writes() {
    let writes = |threads: u32, around: &str| {
        let lock = if around.is_empty() {
            ""
        } else {
            "\"lock\": \"m\", "
        };
        short(
            "rk3399",
            &format!(
                "\"a\": {{ \"instance\": {threads}, {lock} \"run\": 10, \"iorun\": 4096 {around} }}"
            ),
        )
    };
    let service = Machine::find("rk3399")
        .unwrap()
        .drive
        .write_service_us
        .value;
    let one = writes(1, "");
    let loops = task(&one, "a").loops;
    assert!(
        one.requests.abs_diff(loops) <= 1,
        "{} {loops}",
        one.requests
    );
    assert_eq!(one.written_bytes, 4096 * one.requests);
    assert!(task(&one, "a").loop_us.mean > service + 10.0);
    assert!(one.latency_us.mean > service);
    // Side by side, unless a lock makes them wait for each other.
    let [four, locked] = [writes(4, ""), writes(4, ", \"unlock\": \"m\"")];
    let rate = |run: &Run| task(run, "a").loops_per_second;
    assert!(
        rate(&four) > 2.5 * rate(&one),
        "{} {}",
        rate(&four),
        rate(&one)
    );
    assert!(
        rate(&locked) < 1.1 * rate(&one),
        "{} {}",
        rate(&locked),
        rate(&one)
    );
}

#[test]
fn waiting_for_a_write_counts_as_io_wait() {
    let mean_mhz = |freq| {
        let machine = Machine::find("rk3399").unwrap();
        let tasks = file("\"a\": { \"cpus\": [4], \"run\": 5, \"iorun\": 4096 }");
        let policies = combination("menu", freq);
        simulate(&machine, &tasks.into(), &policies, 1)
            .unwrap()
            .mean_mhz
    };
    let [boost, none] = ["schedutil", "schedutil[iowait_boost=off]"].map(mean_mhz);
    assert!(boost > none + 500.0, "{boost} {none}");
}

#[test]
fn what_is_not_modelled_is_refused() {
    for (tasks, why) in [
        (
            "\"a\": { \"mem\": 100 }",
            "the simulator does not model the speed of memory (mem)",
        ),
        (
            "\"a\": { \"cpus\": [99], \"run\": 1 }",
            "CPU 99: the machine has CPUs 0 to",
        ),
    ] {
        let error = on("laptop", file(tasks)).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
    }
    let both = file("\"a\": { \"mem\": 100, \"run\": 1, \"cpus\": [99] }, \"b\": { \"mem\": 1 }");
    let error = on("laptop", both).unwrap_err().to_string();
    assert_eq!(error.lines().count(), 3, "{error}");
    assert!(error.contains("line 1: task 'b': "), "{error}");
    let elsewhere =
        "{ \"tasks\": { \"a\": { \"run\": 1 } }, \"global\": { \"calibration\": \"CPU99\" } }";
    let error = on("laptop", rtapp::parse(elsewhere, "t").unwrap());
    let error = error.unwrap_err().to_string();
    assert!(
        error.contains("a calibration on CPU 99: the machine has CPUs 0 to"),
        "{error}"
    );
}

#[test]
fn a_run_ends_when_all_threads_have() {
    let text = "{ \"tasks\": { \"a\": { \"loop\": 3, \"run\": 1000, \"sleep\": 1000 } } }";
    let run = on("laptop", rtapp::parse(text, "t").unwrap()).unwrap();
    assert_eq!(run.threads.as_ref().unwrap().operations, 3);
    assert!((0.006..0.008).contains(&run.seconds), "{}", run.seconds);
}

#[test]
fn two_threads_of_a_core_slow_each_other_down() {
    let mut machine = Machine::find("intel-tbench-80t").unwrap();
    machine.background.clear();
    let speedup = 1.25;
    for cluster in &mut machine.cluster {
        cluster.smt_speedup.value = speedup;
    }
    let loops = |cpus: [usize; 2]| {
        let [a, b] = cpus;
        let mut file = file(&format!(
            "\"a\": {{ \"cpus\": [{a}], \"run\": 100 }}, \"b\": {{ \"cpus\": [{b}], \"run\": 100 }}"
        ));
        file.duration = Some(Nanoseconds::from_millis(100));
        let run = simulate(
            &machine,
            &file.into(),
            &combination("menu", "performance"),
            1,
        )
        .unwrap();
        (task(&run, "a").loops + task(&run, "b").loops) as f64
    };
    let ratio = loops([0, 1]) / loops([0, 2]);
    let given = machine.cluster[0].smt_speedup.is_given();
    let expected = if given { speedup / 2.0 } else { 1.0 };
    assert!((ratio - expected).abs() < 0.02, "{ratio} {expected}");
}

#[test]
fn a_task_refills_its_caches_on_another_core_only() {
    // All cores poll, so that the turbo limit is that of all cores, 2.9 GHz: a task that goes round two CPUs, which share a core or do not.
    let loop_us = |second: usize, migration: f64| {
        let mut machine = Machine::find("intel-tbench-80t").unwrap();
        machine.background.clear();
        machine.scheduler.migration_kcycles.value = migration;
        for cluster in &mut machine.cluster {
            // All other threads poll.
            cluster.smt_poll_loss.value = 0.0;
        }
        let phase =
            |name: &str, cpu: usize| format!("\"{name}\": {{ \"cpus\": [{cpu}], \"run\": 100 }}");
        let phases = [phase("here", 0), phase("there", second)].join(", ");
        let mut file = file(&format!("\"t\": {{ \"phases\": {{ {phases} }} }}"));
        file.duration = Some(Nanoseconds::from_millis(50));
        file.warm_up = Nanoseconds::from_millis(10);
        let run = simulate(
            &machine,
            &file.into(),
            &combination("shallowest", "performance"),
            1,
        );
        task(&run.unwrap(), "t").loop_us.mean
    };
    assert!((loop_us(1, 33.0) - loop_us(1, 0.0)).abs() < 0.1);
    // Twice 33,000 cycles at 2.9 GHz.
    let more = loop_us(2, 33.0) - loop_us(2, 0.0);
    assert!((more - 66.0 / 2.9).abs() < 0.5, "{more}");
}

#[test]
fn what_ends_in_the_warm_up_is_not_counted() {
    let run = |warm_up| {
        let mut file = file("\"t\": { \"run\": 100, \"sleep\": 900 }");
        file.duration = Some(Nanoseconds::from_millis(100));
        file.warm_up = Nanoseconds::from_millis(warm_up);
        on("rk3399", file).unwrap()
    };
    let (all, half, none) = (run(0), run(50), run(200));
    let (all, half, none) = (task(&all, "t"), task(&half, "t"), task(&none, "t"));
    assert!(all.loops > 80 && half.loops.abs_diff(all.loops / 2) <= 1);
    assert!((half.loops_per_second / all.loops_per_second - 1.0).abs() < 0.05);
    assert!(half.wake_ups.abs_diff(half.loops) <= 1);
    assert_eq!(
        (none.loops, none.wake_ups, none.loops_per_second),
        (0, 0, 0.0)
    );
}
