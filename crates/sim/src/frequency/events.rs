//! Utilisation and the clocks driven by utilisation.

use std::ops::Range;

use crate::core::basics::{CpuId, Interrupt, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;

impl<O: Observer> Engine<'_, O> {
    /// Accounts a CPU's utilisation up to now, with a task running or not.
    #[inline(always)]
    pub(crate) fn account(&mut self, cpu: CpuId, ran: bool) {
        let c = &mut self.cpus[cpu];
        let running = if ran {
            self.domains[c.domain].capacity_now()
        } else {
            0
        };
        c.run_queue.account(self.context.now(), running);
    }

    /// As [`Engine::account`]. The scheduler tells cpufreq when a utilisation signal has crossed a period. `change`: a
    /// task on the CPU that can run from now on, or cannot.
    #[inline(always)]
    pub(crate) fn account_and_report(
        &mut self,
        cpu: CpuId,
        ran: bool,
        local: bool,
        change: Option<(TaskId, bool)>,
    ) {
        let c = &mut self.cpus[cpu];
        let domain = &self.domains[c.domain];
        let capacity = domain.capacity_now();
        c.run_queue
            .account(self.context.now(), if ran { capacity } else { 0 });
        if self.setup.frequency.counts_runnable() {
            c.run_queue.settle_runnable(self.context.now(), capacity);
            if let Some((task, can)) = change {
                let entity = &mut self.tasks[task].entity;
                entity.settle_runnable(self.context.now(), !can, capacity);
                c.run_queue.change_runnable(can);
            }
        }
        if c.run_queue.period_is_new() {
            let iowait = false;
            self.update_frequency(cpu, Report { iowait, local });
        }
    }

    /// Takes a task's share among runnable tasks to another CPU.
    #[inline(never)]
    pub(crate) fn move_runnable(&mut self, task: TaskId, from: CpuId, to: CpuId) {
        for cpu in [from, to] {
            let c = &mut self.cpus[cpu];
            let capacity = self.domains[c.domain].capacity_now();
            c.run_queue.settle_runnable(self.context.now(), capacity);
        }
        let capacity = self.domains[self.cpus[from].domain].capacity_now();
        let t = &mut self.tasks[task];
        let share = t
            .entity
            .settle_runnable(self.context.now(), t.runnable, capacity);
        let can_run = t.runnable;
        self.cpus[from].run_queue.remove_runnable(share, can_run);
        self.cpus[to].run_queue.add_runnable(share, can_run);
    }

    #[inline(always)]
    pub(crate) fn update_frequency(&mut self, cpu: CpuId, report: Report) {
        let index = self.cpus[cpu].domain;
        let domain = &mut self.domains[index];
        if domain.update(
            self.context.now(),
            cpu - domain.cpus().start,
            report,
            &self.cpus,
        ) {
            if self.setup.frequency.sugov.is_some() {
                // The CPU goes on with the present work, and then takes the interrupt sent to itself.
                self.cpus[cpu].raise(Interrupt::Frequency(index));
            } else {
                self.begin_frequency_change(index);
            }
        }
    }

    /// Begins to change a clock's frequency to the governor's choice.
    pub(crate) fn begin_frequency_change(&mut self, domain: usize) {
        let cluster = &self.setup.frequency.clusters[self.domains[domain].cluster()];
        let at = cluster.taken_up(self.context.now()) + cluster.transition_latency;
        self.context.schedule(Slot::Frequency(domain), at);
    }

    /// Changes a clock's frequency. Running work is cut here, so that each part has one frequency. Returns the CPUs
    /// that may go on, none if all sleep.
    pub(crate) fn change_frequency(&mut self, domain: usize) -> Range<CpuId> {
        self.end_uncore_slots();
        let clock = &mut self.domains[domain];
        let cpus = clock.cpus();
        let mut powered = false;
        for c in &mut self.cpus[cpus.clone()] {
            if self.setup.frequency.counts_runnable() {
                c.run_queue
                    .settle_runnable(self.context.now(), clock.capacity_now());
            }
            // Nothing depends on a sleeping CPU's clock.
            if c.is_powered() {
                powered = true;
                c.cut(self.context.now(), clock, &mut self.tasks);
            }
        }
        clock.arrive(self.context.now());
        if powered {
            self.power.sees_clock(clock.frequency().0);
        }
        self.observe_frequency(domain);
        if powered { cpus } else { 0..0 }
    }

    /// A CPU begins to wake up: the hardware looks at its clock again.
    #[inline]
    pub(crate) fn wake_clock(&mut self, cpu: CpuId) {
        if !self.clock_control.slots.clusters.is_empty() {
            self.wake_hardware(cpu);
        }
    }

    fn wake_hardware(&mut self, cpu: CpuId) {
        let cluster = self.cpus[cpu].cluster;
        if !self.clock_control.slots.clusters[cluster].used {
            return;
        }
        let domain = self.cpus[cpu].domain;
        let clock = &mut self.domains[domain];
        let before = clock.current();
        clock.wake(self.context.now(), cpu - clock.cpus().start, &self.cpus);
        if clock.current() != before {
            self.observe_frequency(domain);
        }
        self.start_clock_slots(cluster);
    }

    /// Starts the slots for clusters with a CPU awake from the beginning.
    pub(crate) fn start_clocks(&mut self) {
        for cluster in 0..self.clock_control.slots.clusters.len() {
            let mut cpus = self.cpus.iter();
            if cpus.any(|cpu| cpu.cluster == cluster && cpu.is_powered()) {
                self.start_clock_slots(cluster);
            }
        }
    }

    /// The hardware looks at a cluster's clocks at this slot's end, if the clocks have slots.
    fn start_clock_slots(&mut self, cluster: usize) {
        let slots = &mut self.clock_control.slots.clusters[cluster];
        if slots.used && !std::mem::replace(&mut slots.running, true) {
            self.schedule_clock_slot(cluster);
        }
    }

    fn schedule_clock_slot(&mut self, cluster: usize) {
        let length = self.setup.frequency.clusters[cluster].slot.max(1);
        let end = (self.context.now() / length + 1) * length;
        self.context.schedule(Slot::Hardware(cluster), end);
    }

    /// A slot of a cluster's hardware is over.
    pub(crate) fn end_clock_slot(&mut self, cluster: usize) {
        let setup = &self.setup.frequency.clusters[cluster];
        let cpus = setup.shape.cpus();
        let slots = &mut self.clock_control.slots;
        let mut awake = false;
        for cpu in cpus.clone() {
            let c = &self.cpus[cpu];
            let before = std::mem::replace(&mut slots.times_idle[cpu], c.times_idle());
            slots.active[cpu] = c.is_powered() || c.times_idle() != before;
            awake |= c.is_powered();
        }
        let cores = slots.active[cpus.clone()].chunks(setup.shape.threads_per_core());
        let active_cores = cores.filter(|core| core.contains(&true)).count();
        let active_cpus = slots.active[cpus.clone()].iter().filter(|a| **a).count();
        slots.clusters[cluster].running = awake;
        if awake {
            self.schedule_clock_slot(cluster);
        }
        let turbo = setup.turbo_limit(active_cores);
        let limit = self.power_capped(cluster, active_cpus, turbo);
        let domains = self.cpus[cpus.start].domain..=self.cpus[cpus.end - 1].domain;
        for index in domains {
            let domain = &mut self.domains[index];
            let active = &self.clock_control.slots.active[domain.cpus()];
            if active.contains(&true)
                && domain.end_slot(self.context.now(), limit, &self.cpus, active)
            {
                self.begin_frequency_change(index);
            }
        }
    }
}
