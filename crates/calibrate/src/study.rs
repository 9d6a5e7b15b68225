//! Jobs under policy sets, on the machine or in the simulator.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};

use toml::{Table, Value};
use wakepath_hardware::Machine;
use wakepath_measure::ExperimentControl;
use wakepath_results::{RunOrigin, RunRecord};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::make_backend;

use crate::error::CalibrateError;
use crate::folder::Folder;
use crate::job_list::CalibrationJob;

/// Simulated repeats of a run; a prediction is their median, because short jobs differ by chance.
const SIMULATED_REPEATS: u32 = 3;
/// Name of the machine file that lies beside the study of a calibration.
const MACHINE_FILE: &str = "machine.toml";

/// Jobs to run, each under each policy set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobStudy<'a> {
    pub(crate) folder: &'a Folder,
    pub(crate) jobs: &'a [CalibrationJob],
    /// Policy sets as text.
    pub(crate) sets: &'a [&'static str],
    /// Size of the data file in bytes.
    pub(crate) file_bytes: u64,
    pub(crate) seconds: f64,
    /// From a change of settings to a job.
    pub(crate) settle_seconds: f64,
    pub(crate) repeats: u32,
}

impl JobStudy<'_> {
    /// Runs of each job under each policy set on this machine: `[job][set][repeat]`.
    pub(crate) fn measure(
        &self,
        control: ExperimentControl<'_>,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<RunRecord>>>, CalibrateError> {
        self.run(
            &self.compose_text(false),
            RunOrigin::Live,
            Some(control),
            cancelled,
        )
    }

    /// Runs of each job under each policy set on a simulated machine: `[job][set][repeat]`.
    pub(crate) fn simulate(
        &self,
        machine: &Machine,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<RunRecord>>>, CalibrateError> {
        let file = self.folder.path().join(MACHINE_FILE);
        fs::write(&file, machine.to_toml()?).map_err(|source| CalibrateError::Folder {
            path: file,
            action: "writing the machine",
            source,
        })?;
        let study = Self {
            repeats: SIMULATED_REPEATS,
            ..*self
        };
        study.run(&study.compose_text(true), RunOrigin::Sim, None, cancelled)
    }

    /// The study file. Nothing is left out at the start of a run: fio 3.33 makes no pauses after a `ramp_time` until it
    /// has sent as many requests as in it (mended by its commit cfc4ad2e).
    fn compose_text(&self, has_machine: bool) -> String {
        let data = self.folder.data_file().display().to_string();
        let mib = self.file_bytes >> 20;
        let jobs = self.jobs.iter();
        let workloads = jobs.map(|job| job.workload(&data, mib, self.seconds));
        let sets = self.sets.iter().map(|set| {
            Value::Table(Table::from_iter([
                ("name".to_owned(), Value::from(*set)),
                ("set".to_owned(), Value::from(*set)),
            ]))
        });
        let mut study = Table::from_iter([
            ("name".to_owned(), Value::from("calibration")),
            ("title".to_owned(), Value::from("Jobs of a calibration")),
            ("repeats".to_owned(), Value::from(i64::from(self.repeats))),
            ("warm_up_s".to_owned(), Value::from(0.0)),
            ("settle_s".to_owned(), Value::from(self.settle_seconds)),
            ("workload".to_owned(), Value::Array(workloads.collect())),
            ("policy".to_owned(), Value::Array(sets.collect())),
        ]);
        if has_machine {
            study.insert("machine".to_owned(), Value::from(MACHINE_FILE));
        }
        study.to_string()
    }

    fn run(
        &self,
        text: &str,
        origin: RunOrigin,
        control: Option<ExperimentControl<'_>>,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<RunRecord>>>, CalibrateError> {
        let plan = Plan::from_text(text, "calibration", self.folder.path(), origin)?;
        let backend = make_backend(&plan)?;
        backend.acquire_rights()?;
        let mut runs = vec![vec![Vec::new(); self.sets.len()]; self.jobs.len()];
        let mut result = Ok(());
        for (position, index) in (0..plan.run_count()).enumerate() {
            let cell = plan.cell_at(index);
            let mut run = RunRecord::new(plan.key_at(index), None, cell.repeat, position as u32);
            result = backend.run_cell(cell, &mut run, cancelled);
            if result.is_err() || cancelled.load(Ordering::Relaxed) {
                break;
            }
            if let Some(control) = control {
                control.finish_steps(1);
            }
            let sets = runs.get_mut(cell.workload);
            if let Some(runs) = sets.and_then(|sets| sets.get_mut(cell.policy)) {
                runs.push(run);
            }
        }
        // What was changed is put back before an error is told.
        backend.restore_machine()?;
        result?;
        if cancelled.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted.into());
        }
        Ok(runs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job_list::JOBS;

    #[test]
    fn jobs_wait_after_a_change_of_settings_as_long_as_planned() {
        let folder = Folder::make(&std::env::temp_dir()).unwrap();
        let jobs = CalibrationJob::reads(&JOBS);
        let study = JobStudy {
            folder: &folder,
            jobs: &jobs,
            sets: &["unchanged", "cpu-latency[limit=0us]"],
            file_bytes: 32 << 20,
            seconds: 1.0,
            settle_seconds: 0.25,
            repeats: 2,
        };
        let text = study.compose_text(false);
        let plan = Plan::from_text(&text, "calibration", folder.path(), RunOrigin::Live).unwrap();
        assert!((plan.file.settle_s.get_ref() - 0.25).abs() < 1e-9);
        assert_eq!(plan.run_count(), 16);
    }
}
