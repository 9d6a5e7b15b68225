//! How fio estimates the shortest possible sleep before its jobs start.

use wakepath_policies::idle::kernel::{IdleCall, own_poll_limit_or};
use wakepath_policies::idle::{IdleGovernor, IdleOutcome};
use wakepath_units::TickRate;

use crate::cpu::idle_table::IdleTable;

/// Number of trial sleeps by which fio estimates the shortest sleep (`fio_time_init()`, fio 3.33).
const SLEEPS: u64 = 10;

/// Time between two of fio's trial sleeps, in ns: two readings of the clock.
const BETWEEN: u64 = 10_000;

/// The longest of fio's trial sleeps in ns, each of `asked_ns` ns with the timer's slack, on a CPU with a fresh governor.
///
/// A governor choosing deep states, at once or in steps as ladder does, makes fio spin for longer at each pause's end.
pub(crate) fn longest_trial_sleep(
    asked_ns: u64,
    table: &IdleTable,
    governor: &mut impl IdleGovernor,
    latency_request: i64,
    tick: TickRate,
) -> u64 {
    let mut longest = asked_ns;
    let mut now = tick.period().0;
    for _ in 0..SLEEPS {
        let timer = now + asked_ns;
        while now < timer {
            let call = IdleCall {
                now,
                next_timer: (timer - now) as i64,
                tick_stopped: false,
                after_tick: false,
                tick: (now + 1).next_multiple_of(tick.period().0),
                keeps_tick: false,
                latency_request,
                nr_iowait: 0,
                true_idle: timer - now,
                package_saving: 0,
            };
            let choice = call.ask_governor(&call.governor_query(), &table.declared, governor, None);
            let state = &table.states[choice.state];
            let end = if state.polling {
                timer.min(now + own_poll_limit_or(governor, table.poll_limit).0.max(1))
            } else {
                timer + state.exit
            };
            let outcome = IdleOutcome::for_period(now, end, false, end < timer);
            governor.reflect(choice.state, &outcome);
            longest = longest.max(asked_ns + end.saturating_sub(timer));
            now = end;
        }
        now += BETWEEN;
    }
    longest
}

#[cfg(test)]
mod tests {
    use wakepath_hardware::Machine;
    use wakepath_policies::PolicySet;
    use wakepath_policies::idle::fit::NO_LATENCY_REQUEST;
    use wakepath_policies::idle::{Governor, IdlePolicy};

    use super::*;

    fn longest_sleep(table: &IdleTable, policy: &str, tick: TickRate) -> u64 {
        let set: PolicySet = policy.parse().unwrap();
        let idle: IdlePolicy = set.idle().unwrap();
        let mut governor = Governor::new_or_only_state(&idle, &table.declared, tick);
        longest_trial_sleep(51_000, table, &mut governor, NO_LATENCY_REQUEST, tick)
    }

    #[test]
    fn ladder_comes_to_the_deepest_state_within_ten_sleeps() {
        let machine = Machine::find("rk3399-depth").unwrap();
        let table = IdleTable::new(&machine, &machine.cluster[0], None).unwrap();
        let tick = machine.tick_rate();
        let exits: Vec<u64> = table.states.iter().map(|state| state.exit).collect();
        assert_eq!(longest_sleep(&table, "menu@6.12", tick), 51_000 + exits[0]);
        // Four sleeps in each state lead to the next one.
        assert_eq!(longest_sleep(&table, "ladder", tick), 51_000 + exits[2]);
    }
}
