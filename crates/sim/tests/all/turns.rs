//! CPUs that take turns, as those of an emulator, and what a program does between its I/Os.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::Path;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{BackgroundTimer, Figure};
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::fio;

const LABORATORY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../rig/laboratory/debian-6.12.toml"
);

/// That of the laboratory: two CPUs, eight units of 80 us, 14.8 us of work for an I/O, and C1 alone takes 2 us.
fn laboratory() -> Machine {
    let mut machine = Machine::load(Path::new(LABORATORY)).unwrap();
    machine.background.clear();
    machine
}

fn side_by_side() -> Machine {
    Machine {
        emulator: None,
        ..laboratory()
    }
}

fn run(machine: &Machine, lines: &str) -> Run {
    let text = format!(
        "[j]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nrw=randread\nbs=4k\ntime_based\nruntime=300ms\n{lines}"
    );
    let job = fio::parse(&text, "test.fio").unwrap();
    in_state(machine, &job, "disable=POLL,C1E,C6,C8", 1)
}

fn in_state(machine: &Machine, job: &fio::FioJobFile, states: &str, seed: u64) -> Run {
    let policies: PolicySet = format!("menu + idle-states[{states}]").parse().unwrap();
    simulate(machine, &job.clone().into(), &policies, seed).unwrap()
}

fn given(value: f64) -> Figure {
    Figure::assumed(value, "a test")
}

