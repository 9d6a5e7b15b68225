//! Recorded I/O of a drive under other tables of power states (APST).
//!
//! The recording says when a drive had requests in flight; the model of a drive says what it draws and how long it takes to
//! wake up. The load is as recorded: it does not wait for a slower drive with its next request.
//!
//! Requests of the recording waited for the recorded drive, too. Where the recording says which drive it was and which table it
//! had, these waits are no work of the modelled drive.

use std::borrow::Cow;
use std::path::Path;

use wakepath_hardware::drive::DriveLibrary;
use wakepath_hardware::machine::{DriveInForce, DriveModel, Transition};
use wakepath_policies::PolicySet;
use wakepath_policies::apst::gaps::BusyPeriod;
use wakepath_policies::apst::in_force::apst_settings_under_set;
use wakepath_policies::mechanism::Kind;
use wakepath_replay::busy_periods::{RecordedDrive, read_busy_periods};
use wakepath_sim::{
    DriveRun, RecordedDriveRun, run_drive_under_recorded_io, take_wake_ups_out_of_busy_periods,
};
use wakepath_system::nvme::ApstFeature;
use wakepath_trace::recording::{Metadata, Reader};
use wakepath_units::Nanoseconds;
use wakepath_units::causes::with_causes;
use wakepath_units::spelling::suggestion_with_known_names;

use crate::file::StudyError;

/// Number of blocks of equal time whose differences show how much chance is in a recording.
pub const TIME_BLOCKS: u32 = 20;

/// Sentence, without its article, on a recording that lacks what [`DriveIo::knows_recorded_sleep`] asks for.
pub const UNKNOWN_SLEEP: &str =
    "recording does not say how its drive slept: what requests waited for that counts as work";

/// The recorded I/O of one drive.
#[derive(Clone, Debug)]
pub struct DriveIo {
    /// Kernel's name of the recorded drive.
    pub device: String,
    /// Number of requests that were issued.
    pub requests: u64,
    /// Length of the recording.
    pub duration: Nanoseconds,
    /// What makes the recorded idle times uncertain, in sentences.
    pub doubts: Vec<String>,
    extent: (Nanoseconds, Nanoseconds),
    recorded: RecordedDrive,
    sleep: Option<RecordedSleep>,
}

/// A modelled drive with recorded I/O as its work. Waits for the recorded drive's own wake-ups are no part of the work where
/// [`DriveIo::knows_recorded_sleep`].
#[derive(Clone, Debug)]
pub struct DriveWork<'a> {
    drive: &'a DriveModel,
    busy: Cow<'a, [BusyPeriod]>,
    extent: (Nanoseconds, Nanoseconds),
}

/// What a recording says of how its drive slept.
#[derive(Clone, Debug)]
struct RecordedSleep {
    /// The drive's own model name.
    model: String,
    in_force: DriveInForce,
    /// The library's drive with that name.
    library_drive: Option<DriveModel>,
}

/// Names and values of metrics, as results have them.
pub type NamedMetrics = Vec<(String, f64)>;

