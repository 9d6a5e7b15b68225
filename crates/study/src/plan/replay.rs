//! A replay without a study file: its request, and the study file that results keep.

use serde::Serialize;
use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_units::TickRate;

use super::planned::Plan;
use super::policy::PlannedPolicy;
use super::workload::Task;
use crate::file::{NamedSet, Names, RecordingName, StudyError, StudyFile, WorkloadEntry};

/// Name of the policy for the recorded choices.
pub const RECORDED: &str = "recorded";
/// Name of the study for a replay without a file.
const NAME: &str = "replay";

/// What `wakepath replay` asks for: one recording under policy sets.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// The question that the replay answers, as title.
    pub title: String,
    /// Name of the machine whose figures replace the recording's.
    pub machine: Option<String>,
    /// Number of time blocks, which count as repeats.
    pub blocks: u32,
    /// Policy sets to replay beside the recorded choices; each set's text is its name.
    pub sets: Vec<PolicySet>,
    /// Name of the policy to compare with.
    pub baseline: String,
    /// Name of the recording in the results.
    pub workload: String,
    /// The recording's path.
    pub recording: String,
    /// Path to a file with idle states in place of the recorded states.
    pub states: Option<String>,
    /// Tick rate in place of the recording's own.
    pub tick: Option<TickRate>,
    /// Name of the governor that ran, in place of the recorded name.
    pub ran: Option<String>,
}

impl ReplayRequest {
    /// A request to replay a recording as it was taken, compared with the recorded choices.
    pub fn for_recording_as_taken(
        title: &str,
        recording: &str,
        sets: Vec<PolicySet>,
        blocks: u32,
    ) -> Self {
        Self {
            title: title.to_owned(),
            machine: None,
            blocks,
            sets,
            baseline: RECORDED.to_owned(),
            workload: "recording".to_owned(),
            recording: recording.to_owned(),
            states: None,
            tick: None,
            ran: None,
        }
    }

    /// Makes a study file from the request, without policies.
    pub(super) fn make_study_file(&self) -> StudyFile {
        let recording = RecordingName {
            path: self.recording.clone(),
            sha256: None,
        };
        let workload = WorkloadEntry {
            recording: Some(without_place(recording)),
            states: self.states.clone().map(without_place),
            hz: self.tick.map(|tick| without_place(u64::from(tick.hz()))),
            ran: self.ran.clone().map(without_place),
            ..WorkloadEntry::with_name_only(without_place(self.workload.clone()))
        };
        StudyFile {
            title: Some(self.title.clone()),
            machine: self
                .machine
                .clone()
                .map(|name| without_place(Names::One(name))),
            baseline: Some(without_place(self.baseline.clone())),
            workload: vec![workload],
            ..StudyFile::without_file(NAME, 1, self.blocks)
        }
    }

    /// The policies to replay: the recorded choices first, then the sets.
    pub(super) fn list_named_sets(&self) -> Vec<NamedSet<'static>> {
        let recorded = NamedSet::without_place(RECORDED.to_owned(), PolicySet::default());
        let sets = self
            .sets
            .iter()
            .map(|set| NamedSet::without_place(set.to_string(), set.clone().with_fixed_versions()));
        std::iter::once(recorded).chain(sets).collect()
    }
}

/// Wraps a value that has no place in a study file.
fn without_place<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// The replay as the study file that results keep.
#[derive(Serialize)]
struct WrittenReplay<'a> {
    name: &'a str,
    title: &'a str,
    machine: Option<String>,
    repeats: u32,
    baseline: &'a str,
    policy: Vec<WrittenPolicy<'a>>,
    workload: Vec<WrittenRecording<'a>>,
}

/// `[[policy]]`.
#[derive(Serialize)]
struct WrittenPolicy<'a> {
    name: &'a str,
    set: String,
}

/// `[[workload]]`.
#[derive(Serialize)]
struct WrittenRecording<'a> {
    name: &'a str,
    recording: &'a str,
    states: Option<&'a str>,
    hz: Option<u64>,
    ran: Option<&'a str>,
}

/// Writes a replay's plan as the text of a study file.
///
/// # Errors
/// The plan has other workloads than recordings.
pub(super) fn print_replay_plan_as_study(plan: &Plan) -> Result<String, StudyError> {
    let machine = plan.file.machine.as_ref().map(Spanned::get_ref);
    let written = WrittenReplay {
        name: plan.file.name.get_ref(),
        title: plan.title(),
        machine: machine.and_then(|names| names.listed_names().pop()),
        repeats: plan.repeats(),
        baseline: &plan.policies[plan.baseline].name,
        policy: plan.policies.iter().map(WrittenPolicy::new).collect(),
        workload: list_recordings_for_study_text(plan)?,
    };
    toml::to_string(&written).map_err(|e| StudyError::Settings(format!("{}: {e}", plan.origin)))
}

impl<'a> WrittenPolicy<'a> {
    fn new(policy: &'a PlannedPolicy) -> Self {
        let is_empty = policy.set.is_empty();
        Self {
            name: &policy.name,
            set: if is_empty {
                String::new()
            } else {
                policy.set.to_string()
            },
        }
    }
}

/// A plan's recordings.
fn list_recordings_for_study_text(plan: &Plan) -> Result<Vec<WrittenRecording<'_>>, StudyError> {
    let entries = plan.workloads.iter().map(|workload| {
        let entry = plan.file.workload.get(workload.entry);
        match (entry, &workload.task) {
            (Some(entry), Task::Recording(_)) => Some(entry),
            _ => None,
        }
    });
    let written = entries.map(|entry| {
        let entry = entry?;
        Some(WrittenRecording {
            name: entry.name.get_ref(),
            recording: &entry.recording.as_ref()?.get_ref().path,
            states: entry.states.as_ref().map(|path| path.get_ref().as_str()),
            hz: entry.hz.as_ref().map(|hz| *hz.get_ref()),
            ran: entry.ran.as_ref().map(|name| name.get_ref().as_str()),
        })
    });
    written.collect::<Option<Vec<_>>>().ok_or_else(|| {
        let message = "a study made without a file is kept as a file only if it replays recordings";
        StudyError::Settings(format!("{}: {message}", plan.origin))
    })
}
