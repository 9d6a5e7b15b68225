//! Power limits of a package: what they hold, and that they change nothing where they do not bind.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, PowerLimit};
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio;

/// Windows of PL1 and PL2, short enough for short runs.
const WINDOW_MS: [f64; 2] = [100.0, 5.0];

/// A client processor with four cores of two threads, and these limits in watts.
fn machine(limits: Option<[f64; 2]>) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.power_limit = limits.map(|[pl1, pl2]| PowerLimit {
        pl1_mw: Figure::covered_by_table_source(pl1 * 1e3),
        pl1_window_ms: Figure::covered_by_table_source(WINDOW_MS[0]),
        pl2_mw: Figure::covered_by_table_source(pl2 * 1e3),
        pl2_window_ms: Figure::covered_by_table_source(WINDOW_MS[1]),
        clusters: 1,
        source: "a test".to_owned(),
    });
    machine
}

/// So many processes, each of which computes for a while after each read.
fn run(machine: &Machine, policies: &str, processes: u32, more: &str) -> Run {
    let text = format!(
        "[j]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\ntime_based\nthinkcycles=2000000\nnumjobs={processes}\n{more}"
    );
    let job = fio::parse(&text, "test.fio").unwrap();
    simulate(
        machine,
        &job.into(),
        &policies.parse::<PolicySet>().unwrap(),
        1,
    )
    .unwrap()
}

/// What counts towards the limits, in joules.
fn joules(machine: &Machine, run: &Run) -> f64 {
    let energy = run.energy.as_ref().unwrap();
    let rest = machine.package.as_ref().map_or(0.0, |p| p.idle_mw.value) * run.seconds;
    let drives: f64 = energy.drives_mj.iter().sum();
    (energy.total_mj - drives - rest) / 1e3
}

#[test]
fn a_limit_that_does_not_bind_changes_nothing() {
    for policies in [
        "menu + intel_pstate-hwp",
        "shallowest + performance",
        "teo + schedutil",
    ] {
        for more in ["runtime=300ms", "runtime=300ms\nthinktime=3ms"] {
            let free = run(&machine(None), policies, 3, more);
            // A limit that never could bind, and one that only what was drawn shows not to.
            let watts = joules(&machine(None), &free) / free.seconds;
            for limits in [[900.0, 999.0], [2.0 * watts, 2.2 * watts]] {
                let mut limited = run(&machine(Some(limits)), policies, 3, more);
                let energy = limited.energy.as_mut().unwrap();
                assert_eq!(energy.power_limited_percent, Some(0.0));
                energy.power_limited_percent = None;
                let text = |run: &Run| serde_json::to_value(run).unwrap();
                let (free, mut limited) = (text(&free), text(&limited));
                // More events are handled, for the slots of clocks that would have none.
                limited["events"] = free["events"].clone();
                assert_eq!(free, limited, "{policies} {more}");
            }
        }
    }
}

#[test]
fn a_busy_package_comes_down_from_pl2_to_pl1() {
    let free = machine(None);
    let run_for = |machine: &Machine, ms: u32| {
        let run = run(machine, "menu + performance", 8, &format!("runtime={ms}ms"));
        (run.seconds, joules(machine, &run), run)
    };
    let watts = {
        let (seconds, joules, _) = run_for(&free, 1000);
        joules / seconds
    };
    let [pl1, pl2] = [0.6 * watts, 0.8 * watts];
    let limited = machine(Some([pl1, pl2]));
    let runs: Vec<_> = (1..=10).map(|n| run_for(&limited, n * 100)).collect();
    // A burst of 100 ms x ln(PL2 / (PL2 - PL1)) = 139 ms.
    let (seconds, joules, _) = &runs[0];
    let first = joules / seconds;
    assert!((first / pl2 - 1.0).abs() < 0.05, "{first} {pl2}");
    // From then on, over any stretch of the window's length and of others, no more than PL1.
    for (i, (from, before, _)) in runs.iter().enumerate().skip(2) {
        for (to, after, run) in &runs[i + 1..] {
            let mean = (after - before) / (to - from);
            assert!(
                mean < 1.01 * pl1 && mean > 0.9 * pl1,
                "{from} {to}: {mean} {pl1}"
            );
            let share = run.energy.as_ref().unwrap().power_limited_percent.unwrap();
            assert!(share > 70.0, "{share}");
        }
    }
    assert!(runs[9].2.mean_mhz < 0.9 * run_for(&free, 1000).2.mean_mhz);
}

#[test]
fn cores_that_sleep_leave_their_power_to_those_that_run() {
    let limits = Some([22.0, 25.0]);
    let mhz = |policies: &str| run(&machine(limits), policies, 2, "runtime=1").mean_mhz;
    let (asleep, polling) = (mhz("menu + performance"), mhz("shallowest + performance"));
    assert!(asleep > 1.1 * polling, "{asleep} {polling}");
    // A limit that cannot be held is exceeded at the lowest clock.
    let low = run(
        &machine(Some([0.1, 0.1])),
        "shallowest + performance",
        8,
        "runtime=1",
    );
    assert!(low.mean_mhz < 1000.0, "{}", low.mean_mhz);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Over any time from the start a package draws at most PL1 times that time and PL1 times its window, and at most PL2 and
    /// what PL2's window allows; from then on at most PL1 if it stays busy.
    #[test]
    fn no_run_draws_more_than_its_limits(
        pl1 in 8.0..60.0_f64,
        turbo in 1.0..2.0_f64,
        processes in 1_u32..12,
        pause_us in prop_oneof![Just(0_u32), 1_u32..20_000],
        ms in 20_u32..500,
        policies in proptest::sample::select(&[
            "menu + performance",
            "teo + intel_pstate-hwp",
            "shallowest + schedutil",
            "menu + intel_pstate",
        ][..]),
    ) {
        let machine = machine(Some([pl1, pl1 * turbo]));
        let more = format!("thinktime={pause_us}\nruntime={ms}ms");
        let lowest = run(&machine_at_lowest(), policies, processes, &more);
        let run = run(&machine, policies, processes, &more);
        let drawn = joules(&machine, &run);
        for (watts, window) in [pl1, pl1 * turbo].into_iter().zip(WINDOW_MS) {
            // What cannot be held at the lowest clock is exceeded, and a slot that begins with a wake-up draws more.
            let floor = joules(&machine, &lowest) / lowest.seconds;
            let most = watts.max(floor) * (run.seconds + window / 1e3) * 1.02 + 0.1;
            prop_assert!(drawn <= most, "{drawn} J in {} s, at most {most}", run.seconds);
        }
    }
}

/// The processor at the lowest clock that it has.
fn machine_at_lowest() -> Machine {
    machine(Some([0.01, 0.01]))
}
