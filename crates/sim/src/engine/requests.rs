//! Requests: to the drive, back from it, and where their time goes.

use super::{Engine, Request};
use crate::attribution::{Part, Parts, Work};
use crate::cpu::{CpuId, Interrupt, RequestId, TaskId};
use crate::drive::{Accepted, Direction};
use crate::observer::{Observer, RequestStep};

impl<O: Observer> Engine<'_, O> {
    pub(super) fn submit(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.now;
        let job = &self.setup.jobs[self.tasks[task].job];
        let direction = self.random.direction(job.read_percent);
        let mean = match direction {
            Direction::Read => &self.setup.read_service,
            Direction::Write => &self.setup.write_service,
        };
        let service = self.random.service(mean);
        let t = &mut self.tasks[task];
        t.in_flight += 1;
        t.submitted += 1;
        let mut parts = Parts::default();
        let work = Work {
            own: self.setup.io.submission,
            cold: t.cold,
            full_speed: self.domains[self.cpus[cpu].domain].full_speed(),
        };
        parts.add_work(Part::Submission, now - t.begun, t.executed, work);
        let Accepted { wake, done } = self.drive.accept(now, direction, service);
        parts.add(Part::DriveWake, wake);
        parts.add(Part::Queueing, done - service - wake - now);
        parts.add(Part::DriveService, service);
        let request = Request {
            task,
            direction,
            begun: t.begun,
            parts,
            cut: done,
            ipi: 0,
        };
        let id = self.free_requests.pop().unwrap_or(self.requests.len());
        if id == self.requests.len() {
            self.requests.push(request);
        } else {
            self.requests[id] = request;
        }
        self.observe_request(RequestStep::Issued {
            task,
            request: id,
            read: direction == Direction::Read,
        });
        self.queue.push(done, id);
    }

    pub(super) fn served(&mut self, request: RequestId) {
        self.observe_request(RequestStep::Served { request });
        let submitter = self.tasks[self.requests[request].task].cpu;
        let cpu = self.setup.completion_cpu.unwrap_or(submitter);
        self.interrupt(cpu, Interrupt::Completion(request));
    }

    /// A request's completion interrupt has been served.
    pub(super) fn attribute_interrupt(&mut self, cpu: CpuId, request: RequestId) {
        let c = &self.cpus[cpu];
        let work = Work {
            own: self.setup.io.interrupt,
            cold: c.segment_cold,
            full_speed: self.domains[c.domain].full_speed(),
        };
        let r = &mut self.requests[request];
        let began = c.segment_start;
        let idle_exit = c.awake_since.min(began).saturating_sub(r.cut);
        r.parts.add(Part::IdleExit, idle_exit);
        r.parts.add(Part::WaitingToRun, began - r.cut - idle_exit);
        let time = self.now - began;
        r.parts.add_work(Part::InterruptDelivery, time, time, work);
        r.cut = self.now;
    }

    /// A task goes on with its completed requests.
    pub(super) fn attribute_wake_up(&mut self, cpu: CpuId, task: TaskId) {
        let awake_since = self.cpus[cpu].awake_since;
        for request in &self.tasks[task].completed {
            let r = &mut self.requests[*request];
            let ipi = r.ipi.min(self.now - r.cut);
            let idle_exit = awake_since.saturating_sub(r.cut + ipi);
            r.parts.add(Part::InterruptDelivery, ipi);
            r.parts.add(Part::IdleExit, idle_exit);
            r.parts
                .add(Part::WaitingToRun, self.now - r.cut - ipi - idle_exit);
            r.cut = self.now;
        }
    }
}
