//! CPUs that the host of a virtual machine takes.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, StolenCpuTime};
use wakepath_sim::observer::{Activity, Observer, RequestStep};
use wakepath_sim::{Run, simulate_observed};
use wakepath_units::Nanoseconds;
use wakepath_workloads::{Workload, fio};

use crate::server::sum_of_parts;

/// Four cores of two threads without background work, whose host takes a CPU so often and for so long.
fn guest(per_s: f64, mean_us: f64) -> Machine {
    let mut machine = quiet_machine();
    machine.stolen = Some(StolenCpuTime {
        per_s: Figure::covered_by_table_source(per_s),
        mean_us: Figure::covered_by_table_source(mean_us),
        source: "a test".to_owned(),
    });
    machine.check().unwrap();
    machine
}

fn quiet_machine() -> Machine {
    let mut machine = Machine::find("xeon-e3-1240v5").unwrap();
    machine.background.clear();
    machine
}

/// Times of one CPU in ns.
#[derive(Clone, Copy, Debug, Default)]
struct CpuTimes {
    running: u64,
    stolen: u64,
    thefts: u64,
    /// Interrupts that were served although the host had the CPU.
    served_while_stolen: u64,
}

/// Adds up what CPUs do.
#[derive(Default)]
struct Times {
    cpus: Vec<CpuTimes>,
    now: Vec<Option<(u64, Activity)>>,
}

impl Times {
    fn with_cpus(cpus: usize) -> Self {
        Self {
            cpus: vec![CpuTimes::default(); cpus],
            now: vec![None; cpus],
        }
    }

    /// Ends the activity of a CPU.
    fn add_until(&mut self, now: u64, cpu: usize) {
        let Some((since, activity)) = self.now[cpu] else {
            return;
        };
        let times = &mut self.cpus[cpu];
        match activity {
            Activity::Stolen => times.stolen += now - since,
            Activity::Task { .. } | Activity::Interrupt(_) => times.running += now - since,
            Activity::Idle(_) | Activity::Waking => {}
        }
    }
}

impl Observer for Times {
    fn cpu_activity_changed(&mut self, now: Nanoseconds, cpu: usize, activity: Activity) {
        self.add_until(now.0, cpu);
        let was_stolen = matches!(self.now[cpu], Some((_, Activity::Stolen)));
        if activity == Activity::Stolen {
            self.cpus[cpu].thefts += u64::from(!was_stolen);
        }
        self.now[cpu] = Some((now.0, activity));
    }

    fn request_step_reached(&mut self, _now: Nanoseconds, step: RequestStep) {
        if let RequestStep::Delivered { cpu, .. } = step
            && matches!(self.now[cpu], Some((_, Activity::Stolen)))
        {
            self.cpus[cpu].served_while_stolen += 1;
        }
    }

    fn observation_ended(&mut self, now: Nanoseconds) {
        (0..self.now.len()).for_each(|cpu| self.add_until(now.0, cpu));
    }
}

fn run(machine: &Machine, policies: &str, lines: &str) -> (Run, Vec<CpuTimes>) {
    let text =
        format!("[j]\nfilename=/dev/nvme0n1\nbs=4k\ndirect=1\ntime_based\nrw=randread\n{lines}");
    let job: Workload = fio::parse(&text, "test.fio").unwrap().into();
    let mut times = Times::with_cpus(machine.cpus());
    let run = simulate_observed(machine, &job, &policies.parse().unwrap(), 1, &mut times).unwrap();
    (run, times.cpus)
}

