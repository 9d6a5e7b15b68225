//! Tasks of given steps: requests, sleeps, and wake-ups by each other.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fmt::Write as _;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Rcu, Runs};
use wakepath_policies::PolicySet;
use wakepath_sim::observer::{Activity, InterruptKind, Observer, RequestStep, WakeUpSeen};
use wakepath_sim::{Run, SimError, simulate, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, fio, tasks};

/// Tasks with these names and steps, for half a second.
fn tasks_with_steps(steps: &[(&str, &str)]) -> Workload {
    let mut text = "kind = 'tasks'\nname = 'x'\nseconds = 0.5\nhas_background = true\n".to_owned();
    for (name, steps) in steps {
        let _ = write!(text, "[[task]]\nname = '{name}'\n{steps}\n");
    }
    tasks::parse(&text, "x.toml").unwrap().into()
}

fn on(machine: &str, workload: &Workload, policy: &str) -> Result<Run, SimError> {
    let machine = Machine::find(machine).unwrap();
    let set: PolicySet = policy.parse().unwrap();
    simulate(&machine, workload, &set, 1)
}

/// What is seen of a run's requests and wake-ups.
#[derive(Default)]
struct Seen {
    in_flight: usize,
    most_in_flight: usize,
    issued: Vec<u64>,
    wake_ups: Vec<(usize, bool)>,
    /// Times when each task began to run.
    runs: Vec<(u64, usize)>,
    /// Times and CPUs of interrupts by the network.
    network: Vec<(u64, usize)>,
}

impl Observer for Seen {
    fn request_step_reached(&mut self, now: Nanoseconds, step: RequestStep) {
        match step {
            RequestStep::Issued { .. } => {
                self.in_flight += 1;
                self.most_in_flight = self.most_in_flight.max(self.in_flight);
                self.issued.push(now.0);
            }
            RequestStep::Completed { .. } => self.in_flight -= 1,
            _ => {}
        }
    }

    fn task_woken(&mut self, _: Nanoseconds, wake_up: WakeUpSeen) {
        self.wake_ups.push((wake_up.task, wake_up.iowait));
    }

    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        match activity {
            Activity::Task { task, .. } => self.runs.push((now.0, task)),
            Activity::Interrupt(InterruptKind::Network) => self.network.push((now.0, cpu)),
            _ => {}
        }
    }
}

fn observe(workload: &Workload) -> Seen {
    observe_under("menu", workload)
}

fn observe_under(policies: &str, workload: &Workload) -> Seen {
    let machine = Machine::find("rk3399").unwrap();
    let mut seen = Seen::default();
    let set = policies.parse().unwrap();
    simulate_observed(&machine, workload, &set, 1, &mut seen).unwrap();
    seen
}

#[test]
fn a_reader_is_as_fast_as_the_same_job_of_fio() {
    let job = "[a]\nioengine=psync\ndirect=1\nrw=randread\nbs=4k\nsize=1g\nruntime=500ms\ntime_based=1\nthinktime=400us\n";
    let job: Workload = fio::parse(job, "x.fio").unwrap().into();
    let steps = "first_cpu = 4\nsteps = '''\nread 4096 0\nwait 0\nsleep 400us\n'''";
    let reader = tasks_with_steps(&[("reader", steps)]);
    for policy in ["menu", "menu + psd", "menu + cpu-latency[limit=50us]"] {
        let [fio, own] = [&job, &reader].map(|workload| on("rk3399", workload, policy).unwrap());
        let [fio_mean, own_mean] = [&fio, &own].map(|run| run.latency_us.mean);
        assert!(
            (own_mean / fio_mean - 1.0).abs() < 0.05,
            "{policy}: {own_mean} {fio_mean}"
        );
        assert!(
            (own.iops / fio.iops - 1.0).abs() < 0.1,
            "{policy}: {} {}",
            own.iops,
            fio.iops
        );
    }
}

#[test]
fn the_kernels_work_for_requests_is_taken_out_of_runs() {
    let with_runs = |run: &str| {
        let steps = format!("first_cpu = 0\nsteps = '''\nread 4096 0\n{run}\nwait 0\n{run}\n'''");
        on(
            "rk3399",
            &tasks_with_steps(&[("reader", &steps)]),
            "menu + performance",
        )
        .unwrap()
    };
    let none = with_runs("run 0us");
    // The first microseconds of a run are the kernel's work, which the model does anyway.
    let within = with_runs("run 1us");
    assert_eq!(none.requests, within.requests);
    assert!(with_runs("run 500us").requests < none.requests / 2);
}

