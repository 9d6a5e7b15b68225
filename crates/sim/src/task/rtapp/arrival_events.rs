//! Requests by the network interrupt CPUs and wake the tasks of given steps that wait for them.

use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::rtapp::arrivals::SeriesRequest;
use crate::task::rtapp::program::{Op, Program};
use crate::task::rtapp::state::{ThreadId, WakeUp};

impl<O: Observer> Engine<'_, O> {
    /// Schedules the requests that come whether a thread of given steps waits or not.
    pub(super) fn begin_arrivals_of_thread(&mut self, id: ThreadId, program: &Program) {
        let ops = program.stages.iter().flat_map(|stage| &stage.ops);
        let requests: Vec<SeriesRequest> = ops
            .filter_map(|op| match *op {
                Op::AwaitArrival {
                    time,
                    cpu,
                    pool: Some(pool),
                } => Some(SeriesRequest {
                    interval: time,
                    cpu,
                    pool,
                }),
                _ => None,
            })
            .collect();
        if !requests.is_empty() {
            let threads = &mut self.workload.threads;
            let start = threads.all[id].last_timer;
            threads.arrivals.add_series(start, requests);
            self.schedule_next_arrival_for_thread();
        }
    }

    /// Lets a request arrive for a thread so many ns from now on, or gives the thread one of a pool's requests. Returns true if the
    /// thread has one now.
    pub(super) fn await_arrival(
        &mut self,
        id: ThreadId,
        (time, cpu): (u64, CpuId),
        pool: Option<usize>,
    ) -> bool {
        let arrivals = &mut self.workload.threads.arrivals;
        if let Some(pool) = pool {
            return arrivals.take_request_or_sleep(pool, id);
        }
        arrivals.add_for_thread(self.context.now().saturating_add(time), id, cpu);
        self.schedule_next_arrival_for_thread();
        false
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
                return Some(request.cpu);
            }
        }
        self.schedule_next_arrival_for_thread();
        None
    }

    /// Wakes the threads whose requests had arrived when a CPU's interrupt began.
    pub(in crate::task) fn deliver_arrivals_to_threads(&mut self, cpu: CpuId) {
        let began = self.cpus[cpu].interrupt_service_began_at();
        while let Some((at, taker)) = self.workload.threads.arrivals.first_at_card(cpu) {
            if at > began {
                // A request that came meanwhile raises the next interrupt.
                return self.cpus[cpu].add_pending_interrupt(Interrupt::Network);
            }
            let arrivals = &mut self.workload.threads.arrivals;
            arrivals.remove_first_at_card(cpu);
            let Some(id) = arrivals.take_thread_for(taker) else {
                continue;
            };
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
