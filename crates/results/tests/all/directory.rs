//! A result directory is what was written, whatever happened in between.
#![allow(
    clippy::unwrap_used,
    reason = "a test may stop where its premises fail"
)]

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use crate::files::contents;
use proptest::prelude::*;
use wakepath_results::directory::DOCUMENT;
use wakepath_results::document::{CpuKind, SCHEMA, VERSION};
use wakepath_results::{
    Design, Document, Idle, METRICS, MachineInfo, Mode, PolicyInfo, ResultReader, ResultWriter,
    ResultsError, RunKey, RunOrigin, RunRecord, StudyInfo, WorkloadInfo,
};

fn document() -> Document {
    Document {
        schema: SCHEMA.to_owned(),
        version: VERSION,
        complete: false,
        shard: None,
        study: StudyInfo {
            name: "test".to_owned(),
            title: "A test".to_owned(),
        },
        backend: RunOrigin::Sim,
        tools: BTreeMap::from([("wakepath".to_owned(), "0.1.0".to_owned())]),
        machines: vec![MachineInfo {
            name: "board".to_owned(),
            source: "machine.toml".to_owned(),
            title: "A board".to_owned(),
            cpu_kinds: vec![CpuKind {
                name: "little".to_owned(),
                cpus: 4,
            }],
            idle_states: vec!["WFI".to_owned()],
            drive: "nvme".to_owned(),
            host: None,
            power_scope: String::new(),
        }],
        workloads: vec![WorkloadInfo {
            name: "reads".to_owned(),
            kind: "fio".to_owned(),
            source: "workloads/reads.fio".to_owned(),
            ..WorkloadInfo::default()
        }],
        policies: vec![PolicyInfo {
            name: "menu".to_owned(),
            settings: BTreeMap::new(),
            notes: Vec::new(),
        }],
        baseline: "menu".to_owned(),
        repeats: 2,
        design: Design::Paired,
        seeds: (0..2).map(seed).collect(),
        sha256: BTreeMap::new(),
        questions: Vec::new(),
        metrics: METRICS.to_vec(),
        level: 0.95,
        margin_percent: 2.0,
        notes: Vec::new(),
    }
}

fn files() -> Vec<(String, Vec<u8>)> {
    vec![("study.toml".to_owned(), b"name = \"test\"\n".to_vec())]
}

/// The seed of a repeat: with more bits than a floating-point number holds.
fn seed(repeat: u32) -> u64 {
    u64::MAX - u64::from(repeat)
}

fn run(repeat: u32, value: f64) -> RunRecord {
    let key = RunKey {
        machine: "board".to_owned(),
        workload: "reads".to_owned(),
        policy: "menu".to_owned(),
        repeat,
    };
    let mut run = RunRecord::new(key, Some(seed(repeat)), repeat, repeat);
    run.metrics = vec![
        ("iops".to_owned(), value),
        ("mean_us".to_owned(), 0.1 + value),
    ];
    run.latency = [(1, 1, 3), (64, 65, 1)].map(Into::into).into();
    run.attribution = vec![("mean".to_owned(), "idle exit".to_owned(), value / 3.0).into()];
    run.idle = vec![Idle {
        cpu_kind: "little".to_owned(),
        state: "WFI".to_owned(),
        time_ns: 5,
        entries: 2,
        too_deep: 1,
        too_shallow: 0,
        above: Some(0),
        below: Some(0),
        // As a measurement has it.
        added_latency_ns: (repeat > 0).then_some(3),
        wasted_energy_uj: Some(0.25),
    }];
    run.frequency = vec![("little".to_owned(), 408_000, 7).into()];
    run.timeline = vec![("p50".to_owned(), "CPU 0".to_owned(), "WFI".to_owned(), 1, 9).into()];
    run
}

fn has(writer: &ResultWriter, index: u32) -> bool {
    writer
        .was_finished_at_start(index as usize, &run(index, 0.0).key)
        .unwrap()
}

