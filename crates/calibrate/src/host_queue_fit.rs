//! A drive that a virtual machine's host serves until its queue is empty, fitted to fio's jobs.
//!
//! The host's thread takes one request after the other while the guest adds more, and interrupts once at the end. So a task with
//! many requests in flight sleeps once for all of them. A request alone also waits for that thread to wake, and tells the thread
//! by an exit to the host; requests behind it need neither.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveRest, Figure, Origin};

use crate::engine_fit::{FittingRuns, completes_on_the_submitting_cpu};
use crate::figures::highest_khz;
use crate::job_list::DEEP;

/// A task that sleeps so often for each round of its requests waits for all of them.
const MOST_SLEEPS_PER_ROUND: f64 = 2.0;
/// Least share of a request's time alone that the drive takes of each further one.
const LEAST_SHARE: f64 = 0.05;

/// Fits a queue that the host serves until it is empty. Leaves the machine alone where requests end one by one.
///
/// # Errors
/// The machine's clock is not known.
pub(crate) fn fit_host_queue(machine: &mut Machine, runs: &FittingRuns) -> Result<(), String> {
    let khz = highest_khz(machine)?;
    let fitted_work = machine.io_path.kcycles_per_io.fitted_to().is_some();
    if !fitted_work || !completes_on_the_submitting_cpu(machine) {
        return Ok(());
    }
    let Some(deep) = runs.deep_times().filter(|deep| {
        deep.switches_per_request * DEEP as f64 <= MOST_SLEEPS_PER_ROUND && !deep.keeps_cpu_busy()
    }) else {
        return Ok(());
    };
    let path = &machine.io_path;
    let us_of = |kcycles: f64| kcycles * 1e6 / f64::from(khz);
    let request_us = us_of(path.kcycles_per_io.value);
    let engine_us = us_of(path.program_kcycles.value + path.asynchronous_kcycles.value);
    let saved = ((request_us + engine_us - deep.cpu_us) / request_us).clamp(0.0, 0.95);
    let [submission, interrupt, resume] = [
        path.submission_share.value,
        path.interrupt_share.value,
        path.resume_share.value,
    ];
    let switch = saved.min(resume);
    let doorbell = (saved - switch) * submission / (submission + interrupt);
    let waking = (saved - switch - doorbell).max(0.0);
    // From the interrupt on, the task takes its requests one by one.
    let taken_us = request_us * (interrupt - waking + resume - switch);
    let behind = (DEEP - 1) as f64;
    let further_us = (deep.mean_us - deep.alone_us) / behind - taken_us;
    let alone_us = machine.drive.read_service_us.value;
    if !(alone_us * LEAST_SHARE..alone_us).contains(&further_us) {
        return Ok(());
    }
    let why = format!(
        "{DEEP} reads of libaio end together after {:.1} us, one alone after {:.1} us; each takes {:.2} us of the CPU",
        deep.mean_us, deep.alone_us, deep.cpu_us
    );
    let fit = |value: f64| Figure {
        value: (value * 1e3).round() / 1e3,
        origin: Origin::Fitted(why.clone()),
    };
    let path = &mut machine.io_path;
    path.switch_share = floor_to_thousandth(fit(switch));
    path.doorbell_share = floor_to_thousandth(fit(doorbell));
    path.deactivation_share = fit(0.0);
    path.reactivation_share = floor_to_thousandth(fit(waking));
    path.completion.when_empty = fit(1.0);
    let drive = &mut machine.drive;
    let wake_us = alone_us - further_us;
    drive.spread = fit(drive.spread.value * alone_us / further_us);
    drive.read_service_us = fit(further_us);
    drive.write_service_us = fit((drive.write_service_us.value - wake_us).max(further_us / 2.0));
    drive.parallel_units = fit(1.0);
    drive.drop_tails_that_do_not_fit();
    let deeper: Vec<DriveRest> = drive
        .rests()
        .filter(|[_, exit_us]| exit_us.value > 0.0)
        .map(|[after_ms, exit_us]| DriveRest {
            after_ms: after_ms.clone(),
            exit_us: Figure {
                value: ((exit_us.value + wake_us) * 1e3).round() / 1e3,
                origin: Origin::Fitted(format!(
                    "{wake_us:.1} us for the host's thread to wake, and {}",
                    exit_us.origin.describe_origin(&drive.source)
                )),
            },
        })
        .collect();
    let first = DriveRest {
        after_ms: fit(0.0),
        exit_us: fit(wake_us),
    };
    drive.set_rests(std::iter::once(first).chain(deeper));
    Ok(())
}

