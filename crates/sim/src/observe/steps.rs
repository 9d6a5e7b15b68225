//! What is told to an observer.

use wakepath_units::Nanoseconds;

use crate::core::basics::CpuId;
use crate::core::calendar::Slot;
use crate::engine::Engine;
use crate::observe::observer::{Activity, Observer, RequestStep};

impl<O: Observer> Engine<'_, O> {
    /// Takes leave of an observer that wants no more. Nothing of the run depends on that.
    #[inline(always)]
    pub(crate) fn ask_observer(&mut self) {
        if O::WATCHES && self.watched && !self.observer.wants_more() {
            self.end_observation();
        }
    }

    /// The last that the observer sees.
    pub(crate) fn end_observation(&mut self) {
        if std::mem::replace(&mut self.watched, false) {
            self.observer.finished(Nanoseconds(self.now));
        }
    }

    pub(crate) fn observe_cpu(&mut self, cpu: CpuId) {
        if O::WATCHES && self.watched {
            let activity = Activity::of(&self.cpus[cpu], &self.tasks, &self.requests);
            self.observer.cpu(Nanoseconds(self.now), cpu, activity);
        }
    }

    pub(crate) fn observe_runnable(&mut self, cpu: CpuId) {
        if O::WATCHES && self.watched {
            let tasks = self.cpus[cpu].run_queue.tasks();
            self.observer.runnable(Nanoseconds(self.now), cpu, tasks);
        }
    }

    pub(crate) fn observe_frequency(&mut self, domain: usize) {
        if O::WATCHES && self.watched {
            let frequency = self.domains[domain].frequency();
            self.observer
                .frequency(Nanoseconds(self.now), domain, frequency);
        }
    }

    /// Tells a drive's power state and waits for the next one.
    pub(crate) fn watch_drive(&mut self, drive: usize) {
        if !(O::WATCHES && self.watched) {
            return;
        }
        let Some((state, next)) = self.drives[drive].power_state(self.now) else {
            return;
        };
        self.observer
            .drive_power(Nanoseconds(self.now), drive, state);
        let slot = Slot::Device(self.collected.len() + drive);
        match next {
            Some(at) => self.calendar.schedule(slot, at),
            None => self.calendar.cancel(slot),
        }
    }

    /// What a queue has collected is due, or a drive's power state changes.
    pub(crate) fn device(&mut self, device: usize) {
        match device.checked_sub(self.collected.len()) {
            None => {
                self.end_turn();
                self.tell(device);
            }
            Some(_) if device == self.player_slot() => self.player_event(),
            Some(drive) => {
                self.note_look();
                self.watch_drive(drive);
            }
        }
    }

    pub(crate) fn observe_request(&mut self, step: RequestStep) {
        if O::WATCHES && self.watched {
            self.observer.request(Nanoseconds(self.now), step);
        }
    }
}
