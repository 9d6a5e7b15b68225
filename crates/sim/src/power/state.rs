//! Counts how long clusters and the package are down.

use wakepath_hardware::machine::PackageSleep;
use wakepath_units::Nanoseconds;

use crate::core::topology::Topology;
use crate::frequency::setup::FrequencySetup;
use crate::power::packages::Packages;
use crate::power::setup::PowerSetup;
use crate::power::uncore::{UncoreClock, UncoreTotals};

/// How long clusters and the package were down, and the uncore's clock.
#[derive(Debug)]
pub(crate) struct PowerTracker {
    pub(super) clusters: Vec<Down>,
    /// The package is down once every CPU has been in the deepest state for as long as the package takes to go down.
    pub(super) package: Down,
    sleep: PackageSleep,
    /// Time in ns when the package came up last, or will be up.
    package_up_at: u64,
    pub(super) uncore: UncoreClock,
    /// Budgets of packages with a power limit.
    pub(super) packages: Packages,
    deepest: usize,
}

/// Totals of a [`PowerTracker`] at some time, such as the warm-up's end.
#[derive(Debug)]
pub(crate) struct PowerTotals {
    clusters: Vec<u64>,
    package: u64,
    uncore: UncoreTotals,
    limited: Vec<u64>,
}

/// Counts how long a cluster or package is down, while all its CPUs are in states that allow so.
#[derive(Debug)]
pub(crate) struct Down {
    cpus: usize,
    asleep: usize,
    /// Time in ns when the unit goes or went down, if all its CPUs stay asleep.
    since: u64,
    time: u64,
}

impl Down {
    fn new(cpus: usize) -> Self {
        Self {
            cpus,
            asleep: 0,
            since: 0,
            time: 0,
        }
    }

    fn all_cpus_asleep(&self) -> bool {
        self.asleep == self.cpus
    }

    fn add_sleeping_cpu(&mut self, down_at: u64) {
        self.asleep += 1;
        self.since = down_at;
    }

    fn remove_sleeping_cpu(&mut self, now: u64) {
        self.settle_time_down(now);
        self.asleep -= 1;
    }

    /// Time down and time up, in a run of `run_ns` ns.
    pub(super) fn time_down_and_up(&self, run_ns: u64) -> (Nanoseconds, Nanoseconds) {
        (Nanoseconds(self.time), Nanoseconds(run_ns - self.time))
    }

    /// Time in ns that the unit has been down in all until `now`.
    pub(crate) fn time_down_until(&self, now: u64) -> u64 {
        let down = self
            .all_cpus_asleep()
            .then(|| now.saturating_sub(self.since));
        self.time + down.unwrap_or(0)
    }

    fn settle_time_down(&mut self, now: u64) {
        if self.all_cpus_asleep() {
            self.time += now.saturating_sub(self.since);
            self.since = self.since.max(now);
        }
    }
}

impl PowerTracker {
    pub(crate) fn new(setup: &PowerSetup, frequency: &FrequencySetup, topology: &Topology) -> Self {
        let count = topology.clusters().len();
        let clusters = (topology.clusters().iter())
            .map(|cluster| Down::new(cluster.cpus().len()))
            .collect();
        Self {
            package: Down::new(topology.cpu_count()),
            sleep: setup.package_sleep,
            package_up_at: 0,
            uncore: UncoreClock::new(setup.uncore.as_ref()),
            clusters,
            packages: Packages::new(setup, frequency, count),
            deepest: setup.deepest,
        }
    }

    /// Notes that a CPU goes to sleep in `state`, a state for the whole cluster or not.
    #[inline(always)]
    pub(crate) fn note_cpu_asleep(
        &mut self,
        now: u64,
        cluster: usize,
        whole_cluster: bool,
        state: usize,
    ) {
        if whole_cluster {
            self.clusters[cluster].add_sleeping_cpu(now);
        }
        if state == self.deepest {
            let down_at = now + self.sleep.time_until_down().0;
            self.package.add_sleeping_cpu(down_at);
            if self.package.all_cpus_asleep() {
                self.uncore.schedule_off(down_at);
            }
        }
    }

    /// Notes that a CPU in `state` is woken up. Returns whether its cluster was down.
    #[inline(always)]
    pub(crate) fn note_cpu_awake(
        &mut self,
        now: u64,
        cluster: usize,
        whole_cluster: bool,
        state: usize,
    ) -> bool {
        if state == self.deepest {
            if self.package.all_cpus_asleep() {
                let asleep = Nanoseconds(self.package.since - self.sleep.time_until_down().0);
                self.package_up_at = self.sleep.power_up_time(asleep, Nanoseconds(now)).0;
            }
            self.package.remove_sleeping_cpu(now);
            self.uncore.end_or_cancel_off(now);
        }
        let cluster = &mut self.clusters[cluster];
        let was_down = cluster.all_cpus_asleep();
        if whole_cluster {
            cluster.remove_sleeping_cpu(now);
        }
        was_down
    }

    /// Time in ns that a CPU woken up at `now` waits for the package to come up, before its exit begins.
    #[inline(always)]
    pub(crate) fn wait_for_package(&self, now: u64) -> u64 {
        self.package_up_at.saturating_sub(now)
    }

    /// Time in ns that a cluster has been down in all until `now`.
    pub(crate) fn cluster_time_down_until(&self, cluster: usize, now: u64) -> u64 {
        self.clusters[cluster].time_down_until(now)
    }

    /// Tells the uncore that a powered CPU's clock runs at so many kHz from now on.
    #[inline(always)]
    pub(crate) fn note_powered_cpu_clock(&mut self, khz: u32) {
        self.uncore.note_powered_cpu_clock(khz);
    }

    /// Time in ns that a cluster has been down in all, up to when it last came up.
    pub(crate) fn settled_cluster_time_down(&self, cluster: usize) -> u64 {
        self.clusters[cluster].time
    }

    /// Totals until `now`; the uncore's due slots must have been ended.
    pub(crate) fn totals_until(&mut self, now: u64) -> PowerTotals {
        self.uncore.settle_energy_until(now);
        PowerTotals {
            clusters: self
                .clusters
                .iter()
                .map(|c| c.time_down_until(now))
                .collect(),
            package: self.package.time_down_until(now),
            uncore: self.uncore.totals(),
            limited: self.packages.limited_time_by_cluster(),
        }
    }

    /// Subtracts the totals noted at the warm-up's end, at the end of the run.
    pub(crate) fn subtract_earlier(&mut self, before: &PowerTotals) {
        for (cluster, before) in self.clusters.iter_mut().zip(&before.clusters) {
            cluster.time -= before;
        }
        self.package.time -= before.package;
        self.uncore.subtract_earlier(&before.uncore);
        self.packages.subtract_earlier(&before.limited);
    }

    pub(crate) fn settle_all_times(&mut self, now: u64) {
        self.clusters
            .iter_mut()
            .for_each(|c| c.settle_time_down(now));
        self.package.settle_time_down(now);
        self.uncore.settle_energy_until(now);
    }
}