/// A share that is never more than the measured whole.
fn floor_to_thousandth(share: Figure) -> Figure {
    Figure {
        value: (share.value * 1e3).floor() / 1e3,
        ..share
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_fit::FittingRun;
    use crate::figures::work_in_kilocycles;

    /// A guest where a request takes 22 us of work and 21 us of the drive.
    fn guest() -> Machine {
        let mut machine = Machine::find("epyc-7502").unwrap();
        let khz = highest_khz(&machine).unwrap();
        let path = &mut machine.io_path;
        path.completion.cpu = None;
        path.completion.queues = None;
        path.kcycles_per_io = Figure {
            value: work_in_kilocycles(22.0, khz),
            origin: Origin::Fitted("reads".to_owned()),
        };
        path.program_kcycles.value = work_in_kilocycles(0.5, khz);
        path.asynchronous_kcycles.value = work_in_kilocycles(1.5, khz);
        let shares = [
            (&mut path.submission_share, 0.55),
            (&mut path.interrupt_share, 0.38),
            (&mut path.resume_share, 0.07),
            (&mut path.deactivation_share, 0.0),
        ];
        for (share, value) in shares {
            share.value = value;
        }
        let drive = &mut machine.drive;
        (drive.power, drive.deeper_rests) = (None, Vec::new());
        drive.read_service_us = Figure::assumed(21.0, "measured");
        drive.write_service_us = Figure::assumed(20.0, "measured");
        drive.rest_after_ms = Figure::assumed(2.0, "measured");
        drive.rest_exit_us = Figure::assumed(30.0, "measured");
        machine
    }

    /// Jobs at depth 1 and 32, as fio told them in a guest with one thread for its drive.
    fn runs(switches_per_request: f64) -> FittingRuns {
        let alone = FittingRun {
            mean_us: 43.0,
            apart_us: 43.5,
            busy_share: 0.5,
            switches_per_request: 1.0,
        };
        let deep = FittingRun {
            mean_us: 377.0,
            apart_us: 11.8,
            busy_share: 0.5,
            switches_per_request,
        };
        FittingRuns {
            synchronous: vec![alone],
            asynchronous: vec![alone],
            deep: vec![deep],
        }
    }

    #[test]
    fn a_host_that_serves_all_before_it_interrupts_is_fitted() {
        let mut machine = guest();
        fit_host_queue(&mut machine, &runs(1.0 / 32.0)).unwrap();
        let (path, drive) = (&machine.io_path, &machine.drive);
        assert!((path.completion.when_empty.value - 1.0).abs() < 1e-9);
        assert!((drive.parallel_units.value - 1.0).abs() < 1e-9);
        // 334 us for 31 more requests, less what the task does for each.
        let read_us = drive.read_service_us.value;
        assert!((8.0..10.0).contains(&read_us), "{read_us}");
        let rests: Vec<[f64; 2]> = drive
            .rests()
            .map(|rest| rest.map(|figure| figure.value))
            .collect();
        let wake_us = 21.0 - read_us;
        assert!(
            rests[0][0].abs() < 1e-9 && (rests[0][1] - wake_us).abs() < 0.01,
            "{rests:?}"
        );
        assert!((rests[1][0] - 2.0).abs() < 1e-9, "{rests:?}");
        assert!((rests[1][1] - wake_us - 30.0).abs() < 0.01, "{rests:?}");
        assert!((drive.write_service_us.value - (20.0 - wake_us)).abs() < 0.01);
        // 24 us of a request alone, and 5.9 us of each in the deep job.
        let saved =
            path.switch_share.value + path.doorbell_share.value + path.reactivation_share.value;
        assert!((saved * 22.0 - 18.1).abs() < 0.2, "{saved}");
        machine.check().unwrap();
    }

    #[test]
    fn requests_that_end_one_by_one_leave_the_machine_alone() {
        let before = guest().to_toml().unwrap();
        for others in [
            runs(0.5),
            FittingRuns {
                deep: Vec::new(),
                ..runs(0.03)
            },
        ] {
            let mut machine = guest();
            fit_host_queue(&mut machine, &others).unwrap();
            assert_eq!(machine.to_toml().unwrap(), before);
        }
        // Work that was not fitted tells nothing of what requests behind others save.
        let mut assumed = guest();
        assumed.io_path.kcycles_per_io.origin = Origin::Assumed("a guess".to_owned());
        fit_host_queue(&mut assumed, &runs(1.0 / 32.0)).unwrap();
        assert!(!assumed.io_path.completion.when_empty.is_given());
    }
}
