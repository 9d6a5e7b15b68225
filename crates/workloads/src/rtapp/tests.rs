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
    let text = r#"{"tasks": {"a": {"resume": "worker"}, "worker\n": {"suspend": "x\ny"}}}"#;
    for warning in &good(text).warnings {
        let warning = warning.to_string();
        assert_eq!(warning.lines().count(), 1, "{warning}");
    }
    let text = r#"{"tasks": {"a\nb": {"slep\n": 1}}}"#;
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
fn a_refusal_gives_every_reason_with_its_line() {
    let text = "{ \"tasks\": {
        \"a\": { \"run\": 1000, \"util_min\": 200,
          \"fork\": \"b\" },
        \"b\": { \"phases\": { \"p\": { \"taskgroup\": \"/x\",
          \"memrun\": 100 }, \"q\": { \"run\": 1.5 } } } },
      \"global\": { \"pi_enabled\": true } }";
    let error = parse(text, "t.json").unwrap_err().to_string();
    let reasons: Vec<&str> = error.lines().collect();
    let begin = [
        "t.json:2: tasks.a.util_min: utilisation clamping",
        "t.json:3: tasks.a.fork: is not supported",
        "t.json:4: tasks.b.phases.p.taskgroup: task groups",
        "t.json:5: tasks.b.phases.p.memrun: is not supported",
        "t.json:5: tasks.b.phases.q.run: `1.5` is no whole number",
        "t.json:6: global.pi_enabled: priority inheritance",
    ];
    assert_eq!(reasons.len(), begin.len(), "{error}");
    for (reason, begin) in reasons.iter().zip(begin) {
        assert!(reason.starts_with(begin), "{reason}");
    }
}

#[test]
fn what_an_event_does_not_name_is_called_unknown() {
    let text = "{ \"tasks\": { \"a\": { \"run\": 1, \"timer\": { \"period\": 1000 },
        \"lock\": \"m\", \"sync\": { \"ref\": \"c\" } } } }";
    let file = parse(text, "t.json").unwrap();
    let events = &file.tasks[0].phases[0].events;
    let timer = RtAppEvent::Timer {
        timer: "unknown".to_owned(),
        period: Nanoseconds::from_micros(1000),
        absolute: false,
    };
    assert_eq!(events[1], timer);
    let [condition, mutex] = ["c", "unknown"].map(str::to_owned);
    assert_eq!(events[3], RtAppEvent::Sync { condition, mutex });
    assert_eq!(file.warnings.len(), 2, "{:?}", file.warnings);
}

#[test]
fn many_reasons_are_counted() {
    let forks = ", \"fork\": \"x\", \"memrun\": 1".repeat(30);
    let text = format!("{{ \"tasks\": {{ \"a\": {{ \"run\": 1{forks} }} }} }}");
    let error = parse(&text, "t.json").unwrap_err().to_string();
    assert_eq!(error.lines().count(), 20);
    assert!(error.ends_with("(and 40 more)"), "{error}");
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
            "\"resume\",\n\"run\": 1",
            "t.json:4: tasks.a.resume: has no value; a string is wanted",
        ),
        (
            "\"memrun\": { \"type\": \"read\" }",
            "t.json:4: tasks.a.memrun: is not supported: say how long the work takes with `run`",
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
            "\"run\": 1, \"phases\": {}",
            "t.json:3: tasks.a: does nothing: it has no phase",
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
            "{\"global\": {\"durration\": 1}}",
            "t.json: has no task with a thread",
        ),
        (
            "{\"global\": {\"calibration\": \"cpu0\"}}",
            "t.json:1: global.calibration: expected a CPU such as \"CPU0\", or ns per loop",
        ),
        (
            "{\"global\": {\"rt_app_version\": \"2\"}}",
            "t.json:1: global.rt_app_version: expected 1.0 (`suspend` waits for the name that it gives) or 2025 (since \
             2025-05-31 for its own task's)",
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
    assert_eq!(keys, ["gnuplot", "membind_nodes"]);
    assert_eq!(file.warnings[0].line, 2);
    assert_eq!(file.duration, None);
}

/// The warnings of a file as text.
fn warnings(text: &str) -> Vec<String> {
    good(text)
        .warnings
        .iter()
        .map(ToString::to_string)
        .collect()
}

