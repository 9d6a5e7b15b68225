//! A machine file with measured figures, and how far predictions with it are off.
//!
//! [`calibrate`] captures a machine, and measures it: at rest, the path of reads, power, the drive and wake-ups. These figures take the
//! place of declared and assumed ones. The CPU's work per request is fitted. Then jobs that no figure was fitted to run on the machine
//! and in the simulator; their differences are the [prediction error](wakepath_hardware::machine::PredictionError).

mod engine_fit;
mod error;
mod figures;
mod folder;
mod host_queue_fit;
mod identity;
mod job_list;
mod plan;
mod prediction;
mod study;
mod surroundings;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use serde::Serialize;
use wakepath_hardware::Machine;
use wakepath_measure::background;
use wakepath_measure::drive::{self, DriveMeasurement};
use wakepath_measure::path;
use wakepath_measure::power;
use wakepath_measure::wake::{self, WakeMeasurement, WakePlan};
use wakepath_measure::{ExperimentControl, MeasureError, ShallowHold, write_random_file};
use wakepath_study::file::StudyError;
use wakepath_system::System;
use wakepath_system::capture::machine::describe_machine;

use self::engine_fit::{FittingRun, FittingRuns, fit_engine_work};
use self::folder::{Folder, remove_leftovers};
use self::host_queue_fit::fit_host_queue;
use self::job_list::CalibrationJob;
use self::plan::FITTING_SECONDS;

pub use error::CalibrateError;
pub use figures::put_in_place;
pub use identity::{
    StaleFigure, describe_calibrated, find_stale_figures, take_policies_in_force_now,
};
pub use plan::{CalibrationPhase, CalibrationPlan, CalibrationRequest, MOST_ROUNDS, TEST_FILES};
pub use prediction::{
    JobFigures, JobPrediction, PowerPrediction, PredictionRound, prediction_error,
};
pub use surroundings::Surroundings;

/// Comparisons are void on CPUs busier with other work than this, in per cent.
const BUSY: f64 = 20.0;

/// A calibrated machine.
#[derive(Clone, Debug, Serialize)]
pub struct CalibratedMachine {
    /// The machine with the figures of the last round that counts.
    #[serde(skip)]
    pub machine: Machine,
    /// What the drive takes, in the last round that counts.
    pub drive: DriveMeasurement,
    /// What wake-ups take, in the last round that counts; absent where the machine has nothing to measure.
    pub wake: Option<WakeMeasurement>,
    /// What was measured once, before the rounds; each round's machine has its figures.
    #[serde(flatten)]
    pub surroundings: Surroundings,
    /// Jobs as run and as simulated, in all rounds that count; empty without fio.
    pub jobs: Vec<JobPrediction>,
    /// Why no round counts, so that the first round's figures stand; absent: at least one round counts.
    pub flaw: Option<String>,
    /// Notes on the results for their reader: doubts, refusals, other work.
    pub notes: Vec<String>,
}

