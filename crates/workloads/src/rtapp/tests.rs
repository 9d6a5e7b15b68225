use proptest::prelude::*;
use wakepath_units::Nanoseconds;

use super::*;

fn good(text: &str) -> RtAppFile {
    parse(text, "t.json").unwrap()
}

fn bad(text: &str) -> String {
    parse(text, "t.json").unwrap_err().to_string()
}

fn task(body: &str) -> String {
    format!("{{\n\"tasks\": {{\n\"a\": {{\n{body}\n}} }} }}")
}

#[test]
fn what_workgen_allows_is_read() {
    let file = good(
        r#"/* a comment */
        {
            "tasks": {
                "ping": { // repeated keys, no commas between objects, a trailing one
                    "loop": 5, "run": 10, "run": 20, "resume": "pong", "suspend": "",
                }
                "pong": {
                    "instance": 2, "delay": 7, "cpus": [3, 1, 1],
                    "phases": {
                        "p1": { "loop": 2, "suspend": "pong", "runtime": 30, "priority": -5 },
                        "p2": { "timer0": { "ref": "unique", "period": 1000, "mode": "absolute" },
                                "sync": { "ref": "c", "mutex": "m" }, "cpus": [0],
                                "policy": "SCHED_FIFO", "resume1": "ping" }
                    }
                }
            },
            "global": { "duration": 2, "default_policy": "SCHED_OTHER" }
        }"#,
    );
    assert_eq!(file.duration, Some(Nanoseconds::from_secs(2)));
    let [ping, pong] = &file.tasks[..] else {
        panic!("{file:?}")
    };
    let us = Nanoseconds::from_micros;
    assert_eq!(
        ping.phases[0].events,
        [
            RtAppEvent::Run(us(10)),
            RtAppEvent::Run(us(20)),
            RtAppEvent::Resume("pong".into()),
            RtAppEvent::Suspend("ping".into()),
        ]
    );
    assert_eq!((ping.loops, pong.loops), (Some(5), None));
    assert_eq!((pong.instances, pong.delay), (2, us(7)));
    assert_eq!(pong.cpus, Some(vec![1, 3]));
    assert_eq!(pong.phases[0].loops, Some(2));
    assert_eq!(
        pong.phases[0].scheduling,
        Some(Scheduling::Other { nice: -5 })
    );
    assert_eq!(
        pong.phases[1].scheduling,
        Some(Scheduling::Fifo { priority: 10 })
    );
    assert_eq!(pong.phases[1].cpus, Some(vec![0]));
    assert!(file.warnings.is_empty());
}