impl DriveIo {
    /// Reads a drive's I/O from a recording: of the named device, or of the one with the most requests.
    ///
    /// # Errors
    /// The recording cannot be read, has no block requests, or does not have the device.
    pub fn read(path: &Path, device: Option<&str>) -> Result<Self, StudyError> {
        let about_file =
            |problem: String| StudyError::Settings(format!("{}: {problem}", path.display()));
        let mut reader = Reader::open(path).map_err(|e| StudyError::Settings(with_causes(&e)))?;
        let read = read_busy_periods(&mut reader).map_err(|e| about_file(with_causes(&e)))?;
        let names: Vec<String> = (read.drives.iter().map(|d| d.report.name.clone())).collect();
        let chosen = match device {
            Some(device) => read.drives.into_iter().find(|d| d.report.name == device),
            None => (read.drives.into_iter()).max_by_key(|drive| drive.report.issued),
        };
        let recorded = chosen.ok_or_else(|| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let wanted = device.unwrap_or_default();
            about_file(format!(
                "no requests of a drive `{wanted}`{}",
                suggestion_with_known_names(wanted, &names)
            ))
        })?;
        let report = &recorded.report;
        let mut doubts = Vec::new();
        if device.is_none() && names.len() > 1 {
            doubts.push(format!(
                "{} has the most requests of {}; --device takes another",
                report.name,
                names.join(", ")
            ));
        }
        if report.is_uncertain() {
            doubts.push(format!(
                "{} of {} requests have no recorded completion, so that idle times are uncertain",
                report.missed, report.issued
            ));
        }
        if read.interruptions > 0 {
            doubts.push(format!(
                "events are missing at {} places, where the drive counts as idle",
                read.interruptions
            ));
        }
        let (begin, end) = read.extent;
        Ok(Self {
            device: report.name.clone(),
            requests: report.issued,
            duration: Nanoseconds(end.0.saturating_sub(begin.0)),
            doubts,
            extent: read.extent,
            sleep: RecordedSleep::from_metadata(reader.metadata(), &report.name),
            recorded,
        })
    }

    /// Whether the recorded drive and its table are known, so that waits for its wake-ups are taken out of its work. A modelled
    /// drive with the recorded one's name stands for it.
    pub fn knows_recorded_sleep(&self, modelled: &DriveModel) -> bool {
        self.find_recorded_drive(modelled).is_some()
    }

    /// The recorded drive with the table that it had; `None` if the recording does not say, or nobody knows the drive.
    fn find_recorded_drive<'a>(
        &'a self,
        modelled: &'a DriveModel,
    ) -> Option<(&'a DriveModel, &'a DriveInForce)> {
        let sleep = self.sleep.as_ref()?;
        let declared = modelled.power.as_ref().map(|power| &power.declared.model);
        let is_modelled = modelled.name == sleep.model || declared == Some(&sleep.model);
        let drive = if is_modelled {
            modelled
        } else {
            sleep.library_drive.as_ref()?
        };
        Some((drive, &sleep.in_force))
    }

    /// Gives a drive the recorded I/O as its work. The work is the same under every set, so that it is found once for many.
    pub fn give_work_to_drive<'a>(&'a self, drive: &'a DriveModel) -> DriveWork<'a> {
        let busy = match self.find_recorded_drive(drive) {
            Some((known, in_force)) => Cow::Owned(self.take_out_wake_ups(known, in_force)),
            None => Cow::Borrowed(&self.recorded.busy[..]),
        };
        DriveWork {
            drive,
            busy,
            extent: self.extent,
        }
    }

    /// Busy periods without what requests waited for the recorded drive, which had a table of its own.
    fn take_out_wake_ups(&self, drive: &DriveModel, in_force: &DriveInForce) -> Vec<BusyPeriod> {
        let recorded = DriveModel {
            in_force: Some(in_force.clone()),
            ..drive.clone()
        };
        let settings = apst_settings_under_set(&recorded, &PolicySet::default());
        let busy = &self.recorded.busy;
        take_wake_ups_out_of_busy_periods(&recorded, &settings, busy, self.extent.0)
    }
}

impl DriveWork<'_> {
    /// Puts the drive through its work under the set's APST settings, or the captured ones where the set has none.
    ///
    /// # Errors
    /// The drive has no power states, or the set has policies that concern no drive.
    pub fn run_under_set(&self, set: &PolicySet) -> Result<RecordedDriveRun, StudyError> {
        check_set_concerns_drives_only(set)?;
        run_drive_under_recorded_io(
            self.drive,
            &apst_settings_under_set(self.drive, set),
            &self.busy,
            self.extent,
            TIME_BLOCKS,
        )
        .map_err(|e| StudyError::Settings(e.to_string()))
    }
}

