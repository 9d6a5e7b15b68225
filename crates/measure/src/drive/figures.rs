//! Figures of a machine file from a measured drive.

use std::fmt::Write as _;

use wakepath_hardware::machine::{DriveModel, DriveRest, Figure, Origin, SLOW_REQUEST_IN};

use super::measurement::DriveMeasurement;
use super::plan::{AccessDirection, AddressOrder};
use super::service::ServiceTime;
use super::short_pauses::ShortRest;
use super::sleep::SleepEntry;
use crate::summary::Estimate;

/// A sleep that begins within this factor of a declared time is the declared one.
const NEAR: f64 = 1.1;
/// Fewest requests for a 99.9th percentile: ten are slower.
const FEWEST_FOR_P999: u64 = 10_000;
/// From this ratio to the mean on a 99.9th percentile is more than the spread of service times.
const SLOW_FROM: f64 = 1.5;

impl DriveMeasurement {
    /// The requests of a kind.
    fn find_service(
        &self,
        direction: AccessDirection,
        order: AddressOrder,
        kib: u64,
        depth: usize,
    ) -> Option<&ServiceTime> {
        self.service.iter().find(|s| {
            s.shape.direction == direction
                && s.shape.order == order
                && s.shape.kib == kib
                && s.shape.depth == depth
        })
    }

    /// Service time of 4 KiB random requests at depth 1.
    pub fn service_figure(&self, direction: AccessDirection) -> Option<Figure> {
        let service = self.find_service(direction, AddressOrder::Random, 4, 1)?;
        let what = format!(
            "{} of 4 KiB random {}s at depth 1{}",
            service.service_name(),
            direction.name(),
            self.sleep_condition()
        );
        Some(
            service
                .service()
                .figure_us(service.latency.n, &what, &self.conditions),
        )
    }

    /// The highest data rate of a direction in 10^6 bytes per second.
    pub fn link_figure(&self, direction: AccessDirection) -> Option<Figure> {
        let all = self.service.iter();
        let best = all
            .filter(|s| s.shape.direction == direction)
            .max_by(|a, b| a.mb_per_s.total_cmp(&b.mb_per_s))?;
        let what = format!(
            "highest data rate: {} {} KiB {}s at depth {}",
            best.shape.order.name(),
            best.shape.kib,
            direction.name(),
            best.shape.depth
        );
        let (mean, n) = (best.latency.mean, best.latency.n);
        Some(self.rate_figure(best.mb_per_s, mean, n, &what))
    }

    /// The rate of what a single large request has beyond 4 KiB, in 10^6 bytes per second.
    pub fn stream_figure(&self, direction: AccessDirection) -> Option<Figure> {
        let [small, large] =
            [4, 1024].map(|kib| self.find_service(direction, AddressOrder::Random, kib, 1));
        let (small, large) = (small?, large?);
        let longer = large.latency.mean.minus(small.latency.mean);
        let bytes = (large.shape.kib - small.shape.kib) as f64 * 1024.0;
        let rate = bytes * 1e3 / longer.ns;
        let what = format!(
            "what 1 MiB {}s take longer than 4 KiB ones",
            direction.name()
        );
        (longer.ns > 0.0).then(|| self.rate_figure(rate, longer, large.latency.n, &what))
    }

    /// A rate with the relative interval of the time that it is from. Where that time may be 0, the upper end is not known and the
    /// value stands there.
    fn rate_figure(&self, rate: f64, time: Estimate, n: u64, what: &str) -> Figure {
        let highest = if time.low > 0.0 {
            time.ns / time.low
        } else {
            f64::INFINITY
        };
        let [value, low, high] =
            [1.0, time.ns / time.high, highest].map(|factor| (rate * factor * 10.0).round() / 10.0);
        let high = if high.is_finite() {
            high.max(value)
        } else {
            value
        };
        let interval = Some([low, high]);
        Figure::measured_here(
            value,
            self.conditions.describe_measurement(n, interval, what),
        )
    }

