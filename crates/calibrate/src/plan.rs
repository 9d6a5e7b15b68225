//! What a calibration does, and how long that takes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use wakepath_measure::TestFileSize;
use wakepath_measure::background::BackgroundPlan;
use wakepath_measure::drive::{DrivePlan, TestTarget};
use wakepath_measure::path::PathPlan;
use wakepath_measure::power::PowerPlan;
use wakepath_measure::wake::{WakePlan, WakeSource};
use wakepath_system::System;
use wakepath_system::capture::machine::describe_machine;

use crate::error::CalibrateError;
use crate::folder::{find_leftovers, fits_job_file};
use crate::job_list::{
    CalibrationJob, FITTING_JOBS, FITTING_RAMP_SECONDS, JOBS, START_DELAY_SECONDS,
};
use crate::study::JobStudy;

/// Shares of the whole budget for what is measured once.
const BACKGROUND_SHARE: f64 = 0.04;
const PATH_SHARE: f64 = 0.04;
const POWER_SHARE: f64 = 0.06;
/// Shares of a round's budget.
const DRIVE_SHARE: f64 = 0.45;
const WAKE_SHARE: f64 = 0.15;
/// Shortest run of a job in seconds, with a budget too small for more: fio counts in milliseconds.
const SHORTEST_JOB: f64 = 0.5;
/// Seconds per run of a fitting job.
pub(crate) const FITTING_SECONDS: f64 = 1.0;
/// Turns of the fitting jobs. A disturbed turn meets all jobs, and a median of three leaves the turn out.
const FITTING_TURNS: u32 = 3;
/// Seconds from a change of the latency limit to a job. The idle governor heeds a limit when a CPU next idles, and has
/// forgotten the intervals before after eight more.
const SETTLE_SECONDS: f64 = 0.2;
/// Ranked policy sets: the settings in force, and CPUs without sleep.
const SETS: [&str; 2] = ["unchanged", "cpu-latency[limit=0us]"];
/// Test files at the same time: a file for the drive, another for wake-ups and jobs.
pub const TEST_FILES: u64 = 2;
/// The most rounds of a calibration.
pub const MOST_ROUNDS: usize = 100;

/// A part that a calibration may leave out. The drive and the work per I/O are always measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CalibrationPhase {
    /// The machine at rest: what wakes it.
    Background,
    /// The path of reads: parts of the work, interrupts between CPUs, ticks.
    Path,
    /// Power, of states and busy CPUs.
    Power,
    /// Wake-ups from idle states.
    Wake,
    /// Jobs on the machine and simulated, which give the prediction error.
    Jobs,
}

impl CalibrationPhase {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Background,
        Self::Path,
        Self::Power,
        Self::Wake,
        Self::Jobs,
    ];
}

/// What a person asks a calibration for: folder, time, rounds, jobs.
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
    /// How often to calibrate, predict and measure in turn; at least 1.
    pub rounds: usize,
    /// Fio job files to compare in place of the usual jobs; empty: the usual ones.
    pub jobs: Vec<PathBuf>,
    /// Parts to carry out beside the drive; figures of the others stay as captured.
    pub phases: Vec<CalibrationPhase>,
}

impl CalibrationRequest {
    fn asks_for(&self, phase: CalibrationPhase) -> bool {
        self.phases.contains(&phase)
    }
}

/// The steps of a calibration, with their times.
#[derive(Clone, Debug)]
pub struct CalibrationPlan {
    pub(crate) request: CalibrationRequest,
    /// Absent: not asked for, as with the next three.
    pub(crate) background: Option<BackgroundPlan>,
    pub(crate) path: Option<PathPlan>,
    pub(crate) power: Option<Result<PowerPlan, String>>,
    pub(crate) drive: DrivePlan,
    pub(crate) wake: Option<Result<WakePlan, String>>,
    pub(crate) jobs: Vec<CalibrationJob>,
    pub(crate) job_seconds: f64,
}