impl RecordedSleep {
    /// `None`: the recording names no model of the device, or no table.
    fn from_metadata(metadata: &Metadata, device: &str) -> Option<Self> {
        let mut devices = metadata.devices.iter();
        let model = devices.find(|known| known.name == device)?.model.as_ref()?;
        let model = model.trim().to_owned();
        // A namespace `nvme0n1` is of the controller `nvme0`.
        let (controller, _) = device.rsplit_once('n')?;
        let mut settings = metadata.settings.iter();
        let table = settings.find(|setting| {
            setting.name == "apst" && setting.places.iter().any(|place| place == controller)
        })?;
        let feature = ApstFeature::parse(&table.value)?;
        let entries = feature.table.entries();
        let rows = entries.filter(|entry| entry.timeout_ms > 0);
        let in_force = DriveInForce {
            latency_tolerance_us: None,
            apst: Some(feature.enabled),
            table: rows
                .map(|entry| Transition {
                    from: entry.state,
                    to: entry.target,
                    idle_ms: entry.timeout_ms,
                })
                .collect(),
        };
        // The name is a stranger's: it is looked up in the library, and names no file.
        let in_library = DriveLibrary::builtin().find_one_model(&model).ok();
        let library_drive = in_library.and_then(|entry| DriveModel::find(&entry.name).ok());
        Some(Self {
            model,
            in_force,
            library_drive,
        })
    }
}

fn check_set_concerns_drives_only(set: &PolicySet) -> Result<(), StudyError> {
    let mut policies = set.policies().iter();
    match policies.find(|policy| !matches!(policy.kind(), Kind::Apst | Kind::DriveLatency)) {
        Some(other) => Err(StudyError::Settings(format!(
            "`{other}`: a drive's recorded I/O answers only to `apst` and `drive-latency`; leave it out"
        ))),
        None => Ok(()),
    }
}

/// Metrics of each block of time. Waits of the whole recording stand in every block: percentiles are not means of
/// percentiles.
pub fn metrics_of_time_blocks(run: &RecordedDriveRun) -> Vec<NamedMetrics> {
    let waits = metrics_of_waits(run);
    let blocks = run.blocks.iter();
    blocks
        .map(|block| {
            metrics_of_recorded_drive(block)
                .chain(waits.clone())
                .collect()
        })
        .collect()
}

/// Metrics of the whole recording.
pub fn metrics_of_whole_recording(run: &RecordedDriveRun) -> NamedMetrics {
    metrics_of_recorded_drive(&run.whole)
        .chain(metrics_of_waits(run))
        .collect()
}

/// Metrics of a single drive's part of a recording.
fn metrics_of_recorded_drive(run: &DriveRun) -> impl Iterator<Item = (String, f64)> {
    let metrics = metrics_of_drives(run, seconds_of_all_drives(run));
    metrics.map(|(name, value)| (name.to_owned(), value))
}

/// Time of all drives together in seconds.
fn seconds_of_all_drives(run: &DriveRun) -> f64 {
    let states: f64 = run.states.iter().map(|state| state.seconds).sum();
    states + run.active_seconds + run.transition_seconds
}

/// Power, wake-ups per second and time asleep of all drives together, in a run of so many seconds.
pub(super) fn metrics_of_drives(
    run: &DriveRun,
    seconds: f64,
) -> impl Iterator<Item = (&'static str, f64)> {
    // PS0 and other operational states are not told apart here: no idle transition leads to an operational one.
    let asleep: f64 = run.states.iter().skip(1).map(|state| state.seconds).sum();
    let of_all_drives = seconds_of_all_drives(run);
    [
        ("drive_mw", run.average_mw),
        (
            "drive_wake_ups_per_s",
            run.wake_ups as f64 / seconds.max(1e-9),
        ),
        ("drive_asleep", 100.0 * asleep / of_all_drives.max(1e-9)),
    ]
    .into_iter()
}

/// Metrics of the exact recorded waits; none where the drive never had to wake up.
fn metrics_of_waits(run: &RecordedDriveRun) -> NamedMetrics {
    let mean = (!run.waits.is_empty()).then_some(run.whole.mean_wake_us);
    [
        ("drive_wake_mean_us", mean),
        ("drive_wake_p50_us", wait_us_not_exceeded_by_share(run, 0.5)),
        (
            "drive_wake_p99_us",
            wait_us_not_exceeded_by_share(run, 0.99),
        ),
        ("drive_wake_max_us", wait_us_not_exceeded_by_share(run, 1.0)),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name.to_owned(), value?)))
    .collect()
}

