//! What hardware does by itself: queues, coalescing, demotion, exits that vary, states switched off.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{C1Demotion, Cluster, Figure, Scope};
use wakepath_policies::PolicySet;
use wakepath_sim::{CpuTime, Run, simulate};
use wakepath_workloads::Workload;
use wakepath_workloads::{fio, rtapp};

use crate::server::sum_of_parts;

fn combination(idle: &str, psd: Option<&str>) -> PolicySet {
    PolicySet::from_names([idle, "performance"].into_iter().chain(psd)).unwrap()
}

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\ndirect=1\ntime_based\nruntime=200ms\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

const READS: &str = "rw=randread\nbs=4k\n";

/// One drive, one queue per CPU, no demotion, nothing in the background.
fn quiet_server() -> Machine {
    let mut machine = Machine::find("xeon-6741p").unwrap();
    machine.c1_demotion = None;
    machine.background.clear();
    machine.drive.count = 1;
    machine.io_path.completion.queues = None;
    machine
}

fn run(machine: &Machine, lines: &str, idle: &str) -> Run {
    simulate(machine, &job(lines), &combination(idle, None), 1).unwrap()
}

#[test]
fn fewer_queues_than_cpus_complete_elsewhere() {
    let mut machine = quiet_server();
    let all = format!("{READS}numjobs=96");
    assert!(run(&machine, &all, "shallowest").same_cpu_share > 0.999_999);
    machine.io_path.completion.queues = Some(48);
    let half = run(&machine, &all, "shallowest").same_cpu_share;
    assert!((0.49..0.51).contains(&half), "{half}");
    machine.io_path.completion.queues = Some(1);
    let one = run(&machine, &all, "shallowest").same_cpu_share;
    // The task of the CPU that has all interrupts moves away from it.
    assert!(one < 0.012, "{one}");
    machine.io_path.completion.queues = None;
    machine.io_path.completion.same_cpu_share = Figure::covered_by_table_source(0.87);
    let share = run(&machine, &all, "shallowest").same_cpu_share;
    assert!((0.86..0.88).contains(&share), "{share}");
}

#[test]
fn a_lease_is_granted_to_the_cpu_that_completes() {
    let mut machine = quiet_server();
    machine.io_path.completion.cpu = Some(50);
    let workload = job(READS);
    let poll = |psd| {
        let run = simulate(&machine, &workload, &combination("deepest", Some(psd)), 1).unwrap();
        run.cpus
            .iter()
            .map(|c| c.idle_seconds[0] > 0.1)
            .collect::<Vec<_>>()
    };
    let only = |cpu: usize| (0..96).map(|c| c == cpu).collect::<Vec<_>>();
    assert_eq!(poll("psd[grant=completion]"), only(50));
    assert_eq!(poll("psd[grant=issue]"), only(0));
    let both = poll("psd[grant=both]");
    assert_eq!(both.iter().filter(|polls| **polls).count(), 2);
    // The ceiling decides what it gets instead.
    let psd = combination("deepest", Some("psd[ceiling=state:2]"));
    let run = simulate(&machine, &workload, &psd, 1).unwrap();
    assert!(run.cpus[50].idle_seconds[2] > 0.1 && run.cpus[50].idle_seconds[0] == 0.0);
}

#[test]
fn a_queue_that_coalesces_keeps_completions_back() {
    let mut machine = quiet_server();
    let plain = run(&machine, READS, "shallowest").attribution.mean;
    let completion = &mut machine.io_path.completion;
    completion.coalesce = Figure::covered_by_table_source(4.0);
    completion.coalesce_us = Figure::covered_by_table_source(100.0);
    // One at a time: the threshold is never reached.
    let alone = run(&machine, READS, "shallowest").attribution.mean;
    let waited = alone.interrupt_delivery - plain.interrupt_delivery;
    assert!((99.9..100.1).contains(&waited), "{waited}");
    // Eight at once: four wait for the slowest of them only.
    let deep = run(
        &machine,
        &format!("{READS}ioengine=libaio\niodepth=8"),
        "shallowest",
    );
    let waited = deep.attribution.mean.interrupt_delivery - plain.interrupt_delivery;
    assert!((1.0..60.0).contains(&waited), "{waited}");
}

