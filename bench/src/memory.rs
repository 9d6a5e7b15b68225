//! Peak memory of a run, and of one ten times as long, each in a process of its own.

use std::fs;
use std::process::Command;

use anyhow::Context;

use crate::simulator::Case;
use crate::{BENCHMARK, median, report};

const FLAG: &str = "--memory-of-length";

/// The length of the run that this process was started for, if it was.
pub fn asked_of_child() -> Option<u64> {
    let mut arguments = std::env::args().skip_while(|a| a != FLAG).skip(1);
    arguments.next()?.parse().ok()
}

/// Simulates, and prints the largest size that this process has had, in KiB.
pub fn child(factor: u64) -> anyhow::Result<()> {
    Case::iowait(factor)?.run(BENCHMARK.seed)?;
    println!("{}", peak_kib()?);
    Ok(())
}

/// The largest size that this process has had, in KiB.
pub fn peak_kib() -> anyhow::Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:"));
    let peak = peak.and_then(|l| l.split_whitespace().next());
    Ok(peak.context("/proc/self/status has no VmHWM")?.parse()?)
}

/// What a child prints that ends with its [`peak_kib`].
pub fn peak_of(command: &mut Command) -> anyhow::Result<f64> {
    let output = command.output()?;
    anyhow::ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(String::from_utf8(output.stdout)?.trim().parse()?)
}

/// Prints whether memory grows with simulated time.
pub fn run() -> anyhow::Result<()> {
    let peak = |factor: u64| -> anyhow::Result<f64> {
        // It also depends on what the system happens to have of the program in memory.
        let peaks = (0..BENCHMARK.rounds).map(|_| {
            let mut command = Command::new(std::env::current_exe()?);
            peak_of(command.args([FLAG, &factor.to_string()]))
        });
        Ok(median(peaks.collect::<anyhow::Result<_>>()?))
    };
    let [short, long] = [peak(2)?, peak(20)?];
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