/// Calibrates a machine. `finished` gets the number of steps done since its last call.
///
/// # Errors
/// The machine cannot be described, or the drive cannot be measured. What was changed is put back. Later failures are notes.
pub fn calibrate(
    system: &System,
    plan: &CalibrationPlan,
    finished: &(dyn Fn(usize) + Sync),
    cancelled: &AtomicBool,
) -> Result<CalibratedMachine, CalibrateError> {
    let control = ExperimentControl::new(finished, cancelled);
    // A second measurement is refused before anything is written.
    ShallowHold::take(system)?.release()?;
    let mut notes = remove_leftovers(&plan.request.folder);
    let folder = Folder::make(&plan.request.folder)?;
    write_random_file(&folder.data_file(), plan.request.file_bytes, control)?;
    let (captured, captured_notes) = describe_machine(system, &plan.request.name)?;
    notes.extend(captured_notes);
    let calibration = Calibration {
        system,
        plan,
        control,
        cancelled,
        folder,
        captured,
    };
    let surroundings = calibration.measure_surroundings(&mut notes);
    let mut rounds = CountedRounds::begin_with(calibration.run_round(&surroundings)?);
    for number in 2..=plan.rounds() {
        if cancelled.load(Ordering::Relaxed) {
            break;
        }
        // A later round may fail; what was measured before stands.
        match calibration.run_round(&surroundings) {
            Ok(round) => rounds.add_or_leave_out(number, round),
            Err(CalibrateError::Measure(MeasureError::Cancelled)) => {}
            Err(error) => rounds.notes.push(format!("round {number} failed: {error}")),
        }
    }
    if cancelled.load(Ordering::Relaxed) {
        let early = "ended early: figures not yet measured stay as captured";
        rounds.notes.push(early.to_owned());
    }
    for note in std::mem::take(&mut rounds.notes) {
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
    Ok(rounds.finish(surroundings, notes))
}

/// One round: figures, and jobs predicted with them.
struct CalibrationRound {
    machine: Machine,
    drive: DriveMeasurement,
    wake: Option<WakeMeasurement>,
    jobs: Vec<JobPrediction>,
    /// Why the round does not count; absent: it does.
    flaw: Option<String>,
    notes: Vec<String>,
}

/// Rounds that count. The first round stands in until another counts.
struct CountedRounds {
    /// Figures of the last counted round, with the jobs of all rounds.
    kept: CalibrationRound,
    notes: Vec<String>,
}

impl CountedRounds {
    fn begin_with(mut first: CalibrationRound) -> Self {
        let mut notes = std::mem::take(&mut first.notes);
        notes.extend(
            first
                .flaw
                .iter()
                .map(|flaw| format!("the file keeps no prediction error: {flaw}")),
        );
        Self { kept: first, notes }
    }

    fn add_or_leave_out(&mut self, number: usize, mut round: CalibrationRound) {
        self.notes.append(&mut round.notes);
        if let Some(flaw) = round.flaw {
            self.notes
                .push(format!("round {number} is left out: {flaw}"));
            return;
        }
        if self.kept.flaw.is_none() {
            let latest = std::mem::replace(&mut round.jobs, std::mem::take(&mut self.kept.jobs));
            add_round(&mut round.jobs, latest);
        }
        self.kept = round;
    }

    fn finish(self, surroundings: Surroundings, notes: Vec<String>) -> CalibratedMachine {
        let mut round = self.kept;
        if round.flaw.is_none() {
            round.machine.prediction = prediction_error(&round.jobs, &round.drive.conditions);
        }
        CalibratedMachine {
            machine: round.machine,
            drive: round.drive,
            wake: round.wake,
            surroundings,
            jobs: round.jobs,
            flaw: round.flaw,
            notes,
        }
    }
}

/// Adds a round to earlier predictions.
fn add_round(all: &mut Vec<JobPrediction>, round: Vec<JobPrediction>) {
    for prediction in round {
        let mut known = all.iter_mut();
        let same = known
            .find(|other| (&other.job, &other.policy) == (&prediction.job, &prediction.policy));
        match same {
            Some(same) => same.rounds.extend(prediction.rounds),
            None => all.push(prediction),
        }
    }
}

/// A calibration under way: what all of its rounds share.
struct Calibration<'a> {
    system: &'a System,
    plan: &'a CalibrationPlan,
    control: ExperimentControl<'a>,
    cancelled: &'a AtomicBool,
    folder: Folder,
    captured: Machine,
}