#[test]
fn an_interrupted_directory_ends_as_an_undisturbed_one() {
    let temp = tempfile::tempdir().unwrap();
    let [whole, cut] = ["whole", "cut"].map(|name| temp.path().join(name));
    let writer = ResultWriter::open(&whole, document(), &files(), Mode::New).unwrap();
    (0..2).for_each(|i| writer.write_run(i as usize, &run(i, 100.0)).unwrap());
    writer.write_tables_and_finish().unwrap();

    let writer = ResultWriter::open(&cut, document(), &files(), Mode::New).unwrap();
    writer.write_run(1, &run(1, 100.0)).unwrap();
    drop(writer);
    // A kill in the middle of a write leaves such files.
    fs::write(cut.join("runs/.unfinished-x"), b"{").unwrap();
    fs::write(cut.join(".unfinished-y"), b"PAR1").unwrap();
    let partial = ResultReader::open(&cut).unwrap();
    assert!(!partial.document().complete);
    assert_eq!(partial.read_metric_rows().unwrap().len(), 2);

    let writer = ResultWriter::open(&cut, document(), &files(), Mode::Resume).unwrap();
    assert!(!has(&writer, 0) && has(&writer, 1));
    writer.write_run(0, &run(0, 100.0)).unwrap();
    writer.write_tables_and_finish().unwrap();
    assert_eq!(contents(&whole), contents(&cut));

    let reader = ResultReader::open(&cut).unwrap();
    assert!(reader.document().complete);
    let runs = [run(0, 100.0), run(1, 100.0)];
    assert_eq!(reader.read_runs().unwrap(), runs);
    assert_eq!(
        reader.read_metric_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::metric_rows)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read_latency_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::latency_rows)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read_attribution_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::attribution_rows)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read_idle_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::idle_rows)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read_frequency_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::frequency_rows)
            .collect::<Vec<_>>()
    );
    assert_eq!(
        reader.read_timeline_rows().unwrap(),
        runs.iter()
            .flat_map(RunRecord::timeline_rows)
            .collect::<Vec<_>>()
    );
    let study = reader.read_file_if_present("study.toml").unwrap();
    assert_eq!(study.as_deref(), Some("name = \"test\"\n"));
}

#[test]
fn what_is_in_the_way_is_never_lost() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("results");
    let open = |mode| ResultWriter::open(&dir, document(), &files(), mode);
    let writer = open(Mode::New).unwrap();
    assert!(matches!(open(Mode::Resume), Err(ResultsError::Locked(_))));
    writer.write_run(0, &run(0, 1.0)).unwrap();
    drop(writer);
    let refused = open(Mode::New).unwrap_err().to_string();
    assert!(
        refused.contains("--resume") && refused.contains("--force"),
        "{refused}"
    );
    let mut other = document();
    other.baseline = "teo".to_owned();
    let refused = ResultWriter::open(&dir, other, &files(), Mode::Resume).unwrap_err();
    assert!(refused.to_string().contains("another study"), "{refused}");
    let changed = [("study.toml".to_owned(), b"name = \"x\"\n".to_vec())];
    let refused = ResultWriter::open(&dir, document(), &changed, Mode::Resume).unwrap_err();
    assert!(
        refused.to_string().contains("study.toml differs"),
        "{refused}"
    );
    assert_eq!(
        ResultReader::open(&dir).unwrap().read_runs().unwrap().len(),
        1
    );
    // Only when asked to, and only results.
    drop(open(Mode::Replace).unwrap());
    assert!(
        ResultReader::open(&dir)
            .unwrap()
            .read_runs()
            .unwrap()
            .is_empty()
    );
    let home = temp.path().join("home");
    fs::create_dir(&home).unwrap();
    fs::write(home.join("letter.txt"), "dear").unwrap();
    for mode in [Mode::New, Mode::Resume, Mode::Replace] {
        let refused = ResultWriter::open(&home, document(), &files(), mode).unwrap_err();
        assert!(matches!(refused, ResultsError::Exists { .. }), "{refused}");
    }
    assert!(home.join("letter.txt").exists());
}

