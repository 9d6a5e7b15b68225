//! Jobs under policy sets, on the machine or in the simulator.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use toml::{Table, Value};
use wakepath_hardware::Machine;
use wakepath_measure::ExperimentControl;
use wakepath_results::{RunOrigin, RunRecord};
use wakepath_study::file::StudyError;
use wakepath_study::plan::Plan;
use wakepath_study::run::{check_cells, make_backend};

use crate::error::CalibrateError;
use crate::folder::data_file_in;
use crate::job_list::CalibrationJob;

/// Simulated repeats of a run; a prediction is their median, because short jobs differ by chance.
const SIMULATED_REPEATS: u32 = 3;
/// Machine name in a simulated study's text; the plan then gets the calibrated machine instead.
const STAND_IN: &str = "laptop";

/// Jobs to run, each under each policy set.
#[derive(Clone, Copy, Debug)]
pub(crate) struct JobStudy<'a> {
    /// Folder of the data file.
    pub(crate) folder: &'a Path,
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
        self.run(&self.plan_on_this_machine()?, Some(control), cancelled)
    }

    /// Runs of each job under each policy set on a simulated machine: `[job][set][repeat]`.
    pub(crate) fn simulate(
        &self,
        machine: &Machine,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<RunRecord>>>, CalibrateError> {
        self.run(&self.plan_simulation(machine)?, None, cancelled)
    }

    /// Checks each job for runs on the real machine and in the simulator, with `machine`. Runs and writes nothing.
    ///
    /// # Errors
    /// A file is no fio job, or has options unknown to the simulator; a job would write to a device; fio is missing.
    pub(crate) fn check(&self, machine: &Machine) -> Result<(), CalibrateError> {
        for plan in [self.plan_on_this_machine()?, self.plan_simulation(machine)?] {
            let backend = make_backend(&plan)?;
            check_cells(&plan, &*backend)?;
        }
        Ok(())
    }

    fn plan_on_this_machine(&self) -> Result<Plan, CalibrateError> {
        let text = self.compose_text(None);
        let plan = Plan::from_text(&text, "calibration", self.folder, RunOrigin::Live)?;
        Ok(plan)
    }

    fn plan_simulation(&self, machine: &Machine) -> Result<Plan, CalibrateError> {
        let study = Self {
            repeats: SIMULATED_REPEATS,
            ..*self
        };
        let text = study.compose_text(Some(STAND_IN));
        let mut plan = Plan::from_text(&text, "calibration", self.folder, RunOrigin::Sim)?;
        // As read back from the machine file.
        let kept = Machine::parse(&machine.to_toml()?, "the calibrated machine")?;
        for planned in &mut plan.machines {
            planned.model = Some(kept.clone());
        }
        Ok(plan)
    }

    /// The study file. Nothing is left out at the start of a run: fio 3.33 makes no pauses after a `ramp_time` until it
    /// has sent as many requests as in it (mended by its commit cfc4ad2e).
    fn compose_text(&self, machine: Option<&str>) -> String {
        let data = data_file_in(self.folder).display().to_string();
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
        study.extend(machine.map(|name| ("machine".to_owned(), Value::from(name))));
        study.to_string()
    }

    fn run(
        &self,
        plan: &Plan,
        control: Option<ExperimentControl<'_>>,
        cancelled: &AtomicBool,
    ) -> Result<Vec<Vec<Vec<RunRecord>>>, CalibrateError> {
        let backend = make_backend(plan)?;
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
        let jobs = CalibrationJob::reads(&JOBS);
        let study = JobStudy {
            folder: Path::new("/tmp"),
            jobs: &jobs,
            sets: &["unchanged", "cpu-latency[limit=0us]"],
            file_bytes: 32 << 20,
            seconds: 1.0,
            settle_seconds: 0.25,
            repeats: 2,
        };
        let plan = study.plan_on_this_machine().unwrap();
        assert!((plan.file.settle_s.get_ref() - 0.25).abs() < 1e-9);
        assert_eq!(plan.run_count(), 16);
    }
}