impl Calibration<'_> {
    /// Measures the machine at rest, the path of reads and power; what fails is a note.
    fn measure_surroundings(&self, notes: &mut Vec<String>) -> Surroundings {
        let control = self.control;
        let background = self.plan.background.as_ref().and_then(|plan| {
            let measured = background::measure(self.system, plan, control);
            keep_or_note("the machine at rest", measured, notes)
        });
        let path = self.plan.path.clone().and_then(|plan| {
            let plan = plan.with_file(self.folder.data_file());
            let measured = path::measure(self.system, &plan, control);
            keep_or_note("the path of reads", measured, notes)
        });
        let power = match &self.plan.power {
            Some(Ok(plan)) => {
                keep_or_note("power", power::measure(self.system, plan, control), notes)
            }
            Some(Err(_)) | None => None,
        };
        notes.extend(power.iter().flat_map(|power| power.notes.iter().cloned()));
        Surroundings {
            background,
            path,
            power,
        }
    }

    /// Measures drive and wake-ups, puts all figures into the captured machine, and predicts jobs.
    fn run_round(&self, surroundings: &Surroundings) -> Result<CalibrationRound, CalibrateError> {
        let drive = drive::measure(self.system, &self.plan.drive, self.control)?;
        let mut notes = drive.notes.clone();
        let wake = self.measure_wakes(&mut notes);
        let mut captured = self.captured.clone();
        notes.extend(figures::choose_measured_drive(
            &mut captured,
            self.system,
            drive.device.as_ref(),
        ));
        let mut machine = captured.clone();
        notes.extend(put_in_place(&mut machine, &drive, wake.as_ref()));
        figures::take_timer_slack(&mut machine, self.system);
        notes.extend(surroundings.put_in_place(&mut machine));
        if let Err(why) = self.fit_jobs(&mut machine) {
            notes.push(format!(
                "io_path.program_kcycles and asynchronous_kcycles stay as captured: {why}"
            ));
        }
        let device = drive.device.as_ref();
        machine.calibrated_on = Some(describe_calibrated(self.system, device, &drive.conditions));
        let invalid = machine.check().err().map(|error| {
            format!("its figures make no valid machine, so the captured one stands for it: {error}")
        });
        if invalid.is_some() {
            machine = captured;
        }
        let jobs = self.predict(&machine, &drive, &mut notes);
        let flaw = invalid.or_else(|| describe_busy_cpus(&drive)).or_else(|| {
            self.is_cancelled()
                .then(|| "a signal ended it early".to_owned())
        });
        Ok(CalibrationRound {
            machine,
            drive,
            wake,
            jobs,
            flaw,
            notes,
        })
    }

    fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    /// Measures wake-ups; `None` if a signal came first, or if they cannot be measured.
    fn measure_wakes(&self, notes: &mut Vec<String>) -> Option<WakeMeasurement> {
        let file = self.folder.data_file();
        let measured = match &self.plan.wake {
            Some(Ok(wake)) if !self.is_cancelled() => {
                measure_wakes(self.system, wake, &file, self.control)
            }
            Some(Err(why)) => Err(why.clone()),
            Some(Ok(_)) | None => Ok(None),
        };
        let wake = measured.unwrap_or_else(|why| {
            notes.push(format!("no wake-ups were measured: {why}"));
            None
        });
        notes.extend(wake.iter().flat_map(|wake| wake.notes.iter().cloned()));
        wake
    }

    /// Fits the work by fio and its asynchronous engine to separate jobs, while CPUs are held shallow.
    fn fit_jobs(&self, machine: &mut Machine) -> Result<(), String> {
        if !self.plan.fits_jobs() {
            return Err("holding CPUs shallow needs root".to_owned());
        }
        let hold = ShallowHold::take(self.system).map_err(|error| error.to_string())?;
        if let Some(why) = hold.refusal() {
            return Err(why.to_owned());
        }
        let jobs = CalibrationJob::fitting_reads();
        let study = self.plan.fitting_study(self.folder.path(), &jobs);
        let measured = study.measure(self.control, self.cancelled);
        hold.release().map_err(|error| error.to_string())?;
        let runs = measured.map_err(|error| error.to_string())?;
        let figures = runs.iter().flatten().map(|runs| {
            let read = runs
                .iter()
                .map(|run| FittingRun::from_run(run, FITTING_SECONDS));
            read.collect::<Option<Vec<_>>>()
                .ok_or("fio told no latency")
        });
        match &figures.collect::<Result<Vec<_>, _>>()?[..] {
            [synchronous, asynchronous, few, deep] => {
                let runs = FittingRuns {
                    synchronous: synchronous.clone(),
                    asynchronous: asynchronous.clone(),
                    few: few.clone(),
                    deep: deep.clone(),
                };
                fit_engine_work(machine, &runs)?;
                fit_host_queue(machine, &runs)
            }
            _ => Err("not all of the fitting jobs ran".to_owned()),
        }
    }

    /// Runs the jobs and simulates them, with the machine as captured and as calibrated; empty with a note after a failure.
    fn predict(
        &self,
        machine: &Machine,
        drive: &DriveMeasurement,
        notes: &mut Vec<String>,
    ) -> Vec<JobPrediction> {
        if self.plan.jobs.is_empty() {
            return Vec::new();
        }
        let mut captured = self.captured.clone();
        figures::choose_measured_drive(&mut captured, self.system, drive.device.as_ref());
        match self.run_and_simulate_jobs([&captured, machine], notes) {
            Ok(jobs) => jobs,
            Err(CalibrateError::Study(StudyError::Interrupted)) => Vec::new(),
            Err(error) => {
                notes.push(format!("there is no prediction error: {error}"));
                Vec::new()
            }
        }
    }

    fn run_and_simulate_jobs(
        &self,
        [captured, calibrated]: [&Machine; 2],
        notes: &mut Vec<String>,
    ) -> Result<Vec<JobPrediction>, CalibrateError> {
        let study = self.plan.job_study(self.folder.path());
        let live = study.measure(self.control, self.cancelled)?;
        let before = study.simulate(captured, self.cancelled)?;
        let after = study.simulate(calibrated, self.cancelled)?;
        let mut predictions = Vec::new();
        for (job, sets) in self
            .plan
            .jobs
            .iter()
            .zip(live.iter().zip(before.iter().zip(&after)))
        {
            let (live, (before, after)) = sets;
            for (index, set) in self.plan.sets().iter().enumerate() {
                let runs = live[index].iter().map(JobFigures::from_run);
                let figures = [&after[index], &before[index]];
                let simulated = figures.map(|runs| JobFigures::median_of_runs(runs));
                if let (Some(live), [Some(simulated), Some(uncalibrated)]) =
                    (runs.collect::<Option<Vec<_>>>(), simulated)
                {
                    predictions.push(JobPrediction {
                        job: job.name.clone(),
                        policy: (*set).to_owned(),
                        rounds: vec![PredictionRound {
                            live,
                            simulated,
                            uncalibrated,
                        }],
                    });
                } else {
                    notes.push(format!(
                        "the job {} under {set} is left out: fio or the simulator told no latency of it",
                        job.name
                    ));
                }
            }
        }
        Ok(predictions)
    }
}

