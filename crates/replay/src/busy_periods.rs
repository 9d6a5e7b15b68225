//! The busy periods of the drives in a recording: what a drive needs to be put through other tables of power states.

use wakepath_policies::apst::gaps::BusyPeriod;
use wakepath_trace::recording::{
    Event, EventKind, PackedIdlePeriod, Reader, RecordingError, Visitor,
};
use wakepath_units::Nanoseconds;

use crate::drives::{DriveReport, Drives};
use crate::error::ReplayError;

/// The drives of a recording with their busy periods.
#[derive(Clone, Debug)]
pub struct RecordedDriveIo {
    /// Start and end of the recording.
    pub extent: (Nanoseconds, Nanoseconds),
    /// Each drive that had a request, in order of device numbers.
    pub drives: Vec<RecordedDrive>,
    /// How often the recording says that events are missing. The drive counts as idle there.
    pub interruptions: u64,
}

/// A drive of a recording with its busy periods.
#[derive(Clone, Debug)]
pub struct RecordedDrive {
    /// Requests and idle gaps of the drive.
    pub report: DriveReport,
    /// Times with requests in flight, in order; they do not overlap.
    pub busy: Vec<BusyPeriod>,
}

/// Reads the busy periods of all drives in a recording, in one pass.
///
/// # Errors
/// The recording cannot be read, or has no block request.
pub fn read_busy_periods(reader: &mut Reader) -> Result<RecordedDriveIo, ReplayError> {
    let extent = reader
        .time_range_and_rewind()?
        .ok_or(ReplayError::NoBlockRequests)?;
    let mut pass = DrivePass {
        drives: Drives::with_busy_periods(),
        interruptions: 0,
    };
    while let Some(batch) = reader.next_batch()? {
        batch.visit_events(&mut pass)?;
    }
    if pass.drives.has_no_requests() {
        return Err(ReplayError::NoBlockRequests);
    }
    let metadata = reader.metadata();
    let (_, end) = extent;
    let drives = pass
        .drives
        .into_reports_with_busy_periods(end.0, |device| metadata.device_name_or_numbers(device));
    Ok(RecordedDriveIo {
        extent,
        drives: drives
            .into_iter()
            .map(|(report, busy)| RecordedDrive { report, busy })
            .collect(),
        interruptions: pass.interruptions,
    })
}

struct DrivePass {
    drives: Drives,
    interruptions: u64,
}

impl Visitor for DrivePass {
    type Error = RecordingError;

    fn visit_idle_period(
        &mut self,
        _end: Nanoseconds,
        _cpu: u32,
        _period: &PackedIdlePeriod,
    ) -> Result<(), RecordingError> {
        Ok(())
    }

    fn visit_other_event(&mut self, event: &Event) -> Result<(), RecordingError> {
        let time = event.time.0;
        match &event.kind {
            EventKind::BlockIssue(block) => {
                self.drives.note_request_issue(time, event.cpu, block);
            }
            EventKind::BlockComplete(block) => {
                self.drives.note_request_completion(time, event.cpu, block);
            }
            EventKind::Lost { .. } => {
                self.drives.forget_requests_in_flight();
                self.interruptions += 1;
            }
            _ => {}
        }
        Ok(())
    }
}
