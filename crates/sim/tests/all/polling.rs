//! Polled completions and submissions: who spins, whom nothing interrupts, and what that costs.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use proptest::prelude::*;
use wakepath_hardware::Machine;
use wakepath_hardware::machine::Figure;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, SimError, simulate};
use wakepath_workloads::fio;

use crate::figures::parts_add_up;

/// A machine with polled queues or none, drives of constant service times, and no other work.
fn machine(poll_queues: usize, drives: usize) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.background.clear();
    machine.io_path.completion.poll_queues = Some(poll_queues);
    machine.drive.spread = Figure::assumed(0.0, "test");
    machine.drive.count = drives;
    machine.drive.chunk_kib = Figure::assumed(64.0, "test");
    machine.drive.read_mb_per_s = Figure::assumed(3000.0, "test");
    machine.drive.write_mb_per_s = Figure::assumed(3000.0, "test");
    machine.drive.flush_us = Figure::assumed(100.0, "test");
    machine
}

fn try_on(machine: &Machine, lines: &str) -> Result<Run, SimError> {
    let policies = PolicySet::from_names(["menu@6.12", "performance"]).unwrap();
    let text = format!(
        "[j]\nfilename=/dev/nvme0n1\ndirect=1\nrw=randread\nioengine=io_uring\nruntime=1\n{lines}"
    );
    simulate(
        machine,
        &fio::parse(&text, "test.fio").unwrap().into(),
        &policies,
        1,
    )
}

fn on(machine: &Machine, lines: &str) -> Run {
    try_on(machine, lines).unwrap()
}

/// Mean number of busy CPUs.
fn busy_cpus(run: &Run) -> f64 {
    run.cpus.iter().map(|cpu| cpu.busy_seconds).sum::<f64>() / run.seconds
}

#[test]
fn a_polled_read_is_faster_by_interrupt_and_wake_up_and_keeps_a_cpu_busy() {
    let machine = machine(4, 1);
    let (waits, polls) = (on(&machine, ""), on(&machine, "hipri"));
    assert!(
        (0.99..1.01).contains(&busy_cpus(&polls)),
        "{}",
        busy_cpus(&polls)
    );
    assert!(busy_cpus(&waits) < 0.5, "{}", busy_cpus(&waits));
    assert!(waits.same_cpu_share > 0.9 && polls.same_cpu_share == 0.0);
    let idle_exit = waits.attribution.mean.idle_exit;
    assert!(idle_exit > 0.5 && polls.attribution.mean.idle_exit == 0.0);
    assert!(polls.latency_us.mean < waits.latency_us.mean - idle_exit);
    let service = machine.drive.read_service_us.value;
    assert!(
        (polls.attribution.mean.drive_service - service).abs() < 1.0,
        "{:?}",
        polls.attribution.mean
    );
    assert!(parts_add_up(&polls) && parts_add_up(&waits));
    let watts = |run: &Run| run.energy.as_ref().unwrap().total_mj / run.seconds;
    assert!(
        watts(&polls) > 1.05 * watts(&waits),
        "{} W, {} W",
        watts(&polls),
        watts(&waits)
    );
}

/// Watts in the page's sentence on polling: of reads that wait, of `hipri` and of `sqthread_poll`.
fn watts_on_page() -> Vec<f64> {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../docs/reference/fio-jobs.md"
    );
    let page = std::fs::read_to_string(path).unwrap();
    let mut lines = page.lines();
    let line = lines.find(|line| line.contains("with the watts of busy CPUs: "));
    let before_unit = line.unwrap().split(" W ");
    let figures = before_unit.filter_map(|part| part.rsplit(' ').next()?.parse().ok());
    figures.collect()
}

#[test]
fn polling_costs_the_watts_on_the_page() {
    let mut machine = Machine::find("laptop").unwrap();
    machine.io_path.completion.poll_queues = Some(2);
    let ways = ["", "hipri", "sqthread_poll"];
    let on_page = watts_on_page();
    assert_eq!(on_page.len(), ways.len(), "{on_page:?}");
    for (way, stated) in ways.into_iter().zip(on_page) {
        let run = on(&machine, way);
        let watts = run.energy.as_ref().unwrap().total_mj / run.seconds / 1000.0;
        println!("{way}: {watts:.3} W, {stated} W on the page");
        assert!((watts / stated - 1.0).abs() < 0.05, "{way}: {watts} W");
    }
}

#[test]
fn without_polled_queues_the_kernel_decides() {
    let mut machine = machine(0, 1);
    let error = try_on(&machine, "hipri").unwrap_err().to_string();
    assert_eq!(
        error,
        "job 'j': the simulator does not model hipri on a drive without polled queues: io_uring fails with EOPNOTSUPP \
         since Linux 6.12. Give io_path.completion.poll_queues (nvme.poll_queues=N) in the machine's file, or remove hipri"
    );
    machine.kernel = None;
    assert!(try_on(&machine, "hipri").is_err());
    // A command of the drive is interrupted, and fio spins meanwhile; so do reads on Linux 6.1.
    let command = on(&machine, "hipri\nioengine=io_uring_cmd");
    machine.kernel = Some("6.1".parse().unwrap());
    let read = on(&machine, "hipri");
    for run in [command, read] {
        assert!(
            (0.99..1.01).contains(&busy_cpus(&run)),
            "{}",
            busy_cpus(&run)
        );
        assert!(run.same_cpu_share > 0.9 && run.attribution.mean.idle_exit == 0.0);
        assert!(parts_add_up(&run));
    }
    // pvsync2 waits for its interrupt anyway.
    let (waits, asks) = (
        on(&machine, "ioengine=pvsync2"),
        on(&machine, "ioengine=pvsync2\nhipri"),
    );
    assert_eq!(
        waits.latency_us.mean.to_bits(),
        asks.latency_us.mean.to_bits()
    );
}

