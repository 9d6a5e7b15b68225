//! Requests arrive, interrupt a CPU, and are given to a worker or to the queue.

use crate::core::basics::{CpuId, Interrupt};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::scheduler::state::Class;
use crate::task::server::setup::RoundPause;
use crate::task::server::state::{ServerRequest, ServerRole, ServerState, ServerTask, Worker};
use crate::task::state::{Kind, Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Creates the threads of the server, asleep, and schedules the first arrival.
    pub(crate) fn create_server(&mut self) {
        let setup = self.setup;
        let Some(server) = setup.server() else {
            return;
        };
        self.context.count_begun_process();
        let mut state = ServerState::new(server, self.cpus.len(), self.context.random_streams());
        let mut begun = vec![0; self.cpus.len()];
        for number in 0..server.workers as usize {
            let task = self.add_server_thread(ServerRole::Worker(number), &mut begun);
            state.workers.push(Worker {
                task,
                present: None,
            });
        }
        // The first worker is woken first.
        state.asleep = (0..state.workers.len()).rev().collect();
        self.workload.server = Some(Box::new(state));
        if let Some(interval) = server.log.and_then(|log| log.interval) {
            let task = self.add_server_thread(ServerRole::Log, &mut begun);
            self.start_round_timer(self.tasks[task].cpu, task, interval);
        }
        for (number, writer) in server.background.iter().enumerate() {
            let task = self.add_server_thread(ServerRole::Background(number), &mut begun);
            match writer.pause {
                RoundPause::Time(interval) => {
                    self.start_round_timer(self.tasks[task].cpu, task, interval);
                }
                RoundPause::Replies(_) => self.let_background_writer_sleep(number, task),
            }
        }
        self.schedule_next_arrival();
    }

    /// Adds a thread of the server. Returns its task.
    fn add_server_thread(&mut self, role: ServerRole, begun: &mut [usize]) -> usize {
        let kind = Kind::Server(ServerTask::new(role));
        let mut thread = Task::new(0, false, Step::Wait, kind);
        thread.entity.set_class(Class::fair_with_nice(0));
        let cpu = self.placement().first_cpu_of_thread(&thread.entity, begun);
        begun[cpu] += 1;
        thread.cpu = cpu;
        self.tasks.push(thread);
        self.tasks.len() - 1
    }

    /// Schedules the event of the next arrival, if one is known.
    pub(super) fn schedule_next_arrival(&mut self) {
        let server = self.workload.server.as_ref();
        if let Some(at) = server.and_then(|server| server.next_arrival()) {
            let now = self.context.now();
            (self.context).schedule_unless_due_then(Slot::Arrival, at.max(now));
        }
    }

    /// Lets requests arrive that are due now, up to the first whose CPU is not about to be interrupted already. Returns that CPU;
    /// `None`: no more are due.
    pub(crate) fn take_due_arrivals_of_one_cpu(&mut self) -> Option<CpuId> {
        let Some(setup) = self.setup.server() else {
            return self.take_due_arrivals_for_threads();
        };
        let now = self.context.now();
        loop {
            let server = self.workload.server.as_mut()?;
            let random = self.context.random_streams();
            let Some(client) = server.take_due_client(setup, now, random) else {
                self.schedule_next_arrival();
                return None;
            };
            let cpu = ServerState::choose_interrupted_cpu(setup, client, random);
            let request = ServerRequest::draw(setup, client, (cpu, now), random);
            server.totals.arrived += u64::from(now >= setup.warm_up);
            let at_card = &mut server.at_card[cpu];
            at_card.push_back(request);
            if at_card.len() == 1 {
                return Some(cpu);
            }
        }
    }

    /// Takes the requests that had arrived when a CPU's interrupt began, and gives each to a worker or to the queue.
    pub(crate) fn deliver_arrivals(&mut self, cpu: CpuId) {
        if self.workload.server.is_none() {
            return self.deliver_arrivals_to_threads(cpu);
        }
        let c = &self.cpus[cpu];
        let (began, awake_since) = (c.interrupt_service_began_at(), c.awake_since());
        let work = c.interrupt_service_work(self.domains[c.domain].full_speed());
        let now = self.context.now();
        loop {
            let Some(server) = self.workload.server.as_mut() else {
                return;
            };
            let at_card = &mut server.at_card[cpu];
            match at_card.front() {
                None => return,
                Some(request) if request.way.attributed_until() > began => {
                    // A request that came meanwhile raises the next interrupt.
                    self.cpus[cpu].add_pending_interrupt(Interrupt::Network);
                    return;
                }
                Some(_) => {}
            }
            if let Some(mut request) = at_card.pop_front() {
                let moments = (began, awake_since);
                (request.way).attribute_completion_interrupt(now, moments, work);
                self.give_to_worker_or_queue(cpu, request);
            }
        }
    }

    /// Wakes the worker that fell asleep last for a request; without one, the request waits.
    fn give_to_worker_or_queue(&mut self, cpu: CpuId, request: ServerRequest) {
        let Some((server, setup)) = self.workload.server.as_mut().zip(self.setup.server()) else {
            return;
        };
        let Some(worker) = server.asleep.pop() else {
            let counts = self.context.now() >= setup.warm_up;
            return server.add_waiting_or_refuse(request, counts);
        };
        server.workers[worker].present = Some(Box::new(request));
        self.wake_worker_for_request(cpu, worker, None);
    }

    /// Wakes a worker for the request that the worker has. `waker` is as for [`Engine::choose_cpu_for_woken_task`].
    pub(super) fn wake_worker_for_request(
        &mut self,
        cpu: CpuId,
        worker: usize,
        waker: Option<(CpuId, bool)>,
    ) {
        let Some(server) = &self.workload.server else {
            return;
        };
        let task = server.workers[worker].task;
        let to = self.choose_cpu_for_woken_task(task, waker);
        let ipi = self.wake_task(Some(cpu), task, to);
        if let Some(server) = self.workload.server.as_mut()
            && let Some(request) = &mut server.workers[worker].present
        {
            request.way.set_wake_up_delay(ipi);
            request.wakes_worker = true;
        }
    }
}
