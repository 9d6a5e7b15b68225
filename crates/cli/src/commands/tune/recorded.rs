//! Recordings as loads: power state tables for a drive under recorded I/O, and idle policies for recorded idle periods.

use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use wakepath_hardware::machine::DriveModel;
use wakepath_policies::PolicySet;
use wakepath_study::run::drive_io::{DriveIo, UNKNOWN_SLEEP};
use wakepath_trace::recording::is_recording_file;
use wakepath_tune::{
    DailyLoad, DriveReplay, IdleRecording, IdleReplay, LoadArgument, SearchRequest, Space,
    leaves_hours_of_rest, search_best_policy_set,
};

use super::arguments::Args;
use super::simulated::{Searched, find_budget_for_arguments};
use crate::commands::here;
use crate::messages::{note, warning};
use crate::waiting;

/// Whether the loads are recordings.
///
/// # Errors
/// Some are recordings and others are not.
pub(super) fn are_loads_recordings(loads: &[LoadArgument]) -> anyhow::Result<bool> {
    let (recordings, others): (Vec<&LoadArgument>, Vec<&LoadArgument>) =
        loads.iter().partition(|load| is_recording_file(&load.path));
    if let (Some(recording), Some(other)) = (recordings.first(), others.first()) {
        bail!(
            "{} is a recording, and {} is none: simulated and recorded loads are not mixed; extract a job from the \
             recording (`wakepath workload extract`), or leave one of them out",
            recording.path.display(),
            other.path.display()
        );
    }
    Ok(!recordings.is_empty())
}

/// The drive from `--drive`, or the machine's.
pub(super) fn find_drive(args: &Args) -> anyhow::Result<DriveModel> {
    let drive = match (&args.drive, &args.machine) {
        (Some(name), None) => DriveModel::find(name).context("--drive")?,
        (drive, Some(_)) => {
            here::find_changed_machine_and_notice(args.machine.as_deref(), None, drive.as_deref())?
                .0
                .drive
        }
        (None, None) => bail!(
            "a recording says when a drive was busy, not which drive to model; give --drive NAME, as `wakepath drive list` \
             prints them; \
             --over idle,psd,cpu-latency searches the idle policies instead"
        ),
    };
    if let Some(text) = &drive.note {
        note!("{text}");
    }
    Ok(drive)
}

/// Whether recordings are searched for a drive's tables, rather than for what their idle CPUs are told.
pub(super) fn searches_tables_of_drive(args: &Args) -> bool {
    let mut names = args.over.iter();
    let are_of_drives =
        names.all(|name| name.starts_with("apst") || name.starts_with("drive-latency"));
    args.drive.is_some() || args.device.is_some() || are_of_drives
}

/// Hours of a day.
const DAY_HOURS: f64 = 24.0;

/// Replays the recordings' idle periods under the sets of the space, as far as the budget goes. Returns what was recorded, in
/// words, and the answer.
pub(super) fn search_idle_policies(
    args: &Args,
    loads: &[LoadArgument],
    request: &mut SearchRequest,
) -> anyhow::Result<(String, Searched)> {
    refuse_options_of_simulations(args)?;
    let hours = LoadArgument::share_hours_of_day(loads);
    let all_hours: f64 = hours.iter().sum();
    let mut recordings = Vec::new();
    for (load, hours) in loads.iter().zip(hours) {
        let recording = IdleRecording::read(&load.path, args.machine.as_deref(), args.kernel)?;
        for doubt in &recording.doubts {
            warning!("{}: {doubt}", load.path.display());
        }
        recordings.push(recording);
        // A rest that nobody recorded has no idle periods to replay: the recordings stand for the day.
        request.loads.push(DailyLoad {
            name: load.name(),
            workload: None,
            hours: hours * DAY_HOURS / all_hours,
        });
    }
    let first = recordings.first().context("no recording")?;
    let space = Space::for_recorded_idle(&first.hardware, &args.over, |set| {
        first.check_set_and_resolve(set)
    })?;
    let governors: BTreeSet<(String, bool)> = recordings
        .iter()
        .map(|recording| {
            (
                recording.governor.to_string(),
                recording.is_governor_assumed,
            )
        })
        .collect();
    for (governor, is_assumed) in governors {
        let why = if is_assumed {
            "since a recording does not say which governor ran"
        } else {
            "which ran and is replayed like the others"
        };
        note!("(in force) stands for {governor}, {why}");
    }
    let subject = match &args.machine {
        Some(machine) => format!("the recording, with figures of {machine}"),
        None => "the recording".to_owned(),
    };
    let searched = waiting::run_with_progress(args.jobs, 0, "sets", |_, cancelled| {
        let replay = IdleReplay::new(&recordings, cancelled);
        let timed = choose_sets_to_time(&space, rayon::current_num_threads());
        request.budget = find_budget_for_arguments(args, &replay, &timed, 1, 1.0)?;
        Ok(Searched {
            answer: search_best_policy_set(&space, request, &replay)?,
            sensitivity: None,
            further: Vec::new(),
            measured_only: Vec::new(),
        })
    })?;
    Ok((subject, searched))
}

