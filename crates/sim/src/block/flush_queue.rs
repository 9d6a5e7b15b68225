//! Flushes of hardware queues: one of each queue is in the drive at a time, and requests that come meanwhile share the next.
//!
//! As `blk_kick_flush()` and `flush_end_io()` in `block/blk-flush.c`, Linux 6.1 to 7.3. The interrupt that ends a flush completes all
//! of its requests, and sends the next flush. While a write that waited for a flush is under way, other flushes of the queue wait.

use std::mem;

use wakepath_policies::psd::LeaseTrigger;

use crate::block::request::Request;
use crate::core::basics::{CpuId, PageCacheRequestId, RequestId};
use crate::core::observer::Observer;
use crate::core::parts::Part;
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Gives a flush to a drive, now or after the one that the queue has there.
    #[inline(never)]
    pub(super) fn queue_flush(&mut self, drive: usize, id: RequestId) {
        self.requests[id].drive = drive;
        let queue = self.number_of_request_queue(id);
        let flushes = &mut self.requests.flush_queues[queue];
        flushes.pending.push(id);
        if flushes.running.is_empty() && flushes.writes_after_flush == 0 {
            self.send_pending_flush(queue);
        }
    }

    /// Ends a request of the page cache; after a write that waited for a flush, flushes of the queue go on.
    pub(crate) fn end_write_after_flush(&mut self, request: &Request) {
        if !request.in_flush_sequence || request.bytes == 0 {
            return;
        }
        let completion = &self.setup.completion;
        let queue = completion.queue_number_across_drives(request.drive, request.issued_on);
        let flushes = &mut self.requests.flush_queues[queue];
        flushes.writes_after_flush = flushes.writes_after_flush.saturating_sub(1);
        if flushes.running.is_empty() && flushes.writes_after_flush == 0 {
            self.send_pending_flush(queue);
        }
    }

    /// Number of the queue that a request was submitted to, over all drives.
    pub(super) fn number_of_request_queue(&self, id: RequestId) -> usize {
        let request = &self.requests[id];
        let completion = &self.setup.completion;
        completion.queue_number_across_drives(request.drive, request.issued_on)
    }

    /// Sends one flush for all requests that wait for one.
    fn send_pending_flush(&mut self, queue: usize) {
        let now = self.context.now();
        let running = mem::take(&mut self.requests.flush_queues[queue].pending);
        for id in &running {
            self.requests[*id].attribute_time_until(Part::Queueing, now);
        }
        let Some(first) = running.first().copied() else {
            return;
        };
        let request = &self.requests[first];
        let (drive, parts_before) = (request.drive, *request.attributed_parts());
        self.requests.flush_queues[queue].running = running;
        self.requests.flush_queues[queue].parts_before = parts_before;
        self.choose_completion_cpu(drive, first);
        self.count_as_unended(first);
        let (volume, taker) = (&self.setup.volume, &mut self.drives[drive]);
        let done = self.requests[first]
            .attribute_drive_time(|parts| volume.give_flush_to_drive(taker, now, parts));
        self.tell_observer_of_drive_state(drive);
        self.emulator
            .hand_request_to_player_or_schedule_end(&mut self.context, done, first);
    }

    /// Requests that end with the drive's flush besides the one that stands for them.
    pub(super) fn requests_that_share_flush(&self, id: RequestId) -> Vec<RequestId> {
        let flushes = &self.requests.flush_queues[self.number_of_request_queue(id)];
        flushes.running[1..].to_vec()
    }

    /// Ends all requests of a flush after its completion interrupt, and sends the next flush. Returns requests of the page cache that
    /// are complete with that.
    #[inline(never)]
    pub(crate) fn deliver_flush(&mut self, cpu: CpuId, id: RequestId) -> Vec<PageCacheRequestId> {
        self.grant_psd_lease_on(cpu, LeaseTrigger::is_completion_a_trigger);
        self.attribute_served_interrupt(cpu, id);
        let leader = self.requests[id];
        let queue = self.number_of_request_queue(id);
        let flushes = &mut self.requests.flush_queues[queue];
        let parts_before = flushes.parts_before;
        let ended = mem::take(&mut flushes.running);
        for other in &ended[1..] {
            let request = &mut self.requests[*other];
            request.share_stretch_of_request(request.attributed_until(), &parts_before, &leader);
        }
        for request in &ended {
            // The kernel looks for the next flush as each request of this one ends.
            let write_follows = self.requests[*request].in_flush_sequence;
            let flushes = &mut self.requests.flush_queues[queue];
            flushes.writes_after_flush += u32::from(write_follows);
            if flushes.running.is_empty() && flushes.writes_after_flush == 0 {
                self.send_pending_flush(queue);
            }
        }
        let mut page_requests = Vec::new();
        for request in ended {
            if let Some(whole) = self.merge_ended_piece(request) {
                page_requests.extend(self.end_delivered_request(cpu, whole));
            }
        }
        page_requests
    }
}
