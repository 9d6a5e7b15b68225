//! Replays of recordings from several classes.

use std::fs;

use wakepath_fleet::replay_classes;

use crate::decisions::survey_kinds;
use crate::generated_fleet::KINDS;

/// The largest files begin, which must not show in the report.
#[test]
fn replays_stand_by_class_and_machine_however_large_the_recordings_are() {
    let kinds = [(&KINDS[0], 3), (&KINDS[3], 2), (&KINDS[4], 1)];
    let (folder, mut survey) = survey_kinds(&kinds);
    let mut expected = Vec::new();
    for class in &mut survey.classes[..2] {
        for machine in &mut class.machines {
            let name = format!("{}-{}.parquet", class.name, expected.len());
            let file = folder.path().join(&name);
            fs::write(&file, "no recording\n".repeat(1 + expected.len())).unwrap();
            machine.recordings.push(file);
            expected.push((class.name.clone(), machine.name.clone(), name));
        }
    }
    let replays = replay_classes(&survey.classes, &|| true).unwrap();
    let notes = replays
        .iter()
        .flat_map(|replay| replay.notes.iter().map(|note| (&replay.class, note)));
    let notes: Vec<_> = notes.collect();
    assert_eq!(notes.len(), expected.len());
    for ((class, note), (expected_class, machine, file)) in notes.into_iter().zip(expected) {
        assert_eq!(*class, expected_class);
        let beginning = format!("{machine}: its recording was not replayed: ");
        assert!(note.starts_with(&beginning), "{note}");
        assert!(note.contains(&file), "{note}");
    }
}

#[test]
fn recordings_beyond_the_first_of_a_machine_and_beyond_five_machines_are_counted() {
    for (machines, more, expected) in [
        (1, 0, None),
        (5, 0, None),
        (2, 2, Some("2 of 4 recordings were not replayed: ")),
        (7, 3, Some("5 of 10 recordings were not replayed: ")),
    ] {
        let (folder, mut survey) = survey_kinds(&[(&KINDS[0], machines)]);
        let class = &mut survey.classes[0];
        assert_eq!(class.machines.len(), machines);
        for number in 0..machines + more {
            let file = folder.path().join(format!("{number}.parquet"));
            fs::write(&file, "no recording\n").unwrap();
            class.machines[number % machines].recordings.push(file);
        }
        let replays = replay_classes(&survey.classes, &|| true).unwrap();
        let [replay] = &replays[..] else {
            panic!("{replays:?}");
        };
        // Each of the others has a note of its own.
        let unusable = "its recording was not replayed";
        let mut left_out = replay.notes.iter().filter(|note| !note.contains(unusable));
        let told = left_out.next();
        let is_told = match (told, expected) {
            (Some(note), Some(part)) => note.starts_with(&format!("{}: {part}", replay.class)),
            (None, None) => true,
            _ => false,
        };
        assert!(is_told, "{machines} and {more}: {told:?}");
        assert_eq!(left_out.next(), None);
    }
}
