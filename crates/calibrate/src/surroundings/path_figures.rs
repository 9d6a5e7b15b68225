//! Figures from the path of reads: interrupts between CPUs, ticks, parts of a read's work, changes of the clock.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, Origin, StolenCpuTime};
use wakepath_measure::path::PathMeasurement;
use wakepath_measure::summary::Estimate;

use crate::figures::{highest_khz, measured_figure};

/// Interruptions of a spinning thread per tick of the kernel, if they are ticks.
const TICK_RATES: std::ops::RangeInclusive<f64> = 0.7..=1.5;
/// An interval beyond this factor of its figure comes from other work, not from the hardware.
const WIDEST: f64 = 2.0;
/// Least share of an I/O's work for each part.
const LEAST_SHARE: f64 = 0.01;

/// Sets the time until another CPU sees an interrupt: the time to the answer, so an upper bound.
pub(super) fn set_ipi(machine: &mut Machine, path: &PathMeasurement) -> Result<(), String> {
    let ipi = path.ipi.ok_or("none was measured")?;
    let time = ipi.estimate;
    check_width(time)?;
    let what = "median interrupt of another, running CPU from sending to answer";
    machine.scheduler.ipi_us = time.figure_us(ipi.n, what, &path.conditions);
    Ok(())
}

/// Refuses a time whose interval other work has widened.
fn check_width(time: Estimate) -> Result<(), String> {
    if time.low > time.ns / WIDEST && time.high < time.ns * WIDEST {
        return Ok(());
    }
    Err(format!(
        "the interval of {:.2} to {:.2} us is too wide",
        time.low / 1e3,
        time.high / 1e3
    ))
}

/// Sets the work of a tick: what a spinning thread misses, if it is interrupted about as often as the kernel ticks.
pub(super) fn set_tick(machine: &mut Machine, path: &PathMeasurement) -> Result<(), String> {
    let seen = path.interruptions.ok_or("nothing interrupted a thread")?;
    let rate = seen.per_second / machine.hz.value;
    if !TICK_RATES.contains(&rate) {
        return Err(format!(
            "a spinning thread was interrupted {:.0} times per s, which are no ticks of {} Hz",
            seen.per_second, machine.hz.value
        ));
    }
    let [low, high] = seen.median_interval_ns;
    check_width(Estimate {
        ns: seen.median_ns,
        low,
        high,
    })?;
    let (khz, speed) = highest_speed_of_last_cpu(machine)?;
    // Nanoseconds times GHz are cycles; a small core's count as fewer of the biggest one.
    let kilocycles_per_ns = f64::from(khz) / 1e9 * speed;
    let what = format!(
        "median interruption of a spinning thread, {:.0} per s, {:.2} us at {} MHz",
        seen.per_second,
        seen.median_ns / 1e3,
        khz / 1000
    );
    machine.scheduler.tick_kcycles = measured_figure(
        seen.median_ns * kilocycles_per_ns,
        Some(seen.median_interval_ns.map(|ns| ns * kilocycles_per_ns)),
        seen.n,
        what,
        (&path.conditions, 2),
    );
    Ok(())
}

/// The clock of the CPU that was watched, and its speed there relative to the biggest core's.
fn highest_speed_of_last_cpu(machine: &Machine) -> Result<(u32, f64), String> {
    let khz = highest_khz(machine)?;
    let last = machine.cluster.last().ok_or("the machine has no CPUs")?;
    Ok((khz, f64::from(last.capacity) / 1024.0))
}

