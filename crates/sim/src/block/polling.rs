//! Polled completions: no interrupt comes, and the task that spins takes the request back itself.

use crate::core::basics::RequestId;
use crate::core::observer::{Observer, RequestStep};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Ends a polled request, or piece, that its drive has finished. A task that spins for it goes on at once.
    #[cold]
    pub(crate) fn deliver_polled_completion(&mut self, id: RequestId) {
        let Some(request) = self.merge_polled_piece(id) else {
            return;
        };
        let task = self.requests[request].task;
        let cpu = self.tasks[task].cpu;
        self.context
            .tell_observer_of_request(RequestStep::Delivered { request, cpu });
        self.tasks[task].add_completed_request(request);
        self.end_spin_if_requests_end_it(task);
    }

    /// Ends the spin of a task whose completions so far are enough for it.
    pub(super) fn end_spin_if_requests_end_it(&mut self, task: usize) {
        if self.tasks[task].completions_so_far_end_spin() {
            self.end_spin_if_spinning(task);
        }
    }

    /// Returns the whole request, if its last piece has ended with this one.
    fn merge_polled_piece(&mut self, id: RequestId) -> Option<RequestId> {
        let piece = self.requests[id];
        let Some(whole) = piece.whole else {
            return Some(id);
        };
        self.requests.free_request_id(id);
        let request = &mut self.requests[whole];
        request.undelivered -= 1;
        if request.undelivered > 0 {
            return None;
        }
        request.take_over_parts_of_piece(&piece);
        Some(whole)
    }
}
