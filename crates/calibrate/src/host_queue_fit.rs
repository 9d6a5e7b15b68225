//! A drive that a virtual machine's host serves until its queue is empty, fitted to fio's jobs.
//!
//! The host's thread takes one request after the other while the guest adds more, and interrupts once at the end. So a task with
//! many requests in flight sleeps once for all of them. A request alone also waits for that thread to wake, and tells the thread
//! by an exit to the host; requests behind it need neither.

use std::ops::RangeInclusive;

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveModel, DriveRest, Figure, IoPath, Origin};

use crate::engine_fit::{DeepTimes, FittingRuns, completes_on_the_submitting_cpu};
use crate::figures::{highest_khz, time_of_work_us};
use crate::job_list::DEEP;

/// How often a task sleeps for each round of its requests, if it waits for all of them: few and many. With many, requests that end
/// one by one keep a CPU as busy; with few, they wake the task for nearly each.
const SLEEPS_PER_ROUND: RangeInclusive<f64> = 0.5..=2.0;
/// Least share of a request's time alone that the drive takes of each further one.
const LEAST_SHARE: f64 = 0.05;
/// The most that a machine file takes as a spread.
const MOST_SPREAD: f64 = 10.0;

/// Work and time of requests behind others, which an awake host's thread serves.
struct FurtherRequests {
    /// Shares of a request's work that only the first of a round costs.
    switch: f64,
    doorbell: f64,
    waking: f64,
    /// Time of the drive in us.
    service_us: f64,
}

/// Fits a queue that the host serves until it is empty. Leaves the machine alone where requests end one by one.
///
/// # Errors
/// The machine's clock is not known.
pub(crate) fn fit_host_queue(machine: &mut Machine, runs: &FittingRuns) -> Result<(), String> {
    let is_fitted = machine.io_path.kcycles_per_io.fitted_to().is_some();
    let comparable =
        is_fitted && completes_on_the_submitting_cpu(machine) && machine.emulator.is_none();
    let round = runs.deep_times().filter(|deep| {
        [deep.sleeps_per_round, deep.sleeps_per_round_of_few]
            .iter()
            .all(|sleeps| SLEEPS_PER_ROUND.contains(sleeps))
            && !deep.keeps_cpu_busy()
    });
    let Some(deep) = round.filter(|_| comparable) else {
        return Ok(());
    };
    let khz = highest_khz(machine)?;
    let further = FurtherRequests::estimate(&machine.io_path, deep, khz);
    let alone_us = machine.drive.read_service_us.value;
    if (alone_us * LEAST_SHARE..alone_us).contains(&further.service_us) {
        let found = FoundQueue {
            wake_us: alone_us - further.service_us,
            why: format!(
                "{DEEP} reads of libaio end together after {:.1} us, one alone after {:.1} us, of which the drive has {alone_us:.1}; \
                 each takes fio {:.2} us",
                deep.mean_us, deep.alone_us, deep.cpu_us
            ),
        };
        found.put_into_io_path(&mut machine.io_path, &further);
        found.put_into_drive(&mut machine.drive, further.service_us);
    }
    Ok(())
}

impl FurtherRequests {
    /// Fio's account has the work of submission and resumption, and not that of an interrupt which meets a sleeping CPU.
    /// Interrupts are assumed to save as large a share as submissions do.
    fn estimate(path: &IoPath, deep: DeepTimes, khz: u32) -> Self {
        let request_us = time_of_work_us(path.kcycles_per_io.value, khz);
        let engine_kcycles = path.program_kcycles.value + path.asynchronous_kcycles.value;
        let [submission, interrupt, resume] = [
            path.submission_share.value,
            path.interrupt_share.value,
            path.resume_share.value,
        ];
        let alone_us = request_us * (submission + resume) + time_of_work_us(engine_kcycles, khz);
        let saved = ((alone_us - deep.cpu_us) / request_us).clamp(0.0, submission + resume);
        let switch = saved.min(resume);
        let doorbell = saved - switch;
        let waking = interrupt * doorbell / submission.max(f64::MIN_POSITIVE);
        // From the interrupt on, the task takes its requests one by one.
        let taken_us = request_us * (interrupt - waking + resume - switch);
        Self {
            switch,
            doorbell,
            waking,
            service_us: (deep.mean_us - deep.alone_us) / (DEEP - 1) as f64 - taken_us,
        }
    }
}

/// A queue that was found, whose figures have the same reason.
struct FoundQueue {
    /// What the host's thread takes to wake for the first request.
    wake_us: f64,
    why: String,
}

impl FoundQueue {
    fn put_into_io_path(&self, path: &mut IoPath, further: &FurtherRequests) {
        path.switch_share = self.share(further.switch);
        path.doorbell_share = self.share(further.doorbell);
        path.deactivation_share = self.figure(0.0);
        path.reactivation_share = self.share(further.waking);
        path.completion.when_empty = self.figure(1.0);
    }

