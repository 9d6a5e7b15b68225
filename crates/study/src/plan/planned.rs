//! The plan of a study: machines, workloads, policies, and the list of runs.

use std::collections::BTreeMap;

use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_results::document::{SCHEMA, VERSION};
use wakepath_results::question::is_among;
use wakepath_results::{
    Design, Document, Metric, PolicyInfo, Question, RunKey, RunOrigin, StudyInfo,
};
use wakepath_workloads::Workload;

use super::cell::Cell;
use super::machine::PlannedMachine;
use super::policy::PlannedPolicy;
use super::provenance::Provenance;
use super::published::tables::{Expectation, Table};
use super::workload::PlannedWorkload;
use crate::file::{StudyError, StudyFile};

/// A study, ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the study file.
    pub origin: String,
    /// Text of its file; absent for a study made without one.
    pub file_text: Option<String>,
    /// What it says.
    pub file: StudyFile,
    /// On what it runs.
    pub target: RunOrigin,
    /// On what it is run; at least one.
    pub machines: Vec<PlannedMachine>,
    /// What is run.
    pub workloads: Vec<PlannedWorkload>,
    /// What is compared.
    pub policies: Vec<PlannedPolicy>,
    /// Which policy the others are compared with.
    pub baseline: usize,
    /// What is asked.
    pub questions: Vec<Question>,
    /// The dictionary, and what the study adds to it.
    pub metrics: Vec<Metric>,
    /// What was published of a simulation.
    pub tables: Vec<Table>,
    /// What is expected of it.
    pub expectations: Vec<Expectation>,
    /// Policy sets beside those of the file.
    pub(super) more: Vec<PolicySet>,
    /// Code that the file has run, and the caller has not named.
    pub(super) foreign: Vec<String>,
    /// Whether the user has said that such code may run.
    pub(super) allow_programs: bool,
    /// What is run in each repeat.
    pub(super) cells: Vec<Cell>,
}

impl Plan {
    /// Makes the cells.
    pub(super) fn combine(&mut self) {
        for (machine, on) in self.machines.iter().enumerate() {
            for (workload, of) in self.workloads.iter().enumerate() {
                for (policy, under) in self.policies.iter().enumerate() {
                    if is_among(&of.machines, &on.name) && is_among(&of.policies, &under.name) {
                        self.cells.push(Cell {
                            machine,
                            workload,
                            policy,
                            repeat: 0,
                        });
                    }
                }
            }
        }
    }

    /// Whether it runs nothing of somebody else, or the user has said that it may.
    ///
    /// # Errors
    /// The file names code to run, and the user has not allowed it.
    pub fn may_run(&self) -> Result<(), StudyError> {
        if self.allow_programs || self.foreign.is_empty() {
            return Ok(());
        }
        Err(StudyError::Settings(format!(
            "{}: this study runs code that its file names: {}. It is confined as far as this kernel can \
             (docs/own-governor.md). Look at it first; --allow-programs runs it",
            self.origin,
            self.foreign.join(", ")
        )))
    }

    /// What it is about.
    pub fn title(&self) -> &str {
        let title = self.file.title.as_deref();
        title.unwrap_or(self.file.name.get_ref())
    }

    /// The names of a machine and of its drive: of several drives those that the file gives them.
    pub fn machine_and_drive(&self, machine: usize) -> (&str, &str) {
        let of = &self.machines[machine];
        let drive = of.model.as_ref().map_or("", |model| &model.drive.name);
        of.name.split_once('/').unwrap_or((&of.name, drive))
    }

    /// Whether drives of the same machine are compared.
    pub fn compares_drives(&self) -> bool {
        let name = |index: usize| self.machine_and_drive(index).0;
        (1..self.machines.len()).any(|index| (0..index).any(|before| name(before) == name(index)))
    }

    /// The policies for the results, with the versions that run.
    pub fn described_policies(&self) -> Vec<PolicyInfo> {
        let policies = self.policies.iter();
        policies
            .map(|policy| policy.described(&self.machines, self.target))
            .collect()
    }

