//! Making a plan: from a study file, from its text, or from typed values.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;

use toml::Spanned;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_policies::idle::program::Program;
use wakepath_replay::MAX_BLOCKS;
use wakepath_results::directory::MACHINE;
use wakepath_results::{METRICS, Metric, RunOrigin};
use wakepath_sim::{machine_under_policies, policies_in_force};
use wakepath_units::pasted::decode_text_strictly;
use wakepath_workloads::Workload;

use super::machine::{self, PlannedMachine};
use super::names::{find_name, select_known_names_or_group_members};
use super::planned::Plan;
use super::policy::PlannedPolicy;
use super::replay::ReplayRequest;
use super::workload::{self, PlannedWorkload, Task};
use super::{published, question};
use crate::builtin;
use crate::file::{
    MAX_BYTES, NamedSet, StudyError, StudyFile, StudyText, list_named_sets, unknown_name_message,
};

/// Most runs that one repeat may have.
const MAX_CELLS: usize = 10_000_000;

/// Fewest time blocks per recording: a confidence interval needs as many.
const FEWEST_BLOCKS: u32 = 4;

/// Reads a study file. If there is none, the error says which built-in study may have been meant.
fn read_study_file(path: &Path) -> io::Result<String> {
    let file = wakepath_files::open_regular_file(path).map_err(|e| {
        if e.kind() != ErrorKind::NotFound {
            return e;
        }
        let name = path.display().to_string();
        let message = match path.extension() {
            // The name is most likely a misspelt built-in study's.
            None => {
                let known: Vec<&str> = builtin::study_names().collect();
                unknown_name_message("built-in study or file", &name, &known)
            }
            Some(_) => {
                format!("no such file; `wakepath study new {name}` writes an example to start from")
            }
        };
        io::Error::new(ErrorKind::NotFound, message)
    })?;
    let bytes = wakepath_files::read_up_to(file, MAX_BYTES)?;
    decode_text_strictly(bytes).map_err(|e| io::Error::new(ErrorKind::InvalidData, e))
}

/// Whether a policy set runs the custom governor `program`.
fn runs_program(set: &PolicySet, program: &Program) -> bool {
    let named = set.own_governor();
    named.is_some_and(|named| (named.form(), named.path()) == (program.form(), program.path()))
}

/// Custom governors in policies that are not among the user's `own` sets.
fn list_programs_outside_own_sets(policies: &[PlannedPolicy], own: &[PolicySet]) -> Vec<String> {
    let programs = policies
        .iter()
        .filter_map(|policy| policy.set.own_governor());
    programs
        .filter(|program| !own.iter().any(|set| runs_program(set, program)))
        .map(ToString::to_string)
        .collect()
}

/// Checks that a recording can be divided into as many time blocks as the study has repeats.
fn check_repeats_as_blocks(file: &StudyFile, source: StudyText<'_>) -> Result<(), StudyError> {
    if (FEWEST_BLOCKS..=MAX_BLOCKS as u32).contains(file.repeats.get_ref()) {
        return Ok(());
    }
    let message =
        format!("`repeats` are blocks of time of each recording: {FEWEST_BLOCKS} to {MAX_BLOCKS}");
    Err(source.error_at_value(&file.repeats, message))
}

impl Plan {
    /// Plans a study file, or else the built-in study with this name.
    ///
    /// # Errors
    /// The file cannot be read, or asks for something missing or impossible on the target.
    pub fn load(path: &Path, target: RunOrigin) -> Result<Self, StudyError> {
        Self::load_with_sets(path, target, &[], false)
    }

