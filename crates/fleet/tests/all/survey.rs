//! Surveys of generated fleets.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::AtomicBool;

use rand::SeedableRng;
use rand_pcg::Pcg64Mcg;
use wakepath_fleet::{FleetSurvey, SurveyRequest, survey_fleet};

use crate::generated_fleet::{
    FAULTS, KINDS, VARIED_FACTS, generate_capture, generate_capture_with_cpus, generate_fleet,
    write_capture,
};
use crate::planted_faults::{
    LEAST_NAMED, MOST_MEMORY, MOST_OTHERS, memory_in_status, survey, survey_generated_fleet,
};

/// Surveys a generated fleet: six classes, and at least 18 of 20 faults with at most 5 other machines.
fn find_planted_faults(machines: usize, seed: u64) {
    let found = survey_generated_fleet(machines, seed);
    println!("{found:?}");
    assert_eq!(found.right_classes, KINDS.len(), "{found:?}");
    assert_eq!((found.other_classes, found.planted), (0, FAULTS.len()));
    assert_eq!(found.divided, VARIED_FACTS, "{found:?}");
    assert!(found.named >= LEAST_NAMED, "{found:?}");
    assert!(found.others.len() <= MOST_OTHERS, "{found:?}");
    assert!(found.peak_bytes <= MOST_MEMORY, "{found:?}");
}

#[test]
fn planted_faults_of_three_hundred_machines_are_named() {
    find_planted_faults(300, 1);
}

#[test]
#[ignore = "nightly: three fleets of 2,000 captures"]
fn planted_faults_of_two_thousand_machines_are_named() {
    for seed in 1..=3 {
        find_planted_faults(2000, seed);
    }
}

/// CPUs of a large server, and how many of them are surveyed, for the memory of 2,000.
const SERVER_CPUS: usize = 64;
const SERVERS: u64 = 100;
const FLEET: u64 = 2000;

/// Where this variable is set, the test has a process of its own: other tests would add to its memory.
const ALONE: &str = "WAKEPATH_SURVEY_ALONE";

#[test]
#[ignore = "nightly: 260,000 files"]
fn two_thousand_servers_of_64_cpus_would_fit_into_the_memory() {
    if std::env::var_os(ALONE).is_none() {
        let name = "survey::two_thousand_servers_of_64_cpus_would_fit_into_the_memory";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--ignored", "--nocapture"])
            .env(ALONE, "1")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    // In memory where possible, as the generated fleets are.
    let folder = tempfile::tempdir_in("/dev/shm")
        .or_else(|_| tempfile::tempdir())
        .unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(11);
    for number in 0..SERVERS {
        let files = generate_capture_with_cpus(&KINDS[0], SERVER_CPUS, &mut random);
        write_capture(&folder.path().join(format!("{number:04}")), &files);
    }
    let before = memory_in_status("VmRSS:");
    let found = survey(folder.path(), 0).unwrap();
    assert_eq!(names(&found).len() as u64, SERVERS);
    let more = memory_in_status("VmHWM:") - before;
    let of_fleet = before + more * FLEET / SERVERS;
    println!("{SERVERS} servers took {more} bytes, {FLEET} would take {of_fleet}");
    assert!(of_fleet <= MOST_MEMORY, "{of_fleet}");
}

/// A folder with these captures of the first kind, all healthy and unlike in their counters.
fn fleet_of(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(1);
    for name in names {
        let files = generate_capture(&KINDS[0], &mut random);
        write_capture(&folder.path().join(name), &files);
    }
    folder
}

fn names(survey: &FleetSurvey) -> Vec<&str> {
    let machines = survey.classes.iter().flat_map(|class| &class.machines);
    machines.map(|machine| machine.name.as_str()).collect()
}

#[test]
fn copies_and_captures_of_the_same_machine_count_once() {
    let folder = fleet_of(&["2026-10/a", "2026-11/a", "2026-11/b"]);
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let files = generate_capture(&KINDS[0], &mut random);
    write_capture(&folder.path().join("2026-11/c"), &files);
    write_capture(&folder.path().join("2026-11/d"), &files);
    let survey = survey(folder.path(), 0).unwrap();
    assert_eq!(names(&survey), ["2026-11/a", "2026-11/b", "2026-11/c"]);
    assert_eq!(
        survey.notes,
        [
            "2026-11/d: left out: a copy of 2026-11/c, to the last counter",
            "2026-10/a: left out: the same machine as 2026-11/a, by its name; the last date counts",
        ]
    );
}

#[test]
fn of_equal_dated_captures_the_last_counts() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = Pcg64Mcg::seed_from_u64(7);
    let files = generate_capture(&KINDS[0], &mut random);
    for name in ["2026-10/a", "2026-11/a", "2026-11/b"] {
        write_capture(&folder.path().join(name), &files);
    }
    let survey = survey(folder.path(), 0).unwrap();
    assert_eq!(names(&survey), ["2026-11/a"]);
    assert_eq!(
        survey.notes,
        [
            "2026-11/b: left out: a copy of 2026-11/a, to the last counter",
            "2026-10/a: left out: the same machine as 2026-11/a, by its name; the last date counts",
        ]
    );
}

