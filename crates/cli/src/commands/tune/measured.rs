//! `wakepath tune --on live`: measures the best few sets on this machine, interleaved with the unchanged policies.

use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::Serialize;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_results::{ResultReader, RunOrigin, RunRecord};
use wakepath_settings::policy::{Targets, resolve_to_settings};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run;
use wakepath_study::run::live::measures_package_power;
use wakepath_system::System;
use wakepath_system::setting::have_same_meaning;
use wakepath_tune::{
    Finalist, LoadArgument, LoadRuns, MeasuredSet, SearchAnswer, SearchRequest, Trial, UNCHANGED,
    compare_prediction_with_measurement, decide_by_measurements, leaves_hours_of_rest,
    request_with_measured_metrics,
};

use super::arguments::{Args, DecidedOn, MeasureArgs};
use super::finalist_study::{REST, RunsOfStudy, make_backend, run_plan_into_folder, study_text};
use super::simulated::Searched;
use super::tables::PredictionReport;
use crate::messages::{note, tell};
use crate::output::{self, Format, Screen, count_with_noun};
use crate::until;

/// Output for `--dry-run`.
#[derive(Serialize)]
struct PlannedMeasurement {
    /// The sets, after the unchanged policies.
    sets: Vec<String>,
    loads: Vec<String>,
    repeats: u32,
    runs: usize,
    /// How long all runs take, in seconds, where the loads say how long they run.
    seconds: Option<f64>,
    /// Sets that are not measured, with the reason.
    left_out: Vec<String>,
}

/// Refuses metrics impossible to measure here, before any search.
pub(super) fn check_request_can_be_measured(
    args: &MeasureArgs,
    request: &SearchRequest,
) -> anyhow::Result<()> {
    if args.on == DecidedOn::Sim {
        ensure!(
            !args.dry_run,
            "--dry-run is for --on live: a search changes nothing"
        );
        return Ok(());
    }
    request_with_measured_metrics(request, measures_package_power(&args.system()))
        .context("--on live")?;
    Ok(())
}

/// A set to measure.
#[derive(Clone)]
struct MeasuredChoice {
    set: String,
    /// Number of mechanisms that the set changes.
    changes: usize,
}

impl MeasuredChoice {
    fn from_finalist(finalist: &Finalist) -> Self {
        Self {
            set: finalist.set.clone(),
            changes: finalist.changes,
        }
    }

    /// The set with one more policy; `None` where both contradict each other.
    fn with_policy(&self, policy: &PolicySpec) -> Option<Self> {
        let own = self.set.parse::<PolicySet>().ok()?;
        let both = own.with_policy(policy.clone()).ok()?;
        Some(Self {
            set: both.to_string(),
            changes: self.changes + 1,
        })
    }
}

/// A measurement, planned and checked.
pub(super) struct Measurement<'a> {
    args: &'a Args,
    request: SearchRequest,
    sets: Vec<MeasuredChoice>,
    plan: Plan,
    left_out: Vec<String>,
}

