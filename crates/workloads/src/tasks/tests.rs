use proptest::prelude::*;

use super::*;

/// A file with tasks `a` and `b` with these steps, which begin in line 6.
fn file_with_steps(a: &str, b: &str) -> String {
    format!(
        "kind = 'tasks'\nname = 'x'\nseconds = 0.5\n[[task]]\nname = 'a'\nsteps = '''\n{a}\n'''\n\
         [[task]]\nname = 'b'\ndepth = 4\nsteps = '''\n{b}\n'''\n"
    )
}

fn message_for_steps(a: &str) -> String {
    parse(&file_with_steps(a, "run 1us"), "x.toml")
        .unwrap_err()
        .to_string()
}

#[test]
fn steps_are_read_with_their_place() {
    let text = file_with_steps(
        "run 1us\non cpu 3 clock 1.8GHz\nrun 12.345us interrupts 2\nwrite 4096 8192\nwait 0\nflush\nwrite 512 0 forced\nwake b\n",
        "await\nsleep 1ms\ncallback\ntimer 2ms\narrival 1ms cpu 3\narrival 2ms cpu 0 after reply\narrival 1ms cpu 0 pool 2\nsync 3 4096\nflush\nwait 0\nsynced",
    );
    let file = parse(&text, "x.toml").unwrap();
    let run = |time, cpu, clock, interrupts| WorkStep::Run {
        time: Nanoseconds(time),
        cpu,
        clock,
        interrupts,
    };
    let clock = Some(wakepath_units::Kilohertz(1_800_000));
    assert_eq!(
        file.tasks[0].steps,
        [
            run(1000, None, None, 0),
            run(12_345, Some(3), clock, 2),
            WorkStep::Io {
                write: true,
                bytes: 4096,
                offset: 8192,
                is_forced: false,
            },
            WorkStep::AwaitIo(0),
            WorkStep::Flush,
            WorkStep::Io {
                write: true,
                bytes: 512,
                offset: 0,
                is_forced: true,
            },
            WorkStep::Wake(1),
        ]
    );
    let times = [1_000_000, 2_000_000].map(Nanoseconds);
    assert_eq!(
        file.tasks[1].steps,
        [
            WorkStep::AwaitWakeUp,
            WorkStep::Sleep(times[0]),
            WorkStep::LeaveCallback,
            WorkStep::SleepAfterLastTimer(times[1]),
            WorkStep::Arrival {
                time: times[0],
                cpu: 3,
                from: RequestSource::Own,
            },
            WorkStep::Arrival {
                time: times[1],
                cpu: 0,
                from: RequestSource::Client,
            },
            WorkStep::Arrival {
                time: times[0],
                cpu: 0,
                from: RequestSource::Pool(2),
            },
            WorkStep::JoinSync {
                log: 3,
                bytes: 4096,
            },
            WorkStep::Flush,
            WorkStep::AwaitIo(0),
            WorkStep::EndSync,
        ]
    );
    assert_eq!((file.tasks[0].depth, file.tasks[1].depth), (1, 4));
}

#[test]
fn a_wrong_step_is_named_with_its_line() {
    for (steps, expected) in [
        (
            "run 1us\n\nrum 2us",
            "x.toml:9: no step is called `rum`; did you mean `run`?",
        ),
        (
            "run",
            "x.toml:7: `run` has 0 arguments; expected `run 20us`",
        ),
        (
            "run 5",
            "x.toml:7: `5` is no time; expected one such as 12.5us, of at most 600 s",
        ),
        ("run 601s", "x.toml:7: `601s` is no time"),
        (
            "read 4096 0 forced",
            "x.toml:7: `read` has 3 arguments; expected `read 4096 0`",
        ),
        (
            "flush 1",
            "x.toml:7: `flush` has 1 arguments; expected `flush`",
        ),
        (
            "read 100 0",
            "x.toml:7: 100 bytes; a request has a multiple of 512",
        ),
        (
            "read 0 0",
            "x.toml:7: 0 bytes; a request has a multiple of 512",
        ),
        (
            "read 99999999999 0",
            "x.toml:7: `99999999999` is not a size in bytes",
        ),
        ("wait 65536", "x.toml:7: `65536` is not requests in flight"),
        (
            "sync 0",
            "x.toml:7: `sync` has 1 arguments; expected `sync 0 4096`",
        ),
        (
            "sync 2048 512\nsynced",
            "x.toml:7: `2048` is not the number of a log: a whole number from 0 to 2047",
        ),
        (
            "sync 0 512\nsync 0 512",
            "x.toml:8: `sync` among the steps of another one; end these with `synced`",
        ),
        (
            "run 1us\nsynced",
            "x.toml:8: `synced` without a `sync` before it; write `sync 0 4096` where the sync begins",
        ),
        (
            "sync 0 512\nflush",
            "x.toml:6: the steps after the last `sync` have no end; add `synced` behind them",
        ),
        (
            "arrival 1ms cpu 0 pool 2048",
            "x.toml:7: `2048` is not the number of a pool",
        ),
        ("wake c", "x.toml:7: no task is called `c`"),
        ("on cpu x", "x.toml:7: `x` is not a CPU"),
        ("on clock 0kHz", "x.toml:7: `0kHz` is no clock"),
        ("on here", "x.toml:7: expected `on cpu 0 clock 1800000kHz`"),
        (
            "wait \u{202e}x",
            "x.toml:7: `\\u{202e}x` is not requests in flight",
        ),
        ("", "x.toml:6: a task has at least one step"),
        (
            "await",
            "x.toml:5: task `a` has `await`, and no task has `wake a`",
        ),
    ] {
        let message = message_for_steps(steps);
        assert!(message.starts_with(expected), "{message}");
        assert!(!message.contains('\u{202e}'));
    }
}

