//! The packages whose power is limited.

use wakepath_units::Kilohertz;

use crate::frequency::setup::FrequencySetup;
use crate::power::cpu_power::Drawn;
use crate::power::limit::Budget;
use crate::power::setup::PowerSetup;

/// The packages whose power is limited.
#[derive(Debug, Default)]
pub(super) struct Packages {
    /// Empty if there is no limit.
    pub(super) budgets: Vec<Budget>,
    /// By cluster.
    pub(super) clusters: Vec<Limited>,
}

/// A cluster of a package whose power is limited.
#[derive(Clone, Debug)]
pub(super) struct Limited {
    /// What it had drawn by the end of the last slot.
    pub(super) drawn: Drawn,
    /// The highest clock in the present one.
    pub(super) cap: Kilohertz,
    /// For how long that has held its clock down, in ns.
    pub(super) time: u64,
}

impl Packages {
    pub(super) fn new(setup: &PowerSetup, frequency: &FrequencySetup, clusters: usize) -> Self {
        let Some(limit) = &setup.limit else {
            return Self::default();
        };
        let limited = (0..clusters).map(|cluster| Limited {
            drawn: Drawn::default(),
            cap: frequency.cluster(cluster).highest(),
            time: 0,
        });
        let packages = clusters / limit.limits.clusters;
        Self {
            budgets: vec![Budget::new(&limit.limits); packages],
            clusters: limited.collect(),
        }
    }

    /// For how long the clock of each cluster was held down, in ns.
    pub(super) fn limited(&self) -> Vec<u64> {
        self.clusters.iter().map(|cluster| cluster.time).collect()
    }

    /// Takes these times off.
    pub(super) fn leave_out(&mut self, before: &[u64]) {
        for (cluster, before) in self.clusters.iter_mut().zip(before) {
            cluster.time -= before;
        }
    }

    /// For how long the clock of the cluster that was held down most was, in ns; `None` if there is no limit.
    pub(super) fn longest_limited(&self) -> Option<u64> {
        self.clusters.iter().map(|cluster| cluster.time).max()
    }
}
