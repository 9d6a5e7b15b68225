//! Sets are priced as they are applied.

#[path = "../../cli/tests/all/common/captured.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod captured;
#[path = "../../cli/tests/all/common/files.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod files;

use wakepath_policies::PolicySet;
use wakepath_settings::{Session, SettingsPlan, Targets, policy};
use wakepath_system::{Root, System};

use crate::examine_machine;
use crate::model::{Model, READS, simulate_load};

fn apply(system: &System, set: &PolicySet) {
    let wanted = policy::resolve_to_settings(system, set, &Targets::default()).unwrap();
    let plan = SettingsPlan::from_wanted(system, wanted).unwrap();
    Session::open_and_recover(system)
        .unwrap()
        .apply_plan(&plan)
        .unwrap();
}

/// What is priced is what `wakepath apply` then makes of the machine.
#[test]
fn a_set_is_priced_as_it_is_applied() {
    for (before, set) in [
        ("unchanged", "cpu-latency[limit=2us,cpus=all]"),
        ("unchanged", "teo@6.12.48"),
        ("unchanged", "hwp-boost[value=on]"),
        (
            "idle-states[ceiling=C1E] + cpu-latency[limit=1us,cpus=all]",
            "idle-states[ceiling=none] + cpu-latency[limit=none,cpus=all]",
        ),
        ("idle-states[ceiling=C1E]", "idle-states[ceiling=C8]"),
    ] {
        let directory = captured::copy_of_laptop();
        let system = System::new(Root::at_directory(directory.path()));
        let set: PolicySet = set.parse().unwrap();
        apply(&system, &before.parse().unwrap());
        let (model, _) = Model::read(&system, None).unwrap();
        let (machine, policies) = model.machine_and_policies_after_applying(&set);
        let priced = simulate_load(&machine, &policies, READS).unwrap();
        apply(&system, &set);
        let (after, _) = Model::read(&system, None).unwrap();
        let found = simulate_load(&after.machine, &after.now, READS).unwrap();
        assert_eq!(priced.mean_us.to_bits(), found.mean_us.to_bits(), "{set}");
        let without = simulate_load(&model.machine, &model.now, READS).unwrap();
        assert_ne!(without.mean_us.to_bits(), found.mean_us.to_bits(), "{set}");
    }
}

/// A damaged capture may hold any numbers.
#[test]
fn impossible_counters_are_named_and_judge_no_governor() {
    let directory = captured::copy_of_laptop();
    let cpus = directory.path().join("sys/devices/system/cpu");
    for cpu in ["cpu0", "cpu1"] {
        let file = cpus.join(cpu).join("cpuidle/state3/above");
        std::fs::write(file, format!("{}\n", u64::MAX)).unwrap();
    }
    let system = System::new(Root::at_directory(directory.path()));
    let report = examine_machine(&system, "", None).unwrap();
    let named = report
        .notes
        .iter()
        .any(|note| note.contains("which is impossible"));
    assert!(named, "{:?}", report.notes);
    assert!(
        report
            .findings
            .iter()
            .all(|finding| finding.name != "too-deep")
    );
}
