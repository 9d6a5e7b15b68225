//! Benchmarks of the simulator (speed by machine size, memory, events beside NeXosim and SimPy) and of traces (import
//! beside trace-cmd, replay).
//!
//! `make bench` runs them. All times are CPU time of one thread, so that a busy machine disturbs little. The sides of a
//! comparison take turns, and medians count. `--train` does a little of each benchmark, without peers in other languages.

mod closed_loop;
mod memory;
mod nexosim_loop;
mod simulator;
mod traces;

use std::time::Duration;

use cpu_time::ProcessTime;

/// Amount of work that is timed.
#[derive(Clone, Copy)]
struct Effort {
    /// Turns of each side of a comparison.
    rounds: usize,
    /// Divisor of the work of each turn.
    divisor: u64,
    /// Seed of each simulation.
    seed: u64,
    /// Whether SimPy and trace-cmd take their turns.
    peers: bool,
}

const BENCHMARK: Effort = Effort {
    rounds: 5,
    divisor: 1,
    seed: 1,
    peers: true,
};

/// Enough to find out where the time goes (`scripts/profiled-build.sh`).
const TRAINING: Effort = Effort {
    rounds: 1,
    divisor: 10,
    seed: 1000,
    peers: false,
};

fn main() -> anyhow::Result<()> {
    if let Some(factor) = memory::requested_length() {
        return memory::measure_run(factor);
    }
    if let Some(trace) = traces::requested_trace() {
        return traces::measure_import(&trace);
    }
    if std::env::args().any(|a| a == "--train") {
        simulator::run(TRAINING)?;
        closed_loop::run(TRAINING)?;
        return traces::run(TRAINING);
    }
    simulator::run(BENCHMARK)?;
    memory::run()?;
    closed_loop::run(BENCHMARK)?;
    traces::run(BENCHMARK)?;
    traces::measure_memory()
}

/// CPU time of some work, and its result.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = ProcessTime::now();
    let result = work();
    (start.elapsed(), result)
}

/// The median of one round or more.
fn median(rounds: Vec<f64>) -> f64 {
    wakepath_units::median(rounds).unwrap_or(f64::NAN)
}

/// Prints a line of the report: measurement, value, target.
fn report(measurement: &str, value: &str, target: &str, met: bool) {
    let verdict = if met { "met" } else { "NOT MET" };
    println!("{measurement:<62} {value:>10}   {target:<20} {verdict}");
}
