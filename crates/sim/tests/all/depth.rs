//! More than one request at a time: what limits them, and what an I/O costs then.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Background, BackgroundTimer, DriveRest, Figure, Instances, Rcu};
use wakepath_policies::PolicySet;
use wakepath_policies::idle::{IdleDecision, IdleQuery};
use wakepath_sim::observer::Observer;
use wakepath_sim::{Run, SimError, simulate, simulate_observed};
use wakepath_workloads::fio;

fn try_run(machine: &Machine, frequency: &str, lines: &str) -> Result<Run, SimError> {
    let text = format!("[j]\nfilename=/dev/nvme0n1\nrw=randread\nruntime=1\n{lines}");
    let job = fio::parse(&text, "test.fio").unwrap();
    let policies = PolicySet::from_names(["menu@6.1", frequency]).unwrap();
    simulate(machine, &job.into(), &policies, 1)
}

fn board() -> Machine {
    Machine::find("rk3399-depth").unwrap()
}

fn iops(machine: &Machine, frequency: &str, lines: &str) -> f64 {
    try_run(machine, frequency, lines).unwrap().iops
}

/// The board without idle states below WFI. How often menu takes those varies with everything that runs, and a single exit costs
/// as much as an I/O.
fn board_without_deep_sleep() -> Machine {
    let mut machine = board();
    for state in &mut machine.idle_state[1..] {
        state.disabled = true;
    }
    machine
}

#[test]
fn a_buffered_read_costs_more_and_libaio_waits_for_each() {
    let iops_of_job = |lines: &str| iops(&board(), "powersave", lines);
    let (buffered, direct) = (
        iops_of_job("ioengine=psync"),
        iops_of_job("ioengine=psync\ndirect=1"),
    );
    // 10,400 cycles of the big core are 54 us on a small one at 408 MHz.
    let more_us = 1e6 / buffered - 1e6 / direct;
    assert!((51.0..57.0).contains(&more_us), "{more_us}");
    assert_eq!(
        iops_of_job("ioengine=libaio\niodepth=32").to_bits(),
        buffered.to_bits()
    );
    assert!(iops_of_job("ioengine=libaio\niodepth=32\ndirect=1") > 2.0 * buffered);
    assert!(iops_of_job("ioengine=io_uring\niodepth=32") > 2.0 * buffered);
}

/// Fio drops a file from the page cache before each pass.
#[test]
fn a_file_that_is_read_again_comes_from_the_drive_again() {
    let once = try_run(&board(), "performance", "size=1m").unwrap();
    assert_eq!(once.reads, 256);
    for lines in ["size=1m\ntime_based", "size=1m\ntime_based\ndirect=1"] {
        let again = try_run(&board(), "performance", lines).unwrap();
        assert!(again.reads > 2 * 256, "{lines}: {}", again.reads);
    }
}

#[test]
fn who_never_sleeps_does_more() {
    let mut machine = board();
    let deep = "ioengine=io_uring\niodepth=128\ndirect=1";
    let saves = iops(&machine, "powersave", deep);
    let io = &mut machine.io_path;
    for share in [
        &mut io.deactivation_share,
        &mut io.reactivation_share,
        &mut io.switch_share,
    ] {
        *share = Figure::default();
    }
    let all = iops(&machine, "powersave", deep);
    // 0.150 + 0.263 + 0.208 of the work is left out.
    assert!((2.5..2.7).contains(&(saves / all)), "{saves} and {all}");
    // One at a time sleeps each time, but takes itself off the run queue while the drive works: 3,480 cycles at 193 MHz are 18 us.
    let single = "ioengine=psync\ndirect=1";
    let latency_us = |machine: &Machine| 1e6 / iops(machine, "powersave", single);
    let with_switches = board_without_deep_sleep();
    machine.idle_state.clone_from(&with_switches.idle_state);
    let saved_us = latency_us(&machine) - latency_us(&with_switches);
    assert!((16.5..19.0).contains(&saved_us), "{saved_us}");
}

