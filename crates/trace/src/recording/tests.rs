use std::fs;

use proptest::prelude::*;
use wakepath_units::{Kilohertz, Nanoseconds};

use super::*;

fn event(i: u64) -> Event {
    Event {
        time: Nanoseconds(1_000 * i),
        cpu: (i % 4) as u32,
        kind: EventKind::Idle(IdlePeriod {
            state: (i % 3) as u8,
            duration: Nanoseconds(i),
            ..IdlePeriod::default()
        }),
    }
}

fn read(path: &std::path::Path) -> Result<(Vec<Event>, Metadata), RecordingError> {
    let mut reader = Reader::open(path)?;
    let mut events = Vec::new();
    reader.for_each_event(|event| {
        events.push(event);
        Ok::<_, RecordingError>(())
    })?;
    assert_eq!(events.len() as u64, reader.event_count());
    Ok((events, reader.metadata().clone()))
}

/// Puts together again what it is shown.
#[derive(Default)]
struct Seen(Vec<Event>);

impl Visitor for Seen {
    type Error = RecordingError;

    fn visit_idle_period(
        &mut self,
        time: Nanoseconds,
        cpu: u32,
        row: &PackedIdlePeriod,
    ) -> Result<(), RecordingError> {
        let kind = EventKind::Idle(row.into());
        self.0.push(Event { time, cpu, kind });
        Ok(())
    }

    fn visit_other_event(&mut self, event: &Event) -> Result<(), RecordingError> {
        assert!(!matches!(event.kind, EventKind::Idle(_)));
        self.0.push(*event);
        Ok(())
    }
}

fn visited(path: &std::path::Path) -> Result<Vec<Event>, RecordingError> {
    let mut reader = Reader::open(path)?;
    let mut seen = Seen::default();
    while let Some(batch) = reader.next_batch()? {
        batch.visit_events(&mut seen)?;
    }
    Ok(seen.0)
}

