//! Measured figures replace declared and assumed figures.

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{DriveModel, DriveRest, Figure, IoPath, Origin};
use wakepath_measure::Conditions;
use wakepath_measure::drive::{AccessDirection, AddressOrder, BackingDevice, DriveMeasurement};
use wakepath_measure::wake::{WakeMeasurement, WakePlan};
use wakepath_system::System;
use wakepath_system::capture::drives::set_completion_queues_from_disk;
use wakepath_units::Nanoseconds;

/// Makes the measured disk's drive the first of a captured machine, with the disk's queues; returns a note if none was captured for the disk.
pub(crate) fn choose_measured_drive(
    machine: &mut Machine,
    system: &System,
    measured: Option<&BackingDevice>,
) -> Option<String> {
    if let Some(device) = measured {
        set_completion_queues_from_disk(system, &device.disk, machine);
    }
    let controller = measured.and_then(|device| system.controller_of_namespace(&device.disk));
    make_drive_first_or_stand_in(machine, controller.as_deref()).then(|| {
        let disk = measured.map_or("the disk of the test files", |device| device.disk.as_str());
        format!(
            "{disk}: no NVMe controller was captured for it, so its figures are put into a typical drive without power states"
        )
    })
}

/// Makes a controller's drive the first; returns whether a typical one without power states had to stand in.
fn make_drive_first_or_stand_in(machine: &mut Machine, controller: Option<&str>) -> bool {
    if controller.is_some() && machine.make_drive_of_controller_first(controller) {
        return false;
    }
    // Without a controller's name the captured drive is a stand-in already.
    if machine.drive.device.is_some() {
        let typical = DriveModel {
            name: "typical drive".to_owned(),
            source: "assumed, since nothing describes the drive".to_owned(),
            ..DriveModel::typical_client_drive_without_power_states()
        };
        let before = std::mem::replace(&mut machine.drive, typical);
        machine.other_drives.insert(0, before);
    }
    machine.drive.device = None;
    machine.drive.power = None;
    machine.drive.in_force = None;
    true
}

/// Puts measured figures into a machine. Others stay as they are. Returns what a reader should know.
pub fn put_in_place(
    machine: &mut Machine,
    drive: &DriveMeasurement,
    wake: Option<&WakeMeasurement>,
) -> Vec<String> {
    drive.apply_to(&mut machine.drive);
    if let Some(device) = &drive.device {
        let model = device.model.as_deref().unwrap_or("model not known");
        machine.drive.name = format!("{} ({model}), measured", device.disk);
    }
    if let Some(cpus) = drive.cpus_that_complete_their_own() {
        let completion = &mut machine.io_path.completion;
        completion.queues = None;
        completion.assumed =
            format!("interrupts came to the CPU that submitted, on each of {cpus} CPUs watched");
    }
    let mut notes = wake.map_or_else(Vec::new, |wake| wake.apply_to(machine));
    let slept = drive.put_sleep_times_into(&mut machine.drive);
    machine
        .drive
        .set_rests(join_rests(find_short_rests(drive, wake), slept));
    match fit_request_work(machine, drive) {
        Ok(kcycles) => {
            machine.io_path.kcycles_per_io = kcycles;
            assume_one_switch_for_each_wake_up(&mut machine.io_path);
        }
        Err(why) => notes.push(format!("io_path.kcycles_per_io stays as captured: {why}")),
    }
    machine.title = format!(
        "{}, calibrated on {}",
        machine
            .title
            .trim_end_matches("; what its hardware really takes is assumed"),
        drive.conditions.date
    );
    notes
}

/// Rests that begin within 10 ms, by reads after short pauses, else by wake-ups. A wake-up by the drive comes later after the read
/// before than the pause says: counters of the CPU are read in between. Rests of 100 us are in all wake-ups alike.
fn find_short_rests(drive: &DriveMeasurement, wake: Option<&WakeMeasurement>) -> Vec<DriveRest> {
    let rests = drive.short_rests();
    if rests.is_empty() {
        wake.map_or_else(Vec::new, WakeMeasurement::drive_rests)
    } else {
        rests
    }
}

