//! Simulated I/Os and events per second and core.

use anyhow::Context;
use wakepath_hardware::Machine;
use wakepath_policies::PolicySet;
use wakepath_sim::{Run, simulate};
use wakepath_workloads::{Workload, fio};

use crate::{Effort, median, print_figure, print_judged, timed};

const IOWAIT: &str = include_str!("../../workloads/iowait-rk3399.fio");

/// The published experiment's load for this server: 8 jobs at depth 32.
const SERVER: &str = "[reader]\nfilename=/dev/md0\nrw=randread\nbs=4k\ndirect=1\nioengine=libaio\n\
                      iodepth=32\nnumjobs=8\nruntime=1\ntime_based\n";

/// A machine, its load and its policies.
pub struct Case {
    machine: Machine,
    workload: Workload,
    policies: PolicySet,
}

impl Case {
    fn new(machine: Machine, job: &str, idle: &str, freq: &str) -> anyhow::Result<Self> {
        Ok(Self {
            machine,
            workload: fio::parse(job, "bench.fio")?.into(),
            policies: PolicySet::from_names([idle, freq])?,
        })
    }

    /// The job iowait-rk3399, made `factor` times longer.
    pub fn iowait(factor: u64) -> anyhow::Result<Self> {
        let job = format!("{}\nruntime={}\n", IOWAIT.trim_end(), 30 * factor);
        Self::new(Machine::find("rk3399")?, &job, "teo@6.12", "schedutil")
    }

    fn server(cpus: usize) -> anyhow::Result<Self> {
        let mut machine = Machine::find("xeon-6741p")?;
        let cluster = machine.cluster.first_mut().context("no cluster")?;
        cluster.cpus = cpus;
        Self::new(machine, SERVER, "menu@6.12", "performance")
    }

    /// Simulates the case.
    pub fn run(&self, seed: u64) -> anyhow::Result<Run> {
        Ok(simulate(
            &self.machine,
            &self.workload,
            &self.policies,
            seed,
        )?)
    }
}

/// I/Os and events per second of CPU time, a value per round.
struct Rates {
    ios: Vec<f64>,
    events: Vec<f64>,
}

impl Rates {
    fn new() -> Self {
        Self {
            ios: Vec::new(),
            events: Vec::new(),
        }
    }

    fn add(&mut self, case: &Case, seed: u64) -> anyhow::Result<()> {
        let (time, result) = timed(|| case.run(seed));
        let run = result?;
        self.ios.push(run.requests as f64 / time.as_secs_f64());
        self.events.push(run.events as f64 / time.as_secs_f64());
        Ok(())
    }
}

fn millions(value: f64) -> String {
    format!("{:.2} M", value / 1e6)
}

/// Prints the simulator's speed.
pub fn measure_speed(effort: Effort) -> anyhow::Result<()> {
    let iowait = Case::iowait(10 / effort.divisor)?;
    let large = Case::server(96)?;
    let small = Case::server(4)?;
    let mut rates = [Rates::new(), Rates::new(), Rates::new()];
    for _ in 0..effort.rounds {
        for (case, rates) in [&iowait, &large, &small].into_iter().zip(&mut rates) {
            rates.add(case, effort.seed)?;
        }
    }
    let [board, large, small] = rates.map(|r| (median(r.ios), median(r.events)));
    print_judged(
        "job of iowait-rk3399 on RK3399: simulated I/Os per second and core",
        &millions(board.0),
        "at least 5 M",
        board.0 >= 5e6,
    );
    print_figure("    events per second and core", &millions(board.1));
    print_judged(
        "8 jobs at depth 32 on 96 CPUs: events per second and core",
        &millions(large.1),
        "at least 10 M",
        large.1 >= 10e6,
    );
    print_figure("    simulated I/Os per second and core", &millions(large.0));
    let ratio = small.1 / large.1;
    print_judged(
        "the same on 4 CPUs: cost of an event on 96, times that on 4",
        &format!("{ratio:.2} x"),
        "at most 2 x",
        ratio <= 2.0,
    );
    Ok(())
}
