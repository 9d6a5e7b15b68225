//! Benchmarks for the simulator (speed by machine size, memory, events beside NeXosim and SimPy) and for traces (import
//! beside trace-cmd, replay).
//!
//! `make bench` runs all benchmarks. Times are CPU time in one thread, so that a busy machine disturbs little. Sides of a
//! comparison take turns, and medians count. `--quick` does a tenth of the work once, to see that everything runs.
//! `--train` does a tenth, without memory and without peers in other languages, for `scripts/profiled-build.sh`.

mod closed_loop;
mod long_trace;
mod memory;
mod nexosim_loop;
mod simulator;
mod traces;

use std::time::Duration;

use cpu_time::ProcessTime;

/// How much work is timed.
#[derive(Clone, Copy)]
struct Effort {
    /// Turns per side in a comparison.
    rounds: usize,
    /// The work in each turn is divided by this number.
    divisor: u64,
    /// Seed for simulations.
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

/// Shows that every benchmark runs; figures mean little.
const QUICK: Effort = Effort {
    rounds: 1,
    divisor: 10,
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
        return memory::print_run_peak(factor);
    }
    if let Some(trace) = traces::requested_trace() {
        return traces::print_import_peak(&trace);
    }
    if is_given("--train") {
        return measure_speeds(TRAINING);
    }
    let effort = if is_given("--quick") {
        QUICK
    } else {
        BENCHMARK
    };
    measure_speeds(effort)?;
    memory::measure_growth(effort)?;
    traces::measure_growth(effort)
}

fn is_given(flag: &str) -> bool {
    std::env::args().any(|argument| argument == flag)
}

fn measure_speeds(effort: Effort) -> anyhow::Result<()> {
    simulator::measure_speed(effort)?;
    closed_loop::measure_event_rates(effort)?;
    traces::measure_speed(effort)
}

/// Does some work: CPU time and result.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = ProcessTime::now();
    let result = work();
    (start.elapsed(), result)
}

/// Median over rounds; there is at least one.
fn median(rounds: Vec<f64>) -> f64 {
    wakepath_units::median(rounds).unwrap_or(f64::NAN)
}

/// Prints a figure without a target.
fn print_figure(measurement: &str, value: &str) {
    println!("{measurement:<62} {value:>10}");
}

/// Prints a figure with its target and whether the figure meets the target.
fn print_judged(measurement: &str, value: &str, target: &str, met: bool) {
    let verdict = if met { "met" } else { "NOT MET" };
    println!("{measurement:<62} {value:>10}   {target:<20} {verdict}");
}
