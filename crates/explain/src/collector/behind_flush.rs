//! Completions that a flush of the drive brought.

use wakepath_trace::recording::Block;

use super::Collector;
use crate::in_flight::CompletedFlush;

impl Collector {
    /// Ends a request without data that was never issued itself: the drive's flush, completed just before on the same CPU, was
    /// issued for its bio. The first such bio makes the flush its own way; each further one is another request, behind that.
    pub(super) fn end_request_behind_flush(&mut self, time: u64, on: u32, block: &Block) {
        let cpu = self.cpus.entry(on).or_default();
        cpu.completed = cpu.completed.max(Some(time));
        let devices = self.devices.get_mut(&block.device);
        let last = devices.and_then(|device| device.flush.as_mut());
        let ended = last.filter(|flush| flush.may_have_ended_at(time, on));
        let has_flush = ended.is_some();
        let served = ended.and_then(|flush| {
            let issued = flush.completion.issue.time;
            if let Some(ended_ns) = flush.ended_two_before {
                self.queues.forget_flush_bios_tagged_until(block, ended_ns);
            }
            let origin = self.queues.take_flush_bio(block, issued)?;
            Some((flush, origin))
        });
        let Some((flush, origin)) = served else {
            self.end_write_behind_flush(time, on, block, has_flush);
            return;
        };
        flush.completion.issue.origin = Some(origin);
        let CompletedFlush {
            request,
            completion,
            has_bio,
            ..
        } = *flush;
        flush.has_bio = true;
        if has_bio {
            self.push_completed_request(&completion);
            return;
        }
        if let Some(request) = self.requests.get_mut(request) {
            request.task = origin.task;
            request.queued = Some(origin.parts);
        }
        self.cpus.entry(on).or_default().last_request = Some((request, time));
    }

    /// Ends a write whose data completed before, and that a flush may have followed: the way to its task begins only now. What
    /// seemed plugged was the flush before the data. Where neither data nor a flush (`has_flush`) was seen, a flush bio has ended.
    fn end_write_behind_flush(&mut self, time: u64, on: u32, block: &Block, has_flush: bool) {
        let device = self.devices.get_mut(&block.device);
        let write = device.and_then(|device| device.writes.take_write(block.sector));
        let Some(request) = write else {
            self.coverage.flushes += 1;
            if !has_flush {
                self.queues.forget_flush_bio_of_ended_request(block);
            }
            return;
        };
        if let Some(queued) = self
            .requests
            .get_mut(request)
            .and_then(|r| r.queued.as_mut())
        {
            queued.flush += std::mem::take(&mut queued.plug);
        }
        self.cpus.entry(on).or_default().last_request = Some((request, time));
    }
}
