//! Frequency policies, clocks and what the hardware makes of them.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Background, Figure, Runs, builtin_machine_names};
use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::{Kind, MECHANISMS};
use wakepath_sim::observer::Observer;
use wakepath_sim::{Run, SimError, simulate, simulate_observed};
use wakepath_units::{Kilohertz, Nanoseconds};
use wakepath_workloads::Workload;
use wakepath_workloads::{fio, rtapp};

const CLIENT: &str = "xeon-e3-1240v5";
const SERVER: &str = "skylake-2s-server";

/// Requests with next to no CPU work in between, and the other way round.
const READS: &str = "rw=randread\nruntime=1s\n";
const BUSY: &str = "rw=randread\nruntime=1s\nthinkcycles=100000000\n";
/// Bursts of work, in which the frequency goes up.
const BURSTS: &str = "rw=randread\nruntime=5s\nthinkcycles=40000000\nthinktime=100ms\n";

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

fn run_on(machine: &Machine, lines: &str, freq: &str) -> Run {
    let policies = PolicySet::from_names(["menu", freq]).unwrap();
    simulate(machine, &job(lines), &policies, 1).unwrap()
}

fn run(machine: &str, lines: &str, freq: &str) -> Run {
    run_on(&Machine::find(machine).unwrap(), lines, freq)
}

/// The board with a task on each CPU once a second. An idle CPU that only serves interrupts has no tick, so cpufreq looks at its
/// utilisation when a task has run there.
fn board_with_a_task_on_each_cpu() -> Machine {
    let mut machine = Machine::find("rk3399").unwrap();
    let worker = Background {
        every_ms: Figure::covered_by_table_source(1000.0),
        periodic: false,
        kcycles: Figure::covered_by_table_source(20.0),
        ..Background::stock_kernel_work().swap_remove(0)
    };
    machine
        .background
        .retain(|work| work.runs == Runs::Interrupt);
    machine.background.insert(0, worker);
    machine
}

/// Mean frequency in MHz at which tasks ran.
fn mhz(machine: &str, lines: &str, freq: &str) -> f64 {
    run(machine, lines, freq).mean_mhz
}

#[test]
fn each_core_has_the_clock_that_its_machine_gives_it() {
    let server = run(SERVER, BUSY, "schedutil");
    assert_eq!(server.clocks.len(), 52);
    assert!(server.clocks.iter().all(|c| c.cpus == 2));
    // One core works. The others' clocks do not follow it.
    let fast: Vec<_> = server
        .clocks
        .iter()
        .filter(|c| c.mean_mhz > 2000.0)
        .collect();
    assert_eq!(fast.len(), 1, "{fast:?}");
    let client = run(CLIENT, BUSY, "schedutil");
    assert_eq!(client.clocks.len(), 1);
    assert_eq!(client.clocks[0].cpus, 8);
}

#[test]
fn a_clock_for_the_whole_cluster_is_what_a_cluster_has_by_default() {
    let default = Machine::find("rk3399").unwrap();
    let mut stated = default.clone();
    for cluster in &mut stated.cluster {
        cluster.clock_cpus = Some(cluster.cpus);
    }
    let text = |machine| serde_json::to_string(&run_on(machine, READS, "schedutil")).unwrap();
    assert_eq!(text(&default), text(&stated));
}

#[test]
fn residency_at_the_frequencies_is_the_time_powered() {
    for (machine, freq) in [(CLIENT, "intel_pstate-hwp"), (SERVER, "schedutil")] {
        let run = run(machine, READS, freq);
        for clock in &run.clocks {
            let at: f64 = clock.residency.iter().map(|r| r.seconds).sum();
            let cpus = &run.cpus[clock.first_cpu..clock.first_cpu + clock.cpus];
            let powered: f64 = cpus.iter().map(|c| c.powered_seconds).sum();
            assert!((at - powered).abs() < 1e-9, "{at} {powered}");
        }
    }
}

