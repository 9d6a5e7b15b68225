//! What a calibration does, and how long that takes.

use std::path::PathBuf;
use std::time::Duration;

use wakepath_measure::drive::{DrivePlan, TestTarget};
use wakepath_measure::wake::{WakePlan, WakeSource};
use wakepath_system::System;

use crate::error::CalibrateError;
use crate::folder::fits_job_file;
use crate::job_list::JOBS;

/// Shares of the budget.
const DRIVE_SHARE: f64 = 0.45;
const WAKE_SHARE: f64 = 0.15;
/// Shortest run of a job in seconds: fio counts in milliseconds, and begins slowly.
const SHORTEST_JOB: f64 = 3.0;
/// Runs of each job.
pub(crate) const REPEATS: u32 = 2;

/// What is calibrated, and how.
#[derive(Clone, Debug)]
pub struct CalibrationRequest {
    /// Machine name for the file.
    pub name: String,
    /// A folder on the drive; test files are made there and removed.
    pub folder: PathBuf,
    /// Size of the test files in bytes.
    pub file_bytes: u64,
    /// Time of all experiments and jobs together.
    pub budget: Duration,
    /// Whether idle states are allowed one at a time; needs root.
    pub forced: bool,
}

/// What a calibration does.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    pub(crate) request: CalibrationRequest,
    pub(crate) drive: DrivePlan,
    pub(crate) wake: Result<WakePlan, String>,
    pub(crate) job_seconds: f64,
}

impl CalibrationPlan {
    /// Plans a calibration. Nothing is written.
    ///
    /// # Errors
    /// The folder cannot take the test files.
    pub fn new(system: &System, request: CalibrationRequest) -> Result<Self, CalibrateError> {
        let folder = &request.folder;
        if !fits_job_file(folder) {
            return Err(CalibrateError::FolderName(folder.clone()));
        }
        let target = TestTarget::Write {
            path: folder.join(".wakepath-calibrate.drive"),
            bytes: request.file_bytes,
        };
        target.check()?;
        let sources = [WakeSource::Task, WakeSource::Timer];
        let wake_time = request.budget.mul_f64(WAKE_SHARE);
        let wake = WakePlan::new(system, &sources, request.forced, Some(wake_time));
        let drive = DrivePlan::new(target, Some(request.budget.mul_f64(DRIVE_SHARE)));
        let left = request
            .budget
            .saturating_sub(drive.duration())
            .saturating_sub(wake_time);
        let runs = JOBS.len() as f64 * f64::from(REPEATS);
        Ok(Self {
            drive,
            wake: wake.map_err(|error| error.to_string()),
            job_seconds: (left.as_secs_f64() / runs).floor().max(SHORTEST_JOB),
            request,
        })
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        let wake = self.wake.as_ref().map_or(0, WakePlan::steps);
        self.drive.steps() + wake + JOBS.len() * REPEATS as usize
    }

    /// Time of all steps, without the time to fill test files.
    pub fn duration(&self) -> Duration {
        let wake = self
            .wake
            .as_ref()
            .map_or(Duration::ZERO, WakePlan::duration);
        let runs = JOBS.len() as f64 * f64::from(REPEATS);
        self.drive.duration() + wake + Duration::from_secs_f64(self.job_seconds * runs)
    }

    /// Bytes written to fill test files.
    pub const fn fill_bytes(&self) -> u64 {
        self.drive.fill_bytes().saturating_mul(2)
    }

    /// Upper bound for bytes written after filling.
    pub fn most_bytes_written(&self) -> u64 {
        self.drive.most_bytes_written()
    }

    /// What is done, for people.
    pub fn describe(&self) -> Vec<String> {
        let mut lines = self.drive.describe();
        match &self.wake {
            Ok(wake) => lines.extend(wake.describe()),
            Err(why) => lines.push(format!("measures no wake-ups: {why}")),
        }
        let names: Vec<&str> = JOBS.iter().map(|(name, _)| *name).collect();
        lines.push(format!(
            "then runs fio {REPEATS} times for {} s each on a file of {} MiB, and simulates the same: {}",
            self.job_seconds,
            self.request.file_bytes >> 20,
            names.join("; ")
        ));
        lines
    }
}
