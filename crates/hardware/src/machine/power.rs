//! Power of CPUs, clusters, the uncore and the package.
//!
//! Machine power is the sum of
//! - for every CPU: [`Cluster::active_power`] when running, [`Cluster::idle_power`] when idle;
//! - for every cluster: [`Cluster::power_when_up`] while it is up, else [`Cluster::power_when_down`];
//! - for every cluster's uncore: [`Uncore::power_at_clock`] at its clock, while the package is not down;
//! - for the package: [`Package::idle_power`] always, and [`Package::active_power`] on top while it is
//!   not down. [`PackageSleep`] says when it is.
//!
//! The last part is why power is no sum over cores: on servers the first core out of deep idle
//! costs some 80 to 100 W, each further one next to nothing.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use wakepath_units::{Kilohertz, Microwatts, Nanoseconds};

use super::{Cluster, Figure, MachineIdleState, Opp};

/// Scope of power figures. Figures with different scopes are neither added nor compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum PowerScope {
    /// Processor packages, as counted by RAPL.
    #[default]
    Package,
    /// The board with memory and devices, behind the power supply.
    Board,
    /// The whole system at the wall, with fans and the losses of its power supply.
    Wall,
}

impl PowerScope {
    /// Name in files.
    pub const fn file_keyword(self) -> &'static str {
        match self {
            Self::Package => "package",
            Self::Board => "board",
            Self::Wall => "wall",
        }
    }

    /// In words.
    pub const fn description(self) -> &'static str {
        match self {
            Self::Package => "processor packages",
            Self::Board => "board",
            Self::Wall => "whole system at the wall",
        }
    }
}

/// Power that belongs to no CPU or cluster: memory, interconnect, fans, the rest of the board, as far as its scope goes.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Package {
    /// What the figures count: `package` (the processors, by RAPL), `board` or `wall` (the whole system). Watts of two
    /// scopes are not comparable. Absent: `package`.
    #[serde(default)]
    pub scope: PowerScope,
    /// Constant power: the total while every CPU is in the deepest state. Absent: 0.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub idle_mw: Figure,
    /// Additional power while the package is not down. Absent: 0.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub active_mw: Figure,
    /// How long every CPU has to be in its deepest state before the package begins to go down. Absent: 0.
    #[schemars(extend("unit" = "us", "maximum" = 1e6))]
    #[serde(default)]
    pub hysteresis_us: Figure,
    /// Power-down time. A CPU that wakes up meanwhile waits for the end. Absent: 0.
    #[schemars(extend("unit" = "us", "maximum" = 1e6))]
    #[serde(default)]
    pub entry_us: Figure,
    /// Power-up time, before the waking CPU begins to leave its own state. Absent: 0.
    #[schemars(extend("unit" = "us", "maximum" = 1e6))]
    #[serde(default)]
    pub exit_us: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

/// When the package goes down and comes up again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PackageSleep {
    /// See [`Package::hysteresis_us`].
    pub hysteresis: Nanoseconds,
    /// See [`Package::entry_us`].
    pub entry: Nanoseconds,
    /// See [`Package::exit_us`].
    pub exit: Nanoseconds,
}

impl PackageSleep {
    /// The time from when the last CPU enters its deepest state until the package is down.
    pub fn time_until_down(&self) -> Nanoseconds {
        Nanoseconds(self.hysteresis.0 + self.entry.0)
    }

    /// When the package is up again, if the last CPU entered its deepest state at `asleep` and one wakes up at `woken`:
    /// at once, unless it has begun to go down.
    pub fn power_up_time(&self, asleep: Nanoseconds, woken: Nanoseconds) -> Nanoseconds {
        if woken.0 <= asleep.0 + self.hysteresis.0 {
            return woken;
        }
        Nanoseconds(woken.0.max(asleep.0 + self.time_until_down().0) + self.exit.0)
    }
}

impl Package {
    /// When it goes down and comes up.
    pub fn sleep_times(&self) -> PackageSleep {
        PackageSleep {
            hysteresis: self.hysteresis_us.micros_to_time(),
            entry: self.entry_us.micros_to_time(),
            exit: self.exit_us.micros_to_time(),
        }
    }

