//! Everything that any event may touch: time, pending events, random numbers, the observer, the run's end.
//!
//! No mechanism's state is here. Events that reach no other mechanism take a context and their own part.

use wakepath_units::Nanoseconds;

use crate::core::basics::RequestId;
use crate::core::calendar::{Calendar, Event, Slot};
use crate::core::observer::{Observer, RequestStep, WakeUpSeen};
use crate::core::random::Streams;
use crate::error::SimError;

/// A run's time, pending events, random streams and observer.
pub(crate) struct Context<'a, O> {
    /// Present simulated time in ns.
    now: u64,
    calendar: Calendar,
    random: Streams,
    observer: &'a mut O,
    /// Whether the observer still wants calls.
    watched: bool,
    /// Count of events that only the observer needed.
    observer_events: u64,
    /// Count of processes and threads that have not ended.
    processes: usize,
    /// The first failure, if the run has no result.
    failure: Option<SimError>,
}

impl<'a, O: Observer> Context<'a, O> {
    pub(crate) fn new(calendar: Calendar, random: Streams, observer: &'a mut O) -> Self {
        Self {
            now: 0,
            calendar,
            random,
            observer,
            watched: true,
            observer_events: 0,
            processes: 0,
            failure: None,
        }
    }

    /// Present simulated time in ns.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Advances simulated time to `time` ns.
    #[inline(always)]
    pub(crate) fn advance_time_to(&mut self, time: u64) {
        self.now = time;
    }

    /// The run's random streams, each for one purpose.
    #[inline(always)]
    pub(crate) fn random_streams(&mut self) -> &mut Streams {
        &mut self.random
    }

    /// Schedules a slot's event at `time` ns; replaces the slot's pending event.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, slot: Slot, time: u64) {
        self.calendar.schedule(slot, time);
    }

    /// Cancels a slot's pending event, if any.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.calendar.cancel(slot);
    }

    /// Time in ns when a slot's event is due; [`NEVER`](crate::core::basics::NEVER) if none is pending.
    #[inline(always)]
    pub(crate) fn due_time_or_never(&self, slot: Slot) -> u64 {
        self.calendar.due_time_or_never(slot)
    }

    /// Schedules a slot's event at `time` ns, unless the event is due at that time already.
    #[inline(always)]
    pub(crate) fn schedule_unless_due_then(&mut self, slot: Slot, time: u64) {
        self.calendar.schedule_unless_due_then(slot, time);
    }

    /// Schedules the event that a drive has finished a request, at `time` ns.
    #[inline(always)]
    pub(crate) fn schedule_end_of_drive_service(&mut self, time: u64, request: RequestId) {
        self.calendar.schedule_end_of_drive_service(time, request);
    }

    /// Removes and returns the next event and its time in ns; `None` if nothing is pending.
    #[inline(always)]
    pub(crate) fn pop_next_event(&mut self) -> Option<(u64, Event)> {
        self.calendar.pop_next_event()
    }

    /// The slot for a device event: completion queues come first, then drives, then the player.
    pub(crate) fn slot_of_device(&self, device: usize) -> Slot {
        self.calendar.slot_of_device(device)
    }

    /// The run's observer; `None` if nobody watches any more.
    #[inline(always)]
    pub(crate) fn observer(&mut self) -> Option<&mut O> {
        (O::WATCHES && self.watched).then_some(&mut *self.observer)
    }

    /// Tells the observer, if any, which step a request has reached.
    #[inline(always)]
    pub(crate) fn tell_observer_of_request(&mut self, step: RequestStep) {
        let now = Nanoseconds(self.now);
        if let Some(observer) = self.observer() {
            observer.request_step_reached(now, step);
        }
    }

    /// Tells the observer, if any, that a CPU wakes a task up.
    #[inline(always)]
    pub(crate) fn tell_observer_of_wake_up(&mut self, wake_up: WakeUpSeen) {
        let now = Nanoseconds(self.now);
        if let Some(observer) = self.observer() {
            observer.task_woken(now, wake_up);
        }
    }

    /// Tells the observer, if any, that a CPU's task falls asleep.
    #[inline(always)]
    pub(crate) fn tell_observer_of_sleep(&mut self, cpu: usize, task: usize) {
        let now = Nanoseconds(self.now);
        if let Some(observer) = self.observer() {
            observer.task_fell_asleep(now, cpu, task);
        }
    }

    /// Ends the observation if the observer wants no more calls. The run goes on unchanged.
    #[inline(always)]
    pub(crate) fn end_observation_if_unwanted(&mut self) {
        if O::WATCHES && self.watched && !self.observer.wants_more_calls() {
            self.end_observation();
        }
    }

    /// Makes the observer's last call, once; nothing is observed afterwards.
    pub(crate) fn end_observation(&mut self) {
        if std::mem::replace(&mut self.watched, false) {
            self.observer.observation_ended(Nanoseconds(self.now));
        }
    }

    /// Tells the observer the simulated time so far.
    pub(crate) fn tell_observer_of_progress(&self) {
        self.observer.simulated_time_reached(Nanoseconds(self.now));
    }

    /// Whether the observer lets the run stop now.
    #[inline(always)]
    pub(crate) fn observer_lets_run_stop(&self) -> bool {
        self.observer.lets_run_stop()
    }

    /// Counts the present event as one that only the observer needed, so that the run's event count leaves it out.
    pub(crate) fn count_observer_only_event(&mut self) {
        self.observer_events += 1;
    }

    /// Count of events that only the observer needed.
    pub(crate) fn observer_only_event_count(&self) -> u64 {
        self.observer_events
    }

    /// Counts a begun process of a job, or thread. The run lasts until all have ended.
    pub(crate) fn count_begun_process(&mut self) {
        self.processes += 1;
    }

    /// Counts an ended process of a job, or thread.
    pub(crate) fn count_ended_process(&mut self) {
        self.processes -= 1;
    }

    /// Whether any job's process or thread has not ended.
    #[inline(always)]
    pub(crate) fn has_unended_process(&self) -> bool {
        self.processes > 0
    }

    /// Makes the run end without a result. If called several times, the first reason is kept.
    #[cold]
    pub(crate) fn end_run_with_failure(&mut self, why: SimError) {
        self.failure.get_or_insert(why);
        self.processes = 0;
    }

    /// Removes and returns the reason why the run has no result, if it failed.
    pub(crate) fn take_failure(&mut self) -> Option<SimError> {
        self.failure.take()
    }
}
