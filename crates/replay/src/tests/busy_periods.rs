//! Busy periods of drives in recordings.

use super::*;
use crate::busy_periods::{RecordedDriveIo, read_busy_periods};

fn issue(time_ms: u64, sector: u64) -> Event {
    on(
        time_ms * MS,
        EventKind::BlockIssue(Block { sector, ..READ }),
    )
}

fn complete(time_ms: u64, sector: u64) -> Event {
    on(
        time_ms * MS,
        EventKind::BlockComplete(Block { sector, ..READ }),
    )
}

fn read(events: &[Event]) -> Result<RecordedDriveIo, ReplayError> {
    let recorded = recording(events);
    read_busy_periods(&mut Reader::open(&recorded.path).unwrap())
}

/// Start, end and number of requests of each busy period of the first drive, times in ms.
fn periods(events: &[Event]) -> Vec<(u64, u64, u64)> {
    let read = read(events).unwrap();
    let busy = read.drives[0].busy.iter();
    busy.map(|period| (period.start.0 / MS, period.end.0 / MS, period.requests))
        .collect()
}

#[test]
fn requests_that_overlap_are_one_busy_period() {
    let events = [
        issue(1, 8),
        issue(2, 16),
        complete(3, 8),
        complete(5, 16),
        issue(9, 8),
        complete(10, 8),
    ];
    assert_eq!(periods(&events), [(1, 5, 2), (9, 10, 1)]);
}

#[test]
fn a_request_in_flight_at_the_end_keeps_the_drive_busy() {
    let events = [
        issue(1, 8),
        complete(2, 8),
        issue(4, 8),
        idle(9 * MS, MS, 1, Before::Task),
    ];
    assert_eq!(periods(&events), [(1, 2, 1), (4, 9, 1)]);
}

#[test]
fn missing_events_end_no_busy_period_and_are_counted() {
    let events = [
        issue(1, 8),
        on(2 * MS, EventKind::Lost { count: 3 }),
        complete(3, 8),
        issue(5, 8),
        complete(6, 8),
    ];
    assert_eq!(periods(&events), [(5, 6, 1)]);
    assert_eq!(read(&events).unwrap().interruptions, 1);
}

#[test]
fn a_recording_without_block_requests_is_refused() {
    let refused = read(&[idle(9 * MS, MS, 1, Before::Task)]).unwrap_err();
    assert!(
        refused.to_string().contains("has no block requests"),
        "{refused}"
    );
    assert!(read(&[]).is_err());
}