#[test]
fn the_exits_of_a_state_vary_around_their_mean() {
    let mut machine = quiet_server();
    let state = machine.idle_state.last_mut().unwrap();
    state.exit_spread.value = 0.0;
    let fixed = run(&machine, READS, "deepest");
    machine.idle_state.last_mut().unwrap().exit_spread.value = 0.5;
    let varied = run(&machine, READS, "deepest");
    let (a, b) = (
        fixed.attribution.mean.idle_exit,
        varied.attribution.mean.idle_exit,
    );
    assert!((b / a - 1.0).abs() < 0.05, "{a} {b}");
    assert!(varied.latency_us.p99 > fixed.latency_us.p99 + 100.0);
    // The drive's numbers are the same ones.
    let mean_service = |run: &Run| run.attribution.mean.drive_service;
    assert!((mean_service(&fixed) - mean_service(&varied)).abs() < 0.5);
}

/// To C1, upon four wake-ups in that time; 0: never undemoted.
fn demotion(within_us: f64, undemote_us: f64) -> C1Demotion {
    C1Demotion {
        to: "C1".into(),
        states: vec!["C6".into(), "C6P".into()],
        wake_ups: Figure::covered_by_table_source(4.0),
        within_us: Figure::covered_by_table_source(within_us),
        undemote_us: Figure::covered_by_table_source(undemote_us),
        source: "test".into(),
    }
}

#[test]
fn hardware_demotes_a_cpu_that_wakes_up_often_and_the_kernel_does_not_notice() {
    let mut machine = quiet_server();
    let asked = run(&machine, READS, "deepest");
    machine.c1_demotion = Some(demotion(2000.0, 0.0));
    let demoted = run(&machine, READS, "deepest");
    assert!(asked.attribution.mean.idle_exit > 120.0, "{asked:?}");
    assert!(demoted.attribution.mean.idle_exit < 3.0);
    // Counted as what was asked for.
    assert!(demoted.cpus[0].idle_seconds[4] > 0.15);
    assert!(demoted.cpus[0].demotions > 1000);
    assert_eq!(demoted.cpus[0].undemotions, 0);
    // But drawing what C1 draws.
    let cpu0 = |run: &Run| run.energy.as_ref().unwrap().cpus_mj[0];
    let mut free = machine.clone();
    for state in &mut free.idle_state[3..] {
        state.power_mw.value = 0.0;
    }
    let same = cpu0(&run(&free, READS, "deepest")) / cpu0(&demoted);
    assert!((0.99..=1.0).contains(&same), "{same}");
    free.idle_state[1].power_mw.value = 0.0;
    assert!(cpu0(&run(&free, READS, "deepest")) < 0.7 * cpu0(&demoted));
    let demotion = machine.c1_demotion.as_mut().unwrap();
    demotion.undemote_us = Figure::covered_by_table_source(20.0);
    let undemoted = run(&machine, READS, "deepest");
    assert!(undemoted.cpus[0].undemotions > 0);
    assert!(undemoted.attribution.mean.idle_exit > 100.0);
    // A rate that it does not reach.
    machine.c1_demotion.as_mut().unwrap().within_us = Figure::covered_by_table_source(100.0);
    assert_eq!(run(&machine, READS, "deepest").cpus[0].demotions, 0);
}

#[test]
fn a_state_that_is_off_is_not_entered() {
    let mut machine = quiet_server();
    machine
        .disable_idle_states_everywhere(&["C6", "C6P"])
        .unwrap();
    for idle in ["menu", "teo", "deepest", "ladder", "haltpoll"] {
        let run = run(&machine, READS, idle);
        assert!(
            run.idle_states[3..].iter().all(|s| s.entries == 0),
            "{idle}"
        );
        assert_eq!(run.cpus.iter().map(|c| c.idle_seconds.len()).max(), Some(5));
    }
    let energy = |machine: &Machine| run(machine, READS, "deepest").energy.unwrap();
    assert!(energy(&machine).idle_mw > energy(&quiet_server()).idle_mw + 96.0 * 450.0);
    let unknown = machine
        .disable_idle_states_everywhere(&["C7"])
        .unwrap_err()
        .to_string();
    assert!(
        unknown.contains("'C7'") && unknown.contains("POLL, C1, C1E"),
        "{unknown}"
    );
    assert!(
        machine
            .disable_idle_states_everywhere(&["POLL", "C1", "C1E"])
            .is_err()
    );
}

#[test]
fn a_clock_that_changes_does_not_keep_sleepers_demoted() {
    let mut machine = quiet_server();
    machine.c1_demotion = Some(demotion(20_000.0, 20.0));
    // Two hardware threads of a core have one clock, and sleep for longer than that.
    let workload = job(&format!("{READS}numjobs=96\nthinktime=1000\n"));
    let undemoted = |policy: &str| {
        let combination = PolicySet::from_names(["deepest", policy]).unwrap();
        let run = simulate(&machine, &workload, &combination, 1).unwrap();
        let sum = |count: fn(&CpuTime) -> u64| run.cpus.iter().map(count).sum::<u64>();
        sum(|c| c.undemotions) as f64 / sum(|c| c.demotions) as f64
    };
    let (still, changing) = (undemoted("performance"), undemoted("schedutil"));
    assert!(changing > 0.95 * still, "{changing}, {still}");
}

