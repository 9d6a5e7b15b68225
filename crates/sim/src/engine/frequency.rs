//! Utilisation and the clocks that follow it.

use super::{Engine, Slot};
use crate::cpu::{CpuId, Mode};
use crate::observer::Observer;

impl<O: Observer> Engine<'_, O> {
    /// Accounts a CPU's utilisation up to now, during which a task ran on it or not.
    pub(super) fn account(&mut self, cpu: CpuId, ran: bool) {
        let c = &mut self.cpus[cpu];
        let running = if ran {
            self.domains[c.cluster].capacity_now()
        } else {
            0
        };
        c.period_crossed |= c.utilisation.advance(self.now, running);
    }

    /// Accounts the work of a CPU that ends, or is cut, now.
    pub(super) fn charge(&mut self, cpu: CpuId) {
        let time = self.now - self.cpus[cpu].phase_start;
        match self.cpus[cpu].mode {
            Mode::Idle | Mode::Waking => return,
            Mode::Interrupt(_) => {}
            Mode::Task => {
                self.account(cpu, true);
                let c = &self.cpus[cpu];
                self.domains[c.cluster].charge_task(time);
                if let Some(task) = c.current {
                    self.tasks[task].executed += time;
                }
            }
        }
        let c = &mut self.cpus[cpu];
        c.phase_start = self.now;
        c.busy += time;
        if c.polling_until.is_some() {
            c.busy_in_stay += time;
        }
    }

    /// The scheduler tells cpufreq when a utilisation signal has crossed a period.
    pub(super) fn utilisation_changed(&mut self, cpu: CpuId) {
        if std::mem::take(&mut self.cpus[cpu].period_crossed) {
            self.update_frequency(cpu, false);
        }
    }

    pub(super) fn update_frequency(&mut self, cpu: CpuId, iowait: bool) {
        let cluster = self.cpus[cpu].cluster;
        let of = &self.setup.clusters[cluster];
        let cpus = &self.cpus[of.first_cpu..of.first_cpu + of.cpus];
        let domain = &mut self.domains[cluster];
        if domain.update(self.now, cpu - of.first_cpu, iowait, cpus) {
            let at = self.now + of.transition_latency;
            self.schedule(Slot::Frequency(cluster), at);
        }
    }

    pub(super) fn frequency_changed(&mut self, cluster: usize) {
        let of = &self.setup.clusters[cluster];
        // What is running is cut at the change, so that each part has one frequency.
        for cpu in of.first_cpu..of.first_cpu + of.cpus {
            self.cpus[cpu].settle_power(self.now, self.domains[cluster].current());
            if matches!(self.cpus[cpu].mode, Mode::Task | Mode::Interrupt(_)) {
                let left = self.cpus[cpu].work - self.work_done(cpu);
                self.charge(cpu);
                self.cpus[cpu].work = left;
            }
        }
        self.domains[cluster].arrive();
        self.observe_frequency(cluster);
        for cpu in of.first_cpu..of.first_cpu + of.cpus {
            let mode = self.cpus[cpu].mode;
            if matches!(mode, Mode::Task | Mode::Interrupt(_)) {
                let length = self.domains[cluster].time_for(self.cpus[cpu].work);
                self.begin_phase(cpu, mode, length);
            }
        }
    }
}
