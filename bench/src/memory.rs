//! Peak memory of a short run and of a run ten times as long, each in its own process.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::simulator::Case;
use crate::{BENCHMARK, median, report};

const FLAG: &str = "--memory-of-length";

/// The length of the run, where this process is a child that measures its memory.
pub fn requested_length() -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|a| a != FLAG).skip(1);
    arguments.next()?.parse().ok()
}

/// Simulates, and prints the peak memory of this process in KiB.
pub fn measure_run(factor: u64) -> anyhow::Result<()> {
    Case::iowait(factor)?.run(BENCHMARK.seed)?;
    println!("{}", peak_kib()?);
    Ok(())
}

/// The peak memory of this process, in KiB.
pub fn peak_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next());
    Ok(kib.context("/proc/self/status has no VmHWM")?.parse()?)
}

/// Runs a child that prints its [`peak_kib`].
pub fn read_peak(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// The median peak of several children: pages of the program that are in memory already make each run differ.
fn median_peak(factor: u64) -> anyhow::Result<f64> {
    let mut peaks = Vec::new();
    for _ in 0..BENCHMARK.rounds {
        let mut command = Command::new(std::env::current_exe()?);
        peaks.push(read_peak(command.args([FLAG, &factor.to_string()]))?);
    }
    Ok(median(peaks))
}

/// Prints whether memory grows with simulated time.
pub fn run() -> anyhow::Result<()> {
    let [short, long] = [median_peak(2)?, median_peak(20)?];
    let ratio = long / short;
    report(
        &format!(
            "peak memory, 1 min and 10 min simulated: {:.1} and {:.1} MiB",
            short / 1024.0,
            long / 1024.0
        ),
        &format!("{ratio:.2} x"),
        "does not grow",
        ratio < 1.05,
    );
    Ok(())
}