#[test]
fn an_error_is_one_line_whatever_the_names_in_the_file() {
    let text = r#"{"tasks": {"a": {"resume": "worker"}, "b": {"suspend": "worker\n"}}}"#;
    let error = parse(text, "t.json").unwrap_err().to_string();
    assert!(error.contains("did you mean"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn a_file_that_is_cut_off_names_its_last_line() {
    for text in [
        "{\n\"tasks\": {\"a\": {\"run\"\n",
        "{\n\"tasks\": {\"a\": {\"run\"",
    ] {
        let error = parse(text, "t.json").unwrap_err();
        assert_eq!(error.line, Some(2), "{error}");
    }
}

#[test]
fn errors_name_the_line_the_key_and_the_likely_intention() {
    for (body, message) in [
        (
            "\"slep\": 5",
            "t.json:4: tasks.a.slep: key `slep` is not known; did you mean `sleep`?",
        ),
        (
            "\"run\": \"5\"",
            "t.json:4: tasks.a.run: is a string; a whole number is wanted",
        ),
        (
            "\"run\": 1.5",
            "t.json:4: tasks.a.run: `1.5` is no whole number",
        ),
        (
            "\"run\": -1",
            "t.json:4: tasks.a.run: -1 is not between 0 and 2147483647",
        ),
        (
            "\"resume\": \"b\",\n\"suspend\": \"c\"",
            "t.json:3: tasks.a: resumes `b`, on which nobody suspends; did you mean `c`?",
        ),
        (
            "\"run\": 1,\n\"fork\": \"b\"",
            "t.json:5: tasks.a.fork: is not supported: give the task a `delay`, or suspend it until it is resumed",
        ),
        (
            "\"loop\": 3",
            "t.json:3: tasks.a: does nothing: it has no event",
        ),
        (
            "\"loop\": 0, \"run\": 1",
            "t.json:4: tasks.a.loop: 0 loops: is -1 for ever, or at least 1",
        ),
        (
            "\"wait\": {\"ref\": \"c\"}",
            "t.json:4: tasks.a.wait: has no `mutex`",
        ),
        (
            "\"timer\": {\"ref\": \"c\"}",
            "t.json:4: tasks.a.timer: has no `period`",
        ),
        (
            "\"timer\": {\"ref\": \"c\", \"period\": 1, \"mode\": \"absolut\"}",
            "t.json:4: tasks.a.timer.mode: mode `absolut` is not known; did you mean `absolute`?",
        ),
        (
            "\"policy\": \"SCHED_FIF0\", \"run\": 1",
            "t.json:4: tasks.a.policy: policy `SCHED_FIF0` is not known; did you mean `SCHED_FIFO`?",
        ),
        (
            "\"policy\": \"SCHED_RR\", \"priority\": 0, \"run\": 1",
            "t.json:3: tasks.a: priority 0 is not between 1 and 99, as SCHED_RR has it",
        ),
        (
            "\"run\": 1, \"phases\": {\"p\": {\"run\": 1}}",
            "t.json:3: tasks.a: has events both inside and outside of `phases`",
        ),
        (
            "\"run\": 1, \"util_min\": 100",
            "t.json:4: tasks.a.util_min: utilisation clamping is not supported",
        ),
        (
            "\"instance\": 5000, \"run\": 1",
            "t.json:4: tasks.a.instance: 5000 is not between 0 and 4096",
        ),
        (
            "\"instance\": 0, \"run\": 1",
            "t.json: has no task with a thread",
        ),
        (
            "\"cpus\": [], \"run\": 1",
            "t.json:4: tasks.a.cpus: names no CPU",
        ),
    ] {
        assert_eq!(bad(&task(body)), message);
    }
    for (text, message) in [
        ("", "t.json: is empty"),
        ("[]", "t.json:1: is no object"),
        (
            "{\"task\": {}}",
            "t.json:1: task: key `task` is not known; did you mean `tasks`?",
        ),
        ("{\"tasks\": {}}", "t.json: has no task with a thread"),
        (
            "{\n\"tasks\": {\n",
            "t.json:2: is no JSON: Unterminated object",
        ),
        (
            "{\"global\": {\"duration\": 0}}",
            "t.json:1: global.duration: a run of no time shows nothing",
        ),
        (
            "{\"global\": {\"durration\": 1}}",
            "t.json:1: global.durration: key `durration` is not known; did you mean `duration`?",
        ),
    ] {
        assert_eq!(bad(text), message);
    }
    assert!(bad(&format!("{{ \"tasks\": {}", "[".repeat(100_000))).contains("nesting"));
}

#[test]
fn what_cannot_change_timing_is_a_warning() {
    let file = good(
        "{ \"tasks\": { \"a\": { \"run\": 1, \"membind_nodes\": [0] } },\n\
         \"global\": { \"gnuplot\": true, \"calibration\": \"CPU0\", \"duration\": -1 } }",
    );
    let keys: Vec<&str> = file.warnings.iter().map(|w| w.key.as_str()).collect();
    assert_eq!(keys, ["gnuplot", "calibration", "membind_nodes"]);
    assert_eq!(file.warnings[0].line, 2);
    assert_eq!(file.duration, None);
}

#[test]
fn copies_are_bounded() {
    let file = good(&task("\"instance\": 10, \"run\": 1"));
    assert_eq!(file.clone().with_copies(409).unwrap().threads(), 4090);
    assert_eq!(file.clone().with_copies(410), Err(4100));
    assert_eq!(file.with_copies(0), Err(0));
}

/// The tasks of `file` with the lines of `other`.
fn relined(file: &RtAppFile, other: &RtAppFile) -> Vec<RtTask> {
    let mut tasks = file.tasks.clone();
    for (task, of) in tasks.iter_mut().zip(&other.tasks) {
        task.line = of.line;
    }
    tasks
}

fn any_event() -> impl Strategy<Value = RtAppEvent> {
    let name = "[a-z\"\\\\ \u{7}]{1,4}";
    let time = || (0_u64..=i32::MAX as u64).prop_map(Nanoseconds::from_micros);
    prop_oneof![
        time().prop_map(RtAppEvent::Run),
        time().prop_map(RtAppEvent::Runtime),
        time().prop_map(RtAppEvent::Sleep),
        (name, time(), any::<bool>()).prop_map(|(timer, period, absolute)| RtAppEvent::Timer {
            timer,
            period,
            absolute
        }),
        name.prop_map(RtAppEvent::Lock),
        name.prop_map(RtAppEvent::Unlock),
        (name, name).prop_map(|(condition, mutex)| RtAppEvent::Wait { condition, mutex }),
        (name, name).prop_map(|(condition, mutex)| RtAppEvent::Sync { condition, mutex }),
        name.prop_map(RtAppEvent::Signal),
        name.prop_map(RtAppEvent::Broadcast),
        name.prop_map(RtAppEvent::Barrier),
        name.prop_map(RtAppEvent::Suspend),
        Just(RtAppEvent::Yield),
        (0_u64..1000).prop_map(RtAppEvent::Mem),
        (0_u64..1000).prop_map(RtAppEvent::IoRun),
    ]
}

fn any_scheduling() -> impl Strategy<Value = Scheduling> {
    prop_oneof![
        (-20_i8..20).prop_map(|nice| Scheduling::Other { nice }),
        Just(Scheduling::Idle),
        (1_u8..100).prop_map(|priority| Scheduling::Fifo { priority }),
        (1_u8..100).prop_map(|priority| Scheduling::RoundRobin { priority }),
    ]
}

proptest! {
    #[test]
    fn own_output_is_read_as_the_same(
        duration in prop::option::of(1_u64..1000),
        loops in prop::option::of(1_u64..1000),
        instances in 1_u32..5,
        delay in 0_u64..1000,
        scheduling in any_scheduling(),
        phases in prop::collection::vec(
            (
                prop::option::of(1_u64..9),
                prop::option::of(any_scheduling()),
                prop::option::of(prop::collection::btree_set(0_usize..99, 1..4)),
                prop::collection::vec(any_event(), 1..6),
            ),
            1..4,
        ),
    ) {
        let file = RtAppFile {
            duration: duration.map(Nanoseconds::from_secs),
            copies: 1,
            warm_up: Nanoseconds::ZERO,
            tasks: vec![RtTask {
                name: "a \"b\" \\".into(),
                line: 0,
                instances,
                delay: Nanoseconds::from_micros(delay),
                loops,
                scheduling,
                cpus: None,
                phases: phases
                    .into_iter()
                    .map(|(loops, scheduling, cpus, events)| Phase {
                        name: "p".into(),
                        loops,
                        scheduling,
                        cpus: cpus.map(|c| c.into_iter().collect()),
                        events,
                    })
                    .collect(),
            }],
            warnings: Vec::new(),
        };
        let read = parse(&file.to_string(), "printed.json").unwrap();
        prop_assert_eq!(&read.tasks, &relined(&file, &read));
        prop_assert_eq!(read.duration, file.duration);
    }

    #[test]
    fn no_text_is_too_strange(text in "[\\[\\]{}\":,a-z0-9/* \n-]{0,200}") {
        let _ = parse(&text, "t.json");
    }
}
