//! Speed of CPUs: by how many of them work, and how soon after a pause.
//!
//! A loop of dependent additions takes the same number of cycles each time, so its speed is that of the clock. Cycle counters,
//! which guests lack, are not needed; so the figures are relative.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use wakepath_units::median;

use crate::{ExperimentControl, pin};

/// Turns of the loop between two looks at the clock.
pub(super) const TURNS: u64 = 2_000;
/// Pause before a ramp: a clock has fallen by then.
const PAUSE: Duration = Duration::from_millis(120);
/// How long a ramp is watched.
const WATCH: Duration = Duration::from_millis(60);
/// Ramps that are watched.
const RAMPS: usize = 5;
/// A clock has arrived where the loop reaches this share of its steady speed.
const ARRIVED: f64 = 0.95;

/// Speed of a CPU while so many CPUs work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpeedByActive {
    /// CPUs that work.
    pub active: usize,
    /// Speed of each, relative to one that works alone; below 1 where turbo clocks are shared, or threads share a core.
    pub relative: f64,
}

/// How the clock comes up after a pause.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ClockRamp {
    /// Speed right after the pause, relative to the steady speed: the median of several pauses.
    pub first: f64,
    /// Time from the end of the pause until the speed has come up, in us: the median of several pauses; 0: at once.
    pub rises_us: f64,
}

/// Speeds with 1, 2, 4 and so on, and all CPUs at work; empty after cancellation, or where threads cannot be pinned.
pub(super) fn measure_speeds(
    cpus: &[usize],
    time: Duration,
    control: ExperimentControl<'_>,
) -> Vec<SpeedByActive> {
    let counts = active_counts(cpus.len());
    let each = time / counts.len().max(1) as u32;
    let mut speeds: Vec<(usize, f64)> = Vec::new();
    for active in counts {
        if control.is_cancelled() {
            return Vec::new();
        }
        // The last CPUs: system work prefers the first.
        let Some(speed) = spin_together(&cpus[cpus.len() - active..], each) else {
            return Vec::new();
        };
        speeds.push((active, speed));
    }
    let alone = speeds.first().map_or(0.0, |(_, speed)| *speed);
    let relative = speeds.into_iter().map(|(active, speed)| SpeedByActive {
        active,
        relative: (speed / alone.max(1e-9) * 1e3).round() / 1e3,
    });
    relative.collect()
}

/// 1, 2, 4 and so on, and the number of all.
fn active_counts(cpus: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1_usize), |count| count.checked_mul(2));
    let mut counts: Vec<usize> = doubled.take_while(|count| *count < cpus).collect();
    counts.extend((cpus > 0).then_some(cpus));
    counts
}

/// Median turns of the loop per ns on CPUs that work at the same time; `None` if one cannot be used.
fn spin_together(cpus: &[usize], time: Duration) -> Option<f64> {
    let end = AtomicBool::new(false);
    let ready = AtomicU64::new(0);
    let speeds: Vec<Option<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = cpus
            .iter()
            .map(|cpu| {
                let (end, ready) = (&end, &ready);
                scope.spawn(move || {
                    let pinned = pin::pin_to(*cpu);
                    ready.fetch_add(1, Ordering::Release);
                    pinned.ok()?;
                    let mut speeds = Vec::new();
                    while !end.load(Ordering::Relaxed) {
                        speeds.push(time_loop());
                    }
                    median(speeds)
                })
            })
            .collect();
        while ready.load(Ordering::Acquire) < cpus.len() as u64 {
            std::thread::yield_now();
        }
        std::thread::sleep(time);
        end.store(true, Ordering::Relaxed);
        let joined = threads
            .into_iter()
            .map(|thread| thread.join().ok().flatten());
        joined.collect()
    });
    let known: Option<Vec<f64>> = speeds.into_iter().collect();
    median(known?)
}

/// Turns of the loop per ns, from one round.
pub(super) fn time_loop() -> f64 {
    let began = Instant::now();
    let mut sum = 0_u64;
    for turn in 0..TURNS {
        // Each addition waits for the one before.
        sum = std::hint::black_box(sum.wrapping_add(turn));
    }
    TURNS as f64 / began.elapsed().as_nanos().max(1) as f64
}

