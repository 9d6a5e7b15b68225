//! `--on live`: the workloads really run, on this machine.
//!
//! Runs come in blocks of one repeat. In each block workloads and policies are shuffled by the study's seed, so that what
//! drifts over a session hits all policies alike, and runs of a block are compared as pairs. Settings go through
//! [`wakepath_settings`]: journalled, read back, and put back when a policy's turn is over, after an error and after
//! Ctrl-C; after a kill by the next session.

mod counters;
mod energy;
mod machine;
mod program;
mod settings;
mod targets;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use wakepath_results::{Mode, Run, Writer};
use wakepath_settings::{Hold, Session};
use wakepath_system::System;

use self::counters::Counters;
use self::energy::Meter;
use super::Waiting;
use crate::file::StudyError;
use crate::plan::{Plan, PlannedWorkload, Task, requested_rates};

/// What was found before a measurement.
#[derive(Clone, Debug)]
struct Checked {
    /// The version of fio, if it is needed.
    fio: Option<String>,
    /// What the settings of the policies come with.
    notes: Vec<String>,
}

/// Whether this machine can run the plan. Changes nothing.
///
/// # Errors
/// A program is missing, a fio job would write to a device, a policy cannot be had here.
pub fn check(plan: &Plan) -> Result<(), StudyError> {
    checked(plan, &System::live()).map(drop)
}

fn checked(plan: &Plan, system: &System) -> Result<Checked, StudyError> {
    let mut fio = None;
    for workload in &plan.workloads {
        if fio.is_none() && matches!(workload.task, Task::Fio { .. }) {
            fio = Some(program::fio_version()?);
        }
        may_run(workload).map_err(|e| StudyError::Settings(format!("{}: {e}", workload.name)))?;
    }
    let mut notes = Vec::new();
    for policy in &plan.policies {
        let changes = settings::plan(system, policy)?;
        let of_policy = changes.notes.iter();
        notes.extend(of_policy.map(|n| format!("{}: {n}", policy.name)));
    }
    Ok(Checked { fio, notes })
}

