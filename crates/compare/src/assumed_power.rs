//! Checks whether modelled power rests on figures that nobody measured.

use toml::{Table, Value};

/// Endings of keys in a machine's file that modelled power follows from: watts, and the voltages of
/// operating points.
const POWER_UNITS: [&str; 3] = ["_mw", "_w", "_uv"];
/// Table of a machine's file with the power at rest of the whole computer, which is never added to
/// modelled power.
const PLATFORM: &str = "platform";

/// Whether a machine's file marks a figure as assumed that its modelled power rests on. An
/// unreadable file counts as one of assumed figures.
pub fn assumes_power(machine_file: &str) -> bool {
    machine_file.parse::<Table>().map_or(true, |machine| {
        let mut tables = machine.iter().filter(|(key, _)| *key != PLATFORM);
        tables.any(|(key, value)| contains_assumed_power(key, value))
    })
}

/// Further drives of a captured machine, which take no part in a simulation.
const OTHER_DRIVES: &str = "other_drive";

/// The number of figures that a machine's file marks as assumed; 0 for a file that cannot be read.
pub fn count_assumed_figures(machine_file: &str) -> usize {
    let Ok(machine) = machine_file.parse::<Table>() else {
        return 0;
    };
    let tables = machine.iter().filter(|(key, _)| *key != OTHER_DRIVES);
    tables.map(|(_, value)| count_assumed(value)).sum()
}

fn count_assumed(value: &Value) -> usize {
    match value {
        Value::Array(list) => list.iter().map(count_assumed).sum(),
        Value::Table(figure) if figure.contains_key("value") => {
            usize::from(figure.contains_key("assumed"))
        }
        Value::Table(table) => table.values().map(count_assumed).sum(),
        _ => 0,
    }
}

fn contains_assumed_power(key: &str, value: &Value) -> bool {
    match value {
        Value::Array(list) => list.iter().any(|value| contains_assumed_power(key, value)),
        Value::Table(figure) if figure.contains_key("value") => {
            let is_power =
                key.contains("power") || POWER_UNITS.iter().any(|unit| key.ends_with(unit));
            is_power && figure.contains_key("assumed")
        }
        Value::Table(table) => table
            .iter()
            .any(|(key, value)| contains_assumed_power(key, value)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumed_figures_are_counted_wherever_they_stand() {
        let assumed = "{ value = 3, assumed = \"typical\" }";
        let file = format!(
            "hz = {assumed}\nram_gib = 8\n[[cluster]]\nstatic_mw = {assumed}\nopps = [{{ khz = 1, uv = {assumed} }}]\n\
             [[idle_state]]\npower_mw = {{ value = 3, source = \"a paper\" }}\n[[other_drive]]\nidle_w = {assumed}\n"
        );
        assert_eq!(count_assumed_figures(&file), 3);
        assert_eq!(count_assumed_figures("no TOML"), 0);
    }

    #[test]
    fn only_assumed_figures_that_power_follows_from_count() {
        let assumed = "{ value = 3, assumed = \"typical\" }";
        for (file, expected) in [
            (
                format!("hz = {assumed}\n[io_path]\nkcycles_per_io = {assumed}\n"),
                false,
            ),
            (format!("[platform]\nrest_w = {assumed}\n"), false),
            (
                format!("[[cluster]]\nstatic_mw = 3\nlowest_uv = {assumed}\n"),
                true,
            ),
            (format!("[[idle_state]]\npower_mw = {assumed}\n"), true),
            (format!("[drive.power]\nidle_w = {assumed}\n"), true),
            (
                "title = \"figures are assumed\"\n[package]\nidle_mw = 4\n".to_owned(),
                false,
            ),
            ("no TOML".to_owned(), true),
        ] {
            assert_eq!(assumes_power(&file), expected, "{file}");
        }
    }
}
