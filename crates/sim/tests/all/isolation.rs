//! CPUs that differ: those of isolcpus= and nohz_full=, and cores of two kinds.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Isolation};
use wakepath_policies::idle::{IdleDecision, IdleQuery};
use wakepath_sim::observer::{Activity, InterruptKind, Observer, WakeUpSeen};
use wakepath_sim::{Run, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, fio, tasks};

/// Four cores, of which two are kept free.
fn server(isolcpus: &[usize], nohz_full: &[usize], managed_irq: bool) -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.isolation = Isolation {
        isolcpus: isolcpus.to_vec(),
        nohz_full: nohz_full.to_vec(),
        managed_irq,
        ..Isolation::default()
    };
    machine
}

/// What is counted of each CPU.
#[derive(Default)]
struct Counts {
    ticks: Vec<u32>,
    idle_choices: Vec<u32>,
    completions: Vec<u32>,
}

fn count(list: &mut Vec<u32>, cpu: usize) {
    list.resize(list.len().max(cpu + 1).max(8), 0);
    list[cpu] += 1;
}

impl Observer for Counts {
    fn cpu_activity_changed(&mut self, _now: Nanoseconds, cpu: usize, activity: Activity) {
        match activity {
            Activity::Interrupt(InterruptKind::Tick) => count(&mut self.ticks, cpu),
            Activity::Interrupt(InterruptKind::Completion(_)) => {
                count(&mut self.completions, cpu);
            }
            _ => {}
        }
    }

    fn idle_state_chosen(&mut self, cpu: usize, _query: &IdleQuery, _decision: IdleDecision) {
        count(&mut self.idle_choices, cpu);
    }
}

fn run(machine: &Machine, lines: &str) -> (Run, Counts) {
    let text = format!(
        "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\nrw=randread\nruntime=1s\n{lines}"
    );
    let job: Workload = fio::parse(&text, "test.fio").unwrap().into();
    let mut counts = Counts::default();
    for list in [
        &mut counts.ticks,
        &mut counts.idle_choices,
        &mut counts.completions,
    ] {
        list.resize(8, 0);
    }
    let set = "menu + performance".parse().unwrap();
    let run = simulate_observed(machine, &job, &set, 1, &mut counts).unwrap();
    (run, counts)
}

#[test]
fn only_bound_tasks_run_on_isolated_cpus() {
    let machine = server(&[4, 5, 6, 7], &[], false);
    let busy = |lines: &str| -> Vec<usize> {
        let (run, _) = run(&machine, lines);
        let powered = run.cpus.iter().enumerate();
        powered
            .filter(|(_, c)| c.powered_seconds > 0.5)
            .map(|(cpu, _)| cpu)
            .collect()
    };
    // Six tasks share four CPUs.
    assert_eq!(busy("thinkcycles=20000000\nnumjobs=6\n"), [0, 1, 2, 3]);
    assert_eq!(busy("thinkcycles=20000000\ncpus_allowed=6\n"), [6]);
}

#[test]
fn a_cpu_of_nohz_full_has_no_tick_while_it_has_one_task() {
    let ticks = |nohz: &[usize], lines: &str| {
        let machine = server(&[], nohz, false);
        run(
            &machine,
            &format!("thinkcycles=400000000\ncpus_allowed=6\n{lines}"),
        )
        .1
        .ticks[6]
    };
    // 250 a second, but for the time that it waits.
    assert!(ticks(&[], "") > 200, "{}", ticks(&[], ""));
    assert!(ticks(&[6, 7], "") < 5, "{}", ticks(&[6, 7], ""));
    let two = ticks(&[6, 7], "numjobs=2\n");
    assert!(two > 150, "{two}");
}

#[test]
fn a_system_call_costs_more_on_a_cpu_of_nohz_full() {
    // The cycles of CPU 6 for an I/O.
    let busy = |nohz: &[usize], kcycles: Option<f64>, lines: &str| {
        let mut machine = server(&[], nohz, false);
        // On the other thread of its core, fio's main process would slow the job down.
        machine.background.clear();
        if let Some(kcycles) = kcycles {
            machine.isolation.syscall_kcycles = Figure::covered_by_table_source(kcycles);
        }
        let run = run(&machine, &format!("cpus_allowed=6\n{lines}")).0;
        let mhz = f64::from(machine.cluster[0].max_frequency().0) / 1e3;
        run.cpus[6].busy_seconds * mhz * 1e6 / run.requests as f64
    };
    let more = busy(&[6, 7], None, "") - busy(&[6, 7], Some(0.0), "");
    // Choices of idle states, and so refilled caches, change with it.
    assert!((more - 750.0).abs() < 100.0, "{more}");
    // Elsewhere it costs nothing.
    let elsewhere = busy(&[4, 5], None, "") - busy(&[4, 5], Some(0.0), "");
    assert!(elsewhere.abs() < 1e-9, "{elsewhere}");
    // One call submits and one takes back.
    let engine = "ioengine=libaio\n";
    let more = busy(&[6, 7], None, engine) - busy(&[6, 7], Some(0.0), engine);
    assert!((more - 1500.0).abs() < 150.0, "{more}");
}

