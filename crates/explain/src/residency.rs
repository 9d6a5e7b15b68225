//! Idle states as CPUs asked for them, beside what cores and packages reached by hardware's own counters.

use serde::Serialize;
use wakepath_trace::recording::{IdleResidency, Metadata, ReachedState, RequestedState};

/// An idle state over the whole recording, as CPUs asked for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RequestedShare {
    /// Name of the state.
    pub state: String,
    /// Times that a CPU entered the state.
    pub entries: u64,
    /// Times that hardware or firmware refused the state.
    pub refused: u64,
    /// Share of all CPUs' time in the state, as the kernel counts it, 0 to 1.
    pub share: f64,
}

/// A hardware state over the whole recording, as cores or packages reached it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ReachedShare {
    /// The state is one of packages, not of cores.
    pub package: bool,
    /// Number of the hardware state: 6 for `C6`.
    pub depth: u32,
    /// Share of all cores' or packages' time in the state, by hardware's counters, 0 to 1.
    pub share: f64,
    /// Share of all CPUs' time for which they asked for a state of this depth. `None` for packages, which need all CPUs at
    /// once, and for drivers whose names do not tell the hardware's states.
    pub requested: Option<f64>,
}

/// Idle states over the whole recording.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ResidencyShares {
    /// States as CPUs asked for them, shallowest first.
    pub requested: Vec<RequestedShare>,
    /// Cores' states, then packages', shallowest first; empty where hardware's counters could not be read.
    pub reached: Vec<ReachedShare>,
}

/// Driver whose states have the names of the hardware's: `C6` of `acpi_idle` may be any.
const NAMING_DRIVER: &str = "intel_idle";

impl ResidencyShares {
    /// Shares from a recording's counters; `None` where nobody read them.
    pub fn from_metadata(metadata: &Metadata) -> Option<Self> {
        let residency = metadata.residency.as_ref()?;
        let names_hardware = metadata.idle_driver.as_deref() == Some(NAMING_DRIVER);
        let mut counters: Vec<&ReachedState> = residency.reached.iter().collect();
        counters.sort_by_key(|counter| (counter.package, counter.depth));
        let reached = counters.iter().map(|counter| ReachedShare {
            package: counter.package,
            depth: counter.depth,
            share: share_of(counter.ticks, counter.all_ticks),
            requested: (names_hardware && !counter.package)
                .then(|| requested_share_at_depth(residency, counter.depth)),
        });
        let requested = residency.requested.iter().map(|state| RequestedShare {
            state: state.name.clone(),
            entries: state.entries,
            refused: state.refused,
            share: share_of(state.time_ns, residency.cpu_time_ns),
        });
        Some(Self {
            requested: requested.collect(),
            reached: reached.collect(),
        })
    }
}

/// Share of CPUs' time in states that end in the cores' state of this depth: those deeper than it, too, up to the next depth
/// that has a counter of its own.
fn requested_share_at_depth(residency: &IdleResidency, depth: u32) -> f64 {
    let cores = residency.reached.iter().filter(|state| !state.package);
    let next = cores
        .map(|state| state.depth)
        .filter(|other| *other > depth);
    let end = next.min().unwrap_or(u32::MAX);
    let states = residency
        .requested
        .iter()
        .filter(|state| depth_of_state(state).is_some_and(|number| (depth..end).contains(&number)));
    let time = states.fold(0_u64, |sum, state| sum.saturating_add(state.time_ns));
    share_of(time, residency.cpu_time_ns)
}

/// The number in a state's name: 1 for `C1E`, 6 for `C6`; `None` for `POLL`.
fn depth_of_state(state: &RequestedState) -> Option<u32> {
    let rest = state.name.strip_prefix('C')?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn share_of(part: u64, all: u64) -> f64 {
    // The kernel counts a period when it ends, so that a period which began before belongs to the part.
    (part as f64 / all.max(1) as f64).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn requested(name: &str, time_ns: u64) -> RequestedState {
        RequestedState {
            name: name.to_owned(),
            entries: 10,
            refused: 2,
            time_ns,
        }
    }

    fn reached(package: bool, depth: u32, ticks: u64) -> ReachedState {
        ReachedState {
            package,
            depth,
            ticks,
            all_ticks: 1_000,
        }
    }

    fn metadata(driver: &str) -> Metadata {
        Metadata {
            idle_driver: Some(driver.to_owned()),
            residency: Some(IdleResidency {
                cpu_time_ns: 1_000_000,
                requested: [
                    ("POLL", 10_000),
                    ("C1E", 40_000),
                    ("C6", 300_000),
                    ("C10", 500_000),
                ]
                .map(|(name, time)| requested(name, time))
                .to_vec(),
                reached: vec![
                    reached(true, 2, 450),
                    reached(false, 7, 200),
                    reached(false, 1, 30),
                    reached(false, 6, 250),
                ],
            }),
            ..Metadata::default()
        }
    }

    #[test]
    fn demotion_shows_as_a_core_state_below_what_was_asked_for() {
        let shares = ResidencyShares::from_metadata(&metadata("intel_idle")).unwrap();
        let rows: Vec<_> = shares
            .reached
            .iter()
            .map(|row| (row.package, row.depth, row.share, row.requested))
            .collect();
        let expected = [
            (false, 1, 0.03, Some(0.04)),
            (false, 6, 0.25, Some(0.3)),
            // C10 ends in the core's C7.
            (false, 7, 0.2, Some(0.5)),
            (true, 2, 0.45, None),
        ];
        assert_eq!(rows, expected);
        assert!((shares.requested[2].share - 0.3).abs() < 1e-9);
        assert_eq!(shares.requested[2].refused, 2);
    }

    #[test]
    fn names_of_other_drivers_say_nothing_of_hardware() {
        let shares = ResidencyShares::from_metadata(&metadata("acpi_idle")).unwrap();
        assert!(shares.reached.iter().all(|row| row.requested.is_none()));
        assert_eq!(ResidencyShares::from_metadata(&Metadata::default()), None);
    }

    #[test]
    fn counters_without_time_have_no_share() {
        let mut metadata = metadata("intel_idle");
        metadata.residency = Some(IdleResidency {
            requested: vec![requested("C6", u64::MAX)],
            ..IdleResidency::default()
        });
        let shares = ResidencyShares::from_metadata(&metadata).unwrap();
        assert!((shares.requested[0].share - 1.0).abs() < 1e-9);
    }
}
