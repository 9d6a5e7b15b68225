//! How long clusters and the package were down.

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
    /// Down: every CPU is in the deepest state, and has been for as long as the package takes to go down.
    pub(super) package: Down,
    sleep: PackageSleep,
    /// When the package has come up, or will have.
    package_up_at: u64,
    pub(super) uncore: UncoreClock,
    /// Budgets of packages with a power limit.
    pub(super) packages: Packages,
    deepest: usize,
}

/// What a [`PowerTracker`] has counted.
#[derive(Debug)]
pub(crate) struct PowerTotals {
    clusters: Vec<u64>,
    package: u64,
    uncore: UncoreTotals,
    limited: Vec<u64>,
}

/// A cluster or package, down while all its CPUs are.
#[derive(Debug)]
pub(crate) struct Down {
    cpus: usize,
    asleep: usize,
    /// When it goes down, unless a CPU wakes up before.
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

    fn all_asleep(&self) -> bool {
        self.asleep == self.cpus
    }

    fn asleep(&mut self, down_at: u64) {
        self.asleep += 1;
        self.since = down_at;
    }

    fn awake(&mut self, now: u64) {
        self.settle(now);
        self.asleep -= 1;
    }

    /// Time down and time up, within a run of `time` ns.
    pub(super) fn down_and_up(&self, time: u64) -> (Nanoseconds, Nanoseconds) {
        (Nanoseconds(self.time), Nanoseconds(time - self.time))
    }

    /// How long it has been down by now.
    pub(crate) fn time_until(&self, now: u64) -> u64 {
        let down = self.all_asleep().then(|| now.saturating_sub(self.since));
        self.time + down.unwrap_or(0)
    }

    fn settle(&mut self, now: u64) {
        if self.all_asleep() {
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
            package: Down::new(topology.cpus()),
            sleep: setup.package_sleep,
            package_up_at: 0,
            uncore: UncoreClock::new(setup.uncore.as_ref()),
            clusters,
            packages: Packages::new(setup, frequency, count),
            deepest: setup.deepest,
        }
    }

    /// A CPU goes to sleep in `state`.
    #[inline(always)]
    pub(crate) fn cpu_asleep(&mut self, now: u64, cluster: usize, whole: bool, state: usize) {
        if whole {
            self.clusters[cluster].asleep(now);
        }
        if state == self.deepest {
            let down_at = now + self.sleep.time_until_down().0;
            self.package.asleep(down_at);
            if self.package.all_asleep() {
                self.uncore.goes_off(down_at);
            }
        }
    }

    /// A CPU in `state` is woken up. Returns whether the cluster was down.
    #[inline(always)]
    pub(crate) fn cpu_awake(
        &mut self,
        now: u64,
        cluster: usize,
        whole: bool,
        state: usize,
    ) -> bool {
        if state == self.deepest {
            if self.package.all_asleep() {
                let asleep = Nanoseconds(self.package.since - self.sleep.time_until_down().0);
                self.package_up_at = self.sleep.power_up_time(asleep, Nanoseconds(now)).0;
            }
            self.package.awake(now);
            self.uncore.goes_on(now);
        }
        let cluster = &mut self.clusters[cluster];
        let was_down = cluster.all_asleep();
        if whole {
            cluster.awake(now);
        }
        was_down
    }

    /// How long a CPU woken up at `now` waits for the package before the exit can begin.
    #[inline(always)]
    pub(crate) fn package_wait(&self, now: u64) -> u64 {
        self.package_up_at.saturating_sub(now)
    }

    /// How long a cluster has been down by now.
    pub(crate) fn cluster_down(&self, cluster: usize, now: u64) -> u64 {
        self.clusters[cluster].time_until(now)
    }

    /// A CPU is powered, and its clock runs at so many kHz from now on.
    #[inline(always)]
    pub(crate) fn sees_clock(&mut self, khz: u32) {
        self.uncore.sees(khz);
    }

    /// How long a cluster has been down, up to when it last came up.
    pub(crate) fn down_time(&self, cluster: usize) -> u64 {
        self.clusters[cluster].time
    }

    /// Counts by now; the uncore's slots up to now are over.
    pub(crate) fn totals_until(&mut self, now: u64) -> PowerTotals {
        self.uncore.settle(now);
        PowerTotals {
            clusters: self.clusters.iter().map(|c| c.time_until(now)).collect(),
            package: self.package.time_until(now),
            uncore: self.uncore.totals(),
            limited: self.packages.limited(),
        }
    }

    /// Takes off what had been counted before, once nothing goes on.
    pub(crate) fn leave_out(&mut self, before: &PowerTotals) {
        for (cluster, before) in self.clusters.iter_mut().zip(&before.clusters) {
            cluster.time -= before;
        }
        self.package.time -= before.package;
        self.uncore.leave_out(&before.uncore);
        self.packages.leave_out(&before.limited);
    }

    pub(crate) fn finish(&mut self, now: u64) {
        self.clusters.iter_mut().for_each(|c| c.settle(now));
        self.package.settle(now);
        self.uncore.settle(now);
    }
}
