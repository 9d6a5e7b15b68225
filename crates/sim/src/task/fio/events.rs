//! Start and end of fio jobs: groups between stonewalls, delays, jobs that wait for others, and `exitall`.

use wakepath_workloads::fio::ExitWhat;

use crate::core::basics::{NEVER, Timer};
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::task::fio::helpers::Helpers;
use crate::task::fio::process::FioProcess;
use crate::task::fio::setup::JobSetup;
use crate::task::fio::steering::ends_of_requests_matter;
use crate::task::state::{Kind, Step, Task};

impl<O: Observer> Engine<'_, O> {
    /// Starts the jobs of the next group between stonewalls, if there is one.
    pub(crate) fn start_next_job_group(&mut self) {
        self.workload.jobs.next_group += 1;
        self.start_ready_jobs();
    }

    /// Starts all jobs in begun groups that have not started and wait for no other job.
    fn start_ready_jobs(&mut self) {
        let setup = self.setup;
        let mut begun = vec![0; self.cpus.len()];
        let mut release_delay = None;
        for (index, job) in setup.jobs.iter().enumerate() {
            let waits = job
                .wait_for
                .is_some_and(|other| self.workload.jobs.left[other] != Some(0));
            if job.group >= self.workload.jobs.next_group
                || self.workload.jobs.left[index].is_some()
                || waits
            {
                continue;
            }
            self.workload.jobs.left[index] = Some(job.processes);
            // The main process releases one process after the other, without a pause (`run_threads()` of fio 3.33).
            let released = *release_delay.get_or_insert_with(|| {
                let random = self.context.random_streams();
                random.draw_start_delay([0, job.tick])
            });
            let begins = self.context.now() + released;
            for process in 0..job.processes as usize {
                let started = begins + self.context.random_streams().draw_start_delay(job.delay);
                let ends = job.end.map_or(NEVER, |end| started.saturating_add(end));
                let mut new = Task::new_fio_process((index, job), process, (started, ends));
                let cpu = self.placement().first_cpu_of_process(&new.entity, &begun);
                begun[cpu] += 1;
                new.cpu = cpu;
                self.workload
                    .jobs
                    .note_started_process(started + job.ramp, ends);
                self.workload.jobs.begin_steady_group(job, started);
                let task = self.tasks.len();
                self.tasks.push(new);
                self.create_submitter(job, task);
                self.open_trace_of_process(job, task, started);
                self.begin_pass_through_cached_file(task);
                self.context.count_begun_process();
                if started > self.context.now() {
                    self.start_high_resolution_timer(cpu, started, 0, Timer::Task(task));
                } else {
                    self.wake_task(None, task, cpu);
                }
            }
        }
    }

    /// Follows up the end of a job's process: `exitall`, waiting jobs, and the next group.
    pub(crate) fn end_process_of_job(&mut self, job: usize) {
        let ended = if let Some(left) = &mut self.workload.jobs.left[job] {
            *left -= 1;
            *left == 0
        } else {
            false
        };
        if let Some(what) = self.setup.jobs[job].exit {
            self.end_other_jobs(job, what);
        }
        if ended && self.setup.jobs.iter().any(|j| j.wait_for == Some(job)) {
            self.start_ready_jobs();
        }
        if !self.context.has_unended_process() {
            self.start_next_job_group();
        }
    }

    /// Ends what `exitall` says when a process of a job has ended, as `fio_terminate_threads()` of fio 3.33: processes that run end
    /// after their present I/O, and jobs that have not begun do not begin.
    fn end_other_jobs(&mut self, job: usize, what: ExitWhat) {
        let now = self.context.now();
        let setup = self.setup;
        let mut delayed = Vec::new();
        for (task, other) in self.tasks.iter_mut().enumerate() {
            let counts = now >= other.requests.counts_from;
            let Kind::FioProcess(process) = &mut other.kind else {
                continue;
            };
            if !ends_with_job(&setup.jobs, job, what, process.job)
                || process.ends <= now
                || (what == ExitWhat::Stonewall && !counts)
            {
                continue;
            }
            process.end_as_satisfied(now);
            if process.started > now {
                process.started = now;
                delayed.push((task, other.cpu));
            }
        }
        for (task, cpu) in delayed {
            self.cancel_high_resolution_timer(cpu, Timer::Task(task));
            self.wake_task(None, task, cpu);
        }
        if what == ExitWhat::Stonewall {
            return;
        }
        for (other, left) in self.workload.jobs.left.iter_mut().enumerate() {
            if ends_with_job(&setup.jobs, job, what, other) {
                left.get_or_insert(0);
            }
        }
    }
}

/// Whether `exitall` of `ended` reaches the processes of job `other`.
fn ends_with_job(jobs: &[JobSetup], ended: usize, what: ExitWhat, other: usize) -> bool {
    match what {
        ExitWhat::Group => jobs[other].report_group == jobs[ended].report_group,
        ExitWhat::Stonewall | ExitWhat::All => true,
    }
}

impl Task {
    /// Creates a job's process, of this number among the job's processes, that runs from `started` to `ends`. Its CPU is set later.
    fn new_fio_process(
        (index, job): (usize, &JobSetup),
        process: usize,
        (started, ends): (u64, u64),
    ) -> Self {
        let cpu_set =
            (!job.cpu_sets.is_empty()).then(|| job.cpu_sets[process % job.cpu_sets.len()]);
        let mut state = FioProcess::new(index, job, (started, ends));
        state.helpers = (job.helpers).map(|setup| Box::new(Helpers::new(setup, cpu_set)));
        let depth = state.steering.depth(job.depth);
        let kind = Kind::FioProcess(Box::new(state));
        let mut task = Self::new(0, false, Step::Wait, kind);
        task.caller = job
            .files()
            .map(|cache| Box::new(cache.create_caller(process)));
        task.requests.counts_from = started + job.ramp;
        task.requests.most = job.most;
        task.requests.reports_ends = ends_of_requests_matter(job);
        task.requests.depth = depth;
        task.requests.polled = job.polling.without_interrupts;
        task.entity.set_class(job.class);
        if cpu_set.is_some() {
            task.entity.set_allowed_cpu_set(cpu_set);
        }
        task
    }
}
