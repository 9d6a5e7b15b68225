//! How long a CPU's clock takes to follow its frequency limits.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::geteuid;
use serde::Serialize;
use wakepath_settings::Hold;
use wakepath_system::System;
use wakepath_units::median;

use super::speed::{TURNS, time_loop};
use crate::clock::monotonic_ns;
use crate::shallow::reserve_for_repeated_changes;
use crate::summary::{Estimate, LatencySummary};
use crate::wake::{ClockLimits, HeldClock, find_limits};
use crate::{ExperimentControl, MeasureError, pin};

/// How long a loop spins at the old clock before the limits change.
const BEFORE: Duration = Duration::from_millis(5);
/// How long the loop is watched after the limits have changed.
const AFTER: Duration = Duration::from_millis(20);
/// Most changes in each direction.
const MOST_CHANGES: usize = 40;
/// Two speeds nearer than this share are the same clock.
const SAME_SPEED: f64 = 0.05;
/// Rounds beyond the middle of both speeds that tell a change of the clock: an interrupt slows a single round.
const ROUNDS_OF_CHANGE: usize = 3;

/// Changes of a CPU's clock between the lowest and the highest, made by both frequency limits.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockTransitions {
    /// CPU whose clock changed.
    pub cpu: usize,
    /// Lowest and highest clock of the hardware in kHz.
    pub khz: [u64; 2],
    /// Time from the write of a limit to the higher clock; absent: the speed was seen to stay.
    pub up: Option<Estimate>,
    /// Time from the write of a limit to the lower clock; absent: the speed was seen to stay.
    pub down: Option<Estimate>,
    /// Longest time around a change in which the CPU did nothing, in ns: the median over all changes.
    pub stall_ns: Option<f64>,
    /// Changes that were seen, in both directions.
    pub changes: u64,
}

/// A round of the spinning loop.
#[derive(Clone, Copy, Debug)]
struct Round {
    began_ns: u64,
    /// Turns of the loop per ns.
    speed: f64,
}

/// A change of the clock.
#[derive(Clone, Copy, Debug, PartialEq)]
struct ClockChange {
    /// Time since the write that made the change.
    after_ns: u64,
    /// Longest pause of the loop between the write and the new speed, less a usual round.
    stall_ns: u64,
}

/// Moves a CPU between its lowest and its highest clock. Both limits are as before when it returns.
///
/// # Errors
/// Why there are no figures: no root, no cpufreq driver, limits that cannot be written or put back.
pub(super) fn time_transitions(
    system: &System,
    cpus: &[usize],
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<ClockTransitions, String> {
    let [_, .., cpu] = *cpus else {
        return Err("a second CPU has to write the limits".to_owned());
    };
    if !geteuid().is_root() {
        return Err("changing frequency limits needs root".to_owned());
    }
    let [lowest, highest] =
        [HeldClock::Lowest, HeldClock::Highest].map(|clock| find_limits(system, cpu, clock));
    let (Some(lowest), Some(highest)) = (lowest, highest) else {
        return Err(format!("CPU {cpu} has no cpufreq driver"));
    };
    if lowest.khz >= highest.khz {
        return Err(format!("CPU {cpu} has a single clock"));
    }
    let keys = lowest.keys.iter().cloned();
    let values = keys.map(|key| (key, lowest.khz.to_string())).collect();
    let hold = reserve_for_repeated_changes(system, values).map_err(|error| error.to_string())?;
    let outcome = change_clock_repeatedly(&hold, cpu, [&lowest, &highest], time, control);
    let released = hold.put_back_and_release();
    released.map_err(|error| error.to_string())?;
    let [up, down] = outcome.map_err(|error| error.to_string())?;
    let summarise = |changes: &[ClockChange]| {
        let times: Vec<u64> = changes.iter().map(|change| change.after_ns).collect();
        LatencySummary::new(&times).map(|summary| summary.median)
    };
    let stalls = up.iter().chain(&down).map(|change| change.stall_ns as f64);
    Ok(ClockTransitions {
        cpu,
        khz: [lowest.khz, highest.khz],
        up: summarise(&up),
        down: summarise(&down),
        stall_ns: median(stalls),
        changes: (up.len() + down.len()) as u64,
    })
}

/// The changes that were seen, up and down.
fn change_clock_repeatedly(
    hold: &Hold,
    cpu: usize,
    [lowest, highest]: [&ClockLimits; 2],
    time: Duration,
    control: ExperimentControl<'_>,
) -> Result<[Vec<ClockChange>; 2], MeasureError> {
    let mut seen = [Vec::new(), Vec::new()];
    let end = Instant::now() + time;
    write_limits(hold, lowest)?;
    for _ in 0..MOST_CHANGES {
        for (changes, limits) in seen.iter_mut().zip([highest, lowest]) {
            if control.is_cancelled() {
                return Ok(seen);
            }
            changes.extend(watch_change(hold, cpu, limits)?);
        }
        if Instant::now() >= end {
            break;
        }
    }
    Ok(seen)
}

/// Writes both limits; returns when each write began, in ns of the monotonic clock.
fn write_limits(hold: &Hold, limits: &ClockLimits) -> Result<[u64; 2], MeasureError> {
    let khz = limits.khz.to_string();
    let [first, second] = &limits.keys;
    // Towards the highest clock the maximum goes first, towards the lowest the minimum.
    let began_first = monotonic_ns();
    hold.write_or_put_back(first, Some(&khz))?;
    let began_second = monotonic_ns();
    hold.write_or_put_back(second, Some(&khz))?;
    Ok([began_first, began_second])
}

/// Changes the limits while a loop spins on the CPU; `None`: the loop's speed stayed.
fn watch_change(
    hold: &Hold,
    cpu: usize,
    limits: &ClockLimits,
) -> Result<Option<ClockChange>, MeasureError> {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let spinner = scope.spawn(|| spin_until(&end, cpu));
        thread::sleep(BEFORE);
        let written = write_limits(hold, limits);
        if written.is_ok() {
            thread::sleep(AFTER);
        }
        end.store(true, Ordering::Release);
        let rounds = spinner.join().unwrap_or_else(|_| Ok(Vec::new()))?;
        Ok(find_change(&rounds, written?))
    })
}