/// Short rests and sleep, the shallowest first. Short rests were seen at equal states of the CPU. Beside short rests, sleep within
/// 10 ms only tells more closely when such a rest begins.
fn join_rests(short: Vec<DriveRest>, slept: Vec<DriveRest>) -> Vec<DriveRest> {
    let mut rests = short;
    let longest = if rests.is_empty() {
        Nanoseconds::ZERO
    } else {
        WakePlan::LONGEST_PAUSE
    };
    for rest in slept {
        if rest.after_ms.millis_to_time() <= longest {
            let mut short = rests.iter_mut();
            if let Some(same) = short.find(|short| may_begin_at(short, rest.after_ms.value)) {
                same.after_ms = rest.after_ms;
            }
            continue;
        }
        let lesser = rests.last();
        if lesser.is_none_or(|lesser| {
            rest.exit_us.value > lesser.exit_us.value && rest.after_ms.value > lesser.after_ms.value
        }) {
            rests.push(rest);
        }
    }
    rests
}

/// Whether a measured rest may begin after so much idle time, in ms.
fn may_begin_at(rest: &DriveRest, after_ms: f64) -> bool {
    let Origin::Measured(measurement) = &rest.after_ms.origin else {
        return false;
    };
    let interval = measurement.interval();
    interval.is_some_and(|(low, high)| (low..=high).contains(&after_ms))
}

/// The work was fitted to requests that each wake a task. At greater depths a woken task takes all complete requests.
fn assume_one_switch_for_each_wake_up(io_path: &mut IoPath) {
    if !io_path.switch_share.is_given() {
        io_path.switch_share = Figure::assumed(
            io_path.resume_share.value,
            "what resumes a task is the context switch, once for all requests that are complete by then",
        );
    }
}

/// Takes the slack of sleeping programs' timers from the running kernel, if it tells.
pub(crate) fn take_timer_slack(machine: &mut Machine, system: &System) {
    const FILE: &str = "proc/self/timerslack_ns";
    if let Some(slack_ns) = system.root().read_number_if_readable(FILE) {
        machine.scheduler.timer_slack_us = Figure {
            value: slack_ns as f64 / 1e3,
            origin: Origin::Declared(format!("/{FILE} of the running kernel")),
        };
    }
}

/// A measured figure, all numbers with so many decimals; `interval`: the ends of the 95 % interval.
pub(crate) fn measured_figure(
    value: f64,
    interval: Option<[f64; 2]>,
    n: u64,
    what: String,
    (conditions, decimals): (&Conditions, i32),
) -> Figure {
    let rounded = interval.map(|ends| ends.map(|end| round_to_decimals(end, decimals)));
    let measurement = conditions.describe_measurement(n.max(1), rounded, what);
    Figure::measured_here(round_to_decimals(value, decimals), measurement)
}

fn round_to_decimals(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}

/// The highest clock of a machine.
pub(crate) fn highest_khz(machine: &Machine) -> Result<u32, String> {
    let opps = machine.cluster.iter().flat_map(|cluster| &cluster.opps);
    let khz = opps.map(|opp| opp.khz).max();
    khz.ok_or_else(|| "the machine's clock is not known".to_owned())
}

/// Work of a time at a clock, in thousands of cycles with two decimals.
pub(crate) fn work_in_kilocycles(us: f64, khz: u32) -> f64 {
    // Microseconds times MHz are cycles.
    let cycles = us * f64::from(khz) / 1e3;
    (cycles / 10.0).round() / 100.0
}

/// Time in us of work in thousands of cycles at a clock.
pub(crate) fn time_of_work_us(kcycles: f64, khz: u32) -> f64 {
    kcycles * 1e6 / f64::from(khz)
}

/// CPU work per request: what a program waits at depth 1 beyond the drive's service time, at the highest clock. The error says
/// why the work is not known.
fn fit_request_work(machine: &Machine, drive: &DriveMeasurement) -> Result<Figure, String> {
    if !drive.held_shallow {
        return Err("CPUs could sleep, so idle exits are in the reads, too".to_owned());
    }
    let reads = drive.service.iter().find(|s| {
        s.shape.direction == AccessDirection::Read
            && s.shape.order == AddressOrder::Random
            && (s.shape.kib, s.shape.depth) == (4, 1)
    });
    let alone = reads.ok_or("no 4 KiB reads at depth 1 were measured")?;
    if !alone.tells_drive_apart() {
        return Err("neither interrupts nor the block layer tell the drive's part of 4 KiB reads at depth 1".to_owned());
    }
    let khz = highest_khz(machine)?;
    let beyond_us = (alone.latency.mean.ns - alone.service().ns) / 1e3;
    let kcycles = work_in_kilocycles(beyond_us, khz);
    if kcycles <= 0.0 {
        return Err(format!(
            "4 KiB random reads at depth 1 take {beyond_us:.2} us more than the drive, which leaves no work"
        ));
    }
    Ok(Figure {
        value: kcycles,
        origin: Origin::Fitted(format!(
            "mean of 4 KiB random reads at depth 1 less the drive's service time: {beyond_us:.2} us at {} MHz",
            khz / 1000
        )),
    })
}

