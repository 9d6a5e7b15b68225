//! What holds for every machine, workload and policy.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::{C1Demotion, Cluster, Figure, StolenCpuTime, TurboLimit, Uncore};
use wakepath_policies::PolicySet;
use wakepath_sim::{SimError, simulate};
use wakepath_units::Kilohertz;
use wakepath_workloads::{Workload, fio};

const IDLE: [&str; 9] = [
    "menu@6.1",
    "menu@6.12",
    "teo@6.1",
    "teo@6.12",
    "ladder",
    "haltpoll",
    "shallowest",
    "deepest",
    "menu@6.12",
];
const FREQ: [&str; 13] = [
    "schedutil",
    "schedutil[iowait_boost=off]",
    "schedutil[iowait_boost_step=linear]",
    "schedutil[rate_limit_us=10000]",
    "performance",
    "powersave",
    "ondemand",
    "intel_pstate",
    "intel_pstate[iowait_boost=off]",
    "intel_pstate-hwp",
    "intel_pstate-hwp[hwp_dynamic_boost=on]",
    "intel_pstate-hwp[hwp_dynamic_boost=on,epp=255]",
    "intel_pstate-hwp[epp=0]",
];
const PSD: [Option<&str>; 3] = [None, Some("psd"), Some("psd[timeout=1ms,ceiling=20us]")];

fn combination(idle: &str, freq: &str, psd: Option<&str>) -> PolicySet {
    PolicySet::from_names([idle, freq].into_iter().chain(psd)).unwrap()
}

fn job(lines: &str) -> Workload {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\n{lines}");
    fio::parse(&text, "test.fio").unwrap().into()
}

/// RK3399 with a polling state in front, as x86 machines have.
fn polling_machine() -> Machine {
    let mut machine = Machine::find("rk3399").unwrap();
    let mut poll = machine.idle_state[0].clone();
    poll.name = "POLL".into();
    poll.polling = true;
    for figure in [
        &mut poll.exit_latency_us,
        &mut poll.target_residency_us,
        &mut poll.true_exit_us,
    ] {
        figure.value = 0.0;
    }
    machine.idle_state.insert(0, poll);
    machine.hz.value = 1000.0;
    machine
}

/// What the hardware makes of frequency requests.
#[derive(Clone, Debug)]
struct Clock {
    cpus: usize,
    slot_us: f64,
    stall_us: f64,
    turbo: bool,
    ramp_ms: f64,
    full_at_percent: f64,
}

impl Clock {
    fn give(&self, cluster: &mut Cluster) {
        let shared = self.cpus.min(cluster.cpus);
        cluster.clock_cpus = Some(if cluster.cpus.is_multiple_of(shared) {
            shared
        } else {
            1
        });
        cluster.clock_slot_us = Figure::covered_by_table_source(self.slot_us);
        cluster.clock_stall_us = Figure::covered_by_table_source(self.stall_us);
        cluster.base_mhz = Figure::covered_by_table_source(1200.0);
        cluster.hwp_ramp_ms = Figure::covered_by_table_source(self.ramp_ms);
        cluster.hwp_full_at_percent = Figure::covered_by_table_source(self.full_at_percent);
        if self.turbo {
            let limit = |active_cores, khz| TurboLimit { active_cores, khz };
            cluster.turbo = vec![limit(1, 1_800_000), limit(2, 1_000_000)];
        }
    }
}

prop_compose! {
    fn any_clock()(
        cpus in 1_usize..5,
        slot_us in prop::sample::select(vec![1.0, 50.0, 500.0, 3000.0]),
        stall_us in prop::sample::select(vec![0.0, 0.0, 10.0, 700.0]),
        turbo in any::<bool>(),
        ramp_ms in 0.1..20.0_f64,
        full_at_percent in 1.0..99.0_f64,
    ) -> Clock {
        Clock { cpus, slot_us, stall_us, turbo, ramp_ms, full_at_percent }
    }
}

