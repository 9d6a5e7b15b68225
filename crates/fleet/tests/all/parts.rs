//! A fleet in parts, as several processes answer them: text out, text in, the same report.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wakepath_fleet::{
    DecisionRequest, FleetError, FleetLoad, FleetPart, FleetParts, FleetReport, FleetSearch,
    FleetSurvey, KnownRuns, PartAnswer, decide_for_classes, replay_classes,
};

use crate::decisions::{JOB, survey_kinds};
use crate::generated_fleet::KINDS;

/// A fleet of two large classes and a small one; a machine has a file that is no recording.
fn survey_with_recording() -> (tempfile::TempDir, FleetSurvey) {
    let kinds = [(&KINDS[0], 6), (&KINDS[3], 4), (&KINDS[4], 1)];
    let (folder, mut survey) = survey_kinds(&kinds);
    let file = folder.path().join("web-0.parquet");
    fs::write(&file, "no recording").unwrap();
    survey.classes[0].machines[0].recordings.push(file);
    (folder, survey)
}

fn search_for_job(folder: &Path) -> FleetSearch {
    let job = folder.join("reads.fio");
    fs::write(&job, JOB).unwrap();
    FleetSearch {
        at_most: None,
        minimise: "mean_us".to_owned(),
        conditions: vec!["mean_us <= +5%".to_owned()],
        over: vec!["cpu-latency".to_owned()],
        budget: 100_000,
        seed: 1,
        loads: FleetLoad::parse_all(&[format!("{}=8h", job.display())]).unwrap(),
    }
}

/// The report of one process.
fn report_at_once(survey: &FleetSurvey, search: &FleetSearch) -> FleetReport {
    let request = search.make_request().unwrap();
    let decisions = decide_for_classes(
        survey,
        &DecisionRequest {
            search: &request,
            over: &search.over,
            fewest_machines: 3,
            cancelled: &AtomicBool::new(false),
            report_requests: &|_| {},
            known_runs: &KnownRuns::default(),
        },
    );
    FleetReport {
        replays: replay_classes(&survey.classes, &|| true).unwrap(),
        decisions: Some(decisions.unwrap()),
        survey: survey.clone(),
    }
}

/// Answers a part as another process does, which gets and gives text. Has a thread of its own.
fn answer_elsewhere(text: &str) -> String {
    let part = FleetPart::parse(text).unwrap();
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
    let answer = pool
        .unwrap()
        .install(|| part.answer(&AtomicBool::new(false)));
    answer.unwrap().to_text().unwrap()
}

#[test]
fn parts_answered_elsewhere_in_any_order_make_the_same_report() {
    let (folder, survey) = survey_with_recording();
    let search = search_for_job(folder.path());
    let expected = report_at_once(&survey, &search);
    let parts = FleetParts::divide(survey, Some(&search), 3);
    let texts: Vec<String> = parts
        .parts()
        .iter()
        .map(|part| part.to_text().unwrap())
        .collect();
    // Two searches and a replay.
    assert_eq!(texts.len(), 3);
    let mut answers: Vec<String> = texts
        .iter()
        .rev()
        .map(|text| answer_elsewhere(text))
        .collect();
    answers.reverse();
    let parsed = answers.iter().map(|text| PartAnswer::parse(text).unwrap());
    let report = parts.make_report(parsed.collect()).unwrap();
    assert_eq!(
        serde_json::to_string(&report).unwrap(),
        serde_json::to_string(&expected).unwrap()
    );
    let files = report
        .compose_files(folder.path(), "wakepath fleet captures")
        .unwrap();
    assert_eq!(
        files,
        expected
            .compose_files(folder.path(), "wakepath fleet captures")
            .unwrap()
    );
    let names: Vec<&str> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "fleet.html",
            "machines.csv",
            "class-1.settings.toml",
            "class-2.settings.toml",
            "class-3.settings.toml"
        ]
    );
    let note = &report.replays[0].notes[0];
    assert!(
        note.starts_with("web-0: its recording was not replayed: "),
        "{note}"
    );
}

