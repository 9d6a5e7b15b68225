//! Recorded idle periods as loads: each set is an idle governor with what limits it, and blocks of time stand for seeds.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use rayon::prelude::*;
use wakepath_policies::mechanism::Kind;
use wakepath_policies::search_space::SearchedHardware;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_results::RunRecord;
use wakepath_study::file::StudyError;
use wakepath_study::plan::{Plan, ReplayRequest};
use wakepath_study::run::RunControl;
use wakepath_study::run::drive_io::NamedMetrics;
use wakepath_study::run::parts::run_backend_in_memory;
use wakepath_study::run::replay::{
    Replay, Replaying, doubt_by_few_recorded_cpus, evidence_for_other_machine,
};
use wakepath_units::KernelVersion;

use crate::TuneError;
use crate::answer::AnswerOrigin;
use crate::evaluator::{Effort, Evaluator, LoadRuns, Trial, TrialOutcome};

/// The governor of kernels without another one's name: the built-in one with the highest rating.
const USUAL_GOVERNOR: &str = "menu";

/// Number of blocks of equal time whose differences show how much chance is in a recording.
const BLOCKS: u32 = 20;

/// A recording whose idle periods other governors go through.
#[derive(Debug)]
pub struct IdleRecording {
    /// The file, as an absolute path.
    path: String,
    /// Name of the machine whose figures replace the recording's.
    machine: Option<String>,
    /// Number of events.
    events: u64,
    /// The governor that ran, in its kernel's version.
    pub governor: PolicySpec,
    /// Whether the recording does not say which governor ran, and the kernel's usual one stands in.
    pub is_governor_assumed: bool,
    /// The kernel whose governors bare names mean.
    pub kernel: KernelVersion,
    /// The idle states that limits are chosen from.
    pub hardware: SearchedHardware,
    /// What makes figures uncertain, in sentences.
    pub doubts: Vec<String>,
}

impl IdleRecording {
    /// Opens a recording, with the figures of a machine in place of its own where one is named. `kernel`: that of the
    /// governors, in place of the recorded one.
    ///
    /// # Errors
    /// The recording cannot be read, has no idle states, or is evidently of another machine.
    pub fn read(
        path: &Path,
        machine: Option<&str>,
        kernel: Option<KernelVersion>,
    ) -> Result<Self, TuneError> {
        let whole = fs::canonicalize(path)
            .map_err(|error| TuneError::Recording(format!("{}: {error}", path.display())))?;
        let text = whole.to_str().ok_or_else(|| {
            let shown = path.display();
            TuneError::Recording(format!("{shown}: the path is not UTF-8; rename the file"))
        })?;
        let request = replay_request(text, machine, Vec::new(), BLOCKS);
        let plan = Plan::for_replay(&request, false).map_err(tune_error_of_study)?;
        let backend = Replay::new(&plan).map_err(tune_error_of_study)?;
        let replaying = find_recording(&backend)?;
        let metadata = replaying.recorded_metadata();
        let model = plan.machines.iter().find_map(|named| named.model.as_ref());
        let mut doubts: Vec<String> = (metadata.warnings.iter())
            .map(|warning| format!("{} ({}x): {}", warning.name, warning.count, warning.text))
            .collect();
        if let Some(model) = model {
            if let Some(what) = evidence_for_other_machine(metadata, model) {
                return Err(TuneError::Recording(format!(
                    "{} is of another machine than {}: {what}; leave --machine out",
                    path.display(),
                    model.name
                )));
            }
            doubts.extend(doubt_by_few_recorded_cpus(metadata, model));
        }
        let recorded = metadata.kernel.as_deref();
        let kernel = kernel
            .or_else(|| recorded.and_then(KernelVersion::nearest_supported))
            .unwrap_or(KernelVersion::V6_12);
        let recorded = replaying.recorded_governor_name();
        let recorded = recorded.and_then(|name| name.parse::<PolicySpec>().ok());
        let is_governor_assumed = recorded.is_none();
        let governor = match recorded {
            Some(governor) => governor,
            None => USUAL_GOVERNOR
                .parse::<PolicySpec>()
                .map_err(|error| TuneError::Recording(error.to_string()))?
                .in_kernel_version(kernel),
        };
        Ok(Self {
            events: replaying.event_count(),
            governor,
            is_governor_assumed,
            kernel,
            hardware: SearchedHardware::from_idle_states(replaying.declared_idle_states()),
            doubts,
            path: text.to_owned(),
            machine: machine.map(str::to_owned),
        })
    }