prop_compose! {
    fn any_machine()(
        polling in any::<bool>(),
        completion in prop::option::of(0_usize..6),
        entry in 0.0..200.0_f64,
        exit in 0.0..1000.0_f64,
        service in 1.0..500.0_f64,
        kcycles in 0.0..200.0_f64,
        units in 1_u32..8,
        count in 1_usize..7,
        chunk_kib in 1_u32..600,
        exit_spread in prop_oneof![Just(0.0), 0.0..2.0_f64],
        clock in any_clock(),
        (queues, share) in (prop::option::of(1_usize..9), prop_oneof![Just(1.0), 0.0..1.0_f64]),
        (coalesce, coalesce_us) in (1_u32..9, 1_u32..500),
        demotion in prop::option::of((1_u32..6, 1_u32..3000, 0_u32..1000)),
        disabled in prop::option::of(0_usize..3),
        (uncore, kcycles_per_kib, stolen) in (
            prop::option::of((1_u32..2000, 0_u32..2000, 1_u32..20_000)),
            prop_oneof![Just(0.0), 0.0..2.0_f64],
            prop::option::weighted(0.3, (0.0..20_000.0_f64, 0.0..50.0_f64)),
        ),
    ) -> Machine {
        let mut machine =
            if polling { polling_machine() } else { Machine::find("rk3399").unwrap() };
        for cluster in &mut machine.cluster {
            clock.give(cluster);
        }
        machine.io_path.completion.cpu = completion;
        machine.io_path.kcycles_per_io.value = kcycles;
        machine.io_path.kcycles_per_kib = Figure::covered_by_table_source(kcycles_per_kib);
        machine.drive.read_service_us.value = service;
        machine.drive.parallel_units.value = f64::from(units);
        machine.drive.count = count;
        machine.drive.chunk_kib.value = f64::from(chunk_kib);
        let completion = &mut machine.io_path.completion;
        completion.queues = queues;
        completion.same_cpu_share = Figure::covered_by_table_source(share);
        completion.coalesce = Figure::covered_by_table_source(f64::from(coalesce));
        completion.coalesce_us = Figure::covered_by_table_source(f64::from(coalesce_us));
        machine.c1_demotion = demotion.map(|(wake_ups, within, undemote)| C1Demotion {
            to: "WFI".into(),
            states: vec!["cpu-sleep".into(), "cluster-sleep".into()],
            wake_ups: Figure::covered_by_table_source(f64::from(wake_ups)),
            within_us: Figure::covered_by_table_source(f64::from(within)),
            undemote_us: Figure::covered_by_table_source(f64::from(undemote)),
            source: "test".into(),
        });
        if let Some(state) = disabled {
            machine.idle_state[state].disabled = true;
        }
        machine.uncore = uncore.map(|(least, more, slot)| Uncore {
            min_mhz: Figure::covered_by_table_source(f64::from(least)),
            max_mhz: Figure::covered_by_table_source(f64::from(least + more)),
            slot_us: Figure::covered_by_table_source(f64::from(slot)),
            lowest_uv: Figure::covered_by_table_source(700_000.0),
            highest_uv: Figure::covered_by_table_source(1_000_000.0),
            dynamic_power_uw_per_mhz_v2: Figure::covered_by_table_source(100.0),
            source: "test".into(),
        });
        machine.stolen = stolen.map(|(per_s, mean_us)| StolenCpuTime {
            per_s: Figure::covered_by_table_source(per_s),
            mean_us: Figure::covered_by_table_source(mean_us),
            source: "test".into(),
        });
        for state in machine.idle_state.iter_mut().skip(1) {
            state.true_entry_us.value = entry;
            state.true_exit_us.value = exit;
            state.exit_spread.value = exit_spread;
        }
        machine
    }
}

prop_compose! {
    fn any_job()(
        engine in prop::sample::select(vec!["psync", "libaio", "io_uring"]),
        rw in prop::sample::select(vec!["randread", "write", "randrw", "rw"]),
        bs in prop::sample::select(vec!["4k", "512", "12k,1m", "5000,300k", "2m"]),
        depth in 1_u32..6,
        jobs in 1_u32..5,
        think in 0_u32..3000,
        spin in 0_u32..500,
        cycles in 0_u32..300_000,
        runtime in 1_u32..60,
        rate in prop::option::of((1_u32..3000, 1_u32..3000)),
        second in prop_oneof![Just(""), Just("[k]\ndirect=1\nrw=randread\nruntime=3ms\n"), Just("[k]\ndirect=1\nstonewall\nrw=write\nbs=64k\nruntime=5ms\n")],
    ) -> Workload {
        let rate = rate.map_or_else(String::new, |(r, w)| format!("rate_iops={r},{w}\n"));
        job(&format!(
            "rw={rw}\nbs={bs}\nioengine={engine}\niodepth={depth}\nnumjobs={jobs}\nruntime={runtime}ms\n\
             thinktime={think}\nthinktime_spin={spin}\nthinkcycles={cycles}\n{rate}{second}"
        ))
    }
}

