//! Decisions for the classes of a fleet.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use wakepath_fleet::{
    DecisionRequest, FleetDecisions, FleetSurvey, KnownRuns, SurveyRequest, decide_for_classes,
    find_least_budget_for_classes, survey_fleet,
};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Measurement};
use wakepath_results::Goal;
use wakepath_settings::PersistentSettings;
use wakepath_system::capture::machine::describe_machine;
use wakepath_system::{Root, System};
use wakepath_tune::{Budget, DailyLoad, SearchObjective, SearchRequest};
use wakepath_workloads::{Workload, fio};

use crate::generated_fleet::{KINDS, MachineKind, generate_capture, write_capture};

/// Reads with pauses long enough for deep states.
pub(crate) const JOB: &str = "[reads]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\nthinktime=2000\n\
     time_based\nruntime=60ms\n";

/// Captures of some kinds, and as many machines of each.
pub(crate) fn survey_kinds(kinds: &[(&MachineKind, usize)]) -> (tempfile::TempDir, FleetSurvey) {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for (kind, count) in kinds {
        for number in 0..*count {
            let mut files = generate_capture(kind, &mut random);
            if number == 1 {
                // A machine with other settings in force, on which the class's set is tried, too.
                files.insert(
                    "sys/devices/system/cpu/cpuidle/current_governor".to_owned(),
                    "teo".to_owned(),
                );
            }
            write_capture(
                &folder.path().join(format!("{}-{number}", kind.rack)),
                &files,
            );
        }
    }
    let survey = survey(folder.path());
    (folder, survey)
}

fn survey(folder: &Path) -> FleetSurvey {
    survey_fleet(&SurveyRequest {
        folder,
        labels_for: &|_| Vec::new(),
        includes: &|_| true,
        examined_per_class: 0,
        cancelled: &AtomicBool::new(false),
        report_read: &|_| {},
    })
    .unwrap()
}

/// Writes a calibration with a prediction error beside a capture.
fn calibrate_capture(capture: &Path) {
    let system = System::new(Root::at_directory(capture));
    let (captured, _) = describe_machine(&system, "calibrated").unwrap();
    let text = format!("{}{CALIBRATION}", captured.to_toml().unwrap());
    let mut machine = Machine::parse(&text, "calibrated").unwrap();
    let measurement = Measurement {
        n: 900,
        low: Some(59.0),
        high: Some(61.0),
        date: "2026-11-27".to_owned(),
        kernel: "6.12.48".to_owned(),
        what: "mean".to_owned(),
    };
    machine.io_path.kcycles_per_io = Figure::measured_here(60.0, measurement);
    fs::write(capture.join("calibrated.toml"), machine.to_toml().unwrap()).unwrap();
}

/// Tables that `wakepath calibrate` adds to a machine file.
const CALIBRATION: &str = "\n[calibrated_on]\ndate = \"2026-11-27\"\nkernel = \"6.12.48\"\ncpus = 1\n\
    [prediction]\njobs = 4\nmean_percent = 6\np99_percent = 15\niops_percent = 6\ndate = \"2026-11-27\"\n\
    kernel = \"6.12.48\"\n";

#[test]
fn a_decision_says_how_far_predictions_on_its_machine_were_off() {
    let (folder, before) = survey_kinds(&[(&KINDS[0], 3)]);
    assert!(
        !decide(&before, 100_000)
            .notes
            .join("\n")
            .contains("predictions")
    );
    for found in &before.classes[0].machines {
        calibrate_capture(&found.path);
    }
    let notes = decide(&survey(folder.path()), 100_000).notes.join("\n");
    let expected = "predictions on this machine: mean within 6 %, p99 15 %, IOPS 6 % (4 jobs, 2026-11-27, Linux 6.12.48)";
    assert!(
        notes.starts_with("class-1: ") && notes.contains(expected),
        "{notes}"
    );
}

fn decide(survey: &FleetSurvey, budget: u64) -> FleetDecisions {
    with_request(budget, |request| {
        decide_for_classes(survey, request).unwrap()
    })
    .0
}

