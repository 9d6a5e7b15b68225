//! Reads of an experiment, followed through the kernel as `wakepath explain` follows them.

use std::time::Duration;

use wakepath_explain::{Collector, RequestKind, explain_requests};
use wakepath_measure::path::{FollowedReads, ReadFollower};
use wakepath_record::{BUFFER_BYTES, EventStream, LiveRecording, RecordedTasks};
use wakepath_system::System;

/// Size of the followed reads in bytes.
const BYTES: u32 = 4096;
/// Delay between an event and its reading from the buffers.
const SETTLE: Duration = Duration::from_millis(40);

/// Follows reads by eBPF, which needs root.
#[derive(Default)]
pub(super) struct EventFollower {
    /// Events since the beginning, and the requests in them; `None` outside of a run.
    following: Option<(EventStream, Collector)>,
}

impl ReadFollower for EventFollower {
    fn begin(&mut self) -> Result<(), String> {
        let recording = LiveRecording::load_and_attach(BUFFER_BYTES, RecordedTasks::WithIo)
            .map_err(|error| error.to_string())?;
        let stream = EventStream::start(recording, &System::live());
        let collector = Collector::new(stream.metadata());
        self.following = Some((stream, collector));
        Ok(())
    }

    fn take_events(&mut self) -> Result<(), String> {
        let Some((stream, collector)) = &mut self.following else {
            return Ok(());
        };
        stream
            .visit_new_events(|event| collector.push_event(event))
            .map_err(|error| error.to_string())?;
        collector.learn_task_names(&stream.metadata().tasks);
        Ok(())
    }

    fn end(&mut self, disk: &str) -> Result<FollowedReads, String> {
        std::thread::sleep(SETTLE);
        self.take_events()?;
        let Some((stream, mut collector)) = self.following.take() else {
            return Err("nothing was followed".to_owned());
        };
        collector.note_open_idle_periods(&stream.open_idle_periods());
        let metadata = stream.metadata();
        if metadata.lost_events > 0 {
            return Err(format!("{} events were lost", metadata.lost_events));
        }
        let explanation = explain_requests(&collector.finish(), metadata);
        let kind = explanation.kinds.iter().find(|kind| {
            kind.device == disk && !kind.write && !kind.background && kind.bytes == BYTES
        });
        kind.map(means_of_reads)
            .ok_or_else(|| format!("no read of {disk} was seen"))
    }
}

fn means_of_reads(kind: &RequestKind) -> FollowedReads {
    let parts = &kind.parts;
    let queued_ns = parts.tag_ns + parts.plug_ns + parts.scheduler_ns;
    FollowedReads {
        reads: kind.requests,
        queued_ns: (kind.queued > 0).then_some(queued_ns),
        drive_ns: parts.out_ns,
        interrupt_ns: parts.interrupt_ns + parts.remote_exit_ns + parts.remote_ns,
        woke: kind.woke,
        hand_over_ns: (kind.woke > 0).then_some(parts.hand_over_ns),
        resume_ns: kind.wait.map(|wait| wait.task_exit_ns + wait.run_queue_ns),
    }
}