/// Whether a clock can stand still for most of the time, if it is changed in every slot.
fn stands_still_often(cluster: &Cluster) -> bool {
    cluster.clock_stall_us.value > cluster.clock_slot_us.value / 2.0
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn time_adds_up_and_nothing_is_lost(
        machine in any_machine(),
        job in any_job(),
        idle in 0..IDLE.len(),
        freq in 0..FREQ.len(),
        psd in 0..PSD.len(),
        seed in any::<u64>(),
    ) {
        let run = match simulate(&machine, &job, &combination(IDLE[idle], FREQ[freq], PSD[psd]), seed) {
            // Clocks that have to settle again before they have run for long need not get anything done. The run
            // says so.
            Err(SimError::Stuck(_)) if machine.cluster.iter().any(stands_still_often) => return Ok(()),
            run => run.unwrap(),
        };
        for cpu in &run.cpus {
            let idle: f64 = cpu.idle_seconds.iter().sum();
            prop_assert!((idle + cpu.busy_seconds - run.seconds).abs() < 1e-9, "{cpu:?} {}", run.seconds);
        }
        let demotions: u64 = run.cpus.iter().map(|c| c.demotions).sum();
        prop_assert!(run.cpus.iter().all(|c| c.undemotions <= c.demotions));
        prop_assert!(machine.c1_demotion.is_some() || demotions == 0);
        prop_assert!((0.0..=1.0).contains(&run.same_cpu_share));
        for cpu in &run.cpus {
            let sum = cpu.powered_seconds + cpu.asleep_seconds;
            prop_assert!((sum - run.seconds).abs() < 1e-9, "{cpu:?} {}", run.seconds);
            prop_assert!(cpu.powered_seconds >= cpu.busy_seconds - 1e-9, "{cpu:?}");
        }
        for clock in &run.clocks {
            let at: f64 = clock.residency.iter().map(|r| r.seconds).sum();
            let cpus = &run.cpus[clock.first_cpu..clock.first_cpu + clock.cpus];
            let powered: f64 = cpus.iter().map(|c| c.powered_seconds).sum();
            prop_assert!((at - powered).abs() < 1e-9, "{clock:?} {powered}");
        }
        prop_assert_eq!(run.clocks.iter().map(|c| c.cpus).sum::<usize>(), run.cpus.len());
        if let Some(e) = &run.energy {
            let parts = || e.cpus_mj.iter().chain(&e.clusters_mj).chain(&e.uncores_mj).chain(&e.drives_mj);
            let sum = parts().sum::<f64>() + e.package_mj;
            prop_assert!((sum - e.total_mj).abs() <= 1e-9 * e.total_mj);
            prop_assert!(parts().all(|mj| *mj >= 0.0));
            prop_assert_eq!(e.uncore_mhz.is_some(), machine.uncore.is_some());
            for (mhz, uncore) in e.uncore_mhz.iter().zip(&machine.uncore) {
                let clocks = uncore.min_mhz.value - 1e-6..=uncore.max_mhz.value + 1e-6;
                prop_assert!(*mhz == 0.0 || clocks.contains(mhz), "{mhz} {uncore:?}");
                // As much as at its highest clock all the time, at most.
                let most = uncore.cluster_power_at_clock(uncore.clock_within_limits(Kilohertz(u32::MAX))).0 as f64 * run.seconds / 1e3;
                prop_assert_eq!(e.uncores_mj.len(), machine.cluster.len());
                prop_assert!(e.uncores_mj.iter().all(|mj| *mj <= most * (1.0 + 1e-9)));
            }
            prop_assert!((e.mean_mw * run.seconds - e.total_mj).abs() <= 1e-9 * e.total_mj);
        }
        prop_assert!(run.requests > 0);
        prop_assert_eq!(run.requests, run.reads + run.writes);
        prop_assert!(run.latency_us.p50 <= run.latency_us.p99);
        prop_assert!(run.latency_us.p99 <= run.latency_us.p999);
        prop_assert!(run.latency_us.mean <= run.latency_us.max * 1.001);
        // The parts add up for every request (asserted where they are recorded), so for the mean.
        let parts: f64 = run.attribution.mean.titled_parts().iter().map(|(_, us)| us).sum();
        prop_assert!((parts - run.latency_us.mean).abs() < 1e-6 * parts.max(1.0), "{parts} {:?}", run.latency_us);
        let p99: f64 = run.attribution.p99.titled_parts().iter().map(|(_, us)| us).sum();
        prop_assert!((p99 / run.latency_us.p99 - 1.0).abs() < 0.04, "{p99} {:?}", run.latency_us);
        // No request is faster than the fastest CPU and half the mean service time.
        prop_assert!(run.latency_us.mean > 0.0);
        let fastest = machine.cluster.iter().filter_map(|c| c.opps.last()).map(|o| o.khz).max();
        prop_assert!(run.mean_mhz <= f64::from(fastest.unwrap()) / 1e3 + 1e-9);
    }
}