#[test]
fn a_folder_with_half_a_capture_is_named() {
    let folder = fleet_of(&["a"]);
    let half = |path: &str| fs::create_dir_all(folder.path().join(path)).unwrap();
    half("r/no-processor/sys/devices/system/cpu");
    half("r/no-folder/proc");
    fs::write(folder.path().join("r/no-folder/proc/cpuinfo"), "x").unwrap();
    let survey = survey(folder.path(), 0).unwrap();
    assert_eq!(
        survey.notes,
        [
            "r/no-folder: left out: no capture, for it has no sys/devices/system/cpu",
            "r/no-processor: left out: no capture, for it has no proc/cpuinfo",
        ]
    );
}

#[test]
fn names_that_match_no_capture_are_told() {
    let folder = fleet_of(&["2026-11/a", "2026-11/b"]);
    let refused = survey_fleet(&SurveyRequest {
        folder: folder.path(),
        labels_for: &|_| Vec::new(),
        includes: &|name| name == "a",
        examined_per_class: 0,
        cancelled: &AtomicBool::new(false),
        report_read: &|_| {},
    });
    let message = refused.unwrap_err().to_string();
    let expected = "no name among those of 2 captures matches what is asked for (--only); a name is the path below the folder, \
                    such as 2026-11/a,";
    assert!(message.contains(expected), "{message}");
}

#[test]
fn hostile_and_broken_captures_end_no_survey() {
    let folder = fleet_of(&["r/a", "r/b"]);
    let broken = |name: &str, path: &str, content: &[u8]| {
        let mut random = Pcg64Mcg::seed_from_u64(3);
        let capture = folder.path().join(name);
        write_capture(&capture, &generate_capture(&KINDS[0], &mut random));
        fs::write(capture.join(path), content).unwrap();
    };
    broken("r/empty", "proc/cpuinfo", b"");
    broken("r/none", "sys/devices/system/cpu/online", b"0-4000000000");
    broken("r/old", "machine.toml", b"not = a machine\n");
    broken(
        "r/escape",
        "sys/class/nvme/nvme0/model",
        b"\x1b[2J\xff<script>",
    );
    fs::write(folder.path().join("r/a/doctor.json"), "{}").unwrap();
    fs::write(folder.path().join("lost.parquet"), "").unwrap();
    symlink("/etc", folder.path().join("r/link")).unwrap();
    fs::remove_file(folder.path().join("r/b/proc/uptime")).unwrap();
    symlink("/etc/passwd", folder.path().join("r/b/proc/uptime")).unwrap();
    let survey = survey(folder.path(), 1).unwrap();
    let expected = ["r/a", "r/b", "r/escape", "r/none", "r/old"];
    assert_eq!(
        names(&survey).into_iter().collect::<BTreeSet<_>>(),
        expected.into()
    );
    let notes = survey.notes.join("\n");
    for expected in [
        "r/empty: left out: proc/cpuinfo names no processor",
        "r/old: its machine.toml is not of this version of wakepath",
        "doctor.json was not used: no output of `wakepath doctor --format json`",
        "1 file belongs to no capture and was not used",
        "1 link was not followed",
    ] {
        assert!(notes.contains(expected), "{expected}: {notes}");
    }
}

#[test]
fn folders_without_captures_are_told() {
    let folder = fleet_of(&["a"]);
    let message = |path: &Path| survey(path, 0).unwrap_err().to_string();
    let empty = tempfile::tempdir().unwrap();
    assert!(message(empty.path()).contains("no capture in it"));
    assert!(message(&folder.path().join("a")).contains("is a capture itself"));
    assert!(message(&folder.path().join("nothing")).contains("nothing"));
}

#[test]
fn a_survey_is_the_same_for_any_number_of_threads() {
    let fleet = generate_fleet(200, 5);
    let with_threads = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads);
        let pool = pool.build().unwrap();
        pool.install(|| survey(fleet.folder.path(), 1).map(|survey| format!("{survey:?}")))
            .unwrap()
    };
    assert_eq!(with_threads(1), with_threads(3));
}