#[test]
fn hwp_leaves_a_cpu_slow_that_mostly_waits_and_the_boost_raises_it() {
    let base = mhz(CLIENT, READS, "intel_pstate-hwp");
    let boost = mhz(CLIENT, READS, "intel_pstate-hwp[hwp_dynamic_boost=on]");
    assert!(base < 1000.0, "{base}");
    assert!(boost > 3400.0, "{boost}");
    assert!(mhz(CLIENT, READS, "intel_pstate-hwp[epp=0]") > 3700.0);
}

#[test]
fn the_boost_does_nothing_for_a_task_that_does_not_wait_as_iowait() {
    let lines = "rw=randread\nruntime=1s\nioengine=libaio\n";
    let base = run(CLIENT, lines, "intel_pstate-hwp");
    let boost = run(CLIENT, lines, "intel_pstate-hwp[hwp_dynamic_boost=on]");
    assert!((base.mean_mhz - boost.mean_mhz).abs() < 1e-9);
}

#[test]
fn hwp_takes_its_time_to_the_highest_frequency() {
    let time_below_turbo = |freq| {
        let run = run(CLIENT, BUSY, freq);
        let busiest = run.clocks[0].residency.iter().filter(|r| r.mhz < 3600.0);
        busiest.map(|r| r.seconds).sum::<f64>() * 1e3
    };
    let balanced = time_below_turbo("intel_pstate-hwp");
    assert!((4.0..7.0).contains(&balanced), "{balanced} ms");
    assert!(time_below_turbo("intel_pstate-hwp[epp=power]") > 1.5 * balanced);
    assert!(time_below_turbo("intel_pstate-hwp[epp=performance]") < 1.2);
}

#[test]
fn turbo_depends_on_how_many_cores_are_active() {
    let busy = |jobs| mhz(CLIENT, &format!("{BUSY}numjobs={jobs}\n"), "performance");
    // Now and then another core serves an interrupt.
    assert!((3850.0..=3900.0).contains(&busy(1)), "{}", busy(1));
    assert!((3590.0..=3610.0).contains(&busy(8)), "{}", busy(8));
    assert!(busy(4) <= busy(1));
}

#[test]
fn without_turbo_no_clock_is_above_the_base_clock() {
    let machine = Machine::find(CLIENT).unwrap();
    let base = machine.cluster[0].base_mhz.value;
    let run = |set: &[&str]| {
        let policies = PolicySet::from_names(set.iter().copied()).unwrap();
        simulate(&machine, &job(BUSY), &policies, 1).unwrap()
    };
    for driver in [
        "performance",
        "intel_pstate",
        "intel_pstate-hwp[epp=performance]",
    ] {
        let [on, off] = ["on", "off"]
            .map(|turbo| run(&["menu", driver, &format!("turbo[value={turbo}]")]).mean_mhz);
        assert!(on > base + 50.0, "{driver}: {on}");
        assert!(off <= base + 1e-6 && off > base - 300.0, "{driver}: {off}");
    }
    // A lower limit that was asked for stays.
    let lower = run(&[
        "menu",
        "performance",
        "turbo[value=off]",
        "frequency[max=2000MHz]",
    ]);
    assert!(lower.mean_mhz <= 2000.0, "{}", lower.mean_mhz);
    let board = Machine::find("rk3399").unwrap();
    let set = PolicySet::from_names(["menu", "schedutil", "turbo[value=off]"]).unwrap();
    let refused = simulate(&board, &job(BUSY), &set, 1)
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("base_mhz") && refused.contains("turbo"),
        "{refused}"
    );
}

#[test]
fn intel_pstate_boosts_tasks_that_wait_for_io() {
    let on = mhz(CLIENT, READS, "intel_pstate");
    let off = mhz(CLIENT, READS, "intel_pstate[iowait_boost=off]");
    assert!(on > off + 1000.0, "{on} {off}");
    assert!(mhz(CLIENT, BUSY, "intel_pstate") > 3400.0);
}