#[test]
fn no_more_requests_are_in_flight_than_the_depth() {
    let steps = "depth = 3\nsteps = '''\nread 4096 0\nread 4096 4096\nwrite 8192 0\nwait 2\nread 512 0\n'''";
    let seen = observe(&tasks_with_steps(&[("deep", steps)]));
    assert_eq!(seen.most_in_flight, 3);
    assert!(seen.issued.len() > 1000, "{}", seen.issued.len());
}

#[test]
fn waits_for_requests_count_as_iowait_where_the_file_says_so() {
    for (line, iowait) in [("io_wait = true", true), ("io_wait = false", false)] {
        let steps = format!("{line}\nsteps = '''\nread 4096 0\nwait 0\n'''");
        let seen = observe(&tasks_with_steps(&[("reader", &steps)]));
        let most = seen
            .wake_ups
            .iter()
            .filter(|(_, seen)| *seen == iowait)
            .count();
        assert!(
            most * 10 > seen.wake_ups.len() * 9,
            "{line}: {:?}",
            seen.wake_ups.len()
        );
    }
}

#[test]
fn requests_that_nobody_waits_for_do_not_count() {
    let steps = "counted = false\nsteps = '''\nwrite 4096 0\nsleep 5ms\n'''";
    let run = on("rk3399", &tasks_with_steps(&[("flusher", steps)]), "menu").unwrap();
    assert_eq!(run.requests, 0);
}

#[test]
fn a_wake_up_ends_one_wait_even_if_it_comes_first() {
    let front = "steps = '''\nsleep 10ms\nwake helper\nwake helper\n'''";
    let helper = "steps = '''\nawait\nrun 20us\nread 4096 0\nwait 0\n'''";
    let run = on(
        "rk3399",
        &tasks_with_steps(&[("front", front), ("helper", helper)]),
        "menu",
    )
    .unwrap();
    // Two for each of the 49 or 50 periods.
    assert!((97..=100).contains(&run.requests), "{}", run.requests);
}

#[test]
fn a_periodic_timer_does_not_drift_with_the_work_before() {
    let steps = "steps = '''\nrun 300us\nread 4096 0\nwait 0\ntimer 5ms\n'''";
    let run = on("rk3399", &tasks_with_steps(&[("timer", steps)]), "menu").unwrap();
    assert_eq!(run.requests, 100);
    // Sleeps of 5 ms each come to fewer.
    let steps = "steps = '''\nrun 300us\nread 4096 0\nwait 0\nsleep 5ms\n'''";
    let run = on("rk3399", &tasks_with_steps(&[("sleeper", steps)]), "menu").unwrap();
    assert!(run.requests < 96, "{}", run.requests);
}

#[test]
fn a_request_interrupts_the_cpu_that_the_file_names() {
    for (steps, period) in [
        // So long after the request before, whatever the work.
        ("run 300us\narrival 2ms cpu 1", 2_000_000),
        // So long after the work.
        ("run 300us\narrival 2ms cpu 1 after reply", 2_300_000),
    ] {
        let steps = format!("first_cpu = 4\ncpus = [4]\nsteps = '''\n{steps}\n'''");
        // At the highest clock, where runs have their length.
        let workload = tasks_with_steps(&[("server", &steps)]);
        let seen = observe_under("menu + performance", &workload);
        assert!(seen.network.iter().all(|(_, cpu)| *cpu == 1));
        let count = seen.network.len() as u64;
        let [first, last] = [seen.network[0].0, seen.network[count as usize - 1].0];
        let mean = (last - first) / (count - 1);
        assert!((period - 5_000..period + 400_000).contains(&mean), "{mean}");
        assert_eq!(mean < 2_005_000, period == 2_000_000, "{mean}");
        // Background tasks are numbered, too.
        let mut by_task: BTreeMap<usize, u64> = BTreeMap::new();
        for (task, _) in &seen.wake_ups {
            *by_task.entry(*task).or_default() += 1;
        }
        assert!(
            by_task.values().any(|woken| woken.abs_diff(count) <= 1),
            "{count} interrupts, {by_task:?}"
        );
    }
}

