//! Whether a machine's power is known, and machines whose power is not.

use super::{Figure, Machine};

/// Why an exit time is unknown: a guest's host decides. The declared latency stands in.
pub const EXIT_NOT_KNOWN: &str = "not known until measured: a halt goes to the host, which polls or sleeps as it likes; what the kernel declares stands in for it";

impl Machine {
    /// Whether the machine has power figures for CPUs or package. A drive's power alone does not count.
    pub fn has_cpu_or_package_power(&self) -> bool {
        let of_clusters = self.cluster.iter().flat_map(|cluster| {
            [
                &cluster.dynamic_power_uw_per_mhz_v2,
                &cluster.static_mw,
                &cluster.cluster_on_mw,
            ]
        });
        let of_states = self.idle_state.iter().map(|state| &state.power_mw);
        let package = self.package.iter();
        let of_package = package.flat_map(|package| [&package.idle_mw, &package.active_mw]);
        let mut all = of_clusters.chain(of_states).chain(of_package);
        all.any(|figure| figure.value > 0.0) || self.uncore.is_some()
    }

    /// Removes the power figures of CPUs and package; times stay. `why`: the reason for missing powers.
    pub fn remove_cpu_and_package_power(&mut self, why: &str) {
        for cluster in &mut self.cluster {
            for figure in [
                &mut cluster.dynamic_power_uw_per_mhz_v2,
                &mut cluster.static_mw,
                &mut cluster.cluster_on_mw,
                &mut cluster.cluster_off_mw,
                &mut cluster.lowest_uv,
                &mut cluster.highest_uv,
            ] {
                *figure = Figure::default();
            }
            for opp in &mut cluster.opps {
                opp.uv = 0;
            }
            for state in &mut cluster.idle_state {
                (state.power_mw, state.transition_mw) = <(Figure, Figure)>::default();
            }
        }
        for state in &mut self.idle_state {
            (state.power_mw, state.transition_mw) = <(Figure, Figure)>::default();
        }
        (self.uncore, self.power_limit, self.platform) = (None, None, None);
        if let Some(package) = &mut self.package {
            (package.idle_mw, package.active_mw) = <(Figure, Figure)>::default();
        }
        self.no_power = Some(why.to_owned());
    }
}
