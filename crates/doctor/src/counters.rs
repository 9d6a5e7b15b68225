//! The kernel's counters of idle states and I/O.

use wakepath_system::System;
use wakepath_system::counters::StateCount;

/// An idle state with the kernel's counters, summed over all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// The first CPU's state, with counters summed over all CPUs.
    pub(crate) sum: StateCount,
    /// Whether the idle state is switched off on every CPU.
    pub(crate) off_everywhere: bool,
}

/// Idle states of the first CPU, with counters summed over all CPUs with the same state.
pub(crate) fn sum_idle_counters_by_state(system: &System) -> Vec<Counted> {
    let mut counted: Vec<Counted> = Vec::new();
    for (place, cpu) in system.cpus().into_iter().enumerate() {
        for count in system.read_idle_counts(cpu) {
            let known = counted
                .iter_mut()
                .find(|known| known.sum.state.name == count.state.name);
            match known {
                Some(Counted {
                    sum,
                    off_everywhere,
                }) => {
                    *off_everywhere &= count.state.disabled;
                    sum.usage = sum.usage.saturating_add(count.usage);
                    sum.time_us = sum.time_us.saturating_add(count.time_us);
                    sum.above = sum.above.saturating_add(count.above);
                    sum.below = sum.below.saturating_add(count.below);
                    sum.rejected = sum.rejected.saturating_add(count.rejected);
                }
                None if place == 0 => counted.push(Counted {
                    off_everywhere: count.state.disabled,
                    sum: count,
                }),
                None => {}
            }
        }
    }
    counted
}

/// Mean time of a read on the busiest drive in us, with the drive's name.
pub(crate) fn busiest_drive_and_its_mean_read_us(system: &System) -> Option<(String, f64)> {
    system
        .drive_block_devices()
        .into_iter()
        .filter_map(|disk| {
            read_reads_and_their_total_ms(system, &disk).map(|(reads, ms)| (disk, reads, ms))
        })
        .filter(|(_, reads, _)| *reads >= 100)
        .max_by_key(|(_, reads, _)| *reads)
        .map(|(disk, reads, ms)| (disk, ms as f64 * 1e3 / reads as f64))
}

/// Reads the number of reads of a drive, and their total time in ms.
fn read_reads_and_their_total_ms(system: &System, disk: &str) -> Option<(u64, u64)> {
    let text = system
        .root()
        .read_text_if_readable(&format!("sys/block/{disk}/stat"))?;
    let mut fields = text
        .split_whitespace()
        .map(|field| field.parse::<u64>().unwrap_or(0));
    // Fields in `Documentation/block/stat.rst`: read requests first, their milliseconds fourth.
    Some((fields.next()?, fields.nth(2)?))
}

/// Reads how many seconds the machine has been up.
pub(crate) fn read_uptime_s(system: &System) -> Option<f64> {
    let text = system.root().read_text_if_readable("proc/uptime")?;
    text.split_whitespace().next()?.parse().ok()
}
