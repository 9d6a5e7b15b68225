//! Power states of a drive as a table.

use wakepath_hardware::drive::Drive;
use wakepath_units::Microwatts;

use crate::output::{self, Screen};

/// A power in W for people: `0.005 W`, `-` if it is not reported.
pub(in crate::commands) fn format_watts_or_dash(power: Option<Microwatts>) -> String {
    power.map_or_else(
        || "-".to_owned(),
        |Microwatts(uw)| {
            let text = format!("{}.{:06}", uw / 1_000_000, uw % 1_000_000);
            // At least two decimals, so that a column is easy to compare.
            let digits = text.trim_end_matches('0').len();
            let point = text.len() - 6;
            format!("{} W", &text[..digits.max(point + 2)])
        },
    )
}

/// Prints the power states that a drive declares, and where they contradict each other.
pub(super) fn print_declared_states_and_contradictions(
    out: &mut Screen,
    drive: &Drive,
) -> anyhow::Result<()> {
    output::write_table(
        out,
        [
            "state", "mode", "power", "active", "idle", "entry us", "exit us", "rrt", "rrl", "rwt",
            "rwl",
        ],
        drive.states.iter().enumerate().map(|(i, s)| {
            [
                format!("PS{i}"),
                if s.non_operational { "asleep" } else { "works" }.to_owned(),
                format_watts_or_dash(s.max_power),
                format_watts_or_dash(s.active_power),
                format_watts_or_dash(s.idle_power),
                s.entry_latency_us.to_string(),
                s.exit_latency_us.to_string(),
                s.read_throughput_rank.to_string(),
                s.read_latency_rank.to_string(),
                s.write_throughput_rank.to_string(),
                s.write_latency_rank.to_string(),
            ]
        }),
    )?;
    for contradiction in drive.find_power_contradictions() {
        writeln!(out, "contradicts itself: {contradiction}")?;
    }
    Ok(())
}