    /// Plans a study with further policy sets beside the file's.
    ///
    /// `allow_programs`: the user allows custom governors from the file to run, even on kernels without confinement.
    /// Sets in `more` are the user's own.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn load_with_sets(
        path: &Path,
        target: RunOrigin,
        more: &[PolicySet],
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        // A directory with this name, such as one with results, is no study file.
        if !path.is_file()
            && let Some(text) = path.to_str().and_then(builtin::study_text)
        {
            return Self::parse_text(
                text,
                &path.display().to_string(),
                Path::new("."),
                target,
                more,
                allow_programs,
            );
        }
        let text = read_study_file(path).map_err(|source| StudyError::Read {
            path: path.to_owned(),
            source,
        })?;
        let folder = path.parent().unwrap_or(Path::new("."));
        let origin = path.display().to_string();
        Self::parse_text(&text, &origin, folder, target, more, allow_programs)
    }

    /// Plans a study from text that the caller wrote, so that its custom governors may run; paths count from `folder`.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_text(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
    ) -> Result<Self, StudyError> {
        Self::from_user_text(text, origin, folder, target, false)
    }

    /// Plans a study from a user's text; paths count from `folder`. `allow_programs`: the user allows custom governors
    /// to run, even on kernels without confinement.
    ///
    /// # Errors
    /// As [`Self::load`].
    pub fn from_user_text(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        let plan = Self::parse_text(text, origin, folder, target, &[], allow_programs)?;
        Ok(Self {
            foreign: Vec::new(),
            ..plan
        })
    }

    /// Plans a simulation without a study file: a workload on a modelled machine under these policies (none: what the
    /// machine's kernel does), `repeats` times with seeds counting up from the first. `Sim::compare` runs the plan;
    /// without a file there is nothing to keep beside results.
    pub fn without_file(
        name: &str,
        machine: Machine,
        workload: Workload,
        policies: Vec<PolicySet>,
        seed: u64,
        repeats: u32,
    ) -> Self {
        let unchanged = policies.is_empty().then(PolicySet::default);
        let policies: Vec<PlannedPolicy> = policies
            .into_iter()
            .chain(unchanged)
            .map(|set| PlannedPolicy::for_machine(set, &machine))
            .collect();
        let mut plan = Self {
            origin: name.to_owned(),
            file_text: None,
            file: StudyFile::without_file(name, seed, repeats),
            target: RunOrigin::Sim,
            machines: vec![PlannedMachine {
                name: machine.name.clone(),
                model: Some(machine),
                file: MACHINE.to_owned(),
                is_here: false,
            }],
            workloads: vec![PlannedWorkload::without_entry(name, workload)],
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
        plan.make_cells_of_first_repeat();
        plan
    }

    /// Plans a replay without a study file: one recording under policy sets.
    ///
    /// `allow_programs`: the user allows custom governors to run, even on kernels without confinement.
    ///
    /// # Errors
    /// The recording cannot be read, or a policy cannot be replayed.
    pub fn for_replay(request: &ReplayRequest, allow_programs: bool) -> Result<Self, StudyError> {
        let source = StudyText {
            origin: "wakepath replay",
            text: None,
        };
        let file = request.make_study_file();
        file.check_without_other_files(source)?;
        let policies = request.list_named_sets();
        let folder = Path::new(".");
        let plan = Self::plan_file(
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

    fn parse_text(
        text: &str,
        origin: &str,
        folder: &Path,
        target: RunOrigin,
        more: &[PolicySet],
        allow_programs: bool,
    ) -> Result<Self, StudyError> {
        // A byte order mark before the text is no part of the study, as in files.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let source = StudyText {
            origin,
            text: Some(text),
        };
        let file = StudyFile::parse(source)?;
        let beside = more
            .iter()
            .map(NamedSet::named_by_text_as_written)
            .collect();
        let plan = Self::plan_file(file, source, folder, target, beside, allow_programs)?;
        Ok(Self {
            more: more.to_vec(),
            ..plan
        })
    }

    /// Plans a study file, with the policies `beside` from outside the file.
    fn plan_file(
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
            return Err(source.error_at_value(&file.name, message));
        }
        let (machines, workloads) = plan_machines_and_workloads(&file, source, folder, target)?;
        let metrics = dictionary_with_study_metrics(&file, source, &workloads)?;
        let named = list_named_sets(&file.policy, also, beside, source)?;
        let places: Vec<Option<Spanned<()>>> = named.iter().map(|named| named.at.clone()).collect();
        let policies = plan_policies(named, source, folder, target, allow_programs)?;
        let foreign = list_programs_outside_own_sets(&policies, &own);
        let policy_names: Vec<&str> = policies.iter().map(|p| p.name.as_str()).collect();
        let baseline = match &file.baseline {
            None => 0,
            Some(name) => find_name(source, "policy", name, &policy_names)?,
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
        plan.restrict_workloads_and_make_cells(source)?;
        plan.questions = question::plan_questions(&plan, source)?;
        // Measured and replayed machines have no model names for tables.
        if target == RunOrigin::Sim {
            plan.check_policies_on_their_machines(source, &places)?;
            (plan.tables, plan.expectations) =
                published::plan_tables_and_expectations(&plan, source)?;
        }
        Ok(plan)
    }

    /// Limits each workload to the machines and policies that its entry names.
    fn restrict_workloads_and_make_cells(
        &mut self,
        source: StudyText<'_>,
    ) -> Result<(), StudyError> {
        let machines: Vec<&str> = self.machines.iter().map(|m| m.name.as_str()).collect();
        let policies: Vec<&str> = self.policies.iter().map(|p| p.name.as_str()).collect();
        for workload in &mut self.workloads {
            let entry = &self.file.workload[workload.entry];
            // A measurement runs on this computer, whatever the machine's name in the study.
            if let Some(names) = entry
                .machines
                .as_ref()
                .filter(|_| self.target != RunOrigin::Live)
            {
                workload.machines =
                    select_known_names_or_group_members(source, "machine", names, &machines)?;
            }
            if let Some(names) = &entry.policies {
                workload.policies =
                    select_known_names_or_group_members(source, "policy", names, &policies)?;
            }
        }
        let sides = [machines.len(), self.workloads.len(), policies.len()];
        let cells = sides.into_iter().fold(1, usize::saturating_mul);
        if cells > MAX_CELLS {
            let message = format!(
                "{} machines x {} workloads x {} policies, and {MAX_CELLS} runs of a repeat are the most",
                sides[0], sides[1], sides[2]
            );
            return Err(source.error_at_value(&self.file.name, message));
        }
        self.make_cells_of_first_repeat();
        Ok(())
    }

    /// Checks every policy on every machine where it runs. `places` has the policies' places in the file.
    fn check_policies_on_their_machines(
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
            let possible = policies_in_force(model, set)
                .and_then(|set| machine_under_policies(model, &set).map(drop));
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
}

/// Plans machines and workloads. A replay's machines come from the workloads' recordings; other machines are planned
/// first.
fn plan_machines_and_workloads(
    file: &StudyFile,
    source: StudyText<'_>,
    folder: &Path,
    target: RunOrigin,
) -> Result<(Vec<PlannedMachine>, Vec<PlannedWorkload>), StudyError> {
    if target == RunOrigin::Replay {
        check_repeats_as_blocks(file, source)?;
        let mut workloads = workload::plan_workloads(file, source, folder, target)?;
        let machines = machine::plan_replayed_machines(file, source, folder, &mut workloads)?;
        return Ok((machines, workloads));
    }
    let machines = match target {
        RunOrigin::Sim => machine::plan_simulated_machines(file, source, folder)?,
        _ => vec![PlannedMachine::for_this_computer()],
    };
    let workloads = workload::plan_workloads(file, source, folder, target)?;
    Ok((machines, workloads))
}

/// Plans each policy set; their names must differ.
fn plan_policies(
    sets: Vec<NamedSet<'_>>,
    source: StudyText<'_>,
    folder: &Path,
    target: RunOrigin,
    allow_programs: bool,
) -> Result<Vec<PlannedPolicy>, StudyError> {
    let mut policies: Vec<PlannedPolicy> = Vec::new();
    for named in sets {
        let at = named.at.clone();
        let policy = PlannedPolicy::new(named, source, folder, target, allow_programs)?;
        if policies.iter().any(|p| p.name == policy.name) {
            let message = format!("a second policy is called `{}`", policy.name);
            return Err(source.policy_error(at.as_ref(), &policy.name, message));
        }
        policies.push(policy);
    }
    Ok(policies)
}

/// The metric dictionary with the metrics that the study adds.
fn dictionary_with_study_metrics(
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
                    unit_in_words(new),
                    unit_in_words(old),
                    new.better,
                    old.better
                );
                return Err(source.error_at_value(&entry.name, message));
            }
            Some(_) => {}
        }
    }
    Ok(all)
}

fn unit_in_words(metric: &Metric) -> &str {
    if metric.unit.is_empty() {
        "no unit"
    } else {
        &metric.unit
    }
}
