//! Times the simulator: alone, by machine size, for its memory, and beside NeXosim and SimPy; and what is done with
//! traces: importing them, beside trace-cmd, and replaying.
//!
//! `make bench` runs it. Everything is timed in CPU time of one thread, so that a busy machine disturbs
//! little; what is compared takes turns, and medians count. With `--train` it does a little of each without its peers in
//! other languages.

mod closed_loop;
mod memory;
mod nexosim_loop;
mod simulator;
mod traces;

use std::time::Duration;

use cpu_time::ProcessTime;

/// How much is timed.
#[derive(Clone, Copy)]
struct Effort {
    /// Turns that each side of a comparison gets.
    rounds: usize,
    /// What each turn does is divided by this.
    divisor: u64,
    /// Of each simulation.
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
    if let Some(factor) = memory::asked_of_child() {
        return memory::child(factor);
    }
    if let Some(trace) = traces::asked_of_child() {
        return traces::child(&trace);
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
    traces::growing()
}

/// CPU time of some work, and what it gave.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = ProcessTime::now();
    let result = work();
    (start.elapsed(), result)
}

/// The median of rounds, of which there is at least one.
fn median(rounds: Vec<f64>) -> f64 {
    wakepath_units::median(rounds).unwrap_or(f64::NAN)
}

/// A line of the report: what, value, and what is aimed at.
fn report(what: &str, value: &str, target: &str, met: bool) {
    let met = if met { "met" } else { "NOT MET" };
    println!("{what:<62} {value:>10}   {target:<20} {met}");
}
