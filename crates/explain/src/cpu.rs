//! A CPU's interrupts, notifications and idle periods, as needed for requests.

use std::collections::{HashSet, VecDeque};

use crate::activity::CpuActivity;
use crate::period::{LateExit, Period};
use crate::requests::{MetState, Notification, RemoteCompletion, RequestLog};

/// Idle periods remembered per CPU. A request that saw more keeps no first state.
const PERIODS: usize = 64;
/// Requests per CPU that wait for the idle period around their interrupt.
pub(crate) const MAX_PENDING: usize = 1024;
/// Longest way from the end of an idle period to the completion behind it, from an interrupt to its first completion or the
/// next, and from a completion to its wake-up, where a task may have run meanwhile. Assumed: handlers of NVMe drives take 1 to
/// 10 us. At low clocks they take longer, which counts where only handlers ran.
pub(crate) const HANDLER_NS: u64 = 50_000;
/// Numbers of interrupts that are known to complete requests; more are damage.
const MAX_COMPLETING_IRQS: usize = 1 << 12;
/// Longest way from the notification of another CPU to its answer: the CPU may leave a deep state, or have interrupts off.
const NOTIFICATION_NS: u64 = 10_000_000;

/// A device's handler, or the arrival of an IPI, that may complete requests.
#[derive(Clone, Copy)]
pub(crate) struct Handler {
    pub(crate) began: u64,
    /// When the handler completed its last request, or else when it began.
    pub(crate) active: u64,
    pub(crate) irq: Option<u32>,
    /// Last event before the handler that may have woken the CPU: a timer, a wake-up, another interrupt.
    pub(crate) disturbed: Option<u64>,
    /// Last event before the handler that showed a task on the CPU, or gave the CPU one.
    pub(crate) task_before: Option<u64>,
    /// Tasks woken since on this CPU are the handler's own: its thread, or those that its completions wake.
    pub(crate) wakes_tasks: bool,
}

/// A CPU that told another one to complete requests.
#[derive(Clone, Copy)]
pub(crate) struct Sender {
    pub(crate) cpu: u32,
    pub(crate) sent: u64,
    pub(crate) notification: Notification,
    /// The device's handler that ran on the sending CPU, if any.
    pub(crate) handler: Option<Handler>,
}

/// A completed request whose interrupted CPU has an idle period that is not known yet.
#[derive(Clone, Copy)]
pub(crate) struct Pending {
    pub(crate) request: usize,
    pub(crate) issued: u64,
    /// When the handler began; at completion where no event shows the handler.
    pub(crate) signal: u64,
    /// When the interrupted CPU was done: at completion, or when it told another CPU.
    pub(crate) handled: u64,
    /// The interrupted CPU's last event that may have woken it instead of the drive: a timer, a wake-up, another interrupt.
    pub(crate) disturbed: Option<u64>,
    /// The interrupted CPU's last event before `signal` that showed a task there, or gave the CPU one.
    pub(crate) task_before: Option<u64>,
    /// Number of the interrupt whose handler is the signal, if any.
    pub(crate) irq: Option<u32>,
    /// The handler began more than [`HANDLER_NS`] before: whether the completion is the handler's depends on the idle period.
    pub(crate) is_long: bool,
    /// When the interrupted CPU completed the request before.
    pub(crate) previous: Option<u64>,
}

/// Interrupts that are known to complete requests: their handlers did so on CPUs that ran nothing else.
#[derive(Default)]
pub(crate) struct CompletingInterrupts {
    /// The recording has all wake-ups of tasks, so that a CPU without one runs no task.
    wakes_known: bool,
    irqs: HashSet<u32>,
}

impl CompletingInterrupts {
    pub(crate) fn new(wakes_known: bool) -> Self {
        Self {
            wakes_known,
            irqs: HashSet::new(),
        }
    }

    /// Whether only handlers ran on a CPU from an idle period to a signal, with this last sign of a task before the signal.
    fn only_handlers_ran_since(&self, period: &Period, task_before: Option<u64>) -> bool {
        self.wakes_known && task_before <= Some(period.entry)
    }

    fn learn_irq(&mut self, irq: u32) {
        if self.irqs.len() < MAX_COMPLETING_IRQS {
            self.irqs.insert(irq);
        }
    }
}

/// A completion on another CPU than the interrupted CPU, before the idle period there is known.
#[derive(Clone, Copy)]
pub(crate) struct PendingRemote {
    pub(crate) request: usize,
    pub(crate) sent: u64,
    /// When the completing CPU is first seen to run.
    pub(crate) runs: u64,
}

