//! Live following of the machine's requests by events.

use std::time::Duration;

use wakepath_explain::{Collected, Collector};
use wakepath_record::wire::WireError;
use wakepath_record::{EventStream, LiveRecording};
use wakepath_system::System;

/// Delay between an event and its reading from the buffers.
const SETTLE: Duration = Duration::from_millis(40);

/// Events of the running machine, and their requests.
pub(in crate::commands) struct LiveRequests {
    pub(in crate::commands) stream: EventStream,
    /// Follows requests over intervals: a slow request may be in flight in many intervals.
    pub(super) collector: Collector,
}

impl LiveRequests {
    /// Begins to follow requests by the events of a recording.
    pub(in crate::commands) fn start(recording: LiveRecording, system: &System) -> Self {
        let stream = EventStream::start(recording, system);
        let collector = Collector::new(stream.metadata());
        Self { stream, collector }
    }

    /// Takes the events since the last call; to be called some times a second.
    ///
    /// # Errors
    /// The programs wrote an unknown record; a fault of wakepath's.
    pub(in crate::commands) fn push_new_events(&mut self) -> Result<(), WireError> {
        self.stream
            .visit_new_events(|event| self.collector.push_event(event))?;
        self.collector
            .learn_task_names(&self.stream.metadata().tasks);
        Ok(())
    }

    /// Takes the requests with all parts: their completion is long enough ago.
    pub(super) fn take_settled_requests(&mut self) -> Collected {
        self.note_open_idle_periods();
        self.collector.take_settled_requests()
    }

    /// Takes all other requests, at the end, with the events in the buffers.
    ///
    /// # Errors
    /// As [`Self::push_new_events`].
    pub(in crate::commands) fn finish(&mut self) -> Result<Collected, WireError> {
        std::thread::sleep(SETTLE);
        self.push_new_events()?;
        self.note_open_idle_periods();
        Ok(std::mem::take(&mut self.collector).finish())
    }

    fn note_open_idle_periods(&mut self) {
        let open = self.stream.open_idle_periods();
        self.collector.note_open_idle_periods(&open);
    }
}
