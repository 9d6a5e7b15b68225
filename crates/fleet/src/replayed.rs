//! Recordings of a class under other idle governors.

use std::cmp::Reverse;
use std::fs;
use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde::{Deserialize, Serialize};
use wakepath_policies::PolicySet;
use wakepath_study::file::StudyError;
use wakepath_study::plan::{Plan, ReplayRequest};
use wakepath_study::run::replay::Replay;
use wakepath_trace::recording::Reader;
use wakepath_units::causes::with_causes;

use crate::FleetError;
use crate::survey::{FleetClass, FleetMachine};

/// Most replayed recordings per class, each from another machine.
const MOST_RECORDINGS: usize = 5;

/// Fewest blocks of time for a replay; only the sums over all blocks count here.
const FEWEST_BLOCKS: u32 = 4;

/// Governors for replays, in the kernel of the class.
const GOVERNORS: [&str; 2] = ["menu", "teo"];

/// An idle governor's choices over the recordings of a class.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GovernorChoices {
    /// The governor, or `recorded`.
    pub governor: String,
    /// Idle periods.
    pub periods: u64,
    /// Share of the idle periods in a too deep state, in %.
    pub too_deep_percent: f64,
    /// Share of the idle periods in a too shallow state, in %.
    pub too_shallow_percent: f64,
    /// Mean delay of a wake-up beyond the best choice's, in us.
    pub added_us: f64,
    /// Lowest and highest mean delay among the recordings, in us.
    pub added_us_spread: [f64; 2],
}

/// The replay of a class's recordings.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClassReplay {
    /// Name of the class.
    pub class: String,
    /// Machines whose recordings were replayed.
    pub machines: Vec<String>,
    /// The governors, the recorded choices first.
    pub governors: Vec<GovernorChoices>,
    /// Recordings that were not replayed, and why.
    pub notes: Vec<String>,
}

/// A recording to replay, as values that another process can read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RecordingReplay {
    /// The machine that the recording belongs to.
    machine: String,
    /// Kernel series of the machine's class.
    kernel: String,
    /// The recording's path as the user's folder has it.
    shown: PathBuf,
    /// The recording's absolute path.
    path: PathBuf,
}

/// A replayed recording, as values that another process can read.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ReplayedRecording {
    /// Identity of the recorded machine, if the recording has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    machine_id: Option<String>,
    /// Why the recording was not replayed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
    /// Counts by governor, the recorded choices first.
    #[serde(default)]
    counts: Vec<ReplayedCounts>,
}

/// Counts of a governor in a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct ReplayedCounts {
    governor: String,
    periods: u64,
    too_deep: u64,
    too_shallow: u64,
    added_ns: u64,
}

impl ReplayedCounts {
    /// Mean delay of a wake-up beyond the best choice's, in us.
    fn mean_added_us(&self) -> f64 {
        self.added_ns as f64 / 1e3 / self.periods.max(1) as f64
    }
}

/// Why a recording was not replayed.
enum ReplayFailure {
    Interrupted,
    Unusable(String),
}

impl ReplayFailure {
    fn unusable(why: &str) -> Self {
        Self::Unusable(why.to_owned())
    }
}

impl From<StudyError> for ReplayFailure {
    fn from(error: StudyError) -> Self {
        match error {
            StudyError::Interrupted => Self::Interrupted,
            other => Self::Unusable(with_causes(&other)),
        }
    }
}

