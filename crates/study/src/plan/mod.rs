//! A study with everything found that its file names: machine, workloads, policies, and the list of runs.

mod policy;
mod question;
mod stored;
mod workload;

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use toml::Spanned;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_replay::MOST_BLOCKS;
use wakepath_results::document::{CpuKind, SCHEMA, VERSION};
use wakepath_results::{Design, Document, METRICS, Metric, Origin, Question, RunKey, StudyInfo};

pub use policy::PlannedPolicy;
pub use workload::{PlannedWorkload, Reading, Recording, Task, requested_rates};

use crate::builtin;
use crate::file::{MAX_BYTES, Source, StudyError, StudyFile, named_sets, unknown, with_sets};
use crate::run::Provenance;

/// Fewest blocks of time of a recording: those that an interval needs.
const FEWEST_BLOCKS: u32 = 4;

/// A workload under a policy, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which workload of the plan.
    pub workload: usize,
    /// Which policy of the plan.
    pub policy: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
}

/// A study, ready to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Name of the study file.
    pub origin: String,
    /// Its text.
    pub text: String,
    /// What it says.
    pub file: StudyFile,
    /// On what it runs.
    pub target: Origin,
    /// The machine that is simulated.
    pub machine: Option<Machine>,
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
}

impl Plan {
    /// A study file, or a built-in study if there is one of this name and no such file.
    ///
    /// # Errors
    /// The file cannot be read, or asks for something that is not there or that the target cannot have.
    pub fn load(path: &Path, target: Origin) -> Result<Self, StudyError> {
        Self::with_more(path, target, &[])
    }