/// Sets the shares of an I/O's work. The resume, with the hand-over to the task, has what submission and interrupt leave.
pub(super) fn set_shares(machine: &mut Machine, path: &PathMeasurement) -> Result<(), String> {
    let parts = path.parts.ok_or("they were not told apart")?;
    let khz = highest_khz(machine)?;
    let io = &mut machine.io_path;
    let Some(fitted_to) = io.kcycles_per_io.fitted_to().map(str::to_owned) else {
        return Err("the work as a whole was not fitted".to_owned());
    };
    check_width(parts.submission)?;
    check_width(parts.interrupt)?;
    let whole_ns = io.kcycles_per_io.value * 1e9 / f64::from(khz);
    let [submission, interrupt] =
        [parts.submission, parts.interrupt].map(|time| time.divided_by(whole_ns));
    let rest = 1.0 - submission.ns - interrupt.ns;
    if [submission.ns, interrupt.ns, rest]
        .iter()
        .any(|share| *share < LEAST_SHARE)
    {
        return Err(format!(
            "submission and interrupt take {:.2} and {:.2} us of {:.2} us together, which leaves no part for each",
            parts.submission.ns / 1e3,
            parts.interrupt.ns / 1e3,
            whole_ns / 1e3
        ));
    }
    io.submission_share = measure_share(path, "submission", parts.submission, whole_ns);
    io.interrupt_share = measure_share(path, "interrupt", parts.interrupt, whole_ns);
    let resume = 1.0 - io.submission_share.value - io.interrupt_share.value;
    io.resume_share = Figure {
        value: (resume * 1e3).round() / 1e3,
        origin: Origin::Fitted(format!(
            "what submission and interrupt leave of it: {fitted_to}"
        )),
    };
    for part in [&mut io.deactivation_share, &mut io.reactivation_share] {
        if part.is_given() {
            *part = Figure::assumed(0.0, "the measured share is of a thread that never sleeps");
        }
    }
    if io.switch_share.value > io.resume_share.value {
        io.switch_share = Figure::assumed(io.resume_share.value, "all of the measured resume");
    }
    Ok(())
}

/// A part of a read's work as a measured share.
fn measure_share(path: &PathMeasurement, what: &str, part: Estimate, whole_ns: f64) -> Figure {
    let share = part.divided_by(whole_ns);
    measured_figure(
        share.ns,
        Some([share.low, share.high]),
        path.parts.map_or(0, |parts| parts.n),
        format!(
            "median {what} of a 4 KiB read by io_uring, {:.2} us of {:.2} us",
            part.ns / 1e3,
            whole_ns / 1e3
        ),
        (&path.conditions, 3),
    )
}

/// Sets how long a CPU stands still when its clock changes, on all clusters of cores like the one that was watched.
pub(super) fn set_clock_stall(machine: &mut Machine, path: &PathMeasurement) -> Result<(), String> {
    let seen = path.transitions.as_ref().ok_or("no clock was changed")?;
    let stall_ns = seen.stall_ns.ok_or("no change of the clock was seen")?;
    let core = machine
        .cluster
        .last()
        .map(|cluster| cluster.core.clone())
        .ok_or("the machine has no CPUs")?;
    let [low, high] = seen.khz.map(|khz| khz / 1000);
    let what = format!(
        "median of the longest pause of a spinning loop around a change, CPU {}, {low} and {high} MHz",
        seen.cpu
    );
    let figure = measured_figure(
        stall_ns / 1e3,
        None,
        seen.changes,
        what,
        (&path.conditions, 3),
    );
    for cluster in &mut machine.cluster {
        if cluster.core == core && !cluster.fixed_speed {
            cluster.clock_stall_us = figure.clone();
        }
    }
    Ok(())
}