#[cfg(test)]
pub(crate) mod tests {
    use wakepath_measure::StorageStack;
    use wakepath_measure::drive::{
        BlockLayerView, DriveSleep, GapLatency, InterruptView, LoadShape, ServiceTime, ShortPauses,
        ShortRest,
    };
    use wakepath_measure::summary::{Estimate, LatencySummary};
    use wakepath_measure::wake::{SlowerReads, WakeLatency, WakeSource};
    use wakepath_units::Nanoseconds;

    use super::*;

    /// A laptop with two captured drives.
    fn two_drives() -> Machine {
        let mut machine = Machine::find("laptop").unwrap();
        let mut other = machine.drive.clone();
        machine.drive.device = Some("nvme0".to_owned());
        other.device = Some("nvme1".to_owned());
        machine.other_drives = vec![other];
        machine
    }

    fn devices(machine: &Machine) -> Vec<Option<&str>> {
        let drives = std::iter::once(&machine.drive).chain(&machine.other_drives);
        drives.map(|drive| drive.device.as_deref()).collect()
    }

    #[test]
    fn figures_go_to_the_drive_that_was_measured() {
        let mut machine = two_drives();
        assert!(!make_drive_first_or_stand_in(&mut machine, Some("nvme0")));
        assert_eq!(devices(&machine), [Some("nvme0"), Some("nvme1")]);
        assert!(!make_drive_first_or_stand_in(&mut machine, Some("nvme1")));
        assert_eq!(devices(&machine), [Some("nvme1"), Some("nvme0")]);
        // A SATA disk, or a volume over several disks.
        assert!(make_drive_first_or_stand_in(&mut machine, None));
        assert_eq!(devices(&machine), [None, Some("nvme1"), Some("nvme0")]);
        assert!(machine.drive.power.is_none());
        machine.check().unwrap();
        Machine::parse(&machine.to_toml().unwrap(), "again").unwrap();
    }

    /// 4 KiB reads with a median of 100 us and this mean, 80 us of it in the block layer.
    pub(crate) fn measured(slowest_us: u64, held_shallow: bool) -> DriveMeasurement {
        let samples = [100_000, 100_000, 100_000, slowest_us * 1000];
        DriveMeasurement {
            file: "test".to_owned(),
            bytes: 1 << 30,
            device: None,
            storage: StorageStack::default(),
            conditions: Conditions {
                date: "2026-11-27".to_owned(),
                kernel: "6.12.48".to_owned(),
                busy_percent: None,
                stolen_percent: None,
            },
            held_shallow,
            service: vec![ServiceTime {
                shape: LoadShape {
                    direction: AccessDirection::Read,
                    order: AddressOrder::Random,
                    kib: 4,
                    depth: 1,
                },
                iops: 1e4,
                mb_per_s: 40.0,
                latency: LatencySummary::new(&samples).unwrap(),
                block_layer: BlockLayerView {
                    mean: Some(Nanoseconds(80_000)),
                    foreign_requests: Some(0),
                },
                interrupt: None,
                busy_percent: None,
            }],
            flush: None,
            forced_write: None,
            short_pauses: None,
            sleep: DriveSleep::default(),
            sleep_entries: Vec::new(),
            sleep_without_apst: None,
            sleep_entries_without_apst: Vec::new(),
            declared_sleep: Vec::new(),
            parallel_units: None,
            complete: true,
            notes: Vec::new(),
        }
    }

