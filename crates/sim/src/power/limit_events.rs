//! Caps on a package's clocks from power limits.

use wakepath_units::{Kilohertz, Nanoseconds};

use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::power::cpu_power::Drawn;

impl<O: Observer> Engine<'_, O> {
    /// Ends the uncore clock's slots that are over by now, before a CPU wakes up, sleeps or changes frequency.
    #[inline]
    pub(crate) fn end_due_uncore_slots(&mut self) {
        if self.power.uncore.has_due_slot(self.context.now()) {
            let powered = self.cpus.iter().filter(|c| c.is_powered());
            let clocks = powered.map(|c| self.domains[c.domain].frequency().0);
            let fastest = clocks.max().unwrap_or(0);
            self.power.uncore.end_due_slots(self.context.now(), fastest);
        }
    }

    /// A cluster's highest clock in the slot that begins now, where turbo alone would allow `turbo`. `awake_cpus` CPUs were
    /// awake in the slot before.
    pub(crate) fn power_capped_frequency(
        &mut self,
        cluster: usize,
        awake_cpus: usize,
        turbo: Kilohertz,
    ) -> Kilohertz {
        let Some(limit) = &self.setup.power.limit else {
            return turbo;
        };
        let package = cluster / limit.limits.clusters;
        let unsettled =
            self.context.now() - self.power.packages.budgets[package].energy_known_until();
        if limit.limit_cannot_bind(cluster, awake_cpus, unsettled) {
            self.power.packages.clusters[cluster].cap =
                self.setup.frequency.cluster(cluster).highest_frequency();
            return turbo;
        }
        self.settle_package_and_cap_clocks(package);
        let limited = &mut self.power.packages.clusters[cluster];
        if limited.cap < turbo {
            limited.time += self.setup.frequency.cluster(cluster).slot_length();
        }
        turbo.min(limited.cap)
    }

    /// Notes a package's energy until now, and caps its clusters' clocks for the slot that begins.
    fn settle_package_and_cap_clocks(&mut self, package: usize) {
        let Some(limit) = &self.setup.power.limit else {
            return;
        };
        let since = self.power.packages.budgets[package].energy_known_until();
        if since == self.context.now() {
            return;
        }
        self.end_due_uncore_slots();
        self.power.uncore.settle_energy_until(self.context.now());
        let clusters = package * limit.limits.clusters..(package + 1) * limit.limits.clusters;
        let per_ns = 1.0 / (self.context.now() - since) as f64;
        // Power that does not depend on the clocks, and by cluster, the mean number of CPUs that ran.
        let mut besides = 0.0;
        let mut running = Vec::with_capacity(limit.limits.clusters);
        let mut total = 0;
        for cluster in clusters.clone() {
            let drawn = self.energy_drawn_by_cluster(cluster);
            let before = std::mem::replace(&mut self.power.packages.clusters[cluster].drawn, drawn);
            besides += drawn.besides.saturating_sub(before.besides) as f64 * per_ns;
            running.push(drawn.clocked_time.saturating_sub(before.clocked_time) as f64 * per_ns);
            total += drawn.total_fj();
        }
        let budget = &mut self.power.packages.budgets[package];
        budget.note_energy_drawn(self.context.now(), total);
        let slot = clusters
            .clone()
            .map(|c| self.setup.frequency.cluster(c).slot_length())
            .max();
        let left = budget.power_left_for(slot.unwrap_or(1).max(1));
        let levels = clusters.clone().map(|c| limit.cpus[c].running.len()).max();
        let levels = levels.unwrap_or(1);
        let point = |cluster: usize, level: usize| {
            ((level + 1) * limit.cpus[cluster].running.len()).div_ceil(levels) - 1
        };
        let power = |level: usize| {
            let clocked = |(cluster, running): (usize, &f64)| {
                running * limit.cpus[cluster].running[point(cluster, level)].0 as f64
            };
            besides + clusters.clone().zip(&running).map(clocked).sum::<f64>()
        };
        let level = (0..levels).rev().find(|level| power(*level) <= left);
        for cluster in clusters.clone() {
            let table = self.setup.frequency.cluster(cluster).frequencies();
            self.power.packages.clusters[cluster].cap = table[point(cluster, level.unwrap_or(0))];
        }
    }

    /// Energy that a cluster has drawn until now: CPUs, uncore and a share of the package.
    fn energy_drawn_by_cluster(&mut self, cluster: usize) -> Drawn {
        let mut sum = Drawn::default();
        let Some(limit) = &self.setup.power.limit else {
            return sum;
        };
        for cpu in &mut self.cpus[self.setup.topology.cluster(cluster).cpus()] {
            let domain = &self.domains[cpu.domain];
            let (opp, khz) = (domain.current_point_index(), domain.khz_now());
            cpu.account_times_until(self.context.now(), opp, khz);
            sum.add_energy(limit.cpus[cluster].energy_drawn(cpu.accounted_totals()));
        }
        let down = self.power.clusters[cluster].time_down_until(self.context.now());
        let up = Nanoseconds(self.context.now() - down);
        let [on, off] = limit.besides_cpus[cluster];
        sum.besides += on.femtojoules_over(up) + off.femtojoules_over(Nanoseconds(down));
        sum.besides += self.power.uncore.energy_per_cluster().unwrap_or(0);
        let package_up =
            self.context.now() - self.power.package.time_down_until(self.context.now());
        sum.besides += limit
            .package_share
            .femtojoules_over(Nanoseconds(package_up));
        sum
    }
}