    /// The same with policy sets beside those of the file.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn with_more(path: &Path, target: Origin, more: &[PolicySet]) -> Result<Self, StudyError> {
        let read = |source| StudyError::Read {
            path: path.to_owned(),
            source,
        };
        // A directory of this name, such as that of its results, is no study.
        if !path.is_file()
            && let Some(text) = path.to_str().and_then(builtin::study)
        {
            return Self::of_text(
                text,
                &path.display().to_string(),
                Path::new("."),
                target,
                more,
            );
        }
        let file = File::open(path).map_err(|e| match path.extension() {
            // Most likely the name of a built-in study.
            None => read(std::io::Error::new(
                e.kind(),
                unknown(
                    "built-in study or file",
                    &path.display().to_string(),
                    &builtin::study_names().collect::<Vec<_>>(),
                ),
            )),
            Some(_) if e.kind() == std::io::ErrorKind::NotFound => {
                let message = format!(
                    "no such file; `wakepath study new {}` writes an example to start from",
                    path.display()
                );
                read(std::io::Error::new(e.kind(), message))
            }
            Some(_) => read(e),
        })?;
        let mut text = String::new();
        let size = file.take(MAX_BYTES + 1).read_to_string(&mut text);
        if size.map_err(read)? as u64 > MAX_BYTES {
            let message = format!("larger than {MAX_BYTES} bytes, which no study is");
            return Err(read(std::io::Error::other(message)));
        }
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::of_text(&text, &path.display().to_string(), folder, target, more)
    }

    /// A study's text; paths in it count from `folder`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn new(
        text: &str,
        origin: &str,
        folder: &Path,
        target: Origin,
    ) -> Result<Self, StudyError> {
        Self::of_text(text, origin, folder, target, &[])
    }

    fn of_text(
        text: &str,
        origin: &str,
        folder: &Path,
        target: Origin,
        more: &[PolicySet],
    ) -> Result<Self, StudyError> {
        let with_more = match more {
            [] => Cow::Borrowed(text),
            more => Cow::Owned(with_sets(text, more)),
        };
        let text = &*with_more;
        let source = Source {
            added_lines: usize::from(!more.is_empty()),
            origin,
            text,
        };
        let file = StudyFile::parse(source)?;
        let machine = match target {
            Origin::Sim => Some(machine(&file, source, folder)?),
            // What the machine draws, and its idle states where the recordings have none.
            Origin::Replay if file.machine.is_some() => Some(machine(&file, source, folder)?),
            _ => None,
        };
        if target == Origin::Replay {
            let repeats = *file.repeats.get_ref();
            if !(FEWEST_BLOCKS..=MOST_BLOCKS as u32).contains(&repeats) {
                let message = format!(
                    "`repeats` are blocks of time of each recording: {FEWEST_BLOCKS} to {MOST_BLOCKS}"
                );
                return Err(source.error(&file.repeats, message));
            }
        }
        let mut workloads = Vec::new();
        for entry in &file.workload {
            workloads.push(PlannedWorkload::new(entry, source, folder, target)?);
        }
        let metrics = metrics(&file, source, &workloads)?;
        let mut policies: Vec<PlannedPolicy> = Vec::new();
        for named in named_sets(&file.policy, &file.also, source)? {
            let at = named.at.clone();
            let policy = PlannedPolicy::new(named, source, machine.as_ref(), target)?;
            if policies.iter().any(|p| p.name == policy.name) {
                let message = format!("a second policy is called `{}`", policy.name);
                return Err(source.error(&at, message));
            }
            policies.push(policy);
        }
        let policy_names: Vec<&str> = policies.iter().map(|p| p.name.as_str()).collect();
        let baseline = match &file.baseline {
            None => 0,
            Some(name) => position(source, "policy", name, &policy_names)?,
        };
        let questions = question::all(&file, source, &workloads, &policy_names, &metrics)?;
        Ok(Self {
            origin: origin.to_owned(),
            text: text.to_owned(),
            target,
            machine,
            workloads,
            policies,
            baseline,
            questions,
            metrics,
            file,
        })
    }

    /// What a reader of the study should know of it: policies that are the same by several names.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        for (index, policy) in self.policies.iter().enumerate() {
            let mut before = self.policies[..index].iter();
            if let Some(first) =
                before.find(|p| p.set == policy.set && p.settings == policy.settings)
            {
                notes.push(format!(
                    "policies `{}` and `{}` have the same settings",
                    first.name, policy.name
                ));
            }
        }
        notes
    }

    /// Runs of each workload under each policy.
    pub fn repeats(&self) -> u32 {
        *self.file.repeats.get_ref()
    }

    /// All runs.
    pub fn runs(&self) -> usize {
        self.workloads.len() * self.policies.len() * self.repeats() as usize
    }

    /// Each workload under each policy, once.
    pub fn cells(&self) -> impl Iterator<Item = Cell> {
        (0..self.workloads.len() * self.policies.len()).map(|index| self.cell(index))
    }

    /// The run of this index. Runs are numbered through repeats, workloads and policies in this order, so that more
    /// repeats change no number.
    pub fn cell(&self, index: usize) -> Cell {
        let pairs = self.workloads.len() * self.policies.len();
        let pair = index % pairs;
        Cell {
            workload: pair / self.policies.len(),
            policy: pair % self.policies.len(),
            repeat: (index / pairs) as u32,
        }
    }

    /// The index of a run.
    pub fn index(&self, cell: Cell) -> usize {
        let pairs = self.workloads.len() * self.policies.len();
        cell.repeat as usize * pairs + cell.workload * self.policies.len() + cell.policy
    }

    /// The key of the run of this index.
    pub fn key(&self, index: usize) -> RunKey {
        let cell = self.cell(index);
        RunKey {
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
                title: self.file.title.clone().unwrap_or_else(|| name.clone()),
                name,
            },
            backend: self.target,
            tools: from.tools,
            machine: from.machine,
            workloads: self
                .workloads
                .iter()
                .map(PlannedWorkload::described)
                .collect(),
            policies: self.policies.iter().map(PlannedPolicy::described).collect(),
            baseline: self.policies[self.baseline].name.clone(),
            repeats: self.repeats(),
            design: Design::Paired,
            seeds: match self.target {
                Origin::Sim => (0..self.repeats()).map(|r| self.seed(r)).collect(),
                Origin::Replay => Vec::new(),
                _ => vec![self.file.seed],
            },
            questions: self.questions.clone(),
            metrics: self.metrics.clone(),
            level: *self.file.level.get_ref(),
            margin_percent: *self.file.margin_percent.get_ref(),
            notes: from.notes,
        }
    }

    /// The files that go into the result directory, from which the study can be run again.
    pub fn files(&self, machine: Vec<u8>) -> Vec<(String, Vec<u8>)> {
        let study = stored::text(&self.text, &self.file, &self.workloads, self.target);
        let mut files = vec![
            ("study.toml".to_owned(), study.into_bytes()),
            (stored::MACHINE.to_owned(), machine),
        ];
        for workload in &self.workloads {
            if let (Some(name), Some(text)) = (workload.file_name(), workload.text()) {
                files.push((name, text.as_bytes().to_vec()));
            }
        }
        files
    }
}

