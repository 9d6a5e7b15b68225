//! Cost of eBPF programs, from the kernel's own statistics.

use std::fs;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::time::Duration;

use aya::programs::{Program, ProgramFd};
use aya::sys::{Stats, enable_stats};

/// How long and how often eBPF programs ran. A run that does nothing takes some time as well: the kernel reads its
/// clock twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// Total run time of the programs, on all CPUs together.
    pub run_time: Duration,
    /// Number of runs of the programs.
    pub runs: u64,
    /// Number of runs that the kernel skipped because the program was already running on that CPU.
    pub missed_runs: u64,
}

/// Keeps the kernel's accounting of eBPF programs on until dropped.
pub struct Meter {
    /// The kernel counts run times while this file is open. `None`: it does not count for us.
    counting: Option<OwnedFd>,
    programs: Vec<ProgramFd>,
}

impl Overhead {
    /// Mean run time of a program in ns; `None` without runs.
    pub fn mean_ns_per_run(&self) -> Option<f64> {
        (self.runs > 0).then(|| self.run_time.as_nanos() as f64 / self.runs as f64)
    }
}

impl Meter {
    /// Starts the kernel's counting of run times, where it can (5.8 and later, as root).
    pub fn start_measuring<'a>(programs: impl Iterator<Item = (&'a str, &'a Program)>) -> Self {
        let programs = programs
            .filter_map(|(_, program)| program.fd().ok()?.try_clone().ok())
            .collect();
        Self {
            counting: enable_stats(Stats::RunTime).ok(),
            programs,
        }
    }

    /// The programs' totals since they were loaded; `None` while nothing is counted.
    pub fn read_overhead(&self) -> Option<Overhead> {
        self.counting.as_ref()?;
        let mut sum = Overhead::default();
        for program in &self.programs {
            let fd = program.as_fd().as_raw_fd();
            let text = fs::read_to_string(format!("/proc/self/fdinfo/{fd}")).ok()?;
            sum.run_time += Duration::from_nanos(parse_fdinfo_field(&text, "run_time_ns")?);
            sum.runs += parse_fdinfo_field(&text, "run_cnt")?;
            sum.missed_runs += parse_fdinfo_field(&text, "recursion_misses").unwrap_or(0);
        }
        Some(sum)
    }
}

/// Reads a number from the text of `/proc/PID/fdinfo/FD`.
fn parse_fdinfo_field(fdinfo: &str, name: &str) -> Option<u64> {
    fdinfo
        .lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| *key == name)?
        .1
        .trim()
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_from_fdinfo() {
        let text = "pos:\t0\nflags:\t02000000\nrun_time_ns:\t123\nrun_cnt:\t4\n";
        assert_eq!(parse_fdinfo_field(text, "run_time_ns"), Some(123));
        assert_eq!(parse_fdinfo_field(text, "run_cnt"), Some(4));
        assert_eq!(parse_fdinfo_field(text, "recursion_misses"), None);
    }
}