#[test]
fn ondemand_follows_the_busy_share() {
    let highest = |f: f64| f > 1700.0;
    assert!(highest(mhz("rk3399", BUSY, "ondemand")));
    assert!(!highest(mhz("rk3399", READS, "ondemand")));
}

#[test]
fn a_change_of_frequency_stops_the_cpu_for_a_while() {
    let with_stall = |us: f64| {
        let mut machine = Machine::find("rk3399").unwrap();
        for cluster in &mut machine.cluster {
            cluster.clock_stall_us = Figure::covered_by_table_source(us);
        }
        run_on(&machine, BURSTS, "schedutil")
    };
    let (none, long) = (with_stall(0.0), with_stall(2000.0));
    assert!(none.clocks.iter().map(|c| c.changes).sum::<u64>() > 10);
    let busy =
        |run: &Run| run.cpus.iter().map(|c| c.busy_seconds).sum::<f64>() / run.requests as f64;
    assert!(
        busy(&long) > busy(&none) + 0.001,
        "{} {}",
        busy(&long),
        busy(&none)
    );
}

#[test]
fn requests_are_taken_up_in_the_hardwares_slots() {
    let mean = |slot_us: f64| {
        let mut machine = Machine::find("rk3399").unwrap();
        for cluster in &mut machine.cluster {
            cluster.clock_slot_us = Figure::covered_by_table_source(slot_us);
        }
        run_on(&machine, BUSY, "schedutil").mean_mhz
    };
    // The task only ever wants more.
    let (soon, late) = (mean(1.0), mean(20_000.0));
    assert!(late < soon - 5.0, "{late} {soon}");
}

#[test]
fn a_machine_without_hwp_says_so() {
    let policies = PolicySet::from_names(["menu", "intel_pstate-hwp[epp=power]"]).unwrap();
    let machine = Machine::find("rk3399").unwrap();
    let error = simulate(&machine, &job(READS), &policies, 1)
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("'little'") && error.contains("base_mhz"),
        "{error}"
    );
}

#[test]
fn many_cpus_with_little_to_do_leave_their_common_clock_low() {
    let machine = Machine::find(CLIENT).unwrap();
    let mhz = |threads: u32| {
        let text = format!(
            "{{ \"tasks\": {{ \"t\": {{ \"instance\": {threads}, \"run\": 50, \"sleep\": 1150 }} }}, \"global\": {{ \"duration\": 1 }} }}"
        );
        let file = rtapp::parse(&text, "test.json").unwrap();
        let policies = PolicySet::from_names(["menu", "intel_pstate-hwp"]).unwrap();
        simulate(&machine, &file.into(), &policies, 1)
            .unwrap()
            .mean_mhz
    };
    // Somebody is busy in nearly every slot with eight of them, but nobody for long.
    assert!(mhz(1) < 1000.0 && mhz(8) < 1000.0, "{} {}", mhz(1), mhz(8));
}

#[test]
fn completions_raise_the_frequency_where_the_kernel_counts_interrupt_time() {
    let deep = "rw=randread\nioengine=libaio\niodepth=32\nruntime=1s\n";
    // Its completions interrupt a CPU of the little cluster, where hardly anything else runs.
    let mut machine = board_with_a_task_on_each_cpu();
    let mut mean_mhz = |irq_time_accounting| {
        machine.irq_time_accounting = Figure::covered_by_table_source(irq_time_accounting);
        let run = run_on(&machine, deep, "schedutil[iowait_boost=off]");
        run.clocks[0].mean_mhz
    };
    let (as_busy_time, as_run_time) = (mean_mhz(1.0), mean_mhz(0.0));
    assert!(
        as_busy_time > 1.2 * as_run_time,
        "{as_busy_time} {as_run_time}"
    );
    assert!(as_run_time < 420.0, "{as_run_time}");
}