#[test]
fn each_kib_beyond_four_costs_its_share_of_submission() {
    let mut machine = Machine::find("rk3399").unwrap();
    let submission = |machine: &Machine, bs: &str| {
        let job = job(&format!("rw=randread\nbs={bs}\nruntime=100ms\n"));
        let run = simulate(machine, &job, &combination("teo", "performance", None), 1).unwrap();
        run.attribution.mean.submission
    };
    let free = submission(&machine, "1m");
    assert!((free - submission(&machine, "4k")).abs() < 0.1);
    machine.io_path.kcycles_per_kib = Figure::covered_by_table_source(0.2);
    let cluster = &machine.cluster[1];
    let khz = f64::from(cluster.opps.last().unwrap().khz);
    // 1020 KiB at 200 cycles each, on the biggest core.
    let more = submission(&machine, "1m") - free;
    assert!((more - 1020.0 * 0.2e6 / khz).abs() < 0.5, "{more}");
}

#[test]
fn a_deeper_sleep_of_the_completing_cpu_costs_its_exit_latency() {
    let machine = Machine::find("rk3399").unwrap();
    let job = job("rw=randread\nruntime=1s\n");
    let mean = |idle| {
        let run = simulate(&machine, &job, &combination(idle, "performance", None), 1).unwrap();
        run.latency_us.mean
    };
    let states = &machine.idle_state;
    let cluster_exit = states[2].true_exit_us.value - states[0].true_exit_us.value;
    // Interrupt and task CPU are in different clusters; only the first can go down as a whole.
    assert!(mean("deepest") - mean("shallowest") > cluster_exit);
}

#[test]
fn attribution_says_which_mechanism_costs_what() {
    let machine = Machine::find("rk3399").unwrap();
    let job = job("rw=randread\nruntime=1s\n");
    let mean = |idle, freq| {
        simulate(&machine, &job, &combination(idle, freq, None), 1)
            .unwrap()
            .attribution
            .mean
    };
    let (quick, sleepy) = (
        mean("shallowest", "performance"),
        mean("deepest", "performance"),
    );
    assert!(
        sleepy.idle_exit > quick.idle_exit + 100.0,
        "{quick:?} {sleepy:?}"
    );
    assert!((sleepy.drive_service - quick.drive_service).abs() < 1.0);
    assert!(quick.frequency_shortfall < 0.01, "{quick:?}");
    let slow = mean("shallowest", "powersave");
    assert!(slow.frequency_shortfall > 50.0, "{slow:?}");
    assert!((slow.submission - quick.submission).abs() < 0.1);
}

#[test]
fn leases_keep_the_completing_cpu_shallow() {
    let machine = Machine::find("rk3399").unwrap();
    let job = job("rw=randread\nruntime=1s\n");
    let mean = |psd| {
        let policies = combination("menu@6.1", "performance", psd);
        simulate(&machine, &job, &policies, 1)
            .unwrap()
            .latency_us
            .mean
    };
    assert!(mean(Some("psd[timeout=10ms]")) < mean(None) - 50.0);
    assert!((mean(Some("psd[timeout=0ms]")) - mean(None)).abs() < 1e-9);
}

#[test]
fn more_work_between_requests_takes_the_gain_of_the_boost() {
    let machine = Machine::find("rk3399").unwrap();
    let gain = |lines: &str| {
        let job = job(&format!("rw=randread\nruntime=5s\n{lines}"));
        let iops = |freq| {
            simulate(&machine, &job, &combination("teo", freq, None), 1)
                .unwrap()
                .iops
        };
        iops("schedutil") / iops("schedutil[iowait_boost=off]")
    };
    let (without, with) = (gain(""), gain("thinkcycles=1000000\n"));
    assert!(without > 1.15, "{without}");
    assert!((0.99..1.01).contains(&with), "{with}");
}

#[test]
fn sleeping_deeper_saves_energy_and_running_faster_costs_it() {
    let machine = Machine::find("rk3399").unwrap();
    let job = job("rw=randread\nruntime=1s\nthinktime=5ms\n");
    let mean_mw = |idle, freq| {
        let run = simulate(&machine, &job, &combination(idle, freq, None), 1).unwrap();
        run.energy.unwrap().mean_mw
    };
    assert!(mean_mw("deepest", "powersave") < mean_mw("shallowest", "powersave"));
    assert!(mean_mw("deepest", "powersave") < mean_mw("deepest", "performance"));
}