/// A result, or a note about a failure; a signal is no failure.
fn keep_or_note<T>(
    what: &str,
    result: Result<T, MeasureError>,
    notes: &mut Vec<String>,
) -> Option<T> {
    match result {
        Ok(result) => Some(result),
        Err(MeasureError::Cancelled) => None,
        Err(error) => {
            notes.push(format!("{what} was not measured: {error}"));
            None
        }
    }
}

/// Why a round does not count: other work on the CPUs just before.
fn describe_busy_cpus(drive: &DriveMeasurement) -> Option<String> {
    let busy = drive.conditions.busy_percent.filter(|busy| *busy > BUSY)?;
    Some(format!("the CPUs were {busy:.0} % busy with other work"))
}

/// Measures wake-ups; `None` if a signal came first, and the reason if they cannot be measured.
fn measure_wakes(
    system: &System,
    plan: &WakePlan,
    file: &Path,
    control: ExperimentControl<'_>,
) -> Result<Option<WakeMeasurement>, String> {
    match wake::measure(system, plan, Some(file), control) {
        Ok(wake) => Ok(Some(wake)),
        Err(MeasureError::Cancelled) => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::figures::tests::measured;
    use super::prediction::tests::prediction;
    use super::*;

    /// A round on a machine of this name.
    fn round(name: &str, flaw: Option<&str>) -> CalibrationRound {
        let mut machine = Machine::find("laptop").unwrap();
        machine.name = name.to_owned();
        CalibrationRound {
            machine,
            drive: measured(100, true),
            wake: None,
            jobs: vec![prediction("unchanged", &[10.0], 20.0)],
            flaw: flaw.map(str::to_owned),
            notes: Vec::new(),
        }
    }

    #[test]
    fn rounds_with_a_flaw_are_left_out_with_a_note() {
        let mut rounds = CountedRounds::begin_with(round("first", None));
        rounds.add_or_leave_out(2, round("second", None));
        rounds.add_or_leave_out(
            3,
            round("third", Some("the CPUs were 50 % busy with other work")),
        );
        let note = "round 3 is left out: the CPUs were 50 % busy with other work";
        assert_eq!(rounds.notes, [note]);
        let calibrated = rounds.finish(Surroundings::default(), Vec::new());
        assert_eq!(calibrated.machine.name, "second");
        assert_eq!(calibrated.jobs[0].rounds.len(), 2);
        assert_eq!(calibrated.flaw, None);
        assert_eq!(calibrated.machine.prediction.unwrap().rounds, 2);
    }

    #[test]
    fn a_first_round_with_a_flaw_stands_until_another_counts() {
        let mut rounds = CountedRounds::begin_with(round("first", Some("busy")));
        rounds.add_or_leave_out(2, round("second", Some("busy")));
        assert_eq!(rounds.kept.machine.name, "first");
        rounds.add_or_leave_out(3, round("third", None));
        let calibrated = rounds.finish(Surroundings::default(), Vec::new());
        assert_eq!(calibrated.machine.name, "third");
        assert_eq!(calibrated.jobs[0].rounds.len(), 1);
        let alone = CountedRounds::begin_with(round("alone", Some("busy")))
            .finish(Surroundings::default(), Vec::new());
        assert!(alone.machine.prediction.is_none() && alone.flaw.is_some());
    }
}