#[test]
fn a_polling_cpu_draws_what_its_state_says() {
    let mut machine = Machine::find("epyc-7502").unwrap();
    machine.background.clear();
    let cluster = &machine.cluster[0];
    let active = |opp: usize| cluster.cpu_active_power(&cluster.opps[opp]).0 as f64 / 1e3;
    let full = active(cluster.opps.len() - 1);
    let mj = |run: &Run, cpu: usize| run.energy.as_ref().unwrap().cpus_mj[cpu];
    let of_own = run(&machine, READS, "shallowest");
    for cpu in [0, 1, 100] {
        let CpuTime {
            idle_seconds,
            powered_seconds,
            ..
        } = &of_own.cpus[cpu];
        let polled = idle_seconds[0];
        let wanted = 192.0 * polled + full * (powered_seconds - polled);
        assert!((mj(&of_own, cpu) - wanted).abs() < 1e-6, "{cpu}: {wanted}");
    }
    // Nothing but polling.
    assert!((mj(&of_own, 100) - 192.0 * of_own.seconds).abs() < 0.01);
    // Without a figure of its own it is running, at whichever frequency.
    let mut as_running = machine.clone();
    as_running.idle_state[0].power_mw = Figure::default();
    for policy in ["performance", "schedutil"] {
        let combination = PolicySet::from_names(["shallowest", policy]).unwrap();
        let run = simulate(&as_running, &job(READS), &combination, 1).unwrap();
        let clock = &run.clocks[0];
        let of_clock: f64 = (0..clock.cpus).map(|cpu| mj(&run, cpu)).sum();
        let at = |mhz: f64| {
            let same = |khz: u32| (f64::from(khz) / 1e3 - mhz).abs() < 1e-9;
            active(cluster.opps.iter().position(|o| same(o.khz)).unwrap())
        };
        let wanted: f64 = (clock.residency.iter())
            .map(|r| at(r.mhz) * r.seconds)
            .sum();
        assert!(
            (of_clock - wanted).abs() < 1e-6,
            "{policy}: {of_clock} {wanted}"
        );
    }
}

#[test]
fn a_cpu_draws_a_cluster_states_power_only_while_its_cluster_is_down() {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    let states: Vec<_> = (machine.idle_state.iter_mut())
        .map(|s| {
            // Of the CPU's own: retention and power-off.
            s.power_mw = Figure::covered_by_table_source(match s.name.as_str() {
                "WFI" => 10.0,
                "cpu-sleep" => 5.0,
                _ => 1.0,
            });
            s.name.clone()
        })
        .collect();
    assert_eq!(states, ["WFI", "cpu-sleep", "cluster-sleep"]);
    // So that the energy of a cluster says how long it was up.
    for cluster in &mut machine.cluster {
        cluster.cluster_on_mw = Figure::covered_by_table_source(1.0);
        cluster.cluster_off_mw = Figure::default();
    }
    let threads = |events: &str| {
        let text = format!(
            "{{ \"tasks\": {{ \"a\": {{ \"cpus\": [5], {events} }} }}, \"global\": {{ \"duration\": 1, \"calibration\": \"CPU5\" }} }}"
        );
        let workload = rtapp::parse(&text, "test.json").unwrap().into();
        let run = simulate(&machine, &workload, &combination("deepest", None), 1).unwrap();
        let energy = run.energy.unwrap();
        let up = energy.clusters_mj[1];
        // The other cluster is down all the time.
        assert!(energy.clusters_mj[0].abs() < 1e-9);
        for little in 0..4 {
            assert!((energy.cpus_mj[little] - run.seconds).abs() < 1e-9);
        }
        let wanted = 5.0 * up + (run.seconds - up);
        let of_sleeper = energy.cpus_mj[4];
        assert!((of_sleeper - wanted).abs() < 1e-9, "{of_sleeper} {wanted}");
        up
    };
    assert!((threads("\"run\": 1000") - 1.0).abs() < 1e-3);
    let up = threads("\"run\": 2000, \"sleep\": 8000");
    assert!((0.2..0.35).contains(&up), "{up}");
}

