//! The survey of a fleet: machines, classes, and outliers.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use wakepath_doctor::{EarlierCalibration, examine_machine};
use wakepath_hardware::Machine;
use wakepath_results::ResultReader;
use wakepath_system::{Root, System};
use wakepath_units::causes::with_causes;

use crate::FleetError;
use crate::facts::{ClassKey, MachineFacts};
use crate::inventory::{FleetInventory, FoundMaterial, is_own_machine_file};
use crate::outlier::{Deviation, DividedFact, compare_machines};

/// Largest JSON file that is read, in bytes.
const MAX_REPORT_BYTES: u64 = 16 << 20;

/// A survey's request.
pub struct SurveyRequest<'a> {
    /// The fleet's folder.
    pub folder: &'a Path,
    /// A machine's labels, by name.
    pub labels_for: &'a (dyn Fn(&str) -> Vec<String> + Sync),
    /// Whether a machine belongs to the survey, by name.
    pub includes: &'a (dyn Fn(&str) -> bool + Sync),
    /// Most examined machines per class, as by doctor; the representative comes first.
    pub examined_per_class: usize,
    /// Set to end the survey.
    pub cancelled: &'a AtomicBool,
    /// Called for each read capture.
    pub report_read: &'a (dyn Fn(usize) + Sync),
}

/// A machine of the fleet.
#[derive(Clone, Debug, Serialize)]
pub struct FleetMachine {
    /// Name: the capture's path below the fleet's folder.
    pub name: String,
    /// Where the capture is.
    #[serde(skip)]
    pub path: PathBuf,
    /// Differences from the machine's class; empty for most machines.
    pub deviations: Vec<Deviation>,
    /// The calibration of the machine, if any.
    #[serde(skip)]
    pub calibration: Option<PathBuf>,
    /// Recordings of the machine.
    #[serde(skip)]
    pub recordings: Vec<PathBuf>,
    /// Settings in force, to find machines with other settings.
    #[serde(skip)]
    pub(crate) settings: BTreeMap<String, String>,
}

/// A finding on the machine that stands for a class.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct ClassFinding {
    /// Name of the finding, such as `apst-off`.
    pub name: String,
    /// The finding in a sentence, for the representative.
    pub title: String,
    /// The policy set that doctor recommends.
    #[serde(skip)]
    pub fix: Option<String>,
}

/// Machines with the same processor, drives, kernel series and labels.
#[derive(Clone, Debug, Serialize)]
pub struct FleetClass {
    /// Name of the class: `class-1` is the largest.
    pub name: String,
    /// Features shared by all machines.
    #[serde(flatten)]
    pub key: ClassKey,
    /// The machines, by name.
    pub machines: Vec<FleetMachine>,
    /// Index of the machine with the fewest deviations, the class's stand-in.
    pub representative: usize,
    /// Findings of doctor on the representative.
    pub findings: Vec<ClassFinding>,
    /// Facts with several common values.
    pub divided: Vec<DividedFact>,
}

impl FleetClass {
    /// The class's stand-in.
    pub fn representative(&self) -> &FleetMachine {
        &self.machines[self.representative]
    }

    /// Machines with deviations.
    pub fn outliers(&self) -> impl Iterator<Item = &FleetMachine> {
        self.machines
            .iter()
            .filter(|machine| !machine.deviations.is_empty())
    }
}

/// A fleet's machines, by class.
#[derive(Clone, Debug, Serialize)]
pub struct FleetSurvey {
    /// The classes, the largest first.
    pub classes: Vec<FleetClass>,
    /// Notes for readers: duplicates, unreadable captures, files from other versions.
    pub notes: Vec<String>,
}

/// A readable capture.
struct ReadCapture {
    name: String,
    path: PathBuf,
    facts: MachineFacts,
}

/// A file as `wakepath doctor --format json` writes it.
#[derive(Deserialize)]
struct DoctorFile {
    findings: Vec<DoctorFileFinding>,
}

/// A finding in [`DoctorFile`].
#[derive(Deserialize)]
struct DoctorFileFinding {
    name: String,
    title: String,
    #[serde(default)]
    note: bool,
    #[serde(default)]
    set: Option<String>,
}