#[test]
fn a_kernel_thread_that_polls_for_submissions_keeps_a_second_cpu_busy() {
    let machine = machine(2, 1);
    let run = on(&machine, "sqthread_poll");
    assert!(
        (1.98..2.02).contains(&busy_cpus(&run)),
        "{}",
        busy_cpus(&run)
    );
    assert!(run.same_cpu_share > 0.9 && parts_add_up(&run));
    let both = on(&machine, "sqthread_poll\nhipri");
    assert!(
        (1.98..2.02).contains(&busy_cpus(&both)),
        "{}",
        busy_cpus(&both)
    );
    assert!(both.same_cpu_share == 0.0 && both.latency_us.mean < run.latency_us.mean);
    // Four processes have four threads, which share what is left of the eight CPUs.
    let four = on(&machine, "sqthread_poll\nnumjobs=4");
    assert!(
        (7.9..8.01).contains(&busy_cpus(&four)),
        "{}",
        busy_cpus(&four)
    );
    // On a CPU of its own the thread leaves the process alone; on the same CPU they take turns.
    let apart = on(
        &machine,
        "sqthread_poll\nsqthread_poll_cpu=3\ncpus_allowed=2",
    );
    let [second, third] = [2, 3].map(|cpu| apart.cpus[cpu].busy_seconds / apart.seconds);
    assert!(second > 0.98 && third > 0.98, "{second} {third}");
    let together = on(
        &machine,
        "sqthread_poll\nsqthread_poll_cpu=2\ncpus_allowed=2",
    );
    assert!((0.99..1.01).contains(&busy_cpus(&together)));
    assert!(
        together.iops < apart.iops / 10.0,
        "{} {}",
        together.iops,
        apart.iops
    );
}

#[test]
fn a_thread_without_submissions_sleeps_after_a_second() {
    let machine = machine(0, 1);
    let often = on(&machine, "sqthread_poll\nrate_iops=2\nruntime=20");
    let seldom = on(&machine, "sqthread_poll\nthinktime=5s\nruntime=21");
    // A process that pauses sleeps; its thread spins for a second after each of its requests.
    assert!(
        (0.95..1.05).contains(&busy_cpus(&often)),
        "{}",
        busy_cpus(&often)
    );
    let busy = busy_cpus(&seldom) * seldom.seconds;
    let requests = seldom.requests as f64;
    assert!(
        (0.95 * requests - 1.0..1.1 * requests).contains(&busy),
        "{busy} s for {requests}"
    );
}

#[test]
fn pollers_that_share_a_cpu_take_turns() {
    let machine = machine(1, 1);
    let run = on(&machine, "hipri\nnumjobs=2\ncpus_allowed=1\nruntime=2");
    assert!(
        (0.99..1.01).contains(&busy_cpus(&run)),
        "{}",
        busy_cpus(&run)
    );
    assert!(run.attribution.mean.waiting_to_run > 10.0 && parts_add_up(&run));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn polled_jobs_come_to_their_end(
        polls in prop::sample::select(vec!["hipri", "sqthread_poll", "hipri\nsqthread_poll", "hipri\nsqthread_poll\nsqthread_poll_cpu=1"]),
        engine in prop::sample::select(vec!["io_uring", "io_uring_cmd"]),
        pattern in prop::sample::select(vec!["randread", "write", "randrw", "read"]),
        more in prop::sample::select(vec![
            "", "iodepth=32", "iodepth=16\niodepth_batch=8\niodepth_batch_complete_min=4", "rate_iops=3000",
            "thinktime=100", "bsrange=4k-256k", "cpus_allowed=0-1\niodepth=4", "fsync=3\nhipri=0",
        ]),
        (queues, drives, jobs) in (0_usize..3, 1_usize..3, 1_u32..5),
        blocks in 16_u64..1000,
    ) {
        let mut machine = machine(queues, drives);
        machine.kernel = Some(if queues == 0 { "6.1" } else { "7.3" }.parse().unwrap());
        let lines = format!("{polls}\nioengine={engine}\nrw={pattern}\nsize={}k\nruntime=60\nnumjobs={jobs}\n{more}\n", blocks * 4);
        let run = on(&machine, &lines);
        prop_assert!(parts_add_up(&run));
        prop_assert!(busy_cpus(&run) <= 8.0001);
        if !more.contains("bsrange") {
            prop_assert_eq!(run.requests, u64::from(jobs) * blocks);
        }
        prop_assert_eq!(on(&machine, &lines).seconds.to_bits(), run.seconds.to_bits());
    }
}
