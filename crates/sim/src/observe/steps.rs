//! What is told to an observer.

use wakepath_units::Nanoseconds;

use crate::core::basics::CpuId;
use crate::core::calendar::Slot;
use crate::engine::Engine;
use crate::observe::observer::{Activity, Observer, RequestStep};

impl<O: Observer> Engine<'_, O> {
    pub(crate) fn observe_cpu(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let activity = Activity::of(&self.cpus[cpu], &self.tasks, &self.requests);
            self.observer.cpu(Nanoseconds(self.now), cpu, activity);
        }
    }

    pub(crate) fn observe_runnable(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let tasks = self.cpus[cpu].run_queue.tasks();
            self.observer.runnable(Nanoseconds(self.now), cpu, tasks);
        }
    }

    pub(crate) fn observe_frequency(&mut self, domain: usize) {
        if O::WATCHES {
            let frequency = self.domains[domain].frequency();
            self.observer
                .frequency(Nanoseconds(self.now), domain, frequency);
        }
    }

    /// Tells a drive's power state and waits for the next one.
    pub(crate) fn watch_drive(&mut self, drive: usize) {
        if !O::WATCHES {
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
        if O::WATCHES {
            self.observer.request(Nanoseconds(self.now), step);
        }
    }
}
