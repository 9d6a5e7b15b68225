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

use super::backend::{Backend, Order};
use crate::file::StudyError;
use crate::plan::{
    Cell, Plan, PlannedMachine, PlannedRecording, PlannedWorkload, Provenance, Task, sha256_of,
};

pub use foreign::{doubtful_machine, other_machine};
pub use recording::{Replayed, Replaying};

/// Remarks for readers.
const NOTES: [&str; 3] = [
    "a run is a block of time of the recording; the load is as recorded and does not answer to the policies",
    "power is that of idle CPUs and of the package; what running CPUs draw is the same under every policy and left out",
    "a recording with fewer than 30 idle spans has no figures: too few idle periods",
];

/// A plan's recordings, each on each machine.
pub struct Replay<'a> {
    plan: &'a Plan,
    /// By machine and workload.
    recordings: BTreeMap<RecordingKey, OnMachine<'a>>,
    /// Recordings with too few idle periods have figures, too.
    with_sparse: bool,
}

/// A recording and the machine with its figures: indices in the plan.
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

/// A recording with a machine's figures.
struct OnMachine<'a> {
    replaying: Replaying<'a>,
    /// Outcome, after the replay.
    replayed: Mutex<Option<Arc<Replayed>>>,
}

impl<'a> Replay<'a> {
    /// The recordings of a plan.
    ///
    /// # Errors
    /// A recording has no idle states or another content than the plan wants, or a policy cannot be replayed on it.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        // Placeholder for policies without this recording.
        let unchanged = PolicySet::default();
        let mut policies: BTreeMap<RecordingKey, Vec<(&str, &PolicySet)>> = BTreeMap::new();
        for cell in plan.cells() {
            let sets = policies.entry(RecordingKey::new(*cell)).or_insert_with(|| {
                let names = plan.policies.iter().map(|p| p.name.as_str());
                names.map(|name| (name, &unchanged)).collect()
            });
            sets[cell.policy].1 = &plan.policies[cell.policy].set;
        }
        let mut recordings = BTreeMap::new();
        for (key, policies) in policies {
            let recording = recording_of(&plan.workloads[key.workload])?;
            let model = plan.machines[key.machine].model.as_ref();
            let on_machine = OnMachine {
                replaying: Replaying::new(recording, model, &policies)?,
                replayed: Mutex::default(),
            };
            recordings.insert(key, on_machine);
        }
        for workload in &plan.workloads {
            recording_of(workload)?.check_content()?;
        }
        Ok(Self {
            plan,
            recordings,
            with_sparse: false,
        })
    }

    /// Gives figures even for recordings with too few idle periods. Callers must warn readers.
    #[must_use]
    pub fn with_sparse_figures(self) -> Self {
        Self {
            with_sparse: true,
            ..self
        }
    }

    /// A workload's recording with a machine's figures.
    pub fn recording(&self, machine: usize, workload: usize) -> Option<&Replaying<'a>> {
        let found = self.recordings.get(&RecordingKey { machine, workload });
        found.map(|on_machine| &on_machine.replaying)
    }

    /// Keeps the outcome for a workload on a machine, replayed in as many blocks as the plan has repeats.
    pub fn keep(&self, machine: usize, workload: usize, replayed: Arc<Replayed>) {
        if let Some(kept) = self.recordings.get(&RecordingKey { machine, workload }) {
            *kept.replayed.lock().unwrap_or_else(PoisonError::into_inner) = Some(replayed);
        }
    }

    /// A cell's outcome; each recording is replayed once.
    fn replayed(&self, cell: Cell, cancelled: &AtomicBool) -> Result<Arc<Replayed>, StudyError> {
        let Some(found) = self.recordings.get(&RecordingKey::new(cell)) else {
            return Err(self.no_recording());
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
        let replayed = found.replaying.run(blocks, None, go_on)?;
        Ok(Arc::clone(kept.insert(Arc::new(replayed))))
    }

    fn no_recording(&self) -> StudyError {
        StudyError::Settings(format!("{}: no recording", self.plan.origin))
    }

    /// A machine's description, and its file.
    fn described(&self, machine: usize) -> Result<(MachineInfo, String), StudyError> {
        let planned = &self.plan.machines[machine];
        if let Some(model) = &planned.model {
            return Ok((planned.in_short(model), model.to_toml()?));
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
        let (_, first) = on_it.next().ok_or_else(|| self.no_recording())?;
        let metadata = first.replaying.metadata();
        Ok((
            in_short(planned, &first.replaying),
            describe_recording(metadata)?,
        ))
    }

    /// Recordings that were made on another machine than the first, and are replayed with the same figures.
    fn other_machines(&self) -> impl Iterator<Item = String> {
        let known = self.plan.machines.iter().any(|m| m.model.is_some());
        let mut all = self
            .plan
            .workloads
            .iter()
            .filter_map(|w: &'a PlannedWorkload| Some((w, recording_of(w).ok()?)));
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
    /// Recordings with figures from an evidently different machine.
    fn foreign_figures(&self) -> Vec<String> {
        let on_machines = self.recordings.iter();
        let found = on_machines.filter_map(|(RecordingKey { machine, workload }, recording)| {
            let machine = &self.plan.machines[*machine];
            let metadata = recording.replaying.metadata();
            let workload = &self.plan.workloads[*workload].name;
            let model = machine.model.as_ref()?;
            if let Some(doubt) = doubtful_machine(metadata, model) {
                return Some(format!("{workload}: about the recording: {doubt}"));
            }
            let what = other_machine(metadata, model)?;
            Some(format!(
                "{workload}: the recording is of another machine than {}: {what}",
                machine.name
            ))
        });
        found.collect()
    }
}

fn recording_of(workload: &PlannedWorkload) -> Result<&PlannedRecording, StudyError> {
    match &workload.task {
        Task::Recording(recording) => Ok(recording),
        _ => Err(StudyError::Settings(format!(
            "{}: it cannot be replayed",
            workload.name
        ))),
    }
}

impl Backend for Replay<'_> {
    /// All checks were made when finding the recording.
    fn check(&self, _: Cell) -> Result<(), StudyError> {
        Ok(())
    }

    fn order(&self) -> Order {
        Order::Parallel
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        let mut notes: Vec<String> = NOTES.map(str::to_owned).to_vec();
        notes.extend(self.warnings()?);
        notes.extend(self.other_machines());
        notes.extend(self.foreign_figures());
        let described: Vec<(MachineInfo, String)> = (0..self.plan.machines.len())
            .map(|machine| self.described(machine))
            .collect::<Result<_, _>>()?;
        let (machines, files): (_, Vec<String>) = described.into_iter().unzip();
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machines,
            machine_files: files.into_iter().map(String::into_bytes).collect(),
            notes,
        })
    }

    fn sha256(&self) -> Result<BTreeMap<String, String>, StudyError> {
        let mut all = BTreeMap::new();
        for workload in &self.plan.workloads {
            for path in recording_of(workload)?.files() {
                if let Entry::Vacant(new) = all.entry(path.display().to_string()) {
                    new.insert(sha256_of(path)?);
                }
            }
        }
        Ok(all)
    }

    fn estimate(&self, _: Duration) -> Result<Option<Duration>, StudyError> {
        Ok(None)
    }

    fn run(
        &self,
        cell: Cell,
        run: &mut RunRecord,
        cancelled: &AtomicBool,
    ) -> Result<(), StudyError> {
        let replayed = self.replayed(cell, cancelled)?;
        let repeat = cell.repeat as usize;
        rows::fill_replayed_run(run, &replayed, cell.policy, repeat);
        if replayed.report.is_sparse() && !self.with_sparse {
            run.metrics.clear();
        }
        Ok(())
    }
}

