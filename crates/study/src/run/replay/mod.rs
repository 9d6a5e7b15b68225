//! `--on replay`: each recording through the idle governors of all policy sets at once.
//!
//! A repeat is a block of time of the recording: all policies have the same blocks, so they are compared as pairs, and what
//! differs from block to block tells how sure a difference is. Governors keep what they know from block to block, so
//! the sums over all blocks are those of the recording.

mod recording;
mod rows;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use wakepath_results::{Machine, Run};
use wakepath_trace::recording::Metadata;

use super::{Backend, Order, Provenance};
use crate::file::StudyError;
use crate::plan::{Cell, Plan, PlannedMachine, Task};

pub use recording::{RECORDED, Replayed, Replaying, cannot_replay};

/// What a reader of the results has to know.
const NOTES: [&str; 2] = [
    "a run is a block of time of the recording; the load is as recorded and does not answer to the policies",
    "power is that of idle CPUs and of the package; what running CPUs draw is the same under every policy and left out",
];

/// The recordings of a plan.
pub struct Replay<'a> {
    plan: &'a Plan,
    recordings: Vec<Replaying<'a>>,
    /// What came of each, once it has been replayed.
    replayed: Vec<Mutex<Option<Arc<Replayed>>>>,
}

impl<'a> Replay<'a> {
    /// The recordings of a plan. Reads what they say about themselves.
    ///
    /// # Errors
    /// A recording cannot be read or has no idle states, or a policy cannot be replayed on it.
    pub fn new(plan: &'a Plan) -> Result<Self, StudyError> {
        let policies = plan.policies.iter().map(|p| (p.name.as_str(), &p.set));
        let policies: Vec<_> = policies.collect();
        let recordings = plan.workloads.iter().map(|workload| {
            let Task::Recording(recording) = &workload.task else {
                let message = format!("{}: it cannot be replayed", workload.name);
                return Err(StudyError::Settings(message));
            };
            Replaying::new(recording, plan.machines[0].model.as_ref(), &policies)
        });
        let recordings: Vec<_> = recordings.collect::<Result<_, _>>()?;
        Ok(Self {
            plan,
            replayed: recordings.iter().map(|_| Mutex::default()).collect(),
            recordings,
        })
    }

    /// The recording of a workload.
    pub fn recording(&self, workload: usize) -> Option<&Replaying<'a>> {
        self.recordings.get(workload)
    }

    /// Takes what has come of a workload's recording in as many blocks as the plan has repeats, so that it is not
    /// replayed again.
    pub fn keep(&self, workload: usize, replayed: Arc<Replayed>) {
        if let Some(kept) = self.replayed.get(workload) {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(replayed);
        }
    }

    /// What comes of a workload's recording, which is replayed once.
    fn replayed(
        &self,
        workload: usize,
        cancelled: &AtomicBool,
    ) -> Result<Arc<Replayed>, StudyError> {
        let mut kept = self.replayed[workload]
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(replayed) = &*kept {
            return Ok(Arc::clone(replayed));
        }
        let blocks = self.plan.repeats() as usize;
        let replayed = self.recordings[workload]
            .run(blocks, None, &mut |_| !cancelled.load(Ordering::Relaxed))?;
        Ok(Arc::clone(kept.insert(Arc::new(replayed))))
    }
}

impl Backend for Replay<'_> {
    /// All that can be known before it is replayed was found with the recording.
    fn check(&self, _: Cell) -> Result<(), StudyError> {
        Ok(())
    }

    fn order(&self) -> Order {
        Order::Parallel
    }

    fn provenance(&self) -> Result<Provenance, StudyError> {
        let mut notes: Vec<String> = NOTES.map(str::to_owned).to_vec();
        for (workload, recording) in self.plan.workloads.iter().zip(&self.recordings) {
            let warnings = recording.metadata().warnings.iter();
            notes.extend(
                warnings
                    .map(|w| format!("{}: {} ({}x): {}", workload.name, w.name, w.count, w.text)),
            );
        }
        let first = self.recordings.first();
        for (workload, recording) in self.plan.workloads.iter().zip(&self.recordings).skip(1) {
            let other = first.and_then(|f| f.metadata().conflict_with(recording.metadata()));
            notes.extend(other.map(|what| {
                format!(
                    "{}: a recording of another machine than the first one: {what}",
                    workload.name
                )
            }));
        }
        let planned = &self.plan.machines[0];
        let (machine, machine_file) = match (&planned.model, first) {
            (Some(model), _) => (planned.in_short(model), model.to_toml()?),
            (None, Some(first)) => (in_short(planned, first), described(first.metadata())?),
            (None, None) => {
                let message = format!("{}: no recording", self.plan.origin);
                return Err(StudyError::Settings(message));
            }
        };
        Ok(Provenance {
            tools: BTreeMap::from([("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned())]),
            machines: vec![machine],
            machine_files: vec![machine_file.into_bytes()],
            notes,
        })
    }

    fn estimate(&self, _: Duration) -> Result<Option<Duration>, StudyError> {
        Ok(None)
    }

    fn run(&self, cell: Cell, run: &mut Run, cancelled: &AtomicBool) -> Result<(), StudyError> {
        let replayed = self.replayed(cell.workload, cancelled)?;
        rows::fill(run, &replayed, cell.policy, cell.repeat as usize);
        Ok(())
    }
}

/// A machine of which only its recording is known.
fn in_short(planned: &PlannedMachine, recording: &Replaying<'_>) -> Machine {
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
    Machine {
        name: processor.to_owned(),
        source: planned.file.clone(),
        title: match metadata.cpus {
            0 => format!("{processor}, Linux {kernel}"),
            cpus => format!("{processor}, {cpus} CPUs, Linux {kernel}"),
        },
        cpu_kinds: recording.kinds(),
        idle_states: recording.states(),
        drive: drives.join(", "),
    }
}

/// What a recording says about its machine, as a file.
fn described(metadata: &Metadata) -> Result<String, StudyError> {
    let text = toml::Value::try_from(metadata).and_then(|value| toml::to_string(&value));
    text.map_err(|e| {
        StudyError::Settings(format!("what the recording says about its machine: {e}"))
    })
}