    /// The policies in force under a set: bare names get the kernel's version, and what the set leaves open stays as it was
    /// recorded.
    pub fn policies_in_force_under(&self, set: &PolicySet) -> PolicySet {
        let named = set.clone().with_kernel_for_bare_names(self.kernel);
        if named.policy_of_kind(Kind::Idle).is_some() {
            return named;
        }
        named.with_policy(self.governor.clone()).unwrap_or(named)
    }

    /// The policies in force under a set, as [`Self::policies_in_force_under`].
    ///
    /// # Errors
    /// The recording cannot be replayed under the set, in a sentence.
    pub fn check_set_and_resolve(&self, set: &PolicySet) -> Result<PolicySet, String> {
        let resolved = self.policies_in_force_under(set);
        let sets = vec![resolved.clone()];
        let request = replay_request(&self.path, self.machine.as_deref(), sets, BLOCKS);
        let checked =
            Plan::for_replay(&request, false).and_then(|plan| Replay::new(&plan).map(drop));
        match checked {
            Ok(()) => Ok(resolved),
            // The message begins with file and policy, which the caller names.
            Err(error) => {
                let text = error.to_string();
                Err(text
                    .split_once("': ")
                    .map_or(text.clone(), |(_, why)| why.to_owned()))
            }
        }
    }

    /// Replays sets that differ in nothing but the governor, in one pass.
    fn replay_sets(
        &self,
        sets: &[PolicySet],
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<NamedMetrics>>, TuneError> {
        let request = replay_request(&self.path, self.machine.as_deref(), sets.to_vec(), BLOCKS);
        let plan = Plan::for_replay(&request, false).map_err(tune_error_of_study)?;
        let backend = Replay::new(&plan).map_err(tune_error_of_study)?;
        let go_on = &mut |_| !cancelled.load(Ordering::Relaxed);
        let replayed = find_recording(&backend)?
            .replay_in_blocks(BLOCKS as usize, None, go_on)
            .map_err(tune_error_of_study)?;
        if replayed.report.has_too_few_spans() {
            return Err(TuneError::Recording(format!(
                "{}: {} idle spans are too few to compare governors; record for longer",
                self.path, replayed.report.spans
            )));
        }
        backend.keep_outcome_of_replay(0, 0, Arc::new(replayed));
        let control = RunControl::without_reports_or_cancellation();
        let runs = run_backend_in_memory(&plan, &backend, &control)
            .and_then(|reader| Ok(reader.read_runs()?))
            .map_err(tune_error_of_study)?;
        let metrics = sets.iter();
        Ok(metrics
            .map(|set| metrics_in_order_of_blocks(&runs, &set.to_string()))
            .collect())
    }
}

fn metrics_in_order_of_blocks(runs: &[RunRecord], policy: &str) -> Vec<NamedMetrics> {
    let mut found: Vec<&RunRecord> = runs.iter().filter(|run| run.key.policy == policy).collect();
    found.sort_by_key(|run| run.key.repeat);
    found.into_iter().map(|run| run.metrics.clone()).collect()
}

fn replay_request(
    path: &str,
    machine: Option<&str>,
    sets: Vec<PolicySet>,
    blocks: u32,
) -> ReplayRequest {
    ReplayRequest {
        machine: machine.map(str::to_owned),
        ..ReplayRequest::for_recording_as_taken(
            "Which set suits the recording?",
            path,
            sets,
            blocks,
        )
    }
}

fn find_recording<'a>(backend: &'a Replay<'a>) -> Result<&'a Replaying<'a>, TuneError> {
    let found = backend.find_recording(0, 0);
    found.ok_or_else(|| TuneError::Recording("no recording to replay".to_owned()))
}