fn events() -> impl Strategy<Value = Event> {
    let some = || prop::option::of(any::<bool>());
    let block = (any::<u32>(), any::<u64>(), any::<u32>(), any::<bool>()).prop_map(
        |(device, sector, bytes, write)| Block {
            device,
            sector,
            bytes,
            write,
        },
    );
    let inputs = (
        prop::option::of(any::<i64>()),
        any::<bool>(),
        prop::option::of(any::<i64>()),
        some(),
        prop::option::of(any::<i64>()),
        prop::option::of(any::<u32>()),
        prop::option::of(any::<u32>()),
    )
        .prop_map(
            |(sleep_length, inferred, delta_tick, tick_stopped, latency_request, waiting, lead)| {
                IdleInputs {
                    sleep_length,
                    inferred,
                    delta_tick,
                    tick_stopped,
                    latency_request,
                    iowaiters: waiting,
                    select_lead: lead,
                }
            },
        );
    let before = prop::sample::select(vec![Before::Unknown, Before::IdleLoop, Before::Task]);
    let period = (
        any::<u8>(),
        0..=i64::MAX as u64,
        inputs,
        before,
        (some(), some(), some()),
    )
        .prop_map(
            |(state, duration, inputs, before, (stop_tick, got_tick, poll_limit_hit))| IdlePeriod {
                state,
                duration: Nanoseconds(duration),
                inputs,
                before,
                stop_tick,
                got_tick,
                poll_limit_hit,
            },
        );
    let timer = prop::sample::select(vec![
        TimerKind::Tick,
        TimerKind::HighResolution,
        TimerKind::Wheel,
    ]);
    let queueing = prop_oneof![
        (
            block.clone(),
            prop::option::of(any::<u32>()),
            any::<[bool; 3]>()
        )
            .prop_map(|(block, task, [background, flushes_first, is_forced])| {
                QueueStep::Queued {
                    block,
                    task,
                    background,
                    durability: Durability {
                        flushes_first,
                        is_forced,
                    },
                }
            }),
        block.clone().prop_map(QueueStep::Tagged),
        block.clone().prop_map(QueueStep::Inserted),
        block.clone().prop_map(QueueStep::Merged),
        (block.clone(), any::<u64>()).prop_map(|(block, at)| QueueStep::Split { block, at }),
        (block.clone(), any::<u32>(), any::<u64>()).prop_map(
            |(block, from_device, from_sector)| QueueStep::Remapped {
                block,
                from_device,
                from_sector
            }
        ),
    ];
    let interrupt = prop_oneof![
        any::<u32>().prop_map(|irq| Interrupt::Device { irq }),
        Just(Interrupt::BlockSoftirq),
        Just(Interrupt::CallFunction),
        Just(Interrupt::Reschedule),
        any::<u32>().prop_map(|target| Interrupt::Sent { target }),
        any::<u32>().prop_map(|target| Interrupt::Stored { target }),
    ];
    let step = prop_oneof![
        Just(TaskStep::Waking),
        any::<u32>().prop_map(|target| TaskStep::Woken { target }),
        Just(TaskStep::Running),
    ];
    let kind = prop_oneof![
        period.prop_map(EventKind::Idle),
        block.clone().prop_map(EventKind::BlockIssue),
        block.clone().prop_map(EventKind::BlockComplete),
        (any::<u32>(), some()).prop_map(|(target, iowait)| EventKind::Wake { target, iowait }),
        any::<u32>().prop_map(|khz| EventKind::Frequency(Kilohertz(khz))),
        timer.prop_map(EventKind::Timer),
        queueing.prop_map(EventKind::Queueing),
        interrupt.prop_map(EventKind::Interrupt),
        (any::<u32>(), step).prop_map(|(task, step)| EventKind::Task { task, step }),
        (0..=i64::MAX as u64, any::<u64>(), any::<u64>()).prop_map(
            |(elapsed, cycles, reference)| EventKind::Clock(ClockCycles {
                elapsed: Nanoseconds(elapsed),
                cycles,
                reference
            })
        ),
        (0..=i64::MAX as u64).prop_map(|count| EventKind::Lost { count }),
        any::<bool>().prop_map(|online| EventKind::Hotplug { online }),
    ];
    (0..=i64::MAX as u64, any::<u32>(), kind).prop_map(|(time, cpu, kind)| Event {
        time: Nanoseconds(time),
        cpu,
        kind,
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn what_is_written_is_read(
        list in prop::collection::vec(events(), 0..300),
        flush_at in 0_usize..300,
        finish in any::<bool>(),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let tasks = [(812, "fio".to_owned())].into();
        let described = Metadata { hz: Some(250), lost_events: 7, tasks, ..Metadata::default() };
        let mut writer = Writer::create(&path, Overwrite::No, described).unwrap();
        for (i, event) in list.iter().enumerate() {
            writer.add_event(event).unwrap();
            if i == flush_at {
                writer.flush().unwrap();
            }
        }
        let (found, metadata) = if finish {
            prop_assert_eq!(writer.finish_and_count_events().unwrap(), list.len() as u64);
            read(&path).unwrap()
        } else {
            writer.flush().unwrap();
            read(&path).unwrap()
        };
        prop_assert_eq!(visited(&path).unwrap(), &found[..]);
        prop_assert_eq!(found, list);
        prop_assert_eq!(metadata.complete, finish);
        prop_assert_eq!(metadata.hz, Some(250));
        prop_assert_eq!(metadata.tasks.get(&812).map(String::as_str), Some("fio"));
        prop_assert_eq!(metadata.lost_events, 7);
        // A finished recording is one file.
        prop_assert_eq!(fs::read_dir(folder.path()).unwrap().count(), if finish { 1 } else { 2 });
    }

    #[test]
    fn no_damage_makes_it_panic(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.parquet");
        let mut writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
        (0..500).for_each(|i| writer.add_event(&event(i)).unwrap());
        writer.finish_and_count_events().unwrap();
        let mut bytes = fs::read(&path).unwrap();
        for (at, value) in changes {
            *at.get_mut(&mut bytes) = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        fs::write(&path, bytes).unwrap();
        if let Err(error) = read(&path) {
            prop_assert!(error.to_string().contains("a.parquet"), "{}", error);
        }
    }
}

/// More than one row group, and a last batch that is not full.
#[test]
fn long_recordings_come_in_batches() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
    let count = (1 << 18) + 5_000;
    (0..count).for_each(|i| writer.add_event(&event(i)).unwrap());
    assert_eq!(writer.finish_and_count_events().unwrap(), count);
    let (found, _) = read(&path).unwrap();
    assert!(found.into_iter().eq((0..count).map(event)));
}

#[test]
fn a_killed_writer_leaves_what_it_flushed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    let mut writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
    (0..100).for_each(|i| writer.add_event(&event(i)).unwrap());
    writer.flush().unwrap();
    (100..200).for_each(|i| writer.add_event(&event(i)).unwrap());
    writer.flush().unwrap();
    // Killed in the middle of the third row group.
    std::mem::forget(writer);
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend([0x55; 300]);
    fs::write(&path, bytes).unwrap();
    let (found, metadata) = read(&path).unwrap();
    assert!(found.into_iter().eq((0..200).map(event)));
    assert!(!metadata.complete);
    assert_eq!(metadata.warnings[0].name, "unfinished");

    // A new recording of that name is not mixed up with what the old one left.
    let again = Writer::create(&path, Overwrite::Yes, Metadata::default()).unwrap();
    again.finish_and_count_events().unwrap();
    assert_eq!(read(&path).unwrap().0, []);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn nothing_is_overwritten_unasked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    fs::write(&path, "precious").unwrap();
    let error = Writer::create(&path, Overwrite::No, Metadata::default())
        .map(|_| ())
        .unwrap_err();
    assert!(error.to_string().contains("exists already"), "{error}");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.parquet");
    fs::write(&path, "time,cpu\n").unwrap();
    let name = path.display();
    let foreign = format!(
        "{name}: no recording, nor any Parquet file; `wakepath import {name} -o load.parquet` makes a recording of what \
         trace-cmd or perf wrote"
    );
    assert_eq!(read(&path).unwrap_err().to_string(), foreign);
    fs::write(&path, "").unwrap();
    assert_eq!(read(&path).unwrap_err().to_string(), foreign);
    fs::write(&path, "PAR1 and no more").unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("no finished Parquet file"), "{error}");

    // A Parquet file of somebody else.
    let schema = parquet::schema::parser::parse_message_type("message m { required int32 a; }");
    let writer = parquet::file::writer::SerializedFileWriter::new(
        fs::File::create(&path).unwrap(),
        std::sync::Arc::new(schema.unwrap()),
        std::sync::Arc::default(),
    );
    writer.unwrap().close().unwrap();
    let error = read(&path).unwrap_err().to_string();
    assert!(error.contains("no recording of wakepath"), "{error}");

    let newer = Metadata {
        schema: SCHEMA + 1,
        ..Metadata::default()
    };
    let writer = Writer::create(&path, Overwrite::Yes, newer).unwrap();
    writer.finish_and_count_events().unwrap();
    let error = read(&path).unwrap_err().to_string();
    let version = format!("version {} of the format", SCHEMA + 1);
    assert!(error.contains(&version), "{error}");
}