/// Latencies by hand, of a host's thread that wakes in 14 us and takes 8 us for each request.
#[test]
fn a_host_serves_a_queue_until_it_is_empty() {
    let mut machine = Machine::find("epyc-7502").unwrap();
    machine.background.clear();
    let khz = 2_500_000;
    let drive = &mut machine.drive;
    (drive.power, drive.buffer, drive.flash) = (None, None, None);
    drive.read_service_us = figure(8.0);
    drive.read_p999_us = Figure::default();
    drive.spread = figure(0.0);
    drive.parallel_units = figure(1.0);
    drive.set_rests([DriveRest {
        after_ms: Figure::covered_by_table_source(0.0),
        exit_us: Figure::covered_by_table_source(14.0),
    }]);
    let io = &mut machine.io_path;
    // 20 us: half to submit, of which 8 us tell the host; 8 us in the interrupt, of which 6 wake the task, which takes 2 us.
    io.kcycles_per_io = figure(20.0 * f64::from(khz) / 1e6);
    (io.submission_share, io.interrupt_share, io.resume_share) =
        (figure(0.5), figure(0.4), figure(0.1));
    (io.doorbell_share, io.reactivation_share) = (figure(0.4), figure(0.3));
    (io.deactivation_share, io.switch_share) = (Figure::default(), figure(0.1));
    (io.program_kcycles, io.asynchronous_kcycles) = (Figure::default(), Figure::default());
    io.completion.when_empty = figure(1.0);
    let round_us = |depth: usize| {
        let lines = format!("ioengine=libaio\niodepth={depth}\ndirect=1");
        let policies = PolicySet::from_names(["menu@6.1", "performance", "cpu-latency[limit=0us]"]);
        let text = format!("[j]\nfilename=/dev/nvme0n1\nrw=randread\nruntime=1\n{lines}");
        let job = fio::parse(&text, "test.fio").unwrap();
        let run = simulate(&machine, &job.into(), &policies.unwrap(), 1).unwrap();
        depth as f64 * 1e6 / run.iops
    };
    let alone = round_us(1);
    // The first request tells the host's thread, which wakes and serves all. An interrupt wakes the task; each further
    // request is 2 us of it.
    for depth in [2, 8, 32] {
        let further = f64::from(depth as u32 - 1);
        let expected = alone + further * (8.0 + 2.0);
        let found = round_us(depth);
        assert!(
            (found - expected).abs() < 0.03 * expected,
            "{depth}: {found} and {expected}"
        );
    }
    machine.io_path.completion.when_empty = Figure::default();
    let one_by_one = {
        let lines = "ioengine=libaio\niodepth=8\ndirect=1";
        iops(&machine, "performance", lines)
    };
    assert!(8e6 / one_by_one > alone, "{one_by_one}");
}

#[test]
fn a_polled_request_keeps_no_completion_back() {
    let mut machine = Machine::find("epyc-7502").unwrap();
    machine.io_path.completion.when_empty = figure(1.0);
    machine.io_path.completion.poll_queues = Some(1);
    machine.drive.parallel_units = figure(4.0);
    let text = "[global]\nfilename=/dev/nvme0n1\nrw=randread\ndirect=1\nruntime=1\ntime_based\ncpus_allowed=0\n\
                [waits]\nioengine=psync\n[polls]\nioengine=pvsync2\nhipri=1\nthinktime=50\n";
    let job = fio::parse(text, "test.fio").unwrap();
    let policies = PolicySet::from_names(["menu@6.1", "performance"]).unwrap();
    let run = simulate(&machine, &job.into(), &policies, 1).unwrap();
    // The polling job keeps the CPU for half of its time.
    let most = run.jobs.iter().map(|job| job.reads).max().unwrap();
    let fewest = run.jobs.iter().map(|job| job.reads).min().unwrap();
    assert!(fewest * 5 > most && fewest > 1_000, "{fewest} and {most}");
}

/// What each CPU's governor was told of the next timer.
#[derive(Default)]
struct SleepLengths(Vec<Vec<i64>>);

impl Observer for SleepLengths {
    fn idle_state_chosen(&mut self, cpu: usize, query: &IdleQuery, _: IdleDecision) {
        if self.0.len() <= cpu {
            self.0.resize_with(cpu + 1, Vec::new);
        }
        self.0[cpu].push(query.sleep_length);
    }
}

