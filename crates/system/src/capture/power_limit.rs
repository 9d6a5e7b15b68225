//! The power limits that the kernel's powercap tells (`intel_rapl`).

use wakepath_hardware::Machine;
use wakepath_hardware::machine::{Figure, PowerLimit};

use crate::Root;

const POWERCAP: &str = "sys/class/powercap";

/// Power limits of the processor; `None` where unknown, switched off, or where clusters are not processors.
pub(super) fn read(root: &Root, machine: &Machine) -> Option<PowerLimit> {
    let zones = root.names(POWERCAP);
    let packages = zones.iter().filter(|zone| {
        let name = root.optional(&format!("{POWERCAP}/{zone}/name"));
        zone.starts_with("intel-rapl:") && name.is_some_and(|name| name.starts_with("package"))
    });
    let packages: Vec<&String> = packages.collect();
    let [first, ..] = packages[..] else {
        return None;
    };
    let slots = machine.cluster.iter().all(|c| c.clock_slot_us.is_given());
    if packages.len() != machine.cluster.len() || !slots {
        return None;
    }
    let number = |file: &str| root.number(&format!("{POWERCAP}/{first}/{file}"));
    if number("enabled") == Some(0) {
        return None;
    }
    // In mW and ms.
    let limit = |index: u8, name: &str| {
        let told = root.optional(&format!("{POWERCAP}/{first}/constraint_{index}_name"));
        let power = number(&format!("constraint_{index}_power_limit_uw"))? as f64 / 1e3;
        let window = number(&format!("constraint_{index}_time_window_us"))? as f64 / 1e3;
        let holds = told.as_deref() == Some(name) && power >= 1.0 && (1.0..=1e6).contains(&window);
        holds.then_some((power, window))
    };
    let (pl1, window) = limit(0, "long_term")?;
    // A short-term limit below the long-term limit would replace it.
    let short = limit(1, "short_term").filter(|(pl2, of_pl2)| *pl2 >= pl1 && *of_pl2 <= window);
    let figure = |of: Option<f64>| of.map_or_else(Figure::default, Figure::plain);
    Some(PowerLimit {
        pl1_mw: Figure::plain(pl1),
        pl1_window_ms: Figure::plain(window),
        pl2_mw: figure(short.map(|s| s.0)),
        pl2_window_ms: figure(short.map(|s| s.1)),
        clusters: 1,
        source: format!("/sys/class/powercap/{first}"),
    })
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
        let limit = read(&Root::at(temp.path()), &machine)?;
        Some(limit.limits().map(|(p, w)| (p.0, w.0)).collect())
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
        let short = |uw| {
            [
                ("constraint_1_name", "short_term\n"),
                ("constraint_1_power_limit_uw", uw),
                ("constraint_1_time_window_us", "2440\n"),
            ]
        };
        let pl1 = (28_000_000, 27_983_872_000);
        assert_eq!(limits(&long), Some(vec![pl1]));
        let both = [&long[..], &short("64000000\n")].concat();
        assert_eq!(limits(&both), Some(vec![pl1, (64_000_000, 2_440_000)]));
        // Impossible values are left out.
        for uw in ["20000000", "many", ""] {
            let both = [&long[..], &short(uw)].concat();
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