#[test]
fn keys_that_rt_app_does_not_know_are_ignored_and_named_once() {
    let text = "{ \"tasks\": { \"P\": { \"loop\": 100, \"run\": 1000, \"slep\": 3,\n\
        \"timer\": { \"ref\": \"t\", \"period\": 5000, \"made\": 1 } },\n\
        \"Q\": { \"phases\": { \"p\": { \"run\": 1, \"slep\": 3, \"delay\": 5 }, \"q\": { \"run\": 1, \"slep\": 3 } } } },\n\
        \"global\": { \"duration\": 1, \"frag\": 1, \"lock_pages\": true }, \"_comment\": \"x\" }";
    assert_eq!(
        warnings(text),
        [
            "line 4: `frag` is not known, and ignored as by rt-app",
            "line 4: `lock_pages` has no effect on a simulation",
            "line 4: `_comment` is not known, and ignored as by rt-app",
            "line 1: `slep` is not known, and ignored as by rt-app; did you mean `sleep`? (3 times)",
            "line 2: `made` is not known, and ignored as by rt-app; did you mean `mode`?",
            "line 3: `delay` is not known, and ignored as by rt-app",
        ]
    );
    assert_eq!(good(text).tasks[0].phases[0].events.len(), 2);
    // Very many are cut.
    let many: Vec<String> = (0..1000).map(|i| format!("\"key{i}\": 1")).collect();
    let many = warnings(&task(&format!("\"run\": 1, {}", many.join(", "))));
    assert_eq!(many.len(), 40);
    assert!(
        many[39].ends_with("(and 960 more warnings)"),
        "{}",
        many[39]
    );
}

#[test]
fn what_workgen_fills_in_is_filled_in() {
    let file = good(
        "{ \"tasks\": {\n\"A\": { \"loop\", \"suspend\"\n\"run\": 5, \"suspend\", \"run\": 6, \"yield\" },\n\
         \"B\": { \"phases\": { \"p\": { \"suspend\", }, \"p\": { \"suspend\": null, \"run\" : 1, } } }, }\n\
         \"global\" : { \"gnuplot\": False, 'duration': 2, } }",
    );
    let us = Nanoseconds::from_micros;
    let suspend = |name: &str| RtAppEvent::Suspend(name.into());
    assert_eq!(
        file.tasks[0].phases[0].events,
        [
            suspend("A"),
            RtAppEvent::Run(us(5)),
            suspend("A"),
            RtAppEvent::Run(us(6)),
            RtAppEvent::Yield
        ]
    );
    assert_eq!(file.tasks[1].phases[0].events, [suspend("B")]);
    assert_eq!(file.tasks[1].phases[1].events[0], suspend("B"));
    assert_eq!(file.duration, Some(Nanoseconds::from_secs(2)));
}

#[test]
fn a_key_that_occurs_again_is_renamed_as_by_workgen() {
    let text = "{ \"tasks\": { \"A\": { \"loop\": 3, \"run\": 1, \"loop\": 5, \"run\": 2 }, \"A\": { \"suspend\" } } }";
    let file = good(text);
    assert_eq!(file.tasks[0].loops, Some(3));
    assert_eq!(file.tasks[0].phases[0].events.len(), 2);
    assert_eq!(file.tasks[1].name, "A1");
    assert_eq!(
        file.tasks[1].phases[0].events,
        [RtAppEvent::Suspend("A1".into())]
    );
    assert_eq!(
        warnings(text),
        [
            "line 1: `loop` occurs again, and the first one counts, as with workgen",
            "line 1: `A` is another task's name already: this one is called `A1`, as with workgen",
        ]
    );
}