impl<'a> Measurement<'a> {
    /// Plans a measurement for the best sets possible on this machine.
    ///
    /// # Errors
    /// No set is left, or the loads cannot run here.
    pub(super) fn plan_for_best_sets(
        args: &'a Args,
        loads: &[LoadArgument],
        request: &SearchRequest,
        searched: &Searched,
    ) -> anyhow::Result<Self> {
        let system = args.measure.system();
        let measured = request_with_measured_metrics(request, measures_package_power(&system))?;
        let (mut sets, mut left_out): (Vec<MeasuredChoice>, Vec<String>) = (Vec::new(), Vec::new());
        for finalist in list_sets_worth_measuring(&searched.answer) {
            if sets.len() >= args.measure.measured_sets as usize {
                break;
            }
            let choice = MeasuredChoice::from_finalist(finalist);
            match plan_sets(args, loads, &measured, std::slice::from_ref(&choice)) {
                Ok(_) => sets.push(choice),
                Err(why) => left_out.push(format!("{}: {why}", choice.set)),
            }
        }
        // No simulation answers to these policies, so each goes with the best predicted set.
        let best = sets.first().cloned().unwrap_or_else(|| MeasuredChoice {
            set: UNCHANGED.to_owned(),
            changes: 0,
        });
        for policy in &searched.measured_only {
            if is_in_force(&system, policy) {
                left_out.push(format!("{policy}: in force already"));
                continue;
            }
            let Some(choice) = best.with_policy(policy) else {
                left_out.push(format!("{policy}: contradicts {}", best.set));
                continue;
            };
            match plan_sets(args, loads, &measured, std::slice::from_ref(&choice)) {
                Ok(_) => sets.push(choice),
                Err(why) => left_out.push(format!("{policy}: {why}")),
            }
        }
        // Without sets, the unchanged policies alone show faults in the loads.
        let plan = plan_sets(args, loads, &measured, &sets)?;
        if sets.is_empty() {
            bail!(
                "--on live: no set of the search can be measured here: {}",
                left_out.join("; ")
            );
        }
        Ok(Self {
            args,
            request: measured,
            sets,
            plan,
            left_out,
        })
    }

    /// Prints the plan.
    pub(super) fn print_plan(&self, out: &mut Screen) -> anyhow::Result<()> {
        let backend = make_backend(self.args, &self.plan)?;
        let duration = backend.estimate_duration(std::time::Duration::ZERO)?;
        let planned = PlannedMeasurement {
            sets: self.sets.iter().map(|set| set.set.clone()).collect(),
            loads: (self.plan.workloads.iter().map(|load| load.name.clone())).collect(),
            repeats: self.plan.repeats(),
            runs: self.plan.run_count(),
            seconds: duration.map(|duration| duration.as_secs_f64()),
            left_out: self.left_out.clone(),
        };
        match self.args.format {
            Format::Json => output::write_json(out, &planned),
            Format::Csv => {
                let rows = planned.sets.iter().map(|set| [set.clone()]);
                output::write_csv(out, ["set"], rows)
            }
            Format::Table => {
                let takes = planned.seconds.map_or_else(String::new, |seconds| {
                    format!(", about {}", until::duration_in_words(seconds))
                });
                let sentence = format!(
                    "Would measure on this machine: {} of {}{takes}. Runs of all sets are interleaved; settings are put back.",
                    count_with_noun(planned.runs as u64, "run"),
                    planned.loads.join(", ")
                );
                out.write_folded(&sentence, 2)?;
                for set in [UNCHANGED]
                    .into_iter()
                    .chain(planned.sets.iter().map(String::as_str))
                {
                    writeln!(out, "  {set}")?;
                }
                for why in &planned.left_out {
                    note!("left out: {why}");
                }
                Ok(())
            }
        }
    }

    /// Measures, and decides by the measured figures.
    pub(super) fn run_and_decide(
        &self,
        predicted: &SearchAnswer,
    ) -> anyhow::Result<(SearchAnswer, PredictionReport)> {
        for why in &self.left_out {
            note!("left out: {why}");
        }
        tell!(
            "measures {} and what is in force on this machine",
            count_with_noun(self.sets.len() as u64, "set")
        );
        let temporary = tempfile::tempdir().context("a folder for the runs")?;
        let folder = match &self.args.results {
            Some(folder) => folder.clone(),
            None => temporary.path().join("runs"),
        };
        run_plan_into_folder(self.args, &self.plan, &folder).map_err(without_hint_to_resume)?;
        let runs = ResultReader::open(&folder)?.read_runs()?;
        let in_force = self.trial_of_policy(&runs, UNCHANGED)?;
        let mut sets = Vec::new();
        for finalist in &self.sets {
            sets.push(MeasuredSet {
                set: finalist.set.clone(),
                changes: finalist.changes,
                trial: self.trial_of_policy(&runs, &finalist.set)?,
            });
        }
        let answer = decide_by_measurements(&self.request, in_force, &sets, predicted)?;
        let errors = compare_prediction_with_measurement(predicted, &answer);
        let prediction = PredictionReport {
            answer: predicted.clone(),
            errors,
        };
        Ok((answer, prediction))
    }