#[test]
fn a_task_runs_only_where_the_file_lets_it() {
    let steps = "first_cpu = 5\ncpus = [5]\nsteps = '''\nread 4096 0\nwait 0\nsleep 1ms\n'''";
    let run = on("rk3399", &tasks_with_steps(&[("bound", steps)]), "menu").unwrap();
    let busiest = run.cpus.iter().max_by_key(|cpu| cpu.wake_ups).unwrap();
    assert_eq!(busiest.cpu, 5);
    // A machine without such a CPU lets the task run on all.
    let steps = "first_cpu = 500\ncpus = [500]\nsteps = '''\nread 4096 0\nwait 0\nsleep 1ms\n'''";
    assert!(
        on("rk3399", &tasks_with_steps(&[("bound", steps)]), "menu")
            .unwrap()
            .requests
            > 100
    );
}

#[test]
fn tasks_that_all_wait_for_each_other_are_an_error() {
    let [a, b] = ["b", "a"].map(|other| format!("steps = '''\nawait\nwake {other}\n'''"));
    let error = on("rk3399", &tasks_with_steps(&[("a", &a), ("b", &b)]), "menu").unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("'a' waits for the semaphore \"wake-up of a\""),
        "{message}"
    );
}

#[test]
fn steps_that_take_no_time_are_an_error() {
    let error = on(
        "rk3399",
        &tasks_with_steps(&[("a", "steps = 'run 0us'")]),
        "menu",
    )
    .unwrap_err();
    let message = error.to_string();
    assert!(
        message.contains("task 'a' takes steps without end"),
        "{message}"
    );
}