/// What is in force and further sets of the space, `count` in all: the replays of a search go on side by side, and one alone would
/// not tell their rate. Sets far apart in the space have least in common, such as a pass through the recording.
fn choose_sets_to_time(space: &Space, count: usize) -> Vec<PolicySet> {
    let mut sets = vec![PolicySet::default()];
    for place in 1..count {
        let number = (place as u128 * space.count_sets() as u128 / count as u128) as usize;
        let choice = space.choice_by_number(number);
        sets.extend(space.policy_set_of_choice(&choice));
    }
    sets
}

fn refuse_options_of_simulations(args: &Args) -> anyhow::Result<()> {
    ensure!(
        args.seconds.is_none(),
        "--seconds limits simulated jobs; a recording is replayed whole"
    );
    ensure!(
        args.page.requests_no_slider(),
        "--slider searches for further limits by simulation; leave it out with a recording"
    );
    Ok(())
}

/// Reads the recordings as loads with their hours.
pub(super) fn read_recordings(
    args: &Args,
    loads: &[LoadArgument],
) -> anyhow::Result<Vec<(DailyLoad, DriveIo)>> {
    refuse_options_of_simulations(args)?;
    let hours = LoadArgument::share_hours_of_day(loads);
    loads
        .iter()
        .zip(hours)
        .map(|(load, hours)| {
            let io = DriveIo::read(&load.path, args.device.as_deref())?;
            for doubt in &io.doubts {
                warning!("{}: {doubt}", load.path.display());
            }
            let daily = DailyLoad {
                name: load.name(),
                workload: None,
                hours,
            };
            Ok((daily, io))
        })
        .collect()
}

/// Tries tables on the recordings, as far as the budget goes.
pub(super) fn search_tables(
    args: &Args,
    drive: &DriveModel,
    recordings: &[DriveIo],
    request: &mut SearchRequest,
) -> anyhow::Result<Searched> {
    let space = Space::for_drive(drive, &args.over)?;
    let has_rest = leaves_hours_of_rest(&request.loads);
    let in_force = match drive.in_force {
        Some(_) => "that was captured",
        None => "that the kernel programs by itself",
    };
    note!("(in force) stands for the table {in_force}");
    if !recordings.iter().all(|io| io.knows_recorded_sleep(drive)) {
        note!("a {UNKNOWN_SLEEP}");
    }
    waiting::run_with_progress(args.jobs, 0, "tables", |_, cancelled| {
        let replay = DriveReplay::new(drive, recordings, has_rest, cancelled);
        let timed = choose_sets_to_time(&space, rayon::current_num_threads());
        request.budget = find_budget_for_arguments(args, &replay, &timed, 1, 1.0)?;
        let mut answer = search_best_policy_set(&space, request, &replay)?;
        let notes = replay.check_wake_ups_after_search(request)?;
        answer.notes.extend(notes);
        Ok(Searched {
            answer,
            sensitivity: None,
            further: Vec::new(),
            measured_only: Vec::new(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_sets_are_timed_as_there_are_threads() {
        let drive = DriveModel::find("sn530").unwrap();
        let space = Space::for_drive(&drive, &["apst".to_owned()]).unwrap();
        for count in [1, 2, 4] {
            let sets = choose_sets_to_time(&space, count);
            assert_eq!(sets.len(), count);
            assert_eq!(sets[0], PolicySet::default());
            let texts: BTreeSet<String> = sets.iter().map(ToString::to_string).collect();
            assert_eq!(texts.len(), count, "{texts:?}");
        }
    }
}
