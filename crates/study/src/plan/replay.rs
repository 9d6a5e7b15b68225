//! What a replay can have, and a replay without a study file.

use serde::Serialize;
use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_units::TickRate;

use super::planned::Plan;
use super::policy::PlannedPolicy;
use super::workload::Task;
use crate::file::{NamedSet, Names, RecordingName, StudyError, StudyFile, WorkloadEntry};

/// Policy name for the recorded choices.
pub const RECORDED: &str = "recorded";
/// Study name for a replay without a file.
const NAME: &str = "replay";

/// A request by `wakepath replay`: one recording under policy sets.
#[derive(Clone, Debug)]
pub struct ReplayRequest {
    /// Question answered by the replay.
    pub title: String,
    /// Machine with figures in place of the recording's.
    pub machine: Option<String>,
    /// Time blocks, used as repeats.
    pub blocks: u32,
    /// Sets to replay beside the recorded choices; named by themselves.
    pub sets: Vec<PolicySet>,
    /// Policy to compare with.
    pub baseline: String,
    /// The recording's name in the results.
    pub workload: String,
    /// The recording's path.
    pub recording: String,
    /// Path to a file with idle states.
    pub states: Option<String>,
    /// Tick rate, if the recording's own does not count.
    pub tick: Option<TickRate>,
    /// Governor that ran, if the recording's own name does not count.
    pub ran: Option<String>,
}

impl ReplayRequest {
    /// The request as a study file, without policies.
    pub(super) fn file(&self) -> StudyFile {
        let recording = RecordingName {
            path: self.recording.clone(),
            sha256: None,
        };
        let workload = WorkloadEntry {
            recording: Some(without_place(recording)),
            states: self.states.clone().map(without_place),
            hz: self.tick.map(|tick| without_place(u64::from(tick.hz()))),
            ran: self.ran.clone().map(without_place),
            ..WorkloadEntry::named(without_place(self.workload.clone()))
        };
        StudyFile {
            title: Some(self.title.clone()),
            machine: self
                .machine
                .clone()
                .map(|name| without_place(Names::One(name))),
            baseline: Some(without_place(self.baseline.clone())),
            workload: vec![workload],
            ..StudyFile::on_the_spot(NAME, 1, self.blocks)
        }
    }

    /// Recorded choices, and the sets.
    pub(super) fn policies(&self) -> Vec<NamedSet<'static>> {
        let recorded = NamedSet::outside(RECORDED.to_owned(), PolicySet::default());
        let sets = self
            .sets
            .iter()
            .map(|set| NamedSet::outside(set.to_string(), set.clone().with_fixed_versions()));
        std::iter::once(recorded).chain(sets).collect()
    }
}

/// A value without a place in a file.
fn without_place<T>(value: T) -> Spanned<T> {
    Spanned::new(0..0, value)
}

/// A replay in a study file's syntax.
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

/// A study file's text for a plan's replay.
///
/// # Errors
/// The plan has other workloads than recordings.
pub(super) fn replay_study_text(plan: &Plan) -> Result<String, StudyError> {
    let machine = plan.file.machine.as_ref().map(Spanned::get_ref);
    let written = WrittenReplay {
        name: plan.file.name.get_ref(),
        title: plan.title(),
        machine: machine.and_then(|names| names.texts().pop()),
        repeats: plan.repeats(),
        baseline: &plan.policies[plan.baseline].name,
        policy: plan.policies.iter().map(WrittenPolicy::new).collect(),
        workload: list_recordings(plan)?,
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
fn list_recordings(plan: &Plan) -> Result<Vec<WrittenRecording<'_>>, StudyError> {
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