    /// Power while every CPU is in the deepest state.
    pub fn idle_power(&self) -> Microwatts {
        self.idle_mw.milliwatts_to_power()
    }

    /// What is drawn besides while the package is not down.
    pub fn active_power(&self) -> Microwatts {
        self.active_mw.milliwatts_to_power()
    }
}

/// The interconnect and the last-level cache of each cluster, where they have a clock that follows the
/// CPUs: a ring on client processors, a mesh on servers.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Uncore {
    /// Lowest clock, above 0.
    #[schemars(extend("unit" = "MHz"))]
    pub min_mhz: Figure,
    /// Highest clock.
    #[schemars(extend("unit" = "MHz"))]
    pub max_mhz: Figure,
    /// How often the hardware chooses the clock.
    #[schemars(extend("unit" = "us", "minimum" = 1.0, "maximum" = 1e6))]
    pub slot_us: Figure,
    /// Voltage at the lowest clock.
    #[schemars(extend("unit" = "uV"))]
    pub lowest_uv: Figure,
    /// Voltage at the highest clock; in between it is linear in the clock.
    #[schemars(extend("unit" = "uV"))]
    pub highest_uv: Figure,
    /// Switching power of one cluster's uncore.
    #[schemars(extend("unit" = "uW/(MHz V²)"))]
    pub dynamic_power_uw_per_mhz_v2: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

impl Uncore {
    /// Its clock while the fastest CPU runs at `fastest`: as fast, within its limits.
    pub fn clock_within_limits(&self, fastest: Kilohertz) -> Kilohertz {
        let [lowest, highest] =
            [&self.min_mhz, &self.max_mhz].map(|mhz| (mhz.value * 1e3).round() as u32);
        Kilohertz(fastest.0.clamp(lowest, highest.max(lowest)))
    }

    /// Power of one cluster's uncore at a clock: coefficient x f x V^2.
    pub fn power_at_clock(&self, clock: Kilohertz) -> Microwatts {
        let mhz = f64::from(clock.0) / 1e3;
        let uv = interpolate_linearly(
            mhz,
            [self.min_mhz.value, self.max_mhz.value],
            [self.lowest_uv.value, self.highest_uv.value],
        );
        let volts = uv / 1e6;
        Microwatts((self.dynamic_power_uw_per_mhz_v2.value * mhz * volts * volts).round() as u64)
    }
}

/// The value at `at` on the line through (`from[0]`, `to[0]`) and (`from[1]`, `to[1]`).
fn interpolate_linearly(at: f64, from: [f64; 2], to: [f64; 2]) -> f64 {
    let range = from[1] - from[0];
    let along = if range > 0.0 {
        (at - from[0]) / range
    } else {
        1.0
    };
    to[0] + along * (to[1] - to[0])
}

impl MachineIdleState {
    /// Power of a CPU in this state; 0 without a figure. For a polling state see [`Cluster::idle_power`].
    pub fn own_power(&self) -> Microwatts {
        self.power_mw.milliwatts_to_power()
    }
}

impl Cluster {
    /// Supply voltage at an operating point in volts: its own, else on the line from the slowest
    /// to the fastest. `None` if neither is given.
    pub fn voltage_at(&self, opp: &Opp) -> Option<f64> {
        if opp.uv > 0 {
            return Some(f64::from(opp.uv) / 1e6);
        }
        if !self.lowest_uv.is_given() || !self.highest_uv.is_given() {
            return None;
        }
        let (slowest, fastest) = (self.opps.first()?.khz, self.opps.last()?.khz);
        let uv = interpolate_linearly(
            f64::from(opp.khz),
            [slowest, fastest].map(f64::from),
            [self.lowest_uv.value, self.highest_uv.value],
        );
        Some(uv / 1e6)
    }

    /// Power of a CPU that runs at an operating point: coefficient x f x V^2, and the static part.
    pub fn active_power(&self, opp: &Opp) -> Microwatts {
        let volts = self.voltage_at(opp).unwrap_or(0.0);
        let mhz = f64::from(opp.khz) / 1e3;
        let dynamic = self.dynamic_power_uw_per_mhz_v2.value * mhz * volts * volts;
        Microwatts((dynamic + self.static_mw.value * 1e3).round() as u64)
    }

