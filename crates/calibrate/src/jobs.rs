//! Jobs that no figure was fitted to: run on the machine, simulated, and compared.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use toml::{Table, Value};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::PredictionError;
use wakepath_measure::Conditions;
use wakepath_results::{RunOrigin, RunRecord};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::make_backend;
use wakepath_units::median;

use crate::error::CalibrateError;
use crate::folder::Folder;
use crate::job_list::JOBS;
use crate::plan::{CalibrationPlan, REPEATS};

/// The machine file beside the study.
const MACHINE_FILE: &str = "machine.toml";

/// Latency and rate of a job.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct JobFigures {
    /// Mean latency in us.
    pub mean_us: f64,
    /// 99th percentile of latency in us.
    pub p99_us: f64,
    /// Requests per second.
    pub iops: f64,
}

/// A job on the machine and in the simulator.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct JobPrediction {
    /// Name of the job.
    pub job: String,
    /// Medians over runs on the machine.
    pub live: JobFigures,
    /// The same job in the simulator, with the calibrated machine.
    pub simulated: JobFigures,
    /// The same with the machine as captured.
    pub before: JobFigures,
}

impl JobFigures {
    /// Median figures over runs.
    fn median_of_runs(runs: &[RunRecord]) -> Option<Self> {
        Some(Self {
            mean_us: median_metric(runs, "mean_us")?,
            p99_us: median_metric(runs, "p99_us")?,
            iops: median_metric(runs, "iops")?,
        })
    }

    /// By how many per cent these figures are above others: mean, p99, IOPS.
    pub fn percent_above(&self, other: &Self) -> [f64; 3] {
        let ratios = [
            self.mean_us / other.mean_us,
            self.p99_us / other.p99_us,
            self.iops / other.iops,
        ];
        ratios.map(|ratio| (ratio - 1.0) * 100.0)
    }
}

/// Median of a metric over runs; `None` without values.
fn median_metric(runs: &[RunRecord], name: &str) -> Option<f64> {
    let values = runs.iter().filter_map(|run| {
        let found = run.metrics.iter().find(|(metric, _)| metric == name);
        found.map(|(_, value)| *value)
    });
    median(values)
}

/// The median error over jobs; `None` without jobs.
pub fn prediction_error(
    jobs: &[JobPrediction],
    conditions: &Conditions,
) -> Option<PredictionError> {
    let errors: Vec<[f64; 3]> = jobs
        .iter()
        .map(|job| job.simulated.percent_above(&job.live).map(f64::abs))
        .collect();
    let [mean_percent, p99_percent, iops_percent] = [0, 1, 2].map(|metric| {
        let percent = median(errors.iter().map(|error| error[metric]));
        percent.map(|percent| (percent * 10.0).round() / 10.0)
    });
    Some(PredictionError {
        jobs: jobs.len(),
        mean_percent: mean_percent?,
        p99_percent: p99_percent?,
        iops_percent: iops_percent?,
        date: conditions.date.clone(),
        kernel: conditions.kernel.clone(),
    })
}

/// Runs the jobs and simulates them, with the machine as captured and as calibrated.
pub(crate) fn compare(
    [captured, calibrated]: [&Machine; 2],
    folder: &Folder,
    plan: &CalibrationPlan,
    (finished, cancelled): (&(dyn Fn(usize) + Sync), &AtomicBool),
) -> Result<Vec<JobPrediction>, CalibrateError> {
    let text = study_text(folder.path(), plan);
    let live = run_jobs(&text, folder.path(), RunOrigin::Live, cancelled, finished)?;
    let before = simulate_jobs(&text, folder.path(), captured, cancelled)?;
    let after = simulate_jobs(&text, folder.path(), calibrated, cancelled)?;
    let mut predictions = Vec::new();
    for (index, (name, _)) in JOBS.iter().enumerate() {
        let figures = [&live, &after, &before].map(|runs| runs.get(index).copied().flatten());
        if let [Some(live), Some(simulated), Some(before)] = figures {
            predictions.push(JobPrediction {
                job: (*name).to_owned(),
                live,
                simulated,
                before,
            });
        }
    }
    Ok(predictions)
}

