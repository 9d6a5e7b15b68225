//! A study with everything found that its file names: machines, workloads, policies, and the list of runs.

mod grid;
mod machine;
mod policy;
mod provenance;
pub mod published;
mod question;
mod recording;
mod replay;
mod stored;
mod workload;

use std::collections::{BTreeMap, BTreeSet};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use toml::Spanned;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::Program;
use wakepath_replay::MAX_BLOCKS;
use wakepath_results::directory::MACHINE;
use wakepath_results::document::{SCHEMA, VERSION};
use wakepath_results::question::is_among;
use wakepath_results::{
    Design, Document, METRICS, Metric, PolicyInfo, Question, RunKey, RunOrigin, StudyInfo,
};
use wakepath_sim::{in_force, machine_under};
use wakepath_units::pasted::decode_strictly;
use wakepath_workloads::Workload;

pub use machine::{PlannedMachine, host};
pub use policy::PlannedPolicy;
pub use provenance::Provenance;
pub use published::{Expectation, Table};
pub use recording::PlannedRecording;
pub(crate) use recording::sha256_of;
pub use replay::{RECORDED, ReplayRequest, cannot_replay};
pub use workload::{PlannedWorkload, Reading, Task, requested_rates};

use crate::builtin;
use crate::file::{
    MAX_BYTES, NamedSet, Names, StudyError, StudyFile, StudyText, named_sets, unknown,
};

/// Most runs of a repeat.
const MAX_CELLS: usize = 10_000_000;

/// Fewest blocks of time of a recording: those that an interval needs.
const FEWEST_BLOCKS: u32 = 4;

/// A workload on a machine under a policy, once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cell {
    /// Which machine of the plan.
    pub machine: usize,
    /// Which workload of the plan.
    pub workload: usize,
    /// Which policy of the plan.
    pub policy: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
}

/// Whether a set runs this program.
fn is_of(set: &PolicySet, program: &Program) -> bool {
    let named = set.program();
    named.is_some_and(|named| (named.form(), named.path()) == (program.form(), program.path()))
}

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
    more: Vec<PolicySet>,
    /// Code that the file has run, and the caller has not named.
    foreign: Vec<String>,
    /// Whether the user has said that such code may run.
    allow_programs: bool,
    /// What is run in each repeat.
    cells: Vec<Cell>,
}

impl Plan {
    /// A study file, or a built-in study if there is one of this name and no such file.
    ///
    /// # Errors
    /// The file cannot be read, or asks for something that is not there or that the target cannot have.
    pub fn load(path: &Path, target: RunOrigin) -> Result<Self, StudyError> {
        Self::with_more(path, target, &[], false)
    }

