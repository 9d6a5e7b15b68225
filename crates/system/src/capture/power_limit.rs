//! The power limits that the kernel's powercap tells (`intel_rapl`).

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, PowerLimit};

use crate::{Root, SystemFolder};

const POWERCAP: &str = "sys/class/powercap";

/// Reads the processor's power limits; `None` where unknown, switched off, or where clusters are not processors.
pub(super) fn read_power_limit(root: &Root, machine: &Machine) -> Option<PowerLimit> {
    let zones = root.list_names(POWERCAP);
    let packages: Vec<&String> = zones
        .iter()
        .filter(|zone| {
            let name = root.read_text_if_readable(&format!("{POWERCAP}/{zone}/name"));
            zone.starts_with("intel-rapl:") && name.is_some_and(|name| name.starts_with("package"))
        })
        .collect();
    let [first, ..] = packages[..] else {
        return None;
    };
    let slots = machine.cluster.iter().all(|c| c.clock_slot_us.is_given());
    if packages.len() != machine.cluster.len() || !slots {
        return None;
    }
    let zone = root.folder(format!("{POWERCAP}/{first}"));
    if zone.read_number_if_readable("enabled") == Some(0) {
        return None;
    }
    let long = Constraint::read_if_named(&zone, 0, "long_term")?;
    // A short-term limit below the long-term limit is left out: it would replace the latter.
    let short = Constraint::read_if_named(&zone, 1, "short_term")
        .filter(|short| short.mw >= long.mw && short.window_ms <= long.window_ms);
    Some(PowerLimit {
        pl1_mw: Figure::covered_by_table_source(long.mw),
        pl1_window_ms: Figure::covered_by_table_source(long.window_ms),
        pl2_mw: short
            .as_ref()
            .map_or_else(Figure::default, |s| Figure::covered_by_table_source(s.mw)),
        pl2_window_ms: short.as_ref().map_or_else(Figure::default, |s| {
            Figure::covered_by_table_source(s.window_ms)
        }),
        clusters: 1,
        source: format!("/sys/class/powercap/{first}"),
    })
}

/// A power limit of a powercap zone, over a window of time.
struct Constraint {
    mw: f64,
    window_ms: f64,
}

impl Constraint {
    /// Reads a constraint of a powercap zone; `None` if it has another name, or impossible values.
    fn read_if_named(zone: &SystemFolder<'_>, index: u8, expected_name: &str) -> Option<Self> {
        let told = zone.read_text_if_readable(&format!("constraint_{index}_name"));
        let mw = zone.read_number_if_readable(&format!("constraint_{index}_power_limit_uw"))?
            as f64
            / 1e3;
        let window_ms =
            zone.read_number_if_readable(&format!("constraint_{index}_time_window_us"))? as f64
                / 1e3;
        let holds =
            told.as_deref() == Some(expected_name) && mw >= 1.0 && (1.0..=1e6).contains(&window_ms);
        holds.then_some(Self { mw, window_ms })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Limits of a machine with one processor, from files in its powercap zone.
    fn limits(files: &[(&str, &str)]) -> Option<Vec<(u64, u64)>> {
        let temp = tempfile::tempdir().unwrap();
        let zone = temp.path().join(POWERCAP).join("intel-rapl:0");
        fs::create_dir_all(&zone).unwrap();
        for (file, content) in files {
            fs::write(zone.join(file), content).unwrap();
        }
        let machine = Machine::find("xeon-e3-1240v5").unwrap();
        let limit = read_power_limit(&Root::at_directory(temp.path()), &machine)?;
        Some(
            limit
                .limits_with_windows()
                .map(|(p, w)| (p.0, w.0))
                .collect(),
        )
    }

    /// A short-term limit of `uw`.
    fn short_term(uw: &str) -> [(&str, &str); 3] {
        [
            ("constraint_1_name", "short_term\n"),
            ("constraint_1_power_limit_uw", uw),
            ("constraint_1_time_window_us", "2440\n"),
        ]
    }

    #[test]
    fn the_limits_are_those_of_powercap() {
        let long = [
            ("name", "package-0\n"),
            ("enabled", "1\n"),
            ("constraint_0_name", "long_term\n"),
            ("constraint_0_power_limit_uw", "28000000\n"),
            ("constraint_0_time_window_us", "27983872\n"),
        ];
        let pl1 = (28_000_000, 27_983_872_000);
        assert_eq!(limits(&long), Some(vec![pl1]));
        let both = [&long[..], &short_term("64000000\n")].concat();
        assert_eq!(limits(&both), Some(vec![pl1, (64_000_000, 2_440_000)]));
        // Impossible values are left out.
        for uw in ["20000000", "many", ""] {
            let both = [&long[..], &short_term(uw)].concat();
            assert_eq!(limits(&both), Some(vec![pl1]), "{uw}");
        }
        for (at, content) in [
            (0, "psys\n"),
            (1, "0\n"),
            (2, "peak\n"),
            (3, "0\n"),
            (4, ""),
        ] {
            let mut without = long;
            without[at].1 = content;
            assert_eq!(limits(&without), None, "{content}");
        }
        assert_eq!(limits(&[]), None);
    }
}
