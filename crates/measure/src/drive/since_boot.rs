//! What a disk's counters since boot tell of its drive: coarse figures, without an experiment
//! (`Documentation/block/stat.rst`).
//!
//! A mean since boot has requests of all sizes, and their waits for each other. So it bounds the service time from above, and
//! is the service time only where requests were small and alone.

use wakepath_hardware::machine::{DriveModel, Figure};
use wakepath_system::Root;

use super::block_counters::read_block_stat;
use crate::Conditions;

/// Fewest requests for a figure: the kernel tells their time in whole milliseconds.
const FEWEST: u64 = 1000;
/// Up to this mean size in KiB, requests count as those of 4 KiB that machine files speak of.
const SMALL_KIB: f64 = 8.0;
/// Up to this mean number in flight, requests count as alone.
const ALONE: f64 = 1.1;

/// Finished requests of one kind since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct FinishedRequests {
    count: u64,
    /// Data in units of 512 bytes; 0 for flushes.
    sectors: u64,
    /// Time from start to completion of all requests together.
    ms: u64,
}

/// Counters of a disk since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CountersSinceBoot {
    reads: FinishedRequests,
    writes: FinishedRequests,
    /// None before Linux 5.5, which does not count flushes.
    flushes: FinishedRequests,
    /// Time with a request in flight.
    busy_ms: u64,
    /// Time in flight of all requests together.
    in_flight_ms: u64,
}

impl FinishedRequests {
    /// Mean time in us; `None` for too few requests.
    fn mean_us(self) -> Option<f64> {
        if self.count < FEWEST || self.ms == 0 {
            return None;
        }
        Some((self.ms as f64 * 1e6 / self.count as f64).round() / 1e3)
    }

    fn mean_kib(self) -> f64 {
        self.sectors as f64 / 2.0 / self.count.max(1) as f64
    }
}

impl CountersSinceBoot {
    fn read(root: &Root, disk: &str) -> Option<Self> {
        let fields = read_block_stat(root, disk)?;
        let [
            read_count,
            _,
            read_sectors,
            read_ms,
            write_count,
            _,
            write_sectors,
            write_ms,
            _,
            busy_ms,
            in_flight_ms,
            discards @ ..,
        ] = fields.as_slice()
        else {
            return None;
        };
        let (count, ms) = match discards {
            [_, _, _, _, flush_count, flush_ms, ..] => (*flush_count, *flush_ms),
            _ => (0, 0),
        };
        Some(Self {
            reads: FinishedRequests {
                count: *read_count,
                sectors: *read_sectors,
                ms: *read_ms,
            },
            writes: FinishedRequests {
                count: *write_count,
                sectors: *write_sectors,
                ms: *write_ms,
            },
            flushes: FinishedRequests {
                count,
                sectors: 0,
                ms,
            },
            busy_ms: *busy_ms,
            in_flight_ms: *in_flight_ms,
        })
    }

    /// Requests in flight in the mean, while any was.
    fn mean_in_flight(&self) -> f64 {
        self.in_flight_ms as f64 / self.busy_ms.max(1) as f64
    }
}

/// Takes coarse service times from a disk's counters since boot into the disk's drive. Returns notes.
///
/// A mean is taken where requests were small and alone, and where it is shorter than a time that was not measured, which it
/// disproves. Times that were measured otherwise stay.
pub fn take_figures_since_boot(
    root: &Root,
    disk: &str,
    conditions: &Conditions,
    drive: &mut DriveModel,
) -> Vec<String> {
    let Some(counters) = CountersSinceBoot::read(root, disk) else {
        return Vec::new();
    };
    let in_flight = counters.mean_in_flight();
    let kinds = [
        ("read", counters.reads, &mut drive.read_service_us),
        ("write", counters.writes, &mut drive.write_service_us),
    ];
    let mut notes = Vec::new();
    for (kind, requests, figure) in kinds {
        let Some(mean) = requests.mean_us() else {
            continue;
        };
        let kib = requests.mean_kib();
        let is_like_model = kib <= SMALL_KIB && in_flight <= ALONE;
        let shape = format!("{kib:.1} KiB and {in_flight:.1} in flight in the mean");
        if is_measured(figure) {
            continue;
        }
        if is_like_model || mean < figure.value {
            let what = format!(
                "mean of {kind}s of {disk} since boot (/sys/block/{disk}/stat), {shape}: coarse, with waits for other requests and \
                 idle exits of CPUs"
            );
            *figure = counted_figure(requests.count, mean, what, conditions);
            notes.push(format!(
                "{disk}: {kind}_service_us is {mean} us, the mean of {} requests since boot ({shape}): coarse; `wakepath measure \
                 drive` tells more",
                requests.count
            ));
        } else {
            notes.push(format!(
                "{disk}: a {kind} took {mean} us in the mean since boot ({shape}): too large or too many at a time for a service \
                 time, which stays {} us; `wakepath measure drive` measures it",
                figure.value
            ));
        }
    }
    if let Some(mean) = counters.flushes.mean_us()
        && !is_measured(&drive.flush_us)
    {
        let what = format!(
            "mean of flushes of {disk} since boot (/sys/block/{disk}/stat): coarse, with the emptying of the drive's buffer"
        );
        let count = counters.flushes.count;
        drive.flush_us = counted_figure(count, mean, what, conditions);
        notes.push(format!(
            "{disk}: flush_us is {mean} us, the mean of {count} flushes since boot: coarse, with the emptying of the drive's buffer"
        ));
    }
    drive.drop_tails_that_do_not_fit();
    notes
}