    /// The same with policy sets beside those of the file.
    ///
    /// `allow_programs`: the user has said that governors of one's own which the file names may run, also where this kernel
    /// cannot confine them. Those of `more` are the user's own.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn with_more(
        path: &Path,
        target: RunOrigin,
        more: &[PolicySet],
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
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
                allow_programs,
            );
        }
        let file = wakepath_files::open(path).map_err(|e| match path.extension() {
            // Most likely the name of a built-in study.
            None if e.kind() == ErrorKind::NotFound => read(std::io::Error::new(
                e.kind(),
                unknown(
                    "built-in study or file",
                    &path.display().to_string(),
                    &builtin::study_names().collect::<Vec<_>>(),
                ),
            )),
            Some(_) if e.kind() == ErrorKind::NotFound => {
                let message = format!(
                    "no such file; `wakepath study new {}` writes an example to start from",
                    path.display()
                );
                read(std::io::Error::new(e.kind(), message))
            }
            _ => read(e),
        })?;
        let bytes = wakepath_files::read_up_to(file, MAX_BYTES).map_err(read)?;
        let text = decode_strictly(bytes)
            .map_err(|e| read(std::io::Error::new(ErrorKind::InvalidData, e)))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let origin = path.display().to_string();
        Self::of_text(&text, &origin, folder, target, more, allow_programs)
    }

    /// A study's text, which the caller wrote with what the user has named; paths in it count from `folder`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn new(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
    ) -> Result<Self, StudyError> {
        Self::of_user(text, origin, folder, target, false)
    }

    /// The same. `allow_programs`: the user has said that governors of one's own may run where this kernel cannot confine
    /// them.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn of_user(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        let plan = Self::of_text(text, origin, folder, target, &[], allow_programs)?;
        Ok(Self {
            foreign: Vec::new(),
            ..plan
        })
    }

    /// A study made on the spot, without a file: a workload on a modelled machine under these policies (none: what the
    /// machine's kernel does), so many times with seeds counting up from the first. `Sim::compare` runs it; without a file
    /// there is nothing to keep beside results.
    pub fn on_the_spot(
        name: &str,
        machine: Machine,
        workload: Workload,
        policies: Vec<PolicySet>,
        seed: u64,
        repeats: u32,
    ) -> Self {
        let unchanged = policies.is_empty().then(PolicySet::default);
        let policies = policies.into_iter().chain(unchanged);
        let policies = policies.map(|set| PlannedPolicy::on_machine(set, &machine));
        let policies: Vec<PlannedPolicy> = policies.collect();
        let mut plan = Self {
            origin: name.to_owned(),
            file_text: None,
            file: StudyFile::on_the_spot(name, seed, repeats),
            target: RunOrigin::Sim,
            machines: vec![PlannedMachine {
                name: machine.name.clone(),
                model: Some(machine),
                file: MACHINE.to_owned(),
            }],
            workloads: vec![PlannedWorkload::of(name, workload)],
            policies,
            baseline: 0,
            questions: Vec::new(),
            metrics: METRICS.to_vec(),
            tables: Vec::new(),
            expectations: Vec::new(),
            more: Vec::new(),
            foreign: Vec::new(),
            allow_programs: false,
            cells: Vec::new(),
        };
        plan.combine();
        plan
    }

    /// One recording under policy sets, without a file.
    ///
    /// `allow_programs`: the user has said that governors of one's own may run where this kernel cannot confine them.
    ///
    /// # Errors
    /// The recording cannot be read, or a policy cannot be replayed.
    pub fn of_replay(request: &ReplayRequest, allow_programs: bool) -> Result<Self, StudyError> {
        let source = StudyText {
            origin: "wakepath replay",
            text: None,
        };
        let file = request.file();
        file.check(source)?;
        let policies = request.policies();
        let folder = Path::new(".");
        let plan = Self::of_file(
            file,
            source,
            folder,
            RunOrigin::Replay,
            policies,
            allow_programs,
        )?;
        Ok(Self {
            foreign: Vec::new(),
            ..plan
        })
    }

    fn of_text(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
        more: &[PolicySet],
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        // As in files, a mark before UTF-8 is no part of the text.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = StudyText {
            origin,
            text: Some(text),
        };
        let file = StudyFile::parse(source)?;
        let beside = more.iter().map(NamedSet::beside).collect();
        let plan = Self::of_file(file, source, folder, target, beside, allow_programs)?;
        Ok(Self {
            more: more.to_vec(),
            ..plan
        })
    }

    /// The plan of a study file that was read or made, with policies beside those of the file.
    fn of_file(
        file: StudyFile,
        source: StudyText<'_>,
        folder: &Path,
        target: RunOrigin,
        beside: Vec<NamedSet<'_>>,
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        let own: Vec<PolicySet> = beside.iter().map(|named| named.set.clone()).collect();
        let also = file.also.as_ref().map_or(&[][..], |also| also.get_ref());
        if file.policy.is_empty() && also.is_empty() && beside.is_empty() {
            let message = "no `policy`: there is nothing to compare; policy = [\"menu\", \"teo\"] compares two";
            return Err(source.error(&file.name, message));
        }
        let machines = match target {
            RunOrigin::Sim => machine::simulated(&file, source, folder)?,
            // Known from the recordings.
            RunOrigin::Replay => Vec::new(),
            _ => vec![PlannedMachine::measured()],
        };
        if target == RunOrigin::Replay {
            let repeats = *file.repeats.get_ref();
            if !(FEWEST_BLOCKS..=MAX_BLOCKS as u32).contains(&repeats) {
                let message = format!(
                    "`repeats` are blocks of time of each recording: {FEWEST_BLOCKS} to {MAX_BLOCKS}"
                );
                return Err(source.error(&file.repeats, message));
            }
        }
        let mut workloads = workload::all(&file, source, folder, target)?;
        let machines = match target {
            RunOrigin::Replay => machine::replayed(&file, source, folder, &mut workloads)?,
            _ => machines,
        };
        let metrics = metrics(&file, source, &workloads)?;
        let mut policies: Vec<PlannedPolicy> = Vec::new();
        let mut places = Vec::new();
        let mut foreign = Vec::new();
        for named in named_sets(&file.policy, also, beside, source)? {
            let at = named.at.clone();
            let policy = PlannedPolicy::new(named, source, folder, target, allow_programs)?;
            if let Some(program) = policy.set.program()
                && !own.iter().any(|set| is_of(set, program))
            {
                foreign.push(program.to_string());
            }
            places.push(at.clone());
            if policies.iter().any(|p| p.name == policy.name) {
                let message = format!("a second policy is called `{}`", policy.name);
                return Err(source.policy_error(at.as_ref(), &policy.name, message));
            }
            policies.push(policy);
        }
        let policy_names: Vec<&str> = policies.iter().map(|p| p.name.as_str()).collect();
        let baseline = match &file.baseline {
            None => 0,
            Some(name) => position(source, "policy", name, &policy_names)?,
        };
        let mut plan = Self {
            origin: source.origin.to_owned(),
            file_text: source.text.map(str::to_owned),
            target,
            machines,
            workloads,
            policies,
            baseline,
            questions: Vec::new(),
            metrics,
            tables: Vec::new(),
            expectations: Vec::new(),
            file,
            more: Vec::new(),
            foreign,
            allow_programs,
            cells: Vec::new(),
        };
        plan.restrict(source)?;
        plan.questions = question::all(&plan, source)?;
        // What is measured or replayed has no models whose names tables could use.
        if target == RunOrigin::Sim {
            plan.check_policies(source, &places)?;
            (plan.tables, plan.expectations) = published::all(&plan, source)?;
        }
        Ok(plan)
    }

    /// Finds which workloads run on which machines under which policies.
    fn restrict(&mut self, source: StudyText<'_>) -> Result<(), StudyError> {
        let machines: Vec<&str> = self.machines.iter().map(|m| m.name.as_str()).collect();
        let policies: Vec<&str> = self.policies.iter().map(|p| p.name.as_str()).collect();
        for workload in &mut self.workloads {
            let entry = &self.file.workload[workload.entry];
            // A measurement is on this machine, whatever its name.
            if let Some(names) = entry
                .machines
                .as_ref()
                .filter(|_| self.target != RunOrigin::Live)
            {
                workload.machines = selected(source, "machine", names, &machines)?;
            }
            if let Some(names) = &entry.policies {
                workload.policies = selected(source, "policy", names, &policies)?;
            }
        }
        let sides = [machines.len(), self.workloads.len(), policies.len()];
        let cells = sides.into_iter().fold(1, usize::saturating_mul);
        if cells > MAX_CELLS {
            let message = format!(
                "{} machines x {} workloads x {} policies, and {MAX_CELLS} runs of a repeat are the most",
                sides[0], sides[1], sides[2]
            );
            return Err(source.error(&self.file.name, message));
        }
        self.combine();
        Ok(())
    }

    /// Makes the cells.
    fn combine(&mut self) {
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

    /// Whether each machine can have the policies under which something runs on it. `places` says where they are in the file.
    fn check_policies(
        &self,
        source: StudyText<'_>,
        places: &[Option<Spanned<()>>],
    ) -> Result<(), StudyError> {
        let pairs: BTreeSet<(usize, usize)> =
            self.cells.iter().map(|c| (c.policy, c.machine)).collect();
        for (policy, machine) in pairs {
            let machine = &self.machines[machine];
            let Some(model) = &machine.model else {
                continue;
            };
            let set = &self.policies[policy].set;
            let possible =
                in_force(model, set).and_then(|set| machine_under(model, &set).map(drop));
            possible.map_err(|e| {
                let on = match self.machines.len() {
                    1 => String::new(),
                    _ => format!("{}: ", machine.name),
                };
                let place = places[policy].as_ref();
                source.policy_error(place, &self.policies[policy].name, format!("{on}{e}"))
            })?;
        }
        Ok(())
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

    fn key_of(&self, cell: Cell) -> RunKey {
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

    /// The study as a file has it, with the policy sets that were given beside the file.
    ///
    /// # Errors
    /// A study made without a file cannot be written as one.
    pub fn text(&self) -> Result<String, StudyError> {
        stored::whole(self)
    }

    /// The files that go into the result directory, from which the study can be run again.
    /// `machines` are those of the machines, `sha256` has what recordings hold.
    ///
    /// # Errors
    /// As [`Self::text`].
    pub fn files(
        &self,
        machines: Vec<Vec<u8>>,
        sha256: &BTreeMap<String, String>,
    ) -> Result<Vec<(String, Vec<u8>)>, StudyError> {
        let study = stored::text(self, sha256)?;
        let mut files = vec![("study.toml".to_owned(), study.into_bytes())];
        files.extend(self.machines.iter().map(|m| m.file.clone()).zip(machines));
        let copies = self.workloads.iter().flat_map(PlannedWorkload::copies);
        let programs = self.policies.iter().filter_map(|p| p.set.program()?.copy());
        for (name, text) in copies.chain(programs) {
            if !files.iter().any(|(there, _)| *there == name) {
                files.push((name, text.as_bytes().to_vec()));
            }
        }
        Ok(files)
    }
}

/// The path of a copy of something of this name. A `/` of the name is `%2F` there, and a `%` is `%25`.
fn copy_name(folder: &str, name: &str, ending: &str) -> String {
    let name = name.replace('%', "%25").replace('/', "%2F");
    format!("{folder}/{name}.{ending}")
}

/// The names among the known ones that a list means: one of a group, such as `spr1` of `spr1/990pro` and `spr1/sn850x`, means
/// all of the group.
fn selected(
    source: StudyText<'_>,
    what: &str,
    names: &Spanned<Names>,
    known: &[&str],
) -> Result<Vec<String>, StudyError> {
    let mut all = Vec::new();
    for name in Names::all(names, source)? {
        for member in members(source, what, &name, known)? {
            if !all.contains(&member) {
                all.push(member);
            }
        }
    }
    Ok(all)
}

fn members(
    source: StudyText<'_>,
    what: &str,
    name: &Spanned<String>,
    known: &[&str],
) -> Result<Vec<String>, StudyError> {
    let group = format!("{}/", name.get_ref());
    let members = known.iter().filter(|k| k.starts_with(&group));
    let members: Vec<String> = members.map(|k| (*k).to_owned()).collect();
    if members.is_empty() {
        let at = position(source, what, name, known)?;
        return Ok(vec![known[at].to_owned()]);
    }
    Ok(members)
}

/// The dictionary with the study's own metrics.
fn metrics(
    file: &StudyFile,
    source: StudyText<'_>,
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
    source: StudyText<'_>,
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
