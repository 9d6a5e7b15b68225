//! Recorded I/O of drives as loads: each set is a table of power states, and blocks of time stand for seeds.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use wakepath_hardware::machine::DriveModel;
use wakepath_policies::PolicySet;
use wakepath_policies::search_space::LONGEST_TIMEOUT_MS;
use wakepath_study::run::drive_io::{DriveIo, DriveWork, TIME_BLOCKS, metrics_of_time_blocks};
use wakepath_units::Nanoseconds;

use crate::TuneError;
use crate::answer::AnswerOrigin;
use crate::evaluator::{Effort, Evaluator, LoadRuns, Trial, TrialOutcome};
use crate::search::SearchRequest;

/// Fewest wake-ups for comparing tables.
const FEWEST_WAKE_UPS: u64 = 20;

/// Fewest wake-ups for a 99th percentile: ten lie beyond.
const FEWEST_WAKE_UPS_OF_P99: u64 = 1000;

/// A recording with few wake-ups must last so many longest timeouts.
const LEAST_TIMEOUTS: u64 = 10;

/// A modelled drive under recorded I/O as an evaluator.
///
/// Every trial is the whole of each recording: its blocks of equal time are the runs, whatever the effort asks for.
pub struct DriveReplay<'a> {
    recordings: &'a [DriveIo],
    /// The drive's work by each recording, which is the same under every table.
    works: Vec<DriveWork<'a>>,
    /// Whether the loads leave hours in which the drive has nothing to do.
    has_rest: bool,
    cancelled: &'a AtomicBool,
    /// Trials by the text of the set: the search asks for each set several times.
    made: Mutex<BTreeMap<String, TrialOutcome>>,
    /// Most wake-ups under any table so far, by recording.
    most_wake_ups: Mutex<Vec<u64>>,
}

impl<'a> DriveReplay<'a> {
    /// A drive under recordings, in the order of the request's loads.
    pub fn new(
        drive: &'a DriveModel,
        recordings: &'a [DriveIo],
        has_rest: bool,
        cancelled: &'a AtomicBool,
    ) -> Self {
        let works = recordings.iter().map(|io| io.give_work_to_drive(drive));
        Self {
            recordings,
            works: works.collect(),
            has_rest,
            cancelled,
            made: Mutex::default(),
            most_wake_ups: Mutex::new(vec![0; recordings.len()]),
        }
    }

    /// Remarks about figures with few wake-ups, after a search.
    ///
    /// # Errors
    /// A recording is too short: the drive hardly wakes under any table.
    pub fn check_wake_ups_after_search(
        &self,
        request: &SearchRequest,
    ) -> Result<Vec<String>, TuneError> {
        let least = Nanoseconds::from_millis(LEAST_TIMEOUTS * LONGEST_TIMEOUT_MS);
        let most = (self.most_wake_ups.lock()).unwrap_or_else(PoisonError::into_inner);
        let conditions = request
            .conditions
            .iter()
            .map(|c| c.condition.metric.as_str());
        let mut metrics = conditions.chain([&*request.objective.metric.name]);
        let wants_p99 = metrics.any(|metric| metric == "drive_wake_p99_us");
        let mut notes = Vec::new();
        for ((load, recording), wake_ups) in request.loads.iter().zip(self.recordings).zip(&*most) {
            if *wake_ups < FEWEST_WAKE_UPS && recording.duration < least {
                return Err(TuneError::ShortRecording {
                    load: load.name.clone(),
                    seconds: recording.duration.as_secs_f64(),
                    wake_ups: *wake_ups,
                    longest: LONGEST_TIMEOUT_MS / 1000,
                    least: LEAST_TIMEOUTS * LONGEST_TIMEOUT_MS / 1000,
                    fewest: FEWEST_WAKE_UPS,
                });
            }
            if wants_p99 && *wake_ups < FEWEST_WAKE_UPS_OF_P99 {
                notes.push(format!(
                    "{}: at most {wake_ups} wake-ups under any table, and a 99th percentile takes {FEWEST_WAKE_UPS_OF_P99}: \
                     drive_wake_p99_us is nearly the longest wait",
                    load.name
                ));
            }
        }
        Ok(notes)
    }

    fn requests_per_trial(&self) -> u64 {
        let requests = self.recordings.iter().map(|recording| recording.requests);
        requests.sum::<u64>().max(1)
    }

    fn run_set(&self, set: &PolicySet) -> TrialOutcome {
        let mut loads = Vec::new();
        let mut power_at_rest_mw = 0.0;
        for (index, work) in self.works.iter().enumerate() {
            let run = match work.run_under_set(set) {
                Ok(run) => run,
                Err(error) => return TrialOutcome::Refused(error.to_string()),
            };
            let mut most = (self.most_wake_ups.lock()).unwrap_or_else(PoisonError::into_inner);
            most[index] = most[index].max(run.whole.wake_ups);
            drop(most);
            power_at_rest_mw = run.power_at_rest_mw;
            loads.push(LoadRuns {
                runs: metrics_of_time_blocks(&run),
                ..LoadRuns::default()
            });
        }
        let rest = vec![("drive_mw".to_owned(), power_at_rest_mw)];
        TrialOutcome::Ran(Trial {
            loads,
            rest: LoadRuns {
                runs: if self.has_rest {
                    vec![rest; TIME_BLOCKS as usize]
                } else {
                    Vec::new()
                },
                ..LoadRuns::default()
            },
            requests: self.requests_per_trial(),
        })
    }
}

impl Evaluator for DriveReplay<'_> {
    fn run_sets_in_order(
        &self,
        sets: &[PolicySet],
        _effort: Effort,
    ) -> Result<Vec<TrialOutcome>, TuneError> {
        let mut outcomes = Vec::new();
        for set in sets {
            if self.cancelled.load(Ordering::Relaxed) {
                return Err(TuneError::Interrupted);
            }
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            let outcome = made
                .entry(set.to_string())
                .or_insert_with(|| self.run_set(set));
            outcomes.push(outcome.clone());
        }
        Ok(outcomes)
    }

    fn requests_of_replay(&self) -> Option<u64> {
        Some(self.requests_per_trial())
    }

    fn origin(&self) -> AnswerOrigin {
        AnswerOrigin::Recording
    }
}