/// Measures what is missing of a plan in `dir`.
///
/// # Errors
/// As [`check`], before anything is written; a workload fails or prints no result, the directory. What was measured
/// before is kept, and `--resume` goes on.
pub fn run(plan: &Plan, dir: &Path, mode: Mode, waiting: &Waiting<'_>) -> Result<(), StudyError> {
    let system = System::live();
    let Checked { fio, mut notes } = checked(plan, &system)?;
    let mut tools = BTreeMap::from([
        ("wakepath".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
        ("kernel".to_owned(), machine::kernel()),
    ]);
    tools.extend(fio.map(|version| ("fio".to_owned(), version)));
    let observed = machine::Observed::new(&system);
    if !Meter::new(&system).is_there() {
        notes.push("no energy counters (RAPL) here: no power is measured".to_owned());
    }
    let document = plan.document(observed.in_short(), tools, notes);
    // Before anything is written: somebody else may have the right to change settings.
    let mut first = settings::session(&system, plan)?;
    let writer = Writer::open(dir, document, &plan.files(observed.toml()?), mode)?;
    let order = order(plan);
    let mut missing: Vec<(u32, usize)> = Vec::new();
    for (position, index) in (0_u32..).zip(order) {
        if !writer.has(index, &plan.key(index))? {
            missing.push((position, index));
        }
    }
    (waiting.finished)(plan.runs() - missing.len());
    let mut held: Option<(usize, Option<Hold>)> = None;
    for (position, index) in missing {
        let (workload, policy, repeat) = plan.run(index);
        if held.as_ref().is_none_or(|(of, _)| *of != policy) {
            let session = release(held.take().and_then(|(_, hold)| hold))?.or(first.take());
            let hold = settings::hold(&system, session, &plan.policies[policy])?;
            held = Some((policy, hold));
            settle(plan, waiting)?;
        }
        let mut run = Run::new(plan.key(index), None, repeat, position);
        measure(plan, workload, &system, &mut run, waiting).map_err(|message| {
            if waiting.cancelled.load(Ordering::Relaxed) {
                return StudyError::Interrupted;
            }
            StudyError::Measurement {
                workload: plan.workloads[workload].name.clone(),
                policy: plan.policies[policy].name.clone(),
                message,
            }
        })?;
        writer.write_run(index, &run)?;
        (waiting.finished)(1);
    }
    release(held.and_then(|(_, hold)| hold))?;
    Ok(writer.finish()?)
}

/// Nothing may be overwritten by accident.
fn may_run(workload: &PlannedWorkload) -> Result<(), String> {
    match &workload.task {
        Task::Fio { text, .. } => targets::check(text, "its fio job"),
        Task::RtApp { .. } | Task::Command { .. } => Ok(()),
    }
}

/// The runs in the order in which they are made: by repeat, workloads shuffled, and the policies of each.
fn order(plan: &Plan) -> Vec<usize> {
    let mut random = Pcg64Mcg::seed_from_u64(plan.file.seed);
    let mut shuffled = |count: usize| {
        let mut all: Vec<usize> = (0..count).collect();
        for last in (1..count).rev() {
            all.swap(last, random.random_range(0..=last));
        }
        all
    };
    let mut order = Vec::with_capacity(plan.runs());
    for repeat in 0..plan.repeats() {
        for workload in shuffled(plan.workloads.len()) {
            for policy in shuffled(plan.policies.len()) {
                order.push(plan.index(workload, policy, repeat));
            }
        }
    }
    order
}

/// Waits until the machine has settled after a change of settings.
fn settle(plan: &Plan, waiting: &Waiting<'_>) -> Result<(), StudyError> {
    let until = Instant::now() + Duration::from_secs_f64(*plan.file.settle_s.get_ref());
    while Instant::now() < until {
        if waiting.cancelled.load(Ordering::Relaxed) {
            return Err(StudyError::Interrupted);
        }
        let left = until.saturating_duration_since(Instant::now());
        std::thread::sleep(left.min(Duration::from_millis(100)));
    }
    Ok(())
}

fn measure(
    plan: &Plan,
    workload: usize,
    system: &System,
    run: &mut Run,
    waiting: &Waiting<'_>,
) -> Result<(), String> {
    let started = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map(|d| d.as_secs_f64());
    run.started_unix_s = started.ok();
    // A name may lead to something else by now.
    may_run(&plan.workloads[workload])?;
    let before = Counters::read(system);
    let mut meter = Meter::new(system);
    // What is looked at while the workload runs.
    let mut look = || meter.look();
    let took = match &plan.workloads[workload].task {
        Task::Fio { text, workload } => {
            program::fio(text, &requested_rates(workload), run, waiting, &mut look)?
        }
        Task::Command { words, readings } => {
            program::command(words, readings, run, waiting, &mut look)?
        }
        Task::RtApp { .. } => return Err("rt-app files are simulated only".to_owned()),
    };
    meter.finish(took, run);
    Counters::read(system).since(&before, took, run);
    if run.duration_ns == 0 {
        run.duration_ns = took.as_nanos() as u64;
    }
    Ok(())
}

/// Puts back what a policy has changed; returns the right to change more, if there was any.
fn release(hold: Option<Hold>) -> Result<Option<Session>, StudyError> {
    let Some(hold) = hold else { return Ok(None) };
    let released = hold.release().map_err(|e| settings::error(&e))?;
    Ok(released.map(|(session, _)| session))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Target;

    #[test]
    fn every_run_comes_once_in_blocks_and_the_same_seed_gives_the_same_order() {
        let text = "name = 'x'\nrepeats = 4\n[[workload]]\nname = 'a'\ncommand = ['true']\n\
                    [[workload]]\nname = 'b'\ncommand = ['true']\n[[policy]]\nname = 'p'\n\
                    [[policy]]\nname = 'q'\n[[policy]]\nname = 'r'\n";
        let plan = |text: &str| Plan::new(text, "x", Path::new("."), Target::Live).unwrap();
        let first = order(&plan(text));
        assert_eq!(first, order(&plan(text)));
        assert_ne!(
            first,
            order(&plan(&text.replace("repeats", "seed = 2\nrepeats")))
        );
        let mut sorted = first.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..24).collect::<Vec<_>>());
        let of = plan(text);
        for (block, runs) in first.chunks(6).enumerate() {
            assert!(runs.iter().all(|index| of.run(*index).2 == block as u32));
        }
    }
}