#[test]
fn background_work_of_nohz_full_cpus_is_done_elsewhere() {
    let choices = |nohz: &[usize]| {
        let mut machine = server(&[], nohz, false);
        // The scheduler places fio's own threads, on any CPU.
        machine
            .background
            .retain(|source| source.workload.is_none());
        // The watchdog comes to each CPU every four seconds.
        run(&machine, "thinktime=400ms\ncpus_allowed=1\nruntime=4s\n")
            .1
            .idle_choices
    };
    let (before, after) = (choices(&[]), choices(&[4, 5, 6, 7]));
    assert!(before[6] > 3 && after[6] <= 1, "{before:?} {after:?}");
    // CPU 0 comes after the last one.
    assert!(after[0] > before[0], "{before:?} {after:?}");
}

/// The scheduler begins with the last CPUs for fio's own threads and RCU's thread, which is the third, on CPU 5.
#[test]
fn isolated_cpus_have_no_work_for_grace_periods() {
    let choices = |isolcpus: &[usize], nohz: &[usize]| {
        let machine = server(isolcpus, nohz, false);
        run(&machine, "thinktime=400ms\ncpus_allowed=1\n")
            .1
            .idle_choices
    };
    let before = choices(&[], &[])[5];
    assert!(before > 100, "{before}");
    // Timers of programs stay where they are: each CPU has four a second.
    let isolated = choices(&[4, 5, 6, 7], &[])[5];
    assert!(isolated < 20, "{isolated}");
    let without_ticks = choices(&[], &[5])[5];
    assert!(without_ticks <= 2, "{without_ticks}");
}

/// RCU's grace-period thread, and the CPUs on whose run queues it came.
#[derive(Default)]
struct GracePeriodThread {
    task: Option<usize>,
    targets: Vec<usize>,
}

impl Observer for GracePeriodThread {
    fn kernel_thread_named(&mut self, task: usize, name: &str) {
        if name == "rcu_preempt" {
            self.task.get_or_insert(task);
        }
    }

    fn task_woken(&mut self, _: Nanoseconds, wake_up: WakeUpSeen) {
        if self.task == Some(wake_up.task) {
            self.targets.push(wake_up.target);
        }
    }
}

#[test]
fn the_grace_period_thread_begins_on_its_recorded_cpu_only_if_it_may_run_there() {
    let targets = |isolcpus: &[usize], nohz: &[usize], recorded: &str| {
        let text = format!(
            "kind = 'tasks'\nname = 'x'\nseconds = 0.5\nmachine_cpus = 8\n{recorded}\n\
             [[task]]\nname = 'a'\nfirst_cpu = 0\nsteps = '''\ncallback\nrun 20us\nsleep 50ms\n'''"
        );
        let workload: Workload = tasks::parse(&text, "x.toml").unwrap().into();
        let machine = server(isolcpus, nohz, false);
        let mut seen = GracePeriodThread::default();
        let policies = "menu + performance".parse().unwrap();
        simulate_observed(&machine, &workload, &policies, 1, &mut seen).unwrap();
        assert!(!seen.targets.is_empty());
        seen.targets
    };
    let recorded = "grace_period_cpu = 5";
    assert_eq!(targets(&[], &[], recorded)[0], 5);
    for (isolcpus, nohz) in [(&[5, 6][..], &[][..]), (&[], &[5, 6])] {
        let own = targets(isolcpus, nohz, recorded);
        assert!(!own.contains(&5), "{own:?}");
        assert_eq!(own, targets(isolcpus, nohz, ""));
    }
}

#[test]
fn completions_keep_out_of_isolated_cpus_where_their_queue_has_another() {
    let served = |isolcpus: &[usize], managed: bool| {
        let mut machine = server(isolcpus, &[], managed);
        machine.io_path.completion.queues = Some(4);
        let counts = run(&machine, "cpus_allowed=5\n").1;
        (counts.completions[4] > 100, counts.completions[5] > 100)
    };
    // The queue of CPUs 4 and 5 interrupts the first of them.
    assert_eq!(served(&[4], false), (true, false));
    assert_eq!(served(&[4], true), (false, true));
    // With nobody else it stays.
    assert_eq!(served(&[4, 5], true), (true, false));
}

#[test]
fn impossible_lists_are_refused() {
    for (isolcpus, nohz_full, says) in [
        (&[8][..], &[][..], "CPU 8 of a machine with 8 CPUs"),
        (&[0, 1, 2, 3], &[4, 5, 6, 7], "at least one CPU"),
    ] {
        let error = server(isolcpus, nohz_full, false)
            .check()
            .unwrap_err()
            .to_string();
        assert!(error.contains(says), "{error}");
    }
}