    /// Times of requests alone have the wake-up of the host's thread, which becomes a rest that begins at once.
    fn put_into_drive(&self, drive: &mut DriveModel, service_us: f64) {
        let spread = drive.spread.value * drive.read_service_us.value / service_us;
        drive.spread = self.figure(spread.min(MOST_SPREAD));
        drive.read_service_us = self.figure(service_us);
        drive.parallel_units = self.figure(1.0);
        for figure in [&mut drive.write_service_us, &mut drive.flush_us] {
            if figure.value > 0.0 {
                *figure = self.figure((figure.value - self.wake_us).max(service_us / 2.0));
            }
        }
        for slowest in [&mut drive.read_p999_us, &mut drive.write_p999_us] {
            if slowest.is_given() {
                *slowest = self.figure((slowest.value - self.wake_us).max(0.0));
            }
        }
        drive.drop_tails_that_do_not_fit();
        let first = DriveRest {
            after_ms: self.figure(0.0),
            exit_us: self.figure(self.wake_us),
        };
        let deeper: Vec<DriveRest> = drive
            .rests()
            .filter(|[_, exit_us]| exit_us.value > 0.0)
            .map(|[after_ms, exit_us]| DriveRest {
                after_ms: after_ms.clone(),
                exit_us: self.figure_beyond_wake_up(exit_us, &drive.source),
            })
            .collect();
        drive.set_rests(std::iter::once(first).chain(deeper));
    }

    /// The delay of a deeper rest, with the wake-up of the host's thread.
    fn figure_beyond_wake_up(&self, exit_us: &Figure, table_source: &str) -> Figure {
        let why = format!(
            "{:.1} us for the host's thread to wake, and {}",
            self.wake_us,
            exit_us.origin.describe_origin(table_source)
        );
        Self { why, ..*self }.figure(exit_us.value + self.wake_us)
    }

    fn figure(&self, value: f64) -> Figure {
        Figure {
            value: (value * 1e3).round() / 1e3,
            origin: Origin::Fitted(self.why.clone()),
        }
    }

    /// A share of a measured whole, which is never exceeded.
    fn share(&self, value: f64) -> Figure {
        self.figure((value * 1e3).floor() / 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine_fit::FittingRun;
    use crate::figures::work_in_kilocycles;
    use crate::job_list::FEW;

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

    /// Jobs as fio told them in a guest with one thread for its drive, with so many sleeps for each round of few and many requests.
    fn runs([few, many]: [f64; 2]) -> FittingRuns {
        let alone = FittingRun {
            mean_us: 43.0,
            apart_us: 43.5,
            busy_share: 0.5,
            switches_per_request: 1.0,
        };
        let some = FittingRun {
            mean_us: 77.0,
            apart_us: 19.4,
            busy_share: 0.5,
            switches_per_request: few / FEW as f64,
        };
        let deep = FittingRun {
            mean_us: 377.0,
            apart_us: 11.8,
            busy_share: 0.5,
            switches_per_request: many / DEEP as f64,
        };
        FittingRuns {
            synchronous: vec![alone],
            asynchronous: vec![alone],
            few: vec![some],
            deep: vec![deep],
        }
    }

    #[test]
    fn a_host_that_serves_all_before_it_interrupts_is_fitted() {
        let mut machine = guest();
        fit_host_queue(&mut machine, &runs([1.0, 1.0])).unwrap();
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
        // 15.6 us of a request alone in fio's account, and 5.9 us of each in the deep job.
        let saved = path.switch_share.value + path.doorbell_share.value;
        assert!((saved * 22.0 - 9.7).abs() < 0.2, "{saved}");
        let parts = [
            path.doorbell_share.value / path.submission_share.value,
            path.reactivation_share.value / path.interrupt_share.value,
        ];
        assert!((parts[0] - parts[1]).abs() < 0.01, "{parts:?}");
        machine.check().unwrap();
    }

    #[test]
    fn a_wide_spread_makes_a_valid_machine() {
        let mut machine = guest();
        machine.drive.spread.value = 8.0;
        fit_host_queue(&mut machine, &runs([1.0, 1.0])).unwrap();
        assert!(machine.drive.spread.value > 8.0);
        machine.check().unwrap();
    }

    #[test]
    fn requests_that_end_one_by_one_leave_the_machine_alone() {
        let before = guest().to_toml().unwrap();
        for others in [
            runs([4.0, 16.0]),
            runs([0.0, 0.0]),
            // A CPU that is nearly always busy sleeps seldom with many in flight.
            runs([3.6, 1.0]),
            FittingRuns {
                deep: Vec::new(),
                ..runs([1.0, 1.0])
            },
        ] {
            let mut machine = guest();
            fit_host_queue(&mut machine, &others).unwrap();
            assert_eq!(machine.to_toml().unwrap(), before);
        }
        // Work that was not fitted tells nothing of what requests behind others save.
        let mut assumed = guest();
        assumed.io_path.kcycles_per_io.origin = Origin::Assumed("a guess".to_owned());
        fit_host_queue(&mut assumed, &runs([1.0, 1.0])).unwrap();
        assert!(!assumed.io_path.completion.when_empty.is_given());
    }
}