fn tune_error_of_study(error: StudyError) -> TuneError {
    match error {
        StudyError::Interrupted => TuneError::Interrupted,
        other => TuneError::Recording(other.to_string()),
    }
}

/// Recorded idle periods under other idle policies as an evaluator.
///
/// Every trial is the whole of each recording: its blocks of equal time are the runs, whatever the effort asks for.
pub struct IdleReplay<'a> {
    recordings: &'a [IdleRecording],
    cancelled: &'a AtomicBool,
    /// Trials by the text of the set: the search asks for each set several times.
    made: Mutex<BTreeMap<String, TrialOutcome>>,
}

impl<'a> IdleReplay<'a> {
    /// Recordings, in the order of the request's loads.
    pub fn new(recordings: &'a [IdleRecording], cancelled: &'a AtomicBool) -> Self {
        Self {
            recordings,
            cancelled,
            made: Mutex::default(),
        }
    }

    fn events_per_trial(&self) -> u64 {
        let events = self.recordings.iter().map(|recording| recording.events);
        events.sum::<u64>().max(1)
    }

    /// Makes trials of sets that differ in nothing but the governor.
    fn run_sets_of_a_pass(&self, sets: &[PolicySet]) -> Result<Vec<TrialOutcome>, TuneError> {
        let mut loads: Vec<Vec<LoadRuns>> = vec![Vec::new(); sets.len()];
        for recording in self.recordings {
            let resolved: Vec<PolicySet> = sets
                .iter()
                .map(|set| recording.policies_in_force_under(set))
                .collect();
            let metrics = match recording.replay_sets(&resolved, self.cancelled) {
                Err(TuneError::Recording(why)) if sets.iter().all(|set| !set.is_empty()) => {
                    return Ok(vec![TrialOutcome::Refused(why); sets.len()]);
                }
                other => other?,
            };
            for (own, runs) in loads.iter_mut().zip(metrics) {
                own.push(LoadRuns {
                    runs,
                    ..LoadRuns::default()
                });
            }
        }
        let trials = loads.into_iter().map(|loads| {
            TrialOutcome::Ran(Trial {
                loads,
                rest: LoadRuns::default(),
                requests: self.events_per_trial(),
            })
        });
        Ok(trials.collect())
    }
}

/// What a pass through a recording has in common: the set without its governor, as text.
fn text_without_governor(set: &PolicySet) -> String {
    let others = set.policies().iter();
    let texts: Vec<String> = others
        .filter(|policy| policy.kind() != Kind::Idle)
        .map(ToString::to_string)
        .collect();
    texts.join(" + ")
}

impl Evaluator for IdleReplay<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        _effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let mut passes: BTreeMap<String, Vec<PolicySet>> = BTreeMap::new();
        let known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        for set in sets {
            let others = passes.entry(text_without_governor(set)).or_default();
            if !known.contains_key(&set.to_string()) && !others.contains(set) {
                others.push(set.clone());
            }
        }
        drop(known);
        let passes: Vec<Vec<PolicySet>> = passes.into_values().filter(|p| !p.is_empty()).collect();
        let made: Vec<Vec<TrialOutcome>> = passes
            .par_iter()
            .map(|pass| self.run_sets_of_a_pass(pass))
            .collect::<Result<_, _>>()?;
        let mut known = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        for (set, outcome) in passes.iter().flatten().zip(made.into_iter().flatten()) {
            known.insert(set.to_string(), outcome);
        }
        let outcomes = sets.iter().map(|set| known.get(&set.to_string()).cloned());
        Ok(outcomes.flatten().collect())
    }

    fn requests_of_replay(&self) -> Option<u64> {
        Some(self.events_per_trial())
    }

    fn origin(&self) -> AnswerOrigin {
        AnswerOrigin::RecordedIdle
    }
}