#[test]
fn a_set_says_how_the_kernel_is_configured() {
    let deep = job("rw=randread\nioengine=libaio\niodepth=32\nruntime=300ms\n");
    let on = |hz: f64, irq_time: f64, set: &str| {
        let mut machine = board_with_a_task_on_each_cpu();
        machine.hz = Figure::covered_by_table_source(hz);
        machine.irq_time_accounting = Figure::covered_by_table_source(irq_time);
        let run = simulate(&machine, &deep, &set.parse().unwrap(), 1).unwrap();
        (run.iops.to_bits(), run.clocks[0].mean_mhz.to_bits())
    };
    let plain = on(250.0, 1.0, "menu");
    for (set, hz, irq_time) in [
        ("menu + kernel-config[hz=1000]", 1000.0, 1.0),
        ("menu + kernel-config[irq_time=off]", 250.0, 0.0),
        ("menu + kernel-config[hz=1000,irq_time=off]", 1000.0, 0.0),
    ] {
        let asked = on(250.0, 1.0, set);
        assert_eq!(asked, on(hz, irq_time, "menu"), "{set}");
        assert_ne!(asked, plain, "{set}");
    }
}

#[test]
fn nothing_in_hackbench_is_boosted_and_no_hook_costs_a_tenth() {
    let machine = Machine::find("xeon-e3-1240v5").unwrap();
    let text = include_str!("../../../../workloads/hackbench-like.json");
    let workload = rtapp::parse(text, "hackbench-like.json").unwrap().into();
    let policies =
        PolicySet::from_names(["menu@6.1", "intel_pstate-hwp[hwp_dynamic_boost=on]"]).unwrap();
    let run = simulate(&machine, &workload, &policies, 1).unwrap();
    let boosts = || run.clocks.iter().filter_map(|c| c.hwp_boost);
    assert_eq!(boosts().map(|b| b.raises).sum::<u64>(), 0);
    // The driver's hook is called when a signal crosses a period, and as often again as a task comes to a CPU
    // and leaves another one. For a tenth of the throughput a call would have to take microseconds.
    let calls =
        boosts().map(|b| b.calls).sum::<u64>() + 2 * run.threads.as_ref().unwrap().migrations;
    let busy: f64 = run.cpus.iter().map(|c| c.busy_seconds).sum();
    let us = 0.1 * busy / calls as f64 * 1e6;
    println!("{calls} calls, {busy} s busy: a call would have to take {us} us");
    assert!(calls > 0 && us > 1.0, "{us}");
}

/// The frequency of each clock at the end of a run.
#[derive(Default)]
struct LastFrequencies(Vec<Kilohertz>);

impl Observer for LastFrequencies {
    fn clock_frequency_changed(&mut self, _now: Nanoseconds, clock: usize, frequency: Kilohertz) {
        self.0.resize(self.0.len().max(clock + 1), Kilohertz(0));
        self.0[clock] = frequency;
    }
}

/// A thread for each of these CPUs that never sleeps.
fn busy_on(cpus: std::ops::Range<usize>) -> Workload {
    let threads: Vec<String> = cpus
        .map(|cpu| format!("\"t{cpu}\": {{ \"cpus\": [{cpu}], \"run\": 100000 }}"))
        .collect();
    let text = format!(
        "{{ \"tasks\": {{ {} }}, \"global\": {{ \"duration\": 1 }} }}",
        threads.join(", ")
    );
    rtapp::parse(&text, "busy.json").unwrap().into()
}

/// The clocks at the end of a run with these CPUs busy all the time; `None` where the machine cannot have the policy.
fn clocks(machine: &Machine, busy: usize, idle: &str, freq: &str) -> Option<Vec<Kilohertz>> {
    let mut last = LastFrequencies::default();
    let policies = PolicySet::from_names([idle, freq]).unwrap();
    match simulate_observed(machine, &busy_on(0..busy), &policies, 1, &mut last) {
        Err(SimError::NoClock { .. }) => None,
        run => run.map(|_| Some(last.0)).unwrap(),
    }
}

