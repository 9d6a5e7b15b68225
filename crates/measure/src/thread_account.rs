//! The scheduler's account of the calling thread.

/// What the scheduler has counted of a thread (`Documentation/scheduler/sched-stats.rst`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ThreadAccount {
    /// Time on a CPU in ns.
    pub(crate) on_cpu_ns: u64,
    /// Time on a run queue in ns.
    pub(crate) waiting_ns: u64,
    /// How often the thread got a CPU. The number stays while nothing else runs there.
    pub(crate) runs: u64,
}

impl ThreadAccount {
    /// Reads the calling thread's account; `None` where the kernel keeps none.
    pub(crate) fn read() -> Option<Self> {
        Self::parse(&std::fs::read_to_string("/proc/thread-self/schedstat").ok()?)
    }

    /// What came on top of an earlier account of the same thread.
    pub(crate) const fn since(self, earlier: Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            waiting_ns: self.waiting_ns.saturating_sub(earlier.waiting_ns),
            runs: self.runs.saturating_sub(earlier.runs),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
        let [on_cpu_ns, waiting_ns, runs] = *numbers.ok()? else {
            return None;
        };
        Some(Self {
            on_cpu_ns,
            waiting_ns,
            runs,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    #[test]
    fn three_numbers_are_an_account() {
        let account = ThreadAccount::parse("120042 880 7\n").unwrap();
        assert_eq!(
            (account.on_cpu_ns, account.waiting_ns, account.runs),
            (120_042, 880, 7)
        );
        for text in ["", "1 2\n", "1 2 x\n", "-1 2 3\n"] {
            assert_eq!(ThreadAccount::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_thread_that_works_has_an_account() {
        let Some(before) = ThreadAccount::read() else {
            return;
        };
        // The account moves with the tick.
        let end = Instant::now() + Duration::from_millis(100);
        while Instant::now() < end {
            std::hint::spin_loop();
        }
        let after = ThreadAccount::read().unwrap();
        assert!(after.on_cpu_ns > before.on_cpu_ns, "{before:?} {after:?}");
        assert!(after.waiting_ns >= before.waiting_ns, "{before:?} {after:?}");
        // Whoever sleeps gets the CPU anew.
        std::thread::sleep(Duration::from_millis(1));
        let woken = ThreadAccount::read().unwrap();
        assert!(woken.runs > after.runs, "{after:?} {woken:?}");
    }
}
