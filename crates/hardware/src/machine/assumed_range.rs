//! How far an assumed figure of a machine may be from what it says.
//!
//! A range belongs to a class of figures, by the last part of the key. Published ranges are ratios, so that they fit a small
//! machine as well as a large one.

use super::figures::MachineFigure;
use super::{Machine, Origin};

/// The values that an assumed figure may have, beside the one that it has.
#[derive(Clone, Debug, PartialEq)]
pub struct AssumedRange {
    /// The lowest value, in the figure's unit.
    pub low: f64,
    /// The highest value, in the figure's unit.
    pub high: f64,
    /// Where the range comes from.
    pub source: &'static str,
}

/// The range of a class of figures.
struct ClassRange {
    /// Last parts of the keys.
    keys: &'static [&'static str],
    ends: RangeEnds,
    source: &'static str,
}

/// The ends of a range.
#[derive(Clone, Copy)]
enum RangeEnds {
    /// Multiples of the figure's value.
    Factors(f64, f64),
    /// Values.
    Values(f64, f64),
}

/// Ranges by class, the figures with the largest effect on power and latency first.
const CLASSES: [ClassRange; 10] = [
    ClassRange {
        keys: &["true_exit_us"],
        ends: RangeEnds::Factors(0.25, 6.0),
        source: "measured exits took 0.1 (RK3399) to 3.1 times (Ice Lake-X) of what firmware declares; assumed is half",
    },
    ClassRange {
        keys: &[
            "idle_mw",
            "active_mw",
            "resting_mw",
            "first_core_mw",
            "lowest_mw",
        ],
        ends: RangeEnds::Factors(0.7, 2.2),
        source: "10th and 90th percentile of the results of a processor family over its median (platform_power.csv)",
    },
    ClassRange {
        keys: &["read_service_us", "write_service_us"],
        ends: RangeEnds::Factors(0.6, 1.4),
        source: "measured drives over the median of their class (drive_speeds.csv)",
    },
    ClassRange {
        keys: &["read_mb_per_s", "write_mb_per_s"],
        ends: RangeEnds::Factors(0.5, 1.4),
        source: "10th and 90th percentile of drives over the median of their class (drive_speeds.csv)",
    },
    ClassRange {
        keys: &["lowest_uv", "highest_uv"],
        ends: RangeEnds::Factors(0.9, 1.1),
        source: "no published range; a tenth of a voltage is a fifth of the power",
    },
    ClassRange {
        keys: &["hwp_full_at_percent", "full_at_percent"],
        ends: RangeEnds::Factors(0.5, 1.5),
        source: "no published range; from a quarter of the scale to three quarters",
    },
    ClassRange {
        keys: &["hwp_epp32_percent"],
        ends: RangeEnds::Values(16.0, 84.0),
        source: "idle laptops with EPP 32 ran at about 1000 and 3000 MHz, of some 400 to 3500 (erpalma/throttled issue 232)",
    },
    ClassRange {
        keys: &["exit_spread"],
        ends: RangeEnds::Values(0.04, 0.19),
        source: "C6 of Sapphire Rapids has 0.04; exits of 10 to 20 us, as declared for Apple's M1, would have 0.19",
    },
    ClassRange {
        keys: &["hz"],
        ends: RangeEnds::Values(100.0, 1000.0),
        source: "choices of CONFIG_HZ (kernel/Kconfig.hz)",
    },
    ClassRange {
        keys: &["irq_time_accounting"],
        ends: RangeEnds::Values(0.0, 1.0),
        source: "CONFIG_IRQ_TIME_ACCOUNTING, off and on",
    },
];

/// The range of figures that no class has.
const OTHERS: (RangeEnds, &str) = (
    RangeEnds::Factors(0.5, 2.0),
    "no published range; half and twice the value",
);

/// Last part of the key of a drive's size.
const DRIVE_SIZE: &str = "capacity_gb";

/// Figures whose value must be a whole number.
const WHOLE_NUMBERS: [&str; 3] = ["parallel_units", "chunk_kib", "wake_ups"];

impl MachineFigure {
    /// The range of an assumed figure. `None` for figures with other origins, for an assumed 0 (counted
    /// elsewhere), and for a drive's size, known by the name.
    pub fn range_if_assumed(&self) -> Option<AssumedRange> {
        let Origin::Assumed(_) = self.figure.origin else {
            return None;
        };
        let name = self.last_part_of_key();
        if name == DRIVE_SIZE {
            return None;
        }
        let class = CLASSES.iter().find(|class| class.keys.contains(&name));
        let (ends, source) = class.map_or(OTHERS, |class| (class.ends, class.source));
        let value = self.figure.value;
        let [low, high] = match ends {
            RangeEnds::Values(low, high) => [low, high],
            RangeEnds::Factors(..) if value <= 0.0 => return None,
            RangeEnds::Factors(low, high) => [low, high].map(|factor| value * factor),
        };
        let [low, high] = if WHOLE_NUMBERS.contains(&name) {
            [low.floor().max(1.0), high.ceil()]
        } else {
            [low, high]
        };
        Some(AssumedRange { low, high, source })
    }