/// The machine of a simulation.
fn machine(file: &StudyFile, source: Source<'_>, folder: &Path) -> Result<Machine, StudyError> {
    let Some(name) = &file.machine else {
        let message = "a simulation needs `machine = \"...\"`: `wakepath machine list` has them";
        return Err(source.error(&file.name, message));
    };
    let found = |at: &Spanned<String>, e: String| source.error(at, e);
    let mut machine =
        Machine::find(&named(name.get_ref(), folder)).map_err(|e| found(name, e.to_string()))?;
    if let Some(drive) = &file.drive {
        let model = machine.find_drive(&named(drive.get_ref(), folder));
        machine.replace_drive(model.map_err(|e| found(drive, e.to_string()))?);
    }
    Ok(machine)
}

/// A name, or a path that counts from the study's folder.
fn named(name: &str, folder: &Path) -> String {
    let path = folder.join(name);
    if path.is_file() {
        path.display().to_string()
    } else {
        name.to_owned()
    }
}

/// The machine of a simulation as `result.json` has it.
pub fn machine_in_short(machine: &Machine) -> wakepath_results::Machine {
    wakepath_results::Machine {
        name: machine.name.clone(),
        title: machine.title.clone(),
        cpu_kinds: machine
            .cluster
            .iter()
            .map(|c| CpuKind {
                name: c.name.clone(),
                cpus: c.cpus as u32,
            })
            .collect(),
        idle_states: machine.idle_state.iter().map(|s| s.name.clone()).collect(),
        drive: machine.drive.name.clone(),
    }
}

/// The dictionary with the study's own metrics.
fn metrics(
    file: &StudyFile,
    source: Source<'_>,
    workloads: &[PlannedWorkload],
) -> Result<Vec<Metric>, StudyError> {
    let mut all = METRICS.to_vec();
    let entries = file.workload.iter().flat_map(|w| &w.metric);
    let readings = workloads.iter().flat_map(|w| match &w.task {
        Task::Command { readings, .. } => readings.as_slice(),
        _ => &[],
    });
    for (entry, reading) in entries.zip(readings) {
        let new = &reading.metric;
        match all.iter().find(|m| m.name == new.name) {
            None => all.push(new.clone()),
            Some(old) if old.unit != new.unit || old.better != new.better => {
                let message = format!(
                    "`{}` is in {} here and in {} elsewhere ({:?} is better here, {:?} there); \
                     give one of them another name",
                    new.name,
                    unit(new),
                    unit(old),
                    new.better,
                    old.better
                );
                return Err(source.error(&entry.name, message));
            }
            Some(_) => {}
        }
    }
    Ok(all)
}

fn unit(metric: &Metric) -> &str {
    if metric.unit.is_empty() {
        "no unit"
    } else {
        &metric.unit
    }
}

/// Where a name is in a list.
fn position(
    source: Source<'_>,
    what: &str,
    name: &Spanned<String>,
    known: &[&str],
) -> Result<usize, StudyError> {
    let wanted = name.get_ref();
    known
        .iter()
        .position(|k| k == wanted)
        .ok_or_else(|| source.error(name, unknown(what, wanted, known)))
}

/// A path as the study's folder has it.
fn in_folder(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}