/// Replays recordings of all classes side by side, the first of each machine. Classes without recordings are left out.
///
/// # Errors
/// The replay was called off: `go_on` returned false.
pub fn replay_classes(
    classes: &[FleetClass],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<ClassReplay>, FleetError> {
    let by_class: Vec<Vec<RecordingReplay>> =
        classes.iter().map(list_recordings_to_replay).collect();
    let mut replayed = replay_largest_first(&by_class.concat(), go_on)?.into_iter();
    let replays = classes.iter().zip(&by_class);
    Ok(replays
        .filter_map(|(class, recordings)| {
            let own = replayed.by_ref().take(recordings.len()).collect();
            add_up_replays(class, recordings, own)
        })
        .collect())
}

/// Replays recordings side by side, and returns the outcomes in the order of the recordings. The largest files begin, so
/// that no thread is left with one of them at the end.
fn replay_largest_first(
    recordings: &[RecordingReplay],
    go_on: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<ReplayedRecording>, FleetError> {
    let mut order: Vec<usize> = (0..recordings.len()).collect();
    order.sort_by_cached_key(|place| {
        let size = fs::metadata(&recordings[*place].path).map_or(0, |file| file.len());
        Reverse(size)
    });
    let mut replayed = order
        .into_iter()
        .par_bridge()
        .map(|place| Ok((place, recordings[place].replay(go_on)?)))
        .collect::<Result<Vec<(usize, ReplayedRecording)>, FleetError>>()?;
    replayed.sort_by_key(|(place, _)| *place);
    Ok(replayed.into_iter().map(|(_, outcome)| outcome).collect())
}

/// The recordings of a class to replay: the first of each machine, at most [`MOST_RECORDINGS`].
pub(crate) fn list_recordings_to_replay(class: &FleetClass) -> Vec<RecordingReplay> {
    let recordings = machines_with_recordings(class)
        .filter_map(|machine| Some((machine, machine.recordings.first()?)))
        .take(MOST_RECORDINGS);
    recordings
        .map(|(machine, path)| RecordingReplay {
            machine: machine.name.clone(),
            kernel: class.key.kernel.clone(),
            shown: path.clone(),
            path: std::path::absolute(path).unwrap_or_else(|_| path.clone()),
        })
        .collect()
}

fn machines_with_recordings(class: &FleetClass) -> impl Iterator<Item = &FleetMachine> {
    class
        .machines
        .iter()
        .filter(|machine| !machine.recordings.is_empty())
}

/// Adds up the replayed recordings of a class. A machine that was recorded under two names counts once. `None` if the class
/// has no recording.
pub(crate) fn add_up_replays(
    class: &FleetClass,
    recordings: &[RecordingReplay],
    replayed: Vec<ReplayedRecording>,
) -> Option<ClassReplay> {
    if recordings.is_empty() {
        return None;
    }
    let mut replay = ClassReplay {
        class: class.name.clone(),
        machines: Vec::new(),
        governors: Vec::new(),
        notes: Vec::new(),
    };
    let mut machine_ids: Vec<String> = Vec::new();
    let mut all: Vec<Vec<ReplayedCounts>> = Vec::new();
    for (recording, outcome) in recordings.iter().zip(replayed) {
        let mut problem = outcome.problem;
        if let Some(id) = outcome.machine_id {
            if machine_ids.contains(&id) {
                problem = Some("another recording is of the same machine".to_owned());
            } else {
                machine_ids.push(id);
            }
        }
        match problem {
            None => {
                replay.machines.push(recording.machine.clone());
                all.push(outcome.counts);
            }
            Some(why) => replay.notes.push(format!(
                "{}: its recording was not replayed: {why}",
                recording.machine
            )),
        }
    }
    let known: usize = class.machines.iter().map(|m| m.recordings.len()).sum();
    if known > recordings.len() {
        replay.notes.push(format!(
            "{}: {} of {known} recordings were not replayed: a class has one of each machine replayed, of \
             {MOST_RECORDINGS} machines at most",
            class.name,
            known - recordings.len()
        ));
    }
    let governors = all.first().map_or(0, Vec::len);
    replay.governors = (0..governors)
        .map(|place| {
            let counts: Vec<&ReplayedCounts> =
                all.iter().filter_map(|counts| counts.get(place)).collect();
            add_up_governor(&counts)
        })
        .collect();
    Some(replay)
}

impl RecordingReplay {
    /// The recording's absolute path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Reads the recording below another folder.
    pub(crate) fn move_file(&mut self, from: &Path, to: &Path) {
        move_path(&mut self.path, from, to);
    }

    /// Replays the recording. An unusable recording is an outcome, too.
    ///
    /// # Errors
    /// The replay was called off: `go_on` returned false.
    pub(crate) fn replay(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<ReplayedRecording, FleetError> {
        let mut replayed = ReplayedRecording::default();
        match Reader::open(&self.path) {
            Ok(reader) => replayed
                .machine_id
                .clone_from(&reader.metadata().machine_id),
            Err(error) => {
                replayed.problem = Some(self.name_as_user_does(&with_causes(&error)));
                return Ok(replayed);
            }
        }
        match self.count_choices(go_on) {
            Ok(counts) => replayed.counts = counts,
            Err(ReplayFailure::Interrupted) => return Err(FleetError::Interrupted),
            Err(ReplayFailure::Unusable(why)) => {
                replayed.problem = Some(self.name_as_user_does(&why));
            }
        }
        Ok(replayed)
    }

    /// Every process names the file as the user does, wherever the folder lies.
    fn name_as_user_does(&self, why: &str) -> String {
        let shown = self.shown.display().to_string();
        why.replace(&self.path.display().to_string(), &shown)
    }

    /// Counts the governors' choices over the recording.
    fn count_choices(
        &self,
        go_on: &(dyn Fn() -> bool + Sync),
    ) -> Result<Vec<ReplayedCounts>, ReplayFailure> {
        let absolute = fs::canonicalize(&self.path)
            .map_err(|error| ReplayFailure::Unusable(error.to_string()))?;
        let recording = absolute
            .to_str()
            .ok_or_else(|| ReplayFailure::unusable("its path is not UTF-8"))?;
        let request = ReplayRequest::for_recording_as_taken(
            &self.machine,
            recording,
            governors_of_kernel(&self.kernel),
            FEWEST_BLOCKS,
        );
        let plan = Plan::for_replay(&request, false)?;
        let backend = Replay::new(&plan)?;
        let replaying = backend
            .find_recording(0, 0)
            .ok_or_else(|| ReplayFailure::unusable("no recording"))?;
        let replayed =
            replaying.replay_in_blocks(FEWEST_BLOCKS as usize, None, &mut |_| go_on())?;
        Ok(replayed
            .report
            .policies
            .iter()
            .map(|policy| {
                let sums = policy.total_sums();
                ReplayedCounts {
                    governor: policy.policy.clone(),
                    periods: sums.count,
                    too_deep: sums.too_deep,
                    too_shallow: sums.too_shallow,
                    added_ns: sums.added_latency_ns,
                }
            })
            .collect())
    }
}

/// Moves a path below `from` to the same place below `to`; another path stays.
pub(crate) fn move_path(path: &mut PathBuf, from: &Path, to: &Path) {
    if let Ok(inside) = path.strip_prefix(from) {
        *path = to.join(inside);
    }
}

/// The governors in a kernel series; in 6.12 where the series is not known.
fn governors_of_kernel(kernel: &str) -> Vec<PolicySet> {
    let own = parse_governors_in_series(kernel);
    if own.len() == GOVERNORS.len() {
        own
    } else {
        parse_governors_in_series("6.12")
    }
}

fn parse_governors_in_series(series: &str) -> Vec<PolicySet> {
    GOVERNORS
        .iter()
        .filter_map(|name| format!("{name}@{series}").parse().ok())
        .collect()
}

fn add_up_governor(counts: &[&ReplayedCounts]) -> GovernorChoices {
    let mut all = ReplayedCounts::default();
    let mut spread = [f64::INFINITY, 0.0];
    for count in counts {
        all.governor.clone_from(&count.governor);
        // Counts of another process come from a file.
        all.periods = all.periods.saturating_add(count.periods);
        all.too_deep = all.too_deep.saturating_add(count.too_deep);
        all.too_shallow = all.too_shallow.saturating_add(count.too_shallow);
        all.added_ns = all.added_ns.saturating_add(count.added_ns);
        let mean = count.mean_added_us();
        spread = [spread[0].min(mean), spread[1].max(mean)];
    }
    let percent_per_period = 100.0 / all.periods.max(1) as f64;
    GovernorChoices {
        periods: all.periods,
        too_deep_percent: all.too_deep as f64 * percent_per_period,
        too_shallow_percent: all.too_shallow as f64 * percent_per_period,
        added_us: all.mean_added_us(),
        added_us_spread: spread,
        governor: all.governor,
    }
}
