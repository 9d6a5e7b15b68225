//! Polled completions: no interrupt comes, and the task that spins takes the request back itself.

use crate::core::basics::RequestId;
use crate::core::observer::{Observer, RequestStep};
use crate::engine::Engine;

impl<O: Observer> Engine<'_, O> {
    /// Gives a task its completed request.
    pub(crate) fn hand_polled_completion_to_task(&mut self, request: RequestId) {
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
}
