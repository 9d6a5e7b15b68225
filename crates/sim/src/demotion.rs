//! Demotion of deep idle states by the hardware, which watches how often a CPU wakes up.
//!
//! What Intel says of it: above a platform-specific rate of wake-ups, requests for C6 get C1, and a
//! CPU that stays in C1 long enough goes on to C6. The rates are not published.

use std::collections::VecDeque;

use wakepath_hardware::Machine;

use crate::cpu::NEVER;

/// When which state is demoted to which.
#[derive(Clone, Debug)]
pub(crate) struct DemotionSetup {
    /// The state entered instead.
    pub(crate) to: usize,
    /// Whether each state is demoted.
    demoted: Vec<bool>,
    wake_ups: usize,
    within: u64,
    undemote: u64,
}

impl DemotionSetup {
    pub(crate) fn new(machine: &Machine) -> Option<Self> {
        let of = machine.c1_demotion.as_ref()?;
        let states = &machine.idle_state;
        Some(Self {
            to: states.iter().position(|s| s.name == of.to)?,
            demoted: states.iter().map(|s| of.states.contains(&s.name)).collect(),
            wake_ups: of.wake_ups.value as usize,
            within: of.within_us.micros().0,
            undemote: of.undemote_us.micros().0,
        })
    }
}

/// What the hardware knows of one CPU.
#[derive(Clone, Debug, Default)]
pub(crate) struct Demotion {
    /// The last wake-ups, oldest first.
    recent: VecDeque<u64>,
    /// Requests demoted, and those of them that went on to the state asked for.
    pub(crate) demotions: u64,
    pub(crate) undemotions: u64,
}

impl Demotion {
    /// The CPU asks for `state`. If that is demoted: when it will go on to what it asked for.
    pub(crate) fn demote(&mut self, setup: &DemotionSetup, now: u64, state: usize) -> Option<u64> {
        let often = self.recent.len() == setup.wake_ups
            && self
                .recent
                .front()
                .is_some_and(|oldest| now - oldest <= setup.within);
        if !often || !setup.demoted[state] {
            return None;
        }
        self.demotions += 1;
        Some(match setup.undemote {
            0 => NEVER,
            after => now + after,
        })
    }

    pub(crate) fn wake_up(&mut self, setup: &DemotionSetup, now: u64) {
        if self.recent.len() == setup.wake_ups {
            self.recent.pop_front();
        }
        self.recent.push_back(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cpu_that_wakes_up_often_is_demoted_and_one_that_rests_is_not() {
        let setup = DemotionSetup {
            to: 1,
            demoted: vec![false, false, true],
            wake_ups: 3,
            within: 100,
            undemote: 50,
        };
        let mut cpu = Demotion::default();
        for now in [10, 20] {
            cpu.wake_up(&setup, now);
            assert_eq!(cpu.demote(&setup, now, 2), None);
        }
        cpu.wake_up(&setup, 110);
        assert_eq!(cpu.demote(&setup, 110, 1), None, "it is shallow already");
        assert_eq!(cpu.demote(&setup, 110, 2), Some(160));
        assert_eq!(cpu.demote(&setup, 111, 2), None);
        cpu.wake_up(&setup, 115);
        assert_eq!(cpu.demote(&setup, 115, 2), Some(165));
        let never = DemotionSetup {
            undemote: 0,
            ..setup
        };
        assert_eq!(cpu.demote(&never, 115, 2), Some(NEVER));
        assert_eq!(cpu.demotions, 3);
    }
}
