//! Caps on a package's clocks from power limits.

use wakepath_units::{Kilohertz, Nanoseconds};

use crate::core::observer::Observer;
use crate::engine::Engine;
use crate::power::cpu_power::Drawn;

impl<O: Observer> Engine<'_, O> {
    /// Ends the uncore clock's slots that are over by now, before a CPU wakes up, sleeps or changes frequency.
    #[inline]
    pub(crate) fn end_uncore_slots(&mut self) {
        if self.power.uncore.is_due(self.context.now()) {
            let powered = self.cpus.iter().filter(|c| c.is_powered());
            let clocks = powered.map(|c| self.domains[c.domain].frequency().0);
            let fastest = clocks.max().unwrap_or(0);
            self.power.uncore.end_slots(self.context.now(), fastest);
        }
    }

    /// A cluster's highest clock in the slot that begins now, where turbo alone would allow `turbo`. `awake` CPUs were
    /// awake in the slot before.
    pub(crate) fn power_capped(
        &mut self,
        cluster: usize,
        awake: usize,
        turbo: Kilohertz,
    ) -> Kilohertz {
        let Some(limit) = &self.setup.power.limit else {
            return turbo;
        };
        let package = cluster / limit.limits.clusters;
        let unsettled = self.context.now() - self.power.packages.budgets[package].until();
        if limit.cannot_bind(cluster, awake, unsettled) {
            self.power.packages.clusters[cluster].cap =
                self.setup.frequency.cluster(cluster).highest();
            return turbo;
        }
        self.settle_package(package);
        let limited = &mut self.power.packages.clusters[cluster];
        if limited.cap < turbo {
            limited.time += self.setup.frequency.cluster(cluster).slot();
        }
        turbo.min(limited.cap)
    }

    /// Notes a package's energy by now, and caps its clocks for the slot that begins.
    fn settle_package(&mut self, package: usize) {
        let Some(limit) = &self.setup.power.limit else {
            return;
        };
        let since = self.power.packages.budgets[package].until();
        if since == self.context.now() {
            return;
        }
        self.end_uncore_slots();
        self.power.uncore.settle(self.context.now());
        let clusters = package * limit.limits.clusters..(package + 1) * limit.limits.clusters;
        let per_ns = 1.0 / (self.context.now() - since) as f64;
        // Power independent from the clocks, and by cluster how many CPUs ran with theirs.
        let mut besides = 0.0;
        let mut running = Vec::with_capacity(limit.limits.clusters);
        let mut total = 0;
        for cluster in clusters.clone() {
            let drawn = self.drawn_by(cluster);
            let before = std::mem::replace(&mut self.power.packages.clusters[cluster].drawn, drawn);
            besides += drawn.besides.saturating_sub(before.besides) as f64 * per_ns;
            running.push(drawn.clocked_time.saturating_sub(before.clocked_time) as f64 * per_ns);
            total += drawn.total();
        }
        let budget = &mut self.power.packages.budgets[package];
        budget.add(self.context.now(), total);
        let slot = clusters
            .clone()
            .map(|c| self.setup.frequency.cluster(c).slot())
            .max();
        let left = budget.left(slot.unwrap_or(1).max(1));
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

    /// Energy by now for a cluster: CPUs, uncore and a share in the package.
    fn drawn_by(&mut self, cluster: usize) -> Drawn {
        let mut sum = Drawn::default();
        let Some(limit) = &self.setup.power.limit else {
            return sum;
        };
        for cpu in &mut self.cpus[self.setup.topology.cluster(cluster).cpus()] {
            let domain = &self.domains[cpu.domain];
            let (opp, khz) = (domain.current(), domain.khz_now());
            cpu.settle_times(self.context.now(), opp, khz);
            sum.add(limit.cpus[cluster].drawn(cpu.totals()));
        }
        let down = self.power.clusters[cluster].time_until(self.context.now());
        let up = Nanoseconds(self.context.now() - down);
        let [on, off] = limit.besides_cpus[cluster];
        sum.besides += on.femtojoules_over(up) + off.femtojoules_over(Nanoseconds(down));
        sum.besides += self.power.uncore.energy().unwrap_or(0);
        let package_up = self.context.now() - self.power.package.time_until(self.context.now());
        sum.besides += limit
            .package_share
            .femtojoules_over(Nanoseconds(package_up));
        sum
    }
}
