//! Whether a core reached the state that the kernel asked for, by the hardware's own counters.

use wakepath_system::StateInfo;

use super::at_rest::{ReachedDepth, describe_shares};
use super::plan::WakePlan;
use super::tally::Tally;

/// Least share of a state's time in which the core has to be at the state's depth.
const FAIR_SHARE: f64 = 0.5;
/// Depths from C6 on. A core that is asked for C8 or C10 counts C6 or C7, and the package counts the rest.
const WITHOUT_POWER: u32 = 6;

/// A sentence on hardware that kept the core shallower than the state asked for; `None` if the core got there, and where
/// counters cannot tell.
pub(super) fn describe_demotion(
    plan: &WakePlan,
    state: &StateInfo,
    tally: &Tally,
) -> Option<String> {
    if !plan.names_hardware_states {
        return None;
    }
    let reached = tally.reached.shares(false)?;
    compare_with_counters(&state.name, tally.requested.share(), &reached)
}

/// As [`describe_demotion`], for a state that the kernel asked for in this share of the time.
fn compare_with_counters(state: &str, requested: f64, reached: &[ReachedDepth]) -> Option<String> {
    let own_depth = depth_in_name(state)?;
    let least = shallowest_depth_alike(own_depth, reached)?;
    let deep_enough = reached.iter().filter(|counted| counted.depth >= least);
    let share: f64 = deep_enough.map(|counted| counted.share).sum();
    (share < FAIR_SHARE * requested).then(|| {
        let shares = describe_shares(reached);
        format!("the hardware demoted it: the core reached {shares}")
    })
}

/// The shallowest counted depth that stands for a state; `None` where no counter does. Nothing is shallower than C1, and C2
/// to C5 mean different things on different processors unless a counter has the same number.
fn shallowest_depth_alike(own_depth: u32, reached: &[ReachedDepth]) -> Option<u32> {
    let depths = reached.iter().map(|counted| counted.depth);
    let alike = depths.filter(|depth| match own_depth {
        0 | 1 => false,
        WITHOUT_POWER.. => *depth >= WITHOUT_POWER,
        _ => *depth == own_depth,
    });
    alike.min()
}

/// The hardware's number in a state's name: 1 in `C1E`, 6 in `C6SP`. `None` for `POLL`, and for `C3_ACPI`, whose number is
/// the firmware's (`intel_idle_init_cstates_acpi()` in Linux 6.12 drivers/idle/intel_idle.c).
fn depth_in_name(state: &str) -> Option<u32> {
    let name = state.strip_prefix('C')?;
    let digits = name.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok().filter(|_| !name.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reached(shares: &[(u32, f64)]) -> Vec<ReachedDepth> {
        let depths = shares.iter().map(|(depth, share)| ReachedDepth {
            package: false,
            depth: *depth,
            share: *share,
        });
        depths.collect()
    }

    #[test]
    fn a_core_that_stays_shallow_was_demoted() {
        for (state, requested, shares, is_demoted) in [
            ("C6", 0.9, &[(7, 0.0), (6, 0.02), (1, 0.85)][..], true),
            ("C6", 0.9, &[(7, 0.0), (6, 0.0), (3, 0.8)], true),
            ("C6", 0.9, &[(6, 0.85), (1, 0.02)], false),
            // Other work left little time for the state.
            ("C6", 0.3, &[(6, 0.25), (1, 0.02)], false),
            ("C6", 0.3, &[(6, 0.05), (1, 0.2)], true),
            // The deepest counter that a core has is not the state's own.
            ("C10", 0.9, &[(7, 0.8), (6, 0.0), (1, 0.0)], false),
            ("C8", 0.9, &[(7, 0.0), (6, 0.8), (1, 0.0)], false),
            ("C6SP", 0.9, &[(6, 0.0), (1, 0.8)], true),
            ("C3", 0.9, &[(7, 0.0), (6, 0.0), (3, 0.1)], true),
            ("C3", 0.9, &[(7, 0.0), (6, 0.8), (3, 0.1)], false),
        ] {
            let found = compare_with_counters(state, requested, &reached(shares));
            assert_eq!(found.is_some(), is_demoted, "{state} {shares:?}: {found:?}");
        }
        let found = compare_with_counters("C6", 0.9, &reached(&[(6, 0.02), (1, 0.85)]));
        assert_eq!(
            found.as_deref(),
            Some("the hardware demoted it: the core reached C6 for 2 % of the time, C1 for 85 %")
        );
    }

    #[test]
    fn states_without_a_counter_alike_are_not_judged() {
        let shallow = [(6, 0.0), (3, 0.0), (1, 0.9)];
        for state in [
            "POLL",
            "C1",
            "C1E",
            "C2",
            "C4",
            "C3_ACPI",
            "WFI",
            "cpu-sleep",
        ] {
            let found = compare_with_counters(state, 0.9, &reached(&shallow));
            assert_eq!(found, None, "{state}");
        }
        // Only the shallow state is counted, and time in the deep one is not known.
        assert_eq!(
            compare_with_counters("C6", 0.9, &reached(&[(1, 0.1)])),
            None
        );
        // The state was never entered.
        assert_eq!(compare_with_counters("C6", 0.0, &reached(&shallow)), None);
    }
}
