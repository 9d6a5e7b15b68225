//! Recordings to look into.

use std::path::Path;

use wakepath_trace::recording::{Event, Metadata, Reader, RecordingError};

/// All of a recording.
pub(crate) fn read(path: &Path) -> (Metadata, Vec<Event>) {
    let mut reader = Reader::open(path).unwrap();
    let mut events = Vec::new();
    reader
        .for_each_event(|event| -> Result<(), RecordingError> {
            events.push(event);
            Ok(())
        })
        .unwrap();
    (reader.metadata().clone(), events)
}