/// Surveys a fleet.
///
/// # Errors
/// The folder cannot be read or has no usable capture; the survey was called off.
pub fn survey_fleet(request: &SurveyRequest<'_>) -> Result<FleetSurvey, FleetError> {
    let mut inventory = FleetInventory::find(request.folder)?;
    let mut notes = std::mem::take(&mut inventory.notes);
    let example = inventory
        .captures
        .first()
        .map(|capture| capture.machine.clone());
    let all = inventory.captures.len();
    inventory
        .captures
        .retain(|capture| (request.includes)(&capture.machine));
    if let (true, Some(example)) = (inventory.captures.is_empty(), example) {
        return Err(FleetError::NoneIncluded {
            path: request.folder.to_owned(),
            all,
            example,
        });
    }
    let captures = read_captures(request, &inventory.captures, &mut notes)?;
    let mut kept = drop_copies(captures, &mut notes);
    let material = Material::sort_by_machine(&inventory, &mut kept, &mut notes);
    let mut by_class: BTreeMap<ClassKey, Vec<ReadCapture>> = BTreeMap::new();
    for capture in kept {
        let members = by_class.entry(capture.facts.key.clone()).or_default();
        members.push(capture);
    }
    let mut grouped: Vec<(ClassKey, Vec<ReadCapture>)> = by_class.into_iter().collect();
    grouped.sort_by(|a, b| b.1.len().cmp(&a.1.len()).then_with(|| a.0.cmp(&b.0)));
    let mut classes = Vec::new();
    for (place, (key, members)) in grouped.into_iter().enumerate() {
        let mut class = make_class(format!("class-{}", place + 1), key, members, &material);
        examine_class(&mut class, request, &material, &mut notes)?;
        classes.push(class);
    }
    if classes.is_empty() {
        return Err(FleetError::NothingUsable {
            path: request.folder.to_owned(),
        });
    }
    Ok(FleetSurvey { classes, notes })
}

/// Reads all captures, side by side; an unreadable capture becomes a note.
fn read_captures(
    request: &SurveyRequest<'_>,
    found: &[FoundMaterial],
    notes: &mut Vec<String>,
) -> Result<Vec<ReadCapture>, FleetError> {
    let read: Vec<Option<Result<MachineFacts, String>>> = found
        .par_iter()
        .map(|capture| {
            if request.cancelled.load(Ordering::Relaxed) {
                return None;
            }
            let system = System::new(Root::at_directory(&capture.path));
            let facts = MachineFacts::read(&system, (request.labels_for)(&capture.machine));
            (request.report_read)(1);
            Some(facts)
        })
        .collect();
    let mut captures = Vec::new();
    for (capture, facts) in found.iter().zip(read) {
        match facts {
            None => return Err(FleetError::Interrupted),
            Some(Err(why)) => notes.push(format!("{}: left out: {why}", capture.machine)),
            Some(Ok(facts)) => captures.push(ReadCapture {
                name: capture.machine.clone(),
                path: capture.path.clone(),
                facts,
            }),
        }
    }
    Ok(captures)
}

/// Leaves out copies, and all but the last capture of a machine. Paths with other dates mean the same machine.
fn drop_copies(captures: Vec<ReadCapture>, notes: &mut Vec<String>) -> Vec<ReadCapture> {
    let mut by_digest: BTreeMap<[u8; 32], String> = BTreeMap::new();
    let mut originals: Vec<ReadCapture> = Vec::new();
    for capture in captures {
        let name = name_without_dates(&capture.name);
        let copied = by_digest.get(&capture.facts.digest);
        // A capture of the same machine on another day is no copy: the last date counts, below.
        if let Some(original) = copied.filter(|original| name_without_dates(original) != name) {
            notes.push(format!(
                "{}: left out: a copy of {original}, to the last counter",
                capture.name
            ));
        } else {
            by_digest.insert(capture.facts.digest, capture.name.clone());
            originals.push(capture);
        }
    }
    let mut last_by_name: BTreeMap<String, String> = BTreeMap::new();
    for capture in &originals {
        last_by_name.insert(name_without_dates(&capture.name), capture.name.clone());
    }
    originals.retain(|capture| {
        let last = last_by_name.get(&name_without_dates(&capture.name));
        match last.filter(|last| **last != capture.name) {
            Some(last) => {
                notes.push(format!(
                    "{}: left out: the same machine as {last}, by its name; the last date counts",
                    capture.name
                ));
                false
            }
            None => true,
        }
    });
    originals
}

/// A capture's name without date folders: `web/01` for `2026-11-28/web/01`.
fn name_without_dates(name: &str) -> String {
    let (folders, own) = name.rsplit_once('/').unwrap_or(("", name));
    let undated = folders
        .split('/')
        .filter(|part| !part.is_empty() && !is_date(part));
    undated.chain([own]).collect::<Vec<_>>().join("/")
}

/// Whether a folder's name is a date: a year and at least a month, such as `2026-11` or `20261128T1200`.
fn is_date(part: &str) -> bool {
    let digits: String = part.chars().filter(char::is_ascii_digit).collect();
    let year = digits.get(..4).and_then(|year| year.parse::<u32>().ok());
    digits.len() >= 6
        && year.is_some_and(|year| (1990..2100).contains(&year))
        && part
            .chars()
            .all(|c| c.is_ascii_digit() || "-_.:T".contains(c))
}

