//! The scheduler's account of a thread.

/// The calling thread's time on a CPU and on a run queue in ns (Documentation/scheduler/sched-stats.rst).
pub(super) fn read_cpu_account_ns() -> Option<[u64; 2]> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    Some([numbers.next()?.ok()?, numbers.next()?.ok()?])
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn a_thread_has_an_account() {
        let Some(before) = read_cpu_account_ns() else {
            return;
        };
        // The account moves with the tick.
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let after = read_cpu_account_ns().unwrap();
        assert!(after[0] > before[0], "{before:?} {after:?}");
        assert!(after[1] >= before[1], "{before:?} {after:?}");
    }
}
