//! Power of a captured machine with counters that stand still: what is set meanwhile, and that everything is put back.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;

use wakepath_measure::power::{PowerCondition, PowerPlan, measure};
use wakepath_measure::{ExperimentControl, MeasureError};
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
