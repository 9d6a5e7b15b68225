//! Peak memory of a short and of a ten times longer run, each in a process by itself.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::simulator::Case;
use crate::{BENCHMARK, Effort, median, print_judged};

const FLAG: &str = "--memory-of-length";

/// The length behind `--memory-of-length`, which only a child process has: the process measures its own memory.
pub fn requested_length() -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|a| a != FLAG).skip(1);
    arguments.next()?.parse().ok()
}

/// Simulates and prints the process's peak memory in KiB.
pub fn print_run_peak(factor: u64) -> anyhow::Result<()> {
    Case::iowait(factor)?.run(BENCHMARK.seed)?;
    println!("{}", read_own_peak()?);
    Ok(())
}

/// Reads this process's peak memory, in KiB.
pub fn read_own_peak() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let kib = line.and_then(|l| l.split_whitespace().next());
    Ok(kib.context("/proc/self/status has no VmHWM")?.parse()?)
}

/// Runs a child that prints [`read_own_peak`], and reads the number.
pub fn read_child_peak(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Median peak memory of several children, in KiB: runs differ by pages of the program that are in memory already.
fn measure_median_peak(factor: u64, rounds: usize) -> anyhow::Result<f64> {
    let mut peaks = Vec::new();
    for _ in 0..rounds {
        let mut command = Command::new(std::env::current_exe()?);
        peaks.push(read_child_peak(command.args([FLAG, &factor.to_string()]))?);
    }
    Ok(median(peaks))
}

/// Prints whether memory grows with simulated time.
pub fn measure_growth(effort: Effort) -> anyhow::Result<()> {
    let [short, long] = [
        measure_median_peak(2, effort.rounds)?,
        measure_median_peak(20, effort.rounds)?,
    ];
    let ratio = long / short;
    print_judged(
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
