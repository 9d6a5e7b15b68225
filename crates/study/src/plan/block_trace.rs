//! Block traces as workloads, and recordings as block traces.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::Spanned;
use wakepath_trace::recording::{EventKind, Reader, RecordingError, is_recording_file};
use wakepath_units::Nanoseconds;
use wakepath_units::causes::with_causes;
use wakepath_workloads::Workload;
use wakepath_workloads::block_trace::{BlockTrace, BlockTraceOptions, TracedDisk, choose_disk};
use wakepath_workloads::fio::FioJobFile;

use super::names::path_in_folder;
use super::recorded_requests::RecordedDrive;
use super::seconds::seconds_to_nanoseconds;
use crate::file::{StudyError, StudyText, WorkloadEntry};

/// Reads the block trace at `path`, or the block requests of a recording; `None` if the file is neither.
///
/// # Errors
/// The trace or recording cannot be read, or lacks what `options` ask for.
pub fn load_block_trace(
    path: &Path,
    options: &BlockTraceOptions,
) -> Result<Option<Workload>, StudyError> {
    if !is_recording_file(path) {
        return Workload::load_block_trace(path, options)
            .map_err(|e| StudyError::Settings(e.to_string()));
    }
    let trace = read_requests_of_recording(path, options)?;
    Ok(Some(FioJobFile::for_block_trace(trace).into()))
}

/// The whole path and the workload of the trace that an entry names.
pub(super) fn plan_block_trace(
    entry: &WorkloadEntry,
    name: &Spanned<String>,
    source: StudyText<'_>,
    folder: &Path,
) -> Result<(PathBuf, Workload), StudyError> {
    let options = BlockTraceOptions {
        disk: entry.disk.as_ref().map(|disk| disk.get_ref().clone()),
        from: (entry.from_s.as_ref()).map_or(Nanoseconds::ZERO, seconds_to_nanoseconds),
        is_dependent: entry
            .dependent
            .as_ref()
            .is_some_and(|given| *given.get_ref()),
    };
    let named = path_in_folder(folder, name.get_ref());
    let path = std::fs::canonicalize(&named).unwrap_or(named);
    let loaded = load_block_trace(&path, &options)
        .map_err(|e| source.error_at_value(name, e.to_string()))?;
    let Some(workload) = loaded else {
        let message = if path.is_file() {
            format!(
                "{} is no block trace: expected blktrace's files or text of blkparse, fio's iolog, an MSR Cambridge trace or a recording",
                path.display()
            )
        } else if path.is_dir() {
            format!(
                "{} is a folder without files of blktrace (DEVICE.blktrace.CPU)",
                path.display()
            )
        } else {
            format!("there is no file {}", path.display())
        };
        return Err(source.error_at_value(name, message));
    };
    let at_most = entry.seconds.as_ref().map(seconds_to_nanoseconds);
    Ok((
        path,
        workload.with_time_limit_and_fio_warm_up(at_most, None),
    ))
}

/// Finds the drives of a recording, and reads the block requests of one of them.
fn read_requests_of_recording(
    path: &Path,
    options: &BlockTraceOptions,
) -> Result<BlockTrace, StudyError> {
    let origin = path.display().to_string();
    let mut reader = Reader::open(path).map_err(|e| StudyError::Settings(with_causes(&e)))?;
    let devices = count_requests_by_device(&mut reader).map_err(|e| describe_reading_error(&e))?;
    let disks: Vec<TracedDisk> = (devices.iter())
        .map(|(device, requests)| TracedDisk {
            name: reader.metadata().device_name_or_numbers(*device),
            requests: *requests,
        })
        .collect();
    if disks.is_empty() {
        return Err(StudyError::Settings(format!(
            "{origin}: the recording has no block requests; record a machine with drives, or import with block:* events"
        )));
    }
    let disk = choose_disk(&disks, options.disk.as_deref())
        .map_err(|message| StudyError::Settings(format!("{origin}: {message}")))?;
    let recording = RecordedDrive {
        path: path.to_owned(),
        device: devices[disk].0,
    };
    BlockTrace::from_recording(&origin, disks, disk, Arc::new(recording), options)
        .map_err(|e| StudyError::Settings(e.to_string()))
}

fn describe_reading_error(error: &RecordingError) -> StudyError {
    StudyError::Settings(with_causes(error))
}