    /// Wake-ups from C6 of a CPU that stands for others, with this exit in ns.
    fn wake_from_c6(cpu: usize, cpus_alike: Vec<usize>, exit_ns: f64) -> WakeLatency {
        WakeLatency {
            cpu,
            cpus_alike,
            state: Some("C6".to_owned()),
            declared_exit: None,
            source: WakeSource::Task,
            latency: LatencySummary::new(&[exit_ns as u64; 50]),
            by_gap: Vec::new(),
            exit: Some(Estimate {
                ns: exit_ns,
                low: exit_ns - 500.0,
                high: exit_ns + 500.0,
            }),
            deeper: None,
            relative_to: Some("POLL".to_owned()),
            reached: None,
            missed: 0,
            rejected: 0,
            disturbed_by_host: 0,
            ipis_per_wake_up: None,
            problem: None,
        }
    }

    /// Of 8 threads of performance cores and 8 efficiency cores, CPU 7 and CPU 15 were measured.
    #[test]
    fn exits_of_each_kind_of_core_are_put_into_its_cluster() {
        let mut machine = Machine::find("hybrid-i7-1260p").unwrap();
        let of_all = machine.idle_state.clone();
        let drive = measured(140, true);
        let wake = WakeMeasurement {
            conditions: drive.conditions.clone(),
            held_khz: Vec::new(),
            forced: true,
            wakes: vec![
                wake_from_c6(7, (0..8).collect(), 78_000.0),
                wake_from_c6(15, (8..16).collect(), 156_000.0),
            ],
            entries: Vec::new(),
            slower_reads: Vec::new(),
            packages: Vec::new(),
            at_other_clocks: Vec::new(),
            complete: true,
            notes: Vec::new(),
        };
        put_in_place(&mut machine, &drive, Some(&wake));
        machine.check().unwrap();
        let read = Machine::parse(&machine.to_toml().unwrap(), "again").unwrap();
        for (cluster, exit_us) in read.cluster.iter().zip([78.0, 156.0]) {
            let states = read.idle_states_on_cluster(cluster);
            let state = states.iter().find(|state| state.name == "C6").unwrap();
            assert!((state.true_exit_us.value - exit_us).abs() < 1e-9);
            let Origin::Measured(measurement) = &state.true_exit_us.origin else {
                panic!("{state:?}");
            };
            assert_eq!(measurement.n, 50);
            assert_eq!(measurement.interval(), Some((exit_us - 0.5, exit_us + 0.5)));
            assert_eq!(measurement.date, "2026-11-27");
            assert_eq!(measurement.kernel, "6.12.48");
        }
        for (state, before) in machine.idle_state.iter().zip(of_all) {
            assert_eq!(state.true_exit_us, before.true_exit_us);
        }
    }

    fn rest([after, exit]: [f64; 2]) -> DriveRest {
        DriveRest {
            after_ms: Figure::assumed(after, "test"),
            exit_us: Figure::assumed(exit, "test"),
        }
    }

    #[test]
    fn rests_are_joined_in_order() {
        for (seen, slept, expected) in [
            (vec![], vec![[3.0, 40.0]], vec![[3.0, 40.0]]),
            (vec![[2.0, 30.0]], vec![[3.0, 40.0]], vec![[2.0, 30.0]]),
            (
                vec![[2.0, 30.0]],
                vec![[30.0, 20.0], [300.0, 90.0]],
                vec![[2.0, 30.0], [300.0, 90.0]],
            ),
            // A long target residency asks for longer pauses before wake-ups.
            (vec![[15.0, 30.0]], vec![[12.0, 40.0]], vec![[15.0, 30.0]]),
        ] {
            let [seen, slept] =
                [seen, slept].map(|rests| rests.into_iter().map(rest).collect::<Vec<_>>());
            let joined = join_rests(seen, slept);
            let values = joined
                .iter()
                .map(|rest| [rest.after_ms.value, rest.exit_us.value]);
            assert_eq!(values.collect::<Vec<_>>(), expected);
        }
    }

    /// Delays in whole us.
    fn exits(rests: &[DriveRest]) -> Vec<f64> {
        let exits = rests.iter().map(|rest| rest.exit_us.value.round());
        exits.collect()
    }

    /// Reads after pauses of these lengths in us, each with this latency in us.
    fn short_pauses(latencies: &[(u64, u64)], rests: Vec<ShortRest>) -> ShortPauses {
        let rows = latencies.iter().map(|(gap_us, us)| GapLatency {
            gap: Nanoseconds::from_micros(*gap_us),
            latency: LatencySummary::new(&[us * 1_000; 50]).unwrap(),
        });
        ShortPauses {
            gaps: rows.collect(),
            disturbed: 0,
            rests,
        }
    }

