//! Mean power of every source between readings, for somebody who asks again and again.

use std::time::{Duration, Instant};

use wakepath_system::Root;

use super::source::{PowerReading, PowerSource};

/// Shortest time between two readings: counters of energy move about once in a millisecond, and a mean over less than a second
/// says little.
const SHORTEST: Duration = Duration::from_secs(1);

/// Reads every source of a machine when asked.
#[derive(Debug)]
pub struct PowerMeter {
    root: Root,
    sources: Vec<MeteredSource>,
    read_at: Instant,
}

/// A source with its last reading.
#[derive(Debug)]
struct MeteredSource {
    source: PowerSource,
    last: Option<PowerReading>,
    milliwatts: Option<f64>,
}

impl PowerMeter {
    /// A meter for all sources of a machine, read for the first time.
    pub fn start(root: &Root) -> Self {
        let sources = PowerSource::find_all(root).into_iter();
        let metered = sources.map(|source| MeteredSource {
            last: source.read(root),
            milliwatts: None,
            source,
        });
        Self {
            sources: metered.collect(),
            root: root.clone(),
            read_at: Instant::now(),
        }
    }

    /// Each source with its mean power in mW since the reading before; of sensors the mean of both readings. Who asks again within
    /// a second gets the same figures. A source that cannot be read is left out.
    pub fn mean_power_since_last_reading(&mut self) -> Vec<(&PowerSource, f64)> {
        let elapsed = self.read_at.elapsed();
        if elapsed >= SHORTEST {
            self.read_at += elapsed;
            for metered in &mut self.sources {
                let now = metered.source.read(&self.root);
                let readings = metered.last.zip(now);
                metered.milliwatts = readings.and_then(|(then, now)| {
                    metered.source.milliwatts(then, now, elapsed.as_secs_f64())
                });
                metered.last = now;
            }
        }
        let known = self.sources.iter();
        known
            .filter_map(|metered| Some((&metered.source, metered.milliwatts?)))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn power_is_the_energy_between_two_readings() {
        let folder = tempfile::tempdir().unwrap();
        let zone = folder.path().join("sys/class/powercap/intel-rapl:0");
        std::fs::create_dir_all(&zone).unwrap();
        let energy = zone.join("energy_uj");
        std::fs::write(zone.join("name"), "package-0\n").unwrap();
        std::fs::write(zone.join("max_energy_range_uj"), "10000000\n").unwrap();
        std::fs::write(&energy, "9000000\n").unwrap();
        let mut meter = PowerMeter::start(&Root::at_directory(folder.path()));
        assert_eq!(meter.mean_power_since_last_reading().len(), 0);
        // The counter wraps: 1 J before, 2 J after.
        std::fs::write(&energy, "2000000\n").unwrap();
        std::thread::sleep(Duration::from_secs(1));
        let power = meter.mean_power_since_last_reading();
        let [(source, milliwatts)] = power[..] else {
            unreachable!("{power:?}");
        };
        assert_eq!(source.name, "package-0");
        assert!((1_500.0..=3_000.0).contains(&milliwatts), "{milliwatts}");
    }
}
