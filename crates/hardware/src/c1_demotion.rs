//! Demotion of deep idle states by the hardware, which watches how often a CPU wakes up.
//!
//! What Intel says of it: above a platform-specific rate of wake-ups, requests for C6 get C1, and a
//! CPU that stays in C1 long enough goes on to C6. The rates are not published.

use std::collections::VecDeque;

use crate::Machine;

/// The rule by which the hardware demotes deep idle states: which states, to which state, and when.
#[derive(Clone, Debug)]
pub struct DemotionRule {
    /// Index of the shallower state that is entered instead.
    pub to: usize,
    /// Whether each idle state is demoted, by index.
    demoted: Vec<bool>,
    wake_ups: usize,
    within: u64,
    undemote: u64,
}

impl DemotionRule {
    /// The demotion rule of `machine`; `None` if the hardware does not demote.
    pub fn for_machine(machine: &Machine) -> Option<Self> {
        let rule = machine.c1_demotion.as_ref()?;
        let states = &machine.idle_state;
        Some(Self {
            to: states.iter().position(|s| s.name == rule.to)?,
            demoted: states
                .iter()
                .map(|s| rule.states.contains(&s.name))
                .collect(),
            wake_ups: rule.wake_ups.value as usize,
            within: rule.within_us.micros_to_time().0,
            undemote: rule.undemote_us.micros_to_time().0,
        })
    }
}

/// Recent wake-ups of one CPU, as the hardware tracks them.
#[derive(Clone, Debug, Default)]
pub struct Demotion {
    /// Times of the CPU's last wake-ups in ns, oldest first.
    recent: VecDeque<u64>,
    /// Requests demoted.
    pub demotions: u64,
    /// Number of demoted requests that went on to the state asked for.
    pub undemotions: u64,
}

impl Demotion {
    /// Notes that the CPU asks for the idle state of index `state` at `now`, in ns. If the state is demoted: when, in
    /// ns, the CPU will go on to the state asked for (`u64::MAX`: never).
    pub fn demoted_until(&mut self, rule: &DemotionRule, now: u64, state: usize) -> Option<u64> {
        let often = self.recent.len() == rule.wake_ups
            && self
                .recent
                .front()
                .is_some_and(|oldest| now - oldest <= rule.within);
        if !often || !rule.demoted[state] {
            return None;
        }
        self.demotions += 1;
        Some(match rule.undemote {
            0 => u64::MAX,
            after => now + after,
        })
    }

    /// Notes that the CPU wakes up at `now`, in ns, for the rate of its wake-ups.
    pub fn note_wake_up(&mut self, rule: &DemotionRule, now: u64) {
        if self.recent.len() == rule.wake_ups {
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
        let rule = DemotionRule {
            to: 1,
            demoted: vec![false, false, true],
            wake_ups: 3,
            within: 100,
            undemote: 50,
        };
        let mut cpu = Demotion::default();
        for now in [10, 20] {
            cpu.note_wake_up(&rule, now);
            assert_eq!(cpu.demoted_until(&rule, now, 2), None);
        }
        cpu.note_wake_up(&rule, 110);
        assert_eq!(
            cpu.demoted_until(&rule, 110, 1),
            None,
            "it is shallow already"
        );
        assert_eq!(cpu.demoted_until(&rule, 110, 2), Some(160));
        assert_eq!(cpu.demoted_until(&rule, 111, 2), None);
        cpu.note_wake_up(&rule, 115);
        assert_eq!(cpu.demoted_until(&rule, 115, 2), Some(165));
        let never = DemotionRule {
            undemote: 0,
            ..rule
        };
        assert_eq!(cpu.demoted_until(&never, 115, 2), Some(u64::MAX));
        assert_eq!(cpu.demotions, 3);
    }
}
