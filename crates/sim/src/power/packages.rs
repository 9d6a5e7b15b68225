//! The packages whose power is limited.

use wakepath_units::Kilohertz;

use crate::frequency::setup::FrequencySetup;
use crate::power::cpu_power::Drawn;
use crate::power::limit::Budget;
use crate::power::setup::PowerSetup;

/// The packages whose power is limited.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// Budgets by package; empty without a power limit.
    pub(super) budgets: Vec<Budget>,
    /// Limited clusters, by cluster number.
    pub(super) clusters: Vec<Limited>,
}

/// A cluster of a package whose power is limited.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    /// Energy that the cluster had drawn by the last slot's end.
    pub(super) drawn: Drawn,
    /// Highest clock that the power limit allows in the present slot.
    pub(super) cap: Kilohertz,
    /// How long the power limit has held the cluster's clock down, in ns.
    pub(super) time: u64,
}

impl Packages {
    pub(super) fn new(setup: &PowerSetup, frequency: &FrequencySetup, clusters: usize) -> Self {
        let Some(limit) = &setup.limit else {
            return Self::default();
        };
        let limited = (0..clusters).map(|cluster| Limited {
            drawn: Drawn::default(),
            cap: frequency.cluster(cluster).highest_frequency(),
            time: 0,
        });
        let packages = clusters / limit.limits.clusters;
        Self {
            budgets: vec![Budget::new(&limit.limits); packages],
            clusters: limited.collect(),
        }
    }

    /// How long a power limit held down each cluster's clock, in ns.
    pub(super) fn limited_time_by_cluster(&self) -> Vec<u64> {
        self.clusters.iter().map(|cluster| cluster.time).collect()
    }

    /// Subtracts the times noted at the warm-up's end.
    pub(super) fn subtract_earlier(&mut self, before: &[u64]) {
        for (cluster, before) in self.clusters.iter_mut().zip(before) {
            cluster.time -= before;
        }
    }

    /// How long a power limit held down the most limited cluster's clock, in ns; `None` without a limit.
    pub(super) fn longest_limited_time(&self) -> Option<u64> {
        self.clusters.iter().map(|cluster| cluster.time).max()
    }
}