/// Devices of a recording with their numbers of requests, in the order of their first requests.
fn count_requests_by_device(reader: &mut Reader) -> Result<Vec<(u32, u64)>, RecordingError> {
    let mut devices: Vec<(u32, u64)> = Vec::new();
    reader.for_each_event(|event| {
        if let EventKind::BlockIssue(block) = &event.kind {
            match devices
                .iter_mut()
                .find(|(device, _)| *device == block.device)
            {
                Some((_, count)) => *count += 1,
                None => devices.push((block.device, 1)),
            }
        }
        Ok::<(), RecordingError>(())
    })?;
    Ok(devices)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use wakepath_results::RunOrigin;
    use wakepath_trace::recording::{Block, Event, Metadata, Overwrite, Writer};

    use super::super::Plan;
    use super::*;

    fn write_recording(path: &Path) {
        let mut writer = Writer::create(path, Overwrite::No, Metadata::default()).unwrap();
        for number in 0..30_u64 {
            for (after_us, kind) in [
                (0, EventKind::BlockIssue as fn(Block) -> EventKind),
                (90, EventKind::BlockComplete),
            ] {
                let block = Block {
                    device: 1,
                    sector: number * 16,
                    bytes: if number == 29 { 0 } else { 8192 },
                    write: number % 3 == 2,
                };
                let event = Event {
                    time: Nanoseconds::from_micros(7_000_000 + number * 500 + after_us),
                    cpu: 0,
                    kind: kind(block),
                };
                writer.add_event(&event).unwrap();
            }
        }
        writer.finish_and_count_events().unwrap();
    }

    #[test]
    fn a_recording_is_a_trace() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        write_recording(&path);
        let options = BlockTraceOptions {
            is_dependent: true,
            ..BlockTraceOptions::default()
        };
        let workload = load_block_trace(&path, &options).unwrap().unwrap();
        let trace = workload.block_trace().unwrap();
        let totals = trace.totals;
        assert_eq!((totals.reads, totals.writes, totals.flushes), (20, 9, 1));
        assert_eq!((totals.read_bytes, totals.without_end), (20 * 8192, 0));
        assert_eq!(trace.duration(), Nanoseconds::from_micros(29 * 500));
        let first = trace.requests().unwrap().next().unwrap().unwrap();
        let begin = (first.begin, first.end);
        assert_eq!(begin, (Nanoseconds::ZERO, Some(Nanoseconds(90_000))));
        let other = BlockTraceOptions {
            disk: Some("sda".to_owned()),
            ..BlockTraceOptions::default()
        };
        let message = load_block_trace(&path, &other).unwrap_err().to_string();
        assert!(message.contains("no disk `sda`"), "{message}");
    }

    #[test]
    fn a_study_names_a_trace_by_its_whole_path() {
        let folder = tempfile::tempdir().unwrap();
        let log = "fio version 3 iolog\n0 f read 0 4096\n900000 f read 4096 4096\n";
        std::fs::write(folder.path().join("a.log"), log).unwrap();
        let study = |keys: &str| {
            format!(
                "name = 'x'\nmachine = 'rk3399'\npolicy = ['menu']\n[[workload]]\nname = 'w'\n{keys}\n"
            )
        };
        let plan =
            |keys: &str, target| Plan::from_text(&study(keys), "s.toml", folder.path(), target);
        let planned = plan("trace = 'a.log'\nfrom_s = 0.5", RunOrigin::Sim).unwrap();
        let trace = (planned.workloads[0].simulated_workload())
            .and_then(Workload::block_trace)
            .unwrap();
        assert_eq!(trace.duration(), Nanoseconds::from_millis(400));
        let kept = planned.list_result_files(vec![Vec::new()], &BTreeMap::default());
        let kept = String::from_utf8(kept.unwrap()[0].1.clone()).unwrap();
        let path = std::fs::canonicalize(folder.path().join("a.log")).unwrap();
        assert!(
            kept.contains(&format!("trace = \"{}\"", path.display())),
            "{kept}"
        );
        for (keys, target, wanted) in [
            ("trace = 'b.log'", RunOrigin::Sim, "there is no file"),
            ("trace = 's.toml'", RunOrigin::Sim, "there is no file"),
            (
                "trace = 'a.log'",
                RunOrigin::Live,
                "a block trace is simulated (--on sim)",
            ),
            ("trace = 'a.log'\ndisk = 'g'", RunOrigin::Sim, "no disk `g`"),
            (
                "trace = 'a.log'\nfrom_s = 2.0",
                RunOrigin::Sim,
                "there is no request from 2 s on",
            ),
            (
                "trace = 'a.log'\nfrom_s = -2.0",
                RunOrigin::Sim,
                "`from_s` may be 0 to",
            ),
            (
                "trace = 'a.log'\ndependent = true",
                RunOrigin::Sim,
                "does not say when requests ended",
            ),
            (
                "fio_job = '''[a]'''\ndisk = 'x'",
                RunOrigin::Sim,
                "are for block traces",
            ),
        ] {
            let message = plan(keys, target).unwrap_err().to_string();
            assert!(message.contains(wanted), "{keys}: {message}");
        }
    }
}
