//! `--on replay`: each recording through all policy sets' idle governors at once.
//!
//! Repeats are time blocks. All policies share the blocks, so they are compared as pairs, and differences between blocks
//! tell the uncertainty. Governors keep their knowledge between blocks, so sums over blocks equal the whole recording.

mod foreign;
mod recording;
mod rows;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wakepath_policies::PolicySet;
use wakepath_results::{MachineInfo, RunRecord};
use wakepath_trace::recording::Metadata;
use wakepath_units::Nanoseconds;

use super::backend::{Backend, Order};
use crate::file::StudyError;
use crate::plan::{
    Cell, Plan, PlannedMachine, PlannedRecording, PlannedWorkload, Provenance, Task, hash_file,
};

pub use foreign::{doubt_by_few_recorded_cpus, evidence_for_other_machine};
pub use recording::{Replayed, Replaying};

/// Remarks for readers.
const NOTES: [&str; 3] = [
    "a run is a block of time of the recording; the load is as recorded and does not answer to the policies",
    "power is that of idle CPUs and of the package; what running CPUs draw is the same under every policy and left out",
    "a recording with fewer than 30 idle spans has no figures: too few idle periods",
];

/// The backend that replays a plan's recordings, each on each machine.
pub struct Replay<'a> {
    plan: &'a Plan,
    /// Recordings by index of machine and workload.
    recordings: BTreeMap<RecordingKey, OnMachine<'a>>,
    /// Whether figures are given for recordings with too few idle periods, too.
    with_sparse: bool,
}

/// Key of a recording on a machine: indices in the plan.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct RecordingKey {
    machine: usize,
    workload: usize,
}

impl RecordingKey {
    fn new(cell: Cell) -> Self {
        Self {
            machine: cell.machine,
            workload: cell.workload,
        }
    }
}

/// A recording with the figures of a machine.
struct OnMachine<'a> {
    replaying: Replaying<'a>,
    /// Outcome of the replay; `None` until replayed.
    replayed: Mutex<Option<Arc<Replayed>>>,
}