#[test]
fn runs_without_a_document_are_not_taken_for_those_of_a_study() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("results");
    let open = |mode| ResultWriter::open(&dir, document(), &files(), mode);
    let writer = open(Mode::New).unwrap();
    writer.write_run(0, &run(0, 1.0)).unwrap();
    drop(writer);
    fs::remove_file(dir.join(DOCUMENT)).unwrap();
    let before = contents(&dir);
    for mode in [Mode::New, Mode::Resume, Mode::Replace] {
        let refused = open(mode).unwrap_err().to_string();
        assert!(refused.contains("runs/000000.json"), "{refused}");
        assert_eq!(contents(&dir), before);
    }
    // What a kill left before there was a document is of use, unless it is of something else.
    fs::remove_dir_all(dir.join("runs")).unwrap();
    assert!(!has(&open(Mode::New).unwrap(), 0));
    fs::remove_file(dir.join(DOCUMENT)).unwrap();
    for name in ["study.toml", "workloads/own.fio"] {
        fs::write(dir.join(name), "mine").unwrap();
        for mode in [Mode::New, Mode::Resume, Mode::Replace] {
            let refused = open(mode).unwrap_err().to_string();
            assert!(refused.contains(name), "{refused}");
        }
        assert_eq!(fs::read_to_string(dir.join(name)).unwrap(), "mine");
        fs::write(dir.join("study.toml"), &files()[0].1).unwrap();
    }
}

#[test]
fn a_replacement_that_breaks_off_leaves_no_run_to_the_other_study() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("results");
    let mut files = files();
    files.push(("workloads/reads.fio".to_owned(), b"[reads]\n".to_vec()));
    let writer = ResultWriter::open(&dir, document(), &files, Mode::New).unwrap();
    writer.write_run(0, &run(0, 1.0)).unwrap();
    writer.write_tables_and_finish().unwrap();
    let mut other = document();
    other.machines[0].name = "server".to_owned();
    let others = [("study.toml".to_owned(), b"name = \"other\"\n".to_vec())];
    let open = |mode| ResultWriter::open(&dir, other.clone(), &others, mode);
    // A folder that cannot be removed as a file ends it in the middle.
    let table = dir.join("latency.parquet");
    fs::remove_file(&table).unwrap();
    fs::create_dir(&table).unwrap();
    let refused = open(Mode::Replace).unwrap_err().to_string();
    assert!(refused.contains("latency.parquet"), "{refused}");
    for mode in [Mode::New, Mode::Resume] {
        open(mode).unwrap_err();
    }
    // It is still the first one's, unfinished, and goes on as such.
    fs::remove_dir(&table).unwrap();
    assert!(!ResultReader::open(&dir).unwrap().document().complete);
    drop(ResultWriter::open(&dir, document(), &files, Mode::Resume).unwrap());
    assert!(!has(&open(Mode::Replace).unwrap(), 0));
    assert_eq!(
        ResultReader::open(&dir).unwrap().document().machines[0].name,
        "server"
    );
    assert_eq!(
        contents(&dir).into_keys().collect::<Vec<_>>(),
        [DOCUMENT, "study.toml"]
    );
}

#[test]
fn another_schema_version_is_named_with_its_writer() {
    let temp = tempfile::tempdir().unwrap();
    let writer = ResultWriter::open(temp.path(), document(), &files(), Mode::New).unwrap();
    drop(writer);
    let path = temp.path().join(DOCUMENT);
    let text = fs::read_to_string(&path).unwrap();
    let newer = text
        .replace("\"version\": 2", "\"version\": 7")
        .replace("0.1.0", "9.9.9");
    fs::write(&path, newer).unwrap();
    let message = ResultReader::open(temp.path()).unwrap_err().to_string();
    for part in ["schema version 7", "reads version 2", "9.9.9", DOCUMENT] {
        assert!(message.contains(part), "{message}");
    }
    fs::write(&path, "{\"schema\": \"other\"}").unwrap();
    assert!(
        ResultReader::open(temp.path())
            .unwrap_err()
            .to_string()
            .contains("wakepath-result")
    );
    fs::write(&path, "{").unwrap();
    assert!(
        ResultReader::open(temp.path())
            .unwrap_err()
            .to_string()
            .contains("EOF")
    );
    let nothing = ResultReader::open(temp.path().join("none")).unwrap_err();
    assert!(matches!(nothing, ResultsError::NoResults(_)));
}

