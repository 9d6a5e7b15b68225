//! How much an energy-performance preference changes, as an assumption that can be varied.

use wakepath_hardware::Machine;
use wakepath_policies::freq::epp::Epp;
use wakepath_policies::{PolicySet, PolicySpec};
use wakepath_sim::expand_profile_for_machine;

/// Energy-performance preference to which figures of machines belong.
const NEUTRAL_EPP: f64 = 128.0;

/// The set with the distance of the energy-performance preference from neutral multiplied. A set without a preference stays
/// unchanged, and so does the preference 0, documented as the fastest.
pub(crate) fn set_with_scaled_epp_effect(
    machine: &Machine,
    set: &PolicySet,
    factor: f64,
) -> PolicySet {
    let Ok(expanded) = expand_profile_for_machine(machine, set) else {
        return set.clone();
    };
    let Some(number) = expanded.set.epp().and_then(Epp::number).filter(|n| *n > 0) else {
        return set.clone();
    };
    let scaled = NEUTRAL_EPP + (f64::from(number) - NEUTRAL_EPP) * factor;
    let policy = format!("epp[value={}]", scaled.round().clamp(1.0, 255.0));
    let replaced = policy
        .parse()
        .and_then(|policy: PolicySpec| expanded.set.with_policy(policy));
    replaced.unwrap_or_else(|_| set.clone())
}