#[test]
fn the_clock_of_busy_cpus_does_not_depend_on_which_idle_states_there_are() {
    let mut freqs: Vec<&str> = MECHANISMS
        .iter()
        .filter(|policy| policy.kind == Kind::Frequency)
        .map(|policy| policy.name)
        .collect();
    freqs.extend([
        "intel_pstate-hwp[hwp_dynamic_boost=on]",
        "intel_pstate-hwp[epp=power]",
    ]);
    let mut simulated = 0;
    for name in builtin_machine_names() {
        let machine = Machine::find(name).unwrap();
        let states = machine.idle_state.len();
        for freq in &freqs {
            let run_with_states = |only: std::ops::Range<usize>, idle: &str| {
                let mut machine = machine.clone();
                for (index, state) in machine.idle_state.iter_mut().enumerate() {
                    state.disabled = !only.contains(&index);
                }
                clocks(&machine, machine.cpus(), idle, freq)
            };
            let Some(all) = run_with_states(0..states, "menu") else {
                continue;
            };
            simulated += 1;
            assert_eq!(
                run_with_states(0..states, "shallowest").as_ref(),
                Some(&all),
                "{name} {freq}"
            );
            for state in 0..states {
                let only = run_with_states(state..state + 1, "menu");
                assert_eq!(
                    only.as_ref(),
                    Some(&all),
                    "{name} {freq}, state {state} alone"
                );
            }
        }
    }
    assert!(simulated > 30, "{simulated}");
}

#[test]
fn polling_cores_count_as_active_for_turbo_limits() {
    let machine = Machine::find(CLIENT).unwrap();
    let mhz = |idle| clocks(&machine, 1, idle, "performance").unwrap()[0].0 / 1000;
    let limits = &machine.cluster[0].turbo;
    let (one, all) = (limits[0].khz / 1000, limits.last().unwrap().khz / 1000);
    assert!(one > all);
    assert_eq!((mhz("deepest"), mhz("shallowest")), (one, all));
}

/// An EPP between 64 and 255 once changed nothing for a task that mostly waits for I/O.
#[test]
fn a_preference_for_power_never_draws_more_for_the_same_io() {
    // Four reads in flight and some work: about the share from which EPP 128 gives the highest clock.
    let deep = "rw=randread\nruntime=200ms\nioengine=libaio\niodepth=4\nthinkcycles=20000\n";
    let run_with_preference = |machine: &Machine, lines: &str, epp: u32| {
        let run = run_on(machine, lines, &format!("intel_pstate-hwp[epp={epp}]"));
        (run.energy.unwrap().mean_mw, run.mean_mhz, run.iops)
    };
    for (machine, lines) in [(CLIENT, READS), ("spr1", READS), (SERVER, deep)] {
        let mut described = Machine::find(machine).unwrap();
        if machine == "spr1" {
            // With EPP 0 and 32 the uncore is at its highest clock, so the slower CPU saves 20 mW of 585 W. A few choices of C6
            // more or less, in which the package sleeps, change the power by as much.
            described.idle_state.last_mut().unwrap().disabled = true;
        }
        let rows =
            [0, 32, 64, 96, 128, 192, 255].map(|epp| run_with_preference(&described, lines, epp));
        for pair in rows.windows(2) {
            // The last digits are chance: other CPUs serve interrupts at other times.
            assert!(pair[1].0 <= pair[0].0 * 1.005, "{machine}: {rows:?}");
        }
        let [first, .., default, _, last] = rows;
        assert!(default.2 < first.2, "{machine}: {rows:?}");
        if lines == READS {
            let slower = |w: &[(f64, f64, f64)]| w[1].1 < w[0].1 - 100.0 && w[1].0 < w[0].0;
            assert!(rows[..5].windows(2).all(slower), "{machine}: {rows:?}");
        } else {
            assert!(last.0 < 0.8 * default.0, "{machine}: {rows:?}");
        }
    }
    // Beyond the default a busy task is kept out of turbo.
    let client = Machine::find(CLIENT).unwrap();
    let full = |epp: u32| run_with_preference(&client, BUSY, epp).1;
    assert!(full(128) > full(192) && full(192) > full(255) && full(255) < 3510.0);
}

