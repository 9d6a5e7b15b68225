//! Times the simulator: alone, by machine size, for its memory, and beside NeXosim and SimPy; and what is done with
//! traces: importing them, beside trace-cmd, and replaying.
//!
//! `make bench` runs it. Everything is timed in CPU time of one thread, so that a busy machine disturbs
//! little; what is compared takes turns, and medians count.

mod closed_loop;
mod memory;
mod nexosim_loop;
mod simulator;
mod traces;

use std::time::Duration;

use cpu_time::ProcessTime;

/// Turns that each side of a comparison gets.
const ROUNDS: usize = 5;

fn main() -> anyhow::Result<()> {
    if let Some(factor) = memory::asked_of_child() {
        return memory::child(factor);
    }
    if let Some(trace) = traces::asked_of_child() {
        return traces::child(&trace);
    }
    simulator::run()?;
    memory::run()?;
    closed_loop::run()?;
    traces::run()
}

/// CPU time of some work, and what it gave.
fn timed<T>(work: impl FnOnce() -> T) -> (Duration, T) {
    let start = ProcessTime::now();
    let result = work();
    (start.elapsed(), result)
}

/// The middle one.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// A line of the report: what, value, and what is aimed at.
fn report(what: &str, value: &str, target: &str, met: bool) {
    let met = if met { "met" } else { "NOT MET" };
    println!("{what:<62} {value:>10}   {target:<20} {met}");
}