#[test]
fn a_recording_of_schema_1_is_read_without_the_later_columns() {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../fuzz/seeds/recording/x86.parquet"
    );
    let (events, metadata) = read(std::path::Path::new(path)).unwrap();
    assert_eq!(metadata.schema, 1);
    assert!(events.len() > 10, "{}", events.len());
    assert_eq!(metadata.recorded.queueing, DataQuality::Missing);
    // Imported again, it is a recording of this version.
    let mut again = Metadata::default();
    again.append_part(metadata);
    assert_eq!(again.schema, SCHEMA);
}

#[test]
fn an_entry_and_an_exit_are_a_period() {
    let at = Nanoseconds;
    let mut pairs = IdlePairs::new(true);
    // The CPU was idle when the recording began.
    assert_eq!(pairs.end_idle_period(0, at(5)), None);
    let inputs = IdleInputs {
        sleep_length: Some(400),
        ..IdleInputs::default()
    };
    pairs.note_task_ran(0);
    pairs.note_governor_call(0, at(90), inputs, Some(true));
    pairs.note_idle_entry(0, at(100), 2);
    let first = pairs.end_idle_period(0, at(350)).unwrap();
    assert_eq!(
        first,
        Event {
            time: at(350),
            cpu: 0,
            kind: EventKind::Idle(IdlePeriod {
                state: 2,
                duration: at(250),
                inputs: IdleInputs {
                    select_lead: Some(10),
                    ..inputs
                },
                before: Before::Task,
                stop_tick: Some(true),
                got_tick: None,
                poll_limit_hit: None,
            }),
        }
    );
    // Nothing of it is left for the next one.
    pairs.note_idle_entry(0, at(360), 1);
    let EventKind::Idle(second) = pairs.end_idle_period(0, at(361)).unwrap().kind else {
        panic!("no idle period");
    };
    assert_eq!(second.before, Before::IdleLoop);
    assert_eq!(second.inputs, IdleInputs::default());
    // An exit and an entry are missing, and a clock goes back.
    pairs.end_idle_period(0, at(400));
    pairs.note_idle_entry(0, at(500), 0);
    pairs.note_idle_entry(0, at(600), 0);
    pairs.end_idle_period(0, at(599));
    assert_eq!(
        pairs.pair_counts(),
        PairCounts {
            periods: 2,
            missing_entries: 1,
            missing_exits: 1,
            backwards: 1,
        }
    );
}