#[test]
fn two_that_work_all_the_time_share_one_clock() {
    // 2 ms of work between reads: next to nothing is waited for.
    let lines = "numjobs=2\nthinkcycles=2000000";
    let (turns, parallel) = (run(&laboratory(), lines), run(&side_by_side(), lines));
    let ratio = parallel.iops / turns.iops;
    assert!((1.85..2.0).contains(&ratio), "{ratio}");
    // One alone loses nothing but the time of the CPU that plays the drives.
    let lines = "thinkcycles=2000000";
    let ratio = run(&side_by_side(), lines).iops / run(&laboratory(), lines).iops;
    assert!((0.99..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn work_of_the_drives_is_part_of_what_a_read_waits_for() {
    let mut machine = laboratory();
    let before = run(&machine, "").latency_us.p50;
    if let Some(emulator) = &mut machine.emulator {
        emulator.drive_wake_kcycles = given(emulator.drive_wake_kcycles.value + 3.0);
    }
    let more = run(&machine, "").latency_us.p50 - before;
    assert!((more - 3.0).abs() < 0.1, "{more}");
}

/// The module of the laboratory's drive ends flushes as all other requests.
#[test]
fn a_flush_waits_for_the_drives_cpu_too() {
    let mut machine = laboratory();
    let time = |machine: &Machine| 1e6 / run(machine, "rw=randwrite\nfsync=1").iops;
    let before = time(&machine);
    if let Some(emulator) = &mut machine.emulator {
        emulator.drive_wake_kcycles = given(emulator.drive_wake_kcycles.value + 3.0);
    }
    let more = time(&machine) - before;
    assert!((more - 6.0).abs() < 0.5, "{more}");
}

#[test]
fn a_flush_costs_more_than_a_write() {
    let mut machine = laboratory();
    let time = |machine: &Machine| 1e6 / run(machine, "rw=randwrite\nfsync=1").iops;
    let with = time(&machine);
    let more = machine.io_path.flush_kcycles.value;
    assert!(more > 0.0);
    machine.io_path.flush_kcycles = Figure::default();
    let without = time(&machine);
    assert!((with - without - more).abs() < 1.0, "{with} and {without}");
}

#[test]
fn a_task_that_polls_in_the_kernel_leaves_the_turn_to_others() {
    let mut machine = laboratory();
    machine.io_path.completion.poll_queues = Some(2);
    let polls = run(&machine, "ioengine=io_uring\nhipri");
    let waits = run(&machine, "ioengine=io_uring");
    // A poller that kept the turn would keep the read back until a tick, for up to 4 ms.
    let mean = polls.latency_us.mean;
    assert!(mean > 80.0 && mean < waits.latency_us.mean, "{mean}");
    // Two of them and the drive hardly meet.
    let two = run(&machine, "ioengine=io_uring\nhipri\nnumjobs=2");
    assert!(
        (1.7..2.0).contains(&(two.iops / polls.iops)),
        "{} {}",
        two.iops,
        polls.iops
    );
}

#[test]
fn a_program_that_looks_at_its_ring_without_pauses_is_refused() {
    let text = "[j]\nfilename=/dev/drive0\nsize=1m\ndirect=1\nrw=randread\nioengine=io_uring\nsqthread_poll\n";
    let job = fio::parse(text, "test.fio").unwrap();
    let policies: PolicySet = "menu".parse().unwrap();
    let error = simulate(&laboratory(), &job.into(), &policies, 1).unwrap_err();
    assert!(
        error
            .to_string()
            .ends_with("a program that polls without pauses on emulated CPUs, which take turns; the machine's file says by emulator.spin_turn_us when they do")
    );
}

#[test]
fn a_program_that_looks_at_its_ring_lets_others_run_at_intervals() {
    let mean = |turn_us: f64| {
        let mut machine = laboratory();
        machine.emulator.as_mut().unwrap().spin_turn_us = given(turn_us);
        let lines = "ioengine=io_uring\nsqthread_poll\nsqthread_poll_cpu=1\ncpus_allowed=0";
        run(&machine, lines).latency_us.mean
    };
    let (short, long) = (mean(2.0), mean(40.0));
    // The thread takes a request, and the program its completion, at the end of an interval.
    assert!(short > 80.0 && short < 100.0, "{short}");
    assert!((40.0..100.0).contains(&(long - short)), "{long} {short}");
}

#[test]
fn a_thread_that_polls_for_completions_looks_once_for_each_request() {
    let mut machine = laboratory();
    machine.io_path.completion.poll_queues = Some(2);
    machine.emulator.as_mut().unwrap().spin_turn_us = given(5.0);
    let mean = |lines: &str| {
        let thread = "ioengine=io_uring\nsqthread_poll\nsqthread_poll_cpu=1\ncpus_allowed=0";
        run(&machine, &format!("{thread}\n{lines}")).latency_us.mean
    };
    let [one, four] = ["iodepth=1", "iodepth=4"].map(mean);
    let [polled, four_polled] = ["hipri\niodepth=1", "hipri\niodepth=4"].map(mean);
    println!("{one} {four} {polled} {four_polled}");
    // The program has the turn at each look that finds nothing. What it submits waits for the next round.
    assert!((four - one).abs() < 5.0, "{one} {four}");
    assert!(
        (10.0..25.0).contains(&(four_polled - polled)),
        "{polled} {four_polled}"
    );
}

#[test]
fn fio_spins_through_its_pause_without_the_turn() {
    let iops = |jobs: u32| {
        let lines = format!("thinktime=200us\nthinktime_spin=200us\nnumjobs={jobs}");
        run(&laboratory(), &lines).iops
    };
    let ratio = iops(2) / iops(1);
    assert!((1.9..2.02).contains(&ratio), "{ratio}");
}

/// How many of ten runs see a background task of the job's CPU go to the other one. It begins where the job is.
fn moves_away(timer: BackgroundTimer) -> usize {
    let mut machine = laboratory();
    machine.background = Machine::load(Path::new(LABORATORY)).unwrap().background;
    machine.background.truncate(1);
    let source = &mut machine.background[0];
    assert_eq!(source.name, "fio's main process");
    // Nobody else.
    (source.callbacks, source.timer) = (false, Some(timer));
    machine.rcu = None;
    let text = "[j]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nrw=randread\nbs=4k\ntime_based\nruntime=40ms\ncpus_allowed=1\n";
    let job = fio::parse(text, "test.fio").unwrap();
    // If it has to make room for the job there, the first CPU is no longer free of work.
    let moved = (1..=10).filter(|seed| {
        let run = in_state(&machine, &job, "disable=POLL,C1,C1E,C6", *seed);
        run.cpus[0].busy_seconds > 0.0
    });
    moved.count()
}

/// Completions end in a soft interrupt: a task whose timer expires during the exit latency wakes first, and stays on its CPU.
#[test]
fn timers_come_before_completions_that_wait_with_them() {
    let moved = moves_away(BackgroundTimer::Sleep);
    assert!(moved <= 4, "{moved}");
}

/// The interrupt of completions comes before that of the tick, so that their soft interrupt runs before the timer wheel's.
#[test]
fn timers_of_the_timer_wheel_come_after_completions_that_wait_with_them() {
    let moved = moves_away(BackgroundTimer::Wheel);
    assert!(moved >= 8, "{moved}");
}

#[test]
fn jobs_start_at_any_time_between_two_ticks() {
    let text = "[j]\nfilename=/dev/drive0\nsize=4k\ndirect=1\nrw=read\nbs=4k\n";
    let job = fio::parse(text, "test.fio").unwrap();
    // With nothing else to do, the run ends with the only read.
    let ends = |machine: &Machine| {
        let ends = (1..=20).map(|seed| {
            let run = in_state(machine, &job, "disable=C8", seed);
            (run.warm_up_seconds + run.seconds) * 1e3
        });
        ends.collect::<Vec<f64>>()
    };
    let all = ends(&laboratory());
    assert!(all.iter().any(|ms| *ms < 1.3), "{all:?}");
    assert!(all.iter().any(|ms| *ms > 3.0), "{all:?}");
    assert!(all.iter().all(|ms| *ms < 4.5), "{all:?}");
    assert!(ends(&side_by_side()).iter().all(|ms| *ms < 0.5));
}

#[test]
fn completions_come_one_by_one_where_the_cpu_has_to_halt_first() {
    let lines = "ioengine=libaio\niodepth=4";
    let (turns, parallel) = (run(&laboratory(), lines), run(&side_by_side(), lines));
    let stays = |run: &Run| run.idle_states[1].entries as f64 / run.requests as f64;
    // Traced in the guest: the CPU is idle once for each read.
    assert!(stays(&turns) > 0.9, "{}", stays(&turns));
    assert!(stays(&parallel) < 0.6, "{}", stays(&parallel));
}

#[test]
fn what_a_program_does_between_its_reads_is_no_part_of_their_latency() {
    let mut machine = side_by_side();
    let with = run(&machine, "");
    machine.io_path.program_kcycles = Figure::default();
    let without = run(&machine, "");
    assert!((with.latency_us.mean - without.latency_us.mean).abs() < 0.01);
    let more = 1e6 / with.iops - 1e6 / without.iops;
    assert!((1.95..2.05).contains(&more), "{more}");
}

#[test]
fn an_asynchronous_engine_costs_more() {
    let mut machine = side_by_side();
    let latency = |machine: &Machine, engine: &str| {
        run(machine, &format!("ioengine={engine}\n")).latency_us.p50
    };
    let more = latency(&machine, "libaio") - latency(&machine, "psync");
    assert!((more - 1.5).abs() < 0.1, "{more}");
    machine.io_path.asynchronous_kcycles = Figure::default();
    let same = latency(&machine, "libaio") - latency(&machine, "psync");
    assert!(same.abs() < 0.1, "{same}");
}

#[test]
fn nobody_works_during_the_part_of_an_exit_that_keeps_the_turn() {
    let text = "[j]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nrw=randread\nbs=4k\ntime_based\nruntime=300ms\nnumjobs=8\n";
    let job = fio::parse(text, "test.fio").unwrap();
    let iops = |us: f64| {
        let mut machine = laboratory();
        machine.emulator.as_mut().unwrap().exit_hold_us = given(us);
        in_state(&machine, &job, "disable=POLL,C1,C6,C8", 1).iops
    };
    // C1E takes 10 us, and an I/O 17 us of a CPU.
    let lost = iops(0.0) / iops(10.0);
    assert!((1.1..1.7).contains(&lost), "{lost}");
}

/// Reads of 80 us and writes of 20 us: menu looks for a pattern in vain.
#[test]
fn menu_counts_less_of_an_idle_period_the_longer_it_looked_for_a_pattern() {
    let mut machine = laboratory();
    let slow = |machine: &Machine| {
        let text = "[j]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nrw=randrw\nrwmixread=70\nbs=4k\ntime_based\nruntime=1s\n";
        let job = fio::parse(text, "test.fio").unwrap();
        let states = in_state(machine, &job, "disable=POLL", 1).idle_states;
        let deep = &states[states.len() - 2..];
        deep.iter().map(|state| state.entries).sum::<u64>()
    };
    let with = slow(&machine);
    machine.scheduler.menu_round_kcycles = Figure::default();
    let without = slow(&machine);
    assert!(with > without * 11 / 10, "{with} and {without}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let lines = "numjobs=8";
    let (one, two) = (run(&laboratory(), lines), run(&laboratory(), lines));
    assert_eq!(one.latency_us.mean.to_bits(), two.latency_us.mean.to_bits());
    assert_eq!(one.events, two.events);
}

#[test]
fn the_thread_of_schedutil_wakes_an_idle_cpu_with_each_change() {
    let mut machine = laboratory();
    let text = "[j]\nfilename=/dev/drive0\nsize=1g\ndirect=1\nrw=randread\nbs=4k\ntime_based\nruntime=300ms\ncpus_allowed=1\n";
    let job = fio::parse(text, "test.fio").unwrap();
    // The job is on the second CPU, and the thread begins on the first one.
    let periods = |machine: &Machine, frequency: &str| {
        let policies: PolicySet = format!("menu + {frequency}").parse().unwrap();
        let run = simulate(machine, &job.clone().into(), &policies, 1).unwrap();
        (run.cpus[0].selections, run.clocks[0].changes)
    };
    let (with, changes) = periods(&machine, "schedutil");
    assert!(changes > 100, "{changes}");
    assert!(with >= changes, "{with} and {changes}");
    assert!(periods(&machine, "performance").0 < 100);
    machine.scheduler.sugov_kcycles = Figure::default();
    assert!(periods(&machine, "schedutil").0 < 100);
}
