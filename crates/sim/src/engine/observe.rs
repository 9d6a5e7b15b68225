//! What is told to an observer.

use wakepath_units::Nanoseconds;

use super::Engine;
use crate::cpu::CpuId;
use crate::observer::{Activity, Observer, RequestStep};

impl<O: Observer> Engine<'_, O> {
    pub(super) fn observe_cpu(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let activity = Activity::of(&self.cpus[cpu], &self.tasks, &self.requests);
            self.observer.cpu(Nanoseconds(self.now), cpu, activity);
        }
    }

    pub(super) fn observe_runnable(&mut self, cpu: CpuId) {
        if O::WATCHES {
            let c = &self.cpus[cpu];
            let tasks = c.run_queue.len() + usize::from(c.current.is_some());
            self.observer.runnable(Nanoseconds(self.now), cpu, tasks);
        }
    }

    pub(super) fn observe_frequency(&mut self, domain: usize) {
        if O::WATCHES {
            let frequency = self.domains[domain].frequency();
            self.observer
                .frequency(Nanoseconds(self.now), domain, frequency);
        }
    }

    pub(super) fn observe_request(&mut self, step: RequestStep) {
        if O::WATCHES {
            self.observer.request(Nanoseconds(self.now), step);
        }
    }
}
