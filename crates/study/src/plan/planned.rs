//! A plan: machines, workloads, policies, and the list with runs.

use std::collections::{BTreeMap, BTreeSet};

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
    /// Study file's name.
    pub origin: String,
    /// Study file's text; absent for a study without a file.
    pub file_text: Option<String>,
    /// Study file's keys.
    pub file: StudyFile,
    /// Simulator, machine or recordings.
    pub target: RunOrigin,
    /// Machines; at least one.
    pub machines: Vec<PlannedMachine>,
    /// Workloads.
    pub workloads: Vec<PlannedWorkload>,
    /// Policies.
    pub policies: Vec<PlannedPolicy>,
    /// Index of the policy to compare with.
    pub baseline: usize,
    /// Questions.
    pub questions: Vec<Question>,
    /// Metrics: the dictionary's and the study's own.
    pub metrics: Vec<Metric>,
    /// Published tables for a simulation.
    pub tables: Vec<Table>,
    /// Expectations about published tables.
    pub expectations: Vec<Expectation>,
    /// Policy sets beside the file's.
    pub(super) more: Vec<PolicySet>,
    /// Code that the file has run, and the caller has not named.
    pub(super) foreign: Vec<String>,
    /// Whether the user has said that such code may run.
    pub(super) allow_programs: bool,
    /// Runs in each repeat.
    pub(super) cells: Vec<Cell>,
}

impl Plan {
    /// Makes the cells.
    pub(super) fn combine(&mut self) {
        for (machine, on) in self.machines.iter().enumerate() {
            for (workload, planned) in self.workloads.iter().enumerate() {
                for (policy, under) in self.policies.iter().enumerate() {
                    if is_among(&planned.machines, &on.name)
                        && is_among(&planned.policies, &under.name)
                    {
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

    /// Whether no foreign code runs, or the user has allowed foreign code.
    ///
    /// # Errors
    /// The file names code to run, and the user has not allowed it.
    pub fn may_run(&self) -> Result<(), StudyError> {
        if self.allow_programs || self.foreign.is_empty() {
            return Ok(());
        }
        Err(StudyError::Settings(format!(
            "{}: this study runs code that its file names: {}. It is confined as far as this kernel can \
             (docs/guides/own-governor.md). Look at it first; --allow-programs runs it",
            self.origin,
            self.foreign.join(", ")
        )))
    }

    /// Title, or else the name.
    pub fn title(&self) -> &str {
        let title = self.file.title.as_deref();
        title.unwrap_or(self.file.name.get_ref())
    }

    /// Names for a machine and its drive; with several drives, as in the file.
    pub fn machine_and_drive(&self, machine: usize) -> (&str, &str) {
        let planned = &self.machines[machine];
        let drive = planned.model.as_ref();
        let drive = drive.map_or("", |model| &model.drive.name);
        planned
            .name
            .split_once('/')
            .unwrap_or((&planned.name, drive))
    }

    /// Whether one machine's drives are compared.
    pub fn compares_drives(&self) -> bool {
        let machines = 0..self.machines.len();
        let mut names = machines.map(|machine| self.machine_and_drive(machine).0);
        let mut known = BTreeSet::new();
        !names.all(|name| known.insert(name))
    }

    /// The policies for the results, with the versions that run.
    pub fn described_policies(&self) -> Vec<PolicyInfo> {
        let policies = self.policies.iter();
        policies
            .map(|policy| policy.described(&self.machines, self.target))
            .collect()
    }

    /// Remarks for readers: how drives were found, and equal policies with several names.
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

    /// Runs for each workload under each policy.
    pub fn repeats(&self) -> u32 {
        *self.file.repeats.get_ref()
    }

    /// All runs.
    pub fn runs(&self) -> usize {
        self.cells.len() * self.repeats() as usize
    }

    /// Runs in each repeat, as in the first.
    pub fn cells(&self) -> &[Cell] {
        &self.cells
    }

    /// The run with an index. Runs count through repeats, machines, workloads and policies in this order, so more repeats
    /// change no number.
    pub fn cell(&self, index: usize) -> Cell {
        Cell {
            repeat: (index / self.cells.len()) as u32,
            ..self.cells[index % self.cells.len()]
        }
    }

    /// A run's key by index.
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

    /// A repeat's seed, common to all policies.
    pub fn seed(&self, repeat: u32) -> u64 {
        self.file.seed.wrapping_add(u64::from(repeat))
    }

    /// Content for `result.json`.
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