/// Calls `ask` with the request of all tests here. Returns also the number of requests that were simulated.
fn with_request<T>(budget: u64, ask: impl FnOnce(&DecisionRequest<'_>) -> T) -> (T, u64) {
    let file = fio::parse(JOB, "reads.fio").unwrap();
    let workload = Workload::from(file.with_given_or_default_warm_up(None));
    let search = SearchRequest {
        loads: vec![DailyLoad {
            name: "reads".to_owned(),
            workload: Some(workload),
            hours: 8.0,
        }],
        objective: SearchObjective::new("mean_us", Goal::Minimise).unwrap(),
        conditions: Vec::new(),
        budget: Budget(budget),
        seed: 1,
    };
    let simulated = AtomicU64::new(0);
    let request = DecisionRequest {
        search: &search,
        over: &["cpu-latency".to_owned()],
        fewest_machines: 3,
        cancelled: &AtomicBool::new(false),
        report_requests: &|requests| {
            simulated.fetch_add(requests, Ordering::Relaxed);
        },
        known_runs: &KnownRuns::default(),
    };
    let answer = ask(&request);
    (answer, simulated.into_inner())
}

#[test]
fn the_least_budget_and_the_search_run_what_is_in_force_once() {
    let (_folder, survey) = survey_kinds(&[(&KINDS[0], 3), (&KINDS[3], 3)]);
    let (least, of_budget) = with_request(100_000, |request| {
        find_least_budget_for_classes(&survey, request).unwrap()
    });
    assert!(least > 0 && of_budget > 0, "{least}, {of_budget}");
    let (alone, of_search) = with_request(100_000, |request| {
        decide_for_classes(&survey, request).unwrap()
    });
    let (after, of_both) = with_request(100_000, |request| {
        find_least_budget_for_classes(&survey, request).unwrap();
        decide_for_classes(&survey, request).unwrap()
    });
    assert_eq!(of_both, of_search);
    assert_eq!(format!("{after:?}"), format!("{alone:?}"));
}

#[test]
fn equal_answers_are_merged_and_small_classes_join_the_nearest() {
    let kinds = [(&KINDS[0], 6), (&KINDS[3], 4), (&KINDS[4], 1)];
    let (_folder, survey) = survey_kinds(&kinds);
    let decisions = decide(&survey, 100_000);
    assert_eq!(
        decisions.joined,
        [("class-3".to_owned(), "class-2".to_owned())]
    );
    let [decision] = &decisions.decisions[..] else {
        panic!("{decisions:?}");
    };
    assert_eq!(decision.classes, ["class-1", "class-2", "class-3"]);
    assert_eq!(decision.machines, 11);
    assert!(
        decision
            .set
            .as_ref()
            .unwrap()
            .starts_with("cpu-latency[limit=")
    );
    // Three processors' classes share a file, so no processor is named.
    assert_eq!(decision.processor, None);
    let [first, second] = &decision.outcomes[..] else {
        panic!("{decision:?}");
    };
    assert_eq!((first.tried, second.tried), (2, 2));
    for outcome in [first, second] {
        let [low, high] = outcome.spread_percent;
        assert!(low <= outcome.gain_percent && outcome.gain_percent <= high);
        assert!(outcome.gain_percent > 0.5, "{outcome:?}");
        assert!(outcome.objective < outcome.in_force);
    }
}

#[test]
fn the_settings_file_is_one_that_apply_reads() {
    let (_folder, survey) = survey_kinds(&[(&KINDS[0], 3)]);
    let decisions = decide(&survey, 100_000);
    let decision = &decisions.decisions[0];
    assert_eq!(
        decision.processor.as_deref(),
        Some("Intel(R) Xeon(R) Gold 6338 CPU @ 2.00GHz")
    );
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("etc/wakepath");
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).unwrap();
    let file = folder.join("settings.toml");
    fs::write(&file, decision.settings_file.as_ref().unwrap()).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    let system = System::new(Root::at_directory(root.path()));
    let settings = PersistentSettings::load(&system).unwrap().unwrap();
    assert_eq!(
        settings.sets.any_supply.map(|set| set.to_string()),
        decision.set.clone()
    );
    assert_eq!(settings.drives, Some(survey.classes[0].key.drives.clone()));
}

#[test]
fn classes_without_a_decision_are_told() {
    let (_folder, survey) = survey_kinds(&[(&KINDS[0], 3), (&KINDS[5], 1)]);
    let decisions = decide(&survey, 10);
    assert!(decisions.decisions.is_empty());
    let notes = decisions.notes.join("\n");
    assert!(
        notes.contains("class-1: no decision: a budget of 10 simulated requests is too small"),
        "{notes}"
    );
    assert!(
        notes.contains("class-2: no decision: 1 machine is too few, and no class has its processor or its drives"),
        "{notes}"
    );
}