    #[test]
    fn rests_after_short_pauses_stand_in_the_place_of_those_by_wake_ups() {
        let mut drive = measured(140, true);
        let mut wake = WakeMeasurement {
            conditions: drive.conditions.clone(),
            held_khz: Vec::new(),
            forced: true,
            wakes: vec![wake_from_c6(0, vec![0], 78_000.0)],
            entries: Vec::new(),
            slower_reads: Vec::new(),
            packages: Vec::new(),
            at_other_clocks: Vec::new(),
            complete: true,
            notes: Vec::new(),
        };
        let growth = Estimate {
            ns: 16_000.0,
            low: 15_000.0,
            high: 17_000.0,
        };
        let after = Estimate {
            ns: 440_000.0,
            low: 430_000.0,
            high: 440_000.0,
        };
        wake.slower_reads = vec![SlowerReads {
            cpu: 0,
            after,
            growth,
            n: 100,
        }];
        // Without reads after short pauses, or without growth in these.
        assert_eq!(exits(&find_short_rests(&drive, Some(&wake))), [16.0]);
        drive.short_pauses = Some(short_pauses(&[(0, 70), (80, 70)], Vec::new()));
        assert_eq!(exits(&find_short_rests(&drive, Some(&wake))), [16.0]);
        let rest = ShortRest {
            awake_after: Nanoseconds::from_micros(80),
            asleep_after: Nanoseconds::from_micros(160),
            delay: Estimate {
                ns: 9_000.0,
                low: 8_000.0,
                high: 10_000.0,
            },
            n: 50,
        };
        drive.short_pauses = Some(short_pauses(&[(0, 70), (80, 70), (160, 79)], vec![rest]));
        let found = find_short_rests(&drive, Some(&wake));
        assert_eq!(exits(&found), [9.0]);
        // Sleep between two pauses of 130 us tells the begin of the rest, and another of 5 ms tells nothing.
        let joined = join_rests(
            found,
            vec![self::rest([0.13, 40.0]), self::rest([5.0, 90.0])],
        );
        assert_eq!(exits(&joined), [9.0]);
        assert!((joined[0].after_ms.value - 0.13).abs() < 1e-9, "{joined:?}");
    }

    #[test]
    fn the_work_of_a_request_is_the_difference_of_means() {
        let machine = Machine::find("laptop").unwrap();
        let fitted = fit_request_work(&machine, &measured(140, true)).unwrap();
        let Origin::Fitted(why) = &fitted.origin else {
            panic!("{fitted:?}")
        };
        assert!(why.contains("30.00 us"), "{why}");
        let none = fit_request_work(&machine, &measured(10, true)).unwrap_err();
        assert!(none.contains("-2.50 us"), "{none}");
        // An interrupt that came later than the read ended tells nothing.
        let mut late = measured(140, true);
        late.service[0].block_layer.mean = None;
        late.service[0].interrupt = Some(InterruptView {
            n: 300,
            service: Estimate {
                ns: 700_000.0,
                low: 0.0,
                high: 1_500_000.0,
            },
            interruption: late.service[0].latency.median,
            submission: late.service[0].latency.median,
            cpus_watched: 1,
            cpus_interrupted: 1,
        });
        let unknown = fit_request_work(&machine, &late).unwrap_err();
        assert!(unknown.starts_with("neither interrupts"), "{unknown}");
        // A pause of the machine in every fourth read, beside 300 reads with an interrupt.
        let mut paused = measured(2000, true);
        paused.service[0].block_layer.mean = Some(Nanoseconds(555_000));
        paused.service[0].interrupt = late.service[0].interrupt.map(|view| InterruptView {
            service: Estimate {
                ns: 80_000.0,
                ..view.service
            },
            ..view
        });
        let fitted = fit_request_work(&machine, &paused).unwrap();
        assert!(format!("{fitted:?}").contains("20.00 us"), "{fitted:?}");
        let asleep = fit_request_work(&machine, &measured(140, false)).unwrap_err();
        assert!(asleep.contains("idle exits"), "{asleep}");
    }
}