#[test]
fn a_machine_that_can_only_poll_draws_that_at_rest() {
    let mut machine = Machine::find("laptop").unwrap();
    for state in &mut machine.idle_state {
        state.disabled = !state.polling;
    }
    let at_rest = run(&machine, READS, "shallowest").energy.unwrap().idle_mw;
    let slowest = |c: &Cluster| c.cpu_active_power(&c.opps[0]).0 as f64 / 1e3 * c.cpus as f64;
    let cpus: f64 = machine.cluster.iter().map(slowest).sum();
    assert!(cpus > 0.0 && at_rest >= cpus, "{at_rest} {cpus}");
}

#[test]
fn a_cluster_that_stays_up_leaves_its_cpus_in_the_cluster_state_if_they_have_none_of_their_own() {
    // CPU 1 keeps the cluster up; CPU 0, which can otherwise only poll, takes as long to wake as its state does.
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    let states = &mut machine.idle_state;
    let deepest = states.iter().position(|s| s.scope == Scope::Cluster);
    let deepest = deepest.expect("rk3399 has a cluster state");
    states.truncate(deepest + 1);
    for state in &mut states[1..deepest] {
        state.disabled = true;
    }
    states[0].polling = true;
    states[0].true_entry_us = Figure::covered_by_table_source(0.0);
    states[0].true_exit_us = Figure::covered_by_table_source(0.0);
    let text = r#"{ "global": { "duration": 1 }, "tasks": {
        "busy": { "cpus": [1], "run": 100000 },
        "waker": { "cpus": [0], "run": 100, "sleep": 20000 } } }"#;
    let workload: Workload = rtapp::parse(text, "test.json").unwrap().into();
    let exit = machine.idle_state[deepest].true_exit_us.value;
    let run = simulate(&machine, &workload, &combination("deepest", None), 1).unwrap();
    let tasks = run.threads.unwrap().tasks;
    let waker = tasks.iter().find(|t| t.name == "waker").unwrap();
    assert!(
        exit > 0.0 && waker.wake_parts.idle_exit >= 0.9 * exit,
        "{waker:?}"
    );
}

#[test]
fn a_state_that_becomes_deeper_by_itself_is_left_later_after_long_pauses() {
    let mut machine = Machine::find("rk3399").unwrap();
    machine.background.clear();
    let states = machine.idle_state.iter_mut();
    for state in states.filter(|state| !state.polling) {
        state.exit_spread = Figure::default();
        state.deeper_after_us = Figure::covered_by_table_source(2_000.0);
        state.deeper_exit_us = Figure::covered_by_table_source(900.0);
    }
    let idle_exit_us = |sleep_us: u32, machine: &Machine| {
        let text = format!(
            r#"{{ "global": {{ "duration": 1 }}, "tasks": {{ "waker": {{ "cpus": [0], "run": 100, "sleep": {sleep_us} }} }} }}"#
        );
        let workload: Workload = rtapp::parse(&text, "test.json").unwrap().into();
        let run = simulate(machine, &workload, &combination("menu", None), 1).unwrap();
        let tasks = run.threads.unwrap().tasks;
        tasks[0].wake_parts.idle_exit
    };
    let mut shallow = machine.clone();
    for state in &mut shallow.idle_state {
        state.deeper_after_us = Figure::default();
        state.deeper_exit_us = Figure::default();
    }
    assert!((idle_exit_us(1_000, &machine) - idle_exit_us(1_000, &shallow)).abs() < 1e-9);
    let [deeper, as_before] = [&machine, &shallow].map(|machine| idle_exit_us(20_000, machine));
    assert!(
        as_before < 500.0 && (deeper - 900.0).abs() < 30.0,
        "{deeper} {as_before}"
    );
}

#[test]
fn leaving_a_state_draws_the_same_at_any_clock() {
    let mut machine = quiet_server();
    machine.io_path.kcycles_per_io = Figure::covered_by_table_source(0.0);
    machine.scheduler.tick_kcycles = Figure::covered_by_table_source(0.0);
    for state in &mut machine.idle_state {
        state.cold_start_kcycles = Figure::default();
    }
    let energy = |machine: &Machine, freq: &str| {
        let policies = PolicySet::from_names(["deepest", freq]).unwrap();
        let lines = format!("{READS}thinktime=1000");
        let run = simulate(machine, &job(&lines), &policies, 1).unwrap();
        run.energy.unwrap().cpus_mj.iter().sum::<f64>()
    };
    let slow = energy(&machine, "powersave");
    assert!((slow - energy(&machine, "performance")).abs() < 1e-9 * slow);
    for state in &mut machine.idle_state {
        state.transition_mw = Figure::covered_by_table_source(4000.0);
    }
    assert!(energy(&machine, "powersave") > 1.05 * slow);
}