/// Sets how often, and for how long, the host of a virtual machine takes CPUs that run. Without thefts nothing is set.
pub(super) fn set_stolen_time(machine: &mut Machine, path: &PathMeasurement) -> Result<(), String> {
    let Some(seen) = path.thefts else {
        return Ok(());
    };
    check_width(seen.mean)?;
    let what = format!(
        "interruptions of a spinning thread by the host, {} seen, those as short as ticks reckoned in",
        seen.n
    );
    let rate = measured_figure(
        seen.per_running_second,
        Some(seen.per_running_second_interval),
        seen.n,
        what.clone(),
        (&path.conditions, 2),
    );
    let mean = seen
        .mean
        .figure_us(seen.n, &format!("mean of {what}"), &path.conditions);
    machine.stolen = Some(StolenCpuTime {
        per_s: rate,
        mean_us: mean,
        source: "wakepath measure path".to_owned(),
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use wakepath_measure::path::{CpuThefts, Interruptions, ReadParts};
    use wakepath_measure::summary::SampledTime;

    use super::super::Surroundings;
    use super::super::tests::conditions;
    use super::*;
    use crate::engine_fit::{FittingRun, FittingRuns, fit_engine_work};

    fn estimate(ns: f64) -> Estimate {
        Estimate {
            ns,
            low: ns * 0.98,
            high: ns * 1.02,
        }
    }

    /// A path with an IPI of 1.8 us, ticks of 1.2 us at 250 Hz, and a read's submission of 1.5 and interrupt of 2 us.
    fn measured_path() -> PathMeasurement {
        PathMeasurement {
            file: "test".to_owned(),
            conditions: conditions(),
            held_shallow: true,
            loads: Vec::new(),
            parts: Some(ReadParts {
                n: 4_000,
                submission: estimate(1_500.0),
                interrupt: estimate(2_000.0),
                resume_ns: None,
            }),
            system_call: None,
            context_switch: None,
            ipi: Some(SampledTime {
                n: 900,
                estimate: estimate(1_800.0),
            }),
            interruptions: Some(Interruptions {
                n: 250,
                per_second: 255.0,
                median_ns: 1_200.0,
                median_interval_ns: [1_150.0, 1_300.0],
            }),
            thefts: None,
            engines: Vec::new(),
            engine_parts: Vec::new(),
            speeds: Vec::new(),
            ramp: None,
            transitions: None,
            complete: true,
            notes: Vec::new(),
        }
    }

    /// The same path in a guest, whose host takes a CPU so often, for 2.5 ms in the mean.
    fn path_with_thefts(per_running_second: f64) -> PathMeasurement {
        PathMeasurement {
            thefts: Some(CpuThefts {
                n: 400,
                per_running_second,
                per_running_second_interval: [0.9, 1.1].map(|factor| per_running_second * factor),
                mean: estimate(2_500_000.0),
            }),
            ..measured_path()
        }
    }

    /// A laptop whose reads were fitted to take 8 us of work at the highest clock.
    fn fitted_laptop() -> Machine {
        let mut machine = Machine::find("laptop").unwrap();
        machine.hz.value = 250.0;
        let mhz = f64::from(highest_khz(&machine).unwrap()) / 1e3;
        machine.io_path.kcycles_per_io = Figure {
            value: 8.0 * mhz / 1e3,
            origin: Origin::Fitted("reads".to_owned()),
        };
        machine
    }

    fn put(machine: &mut Machine, path: PathMeasurement) -> Vec<String> {
        let surroundings = Surroundings {
            path: Some(path),
            ..Surroundings::default()
        };
        surroundings.put_in_place(machine)
    }

    #[test]
    fn work_and_interrupts_of_the_path_become_measured_figures() {
        let mut machine = fitted_laptop();
        let notes = put(&mut machine, measured_path());
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("clock_stall_us"), "{notes:?}");
        let ipi = &machine.scheduler.ipi_us;
        assert!((ipi.value - 1.8).abs() < 1e-9, "{ipi:?}");
        let Origin::Measured(from) = &ipi.origin else {
            panic!("{ipi:?}")
        };
        assert_eq!((from.n, from.kernel.as_str()), (900, "6.12.48"));
        assert_eq!(from.interval(), Some((1.764, 1.836)));
        let mhz = f64::from(highest_khz(&machine).unwrap()) / 1e3;
        let tick = machine.scheduler.tick_kcycles.value;
        assert!((tick - 1.2 * mhz / 1e3).abs() < 0.01, "{tick}");
        let io = &machine.io_path;
        assert!((io.submission_share.value - 1.5 / 8.0).abs() < 1e-3);
        assert!((io.interrupt_share.value - 2.0 / 8.0).abs() < 1e-3);
        assert!((io.resume_share.value - 4.5 / 8.0).abs() < 2e-3);
        assert!(matches!(io.resume_share.origin, Origin::Fitted(_)));
    }

    #[test]
    fn a_spinning_thread_leaves_the_work_of_sleep_to_the_resume() {
        let mut machine = fitted_laptop();
        let io = &mut machine.io_path;
        io.switch_share = Figure::assumed(0.2, "a switch");
        io.deactivation_share = Figure::assumed(0.1, "going to sleep");
        io.reactivation_share = Figure::assumed(0.1, "waking");
        put(&mut machine, measured_path());
        let io = &machine.io_path;
        let inner = [
            &io.switch_share,
            &io.deactivation_share,
            &io.reactivation_share,
        ];
        let thousandths = inner.map(|share| (share.value * 1e3) as u32);
        assert_eq!(thousandths, [200, 0, 0]);
    }

    #[test]
    fn a_switch_takes_no_more_than_the_measured_resume() {
        let mut machine = fitted_laptop();
        machine.io_path.switch_share = Figure::assumed(0.9, "more than there is");
        put(&mut machine, measured_path());
        let io = &machine.io_path;
        assert!((io.switch_share.value - io.resume_share.value).abs() < 1e-9);
    }

    /// A run of reads with a mean latency of 80 us.
    fn fitting_run(apart_us: f64, busy_share: f64) -> FittingRun {
        FittingRun {
            mean_us: 80.0,
            apart_us,
            busy_share,
            switches_per_request: 1.0,
        }
    }

    #[test]
    fn engine_work_is_fitted_to_the_measured_shares() {
        let mut machine = fitted_laptop();
        put(&mut machine, measured_path());
        let runs = FittingRuns {
            synchronous: vec![fitting_run(81.0, 0.2)],
            asynchronous: vec![fitting_run(84.0, 0.2)],
            few: vec![fitting_run(30.0, 0.4)],
            deep: vec![fitting_run(9.0, 1.0)],
        };
        fit_engine_work(&mut machine, &runs).unwrap();
        machine.check().unwrap();
        // 8 us for a request, 1 for the program and 3 for the engine leave 9 without sleep.
        let io = &machine.io_path;
        assert!((io.switch_share.value - 3.0 / 8.0).abs() < 2e-3, "{io:?}");
        assert!(io.switch_share.value < io.resume_share.value);
    }

    #[test]
    fn a_host_that_takes_cpus_becomes_a_table_of_the_machine() {
        let mut machine = fitted_laptop();
        put(&mut machine, path_with_thefts(20.0));
        let stolen = machine.stolen.clone().unwrap();
        assert!((stolen.per_s.value - 20.0).abs() < 1e-9, "{stolen:?}");
        assert!((stolen.mean_us.value - 2_500.0).abs() < 1e-9, "{stolen:?}");
        let Origin::Measured(from) = &stolen.per_s.origin else {
            panic!("{stolen:?}")
        };
        assert_eq!((from.n, from.interval()), (400, Some((18.0, 22.0))));
        let text = machine.to_toml().unwrap();
        assert!(Machine::parse(&text, "guest").unwrap().stolen.is_some());
        // Nobody simulates a guest that hardly runs.
        let mut starved = fitted_laptop();
        let notes = put(&mut starved, path_with_thefts(5_000.0)).join("\n");
        assert!(starved.stolen.is_none());
        assert!(notes.contains("stolen: as captured"), "{notes}");
        assert!(notes.contains("% of a busy CPU's time"), "{notes}");
        // Without a host there is no table, and no note.
        let mut hardware = fitted_laptop();
        let notes = put(&mut hardware, measured_path()).join("\n");
        assert!(
            hardware.stolen.is_none() && !notes.contains("stolen"),
            "{notes}"
        );
    }

    #[test]
    fn what_is_no_figure_stays_as_captured_and_says_why() {
        let mut machine = Machine::find("laptop").unwrap();
        let mut path = measured_path();
        path.ipi = path.ipi.map(|ipi| SampledTime {
            estimate: Estimate {
                high: 9e6,
                ..ipi.estimate
            },
            ..ipi
        });
        path.interruptions = path.interruptions.map(|seen| Interruptions {
            per_second: 40.0,
            ..seen
        });
        let before = machine.to_toml().unwrap();
        let notes = put(&mut machine, path).join("\n");
        assert_eq!(machine.to_toml().unwrap(), before);
        for why in [
            "scheduler.ipi_us: as captured, since the interval",
            "40 times per s",
            "the work as a whole was not fitted",
        ] {
            assert!(notes.contains(why), "{why}: {notes}");
        }
    }
}