impl<'a> Replay<'a> {
    /// Opens the recordings of a plan.
    ///
    /// # Errors
    /// A recording has no idle states or another content than the plan wants, or a policy cannot be replayed on it.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        // A policy that does not run on this recording has an empty set in its place.
        let unchanged = PolicySet::default();
        let mut policies: BTreeMap<RecordingKey, Vec<(&str, &PolicySet)>> = BTreeMap::new();
        for cell in plan.cells_of_first_repeat() {
            let sets = policies.entry(RecordingKey::new(*cell)).or_insert_with(|| {
                let names = plan.policies.iter().map(|p| p.name.as_str());
                names.map(|name| (name, &unchanged)).collect()
            });
            sets[cell.policy].1 = &plan.policies[cell.policy].set;
        }
        let mut recordings = BTreeMap::new();
        for (key, policies) in policies {
            let recording = planned_recording(&plan.workloads[key.workload])?;
            let model = plan.machines[key.machine].model.as_ref();
            let on_machine = OnMachine {
                replaying: Replaying::new(recording, model, &policies)?,
                replayed: Mutex::default(),
            };
            recordings.insert(key, on_machine);
        }
        for workload in &plan.workloads {
            planned_recording(workload)?.check_sha256_if_demanded()?;
        }
        Ok(Self {
            plan,
            recordings,
            with_sparse: false,
        })
    }

    /// The backend that gives figures even for recordings with too few idle periods. Callers must warn readers.
    #[must_use]
    pub fn with_sparse_figures(self) -> Self {
        Self {
            with_sparse: true,
            ..self
        }
    }

    /// Replaces the exits of idle states, by index, for wake-ups on all machines. Governors still know the declared latencies.
    #[must_use]
    pub fn with_exits(mut self, exits: &BTreeMap<u8, Nanoseconds>) -> Self {
        for on_machine in self.recordings.values_mut() {
            on_machine.replaying.replace_exits(exits);
        }
        self
    }

    /// Finds the recording of a workload with the figures of a machine; both are indices in the plan.
    pub fn find_recording(&self, machine: usize, workload: usize) -> Option<&Replaying<'a>> {
        let found = self.recordings.get(&RecordingKey { machine, workload });
        found.map(|on_machine| &on_machine.replaying)
    }

    /// Keeps the outcome of a replay that the caller made, in as many blocks as the plan has repeats.
    pub fn keep_outcome_of_replay(&self, machine: usize, workload: usize, replayed: Arc<Replayed>) {
        if let Some(kept) = self.recordings.get(&RecordingKey { machine, workload }) {
            *kept.replayed.lock().unwrap_or_else(PoisonError::into_inner) = Some(replayed);
        }
    }

    /// The outcome for a cell's recording, which is replayed at most once.
    fn replay_recording_once(
        &self,
        cell: Cell,
        cancelled: &AtomicBool,
    ) -> Result<Arc<Replayed>, StudyError> {
        let Some(found) = self.recordings.get(&RecordingKey::new(cell)) else {
            return Err(self.missing_recording_error());
        };
        let mut kept = found
            .replayed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(replayed) = &*kept {
            return Ok(Arc::clone(replayed));
        }
        let blocks = self.plan.repeats() as usize;
        let go_on = &mut |_| !cancelled.load(Ordering::Relaxed);
        let replayed = found.replaying.replay_in_blocks(blocks, None, go_on)?;
        Ok(Arc::clone(kept.insert(Arc::new(replayed))))
    }

    fn missing_recording_error(&self) -> StudyError {
        StudyError::Settings(format!("{}: no recording", self.plan.origin))
    }

    /// A machine's description for the results, and the content of its file.
    fn describe_machine(&self, machine: usize) -> Result<(MachineInfo, String), StudyError> {
        let planned = &self.plan.machines[machine];
        if let Some(model) = &planned.model {
            return Ok((planned.describe_model(model), model.to_toml()?));
        }
        let mut on_it = self
            .recordings
            .range(
                RecordingKey {
                    machine,
                    workload: 0,
                }..,
            )
            .take_while(|(key, _)| key.machine == machine);
        let (_, first) = on_it.next().ok_or_else(|| self.missing_recording_error())?;
        let metadata = first.replaying.recorded_metadata();
        Ok((
            describe_recorded_machine(planned, &first.replaying),
            print_recorded_machine(metadata)?,
        ))
    }

    /// Notes on recordings that come from another machine than the first recording, although all get the same figures.
    fn list_recordings_unlike_first(&self) -> impl Iterator<Item = String> {
        let known = self.plan.machines.iter().any(|m| m.model.is_some());
        let mut all = self
            .plan
            .workloads
            .iter()
            .filter_map(|w: &'a PlannedWorkload| Some((w, planned_recording(w).ok()?)));
        let first = all.next().filter(|_| known);
        all.filter_map(move |(workload, recording)| {
            let what = first?
                .1
                .metadata
                .machine_conflict_with(&recording.metadata)?;
            Some(format!(
                "{}: a recording of another machine than the first one: {what}",
                workload.name
            ))
        })
    }
}

impl Replay<'_> {
    /// Notes on recordings that evidently come from another machine than the machine whose figures they get.
    fn list_recordings_with_figures_of_other_machine(&self) -> Vec<String> {
        let on_machines = self.recordings.iter();
        let found = on_machines.filter_map(|(RecordingKey { machine, workload }, recording)| {
            let machine = &self.plan.machines[*machine];
            let metadata = recording.replaying.recorded_metadata();
            let workload = &self.plan.workloads[*workload].name;
            let model = machine.model.as_ref()?;
            if let Some(doubt) = doubt_by_few_recorded_cpus(metadata, model) {
                return Some(format!("{workload}: about the recording: {doubt}"));
            }
            let what = evidence_for_other_machine(metadata, model)?;
            Some(format!(
                "{workload}: the recording is of another machine than {}: {what}",
                machine.name
            ))
        });
        found.collect()
    }
}

fn planned_recording(workload: &PlannedWorkload) -> Result<&PlannedRecording, StudyError> {
    match &workload.task {
        Task::Recording(recording) => Ok(recording),
        _ => Err(StudyError::Settings(format!(
            "{}: it cannot be replayed",
            workload.name
        ))),
    }
}