    /// Power of a CPU in an idle state of this cluster. In a polling state the clock runs at `opp`; without an own
    /// figure, polling costs as much as running.
    pub fn idle_power(&self, state: &MachineIdleState, opp: &Opp) -> Microwatts {
        if state.polling && !state.power_mw.is_given() {
            self.active_power(opp)
        } else {
            state.own_power()
        }
    }

    /// Power of a CPU of this cluster while it enters or leaves an idle state. It is `transition_mw` of the state, or
    /// else the static part of a running CPU, and no less than in the state. Next to nothing of an exit is work, so
    /// the core is powered but hardly switches. On Sapphire Rapids 92 of 97 to 104 us do not depend on the core's
    /// clock. On an EPYC 7502 18 of 21 to 24 us do not (both measured at several clocks).
    pub fn transition_power(&self, state: &MachineIdleState) -> Microwatts {
        if state.transition_mw.is_given() {
            state.transition_mw.milliwatts_to_power()
        } else {
            self.static_mw.milliwatts_to_power().max(state.own_power())
        }
    }

    /// Cluster power besides the CPUs while up.
    pub fn power_when_up(&self) -> Microwatts {
        self.cluster_on_mw.milliwatts_to_power()
    }

    /// Cluster power in a cluster idle state.
    pub fn power_when_down(&self) -> Microwatts {
        self.cluster_off_mw.milliwatts_to_power()
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
            (c.active_power(&c.opps[opp]).0 - c.static_mw.milliwatts_to_power().0) as f64 / 1e3
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
        assert_eq!(c.voltage_at(&c.opps[1]), None);
        c.lowest_uv = Figure::covered_by_table_source(600_000.0);
        c.highest_uv = Figure::covered_by_table_source(1_000_000.0);
        let volts: Vec<_> = c.opps.iter().map(|o| c.voltage_at(o)).collect();
        assert_eq!(volts, [Some(0.6), Some(0.7), Some(0.7), Some(1.0)]);
    }

    #[test]
    fn a_package_comes_up_after_the_rest_of_its_way_down_and_its_exit() {
        let sleep = PackageSleep {
            hysteresis: Nanoseconds(100),
            entry: Nanoseconds(30),
            exit: Nanoseconds(40),
        };
        let woken = [1000, 1100, 1101, 1130, 1131, 5000];
        let up_at = woken.map(|at| sleep.power_up_time(Nanoseconds(1000), Nanoseconds(at)).0);
        assert_eq!(up_at, [1000, 1100, 1170, 1170, 1171, 5040]);
    }

    #[test]
    fn an_uncore_follows_the_fastest_cpu_within_its_limits() {
        let machine = Machine::find("skylake-2s-server").unwrap();
        let uncore = machine.uncore.unwrap();
        let clock = |mhz: u32| uncore.clock_within_limits(Kilohertz(mhz * 1000)).0 / 1000;
        assert_eq!(
            [1000, 1200, 2100, 3700].map(clock),
            [1200, 1200, 2100, 2400]
        );
        let watts = |mhz: u32| uncore.power_at_clock(Kilohertz(mhz * 1000)).0 as f64 / 1e6;
        // Half the clock, and a fifth less voltage.
        assert!((watts(1200) / watts(2400) - 0.5 * 0.8 * 0.8).abs() < 1e-6);
        assert_eq!(uncore.power_at_clock(Kilohertz(0)).0, 0);
    }

    #[test]
    fn polling_costs_what_running_costs_unless_the_state_says_otherwise() {
        let machine = Machine::find("rk3399").unwrap();
        let (c, mut state) = (&machine.cluster[1], machine.idle_state[0].clone());
        state.polling = true;
        state.power_mw = Figure::default();
        assert_eq!(c.idle_power(&state, &c.opps[3]), c.active_power(&c.opps[3]));
        state.power_mw = Figure::covered_by_table_source(1.5);
        assert_eq!(c.idle_power(&state, &c.opps[3]), Microwatts(1500));
    }
}
