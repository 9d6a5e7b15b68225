//! CPUs that a thread of a measurement runs on, one after the other.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity};
use wakepath_system::System;

/// Most CPUs in turn, so that each has enough of the time.
const MOST_CPUS: usize = 8;
/// Files of a CPU that tell how big it is.
const CPU_SIZE_FILES: [&str; 2] = ["cpu_capacity", "cpufreq/cpuinfo_max_freq"];

/// All CPUs that this thread may use, or eight of them from the first to the last.
///
/// # Errors
/// The kernel does not tell this thread's CPUs.
pub(crate) fn choose_usable_cpus() -> io::Result<Vec<usize>> {
    Ok(choose_evenly(&read_usable_cpus()?))
}

/// The biggest CPUs that this thread may use, or eight of them from the first to the last.
///
/// # Errors
/// The kernel does not tell this thread's CPUs.
pub(crate) fn choose_biggest_cpus(system: &System) -> io::Result<Vec<usize>> {
    let usable = read_usable_cpus()?;
    let sized: Vec<([u64; 2], usize)> = usable
        .into_iter()
        .map(|cpu| (read_cpu_size(system, cpu), cpu))
        .collect();
    let biggest = sized.iter().map(|(size, _)| *size).max();
    let all: Vec<usize> = sized
        .iter()
        .filter(|(size, _)| Some(*size) == biggest)
        .map(|(_, cpu)| *cpu)
        .collect();
    Ok(choose_evenly(&all))
}

fn read_usable_cpus() -> io::Result<Vec<usize>> {
    let allowed = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|cpu| allowed.is_set(*cpu))
        .collect())
}

/// At most [`MOST_CPUS`] of the CPUs, at equal distances in the list.
fn choose_evenly(all: &[usize]) -> Vec<usize> {
    let count = all.len().min(MOST_CPUS);
    (0..count)
        .map(|place| all[place * all.len() / count])
        .collect()
}

/// Capacity and highest clock of a CPU; 0 where the kernel does not tell.
fn read_cpu_size(system: &System, cpu: usize) -> [u64; 2] {
    CPU_SIZE_FILES.map(|file| {
        let path = format!("sys/devices/system/cpu/cpu{cpu}/{file}");
        system.root().read_number_if_readable(&path).unwrap_or(0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chosen_cpus_lie_apart_and_are_never_more_than_there_are() {
        let all: Vec<usize> = (0..32).collect();
        assert_eq!(choose_evenly(&all), [0, 4, 8, 12, 16, 20, 24, 28]);
        assert_eq!(choose_evenly(&[3, 5]), [3, 5]);
        assert!(choose_evenly(&[]).is_empty());
    }
}