/// The wait that this share of the I/Os does not exceed, in us.
fn wait_us_not_exceeded_by_share(run: &RecordedDriveRun, share: f64) -> Option<f64> {
    Some(run.wait_not_exceeded_by_share(share)?.0 as f64 / 1e3)
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::Machine;
    use wakepath_trace::recording::{
        Block, BlockDevice, Event, EventKind, Metadata, Overwrite, RecordedSetting, Writer,
    };

    use super::*;
    use crate::recorder::describe_drive_settings;

    /// A request of 1 ms every `gap_ms`, 40 times, on each of the devices.
    fn recording(devices: &[u32], gap_ms: u64) -> (tempfile::TempDir, std::path::PathBuf) {
        recording_that_tells(devices, gap_ms, 1, Metadata::default())
    }

    /// Requests of `request_ms`, 40 times on each of the devices, in a recording with metadata.
    fn recording_that_tells(
        devices: &[u32],
        gap_ms: u64,
        request_ms: u64,
        metadata: Metadata,
    ) -> (tempfile::TempDir, std::path::PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        let mut writer = Writer::create(&path, Overwrite::No, metadata).unwrap();
        for index in 1..=40_u64 {
            for (after_ms, kind) in [
                (0, EventKind::BlockIssue as fn(Block) -> EventKind),
                (request_ms, EventKind::BlockComplete),
            ] {
                for device in devices {
                    let block = Block {
                        device: *device,
                        sector: index * 8,
                        bytes: 4096,
                        write: false,
                    };
                    let event = Event {
                        time: Nanoseconds::from_millis(index * gap_ms + after_ms),
                        cpu: 0,
                        kind: kind(block),
                    };
                    writer.add_event(&event).unwrap();
                }
            }
        }
        writer.finish_and_count_events().unwrap();
        (folder, path)
    }

    fn metric(metrics: &NamedMetrics, name: &str) -> f64 {
        metrics.iter().find(|(known, _)| known == name).unwrap().1
    }

    #[test]
    fn a_shorter_timeout_saves_power_and_costs_wake_ups() {
        let (_folder, path) = recording(&[1], 90);
        let io = DriveIo::read(&path, None).unwrap();
        assert_eq!((io.requests, io.doubts.len()), (40, 0));
        let drive = DriveModel::find("sn530").unwrap();
        let work = io.give_work_to_drive(&drive);
        let run = |set: &str| {
            let run = work.run_under_set(&set.parse().unwrap()).unwrap();
            assert_eq!(metrics_of_time_blocks(&run).len(), TIME_BLOCKS as usize);
            metrics_of_whole_recording(&run)
        };
        let (kernel, short) = (run("apst"), run("apst[primary_timeout_ms=10]"));
        assert!(metric(&kernel, "drive_wake_ups_per_s").abs() < 1e-9);
        assert!(kernel.iter().all(|(name, _)| name != "drive_wake_p99_us"));
        // Each of the 40 requests but the first comes after 89 ms, within a recording of 3.6 s.
        assert!((metric(&short, "drive_wake_ups_per_s") - 39.0 / 3.511).abs() < 0.3);
        assert!(metric(&short, "drive_wake_p50_us") > 100.0);
        assert!(metric(&short, "drive_mw") < metric(&kernel, "drive_mw"));
        let captured = DriveModel {
            in_force: Some(DriveInForce {
                latency_tolerance_us: None,
                apst: Some(false),
                table: Vec::new(),
            }),
            ..drive.clone()
        };
        let sets = [
            "unchanged",
            "apst[max_latency_us=0]",
            "apst[primary_timeout_ms=10]",
        ];
        let [unchanged, off, short] = sets.map(|set| {
            let run = io
                .give_work_to_drive(&captured)
                .run_under_set(&set.parse().unwrap());
            metric(&metrics_of_whole_recording(&run.unwrap()), "drive_mw")
        });
        assert_eq!(unchanged.to_bits(), off.to_bits());
        assert!(unchanged > short);
    }

    /// Settings of a machine whose drive is an SN530, under a policy set.
    fn settings_under_set(set: &str) -> Vec<RecordedSetting> {
        let mut machine = Machine::find("laptop").unwrap();
        machine.drive = DriveModel::find("sn530").unwrap();
        describe_drive_settings(&machine, &set.parse().unwrap())
    }

    /// What a recording tells of its drive: the model name and the settings.
    fn metadata_of_drive(model: Option<&str>, settings: Vec<RecordedSetting>) -> Metadata {
        Metadata {
            devices: vec![BlockDevice {
                device: 1,
                name: "nvme0n1".to_owned(),
                model: model.map(str::to_owned),
            }],
            settings,
            ..Metadata::default()
        }
    }

    /// Set under which the drives of these recordings slept, and under which a drive is modelled with their I/O.
    const SLEPT: &str = "apst[primary_timeout_ms=10]";

    /// Checks a modelled drive's busy time in a recording with this metadata: each request came after 78 ms and took 12 ms.
    /// `request_s`: the work of each request, in seconds; `None`: the waits stay in the work. Nobody saw the idle time before the
    /// first request.
    fn check_busy_time_of_drive(metadata: Metadata, modelled: &DriveModel, request_s: Option<f64>) {
        let (_folder, path) = recording_that_tells(&[1], 90, 12, metadata);
        let io = DriveIo::read(&path, None).unwrap();
        assert_eq!(io.knows_recorded_sleep(modelled), request_s.is_some());
        let work = io.give_work_to_drive(modelled);
        let run = work.run_under_set(&SLEPT.parse().unwrap()).unwrap();
        let wait = run.waits.last().unwrap().0 as f64 / 1e9;
        let request_s = request_s.unwrap_or(0.012);
        // The recording ends with its last completion, and the last request's work only begins after its wait.
        let expected = 0.012 + 38.0 * request_s + request_s.min(0.012 - wait);
        let found = run.whole.active_seconds;
        assert!((found - expected).abs() < 1e-6, "{found} {expected} {wait}");
    }

    #[test]
    fn what_the_recorded_drive_took_to_wake_up_is_no_work_of_the_modelled_one() {
        let own = Some("WDC PC SN530 SDBPNPZ-256G-1006");
        let sn530 = DriveModel::find("sn530").unwrap();
        let other = DriveModel::find("Samsung SSD 980 PRO 1TB").unwrap();
        let rests = sn530.rests().map(|[_, exit_us]| exit_us.value / 1e6);
        let rest = rests.fold(0.0, f64::max);
        assert!(rest > 0.0);
        // 11 of the 12 ms were to wake the drive.
        for modelled in [&sn530, &other] {
            let told = metadata_of_drive(own, settings_under_set(SLEPT));
            check_busy_time_of_drive(told, modelled, Some(0.001));
            // A drive that never sleeps still rests.
            let awake = metadata_of_drive(own, settings_under_set("apst[max_latency_us=0]"));
            check_busy_time_of_drive(awake, modelled, Some(0.012 - rest));
        }
        let ours = DriveModel {
            name: "a drive of ours".to_owned(),
            ..sn530.clone()
        };
        let in_no_library = metadata_of_drive(Some("a drive of ours"), settings_under_set(SLEPT));
        check_busy_time_of_drive(in_no_library.clone(), &ours, Some(0.001));
        for untold in [
            in_no_library,
            metadata_of_drive(own, Vec::new()),
            metadata_of_drive(None, settings_under_set(SLEPT)),
        ] {
            check_busy_time_of_drive(untold, &sn530, None);
        }
    }

    #[test]
    fn the_drive_with_the_most_requests_is_taken_and_said() {
        let (_folder, path) = recording(&[1, 2], 90);
        let io = DriveIo::read(&path, None).unwrap();
        assert!(io.doubts[0].contains("--device takes another"));
        assert_eq!(DriveIo::read(&path, Some("0:1")).unwrap().device, "0:1");
        let refused = DriveIo::read(&path, Some("0:7")).unwrap_err().to_string();
        assert!(
            refused.contains("no requests of a drive `0:7`"),
            "{refused}"
        );
    }

    #[test]
    fn policies_of_cpus_are_refused() {
        let (_folder, path) = recording(&[1], 90);
        let io = DriveIo::read(&path, None).unwrap();
        let drive = DriveModel::find("sn530").unwrap();
        let work = io.give_work_to_drive(&drive);
        let refused = work.run_under_set(&"teo + apst".parse().unwrap());
        let refused = refused.unwrap_err().to_string();
        assert!(refused.contains("answers only to `apst`"), "{refused}");
    }
}