    /// What a reader of the study should know of it: how its drives were found, and policies that are the same by several
    /// names.
    pub fn notes(&self) -> Vec<String> {
        let models = self.machines.iter().filter_map(|m| m.model.as_ref());
        let mut notes: Vec<String> = models.filter_map(|m| m.drive.note.clone()).collect();
        notes.sort();
        notes.dedup();
        for workload in &self.workloads {
            let Some(Workload::Fio(file)) = workload.workload() else {
                continue;
            };
            notes.extend(file.jobs_that_mostly_pause().map(|job| {
                format!(
                    "workload `{}`: job `{}` pauses for as long as it runs: it has no warm-up, and counts from its first request",
                    workload.name, job.name
                )
            }));
        }
        for (index, policy) in self.policies.iter().enumerate() {
            let mut before = self.policies[..index].iter();
            if let Some(first) = before.find(|earlier| earlier.is_same_on(&self.machines, policy)) {
                notes.push(format!(
                    "policies `{}` and `{}` have the same settings",
                    first.name, policy.name
                ));
            }
        }
        notes
    }

    /// Has other repeats, or another first seed, than the file says.
    pub fn repeat(&mut self, repeats: Option<u32>, seed: Option<u64>) {
        if let Some(repeats) = repeats {
            self.file.repeats = Spanned::new(self.file.repeats.span(), repeats);
        }
        self.file.seed = seed.unwrap_or(self.file.seed);
    }

    /// Runs of each workload under each policy.
    pub fn repeats(&self) -> u32 {
        *self.file.repeats.get_ref()
    }

    /// All runs.
    pub fn runs(&self) -> usize {
        self.cells.len() * self.repeats() as usize
    }

    /// What is run in each repeat, as it is in the first.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The run of this index. Runs are numbered through repeats, machines, workloads and policies in this order, so that
    /// more repeats change no number.
    pub fn cell(&self, index: usize) -> Cell {
        Cell {
            repeat: (index / self.cells.len()) as u32,
            ..self.cells[index % self.cells.len()]
        }
    }

    /// The key of the run of this index.
    pub fn key(&self, index: usize) -> RunKey {
        self.key_of(self.cell(index))
    }

    pub(super) fn key_of(&self, cell: Cell) -> RunKey {
        RunKey {
            machine: self.machines[cell.machine].name.clone(),
            workload: self.workloads[cell.workload].name.clone(),
            policy: self.policies[cell.policy].name.clone(),
            repeat: cell.repeat,
        }
    }

    /// The seed of a repeat, which all policies share.
    pub fn seed(&self, repeat: u32) -> u64 {
        self.file.seed.wrapping_add(u64::from(repeat))
    }

    /// What `result.json` says.
    pub fn document(&self, from: Provenance) -> Document {
        let name = self.file.name.get_ref().clone();
        Document {
            schema: SCHEMA.to_owned(),
            version: VERSION,
            complete: false,
            shard: None,
            study: StudyInfo {
                title: self.title().to_owned(),
                name,
            },
            backend: self.target,
            tools: from.tools,
            machines: from.machines,
            workloads: self
                .workloads
                .iter()
                .map(PlannedWorkload::described)
                .collect(),
            policies: self.described_policies(),
            sha256: BTreeMap::new(),
            baseline: self.policies[self.baseline].name.clone(),
            repeats: self.repeats(),
            design: Design::Paired,
            seeds: match self.target {
                RunOrigin::Sim => (0..self.repeats()).map(|r| self.seed(r)).collect(),
                RunOrigin::Replay => Vec::new(),
                _ => vec![self.file.seed],
            },
            questions: self.questions.clone(),
            metrics: self.metrics.clone(),
            level: *self.file.level.get_ref(),
            margin_percent: *self.file.margin_percent.get_ref(),
            notes: from.notes,
        }
    }
}
