//! What a CPU has drawn: its time in each state times the power of that state.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Cluster, Scope};
use wakepath_units::{Microwatts, Nanoseconds};

use crate::cpu::idle_table::deepest_alone;
use crate::cpu::totals::CpuTotals;

/// The powers of a CPU of a cluster.
#[derive(Clone, Debug)]
pub(crate) struct CpuPower {
    /// By operating point.
    pub(super) running: Vec<Microwatts>,
    /// By idle state.
    states: Vec<StatePower>,
}

#[derive(Clone, Debug)]
struct StatePower {
    asleep: Microwatts,
    /// Of a CPU in a state of the whole cluster that waits for the others.
    waiting: Option<Microwatts>,
    transition: Microwatts,
    /// Of one that polls, by operating point, where that is not what running costs.
    polling: Option<Microwatts>,
}

/// Energy in femtojoules.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Drawn {
    /// While its clock ran at full power, and for how long that was, in ns.
    pub(super) clocked: u128,
    pub(super) clocked_time: u64,
    /// Otherwise: asleep, on the way in and out, polling in a state with a power of its own.
    pub(super) besides: u128,
}

impl Drawn {
    pub(super) fn add(&mut self, other: Self) {
        self.clocked += other.clocked;
        self.clocked_time += other.clocked_time;
        self.besides += other.besides;
    }

    pub(crate) fn total(&self) -> u128 {
        self.clocked + self.besides
    }
}

impl CpuPower {
    pub(crate) fn new(machine: &Machine, cluster: &Cluster) -> Self {
        let idle_states = machine.idle_states_of(cluster);
        let alone = deepest_alone(&idle_states).map(|index| idle_states[index].power());
        let states = idle_states.iter().map(|state| StatePower {
            asleep: state.power(),
            waiting: (state.scope == Scope::Cluster).then(|| alone.unwrap_or(state.power())),
            transition: cluster.transition_power(state),
            polling: (!state.polling || state.power_mw.is_given()).then(|| state.power()),
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

    /// The most that it can draw while it does not run.
    pub(crate) fn most_when_idle(&self) -> Microwatts {
        let all = self.states.iter().flat_map(|state| {
            let or_less = |power: Option<Microwatts>| power.unwrap_or_default();
            let [waiting, polling] = [state.waiting, state.polling].map(or_less);
            [state.asleep, state.transition, waiting, polling]
        });
        all.max().unwrap_or_default()
    }

    /// What the CPU has drawn, up to when its times are settled.
    pub(crate) fn drawn(&self, cpu: &CpuTotals) -> Drawn {
        let over = |power: Microwatts, time: u64| power.femtojoules_over(Nanoseconds(time));
        let mut running = cpu.powered().to_vec();
        let mut besides = 0;
        for (index, (state, stats)) in self.states.iter().zip(cpu.states()).enumerate() {
            // Its clock runs on while it polls, but a state may say that it draws less than running.
            if let Some(power) = state.polling {
                for (time, running) in cpu.polled_in(index).iter().zip(&mut running) {
                    *running -= time;
                    besides += over(power, *time);
                }
            }
            // While it leaves a state its clock hardly does anything.
            for (time, running) in cpu.leaving_of(index).iter().zip(&mut running) {
                *running -= time;
                besides += over(state.transition, *time);
            }
            let more = state.transition.0.saturating_sub(state.asleep.0);
            besides += over(Microwatts(more), stats.entering());
            besides += match state.waiting {
                None => over(state.asleep, stats.asleep()),
                Some(waiting) => {
                    over(state.asleep, stats.down()) + over(waiting, stats.asleep() - stats.down())
                }
            };
        }
        let of_point = running.iter().zip(&self.running);
        Drawn {
            clocked: of_point.map(|(time, power)| over(*power, *time)).sum(),
            clocked_time: running.iter().sum(),
            besides,
        }
    }
}
