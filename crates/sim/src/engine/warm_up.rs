//! A run's warm-up (fio's `ramp_time`), left out by results.
//!
//! Nothing in the machine notices the end of the warm-up: counts by then are noted, and taken off at the end.

use crate::core::observer::Observer;
use crate::cpu::totals::CpuTotals;
use crate::engine::Engine;
use crate::engine::counted::WarmUp;

impl<O: Observer> Engine<'_, O> {
    /// Notes all totals by now, the end of the warm-up, to be subtracted later.
    #[cold]
    pub(crate) fn note_totals_at_end_of_warm_up(&mut self) {
        self.end_due_uncore_slots();
        let now = self.context.now();
        let domains = self.domains.iter().map(|domain| {
            let mut domain = domain.clone();
            for cpu in &self.cpus[domain.cpus()] {
                domain.add_task_time(cpu.unaccounted_run_time(now));
            }
            domain
        });
        let drives = self
            .drives
            .iter()
            .map(|drive| drive.clone().into_totals_at(now));
        self.warm_up = Some(Box::new(WarmUp {
            ended: now,
            cpus: self.cpu_totals_by_now(),
            domains: domains.collect(),
            power: self.power.totals_until(now),
            drives: drives.collect(),
            requests: self.recorder.warm_up_counts(),
        }));
    }

    /// Totals of each CPU until now.
    pub(super) fn cpu_totals_by_now(&self) -> Vec<CpuTotals> {
        let totals = self.cpus.iter().map(|cpu| {
            let down = self
                .power
                .cluster_time_down_until(cpu.cluster, self.context.now());
            cpu.totals_until(
                self.context.now(),
                self.domains[cpu.domain].current_point_index(),
                down,
            )
        });
        totals.collect()
    }

    /// Subtracts the totals noted at the warm-up's end, at the end of the run. Returns when the warm-up ended; 0 without any.
    pub(super) fn subtract_warm_up(&mut self, cpus: &mut [CpuTotals]) -> u64 {
        let Some(warm_up) = self.warm_up.take() else {
            return 0;
        };
        for (cpu, before) in cpus.iter_mut().zip(&warm_up.cpus) {
            cpu.subtract_earlier(before);
        }
        for (domain, before) in self.domains.iter_mut().zip(&warm_up.domains) {
            domain.subtract_earlier(before, warm_up.ended, self.context.now());
        }
        self.power.subtract_earlier(&warm_up.power);
        self.recorder.subtract_warm_up(warm_up.requests);
        self.drives_before = warm_up.drives;
        warm_up.ended
    }
}
