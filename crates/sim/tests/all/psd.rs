//! Leases by the rules of the patch, the module and the daemon, in whole runs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_policies::idle::{IdleDecision, IdleQuery};
use wakepath_sim::observer::{Activity, InterruptKind, Observer};
use wakepath_sim::simulate_observed;
use wakepath_units::Nanoseconds;
use wakepath_workloads::fio;

const MS: u64 = 1_000_000;
/// Of the leases here.
const TIMEOUT: u64 = 4 * MS;

/// Idle states that a CPU chose: when, and which.
type Choices = Vec<(u64, usize)>;

/// What each CPU does: completions that it has served, and idle states that it chose.
#[derive(Default)]
struct Watcher {
    serving: Vec<bool>,
    completions: Vec<Vec<u64>>,
    choices: Vec<Choices>,
}

impl Watcher {
    fn grow(&mut self, cpu: usize) {
        let cpus = self.serving.len().max(cpu + 1);
        self.serving.resize(cpus, false);
        self.completions.resize(cpus, Vec::new());
        self.choices.resize(cpus, Vec::new());
    }
}

impl Observer for Watcher {
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        self.grow(cpu);
        let serves = matches!(activity, Activity::Interrupt(InterruptKind::Completion(_)));
        if std::mem::replace(&mut self.serving[cpu], serves) && !serves {
            self.completions[cpu].push(now.0);
        }
    }

    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, decision: IdleDecision) {
        self.grow(cpu);
        self.choices[cpu].push((query.clock, decision.state));
    }
}

/// Bursts of 20 reads, 50 ms apart; what the CPUs with completions did.
fn run(psd: &str) -> Vec<(Vec<u64>, Choices)> {
    let machine = Machine::find("skylake-2s-server").unwrap();
    let job = "[j]\nfilename=/dev/nvme0n1\nrw=randread\nbs=4k\ndirect=1\ntime_based\nruntime=1\n\
               thinktime=50000\nthinktime_blocks=20\n";
    let workload = fio::parse(job, "test.fio").unwrap().into();
    let policies = format!("deepest + performance + {psd}").parse().unwrap();
    let mut watcher = Watcher::default();
    simulate_observed(&machine, &workload, &policies, 1, &mut watcher).unwrap();
    let cpus = watcher.completions.into_iter().zip(watcher.choices);
    cpus.filter(|(completions, _)| completions.len() > 100)
        .collect()
}

/// The deepest state of the machine.
const C6: usize = 3;

/// After each burst, how long it took until the CPU chose C6 again, in ns.
fn deep_again(completions: &[u64], choices: &[(u64, usize)]) -> Vec<u64> {
    let ends = completions
        .windows(2)
        .filter(|pair| pair[1] - pair[0] > 20 * MS);
    ends.filter_map(|pair| {
        let deep = choices
            .iter()
            .find(|(at, state)| *at >= pair[0] && *at < pair[1] && *state == C6)?;
        Some(deep.0 - pair[0])
    })
    .collect()
}

#[test]
fn each_rule_keeps_a_cpu_up_as_long_as_it_says() {
    // Interrupts are served one after the other.
    const LATE: u64 = MS / 5;
    for (rule, shortest, longest) in [
        ("module", TIMEOUT, TIMEOUT),
        ("daemon", TIMEOUT, TIMEOUT + TIMEOUT / 2),
    ] {
        let psd = format!("psd[timeout=4ms,ceiling=C1E,rule={rule},start_after=1]");
        let cpus = run(&psd);
        assert!(!cpus.is_empty(), "{rule}");
        for (completions, choices) in cpus {
            let again = deep_again(&completions, &choices);
            assert!(again.len() >= 10, "{rule}: {again:?}");
            for time in again {
                assert!(
                    (shortest - LATE..longest + LATE).contains(&time),
                    "{rule}: the CPU sleeps deeply {time} ns after the last I/O"
                );
            }
        }
    }
}

#[test]
fn the_second_io_of_a_burst_begins_the_lease_where_that_is_asked_for() {
    // The states chosen after the first I/O of each burst, and after the second.
    let chosen = |start_after: u32| {
        let psd = format!("psd[timeout=4ms,ceiling=C1E,rule=daemon,start_after={start_after}]");
        let (completions, choices) = run(&psd).remove(0);
        let after = |io: u64| choices.iter().find(|(at, _)| *at > io).unwrap().1;
        let bursts = completions
            .windows(3)
            .filter(|ios| ios[1] - ios[0] > 20 * MS);
        bursts
            .map(|ios| (after(ios[1]), after(ios[2])))
            .collect::<Vec<_>>()
    };
    let lasting = |chosen: Vec<(usize, usize)>| {
        assert!(chosen.len() >= 10);
        let first = chosen[0];
        assert!(chosen.iter().all(|states| *states == first), "{chosen:?}");
        first
    };
    assert_eq!(lasting(chosen(1)), (C6 - 1, C6 - 1));
    assert_eq!(lasting(chosen(2)), (C6, C6 - 1));
}