#[test]
fn without_task_switches_nothing_is_said_about_the_idle_loop() {
    let mut pairs = IdlePairs::new(false);
    for time in [0, 20] {
        pairs.note_idle_entry(3, Nanoseconds(time), 0);
        let Some(Event {
            kind: EventKind::Idle(period),
            ..
        }) = pairs.end_idle_period(3, Nanoseconds(time + 10))
        else {
            panic!("no idle period");
        };
        assert_eq!(period.before, Before::Unknown);
    }
}

#[test]
fn a_refused_state_is_a_period_without_a_length() {
    let mut tracker = IdleTracker::default();
    assert_eq!(tracker.end_call_without_idle_entry(1), None);
    let inputs = IdleInputs {
        sleep_length: Some(400),
        ..IdleInputs::default()
    };
    tracker.note_task_ran();
    tracker.note_governor_call(Nanoseconds(90), inputs, Some(true));
    assert!(tracker.has_pending_governor_call());
    let expected = IdlePeriod {
        state: 1,
        inputs,
        before: Before::Task,
        stop_tick: Some(true),
        ..IdlePeriod::default()
    };
    assert_eq!(tracker.end_call_without_idle_entry(1), Some(expected));
    assert!(!tracker.has_pending_governor_call());
}

#[test]
fn the_extent_is_that_of_all_row_groups_and_nothing_is_read_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("r.parquet");
    let mut writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
    writer.flush().unwrap();
    // CPUs may be a little out of order, and three row groups.
    for i in [5, 3, 9, 400, 2, 7] {
        writer.add_event(&event(i)).unwrap();
        if i == 9 || i == 400 {
            writer.flush().unwrap();
        }
    }
    writer.finish_and_count_events().unwrap();
    let mut reader = Reader::open(&path).unwrap();
    assert_eq!(
        reader.time_range_in_table_of_contents(),
        Some((2_000, 400_000))
    );
    assert_eq!(reader.time_range_of_all_events().unwrap(), (2_000, 400_000));
    let extent = Some((Nanoseconds(2_000), Nanoseconds(400_000)));
    assert_eq!(reader.time_range_and_rewind().unwrap(), extent);
    // From the first event again.
    reader.next_batch().unwrap();
    assert_eq!(reader.time_range_and_rewind().unwrap(), extent);
    assert_eq!(reader.next_batch().unwrap().unwrap().len(), 3);

    let path = folder.path().join("empty.parquet");
    let writer = Writer::create(&path, Overwrite::No, Metadata::default()).unwrap();
    writer.finish_and_count_events().unwrap();
    assert_eq!(
        Reader::open(&path)
            .unwrap()
            .time_range_and_rewind()
            .unwrap(),
        None
    );
}