#[test]
fn what_a_thread_suspends_on_depends_on_the_version() {
    let text = r#"{ "tasks": { "A": { "resume": "B" }, "B": { "suspend": "X", "run": 1, "suspend": "X" }, "C": { "resume": "X" } } }"#;
    let suspended = |version| {
        let file = parse_overriding_version(text, "t.json", version).unwrap();
        let RtAppEvent::Suspend(name) = file.tasks[1].phases[0].events[0].clone() else {
            panic!("{file:?}")
        };
        let warnings: Vec<String> = file.warnings.iter().map(ToString::to_string).collect();
        (name, warnings)
    };
    let (own, now) = suspended(None);
    assert_eq!(own, "B");
    assert_eq!(suspended(Some(RtAppVersion::V2025)), (own, now.clone()));
    assert_eq!(now.len(), 2, "{now:?}");
    assert!(
        now[0].starts_with(
            "line 1: `suspend` waits for the name of its task, as in rt-app since 2025-05-31"
        ) && now[0].ends_with("; here `X` in the task `B` (2 times)"),
        "{now:?}"
    );
    assert_eq!(
        now[1],
        "line 1: `resume` of `X` wakes nobody: no task suspends on that name; did you mean `B`?"
    );
    let (given, before) = suspended(Some(RtAppVersion::V1));
    assert_eq!((given.as_str(), before.len()), ("X", 2), "{before:?}");
    assert!(
        before[1].contains("`resume` of `B` wakes nobody"),
        "{before:?}"
    );
    // A file can say it, and the caller has the last word.
    let named = text.replacen('{', r#"{ "global": { "rt_app_version": "1.0" },"#, 1);
    assert_eq!(good(&named).version, RtAppVersion::V1);
    assert_eq!(
        good(&good(&named).to_string()).tasks[1].phases,
        good(&named).tasks[1].phases
    );
    let version = Some(RtAppVersion::V2025);
    assert_eq!(
        parse_overriding_version(&named, "t", version)
            .unwrap()
            .version,
        RtAppVersion::V2025
    );
}

#[test]
fn keys_are_events_by_what_they_begin_with() {
    let file = good(&task(
        "\"runtime_a\": 1, \"run_b\": 2, \"sleepy\": 3, \"sem_post\": \"s\"",
    ));
    let us = Nanoseconds::from_micros;
    assert_eq!(
        file.tasks[0].phases[0].events,
        [
            RtAppEvent::Runtime(us(1)),
            RtAppEvent::Run(us(2)),
            RtAppEvent::Sleep(us(3)),
            RtAppEvent::SemPost("s".into())
        ]
    );
    assert_eq!(
        file.warnings[0].to_string(),
        "line 4: `sleepy` is read as `sleep`: it begins so"
    );
    let older = task("\"run\": 2, \"sem_post\": \"s\"");
    let older = parse_overriding_version(&older, "t", Some(RtAppVersion::V1)).unwrap();
    assert_eq!(older.tasks[0].phases[0].events.len(), 1);
    assert_eq!(older.warnings[0].key, "sem_post");
}

#[test]
fn a_calibration_is_a_cpu_or_a_length_of_a_loop() {
    let with = |global: &str| {
        let text =
            format!("{{ \"tasks\": {{ \"a\": {{ \"run\": 1 }} }}, \"global\": {{ {global} }} }}");
        (good(&text).calibration, good(&text).warnings.len())
    };
    assert_eq!(with(""), (Calibration::Cpu(0), 0));
    assert_eq!(with("\"calibration\": \"CPU4\""), (Calibration::Cpu(4), 0));
    assert_eq!(with("\"calibration\": 0"), (Calibration::Cpu(0), 0));
    assert_eq!(with("\"calibration\": 250"), (Calibration::LoopNs(250), 1));
}

#[test]
fn copies_are_bounded() {
    let file = good(&task("\"instance\": 10, \"run\": 1"));
    assert_eq!(file.clone().with_copies(409).unwrap().thread_count(), 4090);
    assert_eq!(file.clone().with_copies(410), Err(4100));
    assert_eq!(file.with_copies(0), Err(0));
}

/// The tasks of `file` with the lines of `other`.
fn relined(file: &RtAppFile, other: &RtAppFile) -> Vec<RtTask> {
    let mut tasks = file.tasks.clone();
    for (task, other_task) in tasks.iter_mut().zip(&other.tasks) {
        task.line = other_task.line;
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
        calibration in prop_oneof![
            (0_usize..99).prop_map(Calibration::Cpu),
            (1_u32..999).prop_map(Calibration::LoopNs),
        ],
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
            at_most: None,
            // Any name to suspend on.
            version: RtAppVersion::V1,
            calibration,
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
        prop_assert_eq!((read.version, read.calibration), (file.version, file.calibration));
    }

    #[test]
    fn no_text_is_too_strange(text in "[\\[\\]{}\":,a-z0-9/* \n-]{0,200}") {
        let _ = parse(&text, "t.json");
    }
}