fn figure(value: f64) -> Figure {
    Figure {
        value,
        ..Figure::default()
    }
}

/// A machine of which nothing but the kernel's own timers is known.
fn only_the_kernel() -> Machine {
    let mut machine = board();
    machine.background = Background::stock_kernel_work();
    machine
}

#[test]
fn the_watchdog_wakes_each_cpu_every_four_seconds() {
    let mut none = only_the_kernel();
    none.background.clear();
    let ticks = |machine: &Machine| {
        let lines = "ioengine=psync\ndirect=1\nrate_iops=1\nruntime=41\ntime_based";
        let run = try_run(machine, "performance", lines).unwrap();
        run.idle_states.iter().map(|s| s.entries).sum::<u64>()
    };
    let more = ticks(&only_the_kernel()) - ticks(&none);
    // Ten times on each of six CPUs; each gives the tick back, which is stopped again.
    assert!((60..=240).contains(&more), "{more}");
}

#[test]
fn work_that_there_is_once_wakes_one_cpu_at_a_time() {
    let mut machine = board();
    machine.background.clear();
    let entries = |machine: &Machine| {
        let lines = "ioengine=psync\ndirect=1\nrate_iops=1\nruntime=10\ntime_based";
        let run = try_run(machine, "performance", lines).unwrap();
        run.idle_states.iter().map(|s| s.entries).sum::<u64>()
    };
    let none = entries(&machine);
    let source = Background {
        every_ms: figure(10.0),
        kcycles: figure(11.0),
        timer: Some(BackgroundTimer::Precise),
        ..Background::stock_kernel_work().swap_remove(0)
    };
    let once = Background {
        instances: Instances::PerMachine,
        ..source.clone()
    };
    machine.background = vec![once];
    // 100 times a second, each with the work of it, 5 us, added.
    assert!((990..1005).contains(&(entries(&machine) - none)));
    machine.background = vec![source];
    let each = entries(&machine) - none;
    assert!((5900..6050).contains(&each), "{each} on six CPUs");
}

#[test]
fn a_cpu_with_rcu_callbacks_keeps_its_tick() {
    let mut machine = board();
    machine.rcu = Some(Rcu {
        thread_kcycles: figure(5.0),
        softirq_kcycles: figure(1.0),
        source: "a test".to_owned(),
    });
    let mut entries = |every: f64, callbacks: bool| {
        machine.background = vec![Background {
            every_ms: figure(every),
            callbacks,
            timer: Some(BackgroundTimer::Precise),
            ..Background::stock_kernel_work().swap_remove(0)
        }];
        let lines = "ioengine=psync\ndirect=1\nrate_iops=1\nruntime=10\ntime_based";
        let run = try_run(&machine, "performance", lines).unwrap();
        run.idle_states.iter().map(|s| s.entries).sum::<u64>()
    };
    // 20 times a second on each of six CPUs: one or two ticks of 4 ms until somebody asks for a grace period, two until it is over, one
    // until the callback is called; and the thread's own three wake-ups.
    let more = (entries(50.0, true) - entries(50.0, false)) as f64 / 1200.0;
    assert!((4.0..=8.0).contains(&more), "{more}");
    // A CPU that always has some never stops its tick: 250 a second.
    let always = entries(10.0, true);
    assert!((18_000..30_000).contains(&always), "{always}");
    let never = entries(10.0, false);
    assert!(never < 8_000, "{never}");
}

/// A soft interrupt may wake RCU's thread while the thread's expired timer waits to be served.
#[test]
fn a_thread_that_is_awake_when_its_timer_is_served_is_not_woken_again() {
    let mut machine = board();
    machine.kernel = Some("6.12".parse().unwrap());
    machine.cluster.truncate(1);
    machine.cluster[0].cpus = 2;
    machine
        .scheduler
        .home
        .cluster
        .clone_from(&machine.cluster[0].name);
    machine.rcu = Some(Rcu {
        thread_kcycles: figure(5.0),
        softirq_kcycles: figure(1.0),
        source: "a test".to_owned(),
    });
    machine.background = vec![Background {
        every_ms: figure(10.055),
        callbacks: true,
        instances: Instances::PerMachine,
        timer: Some(BackgroundTimer::Sleep),
        ..Background::stock_kernel_work().swap_remove(0)
    }];
    let run = try_run(&machine, "schedutil", "rate_iops=6\ntime_based").unwrap();
    assert!(run.iops > 4.0, "{}", run.iops);
}

