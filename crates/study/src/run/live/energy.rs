//! Energy counters (RAPL) of processor packages and platform during a run.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use wakepath_results::RunRecord;
use wakepath_system::{Root, System};

const POWERCAP: &str = "sys/class/powercap";

/// Interval at which counters are read. At worst they wrap at 65 kJ, or two minutes at 500 W; reading more often would
/// disturb measurements.
const EVERY: Duration = Duration::from_secs(30);

/// A meter adds up the energy that RAPL counters have counted since the meter was made.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    system: &'a System,
    counted: Counted,
    every: Duration,
    read_at: Instant,
    /// Last count in uJ and the value at which the counter wraps, if known, by zone.
    last: BTreeMap<String, (u64, Option<u64>)>,
    /// Energy so far in uJ; `None` without counters, or after losing track.
    spent: Option<u64>,
}

impl<'a> Meter<'a> {
    /// A meter for the sum over all packages.
    pub(super) fn for_packages(system: &'a System) -> Self {
        Self::with_zones(system, Counted::Packages)
    }

    /// A meter for the whole platform, which is another figure than the sum over packages.
    pub(super) fn for_whole_platform(system: &'a System) -> Self {
        Self::with_zones(system, Counted::Platform)
    }

    fn with_zones(system: &'a System, counted: Counted) -> Self {
        let last = read_zone_energies_and_ranges_uj(system.root(), counted);
        Self {
            system,
            counted,
            every: EVERY,
            read_at: Instant::now(),
            spent: (!last.is_empty()).then_some(0),
            last,
        }
    }

    /// Whether the machine has such counters, and none was lost track of.
    pub(super) fn has_kept_counters(&self) -> bool {
        self.spent.is_some()
    }

    /// Reads the counters if the interval is over. To be called often during the run.
    pub(super) fn read_if_due(&mut self) {
        if self.has_kept_counters() && self.read_at.elapsed() >= self.every {
            self.read_counters();
        }
    }

    /// Adds the mean power since the meter's creation to the metrics of `run`.
    pub(super) fn add_mean_power(mut self, took: Duration, run: &mut RunRecord) {
        self.read_counters();
        if let Some(spent) = self.spent
            && !took.is_zero()
        {
            let milliwatts = spent as f64 / took.as_secs_f64() / 1e3;
            run.metrics
                .push((self.counted.metric_name().to_owned(), milliwatts));
        }
    }

    fn read_counters(&mut self) {
        let now = read_zone_energies_and_ranges_uj(self.system.root(), self.counted);
        let all_there = now.keys().eq(self.last.keys());
        let more: Option<u64> = now
            .iter()
            .map(|(name, (now, range))| {
                let (old, _) = self.last.get(name)?;
                match range {
                    _ if now >= old => Some(now - old),
                    // The counter has wrapped since the last reading.
                    Some(range) => Some(now + range.checked_sub(*old)?),
                    None => None,
                }
            })
            .sum();
        self.spent = self
            .spent
            .zip(more.filter(|_| all_there))
            .map(|(a, b)| a + b);
        self.last = now;
        self.read_at = Instant::now();
    }
}

/// What the counters cover. The platform contains the packages, so the two are never added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Counted {
    /// The processor packages.
    Packages,
    /// The whole platform (`psys`), where firmware measures it.
    Platform,
}

impl Counted {
    const fn metric_name(self) -> &'static str {
        match self {
            Self::Packages => "package_mw",
            Self::Platform => "platform_mw",
        }
    }

    const fn zone_name_prefix(self) -> &'static str {
        match self {
            Self::Packages => "package",
            Self::Platform => "psys",
        }
    }
}

/// The energy counters.
fn read_zone_energies_and_ranges_uj(
    root: &Root,
    counted: Counted,
) -> BTreeMap<String, (u64, Option<u64>)> {
    let zones = root.list_names(POWERCAP).into_iter();
    zones
        .filter_map(|name: String| {
            let folder = format!("{POWERCAP}/{name}");
            // The zone `psys` is the whole platform and includes the packages; a package includes its cores.
            let label = root.read_text_if_readable(&format!("{folder}/name"))?;
            if !label.starts_with(counted.zone_name_prefix()) {
                return None;
            }
            let energy = root.read_number_if_readable(&format!("{folder}/energy_uj"))?;
            // Some packages are counted by two zones, so the name counts once.
            let wrap = root.read_number_if_readable(&format!("{folder}/max_energy_range_uj"));
            Some((label, (energy, wrap)))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use wakepath_results::RunKey;

    use super::*;

    const RANGE: u64 = 1_000_000;

    fn zone(root: &Path, index: usize, energy: u64, range: Option<u64>) {
        let folder = root.join(POWERCAP).join(format!("intel-rapl:{index}"));
        fs::create_dir_all(&folder).unwrap();
        let mut files = vec![
            ("name", format!("package-{index}\n")),
            ("energy_uj", format!("{energy}\n")),
        ];
        files.extend(range.map(|r| ("max_energy_range_uj", format!("{r}\n"))));
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
    }

    /// Mean power in mW over a second with these values in the first package's counter.
    fn power(root: &Path, range: Option<u64>, values: &[u64]) -> Option<f64> {
        let system = System::new(Root::at_directory(root));
        zone(root, 0, values[0], range);
        let mut meter = Meter::for_packages(&system);
        meter.every = Duration::ZERO;
        for value in &values[1..] {
            zone(root, 0, *value, range);
            meter.read_if_due();
        }
        let key = RunKey {
            machine: String::new(),
            workload: String::new(),
            policy: String::new(),
            repeat: 0,
        };
        let mut run = RunRecord::new(key, None, 0, 0);
        meter.add_mean_power(Duration::from_secs(1), &mut run);
        run.metrics.pop().map(|(_, value)| value)
    }

    #[test]
    fn every_new_start_of_the_counter_is_counted() {
        let temp = tempfile::tempdir().unwrap();
        zone(temp.path(), 1, 7, Some(RANGE));
        for (values, spent) in [
            (&[900_000, 950_000][..], 50_000.0),
            (&[900_000, 100_000], 200_000.0),
            // Round twice: the first and the last value alone would give 50,000 uJ.
            (&[900_000, 500_000, 200_000, 950_000], 2_050_000.0),
        ] {
            assert_eq!(power(temp.path(), Some(RANGE), values), Some(spent / 1e3));
        }
        // Whoever does not know where it starts again cannot tell.
        let temp = tempfile::tempdir().unwrap();
        assert_eq!(power(temp.path(), None, &[900_000, 950_000]), Some(50.0));
        assert_eq!(power(temp.path(), None, &[900_000, 100_000]), None);
    }

    #[test]
    fn a_package_that_goes_away_leaves_no_power() {
        let temp = tempfile::tempdir().unwrap();
        let system = System::new(Root::at_directory(temp.path()));
        assert!(!Meter::for_packages(&system).has_kept_counters());
        zone(temp.path(), 0, 1, Some(RANGE));
        zone(temp.path(), 1, 1, Some(RANGE));
        let mut meter = Meter::for_packages(&system);
        fs::remove_dir_all(temp.path().join(POWERCAP).join("intel-rapl:1")).unwrap();
        assert!(meter.has_kept_counters());
        meter.read_counters();
        assert!(!meter.has_kept_counters());
    }
}