    fn last_part_of_key(&self) -> &str {
        self.key.rsplit('.').next().unwrap_or(&self.key)
    }

    /// Place of the figure's class among all classes, by effect; figures without a class come last.
    fn place_of_class(&self) -> usize {
        let name = self.last_part_of_key();
        let class = CLASSES.iter().position(|class| class.keys.contains(&name));
        class.unwrap_or(CLASSES.len())
    }
}

impl Machine {
    /// The assumed figures that have a range, those of the classes with the largest effect first.
    pub fn assumed_figures_with_ranges(&self) -> Vec<(MachineFigure, AssumedRange)> {
        let figures = self.figures().into_iter();
        let mut assumed: Vec<(MachineFigure, AssumedRange)> = figures
            .filter_map(|figure| {
                let range = figure.range_if_assumed()?;
                Some((figure, range))
            })
            .collect();
        assumed.sort_by_key(|(figure, _)| figure.place_of_class());
        // A name that several tables share stands for all their figures.
        let mut known = std::collections::BTreeSet::new();
        assumed.retain(|(figure, _)| known.insert(figure.key.clone()));
        assumed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::builtin_machine_names;

    #[test]
    fn every_machine_can_have_the_ends_of_its_ranges() {
        for name in builtin_machine_names() {
            let machine = Machine::find(name).unwrap();
            let assumed = machine.assumed_figures_with_ranges();
            assert!(assumed.len() >= 10, "{name}: {}", assumed.len());
            for (figure, range) in assumed {
                assert!(range.low < range.high, "{name}: {figure:?} {range:?}");
                for value in [range.low, range.high] {
                    // Some ends are impossible beside other figures, such as a lowest voltage above the highest.
                    let Ok(varied) = machine.with_figure_value(&figure.key, value) else {
                        continue;
                    };
                    let found = varied.figures().into_iter().find(|f| f.key == figure.key);
                    let found = found.unwrap_or_else(|| panic!("{name}: {}", figure.key));
                    assert!(
                        (found.figure.value - value).abs() < 1e-9 * value.abs().max(1.0),
                        "{name}: {found:?}"
                    );
                    assert_eq!(found.figure.origin, figure.figure.origin, "{name}");
                }
            }
        }
    }

    #[test]
    fn a_figure_alone_is_changed() {
        let machine = Machine::find("rk3399").unwrap();
        let varied = machine
            .with_figure_value("idle_state.cpu-sleep.cold_start_kcycles", 26.0)
            .unwrap();
        let changed: Vec<(String, f64)> = machine
            .figures()
            .into_iter()
            .zip(varied.figures())
            .filter(|(before, after)| before != after)
            .map(|(_, after)| (after.key, after.figure.value))
            .collect();
        assert_eq!(
            changed,
            [("idle_state.cpu-sleep.cold_start_kcycles".to_owned(), 26.0)]
        );
        let back = varied
            .with_figure_value("idle_state.cpu-sleep.cold_start_kcycles", 13.0)
            .unwrap();
        assert_eq!(back.to_toml().unwrap(), machine.to_toml().unwrap());
    }

    #[test]
    fn only_assumed_figures_have_a_range() {
        let machine = Machine::find("rk3399").unwrap();
        let find = |key: &str| {
            let figures = machine.figures();
            let found = figures.into_iter().find(|figure| figure.key == key);
            found.unwrap().range_if_assumed()
        };
        assert_eq!(find("drive.read_service_us"), None);
        assert_eq!(find("idle_state.WFI.true_entry_us"), None);
        let power = find("idle_state.WFI.power_mw").unwrap();
        assert_eq!((power.low, power.high), (5.0, 20.0));
        let ticks = find("hz").unwrap();
        assert_eq!((ticks.low, ticks.high), (100.0, 1000.0));
    }

    #[test]
    fn the_range_of_a_low_preference_is_varied_where_it_is_in_force() {
        fn range_of_epp32(system: &str) -> Option<AssumedRange> {
            let machine = Machine::find(system).unwrap();
            let mut all = machine.assumed_figures_with_ranges().into_iter();
            let found = all.find(|(figure, _)| figure.key.ends_with("hwp_epp32_percent"))?;
            for value in [found.1.low, found.1.high] {
                machine.with_figure_value(&found.0.key, value).unwrap();
            }
            Some(found.1)
        }
        // EPP 32 and 102 by their registers.
        for system in ["spr1", "adl0"] {
            let range = range_of_epp32(system).unwrap();
            assert_eq!((range.low, range.high), (16.0, 84.0));
        }
        assert_eq!(range_of_epp32("laptop"), None);
        assert_eq!(range_of_epp32("rome0"), None);
    }

    #[test]
    fn an_unknown_figure_is_refused() {
        let machine = Machine::find("rk3399").unwrap();
        let refused = machine.with_figure_value("drive.weight", 1.0).unwrap_err();
        assert!(refused.to_string().contains("no such figure"), "{refused}");
    }
}
