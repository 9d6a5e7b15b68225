//! What a replay can have.

use wakepath_policies::PolicySet;
use wakepath_policies::mechanism::Place;

/// What was recorded, as the policy of a study that changes nothing.
pub const RECORDED: &str = "recorded";

/// Why a policy set cannot be replayed on any recording.
pub fn cannot_replay(set: &PolicySet) -> Option<String> {
    if let Some(profile) = set.profile() {
        return Some(format!(
            "`{profile}` sets frequencies, which cannot act on a recording; a replay takes an idle governor, \
             cpu-latency and psd"
        ));
    }
    let other = set.policies().iter().find(|policy| {
        let on = policy.mechanism().on;
        !on.contains(&Place::Replay)
    })?;
    Some(format!(
        "`{other}` does not act on a recording, whose load is as it was; a replay takes an idle governor, cpu-latency \
         and psd"
    ))
}