/// The clock's way up after pauses on a CPU; `None` after cancellation, or where the thread cannot be pinned.
pub(super) fn measure_ramp(cpu: usize, control: ExperimentControl<'_>) -> Option<ClockRamp> {
    let ramps = std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            pin::pin_to(cpu).ok()?;
            let ramps: Vec<ClockRamp> = (0..RAMPS)
                .map_while(|_| {
                    control.sleep(PAUSE);
                    (!control.is_cancelled()).then(watch_ramp)
                })
                .collect();
            Some(ramps)
        });
        watcher.join().ok().flatten()
    })?;
    Some(ClockRamp {
        first: median(ramps.iter().map(|ramp| ramp.first))?,
        rises_us: median(ramps.iter().map(|ramp| ramp.rises_us))?,
    })
}

fn watch_ramp() -> ClockRamp {
    let began = Instant::now();
    let mut rounds = Vec::new();
    while began.elapsed() < WATCH {
        let at_us = began.elapsed().as_nanos() as f64 / 1e3;
        rounds.push((at_us, time_loop()));
    }
    find_ramp(&rounds)
}

/// The ramp in the speeds of rounds by their begin in us. The first round warms caches and does not count.
fn find_ramp(rounds: &[(f64, f64)]) -> ClockRamp {
    let counted = rounds.get(1..).unwrap_or_default();
    let last = &counted[counted.len() / 2..];
    let steady = median(last.iter().map(|(_, speed)| *speed)).unwrap_or(1.0);
    let first = counted.first().map_or(1.0, |(_, speed)| speed / steady);
    let mut arrived = counted
        .iter()
        .filter(|(_, speed)| *speed >= ARRIVED * steady);
    let rises_us = arrived.next().map_or(0.0, |(at, _)| *at);
    ClockRamp {
        first: (first * 1e3).round() / 1e3,
        rises_us: if first >= ARRIVED {
            0.0
        } else {
            rises_us.round()
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_and_powers_of_two_are_active() {
        assert_eq!(active_counts(1), [1]);
        assert_eq!(active_counts(2), [1, 2]);
        assert_eq!(active_counts(12), [1, 2, 4, 8, 12]);
        assert!(active_counts(0).is_empty());
    }

    #[test]
    fn a_ramp_ends_where_the_speed_has_come_up() {
        let rounds = |speed: fn(f64) -> f64| -> Vec<(f64, f64)> {
            let times = (0..2_000).map(|round| f64::from(round) * 10.0);
            times.map(|at| (at, speed(at))).collect()
        };
        let slow_start = find_ramp(&rounds(|at| if at < 4_000.0 { 0.4 } else { 1.0 }));
        assert_eq!((slow_start.first, slow_start.rises_us), (0.4, 4_000.0));
        let steady = find_ramp(&rounds(|_| 1.0));
        assert_eq!((steady.first, steady.rises_us), (1.0, 0.0));
        // Interrupts make single rounds slow.
        let noisy = find_ramp(&rounds(|at| {
            if (at % 1_000.0 - 500.0).abs() < 1e-6 {
                0.2
            } else {
                1.0
            }
        }));
        assert_eq!((noisy.first, noisy.rises_us), (1.0, 0.0));
    }

    #[test]
    fn two_cpus_at_work_have_speeds() {
        let none = |_: usize| {};
        let go = AtomicBool::new(false);
        let control = ExperimentControl::new(&none, &go);
        let cpu = rustix::thread::sched_getcpu();
        let speeds = measure_speeds(&[cpu], Duration::from_millis(30), control);
        assert_eq!(
            speeds,
            [SpeedByActive {
                active: 1,
                relative: 1.0
            }]
        );
        let ramp = measure_ramp(cpu, control).unwrap();
        assert!(ramp.first > 0.0 && ramp.rises_us < 60_000.0, "{ramp:?}");
    }
}
