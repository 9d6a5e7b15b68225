//! A plan: machines, workloads, policies, and the list of runs.

use std::collections::{BTreeMap, BTreeSet};

use toml::Spanned;
use wakepath_policies::PolicySet;
use wakepath_results::document::{SCHEMA, VERSION};
use wakepath_results::question::is_empty_or_contains;
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

/// A study that is ready to run: every named part was found and checked.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Study file's name.
    pub origin: String,
    /// Text of the study file; absent for a study without a file.
    pub file_text: Option<String>,
    /// Study file's keys.
    pub file: StudyFile,
    /// Where the runs are made: simulator, machine or recordings.
    pub target: RunOrigin,
    /// Machines in the study's order; at least one.
    pub machines: Vec<PlannedMachine>,
    /// Workloads.
    pub workloads: Vec<PlannedWorkload>,
    /// Policies.
    pub policies: Vec<PlannedPolicy>,
    /// Index of the policy that the others are compared with.
    pub baseline: usize,
    /// Questions.
    pub questions: Vec<Question>,
    /// Metrics that the runs may have: the dictionary's and the study's own.
    pub metrics: Vec<Metric>,
    /// Published tables that a simulation is compared with.
    pub tables: Vec<Table>,
    /// Expectations about the published tables.
    pub expectations: Vec<Expectation>,
    /// Policy sets that came from outside the study file.
    pub(super) more: Vec<PolicySet>,
    /// Code that the study file runs, and the caller has not named.
    pub(super) foreign: Vec<String>,
    /// Whether the user has allowed code from the study file to run.
    pub(super) allow_programs: bool,
    /// Runs in each repeat.
    pub(super) cells: Vec<Cell>,
}

impl Plan {
    /// Makes the cells of the first repeat: every machine, workload and policy that go together.
    pub(super) fn make_cells_of_first_repeat(&mut self) {
        for (machine, on) in self.machines.iter().enumerate() {
            for (workload, planned) in self.workloads.iter().enumerate() {
                for (policy, under) in self.policies.iter().enumerate() {
                    if is_empty_or_contains(&planned.machines, &on.name)
                        && is_empty_or_contains(&planned.policies, &under.name)
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

    /// Refuses foreign code: custom governors from the study file that the user has not allowed.
    ///
    /// # Errors
    /// Names the code, and the option that allows it.
    pub fn check_programs_allowed(&self) -> Result<(), StudyError> {
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

    /// The study's title, or else its name.
    pub fn title(&self) -> &str {
        let title = self.file.title.as_deref();
        title.unwrap_or(self.file.name.get_ref())
    }

    /// Names of a machine and its drive. With several drives, these are the names in the study file.
    pub fn machine_and_drive_names(&self, machine: usize) -> (&str, &str) {
        let planned = &self.machines[machine];
        let drive = planned.model.as_ref();
        let drive = drive.map_or("", |model| &model.drive.name);
        planned
            .name
            .split_once('/')
            .unwrap_or((&planned.name, drive))
    }

    /// Whether the study compares several drives in one machine.
    pub fn compares_drives(&self) -> bool {
        let machines = 0..self.machines.len();
        let mut names = machines.map(|machine| self.machine_and_drive_names(machine).0);
        let mut known = BTreeSet::new();
        !names.all(|name| known.insert(name))
    }

    /// Describes the policies for the results, with the versions that run.
    pub fn describe_policies(&self) -> Vec<PolicyInfo> {
        let policies = self.policies.iter();
        policies
            .map(|policy| policy.describe(&self.machines, self.target))
            .collect()
    }

    /// Notes for readers: how drives were found, and which policies with different names are equal.
    pub fn list_notes(&self) -> Vec<String> {
        let models = self.machines.iter().filter_map(|m| m.model.as_ref());
        let mut notes: Vec<String> = models.filter_map(|m| m.drive.note.clone()).collect();
        notes.sort();
        notes.dedup();
        for workload in &self.workloads {
            let Some(Workload::Fio(file)) = workload.simulated_workload() else {
                continue;
            };
            notes.extend(file.jobs_without_warm_up_that_mostly_pause().map(|job| {
                format!(
                    "workload `{}`: job `{}` pauses for as long as it runs: it has no warm-up, and counts from its first request",
                    workload.name, job.name
                )
            }));
        }
        for (index, policy) in self.policies.iter().enumerate() {
            let mut before = self.policies[..index].iter();
            if let Some(first) = before.find(|earlier| earlier.is_equal_on(&self.machines, policy))
            {
                notes.push(format!(
                    "policies `{}` and `{}` have the same settings",
                    first.name, policy.name
                ));
            }
        }
        notes
    }

    /// How far predictions on each calibrated machine were off.
    pub(crate) fn list_prediction_errors(&self) -> Vec<String> {
        let machines = self.machines.iter();
        let errors = machines.filter_map(|machine| {
            let error = machine.model.as_ref()?.describe_prediction_error()?;
            Some(format!("{}: {error}", machine.name))
        });
        errors.collect()
    }

    /// Replaces the number of repeats and the first seed, where given.
    pub fn set_repeats_and_seed(&mut self, repeats: Option<u32>, seed: Option<u64>) {
        if let Some(repeats) = repeats {
            self.file.repeats = Spanned::new(self.file.repeats.span(), repeats);
        }
        self.file.seed = seed.unwrap_or(self.file.seed);
    }

    /// Number of repeats: runs for each workload under each policy.
    pub fn repeats(&self) -> u32 {
        *self.file.repeats.get_ref()
    }

    /// All runs.
    pub fn run_count(&self) -> usize {
        self.cells.len() * self.repeats() as usize
    }

    /// The cells of the first repeat; later repeats have the same cells.
    pub fn cells_of_first_repeat(&self) -> &[Cell] {
        &self.cells
    }

    /// The cell of the run with an index. Indices count through repeats, machines, workloads and policies in this
    /// order, so more repeats change no index.
    pub fn cell_at(&self, index: usize) -> Cell {
        Cell {
            repeat: (index / self.cells.len()) as u32,
            ..self.cells[index % self.cells.len()]
        }
    }

    /// The key of the run with an index.
    pub fn key_at(&self, index: usize) -> RunKey {
        self.key_for_cell(self.cell_at(index))
    }

    pub(super) fn key_for_cell(&self, cell: Cell) -> RunKey {
        RunKey {
            machine: self.machines[cell.machine].name.clone(),
            workload: self.workloads[cell.workload].name.clone(),
            policy: self.policies[cell.policy].name.clone(),
            repeat: cell.repeat,
        }
    }

    /// The seed for a repeat, the same for all policies.
    pub fn seed_for_repeat(&self, repeat: u32) -> u64 {
        self.file.seed.wrapping_add(u64::from(repeat))
    }

    /// Makes the document `result.json` for the results.
    pub fn make_document(&self, from: Provenance) -> Document {
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
                .map(PlannedWorkload::describe)
                .collect(),
            policies: self.describe_policies(),
            sha256: BTreeMap::new(),
            baseline: self.policies[self.baseline].name.clone(),
            repeats: self.repeats(),
            design: Design::Paired,
            seeds: match self.target {
                RunOrigin::Sim => (0..self.repeats())
                    .map(|r| self.seed_for_repeat(r))
                    .collect(),
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