#[test]
fn a_recording_of_all_tasks_replaces_the_machines_background_tasks() {
    let text =
        "kind = 'tasks'\nname = 'x'\nseconds = 2.0\n[[task]]\nname = 'a'\nsteps = 'sleep 3s'\n";
    let wake_ups = |text: &str| {
        let workload = tasks::parse(text, "x.toml").unwrap().into();
        // Timers of programs, which a recording does not replace, come at random.
        let mut machine = Machine::find("rk3399").unwrap();
        machine
            .background
            .retain(|source| source.runs == Runs::Task);
        let run = simulate(&machine, &workload, &"menu".parse().unwrap(), 1).unwrap();
        run.cpus.iter().map(|cpu| cpu.wake_ups).sum::<u64>()
    };
    let without = wake_ups(&text.replace("[[task]]", "has_background = true\n[[task]]"));
    assert!(without < wake_ups(text), "{without}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let steps = "depth = 2\nsteps = '''\nread 4096 0\nread 4096 4096\nrun 7us\nwait 1\nsleep 90us\nwake b\n'''";
    let file = tasks_with_steps(&[("a", steps), ("b", "steps = '''\nawait\nrun 50us\n'''")]);
    let runs = [1, 2].map(|_| on("laptop", &file, "menu + psd").unwrap());
    let [a, b] = runs.map(|run| format!("{run:?}"));
    assert_eq!(a, b);
}

#[test]
fn a_callback_keeps_the_tick_of_its_cpu_on_a_machine_with_rcu() {
    let mut machine = Machine::find("rk3399").unwrap();
    let mut count_idle_periods = |has_rcu: bool, callback: &str| {
        let figure = |kcycles| Figure::assumed(kcycles, "a test");
        machine.rcu = has_rcu.then(|| Rcu {
            thread_kcycles: figure(5.0),
            softirq_kcycles: figure(1.0),
            source: "a test".to_owned(),
        });
        let steps = format!("first_cpu = 4\nsteps = '''\n{callback}\nrun 20us\nsleep 50ms\n'''");
        let workload = tasks_with_steps(&[("sleeper", &steps)]);
        let run = simulate(&machine, &workload, &"menu".parse().unwrap(), 1).unwrap();
        run.idle_states
            .iter()
            .map(|state| state.entries)
            .sum::<u64>()
    };
    let without = count_idle_periods(true, "");
    let with = count_idle_periods(true, "callback");
    // Ten callbacks in half a second. Each keeps the tick until its grace period is over and the next tick has called it; the thread
    // wakes up for its begin, its scans and its end.
    assert!((50..=120).contains(&(with - without)), "{with} {without}");
    assert_eq!(
        count_idle_periods(false, "callback"),
        count_idle_periods(false, "")
    );
}

/// Bytes of writes in the order of their submission.
#[derive(Default)]
struct WrittenBytes(Vec<u64>);

impl Observer for WrittenBytes {
    fn request_step_reached(&mut self, _: Nanoseconds, step: RequestStep) {
        if let RequestStep::Issued {
            read: false, bytes, ..
        } = step
        {
            self.0.push(bytes);
        }
    }
}

fn observe_writes(tasks: &[(&str, &str)]) -> Vec<u64> {
    let machine = Machine::find("rk3399").unwrap();
    let mut written = WrittenBytes::default();
    let set = "menu".parse().unwrap();
    simulate_observed(&machine, &tasks_with_steps(tasks), &set, 1, &mut written).unwrap();
    written.0
}

#[test]
fn those_who_come_during_a_sync_share_the_next_one() {
    let steps = "steps = '''\nsync 0 8192\nwrite 8192 0\nwait 0\nsynced\nsleep 1s\n'''";
    let late = format!("starts_us = 20\n{steps}");
    let written = observe_writes(&[("first", steps), ("second", &late), ("third", &late)]);
    // The second and the third append while the first one's write is in flight.
    assert_eq!(written, [8192, 16384]);
    // Without a log in common, each one writes.
    let alone = |log: usize| late.replace("sync 0", &format!("sync {log}"));
    let written = observe_writes(&[
        ("first", steps),
        ("second", &alone(1)),
        ("third", &alone(2)),
    ]);
    assert_eq!(written, [8192; 3]);
}

#[test]
fn a_shared_log_makes_no_more_syncs_for_more_tasks() {
    let steps = "steps = '''\nrun 20us\nsync 0 4096\nwrite 4096 0\nwait 0\nsynced\nsleep 10us\n'''";
    let names = ["a", "b", "c", "d"];
    let syncs = [2, 4].map(|count| {
        let tasks: Vec<(&str, &str)> = names[..count].iter().map(|name| (*name, steps)).collect();
        let written = observe_writes(&tasks);
        (written.len() as f64, written.iter().sum::<u64>() as f64)
    });
    let [(few, bytes_of_few), (many, bytes_of_many)] = syncs;
    assert!((many / few - 1.0).abs() < 0.1, "{syncs:?}");
    assert!(bytes_of_many > 1.8 * bytes_of_few, "{syncs:?}");
}

#[test]
fn a_request_comes_whether_a_task_waits_or_not() {
    // The work takes longer than from one request to the next: a second task of the pool helps, and without one requests wait. Each task
    // has one of the two fastest CPUs, where runs have their length.
    let count = |pool: &str| {
        let place = |cpu: usize| format!("first_cpu = {cpu}\ncpus = [{cpu}]");
        let steps = [
            format!(
                "{}\nsteps = '''\nrun 3ms\nread 4096 0\nwait 0\narrival 2ms cpu 1{pool}\n'''",
                place(4)
            ),
            format!(
                "{}\nsteps = '''\narrival 400ms cpu 1{pool}\nread 4096 0\nwait 0\nrun 3ms\n'''",
                place(5)
            ),
        ];
        let workload = tasks_with_steps(&[("first", &steps[0]), ("second", &steps[1])]);
        let policies = "menu + performance";
        let read_us = on("rk3399", &workload, policies).unwrap().latency_us.mean;
        let seen = observe_under(policies, &workload);
        (seen.network.len(), seen.issued.len() as f64, read_us)
    };
    let [
        (alone, served_alone, read_us),
        (pooled, served_by_two, read_us_of_two),
    ] = [count(""), count(" pool 0")];
    // 250 come by the first task's steps, and one by the second one's.
    assert!(
        [alone, pooled]
            .iter()
            .all(|count| (249..=252).contains(count))
    );
    // The first task is never without a request: it works and reads by turns for half a second.
    let most = 500_000.0 / (3_000.0 + read_us);
    assert!(
        (0.97 * most..most + 2.0).contains(&served_alone),
        "{served_alone} of {most}"
    );
    // Two tasks have time for all, except for those that come last.
    let in_work = 2.0 + (3_000.0 + read_us_of_two) / 2_000.0;
    assert!(
        (pooled as f64 - in_work..=pooled as f64 + 1.0).contains(&served_by_two),
        "{served_by_two} of {pooled}"
    );
}

#[test]
fn a_task_that_takes_requests_of_two_pools_gets_those_of_both() {
    let pools = [["pool 0", "pool 0"], ["pool 0", "pool 1"], ["pool 1", ""]];
    let counts = pools.map(|[first, second]| {
        let steps = format!(
            "steps = '''\narrival 2ms cpu 1 {first}\nread 4096 0\nwait 0\narrival 3ms cpu 1 {second}\n'''"
        );
        let seen = observe(&tasks_with_steps(&[("server", &steps)]));
        (seen.network.len(), seen.issued.len())
    });
    // 200 requests in half a second, with a read for every second one.
    for (requests, reads) in counts {
        assert!((199..=201).contains(&requests), "{counts:?}");
        assert!((99..=101).contains(&reads), "{counts:?}");
    }
}