/// Two kinds of cores in one package: each has its clocks and its capacity.
#[test]
fn a_hybrid_processor_has_two_kinds_of_clocks_and_places_tasks_by_capacity() {
    let machine = Machine::find("hybrid-i7-1260p").unwrap();
    let count = |lines: &str| {
        let text = format!(
            "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\nrw=randread\nruntime=300ms\nthinkcycles=20000000\n{lines}"
        );
        let job: Workload = fio::parse(&text, "test.fio").unwrap().into();
        let set = "menu + performance".parse().unwrap();
        wakepath_sim::simulate(&machine, &job, &set, 1).unwrap()
    };
    let busy = |run: &Run| -> Vec<usize> {
        let all = run.cpus.iter().enumerate();
        all.filter(|(_, c)| c.powered_seconds > 0.15)
            .map(|(cpu, _)| cpu)
            .collect()
    };
    // One task on a performance core; bound to an efficiency core it is slower by both capacity and clock.
    let (fast, slow) = (count(""), count("cpus_allowed=12\n"));
    assert!(busy(&fast)[0] < 8 && busy(&slow) == [12]);
    let ratio = slow.iops / fast.iops;
    assert!((0.5..0.62).contains(&ratio), "{ratio}");
    assert!((fast.mean_mhz - 4700.0).abs() < 1.0 && (slow.mean_mhz - 3400.0).abs() < 1.0);
    // Twelve tasks: more than one kind has cores for.
    let all = busy(&count("numjobs=12\n"));
    assert!(
        all.iter().any(|cpu| *cpu < 8) && all.iter().any(|cpu| *cpu >= 8),
        "{all:?}"
    );
}

/// Each kind of core has its own table: what its governor is told, and what leaving a state really takes.
#[test]
fn each_kind_of_core_has_its_own_idle_states() {
    let machine = |own: &str| {
        let file = include_str!("../../../hardware/data/machines/hybrid-i7-1260p.toml");
        // Of the last cluster, the efficiency cores.
        let (clusters, rest) = file.split_once("\n[[idle_state]]").unwrap();
        let text = format!("{clusters}\n{own}\n[[idle_state]]{rest}");
        let mut machine = Machine::parse(&text, "hybrid.toml").unwrap();
        // Work in between comes at other times where another CPU wakes up later.
        machine.background.clear();
        machine
    };
    let run_job = |machine: &Machine, lines: &str, policy: &str| {
        let text = format!(
            "[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\nrw=randread\nruntime=500ms\nthinktime=5ms\n{lines}"
        );
        let job: Workload = fio::parse(&text, "test.fio").unwrap().into();
        wakepath_sim::simulate(machine, &job, &policy.parse().unwrap(), 1).unwrap()
    };
    let (alike, slow) = (
        machine(""),
        machine(
            "[[cluster.idle_state]]\nname = \"C10\"\nexit_latency_us = 660\ntarget_residency_us = 1980\ntrue_exit_us = 600\nsource = \"a test\"\n",
        ),
    );
    let mean = |machine: &Machine, cpu: usize, policy: &str| {
        let run = run_job(machine, &format!("cpus_allowed={cpu}\n"), policy);
        (run.latency_us.mean, run.cpus[cpu].idle_seconds.clone())
    };
    // The performance cores notice nothing; an efficiency core that sleeps in C10 takes as long as it says.
    let deepest = "menu + performance + idle-states[disable=POLL,C1E,C6,C8]";
    let before = mean(&alike, 0, "menu + performance");
    assert_eq!(mean(&slow, 0, "menu + performance"), before);
    let (fast, other) = (mean(&alike, 12, deepest).0, mean(&slow, 12, deepest).0);
    let exits = alike.idle_state.last().unwrap().true_exit_us.value;
    assert!(
        (other - fast - (600.0 - exits)).abs() < 30.0,
        "{fast} {other}"
    );
    // A limit of 300 us forbids C10 where 660 us are declared, and nowhere else.
    let limited = "menu + performance + cpu-latency[limit=300us]";
    assert!(mean(&alike, 12, limited).1[4] > 0.1);
    assert!(mean(&slow, 12, limited).1[4] == 0.0);
    // As does a ceiling.
    let ceiling = "menu + performance + idle-states[ceiling=300us]";
    assert!(mean(&alike, 12, ceiling).1[4] > 0.1);
    assert!(mean(&slow, 0, ceiling).1[4] > 0.1);
    assert!(mean(&slow, 12, ceiling).1[4] == 0.0);
    // A state that one kind does not have is not used there.
    let without =
        machine("[[cluster.idle_state]]\nname = \"C10\"\ndisabled = true\nsource = \"a test\"\n");
    let seconds = |cpu: usize| mean(&without, cpu, "menu + performance").1[4];
    assert!(seconds(12) == 0.0 && seconds(0) > 0.1);
}