impl CalibrationPlan {
    /// Plans a calibration. Nothing is written.
    ///
    /// # Errors
    /// The folder cannot take the test files, or a job file cannot be read, run or simulated.
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
        TestFileSize::check_room(folder, request.file_bytes, TEST_FILES)?;
        let jobs = if !request.asks_for(CalibrationPhase::Jobs) {
            Vec::new()
        } else if request.jobs.is_empty() {
            CalibrationJob::reads(&JOBS)
        } else {
            let files = request.jobs.iter();
            files
                .map(|path| CalibrationJob::read_file(path))
                .collect::<Result<_, _>>()?
        };
        let background = request
            .asks_for(CalibrationPhase::Background)
            .then(|| BackgroundPlan::new(request.budget.mul_f64(BACKGROUND_SHARE)));
        let path = request.asks_for(CalibrationPhase::Path).then(|| {
            PathPlan::new(
                folder.join(".wakepath-calibrate.data"),
                request.budget.mul_f64(PATH_SHARE),
            )
        });
        let power_time = Some(request.budget.mul_f64(POWER_SHARE));
        let power = request.asks_for(CalibrationPhase::Power).then(|| {
            PowerPlan::new(system, request.forced, power_time).map_err(|error| error.to_string())
        });
        let once = time_once(background, path.as_ref(), power.as_ref());
        let rounds = request.rounds.max(1) as f64;
        let budget = request.budget.saturating_sub(once).div_f64(rounds);
        let sources = [WakeSource::Task, WakeSource::Timer, WakeSource::Drive];
        let wake_time = budget.mul_f64(WAKE_SHARE);
        let wake = request.asks_for(CalibrationPhase::Wake).then(|| {
            WakePlan::with_both_clocks_beside(system, &sources, request.forced, wake_time)
                .map_err(|error| error.to_string())
        });
        let drive = DrivePlan::new(target, Some(budget.mul_f64(DRIVE_SHARE)));
        let mut plan = Self {
            background,
            path,
            power,
            drive,
            wake,
            jobs,
            job_seconds: SHORTEST_JOB,
            request,
        };
        let left = budget
            .saturating_sub(plan.drive.duration())
            .saturating_sub(plan.wake_time())
            .saturating_sub(plan.fitting_time());
        let runs = plan.job_runs().max(1) as f64;
        plan.job_seconds = (left.as_secs_f64() / runs - SETTLE_SECONDS - START_DELAY_SECONDS)
            .floor()
            .max(SHORTEST_JOB);
        plan.check_own_jobs(system)?;
        Ok(plan)
    }

    /// Checks the user's jobs before anything is measured: later a mistake costs the whole budget.
    fn check_own_jobs(&self, system: &System) -> Result<(), CalibrateError> {
        if self.jobs.is_empty() || self.request.jobs.is_empty() {
            return Ok(());
        }
        let (captured, _) = describe_machine(system, &self.request.name)?;
        self.job_study(&self.request.folder).check(&captured)
    }

    /// Rounds of calibrating, predicting and measuring.
    pub fn rounds(&self) -> usize {
        self.request.rounds.max(1)
    }

    /// Policy sets under which each job runs. Without root nothing can be set.
    pub(crate) fn sets(&self) -> &'static [&'static str] {
        if self.request.forced {
            &SETS
        } else {
            &SETS[..1]
        }
    }

    /// Runs per job, set and round: a single round has two, to compare the machine with itself.
    pub(crate) fn repeats(&self) -> u32 {
        if self.rounds() == 1 { 2 } else { 1 }
    }

    /// Job runs in a round, without fitting jobs.
    fn job_runs(&self) -> usize {
        self.jobs.len() * self.sets().len() * self.repeats() as usize
    }

    /// Whether fitting jobs run: holding CPUs shallow meanwhile takes root.
    pub(crate) const fn fits_jobs(&self) -> bool {
        self.request.forced
    }

    fn fitting_runs(&self) -> usize {
        if self.fits_jobs() {
            FITTING_JOBS.len() * FITTING_TURNS as usize
        } else {
            0
        }
    }

    fn fitting_time(&self) -> Duration {
        Duration::from_secs_f64(Self::fitting_run_seconds() * self.fitting_runs() as f64)
    }

    /// Seconds of a fitting run, with what does not count.
    const fn fitting_run_seconds() -> f64 {
        FITTING_SECONDS + FITTING_RAMP_SECONDS
    }

    /// The jobs in a folder, with their data file.
    pub(crate) fn job_study<'a>(&'a self, folder: &'a Path) -> JobStudy<'a> {
        JobStudy {
            folder,
            jobs: &self.jobs,
            sets: self.sets(),
            file_bytes: self.request.file_bytes,
            seconds: self.job_seconds,
            settle_seconds: SETTLE_SECONDS,
            repeats: self.repeats(),
        }
    }

    /// The study with the fitting jobs.
    pub(crate) fn fitting_study<'a>(
        &'a self,
        folder: &'a Path,
        jobs: &'a [CalibrationJob],
    ) -> JobStudy<'a> {
        JobStudy {
            jobs,
            sets: &SETS[..1],
            seconds: FITTING_SECONDS,
            settle_seconds: 0.0,
            repeats: FITTING_TURNS,
            ..self.job_study(folder)
        }
    }

    /// Number of steps.
    pub fn steps(&self) -> usize {
        let wake = planned(self.wake.as_ref()).map_or(0, WakePlan::steps);
        let background = self.background.as_ref().map_or(0, BackgroundPlan::steps);
        let path = self.path.as_ref().map_or(0, PathPlan::steps);
        let power = planned(self.power.as_ref()).map_or(0, PowerPlan::steps);
        let once = background + path + power;
        once + (self.drive.steps() + wake + self.fitting_runs() + self.job_runs()) * self.rounds()
    }

    /// Time of all steps, without the time to fill test files.
    pub fn duration(&self) -> Duration {
        let each = self.job_seconds + SETTLE_SECONDS + START_DELAY_SECONDS;
        let jobs = Duration::from_secs_f64(each * self.job_runs() as f64);
        let round = self.drive.duration() + self.wake_time() + self.fitting_time() + jobs;
        let once = time_once(self.background, self.path.as_ref(), self.power.as_ref());
        once + round * self.rounds() as u32
    }

    /// Time to measure wake-ups in a round.
    fn wake_time(&self) -> Duration {
        planned(self.wake.as_ref()).map_or(Duration::ZERO, WakePlan::duration)
    }

    /// Bytes written to fill test files: a new one for the drive in each round, and one for wake-ups and jobs.
    pub fn fill_bytes(&self) -> u64 {
        let files = self.rounds() as u64 + 1;
        self.drive.fill_bytes().saturating_mul(files)
    }

    /// Upper bound for bytes written after filling.
    pub fn most_bytes_written(&self) -> u64 {
        let rounds = self.rounds() as u64;
        self.drive.most_bytes_written().saturating_mul(rounds)
    }

    /// What the experiment will do, a sentence each, for people to read before.
    pub fn describe(&self) -> Vec<String> {
        let leftovers = find_leftovers(&self.request.folder).len();
        let mut lines = Vec::new();
        if leftovers > 0 {
            lines.push(format!(
                "removes the files of {leftovers} calibrations that were killed from {}",
                self.request.folder.display()
            ));
        }
        lines.extend(self.background.iter().flat_map(BackgroundPlan::describe));
        if self.path.is_some() {
            lines.push(
                "reads a test file with 1 to 8 reads in flight, and times system calls, context switches and what interrupts a thread"
                    .to_owned(),
            );
        }
        match &self.power {
            Some(Ok(power)) => lines.extend(power.describe()),
            Some(Err(why)) => lines.push(format!("measures no power: {why}")),
            None => {}
        }
        lines.extend(self.drive.describe());
        match &self.wake {
            Some(Ok(wake)) => lines.extend(wake.describe()),
            Some(Err(why)) => lines.push(format!("measures no wake-ups: {why}")),
            None => lines.push("leaves wake-ups from idle states as captured".to_owned()),
        }
        if self.fits_jobs() {
            lines.push(format!(
                "runs fio {} for {FITTING_SECONDS} s each with psync, and with libaio with 1, 4 and 32 in flight, to fit the work of fio and of libaio",
                count_in_words(FITTING_TURNS)
            ));
        }
        lines.extend(self.describe_jobs());
        if self.rounds() > 1 {
            lines.push(format!("all of that {} times in turn", self.rounds()));
        }
        lines.extend(self.describe_excess());
        lines
    }

    /// A sentence for a budget below the shortest steps; `None` for a sufficient budget.
    fn describe_excess(&self) -> Option<String> {
        let [takes, budget] =
            [self.duration(), self.request.budget].map(|time| time.as_secs_f64().ceil());
        (takes > budget).then(|| {
            format!(
                "takes longer than the budget of {budget} s: {takes} s is the least with these phases, jobs and rounds"
            )
        })
    }

    /// What is done with jobs that no figure is fitted to.
    fn describe_jobs(&self) -> Vec<String> {
        if self.jobs.is_empty() {
            let none = "runs no jobs to compare, so that the machine has no prediction error";
            return vec![none.to_owned()];
        }
        let names: Vec<&str> = self.jobs.iter().map(|job| job.name.as_str()).collect();
        let mut lines = Vec::new();
        lines.push(format!(
            "then runs fio {} for {} s each on a file of {} MiB, and simulates the same: {}",
            count_in_words(self.repeats()),
            self.job_seconds,
            self.request.file_bytes >> 20,
            names.join("; ")
        ));
        if self.sets().len() > 1 {
            lines.push(format!(
                "each of these under what is in force, and under {}",
                SETS[1]
            ));
        }
        lines
    }
}

/// The plan of a part that is asked for and possible.
fn planned<Plan>(part: Option<&Result<Plan, String>>) -> Option<&Plan> {
    part.and_then(|plan| plan.as_ref().ok())
}

/// Time of what is measured once, before the rounds.
fn time_once(
    background: Option<BackgroundPlan>,
    path: Option<&PathPlan>,
    power: Option<&Result<PowerPlan, String>>,
) -> Duration {
    let background = background.map_or(Duration::ZERO, |plan| plan.duration());
    let path = path.map_or(Duration::ZERO, PathPlan::duration);
    background + path + planned(power).map_or(Duration::ZERO, PowerPlan::duration)
}

/// `once`, `2 times`.
fn count_in_words(number: u32) -> String {
    match number {
        1 => "once".to_owned(),
        more => format!("{more} times"),
    }
}