/// A machine of which nothing but the job wakes a CPU, whose package takes so long to go down and come up, in us.
fn with_package(hysteresis: f64, entry: f64, exit: f64) -> Machine {
    let mut machine = quiet_server();
    machine.scheduler.tick_kcycles = Figure::covered_by_table_source(0.0);
    let package = machine.package.as_mut().unwrap();
    package.hysteresis_us = Figure::covered_by_table_source(hysteresis);
    package.entry_us = Figure::covered_by_table_source(entry);
    package.exit_us = Figure::covered_by_table_source(exit);
    machine
}

#[test]
fn a_request_that_meets_a_sleeping_package_takes_its_exit_longer() {
    let mean = |hysteresis, entry, exit| {
        let run = run(&with_package(hysteresis, entry, exit), READS, "deepest");
        let parts = sum_of_parts(&run);
        assert!(
            (parts - run.latency_us.mean).abs() < 1e-6,
            "{:?}",
            run.attribution
        );
        (run.latency_us.mean, run.attribution.mean.idle_exit)
    };
    let (at_once, own_exit) = mean(0.0, 0.0, 0.0);
    let (later, with_package) = mean(0.0, 0.0, 40.0);
    // Ticks of other CPUs bring it up before some of the requests.
    assert!((later - at_once - 40.0).abs() < 0.5, "{at_once} {later}");
    assert!((with_package - own_exit - 40.0).abs() < 0.5);
    // Whoever comes before it begins to go down does not wait.
    assert!((mean(1000.0, 1000.0, 40.0).0 - at_once).abs() < 1e-9);
    // A request that is over while the package goes down waits for the end of that, too.
    let (long_entry, _) = mean(0.0, 200.0, 40.0);
    assert!(long_entry > later + 50.0, "{long_entry} {later}");
}

#[test]
fn a_package_that_is_woken_too_often_never_goes_down() {
    let energy = |lines: &str, delay| {
        let machine = with_package(delay, 10.0, 0.0);
        let run = run(&machine, lines, "deepest");
        let package = machine.package.unwrap();
        let (idle, active) = (package.constant_power().0, package.extra_power_while_up().0);
        let milliwatts = run.energy.unwrap().package_mj / run.seconds;
        // The share of the time that it is up.
        (milliwatts - idle as f64 / 1e3) / (active as f64 / 1e3)
    };
    let rare = format!("{READS}thinktime=5000");
    assert!(energy(READS, 0.0) < 0.9);
    assert!((energy(READS, 1000.0) - 1.0).abs() < 1e-6);
    let (soon, late) = (energy(&rare, 0.0), energy(&rare, 1000.0));
    assert!(soon < late && late < 0.9, "{soon} {late}");
}

/// Two threads of a core: while one works, the other one's sleep leaves the core awake, and is left at once.
#[test]
fn threads_that_sleep_together_reach_the_shallower_threads_state() {
    let mut machine = Machine::find("laptop").unwrap();
    machine.background.clear();
    let deep = machine.idle_state.iter().find(|s| s.name == "C6").unwrap();
    let deep_exit = deep.true_exit_us.value;
    let idle_exit_us_and_mw = |machine: &Machine, work_us: u32| {
        let text = format!(
            r#"{{ "global": {{ "duration": 1 }}, "tasks": {{
            "other": {{ "cpus": [1], "run": {work_us}, "sleep": 4000 }},
            "waker": {{ "cpus": [0], "run": 100, "sleep": 20000 }} }} }}"#
        );
        let workload: Workload = rtapp::parse(&text, "test.json").unwrap().into();
        let others = "menu + performance + idle-states[ceiling=C6]";
        let run = simulate(machine, &workload, &others.parse().unwrap(), 1).unwrap();
        let tasks = run.threads.unwrap().tasks;
        let waker = tasks.iter().find(|t| t.name == "waker").unwrap();
        (waker.wake_parts.idle_exit, run.energy.unwrap().mean_mw)
    };
    let busy = 200_000;
    let (apart_us, apart_mw) = idle_exit_us_and_mw(&machine, busy);
    machine.cluster[0].threads_sleep_together = true;
    let (together_us, together_mw) = idle_exit_us_and_mw(&machine, busy);
    assert!(
        apart_us > 0.8 * deep_exit && together_us < 0.2 * deep_exit,
        "{apart_us} {together_us} us"
    );
    assert!(together_mw > apart_mw, "{together_mw} {apart_mw} mW");
    // Beside a thread that sleeps nearly always, the core goes down.
    let (mostly_us, _) = idle_exit_us_and_mw(&machine, 10);
    assert!(mostly_us > 0.8 * deep_exit, "{mostly_us} us");
}
