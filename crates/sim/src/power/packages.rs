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
    /// Energy by the last slot's end.
    pub(super) drawn: Drawn,
    /// The highest clock in the present slot.
    pub(super) cap: Kilohertz,
    /// How long the cap has held the clock down, in ns.
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

    /// How long each cluster's clock was held down, in ns.
    pub(super) fn limited(&self) -> Vec<u64> {
        self.clusters.iter().map(|cluster| cluster.time).collect()
    }

    /// Takes these times off.
    pub(super) fn leave_out(&mut self, before: &[u64]) {
        for (cluster, before) in self.clusters.iter_mut().zip(before) {
            cluster.time -= before;
        }
    }

    /// How long the most limited cluster's clock was held down, in ns; `None` without a limit.
    pub(super) fn longest_limited(&self) -> Option<u64> {
        self.clusters.iter().map(|cluster| cluster.time).max()
    }
}
