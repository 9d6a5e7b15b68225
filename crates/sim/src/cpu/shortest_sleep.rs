//! How long fio finds that its shortest sleep takes.

use wakepath_policies::idle::kernel::{IdleCall, poll_limit};
use wakepath_policies::idle::{IdleGovernor, IdleOutcome};
use wakepath_units::TickRate;

use crate::cpu::idle_table::IdleTable;

/// How often fio sleeps to find out (`fio_time_init()`, fio 3.33).
const SLEEPS: u64 = 10;

/// Time between two of these sleeps in ns: two readings of the clock.
const BETWEEN: u64 = 10_000;

/// The longest of these sleeps in ns, each of `asked` ns with the timer's slack, on a CPU whose governor begins anew.
///
/// A governor that chooses deep states, or comes to them as ladder does, makes fio spin for longer at the end of each pause.
pub(crate) fn shortest_sleep(
    asked: u64,
    table: &IdleTable,
    governor: &mut impl IdleGovernor,
    latency_request: i64,
    tick: TickRate,
) -> u64 {
    let mut longest = asked;
    let mut now = tick.period().0;
    for _ in 0..SLEEPS {
        let timer = now + asked;
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
            let choice = call.choose(&call.query(), &table.declared, governor, None);
            let state = &table.states[choice.state];
            let end = if state.polling {
                timer.min(now + poll_limit(governor, table.poll_limit).0.max(1))
            } else {
                timer + state.exit
            };
            let outcome = IdleOutcome::of_period(now, end, false, end < timer);
            governor.reflect(choice.state, &outcome);
            longest = longest.max(asked + end.saturating_sub(timer));
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

    #[test]
    fn ladder_comes_to_the_deepest_state_within_ten_sleeps() {
        let machine = Machine::find("rk3399-depth").unwrap();
        let table = IdleTable::new(&machine, &machine.cluster[0], None).unwrap();
        let longest = |policy: &str| {
            let set: PolicySet = policy.parse().unwrap();
            let policy: IdlePolicy = set.idle().unwrap();
            let tick = machine.tick_rate();
            let mut governor = Governor::in_kernel(&policy, &table.declared, tick);
            shortest_sleep(51_000, &table, &mut governor, NO_LATENCY_REQUEST, tick)
        };
        let exit = |state: usize| table.states[state].exit;
        assert_eq!(longest("menu@6.12"), 51_000 + exit(0));
        // Four sleeps in each state take it to the next one.
        assert_eq!(longest("ladder"), 51_000 + exit(2));
    }
}