/// Figures of each job on a simulated machine.
fn simulate_jobs(
    text: &str,
    folder: &Path,
    machine: &Machine,
    cancelled: &AtomicBool,
) -> Result<Vec<Option<JobFigures>>, CalibrateError> {
    let file = folder.join(MACHINE_FILE);
    fs::write(&file, machine.to_toml()?).map_err(|source| CalibrateError::Folder {
        path: file,
        action: "writing the machine",
        source,
    })?;
    run_jobs(text, folder, RunOrigin::Sim, cancelled, &|_| ())
}

/// Study file with all jobs under present settings.
fn study_text(folder: &Path, plan: &CalibrationPlan) -> String {
    let data = folder.join("fio.tmp").display().to_string();
    let mib = plan.request.file_bytes >> 20;
    let workloads = JOBS.iter().map(|(name, options)| {
        let job = format!(
            "[job]\nfilename={data}\nsize={mib}m\nrw=randread\nbs=4k\ndirect=1\n{options}\n"
        );
        Value::Table(Table::from_iter([
            ("name".to_owned(), Value::from(*name)),
            ("fio_job".to_owned(), Value::from(job)),
            ("seconds".to_owned(), Value::Float(plan.job_seconds)),
        ]))
    });
    let policy = Table::from_iter([
        ("name".to_owned(), Value::from("as it is")),
        ("set".to_owned(), Value::from("unchanged")),
    ]);
    let study = Table::from_iter([
        ("name".to_owned(), Value::from("calibration")),
        ("title".to_owned(), Value::from("Jobs of a calibration")),
        ("machine".to_owned(), Value::from(MACHINE_FILE)),
        ("repeats".to_owned(), Value::from(i64::from(REPEATS))),
        ("workload".to_owned(), Value::Array(workloads.collect())),
        (
            "policy".to_owned(),
            Value::Array(vec![Value::Table(policy)]),
        ),
    ]);
    study.to_string()
}

/// Figures per job on a backend, ordered as [`JOBS`].
fn run_jobs(
    text: &str,
    folder: &Path,
    origin: RunOrigin,
    cancelled: &AtomicBool,
    finished: &dyn Fn(usize),
) -> Result<Vec<Option<JobFigures>>, CalibrateError> {
    let plan = Plan::from_text(text, "calibration", folder, origin)?;
    let backend = make_backend(&plan)?;
    backend.begin()?;
    let mut runs: Vec<Vec<RunRecord>> = vec![Vec::new(); JOBS.len()];
    let mut result = Ok(());
    for (position, index) in (0..plan.runs()).enumerate() {
        let cell = plan.cell(index);
        let mut run = RunRecord::new(plan.key(index), None, cell.repeat, position as u32);
        result = backend.run(cell, &mut run, cancelled);
        if result.is_err() || cancelled.load(Ordering::Relaxed) {
            break;
        }
        finished(1);
        if let Some(runs) = runs.get_mut(cell.workload) {
            runs.push(run);
        }
    }
    // What was changed is put back before an error is told.
    backend.end()?;
    result?;
    if cancelled.load(Ordering::Relaxed) {
        return Err(StudyError::Interrupted.into());
    }
    Ok(runs
        .iter()
        .map(|runs| JobFigures::median_of_runs(runs))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(mean_us: f64) -> JobFigures {
        JobFigures {
            mean_us,
            p99_us: 2.0 * mean_us,
            iops: 1e6 / mean_us,
        }
    }

    #[test]
    fn the_error_of_a_prediction_is_the_median_over_jobs() {
        let conditions = Conditions {
            date: "2026-11-27".to_owned(),
            kernel: "6.12.48".to_owned(),
            busy_percent: None,
        };
        let jobs = [90.0, 104.0, 125.0].map(|simulated| JobPrediction {
            job: "reads".to_owned(),
            live: figures(100.0),
            simulated: figures(simulated),
            before: figures(150.0),
        });
        let error = prediction_error(&jobs, &conditions).unwrap();
        assert!((error.mean_percent - 10.0).abs() < 1e-9);
        assert!((error.iops_percent - 11.1).abs() < 1e-9);
        assert_eq!(
            error.to_string(),
            "mean within 10 %, p99 10 %, IOPS 11 % (3 jobs, 2026-11-27, Linux 6.12.48)"
        );
        assert_eq!(prediction_error(&[], &conditions), None);
    }
}