fn is_measured(figure: &Figure) -> bool {
    figure.origin.origin_kind_name() == "measured"
}

/// A figure from a sum and a count of the kernel, which tell nothing of the spread: its interval is not known.
fn counted_figure(n: u64, value: f64, what: String, conditions: &Conditions) -> Figure {
    Figure::measured_here(value, conditions.describe_measurement(n, None, what))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use wakepath_hardware::machine::Origin;

    /// A drive of 90 us for a read, 25 us for a write and 200 us for a flush, after the counters of a disk were taken.
    fn drive_after(stat: &str) -> (DriveModel, Vec<String>) {
        let folder = tempfile::tempdir().unwrap();
        let disk = folder.path().join("sys/block/vda");
        fs::create_dir_all(&disk).unwrap();
        fs::write(disk.join("stat"), stat).unwrap();
        let root = Root::at_directory(folder.path());
        let conditions = Conditions {
            date: "2026-11-28".to_owned(),
            kernel: "6.12".to_owned(),
            busy_percent: None,
            stolen_percent: None,
        };
        let mut drive = DriveModel::parse(
            "schema = 1\nname = \"d\"\nsource = \"test\"\nread_service_us = { value = 90, assumed = \"test\" }\n\
             write_service_us = 25\nflush_us = 200\n",
            "d.toml",
        )
        .unwrap();
        let notes = take_figures_since_boot(&root, "vda", &conditions, &mut drive);
        (drive, notes)
    }

    #[test]
    fn small_requests_that_were_alone_are_the_service_time() {
        let (drive, notes) =
            drive_after("2000 0 16000 250 1000 0 16000 30 0 280 280 0 0 0 0 1500 600");
        let Origin::Measured(about) = &drive.read_service_us.origin else {
            panic!("{:?}", drive.read_service_us);
        };
        assert_eq!(drive.read_service_us.value.to_string(), "125");
        assert_eq!((about.n, about.interval()), (2000, None));
        assert!(about.what.contains("4.0 KiB and 1.0 in flight") && about.what.contains("coarse"));
        for (figure, us) in [(&drive.write_service_us, 30.0), (&drive.flush_us, 400.0)] {
            assert!(
                is_measured(figure) && (figure.value - us).abs() < 1e-9,
                "{figure:?}"
            );
        }
        assert_eq!(notes.len(), 3, "{notes:?}");
    }

    /// A mean bounds the service time of one request from above, whatever was in flight.
    #[test]
    fn a_mean_below_an_assumed_time_disproves_it() {
        let (drive, notes) = drive_after("100000 0 4000000 3700 0 0 0 0 0 1000 9000 0 0 0 0");
        assert!((drive.read_service_us.value - 37.0).abs() < 1e-9);
        assert!(is_measured(&drive.read_service_us));
        assert_eq!(notes.len(), 1);
    }

    #[test]
    fn large_requests_or_many_at_a_time_are_said_and_not_taken() {
        for stat in [
            "2000 0 128000 250 0 0 0 0 0 250 250 0 0 0 0 0 0",
            "2000 0 16000 250 0 0 0 0 0 100 250 0 0 0 0 0 0",
        ] {
            let (drive, notes) = drive_after(stat);
            assert!((drive.read_service_us.value - 90.0).abs() < 1e-9, "{stat}");
            assert!(notes[0].contains("stays 90 us"), "{notes:?}");
        }
    }

    #[test]
    fn useless_counters_change_nothing() {
        for stat in [
            "",
            "nonsense",
            "999 0 7992 9 0 0 0 0 0 9 9 0 0 0 0 0 0",
            "2000 0 16000 0 0 0 0 0 0 0 0",
            "2000 0 16000 250",
            "-1 0 0 0 0 0 0 0 0 0 0",
            "99999999999999999999999 0 0 0 0 0 0 0 0 0 0",
        ] {
            let (drive, notes) = drive_after(stat);
            assert!(notes.is_empty(), "{stat}: {notes:?}");
            assert!((drive.read_service_us.value - 90.0).abs() < 1e-9, "{stat}");
        }
        // The largest numbers that a counter may have.
        let most = u64::MAX;
        drive_after(&vec![most.to_string(); 17].join(" "));
    }
}