#[test]
fn a_busy_cpu_loses_rate_times_mean_of_its_running_time() {
    for (per_s, mean_us, policies, lines) in [
        (300.0, 500.0, "menu + performance", "cpus_allowed=6"),
        (2000.0, 50.0, "menu + schedutil", "cpus_allowed=6"),
        // Two threads of a core, with clocks that change.
        (
            400.0,
            2000.0,
            "menu + schedutil",
            "cpus_allowed=6,2\nnumjobs=2",
        ),
    ] {
        let machine = guest(per_s, mean_us);
        let lines = format!("{lines}\nruntime=12s\nthinkcycles=40000000\n");
        let (run, cpus) = run(&machine, policies, &lines);
        let expected = per_s * mean_us / 1e6;
        let found = cpus[6].stolen as f64 / cpus[6].running as f64;
        assert!(
            (found / expected - 1.0).abs() < 0.1,
            "{found} {expected} {:?}",
            cpus[6]
        );
        let mean = cpus[6].stolen as f64 / cpus[6].thefts as f64 / 1e3;
        assert!((mean / mean_us - 1.0).abs() < 0.1, "{mean} {mean_us}");
        // The guest sees a busy CPU, whose states add up to the run.
        for (times, cpu) in cpus.iter().zip(&run.cpus) {
            let busy = (times.running + times.stolen) as f64 / 1e9;
            assert!((busy - cpu.busy_seconds).abs() < 1e-6, "{times:?} {cpu:?}");
            let idle: f64 = cpu.idle_seconds.iter().sum();
            assert!(
                (idle + cpu.busy_seconds - run.seconds).abs() < 1e-9,
                "{cpu:?}"
            );
        }
        // CPUs that never worked lost nothing.
        for cpu in [0, 1, 3, 4, 5, 7] {
            assert_eq!(cpus[cpu].stolen, 0, "CPU {cpu}");
        }
    }
}

#[test]
fn nothing_is_served_while_the_host_has_the_cpu_and_latency_grows() {
    let lines = "cpus_allowed=6\nruntime=5s\nioengine=libaio\niodepth=16\n";
    let policies = "menu + performance";
    let (quiet, none) = run(&quiet_machine(), policies, lines);
    assert!(none.iter().all(|times| times.stolen == 0));
    let mut before = quiet.latency_us.mean;
    for per_s in [200.0, 800.0, 3000.0] {
        let (run, cpus) = run(&guest(per_s, 1000.0), policies, lines);
        let stolen: u64 = cpus.iter().map(|times| times.served_while_stolen).sum();
        assert_eq!(stolen, 0, "{cpus:?}");
        assert!(cpus.iter().any(|times| times.thefts > 100), "{cpus:?}");
        let mean = run.latency_us.mean;
        assert!(mean > before * 1.02, "{mean} {before}");
        before = mean;
        let parts = sum_of_parts(&run);
        assert!((parts - mean).abs() < 1e-6 * mean, "{parts} {mean}");
        let waits = run.attribution.mean.waiting_to_run;
        assert!(waits > quiet.attribution.mean.waiting_to_run, "{waits}");
    }
}

#[test]
fn a_read_waits_for_what_the_host_takes_from_its_own_work() {
    let lines = "cpus_allowed=6\nruntime=10s\n";
    let policies = "menu + performance";
    let (quiet, times) = run(&quiet_machine(), policies, lines);
    let work_us = times[6].running as f64 / quiet.requests as f64 / 1e3;
    let (taken, _) = run(&guest(2000.0, 1000.0), policies, lines);
    let expected = work_us * 2.0;
    let grown = taken.latency_us.mean - quiet.latency_us.mean;
    assert!(
        (0.7..1.3).contains(&(grown / expected)),
        "{grown} {expected}"
    );
}

#[test]
fn a_host_that_takes_nothing_changes_no_byte() {
    let bytes = |machine: &Machine| {
        let (run, _) = run(
            machine,
            "menu + schedutil",
            "runtime=300ms\nthinktime=200us\n",
        );
        serde_json::to_string(&run).unwrap()
    };
    let quiet = bytes(&quiet_machine());
    assert_eq!(bytes(&guest(0.0, 500.0)), quiet);
    assert_eq!(bytes(&guest(100.0, 0.0)), quiet);
    assert_ne!(bytes(&guest(2000.0, 500.0)), quiet);
}
