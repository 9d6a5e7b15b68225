//! Power and energy of idle states.

use wakepath_hardware::machine::{Cluster, MachineIdleState, Opp};
use wakepath_units::{Microwatts, Nanoseconds};

/// Power of a CPU's idle states, shallowest first. A state without an entry draws nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdlePower {
    /// Each state.
    pub states: Vec<StatePower>,
}

/// Power of a CPU in an idle state and on its way in and out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StatePower {
    /// In the state.
    pub asleep: Microwatts,
    /// Power while the CPU enters or leaves the state.
    pub transition: Microwatts,
    /// Time to enter the state. A CPU that wakes up meanwhile waits for the end.
    pub entry: Nanoseconds,
    /// Time to leave the state.
    pub exit: Nanoseconds,
}

impl IdlePower {
    /// Idle power of a CPU in `cluster`, whose clock stands at `opp` while polling. `exit`: exit
    /// time of each state.
    pub fn for_cluster(
        cluster: &Cluster,
        opp: &Opp,
        states: &[MachineIdleState],
        exit: &[Nanoseconds],
    ) -> Self {
        let states = states.iter().zip(exit).map(|(state, exit)| StatePower {
            asleep: cluster.idle_power(state, opp),
            transition: cluster.transition_power(state),
            entry: state.true_entry_us.micros_to_time(),
            exit: *exit,
        });
        Self {
            states: states.collect(),
        }
    }
}

impl StatePower {
    /// Energy of an idle period in the state, the way in and out included, in fJ.
    #[inline(always)]
    pub fn idle_femtojoules(&self, idle: Nanoseconds) -> u128 {
        self.asleep.femtojoules_over(idle) + self.transition_femtojoules(idle)
    }

    /// Extra energy for entering and leaving the state, beyond residence in the state, in fJ.
    #[inline(always)]
    pub fn transition_femtojoules(&self, idle: Nanoseconds) -> u128 {
        let entering = self.entry.0.min(idle.0);
        let leaving = if idle < self.entry {
            self.entry.0 - idle.0
        } else {
            self.exit.0
        };
        let more = Microwatts(self.transition.0.saturating_sub(self.asleep.0));
        more.femtojoules_over(Nanoseconds(entering))
            + self.transition.femtojoules_over(Nanoseconds(leaving))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_in_and_out_takes_energy_of_its_own() {
        let state = StatePower {
            asleep: Microwatts(10),
            transition: Microwatts(100),
            entry: Nanoseconds(50),
            exit: Nanoseconds(200),
        };
        let energy = |idle| state.idle_femtojoules(Nanoseconds(idle));
        // Woken during entry, the CPU waits for the rest of the entry and has no exit.
        assert_eq!(energy(20), 20 * 100 + 30 * 100);
        assert_eq!(energy(50), 50 * 100 + 200 * 100);
        assert_eq!(energy(1050), 50 * 100 + 1000 * 10 + 200 * 100);
    }
}
