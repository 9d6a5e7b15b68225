//! Power of a captured machine with counters that stand still: what is set meanwhile, and that everything is put back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use wakepath_measure::power::{PowerCondition, PowerPlan, measure};
use wakepath_measure::{ExperimentControl, MeasureError};
use wakepath_settings::Session;
use wakepath_system::{Root, System};

use crate::captured::{content, copy_of_laptop, different};

/// Takes every source of power away, and gives the machine a sensor of 5 W.
fn give_sensor(machine: &Path) {
    for place in [
        "sys/class/powercap",
        "sys/class/hwmon",
        "sys/class/power_supply",
    ] {
        let _ = fs::remove_dir_all(machine.join(place));
    }
    let chip = machine.join("sys/class/hwmon/hwmon0");
    fs::create_dir_all(&chip).unwrap();
    fs::write(chip.join("name"), "board\n").unwrap();
    fs::write(chip.join("power1_input"), "5000000\n").unwrap();
}

fn allowed_states(machine: &Path, cpu: usize) -> Vec<usize> {
    let is_on = |state: &usize| {
        let file = format!("sys/devices/system/cpu/cpu{cpu}/cpuidle/state{state}/disable");
        fs::read_to_string(machine.join(file)).unwrap().trim() == "0"
    };
    (0..5).filter(is_on).collect()
}

