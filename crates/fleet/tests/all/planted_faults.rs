//! Planted faults of a generated fleet, found by a survey: for tests, and for the benchmark `fleet_figures`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use wakepath_fleet::{FleetClass, FleetError, FleetSurvey, SurveyRequest, survey_fleet};

use crate::generated_fleet::generate_fleet;

/// Fewest planted faults that a survey names.
pub(crate) const LEAST_NAMED: usize = 18;

/// Most machines without a planted fault that a survey names.
pub(crate) const MOST_OTHERS: usize = 5;

/// Most memory of a survey in bytes.
pub(crate) const MOST_MEMORY: u64 = 1 << 30;

/// What a survey of a generated fleet found.
#[derive(Debug)]
pub(crate) struct FoundFaults {
    /// Classes with all machines of one kind, and no other machine.
    pub(crate) right_classes: usize,
    pub(crate) other_classes: usize,
    /// Number of planted faults, and of those whose machines are named.
    pub(crate) planted: usize,
    pub(crate) named: usize,
    /// Faults whose machines are not named.
    #[expect(dead_code, reason = "a failed test prints them")]
    missed: Vec<&'static str>,
    /// Facts with several common values in the largest class.
    pub(crate) divided: Vec<String>,
    /// Machines that are named without a planted fault.
    pub(crate) others: Vec<String>,
    /// Most memory of this process so far in bytes.
    pub(crate) peak_bytes: u64,
}

/// Surveys a fleet without labels, so that only processors, drives and kernels divide classes.
pub(crate) fn survey(folder: &Path, examined_per_class: usize) -> Result<FleetSurvey, FleetError> {
    survey_fleet(&SurveyRequest {
        folder,
        labels_for: &|_| Vec::new(),
        includes: &|_| true,
        examined_per_class,
        cancelled: &AtomicBool::new(false),
        report_read: &|_| {},
    })
}

/// Memory of this process in bytes, by a line of its status: `VmRSS:` now, `VmHWM:` the most so far
/// (`Documentation/filesystems/proc.rst`).
pub(crate) fn memory_in_status(name: &str) -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(name));
    let kib = line
        .and_then(|line| line.split_whitespace().nth(1))
        .unwrap();
    kib.parse::<u64>().unwrap() * 1024
}

/// Whether a class has the machines of one rack, all of them, and a healthy representative.
fn is_right_class(class: &FleetClass, machines_of_rack: impl Fn(&str) -> Option<usize>) -> bool {
    let racks: BTreeSet<&str> = class
        .machines
        .iter()
        .filter_map(|machine| machine.name.split('/').next())
        .collect();
    let of_rack = racks.first().and_then(|rack| machines_of_rack(rack));
    racks.len() == 1
        && of_rack == Some(class.machines.len())
        && class.representative().deviations.is_empty()
}

/// Generates a fleet with 20 planted faults and surveys it.
pub(crate) fn survey_generated_fleet(machines: usize, seed: u64) -> FoundFaults {
    let fleet = generate_fleet(machines, seed);
    let survey = survey(fleet.folder.path(), 0).unwrap();
    let machines_of_rack = |rack: &str| fleet.by_rack.get(rack).copied();
    let right_classes = survey
        .classes
        .iter()
        .filter(|class| is_right_class(class, machines_of_rack))
        .count();
    let outliers: BTreeSet<&str> = survey
        .classes
        .iter()
        .flat_map(FleetClass::outliers)
        .map(|machine| machine.name.as_str())
        .collect();
    let missed: Vec<&'static str> = fleet
        .faulty
        .iter()
        .filter(|(name, _)| !outliers.contains(name.as_str()))
        .map(|(_, fault)| *fault)
        .collect();
    let others = outliers
        .iter()
        .filter(|name| !fleet.faulty.contains_key(**name));
    FoundFaults {
        right_classes,
        other_classes: survey.classes.len() - right_classes,
        planted: fleet.faulty.len(),
        named: fleet.faulty.len() - missed.len(),
        missed,
        divided: survey.classes[0]
            .divided
            .iter()
            .map(|fact| fact.what.clone())
            .collect(),
        others: others.map(|name| (*name).to_owned()).collect(),
        peak_bytes: memory_in_status("VmHWM:"),
    }
}
