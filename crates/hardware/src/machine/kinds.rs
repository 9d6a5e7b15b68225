//! Several core types in one processor: a cluster for each.

use std::cmp::Reverse;

use wakepath_units::Kilohertz;

use super::{Cluster, ClusterIdleState, Figure, Machine, MachineError, Opp, Origin};

/// Names of the clusters of core kinds, the biggest kind first.
const NAMES: [&str; 3] = ["performance", "efficiency", "low-power"];
/// Power of a small core relative to a big core, where nothing tells it.
const SMALL_POWER: f64 = 1.0 / 3.0;
const SMALL_POWER_WHY: &str =
    "a third of a performance core's: four efficiency cores have the area of one performance core";
/// Default capacity of an efficiency core: highest performance 34 to 60, as recorded on adl0.
pub const EFFICIENCY_CAPACITY: u32 = 580;
/// Reason for [`EFFICIENCY_CAPACITY`].
pub const EFFICIENCY_CAPACITY_WHY: &str =
    "an efficiency core as on adl0, whose highest performances are 34 and 60";

/// Consecutive CPUs with the same core type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreKind {
    /// How many CPUs.
    pub cpus: usize,
    /// Hardware threads per core.
    pub threads_per_core: usize,
    /// Capacity at the highest operating point; the biggest kind of core has 1024.
    pub capacity: u32,
    /// Reason for an assumed capacity, if no source has any.
    pub capacity_assumed: Option<String>,
    /// Operating points, slowest first.
    pub points: Vec<Kilohertz>,
    /// Reason for assumed operating points, if no source has any.
    pub points_assumed: Option<String>,
    /// The highest clock without turbo.
    pub base: Option<Kilohertz>,
}

impl Machine {
    /// Splits the only cluster into one for each core type, in CPU order. Tasks start on the biggest core type. The
    /// old cluster's power per CPU stands for one thread of a big core, and each core's threads share the core's power
    /// anew. Small cores are assumed to draw a third. Turbo limits by active cores stay with the biggest type.
    ///
    /// # Errors
    /// There are several clusters, fewer than two core types or more than three, or the result is invalid. The
    /// machine then stays unchanged.
    pub fn split_cluster_by_core_kind(&mut self, kinds: &[CoreKind]) -> Result<(), MachineError> {
        let runs: Vec<_> = kinds.iter().map(|kind| kind.cpus).enumerate().collect();
        self.split_cluster_by_runs(kinds, &runs)
    }

    /// As [`Self::split_cluster_by_core_kind`], where CPUs of a kind need not follow each other. `runs`: the kind and the number of
    /// the CPUs that do, in the order of the CPUs; each is a cluster.
    ///
    /// # Errors
    /// As [`Self::split_cluster_by_core_kind`].
    pub fn split_cluster_by_runs(
        &mut self,
        kinds: &[CoreKind],
        runs: &[(usize, usize)],
    ) -> Result<(), MachineError> {
        if self.cluster.len() != 1 || !(2..=NAMES.len()).contains(&kinds.len()) {
            let message = "one cluster of two or three kinds of cores";
            return Err(MachineError::invalid_value(&self.name, "cluster", message));
        }
        if runs.iter().any(|(kind, _)| *kind >= kinds.len()) {
            let message = "CPUs of the kinds of cores that are given";
            return Err(MachineError::invalid_value(&self.name, "cluster", message));
        }
        let mut ranks: Vec<usize> = (0..kinds.len()).collect();
        ranks.sort_by_key(|kind| Reverse(kinds[*kind].capacity));
        let biggest = ranks[0];
        let mut split = self.clone();
        split.cluster.clear();
        let mut seen = vec![0; kinds.len()];
        for &(kind, cpus) in runs {
            let rank = ranks.iter().position(|ranked| *ranked == kind);
            let name = NAMES[rank.unwrap_or(0)];
            let run = CoreKind {
                cpus,
                ..kinds[kind].clone()
            };
            let mut cluster = cluster_for_core_kind(self, &run, name, kind != biggest);
            seen[kind] += 1;
            if seen[kind] > 1 {
                cluster.name = format!("{name}-{}", seen[kind]);
            }
            split.cluster.push(cluster);
        }
        let home = &mut split.scheduler.home;
        NAMES[0].clone_into(&mut home.cluster);
        "tasks start on the performance cores".clone_into(&mut home.assumed);
        // The machine's power limits apply to the package, hence to all its clusters together.
        if let Some(limit) = &mut split.power_limit {
            limit.clusters = split.cluster.len();
        }
        split.check()?;
        *self = split;
        Ok(())
    }
}

/// The cluster for a kind of core; `is_small`: not the biggest kind.
fn cluster_for_core_kind(
    machine: &Machine,
    kind: &CoreKind,
    name: &str,
    is_small: bool,
) -> Cluster {
    let like = &machine.cluster[0];
    let threads = kind.threads_per_core;
    let highest = kind.points.last().copied().unwrap_or_default();
    let [smt_speedup, smt_poll_loss] =
        [&like.smt_speedup, &like.smt_poll_loss].map(|figure| match threads {
            1 => Figure::default(),
            _ => figure.clone(),
        });
    let limits = like.turbo.iter().copied();
    let turbo = limits.filter(|limit| !is_small && limit.active_cores <= kind.cpus / threads);
    let own_power = machine.idle_state.iter().filter(|s| s.power_mw.is_given());
    let idle_state = own_power.map(|state| {
        let mut own = ClusterIdleState::without_overrides(&state.name, &like.source);
        own.power_mw = scale_power(&state.power_mw, 1.0, is_small);
        own.transition_mw = scale_power(&state.transition_mw, 1.0, is_small);
        own
    });
    Cluster {
        name: name.to_owned(),
        core: format!("{} ({name} cores)", like.core),
        cpus: kind.cpus,
        threads_per_core: threads,
        smt_speedup,
        smt_poll_loss,
        clock_cpus: None,
        capacity: kind.capacity.clamp(1, 1024),
        // The biggest kind of core has a capacity of 1024 by definition.
        capacity_assumed: kind.capacity_assumed.clone().filter(|_| is_small),
        base_mhz: match kind.base {
            Some(base) => Figure::covered_by_table_source(f64::from(base.0) / 1e3),
            None if !is_small && like.base_mhz.value * 1e3 <= f64::from(highest.0) => {
                like.base_mhz.clone()
            }
            None => Figure::default(),
        },
        turbo: turbo.collect(),
        opps: (kind.points.iter())
            .map(|point| Opp {
                khz: point.0,
                uv: 0,
            })
            .collect(),
        opps_assumed: kind.points_assumed.clone(),
        dynamic_power_uw_per_mhz_v2: scale_power(
            &like.dynamic_power_uw_per_mhz_v2,
            like.threads_per_core as f64 / threads as f64,
            is_small,
        ),
        static_mw: scale_power(&like.static_mw, 1.0, is_small),
        idle_state: if is_small {
            idle_state.collect()
        } else {
            Vec::new()
        },
        ..like.clone()
    }
}

/// A power multiplied by `factor`; for a small core also by [`SMALL_POWER`].
fn scale_power(figure: &Figure, factor: f64, is_small: bool) -> Figure {
    let mut scaled = figure.clone();
    scaled.value *= factor;
    if is_small && figure.is_given() {
        scaled.value *= SMALL_POWER;
        scaled.origin = Origin::Assumed(SMALL_POWER_WHY.to_owned());
    }
    scaled
}