#[derive(Default)]
pub(crate) struct Cpu {
    pub(crate) activity: CpuActivity,
    pub(crate) periods: VecDeque<Period>,
    pub(crate) pending: VecDeque<Pending>,
    pub(crate) remotes: Vec<PendingRemote>,
    /// Requests with interrupt times whose SMT sibling is this CPU, until its idle period is known.
    pub(crate) sibling_requests: VecDeque<(usize, u64)>,
    /// The last idle period, if ended after a timer was due; until a timer expires.
    pub(crate) late: Option<LateExit>,
    /// Requests with wake-up times, for wake-ups to this CPU; only where no event shows running tasks.
    pub(crate) woken: Vec<(usize, u64)>,
    /// The request that this CPU completed last, with the time, until its next wake-up of a task.
    pub(crate) last_request: Option<(usize, u64)>,
    pub(crate) disturbed: Option<u64>,
    /// When a task was last seen on this CPU: it began to run, or issued a request.
    pub(crate) task_ran: Option<u64>,
    /// When a task was last woken to run on this CPU.
    pub(crate) task_woken: Option<u64>,
    pub(crate) completed: Option<u64>,
    /// The last device's handler, or IPI, that may complete requests.
    pub(crate) handler: Option<Handler>,
    /// Sender of the IPI before that handler.
    pub(crate) sender: Option<Sender>,
    /// The last notification from another CPU.
    pub(crate) notified: Option<Sender>,
    /// The last notification from a device's handler, until this CPU answers.
    pub(crate) completion_sender: Option<Sender>,
    /// The last known clock; 0 if none is known.
    pub(crate) khz: u32,
    /// The clock comes from cycles of this CPU, not from requested frequencies.
    pub(crate) clock_measured: bool,
}

impl Pending {
    /// Whether an idle period of the interrupted CPU lies between the request's issue and its interrupt.
    fn overlaps_idle_period(&self, period: &Period) -> bool {
        period.exit > self.issued
            && (period.exit <= self.signal || period.contains_time(self.signal))
    }

    /// Whether the signal belongs to what ended this idle period: soon after it, or, where no handler is known, with nothing but
    /// handlers between.
    fn follows_exit(&self, period: &Period, interrupts: &CompletingInterrupts) -> bool {
        let is_soon = period.exit.saturating_add(HANDLER_NS) >= self.signal;
        is_soon
            || (self.irq.is_none() && interrupts.only_handlers_ran_since(period, self.task_before))
    }
}

impl Handler {
    /// The handler may still run at this time, or the softirq raised there.
    pub(crate) fn may_still_run_at(&self, time: u64) -> bool {
        time.saturating_sub(self.active) <= HANDLER_NS
    }

    /// A device's handler, not one of an IPI, may still run at this time.
    pub(crate) fn may_serve_device_at(&self, time: u64) -> bool {
        self.irq.is_some() && self.may_still_run_at(time)
    }
}

impl Cpu {
    /// Notes that something else than the drive's interrupt may have woken the CPU.
    pub(crate) fn note_disturbance(&mut self, time: u64) {
        self.disturbed = self.disturbed.max(Some(time));
    }

    /// Notes that a task ran on this CPU, so that no handler from before runs any more.
    pub(crate) fn note_task_that_ran(&mut self, time: u64) {
        self.task_ran = self.task_ran.max(Some(time));
    }

    /// The last event that showed a task on this CPU, or gave the CPU one.
    pub(crate) fn last_sign_of_task(&self) -> Option<u64> {
        self.task_ran.max(self.task_woken)
    }

    /// Whether nothing shows that the device's handler ended: neither a task nor an idle period of this CPU.
    fn shows_no_end_of_handler(&self, handler: &Handler) -> bool {
        let began = Some(handler.began);
        let slept = self.periods.back().map(|period| period.entry);
        handler.irq.is_some()
            && self.task_ran <= began
            && slept <= began
            && (handler.wakes_tasks || self.task_woken <= began)
    }

    /// Keeps an idle period, and drops the oldest of more than 64.
    pub(crate) fn remember_idle_period(&mut self, period: Period) {
        if self.periods.len() >= PERIODS {
            self.periods.pop_front();
        }
        self.periods.push_back(period);
    }

    /// A handler begins that may complete requests.
    pub(crate) fn enter_interrupt_handler(&mut self, time: u64, irq: Option<u32>) {
        let asked = match irq {
            Some(_) => None,
            None => self.completion_sender.take(),
        };
        let sender = asked.filter(|sender| time.saturating_sub(sender.sent) <= NOTIFICATION_NS);
        let device_runs = self
            .handler
            .is_some_and(|handler| handler.may_serve_device_at(time));
        // An IPI for something else may interrupt the softirq of a device.
        if irq.is_some() || sender.is_some() || !device_runs {
            self.handler = Some(self.new_handler(time, irq));
            self.sender = sender;
        }
        // To other requests, this handler is a disturbance.
        self.note_disturbance(time);
    }

    /// The thread of an interrupt runs: what the interrupt's handler began goes on, however long the thread waited.
    pub(crate) fn continue_handler_in_thread(&mut self, time: u64, irq: u32) {
        if let Some(handler) = &mut self.handler
            && handler.irq == Some(irq)
        {
            handler.active = time;
            handler.wakes_tasks = true;
        }
    }