/// The lowest and the highest frequency in MHz at which a clock of the machine was.
fn range_of_clocks(machine: &str, policies: &[&str]) -> [f64; 2] {
    let machine = Machine::find(machine).unwrap();
    let set = PolicySet::from_names(policies.iter().copied()).unwrap();
    let run = simulate(&machine, &job(BURSTS), &set, 1).unwrap();
    let clocks = run.clocks.iter();
    let all = clocks.flat_map(|clock| clock.residency.iter().filter(|time| time.seconds > 0.0));
    all.fold([f64::INFINITY, 0.0], |[low, high], time| {
        let mhz = time.mhz;
        [low.min(mhz), high.max(mhz)]
    })
}

/// Of each policy the whole range, and the ranges under an upper and under a lower limit of 2,050 MHz. Drivers with levels of
/// 100 MHz round down.
#[test]
fn every_frequency_policy_keeps_within_limits() {
    for (machine, freq) in [
        (SERVER, "schedutil"),
        (SERVER, "ondemand"),
        (SERVER, "performance"),
        (SERVER, "powersave"),
        (CLIENT, "intel_pstate"),
        (CLIENT, "intel_pstate-hwp"),
        (CLIENT, "performance"),
        ("ryzen-8840u", "amd-pstate"),
        ("ryzen-8840u", "amd-pstate[governor=powersave]"),
        ("ryzen-8840u", "amd-pstate[mode=passive,governor=schedutil]"),
    ] {
        let range = |limits: &[&str]| range_of_clocks(machine, &[&["menu", freq], limits].concat());
        let [low, high] = range(&[]);
        let below = range(&["frequency[max=2050MHz]"]);
        assert!(
            below[1] <= 2050.0 && below[0] >= low.min(2000.0),
            "{freq}: {below:?}"
        );
        let above = range(&["frequency[min=2050MHz]"]);
        assert!(
            above[0] >= 2000.0 && above[1] <= high.max(2100.0),
            "{freq}: {above:?}"
        );
        let fixed = range(&["frequency[min=2050MHz,max=2050MHz]"]);
        assert!(fixed[0] >= 2000.0, "{freq}: {fixed:?}");
        assert!(fixed[1] - fixed[0] <= 100.0, "{freq}: {fixed:?}");
    }
}

#[test]
fn limits_that_allow_everything_change_nothing() {
    for (machine, freq) in [
        (SERVER, "schedutil"),
        (SERVER, "ondemand"),
        (CLIENT, "intel_pstate"),
        (CLIENT, "intel_pstate-hwp"),
        ("ryzen-8840u", "amd-pstate"),
    ] {
        let machine = Machine::find(machine).unwrap();
        let text = |limits: &[&str]| {
            let set = PolicySet::from_names([&["menu", freq], limits].concat()).unwrap();
            serde_json::to_string(&simulate(&machine, &job(READS), &set, 1).unwrap()).unwrap()
        };
        assert_eq!(text(&[]), text(&["frequency[max=90GHz]"]), "{freq}");
    }
}

#[test]
fn a_lower_limit_makes_requests_faster_and_an_upper_one_slower() {
    let latency = |limits: &[&str]| {
        let machine = Machine::find("rk3399").unwrap();
        let set = PolicySet::from_names([&["menu", "schedutil"], limits].concat()).unwrap();
        simulate(&machine, &job(READS), &set, 1)
            .unwrap()
            .latency_us
            .mean
    };
    let plain = latency(&[]);
    assert!(latency(&["frequency[min=1200MHz]"]) < plain);
    assert!(latency(&["frequency[max=600MHz]"]) > plain);
}