#[test]
fn figures_out_of_range_are_refused() {
    let good = file_with_steps("run 1us", "run 1us");
    for (from, to, expected) in [
        (
            "kind = 'tasks'",
            "kind = 'task'",
            "x.toml:1: no kind of workload is called `task`; did you mean `tasks`?",
        ),
        (
            "seconds = 0.5",
            "seconds = 0",
            "x.toml:3: `seconds` is 0, and may be 0.001 to 600",
        ),
        (
            "seconds = 0.5",
            "seconds = nan",
            "x.toml:3: `seconds` is NaN",
        ),
        (
            "name = 'b'",
            "name = 'a'",
            "x.toml:10: a second task is called `a`",
        ),
        (
            "name = 'b'",
            "name = 'b c'",
            "x.toml:10: `name` has 1 to 60 bytes, no blanks and no `'`",
        ),
        (
            "depth = 4",
            "depth = 0",
            "x.toml:11: `depth` is 0, and may be 1 to 65536",
        ),
        (
            "depth = 4",
            "first_cpu = 70000",
            "x.toml:11: `first_cpu` is 70000",
        ),
        (
            "depth = 4",
            "cpus = []",
            "x.toml:11: `cpus` lists numbers of CPUs",
        ),
        (
            "depth = 4",
            "starts_us = -1",
            "x.toml:11: `starts_us` is -1",
        ),
        ("depth = 4", "deep = 4", "x.toml:11: "),
    ] {
        assert!(good.contains(from), "{from}");
        let message = parse(&good.replace(from, to), "x.toml")
            .unwrap_err()
            .to_string();
        assert!(message.starts_with(expected), "{message}");
    }
    let none = "kind = 'tasks'\nname = 'x'\nseconds = 1.0\n";
    let message = parse(none, "x.toml").unwrap_err().to_string();
    assert!(
        message.contains("there are 0 tables `[[task]]`"),
        "{message}"
    );
}

#[test]
fn the_kind_tells_tasks_from_servers() {
    assert!(is_tasks_file("# made\nkind = \"tasks\"\n"));
    assert!(is_tasks_file("kind='tasks' # x"));
    assert!(!is_tasks_file("kind = 'server'\n"));
    assert!(!is_tasks_file("name = 'tasks'\n"));
}

fn any_step(tasks: u32) -> impl Strategy<Value = WorkStep> {
    let time = (0_u64..600_000_000_000).prop_map(Nanoseconds);
    let clock = prop::option::of((1_u32..9_000_000).prop_map(wakepath_units::Kilohertz));
    prop_oneof![
        (time.clone(), prop::option::of(0_u32..64), clock, 0_u32..9).prop_map(
            |(time, cpu, clock, interrupts)| WorkStep::Run {
                time,
                cpu,
                clock,
                interrupts
            }
        ),
        (any::<[bool; 2]>(), 1_u32..2048, 0_u64..1 << 40).prop_map(
            |([write, is_forced], sectors, offset)| WorkStep::Io {
                write,
                bytes: sectors * 512,
                offset,
                is_forced: write && is_forced,
            }
        ),
        Just(WorkStep::Flush),
        (0_u32..MAX_DEPTH).prop_map(WorkStep::AwaitIo),
        (0_u32..MAX_DEPTH).prop_map(WorkStep::PassIo),
        time.clone().prop_map(WorkStep::Spin),
        time.clone().prop_map(WorkStep::Sleep),
        time.clone().prop_map(WorkStep::SleepAfterLastTimer),
        (time, 0_u32..64, 0_u32..4).prop_map(|(time, cpu, source)| {
            let from = match source {
                0 => RequestSource::Client,
                1 => RequestSource::Own,
                pool => RequestSource::Pool(pool),
            };
            WorkStep::Arrival { time, cpu, from }
        }),
        (0..tasks).prop_map(WorkStep::Wake),
        Just(WorkStep::LeaveCallback),
    ]
}

proptest! {
    #[test]
    fn a_printed_file_reads_as_the_same(
        steps in prop::collection::vec(prop::collection::vec(any_step(2), 1..20), 2),
        delay in 0_u64..1 << 39,
        flags in prop::array::uniform3(any::<bool>()),
    ) {
        let mut tasks = steps.into_iter().enumerate().map(|(number, steps)| StepTask {
            name: format!("task-{number}"),
            delay: Nanoseconds(delay),
            first_cpu: flags[0].then_some(2),
            cpus: flags[1].then(|| vec![0, 2]),
            is_bound: flags[2],
            depth: 3,
            io_wait: flags[2],
            uses_page_cache: !flags[2],
            is_counted: flags[0],
            steps,
        }).collect::<Vec<_>>();
        tasks[1].steps.push(WorkStep::Wake(0));
        tasks[0].steps.push(WorkStep::AwaitWakeUp);
        let bytes = delay as u32 >> 2;
        tasks[1].steps.insert(0, WorkStep::JoinSync { log: 2047, bytes });
        tasks[1].steps.push(WorkStep::EndSync);
        let file = TasksFile {
            name: "x".to_owned(),
            duration: Nanoseconds(1_500_000_000),
            at_most: None,
            has_background: flags[1],
            machine_cpus: flags[0].then_some(6),
            grace_period_cpu: flags[1].then_some(5),
            submission: flags[2].then_some(SubmissionWork {
                bytes: 4096,
                cycles: 17_800,
            }),
            tasks,
        };
        prop_assert_eq!(parse(&file.to_string(), "x.toml").unwrap(), file);
    }

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC*") {
        let _ = parse(&file_with_steps(&text.replace("'''", ""), "run 1us"), "x.toml");
    }
}