#[test]
fn each_state_is_held_on_all_cpus_and_everything_is_put_back() {
    let machine = copy_of_laptop();
    give_sensor(machine.path());
    let before = content(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let plan = PowerPlan::short(&system, true).unwrap();
    let seen: Mutex<Vec<[Vec<usize>; 2]>> = Mutex::new(Vec::new());
    let finished = |_: usize| {
        let both = [0, 1].map(|cpu| allowed_states(machine.path(), cpu));
        seen.lock().unwrap().push(both);
    };
    let cancelled = AtomicBool::new(false);
    let result = measure(
        &system,
        &plan,
        ExperimentControl::new(&finished, &cancelled),
    )
    .unwrap();
    assert!(result.complete);
    let mut after = content(machine.path());
    after.retain(|path, _| !path.contains("var/lib/wakepath"));
    assert!(different(&after, &before).is_empty());
    // At rest and busy first, then C10, C8, C6 and C1E.
    let seen = seen.into_inner().unwrap();
    let held: Vec<&[Vec<usize>; 2]> = seen.iter().rev().take(4).rev().collect();
    let expected = [4, 3, 2, 1].map(|state| [vec![state], vec![state]]);
    assert_eq!(held, expected.iter().collect::<Vec<_>>());
    let states = result
        .figures
        .iter()
        .filter(|figure| matches!(figure.condition, PowerCondition::State(_)));
    assert_eq!(states.clone().count(), 4);
    for figure in states {
        assert!((figure.power.mw - 5000.0).abs() < 1e-6, "{figure:?}");
        assert!(figure.each_cpu_above_deepest.unwrap().mw.abs() < 1e-6);
    }
}

/// Names the machine that a process under test measures until it is killed.
const MEASURED_UNTIL_KILLED: &str = "WAKEPATH_TEST_MEASURED_UNTIL_KILLED";

/// Measures power, and stops for good as soon as an idle state is off.
fn measure_until_killed(machine: &Path) {
    let system = System::new(Root::at_directory(machine));
    let plan = PowerPlan::short(&system, true).unwrap();
    let finished = |_: usize| {
        while allowed_states(machine, 0).len() < 5 {
            std::thread::sleep(Duration::from_secs(1));
        }
    };
    let cancelled = AtomicBool::new(false);
    let control = ExperimentControl::new(&finished, &cancelled);
    measure(&system, &plan, control).unwrap();
}

#[test]
fn what_a_killed_measurement_of_power_changed_is_put_back_by_the_next() {
    if let Some(machine) = std::env::var_os(MEASURED_UNTIL_KILLED) {
        return measure_until_killed(Path::new(&machine));
    }
    let machine = copy_of_laptop();
    give_sensor(machine.path());
    let before = content(machine.path());
    let own = std::env::current_exe().unwrap();
    let name = "power::what_a_killed_measurement_of_power_changed_is_put_back_by_the_next";
    let mut measuring = Command::new(own)
        .args(["--exact", name])
        .env(MEASURED_UNTIL_KILLED, machine.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let patience = Instant::now() + Duration::from_secs(30);
    while allowed_states(machine.path(), 0).len() == 5 {
        assert!(Instant::now() < patience, "nothing was switched off");
        assert!(measuring.try_wait().unwrap().is_none(), "it has ended");
        std::thread::sleep(Duration::from_millis(5));
    }
    // A step later all but one are off.
    std::thread::sleep(Duration::from_millis(200));
    measuring.kill().unwrap();
    measuring.wait().unwrap();
    assert_eq!(allowed_states(machine.path(), 1), [4]);
    let journal = fs::read_to_string(machine.path().join("var/lib/wakepath/journal.json")).unwrap();
    assert!(journal.contains("cpu1/state1"), "{journal}");

    let system = System::new(Root::at_directory(machine.path()));
    drop(Session::open_and_recover(&system).unwrap());
    let mut after = content(machine.path());
    after.retain(|path, _| !path.contains("var/lib/wakepath"));
    assert!(different(&after, &before).is_empty());
}

/// Gives the captured drive an APST table that is on, and a disk to read. Returns the feature's file.
fn give_sleeping_drive(machine: &Path) -> PathBuf {
    let feature = machine.join("dev/nvme0.feature-0c");
    let mut bytes = vec![0; 4 + 256];
    bytes[0] = 1;
    bytes[4..12].copy_from_slice(&((100_u64 << 8) | (3 << 3)).to_le_bytes());
    fs::write(&feature, &bytes).unwrap();
    fs::write(machine.join("dev/nvme0n1"), [7; 8192]).unwrap();
    feature
}

/// Frequency limits of CPU 1, and whether APST is on.
fn limits_and_apst(machine: &Path, feature: &Path) -> (String, String, bool) {
    let policy = machine.join("sys/devices/system/cpu/cpufreq/policy1");
    let read = |file: &str| fs::read_to_string(policy.join(file)).unwrap();
    let limits = ["scaling_min_freq", "scaling_max_freq"].map(|file| read(file).trim().to_owned());
    let [min, max] = limits;
    (min, max, fs::read(feature).unwrap()[0] == 1)
}

#[test]
fn power_is_read_at_each_clock_and_with_the_drive_awake() {
    // Files on memory take no direct reads on every kernel.
    let machine = copy_of_laptop();
    give_sensor(machine.path());
    let feature = give_sleeping_drive(machine.path());
    let before = content(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let plan = PowerPlan::short(&system, true).unwrap();
    let described = plan.describe().join("\n");
    assert!(described.contains("400, 4700 MHz"), "{described}");
    assert!(described.contains("APST of nvme0 off"), "{described}");
    let all = PowerPlan::new(&system, true, None).unwrap().describe();
    assert!(all.join("\n").contains("400, 1400, 2500, 3600, 4700 MHz"));
    let unforced = PowerPlan::new(&system, false, None).unwrap();
    assert_eq!(unforced.steps(), 3);

    let present = limits_and_apst(machine.path(), &feature);
    let cancelled = AtomicBool::new(false);
    let finished = |_: usize| {
        // Each clock and the drive are put back before the next condition.
        assert_eq!(limits_and_apst(machine.path(), &feature), present);
    };
    let watched = watch_changes(machine.path(), &feature);
    let control = ExperimentControl::new(&finished, &cancelled);
    let result = measure(&system, &plan, control).unwrap();
    let seen = watched.finish();
    for clock in ["400000", "4700000"] {
        let held = (clock.to_owned(), clock.to_owned(), true);
        assert!(seen.contains(&held), "{clock}: {seen:?}");
    }
    let awake = (present.0.clone(), present.1.clone(), false);
    let names = result
        .figures
        .iter()
        .map(|figure| figure.condition.describe());
    let names: Vec<String> = names.collect();
    assert_eq!(names[3], "all CPUs busy at 400 MHz");
    if names[5] == "at rest, nvme0 kept awake" {
        assert!(seen.contains(&awake), "{seen:?}");
        let beyond = result.figures[5].above_rest.unwrap();
        assert!(beyond.mw.abs() < 1e-6 && beyond.low <= 0.0);
    } else {
        let notes = result.notes.join("\n");
        assert!(notes.contains("to wake the drive"), "{notes}");
    }
    assert!(different(&content(machine.path()), &before).is_empty());
}

#[test]
fn a_drive_that_cannot_be_read_is_a_note() {
    let machine = copy_of_laptop();
    give_sensor(machine.path());
    give_sleeping_drive(machine.path());
    fs::remove_file(machine.path().join("dev/nvme0n1")).unwrap();
    let before = content(machine.path());
    let system = System::new(Root::at_directory(machine.path()));
    let plan = PowerPlan::short(&system, true).unwrap();
    let cancelled = AtomicBool::new(false);
    let control = ExperimentControl::new(&|_| {}, &cancelled);
    let result = measure(&system, &plan, control).unwrap();
    let notes = result.notes.join("\n");
    assert!(
        notes.contains("at rest, nvme0 kept awake: not measured"),
        "{notes}"
    );
    let kept_awake =
        |condition: &PowerCondition| matches!(condition, PowerCondition::DriveAwake(_));
    assert!(!result.figures.iter().any(|f| kept_awake(&f.condition)));
    assert!(different(&content(machine.path()), &before).is_empty());
}

/// A thread that watches limits and APST until it is asked.
struct Watch {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Vec<(String, String, bool)>>,
}

fn watch_changes(machine: &Path, feature: &Path) -> Watch {
    let is_over = Arc::new(AtomicBool::new(false));
    let until = Arc::clone(&is_over);
    let (machine, feature) = (machine.to_owned(), feature.to_owned());
    let thread = std::thread::spawn(move || {
        let mut seen = Vec::new();
        while !until.load(Ordering::Relaxed) {
            let now = limits_and_apst(&machine, &feature);
            if seen.last() != Some(&now) {
                seen.push(now);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        seen
    });
    Watch { is_over, thread }
}

impl Watch {
    fn finish(self) -> Vec<(String, String, bool)> {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[test]
fn a_machine_without_counters_gets_no_figures() {
    let machine = copy_of_laptop();
    give_sensor(machine.path());
    fs::remove_dir_all(machine.path().join("sys/class/hwmon")).unwrap();
    let system = System::new(Root::at_directory(machine.path()));
    let error = PowerPlan::new(&system, true, None).unwrap_err();
    assert!(matches!(error, MeasureError::Impossible(_)));
    assert!(error.to_string().contains("tells no power"), "{error}");
}
