//! Figures of a drive from a recording: service times as one's own work met them.

use std::path::Path;

use anyhow::{Context, bail};
use wakepath_explain::{Collector, MetState, TracedRequest};
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_measure::Conditions;
use wakepath_measure::summary::LatencySummary;
use wakepath_system::System;
use wakepath_trace::recording::{Metadata, Reader};

use super::drive_of_disk::find_drive_of_disk;
use crate::commands::foreign_recording::check_recording_is_of_machine;

/// Fewest requests for a figure.
const FEWEST: usize = 100;
/// Size of the requests that a machine file's service times are for.
const BYTES: u32 = 4096;

/// Takes service times of 4 KiB requests without others in flight from a recording into the drive of a captured machine. The
/// drive is the one with most such requests. Returns notes.
///
/// # Errors
/// The recording cannot be read, is of another machine, or has too few such requests.
pub(super) fn take_recorded_figures(
    path: &Path,
    system: &System,
    machine: &mut Machine,
) -> anyhow::Result<Vec<String>> {
    let mut reader = Reader::open(path)?;
    let metadata = reader.metadata().clone();
    let advice = "Give one that was made on it, or leave --recording out";
    check_recording_is_of_machine(&machine.name, &metadata, machine, advice)
        .with_context(|| path.display().to_string())?;
    let mut collector = Collector::new(&metadata);
    collector.collect_recording(&mut reader)?;
    let collected = collector.finish();
    let alone: Vec<&TracedRequest> = collected
        .requests
        .iter()
        .filter(|request| is_alone(request))
        .collect();
    let Some(device) = most_frequent_device(&alone) else {
        bail!(
            "{}: no 4 KiB request without others in flight; record reads of a drive with `wakepath record`",
            path.display()
        );
    };
    let mut named = metadata.devices.iter();
    let name = named
        .find(|drive| drive.device == device)
        .map(|drive| drive.name.clone())
        .with_context(|| format!("{}: its drive has no name", path.display()))?;
    let Some(drive) = find_drive_of_disk(machine, system, &name) else {
        bail!(
            "{}: it is of the drive {name}, which this machine does not have",
            path.display()
        );
    };
    let mut notes = Vec::new();
    for write in [false, true] {
        let requests = alone
            .iter()
            .filter(|request| request.device == device && request.write == write);
        let requests: Vec<&TracedRequest> = requests.copied().collect();
        let Some((figure, how)) = service_figure(&requests, &metadata) else {
            continue;
        };
        let (key, place) = if write {
            ("write_service_us", &mut drive.write_service_us)
        } else {
            ("read_service_us", &mut drive.read_service_us)
        };
        notes.push(format!(
            "{name}: {key} is {} us, from {} requests of the recording{how}",
            figure.value,
            requests.len()
        ));
        *place = figure;
    }
    drive.drop_tails_that_do_not_fit();
    if notes.is_empty() {
        bail!(
            "{}: fewer than {FEWEST} reads or writes of 4 KiB without others in flight",
            path.display()
        );
    }
    machine
        .check()
        .with_context(|| path.display().to_string())?;
    Ok(notes)
}

/// Whether a request is of 4 KiB, somebody waits for it, and no other was in flight.
fn is_alone(request: &TracedRequest) -> bool {
    request.bytes == BYTES && !request.background && request.in_flight == 0
}

fn most_frequent_device(requests: &[&TracedRequest]) -> Option<u32> {
    let mut counts = std::collections::BTreeMap::new();
    for request in requests {
        *counts.entry(request.device).or_insert(0_u64) += 1;
    }
    let most = counts.into_iter().max_by_key(|(_, count)| *count);
    most.map(|(device, _)| device)
}

/// Mean time of requests in the drive, with words about what else is in there; `None` for too few.
///
/// Where enough requests found an awake CPU, no idle exit is in the figure.
fn service_figure(
    requests: &[&TracedRequest],
    metadata: &Metadata,
) -> Option<(Figure, &'static str)> {
    let awake = requests
        .iter()
        .filter(|request| request.met == MetState::Awake);
    let mut times: Vec<u64> = awake.map(|request| request.out).collect();
    let mut how = "";
    if times.len() < FEWEST {
        times = requests.iter().map(|request| request.out).collect();
        how = ", idle exits of the CPUs included";
    }
    if times.len() < FEWEST {
        return None;
    }
    let kernel = metadata.kernel.clone().unwrap_or_default();
    let what = format!(
        "mean from issue to interrupt of recorded 4 KiB requests without others in flight{how}"
    );
    let summary = LatencySummary::new(&times)?;
    let figure = summary
        .mean
        .figure_us(summary.n, &what, &Conditions::of_recording(kernel));
    Some((figure, how))
}