#[test]
fn a_part_names_its_files_and_changes_with_them() {
    let (folder, survey) = survey_with_recording();
    let search = search_for_job(folder.path());
    let divide = || {
        let parts = FleetParts::divide(survey.clone(), Some(&search), 3);
        let texts = parts.parts().iter().map(|part| part.to_text().unwrap());
        (parts.clone(), texts.collect::<Vec<String>>())
    };
    let (parts, before) = divide();
    let files: Vec<_> = parts.parts().iter().flat_map(FleetPart::files).collect();
    let job = folder.path().join("reads.fio");
    let recording = folder.path().join("web-0.parquet");
    assert_eq!(files, [job.as_path(), job.as_path(), recording.as_path()]);
    fs::write(&recording, "another one").unwrap();
    let (_, after) = divide();
    assert_eq!(before[..2], after[..2]);
    assert_ne!(before[2], after[2]);
}

#[test]
fn a_moved_recording_leaves_no_trace_in_the_report() {
    let (folder, mut survey) = survey_with_recording();
    let shown_before = folder.path().display().to_string();
    survey.classes[0].machines[1]
        .deviations
        .push(wakepath_fleet::Deviation {
            what: "doctor: stale".to_owned(),
            value: format!("{shown_before}/web-1.toml is old"),
            usual: "no such finding".to_owned(),
        });
    let parts = FleetParts::divide(survey, None, 3);
    let elsewhere = tempfile::tempdir().unwrap();
    let moved_file = elsewhere.path().join("web-0.parquet");
    fs::rename(folder.path().join("web-0.parquet"), &moved_file).unwrap();
    let mut part = FleetPart::parse(&parts.parts()[0].to_text().unwrap()).unwrap();
    part.move_files(Path::new("/another"), Path::new("/stays"));
    part.move_files(folder.path(), elsewhere.path());
    assert_eq!(part.files().collect::<Vec<&Path>>(), [moved_file.as_path()]);
    let answer = PartAnswer::parse(&answer_elsewhere(&part.to_text().unwrap())).unwrap();
    let mut report = parts.make_report(vec![answer]).unwrap();
    report.show_folder_as(&shown_before, "s3://captures");
    let text = serde_json::to_string(&report).unwrap();
    assert!(!text.contains(&shown_before), "{text}");
    assert!(
        !text.contains(&elsewhere.path().display().to_string()),
        "{text}"
    );
    for part in [
        "s3://captures/web-1.toml is old",
        "s3://captures/web-0.parquet: ",
    ] {
        assert!(text.contains(part), "'{part}': {text}");
    }
}

#[test]
fn answers_of_other_parts_and_strange_texts_are_refused() {
    let (folder, survey) = survey_with_recording();
    let search = search_for_job(folder.path());
    let parts = FleetParts::divide(survey, Some(&search), 3);
    let replay = parts.parts()[2].answer(&AtomicBool::new(false)).unwrap();
    let message = |answers: Vec<PartAnswer>| parts.make_report(answers).unwrap_err().to_string();
    assert_eq!(message(vec![replay.clone()]), "answers: 1 for 3 parts");
    assert_eq!(message(vec![replay.clone(); 3]), "answer: to another part");
    let second = parts.parts()[1].answer(&AtomicBool::new(false)).unwrap();
    let swapped = vec![second.clone(), second, replay];
    assert_eq!(message(swapped), "answer: to another part");
    for text in ["", "a", "[content.Class]", "\u{0}"] {
        assert!(matches!(
            PartAnswer::parse(text),
            Err(FleetError::Part { what: "answer", .. })
        ));
        assert!(FleetPart::parse(text).is_err());
    }
    let cancelled = parts.parts()[0].answer(&AtomicBool::new(true));
    assert!(matches!(cancelled, Err(FleetError::Interrupted)));
    fs::remove_file(folder.path().join("reads.fio")).unwrap();
    let missing = parts.parts()[0].answer(&AtomicBool::new(false));
    let problem = missing.unwrap_err().to_string();
    assert!(problem.contains("reads.fio"), "{problem}");
}