#[test]
fn a_run_in_the_place_of_another_is_not_taken_for_it() {
    let temp = tempfile::tempdir().unwrap();
    let writer = ResultWriter::open(temp.path(), document(), &files(), Mode::New).unwrap();
    writer.write_run(0, &run(1, 1.0)).unwrap();
    fs::write(temp.path().join("runs/000001.json"), "{").unwrap();
    drop(writer);
    let writer = ResultWriter::open(temp.path(), document(), &files(), Mode::Resume).unwrap();
    let refused = writer
        .was_finished_at_start(0, &run(0, 1.0).key)
        .unwrap_err()
        .to_string();
    for part in [
        "runs/000000.json: holds board: reads under menu, repeat 1",
        "has board: reads under menu, repeat 0 in its place",
        "remove the file",
    ] {
        assert!(refused.contains(part), "{refused}");
    }
    writer
        .was_finished_at_start(1, &run(1, 1.0).key)
        .unwrap_err();
}

#[test]
fn a_number_that_is_none_is_not_kept() {
    let temp = tempfile::tempdir().unwrap();
    let writer = ResultWriter::open(temp.path(), document(), &files(), Mode::New).unwrap();
    for value in [f64::NAN, f64::INFINITY] {
        let refused = writer.write_run(0, &run(0, value)).unwrap_err().to_string();
        assert!(
            refused.contains("reads under menu, repeat 0: iops is"),
            "{refused}"
        );
        assert!(!has(&writer, 0));
    }
}

#[test]
fn a_full_disk_is_an_error_and_keeps_what_was_measured() {
    // Without room there is no file: a file in place of the folder does the same without a full disk.
    let temp = tempfile::tempdir().unwrap();
    let writer = ResultWriter::open(temp.path(), document(), &files(), Mode::New).unwrap();
    writer.write_run(0, &run(0, 1.0)).unwrap();
    let runs = temp.path().join("runs");
    fs::rename(&runs, temp.path().join("kept")).unwrap();
    fs::write(&runs, "").unwrap();
    let refused = writer.write_run(1, &run(1, 1.0)).unwrap_err().to_string();
    assert!(refused.contains("runs/000001.json"), "{refused}");
    fs::remove_file(&runs).unwrap();
    fs::rename(temp.path().join("kept"), &runs).unwrap();
    assert_eq!(
        ResultReader::open(temp.path())
            .unwrap()
            .read_runs()
            .unwrap(),
        [run(0, 1.0)]
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn numbers_come_back_to_the_last_bit(
        values in prop::collection::vec(0.0..1e30_f64, 1..8),
        name in "\\PC{0,12}",
    ) {
        let temp = tempfile::tempdir().unwrap();
        let mut planned = document();
        planned.policies[0].name.clone_from(&name);
        planned.metrics[0].name = name.clone().into();
        planned.repeats = values.len() as u32;
        let writer = ResultWriter::open(temp.path(), planned, &files(), Mode::New).unwrap();
        for (index, value) in values.iter().enumerate() {
            let mut run = run(index as u32, 1.0);
            run.key.policy.clone_from(&name);
            run.metrics = vec![(name.clone(), *value)];
            writer.write_run(index, &run).unwrap();
        }
        let list_values = |dir: &Path| -> Vec<(String, u64)> {
            let rows = ResultReader::open(dir).unwrap().read_metric_rows().unwrap();
            rows.into_iter().map(|r| (r.metric, r.value.to_bits())).collect()
        };
        let before = list_values(temp.path());
        writer.write_tables_and_finish().unwrap();
        prop_assert_eq!(&before, &list_values(temp.path()));
        let wanted: Vec<_> = values.iter().map(|v| (name.clone(), v.to_bits())).collect();
        prop_assert_eq!(before, wanted);
    }
}
