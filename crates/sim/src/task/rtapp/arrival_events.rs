//! Requests by the network interrupt CPUs and wake the tasks of given steps that wait for them.

use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::rtapp::state::{ThreadId, WakeUp};

impl<O: Observer> Engine<'_, O> {
    /// Lets a request arrive for a thread, so many ns after now or after the thread's last one. Returns false if that is over.
    pub(super) fn await_arrival(
        &mut self,
        id: ThreadId,
        time: u64,
        cpu: CpuId,
        follows_reply: bool,
    ) -> bool {
        let now = self.context.now();
        let threads = &mut self.workload.threads;
        let last = &mut threads.all[id].last_arrival;
        let at = time.saturating_add(if follows_reply { now } else { *last });
        *last = at;
        if at < now {
            return false;
        }
        threads.arrivals.add(at, id, cpu);
        self.schedule_next_arrival_for_thread();
        true
    }

    fn schedule_next_arrival_for_thread(&mut self) {
        if let Some(at) = self.workload.threads.arrivals.next_arrival() {
            let due = at.max(self.context.now());
            self.context.schedule_unless_due_then(Slot::Arrival, due);
        }
    }

    /// Lets requests for threads arrive that are due now, up to the first that interrupts a CPU. Returns that CPU; `None`: no more are
    /// due.
    pub(in crate::task) fn take_due_arrivals_for_threads(&mut self) -> Option<CpuId> {
        let now = self.context.now();
        let arrivals = &mut self.workload.threads.arrivals;
        while let Some(request) = arrivals.take_due(now) {
            if arrivals.give_to_card(request) {
                return Some(request.2);
            }
        }
        self.schedule_next_arrival_for_thread();
        None
    }

    /// Wakes the threads whose requests had arrived when a CPU's interrupt began.
    pub(in crate::task) fn deliver_arrivals_to_threads(&mut self, cpu: CpuId) {
        let began = self.cpus[cpu].interrupt_service_began_at();
        while let Some((at, id)) = self.workload.threads.arrivals.first_at_card(cpu) {
            if at > began {
                // A request that came meanwhile raises the next interrupt.
                return self.cpus[cpu].add_pending_interrupt(Interrupt::Network);
            }
            self.workload.threads.arrivals.remove_first_at_card(cpu);
            let thread = &mut self.workload.threads.all[id];
            let task = thread.task;
            thread.woken = Some(WakeUp {
                since: at,
                cut: at,
                ..WakeUp::default()
            });
            self.wake_sleeping_thread(cpu, task, id);
        }
    }
}
