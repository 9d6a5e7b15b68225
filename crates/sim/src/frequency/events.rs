//! Events of clocks: utilisation is accounted, cpufreq is told, and frequencies change.

use std::ops::Range;

use crate::core::basics::{CpuId, Interrupt, TaskId};
use crate::core::calendar::Slot;
use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::frequency::clocks::report::Report;

impl<O: Observer> Engine<'_, O> {
    /// Accounts a CPU's utilisation up to now; `task_ran` says whether a task ran until now.
    #[inline(always)]
    pub(crate) fn account_utilisation(&mut self, cpu: CpuId, task_ran: bool) {
        let c = &mut self.cpus[cpu];
        let running = if task_ran {
            self.domains[c.domain].capacity_now()
        } else {
            0
        };
        c.run_queue.account_utilisation(self.context.now(), running);
    }

    /// As [`Engine::account_utilisation`]. The scheduler tells cpufreq when a utilisation signal has crossed a period. `change`: a
    /// task on the CPU that can run from now on, or cannot.
    #[inline(always)]
    pub(crate) fn account_and_report_utilisation(
        &mut self,
        cpu: CpuId,
        task_ran: bool,
        local: bool,
        change: Option<(TaskId, bool)>,
    ) {
        let c = &mut self.cpus[cpu];
        let domain = &self.domains[c.domain];
        let capacity = domain.capacity_now();
        c.run_queue
            .account_utilisation(self.context.now(), if task_ran { capacity } else { 0 });
        if self.setup.frequency.runnable_tasks_raise_frequency() {
            c.run_queue
                .account_runnable_tasks(self.context.now(), capacity);
            if let Some((task, can)) = change {
                let entity = &mut self.tasks[task].entity;
                entity.advance_runnable_share(self.context.now(), !can, capacity);
                c.run_queue.count_runnable_change(can);
            }
        }
        if c.run_queue.has_entered_new_period() {
            let iowait = false;
            self.report_to_cpufreq(cpu, Report { iowait, local });
        }
    }

    /// Moves a task's share of the runnable signal from one CPU's run queue to another's.
    #[inline(never)]
    pub(crate) fn move_runnable_share(&mut self, task: TaskId, from: CpuId, to: CpuId) {
        for cpu in [from, to] {
            let c = &mut self.cpus[cpu];
            let capacity = self.domains[c.domain].capacity_now();
            c.run_queue
                .account_runnable_tasks(self.context.now(), capacity);
        }
        let capacity = self.domains[self.cpus[from].domain].capacity_now();
        let t = &mut self.tasks[task];
        let share = t
            .entity
            .advance_runnable_share(self.context.now(), t.runnable, capacity);
        let can_run = t.runnable;
        self.cpus[from]
            .run_queue
            .remove_runnable_share(share, can_run);
        self.cpus[to].run_queue.add_runnable_share(share, can_run);
    }

    #[inline(always)]
    pub(crate) fn report_to_cpufreq(&mut self, cpu: CpuId, report: Report) {
        let index = self.cpus[cpu].domain;
        let domain = &mut self.domains[index];
        if domain.handle_report(
            self.context.now(),
            cpu - domain.cpus().start,
            report,
            &self.cpus,
        ) {
            if self.setup.frequency.sugov.is_some() {
                // The CPU finishes its present work, and then takes the interrupt that it has sent to itself.
                self.cpus[cpu].add_pending_interrupt(Interrupt::Frequency(index));
            } else {
                self.begin_frequency_change(index);
            }
        }
    }

    /// Begins to change a clock's frequency to the governor's choice.
    pub(crate) fn begin_frequency_change(&mut self, domain: usize) {
        let cluster = &self.setup.frequency.clusters[self.domains[domain].cluster()];
        let at = cluster.time_request_is_taken_up(self.context.now()) + cluster.transition_latency;
        self.context.schedule(Slot::Frequency(domain), at);
    }

    /// Changes a clock's frequency. Running work is cut here, so that each part has one frequency. Returns the CPUs
    /// that may go on, none if all sleep.
    pub(crate) fn change_frequency_and_return_powered_cpus(
        &mut self,
        domain: usize,
    ) -> Range<CpuId> {
        self.end_due_uncore_slots();
        let clock = &mut self.domains[domain];
        let cpus = clock.cpus();
        let mut powered = false;
        for c in &mut self.cpus[cpus.clone()] {
            if self.setup.frequency.runnable_tasks_raise_frequency() {
                c.run_queue
                    .account_runnable_tasks(self.context.now(), clock.capacity_now());
            }
            // A sleeping CPU's work needs no cut: nothing depends on its clock.
            if c.is_powered() {
                powered = true;
                c.account_before_clock_change(self.context.now(), clock, &mut self.tasks);
            }
        }
        clock.complete_frequency_change(self.context.now());
        if powered {
            self.power.note_powered_cpu_clock(clock.frequency().0);
        }
        self.tell_observer_of_frequency(domain);
        if powered { cpus } else { 0..0 }
    }

    /// Tells the hardware behind a CPU's clock, if it decides in slots, that the CPU wakes up.
    #[inline]
    pub(crate) fn tell_clock_hardware_of_wake_up(&mut self, cpu: CpuId) {
        if !self.clock_control.slots.clusters.is_empty() {
            self.update_hardware_chosen_frequency_on_wake_up(cpu);
        }
    }

    fn update_hardware_chosen_frequency_on_wake_up(&mut self, cpu: CpuId) {
        let cluster = self.cpus[cpu].cluster;
        if !self.clock_control.slots.clusters[cluster].used {
            return;
        }
        let domain = self.cpus[cpu].domain;
        let clock = &mut self.domains[domain];
        let before = clock.current_point_index();
        clock.handle_wake_up(self.context.now(), cpu - clock.cpus().start, &self.cpus);
        if clock.current_point_index() != before {
            self.tell_observer_of_frequency(domain);
        }
        self.start_clock_slots(cluster);
    }

    /// Starts the hardware's clock slots in clusters with a CPU awake at the run's start.
    pub(crate) fn start_slots_of_awake_clusters(&mut self) {
        for cluster in 0..self.clock_control.slots.clusters.len() {
            let mut cpus = self.cpus.iter();
            if cpus.any(|cpu| cpu.cluster == cluster && cpu.is_powered()) {
                self.start_clock_slots(cluster);
            }
        }
    }

    /// Starts the time slots in which hardware decides about a cluster's clocks, unless running or unused.
    fn start_clock_slots(&mut self, cluster: usize) {
        let slots = &mut self.clock_control.slots.clusters[cluster];
        if slots.used && !std::mem::replace(&mut slots.running, true) {
            self.schedule_end_of_clock_slot(cluster);
        }
    }

    fn schedule_end_of_clock_slot(&mut self, cluster: usize) {
        let length = self.setup.frequency.clusters[cluster].slot.max(1);
        let end = (self.context.now() / length + 1) * length;
        self.context.schedule(Slot::Hardware(cluster), end);
    }

    /// Ends a clock slot of a cluster: the hardware decides about frequencies, under turbo and power limits.
    pub(crate) fn end_clock_slot(&mut self, cluster: usize) {
        let setup = &self.setup.frequency.clusters[cluster];
        let cpus = setup.shape.cpus();
        let slots = &mut self.clock_control.slots;
        let mut awake = false;
        for cpu in cpus.clone() {
            let c = &self.cpus[cpu];
            let before = std::mem::replace(&mut slots.times_idle[cpu], c.idle_period_count());
            slots.active[cpu] = c.is_powered() || c.idle_period_count() != before;
            awake |= c.is_powered();
        }
        let cores = slots.active[cpus.clone()].chunks(setup.shape.threads_per_core());
        let active_cores = cores.filter(|core| core.contains(&true)).count();
        let active_cpus = slots.active[cpus.clone()].iter().filter(|a| **a).count();
        slots.clusters[cluster].running = awake;
        if awake {
            self.schedule_end_of_clock_slot(cluster);
        }
        let turbo = setup.turbo_limit(active_cores);
        let limit = self.power_capped_frequency(cluster, active_cpus, turbo);
        let domains = self.cpus[cpus.start].domain..=self.cpus[cpus.end - 1].domain;
        for index in domains {
            let domain = &mut self.domains[index];
            let active = &self.clock_control.slots.active[domain.cpus()];
            if active.contains(&true)
                && domain.decide_at_slot_end(self.context.now(), limit, &self.cpus, active)
            {
                self.begin_frequency_change(index);
            }
        }
    }
}