impl Backend for Replay<'_> {
    /// All checks were made when the recordings were opened.
    fn check_cell(&self, _: Cell) -> Result<(), StudyError> {
        Ok(())
    }

    fn run_order(&self) -> Order {
        Order::Parallel
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        let mut notes: Vec<String> = NOTES.map(str::to_owned).to_vec();
        notes.extend(self.list_recording_warnings()?);
        notes.extend(self.list_recordings_unlike_first());
        notes.extend(self.list_recordings_with_figures_of_other_machine());
        let described: Vec<(MachineInfo, String)> = (0..self.plan.machines.len())
            .map(|machine| self.describe_machine(machine))
            .collect::<Result<_, _>>()?;
        let (machines, files): (_, Vec<String>) = described.into_iter().unzip();
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machines,
            machine_files: files.into_iter().map(String::into_bytes).collect(),
            notes,
        })
    }

    fn hash_files_named_without_copy(&self) -> Result<BTreeMap<String, String>, StudyError> {
        let mut all = BTreeMap::new();
        for workload in &self.plan.workloads {
            for path in planned_recording(workload)?.recording_and_states_paths() {
                if let Entry::Vacant(new) = all.entry(path.display().to_string()) {
                    new.insert(hash_file(path)?);
                }
            }
        }
        Ok(all)
    }

    fn estimate_duration(&self, _: Duration) -> Result<Option<Duration>, StudyError> {
        Ok(None)
    }

    fn run_cell(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let replayed = self.replay_recording_once(cell, cancelled)?;
        let repeat = cell.repeat as usize;
        rows::fill_replayed_run(run, &replayed, cell.policy, repeat);
        if replayed.report.has_too_few_spans() && !self.with_sparse {
            run.metrics.clear();
        }
        Ok(())
    }
}

impl Replay<'_> {
    /// Warnings about recordings, each once with the names of its workloads.
    fn list_recording_warnings(&self) -> Result<Vec<String>, StudyError> {
        // Total count and workloads, by the warning's text.
        let mut all: Vec<(&str, &str, u64, Vec<&str>)> = Vec::new();
        for workload in &self.plan.workloads {
            for warning in &planned_recording(workload)?.metadata.warnings {
                let (name, text) = (warning.name.as_str(), warning.text.as_str());
                match all.iter_mut().find(|w| (w.0, w.1) == (name, text)) {
                    Some((.., count, workloads)) => {
                        *count += warning.count;
                        workloads.push(&workload.name);
                    }
                    None => all.push((name, text, warning.count, vec![&workload.name])),
                }
            }
        }
        Ok(all
            .into_iter()
            .map(
                |(name, text, count, workloads): (&str, &str, u64, Vec<&str>)| {
                    format!(
                        "{}: {name} ({count}x): {text}",
                        join_first_names(&workloads)
                    )
                },
            )
            .collect())
    }
}

/// Most names at the beginning of a note.
const NAMED: usize = 3;

/// Joins names with commas: all, or the first few and how many more.
fn join_first_names(names: &[&str]) -> String {
    match names {
        few if few.len() <= NAMED => few.join(", "),
        many => format!(
            "{} and {} more",
            many[..NAMED].join(", "),
            many.len() - NAMED
        ),
    }
}

/// Describes a machine that is known only from its recording.
fn describe_recorded_machine(planned: &PlannedMachine, recording: &Replaying<'_>) -> MachineInfo {
    let metadata = recording.recorded_metadata();
    let processor = metadata
        .processor
        .as_deref()
        .unwrap_or("a recorded machine");
    let kernel = metadata
        .kernel
        .as_deref()
        .unwrap_or("of an unknown release");
    let drives: Vec<&str> = metadata.devices.iter().map(|d| d.name.as_str()).collect();
    MachineInfo {
        name: planned.name.clone(),
        source: planned.file.clone(),
        title: match metadata.cpus {
            0 => format!("{processor}, Linux {kernel}"),
            cpus => format!("{processor}, {cpus} CPUs, Linux {kernel}"),
        },
        cpu_kinds: recording.list_cpu_groups(),
        idle_states: recording.list_state_names(),
        drive: drives.join(", "),
        host: None,
        power_scope: String::new(),
    }
}

/// Writes what a recording says about its machine as a machine file.
fn print_recorded_machine(metadata: &Metadata) -> Result<String, StudyError> {
    let text = toml::Value::try_from(metadata).and_then(|value| toml::to_string(&value));
    text.map_err(|e| {
        StudyError::Settings(format!("what the recording says about its machine: {e}"))
    })
}