/// The median of the sleep lengths that the CPU sees which waits for the most I/Os, in ns.
fn sleep_length(machine: &mut Machine, kernel: &str) -> i64 {
    machine.kernel = Some(kernel.parse().unwrap());
    let text = "[j]\nfilename=/dev/nvme0n1\nrw=randread\nruntime=2\ntime_based\nioengine=psync\ndirect=1\n";
    let job = fio::parse(text, "test.fio").unwrap();
    let policies = PolicySet::from_names(["menu", "performance"]).unwrap();
    let mut seen = SleepLengths::default();
    simulate_observed(machine, &job.into(), &policies, 1, &mut seen).unwrap();
    // Of the CPU that waits for the most I/Os.
    let of_job = seen.0.into_iter().max_by_key(Vec::len).unwrap();
    let (half, mut sorted) = (of_job.len() / 2, of_job);
    sorted.sort_unstable();
    sorted[half]
}

#[test]
fn a_cpu_that_is_awake_takes_over_the_timers_of_one_that_sleeps() {
    let mut machine = board();
    machine.background = vec![Background {
        every_ms: figure(40.0),
        instances: Instances::PerMachine,
        ..Background::stock_kernel_work().swap_remove(0)
    }];
    // No other timer is near on that CPU: it sees that of the CPU on which the task sleeps, or none.
    let ms = 1_000_000;
    assert!(sleep_length(&mut machine, "6.12") < 45 * ms);
    assert!(sleep_length(&mut machine, "6.1") > 1000 * ms);
}

#[test]
fn fio_spins_through_pauses_that_are_too_short_to_sleep() {
    let mut machine = board();
    machine.scheduler.timer_slack_us = figure(0.0);
    let asleep = |machine: &Machine, pause: &str| {
        let lines = format!("ioengine=psync\ndirect=1\nthinktime={pause}");
        let run = try_run(machine, "performance", &lines).unwrap();
        run.idle_states.iter().map(|s| s.seconds).sum::<f64>() / run.seconds
    };
    let sleeps = asleep(&machine, "40us");
    machine.scheduler.timer_slack_us = figure(50.0);
    let spins = asleep(&machine, "40us");
    assert!(sleeps - spins > 0.1, "{sleeps} and {spins}");
    // Of a longer one it sleeps for all but some us.
    let long = asleep(&machine, "2ms");
    machine.scheduler.timer_slack_us = figure(0.0);
    assert!((asleep(&machine, "2ms") - long).abs() < 0.05, "{long}");
}

#[test]
fn reads_of_one_unit_wait_for_it() {
    let mut machine = board_without_deep_sleep();
    let iops_at_depth = |machine: &Machine, depth: u32| {
        iops(
            machine,
            "performance",
            &format!("ioengine=io_uring\niodepth={depth}\ndirect=1"),
        )
    };
    let gains = |machine: &Machine| iops_at_depth(machine, 4) / iops_at_depth(machine, 1);
    let own = gains(&machine);
    machine.drive.reads_by_address = Figure::default();
    let any = gains(&machine);
    assert!(own < 3.6 && any > 3.9, "{own} and {any}");
    // Enough of them in flight keep every unit busy.
    assert!(iops_at_depth(&board_without_deep_sleep(), 128) > 0.9 * iops_at_depth(&machine, 128));
}

#[test]
fn the_timer_of_the_server_for_fair_tasks_ends_sleeps_within_a_second() {
    let mut machine = board();
    machine.background = Vec::new();
    let ms = 1_000_000;
    let shortened = sleep_length(&mut machine, "6.12");
    assert!((900 * ms..=950 * ms).contains(&shortened), "{shortened}");
    // Before, it stopped with the last task.
    assert!(sleep_length(&mut machine, "6.12.91") > 1000 * 1000 * ms);
}
