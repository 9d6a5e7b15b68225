//! A study with a search's best sets and the unchanged policies, so that `compare` and `report` take the results.

use std::fs;
use std::path::Path;

use anyhow::Context;
use serde::Serialize;
use wakepath_results::{Mode, RunOrigin};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::live::Live;
use wakepath_study::run::{self, Backend, RunControl};
use wakepath_tune::{Finalist, LoadArgument, SearchAnswer, SearchRequest, UNCHANGED};
use wakepath_workloads::Workload;

use super::arguments::Args;
use super::tables::best_next_and_in_force;
use crate::waiting;

/// Name for the workload at rest.
pub(super) const REST: &str = "rest";

/// Repeats and seeds for a study. Measured runs get their order from the seed.
#[derive(Clone, Copy)]
pub(super) struct RunsOfStudy {
    pub(super) target: RunOrigin,
    pub(super) repeats: u32,
    pub(super) seed: u64,
    /// Whether the machine at rest is a workload, too.
    pub(super) has_rest: bool,
}

#[derive(Serialize)]
struct StudyKeys<'a> {
    name: &'static str,
    title: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    machine: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    drive: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kernel: Option<String>,
    repeats: u32,
    seed: u64,
    policy: Vec<&'a str>,
    workload: Vec<WorkloadKeys>,
    question: [QuestionKeys<'a>; 1],
}

#[derive(Default, Serialize)]
struct WorkloadKeys {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    fio: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rt_app: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    trace: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    server: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tasks: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<[&'static str; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

#[derive(Serialize)]
struct QuestionKeys<'a> {
    metric: &'a str,
}

/// Study text with the policy sets and the unchanged policies, on the search's loads.
pub(super) fn study_text(
    args: &Args,
    loads: &[LoadArgument],
    request: &SearchRequest,
    sets: &[&str],
    runs: RunsOfStudy,
) -> anyhow::Result<String> {
    let is_simulated = runs.target == RunOrigin::Sim;
    let mut workloads = loads
        .iter()
        .zip(&request.loads)
        .map(|(load, daily)| {
            let path = fs::canonicalize(&load.path)
                .with_context(|| load.path.display().to_string())?
                .to_str()
                .with_context(|| format!("{}: the path is not UTF-8", load.path.display()))?
                .to_owned();
            let mut keys = WorkloadKeys {
                name: daily.name.clone(),
                seconds: args.seconds.map(wakepath_units::Nanoseconds::as_secs_f64),
                ..WorkloadKeys::default()
            };
            let key_of_file = match &daily.workload {
                Some(workload) if workload.block_trace().is_some() => &mut keys.trace,
                Some(Workload::RtApp(_)) => &mut keys.rt_app,
                Some(Workload::Server(_)) => &mut keys.server,
                Some(Workload::Tasks(_)) => &mut keys.tasks,
                Some(Workload::Fio(_)) | None => &mut keys.fio,
            };
            *key_of_file = Some(path);
            Ok(keys)
        })
        .collect::<anyhow::Result<Vec<WorkloadKeys>>>()?;
    if runs.has_rest {
        workloads.push(WorkloadKeys {
            name: REST.to_owned(),
            command: Some(["sleep", "5"]),
            ..WorkloadKeys::default()
        });
    }
    let mut policy = vec![UNCHANGED];
    policy.extend(sets.iter().filter(|set| **set != UNCHANGED));
    let keys = StudyKeys {
        name: "tune",
        title: format!("The best sets for {}", request.objective.metric.title),
        machine: args
            .machine
            .as_deref()
            .or(Some("here"))
            .filter(|_| is_simulated),
        drive: args.drive.as_deref().filter(|_| is_simulated),
        kernel: (args.kernel.filter(|_| is_simulated)).map(|kernel| kernel.to_string()),
        repeats: runs.repeats,
        seed: runs.seed,
        policy,
        workload: workloads,
        question: [QuestionKeys {
            metric: &request.objective.metric.name,
        }],
    };
    toml::to_string(&keys).context("the study of the best sets")
}

/// Simulates an answer's finalists again, on the deciding seeds, into a result directory.
pub(super) fn write_results_of_finalists(
    args: &Args,
    loads: &[LoadArgument],
    request: &SearchRequest,
    answer: &SearchAnswer,
    folder: &Path,
) -> anyhow::Result<()> {
    let finalists: Vec<&Finalist> = best_next_and_in_force(answer).collect();
    let sets: Vec<&str> = finalists.iter().map(|one| one.set.as_str()).collect();
    let runs = RunsOfStudy {
        target: RunOrigin::Sim,
        repeats: answer.repeats,
        seed: answer.first_seed_of_decision,
        has_rest: false,
    };
    let text = study_text(args, loads, request, &sets, runs)?;
    let plan = Plan::from_text(&text, "wakepath tune", Path::new("."), RunOrigin::Sim)?;
    run_plan_into_folder(args, &plan, folder)
        .with_context(|| format!("--results {}", folder.display()))
}

/// Makes the backend of a plan.
pub(super) fn make_backend<'a>(
    args: &Args,
    plan: &'a Plan,
) -> Result<Box<dyn Backend + 'a>, StudyError> {
    match plan.target {
        RunOrigin::Live => Ok(Box::new(Live::with_settings_of(
            plan,
            args.measure.system(),
        )?)),
        _ => run::make_backend(plan),
    }
}

/// Runs a plan into a result directory, with progress.
pub(super) fn run_plan_into_folder(args: &Args, plan: &Plan, folder: &Path) -> anyhow::Result<()> {
    let mode = if args.force { Mode::Replace } else { Mode::New };
    waiting::run_with_progress(
        args.jobs,
        plan.run_count(),
        "runs",
        |finished, cancelled| {
            let control = RunControl {
                finished,
                cancelled,
            };
            let backend = make_backend(args, plan)?;
            Ok(run::run_plan(
                plan, &*backend, None, folder, mode, &control,
            )?)
        },
    )
}
