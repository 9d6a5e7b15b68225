//! Events of processes whose load follows what is measured: see [`Steering`](super::steering::Steering).

use wakepath_workloads::fio::DepthStep;

use crate::core::basics::{CpuId, Direction, RequestId, TaskId};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::fio::process::FioProcess;
use crate::task::fio::rates::FoundDepth;
use crate::task::state::{Kind, Task};

impl Task {
    /// Notes that a request has ended with this latency in ns, if that decides something.
    #[inline(never)]
    pub(in crate::task) fn note_ended_request(
        &mut self,
        (request, direction, bytes): (RequestId, Direction, u64),
        latency: u64,
        now: u64,
    ) {
        let counts = now >= self.requests.counts_from;
        let Kind::FioProcess(process) = &mut self.kind else {
            return;
        };
        process.note_read_or_written(request, direction);
        if let Some(replay) = &mut process.replay {
            return replay.note_ended_request(request, now);
        }
        let steering = &mut process.steering;
        steering.ended.push(bytes);
        let place = steering.to_check.iter().position(|id| *id == request);
        if let Some(place) = place {
            steering.to_check.swap_remove(place);
            steering.read.push(bytes);
        }
        if let Some(search) = steering.search.as_mut().filter(|_| counts) {
            let step = search.note_latency(latency, now);
            if step != DepthStep::GoOn {
                steering.next_step.get_or_insert(step);
            }
        }
    }
}

impl<O: Observer> Engine<'_, O> {
    /// Follows up the ends of requests that a process has taken back.
    #[inline(never)]
    pub(in crate::task) fn follow_ended_requests(&mut self, cpu: CpuId, task: TaskId) {
        let now = self.context.now();
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        let ended = std::mem::take(&mut process.steering.ended);
        let read = std::mem::take(&mut process.steering.read);
        for bytes in ended {
            self.note_steadiness(task, bytes);
        }
        for bytes in read {
            self.hand_data_to_checker(cpu, task, bytes);
        }
        let t = &mut self.tasks[task];
        let in_flight = t.requests.in_flight;
        let counts = now >= t.requests.counts_from;
        let Kind::FioProcess(process) = &mut t.kind else {
            return;
        };
        let most = self.setup.jobs[process.job].depth;
        let steering = &mut process.steering;
        let Some(search) = steering.search.as_mut().filter(|_| counts) else {
            return;
        };
        let step = match steering.next_step.take() {
            None if steering.drains => DepthStep::GoOn,
            None => search.check_window(now),
            Some(step) => step,
        };
        match step {
            DepthStep::End => process.end_as_satisfied(now),
            DepthStep::Drain => steering.drains = true,
            DepthStep::GoOn => {}
        }
        let steering = &mut process.steering;
        let depth = steering.depth(most);
        if steering.drains && in_flight > 0 {
            t.requests.depth = 0;
            return;
        }
        if std::mem::take(&mut steering.drains)
            && let Some(search) = &mut steering.search
        {
            search.begin(now);
        }
        t.requests.depth = depth;
    }

    /// Counts an ended request of a process, and ends the process if its job is steady, or all processes of its group.
    pub(super) fn note_steadiness(&mut self, task: TaskId, bytes: u64) {
        let now = self.context.now();
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return;
        };
        if let Some(steady) = &mut process.steering.steady {
            if steady.note_end(bytes, now) {
                process.end_as_satisfied(now);
            }
            return;
        }
        let job = &self.setup.jobs[process.job];
        if !job.steady_as_group || job.steady.is_none() {
            return;
        }
        let group = job.report_group;
        let Some(steady) = self.workload.jobs.steady_groups.get_mut(&group) else {
            return;
        };
        if !steady.note_end(bytes, now) {
            return;
        }
        for other in &mut self.tasks {
            if let Kind::FioProcess(process) = &mut other.kind
                && self.setup.jobs[process.job].report_group == group
            {
                process.end_as_satisfied(now);
            }
        }
    }

    /// Whether the job's flow lets a process begin its next I/O. Returns for how many ns it sleeps before it asks again, 0 to spin;
    /// `None`: it may begin.
    #[inline(never)]
    pub(super) fn flow_holds_back_for(&mut self, task: TaskId) -> Option<u64> {
        let Kind::FioProcess(process) = &mut self.tasks[task].kind else {
            return None;
        };
        let flow = self.setup.jobs[process.job].flow?;
        let steering = &mut process.steering;
        if steering.flow_lets_begin {
            return None;
        }
        let counter = &mut self.workload.jobs.flows[flow.flow];
        if !counter.count_io_unless_ahead(steering.flow_ios, flow.weight) {
            return Some(flow.sleep);
        }
        steering.flow_ios += 1;
        steering.flow_lets_begin = true;
        None
    }

    /// Takes an ended process out of its flow.
    pub(super) fn leave_flow(&mut self, task: TaskId) {
        if let Kind::FioProcess(process) = &self.tasks[task].kind
            && let Some(flow) = self.setup.jobs[process.job].flow
        {
            let counter = &mut self.workload.jobs.flows[flow.flow];
            counter.remove_process(process.steering.flow_ios, flow.weight);
        }
    }

    /// Notes the depth that a process's search has found.
    pub(super) fn note_found_depth(&mut self, task: TaskId) {
        if let Kind::FioProcess(process) = &self.tasks[task].kind
            && let Some(search) = &process.steering.search
        {
            self.workload.job_totals.depths.push(FoundDepth {
                job: process.job,
                depth: search.depth(),
                misses_target: search.misses_target(),
            });
        }
    }
}

impl FioProcess {
    /// Ends the process before its limits, since a search or steady state is satisfied, or another process has ended (`exitall`).
    pub(super) fn end_as_satisfied(&mut self, now: u64) {
        self.ends = self.ends.min(now);
        self.steering.is_satisfied = true;
    }
}