    /// Median time of a flush.
    pub fn flush_figure(&self) -> Option<Figure> {
        let flush = self.flush.as_ref()?;
        let what = format!(
            "median of a flush after a 4 KiB write{}",
            self.sleep_condition()
        );
        Some(flush.median.figure_us(flush.n, &what, &self.conditions))
    }

    /// A condition to name with times that may include idle exits.
    const fn sleep_condition(&self) -> &'static str {
        if self.held_shallow {
            ""
        } else {
            ", idle exits of the CPUs included"
        }
    }

    /// Spread of 4 KiB random reads at depth 1.
    fn spread_figure(&self) -> Option<Figure> {
        let read = self.find_service(AccessDirection::Read, AddressOrder::Random, 4, 1)?;
        let spread = (read.latency.spread * 100.0).round() / 100.0;
        Some(self.figure_without_interval(
            spread,
            read,
            "standard deviation over median, from quartiles, of 4 KiB random reads at depth 1",
        ))
    }

    /// 99.9th percentile of 4 KiB random requests at depth 1; `None` below [`FEWEST_FOR_P999`] of them.
    ///
    /// The program's part is taken out as in the mean, where the block layer tells it.
    fn p999_figure(&self, direction: AccessDirection) -> Option<Figure> {
        let service = self.find_service(direction, AddressOrder::Random, 4, 1)?;
        let latency = &service.latency;
        let p999 = latency.p999.filter(|_| latency.n >= FEWEST_FOR_P999)?;
        let mean = service.service().ns;
        let outside = (latency.mean.ns - mean).max(0.0);
        let ns = p999.0 as f64 - outside;
        let slowest = mean * f64::from(SLOW_REQUEST_IN);
        let is_slow = ns > SLOW_FROM * mean && ns < slowest;
        is_slow.then(|| {
            self.figure_without_interval(
                (ns / 10.0).round() / 100.0,
                service,
                &format!(
                    "99.9th percentile of 4 KiB random {}s at depth 1, pauses of the program included",
                    direction.name()
                ),
            )
        })
    }

    /// Requests served side by side.
    fn parallel_units_figure(&self) -> Option<Figure> {
        let units = self.parallel_units?;
        let reads =
            self.find_service(AccessDirection::Read, AddressOrder::Random, 4, units.depth)?;
        let more = if units.at_least { ", at least" } else { "" };
        let what = format!(
            "throughput at depth {} times service time at depth 1{more}",
            units.depth
        );
        Some(self.figure_without_interval(units.units.round().max(1.0), reads, &what))
    }

    /// A figure whose interval is not known.
    fn figure_without_interval(&self, value: f64, service: &ServiceTime, what: &str) -> Figure {
        let n = service.latency.n;
        Figure::measured_here(value, self.conditions.describe_measurement(n, None, what))
    }

    /// The figures of a machine file's drive, by key. A direction that was not measured is left out.
    pub fn figures(&self) -> Vec<(&'static str, Figure)> {
        use AccessDirection::{Read, Write};
        let all = [
            ("read_service_us", self.service_figure(Read)),
            ("write_service_us", self.service_figure(Write)),
            ("read_p999_us", self.p999_figure(Read)),
            ("write_p999_us", self.p999_figure(Write)),
            ("flush_us", self.flush_figure()),
            ("read_mb_per_s", self.link_figure(Read)),
            ("write_mb_per_s", self.link_figure(Write)),
            ("read_stream_mb_per_s", self.stream_figure(Read)),
            ("write_stream_mb_per_s", self.stream_figure(Write)),
            ("spread", self.spread_figure()),
            ("parallel_units", self.parallel_units_figure()),
        ];
        let measured = all.into_iter();
        measured
            .filter_map(|(key, figure)| Some((key, self.with_storage_named(figure?))))
            .collect()
    }

    /// A figure with file system, encryption and temperature in the origin, where known.
    fn with_storage_named(&self, mut figure: Figure) -> Figure {
        if let (Origin::Measured(measurement), Some(storage)) =
            (&mut figure.origin, self.storage.describe())
        {
            let _ = write!(measurement.what, "; {storage}");
        }
        figure
    }

    /// Exit times of sleep states from pauses, with the power state that the drive declares to be in after such a pause; no
    /// state: none is declared. A drive's exit from a deeper state includes that from shallower ones, and the delay after the
    /// shortest of these pauses.
    fn sleep_exits(&self) -> Vec<(&SleepEntry, Option<u8>, Figure)> {
        let exits = self.sleep_entries.iter().filter_map(|entry| {
            let (exit, n) = self.sleep.beyond_awake(entry)?;
            let what = format!(
                "median read after a pause of more than {} less one after a short pause{}",
                entry.asleep_after,
                self.sleep_condition()
            );
            let whole = exit.plus(self.delay_after_shortest_gap());
            let figure = whole.at_least_zero().figure_us(n, &what, &self.conditions);
            Some((entry, self.declared_state(entry), figure))
        });
        exits.collect()
    }

    /// Delay of a read after the shortest pause of the search for sleep, beyond reads without a pause.
    fn delay_after_shortest_gap(&self) -> Estimate {
        let rested = self.short_pauses.as_ref().zip(self.sleep.gaps.first());
        rested.map_or(Estimate::ZERO, |(short, row)| short.delay_after(row.gap))
    }

    /// Rests that begin within milliseconds, of the drive or of a host before it, the shallowest first; empty if reads after short
    /// pauses tell none.
    pub fn short_rests(&self) -> Vec<DriveRest> {
        let rests = self.short_pauses.iter().flat_map(|short| &short.rests);
        rests.map(|rest| self.short_rest(rest)).collect()
    }

    /// A rest as a drive's figures. A drive's idle time is the pause and the CPU's work before and after it.
    fn short_rest(&self, rest: &ShortRest) -> DriveRest {
        let service = self.find_service(AccessDirection::Read, AddressOrder::Random, 4, 1);
        let apart = service.filter(|service| service.tells_drive_apart());
        let work = apart.map_or(0.0, |alone| alone.latency.mean.ns - alone.service().ns);
        let [low, high] =
            [rest.awake_after, rest.asleep_after].map(|gap| gap.0 as f64 + work.max(0.0));
        let begin = Estimate {
            ns: (low * high).sqrt(),
            low,
            high,
        };
        let after = "between the longest idle time that left reads as fast and the shortest that made them slower";
        let exit = format!(
            "median read after pauses from {} on less one without a pause, CPUs awake",
            rest.asleep_after
        );
        DriveRest {
            after_ms: begin.figure_ms(rest.n, after, &self.conditions),
            exit_us: rest.delay.figure_us(rest.n, &exit, &self.conditions),
        }
    }

    /// The power state that a drive declares to enter where this sleep was seen to begin, give or take a tenth.
    fn declared_state(&self, entry: &SleepEntry) -> Option<u8> {
        let (earliest, latest) = (entry.awake_after.0 as f64, entry.asleep_after.0 as f64);
        let mut declared = self.declared_sleep.iter();
        let found = declared.find(|sleep| {
            let after = sleep.after.0 as f64;
            (earliest / NEAR..=latest * NEAR).contains(&after)
        });
        found.map(|sleep| sleep.state)
    }

    /// Puts measured exit times into a drive's power states. Returns sleep that the drive does not declare as rests, the
    /// shallowest first.
    pub fn put_sleep_times_into(&self, drive: &mut DriveModel) -> Vec<DriveRest> {
        let mut rests = Vec::new();
        for (entry, state, exit) in self.sleep_exits() {
            let states = drive.power.as_mut().map(|power| &mut power.states);
            let own_state = states
                .zip(state)
                .and_then(|(states, number)| states.get_mut(usize::from(number)));
            if let Some(own_state) = own_state {
                own_state.exit_us = exit;
                continue;
            }
            rests.push(DriveRest {
                after_ms: self.rest_figure(entry),
                exit_us: exit,
            });
        }
        rests
    }

    /// When a rest begins, in ms: the middle between a pause without and one with it.
    fn rest_figure(&self, entry: &SleepEntry) -> Figure {
        let [low, high] = [entry.awake_after, entry.asleep_after].map(|gap| gap.0 as f64 / 1e6);
        let what =
            "between the longest pause that left reads fast and the shortest that made them slow";
        let measurement = self
            .conditions
            .describe_measurement(1, Some([low, high]), what);
        Figure::measured_here(((low * high).sqrt() * 1e3).round() / 1e3, measurement)
    }

    /// Replaces a drive model's figures by measured figures. Where CPUs or the depth limited the throughput, the model keeps
    /// a higher number of parallel units.
    pub fn apply_to(&self, drive: &mut DriveModel) {
        let mut measured = self.figures();
        let at_least = self.parallel_units.is_some_and(|units| units.at_least);
        for (key, place) in drive.speed_figures_mut() {
            let Some(found) = measured.iter().position(|(name, _)| *name == key) else {
                continue;
            };
            let figure = measured.swap_remove(found).1;
            if key != "parallel_units" || !at_least || figure.value > place.value {
                *place = figure;
            }
        }
        drive.drop_tails_that_do_not_fit();
    }

    /// On how many CPUs requests were watched, if each CPU got the interrupts of its own requests.
    pub fn cpus_that_complete_their_own(&self) -> Option<usize> {
        let watched = self.find_service(AccessDirection::Read, AddressOrder::Random, 4, 1)?;
        let view = watched.interrupt?;
        (view.cpus_interrupted == view.cpus_watched).then_some(view.cpus_watched)
    }

    /// A `[drive]` table for a machine file, with a comment for each sleep state found.
    pub fn to_toml(&self) -> String {
        let mut text = String::from("[drive]\n");
        for (key, figure) in self.figures() {
            if let Some(value) = figure.to_toml_text() {
                let _ = writeln!(text, "{key} = {value}");
            }
        }
        for entry in &self.sleep_entries {
            let _ = writeln!(
                text,
                "# sleeps after {} to {} without requests; waking takes {:.0} us ({:.0} to {:.0})",
                entry.awake_after,
                entry.asleep_after,
                entry.exit.ns / 1e3,
                entry.exit.low / 1e3,
                entry.exit.high / 1e3
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use wakepath_units::Nanoseconds;

    use super::*;
    use crate::drive::plan::GAPS;
    use crate::drive::short_pauses::tests::{latency_with_step_and_sleep, measured};
    use crate::drive::{BlockLayerView, DriveSleep, LoadShape};
    use crate::summary::LatencySummary;
    use crate::{Conditions, StorageStack};

    /// A drive with measured sleep and flush alone.
    fn measurement(sleep: DriveSleep) -> DriveMeasurement {
        DriveMeasurement {
            file: "test".to_owned(),
            bytes: 1 << 30,
            device: None,
            storage: StorageStack::default(),
            conditions: Conditions {
                date: "2026-11-29".to_owned(),
                kernel: "6.12.48".to_owned(),
                busy_percent: None,
                stolen_percent: None,
            },
            held_shallow: true,
            service: Vec::new(),
            flush: LatencySummary::new(&[400_000; 30]),
            forced_write: None,
            short_pauses: None,
            sleep_entries: sleep.entries(),
            sleep,
            sleep_without_apst: None,
            sleep_entries_without_apst: Vec::new(),
            declared_sleep: Vec::new(),
            parallel_units: None,
            complete: true,
            notes: Vec::new(),
        }
    }

    /// Random reads of a size and depth at a data rate.
    fn service(kib: u64, depth: usize, mb_per_s: f64) -> ServiceTime {
        ServiceTime {
            shape: LoadShape {
                direction: AccessDirection::Read,
                order: AddressOrder::Random,
                kib,
                depth,
            },
            iops: mb_per_s * 1e6 / (kib as f64 * 1024.0),
            mb_per_s,
            latency: LatencySummary::new(&[90_000, 100_000, 110_000]).unwrap(),
            block_layer: BlockLayerView {
                mean: None,
                foreign_requests: None,
            },
            interrupt: None,
            busy_percent: None,
        }
    }

    #[test]
    fn large_requests_side_by_side_tell_the_link() {
        let mut found = measurement(DriveSleep::default());
        found.service = vec![service(4, 1, 40.0), service(1024, 1, 1_900.0)];
        let alone = found.link_figure(AccessDirection::Read).unwrap();
        assert!((alone.value - 1_900.0).abs() < 1e-6);
        found.service.push(service(256, 4, 3_100.0));
        let figure = found.link_figure(AccessDirection::Read).unwrap();
        assert!((figure.value - 3_100.0).abs() < 1e-6);
        assert!(
            format!("{figure:?}").contains("random 256 KiB reads at depth 4"),
            "{figure:?}"
        );
    }

    #[test]
    fn figures_name_what_lies_between_file_and_drive() {
        let mut found = measurement(DriveSleep::default());
        assert!(!found.to_toml().contains("ext4"), "{}", found.to_toml());
        found.storage.file_system = Some("ext4".to_owned());
        found.storage.encrypted_by = vec!["dm-0".to_owned()];
        let text = found.to_toml();
        assert!(text.contains("write; ext4, encrypted (dm-0)\""), "{text}");
        let mut drive = DriveModel::find("sn530").unwrap();
        found.apply_to(&mut drive);
        let origin = format!("{:?}", drive.flush_us.origin);
        assert!(origin.contains("encrypted (dm-0)"), "{origin}");
    }

    #[test]
    fn a_rest_of_microseconds_stands_beside_a_sleep_of_milliseconds() {
        let mut sleep = DriveSleep::default();
        for (us, _) in GAPS {
            let gap = Nanoseconds::from_micros(us);
            sleep.add(gap, &[latency_with_step_and_sleep(gap.0); 8]);
        }
        let mut found = measurement(sleep);
        let mut drive = DriveModel::find("sn530").unwrap();
        drive.power = None;
        let slept = found.put_sleep_times_into(&mut drive.clone());
        // After 100 us the step is in the read that others are compared with.
        assert!((slept[0].exit_us.value - 400.0).abs() < 1.0, "{slept:?}");
        found.short_pauses = Some(measured(&[latency_with_step_and_sleep]));
        let mut alone = service(4, 1, 40.0);
        alone.block_layer.mean = Some(Nanoseconds(80_000));
        found.service = vec![alone];
        let slept = found.put_sleep_times_into(&mut drive);
        assert!((slept[0].exit_us.value - 412.0).abs() < 1.0, "{slept:?}");
        let [rest] = &found.short_rests()[..] else {
            panic!("{:?}", found.short_rests());
        };
        assert!((rest.exit_us.value - 12.0).abs() < 0.5, "{rest:?}");
        // Pauses of 40 and 80 us, and 20 us of work of the CPU between two requests.
        assert!((0.06..0.1).contains(&rest.after_ms.value), "{rest:?}");
    }

    #[test]
    fn a_drive_without_power_states_rests_as_measured() {
        let mut sleep = DriveSleep::default();
        for (gap_ms, us) in [
            (1, 100),
            (10, 100),
            (100, 500),
            (1_000, 500),
            (3_000, 9_000),
        ] {
            sleep.add(Nanoseconds::from_millis(gap_ms), &[us * 1000; 8]);
        }
        let measurement = measurement(sleep);
        let mut drive = DriveModel::find("sn530").unwrap();
        drive.power = None;
        let rests = measurement.put_sleep_times_into(&mut drive);
        drive.set_rests(rests);
        assert!((10.0..100.0).contains(&drive.rest_after_ms.value));
        assert!((drive.rest_exit_us.value - 400.0).abs() < 1e-6);
        let deeper = &drive.deeper_rests[0];
        assert!((1_000.0..3_000.0).contains(&deeper.after_ms.value));
        assert!((deeper.exit_us.value - 8_900.0).abs() < 1e-6);
    }
}
