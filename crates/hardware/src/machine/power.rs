//! Power of CPUs, clusters and the package.
//!
//! The power of a machine is the sum of
//! - for every CPU: [`Cluster::active_power`] while it runs, [`Cluster::idle_power`] while it idles;
//! - for every cluster: [`Cluster::on_power`] while it is up, else [`Cluster::off_power`];
//! - for the package: [`Package::idle_power`] always, and [`Package::active_power`] on top as soon
//!   as one CPU is not in its deepest state.
//!
//! The last part is why power is no sum over cores: on servers the first core out of deep idle
//! costs some 80 to 100 W, each further one next to nothing.

use serde::{Deserialize, Serialize};
use wakepath_units::Microwatts;

use super::{Cluster, Figure, MachineIdleState, Opp};

/// Power that belongs to no CPU or cluster: memory, interconnect, fans, the rest of the board.
#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// Drawn always; all of it while every CPU is in its deepest state.
    pub idle_mw: Figure,
    /// Drawn besides as soon as one CPU is not in its deepest state.
    #[serde(default)]
    pub active_mw: Figure,
    /// Source of the plain figures.
    pub source: String,
}

impl Package {
    /// What is drawn while every CPU is in its deepest state.
    pub fn idle_power(&self) -> Microwatts {
        self.idle_mw.milliwatts()
    }

    /// What is drawn besides as soon as one CPU is not in its deepest state.
    pub fn active_power(&self) -> Microwatts {
        self.active_mw.milliwatts()
    }
}

impl Figure {
    /// The figure as a power, its value being in milliwatts.
    pub fn milliwatts(&self) -> Microwatts {
        Microwatts((self.value * 1e3).round() as u64)
    }
}

impl MachineIdleState {
    /// Power of a CPU in this state, 0 if the file does not give it. For a polling state see
    /// [`Cluster::idle_power`].
    pub fn power(&self) -> Microwatts {
        self.power_mw.milliwatts()
    }
}

impl Cluster {
    /// Supply voltage at an operating point in volts: its own, else on the line from the slowest
    /// to the fastest. `None` if neither is given.
    pub fn volts(&self, opp: &Opp) -> Option<f64> {
        if opp.uv > 0 {
            return Some(f64::from(opp.uv) / 1e6);
        }
        if !self.lowest_uv.is_given() || !self.highest_uv.is_given() {
            return None;
        }
        let slowest = f64::from(self.opps.first()?.khz);
        let range = f64::from(self.opps.last()?.khz) - slowest;
        let along = if range > 0.0 {
            (f64::from(opp.khz) - slowest) / range
        } else {
            1.0
        };
        let uv = self.lowest_uv.value + along * (self.highest_uv.value - self.lowest_uv.value);
        Some(uv / 1e6)
    }

    /// Power of a CPU that runs at an operating point: coefficient x f x V^2, and the static part.
    pub fn active_power(&self, opp: &Opp) -> Microwatts {
        let volts = self.volts(opp).unwrap_or(0.0);
        let mhz = f64::from(opp.khz) / 1e3;
        let dynamic = self.dynamic_power_uw_per_mhz_v2.value * mhz * volts * volts;
        Microwatts((dynamic + self.static_mw.value * 1e3).round() as u64)
    }

    /// Power of a CPU of this cluster in an idle state. In a polling state the clock runs on, at
    /// `opp`; unless the state gives a power of its own, it costs what running costs.
    pub fn idle_power(&self, state: &MachineIdleState, opp: &Opp) -> Microwatts {
        if state.polling && !state.power_mw.is_given() {
            self.active_power(opp)
        } else {
            state.power()
        }
    }

    /// What the cluster draws besides its CPUs while it is up.
    pub fn on_power(&self) -> Microwatts {
        self.cluster_on_mw.milliwatts()
    }

    /// What the cluster draws while it is in a cluster idle state.
    pub fn off_power(&self) -> Microwatts {
        self.cluster_off_mw.milliwatts()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn rk3399_draws_what_its_device_tree_derives() {
        let machine = Machine::find("rk3399").unwrap();
        let dynamic = |cluster: usize, opp: usize| {
            let c = &machine.cluster[cluster];
            (c.active_power(&c.opps[opp]).0 - c.static_mw.milliwatts().0) as f64 / 1e3
        };
        // 100 uW/(MHz V^2) x 408 MHz x (0.825 V)^2, and so on.
        for (cluster, opp, milliwatts) in
            [(0, 0, 27.8), (0, 5, 179.2), (1, 0, 121.1), (1, 7, 1130.1)]
        {
            assert!(
                (dynamic(cluster, opp) - milliwatts).abs() < 0.06,
                "{cluster} {opp}"
            );
        }
    }

    #[test]
    fn voltage_is_linear_between_the_ends_unless_stated() {
        let mut c = Machine::find("rk3399").unwrap().cluster.remove(0);
        c.opps = [
            (1_000_000, 0),
            (2_000_000, 0),
            (3_000_000, 700_000),
            (5_000_000, 0),
        ]
        .map(|(khz, uv)| Opp { khz, uv })
        .to_vec();
        assert_eq!(c.volts(&c.opps[1]), None);
        c.lowest_uv = Figure::plain(600_000.0);
        c.highest_uv = Figure::plain(1_000_000.0);
        let volts: Vec<_> = c.opps.iter().map(|o| c.volts(o)).collect();
        assert_eq!(volts, [Some(0.6), Some(0.7), Some(0.7), Some(1.0)]);
    }

    #[test]
    fn polling_costs_what_running_costs_unless_the_state_says_otherwise() {
        let machine = Machine::find("rk3399").unwrap();
        let (c, mut state) = (&machine.cluster[1], machine.idle_state[0].clone());
        state.polling = true;
        state.power_mw = Figure::default();
        assert_eq!(c.idle_power(&state, &c.opps[3]), c.active_power(&c.opps[3]));
        state.power_mw = Figure::plain(1.5);
        assert_eq!(c.idle_power(&state, &c.opps[3]), Microwatts(1500));
    }
}