/// Material besides captures, by machine name.
#[derive(Default)]
struct Material {
    calibrations: BTreeMap<String, PathBuf>,
    recordings: BTreeMap<String, Vec<PathBuf>>,
    findings: BTreeMap<String, Vec<DoctorFileFinding>>,
}

impl Material {
    /// Sorts material by machine. Means from explain's results become figures.
    fn sort_by_machine(
        inventory: &FleetInventory,
        captures: &mut [ReadCapture],
        notes: &mut Vec<String>,
    ) -> Self {
        let known: BTreeSet<String> = captures.iter().map(|found| found.name.clone()).collect();
        let mut material = Self::default();
        for file in keep_known(&inventory.machine_files, &known) {
            match Machine::load(&file.path) {
                Ok(machine) if machine.calibrated_on.is_some() => {
                    let earlier = material
                        .calibrations
                        .insert(file.machine.clone(), file.path.clone());
                    if earlier.is_some() {
                        notes.push(format!(
                            "{}: several calibrations; the last file counts",
                            file.machine
                        ));
                    }
                }
                Ok(_) => {}
                Err(error) if is_own_machine_file(&file.path) => notes.push(format!(
                    "{}: its machine.toml is not of this version of wakepath, so only its other files count: {}",
                    file.machine,
                    with_causes(&error)
                )),
                Err(_) => notes.push(format!(
                    "{}: {} is no machine file and was not used",
                    file.machine,
                    file.path.display()
                )),
            }
        }
        for file in keep_known(&inventory.recordings, &known) {
            let recordings = material.recordings.entry(file.machine.clone());
            recordings.or_default().push(file.path.clone());
        }
        for file in keep_known(&inventory.reports, &known) {
            match read_doctor_file(&file.path) {
                Ok(findings) => {
                    material.findings.insert(file.machine.clone(), findings);
                }
                Err(why) => notes.push(format!(
                    "{}: {} was not used: {why}",
                    file.machine,
                    file.path.display()
                )),
            }
        }
        for directory in keep_known(&inventory.results, &known) {
            match read_mean_latencies(&directory.path) {
                Ok(figures) => {
                    let owner = captures
                        .iter_mut()
                        .find(|capture| capture.name == directory.machine);
                    if let Some(capture) = owner {
                        capture.facts.figures.extend(figures);
                    }
                }
                Err(why) => notes.push(format!(
                    "{}: {} was not used: {why}",
                    directory.machine,
                    directory.path.display()
                )),
            }
        }
        material
    }
}

/// Keeps material of machines in the survey.
fn keep_known<'a>(
    found: &'a [FoundMaterial],
    known: &'a BTreeSet<String>,
) -> impl Iterator<Item = &'a FoundMaterial> {
    found
        .iter()
        .filter(|material| known.contains(&material.machine))
}

fn read_doctor_file(path: &Path) -> Result<Vec<DoctorFileFinding>, String> {
    let text = wakepath_files::read_text_up_to(path, MAX_REPORT_BYTES)
        .map_err(|error| error.to_string())?;
    let file: DoctorFile = serde_json::from_str(&text)
        .map_err(|_| "no output of `wakepath doctor --format json`".to_owned())?;
    Ok(file.findings)
}

/// Mean latency by workload in us, over all runs, without workloads for parts of others.
fn read_mean_latencies(path: &Path) -> Result<BTreeMap<String, f64>, String> {
    let reader = ResultReader::open(path).map_err(|error| with_causes(&error))?;
    let whole: BTreeSet<&str> = reader
        .document()
        .workloads
        .iter()
        .filter(|workload| workload.subset.is_none())
        .map(|workload| workload.name.as_str())
        .collect();
    let runs = reader.read_runs().map_err(|error| with_causes(&error))?;
    let mut sums: BTreeMap<String, (f64, u32)> = BTreeMap::new();
    for run in runs {
        let mean = run.metrics.iter().find(|(name, _)| name == "mean_us");
        if let (Some((_, us)), true) = (mean, whole.contains(run.key.workload.as_str())) {
            let (sum, count) = sums.entry(run.key.workload).or_default();
            *sum += us;
            *count += 1;
        }
    }
    let means = sums.into_iter().map(|(workload, (sum, count))| {
        (
            format!("mean us of {workload}, by explain"),
            sum / f64::from(count),
        )
    });
    Ok(means.collect())
}

/// Settings within reach of policy sets.
const POLICY_FACTS: [&str; 6] = [
    "idle-governor",
    "frequency-governor",
    "epp",
    "hwp-dynamic-boost",
    "cpu-latency",
    "drive-latency",
];

