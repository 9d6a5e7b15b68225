//! Power of the whole machine at rest: at the wall, or from its battery. A figure beside the power of its packages, never part
//! of a simulated one.

use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::family_figures::{FamilyFigureKey, find_family_figure};
use super::figure::Figure;
use super::model_number::has_model_number_like_pattern;

/// Published power of servers at rest, by family and number of sockets.
const SERVERS: &str = include_str!("../../data/platform_power.csv");
/// What the power in published results of servers counts.
const AT_THE_WALL: &str =
    "AC of the whole system, with memory, fans and the losses of its power supply";
/// What the first core out of its deepest state adds at the wall, for each socket: the maker, W, and where it was measured.
const FIRST_CORE_W: [(&str, f64, &str); 2] = [
    (
        "AMD",
        40.6,
        "of each socket, 81.27 W of AC on 2 x EPYC 7502 (tud-zih-energy/2021-rome-ee), shared evenly",
    ),
    (
        "Intel",
        48.5,
        "of each socket, 97 W of AC on 2 x Xeon Gold 6154 (arXiv 2108.00808), shared evenly",
    ),
];
/// Families whose first core was measured by the counters of the package, which have it already.
const FIRST_CORE_BY_PACKAGE: [&str; 2] = ["Sapphire Rapids", "Emerald Rapids"];

/// Power of a whole machine at rest. It counts more than the packages do, so nobody adds it to theirs.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Platform {
    /// What the figures count, such as AC at the wall or battery discharge.
    pub counts: String,
    /// Power while every CPU is in its deepest state.
    #[schemars(extend("unit" = "mW"))]
    pub resting_mw: Figure,
    /// Least that machines of the kind draw at rest. Absent: not known.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub lowest_mw: Figure,
    /// Most that machines of the kind draw at rest. Absent: not known.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub highest_mw: Figure,
    /// Additional power of the first core that wakes up. Absent: not known.
    #[schemars(extend("unit" = "mW"))]
    #[serde(default)]
    pub first_core_mw: Figure,
    /// Source of the table's plain figures.
    pub source: String,
}

/// A row of the published servers. Powers are in W for each socket.
#[derive(Debug, Deserialize)]
struct PublishedServerPower {
    family: String,
    /// CPUID family and models of the servers, with `|` between several.
    family_model: String,
    /// Model numbers in the processor's name, with `?` for any digit: some families share CPUID models.
    number: String,
    sockets: usize,
    results: u32,
    median_w: f64,
    lowest_w: f64,
    highest_w: f64,
}

static PUBLISHED: LazyLock<Vec<PublishedServerPower>> = LazyLock::new(|| {
    csv::Reader::from_reader(SERVERS.as_bytes())
        .into_deserialize()
        .filter_map(Result::ok)
        .collect()
});

impl PublishedServerPower {
    fn assume_milliwatts_for_sockets(
        &self,
        statistic: &str,
        watts_per_socket: f64,
        sockets: usize,
    ) -> Figure {
        let why = format!(
            "{statistic} of {} published SPECpower_ssj2008 results of {} with {} socket(s), active idle, in proportion to the \
             sockets (afkirmohamed11/ProjetDataVizUCBL1@97da134)",
            self.results, self.family, self.sockets
        );
        Figure::assumed((watts_per_socket * sockets as f64 * 1e3).round(), why)
    }
}

impl Platform {
    /// What published servers of the processor's family draw at rest, in proportion to the sockets; `None` for an
    /// unknown family. `family_model`: CPUID family and model, such as `6/85`.
    pub fn for_server(family_model: &str, processor_name: &str, sockets: usize) -> Option<Self> {
        if !may_be_name_of_published_server(processor_name) {
            return None;
        }
        let same_family = PUBLISHED.iter().filter(|row| {
            let mut models = row.family_model.split('|');
            models.any(|model| model == family_model)
                && has_model_number_like_pattern(processor_name, &row.number)
        });
        let row = same_family.min_by_key(|row| row.sockets.abs_diff(sockets))?;
        Some(Self {
            counts: AT_THE_WALL.to_owned(),
            resting_mw: row.assume_milliwatts_for_sockets("median", row.median_w, sockets),
            lowest_mw: row.assume_milliwatts_for_sockets("lowest", row.lowest_w, sockets),
            highest_mw: row.assume_milliwatts_for_sockets("highest", row.highest_w, sockets),
            first_core_mw: first_core_power_at_wall(&row.family, family_model, sockets),
            source: "none".to_owned(),
        })
    }

    /// What laptops of the processor's family draw at rest; `None` for a family of which nothing is published.
    pub(super) fn for_laptop(family_model: &str, processor_name: &str) -> Option<Self> {
        let found = find_family_figure(
            family_model,
            processor_name,
            FamilyFigureKey::LaptopRestW,
            "",
        )?;
        let [lowest_mw, highest_mw] = match found.range {
            None => <[Figure; 2]>::default(),
            Some((low, high)) => [low, high]
                .map(|watts| Figure::assumed(watts * 1e3, found.figure.origin.describe_origin(""))),
        };
        Some(Self {
            counts: "battery discharge of the whole device, screen on".to_owned(),
            resting_mw: Figure {
                value: found.figure.value * 1e3,
                origin: found.figure.origin,
            },
            lowest_mw,
            highest_mw,
            first_core_mw: Figure::default(),
            source: "none".to_owned(),
        })
    }

