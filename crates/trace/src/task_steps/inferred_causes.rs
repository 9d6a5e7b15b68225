//! Wake-ups of tasks, whose causes are inferred from interrupts, timers and requests.

use super::follower::TaskFollower;
use super::idle_spans::IdleSpan;
use super::interruption::{INTERRUPT_NS, Interruption, longest_interrupt};
use super::item::Item;
use super::task_state::RequestKind;
use super::wake_ups::{PendingWake, WakeCause};

impl TaskFollower<'_> {
    /// Notes that a task is woken on a CPU, and why.
    pub(super) fn note_wake_up(&mut self, time: u64, cpu: u32, task: u32) {
        self.stop_task_if_cpu_went_idle(cpu, time);
        let Some(state) = self.task_state(task) else {
            return;
        };
        if let Some((on, ..)) = state.burst {
            self.stop_task_if_cpu_went_idle(on, time);
        }
        let Some(state) = self.tasks.get(&task) else {
            return;
        };
        if state.burst.is_some() || state.wake.is_some() {
            // The task was about to sleep, and did not.
            return;
        }
        self.end_flush_of_woken_task(task, time);
        let Some(state) = self.tasks.get(&task) else {
            return;
        };
        let slept_beside_request = state.slept_beside_request();
        let has_completed =
            (state.completed.zip(state.stopped)).is_some_and(|(completed, stopped)| {
                completed >= stopped && time.saturating_sub(completed) <= INTERRUPT_NS
            });
        let own = has_completed.then_some(state.in_flight);
        let (inferred, raised) = match own {
            Some(in_flight) => (WakeCause::Io(in_flight), time),
            None => self.infer_cause(time, cpu),
        };
        let cause = match inferred {
            // The drive's interrupt, perhaps.
            WakeCause::Arrival(_) if slept_beside_request => WakeCause::Outside,
            other => other,
        };
        if let WakeCause::Task(number) = cause {
            self.cut_burst(cpu, time);
            if let Some(waker) = self.tasks.get_mut(&number) {
                waker.items.add(Item::Wake(task));
                self.steps += self.pools.most_steps_of_wake_up(number, task);
            }
        }
        let waited_until = match cause {
            WakeCause::Outside | WakeCause::Arrival(_) => {
                self.begin_of_idle_exit(time, cpu).unwrap_or(raised)
            }
            _ => time,
        };
        if let Some(state) = self.tasks.get_mut(&task) {
            if state.last_request == Some(RequestKind::Read) {
                match cause {
                    WakeCause::Io(_) => state.items.note_wait_for_read(),
                    _ if slept_beside_request => state.items.reads_ahead = true,
                    _ => {}
                }
            }
            state.wake = Some(PendingWake {
                cause,
                time: waited_until,
            });
            state.completed = None;
        }
        self.cpus.entry(cpu).or_default().woken = Some(task);
    }

    /// What wakes a task at `time` on a CPU, if the task's own requests do not, and when its interrupt was raised if the CPU was busy.
    ///
    /// An idle CPU may show no interrupt: then a timer has woken the CPU if the governor was told of one that was due.
    fn infer_cause(&mut self, time: u64, cpu: u32) -> (WakeCause, u64) {
        let state = self.cpus.entry(cpu).or_default();
        let Some((waker, _)) = state.running else {
            // A CPU may go idle again at the same instant.
            let span = self.idle.last_span_before(cpu, time.saturating_sub(1));
            let since = span.map_or(0, |span| span.start);
            let told = span.and_then(|span| span.next_timer);
            let cause = match state.interruption.filter(|(at, _)| *at >= since) {
                Some((at, Interruption::Timer)) => WakeCause::Timer(self.expiry_of_timer(at, cpu)),
                Some((_, Interruption::Device)) => WakeCause::Arrival(cpu),
                Some((_, Interruption::Call)) => WakeCause::Outside,
                None => match told.filter(|told| (since..=time).contains(told)) {
                    Some(told) => WakeCause::Timer(told),
                    None => WakeCause::Outside,
                },
            };
            return (cause, time);
        };
        let longest = longest_interrupt(state.khz);
        let due = time.saturating_sub(INTERRUPT_NS)..=time;
        let span = self.idle.last_span_before(cpu, time);
        let told = span.and_then(|span| span.next_timer);
        let has_told_timer = told.is_some_and(|told| due.contains(&told));
        // On a busy CPU, one interrupt wakes one task: the next wake-up is the running task's.
        let interruption = state.interruption.take();
        let recent = interruption.filter(|(at, what)| {
            let is_device = *what == Interruption::Device;
            let most = if is_device { longest } else { INTERRUPT_NS };
            time.saturating_sub(*at) <= most
        });
        let cause = match recent {
            Some((at, Interruption::Timer)) => WakeCause::Timer(at),
            Some((_, Interruption::Device)) => WakeCause::Arrival(cpu),
            Some((_, Interruption::Call)) => WakeCause::Outside,
            None if has_told_timer => WakeCause::Timer(told.unwrap_or(time)),
            None => WakeCause::Task(waker),
        };
        (cause, recent.map_or(time, |(at, _)| at))
    }

    /// The time that a timer was set for whose interrupt was seen at `time` on an idle CPU.
    fn expiry_of_timer(&self, time: u64, cpu: u32) -> u64 {
        let Some(span) = self.idle.last_span_before(cpu, time) else {
            return time;
        };
        let told = span.next_timer;
        if let Some(told) = told.filter(|told| (span.start..=time).contains(told)) {
            return told;
        }
        self.begin_of_exit(span, cpu, time)
    }

    /// When what woke a CPU that is idle until `time` came: before the idle state's exit. `None`: the CPU was busy.
    fn begin_of_idle_exit(&self, time: u64, cpu: u32) -> Option<u64> {
        let is_busy = (self.cpus.get(&cpu)).is_some_and(|state| state.running.is_some());
        let span = self.idle.last_span_before(cpu, time.saturating_sub(1))?;
        (!is_busy).then(|| self.begin_of_exit(span, cpu, time))
    }

    /// When a CPU began to leave the idle state of a span, which it had left at `time`.
    fn begin_of_exit(&self, span: &IdleSpan, cpu: u32, time: u64) -> u64 {
        let exit = self.exits.exit_latency(cpu, span.state);
        let begun = span.end.min(time).saturating_sub(exit);
        begun.max(span.start)
    }

    /// Notes whether the last wake-up on a CPU ended an iowait.
    pub(super) fn note_iowait_of_last_wake_up(&mut self, cpu: u32, iowait: bool) {
        let woken = self.cpus.get_mut(&cpu).and_then(|state| state.woken.take());
        let state = woken.and_then(|task| self.tasks.get_mut(&task));
        if let Some(state) = state
            && let Some(PendingWake {
                cause: WakeCause::Io(_),
                ..
            }) = state.wake
        {
            state.io_waits[usize::from(iowait)] += 1;
        }
    }
}