    /// Finds the handler that completes a request at this time, and the CPU that asked for it; the handler counts as
    /// active from now. A handler that began long ago is only a guess, see [`Pending::is_long`].
    pub(crate) fn attribute_completion_to_handler(
        &mut self,
        time: u64,
    ) -> (Option<Handler>, Option<Sender>) {
        let stored = self.completion_sender.filter(|sender| {
            sender.notification == Notification::Store
                && time.saturating_sub(sender.sent) <= NOTIFICATION_NS
                && self
                    .handler
                    .is_none_or(|handler| handler.began < sender.sent)
        });
        if stored.is_some() {
            return (Some(self.new_handler(time, None)), stored);
        }
        let running = self.handler.filter(|handler| {
            handler.may_still_run_at(time) || self.shows_no_end_of_handler(handler)
        });
        let Some(handler) = running else {
            return (None, None);
        };
        self.handler = Some(Handler {
            // A guess makes no later completion more likely.
            active: if handler.may_still_run_at(time) {
                time
            } else {
                handler.active
            },
            wakes_tasks: true,
            ..handler
        });
        (Some(handler), self.sender)
    }

    fn new_handler(&self, began: u64, irq: Option<u32>) -> Handler {
        Handler {
            began,
            active: began,
            irq,
            disturbed: self.disturbed,
            task_before: self.last_sign_of_task(),
            wakes_tasks: false,
        }
    }

    /// Begins to divide the time of a completion that another CPU asked for into idle exit and handling.
    pub(crate) fn begin_remote_completion(
        &mut self,
        pending: PendingRemote,
        completed: u64,
        notification: Notification,
    ) -> RemoteCompletion {
        let known = self
            .periods
            .iter()
            .rfind(|period| period.contains_time(pending.sent));
        let exit = known.map_or(0, |period| period.exit.min(pending.runs) - pending.sent);
        if known.is_none() && self.remotes.len() < MAX_PENDING {
            self.remotes.push(pending);
        }
        RemoteCompletion {
            exit,
            handling: completed - pending.sent - exit,
            notification,
        }
    }
}

/// Finds the state met by a request, once the idle period around the interrupt is known or known to be missing.
pub(crate) fn resolve_met_state(
    requests: &mut RequestLog,
    interrupts: &mut CompletingInterrupts,
    periods: &VecDeque<Period>,
    pending: Pending,
    around: Option<Period>,
) {
    let Some(request) = requests.get_mut(pending.request) else {
        return;
    };
    let pending = decide_long_handler(interrupts, periods, pending, around);
    let around = around.filter(|period| period.contains_time(pending.signal));
    request.irq = pending.irq;
    request.out = pending.signal - pending.issued;
    request.interrupt = pending.handled - pending.signal;
    let full = periods.len() >= PERIODS;
    if full && periods.front().is_some_and(|p| p.exit > pending.issued) {
        return;
    }
    let mut since_issue = periods
        .iter()
        .filter(|period| pending.overlaps_idle_period(period));
    let mut seen = since_issue.clone().chain(&around);
    let first = seen.next();
    request.first = first.map(|period| period.state);
    request.overtaken = first.is_some_and(|first| pending.previous > Some(first.entry));
    request.periods = u32::from(request.first.is_some()) + seen.count() as u32;
    let last = around.or_else(|| since_issue.next_back().copied());
    let Some(period) = last.filter(|period| pending.follows_exit(period, interrupts)) else {
        request.met = MetState::Awake;
        return;
    };
    if period.exit <= pending.signal {
        request.out = period.exit - pending.issued;
        request.interrupt = pending.handled - period.exit;
    }
    let left = pending.issued + request.out;
    request.slept = left.saturating_sub(period.entry).min(request.out);
    // `None` is before any time.
    request.met = if pending.previous > Some(period.entry) {
        MetState::Behind(period.state)
    } else if pending.disturbed > Some(period.entry) {
        MetState::Leaving(period.state)
    } else {
        MetState::State(period.state)
    };
}

/// Decides whether a handler that began long before a completion is that completion's: it is if the handler interrupted an idle
/// CPU that got no task since, or if the interrupt is known to complete requests. Elsewhere the driver may have polled.
fn decide_long_handler(
    interrupts: &mut CompletingInterrupts,
    periods: &VecDeque<Period>,
    pending: Pending,
    around: Option<Period>,
) -> Pending {
    let Some(irq) = pending.irq else {
        return pending;
    };
    let mut before = periods.iter();
    let last = around.or_else(|| before.rfind(|p| p.entry < pending.signal).copied());
    let interrupted_idle_cpu =
        last.is_some_and(|period| interrupts.only_handlers_ran_since(&period, pending.task_before));
    if interrupted_idle_cpu {
        interrupts.learn_irq(irq);
    }
    if !pending.is_long || interrupted_idle_cpu || interrupts.irqs.contains(&irq) {
        return pending;
    }
    Pending {
        signal: pending.handled,
        irq: None,
        ..pending
    }
}
