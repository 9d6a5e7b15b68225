//! Idle states as CPUs asked for them, and as hardware reached them.

use wakepath_explain::{ReachedShare, RequestedShare, ResidencyShares};

use crate::output::{self, Screen};

const REQUESTED: [&str; 4] = ["idle state", "entered", "refused", "CPU time %"];
const REACHED: [&str; 3] = ["hardware state", "asked for %", "reached %"];

/// Prints a table of the states that CPUs asked for, and another one of those that hardware counted.
pub(super) fn print(residency: &ResidencyShares, out: &mut Screen) -> anyhow::Result<()> {
    if !residency.requested.is_empty() {
        writeln!(out)?;
        let rows = residency.requested.iter().map(requested_cells);
        output::write_table(out, REQUESTED, rows)?;
    }
    if !residency.reached.is_empty() {
        writeln!(out)?;
        output::write_table(out, REACHED, residency.reached.iter().map(reached_cells))?;
        let text = "Hardware states by the processor's own counters. A core is only as deep as its least idle CPU asks for, and \
                    hardware may choose a shallower state.";
        out.write_folded(text, 2)?;
    }
    Ok(())
}

fn requested_cells(state: &RequestedShare) -> [String; REQUESTED.len()] {
    [
        state.state.clone(),
        state.entries.to_string(),
        state.refused.to_string(),
        percent(state.share),
    ]
}

fn reached_cells(state: &ReachedShare) -> [String; REACHED.len()] {
    let unit = if state.package { "package" } else { "core" };
    [
        format!("{unit} C{}", state.depth),
        state.requested.map_or_else(|| "-".to_owned(), percent),
        percent(state.share),
    ]
}

fn percent(share: f64) -> String {
    format!("{:.1}", 100.0 * share)
}
