//! A run's warm-up (fio's `ramp_time`), left out by results.
//!
//! Nothing in the machine notices the end of the warm-up: counts by then are noted, and taken off at the end.

use crate::core::observer::Observer;
use crate::cpu::totals::CpuTotals;
use crate::engine::Engine;
use crate::engine::counted::WarmUp;

impl<O: Observer> Engine<'_, O> {
    /// Notes all counts by now, the end of the warm-up.
    #[cold]
    pub(crate) fn end_warm_up(&mut self) {
        self.end_uncore_slots();
        let now = self.context.now();
        let domains = self.domains.iter().map(|domain| {
            let mut domain = domain.clone();
            for cpu in &self.cpus[domain.cpus()] {
                domain.charge_task(cpu.unaccounted_run(now));
            }
            domain
        });
        let drives = self.drives.iter().map(|drive| drive.clone().finish(now));
        self.warm_up = Some(Box::new(WarmUp {
            ended: now,
            cpus: self.cpu_totals(),
            domains: domains.collect(),
            power: self.power.totals_until(now),
            drives: drives.collect(),
            requests: self.recorder.warm_up_counts(),
        }));
    }

    /// Each CPU's totals by now.
    pub(super) fn cpu_totals(&self) -> Vec<CpuTotals> {
        let totals = self.cpus.iter().map(|cpu| {
            let down = self.power.cluster_down(cpu.cluster, self.context.now());
            cpu.totals_until(self.context.now(), self.domains[cpu.domain].current(), down)
        });
        totals.collect()
    }

    /// Takes off the warm-up's counts, at the run's end. Returns when the warm-up ended.
    pub(super) fn leave_out_warm_up(&mut self, cpus: &mut [CpuTotals]) -> u64 {
        let Some(warm_up) = self.warm_up.take() else {
            return 0;
        };
        for (cpu, before) in cpus.iter_mut().zip(&warm_up.cpus) {
            cpu.leave_out(before);
        }
        for (domain, before) in self.domains.iter_mut().zip(&warm_up.domains) {
            domain.leave_out(before, warm_up.ended, self.context.now());
        }
        self.power.leave_out(&warm_up.power);
        self.recorder.leave_out(warm_up.requests);
        self.drives_before = warm_up.drives;
        warm_up.ended
    }
}