/// Rounds of the loop on a CPU until told to end.
fn spin_until(end: &AtomicBool, cpu: usize) -> Result<Vec<Round>, MeasureError> {
    pin::pin_to(cpu)?;
    let mut rounds = Vec::new();
    while !end.load(Ordering::Acquire) {
        rounds.push(Round {
            began_ns: monotonic_ns(),
            speed: time_loop(),
        });
    }
    Ok(rounds)
}

/// The change of speed after two writes that began at these times; `None`: there is none.
fn find_change(rounds: &[Round], [first, second]: [u64; 2]) -> Option<ClockChange> {
    let (before, after) = rounds.split_at(rounds.partition_point(|round| round.began_ns < first));
    // The first round warms caches.
    let old = median(before.iter().skip(1).map(|round| round.speed))?;
    let settled = &after[after.len() / 2..];
    let new = median(settled.iter().map(|round| round.speed))?;
    if (new / old - 1.0).abs() < SAME_SPEED {
        return None;
    }
    let middle = f64::midpoint(old, new);
    let changed = after.windows(ROUNDS_OF_CHANGE).position(|rounds| {
        rounds
            .iter()
            .all(|round| (round.speed > middle) == (new > old))
    })?;
    let at = after[changed].began_ns;
    let began = if at >= second { second } else { first };
    let around = after[..=changed].iter();
    let slowest = around.map(|round| round.speed).fold(new, f64::min);
    let stall = TURNS as f64 / slowest - TURNS as f64 / new;
    Some(ClockChange {
        after_ns: at - began,
        stall_ns: stall as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 2,000 turns each for 25 ms, at a speed by the time of their begin in us.
    fn rounds(speed: impl Fn(u64) -> f64) -> Vec<Round> {
        let mut rounds = Vec::new();
        let mut began_ns = 0;
        while began_ns < 25_000_000 {
            let speed = speed(began_ns / 1000);
            let ns = (2_000.0 / speed) as u64;
            rounds.push(Round { began_ns, speed });
            began_ns += ns;
        }
        rounds
    }

    #[test]
    fn a_change_counts_from_the_write_that_made_it() {
        let writes = [5_000_000, 5_030_000];
        let late = rounds(|us| if us < 5_100 { 0.5 } else { 2.0 });
        let change = find_change(&late, writes).unwrap();
        assert!(change.after_ns.abs_diff(70_000) < 5_000, "{change:?}");
        let early = rounds(|us| if us < 5_020 { 0.5 } else { 2.0 });
        let change = find_change(&early, writes).unwrap();
        assert!(change.after_ns.abs_diff(20_000) < 5_000, "{change:?}");
        let down = rounds(|us| if us < 5_100 { 2.0 } else { 0.5 });
        let change = find_change(&down, writes).unwrap();
        assert!(change.after_ns.abs_diff(70_000) < 5_000, "{change:?}");
    }

    #[test]
    fn an_interrupt_is_no_change_and_a_pause_is_a_stall() {
        let writes = [5_000_000, 5_030_000];
        let interrupted = rounds(|us| if us % 1_000 == 500 { 0.1 } else { 2.0 });
        assert_eq!(find_change(&interrupted, writes), None);
        let stalled = rounds(|us| match us {
            0..5_060 => 2.0,
            // A single round of 40 us.
            5_060..5_100 => 0.05,
            _ => 1.0,
        });
        let change = find_change(&stalled, writes).unwrap();
        assert!(change.stall_ns.abs_diff(38_000) < 2_000, "{change:?}");
        assert_eq!(find_change(&[], writes), None);
    }

    #[test]
    fn a_machine_without_cpufreq_has_a_reason() {
        let none = |_: usize| {};
        let go = AtomicBool::new(false);
        let control = ExperimentControl::new(&none, &go);
        let folder = tempfile::tempdir().unwrap();
        let system = System::new(wakepath_system::Root::at_directory(folder.path()));
        let why = time_transitions(&system, &[0, 1], Duration::ZERO, control).unwrap_err();
        assert!(why.contains("cpufreq") || why.contains("root"), "{why}");
        let why = time_transitions(&system, &[0], Duration::ZERO, control).unwrap_err();
        assert!(why.contains("second CPU"), "{why}");
    }
}
