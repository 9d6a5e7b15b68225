//! The time of an inter-processor interrupt (IPI) and its answer.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use rustix::thread::{MembarrierCommand, membarrier};

use crate::summary::{LatencySummary, SampledTime};
use crate::{ExperimentControl, pin};

/// How long the other thread gets to fall asleep.
const SETTLING: Duration = Duration::from_millis(2);
/// Rounds of calls, half of them with a spinning thread.
const ROUNDS: u32 = 10;

/// The thread on the other CPU, as the calling thread commands and sees it.
#[derive(Debug, Default)]
struct Partner {
    spins: AtomicBool,
    ends: AtomicBool,
    /// Turns of the spinning loop: they stand still while the thread does not run.
    turns: AtomicU64,
}

/// Times an IPI between two running CPUs: from its sending to the answer.
///
/// An expedited `membarrier` interrupts the CPUs that run threads of the calling process, and waits for them. The same call
/// interrupts none while the other thread sleeps, and is subtracted. `None`: other work kept the other thread from running.
///
/// # Errors
/// Why there is no figure: the kernel lacks the call, or a CPU has gone away.
pub(super) fn time_ipis(
    [from, to]: [usize; 2],
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<Option<SampledTime>, String> {
    membarrier(MembarrierCommand::RegisterPrivateExpedited)
        .map_err(|error| format!("membarrier: {error}"))?;
    let shared = Partner::default();
    let partner = &shared;
    thread::scope(|scope| {
        let other = scope.spawn(move || partner.run_on(to));
        let handle = other.thread().clone();
        let caller = scope.spawn(move || {
            let samples = call_beside_partner(from, partner, &handle, time, control);
            partner.ends.store(true, Ordering::Release);
            handle.unpark();
            samples
        });
        let samples = caller.join().map_err(|_| "a thread failed")??;
        other.join().map_err(|_| "a thread failed")??;
        let [asleep, spinning] = samples.map(|samples| LatencySummary::new(&samples));
        let with_and_without = spinning.zip(asleep);
        Ok(with_and_without.map(|(with, without)| SampledTime {
            n: with.n,
            estimate: with.median.minus(without.median),
        }))
    })
}

impl Partner {
    /// Sleeps and spins on a CPU as commanded.
    fn run_on(&self, cpu: usize) -> Result<(), String> {
        pin::pin_to(cpu).map_err(|error| error.to_string())?;
        while !self.ends.load(Ordering::Acquire) {
            if self.spins.load(Ordering::Acquire) {
                self.turns.fetch_add(1, Ordering::Relaxed);
            } else {
                thread::park();
            }
        }
        Ok(())
    }

    /// Waits until the spinning thread is seen to run; returns whether that was before `end`.
    fn wait_until_it_runs(&self, end: Instant) -> bool {
        let turns = self.turns.load(Ordering::Relaxed);
        while self.turns.load(Ordering::Relaxed) == turns {
            if Instant::now() >= end {
                return false;
            }
        }
        true
    }
}

/// Calls while the other thread sleeps, and while it spins, in turns. Returns the times of both in ns.
fn call_beside_partner(
    cpu: usize,
    partner: &Partner,
    handle: &Thread,
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<[Vec<u64>; 2], String> {
    pin::pin_to(cpu).map_err(|error| error.to_string())?;
    let mut samples = [Vec::new(), Vec::new()];
    for round in 0..ROUNDS {
        let spins = round % 2 == 1;
        partner.spins.store(spins, Ordering::Release);
        handle.unpark();
        thread::sleep(SETTLING);
        let end = Instant::now() + time / ROUNDS;
        while Instant::now() < end && !control.is_cancelled() {
            if spins && !partner.wait_until_it_runs(end) {
                break;
            }
            let began = Instant::now();
            membarrier(MembarrierCommand::PrivateExpedited)
                .map_err(|error| format!("membarrier: {error}"))?;
            samples[usize::from(spins)].push(began.elapsed().as_nanos() as u64);
        }
    }
    Ok(samples)
}

#[cfg(test)]
mod tests {
    use std::env;
    use std::process::Command;

    use wakepath_system::System;

    use super::*;

    /// Set in a process with one test. Other tests' threads belong to the same process, and are interrupted as well.
    const ALONE: &str = "WAKEPATH_TEST_ALONE";

    #[test]
    fn an_interrupt_of_another_cpu_takes_time() {
        if env::var_os(ALONE).is_none() {
            let name = "path::ipi::tests::an_interrupt_of_another_cpu_takes_time";
            let mut alone = Command::new(env::current_exe().unwrap());
            let ended = alone
                .args(["--exact", name])
                .env(ALONE, "1")
                .output()
                .unwrap();
            let printed = String::from_utf8_lossy(&ended.stdout);
            assert!(ended.status.success(), "{printed}");
            assert!(printed.contains("1 passed"), "{printed}");
            return;
        }
        let cpus = System::live().cpus();
        // One CPU has none to interrupt.
        let [first, .., last] = cpus[..] else { return };
        let none = |_: usize| {};
        let go = AtomicBool::new(false);
        let control = ExperimentControl::new(&none, &go);
        let found = time_ipis([last, first], Duration::from_millis(200), control);
        let ipi = found.unwrap().unwrap().estimate;
        // No hardware sends and answers an interrupt within 50 ns.
        assert!(ipi.ns > 50.0 && ipi.low <= ipi.ns, "{ipi:?}");
        let gone = time_ipis([last, 5_000], Duration::from_millis(20), control);
        assert!(gone.unwrap_err().contains("CPU 5000"));
    }
}
