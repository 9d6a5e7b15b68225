//! Power states of a drive as a table.

use wakepath_hardware::drive::{Drive, PowerState};
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

/// Latencies of entry and exit in us, then the ranks of a power state.
pub(super) fn latency_and_rank_cells(state: &PowerState) -> [String; 6] {
    [
        state.entry_latency_us.to_string(),
        state.exit_latency_us.to_string(),
        state.read_throughput_rank.to_string(),
        state.read_latency_rank.to_string(),
        state.write_throughput_rank.to_string(),
        state.write_latency_rank.to_string(),
    ]
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
            let mode = if s.non_operational { "asleep" } else { "works" };
            let powers = [s.max_power, s.active_power, s.idle_power].map(format_watts_or_dash);
            let mut row = vec![format!("PS{i}"), mode.to_owned()];
            row.extend(powers);
            row.extend(latency_and_rank_cells(s));
            row
        }),
    )?;
    for contradiction in drive.find_power_contradictions() {
        writeln!(out, "contradicts itself: {contradiction}")?;
    }
    Ok(())
}