fn make_class(
    name: String,
    key: ClassKey,
    members: Vec<ReadCapture>,
    material: &Material,
) -> FleetClass {
    let facts: Vec<&MachineFacts> = members.iter().map(|member| &member.facts).collect();
    let differences = compare_machines(&facts);
    let machines: Vec<FleetMachine> = members
        .into_iter()
        .zip(differences.deviations)
        .map(|(member, deviations)| {
            let settings = member.facts.facts.into_iter();
            FleetMachine {
                calibration: material.calibrations.get(&member.name).cloned(),
                recordings: material
                    .recordings
                    .get(&member.name)
                    .cloned()
                    .unwrap_or_default(),
                name: member.name,
                path: member.path,
                deviations,
                settings: settings
                    .filter(|(fact, _)| POLICY_FACTS.contains(&fact.as_str()))
                    .collect(),
            }
        })
        .collect();
    let representative = machines
        .iter()
        .enumerate()
        // Among equals a calibrated machine comes first.
        .min_by_key(|(_, machine)| (machine.deviations.len(), machine.calibration.is_none()))
        .map_or(0, |(place, _)| place);
    FleetClass {
        name,
        key,
        machines,
        representative,
        findings: Vec::new(),
        divided: differences.divided,
    }
}

/// Examines the representative and outliers, as by doctor. Findings beyond the representative's are deviations.
fn examine_class(
    class: &mut FleetClass,
    request: &SurveyRequest<'_>,
    material: &Material,
    notes: &mut Vec<String>,
) -> Result<(), FleetError> {
    let mut places = vec![class.representative];
    let standing_out = class.machines.iter().enumerate();
    places.extend(
        standing_out
            .filter(|(place, machine)| {
                *place != class.representative && !machine.deviations.is_empty()
            })
            .map(|(place, _)| place),
    );
    places.truncate(request.examined_per_class);
    let examined: Vec<Option<Result<Vec<ClassFinding>, String>>> = places
        .par_iter()
        .map(|place| {
            let is_cancelled = request.cancelled.load(Ordering::Relaxed);
            (!is_cancelled).then(|| examine_captured_machine(&class.machines[*place]))
        })
        .collect();
    let mut findings: BTreeMap<usize, Vec<ClassFinding>> = BTreeMap::new();
    for (place, outcome) in places.into_iter().zip(examined) {
        match outcome {
            None => return Err(FleetError::Interrupted),
            Some(Ok(found)) => {
                findings.insert(place, found);
            }
            Some(Err(why)) => notes.push(format!(
                "{}: doctor could not examine it: {why}",
                class.machines[place].name
            )),
        }
    }
    for (place, machine) in class.machines.iter().enumerate() {
        if let Some(told) = material.findings.get(&machine.name) {
            let own = told.iter().filter(|finding| !finding.note);
            let own = own.map(|finding| ClassFinding {
                name: finding.name.clone(),
                title: finding.title.clone(),
                fix: finding.set.clone(),
            });
            findings.entry(place).or_insert_with(|| own.collect());
        }
    }
    class.findings = findings
        .get(&class.representative)
        .cloned()
        .unwrap_or_default();
    let usual: BTreeSet<&str> = class.findings.iter().map(|f| f.name.as_str()).collect();
    for (place, found) in &findings {
        let unusual = found
            .iter()
            .filter(|finding| !usual.contains(finding.name.as_str()));
        let deviations = unusual.map(|finding| Deviation {
            what: format!("doctor: {}", finding.name),
            value: finding.title.clone(),
            usual: "no such finding".to_owned(),
        });
        class.machines[*place].deviations.extend(deviations);
    }
    Ok(())
}

/// Doctor's findings, without notes.
fn examine_captured_machine(machine: &FleetMachine) -> Result<Vec<ClassFinding>, String> {
    let system = System::new(Root::at_directory(&machine.path));
    let calibration = machine.calibration.as_ref().and_then(|path| {
        Some(EarlierCalibration {
            machine: Machine::load(path).ok()?,
            file: path.display().to_string(),
            stale: Vec::new(),
        })
    });
    let report =
        examine_machine(&system, "", calibration.as_ref()).map_err(|error| with_causes(&error))?;
    let real = report.findings.into_iter().filter(|finding| !finding.note);
    Ok(real
        .map(|finding| ClassFinding {
            name: finding.name.to_owned(),
            title: finding.title,
            fix: finding.set.map(|set| set.to_string()),
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_dates_are_left_out_of_names() {
        for (name, expected) in [
            ("2026-11/web/01", "web/01"),
            ("web/2026-11-28T12:00/01", "web/01"),
            ("rack2001/01", "rack2001/01"),
            ("2001/01", "2001/01"),
            ("20261128", "20261128"),
        ] {
            assert_eq!(name_without_dates(name), expected, "{name}");
        }
    }
}
