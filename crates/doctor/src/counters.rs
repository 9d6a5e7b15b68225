//! The kernel's counters of idle states and I/O.

use wakepath_live::{StateInfo, System};

/// An idle state with what the kernel counted, over all CPUs.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    pub(crate) state: StateInfo,
    /// Entries.
    pub(crate) usage: u64,
    /// Time in it in us.
    pub(crate) time_us: u64,
    /// Stays that ended too early for it (`above`).
    pub(crate) above: u64,
    /// Stays for which a deeper one would have been right (`below`).
    pub(crate) below: u64,
    /// It is switched off on every CPU.
    pub(crate) off_everywhere: bool,
}

/// The idle states of the first CPU with the counters of all CPUs that have the same state.
pub(crate) fn idle_states(system: &System) -> Vec<Counted> {
    let cpus = system.cpus();
    let Some(first) = cpus.first() else {
        return Vec::new();
    };
    let mut counted: Vec<Counted> = system
        .idle_states(*first)
        .into_iter()
        .map(|state| Counted {
            off_everywhere: true,
            usage: 0,
            time_us: 0,
            above: 0,
            below: 0,
            state,
        })
        .collect();
    for cpu in cpus {
        for state in system.idle_states(cpu) {
            let Some(sum) = counted.iter_mut().find(|c| c.state.name == state.name) else {
                continue;
            };
            let directory = format!(
                "sys/devices/system/cpu/cpu{cpu}/cpuidle/state{}",
                state.index
            );
            let file = |name: &str| {
                system
                    .root()
                    .number(&format!("{directory}/{name}"))
                    .unwrap_or(0)
            };
            sum.off_everywhere &= state.disabled;
            sum.usage += file("usage");
            sum.time_us += file("time");
            sum.above += file("above");
            sum.below += file("below");
        }
    }
    counted
}

/// Mean time of a read on the busiest drive in us, with the drive's name.
pub(crate) fn mean_read(system: &System) -> Option<(String, f64)> {
    let of = |disk: String| {
        let text = system.root().optional(&format!("sys/block/{disk}/stat"))?;
        let mut fields = text
            .split_whitespace()
            .map(|f| f.parse::<u64>().unwrap_or(0));
        // `Documentation/block/stat.rst`: requests first, milliseconds fourth.
        let (reads, ms) = (fields.next()?, fields.nth(2)?);
        Some((disk, reads, ms))
    };
    system
        .disks()
        .into_iter()
        .filter_map(of)
        .filter(|(_, reads, _)| *reads >= 100)
        .max_by_key(|(_, reads, _)| *reads)
        .map(|(disk, reads, ms)| (disk, ms as f64 * 1e3 / reads as f64))
}

/// Seconds since the start of the machine.
pub(crate) fn uptime(system: &System) -> Option<f64> {
    let text = system.root().optional("proc/uptime")?;
    text.split_whitespace().next()?.parse().ok()
}
