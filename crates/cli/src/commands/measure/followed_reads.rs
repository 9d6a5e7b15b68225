//! Reads of an experiment, followed through the kernel as by `wakepath explain`.

use wakepath_explain::{RequestKind, explain_requests};
use wakepath_measure::path::{FollowedReads, ReadFollower};
use wakepath_record::{BUFFER_BYTES, LiveRecording, RecordedTasks};
use wakepath_system::System;

use crate::commands::explain::LiveRequests;

/// Size of the followed reads in bytes.
const BYTES: u32 = 4096;

/// Follows reads by eBPF, which needs root.
#[derive(Default)]
pub(super) struct EventFollower {
    /// Requests since the beginning; `None` outside of a run.
    following: Option<LiveRequests>,
}

impl ReadFollower for EventFollower {
    fn begin(&mut self) -> Result<(), String> {
        let recording = LiveRecording::load_and_attach(BUFFER_BYTES, RecordedTasks::WithIo)
            .map_err(|error| error.to_string())?;
        self.following = Some(LiveRequests::start(recording, &System::live()));
        Ok(())
    }

    fn take_events(&mut self) -> Result<(), String> {
        let events = self.following.as_mut().map(LiveRequests::push_new_events);
        events.unwrap_or(Ok(())).map_err(|error| error.to_string())
    }

    fn end(&mut self, disk: &str) -> Result<FollowedReads, String> {
        let Some(mut requests) = self.following.take() else {
            return Err("nothing was followed".to_owned());
        };
        let collected = requests.finish().map_err(|error| error.to_string())?;
        let metadata = requests.stream.metadata();
        if metadata.lost_events > 0 {
            return Err(format!("{} events were lost", metadata.lost_events));
        }
        let explanation = explain_requests(&collected, metadata);
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
