//! Everything that any event may touch: time, pending events, random numbers, the observer, the run's end.
//!
//! No mechanism's state is here. Events that reach no other mechanism take a context and their own part.

use wakepath_units::Nanoseconds;

use crate::core::basics::RequestId;
use crate::core::calendar::{Calendar, Event, Slot};
use crate::core::observer::{Observer, RequestStep};
use crate::core::random::Streams;
use crate::error::SimError;

/// A run's time, pending events, random streams and observer.
pub(crate) struct Context<'a, O> {
    /// Present time in ns.
    now: u64,
    calendar: Calendar,
    random: Streams,
    observer: &'a mut O,
    /// The observer still wants more.
    watched: bool,
    /// Events that happened for the observer alone.
    observer_events: u64,
    /// Unended processes and threads.
    processes: usize,
    /// Why the run has no result.
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

    /// Present time in ns.
    #[inline(always)]
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Goes on to a later time in ns.
    #[inline(always)]
    pub(crate) fn advance_to(&mut self, time: u64) {
        self.now = time;
    }

    /// Random streams, each for one purpose.
    #[inline(always)]
    pub(crate) fn random(&mut self) -> &mut Streams {
        &mut self.random
    }

    /// Schedules a slot's event at `time` ns, in place of a pending event.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, slot: Slot, time: u64) {
        self.calendar.schedule(slot, time);
    }

    /// Takes back a slot's event, if one is pending.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, slot: Slot) {
        self.calendar.cancel(slot);
    }

    /// When a slot's event is due; [`NEVER`](crate::core::basics::NEVER) without any.
    #[inline(always)]
    pub(crate) fn due(&self, slot: Slot) -> u64 {
        self.calendar.due(slot)
    }

    /// Schedules a slot's event at `time` ns, unless already due then.
    #[inline(always)]
    pub(crate) fn reschedule(&mut self, slot: Slot, time: u64) {
        self.calendar.reschedule(slot, time);
    }

    /// Schedules a request's end in a drive.
    #[inline(always)]
    pub(crate) fn serve(&mut self, time: u64, request: RequestId) {
        self.calendar.serve(time, request);
    }

    /// Takes out the next event, with the time in ns.
    #[inline(always)]
    pub(crate) fn pop_event(&mut self) -> Option<(u64, Event)> {
        self.calendar.pop()
    }

    /// The slot of a queue, a drive or the player, by number among these.
    pub(crate) fn device(&self, number: usize) -> Slot {
        self.calendar.device(number)
    }

    /// The observer, while still watching.
    #[inline(always)]
    pub(crate) fn observer(&mut self) -> Option<&mut O> {
        (O::WATCHES && self.watched).then_some(&mut *self.observer)
    }

    /// Tells the observer how far a request has come.
    #[inline(always)]
    pub(crate) fn observe_request(&mut self, step: RequestStep) {
        let now = Nanoseconds(self.now);
        if let Some(observer) = self.observer() {
            observer.request(now, step);
        }
    }

    /// Takes leave from an observer that wants no more. Nothing in the run depends on the observer.
    #[inline(always)]
    pub(crate) fn ask_observer(&mut self) {
        if O::WATCHES && self.watched && !self.observer.wants_more() {
            self.end_observation();
        }
    }

    /// The observer's last call.
    pub(crate) fn end_observation(&mut self) {
        if std::mem::replace(&mut self.watched, false) {
            self.observer.finished(Nanoseconds(self.now));
        }
    }

    /// Whether the observer lets the run stop now.
    #[inline(always)]
    pub(crate) fn observer_has_enough(&self) -> bool {
        self.observer.has_enough()
    }

    /// The present event happened for the observer alone, and costs the run nothing.
    pub(crate) fn note_observer_event(&mut self) {
        self.observer_events += 1;
    }

    /// Events that happened for the observer alone.
    pub(crate) fn observer_events(&self) -> u64 {
        self.observer_events
    }

    /// A process of a job or a thread begins. The run lasts until all have ended.
    pub(crate) fn begin_process(&mut self) {
        self.processes += 1;
    }

    /// A process of a job or a thread ends.
    pub(crate) fn end_process(&mut self) {
        self.processes -= 1;
    }

    /// Whether a job's process or a thread has not ended.
    #[inline(always)]
    pub(crate) fn has_process(&self) -> bool {
        self.processes > 0
    }

    /// Ends the run without a result; the first reason counts.
    #[cold]
    pub(crate) fn give_up(&mut self, why: SimError) {
        self.failure.get_or_insert(why);
        self.processes = 0;
    }

    /// Why the run has no result, after a failure.
    pub(crate) fn take_failure(&mut self) -> Option<SimError> {
        self.failure.take()
    }
}