    /// The request in measured metrics.
    pub(super) fn measured_request(&self) -> &SearchRequest {
        &self.request
    }

    /// Runs under a policy, in the request's order.
    fn trial_of_policy(&self, runs: &[RunRecord], policy: &str) -> anyhow::Result<Trial> {
        let loads = self.request.loads.iter().map(|load| load.name.as_str());
        let trial = Trial {
            loads: loads.map(|load| runs_of_cell(runs, policy, load)).collect(),
            rest: runs_of_cell(runs, policy, REST),
            requests: 1,
        };
        let expected = self.plan.repeats() as usize;
        ensure!(
            trial.loads.iter().all(|load| load.runs.len() == expected),
            "the results lack runs of {policy}"
        );
        Ok(trial)
    }
}

/// Whether a machine's settings are those of a policy already.
fn is_in_force(system: &System, policy: &PolicySpec) -> bool {
    let set = PolicySet::new([policy.clone()]).ok();
    let wanted = set.and_then(|set| resolve_to_settings(system, &set, &Targets::default()).ok());
    wanted.is_some_and(|wanted| {
        wanted.values.iter().all(|(key, value)| {
            let found = system.read_setting(key);
            found.is_ok_and(|found| have_same_meaning(key.setting, &found, value))
        })
    })
}

/// Runs for a load under a policy, by repeat.
fn runs_of_cell(runs: &[RunRecord], policy: &str, load: &str) -> LoadRuns {
    let mut found: Vec<&RunRecord> = runs
        .iter()
        .filter(|run| run.key.policy == policy && run.key.workload == load)
        .collect();
    found.sort_by_key(|run| run.key.repeat);
    LoadRuns {
        latency: found.iter().map(|run| run.latency.clone()).collect(),
        runs: found.into_iter().map(|run| run.metrics.clone()).collect(),
        ..LoadRuns::default()
    }
}

/// Candidates for the measured answer, the best first: sets keeping every condition by prediction, or else all.
fn list_sets_worth_measuring(predicted: &SearchAnswer) -> Vec<&Finalist> {
    let best = predicted.best.iter().filter(|best| !best.changes_nothing());
    let all: Vec<&Finalist> = best.chain(&predicted.next).collect();
    if all.iter().any(|set| set.keeps_conditions_by_means()) {
        let keeping = all.into_iter();
        keeping
            .filter(|set| set.keeps_conditions_by_means())
            .collect()
    } else {
        all
    }
}

/// Plans a measurement for some sets and the unchanged policies, and checks every set against this machine.
fn plan_sets(
    args: &Args,
    loads: &[LoadArgument],
    request: &SearchRequest,
    sets: &[MeasuredChoice],
) -> anyhow::Result<Plan> {
    let runs = RunsOfStudy {
        target: RunOrigin::Live,
        repeats: args.measure.repeats,
        seed: args.seed,
        has_rest: request.objective.counts_hours_of_rest() && leaves_hours_of_rest(&request.loads),
    };
    let names: Vec<&str> = sets.iter().map(|set| set.set.as_str()).collect();
    let text = study_text(args, loads, request, &names, runs)?;
    let plan = Plan::from_text(&text, "wakepath tune", Path::new("."), RunOrigin::Live)?;
    let backend = make_backend(args, &plan)?;
    run::check_cells(&plan, &*backend)?;
    drop(backend);
    Ok(plan)
}

/// An interrupted measurement begins anew, without `--resume`.
fn without_hint_to_resume(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<StudyError>() {
        Some(StudyError::Interrupted) => {
            anyhow::anyhow!("nothing was decided, and settings are as before")
        }
        _ => error,
    }
}