    /// The first fault of the figures of power at rest: key and explanation.
    pub(super) fn first_invalid_key_and_reason(&self) -> Option<(&'static str, &'static str)> {
        let figures = [&self.lowest_mw, &self.resting_mw, &self.highest_mw];
        let given: Vec<f64> = figures
            .into_iter()
            .filter(|figure| figure.is_given())
            .map(|figure| figure.value)
            .collect();
        if !given.is_sorted() {
            return Some(("resting_mw", "outside of lowest_mw to highest_mw"));
        }
        None
    }
}

/// The first core's power at the wall; not given where the package's energy counters include it.
fn first_core_power_at_wall(family: &str, family_model: &str, sockets: usize) -> Figure {
    if FIRST_CORE_BY_PACKAGE.contains(&family) {
        return Figure::default();
    }
    // CPUID family 6 is Intel's, families from 23 on are AMD's.
    let maker = if family_model.starts_with("6/") {
        "Intel"
    } else {
        "AMD"
    };
    let measured = FIRST_CORE_W.iter().find(|(who, ..)| *who == maker);
    measured.map_or_else(Figure::default, |(_, each, why)| {
        Figure::assumed((each * sockets as f64 * 1e3).round(), *why)
    })
}

/// Whether a processor's name is of the kinds in published servers. Xeon D and W, Ryzen and Threadripper share CPUID
/// models with them.
fn may_be_name_of_published_server(processor_name: &str) -> bool {
    let is_other = processor_name.split_whitespace().any(|word| {
        let head = word.split_once('-').map_or("", |(head, _)| head);
        matches!(head.as_bytes(), [b'D' | b'W'] | [b'w', b'0'..=b'9'])
    });
    !is_other && !processor_name.contains("Ryzen") && !processor_name.contains("Threadripper")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lowest, resting and highest power in milliwatts.
    fn milliwatts(family_model: &str, name: &str, sockets: usize) -> Option<[i64; 3]> {
        let platform = Platform::for_server(family_model, name, sockets)?;
        let figures = [
            &platform.lowest_mw,
            &platform.resting_mw,
            &platform.highest_mw,
        ];
        Some(figures.map(|figure| figure.value as i64))
    }

    #[test]
    fn every_row_of_the_published_servers_is_read() {
        assert_eq!(PUBLISHED.len() + 1, SERVERS.lines().count());
        for row in PUBLISHED.iter() {
            assert!(row.lowest_w <= row.median_w && row.median_w <= row.highest_w);
        }
    }

    #[test]
    fn servers_rest_at_what_is_published_of_their_family_and_sockets() {
        fn known(model: &str, name: &str, sockets: usize) -> [i64; 3] {
            milliwatts(model, name, sockets).unwrap()
        }
        let skylake = known("6/85", "Intel(R) Xeon(R) Platinum 8170M CPU @ 2.10GHz", 2);
        assert_eq!(skylake, [38_400, 52_400, 131_000]);
        let cascade_lake = known("6/85", "Intel(R) Xeon(R) Platinum 8260L CPU @ 2.40GHz", 4);
        assert_eq!(cascade_lake, [90_000, 112_800, 123_200]);
        let ice_lake = known("6/106", "Intel(R) Xeon(R) Platinum 8360Y CPU @ 2.40GHz", 2);
        assert_eq!(ice_lake, [101_000, 131_000, 348_000]);
        let milan = known("25/1", "AMD EPYC 7543 32-Core Processor", 2);
        assert_eq!(milan, [75_600, 104_000, 191_000]);
        let genoa = known("25/17", "AMD EPYC 9354 32-Core Processor", 1);
        assert_eq!(genoa, [62_800, 72_100, 77_400]);
        // Eight sockets were not published: those with four, doubled.
        assert_eq!(known("6/143", "Xeon Platinum 8490H", 8)[1], 919_200);
    }

    #[test]
    fn families_that_share_a_model_are_told_apart_or_not_guessed() {
        fn family(name: &str) -> Option<i64> {
            milliwatts("25/160", name, 1).map(|[_, resting, _]| resting)
        }
        assert_eq!(family("AMD EPYC 9754 128-Core Processor"), Some(68_800));
        assert_eq!(family("AMD EPYC 8534P 64-Core Processor"), Some(68_200));
        assert_eq!(milliwatts("6/85", "Genuine Intel(R) CPU 0000%@", 2), None);
        assert_eq!(
            milliwatts("6/85", "Intel(R) Xeon(R) D-2146NT CPU @ 2.30GHz", 1),
            None
        );
        assert_eq!(milliwatts("6/143", "Intel(R) Xeon(R) w9-3595X", 1), None);
        assert_eq!(milliwatts("23/49", "AMD Ryzen Threadripper 3970X", 1), None);
        assert_eq!(
            milliwatts("6/142", "Intel(R) Core(TM) i7-7500U CPU", 1),
            None
        );
    }

    #[test]
    fn the_first_core_costs_what_its_maker_was_measured_at_or_what_its_package_says() {
        fn step(model: &str, name: &str) -> Figure {
            Platform::for_server(model, name, 2).unwrap().first_core_mw
        }
        assert_eq!(step("23/49", "AMD EPYC 7742").value as i64, 81_200);
        assert_eq!(step("6/106", "Xeon Platinum 8360Y").value as i64, 97_000);
        assert!(!step("6/143", "Xeon Platinum 8460H").is_given());
    }
}
