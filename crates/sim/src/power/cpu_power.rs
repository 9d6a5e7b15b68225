//! A CPU's energy: time in each state times the state's power.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, Scope};
use wakepath_units::{Microwatts, Nanoseconds};

use crate::cpu::idle_table::deepest_state_without_cluster;
use crate::cpu::totals::CpuTotals;

/// A cluster's powers per CPU.
#[derive(Clone, Debug)]
pub(crate) struct CpuPower {
    /// Power while running, by operating point.
    pub(super) running: Vec<Microwatts>,
    /// Powers by idle state.
    states: Vec<StatePower>,
}

#[derive(Clone, Debug)]
struct StatePower {
    asleep: Microwatts,
    /// Power of a CPU in a cluster state that waits for the other CPUs.
    waiting: Option<Microwatts>,
    transition: Microwatts,
    /// Power while polling, by operating point, where different from running.
    polling: Option<Microwatts>,
}

/// Energy in femtojoules, apart for time that depends on the clock and other time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drawn {
    /// Energy while the clock ran at full power, and that time, in ns.
    pub(super) clocked: u128,
    pub(super) clocked_time: u64,
    /// Energy otherwise: asleep, on the way in and out, polling in a state with a separate power.
    pub(super) besides: u128,
}

impl Drawn {
    pub(super) fn add_energy(&mut self, other: Self) {
        self.clocked += other.clocked;
        self.clocked_time += other.clocked_time;
        self.besides += other.besides;
    }

    pub(crate) fn total_fj(&self) -> u128 {
        self.clocked + self.besides
    }
}

fn femtojoules(power: Microwatts, time: u64) -> u128 {
    power.femtojoules_over(Nanoseconds(time))
}

impl CpuPower {
    pub(crate) fn new(machine: &Machine, cluster: &Cluster) -> Self {
        let idle_states = machine.idle_states_of(cluster);
        let alone =
            deepest_state_without_cluster(&idle_states).map(|index| idle_states[index].own_power());
        let states = idle_states.iter().map(|state| StatePower {
            asleep: state.own_power(),
            waiting: (state.scope == Scope::Cluster).then(|| alone.unwrap_or(state.own_power())),
            transition: cluster.transition_power(state),
            polling: (!state.polling || state.power_mw.is_given()).then(|| state.own_power()),
        });
        Self {
            running: cluster
                .opps
                .iter()
                .map(|opp| cluster.active_power(opp))
                .collect(),
            states: states.collect(),
        }
    }

    /// A CPU's highest power while it runs nothing: asleep, entering or leaving a state, polling.
    pub(crate) fn highest_power_while_not_running(&self) -> Microwatts {
        let all = self.states.iter().flat_map(|state| {
            let [waiting, polling] = [state.waiting, state.polling].map(Option::unwrap_or_default);
            [state.asleep, state.transition, waiting, polling]
        });
        all.max().unwrap_or_default()
    }

    /// Energy that a CPU with these totals has drawn.
    pub(crate) fn energy_drawn(&self, cpu: &CpuTotals) -> Drawn {
        let mut running = cpu.powered_time_by_opp().to_vec();
        let mut besides = 0;
        for (index, (state, stats)) in self.states.iter().zip(cpu.states()).enumerate() {
            // The clock runs on while the CPU polls, but the polling state may have a lower power than running.
            if let Some(power) = state.polling {
                for (time, running) in cpu.polling_time_by_opp(index).iter().zip(&mut running) {
                    *running -= time;
                    besides += femtojoules(power, *time);
                }
            }
            // While the CPU leaves a state, the clock hardly does anything.
            for (time, running) in cpu.leaving_time_by_opp(index).iter().zip(&mut running) {
                *running -= time;
                besides += femtojoules(state.transition, *time);
            }
            let more = state.transition.0.saturating_sub(state.asleep.0);
            besides += femtojoules(Microwatts(more), stats.time_entering_state());
            besides += match state.waiting {
                None => femtojoules(state.asleep, stats.time_asleep()),
                Some(waiting) => {
                    femtojoules(state.asleep, stats.time_with_cluster_down())
                        + femtojoules(
                            waiting,
                            stats.time_asleep() - stats.time_with_cluster_down(),
                        )
                }
            };
        }
        let of_point = running.iter().zip(&self.running);
        Drawn {
            clocked: of_point
                .map(|(time, power)| femtojoules(*power, *time))
                .sum(),
            clocked_time: running.iter().sum(),
            besides,
        }
    }
}