impl Replay<'_> {
    /// Warnings about recordings, each once with its workloads.
    fn warnings(&self) -> Result<Vec<String>, StudyError> {
        // By text: total count, and workloads.
        let mut all: Vec<(&str, &str, u64, Vec<&str>)> = Vec::new();
        for workload in &self.plan.workloads {
            for warning in &recording_of(workload)?.metadata.warnings {
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
                    format!("{}: {name} ({count}x): {text}", first_of(&workloads))
                },
            )
            .collect())
    }
}

/// Most names at the beginning of a note.
const NAMED: usize = 3;

/// Names, or the first few and the number left.
fn first_of(names: &[&str]) -> String {
    match names {
        few if few.len() <= NAMED => few.join(", "),
        many => format!(
            "{} and {} more",
            many[..NAMED].join(", "),
            many.len() - NAMED
        ),
    }
}

/// A machine known from its recording only.
fn in_short(planned: &PlannedMachine, recording: &Replaying<'_>) -> MachineInfo {
    let metadata = recording.metadata();
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
        cpu_kinds: recording.kinds(),
        idle_states: recording.states(),
        drive: drives.join(", "),
        host: None,
        power_scope: String::new(),
    }
}

/// A recording's statement about its machine, as a file.
fn describe_recording(metadata: &Metadata) -> Result<String, StudyError> {
    let text = toml::Value::try_from(metadata).and_then(|value| toml::to_string(&value));
    text.map_err(|e| {
        StudyError::Settings(format!("what the recording says about its machine: {e}"))
    })
}
